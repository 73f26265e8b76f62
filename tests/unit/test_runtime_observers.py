"""Observers of appends: what telemetry attaches to."""

import asyncio
import logging

import pytest

from protolink_grpc import Agent, InvalidArgumentError, MemoryStore, RuntimeConfig, Task, TaskState
from protolink_grpc.models.events import TaskMessagesAdded, TaskStatusChanged, TaskSubmitted
from protolink_grpc.runtime.log import AppendedFacts, AppendObserver
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission


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
    seen: list[AppendedFacts] = []
    await sent(seen.append)
    kinds = [type(fact) for each in seen for fact in each.facts]
    assert kinds == [TaskSubmitted, TaskStatusChanged, TaskMessagesAdded, TaskStatusChanged]
    assert [each.first_sequence for each in seen] == [1, 3]
    assert len({each.run_id for each in seen}) == 1


async def test_an_observer_sees_the_task_with_the_facts_of_the_append() -> None:
    states: list[tuple[TaskState, int]] = []
    await sent(lambda appended: states.append((appended.fold.state, appended.fold.sequence)))
    assert states == [(TaskState.WORKING, 2), (TaskState.COMPLETED, 4)]


async def test_an_observer_that_fails_is_logged_once_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    failed: list[AppendedFacts] = []
    seen: list[AppendedFacts] = []

    def fail(appended: AppendedFacts) -> None:
        failed.append(appended)
        raise RuntimeError("no collector")

    service = TaskService("agent", MemoryStore(), answer, observers=[fail, seen.append])
    await service.start()
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            assert (await service.send(Submission.of(Task.create("go")), "ann")).state is TaskState.COMPLETED
    await service.stop(grace_s=0)
    assert failed == seen
    assert len({each.fold.task_id for each in seen}) == 2
    (record,) = caplog.records
    assert "fail failed for task" in record.getMessage()
    assert record.exc_info is not None


async def test_each_observer_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __call__(self, appended: AppendedFacts) -> None:
            raise OSError

    with caplog.at_level(logging.ERROR):
        await sent(Broken(), Broken())
    assert ["the observer Broken failed" in record.getMessage() for record in caplog.records] == [True, True]


async def test_an_agent_has_observers() -> None:
    seen: list[AppendedFacts] = []
    for agent in (Agent("a", observers=[seen.append]), Agent("a", runtime=RuntimeConfig(observers=[seen.append]))):
        seen.clear()
        task = await agent.run_task("go")
        assert {each.fold.task_id for each in seen} == {task.id}
        await agent.aclose()


def test_an_observer_must_be_a_function() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Agent("a", observers=["telemetry"])  # type: ignore[list-item]
    assert caught.value.field == "observers[0]"


async def test_what_the_store_refuses_is_not_observed() -> None:
    seen: list[AppendedFacts] = []
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
