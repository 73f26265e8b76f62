"""The runs of an agent as records: a read-only view over the file of its task store.

Tasks and reports are computed from the log and not stored. The view opens a read connection for each call, and may be used from any
thread, while agents are running, and in other processes.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from protolink_grpc.errors import StoreReadOnlyError, TaskNotFoundError, UnimplementedError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.events import TaskSubmitted
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState, parse_state
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.task import Task
from protolink_grpc.reports.builder import ReportBuilder
from protolink_grpc.storage.port import TaskHead
from protolink_grpc.storage.sqlite.history import TaskHistory, task_history
from protolink_grpc.storage.sqlite.store import SQLiteStore
from protolink_grpc.wire.events import event_from_frame, replay


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task in a list. `run_id` is its latest run; `task` is None in lists. Times are ISO 8601 UTC."""

    task_id: str
    state: TaskState
    run_id: str
    session_id: str
    trace_id: str | None
    agent_name: str
    principal: str
    created_at: str
    updated_at: str
    reason: str = ""
    sequence: int = 0
    task: Task | None = None


@dataclass(frozen=True, slots=True)
class RunReportRecord:
    """A run in a list; `report` is None in lists. `created_at` is the time when its task was submitted."""

    run_id: str
    task_id: str
    session_id: str
    trace_id: str | None
    agent_name: str
    principal: str
    state: TaskState
    created_at: str
    updated_at: str
    report: RunReport | None = None


class RunStore(Protocol):
    """A store of runs. Applications can implement it over their own database, as in ProtoLink.

    With `Agent(run_store=...)`, `save_task` and then `save_report` are called after each run that ended in the agent's process,
    with the current task and the report of the run, both complete and unredacted. A run ends when its task ends or waits for
    input. The calls are made one after the other in a thread, soon after the response to the caller; coroutine functions are
    awaited. Their errors are logged, once until a call succeeds, and never fail a run. `Agent.stop` waits for outstanding calls
    as long as for runs. The agent calls no other methods.

    Methods for a single object return None if there is none. Lists begin with the most recently changed.
    """

    def save_task(self, task: Task, /) -> Any: ...

    def get_task(self, task_id: str) -> Task | None: ...

    def get_task_record(self, task_id: str) -> Any: ...

    def list_task_records(
        self,
        *,
        limit: int = 100,
        session_id: str | None = None,
        run_id: str | None = None,
        state: TaskState | str | None = None,
        agent_name: str | None = None,
    ) -> list[Any]: ...

    def save_report(self, report: RunReport, /) -> Any: ...

    def get_report(self, run_id: str) -> RunReport | None: ...

    def get_report_record(self, run_id: str) -> Any: ...

    def list_report_records(
        self, *, limit: int = 100, session_id: str | None = None, agent_name: str | None = None
    ) -> list[Any]: ...


