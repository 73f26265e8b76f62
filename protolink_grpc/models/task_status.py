"""The status of a task in detail, computed from the fold of its log, and which status can follow which."""

from types import MappingProxyType
from typing import Final

from protolink_grpc.models.failure import RUN_LOST, Failure, FailureCategory
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task_control import TaskStatus as S

_STOPS: Final = frozenset({S.CANCELLING, S.CANCELLED, S.FAILED, S.TIMED_OUT, S.LOST})
_OPEN: Final = frozenset(
    {S.PREPARING, S.RUNNING, S.WAITING_INPUT, S.WAITING_PERMISSION, S.WAITING_RESOURCE, S.PAUSED, S.COMPLETED}
)
_ENDED: Final = frozenset({S.RETRYING, S.QUEUED, S.PREPARING, S.ARCHIVED})

STATUS_TRANSITIONS: Final = MappingProxyType(
    {
        S.DRAFT: _STOPS | {S.ACCEPTED, S.QUEUED, S.BLOCKED, S.PREPARING, S.COMPLETED},
        S.ACCEPTED: _STOPS | {S.PREPARING},
        S.BLOCKED: _STOPS | {S.ACCEPTED, S.QUEUED, S.PREPARING},
        S.QUEUED: _STOPS | {S.PREPARING, S.PAUSED, S.COMPLETED},
        S.RETRYING: _STOPS | {S.QUEUED, S.PREPARING},
        S.PREPARING: _STOPS | _OPEN,
        S.RUNNING: _STOPS | _OPEN,
        S.WAITING_RESOURCE: _STOPS | _OPEN,
        S.WAITING_PERMISSION: _STOPS | _OPEN,
        S.WAITING_INPUT: _STOPS | {S.PREPARING, S.QUEUED},
        S.PAUSED: _STOPS | _OPEN,
        S.CANCELLING: frozenset({S.CANCELLED, S.COMPLETED, S.FAILED, S.LOST, S.TIMED_OUT}),
        S.CANCELLED: _ENDED,
        S.TIMED_OUT: _ENDED,
        S.FAILED: _ENDED,
        S.LOST: _ENDED,
        S.COMPLETED: _ENDED,
        S.ARCHIVED: frozenset({S.COMPLETED, S.CANCELLED, S.FAILED, S.TIMED_OUT, S.LOST}),
    }
)
"""The statuses that can follow each one, from one event to the next. `stale` and `unknown` belong to readers, not to tasks."""

_BY_STATE: Final = {
    TaskState.COMPLETED: S.COMPLETED,
    TaskState.CANCELED: S.CANCELLED,
    TaskState.INPUT_REQUIRED: S.WAITING_INPUT,
    TaskState.AUTH_REQUIRED: S.WAITING_PERMISSION,
}


def status_of(fold: TaskFold, *, is_blocked: bool = False, is_archived: bool = False) -> S:
    """Return the status of a task.

    Args:
        is_blocked: A task that it waits for has not ended. The log of the task itself does not have that.
        is_archived: Its session is archived.
    """
    state = fold.state
    if fold.is_terminal:
        return S.ARCHIVED if is_archived else status_at_end(state, fold.failure)
    is_canceling = fold.cancel_requested is not None
    if state is TaskState.SUBMITTED and not is_canceling:
        return _waiting_status(fold, is_blocked=is_blocked)
    if state is not TaskState.WORKING and not is_canceling:
        return _BY_STATE.get(state, S.UNKNOWN)
    status = status_of_run(
        is_canceling=is_canceling,
        is_paused=fold.is_paused,
        has_questions=bool(fold.asked),
        repeats_call=fold.failed_call is not None,
    )
    return S.PREPARING if status is S.RUNNING and fold.run_sequence == fold.sequence else status


def status_of_run(*, is_canceling: bool, is_paused: bool, has_questions: bool, repeats_call: bool) -> S:
    """Return the status of a task whose run works.

    Args:
        is_canceling: A cancellation was requested.
        has_questions: An approval is open.
        repeats_call: A model call has failed, and the run waits to repeat it.
    """
    if is_canceling:
        return S.CANCELLING
    if is_paused:
        return S.PAUSED
    if has_questions:
        return S.WAITING_PERMISSION
    return S.WAITING_RESOURCE if repeats_call else S.RUNNING


def _waiting_status(fold: TaskFold, *, is_blocked: bool) -> S:
    controls = fold.controls
    if controls is None:
        return S.QUEUED
    if controls.is_draft:
        return S.DRAFT
    if is_blocked:
        return S.BLOCKED
    if controls.is_external:
        return S.ACCEPTED
    return S.RETRYING if fold.attempt else S.QUEUED


def status_at_end(state: TaskState, failure: Failure | None) -> S:
    """Return the status of a task, or of one attempt, that has ended or waits for input, in this state."""
    if state in _BY_STATE:
        return _BY_STATE[state]
    if failure is not None and failure.reason == RUN_LOST:
        return S.LOST
    return S.TIMED_OUT if failure is not None and failure.category == FailureCategory.TIMEOUT else S.FAILED
