"""Retries over A2A, where a task does not change after its end: each retry is another task."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from protolink_grpc import (
    AgentCard,
    MemoryStore,
    PushNotSupportedError,
    SequenceOutOfRangeError,
    Task,
    TaskFinishedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskState,
    UnsupportedOperationError,
)
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.options import A2AOptions, PushOptions
from protolink_grpc.a2a.values import (
    OWN_KEY,
    RETRY_OF,
    V1,
    CallerInfo,
    ListParams,
    NotificationBatch,
    SendParams,
    StatusUpdate,
    TaskView,
    Update,
)
from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL
from protolink_grpc.models import Message, Part
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.watch import StopAt
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission

CALLER = CallerInfo(ANONYMOUS_PRINCIPAL, False, V1, frozenset())
OWNER = ANONYMOUS_PRINCIPAL.name
WAIT_S = 20.0


class Desk:
    """Fails the first run of a task; the second one asks a question after `may_end`; the third one completes."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.works = asyncio.Event()

    async def handle(self, task: Task, run: Run) -> Task:
        if run.attempt == 1:
            return task.fail("no luck")
        if run.attempt == 2:
            self.works.set()
            await self.may_end.wait()
            return task.require_input(Message.agent("which?"))
        return task.complete("done")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def service(desk: Desk) -> AsyncIterator[TaskService]:
    service = TaskService("agent", MemoryStore(), desk.handle)
    await service.start()
    yield service
    await service.stop(0)


@pytest.fixture
def operations(service: TaskService) -> Operations:
    card = AgentCard(name="agent", description="retries", url="runtime://agent")
    return Operations(service, lambda: card, list, A2AOptions(push=PushOptions(allow=("private",))))


def user(text: str) -> Message:
    return Message(role="user", parts=[Part.text(text)])


async def failed(operations: Operations) -> TaskView:
    view = await operations.send(CALLER, SendParams(user("go")))
    assert isinstance(view, TaskView)
    return view


async def updates_of(stream: AsyncIterator[list[Update]]) -> list[Update]:
    async with asyncio.timeout(WAIT_S):
        return [update async for updates in stream for update in updates]


async def test_a_retry_has_its_own_id_and_the_first_task_stays_as_it_ended(
    operations: Operations, service: TaskService, desk: Desk
) -> None:
    first = await failed(operations)
    await service.control.retry(first.task_id, OWNER)
    await desk.works.wait()
    again = await operations.get(CALLER, "", first.task_id)
    assert again == first
    retry = await operations.get(CALLER, "", f"{first.task_id}~1")
    assert (retry.task_id, retry.context_id) == (f"{first.task_id}~1", first.context_id)
    assert retry.status.state is TaskState.WORKING
    assert retry.metadata[OWN_KEY] == {RETRY_OF: first.task_id}
    assert retry.history is not None
    assert [message.text for message in retry.history] == ["go"]
    for unknown in ("~0", "~2", "~01", "~", "~x"):
        with pytest.raises(TaskNotFoundError):
            await operations.get(CALLER, "", first.task_id + unknown)


async def test_only_the_first_task_has_webhooks_and_they_are_done(
    operations: Operations, service: TaskService, desk: Desk
) -> None:
    await operations.start()
    first = await failed(operations)
    await service.control.retry(first.task_id, OWNER)
    await desk.works.wait()
    hook = PushConfig("http://10.0.0.1/hook", "hook", first.task_id)
    retry_id = f"{first.task_id}~1"
    with pytest.raises(PushNotSupportedError):
        await operations.push.set(CALLER, replace(hook, task_id=retry_id))
    with pytest.raises(PushNotSupportedError):
        await operations.send(CALLER, SendParams(user("more"), task_id=retry_id, push=replace(hook, task_id="")))
    assert await operations.push.set(CALLER, hook) == hook
    await operations.push.flush(first.task_id)
    row = await service.webhooks.get(first.task_id, "hook")
    assert row is not None
    assert (row.cursor, row.done) == (first.sequence, True)
    await operations.stop(0)


async def test_a_list_has_the_latest_attempt(operations: Operations, service: TaskService, desk: Desk) -> None:
    first, other = await failed(operations), await failed(operations)
    await service.control.retry(first.task_id, OWNER)
    await desk.works.wait()
    page = await operations.list_tasks(CALLER, ListParams())
    assert [(view.task_id, view.status.state) for view in page.tasks] == [
        (f"{first.task_id}~1", TaskState.WORKING),
        (other.task_id, TaskState.FAILED),
    ]


async def test_a_retry_whose_id_would_be_too_long_is_not_shown(
    operations: Operations, service: TaskService, desk: Desk
) -> None:
    task_id = "x" * 127
    await service.send(Submission([user("go")], task_id=task_id), OWNER)
    await service.control.retry(task_id, OWNER)
    await desk.works.wait()
    for params, shown in (
        (ListParams(), [task_id]),
        (ListParams(state=TaskState.FAILED), []),
        (ListParams(state=TaskState.WORKING), []),
    ):
        page = await operations.list_tasks(CALLER, params)
        assert [view.task_id for view in page.tasks] == shown
        assert all(view.status.state is TaskState.FAILED for view in page.tasks)


