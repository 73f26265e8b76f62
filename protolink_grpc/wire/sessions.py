"""Converts and encodes sessions, turns and the events of a session's own log.

The encoded events of a session are *frames*, like those of a task: elements of `repeated SessionEvent session_events` of a
SessionSegment, so that stored events are joined into responses without being decoded.
"""

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from plgrpc.v1 import session_pb2 as pb
from plgrpc.v1 import session_service_pb2 as service_pb
from plgrpc.v1 import task_pb2

from protolink_grpc.models import session as values
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.session import Session, SessionEvent, SessionItem, SessionPayload, Thread, Turn, WhenBusy
from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.wire.compile import Codec, Special, enum_numbers
from protolink_grpc.wire.events import event_from_pb as run_event_from_pb
from protolink_grpc.wire.scalars import (
    bytes_field,
    json_object_from_pb,
    read_varint,
    sized_id,
    sized_time,
    tag,
    text_field,
    timestamp_from_pb,
    varint,
)
from protolink_grpc.wire.watch import POSITION

WHEN_BUSY: Final = enum_numbers(WhenBusy, pb.WhenBusy.DESCRIPTOR, field="when_busy")

# Before the codecs, which then read the number 0 as this value.
_TASK_STATES: Final = enum_numbers(TaskState, task_pb2.TaskState.DESCRIPTOR, unset=TaskState.UNKNOWN)

THREAD: Final = Codec(Thread, pb.Thread, created_at="create_time")
TURN: Final = Codec(Turn, pb.Turn, created_at="create_time", ended_at="end_time")
DELETED: Final = Codec(
    values.DeletedSession,
    service_pb.DeleteSessionResponse,
    states=Special(
        "states",
        lambda deleted: [service_pb.DeletedState(name=name, count=count) for name, count in deleted.states.items()],
        lambda response: {each.name: each.count for each in response.states},
    ),
)
RESUMPTION: Final = Codec(values.ThreadResumption, service_pb.ResumeThreadResponse)
SESSION: Final = Codec(Session, pb.Session, created_at="create_time", updated_at="update_time")

PAYLOADS: Final[dict[str, Codec[Any, Any]]] = {
    "created": Codec(values.SessionCreated, pb.SessionCreated),
    "updated": Codec(values.SessionUpdated, pb.SessionUpdated),
    "thread_started": Codec(values.ThreadStarted, pb.ThreadStarted),
    "turn_submitted": Codec(values.TurnSubmitted, pb.TurnSubmitted),
    "turn_promoted": Codec(values.TurnPromoted, pb.TurnPromoted),
    "turn_started": Codec(values.TurnStarted, pb.TurnStarted),
    "turn_ended": Codec(values.TurnEnded, pb.TurnEnded),
    "thread_rolled_back": Codec(values.ThreadRolledBack, pb.ThreadRolledBack),
    "turn_merged": Codec(values.TurnMerged, pb.TurnMerged),
}
"""The codec of each field of SessionEvent.payload."""
_EVENT: Final[Any] = pb.SessionEvent.DESCRIPTOR.fields_by_name
_EVENT_POSITION_TAG: Final = varint(_EVENT["position"].number << 3)
_EVENT_TIME_TAG: Final = tag(_EVENT["create_time"].number)
_ENCODERS: Final[dict[type, tuple[Codec[Any, Any], bytes]]] = {
    codec.cls: (codec, tag(_EVENT[name].number)) for name, codec in PAYLOADS.items()
}

_SEGMENT: Final[Any] = service_pb.SessionSegment.DESCRIPTOR.fields_by_name
_EVENT_TAG: Final = tag(_SEGMENT["session_events"].number)
_TASK_TAG: Final = tag(_SEGMENT["task_id"].number)
_POSITION_TAG: Final = varint(_SEGMENT["first_position"].number << 3)
_RESPONSE: Final[Any] = service_pb.SubscribeSessionResponse.DESCRIPTOR.fields_by_name
_SEGMENTS_TAG: Final = tag(_RESPONSE["segments"].number)
_READER_TAG: Final = tag(_RESPONSE["position"].number)


def encode_event(payload: SessionPayload, position: int, micros: int) -> bytes:
    """Encode one event as a frame."""
    kind = type(payload)
    if kind is values.TurnSubmitted:
        body = _encode_submitted(payload)  # type: ignore[arg-type]  # narrowed by the class itself, the fastest test
    elif kind is values.TurnEnded:
        body = _encode_ended(payload)  # type: ignore[arg-type]  # as above
    else:
        body = _ENCODERS[kind][0].to_pb(payload).SerializeToString()
    event = b"".join(
        (
            _EVENT_POSITION_TAG,
            varint(position),
            _EVENT_TIME_TAG,
            sized_time(micros),
            bytes_field(_ENCODERS[kind][1], body),
        )
    )
    return bytes_field(_EVENT_TAG, event)


# Each turn has these two events, and a codec takes four times as long.


