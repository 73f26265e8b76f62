"""Keep tasks in a file: after a restart they can be listed, and replayed from their first event."""

import asyncio
import tempfile
from pathlib import Path

from protolink_grpc import Agent, AgentClient, SQLiteStore, Task


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def calculator(path: Path) -> Agent:
    return Agent(name="calculator", url="grpc://127.0.0.1:0", tools=[add], store=SQLiteStore(path))


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "tasks.db")
        async with calculator(path) as agent:
            client = AgentClient(url=agent.card.url)
            for b in (2, 3):
                task = await client.send_task(None, Task.create_tool_call("add", {"a": 1, "b": b}))
                print(task.state, task.get_output())

        print("-- restart --")
        async with calculator(path) as agent:
            client = AgentClient(url=agent.card.url)
            found = await client.list_tasks(include_total=True)
            print(found.total_size, "tasks, newest first:", [summary.id == task.id for summary in found.tasks])
            async for event in client.subscribe(task.id):
                print(event.sequence, event.type)


if __name__ == "__main__":
    asyncio.run(main())
