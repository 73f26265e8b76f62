"""Converts and encodes the positions of watches."""

from typing import Final

from plgrpc.v1 import agent_service_pb2, watch_pb2

from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.wire.compile import Codec
from protolink_grpc.wire.scalars import bytes_field, tag

POSITION: Final = Codec(WatchPosition, watch_pb2.WatchPosition)

_POSITION_TAG = tag(agent_service_pb2.SubscribeTaskResponse.DESCRIPTOR.fields_by_name["position"].number)


def is_position(frame: bytes) -> bool:
    """Whether this is the position of a reader, not an event of the log."""
    return frame.startswith(_POSITION_TAG)


def position_frame(position: WatchPosition) -> bytes:
    """Encode a position as a piece of a response, like the frames of its events."""
    return bytes_field(_POSITION_TAG, POSITION.to_pb(position).SerializeToString())
