"""How an action ended, in the two forms that it has: an exception where it happens, a JSON value in the log and in artifacts."""

from dataclasses import dataclass, replace
from typing import Any

from protolink_grpc.errors import (
    BudgetExceededError,
    ProtolinkError,
    ToolError,
    ToolFailedError,
    ToolRejectedError,
)
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.tool_result import recorded_error


@dataclass(slots=True)
class Outcome:
    """How an action ended: exactly one of a result and an error. A recorded outcome has no exception."""

    action_id: str
    result: Any = None
    error: Any = None
    exception: ProtolinkError | None = None
    rejected: bool = False

    def value(self) -> Any:
        """The result; raises what the action raised, or an equivalent of it."""
        if self.exception is not None:
            raise self.exception
        if self.error is not None:
            raise recorded_error(self.error)
        return self.result


def error_value(error: ProtolinkError) -> dict[str, Any]:
    """The `error` object of an action that failed."""
    if isinstance(error, ToolRejectedError):
        return error.to_dict()
    own = isinstance(error, ToolError | BudgetExceededError)
    code = error.reason if own else ToolFailedError.reason
    return {"status": "failed", "code": code, "message": str(error)}


def ended_value(value: dict[str, Any], error: ProtolinkError, origin: str) -> dict[str, Any]:
    """The `error` of an action as the log has it: what it says to everybody, and what kind of failure it was, where, and why.

    Args:
        value: What `error_value` or `refusal_value` makes of the error.
        origin: What was called.
    """
    known = Failure.from_error(error, origin=origin)
    told = Failure.from_value(value)
    return dict(replace(told, **{name: getattr(known, name) for name in _KIND}).to_value())


def shown_value(value: Any) -> Any:
    """The inverse of `ended_value`: the same in the run that failed and in one that takes over."""
    if not isinstance(value, dict) or value.get("status") not in _STATUSES:
        return plain(value)
    return {key: plain(each) for key, each in value.items() if key not in _KIND}


_KIND = ("category", "retryable", "retry_delay_s", "origin", "cause")
_STATUSES = ("failed", "rejected", "denied")


def refusal_value(error: ProtolinkError) -> dict[str, Any]:
    """The `error` object of an action that was not allowed to run."""
    return {"status": "denied", "changes_made": False, "code": error.reason, "message": str(error)}
