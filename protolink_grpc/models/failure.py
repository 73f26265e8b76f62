"""The reason of a failure, in one format for tasks, actions, model calls and parts."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from protolink_grpc.errors import (
    RULES,
    ModelRateLimitedError,
    ProtolinkError,
    ToolFailedError,
    error_text,
    escape_surrogates,
)
from protolink_grpc.models.json_form import JsonForm, read_fields
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.open_enum import OpenEnum
from protolink_grpc.models.payload import Payload, UserValue

MAX_REASON: Final = 2000
"""Maximum length in characters of a message in the log."""

MAX_CAUSES: Final = 10
"""Maximum number of nested causes; deeper causes are dropped."""


AGENT_FAILED: Final = "AGENT_FAILED"
"""Reason of a task whose agent's own code raised."""

RUN_LOST: Final = "RUN_LOST"
"""Reason of a task whose run was interrupted, for instance because its process ended."""


class FailureCategory(OpenEnum):
    """The kind of a failure's cause. Source: `plgrpc.v1.FailureCategory`."""

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
    AGENT_FAILED: FailureCategory.TOOL,
    RUN_LOST: FailureCategory.UNAVAILABLE,
    "ACTION_FORBIDDEN": FailureCategory.DENIED,
    "ACTION_DENIED": FailureCategory.DENIED,
    "ACTION_REPEATED": FailureCategory.MODEL,
    "APPROVAL_DENIED": FailureCategory.DENIED,
    "APPROVAL_REQUIRED": FailureCategory.DENIED,
    "BUDGET_EXCEEDED": FailureCategory.LIMIT,
    "CONTEXT_LIMIT": FailureCategory.LIMIT,
    "DELEGATION_CYCLE": FailureCategory.INVALID,
    "MODEL_FAILED": FailureCategory.MODEL,
    "MODEL_UNAVAILABLE": FailureCategory.UNAVAILABLE,
    "MODEL_RATE_LIMITED": FailureCategory.LIMIT,
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
    """Return the category of a reason of the contract; None for any other text."""
    rule = RULES.get(reason)
    return _CATEGORIES.get(reason) or (_CATEGORIES_OF_CODES.get(rule.grpc) if rule else None)


def category_of_code(code: str) -> FailureCategory | None:
    """Return the category of a gRPC code, such as `NOT_FOUND`; None if the code does not imply a category."""
    return _CATEGORIES_OF_CODES.get(code)


def is_retryable(reason: str) -> bool:
    """Whether, judging by the reason alone, the same work may succeed later."""
    rule = RULES.get(reason)
    return reason == RUN_LOST or (rule is not None and rule.retryable)


@dataclass(frozen=True, slots=True)
class Failure(JsonForm):
    """Why something did not succeed. Source: `plgrpc.v1.Failure`.

    Args:
        reason: Machine-readable; empty if there is only a message.
        message: One sentence for people, without secrets.
        category: None means unknown.
        retry_delay_s: Seconds to wait before a retry; None means not stated.
        origin: Agent, tool or provider that failed first; empty means the current agent.
        details: Any JSON value or Payload; None means no details.
        cause: The failure that this one follows from.
    """

    reason: str = ""
    message: str = ""
    category: FailureCategory | None = None
    retryable: bool = False
    retry_delay_s: float | None = None
    origin: str = ""
    details: UserValue = None
    cause: "Failure | None" = None

    @classmethod
    def of(cls, reason: str, message: str) -> Self:
        """Build a failure with the category and the retryability of its reason."""
        return cls(reason, message, category_of(reason), is_retryable(reason))

    @classmethod
    def from_error(cls, error: ProtolinkError, *, origin: str = "") -> Self:
        """Build a failure from an exception. Its cause is the failure of a peer's task, or the exception it was raised from.

        Args:
            origin: Origin to use if the exception has none.
        """
        return cls._from_error(error, origin, MAX_CAUSES)

    @classmethod
    def _from_error(cls, error: ProtolinkError, origin: str, room: int) -> Self:
        reason, before = error.reason, error.__cause__
        cause = error.failure if isinstance(error.failure, Failure) else None
        tool = error if isinstance(error, ToolFailedError) else None
        # The text of a reported error is safe to show to the caller; the text of its `__cause__` may not be.
        may_tell = tool is None or not tool.is_reported
        if cause is None and room > 0 and may_tell and isinstance(before, ProtolinkError):
            cause = cls._from_error(before, "", room - 1)
        return cls(
            reason,
            error_text(error),
            FailureCategory.PEER if tool is not None and tool.is_of_peer else category_of(reason),
            is_retryable(reason),
            error.retry_after_s,
            error.origin or error.metadata.get("tool", "") or origin,
            _details_of(error),
            cause,
        ).bounded()

    @classmethod
    def of_text(cls, given: "Failure | str | None") -> "Failure | None":
        """Return a failure unchanged, or build one from a text; None for None and for an empty text."""
        if isinstance(given, str):
            return cls(message=given) if given else None
        return given

    def copy(self) -> Self:
        """Return a copy that shares nothing mutable with this failure."""
        cause = None if self.cause is None else self.cause.copy()
        details = self.details if self.details is None or isinstance(self.details, Payload) else plain(self.details)
        return replace(self, details=details, cause=cause)

    def bounded(self, room: int = MAX_CAUSES) -> Self:
        """Return the failure with at most `room` nested causes."""
        if self.cause is None:
            return self
        return replace(self, cause=self.cause.bounded(room - 1) if room > 0 else None)

    def cleaned(self, clean: Callable[[str], str], max_chars: int) -> Self:
        """Return the failure with `clean` applied to messages and texts in `details`, each cut to `max_chars` characters."""
        details = self.details
        if isinstance(details, dict):
            details = {key: clean(each)[:max_chars] if isinstance(each, str) else each for key, each in details.items()}
        cause = None if self.cause is None else self.cause.cleaned(clean, max_chars)
        return replace(self, message=clean(self.message)[:max_chars], details=details, cause=cause)

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Read a JSON value other than None: a text, an object with `message`, or any other value as `details`.

        `to_value` of the result is equal to the value.
        """
        if isinstance(value, str):
            return cls(message=value)
        if not isinstance(value, dict) or not _is_filled(value.get("message")):
            return cls(details=value)
        rest = dict(value)
        message = rest.pop("message")
        reason = rest.pop("code") if _is_filled(rest.get("code")) else ""
        # Values that equal the default of the reason stay in the details, so that `to_value` writes them again.
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

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; more than `MAX_CAUSES` nested causes are dropped.

        Raises:
            InvalidArgumentError: A value of the wrong type; names the field.
        """
        return cls(**read_fields(cls, data)).bounded()

    def to_value(self) -> Any:
        """Return a JSON value: the message if there is nothing else, otherwise an object with `message`, `code` and details."""
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


def _details_of(error: ProtolinkError) -> dict[str, Any] | None:
    """Return the metadata of an error, and with `limits` the rate limits that a model provider has reported."""
    found: dict[str, Any] = {key: escape_surrogates(str(value)) for key, value in error.metadata.items()}
    if isinstance(error, ModelRateLimitedError) and error.limits:
        found["limits"] = [asdict(each) for each in error.limits]
    return found or None


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_delay(value: Any) -> bool:
    """Whether the value is a delay in seconds, 0 <= value < 1e9, in whole microseconds, as the contract's Duration requires."""
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
