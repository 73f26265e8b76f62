"""A process dies while a task is paused or waits, or between a retry and its run: nothing begins too early, and nothing twice."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import AgentClient, RunEvent, Task, TaskState
from protolink_grpc.models.task_control import TaskStatus

WAIT_S = 60.0

PROGRAM = """
    import asyncio, os, sys
    from protolink_grpc import Agent, AgentCard, Limits, SQLiteStore, current_run
    from protolink_grpc.llms.mock import ScriptedLLM

    handles = sys.argv[2] == "handler"

    async def main():
        card = AgentCard(name="clerk", description="clerk", url="grpc://127.0.0.1:0")
        limits = Limits(lease_ttl_s=0.6, max_concurrency=1)
        answers = [
            {"type": "tool_call", "tool": "step", "args": {"name": "first"}},
            {"type": "tool_call", "tool": "step", "args": {"name": "second"}},
            "all done",
        ]
        kind = Handling if handles else Agent
        agent = kind(card, store=SQLiteStore(sys.argv[1]), limits=limits, llm=None if handles else ScriptedLLM(answers))

        @agent.tool
        async def step(name: str) -> str:
            with open(sys.argv[3], "a") as done:
                print(name, file=done)
            while not os.path.exists(sys.argv[4]):
                await asyncio.sleep(0.01)  # the test opens the gate by a file
            if name == "fail":
                raise RuntimeError("no luck")
            return name

        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    class Handling(Agent):
        async def handle_task(self, task):
            word = task.messages[-1].text
            if word == "hold":
                await asyncio.Event().wait()
            for name in ("first", "fail" if word == "fail" and current_run().attempt == 1 else "second"):
                await current_run().progress(1)
                await current_run().call_tool("step", name=name)
            return task.complete("all done")

    asyncio.run(main())
