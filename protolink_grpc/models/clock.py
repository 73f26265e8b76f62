"""The clock, and points in time as text: ISO 8601, UTC, microseconds, `+00:00`. No timers and no sleeping live here."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import time_ns
from typing import Protocol

from protolink_grpc.errors import InvalidArgumentError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# 1024 distinct seconds: times of one log lie close together, and the date part is the slow part of the text.
@lru_cache(maxsize=1024)
def _format_second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).replace(tzinfo=None).isoformat(timespec="seconds")


_OURS = "2026-06-12T08:30:00.123456+00:00"


@lru_cache(maxsize=1024)
def _parse_second(text: str) -> int | None:
    """Return the seconds since the epoch of `YYYY-MM-DDTHH:MM:SS`; None for another format."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    since = moment.replace(tzinfo=UTC) - _EPOCH
    return since.days * 86_400 + since.seconds if moment.tzinfo is None and text[10] == "T" else None


def utc_now() -> str:
    """Return the current time, for instance `2026-06-12T08:30:00.123456+00:00`."""
    return iso_from_micros(time_ns() // 1000)


def parse_iso8601(text: str, *, field: str = "") -> datetime:
    """Return an aware datetime. A text without an offset is read as UTC; digits below a microsecond are cut off.

    Raises:
        InvalidArgumentError: Not ISO 8601; names `field`.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise InvalidArgumentError("must be an ISO 8601 time", field=field) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def format_iso8601(moment: datetime) -> str:
    """Return the time in UTC with microseconds. A naive datetime is read as UTC."""
    return iso_from_micros(_micros_of(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)))


def micros_from_iso(text: str, *, field: str = "") -> int:
    """Return the exact number of microseconds since the epoch.

    Raises:
        InvalidArgumentError: Not ISO 8601; names `field`.
    """
    micros = _recent.get(text) if isinstance(text, str) else None
    return _parse_micros(text, field) if micros is None else micros


_RECENT_TIMES = 1024
_recent: dict[str, int] = {}
"""Recently formatted or parsed times. Nearly all times that are parsed were formatted during the same request."""

_THOUSAND = [f"{number:03d}" for number in range(1000)]
"""The texts of milliseconds and microseconds: reading two of them takes less time than formatting six digits."""


def _remember(text: str, micros: int) -> None:
    if len(_recent) >= _RECENT_TIMES:
        _recent.clear()
    _recent[text] = micros


def _parse_micros(text: str, field: str) -> int:
    micros = _parse_own_format(text) if isinstance(text, str) else None
    if micros is None:
        return _micros_of(parse_iso8601(text, field=field))
    _remember(text, micros)
    return micros


def _parse_own_format(text: str) -> int | None:
    """Return the microseconds of a text in the format of this module; None for another format."""
    if len(text) != len(_OURS) or not text.endswith("+00:00") or text[19] != ".":
        return None
    second, digits = _parse_second(text[:19]), text[20:26]
    return second * 1_000_000 + int(digits) if second is not None and digits.isascii() and digits.isdigit() else None


def iso_from_micros(micros: int) -> str:
    """Format microseconds since the epoch, the inverse of `micros_from_iso`.

    Raises:
        InvalidArgumentError: Outside the years 1 to 9999.
    """
    second, rest = divmod(micros, 1_000_000)
    try:
        text = f"{_format_second(second)}.{_THOUSAND[rest // 1000]}{_THOUSAND[rest % 1000]}+00:00"
    except OverflowError:
        raise InvalidArgumentError("time is outside the years 1 to 9999") from None
    _remember(text, micros)
    return text


def _micros_of(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class Clock(Protocol):
    """A source of the current time. Tests use their own."""

    def micros(self) -> int:
        """Return microseconds since the epoch. Never decreases."""


class SystemClock:
    """The clock of the machine. If that is set back, the time stays the same until it has caught up."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def micros(self) -> int:
        now = time_ns() // 1000
        self._last = max(self._last, now)
        return self._last
