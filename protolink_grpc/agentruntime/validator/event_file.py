"""Reads event logs: JSON Lines, one event per line. No rule of the contract is here."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import json_error_text

MAX_LINE_BYTES: Final = 16 << 20
"""Maximum length of a line, without its end."""

_NESTED: Final = ("hookRun", "benchmark", "channel", "job", "jobItem", "output")
"""Objects of an event that may have its ids."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a log. Values of unexpected types read as missing ones.

    Args:
        line: Number of its line, from 1.
        record: The JSON object.
        type, payload: Empty if they are missing.
        turn, thread: The session, and the id in it.
        texts: The texts of the envelope, of the typed objects beside the payload, and of the payload, in this order of precedence.
        size: Length of the line in bytes.
        digest: Of the line, to recognize an event that was delivered twice.
    """

    line: int
    record: dict[str, Any]
    type: str
    payload: dict[str, Any]
    turn: tuple[str, str]
    thread: tuple[str, str]
    texts: dict[str, str]
    size: int
    digest: int

    @classmethod
    def of(cls, line: int, record: dict[str, Any], raw: bytes) -> Self:
        inside = record.get("payload")
        payload = inside if isinstance(inside, dict) else {}
        places = (payload, *(its for name in _NESTED if isinstance(its := record.get(name), dict)), record)
        texts = {name: value for place in places for name, value in place.items() if isinstance(value, str)}
        kind, session = record.get("type"), texts.get("sessionId", "")
        turn, thread = (session, texts.get("turnId", "")), (session, texts.get("threadId", ""))
        return cls(
            line, record, kind if isinstance(kind, str) else "", payload, turn, thread, texts, len(raw), hash(raw)
        )

    def text(self, name: str) -> str:
        """Return a text of the event, for instance an id; empty if there is none."""
        return self.texts.get(name, "")

    def has(self, *names: str) -> bool:
        """Whether the event has one of the fields, in the envelope, in `refs` or in the payload, with a value."""
        refs = self.record.get("refs")
        places = (self.payload, self.record, refs if isinstance(refs, dict) else {})
        return any(place.get(name) not in (None, "", [], {}) for place in places for name in names)


def read_events(file: BinaryIO) -> Iterator[Event]:
    """Read the events of a log. Empty lines are skipped. One line at a time is in memory.

    Raises:
        InvalidArgumentError: A line is longer than `MAX_LINE_BYTES`, is not JSON, or is not an object; or the file has no event.
            The error names the line.
        OSError: The file cannot be read.
    """
    has_events = False
    for number, raw in enumerate(_lines(file), 1):
        text = raw.strip()
        if not text:
            continue
        has_events = True
        yield Event.of(number, _parse(text, number), text)
    if not has_events:
        raise InvalidArgumentError("the file has no events")


def _lines(file: BinaryIO) -> Iterable[bytes]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 2):
        number += 1
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise InvalidArgumentError(f"line {number}: longer than {MAX_LINE_BYTES >> 20} MiB")
        yield line


def _parse(text: bytes, number: int) -> dict[str, Any]:
    try:
        value = _DECODER.decode(text.decode())
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"line {number}: not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InvalidArgumentError(f"line {number}: not JSON: {json_error_text(error)}") from None
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArgumentError(f"line {number}: not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"line {number}: must be an object, not {_TYPE_NAMES[type(value)]}")
    return value


_TYPE_NAMES: Final = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
