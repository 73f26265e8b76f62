"""Reads requests in v0.3's JSON. The message is converted to v1.0 JSON, so that one codec reads both versions.

The reader accepts the variants of v0.3's own clients: a part may have `type` instead of `kind`, as in v0.2, or neither, in which
case its content decides; null means absent.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from protolink_grpc.a2a import json_codec
from protolink_grpc.a2a.json_reader import integer
from protolink_grpc.a2a.v03.terms import BARE_VALUE, ROLES, V1_KEY, scheme_of
from protolink_grpc.a2a.values import SendParams
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.wire.tasks import check_id

_ROLES: Final = {role: name for name, role in ROLES.items()}
_MESSAGE_FIELDS: Final = ("messageId", "contextId", "taskId", "referenceTaskIds", "extensions", "metadata")
_KINDS: Final = ("text", "file", "data")

_SPELLINGS: Final = (
    (re.compile(r"(parts\[\d+\])\.raw\b"), r"\1.file.bytes"),
    (re.compile(r"(parts\[\d+\])\.url\b"), r"\1.file.uri"),
    (re.compile(r"(parts\[\d+\])\.mediaType\b"), r"\1.file.mimeType"),
    (re.compile(r"(parts\[\d+\])\.filename\b"), r"\1.file.name"),
    (
        re.compile(r"taskPushNotificationConfig\.authentication\.scheme\b"),
        "pushNotificationConfig.authentication.schemes",
    ),
    (re.compile(r"taskPushNotificationConfig\b"), "pushNotificationConfig"),
)


def send_params(params: object) -> SendParams:
    """Return the parameters of a `MessageSendParams`.

    Raises:
        InvalidArgumentError: Names the path as v0.3 spells it, for example `message.parts[0].file.bytes`.
    """
    try:
        return json_codec.send_params(_request_to_v1(reader.as_object(params)))
    except InvalidArgumentError as error:
        raise respell_field(error, _SPELLINGS) from None


def respell_field(
    error: InvalidArgumentError, spellings: tuple[tuple[re.Pattern[str], str], ...]
) -> InvalidArgumentError:
    """Return the error with its path as the caller spells it."""
    field = error.field
    for pattern, spelling in spellings:
        field = pattern.sub(spelling, field)
    if field == error.field:
        return error
    rest = {key: value for key, value in error.metadata.items() if key != "field"}
    return type(error)(error.detail, field=field, **rest)


def _request_to_v1(params: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if params.get("message") is not None:
        found["message"] = _read_within("message", _message_to_v1, params["message"])
    if params.get("configuration") is not None:
        found["configuration"] = _read_within("configuration", _configuration_to_v1, params["configuration"])
    if params.get("metadata") is not None:
        found["metadata"] = params["metadata"]
    return found


def _read_within(path: str, read: Callable[[Any], dict[str, Any]], value: Any) -> dict[str, Any]:
    try:
        return read(value)
    except InvalidArgumentError as error:
        raise error.within(path) from None


def _message_to_v1(value: object) -> dict[str, Any]:
    given = reader.as_object(value)
    if (given.get("kind") or "message") != "message":
        raise InvalidArgumentError("must be 'message'", field="kind")
    found = {key: given[key] for key in _MESSAGE_FIELDS if given.get(key) is not None}
    role = given.get("role")
    if role is not None:
        if not isinstance(role, str) or role not in _ROLES:
            raise InvalidArgumentError("must be user or agent", field="role")
        found["role"] = _ROLES[role]
    parts = given.get("parts")
    if parts is not None and not isinstance(parts, list):
        raise InvalidArgumentError("must be a list", field="parts")
    found["parts"] = [_read_within(f"parts[{index}]", _part_to_v1, part) for index, part in enumerate(parts or ())]
    return found


def _part_to_v1(value: object) -> dict[str, Any]:
    given = reader.as_object(value)
    metadata = given.get("metadata")
    if metadata is None:
        return _content_to_v1(given, {})
    if not isinstance(metadata, dict):
        raise InvalidArgumentError("must be an object", field="metadata")
    found = _content_to_v1(given, metadata)
    rest = {key: item for key, item in metadata.items() if key not in (V1_KEY, BARE_VALUE)}
    if rest or not metadata:
        found["metadata"] = rest
    return found


def _content_to_v1(given: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the v1.0 part without its metadata."""
    match _kind_of(given):
        case "text":
            found = {"text": reader.given_text(given, "text")}
        case "file":
            found = _read_within("file", _file_to_v1, given.get("file"))
        case _:
            found = _data_to_v1(given.get("data"), metadata.get(BARE_VALUE) is True)
    kept = metadata.get(V1_KEY)
    if isinstance(kept, dict):
        found |= {name: kept[name] for name in ("mediaType", "filename") if isinstance(kept.get(name), str)}
    return found


