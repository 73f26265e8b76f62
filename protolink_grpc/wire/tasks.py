"""Converts tasks, messages and artifacts between the models and `plgrpc.v1`, for the network and for the log.

`encoded_messages_from_pb` and `artifacts_from_pb` read requests and check the bounds of the contract. All other functions read logs
and responses, which have no bounds: a task may grow larger than one request.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from time import time_ns
from typing import Any, Final

from plgrpc.v1 import task_input_pb2 as input_pb
from plgrpc.v1 import task_pb2 as pb
from plgrpc.v1.context_pb2 import RunContext as RunContextPb

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.context import CONTEXT_KEY, RunContext
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_call_id, new_message_id, new_task_id
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import StateChange, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task, find_output, stored_metadata
from protolink_grpc.models.task_metadata import DERIVED_KEYS, own_metadata, take_facts
from protolink_grpc.wire.answer_bounds import (
    BODY_BYTES,
    HEADER_BYTES,
    MAX_CHANGES,
    WHOLE,
    Window,
    cut,
    reduce_header,
    total_size,
)
from protolink_grpc.wire.compile import Codec, Computed, Group, Special, enum_numbers
from protolink_grpc.wire.context import CONTEXT, OPTIONS, context_from_pb
from protolink_grpc.wire.parts import PARTS, PROTOLINK_KEY, check_parts
from protolink_grpc.wire.scalars import (
    VARINTS,
    delimited,
    enum_varint,
    json_object_from_pb,
    json_object_to_pb,
    set_time,
    sized_id,
    sized_time,
    tag,
    text_field,
    timestamp_from_pb,
    timestamp_to_pb,
    varint,
)
from protolink_grpc.wire.usage import USAGE
from protolink_grpc.wire.values import FAILURE

MAX_MESSAGES: Final = 1000
MAX_ARTIFACTS: Final = 1000
MAX_PARTS: Final = 1000
MAX_ID_BYTES: Final = 128
"""Bounds of one request: parts are those of one message or artifact. Source: the comments of task_input.proto and task.proto."""

MAX_PARTS_IN_ALL: Final = 10_000
"""Maximum number of parts of all messages of one request, and of all its artifacts: they are read in about 20 ms."""

STATES: Final = enum_numbers(TaskState, pb.TaskState.DESCRIPTOR, unset=TaskState.UNKNOWN, field="state")
ROLES: Final = enum_numbers(str, pb.MessageRole.DESCRIPTOR, unset="user", field="role")
_PLAIN_ROLES: Final = {number: role for role, number in ROLES.items() if number}
_ASSISTANT: Final = "assistant"
"""ProtoLink's role for a model. In the contract it is the role agent, with ProtoLink's role in the metadata."""


def check_id(text: str, field: str) -> str:
    """Return the id.

    Raises:
        InvalidArgumentError: Longer than `MAX_ID_BYTES` in UTF-8, or with control characters; names `field`.
    """
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_ID_BYTES or not text.isprintable():
        raise InvalidArgumentError(f"must be 1 to {MAX_ID_BYTES} bytes of printable text", field=field)
    return text


def check_required_id(text: str, field: str) -> str:
    """Return the id. Raises as `check_id`, and for an empty text."""
    if not text:
        raise InvalidArgumentError(f"must be 1 to {MAX_ID_BYTES} bytes of printable text", field=field)
    return check_id(text, field)


def encoded_messages_from_pb(messages: Any, field: str) -> tuple[list[Message], tuple[bytes, ...]]:
    """Return the messages of a request, and their encodings, which keep unknown fields.

    Raises:
        MessageTooLargeError: More than `MAX_MESSAGES`, or more parts than `MAX_PARTS` in one or `MAX_PARTS_IN_ALL` in all.
        InvalidArgumentError: As `check_id` and `MESSAGE.from_pb`.
    """
    check_bounds(messages, MAX_MESSAGES, "messages", field)
    values = [_message_of_request(message, f"{field}[{index}]") for index, message in enumerate(messages)]
    return values, tuple([message.SerializeToString() for message in messages])


def _message_of_request(message: pb.Message, field: str) -> Message:
    # Generated values must be in the log, too, so they are set in the message before it is read and encoded.
    if not message.id:
        message.id = new_message_id()
    if message.HasField("create_time"):
        time = timestamp_from_pb(message.create_time, f"{field}.create_time")
    else:
        now = time_ns() // 1000
        message.create_time.seconds, rest = divmod(now, 1_000_000)
        message.create_time.nanos = rest * 1000
        time = iso_from_micros(now)
    parts, role = message.parts, _PLAIN_ROLES.get(message.role)
    if len(parts) == 1 and role is not None and not message.metadata_json:
        # A message with one plain text, the most common one, cannot be invalid and is read in half the time.
        part = parts[0]
        if part.WhichOneof("content") == "text" and not part.metadata_json and not part.media_type:
            return Message(message.id, role, [Part("text", part.text)], time)
    ROLES.read_request(message.role, f"{field}.role")
    check_parts(parts, f"{field}.parts")
    for part in parts:
        if part.HasField("tool_call") and not part.tool_call.call_id:
            part.tool_call.call_id = new_call_id()
    return MESSAGE.from_pb(message, field)


def _write_role(message: Message) -> int:
    role: int = ROLES["agent" if message.role == _ASSISTANT else message.role]
    return role


def _write_metadata(message: Message) -> str:
    metadata = message.metadata
    if message.role == _ASSISTANT:
        metadata = {**(metadata or {}), PROTOLINK_KEY: _ASSISTANT}
    return json_object_to_pb(metadata)


def _read_role_and_metadata(message: pb.Message) -> tuple[str, dict[str, Any] | None]:
    role = ROLES.names[message.role]
    if not message.metadata_json:
        return role, None
    metadata = json_object_from_pb(message.metadata_json, "metadata_json")
    if metadata.get(PROTOLINK_KEY) == _ASSISTANT and message.role == pb.MESSAGE_ROLE_AGENT:
        del metadata[PROTOLINK_KEY]
        role = _ASSISTANT
    return role, metadata or None


MESSAGE: Final = Codec(
    Message,
    pb.Message,
    timestamp="create_time",
    parts=PARTS,
    role=Computed(_write_role),
    metadata_json=Group(("role", "metadata"), _write_metadata, _read_role_and_metadata),
)
"""A missing id or time is generated."""


def check_bounds(items: Any, most: int, name: str, field: str) -> None:
    """Check the numbers and ids of the messages or artifacts of a request. Raises as `check_counts` and `check_ids`."""
    check_counts(len(items), [len(item.parts) for item in items[: most + 1]], most, name, field)
    check_ids(items, field)


def check_counts(count: int, parts: Sequence[int], most: int, name: str, field: str) -> None:
    """Check the numbers of messages or artifacts of a request, and of their parts.

    Args:
        parts: The number of parts of each. Entries beyond `most` may be missing.
        name: `messages` or `artifacts`, for the error.

    Raises:
        MessageTooLargeError: Too many; names `field`.
    """
    if count > most:
        raise MessageTooLargeError(f"has {count} {name}, at most {most} are allowed", field=field)
    for index, size in enumerate(parts):
        if size > MAX_PARTS:
            raise MessageTooLargeError(
                f"has {size} parts, at most {MAX_PARTS} are allowed", field=f"{field}[{index}].parts"
            )
    if sum(parts) > MAX_PARTS_IN_ALL:
        raise MessageTooLargeError(
            f"have {sum(parts)} parts together, at most {MAX_PARTS_IN_ALL} are allowed", field=field
        )


def check_ids(items: Any, field: str) -> None:
    """Check the ids of messages or artifacts; an empty one is allowed. Raises as `check_id`."""
    for index, item in enumerate(items):
        if item.id:
            check_id(item.id, f"{field}[{index}].id")


ARTIFACT: Final = Codec(
    Artifact,
    pb.Artifact,
    timestamp="create_time",
    parts=PARTS,
    kind=Special("kind", lambda artifact: artifact.kind, lambda artifact: artifact.kind or "result"),
)


STATE_CHANGE: Final = Codec(StateChange, pb.StateChange, timestamp="change_time")


def artifacts_from_pb(artifacts: Any, field: str) -> list[Artifact]:
    """Return the artifacts of a request.

    Raises:
        MessageTooLargeError: More than `MAX_ARTIFACTS`, or more parts than `MAX_PARTS` in one or `MAX_PARTS_IN_ALL` in all.
        InvalidArgumentError: As `check_id` and `ARTIFACT.from_pb`.
    """
    check_bounds(artifacts, MAX_ARTIFACTS, "artifacts", field)
    for index, artifact in enumerate(artifacts):
        check_parts(artifact.parts, f"{field}[{index}].parts")
    return ARTIFACT.all_from_pb(artifacts, field)


def task_to_pb(task: Task) -> pb.Task:
    """Convert a whole task."""
    out = task_header_to_pb(task)
    out.messages.extend([MESSAGE.to_pb(message) for message in task.messages])
    return out


def input_to_pb(
    task: Task, target: "input_pb.TaskTarget.ValueType", *, expected_sequence: int = 0
) -> input_pb.TaskInput:
    """Convert a caller's task to the input of a request, without the fields that the server sets, such as the state."""
    out = input_pb.TaskInput(
        task_id=task.id,
        target=target,
        expected_sequence=expected_sequence,
        session_id=task.session_id or "",
        create_time=timestamp_to_pb(task.created_at),
        messages=[MESSAGE.to_pb(message) for message in task.messages],
    )
    if task.artifacts:
        out.artifacts.extend([ARTIFACT.to_pb(artifact) for artifact in task.artifacts])
    context = task.given_context()
    if context is not None:
        out.options.CopyFrom(OPTIONS.to_pb(context))
    free = own_metadata(stored_metadata(task))
    if free:
        out.metadata_json = to_json(free)
    if task.flow_state:
        out.flow_state_json = to_json(task.flow_state)
    return out


