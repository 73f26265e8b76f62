"""The length and the number of the measurements."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Args:
    rounds: Rounds per case. The systems take turns within each round, so that a change of the machine's speed affects all of them.
    seconds: Length of one round of one case.
    scale: Factor for the amount of work of cases with a fixed amount.
    """

    rounds: int = 5
    seconds: float = 1.0
    scale: float = 1.0

    def amount(self, usual: int, least: int = 1) -> int:
        return max(least, int(usual * self.scale))


QUICK = Plan(rounds=1, seconds=0.1, scale=0.05)
"""A test run of the benchmarks, in seconds. Its numbers are not meaningful."""


def print_progress(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)
