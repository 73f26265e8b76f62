"""An agent that serves a user's own service and dies at a given length of a log; `test_service_crashes` runs it as a process.

Arguments: the folder of the store, the length of the log at which the process dies (0 for never), and the agent's recovery. It
prints its URL. The file `calls` has a line for each time that a tool ran.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from mortal_agent import Mortal
from orders_world import pb, pb_grpc

from protolink_grpc import Agent, Approvals, CapabilityPolicy, current_run


class Shop(pb_grpc.OrdersServicer):  # type: ignore[misc]  # generated at run time
    """Charges and ships by tools of the agent. An order of `caviar` needs an approval."""

    async def Place(self, request: Any, context: Any) -> Any:
        run = current_run()
        assert run is not None
        tool = "charge_much" if request.item == "caviar" else "charge"
        receipt = await run.call_tool(tool, item=request.item)
        context.set_trailing_metadata((("x-attempt", str(run.attempt)),))
        return pb.PlaceResponse(order=receipt)

    async def Follow(self, request: Any, context: Any) -> AsyncIterator[Any]:
        run = current_run()
        assert run is not None
        for step in range(1, request.steps + 1):
            yield pb.FollowResponse(step=step, text=await run.call_tool("charge", item=str(step)))
            await run.flush()


def make_agent(folder: Path, dies_at: int, recovery: Any) -> Agent:
    agent = Agent(
        "shop",
        url="grpc://127.0.0.1:0",
        store=Mortal(folder / "tasks.db", dies_at),
        services=[Shop()],
        recovery=recovery,
        policy=CapabilityPolicy({"payments.write": "require_approval"}),
        approvals=Approvals(),
        grace_s=0,
    )

    def note(item: str) -> str:
        with (folder / "calls").open("a") as calls:
            calls.write(f"{item}\n")
        return f"paid {item}"

    @agent.tool(idempotent=True)
    async def charge(item: str) -> str:
        """Charge for an item."""
        return note(item)

    @agent.tool(capabilities=["payments.write"])
    async def charge_much(item: str) -> str:
        """Charge for an expensive item."""
        return note(item)

    return agent


async def main(folder: Path, dies_at: int, recovery: str) -> None:
    async with make_agent(folder, dies_at, recovery) as agent:
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
