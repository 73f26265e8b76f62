"""`run list`, `run report`, `run replay`, `run trace`."""

import json
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import QUICK_S, agent_client, run, url_of
from protolink_grpc.cli.describe import session_cell, time_ago
from protolink_grpc.cli.failure import CommandError, command_error, usage_error
from protolink_grpc.cli.settings import Settings
from protolink_grpc.cli.timeline import budget_lines, report_fields, report_tables, timeline
from protolink_grpc.client.port import TaskSummary
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import RunReplay, RunReportRecord, SQLiteRunStore
from protolink_grpc.telemetry import LocalTraceRecorder, Span, TraceSpan, spans_of, spans_of_record, waterfall


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a run: a task at an agent, a task or run in a store's file, or an exported file.

    Args:
        task_id: Empty where `agent` is a file.
    """

    agent: str = ""
    task_id: str = ""
    store: str = ""

    @classmethod
    def of(cls, first: str, second: str, store: str, command: str) -> "Source":
        """Interpret the arguments of `run report` or `run replay`."""
        if store and second:
            raise usage_error(
                "an agent cannot be combined with --store", f"for instance plgrpc run {command} TASK_ID --store FILE"
            )
        if store:
            return cls("", first, store)
        if not second and command == "report":
            raise usage_error(
                "an agent and a task are required", "for instance plgrpc run report grpc://127.0.0.1:50051 TASK_ID"
            )
        return cls(first, second)


def list_runs(settings: Settings, agent: str, store: str, session: str, limit: int) -> None:
    """Print the latest run of each task, most recently changed first."""
    if bool(agent) == bool(store):
        raise usage_error("an agent or --store is required", "for instance plgrpc run list grpc://127.0.0.1:50051")
    rows = _list_stored(store, session, limit) if store else _list_at_agent(settings, agent, session, limit)
    if settings.json:
        output.document({"runs": rows})
        return
    # A file may have tasks of several agents and principals.
    varying = [name for name in ("agent_name", "principal") if len({row.get(name) for row in rows}) > 1]
    heads = ("TASK", "STATE", "UPDATED", "SESSION", *(name.removesuffix("_name").upper() for name in varying))
    output.columns_with_values(heads, [_list_row(each, varying) for each in rows])


def _list_row(found: dict[str, Any], varying: Iterable[str]) -> list[str]:
    task_id = found["task_id"]
    session = session_cell(task_id, found["session_id"] or "")
    return [task_id, found["state"], time_ago(found["updated_at"]), session, *(found[name] or "" for name in varying)]


def _list_stored(store: str, session: str, limit: int) -> list[dict[str, Any]]:
    try:
        return [_record_dict(each) for each in _open_store(store).list_report_records(limit, session or None)]
    except ProtolinkError as error:
        raise command_error(error, store) from error


def _record_dict(record: RunReportRecord) -> dict[str, Any]:
    names = ("run_id", "task_id", "session_id", "trace_id", "agent_name", "principal", "created_at", "updated_at")
    return {name: getattr(record, name) for name in names} | {"state": str(record.state)}


def _list_at_agent(settings: Settings, agent: str, session: str, limit: int) -> list[dict[str, Any]]:
    async def work() -> list[TaskSummary]:
        client = agent_client(settings, QUICK_S)
        page = await client.list_tasks(agent_url=await url_of(settings, agent), session_id=session, page_size=limit)
        return page.tasks

    return [
        {
            "run_id": task.run_id,
            "task_id": task.id,
            "session_id": task.session_id,
            "agent_name": task.agent_name,
            "created_at": task.created_at,
            "updated_at": task.updated_at,
            "state": str(task.state),
        }
        for task in run(work(), agent)
    ]


def _open_store(store: str) -> SQLiteRunStore:
    if not Path(store).is_file():
        raise usage_error(f"file {store} not found", "--store takes the file in which the agent stores its tasks")
    return SQLiteRunStore(store, read_only=True, redaction_policy=RedactionPolicy())


def report(settings: Settings, source: Source, run_id: str, out: str) -> None:
    """Print the report of a run, or write it to a file."""
    found = (
        _read_stored_report(source, run_id, whole=False) if source.store else _fetch_report(settings, source, run_id)
    )
    if out:
        try:
            Path(out).write_text(json.dumps(found.to_dict(), ensure_ascii=False, indent=2) + "\n")
        except OSError as error:
            raise CommandError(f"cannot write {out}: {error.strerror}", hint="choose another file with --out") from None
        output.note("note", f"the report of run {found.run_id} is in {out}")
    elif settings.json:
        output.document(found.to_dict())
    else:
        _show_report(found)


def _fetch_report(settings: Settings, source: Source, run_id: str) -> RunReport:
    async def work() -> RunReport:
        url = await url_of(settings, source.agent)
        return await agent_client(settings, QUICK_S).get_run_report(url, source.task_id, run_id or None)

    return run(work(), source.agent)


def _read_stored_report(source: Source, run_id: str, *, whole: bool) -> RunReport:
    """Read the report from a store's file. `whole` means all runs of the task instead of the latest one."""
    try:
        store = _open_store(source.store)
        record = store.get_report_record(run_id or source.task_id)
        if record is not None and not run_id and not whole and record.task_id == source.task_id:
            record = store.get_report_record(record.run_id)
    except ProtolinkError as error:
        raise command_error(error, source.store) from error
    if record is None or record.report is None or (run_id and source.task_id not in (record.task_id, run_id)):
        missing = f"run {run_id} of {source.task_id}" if run_id else source.task_id
        raise CommandError(
            f"{source.store} has no {missing}",
            hint=f"plgrpc run list --store {source.store} lists its runs",
            code="TASK_NOT_FOUND",
        )
    return record.report


