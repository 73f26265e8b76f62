"""Errors between `errors.RULES` and `google.rpc.Status`, the shape in which they cross gRPC. The only such table is in `errors`."""

from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from protolink_grpc import errors
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.models.json_value import to_json
from protolink_grpc.wire.scalars import json_object_from_pb

M = TypeVar("M", bound=Message)


def to_status(error: ProtolinkError) -> status_pb2.Status:
    """The status that every edge derives its answer from: code, sentence, ErrorInfo; RetryInfo and BadRequest where they help."""
    rule = error.rule
    status = status_pb2.Status(code=code_pb2.Code.Value(rule.grpc), message=str(error))
    metadata = error.metadata | _rejection(error) if isinstance(error, errors.ToolRejectedError) else error.metadata
    _add(status, error_details_pb2.ErrorInfo(reason=error.reason, domain=errors.DOMAIN, metadata=metadata))
    if isinstance(error, errors.ResourceExhaustedError):
        delay = Duration()
        delay.FromMilliseconds(round(error.retry_after_s * 1000))
        _add(status, error_details_pb2.RetryInfo(retry_delay=delay))
    if violations := _violations(error):
        _add(status, error_details_pb2.BadRequest(field_violations=violations))
    return status


def _violations(error: ProtolinkError) -> list[error_details_pb2.BadRequest.FieldViolation]:
    """Return the invalid fields that an error names, at most `MAX_DETAILS_BYTES` of them."""
    named: list[tuple[str, str]] = []
    if isinstance(error, errors.InvalidArgumentError) and error.field:
        named = [(error.field, error.detail)]
    elif isinstance(error, errors.ToolRejectedError) and isinstance(problems := error.details.get("errors"), list):
        problems = [each for each in problems if isinstance(each, dict)]
        named = [(str(each.get("path", "")), str(each.get("message", ""))) for each in problems]
    violations: list[error_details_pb2.BadRequest.FieldViolation] = []
    size = 0
    for field, description in named:
        size += len(field) + len(description)
        if violations and size > MAX_DETAILS_BYTES:
            break
        violations.append(error_details_pb2.BadRequest.FieldViolation(field=field, description=description))
    return violations


DETAILS, SUGGESTION = "details_json", "suggestion"
"""Keys of what a refused tool call says besides its sentence."""

MAX_DETAILS_BYTES = 2048
"""Larger details stay behind: gRPC clients accept 8 KiB of trailing metadata, in which all of a status must fit."""


def _rejection(error: errors.ToolRejectedError) -> dict[str, str]:
    found = {} if error.suggestion is None else {SUGGESTION: error.suggestion[:MAX_DETAILS_BYTES]}
    try:
        text = to_json(error.details) if error.details else ""
    except (TypeError, errors.InvalidArgumentError):
        return found  # a tool's own refusal, with details that have no JSON form
    if text and len(text.encode()) <= MAX_DETAILS_BYTES:
        found[DETAILS] = text
    return found


def _add(status: status_pb2.Status, detail: Message) -> None:
    status.details.add().Pack(detail)


def from_status(status: status_pb2.Status) -> ProtolinkError:
    """The error that a peer meant. A reason of another domain, or a newer one, becomes a RemoteError that keeps it."""
    error = _from_status(status)
    if (retry_after_s := requested_pause_s(status)) is not None:
        error.retry_after_s = retry_after_s
    return error


def requested_pause_s(status: status_pb2.Status) -> float | None:
    """How long its sender asks to wait before the request is repeated; None where it does not."""
    retry = _unpack(status, error_details_pb2.RetryInfo())
    return retry.retry_delay.ToMilliseconds() / 1000 if retry is not None else None


def _from_status(status: status_pb2.Status) -> ProtolinkError:
    info = _unpack(status, error_details_pb2.ErrorInfo())
    code = code_pb2.Code.Name(status.code) if status.code in code_pb2.Code.values() else "UNKNOWN"
    if info is None or info.domain != errors.DOMAIN:
        return from_code(code, status.message, info.reason if info is not None else "")
    metadata = dict(info.metadata)
    cls = errors.classes().get(info.reason)
    if cls is None:
        error: ProtolinkError = errors.RemoteError(status.message, remote_reason=info.reason, code=code)
    else:
        error = _build(cls, status, metadata)
    # Not as arguments: a peer may call its keys whatever it likes, `message` too.
    error.metadata = metadata
    return error


def _build(cls: type[ProtolinkError], status: status_pb2.Status, metadata: dict[str, str]) -> ProtolinkError:
    if issubclass(cls, errors.InvalidArgumentError):
        field = metadata.get("field", "")
        return cls(status.message.removeprefix(f"{field}: ") if field else status.message, field=field)
    if issubclass(cls, errors.ToolRejectedError):
        details, suggestion = metadata.pop(DETAILS, ""), metadata.pop(SUGGESTION, None)
        return cls(
            status.message, code=metadata.get("code", "rejected"), details=_details(details), suggestion=suggestion
        )
    return cls(status.message)


def _details(text: str) -> dict[str, Any]:
    try:
        return json_object_from_pb(text, DETAILS)
    except errors.InvalidArgumentError:
        return {}  # the peer's code and sentence say something even so


def has_reason(status: status_pb2.Status) -> bool:
    """Whether a status carries a `google.rpc.ErrorInfo`, of whatever domain: it is an answer, and not a broken connection."""
    return _unpack(status, error_details_pb2.ErrorInfo()) is not None


_BY_CODE: dict[str, type[ProtolinkError]] = {
    "UNAVAILABLE": errors.UnavailableError,
    "DEADLINE_EXCEEDED": errors.DeadlineExceededError,
    "UNAUTHENTICATED": errors.UnauthenticatedError,
    "PERMISSION_DENIED": errors.PermissionDeniedError,
    "UNIMPLEMENTED": errors.UnimplementedError,
    "INVALID_ARGUMENT": errors.InvalidArgumentError,
    "RESOURCE_EXHAUSTED": errors.ResourceExhaustedError,
}


def from_code(code: str, message: str, reason: str = "") -> ProtolinkError:
    """The nearest error for a status without a reason of ours: one made by gRPC itself, a proxy, or another system."""
    cls = _BY_CODE.get(code)
    if cls is None or reason:
        return errors.RemoteError(message or code, remote_reason=reason, code=code)
    return cls(message or code)


def _unpack(status: status_pb2.Status, into: M) -> M | None:
    for detail in status.details:
        if detail.Is(into.DESCRIPTOR):
            try:
                detail.Unpack(into)
            except DecodeError:
                return None  # the peer's code and sentence say something even so
            return into
    return None
