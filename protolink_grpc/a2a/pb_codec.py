"""A2A v1.0 as protobuf messages: writes responses, reads requests and, for clients, reads responses. `json_codec` does the same in
JSON.

The message classes are those of a2a-sdk: a process can register A2A's messages only once.
"""

from typing import Any, Final, Literal, assert_never

from a2a.types import a2a_pb2 as pb
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

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
from protolink_grpc.a2a.json_codec import MAX_ITEMS
from protolink_grpc.a2a.marks import Metadata
from protolink_grpc.a2a.struct_pb import (
    exact_of,
    fields_of,
    metadata_of,
    put_exact,
    put_fields,
    put_metadata,
    put_value,
    value_of,
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
    Update,
)
from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.ids import new_artifact_id, new_message_id
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.wire.scalars import micros_from_pb
from protolink_grpc.wire.tasks import MAX_PARTS, check_id, check_required_id

STATES: Final = {
    TaskState.SUBMITTED: pb.TASK_STATE_SUBMITTED,
    TaskState.WORKING: pb.TASK_STATE_WORKING,
    TaskState.INPUT_REQUIRED: pb.TASK_STATE_INPUT_REQUIRED,
    TaskState.AUTH_REQUIRED: pb.TASK_STATE_AUTH_REQUIRED,
    TaskState.COMPLETED: pb.TASK_STATE_COMPLETED,
    TaskState.CANCELED: pb.TASK_STATE_CANCELED,
    TaskState.FAILED: pb.TASK_STATE_FAILED,
    TaskState.REJECTED: pb.TASK_STATE_REJECTED,
    TaskState.UNKNOWN: pb.TASK_STATE_UNSPECIFIED,
}
_STATES_FROM_PB: Final[dict[int, TaskState]] = {value: state for state, value in STATES.items()}
_ROLES: Final = {"user": pb.ROLE_USER, "agent": pb.ROLE_AGENT}


# -- writing -------------------------------------------------------------------------------------------------------------


def _put_part(target: pb.Part, part: Part) -> None:
    shape = shape_of(part)
    target.filename = shape.filename
    target.media_type = shape.media_type
    _put_content(target, shape.kind, shape.value, shape.metadata)


def _put_content(target: pb.Part, kind: str, value: Any, metadata: Metadata | None) -> None:
    exact = True
    if kind == "data":
        exact = put_value(target.data, value)
    else:
        setattr(target, kind, value)
    if metadata is not None:
        target.metadata.SetInParent()
        exact = put_fields(target.metadata, metadata) and exact
    if not exact or _read_exact(target, kind, metadata) is not None:
        whole = {"data": value} if kind == "data" else {}
        put_exact(target.metadata, whole if metadata is None else whole | {"metadata": metadata})


def _read_exact(found: pb.Part, kind: str, metadata: Metadata | None) -> dict[str, Any] | None:
    """Return the exact data and metadata sent with `found`.

    None if there are none, or if encoding them again does not give `found`.
    """
    whole = exact_of(metadata)
    if whole is None:
        return None
    again = pb.Part(filename=found.filename, media_type=found.media_type)
    value = whole.get("data") if kind == "data" else getattr(found, kind)
    _put_content(again, kind, value, whole.get("metadata"))
    return whole if again == found else None


def _put_parts(target: Any, parts: list[Part]) -> None:
    """Add the parts, with a fast path for plain text, by far the most common part."""
    for part in parts:
        if part.type == "text" and part.metadata is None and not part.media_type and type(part.content) is str:
            target.add().text = part.content
        else:
            _put_part(target.add(), part)


def message_pb(message: Message, context_id: str = "", task_id: str = "") -> pb.Message:
    found = pb.Message()
    _put_message(found, message, context_id, task_id)
    return found


# The `_put_` functions fill a nested message in place: to build it separately and copy it takes twice the time.


def _put_message(target: pb.Message, message: Message, context_id: str, task_id: str) -> None:
    target.message_id = message.id
    target.context_id = context_id
    target.task_id = task_id
    _put_parts(target.parts, message.parts)
    role = _ROLES.get(message.role)
    if role is not None and not message.metadata:
        target.role = role
        return
    head = message_head(message)
    if head.message_id:
        target.message_id = head.message_id
    target.role = _ROLES[head.role]
    if head.metadata:
        put_metadata(target.metadata, head.metadata)
    target.extensions.extend(head.extensions)
    target.reference_task_ids.extend(head.reference_task_ids)


