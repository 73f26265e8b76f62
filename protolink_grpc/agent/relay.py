"""A stream of items from work that must end in order, for readers that may be slower."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

Give = Callable[[T], Awaitable[None]]
"""Passes on one item; waits while the reader is behind by `RELAYED_ITEMS`."""

RELAYED_ITEMS: Final = 256
"""Maximum number of buffered items for a slow reader."""


async def relay(work: Callable[[Give[T]], Coroutine[Any, Any, Any]]) -> AsyncGenerator[T, None]:
    """Start work in an asyncio task of its own, yield the items that it gives, and raise its error if it fails.

    Closing the stream cancels the work and waits for its end.
    """
    items: asyncio.Queue[tuple[T] | None] = asyncio.Queue(RELAYED_ITEMS)

    async def give(item: T) -> None:
        await items.put((item,))

    working = asyncio.ensure_future(work(give))

    def wake(_: asyncio.Future[Any]) -> None:
        if items.empty():
            items.put_nowait(None)

    working.add_done_callback(wake)
    try:
        while not (working.done() and items.empty()):
            item = await items.get()
            if item is not None:
                yield item[0]
        await working
    finally:
        working.cancel()
        await asyncio.wait([working])
