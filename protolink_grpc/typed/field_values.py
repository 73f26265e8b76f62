"""Converts single values between the fields of a typed service's messages and JSON. `converters` composes them to messages."""

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import iso_duration
from protolink_grpc.typed.types import (
    UTF8,
    EnumType,
    KnownType,
    ListType,
    MapType,
    ObjectType,
    ScalarType,
    TupleType,
    Type,
    UnionType,
)

MAX_EXACT: Final = 1 << 53
"""Integers up to this one are exact in `google.protobuf.Value`, which has doubles only."""

Read = Callable[[Any], Any]
"""From the value of a field to JSON."""

Write = Callable[[Any], Any]
"""From JSON to the value of a field. Raises InvalidArgumentError with the path below the field."""


_STANDARD: Final = str.maketrans("-_", "+/")
"""From the alphabet of base64 for URLs to the standard one."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def convert_within(step: str | int, convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except InvalidArgumentError as error:
        raise error.within(f"[{step}]" if isinstance(step, int) else step) from None


def require_list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidArgumentError("must be a list", field="")
    return list(value)


def require_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be an object", field="")
    return value


def may_be(kind: Type, value: Any) -> bool:
    """Return whether a JSON value has the shape of a type: for the choice of a union's variant."""
    match kind:
        case ScalarType(proto="int64"):
            return isinstance(value, int) and not isinstance(value, bool)
        case ScalarType(proto="double"):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ScalarType(proto="bool"):
            return isinstance(value, bool)
        case ScalarType(form="") | ScalarType(proto="bytes"):
            return isinstance(value, str)
        case ScalarType(form=form):
            return isinstance(value, str) and _FORMS[form].fullmatch(value) is not None
        case KnownType(message="Timestamp"):
            return isinstance(value, str) and _TIMESTAMP.fullmatch(value) is not None
        case KnownType(message="Duration"):
            return isinstance(value, str) and _DURATION.fullmatch(value) is not None
        case KnownType(message="Struct"):
            return isinstance(value, dict)
        case KnownType(message="NullValue"):
            return value is None
        case KnownType():
            return True
        case EnumType():
            return any(value == each and type(value) is type(each) for _, each in kind.members)
        case ListType():
            return isinstance(value, list | tuple) and all(may_be(kind.item, each) for each in value)
        case MapType():
            return isinstance(value, dict) and all(may_be(kind.value, each) for each in value.values())
        case TupleType():
            return (
                isinstance(value, list | tuple)
                and len(value) == len(kind.items)
                and all(may_be(each, item) for each, item in zip(kind.items, value, strict=True))
            )
        case UnionType():
            return any(may_be(each, value) for each in kind.variants)
        case ObjectType():
            return isinstance(value, dict) and _may_be_object(kind, value)


def _may_be_object(kind: ObjectType, value: dict[str, Any]) -> bool:
    known = {each.name: each for each in kind.fields}
    if kind.extra is None and not value.keys() <= known.keys():
        return False
    for name, each in known.items():
        if name not in value:
            if each.required:
                return False
        elif value[name] is None:
            if not each.nullable:
                return False
        elif not may_be(each.type, value[name]):
            return False
    return True


# -- values of one field -----------------------------------------------------------------------------------------------------------


def return_unchanged(value: Any) -> Any:
    return value


def _read_double(value: float) -> float:
    if not math.isfinite(value):
        raise InvalidArgumentError("must be a finite number", field="")
    return value


def _read_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _read_text_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("must be UTF-8", field="") from None


def _read_timestamp(value: Any) -> str:
    try:
        moment = _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        raise InvalidArgumentError("must be between the years 1 and 9999", field="") from None
    return moment.isoformat().replace("+00:00", "Z")


def _read_duration(value: Any) -> str:
    return iso_duration(timedelta(seconds=value.seconds, microseconds=int(value.nanos / 1000)))


def _read_value(value: Any) -> Any:
    match value.WhichOneof("kind"):
        case "number_value":
            number = _read_double(value.number_value)
            # JSON does not tell 5 from 5.0, and arguments that are integers are more common.
            return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _read_struct(value.struct_value)
        case "list_value":
            return [convert_within(index, _read_value, each) for index, each in enumerate(value.list_value.values)]
        case _:
            return None


def _read_struct(value: Any) -> dict[str, Any]:
    return {key: convert_within(key, _read_value, each) for key, each in value.fields.items()}


def reader_of(kind: Type) -> Read:
    match kind:
        case ScalarType(proto="double"):
            return _read_double
        case ScalarType(proto="bytes", form=form):
            return _read_text_bytes if form == UTF8 else _read_bytes
        case KnownType():
            return _KNOWN_READERS[kind.message]
        case _:
            return return_unchanged


