"""Converts between v0.3's protobuf (package `a2a.v1`) and v1.0's (`lf.a2a.v1`), and parses resource names.

The `bytes` field of a v0.3 file holds base64 text: v0.3 peers in Python and Go write it and require it. Raw bytes from other peers
are accepted, unless they happen to be valid base64.
"""

import base64
import binascii
import re
from typing import Final, assert_never

from a2a.compat.v0_3 import a2a_v0_3_pb2 as v03
from a2a.types import a2a_pb2 as v1
from google.protobuf.struct_pb2 import Struct

from protolink_grpc.a2a import pb_codec
from protolink_grpc.a2a.v03.reading import respell_field
from protolink_grpc.a2a.v03.terms import BARE_VALUE, V1_KEY, scheme_of
from protolink_grpc.a2a.values import ArtifactUpdate, MessageReply, PushPage, SendParams, StatusUpdate, TaskView, Update
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.push_config import PushConfig

_STATES: Final = {
    v1.TASK_STATE_UNSPECIFIED: v03.TASK_STATE_UNSPECIFIED,
    v1.TASK_STATE_SUBMITTED: v03.TASK_STATE_SUBMITTED,
    v1.TASK_STATE_WORKING: v03.TASK_STATE_WORKING,
    v1.TASK_STATE_COMPLETED: v03.TASK_STATE_COMPLETED,
    v1.TASK_STATE_FAILED: v03.TASK_STATE_FAILED,
    v1.TASK_STATE_CANCELED: v03.TASK_STATE_CANCELLED,
    v1.TASK_STATE_INPUT_REQUIRED: v03.TASK_STATE_INPUT_REQUIRED,
    v1.TASK_STATE_REJECTED: v03.TASK_STATE_REJECTED,
    v1.TASK_STATE_AUTH_REQUIRED: v03.TASK_STATE_AUTH_REQUIRED,
}
_ROLES: Final = {v1.ROLE_USER: v03.ROLE_USER, v1.ROLE_AGENT: v03.ROLE_AGENT}
_ROLES_TO_V1: Final = {v03.ROLE_USER: v1.ROLE_USER, v03.ROLE_AGENT: v1.ROLE_AGENT}

_SPELLINGS: Final = (
    (re.compile(r"(parts\[\d+\])\.raw\b"), r"\1.file.file_with_bytes"),
    (re.compile(r"(parts\[\d+\])\.url\b"), r"\1.file.file_with_uri"),
    (re.compile(r"message\.parts\b"), "message.content"),
    (re.compile(r"(taskPushNotificationConfig|task_push_notification_config)\b"), "push_notification"),
)

_CONFIGS: Final = "/pushNotificationConfigs"


# -- requests ------------------------------------------------------------------------------------------------------------


def send_params_from_pb(request: v03.SendMessageRequest) -> SendParams:
    """Return the parameters of a v0.3 request.

    Raises:
        InvalidArgumentError: Names the path as v0.3's protobuf spells it, with `message`, the JSON name of the field `request`.
    """
    try:
        return pb_codec.send_params_from_pb(_request_to_v1(request))
    except InvalidArgumentError as error:
        raise respell_field(error, _SPELLINGS) from None


def _request_to_v1(given: v03.SendMessageRequest) -> v1.SendMessageRequest:
    found = v1.SendMessageRequest()
    if given.HasField("request"):
        _message_to_v1(given.request, found.message)
    # An empty configuration means `blocking: false`; a client that polls sends nothing else.
    if given.HasField("configuration"):
        _configuration_to_v1(given.configuration, found.configuration)
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)
    return found


def _configuration_to_v1(given: v03.SendMessageConfiguration, found: v1.SendMessageConfiguration) -> None:
    found.accepted_output_modes.extend(given.accepted_output_modes)
    if given.history_length:  # 0 means all
        found.history_length = given.history_length
    found.return_immediately = not given.blocking
    if given.HasField("push_notification"):
        push, into = given.push_notification, found.task_push_notification_config
        into.id, into.url, into.token = push.id, push.url, push.token
        scheme = _scheme_of(push, "configuration.push_notification")
        if scheme:
            into.authentication.scheme, into.authentication.credentials = scheme, push.authentication.credentials


def _scheme_of(push: v03.PushNotificationConfig, path: str) -> str:
    given = push.authentication
    return scheme_of(list(given.schemes), given.credentials, f"{path}.authentication.schemes")


