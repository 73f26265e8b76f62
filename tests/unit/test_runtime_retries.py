"""Retries of ended tasks: another run in the same log, with the input of the last turn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from protolink_grpc import (
    Artifact,
    InvalidTransitionError,
    MemoryStore,
    SQLiteStore,
    Task,
    TaskNotFoundError,
    TaskState,
)
from protolink_grpc.models import Message, Part
from protolink_grpc.models.events import RunEvent, TaskRetried, TaskStatusChanged
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.task_control import TaskStatus
from protolink_grpc.models.task_status import status_of
from protolink_grpc.models.watch import StopAt
from protolink_grpc.reports.builder import ReportBuilder
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.port import TaskQuery, TaskStore
from protolink_grpc.wire.events import event_from_frame, replay

WAIT_S = 20.0


class Desk:
    """Fails its first runs, each after a message and an artifact; `ask` asks a question first."""

    def __init__(self) -> None:
        self.failures = 1
        self.given: list[tuple[int, int, dict[str, object]]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.works = asyncio.Event()

    async def handle(self, task: Task, run: Run) -> Task:
        if task.messages[-1].text == "ask":
            return task.require_input(Message.agent("which?"))
        self.given.append((len(task.messages), len(task.artifacts), dict(task.flow_state)))
        await run.message(Message.agent("on it"))
        await run.artifact(Artifact(parts=[Part.text("half")]))
        self.works.set()
        await self.may_end.wait()
        task.flow_state["step"] = 1
        self.failures -= 1
        return task.fail("no luck") if self.failures >= 0 else task.complete("done")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TaskStore:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "tasks.db")


@pytest.fixture
async def service(store: TaskStore, desk: Desk) -> AsyncIterator[TaskService]:
    service = TaskService("agent", store, desk.handle, limits=Limits(max_concurrency=1))
    await service.start()
    yield service
    await service.stop(grace_s=0)


async def failed(service: TaskService, text: str = "go") -> TaskFold:
    return await service.send(Submission.of(Task.create(text)), "ann")


async def retry(service: TaskService, task_id: str, principal: str, **more: str) -> TaskFold:
    await service.control.retry(task_id, principal, **more)
    return await service.get(task_id, principal)


async def retried(service: TaskService, task_id: str, **more: str) -> TaskFold:
    """The task after the end of a retry."""
    fold = await retry(service, task_id, "ann", **more)
    async with asyncio.timeout(WAIT_S):
        return await service.settled(service.turn_after(task_id, fold.turn_sequence))


async def read(service: TaskService, task_id: str, after: int = 0, stop_at: StopAt = StopAt.TERMINAL) -> list[RunEvent]:
    """The events of a watch until its end."""
    async with asyncio.timeout(WAIT_S), aclosing(service.watch(task_id, "ann", after=after, stop_at=stop_at)) as found:
        return [event_from_frame(frame) async for frames in found for frame in frames]


async def test_a_retry_begins_with_the_input_of_the_last_turn(service: TaskService, desk: Desk) -> None:
    before = await failed(service)
    assert (before.state, len(before.messages), before.artifact_count) == (TaskState.FAILED, 2, 1)
    log = await service.read_log(before.task_id, 0, 1000)
    after = await retried(service, before.task_id, reason="try again")
    assert desk.given == [(1, 0, {}), (1, 0, {})]
    assert (after.state, after.attempt, len(after.run_ids)) == (TaskState.COMPLETED, 2, 2)
    assert [message.text for message in after.messages] == ["go", "on it", "done"]
    assert after.failure is None
    assert (await service.read_log(before.task_id, 0, len(log))) == log
    payloads = [event.payload for event in await read(service, before.task_id, len(log))]
    assert payloads[0] == TaskRetried(TaskState.FAILED, "try again", "ann", 1)
    assert isinstance(payloads[1], TaskStatusChanged)
    assert (payloads[1].previous_state, payloads[1].cause) == (TaskState.SUBMITTED, "retried")


async def test_the_fold_of_the_log_is_the_task_after_each_retry(service: TaskService, desk: Desk) -> None:
    desk.failures = 2
    task_id = (await failed(service)).task_id
    for retries in (1, 2):
        after = await retried(service, task_id)
        again = TaskFold(task_id)
        replay(again, await service.read_log(task_id, 0, 1000))
        assert again.to_task().to_dict() == after.to_task().to_dict()
        assert again.controls is not None
        assert again.controls.retries == retries


async def test_a_retry_of_a_task_with_several_turns_repeats_the_last_one(service: TaskService, desk: Desk) -> None:
    asked = await failed(service, "ask")
    answer = Submission(messages=[Message.user("this one")], task_id=asked.task_id)
    assert (await service.send(answer, "ann")).state is TaskState.FAILED
    assert (await retried(service, asked.task_id)).state is TaskState.COMPLETED
    assert [messages for messages, _, _ in desk.given] == [3, 3]


async def test_a_repeated_request_for_a_retry_is_the_same_retry(service: TaskService, desk: Desk) -> None:
    task_id = (await failed(service)).task_id
    both = await asyncio.gather(*(retry(service, task_id, "ann", request_id="r") for _ in range(2)))
    after = await service.settled(service.turn_after(task_id, both[0].turn_sequence))
    assert (await retry(service, task_id, "ann", request_id="r")).sequence == after.sequence
    assert after.attempt == 2


async def test_of_two_retries_at_the_same_time_one_is_refused(service: TaskService, desk: Desk) -> None:
    task_id = (await failed(service)).task_id
    desk.may_end.clear()
    outcomes = await asyncio.gather(*(retry(service, task_id, "ann") for _ in range(2)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["InvalidTransitionError", "TaskFold"]
    desk.may_end.set()


async def test_a_task_that_has_not_ended_and_that_of_another_principal_are_not_retried(
    service: TaskService, desk: Desk
) -> None:
    asked = await failed(service, "ask")
    with pytest.raises(InvalidTransitionError):
        await retry(service, asked.task_id, "ann")
    ended = await failed(service)
    with pytest.raises(TaskNotFoundError):
        await retry(service, ended.task_id, "bob")
    assert (await service.get(ended.task_id, "ann")).sequence == ended.sequence


async def test_a_canceled_task_is_retried_without_its_cancellation(service: TaskService, desk: Desk) -> None:
    desk.may_end.clear()
    turn = await service.submit(Submission.of(Task.create("go")), "ann")
    waiting = await service.submit(Submission.of(Task.create("go")), "ann")
    await desk.works.wait()
    for each in (turn, waiting):
        assert (await service.cancel(each.task_id, "ann")).state is TaskState.CANCELED
    desk.may_end.set()
    desk.failures = 0
    for each in (turn, waiting):
        after = await retried(service, each.task_id)
        assert (after.state, after.cancel_reason) == (TaskState.COMPLETED, "")
        assert [message.text for message in after.messages] == ["go", "on it", "done"]
        context = after.run_context
        assert context is None or not context.canceled


async def test_a_retry_that_waits_for_a_slot_is_retrying(service: TaskService, desk: Desk) -> None:
    task_id = (await failed(service)).task_id
    desk.may_end.clear()
    desk.works.clear()
    turn = await service.submit(Submission.of(Task.create("go")), "ann")
    await desk.works.wait()
    fold = await retry(service, task_id, "ann")
    assert (fold.state, status_of(fold)) == (TaskState.SUBMITTED, TaskStatus.RETRYING)
    desk.may_end.set()
    await service.settled(turn)
    assert (await service.settled(AcceptedTurn(task_id, fold.turn_sequence))).state is TaskState.COMPLETED


async def test_a_watch_that_began_before_the_retry_ends_with_the_first_end(service: TaskService, desk: Desk) -> None:
    desk.may_end.clear()
    turn = await service.submit(Submission.of(Task.create("go")), "ann")
    await desk.works.wait()
    watch = service.watch(turn.task_id, "ann")
    async with aclosing(watch):
        seen = list(await anext(watch))
        desk.may_end.set()
        await service.settled(turn)
        after = await retried(service, turn.task_id)
        seen += [frame async for frames in watch for frame in frames]
    ends = [event_from_frame(frame).final for frame in seen]
    assert ends.count(True) == 1
    assert ends[-1]
    assert len(seen) < after.sequence


async def test_a_watch_that_begins_after_a_retry_shows_it_to_its_end(service: TaskService, desk: Desk) -> None:
    before = (await failed(service)).sequence
    (task,) = (await service.store.find(query())).heads
    desk.may_end.clear()
    await retry(service, task.task_id, "ann")
    reading = [asyncio.create_task(read(service, task.task_id, after)) for after in (0, before)]
    turn_end = asyncio.create_task(read(service, task.task_id, before, StopAt.INTERRUPTED))
    await asyncio.sleep(0)
    desk.may_end.set()
    whole, tail = await asyncio.gather(*reading)
    last = (await service.get(task.task_id, "ann")).sequence
    assert [event.sequence for event in whole] == list(range(1, last + 1))
    assert [event.sequence for event in tail] == list(range(before + 1, last + 1))
    assert await turn_end == tail
    assert [event.sequence for event in whole if event.final] == [before, last]
    assert await read(service, task.task_id) == whole
    assert len(await read(service, task.task_id, 0, StopAt.CURRENT)) == last
    assert len(await read(service, task.task_id, 0, StopAt.INTERRUPTED)) == before


def query() -> TaskQuery:
    return TaskQuery("ann", "agent")


async def test_a_retry_that_was_accepted_is_begun_by_the_next_process(tmp_path: Path, desk: Desk) -> None:
    first = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), desk.handle, limits=Limits(max_concurrency=1))
    await first.start()
    task_id = (await failed(first)).task_id
    desk.may_end.clear()
    desk.works.clear()
    await first.submit(Submission.of(Task.create("go")), "ann")
    await desk.works.wait()
    fold = await retry(first, task_id, "ann")
    assert fold.state is TaskState.SUBMITTED
    await first.stop(grace_s=0)
    desk.may_end.set()
    second = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), desk.handle, limits=Limits(max_concurrency=1))
    await second.start()
    try:
        after = await second.settled(AcceptedTurn(task_id, fold.sequence))
        assert (after.state, after.attempt) == (TaskState.COMPLETED, 2)
        assert desk.given[-1][0] == 1
    finally:
        await second.stop(grace_s=0)


async def test_each_attempt_has_its_own_report(service: TaskService, desk: Desk) -> None:
    task_id = (await failed(service)).task_id
    after = await retried(service, task_id)
    log = await service.read_log(task_id, 0, 1000)
    ends = []
    for run_id in after.run_ids:
        builder = ReportBuilder(run_id)
        builder.add_frames(log)
        task = builder.report_on(task_id).final_task
        assert task is not None
        ends.append((str(task.state), task.messages[-1].text))
    assert ends == [("failed", "on it"), ("completed", "done")]