def task_header_to_pb(task: Task) -> pb.Task:
    """`task_to_pb` without the messages."""
    out = pb.Task(id=task.id, state=STATES[task.state], create_time=timestamp_to_pb(task.created_at))
    if task.artifacts:
        out.artifacts.extend([ARTIFACT.to_pb(artifact) for artifact in task.artifacts])
    if task.flow_state:
        out.flow_state_json = to_json(task.flow_state)
    _facts_to_pb(task, out)
    return out


def encode_task_header(task: Task, session_id: str, context: RunContext | None) -> bytes:
    """Encode a submitted task without its messages; by hand if it only has the user's metadata, like most tasks."""
    metadata = stored_metadata(task)
    has_facts = task.failure is not None or not metadata.keys().isdisjoint(DERIVED_KEYS)
    if task.artifacts or task.flow_state or has_facts:
        header = task_header_to_pb(task).SerializeToString()
    else:
        created = sized_time(micros_from_iso(task.created_at))
        header = b"".join((_ID, sized_id(task.id), _STATE, enum_varint(STATES[task.state]), _CREATED, created))
        if metadata:
            header += text_field(_METADATA, to_json(metadata))
    if session_id:
        header += _SESSION + sized_id(session_id)
    if context is None:
        return header
    body = CONTEXT.to_pb(context).SerializeToString()
    return header + _CONTEXT + varint(len(body)) + body


