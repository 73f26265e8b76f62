"""What is printed, and how: results on standard output, everything else on standard error. What they say is decided elsewhere.

Text from peers is untrusted: control characters never reach a terminal, they are shown as escapes.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from protolink_grpc.cli.failure import CommandError, ReaderGoneError
from protolink_grpc.logs import escape

STYLES = {
    "completed": "green",
    "failed": "red",
    "rejected": "red",
    "canceled": "yellow",
    "input-required": "yellow",
    "auth-required": "yellow",
    "working": "cyan",
    "ok": "green",
    "problem": "red",
    "up": "green",
    "down": "yellow",
    "draining": "yellow",
    "expired": "red",
    "pending": "yellow",
    "approved": "green",
    "denied": "red",
    "withdrawn": "yellow",
}
"""Words that are coloured on a terminal."""


def printable(text: str) -> str:
    """The text with control characters as escapes; line ends and tabs stay. See `logs.escape`."""
    return escape(text, keep_lines=True)


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line, at most `limit` characters, an ellipsis where some are missing."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def pretty(value: Any) -> str:
    """A value for people: text as it is, anything else as indented JSON."""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))


def document(value: Any) -> None:
    """The one JSON document of a command."""
    _write(_json(value, indent=2))


def json_line(value: Any) -> None:
    """One line of JSON Lines, flushed: readers act on it as it comes."""
    _write(_json(value))


def _json(value: Any, indent: int | None = None) -> str:
    """JSON that a terminal can show: what JSON leaves as it is and a terminal obeys is spelled as an escape of JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return escape(text, keep_lines=True, form="\\u{:04x}")


def line(text: str = "", *, word: str = "") -> None:
    """One line of text. On a terminal `word`, when it is one of `STYLES` and in the text, has its colour."""
    shown = printable(text)
    style = STYLES.get(word)
    _write(shown if style is None or not sys.stdout.isatty() else _coloured(shown, word, style))


def _coloured(text: str, word: str, style: str) -> str:
    # Only a terminal needs rich: piped output starts a tenth of a second sooner without it.
    from rich.console import Console
    from rich.text import Text

    styled = Text(text)
    at = text.rfind(word)
    styled.stylize(style, at, at + len(word))
    console = Console(highlight=False, soft_wrap=True)
    with console.capture() as captured:
        console.print(styled, end="")
    return captured.get()


def piece(text: str) -> None:
    """Text that goes on where the last piece ended; `line` without text ends it."""
    _put(printable(text))


def field(label: str, value: str) -> None:
    """`Label: value` on one line; nothing when there is no value."""
    if value:
        line(f"{label}: {one_line(value, 2000)}", word=value)


def block(label: str, content: str) -> None:
    """Content of several lines under its label, closed by an empty line."""
    line(f"{label}:")
    for each in content.splitlines() or [""]:
        line(each)
    line()


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without borders; nothing is cut off, whatever the width of the terminal."""
    table = [list(heads), *([one_line(cell, 200) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(heads))]
    for row in table:
        line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def note(kind: str, text: str) -> None:
    """`kind: text` on standard error, where notes, warnings and hints for people go."""
    flush()
    print(f"{kind}: {printable(text)}", file=sys.stderr, flush=True)


def failure(error: CommandError, *, as_json: bool) -> None:
    """Why the command failed, on standard error."""
    if as_json:
        print(_json(error.to_dict(), indent=2), file=sys.stderr, flush=True)
        return
    note("error", str(error))
    if error.hint:
        note("hint", error.hint)


def flush() -> None:
    """Send what was printed. Raises ReaderGoneError when nobody reads any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGoneError from error


def _write(text: str) -> None:
    _put(text + "\n")


def _put(text: str) -> None:
    try:
        sys.stdout.write(text)
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    flush()
