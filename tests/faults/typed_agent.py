"""An agent with a typed service that dies at a given length of its log: `test_typed_crashes` runs this file as a process.

Arguments: the folder of the store, and the length of the log at which the process dies, 0 for never. It prints its URL.
"""

import asyncio
import sys
from pathlib import Path

from mortal_agent import Mortal

from protolink_grpc import Agent, AgentCard


def make_agent(folder: Path, dies_at: int) -> Agent:
    card = AgentCard(name="counter", description="Counts its calls.", url="grpc://127.0.0.1:0")
    agent = Agent(card, typed="acme.counter.v1", store=Mortal(folder / "tasks.db", dies_at))

    @agent.tool(idempotent=True)
    def count(step: int) -> int:
        """Count one call."""
        with (folder / "calls").open("a") as calls:
            calls.write(f"{step}\n")
        return step * 2

    return agent


async def main(folder: Path, dies_at: int) -> None:
    async with make_agent(folder, dies_at) as agent:
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
