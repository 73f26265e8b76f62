"""Codecs between values and messages of `plgrpc.v1`, derived from the class of the value and the descriptor of the message.

A codec is a table: the class, the message, and one line for each field that differs between the two sides. All other
fields are paired by name (`x` with `x`, or with the JSON text `x_json`), and converted by annotation and type. On first
use, a codec is compiled into two functions with a line for each field. A field of either side without a partner is then
an error, unless it is `LeftOut`.

- An unset field gets the default of the class if it has presence; an empty id or time is generated. So does an unset enum, unless
  the field is `kinds.REQUIRED`.
- An empty text is read as None if the attribute may be None. An unknown number of an enum is kept: see `EnumNumbers`.
- A value that is not allowed raises an InvalidArgumentError that names the path of its field, in both directions.
- A field of a class that does not take part in comparisons is in the message only if a line names it.
"""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from functools import partial
from threading import RLock
from typing import Annotated, Any, Final, Generic, TypeVar, get_args, get_origin

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.compiled import compile_function
from protolink_grpc.models.json_form import inner_of, is_required, own_fields
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.kinds import Kind
from protolink_grpc.wire.scalars import (
    EnumNumbers,
    duration_micros,
    duration_to_pb,
    json_object_from_pb,
    json_object_to_pb,
    micros_from_pb,
    micros_to_duration,
    micros_to_pb,
    seconds_from_pb,
    timestamp_from_pb,
    timestamp_to_pb,
)