def _encode_submitted(turn: values.TurnSubmitted) -> bytes:
    turn_tag, thread_tag, task_tag, after_tag, queued_tag, busy_tag, first_tag = _SUBMITTED_TAGS
    found = [turn_tag, sized_id(turn.turn_id), thread_tag, sized_id(turn.thread_id), task_tag, sized_id(turn.task_id)]
    if turn.after_sequence:
        found += (after_tag, varint(turn.after_sequence))
    if turn.queued:
        found += (queued_tag, _TRUE)
    if number := WHEN_BUSY[turn.when_busy]:
        found += (busy_tag, varint(number))
    if turn.first:
        found += (first_tag, _TRUE)
    return b"".join(found)


def _encode_ended(turn: values.TurnEnded) -> bytes:
    turn_tag, result_tag, reason_tag = _ENDED_TAGS
    number = _TASK_STATES[turn.result]
    result = result_tag + varint(number) if number else b""
    return b"".join((turn_tag, sized_id(turn.turn_id), result, text_field(reason_tag, turn.reason)))


def _keys(message: Any) -> tuple[bytes, ...]:
    """Return the keys of the fields of a message without repeated fields, in the order of their numbers."""
    is_text = FieldDescriptor.TYPE_STRING
    fields = sorted(message.DESCRIPTOR.fields, key=lambda field: field.number)
    return tuple(tag(each.number) if each.type == is_text else varint(each.number << 3) for each in fields)


_SUBMITTED_TAGS: Final = _keys(pb.TurnSubmitted)
_ENDED_TAGS: Final = _keys(pb.TurnEnded)
_TRUE: Final = b"\x01"


def event_from_pb(event: pb.SessionEvent) -> SessionEvent:
    """Convert an event. Raises InvalidArgumentError for a time that does not exist."""
    name = event.WhichOneof("payload")
    payload = None if name is None else PAYLOADS[name].from_pb(getattr(event, name), name)
    return SessionEvent(event.position, timestamp_from_pb(event.create_time, "create_time"), payload)


def events_from_frames(frames: bytes) -> list[SessionEvent]:
    """Convert consecutive frames of a session's events."""
    return [event_from_pb(each) for each in service_pb.SessionSegment.FromString(frames).session_events]


def items_from_pb(response: service_pb.SubscribeSessionResponse) -> list[SessionItem]:
    """Return the events of a response with their positions."""
    found: list[SessionItem] = []
    for segment in response.segments:
        events: list[SessionEvent | RunEvent] = [event_from_pb(each) for each in segment.session_events]
        events += [run_event_from_pb(each) for each in segment.events]
        found += [SessionItem(position, each) for position, each in enumerate(events, segment.first_position)]
    return found


def items_from_bytes(response: bytes) -> list[SessionItem]:
    """Return the events of an encoded SubscribeSessionResponse with their positions."""
    return items_from_pb(service_pb.SubscribeSessionResponse.FromString(response))


def read_response(response: bytes) -> tuple[list[SessionItem], bool]:
    """Return the events of an encoded SubscribeSessionResponse, and whether its reader has caught up: see WatchPosition."""
    decoded = service_pb.SubscribeSessionResponse.FromString(response)
    return items_from_pb(decoded), decoded.position.caught_up


def runtime_event_to_pb(record: dict[str, Any]) -> service_pb.RuntimeEvent:
    """Convert an event of the Agent Runtime contract, in its JSON form."""
    event = service_pb.RuntimeEvent(event_json=to_json(record))
    for field, key in _RUNTIME_FIELDS:
        if (value := record.get(key)) is not None:
            setattr(event, field, value)
    event.timestamp.FromMicroseconds(micros_from_iso(record["timestamp"]))
    return event


_RUNTIME_FIELDS: Final = tuple(
    (field.name, field.json_name)
    for field in service_pb.RuntimeEvent.DESCRIPTOR.fields
    if field.name not in {"timestamp", "event_json"}
)
"""The fields of RuntimeEvent with a value of the record, each with its key."""


def runtime_event_from_pb(event: service_pb.RuntimeEvent) -> dict[str, Any]:
    """Return the JSON form of an event of the Agent Runtime contract. Raises InvalidArgumentError for another JSON value."""
    return json_object_from_pb(event.event_json, "event_json")


def split_frames(frames: bytes) -> list[bytes]:
    """Split consecutive frames of a session's events."""
    found: list[bytes] = []
    at = 0
    while at < len(frames):
        size, start = read_varint(frames, at + len(_EVENT_TAG), len(frames))
        found.append(frames[at : start + size])
        at = start + size
    return found


def encode_segment(first_position: int, frames: Iterable[bytes], task_id: str = "") -> bytes:
    """Encode a SessionSegment with encoded events, as an element of SubscribeSessionResponse.segments."""
    pieces = [*frames, _POSITION_TAG, varint(first_position)]
    if task_id:
        pieces.append(bytes_field(_TASK_TAG, task_id.encode()))
    return bytes_field(_SEGMENTS_TAG, b"".join(pieces))


def position_field(position: WatchPosition) -> bytes:
    """Encode the position of a SubscribeSessionResponse, to be joined with its segments."""
    return bytes_field(_READER_TAG, POSITION.to_pb(position).SerializeToString())


def time_of(micros: int) -> str | None:
    """Return the time as text; None for 0."""
    return iso_from_micros(micros) if micros else None
