"""Delays between attempts: they double up to a maximum, with jitter."""

import math
import random
from collections.abc import Callable


class ExponentialDelay:
    """The delays of one sequence of attempts.

    Args:
        first_s: The first delay in seconds, before jitter.
        longest_s: The maximum, before jitter.
        chance: Returns random numbers in [0, 1); tests replace it.
    """

    __slots__ = ("_chance", "_first_s", "_longest_s", "_next_s")

    def __init__(
        self, first_s: float, longest_s: float = math.inf, *, chance: Callable[[], float] = random.random
    ) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s
        self._chance = chance

    @property
    def has_begun(self) -> bool:
        """Whether a delay was returned since the begin or the last reset."""
        return self._next_s != self._first_s

    def reset(self) -> None:
        """Start again with the first delay, after progress."""
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Return the next delay in seconds. Jitter shortens it by up to a half, so that clients do not retry at the same time."""
        delay_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return delay_s * (0.5 + 0.5 * self._chance())