def _put_artifact(target: pb.Artifact, artifact: Artifact) -> None:
    target.artifact_id = artifact.id
    _put_parts(target.parts, artifact.parts)
    head = artifact_head(artifact)
    target.name = head.name
    target.description = head.description
    target.extensions.extend(head.extensions)
    if head.metadata:
        put_metadata(target.metadata, head.metadata)


def _put_status(target: pb.TaskStatus, status: Status, context_id: str, task_id: str) -> None:
    target.state = STATES.get(status.state, pb.TASK_STATE_UNSPECIFIED)
    put_time(target.timestamp, status.micros)
    if status.message is not None:
        _put_message(target.message, status.message, context_id, task_id)


def put_time(target: Timestamp, time_micros: int) -> None:
    """Set a time with milliseconds, as in JSON; further digits are cut off."""
    seconds, rest = divmod(time_micros, 1_000_000)
    target.seconds = seconds
    target.nanos = rest // 1000 * 1_000_000


def task_pb(view: TaskView) -> pb.Task:
    found = pb.Task()
    _put_task(found, view)
    return found


def _put_task(target: pb.Task, view: TaskView) -> None:
    task_id, context_id = view.task_id, view.context_id
    target.id = task_id
    target.context_id = context_id
    _put_status(target.status, view.status, context_id, task_id)
    for artifact in view.artifacts or ():
        _put_artifact(target.artifacts.add(), artifact)
    for message in view.history or ():
        _put_message(target.history.add(), message, context_id, task_id)
    if view.metadata:
        put_metadata(target.metadata, view.metadata)


def update_pb(update: Update) -> pb.StreamResponse:
    found = pb.StreamResponse()
    match update:
        case TaskView():
            _put_task(found.task, update)
        case MessageReply():
            _put_message(found.message, update.message, update.context_id, "")
        case StatusUpdate():
            _put_status_update(found.status_update, update)
        case ArtifactUpdate():
            _put_artifact_update(found.artifact_update, update)
        case _:
            assert_never(update)
    return found


def send_response_pb(reply: TaskView | MessageReply) -> pb.SendMessageResponse:
    found = pb.SendMessageResponse()
    if isinstance(reply, TaskView):
        _put_task(found.task, reply)
    else:
        _put_message(found.message, reply.message, reply.context_id, "")
    return found


def _put_status_update(target: pb.TaskStatusUpdateEvent, update: StatusUpdate) -> None:
    target.task_id = update.task_id
    target.context_id = update.context_id
    _put_status(target.status, update.status, update.context_id, update.task_id)
    if update.metadata:
        put_metadata(target.metadata, update.metadata)


def _put_artifact_update(target: pb.TaskArtifactUpdateEvent, update: ArtifactUpdate) -> None:
    target.task_id = update.task_id
    target.context_id = update.context_id
    _put_artifact(target.artifact, update.whole_artifact)
    target.append = update.append
    target.last_chunk = update.last_chunk
    if update.metadata:
        put_metadata(target.metadata, update.metadata)


def page_pb(page: TaskViewPage) -> pb.ListTasksResponse:
    found = pb.ListTasksResponse(
        next_page_token=page.next_page_token, page_size=page.page_size, total_size=page.total_size
    )
    for view in page.tasks:
        _put_task(found.tasks.add(), view)
    return found


def push_config_pb(config: PushConfig) -> pb.TaskPushNotificationConfig:
    found = pb.TaskPushNotificationConfig(
        tenant=config.tenant, id=config.id, task_id=config.task_id, url=config.url, token=config.token
    )
    if config.scheme:
        found.authentication.scheme = config.scheme
        found.authentication.credentials = config.credentials
    return found


def push_page_pb(page: PushPage) -> pb.ListTaskPushNotificationConfigsResponse:
    return pb.ListTaskPushNotificationConfigsResponse(
        configs=[push_config_pb(config) for config in page.configs], next_page_token=page.next_page_token
    )


# -- reading -------------------------------------------------------------------------------------------------------------


def object_from_struct(found: Struct, field: str = "metadata") -> Metadata:
    """Return the JSON object, empty if it is absent.

    Raises:
        InvalidArgumentError: A number is not finite, or a field has no value; names `field`.
    """
    try:
        return metadata_of(found)
    except InvalidArgumentError as error:
        raise error.within(field) from None


