"""Kinds of fields: annotations that restrict a value further than its Python type does, in JSON and in messages.

Each field declares its kind in its annotation: `tokens: Count = 0`. `models.json_form` derives the JSON form from these
annotations, and `wire.compile` the messages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.clock import parse_iso8601
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.open_enum import unrecognized_number

ONLY_IF_SET: Final = {"only_if_set": True}
"""Metadata of a field that is omitted from the JSON form if it is None or empty."""
REQUIRED: Final = {"required": True}
"""Metadata of a field whose default is for Python only: it must be in the JSON form, and an unset number of an enum is kept."""
NOT_IN_JSON: Final = {"not_in_json": True}
"""Metadata of a field that is in another place of the JSON form."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A restriction of the values of a field.

    Args:
        check: Returns the value if it is allowed, and otherwise raises InvalidArgumentError without a field.
    """

    name: str
    check: Callable[[Any], Any]


def check_text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError("must be a string")
    return value


def check_name(value: object) -> str:
    if not check_text("" if value is None else value).strip():
        raise InvalidArgumentError("must be a non-empty string")
    return str(value)


def check_filled(value: object) -> str:
    if not check_text(value):
        raise InvalidArgumentError("must be a non-empty string")
    return str(value)


def check_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgumentError("must be true or false")
    return value


def check_time(value: object) -> str:
    parse_iso8601(check_text(value))
    return str(value)


def check_count(value: object) -> int:
    return _check_integer(value, reader.MAX_INTEGER)


def _check_count32(value: object) -> int:
    return _check_integer(value, 2**31 - 1)


def _check_micros(value: object) -> int:
    return _check_integer(value, reader.MAX_SECONDS * 1_000_000)


def _check_integer(value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidArgumentError(f"must be an integer from 0 to {most}")
    return value


def open_name(*known: str) -> Kind:
    """Return the kind of a value of an open enum: one of these names, or `unknown-N`."""

    def check(value: object) -> str:
        text = check_text(value)
        if text not in known and unrecognized_number(text) is None:
            raise InvalidArgumentError(f"must be one of {', '.join(known)}")
        return text

    return Kind("open name", check)


def check_object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be an object")
    copied: dict[str, Any] = plain(value)
    return copied


def _check_facts(value: object) -> dict[str, Any] | None:
    return check_object(value) or None


def check_number(value: object) -> float:
    found = reader.optional_double({"": value}, "")
    if found is None:
        raise InvalidArgumentError("must be a finite number")
    return found


def _check_amount(value: object) -> float:
    if value is None:
        raise InvalidArgumentError("must be a number that is not negative")
    return reader.check_amount(value, "") or 0


def _check_seconds(value: object) -> float:
    _check_amount(value)
    return reader.check_seconds(value, "") or 0.0


FACTS: Final = Kind("facts", _check_facts)
NAME: Final = Kind("name", check_name)
FILLED: Final = Kind("filled", check_filled)
TIME: Final = Kind("time", check_time)
COUNT: Final = Kind("count", check_count)
COUNT32: Final = Kind("count", _check_count32)
MICROS: Final = Kind("micros", _check_micros)
AMOUNT: Final = Kind("amount", _check_amount)
SECONDS: Final = Kind("seconds", _check_seconds)

Name = Annotated[str, NAME]
"""A text that is not blank."""
Facts = Annotated[dict[str, Any], FACTS]
"""A JSON object; an empty one is read as None."""
Filled = Annotated[str, FILLED]
"""A text that is not empty; it may be blank."""
Time = Annotated[str, TIME]
"""A point in time, ISO 8601."""
Count = Annotated[int, COUNT]
"""An integer, 0 <= value < 2**63."""
Count32 = Annotated[int, COUNT32]
"""An integer, 0 <= value < 2**31."""
Micros = Annotated[int, MICROS]
"""A duration in microseconds, not negative."""
Amount = Annotated[float, AMOUNT]
"""A finite number that is not negative."""
Seconds = Annotated[float, SECONDS]
"""A duration in seconds, not negative."""
