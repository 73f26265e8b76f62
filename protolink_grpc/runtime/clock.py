"""The clock that stamps events: wall time that never steps back within one process."""

from time import time_ns
from typing import Protocol


class Clock(Protocol):
    """Where times come from; tests bring their own."""

    def micros(self) -> int:
        """Microseconds since the epoch, UTC, never less than before."""


class SystemClock:
    """The machine's clock; while it steps back, time stands still."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def micros(self) -> int:
        now = time_ns() // 1000
        self._last = max(self._last, now)
        return self._last
