"""Printing: results on standard output, everything else on standard error.

Text from peers is untrusted: control characters are printed as escapes.
"""

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, Final

from protolink_grpc.cli.failure import CommandError, ReaderGoneError
from protolink_grpc.logs import escape

WIDTH: Final = 80
"""The width of a terminal, in characters. Output is the same in a pipe."""

LAST_COLUMN_CHARS: Final = 8
"""The last column of a table is not shortened further, even if the others leave less room."""

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
"""Words that are colored on a terminal."""


def printable(text: str) -> str:
    """Escape control characters except line ends and tabs. See `logs.escape`."""
    return escape(text, keep_lines=True)


def one_line(text: str, limit: int = 120) -> str:
    """Put a text on one line of at most `limit` characters, with an ellipsis if it is shortened."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def pretty(value: Any) -> str:
    """Format a value: text unchanged, anything else as indented JSON."""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))


def document(value: Any) -> None:
    """Print the JSON document of a command."""
    _write(_json(value, indent=2))


def json_line(value: Any) -> None:
    """Print one line of JSON Lines and flush it, so that readers can process it at once."""
    _write(_json(value))


def _json(value: Any, indent: int | None = None) -> str:
    """Encode JSON that is safe on a terminal: control characters that JSON allows are written as JSON escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return escape(text, keep_lines=True, form="\\u{:04x}")


def line(text: str = "", *, word: str = "") -> None:
    """Print one line of text. On a terminal, `word` is colored if it is in `STYLES` and in the text."""
    shown = printable(text)
    style = STYLES.get(word)
    _write(shown if style is None or not sys.stdout.isatty() else _color(shown, word, style))


def _color(text: str, word: str, style: str) -> str:
    # Only terminals need rich, and importing it takes a tenth of a second.
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
    """Print text without a line end. `line` without text ends the line."""
    _put(printable(text))


def field(label: str, value: str) -> None:
    """Print `Label: value`, or nothing if there is no value."""
    if value:
        line(f"{label}: {one_line(value, 2000)}", word=value)


def wrapped_field(label: str, value: str) -> None:
    """Print `Label: value` on lines of at most `WIDTH` characters, the further ones indented."""
    flat = one_line(f"{label}: {value}", 2000)
    for each in textwrap.wrap(flat, WIDTH, subsequent_indent="  ", break_on_hyphens=False):
        line(each)


def block(label: str, content: str) -> None:
    """Print a label, several lines of content, and an empty line."""
    line(f"{label}:")
    for each in content.splitlines() or [""]:
        line(each)
    line()


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without borders.

    The last column is shortened so that lines have at most `WIDTH` characters, if the others leave room. The other columns, for
    instance ids, are never shortened.
    """
    table = [list(heads), *([one_line(cell, 200) for cell in row] for row in rows)]
    taken = sum(max(len(row[index]) for row in table) + 2 for index in range(len(heads) - 1))
    room = max(WIDTH - taken, LAST_COLUMN_CHARS, len(heads[-1]))
    for row in table:
        row[-1] = one_line(row[-1], room)
    widths = [max(len(row[index]) for row in table) for index in range(len(heads))]
    for row in table:
        line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def columns_with_values(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without the columns that have no value. An empty table has all."""
    shown = [index for index in range(len(heads)) if not rows or any(row[index] for row in rows)]
    columns([heads[index] for index in shown], [[row[index] for index in shown] for row in rows])


def note(kind: str, text: str) -> None:
    """Print `kind: text` to standard error: notes, warnings and hints."""
    flush()
    print(f"{kind}: {printable(text)}", file=sys.stderr, flush=True)


def failure(error: CommandError, *, as_json: bool) -> None:
    """Print the error of a command to standard error."""
    if as_json:
        print(_json(error.to_dict(), indent=2), file=sys.stderr, flush=True)
        return
    note("error", str(error))
    if error.hint:
        note("hint", error.hint)


def flush() -> None:
    """Flush standard output. Raises ReaderGoneError if its reader has closed it."""
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
