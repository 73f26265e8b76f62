"""Recovery of the tasks of a dead process at the start of an agent."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    Limits,
    SQLiteStore,
    StopAt,
    Task,
    TaskState,
)

LEFT = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCard, Limits, Message, SQLiteStore, TaskProgress, current_run

    class Left(Agent):
        async def handle_task(self, task):
            if task.messages[0].text == "ask":
                return task.require_input(Message.agent("which?"))
            if task.messages[0].text == "finish":
                return task.complete("done")
            await current_run().progress(50, "half way")
            await current_run().flush()
            print("half way", flush=True)
            await asyncio.Event().wait()

    async def main():
        card = AgentCard(name="left", description="d", url="grpc://127.0.0.1:0")
        agent = Left(card, store=SQLiteStore(sys.argv[1]), limits=Limits(max_concurrency=1))
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


class Successor(Agent):
    """Finishes what it gets, when it is let."""

    def __init__(self, path: Path, **options: Any) -> None:
        card = AgentCard(name="left", description="d", url="grpc://127.0.0.1:0")
        super().__init__(card, store=SQLiteStore(path), **options)
        self.begun: list[str] = []
        self.go = asyncio.Event()
        self.go.set()

    async def handle_task(self, task: Task) -> Task:
        self.begun.append(task.messages[0].text)
        await self.go.wait()
        return task.complete("done by the successor")


class Remains:
    """What the dead process left: one task of each kind."""

    def __init__(self, path: Path, working: Task, queued: Task, asking: Task, finished: Task) -> None:
        self.path = path
        self.working, self.queued, self.asking, self.finished = working, queued, asking, finished


@pytest.fixture
async def remains(tmp_path: Path, launch: Callable[..., Awaitable[Any]]) -> Remains:
    path = tmp_path / "tasks.db"
    program = await launch(LEFT, path)
    client = AgentClient(url=await program.line())
    finished = await client.send_task(None, Task.create("finish"))
    asking = await client.send_task(None, Task.create("ask"))
    working = await client.submit_task(None, Task.create("work"))
    assert await program.line() == "half way"
    queued = await client.submit_task(None, Task.create("wait"))
    await program.kill()
    return Remains(path, working, queued, asking, finished)


async def test_the_policy_lost_fails_a_begun_run_and_says_why(remains: Remains) -> None:
    async with Successor(remains.path) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.get_task(remains.working.id)
        assert task.state is TaskState.FAILED
        assert task.metadata["error"] == (
            "run lost: the process that worked on this task ended before the task was done"
        )
        # What it had reported is kept.
        log = [event async for event in client.subscribe(task.id)]
        assert [event.type for event in log] == ["task.submitted", "task.status", "task.progress", "task.status"]
        assert "work" not in agent.begun


async def test_the_policy_resume_begins_a_new_run_in_the_same_log(remains: Remains) -> None:
    async with Successor(remains.path, recovery="resume") as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.wait_task(remains.working.id)
        assert (task.state, task.messages[-1].text) == (TaskState.COMPLETED, "done by the successor")
        log = [event async for event in client.subscribe(task.id)]
        assert [event.sequence for event in log] == list(range(1, len(log) + 1))
        begun = [event for event in log if event.state is TaskState.WORKING]
        assert [event.payload.attempt for event in begun] == [1, 2]
        assert begun[1].payload.cause == "recovered"
        assert begun[0].run_id != begun[1].run_id
        assert log[2].type == "task.progress"


@pytest.mark.parametrize("policy", ["lost", "resume"])
async def test_a_task_that_had_not_begun_is_run_whatever_the_policy(remains: Remains, policy: Any) -> None:
    async with Successor(remains.path, recovery=policy) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.wait_task(remains.queued.id)
        assert (task.state, task.messages[-1].text) == (TaskState.COMPLETED, "done by the successor")
        log = [event async for event in client.subscribe(task.id)]
        assert [event.payload.attempt for event in log if event.state is TaskState.WORKING] == [1]


@pytest.mark.parametrize("policy", ["lost", "resume"])
async def test_what_waits_or_has_ended_is_left_alone(remains: Remains, policy: Any) -> None:
    async with Successor(remains.path, recovery=policy) as agent:
        client = AgentClient(url=agent.card.url)
        for before in (remains.asking, remains.finished):
            assert (await client.get_task(before.id)).to_dict() == before.to_dict()


async def test_recovered_runs_keep_to_max_concurrency_and_are_not_refused_by_a_full_queue(remains: Remains) -> None:
    agent = Successor(remains.path, recovery="resume", limits=Limits(max_concurrency=1, max_queue=0))
    agent.go.clear()
    async with agent:
        client = AgentClient(url=agent.card.url)
        log = client.subscribe(remains.working.id)
        async for event in log:
            if event.payload is not None and getattr(event.payload, "attempt", 0) == 2:
                break
        assert len(agent.begun) == 1
        agent.go.set()
        for task_id in (remains.working.id, remains.queued.id):
            assert (await client.wait_task(task_id)).state is TaskState.COMPLETED
        assert sorted(agent.begun) == ["wait", "work"]


async def test_a_wish_to_cancel_outlives_the_process(tmp_path: Path, launch: Callable[..., Awaitable[Any]]) -> None:
    stubborn = LEFT.replace("await asyncio.Event().wait()\n\n    async def main", STUBBORN, 1)
    program = await launch(stubborn, tmp_path / "tasks.db")
    client = AgentClient(url=await program.line(), outage_s=0)
    task = await client.submit_task(None, Task.create("work"))
    assert await program.line() == "half way"
    canceling = asyncio.create_task(client.cancel_task(None, task.id, reason="enough"))
    async for event in client.subscribe(task.id):
        if event.type == "task.cancel_requested":
            break
    await program.kill()
    await asyncio.wait([canceling])
    assert canceling.exception() is not None
    async with Successor(tmp_path / "tasks.db", recovery="resume") as agent:
        again = await AgentClient(url=agent.card.url).get_task(task.id)
        assert (again.state, again.metadata["cancel_reason"]) == (TaskState.CANCELED, "enough")
        assert agent.begun == []


STUBBORN = """while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass

    async def main"""


async def test_two_successors_take_each_task_once(remains: Remains) -> None:
    first, second = (Successor(remains.path, recovery="resume") for _ in range(2))
    await asyncio.gather(first.serve(), second.serve())
    client = AgentClient(url=first.card.url)
    for task_id in (remains.working.id, remains.queued.id):
        assert (await client.wait_task(task_id)).state is TaskState.COMPLETED
        log = [event async for event in client.subscribe(task_id, stop_at=StopAt.CURRENT)]
        assert len([event for event in log if event.state is TaskState.COMPLETED]) == 1
        assert [event.payload.cause for event in log if event.state is TaskState.WORKING].count("recovered") == 1
    await first.aclose()
    await second.aclose()
