"""ProtoLink's keys of `Task.metadata`: a view of the typed facts of a task, and the way back. All other keys are the user's."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.context import CONTEXT_KEY, RunContext
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import StateChange, TaskState

USAGE_KEY = "budget_usage"
"""Metadata key of a task's usage."""

HISTORY_KEY = "state_history"

REASON_KEYS = MappingProxyType(
    {TaskState.FAILED: "error", TaskState.CANCELED: "cancel_reason", TaskState.REJECTED: "reject_reason"}
)
"""Metadata key of the reason, for each state that ends a task without success."""


class TaskFacts(Protocol):
    """The typed facts of Task. It is a Protocol because Task imports this module."""

    state: TaskState
    failure: Failure | None
    context: RunContext | None
    session_id: str | None
    state_history: list[StateChange]
    cancel_reason: str
    usage: BudgetUsage | None


def _of_context(name: str) -> Callable[[TaskFacts], Any]:
    return lambda task: getattr(task.context, name, None)


def _cancel_reason(task: TaskFacts) -> str | None:
    return task.cancel_reason or (None if task.context is None else task.context.cancel_reason)


def _failure_key(state: TaskState) -> str:
    """Return the key for the message of the failure of a task in that state."""
    return "reject_reason" if state is TaskState.REJECTED else "error"


def _failure_as(key: str) -> Callable[[TaskFacts], str | None]:
    def read(task: TaskFacts) -> str | None:
        return None if task.failure is None or _failure_key(task.state) != key else task.failure.message

    return read


_VIEW: Mapping[str, Callable[[TaskFacts], Any]] = {
    CONTEXT_KEY: lambda task: None if task.context is None else task.context.to_dict(),
    "run_id": _of_context("run_id"),
    "session_id": lambda task: task.session_id,
    "trace_id": _of_context("trace_id"),
    "workspace_uri": _of_context("workspace_uri"),
    "parent_run_id": _of_context("parent_run_id"),
    "canceled": _of_context("canceled"),
    "cancel_reason": _cancel_reason,
    "error": _failure_as("error"),
    "reject_reason": _failure_as("reject_reason"),
    HISTORY_KEY: lambda task: [change.to_dict() for change in task.state_history],
    USAGE_KEY: lambda task: None if task.usage is None else task.usage.to_dict(),
}
"""The value of each of ProtoLink's keys; without a value, the key is absent."""

DERIVED_KEYS = frozenset(_VIEW)
"""Keys that are computed from typed facts; values that callers or agents write there are read once and not kept."""


class TaskMetadata(dict[str, Any]):
    """The user's metadata of a task, which also answers for ProtoLink's keys.

    Only what the user has written is stored, iterated, counted, compared and written as JSON. `metadata[key]`,
    `metadata.get(key)` and `key in metadata` also know the keys of `DERIVED_KEYS`: their values are computed from the task's
    fields, and changing such a value changes nothing. A value that the user has written to such a key comes first.
    """

    __slots__ = ("task",)
    task: TaskFacts

    def __missing__(self, key: str) -> Any:
        read = _VIEW.get(key)
        value = None if read is None else read(self.task)
        if not value:
            raise KeyError(key)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        return key in DERIVED_KEYS and self.get(str(key)) is not None


def protolink_metadata(task: TaskFacts, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of `task` in ProtoLink's JSON: its facts under ProtoLink's keys; those of `own` come first."""
    found = {key: read(task) for key, read in _VIEW.items() if key not in own}
    return {**{key: value for key, value in found.items() if value}, **own}


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without `DERIVED_KEYS`."""
    return {key: value for key, value in metadata.items() if key not in DERIVED_KEYS} if metadata else {}


def take_facts(metadata: dict[str, Any], state: TaskState) -> dict[str, Any]:
    """Remove ProtoLink's keys from `metadata` and return the fields of a Task in that state which they stand for.

    A key whose value has another form than ProtoLink's belongs to the application, and stays.
    """
    found: dict[str, Any] = {}
    if metadata.keys().isdisjoint(DERIVED_KEYS):
        return found
    context = _read(RunContext.from_dict, metadata.get(CONTEXT_KEY))
    if context is not None:
        found["context"] = context
        del metadata[CONTEXT_KEY]
        for key in ("run_id", "trace_id", "workspace_uri", "parent_run_id", "canceled"):
            if metadata.get(key) and metadata[key] == getattr(context, key):
                del metadata[key]
    if _is_text(metadata.get("session_id")):
        found["session_id"] = metadata.pop("session_id")
    if _is_text(metadata.get("cancel_reason")):
        found["cancel_reason"] = metadata.pop("cancel_reason")
    key = _failure_key(state)
    if _is_text(metadata.get(key)):
        found["failure"] = Failure.of_text(metadata.pop(key))
    history = metadata.get(HISTORY_KEY)
    changes = _read(_changes, history) if isinstance(history, list) else None
    if changes:
        found["state_history"] = changes
        del metadata[HISTORY_KEY]
    usage = _read(BudgetUsage.from_dict, metadata.get(USAGE_KEY))
    if usage is not None and usage.to_dict() == metadata[USAGE_KEY]:
        found["usage"] = usage
        del metadata[USAGE_KEY]
    return found


def _changes(history: list[Any]) -> list[StateChange]:
    return [StateChange.from_dict(change) for change in history]


def _read(read: Callable[[Any], Any], value: Any) -> Any:
    """Return the value in its documented form as the type that `read` makes of it; None for any other."""
    try:
        return None if value is None else read(value)
    except InvalidArgumentError:
        return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""
