"""Watches: the throughput of stored logs, of growing logs and of live text, and the memory of an idle watch."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import grpc.aio
from plgrpc.v1 import agent_service_pb2 as pb

from bench.agents import FLOOR_BATCH, PIECE
from bench.load import (
    Call,
    channel_to,
    channels_to,
    events_in,
    measure_floor,
    measure_load,
    message,
    new_task,
    subscribe,
    unary,
)
from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of

STORES = ("log-memory", "log-sqlite")
STORED_EVENTS = 100_000
LIVE_EVENTS = {1: 50_000, 100: 5_000}
"""Events of a live log, by the number of readers."""

STORED_BAR = 250_000
"""Minimum events per second of one reader of a stored log."""

LIVE_BARS = {"log-memory": 300_000, "log-sqlite": 150_000}
"""Minimum events per second of one live reader, by the server's store."""

DELTAS = 200_000
"""Pieces of a live text."""

IDLE = 1_000
IDLE_CHANNELS = 10


def _case(name: str, server: Server) -> str:
    return f"{name}.{server.kind.removeprefix('log-')}"


async def stream(plan: Plan) -> list[Row]:
    async with servers("floor", *STORES) as started, AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(channel_to(server)) for server in started]
        floor, rows = await _stored(plan, started, channels)
        rows += await _live(plan, started, channels, floor)
        # Live text is not stored, so one kind of store is sufficient.
        rows.append(await _deltas(plan, started[1], channels[1]))
    return rows


# -- a stored log ----------------------------------------------------------------------------------------------------------