async def test_a_stream_shows_one_attempt(operations: Operations, service: TaskService, desk: Desk) -> None:
    first = await failed(operations)
    await service.control.retry(first.task_id, OWNER)
    await desk.works.wait()
    with pytest.raises(UnsupportedOperationError):
        await updates_of(operations.subscribe(CALLER, "", first.task_id))
    assert await updates_of(operations.subscribe(CALLER, "", first.task_id, first.sequence)) == []
    (*_, end) = await updates_of(operations.subscribe(CALLER, "", first.task_id, 1))
    assert isinstance(end, StatusUpdate)
    assert (end.task_id, end.status.state, end.sequence) == (first.task_id, TaskState.FAILED, first.sequence)

    retry_id = f"{first.task_id}~1"
    stream = operations.subscribe(CALLER, "", retry_id)
    async with aclosing(stream):
        (snapshot,) = await anext(stream)
        assert isinstance(snapshot, TaskView)
        desk.may_end.set()
        shown = await anext(stream)
    assert {update.task_id for update in (snapshot, *shown) if not isinstance(update, Message)} == {retry_id}
    answered = await operations.send(CALLER, SendParams(user("this one"), task_id=retry_id))
    assert isinstance(answered, TaskView)
    assert (answered.task_id, answered.status.state) == (retry_id, TaskState.COMPLETED)
    updates = await updates_of(operations.subscribe(CALLER, "", retry_id, snapshot.sequence))
    assert {update.task_id for update in updates if isinstance(update, StatusUpdate)} == {retry_id}


async def test_a_position_beyond_the_end_of_an_attempt_is_refused(
    operations: Operations, service: TaskService, desk: Desk
) -> None:
    first = await failed(operations)
    own = first.task_id
    desk.may_end.set()
    await service.control.retry(own, OWNER)
    async with asyncio.timeout(WAIT_S):
        async for _ in service.watch(own, OWNER, after=first.sequence, stop_at=StopAt.INTERRUPTED):
            pass
    canceled = await service.cancel(own, OWNER)
    ends = [first.sequence, canceled.sequence]
    await service.control.retry(own, OWNER)
    *_, completed = await updates_of(operations.subscribe(CALLER, "", f"{own}~2", canceled.sequence))
    ends.append(completed.sequence)
    for task_id, last in zip((own, f"{own}~1", f"{own}~2"), ends, strict=True):
        assert await updates_of(operations.subscribe(CALLER, "", task_id, last)) == []
        with pytest.raises(SequenceOutOfRangeError, match=f"which ends with {last}$"):
            await updates_of(operations.subscribe(CALLER, "", task_id, last + 1))


async def test_a_stream_of_a_retry_resumes_in_any_of_its_turns(
    operations: Operations, service: TaskService, desk: Desk
) -> None:
    first = await failed(operations)
    retry_id = f"{first.task_id}~1"
    await service.control.retry(first.task_id, OWNER)
    desk.may_end.set()
    async with asyncio.timeout(WAIT_S):
        async for _ in service.watch(first.task_id, OWNER, after=first.sequence, stop_at=StopAt.INTERRUPTED):
            pass
    await operations.send(CALLER, SendParams(user("this one"), task_id=retry_id))
    whole = await updates_of(operations.subscribe(CALLER, "", retry_id, 0))
    states = [update.status.state for update in whole if isinstance(update, StatusUpdate)]
    assert states[-1] is TaskState.COMPLETED
    assert TaskState.INPUT_REQUIRED in states
    assert whole[0].sequence > first.sequence
    for position in {update.sequence for update in whole}:
        first_after = next(index for index, update in enumerate(whole) if update.sequence == position) + 1
        assert await updates_of(operations.subscribe(CALLER, "", retry_id, position)) == whole[first_after:]


async def test_the_first_task_takes_no_messages_and_no_cancellation(
    operations: Operations, service: TaskService, desk: Desk
) -> None:
    first = await failed(operations)
    await service.control.retry(first.task_id, OWNER)
    await desk.works.wait()
    with pytest.raises(TaskFinishedError):
        await operations.send(CALLER, SendParams(user("more"), task_id=first.task_id))
    with pytest.raises(TaskNotCancelableError):
        await operations.cancel(CALLER, "", first.task_id)
    ended = await operations.cancel(CALLER, "", f"{first.task_id}~1")
    assert (ended.task_id, ended.status.state) == (f"{first.task_id}~1", TaskState.CANCELED)
    assert await operations.get(CALLER, "", first.task_id) == first


async def test_the_status_of_a_retry_has_the_same_message_in_a_stream_and_in_a_view(
    operations: Operations, service: TaskService, desk: Desk
) -> None:
    first = await failed(operations)
    retry_id = f"{first.task_id}~1"
    await service.control.retry(first.task_id, OWNER)
    await desk.works.wait()
    view = await operations.cancel(CALLER, "", retry_id, {"reason": "not needed"})
    assert view.status.message is not None
    (*_, end) = await updates_of(operations.subscribe(CALLER, "", retry_id, 0))
    assert isinstance(end, StatusUpdate)
    assert end.status == view.status


async def test_the_webhook_of_the_first_task_gets_nothing_of_a_retry(
    operations: Operations, service: TaskService, desk: Desk
) -> None:
    first = await failed(operations)
    await service.control.retry(first.task_id, OWNER)
    await desk.works.wait()
    for version in ("1.0", "0.3"):
        batch = await operations.push.render(version, OWNER, first.task_id, 0)
        assert batch.sequence == first.sequence
        end = await operations.push.render(version, OWNER, first.task_id, batch.sequence)
        assert end == NotificationBatch((), first.sequence, is_last=True)
