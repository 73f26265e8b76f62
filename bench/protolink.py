"""ProtoLink's protocol: the cost of sending a task over HTTP and WebSocket, and the throughput of their streams.

A request is a whole task in JSON, as ProtoLink's client sends it. On a WebSocket all requests share one connection.
"""

import asyncio
import itertools
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import orjson

from bench.load import Call, channel_to, closed_loop, measure_floor, measure_load, message, unary
from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of
from bench.web_load import connections_to, pool_to, post
from protolink_grpc.models.ids import new_message_id, new_task_id

IN_FLIGHT = 16
BYTES = 100
EVENTS = 20_000
BAR_US = 330.0
BAR_EVENTS = 40_000.0


def task_json(text: str) -> dict[str, object]:
    """Return a task with one message, as ProtoLink 0.8.3 writes it."""
    now = "2026-01-02T03:04:05.678901+00:00"
    part = {"type": "text", "content": text, "metadata": {}}
    sent = {"id": new_message_id(), "role": "user", "parts": [part], "timestamp": now}
    return {
        "id": new_task_id(),
        "state": "submitted",
        "messages": [sent],
        "artifacts": [],
        "metadata": {},
        "flow_state": {},
        "created_at": now,
    }


class Socket(asyncio.Protocol):
    """A WebSocket that sends requests and returns or counts the response frames."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._ids = map(str, itertools.count(1))
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._shown = 0
        self.opened: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[int] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's transport is one that can write

    def data_received(self, data: bytes) -> None:
        held = self._held + data
        at = 0
        if not self.opened.done():
            at = held.find(b"\r\n\r\n") + 4
            if at < 4:
                self._held = held
                return
            if b" 101 " not in held[:at]:
                raise RuntimeError(held[:at].decode())
            self.opened.set_result(None)
        while len(held) >= at + 2:
            size, start = held[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(held[at + 2 : at + 4]), at + 4
            elif size == 127:
                size, start = int.from_bytes(held[at + 2 : at + 10]), at + 10
            if len(held) < start + size:
                break
            at = start + size
            self._take(held[start:at])
        self._held = held[at:]

    def _take(self, body: bytes) -> None:
        if body.endswith(b'"stream":true}'):
            self._shown += 1
            if b'"final":true,' in body[-30:]:
                self._ended.set_result(self._shown)
            return
        waiting = self._waiting.pop(body.partition(b'"id":"')[2].partition(b'"')[0])
        if b'"ok":true' in body:
            waiting.set_result(body)
        else:
            waiting.set_exception(RuntimeError(body[:500].decode()))

    def write(self, data: bytes) -> None:
        if self._transport is None:
            raise RuntimeError("not connected")
        self._transport.write(data)

    def _send(self, path: str, text: str) -> str:
        request_id = next(self._ids)
        body = orjson.dumps({"id": request_id, "method": "POST", "path": path, "data": task_json(text)})
        # Masked with zeros, which leaves the bytes unchanged.
        self.write(b"\x81" + struct.pack(">BH", 0x80 | 126, len(body)) + bytes(4) + body)
        return request_id

    async def call(self, text: str) -> bytes:
        """Send a task and return the response frame."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[self._send("/tasks/", text).encode()] = answer
        return await answer

    async def stream(self, text: str) -> int:
        """Stream a task and return the number of its events. Only one call per connection is possible."""
        self._send("/tasks/stream", text)
        return await self._ended

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


@asynccontextmanager
async def socket_to(server: Server) -> AsyncIterator[Socket]:
    host, _, port = server.http.rpartition(":")
    _, socket = await asyncio.get_running_loop().create_connection(Socket, host, int(port))
    lines = (
        "GET / HTTP/1.1",
        f"host: {server.http}",
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-version: 13",
        "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
        "",
        "",
    )
    socket.write("\r\n".join(lines).encode())
    try:
        await socket.opened
        yield socket
    finally:
        socket.close()


async def protolink(plan: Plan) -> list[Row]:
    """Measure tasks with one answer, memory store, in turns with the gRPC floor; then one live stream."""
    print_progress(f"protolink: tasks, {IN_FLIGHT} in flight")
    rows: list[Row] = []
    async with servers("floor", "a2a-echo-memory") as (floor, echo), AsyncExitStack() as stack:
        bare = unary(await stack.enter_async_context(channel_to(floor)), "SendTask")
        pool = await stack.enter_async_context(pool_to(echo, IN_FLIGHT))
        socket = await stack.enter_async_context(socket_to(echo))
        text, request = "x" * BYTES, message("x" * BYTES)

        async def over_http(_: bytes) -> bytes:
            return await pool.call(post(echo, "/tasks/", orjson.dumps(task_json(text))))

        async def over_socket(_: bytes) -> bytes:
            return await socket.call(text)

        lanes: dict[str, tuple[Server, Call]] = {
            "protolink.floor": (floor, bare),
            "protolink.http": (echo, over_http),
            "protolink.websocket": (echo, over_socket),
        }
        samples: dict[str, list[Sample]] = {case: [] for case in lanes}
        for _, call in lanes.values():
            await closed_loop(call, request, IN_FLIGHT, min(0.3, plan.seconds))
        for _ in range(plan.rounds):
            for case, (server, call) in lanes.items():
                load = partial(closed_loop, call, request, IN_FLIGHT, plan.seconds / 2)
                samples[case].append(await measure_load(server, load))
        for case, mine in samples.items():
            row = row_of(case, "requests", mine, samples["protolink.floor"])
            row.in_flight, row.bytes = IN_FLIGHT, BYTES
            if case != "protolink.floor":
                row.add_bar_us(BAR_US)
            rows.append(row)
    return rows + await _streams(plan)


async def _streams(plan: Plan) -> list[Row]:
    count = plan.amount(EVENTS)
    print_progress(f"protolink: streams of {count} events")
    rows = []
    async with servers("floor", "a2a-log-memory") as (floor, server), channel_to(floor) as channel:
        lanes: dict[str, Callable[[Server, int], Awaitable[Sample]]] = {
            "protolink.http.stream": _http_stream,
            "protolink.websocket.stream": _socket_stream,
        }
        samples: dict[str, list[Sample]] = {case: [] for case in lanes}
        calls: list[Sample] = []
        for _ in range(plan.rounds):
            calls.append(await measure_floor(floor, channel))
            for case, load in lanes.items():
                samples[case].append(await load(server, count))
    for case, mine in samples.items():
        row = row_of(case, "events", mine)
        row.in_flight = 1
        rows.append(row.add_bar_per_second(BAR_EVENTS, mine, calls))
    return rows


async def _http_stream(server: Server, count: int) -> Sample:
    request = post(server, "/tasks/stream", orjson.dumps(task_json(f"emit {count}")))
    async with connections_to(server, 1) as (connection,):

        async def load() -> Sample:
            start = time.perf_counter()
            await connection.begin(request)
            return Sample(0, time.perf_counter() - start)

        sample = await measure_load(server, load)
        sample.done = b"".join(connection.pieces).count(b"data: ")
    return _check_complete(sample, count)


async def _socket_stream(server: Server, count: int) -> Sample:
    async with socket_to(server) as socket:

        async def load() -> Sample:
            start = time.perf_counter()
            done = await socket.stream(f"emit {count}")
            return Sample(done, time.perf_counter() - start)

        return _check_complete(await measure_load(server, load), count)


def _check_complete(sample: Sample, count: int) -> Sample:
    if sample.done < count:
        raise RuntimeError(f"a stream of {count} events had only {sample.done}")
    return sample
