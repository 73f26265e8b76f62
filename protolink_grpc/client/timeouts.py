"""Timeouts of calls and streams. A timeout is raised as a DeadlineExceededError."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

from protolink_grpc.client.http_channel import deadline_error

T = TypeVar("T")


@asynccontextmanager
async def time_limit(timeout_s: float | None, url: str, **metadata: str) -> AsyncIterator[None]:
    """Limit the time of a block. Raises DeadlineExceededError after the timeout; None means no timeout."""
    try:
        async with asyncio.timeout(timeout_s) as bound:
            yield
    except TimeoutError:
        if not bound.expired():
            raise  # the error of another timeout
        raise deadline_error(url, **metadata) from None


async def limited_stream(
    stream: AsyncGenerator[T, None], timeout_s: float | None, url: str, **metadata: str
) -> AsyncGenerator[T, None]:
    """Yield the items of a stream, with one timeout for all of them. Closing the generator closes the stream."""
    async with aclosing(stream):
        if timeout_s is None:
            async for item in stream:
                yield item
            return
        ends = asyncio.get_running_loop().time() + timeout_s
        while True:
            async with time_limit(max(0.0, ends - asyncio.get_running_loop().time()), url, **metadata):
                try:
                    item = await anext(stream)
                except StopAsyncIteration:
                    return
            yield item
