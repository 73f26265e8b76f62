"""How long and how often everything is measured."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Args:
    rounds: Rounds per case; the systems take turns within each, so that a machine that drifts drifts for all.
    seconds: Length of one round of one case.
    scale: Share of the usual amount of work where a case counts instead of timing.
    """

    rounds: int = 5
    seconds: float = 1.0
    scale: float = 1.0

    def amount(self, usual: int, least: int = 1) -> int:
        return max(least, int(usual * self.scale))


QUICK = Plan(rounds=1, seconds=0.1, scale=0.05)
"""Whether everything works, in seconds; its numbers say little."""


def say(text: str) -> None:
    """Progress, beside the results."""
    print(text, file=sys.stderr, flush=True)
