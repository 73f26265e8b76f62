"""The cost of one more turn of a task with a short and with a long history. It must be the same."""

from contextlib import AsyncExitStack
from functools import partial

from bench.load import Call, channel_to, measure_load, message, new_task, one_by_one, unary
from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row, Sample, row_of

STORES = ("log-memory", "log-sqlite")

AGES = {1: 1, 1_000: 10, 10_000: 15}
"""Events or messages before the first turn, and turns per task: so few that they hardly add to the history."""

TURNS = 60
"""Turns per round, of each age."""


async def history(plan: Plan) -> list[Row]:
    rows = []
    async with servers(*STORES) as started, AsyncExitStack() as stack:
        sends = [unary(await stack.enter_async_context(channel_to(server)), "SendTask") for server in started]
        for kind in ("events", "messages"):
            print_progress(f"history: one more turn after 1, 1,000 and 10,000 {kind}")
            for server, send in zip(started, sends, strict=True):
                rows += await _ages(plan, server, send, kind)
    return rows


async def _ages(plan: Plan, server: Server, send: Call, kind: str) -> list[Row]:
    samples: dict[int, list[Sample]] = {age: [] for age in AGES}
    for number in range(plan.rounds + 1):
        for age, turns in AGES.items():
            requests = await _prepare_requests(send, kind, age, turns, plan.amount(TURNS, 60))
            await server.collect()  # the garbage of the preparation must not be collected during the measurement
            sample = await measure_load(server, partial(one_by_one, send, requests))
            if number:  # the first round warms up
                samples[age].append(sample)
    young = samples[min(AGES)]
    rows = []
    for age, mine in samples.items():
        row = row_of(f"turn.{server.kind.removeprefix('log-')}.{age}-{kind}", "turns", mine, young)
        row.in_flight = 1
        row.ratio_to_floor = None  # the ratio is to the task with the shortest history: the floor has no histories
        growth, row.cpu_ratio_to_floor = row.cpu_ratio_to_floor, None
        if age != min(AGES) and growth is not None:
            row.note = f"{growth:.2f} of the CPU of a turn after 1"
            row.add_bar("<= 1.2 of a turn after 1", growth, at_most=1.2)
        rows.append(row)
    return rows


async def _prepare_requests(send: Call, kind: str, age: int, turns: int, wanted: int) -> list[bytes]:
    """Create tasks with a history of length `age`. Return the requests that continue them."""
    requests: list[bytes] = []
    while len(requests) < wanted:
        text = "wait" if age == 1 else f"{kind} {age}"
        task = await new_task(send, text)
        requests += [message("turn", task.id)] * turns
    return requests[:wanted]
