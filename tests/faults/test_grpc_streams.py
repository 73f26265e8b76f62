"""The streams of one connection and of one caller are limited on the gRPC port; other callers are served meanwhile."""

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import grpc
import grpc.aio
import pytest
from grpc_status import rpc_status
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import control_service_pb2
from plgrpc.v1.agent_service_pb2_grpc import AgentServiceStub
from plgrpc.v1.control_service_pb2_grpc import ControlServiceStub

from protolink_grpc import Agent, AgentCard, Principal, ServerOptions, Task
from protolink_grpc.errors import DOMAIN

WAIT_S = 60.0

DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
ACK, END_STREAM, END_HEADERS = 1, 1, 4
MAX_CONCURRENT_STREAMS, REFUSED_STREAM, CANCEL = 3, 7, 8
"""Of HTTP/2. Source: RFC 9113."""

WATCH = "/plgrpc.v1.ControlService/WatchApprovals"


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete("done")


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Echo]:
    card = AgentCard(name="echo", description="says done", url="grpc://127.0.0.1:0")
    async with Echo(card, **options) as agent:
        yield agent


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def literal(name: str, value: str) -> bytes:
    return b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


HEAD = b"".join(
    (
        b"\x83\x86",  # :method POST, :scheme http
        literal(":path", WATCH),
        literal(":authority", "test"),
        literal("content-type", "application/grpc"),
        literal("te", "trailers"),
    )
)


class Peer:
    """A client that writes its own HTTP/2 frames, and cares for no limit that it is told.

    Attributes:
        max_streams: What the server allows; None where it allows any number.
        refused: Streams that the server did not take.
        answers: Frames that have come, by kind.
        pongs: Answers to our pings.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._next = 1
        self.max_streams: int | None = None
        self.refused = 0
        self.answers: Counter[int] = Counter()
        self.pongs = 0

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str) -> AsyncIterator[Self]:
        host, _, port = url.removeprefix("grpc://").partition(":")
        peer = cls(*await asyncio.open_connection(host, int(port)))
        try:
            yield await peer._greet()
        finally:
            peer._writer.close()
            await peer._writer.wait_closed()

    async def _greet(self) -> Self:
        self._writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
        while not self.answers[SETTINGS]:
            await self._read()
        return self

    def open(self, count: int, *, reset: bool = False) -> None:
        """Call a method that answers when it likes, so many times."""
        for _ in range(count):
            stream, self._next = self._next, self._next + 2
            self._writer.write(frame(HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, END_STREAM, stream, bytes(5)))
            if reset:
                self._writer.write(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))

    async def until_refused(self, count: int) -> None:
        """Return when the server has not taken so many streams."""
        async with asyncio.timeout(WAIT_S):
            while self.refused < count:
                await self._read()

    async def until_answered(self) -> None:
        """Return when the server has read everything that was sent."""
        before = self.pongs
        self._writer.write(frame(PING, 0, 0, bytes(8)))
        async with asyncio.timeout(WAIT_S):
            while self.pongs == before:
                await self._read()

    async def _read(self) -> None:
        head = await self._reader.readexactly(9)
        payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        kind, flags = head[3], head[4]
        self.answers[kind] += 1
        if kind == SETTINGS and not flags & ACK:
            values = dict(struct.iter_unpack(">HI", payload))
            self.max_streams = values.get(MAX_CONCURRENT_STREAMS)
            self._writer.write(frame(SETTINGS, ACK, 0))
        elif kind == PING:
            self.pongs += flags & ACK
            if not flags & ACK:
                self._writer.write(frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM and int.from_bytes(payload, "big") == REFUSED_STREAM:
            self.refused += 1


async def test_streams_of_one_connection_are_bounded_by_default_and_others_are_served_meanwhile() -> None:
    async with serving() as agent, Peer.at(agent.card.url) as peer:
        assert peer.max_streams == ServerOptions().max_concurrent_streams == 1000
        peer.open(5000)
        async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
            card = await AgentServiceStub(channel).GetAgentCard(pb.GetAgentCardRequest(), timeout=WAIT_S)
            assert card.card.name == "echo"
        await peer.until_refused(4000)
        await peer.until_answered()
        assert peer.refused == 4000


async def test_the_bound_of_streams_on_a_connection_is_an_option() -> None:
    async with serving(server=ServerOptions(max_concurrent_streams=3)) as agent, Peer.at(agent.card.url) as peer:
        assert peer.max_streams == 3
        peer.open(5)
        await peer.until_refused(2)
        await peer.until_answered()
        assert peer.refused == 2


async def test_a_stream_that_is_reset_at_once_counts_until_it_is_gone() -> None:
    async with serving(server=ServerOptions(max_concurrent_streams=10)) as agent, Peer.at(agent.card.url) as peer:
        peer.open(10_000, reset=True)
        async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
            await AgentServiceStub(channel).GetAgentCard(pb.GetAgentCardRequest(), timeout=WAIT_S)
        await peer.until_refused(5_000)


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    return Principal(metadata["x-name"])


async def test_a_caller_has_only_so_many_streams_over_grpc_as_over_http() -> None:
    options = ServerOptions(max_streams_per_principal=1, authenticate=by_name)
    async with (
        serving(server=options) as agent,
        grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel,
    ):
        control, ann, bob = ControlServiceStub(channel), (("x-name", "ann"),), (("x-name", "bob"),)
        request = control_service_pb2.WatchApprovalsRequest()
        first = control.WatchApprovals(request, metadata=ann)
        await first.initial_metadata()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await control.WatchApprovals(request, metadata=ann, timeout=WAIT_S).read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "max_streams_per_principal" in (caught.value.details() or "")
        status = rpc_status.from_call(caught.value)
        assert status is not None
        assert DOMAIN in str(status.details)
        other = control.WatchApprovals(request, metadata=bob)
        await other.initial_metadata()
        await AgentServiceStub(channel).GetAgentCard(pb.GetAgentCardRequest(), metadata=ann)  # no stream
        first.cancel()
        await eventually_open(control, ann)


async def eventually_open(control: Any, metadata: Any) -> None:
    """Return when that caller may open a stream again: the server learns of a cancellation a moment later."""
    request = control_service_pb2.WatchApprovalsRequest()
    async with asyncio.timeout(WAIT_S):
        while True:
            call = control.WatchApprovals(request, metadata=metadata)
            try:
                await call.initial_metadata()
                if not call.done():
                    return
                await call.read()
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.01)
