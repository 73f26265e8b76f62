"""Converts values to JSON text and back. No code for a particular model lives here.

Integers of any length keep all digits. NaN and the infinities have no JSON form and become null. Text that is not
valid Unicode and values nested deeper than `MAX_DEPTH` are refused in both directions, so each text that was written can be read.

The cost of a text is bounded before it is parsed: `json_complexity` estimates it without parsing.
"""

import base64
import dataclasses
import json
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import Any, TypeAlias
from uuid import UUID

import orjson

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"

MAX_DEPTH = 100
"""Maximum number of nested containers. Source: the recursion limit of protobuf, whose parser reads such a value next."""

MAX_COMPLEXITY = 250_000
"""Default bound of one request: 25,000 objects, 50,000 keys, or an array of 250,000 numbers, 100,000 as protobuf messages."""

# Otherwise orjson would write a dataclass without its `to_dict`. Keys that are not text become text.
_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_NON_STR_KEYS
_SAME_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19  # 2**63 has 19 digits: orjson may round longer integers to a float
_SAME_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


def to_json(value: object) -> str:
    """Return the JSON text of a value, for instance of a tool's result.

    Besides JSON's own types: tuples, sets (sorted, so that equal sets give equal text), bytes (base64), dates, times,
    UUIDs, enums (their value), Decimals (text), dataclasses, mappings, and objects with `to_dict()` or `model_dump()`.

    Raises:
        TypeError: A value of another type; names that type.
        InvalidArgumentError: Too deep, circular, or text that is not valid Unicode.
    """
    try:
        raw = orjson.dumps(value, default=_simplify, option=_OPTIONS)
    except TypeError:  # an integer that orjson cannot write, or a value of another type: `plain` raises the right error
        return _dumps(plain(value))
    if len(raw) > MAX_DEPTH:
        _check_depth(raw)
    return raw.decode()


def json_error_text(error: json.JSONDecodeError) -> str:
    """Return the message of an error with its column: `Unterminated string at column 288`."""
    # Some messages end with words that expect a position.
    what = error.msg.removesuffix(" at").removesuffix(" starting").rstrip(": ")
    return f"{what} at column {error.colno}"


def from_json(text: str | bytes, *, field: str = "", max_complexity: int | None = None) -> JsonValue:
    """Return the value of a JSON text.

    Args:
        max_complexity: A text above it is refused before it is parsed; None means no bound.

    Raises:
        InvalidArgumentError: Not JSON, or too deep; names `field`.
        MessageTooLargeError: More than `max_complexity`; names `field`.
    """
    try:
        raw = text.encode() if isinstance(text, str) else text
        if max_complexity is not None:
            check_complexity(json_complexity(raw, max_complexity), max_complexity)
        value: JsonValue = orjson.loads(raw)
        if len(raw) > MAX_DEPTH:
            _check_depth(raw)
        if _LONG_NUMBER in raw.translate(_SAME_DIGITS):
            value = json.loads(raw)
    except InvalidArgumentError as error:
        raise error.within(field) from None
    except ValueError:  # also raised by `int` for thousands of digits
        raise InvalidArgumentError("must be valid JSON", field=field) from None
    return value


def json_complexity(raw: bytes, most: int) -> int:
    """Return the cost of reading a JSON text: 10 for each object and array, 4 for each key, 1 for each further value.

    It only searches bytes and does not parse, so it is fast and allocates no objects for the values.

    Args:
        most: The caller's bound. A result above it may be too high, because exact counting then has no use.

    Returns:
        The complexity of a well-formed text; any number for another.
    """
    found = _complexity(raw)
    if found <= most or b'"' not in raw:
        return found
    # Strings may contain brackets and commas: count without them.
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    quotes = unescaped.count(b'"')
    if quotes > 4 * most + 2:
        return quotes // 2  # each string is a key or a value, so this alone exceeds the bound
    return _complexity(b"".join(unescaped.split(b'"')[::2]))


def _complexity(raw: bytes) -> int:
    return 10 * (raw.count(b"{") + raw.count(b"[")) + 4 * raw.count(b":") + raw.count(b",")


def check_complexity(found: int, most: int, field: str = "") -> None:
    """Raise MessageTooLargeError when the complexity of a request is above `most`; names `field`."""
    if found > most:
        raise MessageTooLargeError(f"has a complexity above {most}", field=field, max_complexity=str(most))


