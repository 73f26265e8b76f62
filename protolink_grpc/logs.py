"""The package's loggers. With what they send, callers can neither forge a line of a log nor control a terminal, nor fill a disk.

Text of callers gets into a record as an argument, or as the message of an error in a trace. Arguments are escaped here, and traces
are indented, so that no line that a caller has written looks like a record. A place in the code that logs too often is counted
instead. Handlers and levels are the program's business.
"""

import logging
import re
import time
from collections.abc import Callable

MAX_RECORDS, WINDOW_S = 60, 60.0
"""Records of one place in the code in so many seconds; further ones are counted."""

_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: commands of terminals
    "\u2028\u2029"  # separators of lines and paragraphs
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text around
    "\ud800-\udfff]"  # halves of characters, which no output can encode
)
_KEPT_LINES = re.compile(_CONTROLS.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def escape(text: str, *, keep_lines: bool = False, form: str = "") -> str:
    """The text with every character visible that would do something to a log or a terminal, as `\\x1b` or `\\u202e`.

    Args:
        keep_lines: Line ends and tabs stay as they are.
        form: Format of an escape, which gets the number of the character; empty means Python's own.
    """
    pattern = _KEPT_LINES if keep_lines else _CONTROLS
    return pattern.sub((lambda found: form.format(ord(found[0]))) if form else _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def get_logger(name: str) -> logging.Logger:
    """The logger of a module of this package; use it in place of `logging.getLogger`."""
    logger = logging.getLogger(name)
    if not any(isinstance(each, RecordFilter) for each in logger.filters):
        logger.addFilter(RecordFilter())
    return logger


class RecordFilter(logging.Filter):
    """Escapes records, and leaves out those of a place that logs too often.

    The next record of such a place says how many were left out. The template and the numbers of a record stay as they are.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], _Place] = {}
        self._formatter = logging.Formatter()
        self.left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        before = self._count(record)
        if before is None:
            self.left_out += 1
            return False
        given = record.args if isinstance(record.args, tuple) else ()
        args = tuple(each if isinstance(each, int | float) else _Shown(each) for each in given)
        record.args = args or record.args
        if before:
            record.msg, record.args = f"{record.msg} (%d more like this were left out)", (*args, before)
        if record.exc_info:
            trace = escape(self._formatter.formatException(record.exc_info), keep_lines=True)
            # Formatters take a text that is there already instead of making one.
            record.exc_text = "\n".join(f"  {line}" for line in trace.split("\n"))
        return True

    def reset(self) -> None:
        """Begin to count anew; `left_out` stays."""
        self._places.clear()

    def _count(self, record: logging.LogRecord) -> int | None:
        """How many records of this place were left out before this one; None where this one is left out, too."""
        now = self._clock()
        place = self._places.setdefault((record.pathname, record.lineno), _Place(now))
        if now - place.since >= WINDOW_S:
            place.since, place.count = now, 0
        place.count += 1
        if place.count > MAX_RECORDS:
            place.left_out += 1
            return None
        left_out, place.left_out = place.left_out, 0
        return left_out


class _Shown:
    """A value whose texts are escaped."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return escape(str(self._value))

    def __repr__(self) -> str:
        return escape(repr(self._value))


class _Place:
    __slots__ = ("count", "left_out", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.count = self.left_out = 0


def record_filters() -> list[RecordFilter]:
    """The filters of all loggers of this package."""
    loggers = [each for each in logging.Logger.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return [each for logger in loggers for each in logger.filters if isinstance(each, RecordFilter)]


def records_left_out() -> int:
    """Records of this package that were counted instead of logged, since the process began."""
    return sum(each.left_out for each in record_filters())
