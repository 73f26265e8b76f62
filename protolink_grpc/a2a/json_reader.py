"""Typed readers for ProtoJSON fields, independent of any message: the accepted spellings of a field, and its errors.

A field may be spelled in camelCase or in snake_case, and null counts as absent. Numbers may be text. Objects come from
`models.json_value.from_json`, which limits their depth; the results share containers with them.
"""

import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import micros_from_iso

T = TypeVar("T")
Source = dict[str, Any]

INT32_MAX: Final = 2**31 - 1

_HUMP = re.compile(r"[A-Z]")
_INTEGER = re.compile(r"-?\d{1,10}", re.ASCII)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_STANDARD_BASE64 = str.maketrans("-_", "+/")


@cache
def snake_case(name: str) -> str:
    return _HUMP.sub(lambda found: "_" + found[0].lower(), name)


SNAKE: Final = {
    name: snake_case(name)
    for name in (
        "messageId",
        "contextId",
        "taskId",
        "referenceTaskIds",
        "mediaType",
        "acceptedOutputModes",
        "historyLength",
        "returnImmediately",
        "taskPushNotificationConfig",
        "pageSize",
        "pageToken",
        "statusTimestampAfter",
        "includeArtifacts",
        "artifactId",
        "supportedInterfaces",
        "protocolBinding",
        "protocolVersion",
        "pushNotifications",
        "securitySchemes",
        "defaultInputModes",
        "defaultOutputModes",
    )
}
"""The snake_case spelling of each field whose name has several words."""


def spelling_of(source: Source, name: str) -> str:
    """Return the field's name as `source` spells it."""
    other = SNAKE.get(name, name)
    return other if source.get(name) is None and source.get(other) is not None else name


def value(source: Source, name: str) -> Any:
    found = source.get(name)
    return source.get(SNAKE.get(name, name)) if found is None else found


def field_error(source: Source, name: str, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(problem, field=spelling_of(source, name))


def as_object(found: object) -> Source:
    if type(found) is not dict:
        raise InvalidArgumentError("must be an object")
    return found


def text(source: Source, name: str) -> str:
    found = value(source, name)
    if found is None:
        return ""
    if type(found) is not str:
        raise field_error(source, name, "must be a string")
    return found


def require_text(source: Source, name: str) -> str:
    found = text(source, name)
    if not found:
        raise field_error(source, name, "must be a non-empty string")
    return found


def flag(source: Source, name: str) -> bool:
    found = value(source, name)
    if found is None:
        return False
    if type(found) is not bool:
        raise field_error(source, name, "must be true or false")
    return found


def flag_or_text(source: Source, name: str) -> bool:
    """Return a flag that may be text, as in a query."""
    found = value(source, name)
    return flag({name: {"true": True, "false": False}.get(found, found)} if type(found) is str else source, name)


def integer(source: Source, name: str, least: int, most: int = INT32_MAX) -> int | None:
    """Return an integer within these bounds, both included, or None if it is absent."""
    found = value(source, name)
    if found is None:
        return None
    if (type(found) is str and _INTEGER.fullmatch(found)) or (type(found) is float and found.is_integer()):
        found = int(found)
    if type(found) is not int or not least <= found <= most:
        raise field_error(source, name, f"must be an integer from {least} to {most}")
    return found


def mapping(source: Source, name: str) -> Source | None:
    found = value(source, name)
    if found is not None and type(found) is not dict:
        raise field_error(source, name, "must be an object")
    return found


def array(source: Source, name: str) -> list[Any]:
    found = value(source, name)
    if found is None:
        return []
    if type(found) is not list:
        raise field_error(source, name, "must be an array")
    return found


def texts(source: Source, name: str) -> list[str]:
    found = array(source, name)
    for index, each in enumerate(found):
        if type(each) is not str:
            raise InvalidArgumentError("must be a string", field=f"{spelling_of(source, name)}[{index}]")
    return found


def base64_bytes(source: Source, name: str) -> bytes:
    """Return the bytes of base64 text, in the standard or URL-safe alphabet, padded or not."""
    found = text(source, name)
    try:
        plain = found.translate(_STANDARD_BASE64).rstrip("=")
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError:
        raise field_error(source, name, "must be base64 text") from None


def micros(source: Source, name: str) -> int:
    """Return an RFC 3339 time in microseconds since the epoch, 0 if it is absent. Digits below a microsecond are cut off."""
    found = text(source, name)
    if not found:
        return 0
    if not _RFC3339.fullmatch(found):
        raise field_error(source, name, "must be an RFC 3339 time")
    return micros_from_iso(found.upper(), field=spelling_of(source, name))


def nested(source: Source, name: str, read: Callable[[Source], T]) -> T | None:
    """Return `read` of an object, or None if the object is absent. An error of `read` gets the path of the object."""
    found = mapping(source, name)
    if found is None:
        return None
    try:
        return read(found)
    except InvalidArgumentError as error:
        raise error.within(spelling_of(source, name)) from None


def require_nested(source: Source, name: str, read: Callable[[Source], T]) -> T:
    found = nested(source, name, read)
    if found is None:
        raise field_error(source, name, "must be an object")
    return found
