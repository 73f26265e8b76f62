"""Snapshots: what a task, a thread or a session is at one position of its log. What is not known is a Gap."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from protolink_grpc.models.action import Approval, BudgetUsage, ContextManifest, OmittedItems, PolicyEffect
from protolink_grpc.models.events import ContextCompacted, TaskProgress, Worker
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.open_enum import OpenEnum
from protolink_grpc.models.session import Session, Thread, Turn
from protolink_grpc.models.task_control import TaskDescription, TaskLink, TaskStatus
from protolink_grpc.models.tool import OfferedTools, ToolDescription


class Availability(OpenEnum):
    """Why a part of a snapshot has no current value. `UNAVAILABLE`: this agent does not record it."""

    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"
    STALE = "stale"
    BLOCKED = "blocked"


class DeliveryState(OpenEnum):
    """The state of the delivery of a task's events to webhooks."""

    NOT_APPLICABLE = "not_applicable"
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a snapshot without a current value. `part` is the name of a field, or of a part of the contract without a field."""

    part: str
    availability: Availability
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One run of a task.

    Args:
        attempt: Number of the run in its task, from 1.
        cause: submitted, continued, recovered, retried or external.
        state: State of the task at the end of the run; working while it runs.
        started_at, ended_at: ISO 8601; `ended_at` is None before the end.
        first_sequence: Sequence of the first event of the run.
    """

    run_id: str
    attempt: int = 0
    cause: str = ""
    state: TaskState = TaskState.WORKING
    status: TaskStatus = TaskStatus.RUNNING
    worker: Worker | None = None
    started_at: str | None = None
    ended_at: str | None = None
    failure: Failure | None = None
    first_sequence: int = 0


