"""Why something did not succeed, in one shape for tasks, actions, model calls and parts."""

from dataclasses import dataclass
from typing import Any, Final, Self

from protolink_grpc.errors import RULES, ProtolinkError
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.open_enum import OpenEnum

MAX_CAUSES: Final = 10
"""Failures inside failures; what lies deeper is left out."""


class FailureCategory(OpenEnum):
    """What kind of cause a failure has. Source: `plgrpc.v1.FailureCategory`."""

    INVALID = "invalid"
    DENIED = "denied"
    LIMIT = "limit"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    TOOL = "tool"
    MODEL = "model"
    PEER = "peer"
    CANCELED = "canceled"
    INTERNAL = "internal"


_CATEGORIES: Final[dict[str, FailureCategory]] = {
    "TOOL_ERROR": FailureCategory.TOOL,
    "TOOL_FAILED": FailureCategory.TOOL,
    "TOOL_REJECTED": FailureCategory.INVALID,
    "TOOL_TIMEOUT": FailureCategory.TIMEOUT,
    "TOOL_CORRECTION_LIMIT": FailureCategory.MODEL,
    "ACTION_FORBIDDEN": FailureCategory.DENIED,
    "ACTION_DENIED": FailureCategory.DENIED,
    "ACTION_REPEATED": FailureCategory.MODEL,
    "APPROVAL_REQUIRED": FailureCategory.DENIED,
    "BUDGET_EXCEEDED": FailureCategory.LIMIT,
    "CONTEXT_LIMIT": FailureCategory.LIMIT,
    "DELEGATION_CYCLE": FailureCategory.INVALID,
    "MODEL_FAILED": FailureCategory.MODEL,
    "MODEL_UNAVAILABLE": FailureCategory.UNAVAILABLE,
    "MODEL_TIMEOUT": FailureCategory.TIMEOUT,
    "INFER_PARSE_FAILED": FailureCategory.MODEL,
    "TASK_FAILED": FailureCategory.PEER,
    "REMOTE_ERROR": FailureCategory.PEER,
    "INVALID_AGENT_RESPONSE": FailureCategory.PEER,
}
_CATEGORIES_OF_CODES: Final[dict[str, FailureCategory]] = {
    "INVALID_ARGUMENT": FailureCategory.INVALID,
    "NOT_FOUND": FailureCategory.INVALID,
    "ALREADY_EXISTS": FailureCategory.INVALID,
    "FAILED_PRECONDITION": FailureCategory.INVALID,
    "OUT_OF_RANGE": FailureCategory.INVALID,
    "UNIMPLEMENTED": FailureCategory.INVALID,
    "UNAUTHENTICATED": FailureCategory.DENIED,
    "PERMISSION_DENIED": FailureCategory.DENIED,
    "RESOURCE_EXHAUSTED": FailureCategory.LIMIT,
    "DEADLINE_EXCEEDED": FailureCategory.TIMEOUT,
    "UNAVAILABLE": FailureCategory.UNAVAILABLE,
    "INTERNAL": FailureCategory.INTERNAL,
}


def category_of(reason: str) -> FailureCategory | None:
    """The category that a reason of the contract has; None for any other text."""
    rule = RULES.get(reason)
    return _CATEGORIES.get(reason) or (_CATEGORIES_OF_CODES.get(rule.grpc) if rule else None)


def is_retryable(reason: str) -> bool:
    """Whether the same work may succeed later, as far as the reason tells."""
    rule = RULES.get(reason)
    return rule is not None and rule.retryable


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something did not succeed. Source: `plgrpc.v1.Failure`.

    Args:
        reason: Machine-readable; empty means that the message says all.
        message: One sentence for people, without secrets.
        category: None means not known.
        retry_delay_s: Seconds to wait before a retry; None means not stated.
        origin: Agent, tool or provider where it began; empty means here.
        details: Any JSON value or Payload; None means none.
        cause: The failure that this one follows from.
    """

    reason: str = ""
    message: str = ""
    category: FailureCategory | None = None
    retryable: bool = False
    retry_delay_s: float | None = None
    origin: str = ""
    details: Any = None
    cause: "Failure | None" = None

    @classmethod
    def of(cls, reason: str, message: str) -> Self:
        """A failure with what its reason says about category and retry."""
        return cls(reason, message, category_of(reason), is_retryable(reason))

    @classmethod
    def from_error(cls, error: ProtolinkError, *, origin: str = "") -> Self:
        """A failure that says what an exception says."""
        reason = error.reason
        details = dict(error.metadata) or None
        return cls(reason, str(error), category_of(reason), is_retryable(reason), error.retry_after_s, origin, details)

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """The failure that a JSON value other than None describes: a text, an object with `message`, or anything else.

        `to_value` gives an equal value back, whatever it was.
        """
        if isinstance(value, str):
            return cls(message=value)
        if not isinstance(value, dict) or not _is_filled(value.get("message")):
            return cls(details=value)
        rest = dict(value)
        message = rest.pop("message")
        reason = rest.pop("code") if _is_filled(rest.get("code")) else ""
        # What the reason says already stays where it was: then `to_value` need not know whether it was said.
        category, retryable = category_of(reason), is_retryable(reason)
        if _is_filled(rest.get("category")) and rest["category"] in _NAMES and rest["category"] != category:
            category = FailureCategory(rest.pop("category"))
        if isinstance(rest.get("retryable"), bool) and rest["retryable"] is not retryable:
            retryable = rest.pop("retryable")
        delay = rest.pop("retry_delay_s") if _is_delay(rest.get("retry_delay_s")) else None
        origin = rest.pop("origin") if _is_filled(rest.get("origin")) else ""
        cause = cls.from_value(rest.pop("cause")) if _is_cause(rest.get("cause")) else None
        has_details = bool(rest) or not reason
        return cls(reason, message, category, retryable, delay, origin, rest if has_details else None, cause)

    def to_value(self) -> Any:
        """A JSON value: the text of one that has no more, else an object with `message`, `code` and the details beside them."""
        found: dict[str, Any] = {}
        if self.reason:
            found["code"] = self.reason
        found["message"] = self.message
        if self.category and self.category != category_of(self.reason):
            found["category"] = self.category.value
        if self.retryable is not is_retryable(self.reason):
            found["retryable"] = self.retryable
        if self.retry_delay_s is not None:
            found["retry_delay_s"] = self.retry_delay_s
        if self.origin:
            found["origin"] = self.origin
        if self.cause is not None:
            found["cause"] = self.cause.to_value()
        if len(found) == 1:
            if self.details is None:
                return self.message
            if not self.message:
                return plain(self.details)
        if isinstance(self.details, dict):
            return plain(self.details) | found
        return found if self.details is None else found | {"details": plain(self.details)}


_NAMES: Final = frozenset(each.value for each in FailureCategory)


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_delay(value: Any) -> bool:
    """Whether the contract's Duration can carry it, to the microsecond."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9 and round(value, 6) == value
    )


def _is_cause(value: Any, room: int = MAX_CAUSES) -> bool:
    return (
        room > 0
        and isinstance(value, dict)
        and _is_filled(value.get("message"))
        and ("cause" not in value or _is_cause(value["cause"], room - 1) or not isinstance(value["cause"], dict))
    )
