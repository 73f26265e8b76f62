"""Converts descriptions of tools between the models and `plgrpc`."""

from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from plgrpc.v1 import tool_pb2 as pb

from protolink_grpc.models.reader import MAX_SECONDS
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.wire.compile import Codec, Special
from protolink_grpc.wire.scalars import micros_to_duration


def _write_timeout(tool: ToolDescription) -> Duration | None:
    if tool.timeout_s is None or tool.timeout_s > MAX_SECONDS:  # beyond that, it bounds nothing
        return None
    return micros_to_duration(max(1, round(tool.timeout_s * 1_000_000)))


TOOL: Final[Codec[ToolDescription, Any]] = Codec(ToolDescription, pb.Tool, timeout_s=Special("timeout", _write_timeout))
