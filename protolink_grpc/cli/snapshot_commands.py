"""`snapshot session`, `thread`, `queue`, `tools`, `context`, `artifacts` and `evidence`."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from protolink_grpc.cli import output
from protolink_grpc.cli import snapshot_text as text
from protolink_grpc.cli.session_commands import call, show_fields
from protolink_grpc.cli.settings import Settings
from protolink_grpc.cli.timeline import Table
from protolink_grpc.client.snapshot_calls import SnapshotCalls
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.snapshot import Gap

T = TypeVar("T")


def show_session(settings: Settings, agent: str, session_id: str) -> None:
    """Print a session with the status of its threads."""
    found = _read(settings, agent, session_id, lambda calls, url: calls.session(session_id, agent_url=url))
    _show(settings, found, text.session_fields(found), text.session_tables(found), found.gaps)
    if found.next_page_token and not settings.json:
        command = settings.command("session show", agent, session_id, "--page-token", found.next_page_token)
        output.note("hint", f"there are older turns: {command}")


def show_thread(settings: Settings, agent: str, session_id: str, thread_id: str) -> None:
    """Print a thread with its open tasks and newest turns."""
    found = _read(settings, agent, session_id, lambda calls, url: calls.thread(session_id, thread_id, agent_url=url))
    _show(settings, found, text.thread_fields(found), text.thread_tables(found), found.gaps)


def show_queue(settings: Settings, agent: str, session_id: str, thread_id: str) -> None:
    """Print the queues of a session, or of one thread."""
    found = _read(settings, agent, session_id, lambda calls, url: calls.queue(session_id, thread_id, agent_url=url))
    _show(settings, found, text.queue_fields(found), text.queue_tables(found), found.gaps)


def show_tools(settings: Settings, agent: str) -> None:
    """Print the tools that the caller can use."""
    found = _read(settings, agent, "", lambda calls, url: calls.tools(agent_url=url))
    _show(settings, found, (), text.tool_tables(found), found.gaps)
    if not found.tools and not settings.json:
        output.note("note", "there are no tools that you can use")


def show_context(settings: Settings, agent: str, task_id: str) -> None:
    """Print the context of the latest model call of a task."""
    found = _read(settings, agent, "", lambda calls, url: calls.context(task_id, agent_url=url))
    _show(settings, found, text.context_fields(found), text.context_tables(found), found.gaps)


def show_artifacts(settings: Settings, agent: str, task_id: str) -> None:
    """Print the artifacts of a task."""
    found = _read(settings, agent, "", lambda calls, url: calls.artifacts(task_id, agent_url=url))
    head = [("Task", found.task_id), ("Sequence", str(found.sequence))]
    _show(settings, found, head, text.artifact_tables(found.artifacts), found.gaps)


def show_evidence(settings: Settings, agent: str, task_id: str) -> None:
    """Print the counts of actions, approvals and policy decisions in the log of a task."""
    found = _read(settings, agent, "", lambda calls, url: calls.evidence(task_id, agent_url=url))
    _show(settings, found, text.evidence_fields(found), text.evidence_tables(found), found.gaps)


def _read(settings: Settings, agent: str, session_id: str, read: Callable[[SnapshotCalls, str], Awaitable[T]]) -> T:
    return call(settings, agent, session_id, lambda client, url: read(client.snapshots, url))


def _show(
    settings: Settings,
    snapshot: Any,
    head: Sequence[tuple[str, str]],
    tables: Iterable[Table],
    gaps: Sequence[Gap],
) -> None:
    """Print a snapshot: its fields, its tables that have rows, and its gaps."""
    if settings.json:
        output.document(_plain(snapshot))
        return
    show_fields(head)
    is_first = not head
    for title, heads, rows in tables:
        if not rows:
            continue
        if not is_first:
            output.line()
        if title:
            output.line(f"{title}:")
        output.columns(heads, rows)
        is_first = False
    if gaps:
        output.line()
        for label, value in text.gap_fields(gaps):
            output.wrapped_field(label, value)


def _plain(value: Any) -> Any:
    """Return a snapshot as JSON values."""
    if isinstance(value, JsonForm):
        return value.to_dict()
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
