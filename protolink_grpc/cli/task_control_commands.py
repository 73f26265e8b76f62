"""`task show`, `create`, `update`, `start`, `progress`, `complete`, `fail`, `link`, `unlink`, `pause`, `resume` and `retry`."""

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import QUICK_S, agent_client, run, url_of
from protolink_grpc.cli.describe import time_ago
from protolink_grpc.cli.failure import CommandError
from protolink_grpc.cli.session_commands import read_input
from protolink_grpc.cli.session_text import moment
from protolink_grpc.cli.settings import Settings
from protolink_grpc.cli.timeline import span
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.message import Message
from protolink_grpc.models.snapshot import DeliveryState, TaskSnapshot
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink, TaskStatus


@dataclass(frozen=True, slots=True)
class Description:
    """The options that describe a task; None for those that were not given."""

    title: str | None = None
    objective: str | None = None
    priority: str | None = None
    assignee: str | None = None
    acceptance: list[str] | None = None
    constraints: list[str] | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """The given values, by field of TaskDescription."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def show(settings: Settings, agent: str, task_id: str) -> None:
    """Print the snapshot of a task."""
    _print(settings, _call(settings, agent, task_id, lambda client, url: client.tasks.get(task_id, agent_url=url)))


def create(
    settings: Settings,
    agent: str,
    text: str,
    description: Description,
    *,
    links: Sequence[tuple[str, str]],
    session: str,
    request_id: str,
) -> None:
    """Create a draft and print it."""
    task = Task.create(Message.user(read_input(text)))
    task.session_id = session or None
    changes = description.changes
    snapshot = _call(
        settings,
        agent,
        "",
        lambda client, url: client.tasks.create(
            task,
            description=TaskDescription(**changes) if changes else None,
            links=[TaskLink(LinkKind(kind), target) for kind, target in links],
            request_id=request_id or None,
            agent_url=url,
        ),
    )
    _print(settings, snapshot)
    output.note("hint", f"start it with: {settings.command('task start', agent, snapshot.task_id)}")


def update(settings: Settings, agent: str, task_id: str, description: Description) -> None:
    """Change the given fields of a task's description, and print the task."""

    async def work(client: AgentClient, url: str) -> TaskSnapshot:
        known = await client.tasks.get(task_id, agent_url=url)
        changed = replace(known.description or TaskDescription(), **description.changes)
        return await client.tasks.update(task_id, description=changed, agent_url=url)

    _print(settings, _call(settings, agent, task_id, work))


def start(settings: Settings, agent: str, task_id: str, *, external: bool) -> None:
    """Start a draft and print it."""
    snapshot = _call(
        settings, agent, task_id, lambda client, url: client.tasks.start(task_id, external=external, agent_url=url)
    )
    _print(settings, snapshot)
    if snapshot.external and snapshot.ended_at is None:
        output.note("hint", f"end it with: {settings.command('task complete', agent, task_id, 'the result')}")
    elif snapshot.ended_at is None:
        output.note("hint", f"follow it with: {settings.command('task subscribe', agent, task_id)}")


def report_progress(settings: Settings, agent: str, task_id: str, percent: float | None, message: str) -> None:
    """Add a progress report and print the task."""
    _change(
        settings,
        agent,
        task_id,
        lambda client, url: client.tasks.report_progress(task_id, percent, message, agent_url=url),
    )


def complete(settings: Settings, agent: str, task_id: str, text: str) -> None:
    """Complete a task, with a text as its result, and print it."""
    said = _read(text)
    messages = [Message.agent(said)] if said else []
    _change(settings, agent, task_id, lambda client, url: client.tasks.complete(task_id, messages, agent_url=url))


def fail(settings: Settings, agent: str, task_id: str, reason: str) -> None:
    """Fail a task and print it."""
    _change(settings, agent, task_id, lambda client, url: client.tasks.fail(task_id, reason, agent_url=url))


def link(settings: Settings, agent: str, task_id: str, kind: str, target: str, *, reason: str) -> None:
    """Add a link and print the task."""
    _change(
        settings,
        agent,
        task_id,
        lambda client, url: client.tasks.link(task_id, kind, target, reason=reason, agent_url=url),
    )


def unlink(settings: Settings, agent: str, task_id: str, kind: str, target: str) -> None:
    """Remove a link and print the task."""
    _change(settings, agent, task_id, lambda client, url: client.tasks.unlink(task_id, kind, target, agent_url=url))


def pause(settings: Settings, agent: str, task_id: str, reason: str) -> None:
    """Request a pause and print the task."""
    snapshot = _change(
        settings, agent, task_id, lambda client, url: client.tasks.pause(task_id, reason=reason, agent_url=url)
    )
    if snapshot.status is not TaskStatus.PAUSED:
        output.note("note", "the task pauses before its next action or model call")


def resume(settings: Settings, agent: str, task_id: str, reason: str) -> None:
    """End a pause and print the task."""
    _change(settings, agent, task_id, lambda client, url: client.tasks.resume(task_id, reason=reason, agent_url=url))


