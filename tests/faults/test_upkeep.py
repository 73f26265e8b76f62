"""The heartbeat goes on, whatever goes wrong beside it: a process that falls silent loses all its tasks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import Limits, SQLiteStore, Task, TaskState
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.store.memory import MemoryStore

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
    upkeep, read = service._upkeep, store.read
    upkeep.unrecorded = {turn.task_id: "the disk was full" for turn in turns}

    async def damaged(task_id: str, after: int, limit: int) -> list[bytes]:
        return [b"\xff no event"] if task_id == turns[0].task_id else await read(task_id, after, limit)

    monkeypatch.setattr(store, "read", damaged)
    await upkeep._settle_unrecorded()
    assert list(upkeep.unrecorded) == [turns[0].task_id]
    head = await store.head(turns[1].task_id)
    assert head is not None
    assert (head.state, head.reason) == (TaskState.FAILED, "run lost: the disk was full")
    await service.stop(grace_s=0)


async def test_a_damaged_log_keeps_neither_the_agent_nor_the_other_tasks_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), never)
    await old.start()
    turns = [await old.submit(Submission.of(Task.create("go")), "ann") for _ in range(2)]
    await old.stop(grace_s=0)
    # The first was at work and has ended as lost; both are made what a crash leaves, one of them with a damaged log.
    store: Any = SQLiteStore(tmp_path / "tasks.db")
    await store.open()
    await store._write(lambda db: db.execute("UPDATE tasks SET state = 'submitted', worker = ''"))
    damage = "UPDATE events SET frames = x'ff', lengths = NULL WHERE task_id = ?"
    await store._write(lambda db: db.execute(damage, (turns[0].task_id,)))
    await store.close()
    new = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), at_once)
    await new.start()
    turns[1].attempt = None  # it ended with the old service
    async with asyncio.timeout(PATIENCE_S):
        assert (await new.settled(turns[1])).state is TaskState.COMPLETED
    assert turns[0].task_id in caplog.text
    await new.stop()
