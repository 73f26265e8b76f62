"""A2A v1.0 as JSON values: writes responses, reads requests. The values are dicts; they are serialized elsewhere.

The format is ProtoJSON: camelCase, names of enum members, base64. Fields that A2A marks as REQUIRED are always present, empty
optional fields never. Readers ignore unknown fields, and their errors name a field as the sender spelled it. Their results share
containers with the input, which comes from `models.json_value.from_json`.
"""

import base64
from typing import Any, Final, assert_never

from protolink_grpc.a2a.content import (
    ArtifactHead,
    MessageHead,
    Shape,
    artifact_head,
    artifact_of,
    message_head,
    message_of,
    part_of,
    shape_of,
)
from protolink_grpc.a2a.json_reader import (
    Source,
    array,
    as_object,
    base64_bytes,
    field_error,
    flag,
    flag_or_text,
    integer,
    mapping,
    micros,
    nested,
    require_nested,
    require_text,
    spelling_of,
    text,
    texts,
    value,
)
from protolink_grpc.a2a.values import (
    MAX_PAGE_SIZE,
    ArtifactUpdate,
    ListParams,
    MessageReply,
    PushPage,
    SendParams,
    Status,
    StatusUpdate,
    TaskView,
    TaskViewPage,
    TextArtifact,
    Update,
)
from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.wire.tasks import MAX_PARTS, check_id, check_required_id

__all__ = [
    "artifact_from_json",
    "artifact_json",
    "list_params",
    "message_from_json",
    "message_json",
    "object_of",
    "optional_count",
    "page_json",
    "part_from_json",
    "part_json",
    "push_config",
    "push_json",
    "push_page_json",
    "send_params",
    "status_json",
    "task_json",
    "text",
    "time_json",
    "update_json",
]

Json = dict[str, Any]

STATES: Final = {
    TaskState.SUBMITTED: "TASK_STATE_SUBMITTED",
    TaskState.WORKING: "TASK_STATE_WORKING",
    TaskState.INPUT_REQUIRED: "TASK_STATE_INPUT_REQUIRED",
    TaskState.AUTH_REQUIRED: "TASK_STATE_AUTH_REQUIRED",
    TaskState.COMPLETED: "TASK_STATE_COMPLETED",
    TaskState.CANCELED: "TASK_STATE_CANCELED",
    TaskState.FAILED: "TASK_STATE_FAILED",
    TaskState.REJECTED: "TASK_STATE_REJECTED",
    TaskState.UNKNOWN: "TASK_STATE_UNSPECIFIED",
}
_STATES_BY_NAME: Final = {name: state for state, name in STATES.items() if state is not TaskState.UNKNOWN}
_ROLES: Final = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}
_ROLES_BY_NAME: Final = {name: role for role, name in _ROLES.items()}

_BARE: Final = frozenset({"messageId", "role", "parts", "contextId", "taskId"})
"""The fields of most messages. A message without other fields takes a faster path."""

MAX_ITEMS: Final = 1000
"""Maximum number of extensions, of referenced tasks and of output modes of a message."""


# -- writing -------------------------------------------------------------------------------------------------------------


def time_json(time_micros: int) -> str:
    """Return the time in UTC with milliseconds; further digits are cut off."""
    return f"{iso_from_micros(time_micros)[:23]}Z"


def part_json(part: Part) -> Json:
    shape = shape_of(part)
    body = base64.b64encode(shape.value).decode("ascii") if shape.kind == "raw" else shape.value
    found: Json = {shape.kind: body}
    if shape.metadata is not None:
        found["metadata"] = shape.metadata
    if shape.filename:
        found["filename"] = shape.filename
    if shape.media_type:
        found["mediaType"] = shape.media_type
    return found


def parts_json(parts: list[Part]) -> list[Json]:
    """Return the parts, with a fast path for plain text, by far the most common part."""
    return [
        {"text": part.content}
        if part.type == "text" and part.metadata is None and not part.media_type and type(part.content) is str
        else part_json(part)
        for part in parts
    ]


def message_json(message: Message, context_id: str = "", task_id: str = "") -> Json:
    found: Json = {"messageId": message.id}
    if context_id:
        found["contextId"] = context_id
    if task_id:
        found["taskId"] = task_id
    role = _ROLES.get(message.role)
    if role is not None and not message.metadata:
        found["role"] = role
        found["parts"] = parts_json(message.parts)
        return found
    head = message_head(message)
    if head.message_id:
        found["messageId"] = head.message_id
    found["role"] = _ROLES[head.role]
    found["parts"] = parts_json(message.parts)
    if head.metadata:
        found["metadata"] = head.metadata
    if head.extensions:
        found["extensions"] = head.extensions
    if head.reference_task_ids:
        found["referenceTaskIds"] = head.reference_task_ids
    return found


