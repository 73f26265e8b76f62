"""Formats tasks, events and times as lines and labelled blocks. This module prints nothing."""

from collections.abc import Callable, Iterator
from datetime import datetime
from time import time_ns
from typing import Any

from protolink_grpc.cli.output import one_line, pretty
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import events
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import plain, to_json
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import FileContent, Part, ToolCall, ToolOutput
from protolink_grpc.models.payload import Payload
from protolink_grpc.models.task import Task

SHORT_CHARS = 100
"""Maximum length of a value in an event's line."""

SESSION_CHARS = 12
"""Maximum length of the id of a session in a table of tasks."""


def event_line(event: RunEvent) -> str:
    """Format an event: `#5 12:03:11 hotel action.completed book_hotel {"id":7}`, with the time in the local time zone."""
    head = f"#{event.sequence} {clock(event.timestamp)} {event.agent_name or '-'} {event.type}"
    return one_line(f"{head} {event_detail(event)}", 200)


def short_id(text: str, limit: int) -> str:
    """Shorten an id to its end, in which generated ids differ. `limit` is at least 9 characters."""
    return text if len(text) <= limit else f"…{text[-8:]}"


def session_cell(task_id: str, session_id: str) -> str:
    """Return the session of a task for a table; empty if the task has no session, because its id is then that of the task."""
    return "" if session_id == task_id else short_id(session_id, SESSION_CHARS)


def action_cell(action: RunAction) -> str:
    """Return an action for a table. The name comes first, because the last column of a table may be shortened."""
    return f"{action.name} ({action.kind})"


def clock(timestamp: str) -> str:
    """Format a time as that of the local time zone: `12:03:11`."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%H:%M:%S")
    except ValueError:  # an application may have written an invalid time
        return timestamp


def time_ago(moment: str) -> str:
    """Format how long ago a time was: `3 h ago`."""
    try:
        seconds = _now() - micros_from_iso(moment) / 1e6
    except InvalidArgumentError:  # an application may have written an invalid time
        return moment
    return f"{span(seconds)} ago" if seconds > 0 else "now"


def time_left(expires_at: str) -> str:
    """Format the time until a moment: `in 3 h`."""
    seconds = micros_from_iso(expires_at) / 1e6 - _now()
    return f"in {span(seconds)}" if seconds > 0 else "overdue"


def _now() -> float:
    return time_ns() / 1e9


def span(seconds: float) -> str:
    """Format a duration in its largest unit: `42 s`, `3 min`, `5 h`, `2 d`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def event_detail(event: RunEvent) -> str:  # one case per kind
    """Format the content of an event, in one or several lines."""
    match event.payload:
        case events.TaskSubmitted(task=task):
            return _message_text(task.messages[0]) if task.messages else ""
        case events.TaskStatusChanged(previous_state=previous, new_state=new, reason=reason):
            return f"{previous} -> {new} {reason}"
        case events.TaskMessagesAdded(messages=messages):
            return "; ".join(f"{message.role}: {_message_text(message)}" for message in messages)
        case events.TaskArtifactUpdated(artifact=artifact):
            return f"{artifact.name or artifact.kind} {_short(artifact.parts)}"
        case events.TaskPatched(metadata=metadata, flow_state=flow_state):
            return ", ".join([*metadata, *flow_state])
        case events.TaskProgress(progress=progress, message=message):
            return f"{'' if progress is None else f'{progress:g}%'} {message}"
        case events.TaskErrorReported(error_code=code, error_message=message):
            return f"{code} {message}"
        case events.CancelRequested(reason=reason, requested_by=principal):
            return f"by {principal or 'its owner'} {reason}"
        case events.ActionStarted(name=name, arguments=arguments):
            return f"{name} {_value(arguments or {})}"
        case events.ActionEnded() as ended:
            return f"{ended.name} {_outcome(ended)} ({ended.duration_micros / 1000:.1f} ms)"
        case events.ActionRequested(action=action):
            return f"{action.kind} {action.name} {event.summary}"
        case events.ActionPolicyEvaluated(decision=decision):
            return f"{decision.effect} {decision.reason or ''}"
        case events.LlmCallFailed(attempt=attempt, failure=failure, will_retry=will_retry):
            # The facts of the retry come first, because lines are cut at their end.
            following = f"next attempt in {failure.retry_delay_s or 0:.1f} s" if will_retry else "no further attempt"
            return f"attempt {attempt} failed, {following}: {failure.message}"
        case dict() as own:
            return event.summary or _value(own)
        case _:  # unknown kinds, for instance of later versions, are shown by their summary
            return event.summary


