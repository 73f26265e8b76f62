"""Encodes run events: each is encoded once when it is appended; the store and all readers share the bytes.

An event on disk and inside a stream is a *frame*: the tag of field 1, its length, and the encoded RunEvent, exactly what one
element of `repeated RunEvent events = 1` looks like. Concatenated frames are the body of a SubscribeTaskResponse. A response can
also contain delta frames, elements of `repeated Delta deltas = 2`: these are made when they are sent, and never stored.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from google.protobuf.message import DecodeError
from plgrpc.v1 import event_pb2 as pb
from plgrpc.v1 import task_pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import events as ev
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.summaries import MAX_SUMMARY, summary_of
from protolink_grpc.models.task import Task
from protolink_grpc.wire.payloads import FIELDS, check_understood, payload_from_pb, payload_to_pb
from protolink_grpc.wire.scalars import (
    VARINTS,
    delimited,
    json_object_from_pb,
    json_object_to_pb,
    micros_from_pb,
    sized_id,
    sized_time,
    tag,
    text_field,
    varint,
)
from protolink_grpc.wire.tasks import MESSAGES_TAG, encode_artifact, encode_message, encode_task_header

SEVERITIES: Final[dict[ev.Severity, Any]] = {
    "info": pb.SEVERITY_INFO,
    "warning": pb.SEVERITY_WARNING,
    "error": pb.SEVERITY_ERROR,
}
_SEVERITIES_FROM_PB: Final[dict[int, ev.Severity]] = {value: name for name, value in SEVERITIES.items()}

_NUMBERS: Final = pb.RunEvent.DESCRIPTOR.fields_by_name


def _tag(name: str) -> bytes:
    return tag(_NUMBERS[name].number)


_PAYLOAD_TAGS: Final = {kind: _tag(name) for kind, name in FIELDS.items()}
_CUSTOM_TAG: Final = _PAYLOAD_TAGS[dict]
_TASK_TAG, _RUN_TAG, _SESSION_TAG, _AGENT_TAG = map(_tag, ("task_id", "run_id", "session_id", "agent_name"))
_TYPE_TAG: Final = _tag("event_type")
_SUMMARY_TAG: Final = _tag("summary")
_TIME_TAG: Final = _tag("create_time")
_ACTION_TAG: Final = _tag("action_id")
_METADATA_TAG: Final = _tag("metadata_json")
_SEVERITY_FIELDS: Final = {
    name: b"" if name == "info" else pb.RunEvent(severity=number).SerializeToString()
    for name, number in SEVERITIES.items()
}
"""The encoded field of each severity; the usual one is left out."""
_SEQUENCE_TAG: Final = varint(_NUMBERS["sequence"].number << 3)
_FRAME_TAG: Final = tag(1)
_DELTA_TAG: Final = tag(2)
_TYPE_FIELDS: Final = {
    name: _TYPE_TAG + varint(len(name)) + name.encode() for name in (*ev.TYPES.values(), *ev.OUTCOME_TYPES)
}
_FINAL: Final = pb.RunEvent(last=True).SerializeToString()
_MUST_UNDERSTAND: Final = pb.RunEvent(must_understand=True).SerializeToString()


class EventEncoder:
    """Encodes the events of one run. The envelope's constant part is made once; the rest costs a few string operations.

    protobuf allows fields in any order and merges concatenated messages, so the pieces are only joined.
    """

    __slots__ = ("_constant", "_micros", "_time")

    def __init__(self, task_id: str, run_id: str, session_id: str, agent_name: str) -> None:
        run = _RUN_TAG + sized_id(run_id) if run_id else b""
        self._constant = b"".join(
            (
                _TASK_TAG,
                sized_id(task_id),
                run,
                _SESSION_TAG,
                sized_id(session_id),
                _AGENT_TAG,
                sized_id(agent_name),
                _SEQUENCE_TAG,
            )
        )
        self._micros: int | None = None
        self._time = b""

    def frame(
        self,
        payload: ev.Payload | dict[str, Any],
        sequence: int,
        micros: int,
        *,
        type: str = "",  # noqa: A002 -- the field's name
        final: bool = False,
        envelope: bytes = b"",
        has_summary: bool = False,
    ) -> bytes:
        """Encode one event as a frame.

        Args:
            micros: Time of the append, microseconds since the epoch.
            type: Empty means the type that follows from the payload.
            envelope: Further encoded envelope fields, see `encode_envelope`.
            has_summary: The envelope has a summary. Otherwise one is made here.

        Raises:
            InvalidArgumentError: A value that the contract does not allow, or a type that contradicts the payload; names the field.
        """
        if micros != self._micros:
            # All events of one append have the same time.
            self._micros, self._time = micros, _TIME_TAG + sized_time(micros)
        if payload.__class__ is ev.TaskProgress and not type and not final:
            summary, tail = _progress_tail(payload)
        elif payload.__class__ is ev.TaskStatusChanged and not type and _is_common(payload):
            summary, tail = _status_tail(*_status_key(payload), final)
        else:
            summary, tail = b"" if has_summary else _summary(payload), _tail(payload, type, final)
        # The last occurrence of a field wins: a summary in the envelope replaces one made here.
        position = VARINTS[sequence] if sequence < 2048 else varint(sequence)
        event = b"".join((self._constant, position, self._time, summary, envelope, tail))
        size = len(event)
        return _FRAME_TAG + (VARINTS[size] if size < 2048 else varint(size)) + event


def _summary(payload: ev.Payload | dict[str, Any]) -> bytes:
    """Encode the summary. The ones of the events that nearly every turn has are encoded once."""
    if payload.__class__ is ev.TaskSubmitted:
        return _TASK_SUBMITTED
    if payload.__class__ is ev.TaskMessagesAdded and len(payload.messages) == 1:
        return _MESSAGE_ADDED
    return text_field(_SUMMARY_TAG, summary_of(payload))


_TASK_SUBMITTED: Final = text_field(_SUMMARY_TAG, summary_of(ev.TaskSubmitted(Task())))
_MESSAGE_ADDED: Final = text_field(_SUMMARY_TAG, summary_of(ev.TaskMessagesAdded((Message(),))))


def _tail(payload: ev.Payload | dict[str, Any], kind: str, final: bool) -> bytes:
    """Encode the fields that depend neither on the run nor on the position in the log: type, final, payload."""
    if kind:
        ev.check_type(kind, payload)
    body = encode_payload(payload)
    size = len(body)
    length = VARINTS[size] if size < 2048 else varint(size)
    if not (kind or final) and (head := _HEADS.get(payload.__class__)) is not None:
        return b"".join((head, length, body))
    name = kind or ev.type_of(payload)
    return b"".join(
        (
            _TYPE_FIELDS.get(name) or text_field(_TYPE_TAG, name),
            _FINAL if final else b"",
            _MUST_UNDERSTAND if payload.__class__ in ev.MUST_UNDERSTAND else b"",
            _PAYLOAD_TAGS.get(payload.__class__, _CUSTOM_TAG),
            length,
            body,
        )
    )


_HEADS: Final = {
    kind: _TYPE_FIELDS[name] + _PAYLOAD_TAGS[kind]
    for kind, name in ev.TYPES.items()
    if kind in _PAYLOAD_TAGS and kind not in ev.MUST_UNDERSTAND
}
"""Encoded type and payload key of each class of payloads that has one event type."""

MAX_SHARED_REASON: Final = 80
"""Maximum length, in characters, of a cancellation's reason for which the encoded status is cached."""