def _message_to_v1(given: v03.Message, found: v1.Message) -> None:
    found.message_id, found.context_id, found.task_id = given.message_id, given.context_id, given.task_id
    found.role = _ROLES_TO_V1.get(given.role, v1.ROLE_UNSPECIFIED)
    for part in given.content:
        _part_to_v1(part, found.parts.add())
    found.extensions.extend(given.extensions)
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)
        kept = _take(found.metadata, V1_KEY)
        if "referenceTaskIds" in kept.fields:
            ids = kept.fields["referenceTaskIds"].list_value.values
            found.reference_task_ids.extend(each.string_value for each in ids)
        if not found.metadata.fields:
            found.ClearField("metadata")


def _part_to_v1(given: v03.Part, found: v1.Part) -> None:
    is_bare = False
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)
        kept = _take(found.metadata, V1_KEY)
        is_bare = BARE_VALUE in found.metadata.fields and found.metadata.fields.pop(BARE_VALUE).bool_value
        found.media_type, found.filename = _get_text(kept, "mediaType"), _get_text(kept, "filename")
        if not found.metadata.fields:
            found.ClearField("metadata")
    match given.WhichOneof("part"):
        case "text":
            found.text = given.text
        case "file":
            _file_to_v1(given.file, found)
        case "data":
            data = given.data.data
            if is_bare and "value" in data.fields:
                found.data.CopyFrom(data.fields["value"])
            else:
                found.data.struct_value.CopyFrom(data)
                found.data.struct_value.SetInParent()
        case None:
            pass  # the codec refuses a part without content; its error has the path


def _file_to_v1(given: v03.FilePart, found: v1.Part) -> None:
    match given.WhichOneof("file"):
        case "file_with_uri":
            found.url = given.file_with_uri
        case "file_with_bytes":
            found.raw = _decode_base64(given.file_with_bytes)
        case None:
            pass  # as above
    if given.mime_type:
        found.media_type = given.mime_type
    if given.name:
        found.filename = given.name


def _decode_base64(given: bytes) -> bytes:
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return given


def _take(metadata: Struct, key: str) -> Struct:
    """Remove an object from the metadata and return it; empty if it is absent."""
    return metadata.fields.pop(key).struct_value if key in metadata.fields else Struct()


def _get_text(given: Struct, key: str) -> str:
    return given.fields[key].string_value if key in given.fields else ""


def parse_task_name(name: str, field: str) -> str:
    """Return the id in `tasks/{id}`. Raises InvalidArgumentError: the name has another form; names `field`."""
    kind, _, task_id = name.partition("/")
    if kind != "tasks" or not task_id or "/" in task_id:
        raise InvalidArgumentError("must be tasks/{id}", field=field)
    return task_id


def parse_config_name(name: str, field: str) -> tuple[str, str]:
    """Return both ids in `tasks/{id}/pushNotificationConfigs/{config}`. Raises as `parse_task_name`."""
    task, separator, config_id = name.partition(f"{_CONFIGS}/")
    if not separator or not config_id or "/" in config_id:
        raise InvalidArgumentError("must be tasks/{id}/pushNotificationConfigs/{config}", field=field)
    return parse_task_name(task, field), config_id


def push_config_from_pb(request: v03.CreateTaskPushNotificationConfigRequest) -> PushConfig:
    """Return the push config of a request.

    Raises:
        InvalidArgumentError: No task in `parent`, no URL, or credentials without a scheme.
    """
    # By v0.3's annotations, `parent` ends with `/pushNotificationConfigs`; by its comments, it does not. Clients send both forms.
    parent = request.parent.removesuffix(_CONFIGS)
    push = request.config.push_notification_config
    path = "config.push_notification_config"
    if not push.url:
        raise InvalidArgumentError("must not be empty", field=f"{path}.url")
    return PushConfig(
        url=push.url,
        id=request.config_id or push.id,
        task_id=parse_task_name(parent, "parent"),
        token=push.token,
        scheme=_scheme_of(push, path),
        credentials=push.authentication.credentials,
    )


# -- answers -------------------------------------------------------------------------------------------------------------


def task_pb(view: TaskView) -> v03.Task:
    found = v03.Task()
    _put_task(pb_codec.task_pb(view), found)
    return found


def reply_pb(reply: TaskView | MessageReply) -> v03.SendMessageResponse:
    found = v03.SendMessageResponse()
    if isinstance(reply, TaskView):
        _put_task(pb_codec.task_pb(reply), found.task)
    else:
        _put_message(pb_codec.message_pb(reply.message, reply.context_id, ""), found.msg)
    return found