def artifact_json(artifact: Artifact) -> Json:
    head = artifact_head(artifact)
    found: Json = {"artifactId": artifact.id, "parts": parts_json(artifact.parts)}
    for name, each in (
        ("name", head.name),
        ("description", head.description),
        ("metadata", head.metadata),
        ("extensions", head.extensions),
    ):
        if each:
            found[name] = each
    return found


def status_json(status: Status, context_id: str, task_id: str) -> Json:
    found: Json = {"state": STATES.get(status.state, STATES[TaskState.UNKNOWN]), "timestamp": time_json(status.micros)}
    if status.message is not None:
        found["message"] = message_json(status.message, context_id, task_id)
    return found


def task_json(view: TaskView) -> Json:
    task_id, context_id = view.task_id, view.context_id
    found: Json = {"id": task_id, "contextId": context_id, "status": status_json(view.status, context_id, task_id)}
    if view.artifacts is not None:
        found["artifacts"] = [artifact_json(artifact) for artifact in view.artifacts]
    if view.history is not None:
        found["history"] = [message_json(message, context_id, task_id) for message in view.history]
    if view.metadata:
        found["metadata"] = view.metadata
    return found


def update_json(update: Update) -> Json:
    """Return a StreamResponse. For a task or a message it is a SendMessageResponse as well."""
    if type(update) is ArtifactUpdate:  # first, because it is by far the most common
        return {"artifactUpdate": _artifact_update_json(update)}
    match update:
        case TaskView():
            return {"task": task_json(update)}
        case MessageReply():
            return {"message": message_json(update.message, update.context_id)}
        case StatusUpdate():
            return {"statusUpdate": _status_update_json(update)}
        case ArtifactUpdate():
            return {"artifactUpdate": _artifact_update_json(update)}
        case _:
            assert_never(update)


def _status_update_json(update: StatusUpdate) -> Json:
    found: Json = {
        "taskId": update.task_id,
        "contextId": update.context_id,
        "status": status_json(update.status, update.context_id, update.task_id),
    }
    if update.metadata:
        found["metadata"] = update.metadata
    return found


def _update_artifact_json(artifact: Artifact | TextArtifact) -> Json:
    if not isinstance(artifact, TextArtifact):
        return artifact_json(artifact)
    found: Json = {"artifactId": artifact.id, "parts": [{"text": text} for text in artifact.texts]}
    if artifact.name:
        found["name"] = artifact.name
    return found


def _artifact_update_json(update: ArtifactUpdate) -> Json:
    found: Json = {
        "taskId": update.task_id,
        "contextId": update.context_id,
        "artifact": _update_artifact_json(update.artifact),
    }
    if update.append:
        found["append"] = True
    if update.last_chunk:
        found["lastChunk"] = True
    if update.metadata:
        found["metadata"] = update.metadata
    return found


def page_json(page: TaskViewPage) -> Json:
    return {
        "tasks": [task_json(view) for view in page.tasks],
        "nextPageToken": page.next_page_token,
        "pageSize": page.page_size,
        "totalSize": page.total_size,
    }


def push_json(config: PushConfig) -> Json:
    named = (
        ("tenant", config.tenant),
        ("id", config.id),
        ("taskId", config.task_id),
        ("url", config.url),
        ("token", config.token),
    )
    found: Json = {name: each for name, each in named if each or name == "url"}
    if config.scheme:
        found["authentication"] = {"scheme": config.scheme}
        if config.credentials:
            found["authentication"]["credentials"] = config.credentials
    return found


def push_page_json(page: PushPage) -> Json:
    return {"configs": [push_json(config) for config in page.configs], "nextPageToken": page.next_page_token}


# -- reading -------------------------------------------------------------------------------------------------------------


def part_from_json(found: object) -> Part:
    """Return the part of a JSON object.

    Raises:
        InvalidArgumentError: Not exactly one content, or a field of the wrong type; names the field.
    """
    source = as_object(found)
    content = source.get("text")
    if len(source) == 1 and type(content) is str:
        return Part("text", content)
    kinds = [kind for kind in ("text", "raw", "url") if source.get(kind) is not None]
    if "data" in source:  # null is a JSON value too
        kinds.append("data")
    if len(kinds) != 1:
        raise InvalidArgumentError("must have exactly one of text, raw, url and data")
    named: Any = (mapping(source, "metadata"), text(source, "filename"), text(source, "mediaType"))
    match kinds[0]:
        case "text":
            return part_of(Shape("text", text(source, "text"), *named))
        case "raw":
            return part_of(Shape("raw", base64_bytes(source, "raw"), *named))
        case "url":
            return part_of(Shape("url", text(source, "url"), *named))
        case _:
            return part_of(Shape("data", source["data"], *named))


def parts_from_json(source: Source) -> list[Part]:
    """Return the `parts` of a message or an artifact: 1 to `MAX_PARTS`."""
    items = array(source, "parts")
    if not items:
        raise InvalidArgumentError("must have at least one part", field="parts")
    if len(items) > MAX_PARTS:
        raise MessageTooLargeError(f"has {len(items)} parts, at most {MAX_PARTS} are allowed", field="parts")
    found: list[Part] = []
    try:
        for item in items:
            found.append(part_from_json(item))  # noqa: PERF401  # its length is the index in the error below
    except InvalidArgumentError as error:
        raise error.within(f"parts[{len(found)}]") from None
    return found


