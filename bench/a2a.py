"""A2A: the cost of SendMessage over each binding, the throughput of server-sent events, and the memory of idle streams.

Each binding is compared with the floor of its transport and with the reference SDK. The systems take turns within each round.
"""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import orjson
from a2a.types import a2a_pb2

from bench.load import Call, channel_to, closed_loop, measure_floor, measure_load, message, unary
from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of
from bench.web_load import connections_to, get, pool_to, post

IN_FLIGHT = 16
BYTES = 100

MESSAGE_ID = "0198c0de-7a11-4bad-8f00-d15ea5edc0de"
"""A UUID, as clients generate them. An id of only digits would take another path in the JSON reader."""

BINDINGS = ("grpc", "jsonrpc", "rest")

BARS_US = {"a2a.grpc": 320.0, "a2a.jsonrpc": 220.0, "a2a.rest": 220.0}

STREAM_BAR = 60_000.0
"""Minimum events per second of one reader."""

MADE = 20_000
"""Number of artifacts of a stream; each is an event."""

SDK_MADE = 500
"""The same for the reference SDK, which takes a second for them."""

IDLE = 1_000

Lane = tuple[Server, Call, bytes]
"""The server, the function that sends a request, and the request."""


def json_message(text: str) -> bytes:
    return orjson.dumps({"message": _message(text)})


def _message(text: str) -> dict[str, Any]:
    return {"messageId": MESSAGE_ID, "role": "ROLE_USER", "parts": [{"text": text}]}


def json_call(text: str) -> bytes:
    params = {"message": _message(text)}
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})


def grpc_message(text: str) -> bytes:
    sent = a2a_pb2.Message(message_id=MESSAGE_ID, role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=text)])
    return a2a_pb2.SendMessageRequest(message=sent).SerializeToString()


# -- one message, one answer ---------------------------------------------------------------------------------------------------


async def unary_calls(plan: Plan) -> list[Row]:
    """Measure SendMessage over the three bindings: the simplest agent, memory store."""
    print_progress(f"a2a: SendMessage, {IN_FLIGHT} in flight")
    async with servers("floor", "http-floor", "a2a-echo-memory", "a2a-sdk") as started, AsyncExitStack() as stack:
        lanes = await _lanes(started, stack)
        for _, call, request in lanes.values():
            await closed_loop(call, request, IN_FLIGHT, min(0.3, plan.seconds))
        samples: dict[str, list[Sample]] = {case: [] for case in lanes}
        for _ in range(plan.rounds):
            for case, (server, call, request) in lanes.items():
                load = partial(closed_loop, call, request, IN_FLIGHT, plan.seconds / 2)
                samples[case].append(await measure_load(server, load))
    return [_row(case, samples) for case in lanes]


async def _lanes(started: list[Server], stack: AsyncExitStack) -> dict[str, Lane]:
    floor, http_floor, ours, sdk = started
    text = "x" * BYTES
    floor_send = unary(await stack.enter_async_context(channel_to(floor)), "SendTask")
    floor_pool = await stack.enter_async_context(pool_to(http_floor, IN_FLIGHT))
    mine = await bindings_of(ours, stack)
    theirs = await bindings_of(sdk, stack, "/rpc", "/rest")
    return {
        "a2a.grpc.floor": (floor, floor_send, message(text)),
        "a2a.grpc": mine["grpc"],
        "a2a.grpc.sdk": theirs["grpc"],
        "a2a.http.floor": (http_floor, floor_pool.call, post(http_floor, "/", json_call(text))),
        "a2a.jsonrpc": mine["jsonrpc"],
        "a2a.jsonrpc.sdk": theirs["jsonrpc"],
        "a2a.rest": mine["rest"],
        "a2a.rest.sdk": theirs["rest"],
    }


async def bindings_of(server: Server, stack: AsyncExitStack, rpc: str = "/", rest: str = "") -> dict[str, Lane]:
    """Return the lanes to an agent, by binding, after one checked call each. The responses of the measured calls are not checked.

    Raises:
        RuntimeError: A call did not complete.
    """
    text = "x" * BYTES
    channel = await stack.enter_async_context(channel_to(server))
    pool = await stack.enter_async_context(pool_to(server, IN_FLIGHT))
    stub: Any = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
    lanes: dict[str, Lane] = {
        "grpc": (server, partial(stub, metadata=(("a2a-version", "1.0"),)), grpc_message(text)),
        "jsonrpc": (server, pool.call, post(server, rpc, json_call(text))),
        "rest": (server, pool.call, post(server, f"{rest}/message:send", json_message(text))),
    }
    for binding, (_, call, request) in lanes.items():
        state = _state(binding, await call(request))
        if state != "TASK_STATE_COMPLETED":
            raise RuntimeError(f"a call of {server.kind} over {binding} returned {state}")
    return lanes


def _state(binding: str, answer: bytes) -> str:
    if binding == "grpc":
        return a2a_pb2.TaskState.Name(a2a_pb2.SendMessageResponse.FromString(answer).task.status.state)
    body = orjson.loads(answer)
    return str(body.get("result", body).get("task", {}).get("status", {}).get("state", body))


def _row(case: str, samples: dict[str, list[Sample]]) -> Row:
    grpc_floor = samples["a2a.grpc.floor"]
    row = row_of(case, "requests", samples[case], grpc_floor if ".grpc" in case else samples["a2a.http.floor"])
    row.in_flight, row.bytes = IN_FLIGHT, BYTES
    if case in BARS_US:
        # The bars of all bindings are scaled by the gRPC floor, with which they were set.
        row.add_bar_us(BARS_US[case], row_of(case, "requests", samples[case], grpc_floor).cpu_ratio_to_floor)
        sdk = row_of(case, "requests", samples[case], samples[f"{case}.sdk"])
        row.note += f"; {sdk.cpu_ratio_to_floor:.2f} of the reference SDK's CPU"
    return row