def update_pb(update: Update) -> v03.StreamResponse:
    found, given = v03.StreamResponse(), pb_codec.update_pb(update)
    match update:
        case TaskView():
            _put_task(given.task, found.task)
        case MessageReply():
            _put_message(given.message, found.msg)
        case StatusUpdate():
            _put_status_update(given.status_update, found.status_update)
            found.status_update.final = update.final
        case ArtifactUpdate():
            _put_artifact_update(given.artifact_update, found.artifact_update)
        case _:
            assert_never(update)
    return found


def push_pb(config: PushConfig) -> v03.TaskPushNotificationConfig:
    push = v03.PushNotificationConfig(id=config.id, url=config.url, token=config.token)
    if config.scheme or config.credentials:
        push.authentication.schemes.extend([config.scheme] if config.scheme else ())
        push.authentication.credentials = config.credentials
    name = f"tasks/{config.task_id}{_CONFIGS}/{config.id}"
    return v03.TaskPushNotificationConfig(name=name, push_notification_config=push)


def push_page_pb(page: PushPage) -> v03.ListTaskPushNotificationConfigResponse:
    configs = [push_pb(config) for config in page.configs]
    return v03.ListTaskPushNotificationConfigResponse(configs=configs, next_page_token=page.next_page_token)


def _put_task(given: v1.Task, found: v03.Task) -> None:
    found.id, found.context_id = given.id, given.context_id
    _put_status(given.status, found.status)
    for artifact in given.artifacts:
        _put_artifact(artifact, found.artifacts.add())
    for message in given.history:
        _put_message(message, found.history.add())
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)


def _put_status(given: v1.TaskStatus, found: v03.TaskStatus) -> None:
    found.state = _STATES[given.state]
    if given.HasField("message"):
        _put_message(given.message, found.update)
    if given.HasField("timestamp"):
        found.timestamp.CopyFrom(given.timestamp)


def _put_status_update(given: v1.TaskStatusUpdateEvent, found: v03.TaskStatusUpdateEvent) -> None:
    found.task_id, found.context_id = given.task_id, given.context_id
    _put_status(given.status, found.status)
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)


def _put_artifact_update(given: v1.TaskArtifactUpdateEvent, found: v03.TaskArtifactUpdateEvent) -> None:
    found.task_id, found.context_id = given.task_id, given.context_id
    found.append, found.last_chunk = given.append, given.last_chunk
    _put_artifact(given.artifact, found.artifact)
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)


def _put_artifact(given: v1.Artifact, found: v03.Artifact) -> None:
    found.artifact_id, found.name, found.description = given.artifact_id, given.name, given.description
    for part in given.parts:
        _put_part(part, found.parts.add())
    found.extensions.extend(given.extensions)
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)


def _put_message(given: v1.Message, found: v03.Message) -> None:
    found.message_id, found.context_id, found.task_id = given.message_id, given.context_id, given.task_id
    found.role = _ROLES.get(given.role, v03.ROLE_UNSPECIFIED)
    for part in given.parts:
        _put_part(part, found.content.add())
    found.extensions.extend(given.extensions)
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)
    if given.reference_task_ids:
        kept = found.metadata.fields[V1_KEY].struct_value.fields["referenceTaskIds"].list_value
        for task_id in given.reference_task_ids:
            kept.values.add().string_value = task_id


def _put_part(given: v1.Part, found: v03.Part) -> None:
    if given.HasField("metadata"):
        found.metadata.CopyFrom(given.metadata)
    match given.WhichOneof("content"):
        case "text":
            found.text = given.text
            _put_v1_fields(given, found)
        case "data":
            _put_data(given, found)
            _put_v1_fields(given, found)
        case "raw":
            found.file.file_with_bytes = base64.b64encode(given.raw)
            found.file.mime_type, found.file.name = given.media_type, given.filename
        case "url":
            found.file.file_with_uri = given.url
            found.file.mime_type, found.file.name = given.media_type, given.filename
        case None:
            pass  # the codec writes no part without content


def _put_data(given: v1.Part, found: v03.Part) -> None:
    if given.data.HasField("struct_value"):
        found.data.data.CopyFrom(given.data.struct_value)
    else:
        found.data.data.fields["value"].CopyFrom(given.data)
        found.metadata.fields[BARE_VALUE].bool_value = True
    found.data.data.SetInParent()


def _put_v1_fields(given: v1.Part, found: v03.Part) -> None:
    for name, value in (("mediaType", given.media_type), ("filename", given.filename)):
        if value:
            found.metadata.fields[V1_KEY].struct_value.fields[name].string_value = value
