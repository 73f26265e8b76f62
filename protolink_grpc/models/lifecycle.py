"""The lifecycle of a task: its states and the allowed moves between them. This table is the only state machine."""

from types import MappingProxyType

from protolink_grpc.errors import InvalidArgumentError, InvalidTransitionError
from protolink_grpc.models.open_enum import OpenEnum


class TaskState(OpenEnum):
    """Where a task stands. A state of a later version is neither terminal nor interrupted, and no move leads out of it."""

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
    """Whether the state is final."""
    return state in TERMINAL


def is_interrupted(state: TaskState) -> bool:
    """Whether the task waits for its sender."""
    return state in INTERRUPTED


def parse_state(value: object, *, field: str = "state") -> TaskState:
    """The state of that value, for what a caller asks.

    Raises:
        InvalidArgumentError: No such state in this version; names `field`.
    """
    state = read_state(value, field=field)
    if not state.is_named:
        raise _not_a_state(field)
    return state


def read_state(value: object, *, field: str = "state") -> TaskState:
    """The state of that value, for what was recorded: `unknown-N` is a state of a later version.

    Raises:
        InvalidArgumentError: No state; names `field`.
    """
    try:
        return TaskState(value)  # type: ignore[arg-type]  # the lookup itself refuses what is not text
    except ValueError:
        raise _not_a_state(field) from None


def _not_a_state(field: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"must be one of {', '.join(TaskState)}", field=field)


def check_transition(current: TaskState, target: TaskState) -> None:
    """Check that the table allows a move.

    Raises:
        InvalidTransitionError: The move is not allowed; a move to the same state must be in the table too.
    """
    if target not in TRANSITIONS.get(current, _NOWHERE):
        raise InvalidTransitionError(
            f"Invalid task state transition: {current} -> {target}", current=str(current), target=str(target)
        )
