"""An orderly stop loses no more than a crash: the next start begins or resumes the remaining tasks."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import Message, SQLiteStore, Task, TaskState, UnavailableError
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.wire.events import event_from_frame

PATIENCE_S = 20.0


class Desk:
    """One slot, one task at work in it and one that waits, each with a caller."""

    def __init__(self, store: TaskStore, recovery: Any) -> None:
        self.go = asyncio.Event()
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.store = store
        self.recovery = recovery
        self.service = self.make()

    def make(self) -> TaskService:
        limits = Limits(max_concurrency=1)
        return TaskService("agent", self.store, self._work, recovery=self.recovery, limits=limits)

    async def _work(self, task: Task, run: Run) -> Task:
        self.begun.put_nowait(task.id)
        await self.go.wait()
        return task.complete("done")

    async def fill(self, run_id: str = "") -> "tuple[asyncio.Task[TaskFold], asyncio.Task[TaskFold]]":
        await self.service.start()
        metadata = {"run_context": {"run_id": run_id}} if run_id else {}
        first, second = [Task(name, messages=[Message.user("go")], metadata=metadata) for name in ("at work", "queued")]
        at_work = asyncio.create_task(self.service.send(Submission.of(first), "ann"))
        await self.begun.get()
        turn = await self.service.submit(Submission.of(second), "ann")
        return at_work, asyncio.create_task(self.service.settled(turn))

    async def restart(self) -> None:
        self.go.set()
        self.service = self.make()
        await self.service.start()

    async def end_of(self, task_id: str) -> TaskFold:
        attempt = self.service.turn_after(task_id, 0).run
        if attempt is not None:
            await attempt.wait_ended(PATIENCE_S)
        return await self.service.get(task_id, "ann")


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "beside another agent"])
@pytest.mark.parametrize("recovery", ["lost", "resume"])
async def test_a_durable_store_keeps_what_the_next_start_goes_on_with(
    tmp_path: Path, recovery: str, shared: bool
) -> None:
    store = SQLiteStore(tmp_path / "tasks.db")
    if shared:
        await store.open()
    desk = Desk(store, recovery)
    at_work, queued = await desk.fill()
    await desk.service.stop(grace_s=0)
    with pytest.raises(UnavailableError):
        await queued
    if recovery == "lost":
        assert (await at_work).state is TaskState.FAILED
    else:
        with pytest.raises(UnavailableError):
            await at_work
    await desk.restart()
    assert (await desk.end_of("queued")).state is TaskState.COMPLETED
    resumed = await desk.end_of("at work")
    if recovery == "lost":
        assert (resumed.state, resumed.reason[:8]) == (TaskState.FAILED, "run lost")
    else:
        assert (resumed.state, resumed.attempt) == (TaskState.COMPLETED, 2)
    await desk.service.stop()
    if shared:
        await store.close()


async def test_a_run_that_never_began_keeps_its_name_and_one_that_takes_over_gets_a_new_one(tmp_path: Path) -> None:
    desk = Desk(SQLiteStore(tmp_path / "tasks.db"), "resume")
    callers = await desk.fill(run_id="the caller's")
    await desk.service.stop(grace_s=0)
    await asyncio.gather(*callers, return_exceptions=True)
    await desk.restart()
    queued, resumed = await desk.end_of("queued"), await desk.end_of("at work")
    assert (queued.attempt, queued.run_ids) == (1, ["the caller's"])
    assert (resumed.attempt, resumed.run_ids[:-1]) == (2, ["the caller's"])
    assert resumed.run_ids[-1] == resumed.run_id != "the caller's"
    context = resumed.to_task().metadata["run_context"]
    assert (context["run_id"], context["agent_chain"]) == (resumed.run_id, ["agent"])
    await desk.service.stop()


@pytest.mark.parametrize("recovery", ["lost", "resume"])
async def test_what_is_only_in_memory_ends_with_the_service(recovery: str) -> None:
    desk = Desk(MemoryStore(), recovery)
    callers = await desk.fill()
    await desk.service.stop(grace_s=0)
    for caller in callers:
        fold = await caller
        assert (fold.state, fold.reason) == (
            TaskState.FAILED,
            "run lost: the agent was stopped before the task was done",
        )


async def test_a_cancel_that_was_asked_for_is_recorded_before_the_stop(tmp_path: Path) -> None:
    desk = Desk(SQLiteStore(tmp_path / "tasks.db"), "resume")
    _, queued = await desk.fill()
    await desk.service.cancel("queued", "ann", reason="enough")
    await desk.service.stop(grace_s=0)
    assert ((await queued).state, (await queued).reason) == (TaskState.CANCELED, "enough")


async def test_who_watches_a_task_that_is_left_is_told_that_the_agent_stopped(store: TaskStore) -> None:
    await store.open()
    desk = Desk(store, "resume")
    await desk.fill()
    watch = desk.service.watch("queued", "ann")
    await anext(watch)
    more = asyncio.create_task(anext(watch))
    await desk.service.stop(grace_s=0)
    async with asyncio.timeout(PATIENCE_S):
        if store.durable:
            with pytest.raises(UnavailableError):
                await more
        else:
            await more
    await watch.aclose()
    await store.close()


class BusyDisk(SQLiteStore):
    """A store whose reads begin late."""

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        await asyncio.to_thread(time.sleep, 0.05)
        return await super().read(task_id, after, limit)


async def test_who_watches_a_run_that_ends_within_the_grace_reads_its_last_event(tmp_path: Path) -> None:
    desk = Desk(BusyDisk(tmp_path / "tasks.db"), "lost")
    at_work, _ = await desk.fill()
    states: list[TaskState | None] = []

    async def read() -> None:
        async for batch in desk.service.watch("at work", "ann"):
            states.extend(event_from_frame(frame).state for frame in batch)

    reading = asyncio.create_task(read())
    desk.go.set()
    await desk.service.stop(grace_s=PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        await reading
    assert states[-1] is TaskState.COMPLETED is (await at_work).state
