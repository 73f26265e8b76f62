"""Why something did not succeed, in one shape for tasks, actions, model calls and parts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from protolink_grpc.errors import RULES, ProtolinkError, ToolFailedError, said, writable
from protolink_grpc.models import reader
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.open_enum import OpenEnum
from protolink_grpc.models.payload import Payload, read_value

MAX_REASON: Final = 2000
"""Characters of a sentence that go into the log."""

MAX_CAUSES: Final = 10
"""Failures inside failures; what lies deeper is left out."""


AGENT_FAILED: Final = "AGENT_FAILED"
"""Reason of a task whose agent's own code raised."""

RUN_LOST: Final = "RUN_LOST"
"""Reason of a task whose run did not end by itself, for instance because its process ended."""


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
    AGENT_FAILED: FailureCategory.TOOL,
    RUN_LOST: FailureCategory.UNAVAILABLE,
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
    return reason == RUN_LOST or (rule is not None and rule.retryable)


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
        """A failure that says what an exception says; what a peer or another error of this package said before is its cause.

        Args:
            origin: Where it began, if the exception does not say it.
        """
        return cls._from_error(error, origin, MAX_CAUSES)

    @classmethod
    def _from_error(cls, error: ProtolinkError, origin: str, room: int) -> Self:
        reason, before = error.reason, error.__cause__
        cause = error.failure if isinstance(error.failure, Failure) else None
        tool = error if isinstance(error, ToolFailedError) else None
        # What is reported says no more than its caller may see; what it was raised from may say more.
        may_tell = tool is None or not tool.is_reported
        if cause is None and room > 0 and may_tell and isinstance(before, ProtolinkError):
            cause = cls._from_error(before, "", room - 1)
        return cls(
            reason,
            said(error),
            FailureCategory.PEER if tool is not None and tool.is_of_peer else category_of(reason),
            is_retryable(reason),
            error.retry_after_s,
            error.origin or error.metadata.get("tool", "") or origin,
            {key: writable(str(value)) for key, value in error.metadata.items()} or None,
            cause,
        ).bounded()

    @classmethod
    def of_text(cls, given: "Failure | str | None") -> "Failure | None":
        """A failure as it is, or one that says a text and no more; None for none and for an empty text."""
        if isinstance(given, str):
            return cls(message=given) if given else None
        return given

    def copy(self) -> Self:
        """A failure that shares nothing with this one that can be changed."""
        cause = None if self.cause is None else self.cause.copy()
        details = self.details if self.details is None or isinstance(self.details, Payload) else plain(self.details)
        return replace(self, details=details, cause=cause)

    def bounded(self, room: int = MAX_CAUSES) -> Self:
        """The same failure with at most `room` failures inside one another."""
        if self.cause is None:
            return self
        return replace(self, cause=self.cause.bounded(room - 1) if room > 0 else None)

    def cleaned(self, clean: Callable[[str], str], max_chars: int) -> Self:
        """The same failure with each of its texts passed through `clean`, and its sentences cut off."""
        details = self.details
        if isinstance(details, dict):
            details = {key: clean(each)[:max_chars] if isinstance(each, str) else each for key, each in details.items()}
        cause = None if self.cause is None else self.cause.cleaned(clean, max_chars)
        return replace(self, message=clean(self.message)[:max_chars], details=details, cause=cause)

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

    def to_dict(self) -> dict[str, Any]:
        """What is known, as a JSON object."""
        found: dict[str, Any] = {"reason": self.reason, "message": self.message}
        found |= {"category": self.category.value if self.category else None, "retryable": self.retryable}
        found |= {"retry_delay_s": self.retry_delay_s, "origin": self.origin, "details": plain(self.details)}
        return found | {"cause": None if self.cause is None else self.cause.to_dict()}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The inverse of `to_dict`.

        Raises:
            InvalidArgumentError: Another shape; names the field.
        """
        return cls._from_dict(data, MAX_CAUSES)

    @classmethod
    def _from_dict(cls, data: object, room: int) -> Self:
        source = reader.as_object(data)
        category, cause = reader.optional_text(source, "category"), source.get("cause")
        return cls(
            reader.text(source, "reason"),
            reader.text(source, "message"),
            reader.choice(source, "category", FailureCategory) if category else None,
            reader.flag(source, "retryable"),
            reader.optional_double(source, "retry_delay_s"),
            reader.text(source, "origin"),
            read_value(reader.copied(source.get("details"), "details")),
            None if cause is None or room <= 0 else cls._from_dict(cause, room - 1),
        )

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
