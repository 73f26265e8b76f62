"""Calls with a stream of requests: what was read from the stream is kept within a bound, so that a retry can send it again."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from typing import Any, Self

import grpc.aio
from google.protobuf.message import Message

from protolink_grpc.client.channel import Attempts, ChannelOptions
from protolink_grpc.net.address import Endpoint

MAX_KEPT_BYTES = 1 << 20
"""Bytes of requests that are kept for a retry. A call that has read more is not retried."""


class Requests:
    """The requests of one call, which each of its attempts reads from the first one.

    Used as a context manager, whose end stops the reading and closes a source that is a generator.

    Args:
        source: Iterated once, and not ahead of what gRPC sends.

    Attributes:
        can_repeat: All requests that were read are kept.
        error: The exception that the source raised.
    """

    def __init__(self, source: AsyncIterable[Message] | Iterable[Message]) -> None:
        self.can_repeat = True
        self.error: Exception | None = None
        self._source = aiter(source) if isinstance(source, AsyncIterable) else _iterate(source)
        self._kept: list[Message] = []
        self._kept_bytes = 0
        self._attempts = 0
        self._has_ended = False
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._attempts += 1  # ends the attempt of a canceled call
        reading = self._reading
        if reading is not None:
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()  # retrieved, so that asyncio does not log it: `error` has it
        if isinstance(self._source, AsyncGenerator):
            await self._source.aclose()

    async def attempt(self) -> AsyncIterator[Message]:
        """Yield all requests. It ends when the next attempt begins."""
        self._attempts += 1
        mine, position = self._attempts, 0
        while mine == self._attempts:
            while position < len(self._kept):
                request = self._kept[position]
                position += 1
                if not self.can_repeat:
                    del self._kept[:position]
                    position = 0
                yield request
                if mine != self._attempts:
                    return
            if self._has_ended:
                return
            # A task of its own: gRPC cancels the attempt, and a canceled read would end the source.
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read())
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            request = await anext(self._source)
        except StopAsyncIteration:
            self._has_ended = True
            return
        except Exception as error:
            self.error = error
            raise
        self._kept_bytes += request.ByteSize()
        self.can_repeat = self._kept_bytes <= MAX_KEPT_BYTES
        self._kept.append(request)


async def _iterate(source: Iterable[Message]) -> AsyncIterator[Message]:
    for each in source:
        yield each


async def call_upload(
    method: Any, requests: Requests, address: Endpoint, options: ChannelOptions, timeout_s: float | None
) -> Any:
    """Make a call with a stream of requests, and return the response. Retried as `call_unary` while `requests.can_repeat`.

    Raises:
        Exception: The source of the requests raised it; the call was canceled.
    """
    attempts = Attempts(address, options, timeout_s, options.outage_s)
    while True:
        metadata = await attempts.metadata()
        try:
            return await method(requests.attempt(), timeout=attempts.left_s, metadata=metadata)
        except asyncio.CancelledError:
            if requests.error is not None:  # gRPC cancels the call
                raise requests.error from None
            raise
        except grpc.aio.AioRpcError as error:
            if requests.error is not None:
                raise requests.error from None
            if not requests.can_repeat or not await attempts.wait_for_retry(error):
                raise