def _is_common(payload: ev.TaskStatusChanged) -> bool:
    return (
        payload.usage is None
        and payload.context is None
        and payload.failure is None
        and len(payload.cancel_reason) <= MAX_SHARED_REASON
    )


def _status_key(payload: ev.TaskStatusChanged) -> tuple[TaskState, TaskState, str, int, str, ev.Worker | None]:
    return (
        payload.previous_state,
        payload.new_state,
        payload.cancel_reason,
        payload.attempt,
        payload.cause,
        payload.worker,
    )


# Nearly all status events of an agent are the same few; 512 of them take some 50 KiB.
@lru_cache(maxsize=512)
def _status_tail(  # noqa: PLR0917 -- the key of a cache
    previous: TaskState, new: TaskState, reason: str, attempt: int, cause: str, worker: ev.Worker | None, final: bool
) -> tuple[bytes, bytes]:
    """Return the encoded summary and the result of `_tail`."""
    payload = ev.TaskStatusChanged(previous, new, None, reason, attempt, cause, worker=worker)
    return text_field(_SUMMARY_TAG, summary_of(payload)), _tail(payload, "", final)


def _progress_tail(progress: ev.TaskProgress) -> tuple[bytes, bytes]:
    """Return the encoded summary and the result of `_tail`, in one step because handlers report progress by the thousands.

    The message is encoded once for both, unless it must be shortened for the summary.
    """
    text, percent = progress.message, progress.progress
    raw = text.encode()
    size = len(raw)
    field = (VARINTS[size] if size < 2048 else varint(size)) + raw
    if raw and len(text) <= MAX_SUMMARY and text.isprintable():
        summary = _SUMMARY_TAG + field
    else:
        summary = text_field(_SUMMARY_TAG, summary_of(progress))
    body = b"" if percent is None else _PERCENT.pack(_PERCENT_KEY, percent)
    if raw:
        body += _MESSAGE_TAG + field
    size = len(body)
    return summary, _PROGRESS_HEAD + (VARINTS[size] if size < 2048 else varint(size)) + body


