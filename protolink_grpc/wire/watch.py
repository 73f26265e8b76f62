"""Watch positions on the wire."""

from plgrpc.v1 import agent_service_pb2, watch_pb2

from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.wire.scalars import delimited, tag

_POSITION_TAG = tag(agent_service_pb2.SubscribeTaskResponse.DESCRIPTOR.fields_by_name["position"].number)


def position_to_pb(position: WatchPosition) -> watch_pb2.WatchPosition:
    return watch_pb2.WatchPosition(
        revision=position.revision, head=position.head, caught_up=position.caught_up, reset=position.reset
    )


def position_from_pb(pb: watch_pb2.WatchPosition) -> WatchPosition:
    return WatchPosition(pb.revision, pb.head, pb.caught_up, pb.reset)


def is_position(frame: bytes) -> bool:
    """Whether this is where the reader is, not an event of the log."""
    return frame.startswith(_POSITION_TAG)


def position_frame(position: WatchPosition) -> bytes:
    """A position as a piece of an encoded response, beside the frames of its events."""
    return delimited(_POSITION_TAG, (position_to_pb(position).SerializeToString(),))