def part_from_pb(found: pb.Part) -> Part:
    """Return the part of a message. Raises InvalidArgumentError: no content, or as `object_from_struct`; names the field."""
    kind = found.WhichOneof("content")
    if kind is None:
        raise InvalidArgumentError("must have exactly one of text, raw, url and data")
    value = _read_within("data", value_of, found.data) if kind == "data" else getattr(found, kind)
    metadata = _read_within("metadata", fields_of, found.metadata) if found.HasField("metadata") else None
    whole = _read_exact(found, kind, metadata)
    if whole is not None:
        value, metadata = whole.get("data", value), whole.get("metadata")
    return part_of(Shape(kind, value, metadata, found.filename, found.media_type))


def _read_within(field: str, read: Any, found: Any) -> Any:
    try:
        return read(found)
    except InvalidArgumentError as error:
        raise error.within(field) from None


def _parts_from_pb(items: Any, *, strict: bool = True) -> list[Part]:
    if not items and strict:
        raise InvalidArgumentError("must have at least one part", field="parts")
    if len(items) > MAX_PARTS and strict:
        raise MessageTooLargeError(f"has {len(items)} parts, at most {MAX_PARTS} are allowed", field="parts")
    found: list[Part] = []
    try:
        for item in items:
            if item.WhichOneof("content") == "text" and not (
                item.media_type or item.filename or item.HasField("metadata")
            ):
                found.append(Part("text", item.text))
            else:
                found.append(part_from_pb(item))
    except InvalidArgumentError as error:
        raise error.within(f"parts[{len(found)}]") from None
    return found


def message_from_pb(found: pb.Message, *, strict: bool = True) -> tuple[Message, str, str]:
    """Return the message, its context id and its task id.

    Args:
        strict: Require id, role and parts, as for a request. A response may lack them: the message then gets a new id, and a
            missing role is the agent's.

    Raises:
        InvalidArgumentError: Names the field.
        MessageTooLargeError: More parts than `MAX_PARTS`.
    """
    message_id = _require_text(found.message_id, "message_id") if strict else found.message_id or new_message_id()
    if strict and found.role not in (pb.ROLE_USER, pb.ROLE_AGENT):
        raise InvalidArgumentError("must be ROLE_USER or ROLE_AGENT", field="role")
    role: Literal["user", "agent"] = "user" if found.role == pb.ROLE_USER else "agent"
    check_id(message_id, "message_id")
    parts = _parts_from_pb(found.parts, strict=strict)
    context_id, task_id = check_id(found.context_id, "context_id"), check_id(found.task_id, "task_id")
    if not (found.HasField("metadata") or found.extensions or found.reference_task_ids):
        return Message(message_id, role, parts), context_id, task_id
    head = MessageHead(
        role,
        object_from_struct(found.metadata),
        _check_count(found.extensions, "extensions"),
        [
            check_required_id(each, "reference_task_ids")
            for each in _check_count(found.reference_task_ids, "reference_task_ids")
        ],
    )
    return message_of(message_id, parts, head), context_id, task_id


def artifact_from_pb(found: pb.Artifact) -> Artifact:
    """Return an artifact of a response, which may have no parts. Raises as `message_from_pb`."""
    head = ArtifactHead(
        found.name, found.description, object_from_struct(found.metadata), _check_count(found.extensions, "extensions")
    )
    return artifact_of(found.artifact_id or new_artifact_id(), _parts_from_pb(found.parts, strict=False), head)


def _require_text(text: str, field: str) -> str:
    if not text:
        raise InvalidArgumentError("must be a non-empty string", field=field)
    return text


def _check_count(items: Any, field: str) -> list[str]:
    if len(items) > MAX_ITEMS:
        raise MessageTooLargeError(f"has {len(items)} items, at most {MAX_ITEMS} are allowed", field=field)
    return list(items)


def _read_history_length(request: Any) -> int | None:
    """Return the `history_length` of a request, or None if it is not set."""
    if not request.HasField("history_length"):
        return None
    length: int = request.history_length
    if length < 0:
        raise InvalidArgumentError("must not be negative", field="history_length")
    return length


