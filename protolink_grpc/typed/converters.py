"""Converts the messages of a typed service to JSON values and back, compiled once for each message.

A request becomes the arguments that a caller would send as JSON, and the tool validates them. A result, which the log has as
JSON, becomes a response. Integers keep all their digits. Times have microseconds.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.compiled import compile_function
from protolink_grpc.models.json_value import iso_duration
from protolink_grpc.typed.layout import EXTRA, Element, FieldPlan, MessagePlan
from protolink_grpc.typed.types import (
    ANY,
    NULL,
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
    snake,
)

MAX_EXACT: Final = 1 << 53
"""Integers up to this one are exact in `google.protobuf.Value`, which has doubles only."""

Read = Callable[[Any], Any]
"""From the value of a field to JSON."""

Write = Callable[[Any], Any]
"""From JSON to the value of a field. Raises InvalidArgumentError with the path below the field."""


class Converters:
    """The conversions of all messages of one file.

    Args:
        pool: Has the file and its imports. It may be a pool of its own, whose classes differ from those of generated code.
    """

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool
        self._well_known = _WellKnown(pool)
        self._readers: dict[str, Read] = {}
        self._writers: dict[str, Write] = {}

    def reader(self, plan: MessagePlan) -> Read:
        """Return the function from a message to JSON.

        It raises InvalidArgumentError, with the path, for a value that JSON cannot have or an enum does not know. A required key
        whose field is unset is left out, so that the tool's check names it.
        """
        return self._compiled(self._readers, plan, self._compile_reader)

    def writer(self, plan: MessagePlan) -> Write:
        """Return the function from JSON to a message.

        It raises InvalidArgumentError, with the path, for a value that does not fit.
        """
        return self._compiled(self._writers, plan, self._compile_writer)

    @staticmethod
    def _compiled(
        known: dict[str, Callable[[Any], Any]], plan: MessagePlan, compile_one: Callable[[MessagePlan], Any]
    ) -> Callable[[Any], Any]:
        if plan.name not in known:

            def convert(value: Any) -> Any:
                return known[plan.name](value)

            known[plan.name] = convert  # for a recursive message, whose functions refer to its own
            known[plan.name] = compile_one(plan)
        return known[plan.name]

    # -- from messages to JSON ---------------------------------------------------------------------------------------------

    def _compile_reader(self, plan: MessagePlan) -> Read:
        read = self._compile_object_reader(plan)
        if plan.shape == "object":
            return read
        if plan.shape == "wrapper":
            name = plan.fields[0].field.name
            return lambda message: read(message).get(name)
        names = [each.field.name for each in plan.fields]

        def read_tuple(message: Any) -> list[Any]:
            found = read(message)
            return [found.get(name) for name in names]

        return read_tuple

    def _compile_object_reader(self, plan: MessagePlan) -> Read:
        scope: dict[str, Any] = {"within": _within}
        lines = ["found = {}"]
        for number, each in enumerate(plan.fields):
            scope[f"read_{number}"], scope[f"key_{number}"] = self._field_reader(each), each.field.name
            lines += self._reading_lines(each, number)
        if plan.extra is not None:
            scope["read_extra"] = self._element_reader(plan.extra)
            lines.append(f"for key, value in message.{EXTRA}.items(): found[key] = read_extra(value)")
        lines.append("return found")
        return compile_function(f"read_{plan.name.replace('.', '_')}", "message", lines, scope)

    @staticmethod
    def _reading_lines(each: FieldPlan, number: int) -> list[str]:
        """Return the lines that add one key; names of fields may be Python's keywords, so they are passed as texts."""
        name = repr(each.name)
        unset = each.field.required and each.field.nullable
        value = f"getattr(message, {name})"
        if each.form == "oneof":
            lines = [f"case = message.WhichOneof({name})", "if case is not None:"]
            lines.append(f"    found[key_{number}] = within(key_{number}, read_{number}[case], getattr(message, case))")
        elif each.form == "single" and each.has_presence:
            lines = [f"if message.HasField({name}):"]
            lines.append(f"    found[key_{number}] = within(key_{number}, read_{number}, {value})")
        elif each.form == "single" and isinstance(each.field.type, EnumType):
            return [f"if {value}: found[key_{number}] = within(key_{number}, read_{number}, {value})"]
        elif each.form == "single" and each.field.type in _UNCHANGED:
            return [f"found[key_{number}] = {value}"]
        else:
            return [f"found[key_{number}] = within(key_{number}, read_{number}, {value})"]
        if unset:
            lines += ["else:", f"    found[key_{number}] = None"]
        return lines

    def _field_reader(self, plan: FieldPlan) -> Any:
        if plan.form == "oneof":
            return {name: self._element_reader(element) for name, element in plan.variants}
        read = self._element_reader(plan.variants[0][1])
        if plan.form == "repeated":
            return lambda items: [_within(index, read, item) for index, item in enumerate(items)]
        if plan.form == "map":
            return lambda entries: {key: _within(key, read, value) for key, value in entries.items()}
        return read

    def _element_reader(self, element: Element) -> Read:
        if element.message is not None:
            return self.reader(element.message)
        if isinstance(element.type, EnumType):
            return _enum_reader(self._enum_values(element))
        return _reader_of(element.type)

    def _enum_values(self, element: Element) -> dict[int, Any]:
        """Return the JSON value of each number of an enum."""
        enum = self._pool.FindEnumTypeByName(element.type_name.removeprefix("."))
        prefix = f"{snake(enum.name).upper()}_"
        members = element.type.members if isinstance(element.type, EnumType) else ()
        return {enum.values_by_name[f"{prefix}{member}"].number: value for member, value in members}

    # -- from JSON to messages ---------------------------------------------------------------------------------------------

    def _compile_writer(self, plan: MessagePlan) -> Write:
        make = _class_of(self._pool, plan.name)
        fields = {each.field.name: (each, self._field_writer(each)) for each in plan.fields}
        extra = None if plan.extra is None else self._element_writer(plan.extra)

        def write_object(value: Any) -> Message:
            if not isinstance(value, dict):
                raise InvalidArgumentError("must be an object", field="")
            given: dict[str, Any] = {}
            others: dict[str, Any] = {}
            for key, item in value.items():
                known = fields.get(key)
                if known is None:
                    if extra is not None:
                        others[key] = _within(key, extra, item)
                    continue
                each, write = known
                if item is None and not _takes_null(each):
                    if not each.field.nullable:
                        raise InvalidArgumentError("must not be null", field=key)
                    continue
                written = _within(key, write, item)
                given |= written if each.form == "oneof" else {each.name: written}
            if others:
                given[EXTRA] = others
            message: Message = make(**given)
            return message

        if plan.shape == "object":
            return write_object
        if plan.shape == "wrapper":
            name = plan.fields[0].field.name

            def write_wrapped(value: Any) -> Message:
                try:
                    return write_object({name: value})
                except InvalidArgumentError as error:
                    raise InvalidArgumentError(error.detail, field=error.field.removeprefix(name)) from None

            return write_wrapped
        names = [each.field.name for each in plan.fields]

        def write_tuple(value: Any) -> Message:
            if not isinstance(value, list | tuple) or len(value) != len(names):
                raise InvalidArgumentError(f"must be a list of {len(names)} items", field="")
            return write_object(dict(zip(names, value, strict=True)))

        return write_tuple

    def _field_writer(self, plan: FieldPlan) -> Write:
        if plan.form == "oneof":
            return self._variant_writer(plan.variants)
        write = self._element_writer(plan.variants[0][1])
        if plan.form == "repeated":
            return lambda items: [_within(index, write, item) for index, item in enumerate(_checked_list(items))]
        if plan.form == "map":
            return lambda entries: {key: _within(key, write, value) for key, value in _checked_object(entries).items()}
        return write

    def _variant_writer(self, variants: list[tuple[str, Element]]) -> Write:
        writers = [(name, element.type, self._element_writer(element)) for name, element in variants]

        def write(value: Any) -> dict[str, Any]:
            for name, kind, write_one in writers:
                if may_be(kind, value):
                    try:
                        return {name: write_one(value)}
                    except InvalidArgumentError:
                        continue  # it only looked like this variant
            raise InvalidArgumentError("fits no variant of the union", field="")

        return write

    def _element_writer(self, element: Element) -> Write:
        if element.message is not None:
            return self.writer(element.message)
        match element.type:
            case EnumType():
                return _enum_writer(self._enum_values(element))
            case KnownType(message=name):
                return self._well_known.writer(name)
            case ScalarType(form="decimal"):
                return _write_decimal
            case ScalarType(proto=proto):
                return _SCALAR_WRITERS[proto]
            case _:
                raise TypeError(f"{element.type} has no value")


