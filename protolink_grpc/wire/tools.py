"""Descriptions of tools between the models and `plgrpc`."""

from typing import Final

from plgrpc.v1 import tool_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.wire.permissions import EFFECTS
from protolink_grpc.wire.scalars import json_object_from_pb, json_object_to_pb

MAX_DURATION_S: Final = 315_576_000_000
"""Source: google.protobuf.Duration."""


def tool_to_pb(tool: ToolDescription) -> pb2.Tool:
    """Raises TypeError or InvalidArgumentError: a schema has no JSON form."""
    out = pb2.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema_json=json_object_to_pb(tool.input_schema),
        output_schema_json=json_object_to_pb(tool.output_schema),
        request_type=tool.request_type,
        response_type=tool.response_type,
        read_only=tool.read_only,
        idempotent=tool.idempotent,
        destructive=tool.destructive,
        streaming=tool.streaming,
        capabilities=tool.capabilities,
        tags=tool.tags,
    )
    if tool.effect is not None:
        out.effect = EFFECTS[tool.effect]
    if tool.timeout_s is not None and tool.timeout_s <= MAX_DURATION_S:  # beyond that, it bounds nothing
        out.timeout.FromMicroseconds(max(1, round(tool.timeout_s * 1_000_000)))
    return out


def tool_from_pb(tool: pb2.Tool, field: str = "tool") -> ToolDescription:
    """Raises InvalidArgumentError: there is no name, or a schema is not a JSON object; names the path below `field`."""
    if not tool.name:
        raise InvalidArgumentError("must not be empty", field=f"{field}.name")
    timeout = tool.timeout
    return ToolDescription(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=json_object_from_pb(tool.input_schema_json, f"{field}.input_schema_json"),
        output_schema=json_object_from_pb(tool.output_schema_json, f"{field}.output_schema_json"),
        request_type=tool.request_type,
        response_type=tool.response_type,
        read_only=tool.read_only,
        idempotent=tool.idempotent,
        destructive=tool.destructive,
        streaming=tool.streaming,
        capabilities=tuple(tool.capabilities),
        effect=EFFECTS.read(tool.effect) if tool.effect else None,
        timeout_s=(timeout.seconds * 1_000_000 + timeout.nanos // 1000) / 1_000_000
        if tool.HasField("timeout")
        else None,
        tags=tuple(tool.tags),
    )
