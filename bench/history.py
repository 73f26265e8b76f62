"""What one more turn costs on a task with little and with much behind it. It must cost the same."""

from contextlib import AsyncExitStack
from functools import partial

from bench.load import Call, channel_to, measured, message, new_task, one_by_one, unary
from bench.plan import Plan, say
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of

STORES = ("log-memory", "log-sqlite")

AGES = {1: 1, 1_000: 10, 10_000: 15}
"""Events or messages before the first turn, and turns per task: few enough that the age stays what it says."""

TURNS = 60
"""Turns per round, of each age."""


async def history(plan: Plan) -> list[Row]:
    rows = []
    async with servers(*STORES) as started, AsyncExitStack() as stack:
        sends = [unary(await stack.enter_async_context(channel_to(server)), "SendTask") for server in started]
        for kind in ("events", "messages"):
            say(f"history: one more turn after 1, 1,000 and 10,000 {kind}")
            for server, send in zip(started, sends, strict=True):
                rows += await _ages(plan, server, send, kind)
    return rows


async def _ages(plan: Plan, server: Server, send: Call, kind: str) -> list[Row]:
    samples: dict[int, list[Sample]] = {age: [] for age in AGES}
    for number in range(plan.rounds + 1):
        for age, turns in AGES.items():
            requests = await _prepared(send, kind, age, turns, plan.amount(TURNS, 60))
            await server.collect()  # what the preparation left behind is not the turns' to clean up
            sample = await measured(server, partial(one_by_one, send, requests))
            if number:  # the first round warms up
                samples[age].append(sample)
    young = samples[min(AGES)]
    rows = []
    for age, mine in samples.items():
        row = row_of(f"turn.{server.kind.removeprefix('log-')}.{age}-{kind}", "turns", mine, young)
        row.in_flight = 1
        row.ratio_to_floor = None  # the ratio here is to the young task: nothing bare keeps a history
        growth, row.cpu_ratio_to_floor = row.cpu_ratio_to_floor, None
        if age != min(AGES) and growth is not None:
            row.note = f"{growth:.2f} of the CPU of a turn after 1"
            row.demand("<= 1.2 of a turn after 1", growth, at_most=1.2)
        rows.append(row)
    return rows


async def _prepared(send: Call, kind: str, age: int, turns: int, wanted: int) -> list[bytes]:
    """Requests that continue fresh tasks of that age."""
    requests: list[bytes] = []
    while len(requests) < wanted:
        text = "wait" if age == 1 else f"{kind} {age}"
        task = await new_task(send, text)
        requests += [message("turn", task.id)] * turns
    return requests[:wanted]
