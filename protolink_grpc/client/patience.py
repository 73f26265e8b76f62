"""How long a call waits: bounds of one answer and of a stream of them, in the errors of this package."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

from protolink_grpc.client.http_channel import late

T = TypeVar("T")


@asynccontextmanager
async def within(timeout_s: float | None, url: str, **metadata: str) -> AsyncIterator[None]:
    """Raises DeadlineExceededError when the block takes longer; None means without bound."""
    try:
        async with asyncio.timeout(timeout_s) as bound:
            yield
    except TimeoutError:
        if not bound.expired():
            raise  # somebody else's
        raise late(url, **metadata) from None


async def paced(
    stream: AsyncGenerator[T, None], timeout_s: float | None, url: str, **metadata: str
) -> AsyncGenerator[T, None]:
    """The items of a stream, all of which must come within the time. Closing it closes the stream."""
    async with aclosing(stream):
        if timeout_s is None:
            async for item in stream:
                yield item
            return
        ends = asyncio.get_running_loop().time() + timeout_s
        while True:
            async with within(max(0.0, ends - asyncio.get_running_loop().time()), url, **metadata):
                try:
                    item = await anext(stream)
                except StopAsyncIteration:
                    return
            yield item
