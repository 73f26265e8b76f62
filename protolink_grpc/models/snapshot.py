"""Snapshots: what a task is at one sequence of its log, with everything around its work. What is not known is a Gap."""

from dataclasses import dataclass, field
from typing import Any

from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.events import TaskProgress, Worker
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.open_enum import OpenEnum
from protolink_grpc.models.task_control import TaskDescription, TaskLink, TaskStatus


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


@dataclass(frozen=True, slots=True)
class TaskSnapshotPage:
    """One page of snapshots, most recently changed first, and the token of the next page ("" on the last one)."""

    snapshots: tuple[TaskSnapshot, ...] = ()
    next_page_token: str = ""
