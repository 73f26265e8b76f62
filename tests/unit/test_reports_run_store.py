"""The run store: a read-only view of the file of a task store."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import SQLiteStore
from protolink_grpc.errors import (
    InvalidArgumentError,
    StoreError,
    StoreReadOnlyError,
    StoreVersionError,
    TaskNotFoundError,
    UnimplementedError,
)
from protolink_grpc.models import Message, RunContext, Task, TaskState
from protolink_grpc.models import events as ev
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import RunStore, SQLiteRunStore
from protolink_grpc.runtime.log import LiveTask

SUBMITTED, WORKING, COMPLETED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED


class Pulse:
    """A clock that advances by a second with each read."""

    now = 1_780_000_000_000_000

    def micros(self) -> int:
        Pulse.now += 1_000_000
        return Pulse.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    """An open task store, whose file the view reads."""
    opened = SQLiteStore(path)
    await opened.open()
    yield opened
    await opened.close()


async def ran(
    store: SQLiteStore, task_id: str, *, agent: str = "hotel", session: str = "s", principal: str = "ada"
) -> LiveTask:
    """Store a completed task with one run."""
    live = LiveTask(task_id, agent_name=agent, store=store, clock=Pulse())
    live.fold.principal, live.fold.agent_name, live.fold.session_id = principal, agent, session
    task = Task(task_id, messages=[Message.user("hello")], metadata={"secret": "hunter2"})
    RunContext(run_id="callers", session_id=session, trace_id=f"trace-{task_id}").attach_to_task(task)
    opening: list[Any] = [ev.TaskSubmitted.of(task, principal), ev.TaskStatusChanged(SUBMITTED, WORKING, attempt=1)]
    await live.record(opening, run_id=f"{task_id}-run-1", claim=True)
    await live.record(
        [ev.TaskMessagesAdded((Message.agent("done"),)), ev.TaskStatusChanged(WORKING, COMPLETED)],
        run_id=f"{task_id}-run-1",
    )
    return live


async def ran_twice(store: SQLiteStore, task_id: str) -> None:
    """Store a task that waited for input and is running again."""
    live = LiveTask(task_id, agent_name="hotel", store=store, clock=Pulse())
    live.fold.principal, live.fold.agent_name, live.fold.session_id = "ada", "hotel", "s"
    first: list[Any] = [ev.TaskSubmitted(Task(task_id), "ada"), ev.TaskStatusChanged(SUBMITTED, WORKING, attempt=1)]
    await live.record([*first, ev.TaskStatusChanged(WORKING, TaskState.INPUT_REQUIRED)], run_id="run-1", claim=True)
    again = [ev.TaskStatusChanged(TaskState.INPUT_REQUIRED, WORKING, attempt=2)]
    await live.record([*again, {"mentions": "run-1"}], run_id="run-2", claim=True)


async def test_a_record_contains_its_head_and_the_task(store: SQLiteStore, path: Path) -> None:
    await ran(store, "t1")
    record = SQLiteRunStore(path).get_task_record("t1")
    assert record is not None
    assert (record.state, record.run_id, record.session_id, record.trace_id) == (COMPLETED, "t1-run-1", "s", "trace-t1")
    assert (record.agent_name, record.principal) == ("hotel", "ada")
    assert record.created_at < record.updated_at
    assert record.task is not None
    assert [message.text for message in record.task.messages] == ["hello", "done"]
    assert SQLiteRunStore(path).get_task("t1") == record.task


async def test_the_task_equals_that_of_the_task_store(store: SQLiteStore, path: Path) -> None:
    live = await ran(store, "t1")
    task = SQLiteRunStore(path).get_task("t1")
    assert task is not None
    assert task.to_dict() == live.fold.to_task().to_dict()


async def test_lists_begin_with_the_most_recently_changed_and_are_filtered(store: SQLiteStore, path: Path) -> None:
    await ran(store, "t1", session="s1")
    await ran(store, "t2", session="s2", agent="flight", principal="bob")
    await ran_twice(store, "t3")
    runs = SQLiteRunStore(path)

    def listed(**wanted: Any) -> list[str]:
        return [record.task_id for record in runs.list_task_records(**wanted)]

    assert listed() == ["t3", "t2", "t1"]
    assert listed(limit=2) == ["t3", "t2"]
    assert listed(limit=0) == []
    assert listed(session_id="s1") == ["t1"]
    assert listed(agent_name="flight") == ["t2"]
    assert listed(state="completed") == ["t2", "t1"]
    assert listed(state=WORKING, agent_name="hotel") == ["t3"]
    assert listed(run_id="t1-run-1") == ["t1"]
    assert listed(run_id="run-1") == ["t3"], "an earlier run of its task"
    assert listed(run_id="none") == []
    assert runs.list_task_records()[1].principal == "bob", "the owner of the file sees all tasks"
    assert runs.list_task_records()[0].task is None
    with pytest.raises(InvalidArgumentError, match="state"):
        runs.list_task_records(state="sleeping")


async def test_a_report_is_found_by_run_and_by_task(store: SQLiteStore, path: Path) -> None:
    await ran_twice(store, "t3")
    runs = SQLiteRunStore(path)
    latest, earlier, whole = runs.get_report("run-2"), runs.get_report("run-1"), runs.get_report("t3")
    assert latest is not None
    assert earlier is not None
    assert whole is not None
    assert {event.run_id for event in latest.events} == {"run-2"}
    assert {event.run_id for event in earlier.events} == {"run-1"}
    assert [event.sequence for event in whole.events] == [1, 2, 3, 4, 5]
    assert runs.get_report("none") is None
    assert runs.get_report("") is None


async def test_report_records_name_the_run(store: SQLiteStore, path: Path) -> None:
    await ran(store, "t1", session="s1")
    await ran_twice(store, "t3")
    runs = SQLiteRunStore(path)
    record = runs.get_report_record("run-1")
    assert record is not None
    assert (record.run_id, record.task_id, record.report is not None) == ("run-1", "t3", True)
    listed = runs.list_report_records()
    assert [(each.run_id, each.task_id, each.report) for each in listed] == [
        ("run-2", "t3", None),
        ("t1-run-1", "t1", None),
    ]
    assert [each.task_id for each in runs.list_report_records(session_id="s1")] == ["t1"]
    assert runs.list_report_records(agent_name="none") == []


async def test_results_are_redacted_by_the_policy(store: SQLiteStore, path: Path) -> None:
    await ran(store, "t1")
    plain, hidden = SQLiteRunStore(path), SQLiteRunStore(path, redaction_policy=RedactionPolicy())
    for runs, shown in ((plain, True), (hidden, False)):
        task, report = runs.get_task("t1"), runs.get_report("t1")
        assert task is not None
        assert report is not None
        assert ("hunter2" in str(task.to_dict())) is shown
        assert ("hunter2" in report.to_json()) is shown


async def test_saving_a_stored_run_does_nothing(store: SQLiteStore, path: Path) -> None:
    await ran(store, "t1")
    runs = SQLiteRunStore(path)
    before = (await store.head("t1"), await store.read("t1", 0, 100))
    task, report = runs.get_task("t1"), runs.get_report("t1")
    assert task is not None
    assert report is not None
    runs.save_task(task)
    runs.save_report(report)
    assert (await store.head("t1"), await store.read("t1", 0, 100)) == before


async def test_a_run_of_another_store_cannot_be_saved(store: SQLiteStore, path: Path) -> None:
    runs = SQLiteRunStore(path)
    with pytest.raises(TaskNotFoundError):
        runs.save_task(Task.create("hello"))
    with pytest.raises(TaskNotFoundError):
        runs.save_report(RunReport())


async def test_deleting_is_refused_and_deletes_nothing(store: SQLiteStore, path: Path) -> None:
    await ran(store, "t1")
    with pytest.raises(UnimplementedError, match="cannot be deleted"):
        SQLiteRunStore(path).delete_task("t1")
    assert SQLiteRunStore(path).get_task("t1") is not None


def test_a_missing_file_has_no_records_and_is_not_created(path: Path) -> None:
    runs: RunStore = SQLiteRunStore(path)
    assert (runs.get_task("t"), runs.get_report("t"), runs.list_task_records(), runs.list_report_records()) == (
        None,
        None,
        [],
        [],
    )
    assert not path.exists()


def test_an_empty_file_has_no_records(path: Path) -> None:
    path.touch()
    assert SQLiteRunStore(path).list_task_records() == []


def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreVersionError):
        SQLiteRunStore(path).list_task_records()


def test_a_file_that_is_not_a_database_is_a_store_error(path: Path) -> None:
    path.write_bytes(b"not a database, whatever its name may say" * 100)
    with pytest.raises(StoreError):
        SQLiteRunStore(path).get_task("t")


def test_task_store_always_returns_the_same_store(path: Path) -> None:
    runs = SQLiteRunStore(path)
    assert runs.task_store is runs.task_store
    assert runs.task_store.path == path
    with pytest.raises(StoreReadOnlyError):
        _ = SQLiteRunStore(path, read_only=True).task_store
    assert not path.exists()


async def test_a_commit_is_visible_at_once(path: Path) -> None:
    runs = SQLiteRunStore(path)
    await runs.task_store.open()
    await ran(runs.task_store, "t1")
    assert runs.get_task("t1") is not None
    await runs.task_store.close()
    assert runs.get_task("t1") is not None
