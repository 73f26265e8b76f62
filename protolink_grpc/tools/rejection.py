"""Converts violations that a validator found to one ToolRejectedError, which never contains the values.

An argument may be a secret, and the error is stored, logged and sent to models.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from protolink_grpc.errors import ToolRejectedError

MAX_ERRORS = 20
"""The number of listed violations: a list with a million invalid items must not become a million messages."""

MAX_CHARS = 200
"""Maximum length of one message and of one path. Both may contain names from the caller."""

MAX_FOUND = 1000
"""The number of violations that are converted. Each takes about 10 us, and a request may contain a million."""

MAX_AUTHOR_CHARS = 2000
"""Maximum length of a message from a validator of the tool's author. A longer one is replaced, because it may contain the value."""

SHORT_CHARS = 3

Problem = dict[str, str]
"""One violation. Keys: `path` (such as `items[0].name`; empty for the whole value), `message` and `type`."""


def make_problem(path: str, message: str, kind: str) -> Problem:
    return {"path": _make_printable(path), "message": _make_printable(message), "type": kind}


def invalid_arguments_error(tool: str, problems: Sequence[Problem]) -> ToolRejectedError:
    found = list(problems[:MAX_ERRORS])
    text = "; ".join(f"{p['path']}: {p['message']}" if p["path"] else p["message"] for p in found)
    return ToolRejectedError(
        f"Tool '{tool}' arguments were invalid: {text}",
        code="invalid_arguments",
        details={"errors": found},
        suggestion="Correct the arguments using the tool's input schema.",
    )


def problems_of(error: ValidationError, value: object) -> list[Problem]:
    """Convert the violations that pydantic found, in its order, at most `MAX_ERRORS`. Of more than `MAX_FOUND` only the number."""
    if error.error_count() > MAX_FOUND:
        return [make_problem("", f"{error.error_count()} values are invalid, too many to list", "too_many_errors")]
    details = error.errors(include_url=False)[:MAX_ERRORS]
    return [make_problem(_path(d, value), _message(d), d["type"]) for d in details]


def join_path(parts: Sequence[str | int]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts).removeprefix(".")


def _path(detail: ErrorDetails, value: object) -> str:
    """The path of the invalid value, without the names of union members that pydantic adds."""
    parts: list[str | int] = []
    here: Any = value
    location = detail["loc"]
    for depth, step in enumerate(location, start=1):
        if isinstance(step, int):
            here = here[step] if isinstance(here, list) and step < len(here) else None
            parts.append(step)
        elif isinstance(here, Mapping) and step in here:
            here = here[step]
            parts.append(step)
        elif depth == len(location) and detail["type"].startswith("missing"):
            parts.append(step)
    return join_path(parts)


def _message(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "union_tag_invalid":  # pydantic's own message, which repeats the value.
            return f"Input tag does not match any of the expected tags: {detail['ctx']['expected_tags']}"
        case "value_error" | "assertion_error":  # A message of a validator's author, which often contains the value.
            return _mask_values(detail["msg"], detail["input"])
        case _:
            return detail["msg"]


def _mask_values(message: str, value: Any) -> str:
    if len(message) > MAX_AUTHOR_CHARS:
        return "Value is not valid"
    for leaf in sorted({leaf for leaf in _leaves(value) if leaf in message}, key=len, reverse=True):
        # Short values are also parts of ordinary words, so only whole words are replaced.
        pattern = re.escape(leaf) if len(leaf) > SHORT_CHARS else rf"(?<!\w){re.escape(leaf)}(?!\w)"
        message = re.sub(pattern, "[value]", message)
    return message


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case bool() | None | "":
            return
        case Mapping():
            for item in value.values():
                yield from _leaves(item)
        case list() | tuple() | set() | frozenset():
            for item in value:
                yield from _leaves(item)
        case str():
            yield value
            yield repr(value)[1:-1]  # As formatted with `!r`: quotes and line ends are escaped.
        case int() | float():
            yield str(value)
        case _:
            return


def _make_printable(text: str) -> str:
    """Shorten a text and replace lone surrogates, which JSON input may contain and UTF-8 output cannot."""
    return text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