def _facts_to_pb(task: Task, out: pb.Task) -> None:
    """Write the typed facts of a task, including those that the user has set in the metadata; see `take_facts`."""
    metadata = dict(stored_metadata(task))
    if metadata:
        context = task.given_context()
        task = replace(task, metadata={}, **take_facts(metadata, task.state))
        metadata.pop(CONTEXT_KEY, None)
    else:
        context = task.context
    out.session_id, out.cancel_reason = task.session_id or "", task.cancel_reason
    if context is not None:
        out.context.CopyFrom(CONTEXT.to_pb(context))
        out.cancel_reason = task.cancel_reason or context.cancel_reason or ""
        if context.canceled and task.state is not TaskState.CANCELED:
            metadata["canceled"] = (
                True  # the contract has no field for it, because the state of a canceled task is enough
            )
    if task.failure is not None:
        out.failure.CopyFrom(FAILURE.to_pb(task.failure))
    if task.usage is not None:
        out.usage.CopyFrom(USAGE.to_pb(task.usage))
    out.state_history.extend([STATE_CHANGE.to_pb(change) for change in task.state_history])
    if metadata:
        out.metadata_json = to_json(metadata)


def task_from_pb(task: pb.Task, field: str = "task") -> Task:
    """Convert a message to a task. A missing id or time is generated.

    Raises:
        InvalidArgumentError: Names the path below `field`.
    """
    out = submitted_task_from_pb(task, field)
    out.session_id = task.session_id or None
    if task.HasField("context"):
        context = context_from_pb(task.context, f"{field}.context")
        if out.state is TaskState.CANCELED:
            # The models have the cancellation in the context, too.
            context = replace(context, canceled=True, cancel_reason=task.cancel_reason or None)
        out.context = context
    return out


