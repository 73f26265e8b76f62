"""The statuses of tasks, attempts and threads: which ones exist, which can follow which, and which one follows from an event."""

from types import MappingProxyType
from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.event_types import words

STATUSES: Final = frozenset(
    words(
        "draft accepted queued preparing running waiting_input waiting_permission waiting_resource blocked paused retrying "
        "cancelling cancelled timed_out failed lost completed archived stale unknown"
    )
)
"""The statuses of tasks."""

TERMINAL: Final = frozenset(("completed", "failed", "cancelled", "timed_out"))
"""The statuses of tasks that are final for scheduling."""

WAITING: Final = frozenset(("waiting_input", "waiting_permission", "waiting_resource"))

ATTEMPT_STATUSES: Final = frozenset(
    words(
        "idle queued preparing running blocked streaming retrying completed failed cancelled stale unknown unavailable "
        "not_applicable"
    )
)

THREAD_STATUSES: Final = frozenset(words("idle queued running blocked completed failed cancelled stale unknown"))

_ENDINGS: Final = frozenset(("cancelling", "cancelled", "failed", "timed_out", "lost"))
_ACTIVE: Final = frozenset(("queued", "preparing", "running", "paused", "retrying"))
_FINISHED: Final = frozenset(("retrying", "archived"))

NEXT: Final = MappingProxyType(
    {
        # The contract has no table; this one follows from the meanings of the statuses. That `cancelling` comes before `cancelled`
        # is rule R051. A new attempt may begin after a crash in every active state.
        "": frozenset(("draft", "accepted")),
        "draft": frozenset(("accepted", "cancelled", "archived")),
        "accepted": _ENDINGS | _ACTIVE - {"paused"} | {"blocked"},
        "queued": _ENDINGS | _ACTIVE | {"blocked"},
        "preparing": _ENDINGS | _ACTIVE | WAITING | {"blocked"},
        "running": _ENDINGS | _ACTIVE | WAITING | {"blocked", "completed"},
        "blocked": _ENDINGS | _ACTIVE | WAITING,
        **dict.fromkeys(WAITING, _ENDINGS | _ACTIVE | WAITING | {"blocked"}),
        "paused": _ENDINGS | _ACTIVE,
        "retrying": _ENDINGS | _ACTIVE,
        "cancelling": _ENDINGS | _ACTIVE | WAITING | {"completed"},
        "lost": _ENDINGS | {"running", "retrying"},
        **dict.fromkeys(("failed", "timed_out", "cancelled", "completed"), _FINISHED),
        "archived": frozenset[str](),
    }
)
"""The statuses that may follow each one."""

_STATUS_AFTER: Final = {
    "task.created": "accepted",
    "task.accepted": "accepted",
    "task.queued": "queued",
    "task.started": "running",
    "task.attempt.started": "running",
    "task.waiting": "waiting_resource",
    "task.blocked": "blocked",
    "task.paused": "paused",
    "task.resumed": "running",
    "task.retrying": "retrying",
    "task.cancel_requested": "cancelling",
    "task.cancelled": "cancelled",
    "task.timed_out": "timed_out",
    "task.failed": "failed",
    "task.lost": "lost",
    "task.completed": "completed",
    "task.archived": "archived",
}
"""The status after each event. Events of other types leave it unchanged."""

_CHOICES: Final = {
    "task.created": frozenset(("draft", "accepted")),
    "task.started": frozenset(("preparing", "running")),
    "task.attempt.started": frozenset(("preparing", "running")),
    "task.waiting": WAITING | {"queued"},
    "task.resumed": frozenset(("queued", "preparing", "running")),
}
"""The types whose event chooses one of several statuses."""


def status_after(event: Event, before: str) -> str:
    """Return the status of a task after one of its events."""
    status = _STATUS_AFTER.get(event.type, before)
    named = event.text("status")
    if event.type in _CHOICES and named in _CHOICES[event.type]:
        return named
    if event.type == "task.cancel_requested" and before in TERMINAL:
        return before
    return status