_PERCENT: Final = struct.Struct("<Bd")
_PERCENT_KEY: Final = pb.TaskProgress.DESCRIPTOR.fields_by_name["progress"].number << 3 | 1  # 64 bits follow
_MESSAGE_TAG: Final = tag(pb.TaskProgress.DESCRIPTOR.fields_by_name["message"].number)
_PROGRESS_HEAD: Final = _TYPE_FIELDS[ev.TYPES[ev.TaskProgress]] + _PAYLOAD_TAGS[ev.TaskProgress]


def encode_envelope(event: ev.RunEvent) -> bytes:
    """Encode the optional envelope fields of an event: action, severity, summary, metadata."""
    action = _ACTION_TAG + sized_id(event.action_id) if event.action_id else b""
    envelope = action + _SEVERITY_FIELDS[event.severity] + text_field(_SUMMARY_TAG, event.summary)
    return envelope + text_field(_METADATA_TAG, json_object_to_pb(event.metadata)) if event.metadata else envelope


def unframe(frame: bytes) -> pb.RunEvent:
    """Decode the event of one frame.

    Raises:
        google.protobuf.message.DecodeError: Not a frame.
    """
    return pb.RunEvent.FromString(_body(frame))


def _body(frame: bytes) -> bytes:
    at = 1
    try:
        while frame[at] & 0x80:
            at += 1
    except IndexError:
        raise DecodeError("not a frame") from None
    return frame[at + 1 :]


def frame_event(event: pb.RunEvent) -> bytes:
    """Return the frame of an event that is already a message."""
    encoded = event.SerializeToString()
    return _FRAME_TAG + varint(len(encoded)) + encoded


def delta_frame(task_id: str, delta: ev.TextDelta) -> bytes:
    """Encode one delta as a frame."""
    encoded = pb.Delta(
        task_id=task_id, run_id=delta.run_id, call_id=delta.call_id, offset_bytes=delta.offset, text=delta.text
    ).SerializeToString()
    return _DELTA_TAG + varint(len(encoded)) + encoded


def is_delta(frame: bytes) -> bool:
    """Whether this is a delta (live text), not an event of the log."""
    return frame.startswith(_DELTA_TAG)


def delta_from_frame(frame: bytes) -> ev.RunEvent:
    """Decode the delta of one frame, as `delta_from_pb`.

    Raises:
        google.protobuf.message.DecodeError: Not a frame.
    """
    return delta_from_pb(pb.Delta.FromString(_body(frame)))


def delta_from_pb(delta: pb.Delta) -> ev.RunEvent:
    """Convert a delta to an event without a sequence, because it is not part of the log.

    Raises:
        InvalidArgumentError: The offset is negative.
    """
    if delta.offset_bytes < 0:
        raise InvalidArgumentError("must not be negative", field="offset_bytes")
    payload = None  # the kind is unknown to this version
    if delta.WhichOneof("piece") == "text":
        payload = ev.TextDelta(delta.call_id, delta.offset_bytes, delta.text, delta.run_id)
    return ev.RunEvent(ev.TYPES[ev.LlmStep], payload, task_id=delta.task_id, run_id=delta.run_id)


