"""SendTask: the bare floor, ours in memory, ours in SQLite, in turns within each round."""

from contextlib import AsyncExitStack
from functools import partial

from bench.load import Call, channel_to, closed_loop, measured, message, unary
from bench.plan import Plan, say
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of

SYSTEMS = {"floor": "floor", "memory": "echo-memory", "sqlite": "echo-sqlite"}

IN_FLIGHT = (1, 16, 128)

SIZES = {100: 50_000, 64 << 10: 2_000}
"""Bytes of text, and how many such tasks the memory store keeps: 50,000 of the large ones would not fit."""

DESIGN_FLOOR_US = 178.0
"""CPU per request of the floor on the machine on which the bars were set. Source: the table of section 8 of the design."""


async def send(plan: Plan) -> list[Row]:
    rows: list[Row] = []
    for size, max_tasks in SIZES.items():
        async with servers(*SYSTEMS.values(), max_tasks=max_tasks) as started, AsyncExitStack() as stack:
            lanes = [
                (server, unary(await stack.enter_async_context(channel_to(server)), "SendTask")) for server in started
            ]
            for in_flight in IN_FLIGHT:
                say(f"send: {size} B, {in_flight} in flight")
                rows += _rows(await _rounds(plan, lanes, size, in_flight), size, in_flight)
    return rows


async def _rounds(plan: Plan, lanes: list[tuple[Server, Call]], size: int, in_flight: int) -> list[list[Sample]]:
    """Samples per system."""
    request = message("x" * size)
    for _, call in lanes:
        await closed_loop(call, request, in_flight, min(0.3, plan.seconds))
    samples: list[list[Sample]] = [[] for _ in lanes]
    for _ in range(plan.rounds):
        for (server, call), mine in zip(lanes, samples, strict=True):
            mine.append(await measured(server, partial(closed_loop, call, request, in_flight, plan.seconds)))
    return samples


def _rows(samples: list[list[Sample]], size: int, in_flight: int) -> list[Row]:
    rows = []
    for system, mine in zip(SYSTEMS, samples, strict=True):
        row = row_of(f"send.{system}", "requests", mine, samples[0])
        row.in_flight, row.bytes = in_flight, size
        rows.append(row)
    if size == 100 and in_flight == 16:
        _hold(*rows[1:])
    return rows


def _hold(memory: Row, sqlite: Row) -> None:
    memory.demand("<= 290 us", memory.server_cpu_us, at_most=290)
    memory.demand(">= 0.65 of the floor", memory.ratio_to_floor, at_least=0.65)
    sqlite.demand("<= 400 us", sqlite.server_cpu_us, at_most=400)
    for row in (memory, sqlite):
        at_design_speed(row)


def at_design_speed(row: Row) -> None:
    """Note what the row's CPU would be on the machine of the design, judged by the floor: bars in microseconds mean that one."""
    if row.cpu_ratio_to_floor is not None:
        scaled = row.cpu_ratio_to_floor * DESIGN_FLOOR_US
        row.note = f"{scaled:.0f} us where the floor takes {DESIGN_FLOOR_US:.0f} us"
