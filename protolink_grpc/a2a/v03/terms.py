"""What v0.3 calls otherwise than v1.0, shared by its JSON and its protobuf: version, states, roles, keys, codes of errors."""

from dataclasses import replace
from typing import Any, Final

from protolink_grpc.a2a.negotiation import check_version
from protolink_grpc.a2a.values import V03, Asked
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError

V1_KEY: Final = "a2a_v1"
"""Key of an object in v0.3's metadata that holds fields of v1.0 for which v0.3 has no place: `mediaType` and `filename` of text and
data parts, `referenceTaskIds` of a protobuf message. It is taken off again on the way back."""

BARE_VALUE: Final = "data_part_compat"
"""Key in the metadata of a data part whose data is the member `value`: v0.3 knows objects only. The name is a2a-sdk's."""

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
"""v1.0 JSON to v0.3 JSON."""

ROLES: Final[dict[str, str]] = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
"""v1.0 JSON to v0.3 JSON."""

_CODES: Final = frozenset({*range(-32007, -32000), *range(-32603, -32599), -32700})
"""Every JSON-RPC code that v0.3 defines."""

_NO_PAYLOAD_FAULT: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})
"""Reasons whose code, -32600, says in v0.3 that the payload is malformed."""

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
"""What the errors are called by our JSON-RPC codes: over REST and gRPC v0.3's clients know them by name. The names are
a2a-sdk's."""


def speaking_v03(asked: Asked) -> Asked:
    """The caller as one of v0.3, whether or not the request says a version: what is kept of it, a webhook say, depends on that.

    Raises:
        VersionNotSupportedError: The request says another version.
    """
    check_version(asked, V03)
    return asked if asked.version == V03 else replace(asked, version=V03)


def code_v03(error: ProtolinkError) -> int:
    """The JSON-RPC code; what v0.3 has no code for is an internal error to its clients."""
    code = error.rule.jsonrpc
    return code if code in _CODES and error.reason not in _NO_PAYLOAD_FAULT else INTERNAL


def name_v03(error: ProtolinkError) -> str | None:
    """The name of an error, also where v0.3 has no code for it; None where its status says it better."""
    return None if error.reason in _NO_PAYLOAD_FAULT else NAMES.get(error.rule.jsonrpc)


def error_json(error: ProtolinkError) -> dict[str, Any]:
    """The `error` member of a JSON-RPC answer; v0.3 leaves the form of `data` free."""
    return {"code": code_v03(error), "message": str(error), "data": {**error.metadata, "reason": error.reason}}


def rest_error_json(error: ProtolinkError) -> dict[str, Any]:
    """The body of a REST error. v0.3 leaves it free; its clients look for `type`, for `error` or for `code`."""
    found, name = error_json(error), name_v03(error)
    return found if name is None else found | {"type": name, "error": name}


def scheme_of(schemes: list[str], credentials: str, field: str) -> str:
    """The scheme of a webhook's Authorization header: the first one named, empty where neither it nor credentials are there.

    Raises:
        InvalidArgumentError: Credentials without a scheme.
    """
    if credentials and not schemes:
        raise InvalidArgumentError("must name the scheme of the credentials", field=field)
    return schemes[0] if schemes else ""
