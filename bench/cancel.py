"""How long a cancel takes from its caller to the work that a grandchild does, over three processes."""

import asyncio
import time
from statistics import median

from bench.plan import Plan, say
from bench.process import Server, servers
from bench.rows import Row
from protolink_grpc import AgentClient, Task, TaskState
from protolink_grpc.client.channel import close_channels

CHAIN = ("chain-1", "chain-2", "chain-3")

CANCELS = 20

BAR_MS = 50.0


async def cancel(plan: Plan) -> list[Row]:
    """Each time a new task: the first agent asks the second, which asks the third, which hangs."""
    say("cancel: down to a grandchild in a third process")
    taken = []
    async with servers(*CHAIN) as chain:
        client = AgentClient(url=f"grpc://{chain[0].target}")
        below = " ".join([*(f"grpc://{server.target}" for server in chain[1:]), "hang"])
        try:
            for number in range(plan.amount(CANCELS, 3) + 1):
                took = await _once(client, chain[-1], below)
                if number:  # the first one connects
                    taken.append(1e3 * took)
        finally:
            await close_channels()
    row = Row("cancel.grandchild", "ms until it hears", in_flight=1, value=median(taken), p50_ms=median(taken))
    row.p99_ms = max(taken)
    row.note = f"worst of {len(taken)}: {max(taken):.1f} ms"
    row.demand(f"median <= {BAR_MS:g} ms", median(taken), at_most=BAR_MS)
    row.demand(f"worst <= {BAR_MS:g} ms", max(taken), at_most=BAR_MS)
    return [row]


async def _once(client: AgentClient, last: Server, below: str) -> float:
    """Seconds from the call to the interruption."""
    before, _ = await last.chain()
    task = await client.submit_task(None, Task.create(below))
    while (await last.chain())[0] == before:
        await asyncio.sleep(0.002)
    began = time.monotonic()
    canceled = await client.cancel_task(None, task.id)
    if canceled.state is not TaskState.CANCELED:
        raise RuntimeError(f"the task is {canceled.state}")
    while (at := (await last.chain())[1]) < began:
        await asyncio.sleep(0.002)
    return at - began
