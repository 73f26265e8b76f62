"""Encodes whole events as protobuf messages, for tests. The package itself encodes frames only."""

from plgrpc.v1 import event_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import events as ev
from protolink_grpc.wire.events import EventEncoder, encode_envelope, unframe


def event_to_pb(event: ev.RunEvent, micros: int) -> pb.RunEvent:
    """Convert an event to a message; `micros` is the time of `event.timestamp` in microseconds since the epoch."""
    if isinstance(event.payload, ev.TextDelta):
        raise InvalidArgumentError("a delta is no event of the log", field="payload")
    encoder = EventEncoder(
        task_id=event.task_id, run_id=event.run_id, session_id=event.session_id, agent_name=event.agent_name
    )
    frame = encoder.frame(
        event.payload if event.payload is not None else {},
        event.sequence or 0,
        micros,
        type=event.type,
        final=event.final,
        envelope=encode_envelope(event),
    )
    out = unframe(frame)
    if event.payload is None:
        out.ClearField("custom")
    return out