def _outcome(ended: events.ActionEnded) -> str:
    error = ended.error
    if error is None:
        return "" if ended.result is None else _value(ended.result)
    return one_line(str(error.get("message", error)) if isinstance(error, dict) else str(error), SHORT_CHARS)


def _value(value: Any) -> str:
    return one_line(value.description if isinstance(value, Payload) else to_json(value), SHORT_CHARS)


def _message_text(message: Message) -> str:
    return _short(message.parts)


def _short(parts: list[Part]) -> str:
    return one_line(" ".join(part_text(part, compact=True) for part in parts), SHORT_CHARS)


def part_text(part: Part, *, compact: bool = False) -> str:
    """Format a part: text as text, files as name, type and size, everything else as JSON."""
    show = to_json if compact else pretty
    content = part.content
    match part.type:
        case "text" | "infer_output" if isinstance(content, str):
            return content
        case "tool_call" if isinstance(content, ToolCall):
            args = content.args
            return f"{content.tool_name} {args.description if isinstance(args, Payload) else to_json(args)}"
        case "tool_output" if isinstance(content, ToolOutput):
            if content.error is None:
                return _value_text(content.result, show)
            return _error_text(content.error)
        case "error":
            return _error_text(content)
    if isinstance(content, FileContent):
        size = f"{len(content.data)} bytes" if content.data is not None else content.uri or ""
        return f"{part.type} {content.name or '(no name)'} ({content.media_type}, {size})"
    return _value_text(content if isinstance(content, Payload) else part.to_dict()["content"], show)


def _value_text(value: Any, show: Callable[[Any], str]) -> str:
    """Format a value: text unchanged, a payload as its preview, everything else as JSON."""
    if isinstance(value, Payload):
        return value.description
    return value if isinstance(value, str) else show(plain(value))


def _error_text(error: Any) -> str:
    if not isinstance(error, dict):
        return error if isinstance(error, str) else to_json(error)
    suggestion = error.get("suggestion")
    return f"{error.get('code', 'error')}: {error.get('message', '')}" + (f" {suggestion}" if suggestion else "")


def task_fields(task: Task) -> list[tuple[str, str]]:
    """Return the fields that identify a task, and its state."""
    return [
        ("Task", task.id),
        ("Session", task.session_id or ""),
        ("State", str(task.state)),
        ("Reason", task.reason),
    ]


def task_blocks(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the agent's messages since the last user message, and all artifacts."""
    for message in _answers(task):
        yield "Message", "\n".join(part_text(part) for part in _without_repetition(message.parts))
    for artifact in task.artifacts:
        yield _title(artifact), "\n".join(part_text(part) for part in artifact.parts)


def _without_repetition(parts: list[Part]) -> list[Part]:
    """Return the parts without the texts that repeat the message of an error part."""
    errors = {part.content.get("message") for part in parts if part.type == "error" and isinstance(part.content, dict)}
    return [part for part in parts if part.type != "text" or part.content not in errors]


def _title(artifact: Artifact) -> str:
    return "Artifact" if not artifact.name else f"Artifact {one_line(artifact.name)}"


def _answers(task: Task) -> list[Message]:
    found: list[Message] = []
    for index in range(len(task.messages) - 1, -1, -1):  # `reversed` would bypass the conversion of a lazy list
        if task.messages[index].role not in ("agent", "assistant"):
            break
        found.insert(0, task.messages[index])
    return found
