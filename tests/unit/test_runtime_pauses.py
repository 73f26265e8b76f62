"""Pauses of a task: where its run waits, and what it costs and keeps meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from protolink_grpc import (
    InvalidTransitionError,
    MemoryStore,
    SQLiteStore,
    Task,
    TaskFinishedError,
    TaskNotFoundError,
    TaskState,
)
from protolink_grpc.models import Message
from protolink_grpc.models.events import TaskPaused, TaskPauseRequested, TaskProgress, TaskResumed, TaskStatusChanged
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.task_control import TaskStatus
from protolink_grpc.models.task_status import status_of
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.limits import Limits
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.wire.events import event_from_frame

WAIT_S = 20.0


class Desk:
    """A handler that reports its progress twice; the test lets it begin each report."""

    def __init__(self) -> None:
        self.calls = 0
        self.waits = asyncio.Event()
        self.may_report = asyncio.Event()

    async def handle(self, task: Task, run: Run) -> Task:
        self.calls += 1
        if "ask" in task.messages[-1].text:
            return task.require_input(Message.agent("which?"))
        self.waits.set()
        await self.may_report.wait()
        await run.progress(50)
        await run.progress(100)
        return task.complete("done")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def service(desk: Desk) -> AsyncIterator[TaskService]:
    service = TaskService("agent", MemoryStore(), desk.handle, limits=Limits(max_concurrency=1))
    await service.start()
    yield service
    await service.stop(grace_s=0)


async def pause(service: TaskService, task_id: str, principal: str, reason: str = "") -> TaskFold:
    await service.control.pause(task_id, principal, reason)
    return await service.get(task_id, principal)


async def resume(service: TaskService, task_id: str, principal: str) -> TaskFold:
    await service.control.resume(task_id, principal)
    return await service.get(task_id, principal)


async def begin(service: TaskService, text: str = "go") -> AcceptedTurn:
    return await service.submit(Submission.of(Task.create(text)), "ann")


async def payloads(service: TaskService, task_id: str) -> list[object]:
    return [event_from_frame(frame).payload for frame in await service.read_log(task_id, 0, 1000)]


async def kinds(service: TaskService, task_id: str) -> list[type]:
    return [type(payload) for payload in await payloads(service, task_id)]


async def until(service: TaskService, task_id: str, kind: type, after: int = 0) -> None:
    """Wait until the log has an event of a kind after a position."""
    async with asyncio.timeout(WAIT_S), aclosing(service.watch(task_id, "ann", after=after)) as batches:
        async for frames in batches:
            if any(isinstance(event_from_frame(frame).payload, kind) for frame in frames):
                return
    raise AssertionError(f"the task ended without a {kind.__name__}")


async def end_of(service: TaskService, turn: AcceptedTurn) -> TaskFold:
    async with asyncio.timeout(WAIT_S):
        return await service.settled(turn)


async def test_a_run_pauses_at_its_next_report_and_goes_on_when_it_is_resumed(service: TaskService, desk: Desk) -> None:
    turn = await begin(service)
    await desk.waits.wait()
    asked = await pause(service, turn.task_id, "ann", reason="lunch")
    assert status_of(asked) is TaskStatus.RUNNING
    desk.may_report.set()
    await until(service, turn.task_id, TaskPaused)
    assert status_of(await service.get(turn.task_id, "ann")) is TaskStatus.PAUSED
    assert service.load == (0, 0)
    await resume(service, turn.task_id, "ann")
    assert (await end_of(service, turn)).state is TaskState.COMPLETED
    after = (await kinds(service, turn.task_id))[2:]
    assert after[:5] == [TaskPauseRequested, TaskProgress, TaskPaused, TaskResumed, TaskProgress]


async def test_repeating_a_pause_or_an_end_of_one_records_nothing(service: TaskService, desk: Desk) -> None:
    turn = await begin(service)
    await desk.waits.wait()
    first = (await resume(service, turn.task_id, "ann")).sequence
    await asyncio.gather(*(pause(service, turn.task_id, "ann") for _ in range(3)))
    assert (await pause(service, turn.task_id, "ann")).sequence == first + 1
    await asyncio.gather(*(resume(service, turn.task_id, "ann") for _ in range(3)))
    assert (await resume(service, turn.task_id, "ann")).sequence == first + 2
    desk.may_report.set()
    assert (await end_of(service, turn)).state is TaskState.COMPLETED
    assert TaskPaused not in await kinds(service, turn.task_id)


async def test_a_task_that_waits_for_a_slot_pauses_before_its_handler_is_called(
    service: TaskService, desk: Desk
) -> None:
    busy = await begin(service)
    await desk.waits.wait()
    turn = await begin(service)
    await pause(service, turn.task_id, "ann")
    desk.may_report.set()
    await end_of(service, busy)
    await until(service, turn.task_id, TaskPaused)
    assert desk.calls == 1
    await resume(service, turn.task_id, "ann")
    await end_of(service, turn)
    assert desk.calls == 2


async def test_a_paused_run_gives_its_slot_to_others(service: TaskService, desk: Desk) -> None:
    turn = await begin(service)
    await pause(service, turn.task_id, "ann")
    desk.may_report.set()
    await until(service, turn.task_id, TaskPaused)
    assert (await end_of(service, await begin(service))).state is TaskState.COMPLETED


async def test_a_cancel_ends_a_paused_run(service: TaskService, desk: Desk) -> None:
    turn = await begin(service)
    await pause(service, turn.task_id, "ann")
    desk.may_report.set()
    await until(service, turn.task_id, TaskPaused)
    ended = await service.cancel(turn.task_id, "ann", reason="no longer needed")
    assert ended.state is TaskState.CANCELED
    assert not ended.is_pause_requested
    assert status_of(ended) is TaskStatus.CANCELLED


async def test_only_the_owner_of_a_task_that_works_can_pause_it(service: TaskService, desk: Desk) -> None:
    desk.may_report.set()
    ended = await begin(service)
    await end_of(service, ended)
    asks = await begin(service, "ask me")
    await end_of(service, asks)
    with pytest.raises(TaskFinishedError):
        await pause(service, ended.task_id, "ann")
    with pytest.raises(TaskFinishedError):
        await resume(service, ended.task_id, "ann")
    with pytest.raises(InvalidTransitionError, match="input"):
        await pause(service, asks.task_id, "ann")
    for task_id in (asks.task_id, "task-unknown"):
        for call in (pause, resume):
            with pytest.raises(TaskNotFoundError):
                await call(service, task_id, "bob")


async def test_a_stop_leaves_a_paused_run_to_the_next_start_which_does_not_call_its_handler(
    tmp_path, desk: Desk
) -> None:
    first = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), desk.handle, recovery="auto")
    await first.start()
    turn = await begin(first)
    await pause(first, turn.task_id, "ann")
    desk.may_report.set()
    await until(first, turn.task_id, TaskPaused)
    left = (await first.get(turn.task_id, "ann")).sequence
    await first.stop(grace_s=5)
    second = TaskService("agent", SQLiteStore(tmp_path / "tasks.db"), desk.handle, recovery="auto")
    await second.start()
    try:
        calls = desk.calls
        await until(second, turn.task_id, TaskStatusChanged, after=left)
        while second.load[0]:
            await asyncio.sleep(0)
        assert status_of(await second.get(turn.task_id, "ann")) is TaskStatus.PAUSED
        assert desk.calls == calls
        await resume(second, turn.task_id, "ann")
        ended = await end_of(second, AcceptedTurn(turn.task_id, turn.after_sequence))
        assert ended.state is TaskState.COMPLETED
        assert desk.calls == calls + 1
        found = await kinds(second, turn.task_id)
        assert (found.count(TaskPaused), found.count(TaskResumed)) == (1, 1)
    finally:
        await second.stop(grace_s=0)


async def test_each_change_of_the_state_is_in_the_log_once(service: TaskService, desk: Desk) -> None:
    turn = await begin(service)
    await pause(service, turn.task_id, "ann")
    desk.may_report.set()
    await until(service, turn.task_id, TaskPaused)
    await resume(service, turn.task_id, "ann")
    await end_of(service, turn)
    states = [each.new_state for each in await payloads(service, turn.task_id) if isinstance(each, TaskStatusChanged)]
    assert states == [TaskState.WORKING, TaskState.COMPLETED]
