"""Pauses and retries over every way to reach an agent of this package, with every store, for each kind of handler."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    InvalidTransitionError,
    MemoryStore,
    Message,
    RunEvent,
    SQLiteStore,
    Task,
    TaskFinishedError,
    TaskNotFoundError,
    TaskState,
    current_run,
)
from protolink_grpc.client.channel import close_channels
from protolink_grpc.client.http_channel import close_http_channels
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.task_control import TaskStatus
from protolink_grpc.models.watch import StopAt

WAIT_S = 20.0


class Clerk(Agent):
    """`work` calls the tool `step` twice, in the way that the test chooses; `ask` asks a question; `fail` fails its first run."""

    def __init__(self, card: AgentCard, **more: Any) -> None:
        super().__init__(card, grace_s=0.1, **more)
        self.works = asyncio.Event()
        self.may_go = asyncio.Event()
        self.steps: list[str] = []

    async def handle_task(self, task: Task) -> Task:
        word = task.messages[-1].text
        run = current_run()
        assert run is not None
        if word == "ask":
            return task.require_input(Message.agent("which?"))
        await run.call_tool("step", name="first")
        if word == "fail" and run.attempt == 1:
            return task.fail("no luck")
        await run.call_tool("step", name="second")
        return task.complete("done")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | SQLiteStore:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "tasks.db")


@pytest.fixture(params=["grpc", "grpc-web", "runtime"])
async def clerk(request: pytest.FixtureRequest, store: MemoryStore | SQLiteStore) -> AsyncIterator[Clerk]:
    name = f"clerk-{new_uuid()}"
    urls = {"grpc": "grpc://127.0.0.1:0", "grpc-web": "http://127.0.0.1:0"}
    url = urls.get(request.param, f"runtime://{name}")
    agent = Clerk(AgentCard(name=name, description="does as told", url=url), store=store)

    @agent.tool
    async def step(name: str) -> str:
        agent.steps.append(name)
        agent.works.set()
        await agent.may_go.wait()
        return name

    await agent.serve()
    yield agent
    agent.may_go.set()
    await agent.aclose()
    await close_channels()
    await close_http_channels()


@pytest.fixture
def client(clerk: Clerk) -> AgentClient:
    return AgentClient(url=clerk.card.url, timeout=WAIT_S)


async def until(client: AgentClient, task_id: str, kind: str) -> None:
    """Wait until the log has an event of a type."""
    async with asyncio.timeout(WAIT_S):
        events: AsyncGenerator[RunEvent, None] = client.subscribe(task_id)
        try:
            async for event in events:
                if event.type == kind:
                    return
        finally:
            await events.aclose()
    raise AssertionError(f"the task ended without {kind}")


async def ended(client: AgentClient, task_id: str) -> Task:
    async with asyncio.timeout(WAIT_S):
        async for _ in client.subscribe(task_id):
            pass
        return await client.get_task(task_id)


async def test_a_task_pauses_before_its_next_action_until_it_is_resumed(clerk: Clerk, client: AgentClient) -> None:
    task = await client.submit_task(None, Task.create("work"))
    await clerk.works.wait()
    asked = await client.tasks.pause(task.id, reason="lunch")
    assert asked.status is TaskStatus.RUNNING
    clerk.may_go.set()
    await until(client, task.id, "task.paused")
    assert (await client.tasks.get(task.id)).status is TaskStatus.PAUSED
    assert (await client.tasks.pause(task.id)).sequence == (await client.tasks.get(task.id)).sequence
    assert clerk.steps == ["first"]
    await client.tasks.resume(task.id)
    assert (await ended(client, task.id)).state is TaskState.COMPLETED
    assert clerk.steps == ["first", "second"]


async def test_a_failed_task_is_retried_with_its_own_input(clerk: Clerk, client: AgentClient) -> None:
    clerk.may_go.set()
    task = await client.send_task(None, Task.create("fail"))
    assert task.state is TaskState.FAILED
    first = [event async for event in client.subscribe(task.id)]
    (snapshot, again) = await asyncio.gather(*(client.tasks.retry(task.id, request_id="r") for _ in range(2)))
    assert snapshot.task_id == again.task_id == task.id
    after = await ended(client, task.id)
    assert after.state is TaskState.COMPLETED
    assert [message.text for message in after.messages] == ["fail", "done"]
    assert clerk.steps == ["first", "first", "second"]
    whole = [event async for event in client.subscribe(task.id)]
    assert [event.sequence for event in whole[: len(first)]] == [event.sequence for event in first]
    assert [event.sequence for event in whole] == list(range(1, len(whole) + 1))
    assert sum(event.type == "task.retried" for event in whole) == 1
    tail = [event async for event in client.subscribe(task.id, after=len(first))]
    assert [event.sequence for event in tail] == [event.sequence for event in whole[len(first) :]]
    current = [event async for event in client.subscribe(task.id, stop_at=StopAt.CURRENT)]
    assert len(current) == len(whole)


async def test_what_cannot_be_paused_or_retried_is_refused(clerk: Clerk, client: AgentClient) -> None:
    clerk.may_go.set()
    asks = await client.send_task(None, Task.create("ask"))
    done = await client.send_task(None, Task.create("work"))
    draft = (await client.tasks.create(Task.create("work"))).task_id
    with pytest.raises(InvalidTransitionError):
        await client.tasks.pause(asks.id)
    with pytest.raises(InvalidTransitionError):
        await client.tasks.pause(draft)
    with pytest.raises(TaskFinishedError):
        await client.tasks.pause(done.id)
    with pytest.raises(TaskFinishedError):
        await client.tasks.resume(done.id)
    for task_id in (asks.id, draft):
        with pytest.raises(InvalidTransitionError):
            await client.tasks.retry(task_id)
    for call in (client.tasks.pause, client.tasks.resume, client.tasks.retry):
        with pytest.raises(TaskNotFoundError):
            await call("unknown")


async def test_a_retry_is_a_turn_of_the_thread_of_its_task(clerk: Clerk, client: AgentClient) -> None:
    clerk.may_go.set()
    session = await client.sessions.create()
    await client.sessions.start_thread(session.session_id, thread_id="side")
    turn = await client.sessions.submit(session.session_id, "fail", thread_id="side")
    assert (await ended(client, turn.task_id)).state is TaskState.FAILED
    await client.tasks.retry(turn.task_id)
    assert (await ended(client, turn.task_id)).state is TaskState.COMPLETED
    turns = (await client.sessions.get(session.session_id)).turns
    assert [(each.task_id, each.thread_id, str(each.result)) for each in turns] == [
        (turn.task_id, "side", "failed"),
        (turn.task_id, "side", "completed"),
    ]


async def test_a_queued_turn_is_paused_when_it_begins(clerk: Clerk, client: AgentClient) -> None:
    session = await client.sessions.create()
    first = await client.sessions.submit(session.session_id, "work")
    queued = await client.sessions.submit(session.session_id, "work")
    await clerk.works.wait()
    assert (await client.tasks.pause(queued.task_id)).status is TaskStatus.QUEUED
    clerk.may_go.set()
    assert (await ended(client, first.task_id)).state is TaskState.COMPLETED
    await until(client, queued.task_id, "task.paused")
    assert clerk.steps == ["first", "second"]
    await client.tasks.resume(queued.task_id)
    assert (await ended(client, queued.task_id)).state is TaskState.COMPLETED


async def test_two_resumes_of_a_thread_at_once_end_its_pause_once(clerk: Clerk, client: AgentClient) -> None:
    session = await client.sessions.create()
    turn = await client.sessions.submit(session.session_id, "work")
    await clerk.works.wait()
    await client.tasks.pause(turn.task_id)
    clerk.may_go.set()
    await until(client, turn.task_id, "task.paused")
    found = await asyncio.gather(*(client.sessions.resume(session.session_id) for _ in range(4)))
    assert sum(len(each.resumed) for each in found) == 1
    assert (await ended(client, turn.task_id)).state is TaskState.COMPLETED