def submitted_task_from_pb(task: pb.Task, field: str) -> Task:
    """Convert a message to a task without session and context. Raises as `task_from_pb`."""
    return Task(
        id=task.id or new_task_id(),
        state=STATES.read(task.state) if task.state else TaskState.SUBMITTED,
        messages=MESSAGE.all_from_pb(task.messages, f"{field}.messages"),
        artifacts=ARTIFACT.all_from_pb(task.artifacts, f"{field}.artifacts"),
        metadata=json_object_from_pb(task.metadata_json, f"{field}.metadata_json"),
        flow_state=json_object_from_pb(task.flow_state_json, f"{field}.flow_state_json"),
        created_at=set_time(task, "create_time", field),
        failure=FAILURE.from_pb(task.failure, f"{field}.failure") if task.HasField("failure") else None,
        cancel_reason=task.cancel_reason,
        usage=USAGE.from_pb(task.usage, f"{field}.usage") if task.HasField("usage") else None,
        state_history=STATE_CHANGE.all_from_pb(task.state_history, f"{field}.state_history"),
    )


_FIELDS: Final = pb.Task.DESCRIPTOR.fields_by_name
_ID, _SESSION, _RUN, _AGENT, _CREATED, _UPDATED = (
    tag(_FIELDS[name].number) for name in ("id", "session_id", "run_id", "agent_name", "create_time", "update_time")
)
_CONTEXT, _METADATA = (tag(_FIELDS[name].number) for name in ("context", "metadata_json"))
_CONTEXT_RUN, _CONTEXT_SESSION, _CONTEXT_CHAIN, _CONTEXT_CREATED = (
    tag(RunContextPb.DESCRIPTOR.fields_by_name[name].number)
    for name in ("run_id", "session_id", "agent_chain", "create_time")
)
_STATE, _SEQUENCE, _MESSAGE_COUNT, _ARTIFACT_COUNT = (
    varint(_FIELDS[name].number << 3) for name in ("state", "sequence", "message_count", "artifact_count")
)
MESSAGES_TAG: Final = tag(_FIELDS["messages"].number)
ARTIFACTS_TAG: Final = tag(_FIELDS["artifacts"].number)
_OMITTED: Final = tag(_FIELDS["omitted"].number)
_FIRST_MESSAGE, _FIRST_ARTIFACT = (varint(_FIELDS[name].number << 3) for name in ("first_message", "first_artifact"))
HISTORY_TAG: Final = tag(_FIELDS["state_history"].number)
_OUTPUT: Final = tag(_FIELDS["output_id"].number)


def _encode_header(fold: TaskFold) -> bytes:
    """Encode the state of a task without messages, artifacts and history. By hand, because every response has it."""
    # Each text and time is encoded once, even if the context repeats it.
    created, agent = sized_time(fold.create_micros), sized_id(fold.agent_name)
    session_id, run_id = sized_id(fold.session_id), sized_id(fold.run_id)
    pieces = [
        _ID,
        sized_id(fold.task_id),
        _STATE,
        enum_varint(STATES[fold.state]),
        _CREATED,
        created,
        _UPDATED,
        sized_time(fold.update_micros),
        _SESSION,
        session_id,
        _RUN,
        run_id,
        _SEQUENCE,
        varint(fold.sequence),
        _AGENT,
        agent,
        _MESSAGE_COUNT,
        varint(len(fold.messages)),
        _ARTIFACT_COUNT,
        varint(len(fold.artifacts)),
    ]
    if fold.context is None and fold.run_id:
        # The context that the server generates if the caller sent none, as in `TaskFold.run_context`.
        context = (_CONTEXT_RUN, run_id, _CONTEXT_SESSION, session_id, _CONTEXT_CHAIN, agent, _CONTEXT_CREATED, created)
        pieces += (_CONTEXT, varint(sum(map(len, context))), *context)
    if fold.metadata or fold.flow_state or fold.context is not None or fold.failure or fold.cancel_reason or fold.usage:
        pieces.append(_rest_of_header(fold).SerializeToString())
    return b"".join(pieces)