@checks_arguments
class SQLiteRunStore:
    """The runs in a SQLite file. It contains the tasks of every principal, without access control.

    Args:
        db_path: The file of an agent's task store. With `Agent(run_store=...)` it is created when the agent starts. A file that
            does not exist has no records.
        read_only: Whether no agent may store its tasks in this file.
        redaction_policy: Applied to every returned task and report; None returns them unchanged.

    Every method raises StoreError if the file cannot be read, and StoreVersionError if a newer version of this package wrote it.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str] = "runs.db",
        read_only: bool = False,
        redaction_policy: RedactionPolicy | None = None,
    ) -> None:
        self.path = Path(db_path)
        self.read_only = read_only
        self._redaction = redaction_policy
        self._task_store: SQLiteStore | None = None

    @property
    def task_store(self) -> SQLiteStore:
        """Return the task store over this file, for an agent. All calls return the same one.

        Raises:
            StoreReadOnlyError: This view was opened with `read_only`.
        """
        if self.read_only:
            raise StoreReadOnlyError(f"{self.path} was opened read-only", path=str(self.path))
        if self._task_store is None:
            self._task_store = SQLiteStore(self.path)
        return self._task_store

    # -- Tasks -----------------------------------------------------------------------------------------------------------

    def save_task(self, task: Task) -> None:
        """Check that the task exists. There is nothing to save, because its log is in this file.

        Raises:
            TaskNotFoundError: The task was not run with this file.
        """
        with task_history(self.path) as history:
            if history is None or history.head(task.id) is None:
                raise TaskNotFoundError(
                    f"task {task.id} was not run by an agent with its task store in {self.path}", task_id=task.id
                )

    def get_task(self, task_id: str) -> Task | None:
        """Return the current task with its history."""
        record = self.get_task_record(task_id)
        return None if record is None else record.task

    def get_task_record(self, task_id: str) -> TaskRecord | None:
        """Return the task's record with the task."""
        with task_history(self.path) as history:
            head = None if history is None else history.head(task_id)
            if history is None or head is None:
                return None
            return _build_record(history, head, self._redact_task(_read_task(history, task_id)))

    def list_task_records(
        self,
        limit: int = 100,
        session_id: str | None = None,
        run_id: str | None = None,
        state: TaskState | str | None = None,
        agent_name: str | None = None,
    ) -> list[TaskRecord]:
        """Return the records of the matching tasks, most recently changed first. None matches all.

        This reads every head in the file, because an index by time would slow down each append.

        Args:
            run_id: Only tasks whose latest run has this id; callers can give several tasks the same id. If there is none, the
                first task with an earlier run of that id.
        """
        wanted = {"session_id": session_id, "agent_name": agent_name}
        where = {name: value for name, value in wanted.items() if value is not None}
        if state is not None:
            where["state"] = parse_state(state).value
        with task_history(self.path) as history:
            if history is None:
                return []
            if run_id is not None:
                where |= _run_filter(history, run_id)
            return [_build_record(history, head) for head in history.heads(where, limit)]

    def delete_task(self, task_id: str) -> bool:
        """Not supported, because request ids refer to their tasks.

        Raises:
            UnimplementedError: Always.
        """
        raise UnimplementedError(
            f"task {task_id} cannot be deleted from {self.path}: its request ids would refer to a missing task",
            method="delete_task",
        )

    # -- Reports ---------------------------------------------------------------------------------------------------------

    def save_report(self, report: RunReport) -> None:
        """Check that the report's task exists. There is nothing to save, because reports are computed from the log.

        Raises:
            TaskNotFoundError: The task was not run with this file. Other reports can be saved with `RunReport.to_json`.
        """
        self.save_task(Task(id=report.task_id))

    def get_report(self, run_id: str) -> RunReport | None:
        """Return the report of a run, or of all runs of a task if the id is a task's.

        A run that is not the latest of its task is searched in all logs. Of several tasks with the run id, the most recently
        changed one is used.
        """
        record = self.get_report_record(run_id)
        return None if record is None else record.report

    def get_report_record(self, run_id: str) -> RunReportRecord | None:
        """Return the run's record with the report; `run_id` as in `get_report`."""
        with task_history(self.path) as history:
            if history is None:
                return None
            whole = history.head(run_id) is not None
            task_id = run_id if whole else _find_task_id(history, run_id)
            head = None if task_id is None else history.head(task_id)
            if task_id is None or head is None:
                return None
            report = _read_report(history, task_id, "" if whole else run_id)
            if self._redaction is not None:
                report = report.redacted(self._redaction)
            return _build_run_record(_build_record(history, head), head.run_id if whole else run_id, report)

    def list_report_records(
        self, limit: int = 100, session_id: str | None = None, agent_name: str | None = None
    ) -> list[RunReportRecord]:
        """Return the records of the latest run of each matching task, most recently changed first. Costs as `list_task_records`."""
        records = self.list_task_records(limit, session_id, agent_name=agent_name)
        return [_build_run_record(record, record.run_id) for record in records]

    def _redact_task(self, task: Task) -> Task:
        return task if self._redaction is None else Task.from_dict(self._redaction.redact(task.to_dict()))


def _build_record(history: TaskHistory, head: TaskHead, task: Task | None = None) -> TaskRecord:
    return TaskRecord(
        task_id=head.task_id,
        state=head.state,
        run_id=head.run_id,
        session_id=head.session_id,
        trace_id=_read_trace_id(history, head.task_id),
        agent_name=head.agent_name,
        principal=head.principal,
        created_at=iso_from_micros(head.create_micros),
        updated_at=iso_from_micros(head.update_micros),
        reason=head.reason,
        sequence=head.sequence,
        task=task,
    )


def _build_run_record(record: TaskRecord, run_id: str, report: RunReport | None = None) -> RunReportRecord:
    return RunReportRecord(
        run_id=run_id,
        task_id=record.task_id,
        session_id=record.session_id,
        trace_id=record.trace_id,
        agent_name=record.agent_name,
        principal=record.principal,
        state=record.state,
        created_at=record.created_at,
        updated_at=record.updated_at,
        report=report,
    )


def _run_filter(history: TaskHistory, run_id: str) -> dict[str, str]:
    """The filter for the heads of a run's tasks."""
    if history.heads({"run_id": run_id}, 1):
        return {"run_id": run_id}
    return {"task_id": _find_task_id(history, run_id) or ""}


def _find_task_id(history: TaskHistory, run_id: str) -> str | None:
    """Find the task with that run: by its head, or for an earlier run by its events."""
    if not run_id:
        return None
    latest = history.heads({"run_id": run_id}, 1)
    if latest:
        return latest[0].task_id
    for frame in history.events_with(run_id):
        # The id may also occur in another field.
        event = event_from_frame(frame)
        if event.run_id == run_id:
            return event.task_id
    return None


def _read_trace_id(history: TaskHistory, task_id: str) -> str | None:
    frame = next(history.log(task_id), None)
    opening = None if frame is None else event_from_frame(frame).payload
    context = opening.context if isinstance(opening, TaskSubmitted) else None
    return None if context is None else context.trace_id


def _read_task(history: TaskHistory, task_id: str) -> Task:
    fold = TaskFold(task_id)
    replay(fold, history.log(task_id))
    return fold.to_task()


def _read_report(history: TaskHistory, task_id: str, run_id: str) -> RunReport:
    builder = ReportBuilder(run_id)
    builder.add_frames(history.log(task_id))
    return builder.report()
