"""An agent with a typed service that dies at a given length of its log: `test_typed_crashes` runs this file as a process.

Arguments: the folder of the store, the length of the log at which the process dies, 0 for never, and its port, by default any. It
prints its URL.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from mortal_agent import Mortal

from protolink_grpc import Agent, AgentCard


def make_agent(folder: Path, dies_at: int, port: int = 0) -> Agent:
    card = AgentCard(name="counter", description="Counts its calls.", url=f"grpc://127.0.0.1:{port}")
    agent = Agent(card, typed="acme.counter.v1", store=Mortal(folder / "tasks.db", dies_at))

    def note(line: str) -> None:
        with (folder / "calls").open("a") as calls:
            calls.write(f"{line}\n")

    @agent.tool(idempotent=True)
    def count(step: int) -> int:
        """Count one call."""
        note(str(step))
        return step * 2

    @agent.tool(idempotent=True)
    async def walk(steps: int) -> AsyncIterator[int]:
        """Count one call, and yield its steps."""
        note(f"walk {steps}")
        for step in range(steps):
            yield step

    @agent.tool
    async def jump(steps: int) -> AsyncIterator[int]:
        """As `walk`, but with effects that must not be repeated."""
        note(f"jump {steps}")
        for step in range(steps):
            yield step

    return agent


async def main(folder: Path, dies_at: int, port: int = 0) -> None:
    async with make_agent(folder, dies_at, port) as agent:
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
