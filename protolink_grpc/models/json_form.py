"""The JSON form of a value, derived from the fields of its class: names, defaults and annotations. No value lives here.

A class is compiled at its first use into two functions with a line for each field. The rules are the same for every value:

- A missing key and a null are read as the default. So is an empty text, if the default is a text that is not empty.
- A field without a default is required. Unknown keys are skipped.
- A field that does not take part in comparisons has no JSON form.
- A value of the wrong type raises an InvalidArgumentError that names its path. Containers are copied, in both directions.
"""

from collections.abc import Callable, Collection
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.compiled import compile_function
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.kinds import Kind, check_count, check_flag, check_number, check_object, check_text

Read = Callable[[Any], Any]


class JsonForm:
    """A data class with a JSON form. A class whose form differs overrides a method and calls the functions below."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which shares nothing with the value."""
        return to_object(self)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object. The value shares nothing with it.

        Raises:
            InvalidArgumentError: A value of the wrong type; names its path.
        """
        return cls(**read_fields(cls, data))


def to_object(value: Any) -> dict[str, Any]:
    """Return the JSON object of a value."""
    return _writer(value.__class__)(value)


def read_fields(cls: Any, data: object) -> dict[str, Any]:
    """Return the arguments for the constructor of `cls` that a JSON object has. Raises as `JsonForm.from_dict`."""
    return _reader(cls)(data)


def own_fields(cls: type, also: Collection[str] = ()) -> dict[str, tuple[Field[Any], Any]]:
    """Return the fields that take part in comparisons, and those named in `also`, by name, each with its annotation."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        each.name: (each, hints[each.name]) for each in fields(cls) if each.init and (each.compare or each.name in also)
    }


def json_fields(cls: type) -> dict[str, tuple[Field[Any], Any]]:
    """Return the fields of the JSON form, like `own_fields`."""
    return {name: found for name, found in own_fields(cls).items() if "not_in_json" not in found[0].metadata}


def inner_of(hint: Any) -> tuple[Any, bool]:
    """Return the annotation without None, and whether it allows None."""
    if get_origin(hint) in (Union, UnionType):
        given = [each for each in get_args(hint) if each is not NoneType]
        return (given[0] if len(given) == 1 else Any), len(given) < len(get_args(hint))
    return hint, False


def is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


# -- reading ---------------------------------------------------------------------------------------------------------------


@cache
def _reader(cls: type) -> Callable[[object], dict[str, Any]]:
    scope: dict[str, Any] = {"InvalidArgumentError": InvalidArgumentError}
    lines = ["if not isinstance(data, dict):", "    raise InvalidArgumentError('must be an object')"]
    lines += ["get, found, key = data.get, {}, ''", "try:", "    pass  # for a class without fields"]
    for name, (field, hint) in json_fields(cls).items():
        inner = inner_of(hint)[0]
        scope[f"read_{name}"] = reader_of(inner)
        read = f"read_{name}(item)"
        if inner is str:  # the most common type: saves a call
            read = f"item if item.__class__ is str else {read}"
        condition = "item is not None"
        if _must_be_given(field):
            condition = "True"
        elif _replaces_empty(field, hint):
            condition += " and item != ''"
        lines += [f"    key = {name!r}", "    item = get(key)", f"    if {condition}:", f"        found[key] = {read}"]
    lines += ["except InvalidArgumentError as error:", "    raise error.within(key) from None", "return found"]
    return compile_function(f"read_{cls.__name__}", "data", lines, scope)


def _must_be_given(field: Field[Any]) -> bool:
    return is_required(field) or "required" in field.metadata


def _replaces_empty(field: Field[Any], hint: Any) -> bool:
    """Whether an empty text stands for the default of the field."""
    inner = inner_of(hint)[0]
    return _plain_type(inner) is str and (
        field.default_factory is not MISSING or bool(field.default) or _is_time(inner)
    )


def _is_time(hint: Any) -> bool:
    return any(isinstance(each, Kind) and each.name == "time" for each in getattr(hint, "__metadata__", ()))