def replay(fold: TaskFold, frames: Iterable[bytes]) -> None:
    """Apply stored events, in order, to a fold that ends just before the first of them.

    Raises:
        InvalidArgumentError: There is a gap, or an invalid event: the log is damaged.
        LogTooNewError: An event of an unknown kind that must not be ignored.
    """
    for frame in frames:
        event = unframe(frame)
        if event.sequence != fold.sequence + 1:
            raise InvalidArgumentError(f"{event.sequence} does not follow {fold.sequence}", field="sequence")
        if event.sequence == 1:
            fold.agent_name = event.agent_name
        payload = payload_from_pb(event)
        if payload is None:
            check_understood(event)
        micros = micros_from_pb(event.create_time, "create_time")
        fold.apply(payload, event.sequence, micros, event.run_id, event.action_id)


def encode_payload(payload: ev.Payload | dict[str, Any]) -> bytes:
    """Encode the payload field. Encoded messages are cached with the payload, for later folds."""
    kind = payload.__class__
    if kind is ev.TaskMessagesAdded:
        # Narrowed by the class itself, the fastest test there is; the checker does not follow it.
        return _encode_messages_added(payload)  # type: ignore[arg-type]  # see above
    if kind is ev.TaskSubmitted:
        return _encode_submitted(payload)  # type: ignore[arg-type]  # as above
    if kind is ev.TaskArtifactUpdated and not payload.append and not payload.last_chunk:  # type: ignore[union-attr]  # see above
        raw = encode_artifact(payload.artifact)  # type: ignore[union-attr]  # see above
        return b"".join((_ARTIFACT_TAG, varint(len(raw)), raw))
    encoded: bytes = payload_to_pb(payload).SerializeToString()
    return encoded


def _encode_messages_added(payload: ev.TaskMessagesAdded) -> bytes:
    if len(payload.encoded) != len(payload.messages):
        payload.encoded = tuple([encode_message(message) for message in payload.messages])
    body = delimited(_FRAME_TAG, payload.encoded)
    return (
        body + pb.TaskMessagesAdded(request_id=payload.request_id).SerializeToString() if payload.request_id else body
    )


def _encode_submitted(payload: ev.TaskSubmitted) -> bytes:
    messages = payload.task.messages
    if len(payload.encoded) != len(messages):
        payload.encoded = tuple([encode_message(message) for message in messages])
    task = encode_task_header(payload.task, payload.session_id, payload.context) + delimited(
        MESSAGES_TAG, payload.encoded
    )
    owner = _PRINCIPAL_TAG + sized_id(payload.principal) if payload.principal else b""
    owner += text_field(_REQUEST_TAG, payload.request_id) + text_field(_THREAD_TAG, payload.thread_id)
    if payload.draft:
        owner += _DRAFT
    if payload.runtime_id:
        owner += _RUNTIME_TAG + sized_id(payload.runtime_id)
    return b"".join((_FRAME_TAG, varint(len(task)), task, owner))


_DRAFT: Final = pb.TaskSubmitted(draft=True).SerializeToString()
_PRINCIPAL_TAG, _REQUEST_TAG, _THREAD_TAG, _RUNTIME_TAG = (
    tag(pb.TaskSubmitted.DESCRIPTOR.fields_by_name[name].number)
    for name in ("principal", "request_id", "thread_id", "runtime_id")
)


def event_from_pb(event: pb.RunEvent) -> ev.RunEvent:
    """Convert a message to an event; `payload` is None for an unknown payload kind.

    Raises:
        InvalidArgumentError: Names the path.
    """
    if event.sequence < 0:
        raise InvalidArgumentError("must not be negative", field="sequence")
    payload = payload_from_pb(event)
    return ev.RunEvent(
        type=event.event_type or ("unknown" if payload is None else ev.type_of(payload)),
        payload=payload,
        task_id=event.task_id,
        sequence=event.sequence or None,
        run_id=event.run_id,
        session_id=event.session_id,
        agent_name=event.agent_name,
        timestamp=iso_from_micros(micros_from_pb(event.create_time, "create_time")),
        severity=_SEVERITIES_FROM_PB.get(event.severity, "info"),
        summary=event.summary,
        final=event.last,
        action_id=event.action_id,
        metadata=json_object_from_pb(event.metadata_json, "metadata_json"),
    )


