"""The life of a task: its states and every move between them. This table is the only state machine; all ask it."""

from enum import StrEnum
from types import MappingProxyType

from protolink_grpc.errors import InvalidArgumentError, InvalidTransitionError


class TaskState(StrEnum):
    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    CANCELED = "canceled"
    FAILED = "failed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


_ENDINGS = frozenset({TaskState.CANCELED, TaskState.FAILED, TaskState.REJECTED})
_NOWHERE: frozenset[TaskState] = frozenset()

TRANSITIONS: MappingProxyType[TaskState, frozenset[TaskState]] = MappingProxyType(
    {
        TaskState.SUBMITTED: _ENDINGS | {TaskState.WORKING},
        TaskState.WORKING: _ENDINGS | {TaskState.COMPLETED, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED},
        TaskState.INPUT_REQUIRED: _ENDINGS | {TaskState.WORKING},
        TaskState.AUTH_REQUIRED: _ENDINGS | {TaskState.WORKING},
        TaskState.COMPLETED: _NOWHERE,
        TaskState.CANCELED: _NOWHERE,
        TaskState.FAILED: _NOWHERE,
        TaskState.REJECTED: _NOWHERE,
        TaskState.UNKNOWN: frozenset(TaskState),
    }
)

TERMINAL = frozenset(state for state, targets in TRANSITIONS.items() if not targets)
INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})


def is_terminal(state: TaskState) -> bool:
    """Nothing will happen to the task any more."""
    return state in TERMINAL


def is_interrupted(state: TaskState) -> bool:
    """The task waits for its sender."""
    return state in INTERRUPTED


def parse_state(value: object, *, field: str = "state") -> TaskState:
    """The state of that value.

    Raises:
        InvalidArgumentError: No such state; names `field`.
    """
    try:
        return TaskState(value)  # type: ignore[arg-type]  # the lookup itself refuses what is not text
    except ValueError:
        known = ", ".join(TaskState)
        raise InvalidArgumentError(f"must be one of {known}", field=field) from None


def check_transition(current: TaskState, target: TaskState) -> None:
    """Pass when the move is in the table.

    Raises:
        InvalidTransitionError: It is not; staying where one is counts as a move.
    """
    if target not in TRANSITIONS[current]:
        raise InvalidTransitionError(
            f"Invalid task state transition: {current} -> {target}", current=str(current), target=str(target)
        )
