"""Tasks that wait for input, with handlers of both kinds: every caller sees the same log."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentClient,
    Artifact,
    Message,
    Part,
    RunEvent,
    StopAt,
    Task,
    TaskFinishedError,
    TaskProgress,
    TaskState,
    current_run,
)
from protolink_grpc.storage.port import TaskStore

TRANSPORTS = ("grpc://127.0.0.1:0", "runtime://booking")


class Booking(Agent):
    """Asks for the city, then for a password, then books."""

    async def handle_task(self, task: Task) -> Task:
        match len(task.messages):
            case 1:
                return task.require_input(Message.agent("which city?"))
            case 3:
                return task.require_auth(Message.agent("password?"))
            case _:
                task.add_artifact(Artifact(parts=[Part.json({"city": task.messages[2].text})]))
                return task.complete("booked")


class BookingAsItGoes(Booking):
    """The same as a generator."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        yield TaskProgress(50.0, f"turn {len(task.messages)}")
        yield await self.handle_task(task)


async def send(client: AgentClient, task: Task, how: str) -> tuple[Task, list[RunEvent]]:
    """One turn, unary or as a stream, and the task after it."""
    if how == "unary":
        return await client.send_task(None, task), []
    events = [event async for event in client.send_task_streaming(None, task)]
    return await client.get_task(task.id), events


