"""A run that waits for a slot has that in its log, in the append of its opening facts; one that gets a slot at once has not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from protolink_grpc.models.events import RunEvent, TaskQueued
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.session import TurnState
from protolink_grpc.models.snapshot import ThreadStatus
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import LinkKind, TaskLink, TaskStatus
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.sqlite.store import SQLiteStore
from protolink_grpc.wire.events import event_from_frame

PATIENCE_S = 20.0


class Desk:
    """A service with one slot. `hold` waits for `gate`, `ask` asks a question."""

    def __init__(self, store: TaskStore) -> None:
        self.gate = asyncio.Event()
        self.service = TaskService("desk", store, self.handle, limits=Limits(max_concurrency=1))

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        if text == "hold":
            await self.gate.wait()
        return task.require_input(Message.agent("what?")) if text == "ask" else task.complete("done")

    async def submit(self, text: str, task_id: str = "") -> AcceptedTurn:
        target = TaskTarget.CONTINUE if task_id else TaskTarget.CREATE
        submission = Submission.of(Task.create(text))
        submission.task_id, submission.target = task_id, target
        return await self.service.submit(submission, "ann")

    async def hold(self) -> None:
        """Take the only slot."""
        turn = await self.submit("hold")
        while (await self.service.get(turn.task_id, "ann")).state is not TaskState.WORKING:
            await self.service.store.wait(turn.task_id, 1)

    async def end(self, turn: AcceptedTurn) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.service.settled(turn)

    async def events(self, task_id: str, after: int = 0) -> list[RunEvent]:
        return [event_from_frame(frame) for frame in await self.service.read_log(task_id, after, 100)]

    async def types(self, task_id: str, after: int = 0) -> list[str]:
        return [event.type for event in await self.events(task_id, after)]

    async def until(self, task_id: str, kind: str) -> list[str]:
        """The types of the log's events when it has one of this type."""
        async with asyncio.timeout(PATIENCE_S):
            while kind not in (found := await self.types(task_id)):
                await self.service.store.wait(task_id, len(found))
        return found


@pytest.fixture
async def desk(store: TaskStore) -> AsyncIterator[Desk]:
    desk = Desk(store)
    await desk.service.start()
    yield desk
    desk.gate.set()
    await desk.service.stop()


async def test_a_run_with_a_free_slot_does_not_wait(desk: Desk) -> None:
    turn = await desk.submit("ask")
    await desk.end(turn)
    await desk.end(await desk.submit("go on", turn.task_id))
    assert "task.queued" not in await desk.types(turn.task_id)


async def test_a_submitted_task_waits_from_its_first_append_on(desk: Desk) -> None:
    await desk.hold()
    first, second = [await desk.submit("go") for _ in range(2)]
    for turn, waiting in ((first, 0), (second, 1)):
        submitted, queued = await desk.events(turn.task_id)
        assert (submitted.type, queued.payload) == ("task.submitted", TaskQueued(1, waiting))
        assert (queued.timestamp, queued.run_id) == (submitted.timestamp, submitted.run_id)  # one append
        reason = f"waits for a slot (in use: 1, waiting before it: {waiting})"
        snapshot = await desk.service.control.get(turn.task_id, "ann")
        assert (snapshot.status, snapshot.status_reason) == (TaskStatus.QUEUED, reason)
    desk.gate.set()
    await desk.end(second)
    kinds = await desk.types(second.task_id)
    assert kinds[:3] == ["task.submitted", "task.queued", "task.status"]
    assert kinds.count("task.queued") == 1
    assert (await desk.service.control.get(second.task_id, "ann")).status_reason == ""


async def test_a_turn_that_waits_for_a_slot_and_one_that_waits_in_its_thread_say_what_they_wait_for(desk: Desk) -> None:
    await desk.hold()
    turns = [await desk.service.sessions.submit(Submission.of(Task.create("go")), "ann", "trip") for _ in range(2)]
    reason = "waits for a slot (in use: 1, waiting before it: 0)"
    session, listed, _ = await desk.service.sessions.get("ann", "trip")
    assert [(each.state, each.reason) for each in listed] == [(TurnState.ACTIVE, reason), (TurnState.QUEUED, "")]
    assert listed == list(session.open_turns)
    snapshots = [await desk.service.control.get(each.task_id, "ann") for each in turns]
    assert [each.status_reason for each in snapshots] == [reason, "waits in the queue of its thread"]
    page, _ = await desk.service.control.snapshots.page("ann", session_id="trip")
    assert sorted(each.status_reason for each, _ in page) == [reason, "waits in the queue of its thread"]
    thread = await desk.service.snapshots.thread("ann", "trip", "default")
    assert (thread.status, thread.status_reason) == (ThreadStatus.RUNNING, reason)
    desk.gate.set()
    await desk.end(desk.service.turn_after(turns[1].task_id, 0))
    _, listed, _ = await desk.service.sessions.get("ann", "trip")
    assert [each.reason for each in listed] == ["", ""]


