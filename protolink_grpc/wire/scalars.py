"""Basic conversions between the models and protobuf: times, JSON texts, and numbers of the wire format."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso, utc_now
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.open_enum import unrecognized, unrecognized_number
from protolink_grpc.models.reader import MAX_SECONDS

MAX_INT32: Final = 2**31 - 1

LAST_SECOND = 253_402_300_799
FIRST_SECOND = -62_135_596_800
"""First and last second of the years 1 to 9999. Source: google.protobuf.Timestamp."""


def timestamp_to_pb(iso: str) -> Timestamp:
    """Convert an ISO 8601 time with microseconds, the resolution of the models."""
    return micros_to_pb(micros_from_iso(iso))


def micros_to_pb(micros: int) -> Timestamp:
    seconds, rest = divmod(micros, 1_000_000)
    return Timestamp(seconds=seconds, nanos=rest * 1000)


def timestamp_from_pb(pb: Timestamp, field: str = "") -> str:
    """Convert to ISO 8601 UTC; digits below a microsecond are cut off.

    Raises:
        InvalidArgumentError: Outside the years 1 to 9999; names `field`.
    """
    return iso_from_micros(micros_from_pb(pb, field))


def micros_from_pb(pb: Timestamp, field: str = "") -> int:
    if not FIRST_SECOND <= pb.seconds <= LAST_SECOND or not 0 <= pb.nanos < 1_000_000_000:
        raise InvalidArgumentError("is not a valid time", field=field)
    return pb.seconds * 1_000_000 + pb.nanos // 1000


def set_time(message: Message, name: str, field: str) -> str:
    """Return the time in field `name`, or the current time if it is unset; errors name `field`."""
    return timestamp_from_pb(getattr(message, name), f"{field}.{name}") if message.HasField(name) else utc_now()


def duration_to_pb(seconds: float) -> Duration:
    """Convert a duration, rounded to microseconds."""
    return micros_to_duration(round(seconds * 1e6))


def micros_to_duration(micros: int) -> Duration:
    seconds, rest = divmod(micros, 1_000_000)
    return Duration(seconds=seconds, nanos=rest * 1000)


def seconds_from_pb(pb: Duration, field: str = "") -> float:
    """Convert to seconds; digits below a microsecond are cut off. Raises like `duration_micros`."""
    return duration_micros(pb, field) / 1e6


def duration_micros(pb: Duration, field: str = "") -> int:
    """Convert to microseconds.

    Raises:
        InvalidArgumentError: The duration is negative, more than 10,000 years, or not valid; names `field`.
    """
    if not 0 <= pb.seconds <= MAX_SECONDS or not 0 <= pb.nanos < 1_000_000_000:
        raise InvalidArgumentError("must be a duration that is not negative", field=field)
    return pb.seconds * 1_000_000 + pb.nanos // 1000


def json_object_to_pb(value: dict[str, Any] | None, field: str | None = None) -> str:
    """Encode an object as JSON, empty for an empty object. With a `field`, raises like `json_value_to_pb`."""
    if not value:
        return ""
    return to_json(value) if field is None else json_value_to_pb(value, field)


def json_value_to_pb(value: object, field: str) -> str:
    """Encode a value as JSON.

    Raises:
        InvalidArgumentError: The value has no JSON form, or is too deep; names `field`.
    """
    try:
        return to_json(value)
    except InvalidArgumentError as error:
        raise error.within(field) from None
    except TypeError as error:
        raise InvalidArgumentError(str(error), field=field) from None


def json_object_from_pb(text: str, field: str = "") -> dict[str, Any]:
    """Decode an object from JSON, empty for an empty text.

    Raises:
        InvalidArgumentError: Not JSON, too deep, or not an object; names `field`.
    """
    if not text:
        return {}
    value = from_json(text, field=field)
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be a JSON object", field=field)
    return value


def _encode_varint(value: int) -> bytes:
    if value < 0:
        raise InvalidArgumentError(f"must not be negative, but is {value}")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


VARINTS: Final = [_encode_varint(value) for value in range(2048)]
"""The encodings of small numbers: most lengths and positions. Hot code reads this list directly, to avoid a call."""


def varint(value: int) -> bytes:
    """Encode a number in base 128. Source: protobuf's encoding guide.

    Raises:
        InvalidArgumentError: The number is negative; counts and positions never are.
    """
    if 0 <= value < 2048:
        return VARINTS[value]
    if 2048 <= value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if 1 << 14 <= value < 1 << 21:  # positions in a long log
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return _encode_varint(value)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it. Raises DecodeError."""
    if at >= end:
        raise DecodeError("cut off in the middle of a field")
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for index in range(at + 1, min(end, at + 10)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise DecodeError("a number does not end")


def enum_varint(number: int) -> bytes:
    """Encode a number of an enum; a negative one as its 64 bits, in ten bytes. Source: protobuf's encoding guide."""
    return varint(number & 0xFFFF_FFFF_FFFF_FFFF)


def tag(number: int) -> bytes:
    """Return the key of a length-delimited field: text, bytes, messages."""
    return varint(number << 3 | 2)


def text_field(key: bytes, text: str) -> bytes:
    """Encode a text field; empty for an empty text."""
    raw = text.encode()
    size = len(raw)
    return key + (VARINTS[size] if size < 2048 else varint(size)) + raw if raw else b""


def encode_time(micros: int) -> bytes:
    """Encode a Timestamp in at most 17 bytes; hand-written because every event and every response has one or more."""
    seconds, rest = divmod(micros, 1_000_000)
    if rest == 0:
        return _encode_second(seconds)
    nanos = rest * 1000
    if nanos < 1 << 21:
        return _encode_second(seconds) + b"\x10" + varint(nanos)
    # Groups of seven bits, the lowest first; each but the last has the continuation bit.
    groups = nanos & 0x7F | nanos << 1 & 0x7F00 | nanos << 2 & 0x7F0000 | nanos << 3 & 0x7F000000
    if nanos < 1 << 28:
        return _encode_second(seconds) + b"\x10" + (groups | 0x808080).to_bytes(4, "little")
    groups |= nanos << 4 & 0x7F00000000
    return _encode_second(seconds) + b"\x10" + (groups | 0x80808080).to_bytes(5, "little")


# A request writes the same few times again and again: of its events, of its state changes, of the task.
@lru_cache(maxsize=256)
def sized_time(micros: int) -> bytes:
    """Encode a Timestamp with its length before it: a field without its key."""
    time = encode_time(micros)
    return VARINTS[len(time)] + time


# A request writes the same few ids again and again: with each of its appends, and in the header of its response.
@lru_cache(maxsize=256)
def sized_id(text: str) -> bytes:
    """Encode an id or a name with its length before it: a field without its key."""
    raw = text.encode()
    return varint(len(raw)) + raw


@lru_cache(maxsize=64)
def _encode_second(seconds: int) -> bytes:
    return Timestamp(seconds=seconds).SerializeToString()


def bytes_field(key: bytes, raw: bytes) -> bytes:
    """Encode one field of bytes or of an encoded message, also an empty one."""
    size = len(raw)
    return b"".join((key, VARINTS[size] if size < 2048 else varint(size), raw))


def delimited(key: bytes, items: Iterable[bytes | None]) -> bytes:
    """Encode a repeated field: each item with key and length; None is left out."""
    pieces: list[bytes] = []
    for item in items:
        if item is not None:
            size = len(item)
            pieces += (key, VARINTS[size] if size < 2048 else varint(size), item)
    return b"".join(pieces)


Named = TypeVar("Named", bound=str)


class _Names(dict[int, Named], Generic[Named]):
    """The names of the numbers of an open enum."""

    def __init__(self, kind: type[Named], names: Mapping[int, Named]) -> None:
        super().__init__(names)
        self._kind = kind

    def __missing__(self, number: int) -> Named:
        return self._kind(unrecognized(number))


class EnumNumbers(dict[Named, Any], Generic[Named]):
    """The numbers of an enum of the contract, by the names of its values in the models.

    The contract's enums are open. A number without a name here is read as `unknown-N`, and written back as the same number.

    Args:
        kind: Class of the names: str, or an OpenEnum.
        numbers: The number of each name.
        field: Field that the error for an unknown name refers to.
        unset: Name for 0; None if 0 has no meaning of its own.
    """

    def __init__(
        self, kind: type[Named], numbers: Mapping[Named, int], *, field: str = "state", unset: Named | None = None
    ) -> None:
        super().__init__(numbers)
        if unset is not None:
            self.setdefault(unset, 0)
        self._field = field
        self.names = _Names(kind, {number: name for name, number in self.items()})
        """The name of each number in a record or a response; a number without a name gets `unknown-N`."""
        self._has_default = unset is not None
        if unset is not None:
            self.names[0] = unset

    def __missing__(self, name: Named) -> Any:
        number = unrecognized_number(name) if isinstance(name, str) else None
        if number is None:
            raise InvalidArgumentError(f"{name!r} is not one of {self._known_names()}", field=self._field)
        return number

    def read(self, number: int) -> Named:
        """Return the name of a number in a record or a response."""
        return self.names[number]

    def read_request(self, number: int, field: str) -> Named:
        """Return the name of a number in a request.

        Raises:
            InvalidArgumentError: This version has no name for it; names `field`.
        """
        if number == 0 and self._has_default:
            return self.names[0]
        return self.read_request_item(number, field)

    def read_request_item(self, number: int, field: str) -> Named:
        """Return the name of an item of a repeated field in a request; 0 never has one. Raises as `read_request`."""
        name = self.names.get(number)
        if name is None or number == 0:
            raise InvalidArgumentError(f"{number} is not known; must be one of {self._known_names()}", field=field)
        return name

    def _known_names(self) -> str:
        return ", ".join(filter(None, self))