def _plain_type(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


_CONTAINERS: dict[Any, Callable[[list[Any]], Any]] = {list: list, tuple: tuple, frozenset: frozenset}


def reader_of(hint: Any) -> Read:
    """Return the function that reads a JSON value of this annotation. It is not called for None."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kinds = [each for each in hint.__metadata__ if isinstance(each, Kind)]
        return kinds[0].check if kinds else reader_of(args[0])
    if origin in _CONTAINERS:
        return partial(_read_items, reader_of(args[0]), _CONTAINERS[origin])
    if origin is dict:
        return check_object if args[1] is Any else partial(_read_mapping, reader_of(args[1]))
    if origin is Literal:
        return partial(_read_choice, dict.fromkeys(args), args)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return partial(_read_enum, hint)
    if isinstance(hint, type) and hasattr(hint, "from_dict"):
        read: Read = hint.from_dict  # the bound class method, so overrides are used
        return read
    return _SCALARS[hint]


def _read_items(read: Read, container: Callable[[list[Any]], Any], value: object) -> Any:
    if not isinstance(value, list):
        raise InvalidArgumentError("must be an array")
    found: list[Any] = []
    try:
        for item in value:
            found.append(read(item))  # noqa: PERF401  # its length is the index in the error below
    except InvalidArgumentError as error:
        raise error.within(f"[{len(found)}]") from None
    return container(found)


def _read_mapping(read: Read, value: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    name = ""
    try:
        for name, item in check_object(value).items():
            found[name] = read(item)
    except InvalidArgumentError as error:
        raise error.within(name) from None
    return found


def _read_choice(known: Collection[str], names: tuple[str, ...], value: object) -> Any:
    if not isinstance(value, str) or value not in known:
        raise InvalidArgumentError(f"must be one of {', '.join(names)}")
    return value


def _read_enum(kind: type[StrEnum], value: object) -> StrEnum:
    try:
        return kind(str(value))  # `str`: no member equals the text of a number, a list or None
    except ValueError:
        raise InvalidArgumentError(f"must be one of {', '.join(kind)}") from None


_SCALARS: dict[Any, Read] = {str: check_text, bool: check_flag, int: check_count, float: check_number, Any: plain}

# -- writing ---------------------------------------------------------------------------------------------------------------


@cache
def _writer(cls: type) -> Callable[[Any], dict[str, Any]]:
    scope: dict[str, Any] = {}
    always, if_set = [], []
    for name, (field, hint) in json_fields(cls).items():
        scope[f"write_{name}"] = write = writer_of(hint)
        item = f"value.{name}" if write is None else f"write_{name}(value.{name})"
        if write is not None and inner_of(hint)[1]:
            item = f"None if value.{name} is None else {item}"
        if "only_if_set" in field.metadata:
            if_set += [f"if value.{name}:", f"    found[{name!r}] = {item}"]
        else:
            always.append(f"{name!r}: {item},")
    lines = ["found = {", *always, "}", *if_set, "return found"]
    return compile_function(f"write_{cls.__name__}", "value", lines, scope)


def writer_of(hint: Any) -> Callable[[Any], Any] | None:
    """Return the function that writes a value of this annotation; None if the value is its own JSON value."""
    hint = inner_of(_plain_type(inner_of(hint)[0]))[0]
    origin, args = get_origin(hint), get_args(hint)
    if origin in _CONTAINERS:
        write = writer_of(args[0])
        return partial(_write_items, write, sorted if origin is frozenset else list)
    if origin is dict:
        return _write_object
    if hint is Any:
        return _write_any
    if hint is float:
        return plain  # neither NaN nor infinity has a JSON form
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return str
    if isinstance(hint, type) and hasattr(hint, "to_dict"):
        return _write_value
    return None


def _write_object(value: Any) -> Any:
    return plain(value) if value else {}


def _write_value(value: Any) -> Any:
    return value.to_dict()


def _write_any(value: Any) -> Any:
    # `plain` would count the levels of a model towards the maximum depth of the JSON values in it.
    return value.to_dict() if hasattr(value, "to_dict") else plain(value)


def _write_items(write: Callable[[Any], Any] | None, order: Callable[[Any], list[Any]], value: Any) -> list[Any]:
    return order(value) if write is None else [write(item) for item in value]
