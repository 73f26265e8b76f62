"""The errors of this package in A2A's format: A2A's reason per JSON-RPC code, and `google.rpc` details as JSON and as protobuf.

The codes are those of `errors.RULES`; this module adds A2A's names. Source: A2A v1.0.1 section 5.4.
"""

from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2, status_pb2

from protolink_grpc.errors import DOMAIN, InvalidArgumentError, ProtolinkError, ResourceExhaustedError

A2A_DOMAIN: Final = "a2a-protocol.org"

REASONS: Final[dict[int, str]] = {
    -32001: "TASK_NOT_FOUND",
    -32002: "TASK_NOT_CANCELABLE",
    -32003: "PUSH_NOTIFICATION_NOT_SUPPORTED",
    -32004: "UNSUPPORTED_OPERATION",
    -32005: "CONTENT_TYPE_NOT_SUPPORTED",
    -32006: "INVALID_AGENT_RESPONSE",
    -32007: "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    -32008: "EXTENSION_SUPPORT_REQUIRED",
    -32009: "VERSION_NOT_SUPPORTED",
    -32602: "INVALID_PARAMS",
}
"""A2A's reasons by JSON-RPC code. The last one is not in A2A's table; a2a-sdk and @a2a-js/sdk write and expect it."""

_TYPES: Final = "type.googleapis.com/google.rpc."


def info_of(error: ProtolinkError) -> tuple[str, str, dict[str, str]]:
    """Return reason, domain and metadata of the ErrorInfo. If A2A's reason differs from ours, `cause` holds ours."""
    reason = REASONS.get(error.rule.jsonrpc)
    if reason is None:
        return error.reason, DOMAIN, error.metadata
    if reason == error.reason:
        return reason, A2A_DOMAIN, error.metadata
    return reason, A2A_DOMAIN, error.metadata | {"cause": error.reason}


def details_json(error: ProtolinkError) -> list[dict[str, Any]]:
    """Return the details as ProtoJSON: ErrorInfo, then BadRequest for an invalid field, or RetryInfo for an exhausted resource."""
    reason, domain, metadata = info_of(error)
    found: list[dict[str, Any]] = [{"@type": f"{_TYPES}ErrorInfo", "reason": reason, "domain": domain}]
    if metadata:
        found[0]["metadata"] = metadata
    if isinstance(error, InvalidArgumentError) and error.field:
        violation = {"field": error.field, "description": error.detail}
        found.append({"@type": f"{_TYPES}BadRequest", "fieldViolations": [violation]})
    if isinstance(error, ResourceExhaustedError):
        found.append({"@type": f"{_TYPES}RetryInfo", "retryDelay": f"{error.retry_after_s:g}s"})
    return found


def to_status(error: ProtolinkError) -> status_pb2.Status:
    """Return the gRPC status of an error, with the same details as `details_json`."""
    reason, domain, metadata = info_of(error)
    status = status_pb2.Status(code=code_pb2.Code.Value(error.rule.grpc), message=str(error))
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata))
    if isinstance(error, InvalidArgumentError) and error.field:
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=error.detail)
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    if isinstance(error, ResourceExhaustedError):
        delay = Duration()
        delay.FromMilliseconds(round(error.retry_after_s * 1000))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def rest_json(error: ProtolinkError) -> dict[str, Any]:
    """Return the body of a REST error. Source: A2A v1.0.1 section 11.6."""
    rule = error.rule
    return {
        "error": {
            "code": rule.http,
            "status": rule.grpc,
            "message": str(error),
            "details": details_json(error),
        }
    }


def jsonrpc_json(error: ProtolinkError) -> dict[str, Any]:
    """Return the `error` member of a JSON-RPC response."""
    return {"code": error.rule.jsonrpc, "message": str(error), "data": details_json(error)}
