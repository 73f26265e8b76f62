"""Turns what a validator found into the one refusal that callers read; the values that they sent never come back.

An argument may be a secret, and a refusal is stored, logged and shown to models.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from protolink_grpc.errors import ToolRejectedError

MAX_ERRORS = 20
"""More than anybody corrects at once; a list of a million wrong items must not become a million sentences."""

MAX_CHARS = 200
"""Bound of one message and of one path: both may hold names that the caller made up."""

MAX_FOUND = 1000
"""Violations that are looked at one by one. Each costs about 10 us, and a request may hold a million of them."""

MAX_AUTHOR_CHARS = 2000
"""Of what a validator's author says; more than that holds the value, and is not searched for it."""

SHORT_CHARS = 3

Problem = dict[str, str]
"""Keys `path` (as `items[0].name`, empty for the whole), `message`, `type`."""


def problem(path: str, message: str, kind: str) -> Problem:
    return {"path": _printable(path), "message": _printable(message), "type": kind}


def invalid_arguments(tool: str, problems: Sequence[Problem]) -> ToolRejectedError:
    found = list(problems[:MAX_ERRORS])
    text = "; ".join(f"{p['path']}: {p['message']}" if p["path"] else p["message"] for p in found)
    return ToolRejectedError(
        f"Tool '{tool}' arguments were invalid: {text}",
        code="invalid_arguments",
        details={"errors": found},
        suggestion="Correct the arguments using the tool's input schema.",
    )


def problems_of(error: ValidationError, value: object) -> list[Problem]:
    """What pydantic found, at most `MAX_ERRORS` of it, in its order; of more than `MAX_FOUND` only the number."""
    if error.error_count() > MAX_FOUND:
        return [problem("", f"{error.error_count()} values are wrong, which is too many to list", "too_many_errors")]
    details = error.errors(include_url=False)[:MAX_ERRORS]
    return [problem(_path(d, value), _message(d), d["type"]) for d in details]


def join_path(parts: Sequence[str | int]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts).removeprefix(".")


def _path(detail: ErrorDetails, value: object) -> str:
    """Where the wrong value is. pydantic mixes names of union members into its path; they are left out."""
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
        case "union_tag_invalid":  # The only text of pydantic's own that repeats the value.
            return f"Input tag does not match any of the expected tags: {detail['ctx']['expected_tags']}"
        case "value_error" | "assertion_error":  # Written by the author of a validator, often around the value.
            return _without_values(detail["msg"], detail["input"])
        case _:
            return detail["msg"]


def _without_values(message: str, value: Any) -> str:
    if len(message) > MAX_AUTHOR_CHARS:
        return "Value is not valid"
    for leaf in sorted({leaf for leaf in _leaves(value) if leaf in message}, key=len, reverse=True):
        # Short values are also parts of ordinary words, so they only count where they stand alone.
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
            yield repr(value)[1:-1]  # As authors print it with `!r`: quotes and line ends are spelled differently.
        case int() | float():
            yield str(value)
        case _:
            return


def _printable(text: str) -> str:
    """Bounded, and without lone surrogates, which JSON input may hold and UTF-8 output cannot."""
    return text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