def event_from_frame(frame: bytes) -> ev.RunEvent:
    return event_from_pb(unframe(frame))


def events_of_kinds(frames: Iterable[bytes], *kinds: type) -> Iterator[ev.RunEvent]:
    """Yield the events whose payload is of one of these classes. Most of the others are not decoded."""
    tags = [_PAYLOAD_TAGS[kind] for kind in kinds]
    for frame in frames:
        if any(each in frame for each in tags):
            event = event_from_frame(frame)
            if isinstance(event.payload, kinds):
                yield event


_BEGIN_TAG: Final = _PAYLOAD_TAGS[ev.LlmCallStarted]
_END_TAG: Final = _PAYLOAD_TAGS[ev.LlmCallCompleted]


def turn_of_call(frame: bytes) -> tuple[str, int] | None:
    """Return call and sequence of an event that starts, restarts or completes a model call; None for all others."""
    # Two bytes that most frames do not contain avoid the decoding; a frame with them by chance costs one microsecond more.
    if _BEGIN_TAG not in frame and _END_TAG not in frame:
        return None
    event = unframe(frame)
    match event.WhichOneof("payload"):
        case "llm_call_started":
            return event.llm_call_started.call_id, event.sequence
        case "llm_call_completed":
            return event.llm_call_completed.call_id, event.sequence
        case _:
            return None


_ASK_TAG: Final = _PAYLOAD_TAGS[ev.ApprovalRequired]


def requested_approval_id(frame: bytes) -> str:
    """Return the id of the approval that an event requests; empty for all other events."""
    if _ASK_TAG not in frame:
        return ""  # as in `turn_of_call`
    event = unframe(frame)
    return event.approval_required.approval_id if event.WhichOneof("payload") == "approval_required" else ""


_RETRIED_TAG: Final = _PAYLOAD_TAGS[ev.TaskRetried]


def is_retry(frame: bytes) -> bool:
    """Return whether an event begins a retry of its task."""
    return _RETRIED_TAG in frame and unframe(frame).WhichOneof("payload") == "task_retried"  # as in `turn_of_call`


def sequence_of(frame: bytes) -> int:
    """Return the position of an event in its log."""
    return unframe(frame).sequence


def is_final(frame: bytes) -> bool:
    """Whether the task ends with this event. A retry may follow it."""
    return unframe(frame).last


_RETRIED: Final = ev.TYPES[ev.TaskRetried].encode()
_STATUS: Final = ev.TYPES[ev.TaskStatusChanged].encode()
_IS_FINAL: Final = varint(_NUMBERS["last"].number << 3) + b"\x01"
_ARTIFACT_TAG: Final = tag(pb.TaskArtifactUpdated.DESCRIPTOR.fields_by_name["artifact"].number)


def settles(frame: bytes) -> bool:
    """Whether the task ends with this event, or starts to wait for input or an approval."""
    if _STATUS not in frame and _IS_FINAL not in frame:
        return False  # most events have neither field and need no parsing
    event = unframe(frame)
    return event.last or (
        event.WhichOneof("payload") == "task_status"
        and event.task_status.new_state in (task_pb2.TASK_STATE_INPUT_REQUIRED, task_pb2.TASK_STATE_AUTH_REQUIRED)
    )


def find_final(frames: Sequence[bytes], start: int = 0) -> int | None:
    """Return the index of the first event, from index `start` on, with which the task ends; None if there is none."""
    if start >= len(frames):
        return None
    if _RETRIED not in b"".join(frames[start:]):  # only a retry follows the end of a task
        return len(frames) - 1 if is_final(frames[-1]) else None
    return next((index for index in range(start, len(frames)) if is_final(frames[index])), None)


def find_settling(frames: Sequence[bytes]) -> int | None:
    """Return the index of the first event that `settles` the task; None if none does."""
    together = b"".join(frames)
    if _STATUS not in together and _IS_FINAL not in together:
        return None  # one search, because most batches of a long log have no such event
    return next((index for index, frame in enumerate(frames) if settles(frame)), None)
