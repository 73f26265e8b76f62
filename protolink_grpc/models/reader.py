"""Reads typed values from JSON objects. A value of another type raises an InvalidArgumentError that names the field.

Readers raise with the name of the field as they see it; `items` and `nested` add the path on the way out. A missing key
and a null are the same. Containers come back as deep copies.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any, TypeVar

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import parse_iso8601, utc_now
from protolink_grpc.models.json_value import plain

T = TypeVar("T")

MAX_INTEGER = 2**63 - 1
"""The largest number of an int64 field of the contract."""


def as_object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be an object")
    return value


def optional_text(data: dict[str, Any], key: str) -> str | None:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError("must be a string", field=key)
    return value


def text(data: dict[str, Any], key: str, default: str = "") -> str:
    value = optional_text(data, key)
    return default if value is None else value


def required_text(data: dict[str, Any], key: str) -> str:
    value = optional_text(data, key)
    if not value or value.isspace():
        raise InvalidArgumentError("must be a non-empty string", field=key)
    return value


def filled_text(data: dict[str, Any], key: str) -> str:
    """Return a required text that is not empty; it may be blank."""
    value = given_text(data, key)
    if not value:
        raise InvalidArgumentError("must be a non-empty string", field=key)
    return value


def given_text(data: dict[str, Any], key: str) -> str:
    """Return a required text; it may be empty."""
    value = optional_text(data, key)
    if value is None:
        raise InvalidArgumentError("must be a string", field=key)
    return value


def moment(data: dict[str, Any], key: str) -> str:
    """Return an ISO 8601 time in its original spelling; the current time if it is missing or empty."""
    value = optional_text(data, key)
    if not value:
        return utc_now()
    parse_iso8601(value, field=key)
    return value


def optional_flag(data: dict[str, Any], key: str) -> bool | None:
    value = data.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidArgumentError("must be true or false", field=key)
    return value


def flag(data: dict[str, Any], key: str, default: bool = False) -> bool:
    value = optional_flag(data, key)
    return default if value is None else value


def optional_integer(data: dict[str, Any], key: str, *, most: int = MAX_INTEGER) -> int | None:
    """Return an integer, 0 <= value <= most, or None."""
    return check_integer(data.get(key), key, most=most)


def check_integer(value: Any, key: str, *, most: int = MAX_INTEGER) -> int | None:
    """Return the value if it is None or an integer, 0 <= value <= most."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidArgumentError(f"must be an integer from 0 to {most}", field=key)
    return value


def integer(data: dict[str, Any], key: str, default: int = 0, *, most: int = MAX_INTEGER) -> int:
    value = optional_integer(data, key, most=most)
    return default if value is None else value


MAX_SECONDS = 315_576_000_000
"""The longest duration of the contract: 10,000 years. Source: google.protobuf.Duration."""


def optional_amount(data: dict[str, Any], key: str) -> float | None:
    """Return a finite number that is not negative, or None."""
    return check_amount(data.get(key), key)


def check_amount(value: Any, key: str) -> float | None:
    """Return the value if it is None or a finite number that is not negative."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_INTEGER:
        raise InvalidArgumentError("must be a number that is not negative", field=key)
    return value


def check_seconds(value: Any, key: str) -> float | None:
    """Return the value if it is None or a number of seconds, 0 <= value <= MAX_SECONDS."""
    if check_amount(value, key) is not None and value > MAX_SECONDS:
        raise InvalidArgumentError(f"must be at most {MAX_SECONDS} seconds", field=key)
    seconds: float | None = value
    return seconds


def optional_double(data: dict[str, Any], key: str) -> float | None:
    """Return a finite number within the range of a double, or None."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_double(value):
        raise InvalidArgumentError("must be a finite number", field=key)
    return value


def _is_double(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        return False


def optional_mapping(data: dict[str, Any], key: str) -> dict[str, Any] | None:
    value = data.get(key)
    return None if value is None else _mapping(value, key)


def mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return {} if value is None else _mapping(value, key)


def _mapping(value: object, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgumentError("must be an object", field=key)
    return copy_value(value, key)


def copy_value(value: T, key: str) -> T:
    """Return a deep copy. Errors name `key`."""
    try:
        copy: T = plain(value)
    except InvalidArgumentError as error:
        raise error.within(key) from None
    return copy


def array(data: dict[str, Any], key: str) -> list[Any]:
    """Return the list itself, not a copy."""
    value = data.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidArgumentError("must be an array", field=key)
    return value


def texts(data: dict[str, Any], key: str) -> list[str]:
    found = array(data, key)
    for index, value in enumerate(found):
        if not isinstance(value, str):
            raise InvalidArgumentError("must be a string", field=f"{key}[{index}]")
    return list(found)


def items(data: dict[str, Any], key: str, read: Callable[[object], T]) -> list[T]:
    """Return the elements of an array, each converted by `read`; an error names `key[index]`."""
    found: list[T] = []
    source = array(data, key)
    try:
        for value in source:
            found.append(read(value))  # noqa: PERF401  # its length is the index in the error below
    except InvalidArgumentError as error:
        raise error.within(f"{key}[{len(found)}]") from None
    return found


def nested(data: dict[str, Any], key: str, read: Callable[[object], T]) -> T:
    """Return the value of `key`, converted by `read`, null included; an error names `key`."""
    try:
        return read(data.get(key))
    except InvalidArgumentError as error:
        raise error.within(key) from None
