"""The lifecycle of a task: its states and the allowed transitions. `TRANSITIONS` is the only state machine."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from protolink_grpc.errors import InvalidArgumentError, InvalidTransitionError
from protolink_grpc.models import reader
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.open_enum import OpenEnum


class TaskState(OpenEnum):
    """The state of a task. A state of a later version is neither terminal nor interrupted, and has no transitions."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    CANCELED = "canceled"
    FAILED = "failed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of a task's state at `timestamp`, ISO 8601 UTC with microseconds."""

    previous_state: TaskState
    new_state: TaskState
    timestamp: str

    def to_dict(self) -> dict[str, str]:
        return {
            "previous_state": self.previous_state.value,
            "new_state": self.new_state.value,
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read the JSON object that `to_dict` writes. Raises InvalidArgumentError for any other."""
        source = reader.as_object(data)
        if source.keys() != {"previous_state", "new_state", "timestamp"}:
            raise InvalidArgumentError("must have previous_state, new_state and timestamp")
        when = reader.required_text(source, "timestamp")
        if iso_from_micros(micros_from_iso(when)) != when:
            raise InvalidArgumentError("must be in UTC with microseconds", field="timestamp")
        before, after = (read_state(source[key], field=key) for key in ("previous_state", "new_state"))
        return cls(before, after, when)


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
SETTLED = TERMINAL | INTERRUPTED
"""The states that end a turn."""


def is_terminal(state: TaskState) -> bool:
    """Whether the state is final."""
    return state in TERMINAL


def is_interrupted(state: TaskState) -> bool:
    """Whether the task waits for its caller."""
    return state in INTERRUPTED


def parse_state(value: object, *, field: str = "state") -> TaskState:
    """Return the state with this name, in a request.

    Raises:
        InvalidArgumentError: No such state in this version; names `field`.
    """
    state = read_state(value, field=field)
    if not state.is_named:
        raise _not_a_state(field)
    return state


def read_state(value: object, *, field: str = "state") -> TaskState:
    """Return the state with this name, in a record: `unknown-N` is a state of a later version.

    Raises:
        InvalidArgumentError: No state; names `field`.
    """
    try:
        return TaskState(value)  # type: ignore[arg-type]  # the lookup refuses other types
    except ValueError:
        raise _not_a_state(field) from None


def _not_a_state(field: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"must be one of {', '.join(TaskState)}", field=field)


def check_transition(current: TaskState, target: TaskState) -> None:
    """Check that the table allows a transition.

    Raises:
        InvalidTransitionError: It is not allowed. A transition to the same state must be in the table, too.
    """
    if target not in TRANSITIONS.get(current, _NOWHERE):
        raise InvalidTransitionError(
            f"Invalid task state transition: {current} -> {target}", current=str(current), target=str(target)
        )
