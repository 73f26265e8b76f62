"""Concurrent requests for one task, and a process that has lost a task without notice."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    Limits,
    Message,
    SQLiteStore,
    Task,
    TaskAlreadyRunningError,
    TaskNotFoundError,
    TaskState,
    UnavailableError,
)
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import Append, RequestRecord, TaskStore
from protolink_grpc.wire.events import event_from_frame


class GatedStore(MemoryStore):
    """Holds appends back while the gate is shut: before they are done, or with `late` before their writer hears of it."""

    def __init__(self, *, late: bool = False) -> None:
        super().__init__()
        self.arrivals: asyncio.Queue[str] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()
        self._late = late

    def shut(self) -> None:
        self.gate.clear()
        while not self.arrivals.empty():
            self.arrivals.get_nowait()

    async def append(self, append: Append) -> RequestRecord | None:
        record = await super().append(append) if self._late else None
        self.arrivals.put_nowait(append.head.principal)
        await self.gate.wait()
        return record if self._late else await super().append(append)


class Asking:
    """A handler that asks once, then works until it is let go."""

    def __init__(self) -> None:
        self.turns = 0
        self.question = ""
        self.go = asyncio.Event()

    async def __call__(self, task: Task, run: Run) -> Task:
        if len(task.messages) == 1:
            return task.require_input(Message.agent("which?"))
        self.turns += 1
        await self.go.wait()
        return task.require_input(Message.agent(self.question)) if self.question else task.complete("done")


def further(task_id: str, text: str) -> Submission:
    return Submission(messages=[Message.user(text)], task_id=task_id, target=TaskTarget.CONTINUE)


async def test_of_two_continuations_at_once_one_runs_and_one_is_told_so(store: TaskStore) -> None:
    handler = Asking()
    service = TaskService("agent", store, handler, limits=Limits(max_concurrency=8))
    await service.start()
    asked = await service.send(Submission.of(Task.create("one")), "ann")
    turns = [asyncio.create_task(service.submit(further(asked.task_id, text), "ann")) for text in ("a", "b")]
    done, _ = await asyncio.wait(turns)
    refused = [each for each in done if each.exception() is not None]
    assert [type(each.exception()) for each in refused] == [TaskAlreadyRunningError]
    handler.go.set()
    (accepted,) = done - set(refused)
    fold = await service.settled(accepted.result())
    assert fold.state is TaskState.COMPLETED
    assert handler.turns == 1
    assert [message.text for message in fold.messages][2:] in (["a", "done"], ["b", "done"])
    await service.stop()


async def test_a_stranger_who_uses_a_task_id_does_not_hide_the_task_from_its_owner() -> None:
    handler, store = Asking(), GatedStore()
    handler.go.set()
    service = TaskService("agent", store, handler, limits=Limits(max_concurrency=8))
    await service.start()
    asked = await service.send(Submission.of(Task.create("one")), "ann")
    service._tasks.warm.clear()  # as if its fold had been crowded out: the stranger's send gets as far as the store
    store.shut()
    stranger = asyncio.create_task(service.send(Submission.of(Task(asked.task_id, messages=asked.messages)), "eve"))
    assert await store.arrivals.get() == "eve"
    assert (await service.get(asked.task_id, "ann")).state is TaskState.INPUT_REQUIRED
    owner = asyncio.create_task(service.send(further(asked.task_id, "two"), "ann"))
    # The owner does not wait for the stranger either.
    assert await store.arrivals.get() == "ann"
    store.gate.set()
    assert (await owner).state is TaskState.COMPLETED
    with pytest.raises(TaskNotFoundError):
        await stranger
    await service.stop()


async def test_who_has_seen_the_end_of_a_turn_finds_it_ended() -> None:
    go: asyncio.Queue[None] = asyncio.Queue()

    async def handler(task: Task, run: Run) -> Task:
        await go.get()
        return task.require_input(Message.agent("which?")) if len(task.messages) == 1 else task.complete("done")

    store = GatedStore(late=True)
    service = TaskService("agent", store, handler)
    await service.start()
    task = Task(new_task_id(), messages=[Message.user("one")])
    states = []
    for submission in (Submission.of(task), further(task.id, "two")):
        async for frames in service.stream(submission, "ann"):
            last = event_from_frame(frames[-1])
            if last.state is TaskState.WORKING:
                # From here on every reader sees what is appended before the run itself hears that it is done.
                store.shut()
                go.put_nowait(None)
        reading = asyncio.create_task(service.get(task.id, "ann"))
        await asyncio.sleep(0)  # one turn of the loop: it looks at the task now
        store.gate.set()
        states.append((last.state, (await reading).state))
    assert states == [(TaskState.INPUT_REQUIRED,) * 2, (TaskState.COMPLETED,) * 2]
    await service.stop()


async def test_who_has_seen_a_question_can_answer_it() -> None:
    handler, store = Asking(), GatedStore(late=True)
    handler.question = "and which else?"
    service = TaskService("agent", store, handler)
    await service.start()
    asked = await service.send(Submission.of(Task.create("one")), "ann")
    await service.submit(further(asked.task_id, "two"), "ann")
    store.shut()
    handler.go.set()
    await store.arrivals.get()  # the question is in the log, and its run does not know that yet
    handler.question = ""
    answering = asyncio.create_task(service.send(further(asked.task_id, "three"), "ann"))
    await asyncio.sleep(0)  # one turn of the loop: it looks at the task now
    store.gate.set()
    assert (await answering).state is TaskState.COMPLETED
    await service.stop()


async def test_a_cancel_that_overtakes_its_submission_finds_no_task() -> None:
    handler, store = Asking(), GatedStore()
    service = TaskService("agent", store, handler)
    await service.start()
    task = Task(new_task_id(), messages=[Message.user("one")])
    store.shut()
    sending = asyncio.create_task(service.send(Submission.of(task), "ann"))
    await asyncio.sleep(0)  # the run is made, and has not taken its first step
    with pytest.raises(TaskNotFoundError):
        await service.cancel(task.id, "ann")
    store.gate.set()
    assert (await sending).state is TaskState.INPUT_REQUIRED
    await service.stop()


async def test_a_cancel_that_meets_the_last_append_of_a_turn_cancels_what_that_turn_left() -> None:
    handler, store = Asking(), GatedStore()
    service = TaskService("agent", store, handler)
    await service.start()
    asked = await service.send(Submission.of(Task.create("one")), "ann")
    turn = await service.submit(further(asked.task_id, "two"), "ann")
    store.shut()
    handler.question = "and which else?"
    handler.go.set()
    await store.arrivals.get()
    canceling = asyncio.create_task(service.cancel(asked.task_id, "ann", reason="enough"))
    await asyncio.sleep(0)  # one turn of the loop: the cancel waits behind the append
    store.gate.set()
    await canceling
    fold = await service.get(turn.task_id, "ann")
    assert (fold.state, fold.reason) == (TaskState.CANCELED, "enough")
    await service.stop()


async def test_a_stop_in_the_instant_of_a_submission_answers_its_caller() -> None:
    service = TaskService("agent", MemoryStore(), Asking())
    await service.start()
    sending = asyncio.create_task(service.send(Submission.of(Task.create("one")), "ann"))
    await asyncio.sleep(0)  # the run is made, and has not taken its first step
    await service.stop(grace_s=0)
    with pytest.raises(UnavailableError):
        await sending
    assert service.active_task_ids == []


class Overtaken(SQLiteStore):
    """Lets another writer act between a read of a task and the append that follows from it."""

    rival: Callable[[], Awaitable[None]] | None = None

    async def append(self, append: Append) -> RequestRecord | None:
        rival, self.rival = self.rival, None
        if rival is not None:
            await rival()
        return await super().append(append)


async def test_a_cancel_reaches_the_process_that_took_the_task_in_the_meantime(tmp_path: Path) -> None:
    begun: asyncio.Queue[str] = asyncio.Queue()

    async def handler(task: Task, run: Run) -> None:
        begun.put_nowait(task.id)
        await asyncio.Event().wait()

    path = tmp_path / "tasks.db"
    store = Overtaken(path)
    old, new = (TaskService("agent", SQLiteStore(path), handler, recovery="resume") for _ in range(2))
    canceling = TaskService("agent", store, handler)
    await old.start()
    await canceling.start()
    turn = await old.submit(Submission.of(Task.create("go")), "ann")
    await begun.get()
    await old.stop(grace_s=0)

    async def take_over() -> None:
        await new.start()
        await begun.get()

    store.rival = take_over
    fold = await canceling.cancel(turn.task_id, "ann", reason="enough")
    assert (fold.state, fold.reason, fold.attempt) == (TaskState.CANCELED, "enough", 2)
    await canceling.stop()
    await new.stop()


async def test_a_reader_that_leaves_takes_everything_it_opened_with_it() -> None:
    store = MemoryStore()
    service = TaskService("agent", store, Asking())
    await service.start()
    asked = await service.send(Submission.of(Task.create("one")), "ann")
    before = asyncio.all_tasks()
    reader = service.watch(asked.task_id, "ann", deltas=True)
    assert await anext(reader)
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks() - before) == 2, "the pull, and its wait for the growth of the log"
    waiting.cancel()
    await asyncio.wait([waiting])
    assert asyncio.all_tasks() <= before
    assert store._waiters.keys() == []
    assert [frames async for frames in reader] == []
    await service.stop()


async def test_a_quiet_run_ends_when_another_process_has_taken_its_task(tmp_path: Path) -> None:
    begun: asyncio.Queue[str] = asyncio.Queue()
    go = asyncio.Event()

    def working(name: str) -> Any:
        async def handler(task: Task, run: Run) -> Task:
            begun.put_nowait(name)
            await go.wait()
            return task.complete(name)

        return handler

    old = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), working("old"), limits=Limits(lease_ttl_s=0.1))
    new = TaskService(
        "agent", SQLiteStore(tmp_path / "tasks.db"), working("new"), limits=Limits(lease_ttl_s=0.3), recovery="resume"
    )
    await old.start()
    await new.start()
    turn = await old.submit(Submission.of(Task.create("go")), "ann")
    assert await begun.get() == "old"
    assert old._recovery_task is not None
    old._recovery_task.cancel()  # as a process that does not get the processor for longer than its lease
    assert await begun.get() == "new"
    attempt = turn.run
    assert attempt is not None
    assert await attempt.wait_ended(5.0)
    go.set()
    answers = [(await service.settled(turn)) for service in (old, new)]
    assert [[message.text for message in fold.messages] for fold in answers] == [["go", "new"]] * 2
    assert [fold.attempt for fold in answers] == [2, 2]
    await new.stop()
    await old.stop()