def _rest_of_header(fold: TaskFold) -> pb.Task:
    out, context = pb.Task(), fold.run_context if fold.context is not None else None
    if fold.metadata:
        out.metadata_json = to_json(fold.metadata)
    if fold.flow_state:
        out.flow_state_json = to_json(fold.flow_state)
    if context is not None:
        out.context.CopyFrom(CONTEXT.to_pb(context))
    if fold.failure is not None:
        out.failure.CopyFrom(FAILURE.to_pb(fold.failure))
    out.cancel_reason = fold.cancel_reason
    if fold.usage is not None:
        out.usage.CopyFrom(USAGE.to_pb(fold.usage))
    return out


def fold_to_bytes(fold: TaskFold, view: "pb.TaskView.ValueType", window: Window = WHOLE) -> bytes:
    """Encode the task of a log in one view, small enough for one response: see `wire.answer_bounds`.

    Only what the view contains is encoded, and each message once.
    """
    header = _encode_header(fold)
    if len(header) > HEADER_BYTES:
        header = reduce_header(pb.Task.FromString(header)).SerializeToString()
    turn = view == pb.TASK_VIEW_TURN
    if not turn and view != pb.TASK_VIEW_FULL:
        return header
    encoded, artifacts = fold.encoded, fold.artifacts
    first, end = window.messages(fold.turn_message if turn else 0, len(encoded))
    for index in range(first, end):
        if encoded[index] is None:
            encoded[index] = encode_message(fold.messages[index])
    messages: Sequence[Any] = encoded[first:end]
    first_artifact, end_artifact = window.artifacts(fold.turn_artifact if turn else 0, len(artifacts))
    results = _encode_newest(artifacts[first_artifact:end_artifact]) if end_artifact else []
    omitted: list[str] = []
    if total_size(messages) + (total_size(results) if results else 0) > BODY_BYTES:
        messages, results, omitted = cut(messages, results, end, end_artifact)
    changes = fold.history[fold.turn_change :] if turn else fold.history
    if len(changes) > MAX_CHANGES:
        changes = changes[-MAX_CHANGES:]
        omitted.append("state_history")
    # protobuf merges concatenated messages: fields may be in pieces and in any order.
    pieces = [
        header,
        text_field(_OUTPUT, _output_id(fold, turn)),
        delimited(HISTORY_TAG, [_encode_change(*change[:3]) for change in changes]),
        delimited(MESSAGES_TAG, messages),
        delimited(ARTIFACTS_TAG, results) if results else b"",
        *(text_field(_OMITTED, path) for path in omitted),
    ]
    for key, start in ((_FIRST_MESSAGE, end - len(messages)), (_FIRST_ARTIFACT, end_artifact - len(results))):
        if start:
            pieces += (key, varint(start))
    return b"".join(pieces)


def _encode_newest(artifacts: Sequence[Artifact]) -> list[bytes]:
    """Encode artifacts, oldest first. If there are many, only the newest ones, until they exceed the size of a response."""
    found: list[bytes] = []
    size = 0
    for artifact in reversed(artifacts):
        found.append(encode_artifact(artifact))
        size += len(found[-1])
        if size > BODY_BYTES:
            break
    found.reverse()
    return found


