"""SendTask with telemetry, compared with the same agent without it, in turns within each round."""

from contextlib import AsyncExitStack

from bench.load import Lane, channel_to, measure_in_turns, message, unary
from bench.plan import Plan, print_progress
from bench.process import servers
from bench.rows import Row, row_of

SYSTEMS = ("echo-memory", "traced-memory")
IN_FLIGHT, SIZE = 16, 100


async def telemetry(plan: Plan) -> list[Row]:
    """Measure an exporter that does nothing. The floor of the row is the agent without telemetry."""
    print_progress("telemetry: SendTask with an exporter that does nothing")
    request = message("x" * SIZE)
    async with servers(*SYSTEMS, max_tasks=50_000) as started, AsyncExitStack() as stack:
        calls = [unary(await stack.enter_async_context(channel_to(server)), "SendTask") for server in started]
        lanes = [Lane(*each, request) for each in zip(started, calls, strict=True)]
        plain, traced = await measure_in_turns(plan, lanes, IN_FLIGHT)
    row = row_of("send.telemetry", "requests", traced, plain)
    row.in_flight, row.bytes, row.note = IN_FLIGHT, SIZE, "the floor is the agent without telemetry"
    return [row.add_bar("<= 1.15 of the CPU without telemetry", row.cpu_ratio_to_floor, at_most=1.15)]
