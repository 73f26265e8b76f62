"""Converts errors to `google.rpc.Status`, their form in gRPC, and back. The table of codes is `errors.RULES`."""

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
    """Return the status that every edge derives its response from: code, message, ErrorInfo, if known RetryInfo and BadRequest."""
    rule = error.rule
    status = status_pb2.Status(code=code_pb2.Code.Value(rule.grpc), message=str(error))
    metadata = (
        error.metadata | _rejection_metadata(error) if isinstance(error, errors.ToolRejectedError) else error.metadata
    )
    _add_detail(status, error_details_pb2.ErrorInfo(reason=error.reason, domain=errors.DOMAIN, metadata=metadata))
    if isinstance(error, errors.ResourceExhaustedError):
        delay = Duration()
        delay.FromMilliseconds(round(error.retry_after_s * 1000))
        _add_detail(status, error_details_pb2.RetryInfo(retry_delay=delay))
    if violations := _field_violations(error):
        _add_detail(status, error_details_pb2.BadRequest(field_violations=violations))
    return status


def _field_violations(error: ProtolinkError) -> list[error_details_pb2.BadRequest.FieldViolation]:
    """Return the invalid fields that an error names, at most `MAX_DETAILS_BYTES` of text."""
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
"""Keys of ErrorInfo.metadata for the details and the suggestion of a rejected tool call."""

MAX_DETAILS_BYTES = 2048
"""Larger details are omitted: gRPC clients accept 8 KiB of trailing metadata, which contain the whole status."""


def _rejection_metadata(error: errors.ToolRejectedError) -> dict[str, str]:
    found = {} if error.suggestion is None else {SUGGESTION: error.suggestion[:MAX_DETAILS_BYTES]}
    try:
        text = to_json(error.details) if error.details else ""
    except (TypeError, errors.InvalidArgumentError):
        return found  # details of a tool that have no JSON form
    if text and len(text.encode()) <= MAX_DETAILS_BYTES:
        found[DETAILS] = text
    return found


def _add_detail(status: status_pb2.Status, detail: Message) -> None:
    status.details.add().Pack(detail)


def from_status(status: status_pb2.Status) -> ProtolinkError:
    """Return the error of a peer. A reason of another domain or a later version becomes a RemoteError that has it."""
    error = _from_status(status)
    if (retry_after_s := requested_pause_s(status)) is not None:
        error.retry_after_s = retry_after_s
    return error


def requested_pause_s(status: status_pb2.Status) -> float | None:
    """Return the delay before a retry that the sender requests, in seconds; None if it requests none."""
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
        error = _build_error(cls, status, metadata)
    # Not as arguments: a peer may use any key, for example `message`.
    error.metadata = metadata
    return error


def _build_error(cls: type[ProtolinkError], status: status_pb2.Status, metadata: dict[str, str]) -> ProtolinkError:
    if issubclass(cls, errors.InvalidArgumentError):
        field = metadata.get("field", "")
        return cls(status.message.removeprefix(f"{field}: ") if field else status.message, field=field)
    if issubclass(cls, errors.ToolRejectedError):
        details, suggestion = metadata.pop(DETAILS, ""), metadata.pop(SUGGESTION, None)
        return cls(
            status.message, code=metadata.get("code", "rejected"), details=_read_details(details), suggestion=suggestion
        )
    return cls(status.message)


def _read_details(text: str) -> dict[str, Any]:
    try:
        return json_object_from_pb(text, DETAILS)
    except errors.InvalidArgumentError:
        return {}  # code and message are still useful


def has_reason(status: status_pb2.Status) -> bool:
    """Whether a status has a `google.rpc.ErrorInfo` of any domain: then a server sent it, and the connection is not broken."""
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
    """Return the closest error for a status without a reason of this package: one of gRPC itself, a proxy, or another system."""
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
                return None  # code and message are still useful
            return into
    return None