def _output_id(fold: TaskFold, turn: bool) -> str:
    """Return the id of the message or artifact in the view that is the output; empty if there is none."""
    messages, artifacts = fold.messages, fold.artifacts
    since = (fold.turn_message, fold.turn_artifact) if turn else (0, 0)
    artifacts_first = len(artifacts) > since[1] and (
        len(messages) == since[0] or micros_from_iso(artifacts[-1].timestamp) >= micros_from_iso(messages[-1].timestamp)
    )
    found = find_output(messages, artifacts, artifacts_first=artifacts_first, since=since)
    return "" if found is None else found[0].id


def _encode_change(before: TaskState, after: TaskState, micros: int) -> bytes:
    return _change_states(before, after) + sized_time(micros)


@lru_cache(maxsize=64)
def _change_states(before: TaskState, after: TaskState) -> bytes:
    """Encode a StateChange up to the key of its time. All its fields have numbers below 16."""
    return b"".join((b"\x08", enum_varint(STATES[before]), b"\x10", enum_varint(STATES[after]), b"\x1a"))


def fold_to_pb(fold: TaskFold, view: "pb.TaskView.ValueType", window: Window = WHOLE) -> pb.Task:
    """Return the message of `fold_to_bytes`."""
    return pb.Task.FromString(fold_to_bytes(fold, view, window))


def encode_artifact(artifact: Artifact) -> bytes:
    """Encode an artifact. One that only has texts is encoded by hand, like a message."""
    optional = (artifact.name, artifact.uri, artifact.media_type, artifact.action_id)
    if artifact.metadata or any(value is not None for value in optional):
        return ARTIFACT.to_pb(artifact).SerializeToString()
    texts: list[bytes] = []
    for part in artifact.parts:
        content = part.content
        if part.type != "text" or type(content) is not str or part.metadata is not None or part.media_type:
            return ARTIFACT.to_pb(artifact).SerializeToString()
        try:
            raw = content.encode()
        except UnicodeEncodeError:
            return ARTIFACT.to_pb(artifact).SerializeToString()  # raises an error that names the field
        size = varint(len(raw))
        texts += (_ARTIFACT_PARTS, varint(len(raw) + len(size) + 1), _TEXT, size, raw)
    return b"".join(
        (
            text_field(_ARTIFACT_ID, artifact.id),
            *texts,
            _ARTIFACT_TIME,
            sized_time(micros_from_iso(artifact.timestamp)),
            text_field(_ARTIFACT_KIND, artifact.kind),
        )
    )


_ARTIFACT_FIELDS: Final = pb.Artifact.DESCRIPTOR.fields_by_name
_ARTIFACT_ID, _ARTIFACT_PARTS, _ARTIFACT_TIME, _ARTIFACT_KIND = (
    tag(_ARTIFACT_FIELDS[name].number) for name in ("id", "parts", "create_time", "kind")
)


def encode_message(message: Message) -> bytes:
    """Encode a message. Plain text, the most common content, is encoded by hand in a third of the time."""
    texts: list[bytes] = []
    if message.metadata:
        return MESSAGE.to_pb(message).SerializeToString()
    for part in message.parts:
        content = part.content
        if part.type != "text" or type(content) is not str or part.metadata is not None or part.media_type:
            return MESSAGE.to_pb(message).SerializeToString()
        try:
            raw = content.encode()
        except UnicodeEncodeError:
            return MESSAGE.to_pb(message).SerializeToString()  # raises an error that names the field
        size = varint(len(raw))
        texts += (_PARTS, varint(len(raw) + len(size) + 1), _TEXT, size, raw)
    role = ROLES.get(message.role)
    if role is None:
        return MESSAGE.to_pb(message).SerializeToString()
    time = sized_time(micros_from_iso(message.timestamp))
    return b"".join((text_field(_MESSAGE_ID, message.id), _ROLE, VARINTS[role], *texts, _TIME, time))


_MESSAGE_FIELDS: Final = pb.Message.DESCRIPTOR.fields_by_name
_MESSAGE_ID, _PARTS, _TIME = (tag(_MESSAGE_FIELDS[name].number) for name in ("id", "parts", "create_time"))
_ROLE: Final = varint(_MESSAGE_FIELDS["role"].number << 3)
_TEXT: Final = tag(1)
"""Key of Part.text. A part with an empty text has the field, too."""