def normalize(value: object) -> JsonValue:
    """Return the value after conversion to JSON text and back."""
    return from_json(to_json(value))


def canonical_json(value: object) -> str:
    """Return JSON text with sorted keys, so that equal values give equal text. Raises like `to_json`."""
    return sorted_json(plain(value))


def sorted_json(value: JsonValue) -> str:
    """Return `canonical_json` of a value that has JSON's types only and is not too deep, as `plain` returns it."""
    return _dumps(value, sort_keys=True)


def is_same_json(one: object, other: object) -> bool:
    """Return whether two values have the same JSON form; the order of keys does not matter. Raises like `to_json`."""
    return to_json(one) == to_json(other) or canonical_json(one) == canonical_json(other)


def plain(value: Any) -> Any:
    """Return a deep copy that has JSON's types only, by the rules of `to_json`. It shares nothing mutable with `value`."""
    return _plain(value, MAX_DEPTH)


def _plain(value: Any, room: int) -> Any:
    kind = type(value)
    if kind in _UNCHANGED:
        return value
    if kind is float:
        return value if isfinite(value) else None
    if room == 0:
        raise InvalidArgumentError(f"nested deeper than {MAX_DEPTH} levels")
    # Most items are in `_UNCHANGED`: no call for each of them.
    if kind is dict:
        return {
            k if type(k) is str else _key_text(k): v if v.__class__ in _UNCHANGED else _plain(v, room - 1)
            for k, v in value.items()
        }
    if kind is list or kind is tuple:
        return [item if item.__class__ in _UNCHANGED else _plain(item, room - 1) for item in value]
    simple = _simplify(value)
    # A container stays at its level. Objects count as a level, so that the conversion of an object to itself ends.
    return _plain(simple, room if type(simple) in (dict, list) else room - 1)


_UNCHANGED = frozenset({str, int, bool, type(None)})
"""Classes whose direct instances are JSON values already."""


def _simplify(value: Any) -> Any:
    """Convert a value one step towards JSON. The order matters: an enum may be a str, and a dataclass may have `to_dict`."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return iso_duration(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    for native in (str, int, float):
        if isinstance(value, native):
            return native(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return list(value)
    return _from_object(value)


def iso_duration(value: timedelta) -> str:
    """Return a duration in the format of ISO 8601, in days and seconds: `P1DT1.5S`."""
    length = abs(value)
    fraction = f".{length.microseconds:06d}".rstrip("0") if length.microseconds else ""
    days = f"{length.days}D" if length.days else ""
    return f"{'-' if value < timedelta() else ''}P{days}T{length.seconds}{fraction}S"


def _from_object(value: Any) -> Any:
    if not isinstance(value, type):
        for method in ("to_dict", "model_dump"):
            convert = getattr(value, method, None)
            if callable(convert):
                # By the names of the model's JSON Schema, which are the aliases.
                return convert(by_alias=True) if hasattr(value, "__pydantic_serializer__") else convert()
        if dataclasses.is_dataclass(value):
            return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def _key_text(key: Any) -> str:
    """Return a key as orjson writes it."""
    if isinstance(key, Enum):
        return _key_text(key.value)
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key if not isinstance(key, float) or isfinite(key) else None)
    if isinstance(key, datetime | date | time):
        return key.isoformat()
    if isinstance(key, UUID):
        return str(key)
    raise TypeError(f"{type(key).__name__} cannot be the key of a JSON object")


def _dumps(value: Any, *, sort_keys: bool = False) -> str:
    text = (_SORTED if sort_keys else _UNSORTED).encode(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("text is not valid Unicode") from None
    return text


@lru_cache(maxsize=1024)
def to_camel_case(name: str) -> str:
    """Convert a name such as `action_id` to `actionId`."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


_SORTED, _UNSORTED = (
    json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys) for sort_keys in (True, False)
)


def _check_depth(raw: bytes) -> None:
    """Raise if well-formed JSON is too deep. Counting brackets decides nearly all texts, and string operations the others."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    structure = unescaped.translate(_SAME_BRACKETS, _NOT_STRUCTURE)
    brackets = structure.replace(b'""', b"")  # strings without a bracket
    if b'"' in brackets:
        brackets = b"".join(structure.split(b'"')[::2])
    for _ in range(MAX_DEPTH):  # each pass removes the innermost levels
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise InvalidArgumentError(f"nested deeper than {MAX_DEPTH} levels")