def message_from_json(source: Source) -> tuple[Message, str, str]:
    """Return the message, its contextId and its taskId.

    Raises:
        InvalidArgumentError: Names the field.
        MessageTooLargeError: More parts than `MAX_PARTS`.
    """
    message_id = require_text(source, "messageId")
    check_id(message_id, spelling_of(source, "messageId"))
    name = source.get("role")
    role = _ROLES_BY_NAME.get(name) if type(name) is str else None
    if role is None:
        raise InvalidArgumentError("must be ROLE_USER or ROLE_AGENT", field="role")
    parts = parts_from_json(source)
    if source.keys() <= _BARE:
        return Message(message_id, role, parts), _read_id(source, "contextId"), _read_id(source, "taskId")
    head = MessageHead(
        role,  # type: ignore[arg-type]  # a key of _ROLES
        mapping(source, "metadata") or {},
        _read_texts(source, "extensions"),
        [
            check_required_id(each, spelling_of(source, "referenceTaskIds"))
            for each in _read_texts(source, "referenceTaskIds")
        ],
    )
    return message_of(message_id, parts, head), _read_id(source, "contextId"), _read_id(source, "taskId")


def artifact_from_json(source: Source) -> Artifact:
    """Return the artifact of a JSON object. Raises as `message_from_json`."""
    head = ArtifactHead(
        text(source, "name"),
        text(source, "description"),
        mapping(source, "metadata") or {},
        _read_texts(source, "extensions"),
    )
    return artifact_of(require_text(source, "artifactId"), parts_from_json(source), head)


def _read_texts(source: Source, name: str) -> list[str]:
    found = texts(source, name)
    if len(found) > MAX_ITEMS:
        raise MessageTooLargeError(
            f"has {len(found)} items, at most {MAX_ITEMS} are allowed", field=spelling_of(source, name)
        )
    return found


def _read_id(source: Source, name: str) -> str:
    found = text(source, name)
    return check_id(found, spelling_of(source, name)) if found else ""


def send_params(found: object) -> SendParams:
    """Return the parameters of SendMessage or SendStreamingMessage.

    Raises:
        InvalidArgumentError: Names the path of the invalid field, for example `message.parts[0].text`.
        MessageTooLargeError: More parts or items than a request may have.
    """
    source = as_object(found)
    message, context_id, task_id = require_nested(source, "message", message_from_json)
    params = SendParams(
        message, task_id, context_id, _read_id(source, "tenant"), metadata=mapping(source, "metadata") or {}
    )
    configuration = mapping(source, "configuration")
    if configuration:
        nested(source, "configuration", lambda inner: _read_configuration(params, inner))
    return params


def _read_configuration(params: SendParams, source: Source) -> None:
    params.accepted_output_modes = tuple(_read_texts(source, "acceptedOutputModes"))
    params.history_length = integer(source, "historyLength", 0)
    params.return_immediately = flag(source, "returnImmediately")
    params.push = nested(source, "taskPushNotificationConfig", push_config)


def push_config(found: object) -> PushConfig:
    """Return the config of CreateTaskPushNotificationConfig or of a SendMessage. Raises as `send_params`."""
    source = as_object(found)
    config = PushConfig(
        require_text(source, "url"),
        _read_id(source, "id"),
        _read_id(source, "taskId"),
        text(source, "token"),
        tenant=_read_id(source, "tenant"),
    )
    authentication = nested(source, "authentication", _read_authentication)
    if authentication is not None:
        config.scheme, config.credentials = authentication
    return config


def _read_authentication(source: Source) -> tuple[str, str]:
    return require_text(source, "scheme"), text(source, "credentials")


def list_params(found: object) -> ListParams:
    """Return the parameters of ListTasks. Values may be text, as in query parameters. Raises as `send_params`."""
    source = as_object(found)
    name = value(source, "status")
    state = _STATES_BY_NAME.get(name) if type(name) is str else None
    if name is not None and state is None:
        raise field_error(source, "status", f"must be one of {', '.join(_STATES_BY_NAME)}")
    return ListParams(
        _read_id(source, "tenant"),
        _read_id(source, "contextId"),
        state,
        integer(source, "pageSize", 1, MAX_PAGE_SIZE),
        text(source, "pageToken"),
        integer(source, "historyLength", 0),
        max(micros(source, "statusTimestampAfter"), 0),
        flag_or_text(source, "includeArtifacts"),
    )


def optional_count(source: Source, name: str) -> int | None:
    """Return a non-negative integer, or None if it is absent. Raises as `send_params`."""
    return integer(source, name, 0)


def object_of(source: Source, name: str) -> Json:
    """Return an object, empty if it is absent. Raises as `send_params`."""
    return mapping(source, name) or {}
