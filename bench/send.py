"""SendTask: the floor, the memory store and the SQLite store, in turns within each round."""

from contextlib import AsyncExitStack
from functools import partial

from bench.load import Call, channel_to, closed_loop, measure_load, message, unary
from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of

SYSTEMS = {"floor": "floor", "memory": "echo-memory", "sqlite": "echo-sqlite"}

IN_FLIGHT = (1, 16, 128)

SIZES = {100: 50_000, 64 << 10: 2_000}
"""Bytes of text, and the maximum number of such tasks in the memory store: 50,000 large ones would not fit into memory."""


async def send(plan: Plan) -> list[Row]:
    rows: list[Row] = []
    for size, max_tasks in SIZES.items():
        async with servers(*SYSTEMS.values(), max_tasks=max_tasks) as started, AsyncExitStack() as stack:
            lanes = [
                (server, unary(await stack.enter_async_context(channel_to(server)), "SendTask")) for server in started
            ]
            for in_flight in IN_FLIGHT:
                print_progress(f"send: {size} B, {in_flight} in flight")
                rows += _rows(await _rounds(plan, lanes, size, in_flight), size, in_flight)
    return rows


async def _rounds(plan: Plan, lanes: list[tuple[Server, Call]], size: int, in_flight: int) -> list[list[Sample]]:
    """Return the samples of each system."""
    request = message("x" * size)
    for _, call in lanes:
        await closed_loop(call, request, in_flight, min(0.3, plan.seconds))
    samples: list[list[Sample]] = [[] for _ in lanes]
    for _ in range(plan.rounds):
        for (server, call), mine in zip(lanes, samples, strict=True):
            mine.append(await measure_load(server, partial(closed_loop, call, request, in_flight, plan.seconds)))
    return samples


def _rows(samples: list[list[Sample]], size: int, in_flight: int) -> list[Row]:
    rows = []
    for system, mine in zip(SYSTEMS, samples, strict=True):
        row = row_of(f"send.{system}", "requests", mine, samples[0])
        row.in_flight, row.bytes = in_flight, size
        rows.append(row)
    if size == 100 and in_flight == 16:
        _add_bars(*rows[1:])
    return rows


def _add_bars(memory: Row, sqlite: Row) -> None:
    memory.add_bar_us(290)
    memory.add_bar(">= 0.55 of the floor", memory.ratio_to_floor, at_least=0.55)
    sqlite.add_bar_us(420)
