"""SendTask with telemetry, compared with the same agent without it, in turns within each round."""

from contextlib import AsyncExitStack
from functools import partial

from bench.load import channel_to, closed_loop, measure_load, message, unary
from bench.plan import Plan, print_progress
from bench.process import servers
from bench.rows import Row, Sample, row_of

SYSTEMS = ("echo-memory", "traced-memory")
IN_FLIGHT, SIZE = 16, 100


async def telemetry(plan: Plan) -> list[Row]:
    """Measure an exporter that does nothing. The floor of the row is the agent without telemetry."""
    print_progress("telemetry: SendTask with an exporter that does nothing")
    request = message("x" * SIZE)
    samples: list[list[Sample]] = [[] for _ in SYSTEMS]
    async with servers(*SYSTEMS, max_tasks=50_000) as started, AsyncExitStack() as stack:
        lanes = [(server, unary(await stack.enter_async_context(channel_to(server)), "SendTask")) for server in started]
        for _, call in lanes:
            await closed_loop(call, request, IN_FLIGHT, min(0.3, plan.seconds))
        for _ in range(plan.rounds):
            for (server, call), mine in zip(lanes, samples, strict=True):
                load = partial(closed_loop, call, request, IN_FLIGHT, plan.seconds)
                mine.append(await measure_load(server, load))
    plain, traced = samples
    row = row_of("send.telemetry", "requests", traced, plain)
    row.in_flight, row.bytes, row.note = IN_FLIGHT, SIZE, "the floor is the agent without telemetry"
    return [row.add_bar("<= 1.15 of the CPU without telemetry", row.cpu_ratio_to_floor, at_most=1.15)]
