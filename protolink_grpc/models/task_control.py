"""Descriptions, links and detailed statuses of tasks."""

from dataclasses import dataclass, field
from typing import Final

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.open_enum import OpenEnum

MAX_TITLE_CHARS: Final = 1000
MAX_OBJECTIVE_CHARS: Final = 10_000
MAX_PRIORITY_CHARS: Final = 100
MAX_ITEMS: Final = 100
"""Maximum number of criteria of acceptance, of constraints, and of links."""
MAX_TARGET_BYTES: Final = 1024
MAX_REASON_CHARS: Final = 1000


class TaskStatus(OpenEnum):
    """The status of a task in detail, computed from its log. TaskState has its summary."""

    DRAFT = "draft"
    ACCEPTED = "accepted"
    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    WAITING_INPUT = "waiting_input"
    WAITING_PERMISSION = "waiting_permission"
    WAITING_RESOURCE = "waiting_resource"
    BLOCKED = "blocked"
    PAUSED = "paused"
    RETRYING = "retrying"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    LOST = "lost"
    COMPLETED = "completed"
    ARCHIVED = "archived"
    STALE = "stale"
    UNKNOWN = "unknown"


class LinkKind(OpenEnum):
    """The kind of a link. `BLOCKS` is the other side of `BLOCKED_BY`, and is set by the service only."""

    PARENT = "parent"
    BLOCKED_BY = "blocked_by"
    BLOCKS = "blocks"
    SOURCE = "source"
    ARTIFACT = "artifact"
    EVIDENCE = "evidence"


TASK_LINKS: Final = frozenset({LinkKind.PARENT, LinkKind.BLOCKED_BY, LinkKind.BLOCKS, LinkKind.SOURCE})
"""The kinds whose target is another task."""

CALLER_LINKS: Final = tuple(kind for kind in LinkKind if kind is not LinkKind.BLOCKS)
"""The kinds that a caller can add and remove."""


@dataclass(frozen=True, slots=True)
class TaskDescription(JsonForm):
    """The work of a task, described for people and programs. The agent does not read it.

    Args:
        title: At most `MAX_TITLE_CHARS` characters.
        objective: At most `MAX_OBJECTIVE_CHARS` characters.
        priority: In words of the caller, at most `MAX_PRIORITY_CHARS` characters.
        assignee: Who works on the task; empty means the agent.
        acceptance, constraints: At most `MAX_ITEMS` texts of at most `MAX_TITLE_CHARS` characters.
    """

    title: str = ""
    objective: str = ""
    priority: str = ""
    assignee: str = ""
    acceptance: tuple[str, ...] = field(default=())
    constraints: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("acceptance", "constraints"):
            if isinstance(getattr(self, name), str):  # it would be a criterion for each character
                raise InvalidArgumentError("must be a tuple of texts, not a text", field=name)

    def check(self) -> None:
        """Check the limits. Raises InvalidArgumentError, which names the field."""
        limits = {
            "title": MAX_TITLE_CHARS,
            "objective": MAX_OBJECTIVE_CHARS,
            "priority": MAX_PRIORITY_CHARS,
            "assignee": MAX_TITLE_CHARS,
        }
        for name, limit in limits.items():
            check_length(getattr(self, name), limit, name)
        for name in ("acceptance", "constraints"):
            items = getattr(self, name)
            if len(items) > MAX_ITEMS:
                raise InvalidArgumentError(f"must have at most {MAX_ITEMS} items", field=name)
            for index, item in enumerate(items):
                check_length(item, MAX_TITLE_CHARS, f"{name}[{index}]")


@dataclass(frozen=True, slots=True)
class TaskLink(JsonForm):
    """A link from a task to another task, or to something that it names.

    Args:
        target: Id of the other task; an id or URI for the kinds `ARTIFACT` and `EVIDENCE`. 1 to `MAX_TARGET_BYTES` bytes.
        reason: For people; at most `MAX_REASON_CHARS` characters.
        created_at: ISO 8601; None before the link is recorded.
    """

    kind: LinkKind
    target: str
    reason: str = ""
    created_at: str | None = None

    def check(self) -> None:
        """Check a link that a caller adds. Raises InvalidArgumentError, which names the field."""
        if self.kind not in CALLER_LINKS:
            raise InvalidArgumentError(f"must be one of {', '.join(CALLER_LINKS)}", field="kind")
        if not self.target or len(self.target.encode(errors="replace")) > MAX_TARGET_BYTES:
            raise InvalidArgumentError(f"must have 1 to {MAX_TARGET_BYTES} bytes", field="target")
        check_length(self.reason, MAX_REASON_CHARS, "reason")


def check_length(text: object, limit: int, name: str) -> str:
    """Return a text of at most `limit` characters. Raises InvalidArgumentError, which names the field."""
    if not isinstance(text, str):
        raise InvalidArgumentError("must be a text", field=name)
    if len(text) > limit:
        raise InvalidArgumentError(f"must have at most {limit} characters", field=name)
    return text