def retry(settings: Settings, agent: str, task_id: str, reason: str, request_id: str) -> None:
    """Retry an ended task and print it."""
    _change(
        settings,
        agent,
        task_id,
        lambda client, url: client.tasks.retry(task_id, reason=reason, request_id=request_id or None, agent_url=url),
    )
    output.note("hint", f"follow it with: {settings.command('task subscribe', agent, task_id)}")


Work = Callable[[AgentClient, str], Awaitable[TaskSnapshot]]


def _change(settings: Settings, agent: str, task_id: str, work: Work) -> TaskSnapshot:
    """Call a method that changes a task, print the task after it, and return it. Raises CommandError."""
    snapshot = _call(settings, agent, task_id, work)
    _print(settings, snapshot)
    return snapshot


def _call(settings: Settings, agent: str, task_id: str, work: Work) -> TaskSnapshot:
    """Call a method with a client and the agent's URL. Raises CommandError, with a hint that is special to the control of tasks."""

    async def with_client() -> TaskSnapshot:
        url = await url_of(settings, agent)
        return await work(agent_client(settings, QUICK_S), url)

    try:
        return run(with_client(), agent)
    except CommandError as error:
        error.hint = _hint(settings, agent, task_id, error)
        raise


def _hint(settings: Settings, agent: str, task_id: str, error: CommandError) -> str:
    """Return the hint for an error of a method that controls a task. `task_id` is empty for a new task."""
    task_id = task_id or error.metadata.get("task_id", "TASK")
    match error.code:
        case "UNIMPLEMENTED":
            checked = f"plgrpc doctor {agent} shows the services at this address"
            return f"agents of other systems have no task control; {checked}"
        case "TASK_FINISHED":
            return f"see how it ended with: {settings.command('task show', agent, task_id)}"
        case "TASK_ALREADY_RUNNING":
            return f"cancel it with: {settings.command('task cancel', agent, task_id)}"
        case "TASK_STARTED" | "LINK_CYCLE" | "INVALID_TRANSITION":
            return f"{settings.command('task show', agent, task_id)} shows its status and links"
        case "RESOURCE_EXHAUSTED" if "already" in str(error):
            return ""
    return error.hint


def _read(text: str) -> str:
    return sys.stdin.read() if text == "-" else text


def _print(settings: Settings, snapshot: TaskSnapshot) -> None:
    if settings.json:
        output.document(asdict(snapshot))
        return
    for label, value in _fields(snapshot):
        output.field(label, value)
    if snapshot.attempts:
        output.line()
        output.line("Attempts:")
        output.columns(("ATTEMPT", "CAUSE", "STARTED", "TOOK", "STATUS"), list(_attempt_rows(snapshot)))
    if snapshot.links:
        output.line()
        output.line("Links:")
        rows = [
            (str(each.link.kind), each.link.target, str(each.state or ""), each.link.reason) for each in snapshot.links
        ]
        output.columns(("KIND", "TARGET", "STATE", "REASON"), rows)


def _attempt_rows(snapshot: TaskSnapshot) -> Iterator[tuple[str, ...]]:
    for each in snapshot.attempts:
        took = ""
        if each.started_at and each.ended_at:
            took = span(micros_from_iso(each.ended_at) - micros_from_iso(each.started_at))
        yield str(each.attempt), each.cause, time_ago(each.started_at or ""), took, str(each.status)


def _fields(snapshot: TaskSnapshot) -> list[tuple[str, str]]:
    """Return the fields of a task."""
    about = snapshot.description or TaskDescription()
    progress = snapshot.progress
    reported = "" if progress is None or progress.progress is None else f"{progress.progress:g} %"
    own_session = "" if snapshot.session_id == snapshot.task_id else snapshot.session_id
    return [
        ("Task", snapshot.task_id),
        ("Status", str(snapshot.status)),
        ("Reason", snapshot.status_reason),
        ("Title", about.title),
        ("Objective", about.objective),
        ("Priority", about.priority),
        ("Assignee", about.assignee),
        *(("Acceptance", each) for each in about.acceptance),
        *(("Constraint", each) for each in about.constraints),
        ("Metadata", to_json(snapshot.metadata) if snapshot.metadata else ""),
        ("Session", own_session),
        ("External", "yes" if snapshot.external else ""),
        ("Progress", " ".join(filter(None, (reported, progress.message if progress is not None else "")))),
        ("Approvals", ", ".join(snapshot.pending_approvals)),
        ("Delivery", _delivery(snapshot)),
        ("Created", moment(snapshot.created_at)),
        ("Changed", moment(snapshot.updated_at)),
    ]


def _delivery(snapshot: TaskSnapshot) -> str:
    """Return the state of the delivery to webhooks; empty if the task has none."""
    if snapshot.delivery is DeliveryState.NOT_APPLICABLE:
        return ""
    return f"{snapshot.delivery}: {snapshot.delivery_error}" if snapshot.delivery_error else str(snapshot.delivery)