V = TypeVar("V")
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Special:
    """A field of a value with hand-written conversions.

    Args:
        field: Name of the field in the message.
        write: Returns the field's value from the whole value; None leaves the field unset.
        read: Returns the attribute's value from the whole message; None means that it is read like other fields.

    Errors of both name the path below the message.
    """

    field: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """A field of a message that is computed from the whole value. It is written, and not read on its own."""

    write: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Group:
    """A field of a message that has several attributes of a value.

    Args:
        attributes: The names of the attributes. They have no lines of their own.
        write: Returns the field's value from the whole value; None leaves the field unset.
        read: Returns the values of the attributes, in this order, from the whole message.

    Errors of both name the path below the message.
    """

    attributes: tuple[str, ...]
    write: Callable[[Any], Any]
    read: Callable[[Any], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A field of the value or of the message without a partner, and the reason."""

    reason: str


Line = str | Special | Computed | Group | LeftOut


class Codec(Generic[V, M]):
    """Converts values of one class to messages of one type, and back.

    Args:
        normal: Makes a value conform to the contract, before it is written and after it is read.
        lines: For the name of an attribute: the name of its field in the message, `Special` or `LeftOut`. For the name of a field
            of the message: `Computed`, `Group` or `LeftOut`.
    """

    known: Final[list["Codec[Any, Any]"]] = []
    """All codecs."""

    def __init__(
        self, cls: type[V], message: type[M], normal: Callable[[V], V] | None = None, /, **lines: Line
    ) -> None:
        self.cls, self.message, self.normal, self.lines = cls, message, normal, lines
        self.to_pb: Callable[[V], M] = self._first_to_pb
        """Convert a value to a message. Raises InvalidArgumentError, naming the path, and TypeError if there is no JSON form."""
        self.from_pb: Callable[..., V] = self._first_from_pb
        """Convert a message to a value: `from_pb(pb, field="", **given)`.

        Args:
            given: Values of the attributes that are `LeftOut`; those with defaults may be missing.

        Raises:
            InvalidArgumentError: A value that the contract does not allow; names the path below `field`.
        """
        self._is_begun = self.is_compiled = False
        Codec.known.append(self)
        _CODECS.setdefault((cls, message.DESCRIPTOR.full_name), self)

    def all_from_pb(self, items: Iterable[M], field: str) -> list[V]:
        """Convert the messages of a repeated field. Raises as `from_pb`; names `field[index]`."""
        try:
            found: list[V] = _write_items(self.from_pb, items)
        except InvalidArgumentError as error:
            raise error.within(field) from None
        return found

    def write(self, value: V) -> M:
        """Call `to_pb`, looked up at each call: the codec of a recursive message refers to itself before it is compiled."""
        return self.to_pb(value)

    def read(self, pb: M) -> V:
        """Call `from_pb`, like `write`."""
        return self.from_pb(pb)

    def _first_to_pb(self, value: V) -> M:
        self.compile()
        return self.to_pb(value)

    def _first_from_pb(self, pb: M, field: str = "", **given: Any) -> V:
        self.compile()
        return self.from_pb(pb, field, **given)

    def compile(self) -> None:
        """Compile both functions. Raises TypeError if the class, the message and the lines do not match."""
        with _LOCK:
            if self._is_begun:
                return
            self._is_begun = True
            try:
                pairs = self._pairs()
                self.to_pb, self.from_pb = self._compile_writer(pairs), self._compile_reader(pairs)
                self.is_compiled = True
            finally:
                self._is_begun = self.is_compiled

    @property
    def grouped(self) -> frozenset[str]:
        """The names of the attributes that are in groups."""
        return frozenset(name for line in self.lines.values() if isinstance(line, Group) for name in line.attributes)

    def _pairs(self) -> list["_Pair"]:
        known, grouped = self.message.DESCRIPTOR.fields_by_name, self.grouped
        attributes = own_fields(self.cls, also=self.lines.keys())
        pairs = [self._pair(name, of, hint) for name, (of, hint) in attributes.items() if name not in grouped]
        used = {pair.field for pair in pairs if pair is not None}
        for name, line in self.lines.items():
            if name not in attributes and name not in known:
                raise TypeError(f"{self.cls.__name__} and {self.message.DESCRIPTOR.name} have no {name}")
            if name in known and name not in used and isinstance(line, Computed | Group | LeftOut):
                used.add(name)
        if missing := set(known.keys()) - used:
            raise TypeError(f"{self.message.DESCRIPTOR.full_name}: nothing maps {', '.join(sorted(missing))}")
        return [pair for pair in pairs if pair is not None]

    def _pair(self, name: str, of: Field[Any], hint: Any) -> "_Pair | None":
        line = self.lines.get(name)
        known: Any = self.message.DESCRIPTOR.fields_by_name
        if isinstance(line, LeftOut):
            return None
        if isinstance(line, Special):
            return _Pair(name, line.field, of, hint, known[line.field], line)
        field = line if isinstance(line, str) else name if name in known else f"{name}_json"
        if field not in known:
            raise TypeError(f"{self.cls.__name__}.{name} has no field in {self.message.DESCRIPTOR.full_name}")
        return _Pair(name, field, of, hint, known[field], None)

    def _compile_writer(self, pairs: list["_Pair"]) -> Callable[[V], M]:
        steps = {pair.field: pair.writer() for pair in pairs}
        steps |= {
            name: (_BY_HAND, line.write) for name, line in self.lines.items() if isinstance(line, Computed | Group)
        }
        scope: dict[str, Any] = {"message": self.message, "explain": self._explain(steps)}
        arguments = []
        for field, (expression, function) in steps.items():
            scope[f"write_{field}"] = function
            arguments.append(f"        {field}={expression.format(f'write_{field}')},")
        failures = "except (TypeError, ValueError, AttributeError) as error:"
        lines = [
            "try:",
            "    return message(",
            *arguments,
            "    )",
            failures,
            "    raise explain(value, error) from error",
        ]
        if self.normal is not None:
            scope["normal"] = self.normal
            lines.insert(0, "value = normal(value)")
        return compile_function(f"write_{self.message.DESCRIPTOR.name}", "value", lines, scope)

    def _explain(self, steps: dict[str, tuple[str, Any]]) -> Callable[[V, Exception], Exception]:
        """Return a function that builds the error for a value that could not be written; it names the field."""

        def explain(value: V, error: Exception) -> Exception:
            for field, (expression, function) in steps.items():
                write = compile_function("write", "value", [f"return {expression.format('step')}"], {"step": function})
                try:
                    item = write(value)
                except InvalidArgumentError as found:
                    return found if expression == _BY_HAND else found.within(field)
                except TypeError as found:  # no JSON form
                    return found
                except (ValueError, AttributeError):
                    return InvalidArgumentError("has no form in the contract", field=field)
                try:
                    self.message(**{field: item})
                except (TypeError, ValueError, AttributeError):
                    return InvalidArgumentError("has no form in the contract", field=field)
            return error

        return explain

    def _compile_reader(self, pairs: list["_Pair"]) -> Callable[..., V]:
        scope: dict[str, Any] = {"cls": self.cls, "InvalidArgumentError": InvalidArgumentError, "normal": self.normal}
        parameters, values = self._read_given(scope)
        lines: list[str] = []
        for pair in pairs:
            expression, function = pair.reader()
            scope[f"read_{pair.name}"], scope[f"default_{pair.name}"] = function, pair.default
            values[pair.name] = expression.format(f"read_{pair.name}")
            if pair.can_be_wrong:
                # In a line of its own, so that the error can name the field.
                key = "" if pair.is_read_by_hand else pair.field
                lines += [f"key = {key!r}", f"value_{pair.name} = {values[pair.name]}"]
                values[pair.name] = f"value_{pair.name}"
        if lines:
            lines.append("key = ''")
        for name, line in self.lines.items():
            if isinstance(line, Group):
                scope[f"read_{name}"] = line.read
                values |= {each: f"value_{each}" for each in line.attributes}
                lines.append(f"({', '.join(values[each] for each in line.attributes)},) = read_{name}(pb)")
        result = f"return {'normal' if self.normal else ''}(cls({', '.join(self._arguments(values))}))"
        if lines or self._constructor_checks():
            lines = [
                "key = ''",
                "try:",
                *(f"    {each}" for each in (*lines, result)),
                "except InvalidArgumentError as error:",
                "    found = error.within(key) if key else error",
                "    raise (found.within(field) if field else found) from None",
            ]
        else:
            lines = [result]
        return compile_function(f"read_{self.message.DESCRIPTOR.name}", ", ".join(parameters), lines, scope)

    def _read_given(self, scope: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
        """Return the parameters of the reader, and the expressions for the attributes that the message does not have."""
        parameters, values = ["pb", "field=''"], dict[str, str]()
        for name, (of, _) in own_fields(self.cls).items():
            if not isinstance(self.lines.get(name), LeftOut):
                continue
            if not values:
                parameters.append("*")
            if is_required(of):
                parameters.append(name)
                values[name] = name
            else:
                factory = of.default_factory is not MISSING
                parameters.append(f"{name}=missing")
                scope["missing"] = MISSING
                scope[f"default_{name}"] = of.default_factory if factory else of.default
                values[name] = f"default_{name}{'()' if factory else ''} if {name} is missing else {name}"
        return parameters, values

    def _constructor_checks(self) -> bool:
        return (
            self.normal is not None or hasattr(self.cls, "__post_init__") or hasattr(self.cls.__init__, "__wrapped__")
        )

    def _arguments(self, values: dict[str, str]) -> list[str]:
        """Return the arguments of the constructor, by position as far as possible: names take twice the time."""
        found, by_position = [], True
        for each in fields(self.cls):  # type: ignore[arg-type]  # a data class
            by_position = by_position and each.name in values and not each.kw_only
            if each.name in values:
                found.append(values[each.name] if by_position else f"{each.name}={values[each.name]}")
        return found


_BY_HAND: Final = "{0}(value)"


@dataclass(frozen=True, slots=True)
class _Pair:
    """An attribute of a class and a field of a message."""

    name: str
    field: str
    of: Field[Any]
    hint: Any
    descriptor: FieldDescriptor
    special: Special | None

    @property
    def default(self) -> Any:
        """Return the default, or its factory."""
        return self.of.default_factory if self.of.default is MISSING else self.of.default

    @property
    def _default_expression(self) -> str:
        if self.of.default is MISSING:
            return f"default_{self.name}()"
        return repr(self.default) if self.default in (None, "", 0, False) else f"default_{self.name}"

    @property
    def _has_default(self) -> bool:
        return self.default is not MISSING and "required" not in self.of.metadata

    def writer(self) -> tuple[str, Any]:
        """Return the expression for the value of the field, with the name of a function in it, and that function."""
        if self.special is not None:
            return _BY_HAND, self.special.write
        write, _ = self._conversion()
        item = f"value.{self.name}"
        if write is None:
            return item, None
        if inner_of(self.hint)[1] or self.default is None:
            return f"None if {item} is None else {{0}}({item})", write
        if self._omits_zero():
            return f"{{0}}({item}) if {item} else None", write
        return f"{{0}}({item})", write

    @property
    def can_be_wrong(self) -> bool:
        """Whether the message can have a value for which the reader raises an error."""
        return self.is_read_by_hand or (self._conversion()[1] is not None and self.descriptor.enum_type is None)

    @property
    def is_read_by_hand(self) -> bool:
        return self.special is not None and self.special.read is not None

    def reader(self) -> tuple[str, Any]:
        """Return the expression for the value of the attribute, like `writer`."""
        if self.special is not None and self.special.read is not None:
            return "{0}(pb)", self.special.read
        _, read = self._conversion()
        raw = f"pb.{self.field}"
        value = raw if read is None else f"{{0}}({raw})"
        inner, may_be_none = inner_of(self.hint)
        if self.descriptor.has_presence:
            if not self._has_default:
                return value, read
            return f"{value} if pb.HasField({self.field!r}) else {self._default_expression}", read
        is_json_object = get_origin(_python_type(inner)) is dict and self.field.endswith("_json")
        if may_be_none or is_json_object or self.descriptor.type == FieldDescriptor.TYPE_ENUM:
            if self._has_default:
                return f"{value} if {raw} else {self._default_expression}", read
        elif _python_type(inner) is str and self.of.default_factory is not MISSING:
            return f"{value} or {self._default_expression}", read
        return value, read

    def _omits_zero(self) -> bool:
        return self.descriptor.message_type is not None and self.descriptor.message_type.full_name == _DURATION

    def _conversion(self) -> "_Conversion":
        hint = inner_of(self.hint)[0]
        if self.descriptor.is_repeated:
            return _conversion_of_many(hint, self.descriptor)
        return conversion(hint, self.descriptor)


_Conversion = tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None]


def _conversion_of_many(hint: Any, field: FieldDescriptor) -> _Conversion:
    origin, args = get_origin(hint), get_args(hint)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        write, read = conversion(args[1], field.message_type.fields_by_name["value"])
        if write is not None or read is not None:
            raise TypeError(f"{field.full_name} is a map of messages; it needs a Special")
        return None, dict
    container: Any = origin if origin in (list, tuple, frozenset) else tuple
    write, read = conversion(args[0], field)
    if write is None and read is None:
        return sorted if container is frozenset else None, container
    return partial(_write_items, write or _same), partial(_read_items, read or _same, container)


def _same(value: Any) -> Any:
    return value


def _write_items(write: Callable[[Any], Any], items: Any) -> list[Any]:
    found: list[Any] = []
    try:
        for item in items:
            found.append(write(item))  # noqa: PERF401  # its length is the index in the error below
    except InvalidArgumentError as error:
        raise error.within(f"[{len(found)}]") from None
    return found


def _read_items(read: Callable[[Any], Any], container: Callable[[list[Any]], Any], items: Any) -> Any:
    return container(_write_items(read, items))


def conversion(hint: Any, field: FieldDescriptor) -> _Conversion:
    """Return the functions that write and read one value of the annotation; None if the value is the same on both sides.

    Raises:
        TypeError: The field cannot hold such a value.
    """
    python = _python_type(hint)
    if field.message_type is not None:
        return _message_conversion(hint, python, field)
    if field.enum_type is not None:
        numbers = enum_numbers(python, field.enum_type)
        return numbers.__getitem__, numbers.names.__getitem__
    if field.name.endswith("_json") and field.type == FieldDescriptor.TYPE_STRING:
        if get_origin(python) is dict:
            return json_object_to_pb, json_object_from_pb
        return to_json, from_json
    kinds = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Kind)]
    if python not in _PYTHON_TYPES.get(field.cpp_type, ()):
        raise TypeError(f"{field.full_name} cannot hold {hint}")
    return None, kinds[0].check if kinds else None


_PYTHON_TYPES: Final[dict[int, tuple[type, ...]]] = {
    FieldDescriptor.CPPTYPE_STRING: (str, bytes),
    FieldDescriptor.CPPTYPE_BOOL: (bool,),
    FieldDescriptor.CPPTYPE_INT32: (int,),
    FieldDescriptor.CPPTYPE_INT64: (int,),
    FieldDescriptor.CPPTYPE_DOUBLE: (float,),
}


def _message_conversion(hint: Any, python: Any, field: Any) -> _Conversion:
    name = field.message_type.full_name
    codec = _CODECS.get((python, name))
    if codec is not None:
        codec.compile()
        return (codec.to_pb, codec.from_pb) if codec.is_compiled else (codec.write, codec.read)
    found = _CONVERSIONS.get((python, name))
    if found is None:
        raise TypeError(f"no codec between {hint} and {name}, for {field.full_name}")
    return found


def register_conversion(
    python: Any, message: type[Message], write: Callable[[Any], Any], read: Callable[[Any], Any]
) -> None:
    """Register hand-written conversions for a message inside other messages. Errors of `read` name the path below it."""
    _CONVERSIONS[python, message.DESCRIPTOR.full_name] = write, read


def _python_type(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _epoch_to_pb(seconds: float) -> Message:
    return micros_to_pb(round(seconds * 1e6))


def _epoch_from_pb(pb: Any) -> float:
    return micros_from_pb(pb, "") / 1e6


_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_CONVERSIONS: Final[dict[tuple[Any, str], _Conversion]] = {
    (str, _TIMESTAMP): (timestamp_to_pb, timestamp_from_pb),
    (float, _TIMESTAMP): (_epoch_to_pb, _epoch_from_pb),
    (float, _DURATION): (duration_to_pb, seconds_from_pb),
    (int, _DURATION): (micros_to_duration, duration_micros),
}

_CODECS: Final[dict[tuple[Any, str], Codec[Any, Any]]] = {}
"""The first codec of each class and message."""
_LOCK: Final = RLock()
"""Held while a codec is compiled, so that two threads do not compile it at the same time."""
_NUMBERS: Final[dict[tuple[Any, str], EnumNumbers[Any]]] = {}


def enum_numbers(
    kind: type[str], enum: EnumDescriptor, *, unset: str | None = None, field: str = ""
) -> EnumNumbers[Any]:
    """Return the numbers of an enum of the contract by name: the names of the StrEnum's members, or else the names of the enum's
    values in lower case without their prefix.

    Args:
        unset: Name for 0, as in EnumNumbers. A codec that is compiled later uses the same name.
        field: As in EnumNumbers; a codec names the field itself.

    Raises:
        TypeError: The names of the class and of the enum differ.
    """
    found = _NUMBERS.get((kind, enum.full_name))
    if found is None:
        prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
        by_name = {each.name.removeprefix(prefix): each.number for each in enum.values if each.number}
        if issubclass(kind, StrEnum):
            named = by_name.keys() | {each.name for each in kind if each == unset}
            if named != set(kind.__members__):
                raise TypeError(f"{kind.__name__} and {enum.full_name} differ: {named ^ set(kind.__members__)}")
            by_name = {kind[name]: number for name, number in by_name.items()}
        else:
            by_name = {name.lower(): number for name, number in by_name.items()}
        found = _NUMBERS[kind, enum.full_name] = EnumNumbers(kind, by_name, field="", unset=unset)
    return EnumNumbers(kind, found, field=field, unset=unset) if field else found