@pytest.mark.parametrize("url", TRANSPORTS)
@pytest.mark.parametrize("kind", [Booking, BookingAsItGoes])
@pytest.mark.parametrize("turns", [("unary",) * 3, ("stream",) * 3, ("unary", "stream", "unary")], ids="-".join)
async def test_a_task_that_asks_is_continued_by_further_messages(
    url: str, kind: type[Agent], turns: tuple[str, ...], store: TaskStore
) -> None:
    async with kind(name="booking", description="books", url=url, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        states, streamed = [], []
        task = Task.create("book a room")
        for how, answer in zip(turns, ("Athens", "swordfish", None), strict=True):
            task, events = await send(client, task, how)
            states.append(task.state)
            streamed += events
            if answer is not None:
                task.add_message(Message.user(answer))
        assert states == [TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED, TaskState.COMPLETED]
        said = [message.text for message in task.messages]
        assert said == ["book a room", "which city?", "Athens", "password?", "swordfish", "booked"]
        assert [artifact.parts[0].content for artifact in task.artifacts] == [{"city": "Athens"}]
        # Three runs, one log; what was streamed is what is stored.
        log = [event async for event in client.subscribe(task.id)]
        assert [event.sequence for event in log] == list(range(1, len(log) + 1))
        assert len({event.run_id for event in log}) == 3
        assert [event.payload.attempt for event in log if event.state is TaskState.WORKING] == [1, 2, 3]
        if turns == ("stream",) * 3:
            assert streamed == log


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_a_subscription_sees_every_turn_and_ends_with_the_task(url: str, store: TaskStore) -> None:
    async with Booking(name="booking", description="books", url=url, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create("book"))
        watching = asyncio.create_task(collect(client.subscribe(task.id)))
        first_turn = await collect(client.subscribe(task.id, stop_at=StopAt.INTERRUPTED))
        assert first_turn[-1].state is TaskState.INPUT_REQUIRED
        for answer in ("Athens", "swordfish"):
            task.add_message(Message.user(answer))
            task = await client.send_task(None, task)
        seen = await watching
        assert seen[: len(first_turn)] == first_turn
        assert [event.state for event in seen if event.state is not None] == [
            TaskState.SUBMITTED,
            *[TaskState.WORKING, TaskState.INPUT_REQUIRED],
            *[TaskState.WORKING, TaskState.AUTH_REQUIRED],
            *[TaskState.WORKING, TaskState.COMPLETED],
        ]


@pytest.mark.parametrize("url", TRANSPORTS)
async def test_a_finished_conversation_takes_no_further_message(url: str) -> None:
    class Content(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete("fine")

    async with Content(name="content", description="is content", url=url.replace("booking", "content")) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create("hello"))
        task.add_message(Message.user("and?"))
        with pytest.raises(TaskFinishedError):
            await client.send_task(None, task)
        with pytest.raises(TaskFinishedError):
            await collect(client.send_task_streaming(None, task))


async def test_a_continuation_survives_a_restart_of_the_agent(tmp_path: Any) -> None:
    from protolink_grpc import SQLiteStore

    async with Booking(
        name="booking", description="d", url="grpc://127.0.0.1:0", store=SQLiteStore(tmp_path / "t")
    ) as a:
        task = await AgentClient(url=a.card.url).send_task(None, Task.create("book"))
    task.add_message(Message.user("Athens"))
    async with Booking(
        name="booking", description="d", url="grpc://127.0.0.1:0", store=SQLiteStore(tmp_path / "t")
    ) as b:
        client = AgentClient(url=b.card.url)
        assert (await client.get_task(task.id)).state is TaskState.INPUT_REQUIRED
        assert (await client.send_task(None, task)).state is TaskState.AUTH_REQUIRED


class Custom(Agent):
    """A handler with everything that a handler may do."""

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        await run.progress(10.0, "begun")
        await run.message(Message.agent("thinking"))
        await run.artifact(Artifact("draft", parts=[Part.text("half")]))
        await run.artifact(Artifact("draft", parts=[Part.text(" done")]), append=True, last_chunk=True)
        await run.emit({"mood": "good"})
        task.metadata["score"] = 7
        task.add_artifact(Artifact("final", parts=[Part.text("whole")]))
        return task.complete("done")


class CustomAsItGoes(Agent):
    """The same as a generator."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        run = current_run()
        assert run is not None
        yield TaskProgress(10.0, "begun")
        yield Message.agent("thinking")
        yield Artifact("draft", parts=[Part.text("half")])
        await run.artifact(Artifact("draft", parts=[Part.text(" done")]), append=True, last_chunk=True)
        yield {"mood": "good"}
        task.metadata["score"] = 7
        task.add_artifact(Artifact("final", parts=[Part.text("whole")]))
        task.complete("done")


CUSTOM_LOG = [
    "task.submitted",
    "task.status",
    "task.progress",
    "task.message",
    "task.artifact",
    "task.artifact",
    "custom",
    "task.artifact",
    "task.message",
    "task.patched",
    "task.status",
]


@pytest.mark.parametrize("url", TRANSPORTS)
@pytest.mark.parametrize("kind", [Custom, CustomAsItGoes])
async def test_a_custom_handler_is_the_same_unary_streamed_and_resubscribed(
    url: str, kind: type[Agent], store: TaskStore
) -> None:
    async with kind(name="booking", description="does", url=url, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        unary = await client.send_task(None, Task.create("go"))
        streamed_task = Task.create("go")
        streamed = await collect(client.send_task_streaming(None, streamed_task))
        for task_id in (unary.id, streamed_task.id):
            log = await collect(client.subscribe(task_id))
            assert [event.type for event in log] == CUSTOM_LOG
            for after in range(1, len(log)):
                assert await collect(client.subscribe(task_id, after=after)) == log[after:]
            task = await client.get_task(task_id)
            assert [message.text for message in task.messages] == ["go", "thinking", "done"]
            found = {artifact.id: [part.content for part in artifact.parts] for artifact in task.artifacts}
            assert found == {"draft": ["half", " done"], "final": ["whole"]}
            assert task.metadata["score"] == 7
            assert task.state is TaskState.COMPLETED
        assert streamed == await collect(client.subscribe(streamed_task.id))
        assert unary.to_dict() == (await client.get_task(unary.id)).to_dict()


async def collect(events: AsyncIterator[RunEvent]) -> list[RunEvent]:
    return [event async for event in events]
