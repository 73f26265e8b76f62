"""Names that differ between v0.3 and v1.0, shared by v0.3's JSON and protobuf: version, states, roles, keys, error codes."""

from dataclasses import replace
from typing import Any, Final

from protolink_grpc.a2a.negotiation import check_version
from protolink_grpc.a2a.values import V03, CallerInfo
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError

V1_KEY: Final = "a2a_v1"
"""Key of an object in v0.3's metadata with the v1.0 fields that v0.3 lacks: `mediaType` and `filename` of text and data parts,
`referenceTaskIds` of a protobuf message. The conversion to v1.0 removes the key again."""

BARE_VALUE: Final = "data_part_compat"
"""Metadata key of a data part whose data is in the member `value`, because v0.3 allows objects only. The name is a2a-sdk's."""

STATES: Final[dict[str, str]] = {
    "TASK_STATE_UNSPECIFIED": "unknown",
    "TASK_STATE_SUBMITTED": "submitted",
    "TASK_STATE_WORKING": "working",
    "TASK_STATE_COMPLETED": "completed",
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_CANCELED": "canceled",
    "TASK_STATE_INPUT_REQUIRED": "input-required",
    "TASK_STATE_REJECTED": "rejected",
    "TASK_STATE_AUTH_REQUIRED": "auth-required",
}
"""Task states: v1.0 JSON to v0.3 JSON."""

ROLES: Final[dict[str, str]] = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
"""Roles: v1.0 JSON to v0.3 JSON."""

_CODES: Final = frozenset({*range(-32007, -32000), *range(-32603, -32599), -32700})
"""All JSON-RPC codes that v0.3 defines."""

_SENT_AS_INTERNAL: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})
"""Reasons that are sent as an internal error, because in v0.3 their code, -32600, means a malformed payload."""

INTERNAL: Final = -32603

NAMES: Final = {
    -32001: "TaskNotFoundError",
    -32002: "TaskNotCancelableError",
    -32003: "PushNotificationNotSupportedError",
    -32004: "UnsupportedOperationError",
    -32005: "ContentTypeNotSupportedError",
    -32006: "InvalidAgentResponseError",
    -32007: "ExtendedAgentCardNotConfiguredError",
    -32008: "ExtensionSupportRequiredError",
    -32009: "VersionNotSupportedError",
    -32600: "InvalidRequestError",
    -32602: "InvalidParamsError",
    -32603: "InternalError",
}
"""Error names by JSON-RPC code. Over REST and gRPC, v0.3 clients recognize errors by name. The names are a2a-sdk's."""


def require_v03(caller: CallerInfo) -> CallerInfo:
    """Return the caller with version 0.3, also if the request has no version. Stored values such as webhooks depend on it.

    Raises:
        VersionNotSupportedError: The request has another version.
    """
    check_version(caller, V03)
    return caller if caller.version == V03 else replace(caller, version=V03)


def code_v03(error: ProtolinkError) -> int:
    """Return the JSON-RPC code of an error; an error without a v0.3 code becomes an internal error."""
    code = error.rule.jsonrpc
    return code if code in _CODES and error.reason not in _SENT_AS_INTERNAL else INTERNAL


def name_v03(error: ProtolinkError) -> str | None:
    """Return the name of an error, even if v0.3 has no code for it; None for `_SENT_AS_INTERNAL`, where the status is clearer."""
    return None if error.reason in _SENT_AS_INTERNAL else NAMES.get(error.rule.jsonrpc)


def error_json(error: ProtolinkError) -> dict[str, Any]:
    """Return the `error` member of a JSON-RPC response. v0.3 does not define the format of `data`."""
    return {"code": code_v03(error), "message": str(error), "data": {**error.metadata, "reason": error.reason}}


def rest_error_json(error: ProtolinkError) -> dict[str, Any]:
    """Return the body of a REST error. v0.3 does not define its format; clients read `type`, `error` or `code`."""
    found, name = error_json(error), name_v03(error)
    return found if name is None else found | {"type": name, "error": name}


def scheme_of(schemes: list[str], credentials: str, field: str) -> str:
    """Return the scheme of a webhook's Authorization header: the first of `schemes`, or empty if there is none.

    Raises:
        InvalidArgumentError: Credentials without a scheme.
    """
    if credentials and not schemes:
        raise InvalidArgumentError("must name the scheme of the credentials", field=field)
    return schemes[0] if schemes else ""
