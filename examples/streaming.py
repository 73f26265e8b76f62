"""Report progress, stream it live, lose the connection, and resume the stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from protolink_grpc import Agent, AgentClient, Artifact, Part, RunEvent, Task, TaskProgress


class Baker(Agent):
    async def handle_task_streaming(self, task: Task) -> AsyncIterator[TaskProgress | Artifact]:
        for percent, step in ((0, "mix"), (30, "knead"), (60, "bake")):
            yield TaskProgress(percent, step)
        yield Artifact(name="bread", parts=[Part.text("one loaf")])
        task.complete("Enjoy.")


def show(event: RunEvent) -> None:
    progress = event.payload
    print(event.sequence, event.type, progress.message if isinstance(progress, TaskProgress) else event.state or "")


async def main() -> None:
    async with Baker(name="baker", url="grpc://127.0.0.1:0") as baker:
        client, task = AgentClient(url=baker.card.url), Task.create("Bake a loaf of bread.")
        seen = 0
        async with aclosing(client.send_task_streaming(None, task)) as events:
            async for event in events:
                show(event)
                seen = event.sequence or seen
                if seen == 4:
                    break  # The connection is closed. The run continues, because it belongs to the agent and not to the call.
        print("-- cut --")
        async for event in client.subscribe(task.id, after=seen):
            show(event)


if __name__ == "__main__":
    asyncio.run(main())
