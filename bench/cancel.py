"""The time from a cancellation to the interruption of delegated work two agents further, in three processes."""

import asyncio
import time
from statistics import median

from bench.plan import Plan, print_progress
from bench.process import Server, servers
from bench.rows import Row
from protolink_grpc import AgentClient, Task, TaskState
from protolink_grpc.client.channel import close_channels

CHAIN = ("chain-1", "chain-2", "chain-3")

CANCELS = 20

BAR_MS = 50.0


async def cancel(plan: Plan) -> list[Row]:
    """Measure cancellations of new tasks: the first agent calls the second, which calls the third, which waits."""
    print_progress("cancel: a chain of three processes")
    taken = []
    async with servers(*CHAIN) as chain:
        client = AgentClient(url=f"grpc://{chain[0].target}")
        text = " ".join([*(f"grpc://{server.target}" for server in chain[1:]), "hang"])
        try:
            for number in range(plan.amount(CANCELS, 3) + 1):
                elapsed_s = await _cancel_once(client, chain[-1], text)
                if number:  # the first one connects
                    taken.append(1e3 * elapsed_s)
        finally:
            await close_channels()
    row = Row("cancel.grandchild", "ms to the interruption", in_flight=1, value=median(taken), p50_ms=median(taken))
    row.p99_ms = max(taken)
    row.note = f"worst of {len(taken)}: {max(taken):.1f} ms"
    row.add_bar(f"median <= {BAR_MS:g} ms", median(taken), at_most=BAR_MS)
    row.add_bar(f"worst <= {BAR_MS:g} ms", max(taken), at_most=BAR_MS)
    return [row]


async def _cancel_once(client: AgentClient, last: Server, text: str) -> float:
    """Return the seconds from the cancellation to the interruption."""
    before, _ = await last.chain()
    task = await client.submit_task(None, Task.create(text))
    while (await last.chain())[0] == before:
        await asyncio.sleep(0.002)
    began = time.monotonic()
    canceled = await client.cancel_task(None, task.id)
    if canceled.state is not TaskState.CANCELED:
        raise RuntimeError(f"the task is {canceled.state}")
    while (at := (await last.chain())[1]) < began:
        await asyncio.sleep(0.002)
    return at - began
