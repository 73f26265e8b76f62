"""Peers that stall, flood, lie and vanish: each gets the right answer or none, and the server serves the next one as before."""

import asyncio
import random
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from http_world import PATIENCE_S, Peer, World, on_both_loops, running

MIB = 1 << 20


@asynccontextmanager
async def hurried(**options: Any) -> AsyncIterator[World]:
    """A world in which nobody has much time, and that must serve as before when the test is over."""
    times = {"header_timeout_s": 0.2, "body_timeout_s": 0.2, "idle_timeout_s": 0.3, "write_timeout_s": 0.3}
    async with running(**(times | options)) as world:
        yield world
        peer = await Peer.of(world)
        assert (await peer.get("/echo"))[0] == 200
        peer.close()


async def alone(world: World) -> None:
    """Return when no connection is left."""
    async with asyncio.timeout(PATIENCE_S):
        while world.server.connections:
            await asyncio.sleep(0.01)


@on_both_loops
async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        assert await peer.rest() == b""
        assert world.rejected("silent") == 1
        peer.close()


@on_both_loops
async def test_headers_that_dribble_in_get_408_whatever_their_pace() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)

        async def dribble() -> None:
            await peer.say(b"GET /echo HTTP/1.1\r\nhost: localhost\r\n")
            while True:
                await peer.say(b"x: y\r\n")
                await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        assert (await peer.head())[0] == 408
        dribbling.cancel()
        assert world.rejected("slow_headers") == 1
        peer.close()


@on_both_loops
async def test_a_body_that_dribbles_in_is_given_up() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)

        async def dribble() -> None:
            await peer.say(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")
            while True:
                await peer.say(b"x")
                await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        status, _, body = await peer.answer()
        assert (status, orjson.loads(body)["error"]["details"][0]["reason"]) == (408, "REQUEST_TIMEOUT")
        await alone(world)  # although it still dribbles
        dribbling.cancel()
        peer.close()


@on_both_loops
async def test_a_kept_connection_that_falls_silent_is_closed() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        assert (await peer.get("/echo"))[0] == 200
        assert await peer.rest() == b""
        peer.close()


HUNDRED_MB = 100_000_000


@pytest.mark.parametrize(
    ("head", "chunked"),
    [
        (b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n", False),
        (b"POST /echo HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 100000000\r\n\r\n", False),
        (b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n", True),
    ],
    ids=["length", "closing", "chunked"],
)
@on_both_loops
async def test_a_client_that_sends_100_mb_before_it_looks_still_finds_its_413(head: bytes, chunked: bool) -> None:
    async with running() as world:
        peer = await Peer.of(world)
        piece = b"x" * 1_000_000
        await peer.say(head)
        for _ in range(HUNDRED_MB // len(piece)):
            await peer.say(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        status, headers, body = await peer.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert orjson.loads(body)["error"]["details"][0]["reason"] == "MESSAGE_TOO_LARGE"
        assert await peer.rest() == b""
        peer.close()


@on_both_loops
async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(world: World) -> None:
    peer = await Peer.of(world)
    await peer.say(
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 100000000\r\n\r\n"
    )
    assert (await peer.head())[0] == 413
    peer.close()


@on_both_loops
async def test_100_kb_of_headers_get_431() -> None:
    async with hurried() as world:
        for headers in (b"x: " + b"v" * 100_000, b"x: y\r\n" * 17_000):
            peer = await Peer.of(world)
            await peer.say(b"GET /echo HTTP/1.1\r\nhost: localhost\r\n" + headers)
            assert (await peer.head())[0] == 431
            peer.close()
        assert world.rejected("headers_too_large") == 2


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\nhello",
        b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nhost: localhost\r\n x: folded\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"GET /echo HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
@on_both_loops
async def test_a_request_that_can_be_read_in_two_ways_or_in_none_is_refused(request_: bytes) -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        await peer.say(request_)
        status, headers = await peer.head()
        assert (status, headers["connection"]) == (400, "close")
        peer.close()


@on_both_loops
async def test_noise_harms_nobody() -> None:
    noise = random.Random(4)
    async with hurried() as world:
        for _ in range(100):
            peer = await Peer.of(world)
            start = noise.choice([b"", b"GET /", b"POST /echo HTTP/1.1\r\nhost: localhost\r\n"])
            peer.writer.write(start + noise.randbytes(noise.randrange(1, 3000)))
            if noise.random() < 0.5:
                peer.writer.transport.abort()
            else:
                peer.close()
        await alone(world)


@on_both_loops
async def test_a_client_that_vanishes_midway_ends_its_stream() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        await peer.say(b"GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await peer.reader.readexactly(100_000)
        peer.writer.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            await world.gone.wait()
        await alone(world)
        assert "protolink_http_event_streams 0\n" in world.metrics.text()


@on_both_loops
async def test_a_client_that_vanishes_from_an_idle_stream_ends_it() -> None:
    async with hurried() as world:
        peer = await Peer.of(world)
        await peer.say(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await peer.reader.readuntil(b"data: {}\n\n")
        peer.writer.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            await world.gone.wait()


@on_both_loops
async def test_a_reader_that_never_reads_costs_little_and_is_cut() -> None:
    async with hurried() as world:
        peer = await Peer.of(world, limit=1024)
        await peer.say(b"GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await world.gone.wait()
        # What the system's own socket buffers take, and 64 KiB of ours.
        assert world.written < 16 * MIB
        assert world.rejected("slow_reader") == 1
        await alone(world)
        peer.close()


@on_both_loops
async def test_a_reader_that_never_reads_does_not_hold_up_a_stop(world: World) -> None:
    peer = await Peer.of(world, limit=1024)
    await peer.say(b"GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await peer.reader.readexactly(10)
    async with asyncio.timeout(PATIENCE_S):
        await world.server.stop(0.1)
        await world.gone.wait()
    peer.close()


@on_both_loops
async def test_2000_connections_are_open_at_once_and_one_more_is_told_to_come_back() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 5000:
        pytest.skip("the system allows too few open files for both ends of so many connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5000), hard))
    try:
        async with running(max_connections=2000, header_timeout_s=60.0, write_timeout_s=60.0) as world:
            peers = [await Peer.of(world) for _ in range(2000)]
            statuses = await asyncio.gather(*(peer.get("/echo") for peer in peers))
            assert {status for status, _, _ in statuses} == {200}
            late = await Peer.of(world)
            status, headers, _ = await late.answer()
            assert (status, headers["retry-after"]) == (503, "1")
            assert (await peers[0].get("/echo"))[0] == 200
            for peer in (*peers, late):
                peer.close()
            await alone(world)
            again = await Peer.of(world)
            assert (await again.get("/echo"))[0] == 200
            again.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
