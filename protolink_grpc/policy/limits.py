"""The evaluation of limits: when one is near or exceeded, and which of two is stricter. This module does not count."""

from dataclasses import dataclass
from typing import Any, Protocol

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import BudgetDecision, BudgetEffect, BudgetUsage
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.cost import MICROS, Cost, amount_text, micros_in
from protolink_grpc.models.json_value import plain

MEASURES = ("steps", "llm_calls", "tool_calls", "runtime_seconds", "input_tokens", "output_tokens")
"""Fields of BudgetUsage in the order in which limits are evaluated. The limit of each is `max_` + its name. After them comes
`max_cost`."""


class BudgetPolicyLike(Protocol):
    """An application's replacement for BudgetPolicy. Every effect except allow and warn stops the work."""

    def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision:
        """Decide about `usage`, which includes the requested work and reservations."""
        ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """Deny above a limit, warn near it.

    Args:
        warning_ratio: Fraction of a limit at which to warn, above 0; above 1 it never warns.
    """

    warning_ratio: float = 0.8

    def __post_init__(self) -> None:
        if isinstance(self.warning_ratio, bool) or not self.warning_ratio > 0:
            raise InvalidArgumentError("must be a number above 0", field="warning_ratio")

    def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision:
        """Return the first denial, otherwise the first warning, otherwise allow; in the order of RunBudget's fields."""
        found = self.decisions(budget, usage)
        return found[0] if found else BudgetDecision(effect=BudgetEffect.ALLOW, usage=usage)

    def decisions(self, budget: RunBudget, usage: BudgetUsage) -> tuple[BudgetDecision, ...]:
        """Return one decision per limit that is near or exceeded: denials, then warnings, in the order of RunBudget's fields."""
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
        if budget.max_cost is not None:
            self._evaluate_cost(budget.max_cost, usage, over, near)
        return (*over, *near)

    def _evaluate_cost(
        self, limit: Cost, usage: BudgetUsage, over: list[BudgetDecision], near: list[BudgetDecision]
    ) -> None:
        """Evaluate the cost. Costs in other currencies than the limit's are not counted."""
        micros = micros_in(usage.costs, limit.currency)
        numbers, found = ("max_cost", micros / MICROS, limit.units), f"max_cost: {amount_text(micros)} {limit.currency}"
        if micros > limit.micros:
            # A requested call, whose price is unknown, counts as the smallest amount.
            is_next = micros - limit.micros == 1
            message = (
                f"max_cost: the limit of {limit} is reached" if is_next else f"{found} is over the limit of {limit}"
            )
            over.append(BudgetDecision(BudgetEffect.DENY, *numbers, message, usage))
        elif micros > 0 and micros >= self.warning_ratio * limit.micros:
            near.append(BudgetDecision(BudgetEffect.WARN, *numbers, f"{found} is near the limit of {limit}", usage))


def effective(limit: RunBudget, requested: RunBudget) -> RunBudget:
    """The smaller of two budgets, field by field; None means no limit. Metadata of `limit` takes precedence.

    If the two `max_cost` are in different currencies, that of `limit` applies.
    """
    if requested == _NO_LIMITS and not limit.metadata:
        return limit
    least = {
        f"max_{each}": smaller(getattr(limit, f"max_{each}"), getattr(requested, f"max_{each}")) for each in MEASURES
    }
    cost = smaller_cost(limit.max_cost, requested.max_cost)
    return RunBudget(**least, metadata=plain(requested.metadata) | plain(limit.metadata), max_cost=cost)


_NO_LIMITS = RunBudget()


def smaller_cost(one: Cost | None, other: Cost | None) -> Cost | None:
    """The smaller of two amounts; None means no limit. If the currencies differ, this is `one`."""
    if one is None or other is None:
        return other if one is None else one
    return other if other.currency == one.currency and other.micros < one.micros else one


def smaller(one: Any, other: Any) -> Any:
    """The smaller of two numbers; None means no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
