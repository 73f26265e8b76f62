"""Converts export formats between the models and `plgrpc`, and reads the lines of an export."""

from typing import Final

from plgrpc.v1 import control_service_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError

NDJSON: Final = "application/x-ndjson"
"""The media type of JSON lines."""

_FORMATS: Final[dict[str, "pb.ExportFormat.ValueType"]] = {
    "protolink": pb.EXPORT_FORMAT_PROTOLINK,
    "agentruntime": pb.EXPORT_FORMAT_AGENTRUNTIME,
}
_NAMES: Final[dict[int, str]] = {number: name for name, number in _FORMATS.items()}


def export_format_to_pb(name: str) -> "pb.ExportFormat.ValueType":
    """Convert a format. Raises InvalidArgumentError if the format does not exist."""
    number = _FORMATS.get(name or "protolink")
    if number is None:
        raise InvalidArgumentError(f"must be one of {', '.join(_FORMATS)}", field="format")
    return number


def export_format_from_pb(number: int) -> str:
    """Convert a format. Raises InvalidArgumentError if this version does not support it."""
    name = _NAMES.get(number or pb.EXPORT_FORMAT_PROTOLINK)
    if name is None:
        raise InvalidArgumentError(f"{number} is not known; must be one of {', '.join(_FORMATS)}", field="format")
    return name


def lines_from_pb(response: pb.ExportTaskResponse) -> tuple[str, ...]:
    """Return the lines of a chunk, which ends with a line end. JSON escapes `\\n` but not all Unicode line ends."""
    return tuple(response.data.decode().split("\n")[:-1])
