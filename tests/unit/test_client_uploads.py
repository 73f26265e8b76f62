"""Streams of requests: what a retry sends again, and what ends a call."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from plgrpc.v1 import part_pb2

from protolink_grpc.client import uploads
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.typed_stub import UnaryMethod
from protolink_grpc.errors import UnavailableError
from protolink_grpc.net.address import Address

ADDRESS = Address.parse("grpc://127.0.0.1:1")
PARTS = [part_pb2.Part(text=f"part {number}") for number in range(5)]


def unavailable() -> grpc.aio.AioRpcError:
    metadata = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, metadata, metadata, "the connection broke")


class Server:
    """A method whose attempts end as given: each reads a number of requests and then fails, or reads all."""

    def __init__(self, *failures: int) -> None:
        self.failures = list(failures)
        self.received: list[list[str]] = []
        self.request_ids: set[str] = set()

    def method(self) -> UnaryMethod:
        return UnaryMethod(self._answer, ADDRESS, ChannelOptions(), 60.0, takes_stream=True)

    async def _answer(self, requests: AsyncIterator[Any], *, timeout: float | None, metadata: Any) -> int:
        self.request_ids.add(dict(metadata)["x-request-id"])
        received: list[str] = []
        self.received.append(received)
        limit = self.failures.pop(0) if self.failures else None
        if limit == 0:
            raise unavailable()
        async for each in requests:
            received.append(each.text)
            if len(received) == limit:
                raise unavailable()
        return len(received)


async def parts(began: Callable[[str], None] = lambda _: None) -> AsyncIterator[Any]:
    for each in PARTS:
        began(each.text)
        yield each


TEXTS = [each.text for each in PARTS]


async def test_a_retry_sends_all_requests_again_and_reads_the_source_once() -> None:
    server, read = Server(0, 3, 5), list[str]()
    assert await server.method().call(parts(read.append)) == 5
    assert server.received == [[], TEXTS[:3], TEXTS, TEXTS]
    assert read == TEXTS
    assert len(server.request_ids) == 1


async def test_an_iterable_is_a_stream_too() -> None:
    assert await Server(2).method().call(PARTS) == 5


async def test_a_call_that_has_read_more_than_is_kept_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_KEPT_BYTES", 3 * PARTS[0].ByteSize())
    server = Server(3, 4)
    with pytest.raises(UnavailableError):
        await server.method().call(parts())
    assert server.received == [TEXTS[:3], TEXTS[:4]]
    assert await Server().method().call(parts()) == 5


async def test_an_error_of_the_source_is_the_error_of_the_call() -> None:
    async def broken() -> AsyncIterator[Any]:
        yield PARTS[0]
        raise ValueError("no more paper")

    with pytest.raises(ValueError, match="no more paper"):
        await Server().method().call(broken())


async def test_a_canceled_attempt_does_not_end_the_source() -> None:
    release = asyncio.Event()

    async def slow() -> AsyncIterator[Any]:
        yield PARTS[0]
        await release.wait()
        yield PARTS[1]

    async with uploads.Requests(slow()) as requests:
        first = requests.attempt()
        assert (await anext(first)).text == "part 0"
        waiting = asyncio.ensure_future(anext(first))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        second = requests.attempt()
        assert (await anext(second)).text == "part 0"
        release.set()
        assert [each.text async for each in second] == ["part 1"]


async def test_the_end_of_a_call_stops_the_reading() -> None:
    stopped = asyncio.Event()

    async def endless() -> AsyncIterator[Any]:
        try:
            yield PARTS[0]
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with uploads.Requests(endless()) as requests:
        attempt = requests.attempt()
        await anext(attempt)
        waiting = asyncio.ensure_future(anext(attempt))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert stopped.is_set()