def _kind_of(given: dict[str, Any]) -> str:
    kind = given.get("kind") or given.get("type") or next((each for each in _KINDS if given.get(each) is not None), "")
    if kind not in _KINDS:
        raise InvalidArgumentError(f"must be one of {', '.join(_KINDS)}", field="kind")
    return str(kind)


def _file_to_v1(value: object) -> dict[str, Any]:
    given = reader.as_object(value)
    raw, url = reader.optional_text(given, "bytes"), reader.optional_text(given, "uri")
    if (raw is None) is (url is None):
        raise InvalidArgumentError("must have either bytes or uri")
    found: dict[str, Any] = {"raw": raw} if raw is not None else {"url": url}
    for name, spelled in (("mediaType", "mimeType"), ("filename", "name")):
        text = reader.text(given, spelled)
        if text:
            found[name] = text
    return found


def _data_to_v1(value: object, is_bare: bool) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be an object", field="data")
    return {"data": value["value"] if is_bare and "value" in value else value}


def _configuration_to_v1(value: object) -> dict[str, Any]:
    given = reader.as_object(value)
    blocking = reader.flag(given, "blocking", True)  # in v0.3 the default is to wait
    found: dict[str, Any] = {"returnImmediately": not blocking}
    if given.get("acceptedOutputModes") is not None:
        found["acceptedOutputModes"] = given["acceptedOutputModes"]
    length = history_length(given)
    if length is not None:
        found["historyLength"] = length
    push = given.get("pushNotificationConfig")
    if push is not None:
        found["taskPushNotificationConfig"] = _read_within("pushNotificationConfig", _webhook_to_v1, push)
    return found


def history_length(given: dict[str, Any]) -> int | None:
    """Return the maximum number of messages in the response; None means all. In v0.3, 0 means all, too."""
    return integer(given, "historyLength", 0) or None


def _webhook_to_v1(value: object) -> dict[str, Any]:
    """Return a `PushNotificationConfig` in v1.0 JSON."""
    given = reader.as_object(value)
    found = {name: text for name in ("id", "url", "token") if (text := reader.text(given, name))}
    authentication = reader.optional_mapping(given, "authentication")
    if not authentication:
        return found
    try:
        credentials = reader.text(authentication, "credentials")
        scheme = scheme_of(reader.texts(authentication, "schemes"), credentials, "schemes")
    except InvalidArgumentError as error:
        raise error.within("authentication") from None
    return found | ({"authentication": {"scheme": scheme, "credentials": credentials}} if scheme else {})


def push_config(params: object) -> PushConfig:
    """Return the config of a `TaskPushNotificationConfig`.

    Raises:
        InvalidArgumentError: No task, no URL, or a value of the wrong type; names its path.
    """
    given = reader.as_object(params)
    task_id = require_id(given, "taskId")
    webhook = _read_within("pushNotificationConfig", _webhook_to_v1, given.get("pushNotificationConfig"))
    if not webhook.get("url"):
        raise InvalidArgumentError("must be a non-empty string", field="pushNotificationConfig.url")
    authentication = webhook.get("authentication", {})
    return PushConfig(
        url=webhook["url"],
        id=check_id(webhook.get("id", ""), "pushNotificationConfig.id"),
        task_id=task_id,
        token=webhook.get("token", ""),
        scheme=authentication.get("scheme", ""),
        credentials=authentication.get("credentials", ""),
    )


def require_id(params: object, key: str = "id") -> str:
    """Return the id of a task or of a config."""
    return check_id(reader.required_text(reader.as_object(params), key), key)
