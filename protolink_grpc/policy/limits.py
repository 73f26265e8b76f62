"""What the limits of a run mean: when one is near or passed, and which of two is the stricter. Nothing is counted here."""

from dataclasses import dataclass
from typing import Any, Protocol

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import BudgetDecision, BudgetEffect, BudgetUsage
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.json_value import plain

MEASURES = ("steps", "llm_calls", "tool_calls", "runtime_seconds", "input_tokens", "output_tokens")
"""Fields of BudgetUsage in the order in which limits are looked at; the limit of each is `max_` + its name."""


class BudgetPolicyLike(Protocol):
    """What an application may bring instead of BudgetPolicy; every effect but allow and warn stops the work."""

    def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision:
        """Judge `usage`, which includes the work that is asked for and what delegated work holds."""
        ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """Deny above a limit, warn near it.

    Args:
        warning_ratio: Share of a limit from which on to warn, above 0; above 1 it never warns.
    """

    warning_ratio: float = 0.8

    def __post_init__(self) -> None:
        if isinstance(self.warning_ratio, bool) or not self.warning_ratio > 0:
            raise InvalidArgumentError("must be a number above 0", field="warning_ratio")

    def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision:
        """The first limit that denies, else the first that warns, else allow; in the order of RunBudget's fields."""
        found = self.decisions(budget, usage)
        return found[0] if found else BudgetDecision(effect=BudgetEffect.ALLOW, usage=usage)

    def decisions(self, budget: RunBudget, usage: BudgetUsage) -> tuple[BudgetDecision, ...]:
        """One decision per limit that is passed or near: denials before warnings, each in the order of RunBudget."""
        over: list[BudgetDecision] = []
        near: list[BudgetDecision] = []
        for measure in MEASURES:
            name = f"max_{measure}"
            limit: float | None = getattr(budget, name)
            observed: float = getattr(usage, measure)
            if limit is None:
                continue
            if observed > limit:
                message = f"{name}: {round(observed, 3)} is over the limit of {limit}"
                over.append(BudgetDecision(BudgetEffect.DENY, name, observed, limit, message, usage))
            elif observed > 0 and observed >= self.warning_ratio * limit:
                message = f"{name}: {round(observed, 3)} is near the limit of {limit}"
                near.append(BudgetDecision(BudgetEffect.WARN, name, observed, limit, message, usage))
        return (*over, *near)


def effective(limit: RunBudget, asked: RunBudget) -> RunBudget:
    """The smaller of two limits, field by field; None is no limit. Of equal metadata keys those of `limit` win."""
    least = {f"max_{each}": smaller(getattr(limit, f"max_{each}"), getattr(asked, f"max_{each}")) for each in MEASURES}
    return RunBudget(**least, metadata=plain(asked.metadata) | plain(limit.metadata))


def smaller(one: Any, other: Any) -> Any:
    """The smaller of two numbers, where None is larger than any."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