# -- streams -------------------------------------------------------------------------------------------------------------------


async def sse(plan: Plan) -> list[Row]:
    """Measure one reader of server-sent events: of a task that makes artifacts at full speed, and of its stored log."""
    count, few = plan.amount(MADE), plan.amount(SDK_MADE)
    print_progress(f"sse: {count} artifacts")
    kinds = ("http-floor", "a2a-log-memory", "a2a-log-sqlite", "a2a-sdk")
    async with (
        servers("floor", *kinds) as (grpc_floor, floor, memory, sqlite, sdk),
        channel_to(grpc_floor) as channel,
    ):
        live = partial(live_stream, text=f"make {count}")
        lanes: dict[str, Callable[[], Any]] = {
            "sse.floor": partial(_floor_stream, floor),
            "sse.live.memory": partial(live, memory),
            "sse.live.sqlite": partial(live, sqlite),
            "sse.live.sdk": partial(live_stream, sdk, text=f"make {few}", prefix="/rest"),
        }
        for server in (memory, sqlite):
            kind = server.kind.removeprefix("a2a-log-")
            lanes[f"sse.stored.{kind}"] = partial(stored_stream, server, await make_task(server, count), count)
        await _floor_stream(floor)
        samples: dict[str, list[Sample]] = {case: [] for case in lanes}
        calls: list[Sample] = []
        for _ in range(plan.rounds):
            calls.append(await measure_floor(grpc_floor, channel))
            for case, load in lanes.items():
                samples[case].append(await load())
    rows = []
    for case, mine in samples.items():
        row = row_of(case, "events", mine, samples["sse.floor"])
        row.in_flight = 1
        if case.endswith("memory"):
            row.add_bar_per_second(STREAM_BAR, mine, calls)
        rows.append(row)
    return rows


async def _floor_stream(server: Server) -> Sample:
    return await _read(server, post(server, "/stream", b""), 1)


async def live_stream(server: Server, text: str, prefix: str = "") -> Sample:
    request = post(server, f"{prefix}/message:stream", json_message(text))
    return await _read(server, request, int(text.removeprefix("make ")))


async def stored_stream(server: Server, task_id: str, count: int) -> Sample:
    return await _read(server, get(server, f"/tasks/{task_id}:subscribe", "last-event-id: 1"), count)


async def _read(server: Server, request: bytes, least: int) -> Sample:
    """Read one stream to its end. The events are counted after the measurement."""
    async with connections_to(server, 1) as (connection,):

        async def load() -> Sample:
            start = time.perf_counter()
            await connection.begin(request)
            return Sample(0, time.perf_counter() - start)

        sample = await measure_load(server, load)
        sample.done = b"".join(connection.pieces).count(b"data: ")
    if sample.done < least:
        raise RuntimeError(f"a stream of {server.kind} had {sample.done} events: {connection.pieces[:1]}")
    return sample


async def make_task(server: Server, count: int) -> str:
    """Create a finished task with `count` artifacts. Return its id."""
    async with pool_to(server, 1) as pool:
        body = {"message": _message(f"make {count}"), "configuration": {"returnImmediately": True}}
        sent = orjson.loads(await pool.call(post(server, "/message:send", orjson.dumps(body))))
        task_id = str(sent["task"]["id"])
    # The task is finished when its stream ends.
    await _read(server, get(server, f"/tasks/{task_id}:subscribe", "last-event-id: 1"), count)
    return task_id


# -- idle streams --------------------------------------------------------------------------------------------------------------


async def sse_idle(plan: Plan) -> list[Row]:
    """Measure the server's memory per stream without events. Each stream is of another task, which waits for input."""
    print_progress(f"sse: {IDLE} idle streams")
    async with servers("http-floor", "a2a-log-memory", "a2a-log-sqlite") as started:
        measures = [await _idle_kb(server) for server in started]
    rows = []
    for server, kb in zip(started, measures, strict=True):
        kind = server.kind.removeprefix("a2a-log-").removeprefix("http-")
        row = Row(f"sse.idle.{kind}", "kB per stream", in_flight=IDLE, value=kb)
        row.ratio_to_floor = kb / measures[0]
        if kind != "floor":
            row.add_bar("<= 60 kB", kb, at_most=60)
        rows.append(row)
    return rows


async def _idle_kb(server: Server) -> float:
    first = 50  # these streams pay for one-time allocations
    async with pool_to(server, 1) as pool, AsyncExitStack() as stack:
        requests = [await _idle_request(server, pool.call) for _ in range(first + IDLE)]
        connections = await stack.enter_async_context(connections_to(server, first))
        for connection, request in zip(connections, requests[:first], strict=True):
            await connection.first_piece(request)
        before = await server.resident_bytes()
        connections = await stack.enter_async_context(connections_to(server, IDLE))
        for connection, request in zip(connections, requests[first:], strict=True):
            await connection.first_piece(request)
        after = await server.resident_bytes()
    return (after - before) / IDLE / 1000


async def _idle_request(server: Server, call: Call) -> bytes:
    """Create a task that waits for input. Return the request that subscribes to it."""
    if server.kind == "http-floor":
        return get(server, "/silent")
    sent = orjson.loads(await call(post(server, "/message:send", json_message("wait"))))
    return get(server, f"/tasks/{sent['task']['id']}:subscribe")