def send_params_from_pb(request: pb.SendMessageRequest) -> SendParams:
    """Return the parameters of SendMessage or SendStreamingMessage.

    Raises:
        InvalidArgumentError: Names the path of the invalid field, for example `message.parts[0]`.
        MessageTooLargeError: More parts or items than a request may have.
    """
    if not request.HasField("message"):
        raise InvalidArgumentError("must be an object", field="message")
    try:
        message, context_id, task_id = message_from_pb(request.message)
    except InvalidArgumentError as error:
        raise error.within("message") from None
    params = SendParams(message, task_id, context_id, check_id(request.tenant, "tenant"))
    if request.HasField("metadata"):
        params.metadata = object_from_struct(request.metadata)
    if request.HasField("configuration"):
        _read_within("configuration", lambda found: _read_configuration(params, found), request.configuration)
    return params


def _read_configuration(params: SendParams, found: pb.SendMessageConfiguration) -> None:
    params.accepted_output_modes = tuple(_check_count(found.accepted_output_modes, "accepted_output_modes"))
    params.history_length = _read_history_length(found)
    params.return_immediately = found.return_immediately
    if found.HasField("task_push_notification_config"):
        name = "task_push_notification_config"
        params.push = _read_within(name, push_config_from_pb, found.task_push_notification_config)


def push_config_from_pb(found: pb.TaskPushNotificationConfig) -> PushConfig:
    """Return the config of CreateTaskPushNotificationConfig or of a SendMessage. Raises as `send_params_from_pb`."""
    config = PushConfig(
        _require_text(found.url, "url"),
        check_id(found.id, "id"),
        check_id(found.task_id, "task_id"),
        found.token,
        tenant=check_id(found.tenant, "tenant"),
    )
    if found.HasField("authentication"):
        config.scheme = _require_text(found.authentication.scheme, "authentication.scheme")
        config.credentials = found.authentication.credentials
    return config


def list_params_from_pb(request: pb.ListTasksRequest) -> ListParams:
    """Return the parameters of ListTasks. Raises as `send_params_from_pb`."""
    state = None
    if request.status:
        state = _STATES_FROM_PB.get(request.status)
        if state is None:
            raise InvalidArgumentError(f"{request.status} is not a task state", field="status")
    size = request.page_size if request.HasField("page_size") else None
    if size is not None and not 1 <= size <= MAX_PAGE_SIZE:
        raise InvalidArgumentError(f"must be an integer from 1 to {MAX_PAGE_SIZE}", field="page_size")
    after = 0
    if request.HasField("status_timestamp_after"):
        after = max(micros_from_pb(request.status_timestamp_after, "status_timestamp_after"), 0)
    return ListParams(
        check_id(request.tenant, "tenant"),
        check_id(request.context_id, "context_id"),
        state,
        size,
        request.page_token,
        _read_history_length(request),
        after,
        request.include_artifacts,
    )


# -- reading responses of other agents -----------------------------------------------------------------------------------


def task_from_pb(found: pb.Task) -> TaskView:
    """Return the view of a task. Raises as `send_params_from_pb`."""
    return TaskView(
        found.id,
        found.context_id,
        _status_from_pb(found.status),
        [message_from_pb(message, strict=False)[0] for message in found.history],
        [artifact_from_pb(artifact) for artifact in found.artifacts],
        object_from_struct(found.metadata),
    )


def _status_from_pb(found: pb.TaskStatus) -> Status:
    """Return the status; an unrecognized state becomes `unknown`."""
    return Status(
        _STATES_FROM_PB.get(found.state, TaskState.UNKNOWN),
        micros_from_pb(found.timestamp, "status.timestamp"),
        message_from_pb(found.message, strict=False)[0] if found.HasField("message") else None,
    )


def update_from_pb(found: pb.StreamResponse | pb.SendMessageResponse) -> Update:
    """Return the update in a response. Raises as `send_params_from_pb`, and for an empty response."""
    if found.HasField("task"):
        return task_from_pb(found.task)
    if found.HasField("message"):
        message, context_id, _ = message_from_pb(found.message, strict=False)
        return MessageReply(message, context_id)
    if isinstance(found, pb.StreamResponse):
        if found.HasField("status_update"):
            update = found.status_update
            status, metadata = _status_from_pb(update.status), object_from_struct(update.metadata)
            return StatusUpdate(update.task_id, update.context_id, status, metadata)
        if found.HasField("artifact_update"):
            piece = found.artifact_update
            artifact, metadata = artifact_from_pb(piece.artifact), object_from_struct(piece.metadata)
            return ArtifactUpdate(piece.task_id, piece.context_id, artifact, piece.append, piece.last_chunk, metadata)
    raise InvalidArgumentError("must hold a task, a message or an update")