_KNOWN_READERS: Final[dict[str, Read]] = {
    "Timestamp": _read_timestamp,
    "Duration": _read_duration,
    "Value": _read_value,
    "Struct": _read_struct,
    "NullValue": lambda _: None,
}


def enum_reader(values: dict[int, Any]) -> Read:
    def read(number: int) -> Any:
        try:
            return values[number]
        except KeyError:
            problem = f"{number} is not a value of this enum" if number else "must be set"
            raise InvalidArgumentError(problem, field="") from None

    return read


def enum_writer(values: dict[int, Any]) -> Write:
    numbers = {(type(value), value): number for number, value in values.items()}

    def write(value: Any) -> int:
        number = numbers.get((type(value), value)) if isinstance(value, str | int) else None
        if number is None:
            raise InvalidArgumentError("is not one of the constants", field="")
        return number

    return write


def _write_integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgumentError("must be an integer", field="")
    if not -(1 << 63) <= value < 1 << 63:
        raise InvalidArgumentError("must be an integer of 64 bits", field="")
    return value


def _write_double(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidArgumentError("must be a number", field="")
    try:
        return float(value)
    except OverflowError:
        raise InvalidArgumentError("is too large for a double", field="") from None


def _write_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgumentError("must be a boolean", field="")
    return value


def _write_string(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError("must be a text", field="")
    return value


def write_decimal(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidArgumentError("must be a decimal number", field="")
    return str(value)


def _write_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_write_string(value).translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError("must be base64", field="") from None


class WellKnownWriters:
    """Makes well-known messages with the classes of one pool."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool

    def writer(self, name: str) -> Write:
        match name:
            case "Timestamp":
                return self._timestamp_writer()
            case "Duration":
                return self._duration_writer()
            case "NullValue":
                return lambda _: 0
        self._value = class_of(self._pool, "google.protobuf.Value")
        self._struct = class_of(self._pool, "google.protobuf.Struct")
        self._list = class_of(self._pool, "google.protobuf.ListValue")
        return self._write_struct if name == "Struct" else self._write_value

    def _timestamp_writer(self) -> Write:
        make = class_of(self._pool, "google.protobuf.Timestamp")

        def write(value: Any) -> Any:
            try:
                moment = datetime.fromisoformat(_write_string(value))
            except ValueError:
                raise InvalidArgumentError("must be a time as RFC 3339 writes it", field="") from None
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            since = moment - _EPOCH
            return make(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)

        return write

    def _duration_writer(self) -> Write:
        make = class_of(self._pool, "google.protobuf.Duration")

        def write(value: Any) -> Any:
            matched = _DURATION.fullmatch(_write_string(value))
            if matched is None:
                raise InvalidArgumentError("must be a duration as ISO 8601 writes it, in days or less", field="")
            parts = {name: text or "0" for name, text in matched.groupdict().items() if name != "sign"}
            whole, _, fraction = parts["seconds"].partition(".")
            micros = int((fraction + "000000")[:6])
            days, hours, minutes = int(parts["days"]), int(parts["hours"]), int(parts["minutes"])
            seconds = ((days * 24 + hours) * 60 + minutes) * 60 + int(whole)
            sign = -1 if matched["sign"] == "-" else 1
            return make(seconds=sign * seconds, nanos=sign * micros * 1000)

        return write

    def _write_value(self, value: Any) -> Any:
        make = self._value
        match value:
            case None:
                return make(null_value=0)
            case bool():
                return make(bool_value=value)
            case int() if abs(value) > MAX_EXACT:
                raise InvalidArgumentError(
                    f"{value} is not exact in a field of any type, which has doubles only", field=""
                )
            case int() | float():
                return make(number_value=float(value))
            case str():
                return make(string_value=value)
            case list() | tuple():
                items = [convert_within(index, self._write_value, each) for index, each in enumerate(value)]
                return make(list_value=self._list(values=items))
            case dict():
                return make(struct_value=self._write_struct(value))
            case _:
                raise InvalidArgumentError("must be a JSON value", field="")

    def _write_struct(self, value: Any) -> Any:
        fields = {key: convert_within(key, self._write_value, each) for key, each in require_object(value).items()}
        return self._struct(fields=fields)


def class_of(pool: DescriptorPool, name: str) -> Any:
    return GetMessageClass(pool.FindMessageTypeByName(name))


SCALAR_WRITERS: Final[dict[str, Write]] = {
    "int64": _write_integer,
    "double": _write_double,
    "bool": _write_bool,
    "string": _write_string,
    "bytes": _write_bytes,
}
_TIMESTAMP: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|z|[+-]\d{2}:?\d{2})?")
_DURATION: Final = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_FORMS: Final = {
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "time": re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "decimal": re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"),
}