_STANDARD: Final = str.maketrans("-_", "+/")
"""From the alphabet of base64 for URLs to the standard one."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNCHANGED: Final = frozenset({ScalarType("int64"), ScalarType("bool"), ScalarType("string")})


def _takes_null(plan: FieldPlan) -> bool:
    return any(element.type in (NULL, ANY) for _, element in plan.variants) and plan.form in ("single", "oneof")


def _within(step: str | int, convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except InvalidArgumentError as error:
        raise error.within(f"[{step}]" if isinstance(step, int) else step) from None


def _checked_list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidArgumentError("must be a list", field="")
    return list(value)


def _checked_object(value: Any) -> dict[str, Any]:
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


def _same(value: Any) -> Any:
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
            return [_within(index, _read_value, each) for index, each in enumerate(value.list_value.values)]
        case _:
            return None


def _read_struct(value: Any) -> dict[str, Any]:
    return {key: _within(key, _read_value, each) for key, each in value.fields.items()}


def _reader_of(kind: Type) -> Read:
    match kind:
        case ScalarType(proto="double"):
            return _read_double
        case ScalarType(proto="bytes", form=form):
            return _read_text_bytes if form == UTF8 else _read_bytes
        case KnownType():
            return _KNOWN_READERS[kind.message]
        case _:
            return _same


_KNOWN_READERS: Final[dict[str, Read]] = {
    "Timestamp": _read_timestamp,
    "Duration": _read_duration,
    "Value": _read_value,
    "Struct": _read_struct,
    "NullValue": lambda _: None,
}


def _enum_reader(values: dict[int, Any]) -> Read:
    def read(number: int) -> Any:
        try:
            return values[number]
        except KeyError:
            problem = f"{number} is not a value of this enum" if number else "must be set"
            raise InvalidArgumentError(problem, field="") from None

    return read


def _enum_writer(values: dict[int, Any]) -> Write:
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


def _write_decimal(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidArgumentError("must be a decimal number", field="")
    return str(value)


def _write_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_write_string(value).translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError("must be base64", field="") from None


class _WellKnown:
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
        self._value = _class_of(self._pool, "google.protobuf.Value")
        self._struct = _class_of(self._pool, "google.protobuf.Struct")
        self._list = _class_of(self._pool, "google.protobuf.ListValue")
        return self._write_struct if name == "Struct" else self._write_value

    def _timestamp_writer(self) -> Write:
        make = _class_of(self._pool, "google.protobuf.Timestamp")

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
        make = _class_of(self._pool, "google.protobuf.Duration")

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
                items = [_within(index, self._write_value, each) for index, each in enumerate(value)]
                return make(list_value=self._list(values=items))
            case dict():
                return make(struct_value=self._write_struct(value))
            case _:
                raise InvalidArgumentError("must be a JSON value", field="")

    def _write_struct(self, value: Any) -> Any:
        fields = {key: _within(key, self._write_value, each) for key, each in _checked_object(value).items()}
        return self._struct(fields=fields)


def _class_of(pool: DescriptorPool, name: str) -> Any:
    return GetMessageClass(pool.FindMessageTypeByName(name))


_SCALAR_WRITERS: Final[dict[str, Write]] = {
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
