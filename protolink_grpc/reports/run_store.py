"""The runs of an agent as records: a view over the file in which its tasks are kept. It writes nothing.

A task is its log, so neither a task nor a report is stored beside it: each is read from the log when somebody asks. The view has a
read connection of its own per question, and may be used from any thread, while agents run and in other processes.
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
    """A task as a list shows it. `run_id` is its latest run; `task` is None in lists. Times are ISO 8601 UTC."""

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
    """A run as a list shows it; `report` is None in lists. `created_at` is when its task was submitted."""

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
    """Where runs are kept for looking them up. Larger deployments implement it over their own persistence, as in ProtoLink.

    With `Agent(run_store=...)`, `save_task` and then `save_report` are called after each run that ended in the agent's process,
    with the task as it is then, and the report of the run, both whole and not redacted. A run ends when its task ends, or waits for
    input. The calls are made one after the other, on a thread, soon after the caller has its answer; coroutine functions are
    awaited. What they raise is logged, once until a call succeeds, and never fails a run. `Agent.stop` waits for outstanding calls
    as long as for runs. The agent calls no other method.

    Methods that look for one thing return None when there is none; lists are last changed first.
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
    """The runs in a SQLite file. Whoever opens the file owns it: tasks of every principal are shown, each with its principal.

    Args:
        db_path: The file that agents keep their tasks in; with `Agent(run_store=...)` it is created when the agent starts. One that
            does not exist yet has no records.
        read_only: No agent may keep its tasks through this store.
        redaction_policy: Applied to every task and report that is handed out; None hands them out as they are.

    Every method raises StoreError when the file cannot be read, StoreVersionError when a newer version of this package wrote it.
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
        """The store for an agent that keeps its tasks in this file: always the same one.

        Raises:
            StoreReadOnlyError: This view was opened with `read_only`.
        """
        if self.read_only:
            raise StoreReadOnlyError(f"{self.path} was opened for reading only", path=str(self.path))
        if self._task_store is None:
            self._task_store = SQLiteStore(self.path)
        return self._task_store

    # -- tasks -----------------------------------------------------------------------------------------------------------

    def save_task(self, task: Task) -> None:
        """Check that the task is here; there is nothing to save, because every step of its run is in the log already.

        Raises:
            TaskNotFoundError: It is not: a task gets here by being run.
        """
        with task_history(self.path) as history:
            if history is None or history.head(task.id) is None:
                raise TaskNotFoundError(
                    f"task {task.id} was not run by an agent that keeps its tasks in {self.path}", task_id=task.id
                )

    def get_task(self, task_id: str) -> Task | None:
        """The task as it is now, history included."""
        record = self.get_task_record(task_id)
        return None if record is None else record.task

    def get_task_record(self, task_id: str) -> TaskRecord | None:
        """The task's record, with the task."""
        with task_history(self.path) as history:
            head = None if history is None else history.head(task_id)
            if history is None or head is None:
                return None
            return _record(history, head, self._redacted_task(_task(history, task_id)))

    def list_task_records(
        self,
        limit: int = 100,
        session_id: str | None = None,
        run_id: str | None = None,
        state: TaskState | str | None = None,
        agent_name: str | None = None,
    ) -> list[TaskRecord]:
        """Records of the tasks that match, last changed first; what is None matches all.

        Costs a look at every head in the file: an index by time alone would be paid for at each append.

        Args:
            run_id: Tasks whose latest run has that id, several where a caller has given it to several; where there is none, the
                first task that has an earlier run of that id.
        """
        wanted = {"session_id": session_id, "agent_name": agent_name}
        where = {name: value for name, value in wanted.items() if value is not None}
        if state is not None:
            where["state"] = parse_state(state).value
        with task_history(self.path) as history:
            if history is None:
                return []
            if run_id is not None:
                where |= _of_run(history, run_id)
            return [_record(history, head) for head in history.heads(where, limit)]

    def delete_task(self, task_id: str) -> bool:
        """Refused: request ids name the tasks that they began, so that a task cannot go alone.

        Raises:
            UnimplementedError: Always.
        """
        raise UnimplementedError(
            f"task {task_id} cannot be deleted from {self.path}: the request ids that lead to it would lead nowhere",
            method="delete_task",
        )

    # -- reports ---------------------------------------------------------------------------------------------------------

    def save_report(self, report: RunReport) -> None:
        """Check that the report's task is here; there is nothing to save, because a report is a reading of the log.

        Raises:
            TaskNotFoundError: It is not. `RunReport.to_json` keeps a report that was made elsewhere.
        """
        self.save_task(Task(id=report.task_id))

    def get_report(self, run_id: str) -> RunReport | None:
        """The report of a run, or of all runs of a task when it is a task's id.

        A run that is not the latest of its task is looked for in all logs. Of tasks that share a run's id, the last changed counts.
        """
        record = self.get_report_record(run_id)
        return None if record is None else record.report

    def get_report_record(self, run_id: str) -> RunReportRecord | None:
        """The run's record, with the report; `run_id` as in `get_report`."""
        with task_history(self.path) as history:
            if history is None:
                return None
            whole = history.head(run_id) is not None
            task_id = run_id if whole else _task_of(history, run_id)
            head = None if task_id is None else history.head(task_id)
            if task_id is None or head is None:
                return None
            report = _report(history, task_id, "" if whole else run_id)
            if self._redaction is not None:
                report = report.redacted(self._redaction)
            return _run_record(_record(history, head), head.run_id if whole else run_id, report)

    def list_report_records(
        self, limit: int = 100, session_id: str | None = None, agent_name: str | None = None
    ) -> list[RunReportRecord]:
        """Records of the latest run of each task that matches, last changed first. Costs what `list_task_records` costs."""
        records = self.list_task_records(limit, session_id, agent_name=agent_name)
        return [_run_record(record, record.run_id) for record in records]

    def _redacted_task(self, task: Task) -> Task:
        return task if self._redaction is None else Task.from_dict(self._redaction.redact(task.to_dict()))