async def _stored(
    plan: Plan, started: list[Server], channels: list[grpc.aio.Channel]
) -> tuple[list[Sample], list[Row]]:
    """Return the floor's samples, and the rows."""
    count = plan.amount(STORED_EVENTS)
    print_progress(f"stream: a stored log of {count} events")
    logs = [("log", STORED_EVENTS // FLOOR_BATCH * FLOOR_BATCH)]
    for channel in channels[1:]:
        task = await new_task(unary(channel, "SendTask"), f"emit {count}")
        logs.append((task.id, task.sequence))
    sizes = []
    for channel, (task_id, events) in zip(channels, logs, strict=True):
        responses = [response async for response in subscribe(channel, task_id)]
        sizes.append(sum(map(len, responses)) // events)
        if task_id != "log" and events_in(responses) != list(range(1, events + 1)):
            raise RuntimeError("the log has gaps")
    samples: list[list[Sample]] = [[] for _ in started]
    calls: list[Sample] = []
    for _ in range(plan.rounds):
        calls.append(await measure_floor(started[0], channels[0]))
        for server, channel, (task_id, events), mine in zip(started, channels, logs, samples, strict=True):
            mine.append(await measure_load(server, partial(_read, channel, task_id, events)))
    rows = []
    for server, mine, size in zip(started, samples, sizes, strict=True):
        row = row_of(_case("stream.stored", server), "events", mine, samples[0])
        row.in_flight, row.bytes = 1, size
        if server.kind != "floor":
            row.add_bar_per_second(STORED_BAR, mine, calls)
        rows.append(row)
    return samples[0], rows


async def _read(channel: grpc.aio.Channel, task_id: str, events: int) -> Sample:
    start = time.perf_counter()
    async for _ in subscribe(channel, task_id):
        pass
    return Sample(events, time.perf_counter() - start)


# -- a log that is being written ---------------------------------------------------------------------------------------------


async def _live(plan: Plan, started: list[Server], channels: list[grpc.aio.Channel], floor: list[Sample]) -> list[Row]:
    """Return the rows. The first of the servers is the floor, and `floor` its samples of a stored log."""
    bare, started = started[0], started[1:]
    bare_channel, channels = channels[0], channels[1:]
    rows = []
    for readers, usual in LIVE_EVENTS.items():
        count = plan.amount(usual)
        print_progress(f"stream: {count} live events, {readers} readers")
        samples: list[list[Sample]] = [[] for _ in started]
        calls: list[Sample] = []
        for _ in range(plan.rounds):
            calls.append(await measure_floor(bare, bare_channel))
            for server, channel, mine in zip(started, channels, samples, strict=True):
                mine.append(await _live_round(server, unary(channel, "SendTask"), readers, count))
        for server, mine in zip(started, samples, strict=True):
            row = row_of(_case("stream.live", server), "events read", mine, floor)
            row.in_flight = readers
            if readers == 1:
                row.add_bar_per_second(LIVE_BARS[server.kind], mine, calls)
            elif row.per_second:
                row.note = f"{row.per_second / readers:,.0f} events/s to each"
            rows.append(row)
    return rows


async def _live_round(server: Server, send: Call, readers: int, count: int) -> Sample:
    """Open the readers, then let the handler report at full speed. The sample counts the events of all readers."""
    task = await new_task(send, "wait")
    async with channels_to(server, min(readers, 4)) as channels:
        watches = [subscribe(channels[index % len(channels)], task.id) for index in range(readers)]
        for watch in watches:
            await anext(watch)  # the history; the watch is now live
        got: list[list[bytes]] = []

        async def load() -> Sample:
            start = time.perf_counter()
            await send(message(f"emit {count}", task.id, wait=False))
            got.extend(await asyncio.gather(*map(_rest, watches)))
            return Sample(0, time.perf_counter() - start)

        sample = await measure_load(server, load)
    sequences = events_in(got[0])
    if sequences != list(range(task.sequence + 1, task.sequence + 1 + len(sequences))) or len(sequences) < count:
        raise RuntimeError("a live reader missed events")
    if {sum(map(len, responses)) for responses in got} != {sum(map(len, got[0]))}:
        raise RuntimeError("the readers received different events")
    sample.done = readers * len(sequences)
    return sample


async def _rest(watch: AsyncIterator[bytes]) -> list[bytes]:
    return [response async for response in watch]


# -- text that grows ---------------------------------------------------------------------------------------------------------


async def _deltas(plan: Plan, server: Server, channel: grpc.aio.Channel) -> Row:
    count = plan.amount(DELTAS)
    print_progress(f"stream: a text of {count} pieces")
    samples, messages = [], 0
    for _ in range(plan.rounds):
        sample, messages = await _deltas_round(server, channel, count)
        samples.append(sample)
    row = row_of("stream.deltas", "deltas", samples)
    row.in_flight, row.note = 1, f"in {messages} messages"
    return row


async def _deltas_round(server: Server, channel: grpc.aio.Channel, count: int) -> tuple[Sample, int]:
    """Read the live text of a model at full speed with one reader. The sample counts the pieces received before the text's end."""
    send = unary(channel, "SendTask")
    task = await new_task(send, "wait")
    watch = subscribe(channel, task.id, deltas=True)
    await anext(watch)  # the history; the watch is now live
    got: list[bytes] = []

    async def load() -> Sample:
        start = time.perf_counter()
        await send(message(f"tell {count}", task.id, wait=False))
        got.extend(await _rest(watch))
        return Sample(0, time.perf_counter() - start)

    sample = await measure_load(server, load)
    deltas = [delta for response in got for delta in pb.SubscribeTaskResponse.FromString(response).deltas]
    text = "".join(delta.text for delta in deltas)
    if not text or text != (PIECE * count)[: len(text)]:
        raise RuntimeError("a reader of live text missed pieces")
    sample.done = len(text) // len(PIECE)
    return sample, len(deltas)


# -- idle watches ----------------------------------------------------------------------------------------------------------


async def idle(plan: Plan) -> list[Row]:
    """Measure the server's memory per watch of a task without new events."""
    print_progress(f"idle: {IDLE} idle subscriptions")
    async with servers("floor", *STORES) as started:
        measures = [await _idle_kib(server) for server in started]
    rows = []
    for server, kib in zip(started, measures, strict=True):
        row = Row(_case("idle", server), "KiB per subscription", in_flight=IDLE, value=kib)
        row.ratio_to_floor = kib / measures[0]
        if server.kind != "floor":
            row.add_bar("<= 30 KiB", kib, at_most=30)
        rows.append(row)
    return rows


async def _idle_kib(server: Server) -> float:
    async with channels_to(server, IDLE_CHANNELS) as channels, AsyncExitStack() as stack:
        task_id = "silent"
        if server.kind != "floor":
            task_id = (await new_task(unary(channels[0], "SendTask"), "wait")).id
        stubs: list[Any] = [channel.unary_stream("/plgrpc.v1.AgentService/SubscribeTask") for channel in channels]
        request = pb.SubscribeTaskRequest(task_id=task_id).SerializeToString()

        async def open_watches(count: int) -> None:
            for index in range(count):
                watch = stubs[index % len(stubs)](request)
                stack.callback(watch.cancel)
                await watch.read()  # the history, so the watch is open

        # The first watches pay for connections and one-time allocations.
        await open_watches(IDLE_CHANNELS * 10)
        before = await server.resident_bytes()
        await open_watches(IDLE)
        after = await server.resident_bytes()
    return (after - before) / IDLE / 1024
