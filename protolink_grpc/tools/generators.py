"""Runs generators of tools to their end and passes on their items: async ones on the event loop, sync ones on one thread.

A sync generator stays on its thread, because it may hold objects that belong to a thread, such as a connection to SQLite.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, closing
from typing import Any, Final

from protolink_grpc.tools.cancellation import CLEANUP_S, cancel
from protolink_grpc.tools.runner import ToolRunner

OnItem = Callable[[Any], Awaitable[None]]
"""Receives an item. The generator continues when it returns."""

_END: Any = object()


async def drain(
    begin: Callable[[], AsyncGenerator[Any, None]], take: OnItem, failures: AbstractContextManager[None]
) -> None:
    """Pass the items of an async generator to `take`, and close the generator.

    Args:
        failures: Converts exceptions of the generator. Those of `take` are raised unchanged. It can be entered repeatedly.
    """
    generator = begin()
    try:
        while True:
            with failures:
                item = await anext(generator, _END)
            if item is _END:
                return
            await take(item)
    finally:
        with failures:
            await generator.aclose()


async def drain_on_thread(
    begin: Callable[[], Iterator[Any]], take: OnItem, failures: AbstractContextManager[None], runner: ToolRunner
) -> None:
    """As `drain`, for a sync generator, which runs on one thread of the runner. The thread is at most `MAX_AHEAD` items ahead.

    If the wait is canceled or `take` fails, the generator is closed when it yields next. A blocked one is abandoned.
    """
    queue = ThreadItems()

    def generate() -> None:
        with failures:
            queue.take_all(begin())

    work = asyncio.ensure_future(runner.run(generate))
    work.add_done_callback(lambda _: queue.end())
    try:
        async with aclosing(queue.read()) as items:
            async for item in items:
                await take(item)
        await work
    finally:
        queue.close()
        if not work.done():
            try:
                await asyncio.wait([work], timeout=CLEANUP_S)
            finally:
                await cancel(work)
        elif not work.cancelled():
            work.exception()  # retrieved, because `take` may have failed before it


MAX_AHEAD: Final = 256
"""Maximum number of items that the thread is ahead of the reader. Then it waits."""


class ThreadItems:
    """A bounded queue from one thread to one reader on the event loop that creates it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: deque[Any] = deque()
        self._room = threading.Semaphore(MAX_AHEAD)
        self._arrived = asyncio.Event()
        self._has_ended = False
        self._is_closed = False

    def take_all(self, generator: Iterator[Any]) -> None:
        """Iterate over a generator and close it, on the calling thread. Returns early if the reader has gone."""
        with closing(generator):  # type: ignore[type-var]  # a generator function returns a generator
            for item in generator:
                if not self._put(item):
                    return

    def _put(self, item: Any) -> bool:
        """Add an item when there is room. Return whether the reader still reads."""
        self._room.acquire()
        if self._is_closed:
            return False
        self._items.append(item)
        # The reader clears the event before it looks for items: a set event means that it looks again.
        if not self._arrived.is_set():
            self._loop.call_soon_threadsafe(self._arrived.set)
        return True

    def end(self) -> None:
        """The thread adds no further items. Called on the event loop."""
        self._has_ended = True
        self._arrived.set()

    def close(self) -> None:
        """The reader takes no further items: wake the thread if it waits for room."""
        self._is_closed = True
        self._room.release()

    async def read(self) -> AsyncGenerator[Any, None]:
        """Yield the items, until `end` was called and all are read."""
        while True:
            self._arrived.clear()
            while self._items:
                item = self._items.popleft()
                self._room.release()
                yield item
            if self._has_ended:
                return
            if not self._items:
                await self._arrived.wait()
