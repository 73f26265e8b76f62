"""Formats sessions, turns and the events of a session's stream. This module prints nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from protolink_grpc.cli.describe import clock, event_detail, short_id, time_ago
from protolink_grpc.cli.output import one_line
from protolink_grpc.cli.timeline import Table, span
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.session import (
    ROLLED_BACK,
    Session,
    SessionCreated,
    SessionEvent,
    SessionItem,
    SessionPage,
    SessionUpdated,
    Thread,
    ThreadRolledBack,
    ThreadStarted,
    Turn,
    TurnEnded,
    TurnMerged,
    TurnPromoted,
    TurnStarted,
    TurnState,
    TurnSubmitted,
)

EVENT_TYPES: Final[dict[type, str]] = {
    SessionCreated: "session.created",
    SessionUpdated: "session.updated",
    ThreadStarted: "thread.started",
    TurnSubmitted: "turn.submitted",
    TurnPromoted: "turn.promoted",
    TurnStarted: "turn.started",
    TurnEnded: "turn.ended",
    ThreadRolledBack: "thread.rolled_back",
    TurnMerged: "turn.merged",
}
"""Types of a session's own events, in the form of those of a task's events."""

LABEL_CHARS: Final = 16
"""Maximum length of a turn id at the beginning of a line; of longer ones the end is shown, which differs between UUIDs."""


def state_of(turn: Turn) -> str:
    """Return the result of a turn, or its state before its end."""
    return str(turn.state if turn.result is None else turn.result)


def state_cell(turn: Turn) -> str:
    """Return the state of a turn with its reason, and whether it was rolled back."""
    state, reason = state_of(turn), turn.reason
    if turn.rolled_back and reason.startswith(ROLLED_BACK):
        return f"{state}, {reason}"
    if turn.rolled_back:
        state = f"{state}, {ROLLED_BACK}"
    return f"{state}: {reason}" if reason else state


def moment(time: str | None) -> str:
    """Format a time with its age; empty if it is unknown."""
    return f"{time} ({time_ago(time)})" if time else ""


def turn_fields(turn: Turn) -> list[tuple[str, str]]:
    """Return the fields of a turn."""
    return [
        ("Turn", turn.turn_id),
        ("Thread", turn.thread_id),
        ("Task", turn.task_id),
        ("State", state_of(turn)),
        ("Reason", turn.reason),
    ]


def session_fields(session: Session) -> list[tuple[str, str]]:
    """Return the fields of a session."""
    return [
        ("Session", session.session_id),
        ("Title", session.title),
        ("Archived", "yes" if session.archived else ""),
        ("Metadata", to_json(session.metadata) if session.metadata else ""),
        ("Turns", str(session.turn_count)),
        ("Position", str(session.position)),
        ("Created", moment(session.created_at)),
        ("Changed", moment(session.updated_at)),
    ]


def session_tables(page: SessionPage, thread_id: str = "") -> Iterator[Table]:
    """Yield tables of the threads, and for each thread of its queue and of its turns on the page.

    Args:
        thread_id: Only the queue and the turns of this thread; empty means all threads.
    """
    session = page.session
    heads: Sequence[str] = ("THREAD", "ACTIVE", "QUEUED", "CREATED", "TITLE")
    yield "Threads", heads, [_thread_row(session, each) for each in session.threads]
    shown = [each.thread_id for each in session.threads if thread_id in ("", each.thread_id)]
    for name in shown:
        queue = [each for each in session.open_turns if each.thread_id == name and each.state is TurnState.QUEUED]
        rows: list[Sequence[str]] = [
            (str(place), each.turn_id, time_ago(each.created_at or ""), str(each.when_busy))
            for place, each in enumerate(queue, 1)
        ]
        if rows:
            yield f"Queue of thread {name}", ("PLACE", "TURN", "SUBMITTED", "POLICY"), rows
    for name in shown:
        rows = [_turn_row(each) for each in page.turns if each.thread_id == name]
        if rows:
            yield f"Turns of thread {name}", ("TURN", "SUBMITTED", "TOOK", "STATE"), rows


def _thread_row(session: Session, thread: Thread) -> Sequence[str]:
    states = [each.state for each in session.open_turns if each.thread_id == thread.thread_id]
    active, queued = states.count(TurnState.ACTIVE), states.count(TurnState.QUEUED)
    created = time_ago(thread.created_at) if thread.created_at else ""
    return thread.thread_id, str(active), str(queued), created, thread.title


def _turn_row(turn: Turn) -> Sequence[str]:
    """Return the cells of a turn. Its time is that from its submission to its end, so it includes the wait in the queue."""
    took = ""
    if turn.created_at and turn.ended_at:
        took = span(micros_from_iso(turn.ended_at) - micros_from_iso(turn.created_at))
    return turn.turn_id, time_ago(turn.created_at or ""), took, state_cell(turn)


def session_event_dict(event: SessionEvent) -> dict[str, Any]:
    """Return an event of a session's own log as a JSON object."""
    payload = {} if event.payload is None else asdict(event.payload)
    return {"type": event_type(event), "created_at": event.created_at, "payload": payload}


def event_type(event: SessionEvent) -> str:
    return EVENT_TYPES.get(type(event.payload), "session.unknown")


def item_line(item: SessionItem, labels: dict[str, str]) -> str:
    """Format an event of a session's stream: `#12 12:03:11 train task.submitted and a train`.

    The word after the time is the turn, or `-` for an event of the session itself.

    Args:
        labels: For each task the id of its turn.
    """
    event = item.event
    if isinstance(event, RunEvent):
        head = f"{clock(event.timestamp)} {_label(labels.get(event.task_id, event.task_id))} {event.type}"
        return one_line(f"#{item.position} {head} {event_detail(event)}", 200)
    head = f"{clock(event.created_at)} {_label(getattr(event.payload, 'turn_id', '')) or '-'} {event_type(event)}"
    return one_line(f"#{item.position} {head} {_session_detail(event)}", 200)


def _label(turn_id: str) -> str:
    return short_id(turn_id, LABEL_CHARS)


def _session_detail(event: SessionEvent) -> str:
    match event.payload:
        case SessionCreated(title=title):
            return title
        case SessionUpdated(title=title, archived=archived):
            return f"{'archived ' if archived else ''}{title}"
        case ThreadStarted(thread_id=thread_id, title=title):
            return f"{thread_id} {title}"
        case TurnSubmitted() as turn:
            place = "" if not turn.queued else ", first in the queue" if turn.first else ", queued"
            return f"{turn.turn_id} in thread {turn.thread_id}{place}, task {turn.task_id}"
        case TurnEnded(turn_id=turn_id, result=result, reason=reason):
            return f"{turn_id} {result} {reason}"
        case TurnPromoted(turn_id=turn_id) | TurnStarted(turn_id=turn_id):
            return turn_id
        case ThreadRolledBack(thread_id=thread_id, turn_id=turn_id, reason=reason):
            return f"{thread_id} to before {turn_id} {reason}"
        case TurnMerged(turn_id=turn_id, into_turn_id=into):
            return f"{turn_id} into {into}"
        case _:
            return ""
