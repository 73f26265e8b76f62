"""A subscriber that reads nothing while 50,000 events are written delays no one, and gets all events when it reads."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
from plgrpc.v1 import agent_service_pb2 as pb

from protolink_grpc import AgentClient, Task, TaskState
from protolink_grpc.models.ids import new_task_id

EVENTS = 50_000
SILENCE_S = float(os.environ.get("PLGRPC_SILENCE_S", "2"))
"""How long the reader is silent at least; it is silent until the writer has finished in any case."""

MIB = 1 << 20
EVENT_BYTES = 1000
MAX_GROWTH_BYTES = 20 * MIB
"""The events alone are 48 MiB: a server that kept them for its reader could not stay below this."""

WRITER = """
    import asyncio, sys, time
    from protolink_grpc import Agent, AgentCard, AgentCapabilities, SQLiteStore, TaskProgress, current_run

    class Writer(Agent):
        async def handle_task_streaming(self, task):
            count, size = map(int, task.messages[0].text.split())
            message = "x" * size
            started = time.perf_counter()
            for step in range(count):
                yield TaskProgress(None, message)
            await current_run().flush()
            task.complete(str(time.perf_counter() - started))

    async def main():
        card = AgentCard(name="writer", description="writes", url="grpc://127.0.0.1:0",
                         capabilities=AgentCapabilities(max_concurrency=4))
        agent = Writer(card, store=SQLiteStore(sys.argv[1]))
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


@dataclass
class Measured:
    """One pair of runs: seconds that the writer took alone and with a silent reader, and what the server grew by meanwhile."""

    alone_s: float
    watched_s: float
    growth_bytes: int


class Writer:
    """A server in a process of its own that writes events on demand."""

    def __init__(self, url: str, pid: int, stub: Any) -> None:
        self.client = AgentClient(url=url)
        self.stub = stub
        self.memory = psutil.Process(pid).memory_info

    async def begin(self) -> Task:
        """A task that writes; its id names the request too."""
        task = Task(new_task_id(), messages=Task.create(f"{EVENTS} {EVENT_BYTES}").messages)
        await self.client.submit_task(None, task, request_id=task.id)
        return task

    async def end(self, task: Task) -> float:
        """Seconds that the writer took, by its own clock."""
        done = await self.client.send_task(None, task, request_id=task.id)
        assert done.state is TaskState.COMPLETED
        return float(done.messages[-1].text)

    async def measure(self) -> Measured:
        alone_s = await self.end(await self.begin())
        before = self.memory().rss
        task = await self.begin()
        silent = self.stub.SubscribeTask(pb.SubscribeTaskRequest(task_id=task.id))
        # Headers come with the first events: the server has begun to send, and the client does not read.
        await silent.initial_metadata()
        quiet_until = asyncio.get_running_loop().time() + SILENCE_S
        watched_s = await self.end(task)
        await asyncio.sleep(quiet_until - asyncio.get_running_loop().time())
        growth_bytes = self.memory().rss - before
        await self.read_all(silent)
        return Measured(alone_s, watched_s, growth_bytes)

    async def read_all(self, call: Any) -> None:
        last = 0
        async for response in call:
            for event in response.events:
                last += 1
                assert event.sequence == last
                assert event.event_type != "task.progress" or len(event.task_progress.message) == EVENT_BYTES
        # Submitted, begun, the events, the answer, the end.
        assert last == EVENTS + 4
        assert event.last


@pytest.mark.timeout(600)
async def test_a_silent_reader_costs_the_writer_nothing_and_misses_nothing(
    tmp_path: Any, launch: Callable[..., Awaitable[Any]], stub: Callable[[str], Any]
) -> None:
    program = await launch(WRITER, tmp_path / "tasks.db")
    url = await program.line()
    writer = Writer(url, program.pid, stub(url))
    # A busy machine may slow one of two runs by chance; it does not do so three times in a row.
    for _ in range(3):
        measured = await writer.measure()
        assert measured.growth_bytes < MAX_GROWTH_BYTES
        if measured.watched_s < 1.5 * measured.alone_s + 0.5:
            break
    else:
        pytest.fail(
            f"the writer took {measured.watched_s:.1f} s with a silent reader, {measured.alone_s:.1f} s without"
        )
