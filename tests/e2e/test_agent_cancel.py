"""Cancellation in each state of a task, over every transport, and from other processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentClient,
    CancellationToken,
    Limits,
    MemoryStore,
    Message,
    SQLiteStore,
    StopAt,
    Task,
    TaskFinishedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskState,
)
from protolink_grpc.storage.port import Append, RequestRecord, TaskStore

TRANSPORTS = ("grpc://127.0.0.1:0", "runtime://steered")


class Steered(Agent):
    """Does with each task what its first message says, and tells the test how far it is."""

    def __init__(self, url: str, store: TaskStore | None = None, *, max_concurrency: int = 8, **limits: Any) -> None:
        capabilities = AgentCapabilities(max_concurrency=max_concurrency)
        card = AgentCard(name="steered", description="does", url=url, capabilities=capabilities)
        super().__init__(card, store=store, limits=Limits(max_concurrency=max_concurrency, **limits), grace_s=0.0)
        self.begun: asyncio.Queue[CancellationToken] = asyncio.Queue()
        self.go = asyncio.Event()
        self.cleaned = asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        self.begun.put_nowait(self.get_cancellation_token(task.id))
        match task.messages[0].text:
            case "ask":
                return task.require_input(Message.agent("which?"))
            case "ignore":
                while not self.go.is_set():
                    try:
                        await self.go.wait()
                    except asyncio.CancelledError:
                        pass
                return task.complete("what was that?")
            case "object":
                try:
                    await self.go.wait()
                except asyncio.CancelledError:
                    raise ValueError("not now") from None
            case _:
                try:
                    await self.go.wait()
                finally:
                    self.cleaned.set()
        return task.complete("done")


@pytest.fixture(params=TRANSPORTS)
async def agent(request: pytest.FixtureRequest, store: TaskStore) -> AsyncIterator[Steered]:
    async with Steered(request.param, store) as running:
        yield running
        running.go.set()


@pytest.fixture
def client(agent: Steered) -> AgentClient:
    return AgentClient(url=agent.card.url)


async def types(client: AgentClient, task_id: str) -> list[str]:
    events = [event async for event in client.subscribe(task_id, stop_at=StopAt.CURRENT)]
    return [f"{event.type} {event.state}" if event.state else event.type for event in events]


async def test_a_running_task_is_interrupted_and_says_why(agent: Steered, client: AgentClient) -> None:
    task = await client.submit_task(None, Task.create("work"))
    token = await agent.begun.get()
    canceled = await client.cancel_task(None, task.id, reason="changed my mind")
    assert (canceled.state, canceled.metadata["cancel_reason"]) == (TaskState.CANCELED, "changed my mind")
    assert token.is_cancelled
    assert token.reason == "changed my mind"
    assert agent.cleaned.is_set()
    assert await types(client, task.id) == [
        "task.submitted submitted",
        "task.status working",
        "task.cancel_requested",
        "task.status canceled",
    ]
    assert agent.active_task_ids == []


async def test_a_stream_of_a_canceled_task_ends_with_the_cancellation(agent: Steered, client: AgentClient) -> None:
    task = Task.create("work")
    states = []
    async for event in client.send_task_streaming(None, task):
        states.append(event.state)
        if event.state is TaskState.WORKING:
            await client.cancel_task(None, task.id)
    assert states == [TaskState.SUBMITTED, TaskState.WORKING, None, TaskState.CANCELED]


async def test_the_waiting_sender_gets_the_canceled_task(agent: Steered, client: AgentClient) -> None:
    task = Task.create("work")
    sending = asyncio.create_task(client.send_task(None, task))
    await agent.begun.get()
    await client.cancel_task(None, task.id)
    assert (await sending).state is TaskState.CANCELED


async def test_a_task_that_waits_for_input_is_canceled_at_once(agent: Steered, client: AgentClient) -> None:
    asked = await client.send_task(None, Task.create("ask"))
    assert asked.state is TaskState.INPUT_REQUIRED
    assert (await client.cancel_task(None, asked.id)).state is TaskState.CANCELED
    asked.add_message(Message.user("this one"))
    with pytest.raises(TaskFinishedError):
        await client.send_task(None, asked)


async def test_canceling_twice_is_the_same_as_once(agent: Steered, client: AgentClient) -> None:
    task = await client.submit_task(None, Task.create("work"))
    await agent.begun.get()
    first = await client.cancel_task(None, task.id, reason="one")
    log = await types(client, task.id)
    second = await client.cancel_task(None, task.id, reason="two")
    assert first.state is second.state is TaskState.CANCELED
    assert second.metadata["cancel_reason"] == "one"
    assert await types(client, task.id) == log


async def test_many_cancels_at_once_end_the_task_once(agent: Steered, client: AgentClient) -> None:
    task = await client.submit_task(None, Task.create("work"))
    await agent.begun.get()
    answers = await asyncio.gather(*(client.cancel_task(None, task.id) for _ in range(20)))
    assert {answer.state for answer in answers} == {TaskState.CANCELED}
    assert (await types(client, task.id)).count("task.status canceled") == 1


async def test_a_finished_task_is_not_cancelable(agent: Steered, client: AgentClient) -> None:
    agent.go.set()
    task = await client.send_task(None, Task.create("work"))
    with pytest.raises(TaskNotCancelableError) as error:
        await client.cancel_task(None, task.id)
    assert error.value.metadata == {"task_id": task.id, "state": "completed"}
    assert (await client.get_task(task.id)).state is TaskState.COMPLETED


async def test_an_unknown_task_is_not_found(agent: Steered, client: AgentClient) -> None:
    with pytest.raises(TaskNotFoundError):
        await client.cancel_task(None, "no-such-task")


async def test_a_handler_that_turns_its_cancellation_into_an_error_ends_all_the_same(
    agent: Steered, client: AgentClient
) -> None:
    task = await client.submit_task(None, Task.create("object"))
    await agent.begun.get()
    ended = await client.cancel_task(None, task.id)
    assert ended.is_terminal
    assert (await types(client, task.id))[-1] == f"task.status {ended.state}"
    assert agent.active_task_ids == []


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_a_queued_task_is_canceled_without_having_begun(url: str, store: TaskStore) -> None:
    async with Steered(url, store, max_concurrency=1) as agent:
        client = AgentClient(url=agent.card.url)
        await client.submit_task(None, Task.create("work"))
        await agent.begun.get()
        queued = await client.submit_task(None, Task.create("work"))
        assert (await client.cancel_task(None, queued.id)).state is TaskState.CANCELED
        assert await types(client, queued.id) == [
            "task.submitted submitted",
            "task.queued",
            "task.cancel_requested",
            "task.status canceled",
        ]
        agent.go.set()
        assert agent.begun.empty()


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_a_handler_that_ignores_its_cancellation_does_not_hold_the_canceler(url: str, store: TaskStore) -> None:
    async with Steered(url, store, cancel_wait_s=0.05) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, Task.create("ignore"))
        token = await agent.begun.get()
        answer = await client.cancel_task(None, task.id, reason="stop it")
        # It still works, and every reader can see the request to stop.
        assert answer.state is TaskState.WORKING
        assert token.is_cancelled
        assert (await types(client, task.id))[-1] == "task.cancel_requested"
        agent.go.set()
        # What it did in spite of the cancellation does not count.
        ended = await client.wait_task(task.id)
        assert (ended.state, ended.metadata["cancel_reason"]) == (TaskState.CANCELED, "stop it")
        assert [message.text for message in ended.messages] == ["ignore"]


async def test_a_replica_cancels_what_another_one_runs(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    async with (
        Steered("grpc://127.0.0.1:0", SQLiteStore(path)) as runs,
        Steered("grpc://127.0.0.1:0", SQLiteStore(path)) as cancels,
    ):
        here, there = AgentClient(url=runs.card.url), AgentClient(url=cancels.card.url)
        task = await here.submit_task(None, Task.create("work"))
        await runs.begun.get()
        canceled = await there.cancel_task(None, task.id, reason="from elsewhere")
        assert (canceled.state, canceled.metadata["cancel_reason"]) == (TaskState.CANCELED, "from elsewhere")
        assert runs.cleaned.is_set()
        assert cancels.begun.empty()
        assert await types(here, task.id) == await types(there, task.id)


QUIET = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCard, AgentCapabilities, SQLiteStore

    class Quiet(Agent):
        async def handle_task(self, task):
            print("begun", flush=True)
            try:
                await asyncio.Event().wait()
            finally:
                print("interrupted", flush=True)

    async def main():
        card = AgentCard(name="steered", description="d", url="grpc://127.0.0.1:0",
                         capabilities=AgentCapabilities(max_concurrency=8))
        agent = Quiet(card, store=SQLiteStore(sys.argv[1]))
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_a_process_cancels_what_another_process_runs(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    path = tmp_path / "tasks.db"
    quiet = await launch(QUIET, path)
    here = AgentClient(url=await quiet.line())
    task = await here.submit_task(None, Task.create("work"))
    assert await quiet.line() == "begun"
    async with Steered("grpc://127.0.0.1:0", SQLiteStore(path)) as other:
        there = AgentClient(url=other.card.url)
        assert (await there.cancel_task(None, task.id)).state is TaskState.CANCELED
    assert await quiet.line() == "interrupted"
    assert (await here.get_task(task.id)).state is TaskState.CANCELED


async def test_a_replica_cancels_what_a_dead_process_had_begun(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    path = tmp_path / "tasks.db"
    quiet = await launch(QUIET, path)
    task = await AgentClient(url=await quiet.line()).submit_task(None, Task.create("work"))
    assert await quiet.line() == "begun"
    async with Steered("grpc://127.0.0.1:0", SQLiteStore(path), lease_ttl_s=0.3) as other:
        there = AgentClient(url=other.card.url)
        await quiet.kill()
        canceled = await there.cancel_task(None, task.id)
        # Whichever was first, the look after the dead or the cancel: it has ended.
        assert canceled.is_terminal


class LateStore(MemoryStore):
    """Keeps new tasks waiting before it takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def append(self, append: Append) -> RequestRecord | None:
        if not append.expected_sequence:
            self.asked.set()
            await self.go.wait()
        return await super().append(append)


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_a_child_that_its_agent_has_not_accepted_yet_is_canceled_when_it_has(url: str) -> None:
    class Asks(Agent):
        async def handle_task(self, task: Task) -> Task:
            return await self.call_agent(task.messages[0].text, Task.create("work"))

    late = LateStore()
    asks = Asks(AgentCard(name="asks", description="d", url="runtime://asks"))
    async with Steered(url, late) as child, asks:
        task = await AgentClient(url=asks.card.url).submit_task(None, Task.create(child.card.url))
        await late.asked.wait()
        assert (await asks.cancel_task(task.id, "changed my mind")).state is TaskState.CANCELED
        late.go.set()
        there = AgentClient(url=child.card.url)
        while not (known := (await there.list_tasks()).tasks):
            await asyncio.sleep(0)  # in one process, a question is answered without giving others their turn
        ended = await there.wait_task(known[0].id)
        assert (ended.state, ended.metadata["cancel_reason"]) == (TaskState.CANCELED, "changed my mind")


async def test_agent_cancel_task_steers_active_tasks_only() -> None:
    async with Steered("runtime://steered") as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, Task.create("work"))
        await agent.begun.get()
        assert agent.active_task_ids == [task.id]
        assert (await agent.cancel_task(task.id, "enough")).state is TaskState.CANCELED
        with pytest.raises(TaskNotFoundError):
            await agent.cancel_task(task.id)
        with pytest.raises(TaskNotFoundError):
            agent.get_cancellation_token(task.id)