def _show_report(found: RunReport) -> None:
    for label, value in report_fields(found):
        output.field(label, value)
    for title, heads, rows in report_tables(found):
        output.line()
        output.line(f"{title}:")
        output.columns(heads, rows)
    _show_lines("Budget", budget_lines(found))


def _show_lines(title: str, lines: Iterable[str]) -> None:
    listed = list(lines)
    if listed:
        output.line()
        output.line(f"{title}:")
        for each in listed:
            output.line(output.one_line(each, 200))


def replay(settings: Settings, source: Source, run_id: str) -> None:
    """Print the events of a run, or of all runs of a task, and then a summary."""
    found = read_report(settings, source, run_id)
    if settings.json:
        for event in found.events:
            output.json_line(event.to_dict())
        return
    for each in timeline(found):
        output.line(each)
    output.line()
    _show_report(found)


def read_report(settings: Settings, source: Source, run_id: str) -> RunReport:
    """Read a report with all events of a run, or of all runs of a task."""
    if source.store:
        return _read_stored_report(source, run_id, whole=True)
    found = _fetch_export(settings, source) if source.task_id else _read_file(source.agent)
    if run_id:
        found = RunReport.from_events(found.events, metadata=found.metadata, run_id=run_id)
        if not found.events:
            raise CommandError(f"run {run_id} not found", hint="leave out --run-id to see all runs")
    return found


def trace(settings: Settings, source: Source, run_id: str) -> None:
    """Print the spans of a run, or of all runs, as a waterfall."""
    spans = _read_traces(source.agent) if not source.task_id else []
    if not spans:
        spans = spans_of(read_report(settings, source, "").events)
    spans = [span for span in spans if not run_id or span.run_id == run_id]
    if not spans:
        raise CommandError(f"run {run_id} not found", hint="leave out --run-id to see all runs")
    if settings.json:
        for span in spans:
            output.json_line(TraceSpan.of(span.without_content()).to_dict())
        return
    for line in waterfall(spans):
        output.line(line)


def _read_traces(path: str) -> list[Span]:
    """Read a file of traces; empty if the file has another content."""
    try:
        records = LocalTraceRecorder.load_jsonl(path)
        return [span for record in records if "spans" in record for span in spans_of_record(record)]
    except (InvalidArgumentError, OSError, UnicodeDecodeError):
        return []


def _fetch_export(settings: Settings, source: Source) -> RunReport:
    async def work() -> RunReport:
        url = await url_of(settings, source.agent)
        client = agent_client(settings, QUICK_S)
        async with aclosing(cast(Any, client.export_task(url, source.task_id))) as lines:
            return RunReport.from_events([RunEvent.from_dict(json.loads(line)) async for line in lines])

    return run(work(), source.agent)


def _read_file(path: str) -> RunReport:
    try:
        return RunReplay(path).report
    except OSError as error:
        raise usage_error(
            f"cannot read {path}: {error.strerror}", "pass a file, or an agent and the id of a task"
        ) from None
    except InvalidArgumentError as error:
        raise CommandError(
            f"{path} is neither a report nor an export: {error}",
            hint="plgrpc run report --out writes a report",
            code=error.reason,
        ) from None
