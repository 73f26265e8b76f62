"""An agent that does what the text of a message says, with an HTTP port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from protolink_grpc import Agent, AgentCard, HttpOptions, Task
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.part import Part

CARD = AgentCard(name="scripted", description="Does what it is told", url="runtime://scripted")


class Scripted(Agent):
    """Says what it is told, counts, waits, or breaks."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        verb, _, rest = task.messages[-1].text.partition(" ")
        match verb:
            case "count":
                for number in range(int(rest)):
                    yield Artifact(parts=[Part.text(str(number + 1))])
                task.complete("counted")
            case "wait":
                await asyncio.Event().wait()
            case "break":
                raise RuntimeError(rest)
            case _:
                task.complete(rest)


@asynccontextmanager
async def serving(http: HttpOptions | None = None, **options: Any) -> AsyncIterator[Scripted]:
    """A running agent."""
    agent = Scripted(CARD, http=http or HttpOptions(), **options)
    await agent.serve()
    try:
        yield agent
    finally:
        await agent.aclose(0)  # some tests leave tasks that wait for ever
