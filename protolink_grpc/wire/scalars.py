"""Times and JSON texts between the models and protobuf."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso, utc_now
from protolink_grpc.models.json_value import from_json, to_json

LAST_SECOND = 253_402_300_799
FIRST_SECOND = -62_135_596_800
"""The years 1 to 9999. Source: google.protobuf.Timestamp."""


def timestamp_to_pb(iso: str) -> Timestamp:
    """Microseconds survive; smaller digits do not exist in the models."""
    return micros_to_pb(micros_from_iso(iso))


def micros_to_pb(micros: int) -> Timestamp:
    seconds, rest = divmod(micros, 1_000_000)
    return Timestamp(seconds=seconds, nanos=rest * 1000)


def timestamp_from_pb(pb: Timestamp, field: str) -> str:
    """ISO 8601 UTC; digits below a microsecond are cut off.

    Raises:
        InvalidArgumentError: Outside the years 1 to 9999; names `field`.
    """
    return iso_from_micros(micros_from_pb(pb, field))


def micros_from_pb(pb: Timestamp, field: str) -> int:
    if not FIRST_SECOND <= pb.seconds <= LAST_SECOND or not 0 <= pb.nanos < 1_000_000_000:
        raise InvalidArgumentError("is not a valid time", field=field)
    return pb.seconds * 1_000_000 + pb.nanos // 1000


def set_time(pb: Timestamp, field: str) -> str:
    """The time, or now where the sender left it out."""
    return timestamp_from_pb(pb, field) if pb.seconds or pb.nanos else utc_now()


def json_object_to_pb(value: dict[str, Any] | None) -> str:
    """JSON text, empty for an empty object."""
    return to_json(value) if value else ""


def json_object_from_pb(text: str, field: str) -> dict[str, Any]:
    """The object, empty for empty text.

    Raises:
        InvalidArgumentError: Not JSON, too deep, or not an object; names `field`.
    """
    if not text:
        return {}
    value = from_json(text, field=field)
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be a JSON object", field=field)
    return value