async def test_a_continued_and_a_retried_task_wait_with_the_facts_that_open_their_turn(desk: Desk) -> None:
    asked, ended = [await desk.submit(text) for text in ("ask", "go")]
    for turn in (asked, ended):
        await desk.end(turn)
    await desk.hold()
    answered = await desk.submit("go on", asked.task_id)
    assert await desk.types(asked.task_id, answered.after_sequence) == ["task.message", "task.queued"]
    last = await desk.service.last_sequence(ended.task_id)
    snapshot = await desk.service.control.retry(ended.task_id, "ann")
    assert await desk.types(ended.task_id, last) == ["task.retried", "task.queued"]
    assert (snapshot.status, snapshot.status_reason) == (
        TaskStatus.RETRYING,
        "waits for a slot (in use: 1, waiting before it: 1)",
    )
    snapshot = await desk.service.control.get(asked.task_id, "ann")
    assert (snapshot.status, snapshot.status_reason) == (
        TaskStatus.WAITING_INPUT,
        "waits for a slot (in use: 1, waiting before it: 0)",
    )
    desk.gate.set()
    await desk.end(answered)
    assert (await desk.types(asked.task_id, answered.after_sequence))[:3] == [
        "task.message",
        "task.queued",
        "task.status",
    ]


async def test_a_task_that_its_blocker_releases_waits_before_it_begins(desk: Desk) -> None:
    control = desk.service.control
    blocker = await control.create(Submission.of(Task.create("by hand")), "ann")
    links = [TaskLink(LinkKind.BLOCKED_BY, blocker.task_id)]
    blocked = await control.create(Submission.of(Task.create("go")), "ann", links=links)
    free = await control.create(Submission.of(Task.create("go")), "ann")
    await desk.hold()
    await control.start(free.task_id, "ann")
    await desk.until(free.task_id, "task.queued")
    await control.start(blocker.task_id, "ann", external=True)
    assert (await control.start(blocked.task_id, "ann")).status is TaskStatus.BLOCKED
    await control.complete(blocker.task_id, "ann")
    kinds = await desk.until(blocked.task_id, "task.queued")
    assert kinds == ["task.submitted", "task.linked", "task.start_requested", "task.queued"]
    queued = (await desk.events(blocked.task_id))[-1].payload
    assert queued == TaskQueued(1, 1)
    assert (await control.get(blocked.task_id, "ann")).status is TaskStatus.QUEUED
    desk.gate.set()
    await desk.end(desk.service.turn_after(blocked.task_id, 4))
    assert (await desk.types(blocked.task_id, 4))[0] == "task.status"


async def test_a_turn_that_leaves_the_queue_of_its_thread_waits_for_a_slot(desk: Desk) -> None:
    sessions = desk.service.sessions
    active, queued = [await sessions.submit(Submission.of(Task.create(text)), "ann", "s") for text in ("hold", "go")]
    assert await desk.types(queued.task_id) == [
        "task.submitted"
    ]  # in the queue of the thread, which is no wait for a slot
    await desk.until(active.task_id, "task.status")
    other = await desk.submit("hold")
    await desk.service.cancel(active.task_id, "ann")
    assert await desk.until(queued.task_id, "task.queued") == ["task.submitted", "task.queued"]
    desk.gate.set()
    await desk.end(other)
    await desk.end(desk.service.turn_after(queued.task_id, 2))
    assert (await desk.types(queued.task_id))[:3] == ["task.submitted", "task.queued", "task.status"]


async def test_another_process_with_a_free_slot_takes_a_released_task_that_waits(tmp_path: Path) -> None:
    here, there = [Desk(SQLiteStore(tmp_path / "tasks.db")) for _ in range(2)]
    await here.service.start()
    draft = await here.service.control.create(Submission.of(Task.create("go")), "ann")
    await here.hold()
    await here.service.control.start(draft.task_id, "ann")
    await here.until(draft.task_id, "task.queued")
    await there.service.start()
    await there.end(there.service.turn_after(draft.task_id, 3))
    kinds = await there.types(draft.task_id)
    assert kinds[:4] == ["task.submitted", "task.start_requested", "task.queued", "task.status"]
    assert not here.gate.is_set()
    here.gate.set()
    for desk in (here, there):
        await desk.service.stop()
    assert kinds.count("task.status") == 2