"""

Launch = Callable[..., Awaitable[Any]]


class World:
    """Processes on one store, one after the other or side by side."""

    def __init__(self, launch: Launch, path: Path, kind: str) -> None:
        self._launch, self._path, self._kind = launch, path, kind
        self.done = path / "done.txt"
        self.done.touch()
        self.gate = path / "gate"

    async def begin(self) -> tuple[Any, AgentClient]:
        program = await self._launch(PROGRAM, self._path / "tasks.db", self._kind, self.done, self.gate)
        client = AgentClient(url=await program.line(), timeout=WAIT_S)
        await client.connect()
        return program, client

    @property
    def steps(self) -> list[str]:
        return self.done.read_text().split()


async def kill(program: Any) -> None:
    program.signal(signal.SIGKILL)
    await program.close()


async def until(client: AgentClient, task_id: str, kind: str, after: int = 0) -> RunEvent:
    async with asyncio.timeout(WAIT_S):
        async for event in client.subscribe(task_id, after=after):
            if event.type == kind:
                return event
    raise AssertionError(f"the task ended without {kind}")


async def ended(client: AgentClient, task_id: str) -> list[RunEvent]:
    async with asyncio.timeout(WAIT_S):
        return [event async for event in client.subscribe(task_id)]


@pytest.mark.parametrize("kind", ["model", "handler"])
async def test_a_task_that_was_paused_stays_paused_after_the_death_of_its_process(
    launch: Launch, tmp_path: Path, kind: str
) -> None:
    world = World(launch, tmp_path, kind)
    program, client = await world.begin()
    task_id = (await client.submit_task(None, Task.create("go"))).id
    await until(client, task_id, "action.started")
    assert (await client.tasks.pause(task_id)).status is TaskStatus.RUNNING
    world.gate.touch()
    paused = await until(client, task_id, "task.paused")
    assert world.steps == ["first"]
    await kill(program)
    _, client = await world.begin()
    begun = await until(client, task_id, "task.status", paused.sequence or 0)
    assert begun.payload.cause == "recovered"
    snapshot = await client.tasks.get(task_id)
    assert snapshot.status is TaskStatus.PAUSED
    assert world.steps == ["first"]
    await client.tasks.resume(task_id)
    events = await ended(client, task_id)
    assert (await client.get_task(task_id)).state is TaskState.COMPLETED
    assert world.steps == ["first", "second"]
    types = [event.type for event in events]
    assert (types.count("task.paused"), types.count("task.resumed")) == (1, 1)


@pytest.mark.parametrize("kind", ["model", "handler"])
async def test_a_recovered_retry_repeats_its_own_work_only_and_not_that_of_the_first_attempt(
    launch: Launch, tmp_path: Path, kind: str
) -> None:
    world = World(launch, tmp_path, kind)
    program, client = await world.begin()
    task_id = (await client.submit_task(None, Task.create("go"))).id
    await until(client, task_id, "action.started")
    assert (await client.cancel_task(None, task_id)).state is TaskState.CANCELED
    end = (await client.tasks.get(task_id)).sequence
    await client.tasks.retry(task_id)
    await until(client, task_id, "action.started", end)
    await client.tasks.pause(task_id)
    world.gate.touch()
    await until(client, task_id, "task.paused")
    await kill(program)
    _, client = await world.begin()
    await client.tasks.resume(task_id)
    await ended(client, task_id)
    task = await client.get_task(task_id)
    assert task.state is TaskState.COMPLETED
    assert [message.text for message in task.messages if message.role == "user"] == ["go"]
    assert world.steps == ["first", "first", "second"]


async def test_a_retry_whose_process_dies_before_its_run_begins_is_begun_once_by_another(
    launch: Launch, tmp_path: Path
) -> None:
    world = World(launch, tmp_path, "handler")
    world.gate.touch()
    program, client = await world.begin()
    task = await client.send_task(None, Task.create("fail"))
    assert task.state is TaskState.FAILED
    holds = await client.submit_task(None, Task.create("hold"))
    await until(client, holds.id, "task.status")
    snapshot = await client.tasks.retry(task.id)
    assert snapshot.status is TaskStatus.RETRYING
    await kill(program)
    _, client = await world.begin()
    events = await ended(client, task.id)
    assert (await client.get_task(task.id)).state is TaskState.COMPLETED
    assert world.steps == ["first", "fail", "first", "second"]
    assert [event.type for event in events].count("task.retried") == 1


async def test_a_task_is_paused_and_resumed_by_a_process_that_does_not_run_it(launch: Launch, tmp_path: Path) -> None:
    world = World(launch, tmp_path, "handler")
    world.gate.touch()
    (_, client), (_, other) = await world.begin(), await world.begin()
    holds = await client.submit_task(None, Task.create("hold"))
    await until(client, holds.id, "task.status")
    task = await client.submit_task(None, Task.create("go"))
    await other.tasks.pause(task.id)
    await other.cancel_task(None, holds.id)
    await until(other, task.id, "task.paused")
    assert world.steps == []
    await other.tasks.resume(task.id)
    await ended(client, task.id)
    assert world.steps == ["first", "second"]


async def test_a_resume_between_the_death_of_a_process_and_the_recovery_of_its_task_is_not_lost(
    launch: Launch, tmp_path: Path
) -> None:
    world = World(launch, tmp_path, "handler")
    (program, client), (_, other) = await world.begin(), await world.begin()
    task_id = (await client.submit_task(None, Task.create("go"))).id
    await until(client, task_id, "action.started")
    await client.tasks.pause(task_id)
    world.gate.touch()
    await until(client, task_id, "task.paused")
    program.signal(signal.SIGKILL)
    await other.tasks.resume(task_id)
    await ended(other, task_id)
    assert (await other.get_task(task_id)).state is TaskState.COMPLETED
    assert world.steps == ["first", "second"]


async def test_a_task_that_waited_for_a_slot_when_its_process_died_has_that_wait_once(
    launch: Launch, tmp_path: Path
) -> None:
    world = World(launch, tmp_path, "handler")
    program, client = await world.begin()
    holding = (await client.submit_task(None, Task.create("hold"))).id
    await until(client, holding, "task.status")
    waiting = (await client.submit_task(None, Task.create("go"))).id
    await until(client, waiting, "task.queued")
    await kill(program)
    world.gate.touch()
    _, client = await world.begin()
    events = await ended(client, waiting)
    assert [event.type for event in events][:3] == ["task.submitted", "task.queued", "task.status"]
    assert next(event.payload.cause for event in events if event.type == "task.status") == "recovered"
    assert [event.type for event in events].count("task.queued") == 1
    assert (await client.get_task(waiting)).state is TaskState.COMPLETED