def _record(history: TaskHistory, head: TaskHead, task: Task | None = None) -> TaskRecord:
    return TaskRecord(
        task_id=head.task_id,
        state=head.state,
        run_id=head.run_id,
        session_id=head.session_id,
        trace_id=_trace_of(history, head.task_id),
        agent_name=head.agent_name,
        principal=head.principal,
        created_at=iso_from_micros(head.create_micros),
        updated_at=iso_from_micros(head.update_micros),
        reason=head.reason,
        sequence=head.sequence,
        task=task,
    )


def _run_record(record: TaskRecord, run_id: str, report: RunReport | None = None) -> RunReportRecord:
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


def _of_run(history: TaskHistory, run_id: str) -> dict[str, str]:
    """What the heads of a run's tasks have in common."""
    if history.heads({"run_id": run_id}, 1):
        return {"run_id": run_id}
    return {"task_id": _task_of(history, run_id) or ""}


def _task_of(history: TaskHistory, run_id: str) -> str | None:
    """The task that has that run: by its head, or an earlier one by its events."""
    if not run_id:
        return None
    latest = history.heads({"run_id": run_id}, 1)
    if latest:
        return latest[0].task_id
    for frame in history.events_with(run_id):
        # An id may also be mentioned.
        event = event_from_frame(frame)
        if event.run_id == run_id:
            return event.task_id
    return None


def _trace_of(history: TaskHistory, task_id: str) -> str | None:
    frame = next(history.log(task_id), None)
    opening = None if frame is None else event_from_frame(frame).payload
    context = opening.context if isinstance(opening, TaskSubmitted) else None
    return None if context is None else context.trace_id


def _task(history: TaskHistory, task_id: str) -> Task:
    fold = TaskFold(task_id)
    replay(fold, history.log(task_id))
    return fold.to_task()


def _report(history: TaskHistory, task_id: str, run_id: str) -> RunReport:
    builder = ReportBuilder(run_id)
    builder.add_frames(history.log(task_id))
    return builder.report()
