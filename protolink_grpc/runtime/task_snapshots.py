"""Builds snapshots of tasks: their folds, with what the store knows around them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import TERMINAL, TaskState
from protolink_grpc.models.snapshot import Availability, DeliveryState, Gap, LinkedTask, TaskAttempt, TaskSnapshot
from protolink_grpc.models.task_control import TASK_LINKS, LinkKind, TaskStatus
from protolink_grpc.models.task_status import status_at_end, status_of
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.storage.links import is_blocked
from protolink_grpc.storage.port import HELD, TaskHead, TaskQuery
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_rows import HEADS, owner_of
from protolink_grpc.storage.webhooks import PushRow, WebhookFailure, failures_of, webhooks_of

MAX_ATTEMPTS: Final = 100
"""Maximum number of attempts in a snapshot."""

MAX_PAGE_EVENTS: Final = 50_000
"""Maximum number of events that are read for a page of snapshots, unless a single task has more."""

MAX_WEBHOOKS: Final = 1000
"""Maximum number of webhooks of a task that are read."""


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What the log of a task does not have.

    Args:
        is_held: No worker may take the task.
    """

    is_held: bool = False
    is_blocked: bool = False
    is_archived: bool = False
    webhooks: Sequence[PushRow] = field(default=())
    failures: Sequence[WebhookFailure] = field(default=())


