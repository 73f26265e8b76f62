"""SendTask: the floor, the memory store and the SQLite store, in turns within each round."""

from contextlib import AsyncExitStack

from bench.load import SLICE_S, Lane, channel_to, measure_in_turns, message, unary
from bench.plan import Plan, print_progress
from bench.process import servers
from bench.rows import Row, Sample, row_of

SYSTEMS = {"floor": "floor", "memory": "echo-memory", "sqlite": "echo-sqlite"}

IN_FLIGHT = (1, 16, 128)

SIZES = {100: 50_000, 64 << 10: 2_000}
"""Bytes of text, and the maximum number of such tasks in the memory store: 50,000 large ones would not fit into memory."""


async def send(plan: Plan) -> list[Row]:
    rows: list[Row] = []
    for size, max_tasks in SIZES.items():
        async with servers(*SYSTEMS.values(), max_tasks=max_tasks) as started, AsyncExitStack() as stack:
            calls = [unary(await stack.enter_async_context(channel_to(server)), "SendTask") for server in started]
            lanes = [Lane(*each, message("x" * size)) for each in zip(started, calls, strict=True)]
            for in_flight in IN_FLIGHT:
                print_progress(f"send: {size} B, {in_flight} in flight")
                # In a slice with too few requests for each caller, most of them begin or end it.
                slice_s = SLICE_S if in_flight <= 16 else plan.seconds
                rows += _rows(await measure_in_turns(plan, lanes, in_flight, slice_s=slice_s), size, in_flight)
    return rows


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
