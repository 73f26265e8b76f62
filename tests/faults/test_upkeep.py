"""The heartbeat continues during other faults, because a process without a heartbeat loses all its tasks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import Limits, SQLiteStore, Task, TaskState
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import Append, RequestRecord, TaskHead

PATIENCE_S = 20.0
QUICK = Limits(lease_ttl_s=0.03)


async def never(task: Task, run: Run) -> None:
    await asyncio.Event().wait()


async def at_once(task: Task, run: Run) -> Task:
    return task.complete("done")


async def test_an_error_of_any_kind_does_not_end_the_heartbeat(caplog: pytest.LogCaptureFixture) -> None:
    beats: asyncio.Queue[None] = asyncio.Queue()

    class Broken(MemoryStore):
        async def heartbeat(self, ttl_s: float) -> None:
            beats.put_nowait(None)
            if beats.qsize() > 1:
                raise ZeroDivisionError("out of order")

    service = TaskService("agent", Broken(), at_once, limits=QUICK)
    await service.start()
    async with asyncio.timeout(PATIENCE_S):
        while beats.qsize() < 4:
            await asyncio.sleep(0.01)  # a heartbeat comes by time alone
    assert "out of order" in caplog.text
    await service.stop()


async def test_an_end_that_cannot_be_recorded_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    service = TaskService("agent", store, never, limits=Limits(max_concurrency=8))
    await service.start()
    turns = [await service.submit(Submission.of(Task.create("go")), "ann") for _ in range(2)]
    upkeep, append = service._recovery, store.append
    upkeep.unrecorded = {turn.task_id: turn.run for turn in turns if turn.run is not None}

    async def damaged(addition: Append) -> RequestRecord | None:
        if addition.head.task_id == turns[0].task_id:
            raise ZeroDivisionError("out of order")
        return await append(addition)

    monkeypatch.setattr(store, "append", damaged)
    await upkeep._settle_unrecorded()
    assert list(upkeep.unrecorded) == [turns[0].task_id]
    head = await store.head(turns[1].task_id)
    assert head is not None
    assert (head.state, head.reason) == (TaskState.FAILED, "run lost: the end of the run could not be recorded")
    await service.stop(grace_s=0)


async def test_a_damaged_log_keeps_neither_the_agent_nor_the_other_tasks_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), never, limits=Limits(max_concurrency=1))
    await old.start()
    turns = [await old.submit(Submission.of(Task.create("go")), "ann") for _ in range(2)]
    await old.stop(grace_s=0)
    # The first was at work and has ended as lost; both are made what a crash leaves, one of them with a damaged log.
    store: Any = SQLiteStore(tmp_path / "tasks.db")
    await store.open()
    await store._engine.write(lambda db: db.execute("UPDATE tasks SET state = 'submitted', worker = ''"))
    damage = "UPDATE events SET frames = x'ff', lengths = NULL WHERE task_id = ?"
    await store._engine.write(lambda db: db.execute(damage, (turns[0].task_id,)))
    await store.close()
    new = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), at_once)
    await new.start()
    turns[1].run = None  # it ended with the old service
    async with asyncio.timeout(PATIENCE_S):
        assert (await new.settled(turns[1])).state is TaskState.COMPLETED
    assert turns[0].task_id in caplog.text
    await new.stop()


async def test_a_task_that_another_process_has_taken_over_meanwhile_is_left_to_it(tmp_path: Path) -> None:
    old = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), never, recovery="resume")
    await old.start()
    turn = await old.submit(Submission.of(Task.create("go")), "ann")
    await old.stop(grace_s=0)
    faster = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), never, recovery="resume")

    class Slow(SQLiteStore):
        async def orphans(self, agent_name: str) -> list[TaskHead]:
            found = await super().orphans(agent_name)
            await faster.start()
            await faster.turn_after(turn.task_id, 0).run.wait_accepted()  # type: ignore[union-attr]  # it has just begun
            return found

    slower = TaskService("agent", Slow(tmp_path / "tasks.db"), never, recovery="resume")
    await slower.start()
    assert faster.active_task_ids == [turn.task_id]
    assert slower.active_task_ids == []
    assert (await faster.get(turn.task_id, "ann")).attempt == 2
    await slower.stop(grace_s=0)
    await faster.stop(grace_s=0)
