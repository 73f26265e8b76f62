"""The deletion of tasks, for every task store, and its use by a service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc import MemoryStore, Message, SessionNotFoundError, SQLiteStore, Task, TaskState
from protolink_grpc.errors import InvalidArgumentError, TaskAlreadyRunningError, TaskNotFoundError
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.models.session import ThreadStarted
from protolink_grpc.runtime import tasks as module
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.approvals import APPROVALS, ApprovalRow
from protolink_grpc.storage.port import HELD, Append, Deleted, RequestRecord, TaskHead, TaskQuery, TaskStore
from protolink_grpc.storage.records import Put, Records
from protolink_grpc.storage.session_log import Opening, SessionAppend, SessionLog
from protolink_grpc.storage.session_rows import ENDED_TURNS, ENTRIES, HEADS, OPEN_TURNS, THREADS, owner_of
from protolink_grpc.storage.sqlite.log import KINDS
from protolink_grpc.storage.webhooks import (
    WEBHOOK_FAILURES,
    WEBHOOKS,
    PushRow,
    WebhookFailure,
    WebhookRows,
    put_webhook,
)

PATIENCE_S = 20.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

OWNER = owner_of("agent", "ada")


@pytest.fixture
async def opened(store: TaskStore) -> AsyncIterator[TaskStore]:
    await store.open()
    yield store
    await store.close()


def ending(task_id: str, *, session_id: str = "s", state: TaskState = TaskState.COMPLETED, **known: Any) -> Append:
    """An append that creates a task with two events, an approval and a turn of a session."""
    head = TaskHead(task_id, "ada", "agent", session_id, state, 2, "run", 1_000, 1_000, "worker", 1)
    head = replace(head, **known)
    approval = ApprovalRow(
        f"approval of {task_id}", head.agent_name, head.principal, task_id, ApprovalState.WITHDRAWN, 1_000, 1, 2
    )
    end = (state, "") if state is TaskState.COMPLETED else None
    turn = SessionAppend(
        owner_of(head.agent_name, head.principal), session_id, task_id, 1, 2, 1_000, Opening(), end=end
    )
    return Append(head, [b"one", b"two"], 0, 0, f"request of {task_id}", [Put(APPROVALS, approval)], turn)


async def put_tasks(store: TaskStore, *task_ids: str, **known: Any) -> None:
    for task_id in task_ids:
        append = ending(task_id, **known)
        await store.append(append)
        hook = PushRow(append.head.agent_name, append.head.principal, task_id, "hook", b"body", 0, 1_000)
        await store.change(lambda records, hook=hook: put_webhook(records, hook))
        failure = WebhookFailure(hook.agent_name, task_id, "hook", 1, 1_000, "HTTP 410")
        await store.change(lambda records, failure=failure: records.put(WEBHOOK_FAILURES, failure))


async def traces(store: TaskStore, task_id: str, agent: str = "agent", principal: str = "ada") -> set[str]:
    """The names of what the store has of a task."""
    found: dict[str, Any] = {
        "head": await store.head(task_id),
        "log": await store.read(task_id, 0, 10),
        "request": await store.request(agent, principal, f"request of {task_id}"),
    }

    def query(records: Records) -> dict[str, Any]:
        owner = owner_of(agent, principal)
        heads = records.select(HEADS, {"owner": owner})
        return {
            "approval": records.get(APPROVALS, agent, f"approval of {task_id}"),
            "webhook": records.select(WEBHOOKS, {"agent_name": agent, "task_id": task_id}),
            "webhook failure": records.get(WEBHOOK_FAILURES, agent, task_id, "hook"),
            "entry": [e for h in heads for e in records.select(ENTRIES, {"session": h.number, "task_id": task_id})],
            "turn": [
                e
                for h in heads
                for kind in (OPEN_TURNS, ENDED_TURNS)
                for e in records.select(kind, {"session": h.number, "task_id": task_id})
            ],
        }

    found |= await store.view(query)
    return {name for name, value in found.items() if value}


ALL = {"head", "log", "request", "approval", "webhook", "webhook failure", "entry", "turn"}


async def test_a_deletion_leaves_nothing_of_its_tasks_and_all_of_the_others(opened: TaskStore) -> None:
    await put_tasks(opened, "a", "b", "c")
    await put_tasks(opened, "d", principal="bob")
    await put_tasks(opened, "e", agent_name="other")
    assert await opened.delete(["a", "c"]) == Deleted(2, 4)
    assert [await traces(opened, each) for each in "abc"] == [set(), ALL, set()]
    assert await traces(opened, "d", principal="bob") == await traces(opened, "e", agent="other") == ALL
    page = await opened.find(TaskQuery("ada", "agent", include_total=True))
    assert ([head.task_id for head in page.heads], page.total) == (["b"], 1)
    assert await opened.delete(["d", "e"]) == Deleted(2, 4)
    assert await traces(opened, "d", principal="bob") == await traces(opened, "e", agent="other") == set()


async def test_unknown_and_repeated_ids_are_skipped(opened: TaskStore) -> None:
    await put_tasks(opened, "a")
    assert await opened.delete([]) == await opened.delete(["unknown"]) == Deleted()
    assert await opened.delete(["a", "unknown", "a"]) == Deleted(1, 2)
    assert await opened.delete(["a"]) == Deleted()


@pytest.mark.parametrize("state", [TaskState.SUBMITTED, TaskState.WORKING, TaskState.INPUT_REQUIRED])
async def test_a_task_that_has_not_ended_is_not_deleted_nor_any_other(opened: TaskStore, state: TaskState) -> None:
    await put_tasks(opened, "a")
    await put_tasks(opened, "b", state=state)
    called: list[Records] = []
    with pytest.raises(TaskAlreadyRunningError, match=f"task b is {state}; cancel it first") as refused:
        await opened.delete(["a", "b"], records=called.append)
    assert refused.value.metadata == {"task_id": "b", "state": str(state)}
    assert called == []
    assert await traces(opened, "a") == await traces(opened, "b") == ALL


async def test_a_task_that_waits_in_a_queue_is_not_deleted(opened: TaskStore) -> None:
    await put_tasks(opened, "a", state=TaskState.SUBMITTED, worker=HELD)
    with pytest.raises(TaskAlreadyRunningError):
        await opened.delete(["a"])


async def test_records_are_changed_in_the_transaction_of_the_deletion(opened: TaskStore) -> None:
    await put_tasks(opened, "a", "b")
    hook = PushRow("agent", "ada", "b", "another", b"", 0, 1_000)

    def change(records: Records) -> None:
        assert records.is_finished("a", 2)
        records.put(WEBHOOKS, hook)

    assert await opened.delete(["a"], records=change) == Deleted(1, 2)
    assert await opened.view(lambda records: records.get(WEBHOOKS, "agent", "b", "another")) == hook
    assert await opened.delete([], records=lambda records: records.delete(WEBHOOKS, "agent", "b") and None) == Deleted()
    assert await traces(opened, "b") == ALL - {"webhook"}


async def test_a_refusal_of_the_records_refuses_the_deletion(opened: TaskStore) -> None:
    await put_tasks(opened, "a")

    def refuse(records: Records) -> None:
        records.delete(WEBHOOKS, "agent", "a")
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError, match="no"):
        await opened.delete(["a"], records=refuse)
    assert await traces(opened, "a") == ALL


async def test_a_deleted_id_can_be_used_again(opened: TaskStore) -> None:
    await put_tasks(opened, "a")
    await opened.delete(["a"])
    with pytest.raises(TaskNotFoundError):
        await opened.append(Append(replace(ending("a").head, sequence=3), [b"three"], 2, 1))
    again = replace(ending("a"), events=[b"new"], head=replace(ending("a").head, sequence=1), records=(), session=None)
    assert await opened.append(again) is None
    assert await opened.read("a", 0, 10) == [b"new"]
    assert await opened.request("agent", "ada", "request of a") == RequestRecord("a", 0)


async def test_readers_of_a_deleted_log_wake(opened: TaskStore) -> None:
    await put_tasks(opened, "a", "b")
    waiting = [asyncio.create_task(opened.wait(each, 2)) for each in "ab"]
    hooks = WebhookRows("agent", opened)
    delivery = asyncio.create_task(hooks.wait_event("a", 2))
    for _ in range(3):
        await asyncio.sleep(0)
        await opened.head("a")
    await opened.delete(["a"])
    async with asyncio.timeout(PATIENCE_S):
        await waiting[0]
        with pytest.raises(TaskNotFoundError):
            await delivery
        await opened.wait("a", 2)  # a reader that begins to wait after the deletion
    waiting[1].cancel()
    await asyncio.wait(waiting)


async def test_readers_of_deleted_records_wake(opened: TaskStore) -> None:
    await put_tasks(opened, "a")
    number = (await opened.view(lambda records: records.select(HEADS, {"owner": OWNER})))[0].number
    latest = (await opened.view(lambda records: records.revisions(APPROVALS, "agent"))).latest
    waiting = [
        asyncio.create_task(opened.wait_until(ENTRIES, number, lambda _: False)),
        asyncio.create_task(opened.wait_change(APPROVALS, "agent", latest)),
    ]
    for _ in range(3):
        await asyncio.sleep(0)
        await opened.head("a")
    await opened.delete(["a"])
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*waiting)


async def test_a_reader_that_missed_the_end_of_a_deleted_approval_starts_again(opened: TaskStore) -> None:
    await put_tasks(opened, "a", "b")
    before = await opened.view(lambda records: records.revisions(APPROVALS, "agent"))
    assert before.latest == before.first + 2
    await opened.delete(["a"])
    after = await opened.view(lambda records: records.revisions(APPROVALS, "agent"))
    assert (after.first, after.latest) == (before.first + 1, before.latest)
    await opened.delete(["b"])
    after = await opened.view(lambda records: records.revisions(APPROVALS, "agent"))
    assert after.first == after.latest == before.latest


async def test_a_session_is_dropped_with_the_last_of_its_tasks(opened: TaskStore) -> None:
    def start_thread(records: Records) -> None:
        log = SessionLog(records, OWNER, "s", 900, create=True)
        log.start_thread(ThreadStarted("side", ""))
        log.close()

    await opened.change(start_thread)
    await put_tasks(opened, "a", "b", "c")
    number = (await opened.view(lambda records: records.get(HEADS, OWNER, "s"))).number

    def parts(records: Records) -> list[int]:
        return [len(records.select(kind, {"session": number})) for kind in (THREADS, ENDED_TURNS, OPEN_TURNS, ENTRIES)]

    await opened.delete(["c"])  # the task of the latest event
    assert await opened.view(parts) == [1, 2, 0, 3]
    await opened.delete(["a"])
    assert (await opened.view(lambda records: records.get(HEADS, OWNER, "s"))).task_id == "b"
    await opened.delete(["b"])
    assert await opened.view(lambda records: records.get(HEADS, OWNER, "s")) is None
    assert await opened.view(parts) == [0, 0, 0, 0]


def test_each_kind_of_record_with_a_task_can_be_found_by_the_task() -> None:
    parts = {part.name for kind in KINDS for part, _ in kind.drops}
    assert {kind.name for kind in KINDS if kind.task and kind.home is None} <= parts
    for kind in KINDS:
        if kind.drops:
            assert any(part.task for part, _ in kind.drops)


@given(st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_any_order_of_deletions_leaves_the_same_in_both_stores(
    tmp_path_factory: pytest.TempPathFactory, deletions: list[set[int]], mixed: bool
) -> None:
    async def work(store: TaskStore) -> list[Any]:
        await store.open()
        for number in range(10):
            await put_tasks(store, str(number), session_id=f"s{number % 3}" if mixed else "s")
        found: list[Any] = []
        for each in deletions:
            found.append(await store.delete([str(number) for number in sorted(each)]))
            found.append([sorted(await traces(store, str(number))) for number in range(10)])
            heads = await store.view(lambda records: records.select(HEADS, {"owner": OWNER}))
            found.append(sorted((head.session_id, head.position, head.turns) for head in heads))
        await store.close()
        return found

    path = tmp_path_factory.mktemp("store") / "tasks.db"
    assert asyncio.run(work(MemoryStore())) == asyncio.run(work(SQLiteStore(path)))


# -- a service -----------------------------------------------------------------------------------------------------------


class Desk:
    """A service whose handler waits at `hold`, asks at `ask`, and otherwise completes."""

    def __init__(self, store: TaskStore) -> None:
        self.open = asyncio.Event()
        self.service = TaskService("desk", store, self.handle)
        self.delete = self.service._tasks.delete

    async def handle(self, task: Task, run: Run) -> Task:
        text = task.messages[-1].text
        if text == "hold":
            await self.open.wait()
        return task.require_input(Message.agent("what?")) if text == "ask" else task.complete("yes")

    async def send(self, text: str, principal: str = "ann", **known: Any) -> str:
        task = Task.create(text, session_id="s")
        await self.service.send(replace(Submission.of(task), **known), principal)
        return task.id

    async def begin(self, text: str, principal: str = "ann") -> str:
        return (await self.service.submit(Submission.of(Task.create(text)), principal)).task_id

    async def read(self, task_id: str, **options: Any) -> list[bytes]:
        async with aclosing(self.service.watch(task_id, "ann", **options)) as batches:
            return [frame async for frames in batches for frame in frames]


@pytest.fixture
async def desk(store: TaskStore) -> AsyncIterator[Desk]:
    desk = Desk(store)
    await desk.service.start()
    yield desk
    desk.open.set()
    await desk.service.stop()


async def test_a_principal_deletes_only_its_own_tasks(desk: Desk) -> None:
    mine, theirs = await desk.send("one"), await desk.send("two", "bob")
    found = await desk.delete([mine, theirs, "unknown"], "ann")
    assert found.tasks == 1
    assert found.events > 0
    with pytest.raises(TaskNotFoundError):
        await desk.service.get(mine, "ann")
    assert (await desk.service.get(theirs, "bob")).state is TaskState.COMPLETED
    assert await desk.delete([theirs], "ann") == Deleted()


async def test_tasks_that_work_wait_or_are_queued_are_not_deleted(desk: Desk) -> None:
    ended, working, asking = await desk.send("one"), await desk.begin("hold"), await desk.send("ask")
    for task_id in (working, asking):
        with pytest.raises(TaskAlreadyRunningError):
            await desk.delete([ended, task_id], "ann")
    assert (await desk.service.get(ended, "ann")).state is TaskState.COMPLETED
    for task_id in (working, asking):
        await desk.service.cancel(task_id, "ann")
    assert (await desk.delete([ended, working, asking], "ann")).tasks == 3
    assert (await desk.service.find(TaskQuery("ann", "desk"))).heads == []


async def test_many_tasks_are_deleted_in_parts_and_the_records_with_the_last(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELETED_AT_ONCE", 2)
    ids = [await desk.send("one") for _ in range(5)]
    left: list[list[bool | None]] = []

    def note(records: Records) -> None:
        left.append([records.is_finished(task_id, 99) for task_id in ids])

    assert (await desk.delete(ids, "ann", records=note)).tasks == 5
    assert left[-1] == [None] * 4 + [True]
    assert await desk.delete([], "ann", records=note) == Deleted()
    assert left[-1] == [None] * 5


async def test_a_deleted_task_is_sent_again_as_a_new_one(desk: Desk) -> None:
    task = Task.create("one")
    first = await desk.service.send(Submission.of(task, request_id="r"), "ann")
    turn = await desk.service.submit(Submission.of(Task.create("two")), "ann")
    # A task that ended while a caller streamed it is kept in memory.
    assert await desk.read(turn.task_id)
    await desk.delete([task.id, turn.task_id], "ann")
    again = await desk.service.send(Submission.of(replace(task, messages=list(task.messages)), request_id="r"), "ann")
    assert again.run_id != first.run_id
    with pytest.raises(TaskNotFoundError):
        await desk.service.get(turn.task_id, "ann")


async def test_a_reader_that_has_not_read_the_end_of_a_deleted_task_ends_with_not_found(desk: Desk) -> None:
    task_id = await desk.send("one")
    whole = await desk.read(task_id)
    desk.service._watching._batch_events = 1
    async with aclosing(desk.service.watch(task_id, "ann")) as batches:
        assert await anext(batches) == whole[:1]
        await desk.delete([task_id], "ann")
        with pytest.raises(TaskNotFoundError, match=f"task {task_id} was deleted"):
            await anext(batches)


async def test_a_reader_of_a_session_ends_when_the_session_is_deleted(desk: Desk) -> None:
    task_id = await desk.send("one")
    caught_up = asyncio.Event()

    async def follow() -> None:
        async with aclosing(desk.service.sessions.watch("ann", "s")) as bodies:
            async for _ in bodies:
                caught_up.set()

    reading = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE_S):
        await caught_up.wait()
        await desk.delete([task_id], "ann")
        with pytest.raises(SessionNotFoundError):
            await reading


async def test_a_run_whose_task_another_worker_ended_and_deleted_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(SQLiteStore(tmp_path / "tasks.db"))
    await desk.service.start()
    other = SQLiteStore(tmp_path / "tasks.db")
    await other.open()
    task_id = await desk.begin("hold")
    run = desk.service._tasks.runs[task_id]
    async with asyncio.timeout(PATIENCE_S):
        while run.live.fold.state is not TaskState.WORKING:
            await other.wait(task_id, run.live.fold.sequence)
            await run.live.at_rest()
        # What is left after a takeover, which needs that the lease of this worker has expired.
        await other._execute("UPDATE tasks SET state = 'failed' WHERE task_id = ?", (task_id,))
        assert (await other.delete([task_id])).tasks == 1
        assert await run.wait_ended()
        with pytest.raises(TaskNotFoundError):
            await desk.service.get(task_id, "ann")
    await desk.service.stop()
    await other.close()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
