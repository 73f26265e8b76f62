"""The proxy in front of a scripted agent: it forwards every byte until a marker comes, and then does what the marker says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from protolink_grpc.net.address import Address
from protolink_grpc.testing.hostile_proxy import (
    CANCEL,
    DATA,
    HEADERS,
    MESSAGE_PREFIX_BYTES,
    PREFACE_BYTES,
    RST_STREAM,
    Break,
    HostileProxy,
    frame,
)

END_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""

HELLO = b"PRI".ljust(PREFACE_BYTES, b".")


@dataclass
class Ends:
    """Both ends of one connection through a proxy, past the preface."""

    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter]

    def send_to_client(self, *frames: bytes) -> None:
        self.server[1].write(b"".join(frames))

    async def read_at_client(self, size: int) -> bytes:
        return await self.client[0].readexactly(size)


@asynccontextmanager
async def connected(proxy: HostileProxy, count: int = 1) -> AsyncIterator[list[Ends]]:
    """Connections through the proxy to a server that is the test."""
    accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    server = await asyncio.start_server(lambda *ends: accepted.put_nowait(ends), "127.0.0.1", 0)
    port, found = server.sockets[0].getsockname()[1], list[Ends]()
    try:
        async with asyncio.timeout(END_S), proxy.serve(Address("127.0.0.1", port)):
            for _ in range(count):
                client = await asyncio.open_connection("127.0.0.1", Address.parse(proxy.url).port)
                client[1].write(HELLO)
                found.append(Ends(client, await accepted.get()))
                assert await found[-1].server[0].readexactly(PREFACE_BYTES) == HELLO
            yield found
    finally:
        server.close()
        left = [accepted.get_nowait() for _ in range(accepted.qsize())]
        for _, writer in [each for ends in found for each in (ends.client, ends.server)] + left:
            writer.transport.abort()
        await asyncio.sleep(0)  # an aborted connection is closed in the loop's next turn


def message(content: bytes) -> bytes:
    """As gRPC puts it into a stream."""
    return b"\0" + len(content).to_bytes(MESSAGE_PREFIX_BYTES - 1) + content


async def test_frames_are_forwarded_as_they_are_in_both_directions() -> None:
    frames = [frame(HEADERS, 1, b"h"), frame(DATA, 1, bytes(20_000)), frame(DATA, 3, b""), frame(9, 0, b"any")]
    async with connected(HostileProxy()) as (ends,):
        ends.send_to_client(*frames)
        assert await ends.read_at_client(len(b"".join(frames))) == b"".join(frames)
        ends.client[1].write(b"".join(frames))
        assert await ends.server[0].readexactly(len(b"".join(frames))) == b"".join(frames)


@pytest.mark.parametrize("code", [0, 2, 8])
async def test_a_reset_comes_after_what_was_sent_and_nothing_follows_in_its_stream(code: int) -> None:
    proxy = HostileProxy()
    sent = message(b"shown") + message(proxy.marker(Break.RESET, code)) + message(b"not shown")
    expected = frame(DATA, 1, message(b"shown")) + frame(RST_STREAM, 1, code.to_bytes(4)) + frame(DATA, 3, b"other")
    async with connected(proxy) as (ends,):
        ends.send_to_client(frame(DATA, 1, sent), frame(DATA, 1, b"not shown"), frame(DATA, 3, b"other"))
        assert await ends.read_at_client(len(expected)) == expected
        # The server hears that it may stop.
        told = frame(RST_STREAM, 1, CANCEL.to_bytes(4))
        assert await ends.server[0].readexactly(len(told)) == told


@pytest.mark.parametrize("at", range(1, 29))
async def test_a_marker_may_lie_across_two_frames(at: int) -> None:
    proxy = HostileProxy()
    sent = message(proxy.marker(Break.RESET, 8))
    async with connected(proxy) as (ends,):
        ends.send_to_client(frame(DATA, 1, sent[:at]), frame(DATA, 1, sent[at:]), frame(DATA, 3, b"other"))
        before = frame(DATA, 1, sent[:at])
        expected = before + frame(RST_STREAM, 1, (8).to_bytes(4)) + frame(DATA, 3, b"other")
        assert await ends.read_at_client(len(expected)) == expected


async def test_what_looks_like_a_marker_of_another_proxy_is_data() -> None:
    strange = frame(DATA, 1, message(HostileProxy().marker(Break.OUTAGE, 60_000)))
    async with connected(HostileProxy()) as (ends,):
        ends.send_to_client(strange)
        assert await ends.read_at_client(len(strange)) == strange


async def test_an_outage_closes_every_connection_and_new_ones_until_it_is_over() -> None:
    proxy = HostileProxy()
    async with connected(proxy, 2) as (first, second):
        began = asyncio.get_running_loop().time()
        first.send_to_client(frame(DATA, 1, message(proxy.marker(Break.OUTAGE, 300))))
        for reader in (first.client[0], second.client[0], first.server[0], second.server[0]):
            assert await ended(reader)
        assert await is_refused(proxy)
        while await is_refused(proxy):
            pass
        assert asyncio.get_running_loop().time() - began >= 0.3


async def opened(proxy: HostileProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", Address.parse(proxy.url).port)


async def is_refused(proxy: HostileProxy) -> bool:
    """Whether a new connection is closed at once."""
    reader, writer = await opened(proxy)
    try:
        async with asyncio.timeout(0.05):  # of one that is not, nothing is heard
            return await ended(reader)
    except TimeoutError:
        return False
    finally:
        writer.transport.abort()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the connection was closed, in whatever way, and said nothing."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def test_it_knows_which_calls_came_by_it() -> None:
    proxy = HostileProxy()
    async with connected(proxy) as (ends,):
        own = ends.server[1].get_extra_info("peername")[1]
        other = ends.client[1].get_extra_info("sockname")[1]
        assert [proxy.carries(f"ipv4:127.0.0.1:{port}") for port in (own, other)] == [True, False]
        assert not proxy.carries("")


async def test_when_it_ends_nothing_stays_open() -> None:
    proxy = HostileProxy()
    async with connected(proxy) as (ends,):
        reader = ends.client[0]
    assert await ended(reader)
    with pytest.raises(ConnectionRefusedError):
        await opened(proxy)


@pytest.mark.parametrize("sizes", [(1000,), (1, 6, 1000), (9, 3, 1000)])
async def test_a_connection_breaks_after_as_many_whole_messages_as_requested(sizes: tuple[int, ...]) -> None:
    proxy, wanted = HostileProxy(), message(b"first") + message(b"") + message(b"third")
    async with connected(proxy) as (ends,):
        peer = "ipv4:127.0.0.1:{1}".format(*ends.server[1].get_extra_info("peername"))
        proxy.close_connection_after(peer, 3)
        rest = wanted + message(b"fourth")
        for size in sizes:
            ends.send_to_client(frame(DATA, 1, rest[:size]))
            rest = rest[size:]
        received = b"".join([content async for content in read_data(ends.client[0])])
        assert received == wanted
        assert await ends.server[0].read() == b""


async def read_data(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The contents of frames until the connection ends."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            header = await reader.readexactly(9)
            yield await reader.readexactly(int.from_bytes(header[:3]))
