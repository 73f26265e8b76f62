"""Converts violations that a validator found to one ToolRejectedError, which never contains the values.

An argument may be a secret, and the error is stored, logged and sent to models.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from protolink_grpc.errors import ToolRejectedError

MAX_ERRORS = 20
"""The number of listed violations: a list with a million invalid items must not become a million messages."""

MAX_CHARS = 200
"""Maximum length of one message and of one path. Both may contain names from the caller."""

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


def join_path(parts: Sequence[str | int]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts).removeprefix(".")


def mask_values(message: str, value: Any) -> str:
    """Return a message without the values in it."""
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
