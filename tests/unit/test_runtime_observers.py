"""Observers of appends: what telemetry attaches to."""

import asyncio
import logging

import pytest

from protolink_grpc import MemoryStore, Task, TaskState
from protolink_grpc.models.events import TaskMessagesAdded, TaskStatusChanged, TaskSubmitted
from protolink_grpc.runtime.admission import Submission
from protolink_grpc.runtime.log import Appended, AppendObserver
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService


async def answer(task: Task, run: Run) -> Task:
    return task.complete("done")


async def sent(*observers: AppendObserver, handler: object = answer) -> TaskState:
    service = TaskService("agent", MemoryStore(), handler, observers=observers)  # type: ignore[arg-type]
    await service.start()
    try:
        return (await service.send(Submission.of(Task.create("go")), "ann")).state
    finally:
        await service.stop(grace_s=0)


async def test_an_observer_gets_each_append_once_in_the_order_of_the_log() -> None:
    seen: list[Appended] = []
    await sent(seen.append)
    kinds = [type(fact) for each in seen for fact in each.facts]
    assert kinds == [TaskSubmitted, TaskStatusChanged, TaskMessagesAdded, TaskStatusChanged]
    assert [each.first_sequence for each in seen] == [1, 3]
    assert len({each.run_id for each in seen}) == 1


async def test_an_observer_sees_the_task_with_the_facts_of_the_append() -> None:
    states: list[tuple[TaskState, int]] = []
    await sent(lambda appended: states.append((appended.fold.state, appended.fold.sequence)))
    assert states == [(TaskState.WORKING, 2), (TaskState.COMPLETED, 4)]


async def test_an_observer_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Appended] = []

    def fail(appended: Appended) -> None:
        raise RuntimeError("no collector")

    with caplog.at_level(logging.ERROR):
        assert await sent(fail, seen.append) is TaskState.COMPLETED
    assert len(seen) == 2
    assert "an observer of task" in caplog.text


async def test_what_the_store_refuses_is_not_observed() -> None:
    seen: list[Appended] = []
    service = TaskService("agent", MemoryStore(), answer, observers=[seen.append])
    await service.start()
    task = Task.create("go")
    await service.send(Submission.of(task), "ann")
    before = len(seen)
    with pytest.raises(Exception, match="completed"):
        await service.send(Submission.of(task), "ann")
    await asyncio.sleep(0)
    await service.stop(grace_s=0)
    assert len(seen) == before