class TaskSnapshots:
    """The snapshots of one agent's tasks. Callers have checked the owner."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._store = tasks.store

    async def of(self, fold: TaskFold) -> TaskSnapshot:
        """Return the snapshot of a task. The fold may grow meanwhile."""
        wanted = {link.target for link in fold.links if link.kind in TASK_LINKS}
        if fold.state is TaskState.SUBMITTED:
            wanted.add(fold.task_id)
        heads = await self._store.heads(wanted)
        around = await self._store.view(lambda records: _look_around(records, fold, heads))
        linked = tuple(LinkedTask(link, _state_of(heads.get(link.target), fold)) for link in fold.links)
        snapshot = _snapshot(fold, around)
        attempts = _attempts(fold, snapshot.status)
        gaps = snapshot.gaps
        if any(each.status is TaskStatus.LOST and each.ended_at is None for each in attempts):
            gaps += (
                Gap("attempts.end_time", Availability.UNKNOWN, "the process of a lost run could not record its end"),
            )
        return replace(snapshot, links=linked, attempts=attempts, gaps=gaps)

    async def in_brief(self, folds: Sequence[TaskFold]) -> list[TaskSnapshot]:
        """Return snapshots without attempts and links, in one transaction."""
        heads = await self._store.heads({fold.task_id for fold in folds if fold.state is TaskState.SUBMITTED})
        around = await self._store.view(lambda records: [_look_around(records, fold, heads) for fold in folds])
        return [_snapshot(fold, each) for fold, each in zip(folds, around, strict=True)]

    async def page(
        self,
        principal: str,
        *,
        statuses: Iterable[TaskStatus] = (),
        session_id: str = "",
        after: tuple[int, str] | None = None,
        limit: int = 50,
    ) -> tuple[list[tuple[TaskSnapshot, tuple[int, str]]], tuple[int, str] | None]:
        """Return one page of a principal's tasks, most recently changed first.

        Returns:
            The snapshots, each with its cursor, and the cursor of the next page or None. A page may be short.
        """
        wanted = frozenset(statuses)
        query = TaskQuery(
            principal, self._tasks.agent_name, _states_of(wanted), session_id, page_size=limit, after=after
        )
        page = await self._store.find(query)
        folds: list[TaskFold] = []
        cursors: list[tuple[int, str]] = []
        following, events = page.next, 0
        for head in page.heads:
            events += head.sequence
            if cursors and events > MAX_PAGE_EVENTS:
                following = cursors[-1]
                break
            cursors.append((head.update_micros, head.task_id))
            fold = await self._fold_of(head)
            if fold is not None:
                folds.append(fold)
        found = await self.in_brief(folds)
        by_id = {task_id: (micros, task_id) for micros, task_id in cursors}
        shown = [(each, by_id[each.task_id]) for each in found if not wanted or each.status in wanted]
        return shown, following

    async def _fold_of(self, head: TaskHead) -> TaskFold | None:
        """Return the task of a head; None if it was dropped from the store."""
        run = self._tasks.visible_run(head.task_id, head.principal)
        if run is not None and run.live.fold.sequence:
            await run.live.at_rest()
            return run.live.fold
        try:
            return (await self._tasks.load(head)).fold
        except TaskNotFoundError:
            return None


def _look_around(records: Records, fold: TaskFold, heads: Mapping[str, TaskHead]) -> _Surroundings:
    controls = fold.controls
    # A retry does not wait for the blockers of the first start.
    waits = controls is not None and fold.state is TaskState.SUBMITTED and not controls.retries
    blocked = waits and any(link.kind is LinkKind.BLOCKED_BY for link in fold.links)
    session = None
    if fold.is_terminal and fold.session_id != fold.task_id:
        session = records.get(HEADS, owner_of(fold.agent_name, fold.principal), fold.session_id)
    webhooks = webhooks_of(records, fold.agent_name, fold.task_id, limit=MAX_WEBHOOKS)
    head = heads.get(fold.task_id)
    return _Surroundings(
        head is not None and head.worker == HELD,
        blocked and is_blocked(records, fold.task_id),
        session is not None and session.archived,
        webhooks,
        failures_of(records, webhooks),
    )


def _snapshot(fold: TaskFold, around: _Surroundings) -> TaskSnapshot:
    """Return the snapshot without attempts and links. It shares nothing that changes with the fold."""
    status = status_of(fold, is_blocked=around.is_blocked, is_archived=around.is_archived)
    controls, history = fold.controls, fold.history
    starts = [micros for *_, micros, _, _, fact in history if fact is not None and fact.attempt]
    delivery = _delivery(fold, around)
    return TaskSnapshot(
        fold.task_id,
        fold.sequence,
        status,
        _status_reason(fold, status, is_held=around.is_held),
        fold.state,
        None if controls is None else controls.description,
        plain(fold.metadata),
        fold.session_id,
        fold.thread_id,
        fold.agent_name,
        fold.principal,
        iso_from_micros(fold.create_micros),
        iso_from_micros(fold.update_micros),
        iso_from_micros(starts[0]) if starts else None,
        iso_from_micros(history[-1][2]) if fold.is_terminal and history else None,
        fold.run_id,
        attempt_count=len(starts),
        retry_count=fold.retries,
        pending_approvals=tuple(fold.asked),
        progress=None if fold.progress is None else replace(fold.progress),
        failure=None if fold.failure is None else fold.failure.copy(),
        cancel_reason=fold.cancel_reason,
        message_count=len(fold.messages),
        artifact_count=fold.artifact_count,
        usage=None if fold.usage is None else replace(fold.usage, metadata=plain(fold.usage.metadata)),
        delivery=delivery,
        delivery_error=_delivery_error(around.failures) if delivery is DeliveryState.FAILED else "",
        external=controls is not None and controls.is_external,
    )


_WAITING_FOR_RUN: Final = frozenset({TaskStatus.QUEUED, TaskStatus.RETRYING, TaskStatus.WAITING_INPUT})
"""Statuses of a task whose next run may wait for a slot."""


def _status_reason(fold: TaskFold, status: TaskStatus, *, is_held: bool) -> str:
    if status is TaskStatus.BLOCKED:
        return "other tasks have to end first"
    if status is TaskStatus.CANCELLING and fold.cancel_requested is not None:
        return fold.cancel_requested.reason
    if status is TaskStatus.PAUSED and fold.controls is not None and fold.controls.pause is not None:
        return fold.controls.pause.reason
    if status is TaskStatus.WAITING_RESOURCE and fold.failed_call is not None:
        return fold.failed_call.failure.message
    if status in _WAITING_FOR_RUN and fold.queued is not None:
        return fold.queued.reason
    if status is TaskStatus.QUEUED and is_held:
        return "waits in the queue of its thread"
    return fold.reason if fold.is_terminal else ""


def _delivery(fold: TaskFold, around: _Surroundings) -> DeliveryState:
    if not around.webhooks:
        return DeliveryState.NOT_APPLICABLE
    if not all(row.done or row.cursor >= fold.sequence for row in around.webhooks):
        return DeliveryState.PENDING
    return DeliveryState.FAILED if around.failures else DeliveryState.DELIVERED


def _delivery_error(failures: Sequence[WebhookFailure]) -> str:
    """Return the failure of the webhook that failed last."""
    latest = max(failures, key=lambda each: each.create_micros)
    since = iso_from_micros(latest.create_micros)
    return f"{latest.error}: webhook {latest.config_id}, event {latest.sequence}, given up since {since}"


def _attempts(fold: TaskFold, status: TaskStatus) -> tuple[TaskAttempt, ...]:
    """Return the newest attempts, oldest first. The end of a run that another one has taken over is unknown."""
    found: list[TaskAttempt] = []
    for _, state, micros, sequence, run_id, fact in fold.history:
        latest = found[-1] if found and found[-1].ended_at is None else None
        if fact is None:
            continue
        if fact.attempt:
            if latest is not None:
                found[-1] = replace(latest, status=TaskStatus.LOST)
            found.append(
                TaskAttempt(
                    run_id,
                    fact.attempt,
                    fact.cause,
                    worker=fact.worker,
                    started_at=iso_from_micros(micros),
                    first_sequence=sequence,
                )
            )
        elif latest is not None:
            found[-1] = replace(
                latest,
                state=state,
                status=status_at_end(state, fact.failure),
                ended_at=iso_from_micros(micros),
                failure=None if fact.failure is None else fact.failure.copy(),
            )
    if found and found[-1].ended_at is None:
        found[-1] = replace(found[-1], status=status)
    return tuple(found[-MAX_ATTEMPTS:])


def _state_of(head: TaskHead | None, fold: TaskFold) -> TaskState | None:
    is_own = head is not None and head.principal == fold.principal and head.agent_name == fold.agent_name
    return head.state if head is not None and is_own else None


def _states_of(statuses: frozenset[TaskStatus]) -> frozenset[TaskState]:
    """Return the states that a task with one of these statuses can have; empty means any."""
    found = frozenset[TaskState]()
    for status in statuses:
        states = _STATES.get(status)
        if states is None:
            return frozenset()
        found |= states
    return found


_WAITING: Final = frozenset({TaskState.SUBMITTED})
_WORKING: Final = frozenset({TaskState.WORKING})
_STATES: Final[Mapping[TaskStatus, frozenset[TaskState]]] = {
    TaskStatus.DRAFT: _WAITING,
    TaskStatus.ACCEPTED: _WAITING,
    TaskStatus.QUEUED: _WAITING,
    TaskStatus.BLOCKED: _WAITING,
    TaskStatus.RETRYING: _WAITING,
    TaskStatus.PREPARING: _WORKING,
    TaskStatus.RUNNING: _WORKING,
    TaskStatus.WAITING_RESOURCE: _WORKING,
    TaskStatus.WAITING_INPUT: frozenset({TaskState.INPUT_REQUIRED}),
    TaskStatus.WAITING_PERMISSION: frozenset({TaskState.WORKING, TaskState.AUTH_REQUIRED}),
    TaskStatus.CANCELLED: frozenset({TaskState.CANCELED}),
    TaskStatus.COMPLETED: frozenset({TaskState.COMPLETED}),
    TaskStatus.FAILED: frozenset({TaskState.FAILED, TaskState.REJECTED}),
    TaskStatus.TIMED_OUT: frozenset({TaskState.FAILED, TaskState.REJECTED}),
    TaskStatus.LOST: frozenset({TaskState.FAILED, TaskState.REJECTED}),
    TaskStatus.ARCHIVED: TERMINAL,
}
"""The states of the tasks with each status. Other statuses are possible in several states."""
