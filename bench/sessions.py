"""Sessions: a turn compared with a SendTask of the same agent, the stream of a session, and reading a long session."""

import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import grpc.aio
from plgrpc.v1 import agent_service_pb2, session_pb2
from plgrpc.v1 import session_service_pb2 as pb

from bench.load import Lane, channel_to, measure_in_turns, measure_load, message, one_by_one, unary
from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of

STORES = ("echo-memory", "echo-sqlite")
IN_FLIGHT, SIZE = 16, 100

TASKS, EVENTS = 20, 5_000
"""Tasks of the streamed session, and events of each."""

TURNS = 10_000
"""Turns of the long session."""

SERVICE = "SessionService"


async def sessions(plan: Plan) -> list[Row]:
    async with servers(*STORES, max_tasks=100_000) as started, AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(channel_to(server)) for server in started]
        rows: list[Row] = []
        for server, channel in zip(started, channels, strict=True):
            rows += await _turns(plan, server, channel)
        for server, channel in zip(started, channels, strict=True):
            rows.append(await _long_session(plan, server, channel))
    async with servers("log-memory", "log-sqlite") as started, AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(channel_to(server)) for server in started]
        for server, channel in zip(started, channels, strict=True):
            rows.append(await _stream(plan, server, channel))
    return rows


def _turn(session_id: str, text: str, task_input: bytes) -> bytes:
    """Return a SubmitTurn request that never waits for other turns."""
    sent = agent_service_pb2.SendTaskRequest.FromString(task_input).input
    return pb.SubmitTurnRequest(
        session_id=session_id, input=sent, when_busy=session_pb2.WHEN_BUSY_START
    ).SerializeToString()


async def _turns(plan: Plan, server: Server, channel: grpc.aio.Channel) -> list[Row]:
    """Measure SendTask without a session, with one, and SubmitTurn. The CPU of the runs counts in each."""
    store = server.kind.removeprefix("echo-")
    print_progress(f"session: SendTask and SubmitTurn, {store}")
    plain = message("x" * SIZE)
    with_session = agent_service_pb2.SendTaskRequest.FromString(plain)
    with_session.input.session_id = "bench"
    lanes = {
        "send": Lane(server, unary(channel, "SendTask"), plain),
        "send-in-session": Lane(server, unary(channel, "SendTask"), with_session.SerializeToString()),
        "submit": Lane(server, unary(channel, "SubmitTurn", SERVICE), _turn("bench", "x" * SIZE, plain)),
    }
    samples = await measure_in_turns(plan, [*lanes.values()], IN_FLIGHT)
    rows = []
    for name, mine in zip(lanes, samples, strict=True):
        row = row_of(f"session.{name}.{store}", "turns", mine, samples[0])
        row.in_flight, row.bytes = IN_FLIGHT, SIZE
        if name != "send":
            row.add_bar("<= 1.25 of the CPU of SendTask", row.cpu_ratio_to_floor, at_most=1.25)
        rows.append(row)
    return rows


async def _long_session(plan: Plan, server: Server, channel: grpc.aio.Channel) -> Row:
    count = plan.amount(TURNS)
    print_progress(f"session: reading a session of {count} turns, {server.kind.removeprefix('echo-')}")
    turn = _turn("long", "x", message("x"))
    await one_by_one(unary(channel, "SubmitTurn", SERVICE), [turn] * count, 64)
    get = unary(channel, "GetSession", SERVICE)
    request = pb.GetSessionRequest(session_id="long").SerializeToString()
    read = await one_by_one(get, [request] * 200)
    row = row_of(f"session.get.{server.kind.removeprefix('echo-')}", "requests", [read], [])
    row.in_flight, row.note = 1, f"{count:,} turns"
    return row.add_bar("p50 <= 2 ms", read.percentile_ms(0.5), at_most=2)


async def _stream(plan: Plan, server: Server, channel: grpc.aio.Channel) -> Row:
    each = plan.amount(EVENTS)
    print_progress(f"session: the stream of {TASKS} tasks, {server.kind.removeprefix('log-')}")
    request = agent_service_pb2.SendTaskRequest.FromString(message(f"emit {each}"))
    request.input.session_id = "stream"
    await one_by_one(unary(channel, "SendTask"), [request.SerializeToString()] * TASKS, TASKS)
    get = unary(channel, "GetSession", SERVICE)
    found = pb.GetSessionResponse.FromString(await get(pb.GetSessionRequest(session_id="stream").SerializeToString()))
    last = found.session.position
    samples = [await measure_load(server, partial(_read, channel, last)) for _ in range(plan.rounds)]
    row = row_of(f"session.stream.{server.kind.removeprefix('log-')}", "events", samples, [])
    row.in_flight, row.note = 1, f"{TASKS} tasks, {last:,} events"
    return row.add_bar(">= 100,000 events/s", row.per_second, at_least=100_000)


async def _read(channel: grpc.aio.Channel, last: int) -> Sample:
    stream: Any = channel.unary_stream(f"/plgrpc.v1.{SERVICE}/SubscribeSession")
    request = pb.SubscribeSessionRequest(session_id="stream").SerializeToString()
    start = time.perf_counter()
    call = stream(request)
    async for response in call:
        if _is_caught_up(response):
            break
    elapsed_s = time.perf_counter() - start
    call.cancel()
    return Sample(last, elapsed_s)


def _is_caught_up(response: bytes) -> bool:
    return pb.SubscribeSessionResponse.FromString(response).position.caught_up