@dataclass(frozen=True, slots=True)
class LinkedTask:
    """A link of a task. `state` is that of the other task; None for another target, and for a task that is not in the store."""

    link: TaskLink
    state: TaskState | None = None


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task with everything around its work. Task has the work itself.

    Args:
        sequence: Sequence of the last event that the snapshot reflects.
        status_reason: Why it has this status, for people.
        created_at, updated_at, started_at, ended_at: ISO 8601; None if it has not happened.
        attempts: The newest ones, oldest first, at most 100; empty in lists.
        links: Oldest first; empty in lists.
        pending_approvals: Ids, oldest first.
        external: The work is done outside of the agent.
        delivery_error: Why a delivery failed and is not repeated; empty unless `delivery` is FAILED.
    """

    task_id: str
    sequence: int = 0
    status: TaskStatus = TaskStatus.UNKNOWN
    status_reason: str = ""
    state: TaskState = TaskState.UNKNOWN
    description: TaskDescription | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    session_id: str = ""
    thread_id: str = ""
    agent_name: str = ""
    owner: str = ""
    created_at: str | None = None
    updated_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    run_id: str = ""
    attempts: tuple[TaskAttempt, ...] = ()
    attempt_count: int = 0
    retry_count: int = 0
    links: tuple[LinkedTask, ...] = ()
    pending_approvals: tuple[str, ...] = ()
    progress: TaskProgress | None = None
    failure: Failure | None = None
    cancel_reason: str = ""
    message_count: int = 0
    artifact_count: int = 0
    usage: BudgetUsage | None = None
    delivery: DeliveryState = DeliveryState.NOT_APPLICABLE
    external: bool = False
    gaps: tuple[Gap, ...] = ()
    delivery_error: str = ""


@dataclass(frozen=True, slots=True)
class TaskSnapshotPage:
    """One page of snapshots, most recently changed first, and the token of the next page ("" on the last one)."""

    snapshots: tuple[TaskSnapshot, ...] = ()
    next_page_token: str = ""


# -- Sessions --------------------------------------------------------------------------------------------------------------


class ThreadStatus(OpenEnum):
    """The status of a thread.

    `IDLE`: it has never had a turn. `QUEUED`: turns wait, and none is active. `RUNNING`: a turn is active. `BLOCKED`: its active
    turns are paused or wait for approvals, or its task waits for input. The others are the result of its last turn.
    """

    IDLE = "idle"
    QUEUED = "queued"
    RUNNING = "running"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


THREAD_RESULTS: Final = MappingProxyType(
    {
        TaskState.COMPLETED: ThreadStatus.COMPLETED,
        TaskState.FAILED: ThreadStatus.FAILED,
        TaskState.REJECTED: ThreadStatus.FAILED,
        TaskState.CANCELED: ThreadStatus.CANCELLED,
    }
)
"""The status of a thread without open turns, by the result of its last turn."""


@dataclass(frozen=True, slots=True)
class CompactionSummary:
    """One compaction of a conversation: sequence and time (ISO 8601) of its event, and the event."""

    sequence: int
    created_at: str
    compacted: ContextCompacted


@dataclass(frozen=True, slots=True)
class ContextBoundarySnapshot:
    """The context of the latest model call of a task.

    Args:
        sequence: Sequence of the last event that the snapshot reflects.
        prepared_sequence: Sequence of the event `context.prepared`; 0 if there was no model call.
        manifest: The estimate of that prompt; None if there was no model call.
        step: Step of the inference loop, from 1.
        compactions: The newest 20 of the task, oldest first.
        offered: The tools that were offered to the model; None if unknown.
        omitted: What the prompt leaves out; None if unknown.
    """

    task_id: str
    sequence: int = 0
    prepared_sequence: int = 0
    manifest: ContextManifest | None = None
    step: int = 0
    compactions: tuple[CompactionSummary, ...] = ()
    gaps: tuple[Gap, ...] = ()
    offered: OfferedTools | None = None
    omitted: OmittedItems | None = None


@dataclass(frozen=True, slots=True)
class ArtifactSummary:
    """An artifact without its content.

    Args:
        kind, name, uri, media_type, action_id: Those of the artifact; empty if it has none.
        size: Approximate size of its content in bytes.
        preview: First 200 characters of its text; may be empty.
        created_at: ISO 8601.
    """

    task_id: str
    artifact_id: str
    kind: str = ""
    name: str = ""
    uri: str = ""
    media_type: str = ""
    action_id: str = ""
    part_count: int = 0
    size: int = 0
    preview: str = ""
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class ArtifactsSnapshot:
    """The artifacts of a task after the event `sequence`, oldest first, without their content."""

    task_id: str
    sequence: int = 0
    artifacts: tuple[ArtifactSummary, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadSnapshot:
    """One thread of a session.

    Args:
        position: Position of the session that the snapshot reflects.
        status_reason: Why it has this status, for people.
        active_turns, queued_turns: In the order in which they start.
        waiting_turn: The turn whose task waits for input.
        recent_turns: The newest 20, oldest first. Empty in the snapshot of a session.
        last_outcome: Of the turns that have ended, the one that was submitted last.
        pending_approvals: Those of its open turns, oldest first, at most 100.
        open_tasks: The tasks of its open turns, at most 100. Empty in the snapshot of a session.
        context: The context of the latest model call of its latest turn. None in the snapshot of a session.
    """

    session_id: str
    thread: Thread = field(default_factory=Thread)
    position: int = 0
    status: ThreadStatus = ThreadStatus.IDLE
    status_reason: str = ""
    active_turns: tuple[Turn, ...] = ()
    queued_turns: tuple[Turn, ...] = ()
    waiting_turn: Turn | None = None
    recent_turns: tuple[Turn, ...] = ()
    last_outcome: Turn | None = None
    pending_approvals: tuple[Approval, ...] = ()
    open_tasks: tuple[TaskSnapshot, ...] = ()
    context: ContextBoundarySnapshot | None = None
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session with its threads.

    Args:
        session: Its `position` is the one that the snapshot reflects.
        threads: Those with open turns, then the others, at most 100.
        recent_turns: The newest 50 of all threads, oldest first.
        next_page_token: Token of older turns for `sessions.get`; "" if there are none.
        pending_approvals: Those of its open turns, oldest first, at most 100.
        recent_artifacts: Artifacts of its newest turns, newest first, at most 20.
    """

    session: Session
    threads: tuple[ThreadSnapshot, ...] = ()
    recent_turns: tuple[Turn, ...] = ()
    next_page_token: str = ""
    pending_approvals: tuple[Approval, ...] = ()
    recent_artifacts: tuple[ArtifactSummary, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """A turn in a queue: its place from 1, and the first 200 characters of the text of its input."""

    turn: Turn
    place: int = 0
    preview: str = ""


@dataclass(frozen=True, slots=True)
class QueueHold:
    """What the queue of a thread waits for.

    Args:
        turns: The active turns, or the turn whose task waits for input.
        waits_for_input: The queue continues after an answer, or after a cancellation.
    """

    thread_id: str
    turns: tuple[Turn, ...] = ()
    waits_for_input: bool = False


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """The queues of a session, or of one thread.

    Args:
        position: Position of the session that the snapshot reflects.
        queued_turns: By thread, then in the order in which they start.
        holds: One for each thread with a queue.
    """

    session_id: str
    position: int = 0
    queued_turns: tuple[QueuedTurn, ...] = ()
    holds: tuple[QueueHold, ...] = ()
    gaps: tuple[Gap, ...] = ()


# -- Tools and evidence ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolInventoryEntry:
    """A tool with the effect of the agent's policy for the caller.

    `runtime_owner` is `local`, `mcp:NAME` for a tool of an MCP server, or `agent:NAME` for a peer.
    """

    tool: ToolDescription
    runtime_owner: str = ""


@dataclass(frozen=True, slots=True)
class ToolInventorySnapshot:
    """The tools that the caller can use, ordered by name. No log has the tools, so the snapshot has a time (ISO 8601)."""

    snapshot_at: str | None = None
    tools: tuple[ToolInventoryEntry, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionCount:
    """The number of a task's actions of one kind with one outcome; the outcome "" counts those that have not ended."""

    kind: str
    outcome: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class PolicyCount:
    """The number of policy decisions with one effect."""

    effect: PolicyEffect
    count: int = 0


@dataclass(frozen=True, slots=True)
class EvidenceSnapshot:
    """What the log of a task proves, after the event `sequence`.

    Args:
        trace_id: Trace of the latest run; empty before the first.
        run_ids: The newest 100 runs, oldest first.
        links: Links of the kind EVIDENCE.
    """

    task_id: str
    sequence: int = 0
    trace_id: str = ""
    run_ids: tuple[str, ...] = ()
    actions: tuple[ActionCount, ...] = ()
    approvals_granted: int = 0
    approvals_denied: int = 0
    approvals_expired: int = 0
    policy_decisions: tuple[PolicyCount, ...] = ()
    links: tuple[TaskLink, ...] = ()
    gaps: tuple[Gap, ...] = ()
