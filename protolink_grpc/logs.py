"""The package's loggers. They protect logs against input of callers: forged lines, terminal control characters, full disks.

Text of callers enters a record as an argument, or as the message of an exception in a traceback. Arguments are escaped here, and
tracebacks are escaped and indented, so that no line in them looks like a record. If one place in the code logs too often, further
records are counted instead. Records have the ids of the current run. The application configures handlers and levels.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping

MAX_RECORDS, WINDOW_S = 60, 60.0
"""Most records that one place in the code may log per window; further records are counted. `WINDOW_S` is in seconds."""

RUN_FIELDS = ("task_id", "run_id", "trace_id", "span_id")
"""The attributes of a record with the ids of the current run."""

_NO_RUN: Mapping[str, str] = dict.fromkeys(RUN_FIELDS, "")
_readers: list[Callable[[], Mapping[str, str] | None]] = []


def read_run_fields_with(read: Callable[[], Mapping[str, str] | None]) -> None:
    """Set the function that returns the `RUN_FIELDS` of the current code, or None outside of a run. The runtime calls this once."""
    _readers[:] = [read]


def add_run_fields(record: logging.LogRecord) -> None:
    """Set the `RUN_FIELDS` of a record that does not have them: those of the current run, or empty texts outside of one."""
    if hasattr(record, "run_id"):
        return
    fields = _readers[0]() if _readers else None
    for name, value in (fields or _NO_RUN).items():
        record.__dict__.setdefault(name, value)


class RunFieldsFilter(logging.Filter):
    """Adds `task_id`, `run_id`, `trace_id` and `span_id` to the records of a handler, for example of the loggers of your tools.

    They are those of the run that logs, and empty outside of a run, so a format such as `%(trace_id)s` works for all records. The
    package's own loggers have them without it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        add_run_fields(record)
        return True


_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: terminal control characters
    "\u2028\u2029"  # line and paragraph separators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls, which can reverse the displayed text
    "\ud800-\udfff]"  # lone surrogates, which UTF-8 cannot encode
)
_KEPT_LINES = re.compile(_CONTROLS.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def escape(text: str, *, keep_lines: bool = False, form: str = "") -> str:
    """Return the text with control characters replaced by visible escapes such as `\\x1b` or `\\u202e`.

    Args:
        keep_lines: Leave line feeds and tabs unchanged.
        form: `str.format` template of an escape, applied to the code point; empty means Python's notation.
    """
    pattern = _KEPT_LINES if keep_lines else _CONTROLS
    return pattern.sub((lambda found: form.format(ord(found[0]))) if form else _visible_escape, text)


def _visible_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module of this package, with a RecordFilter. Use it instead of `logging.getLogger`."""
    logger = logging.getLogger(name)
    if not any(isinstance(each, RecordFilter) for each in logger.filters):
        logger.addFilter(RecordFilter())
    return logger


class RecordFilter(logging.Filter):
    """Escape the arguments of records, and drop records of a place in the code that logs too often.

    The next record of such a place states how many were dropped. The template and numeric arguments stay unchanged.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], _Place] = {}
        self._formatter = logging.Formatter()
        self.left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        dropped = self._count(record)
        if dropped is None:
            self.left_out += 1
            return False
        add_run_fields(record)
        given = record.args if isinstance(record.args, tuple) else ()
        args = tuple(each if isinstance(each, int | float) else _EscapedValue(each) for each in given)
        record.args = args or record.args
        if dropped:
            record.msg, record.args = f"{record.msg} (%d similar records were left out)", (*args, dropped)
        if record.exc_info:
            trace = escape(self._formatter.formatException(record.exc_info), keep_lines=True)
            # Formatters use `exc_text` if it is set, and do not format the traceback again.
            record.exc_text = "\n".join(f"  {line}" for line in trace.split("\n"))
        return True

    def reset(self) -> None:
        """Reset the counters of all places; `left_out` keeps its value."""
        self._places.clear()

    def _count(self, record: logging.LogRecord) -> int | None:
        """Return how many records of this place were dropped before this one, or None if this one is to be dropped."""
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


class _EscapedValue:
    """A wrapper of a value that escapes its `str` and `repr`."""

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
    """Return the filters of all loggers of this package."""
    loggers = [each for each in logging.Logger.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return [each for logger in loggers for each in logger.filters if isinstance(each, RecordFilter)]


def records_left_out() -> int:
    """Return how many records of this package were dropped since the process started."""
    return sum(each.left_out for each in record_filters())
