"""The synchronous facade of a client: every method, run on the background event loop of the process."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Any

from protolink_grpc.net.background_loop import background

Wait = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine on an event loop and waits for its result."""


class SyncFacade:
    """Calls the async client's method of the same name and waits for the result. A stream becomes an iterator.

    Args:
        wait: By default on the background event loop.
    """

    def __init__(self, client: Any, wait: Wait = background.run) -> None:
        self._client = client
        self._wait = wait

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method, wait = getattr(self._client, name, None) if not name.startswith("_") else None, self._wait
        # Methods of stubs are plain functions around them, which return calls.
        if method is not None and inspect.iscoroutinefunction(inspect.unwrap(method)):
            return functools.wraps(method)(lambda *args, **kwargs: wait(method(*args, **kwargs)))
        # Their arguments are checked by a plain function around the coroutine.
        if method is not None and inspect.isasyncgenfunction(inspect.unwrap(method)):
            return functools.wraps(method)(lambda *args, **kwargs: iterate(method(*args, **kwargs), wait))
        raise AttributeError(f"{type(self._client).__name__}.sync has no {name}")

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._client) if hasattr(self, name)]


def iterate(stream: AsyncIterator[Any], wait: Wait = background.run) -> Iterator[Any]:
    """Yield the items of an async stream. Closing the iterator closes the stream."""
    try:
        while True:
            item = wait(_next(stream))
            if item is _END:
                return
            yield item
    finally:
        wait(_close(stream))


_END = object()


async def _next(stream: AsyncIterator[Any]) -> Any:
    return await anext(stream, _END)


async def _close(stream: Any) -> None:
    async with aclosing(stream):
        pass
