"""Converts usage, budgets and costs between the models and `plgrpc`. Limits are enforced elsewhere."""

from typing import Final

from plgrpc.v1 import usage_pb2 as pb

from protolink_grpc.models.action import BudgetDecision, BudgetUsage
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.cost import Cost, sum_of
from protolink_grpc.wire.compile import Codec, Special

COST: Final = Codec(Cost, pb.Cost)

BUDGET: Final = Codec(RunBudget, pb.Budget, max_runtime_seconds="max_runtime")

USAGE: Final = Codec(
    BudgetUsage,
    pb.Usage,
    runtime_seconds="runtime",
    # In a total, an unset number of tokens means 0.
    input_tokens=Special("input_tokens", lambda usage: usage.input_tokens or None),
    output_tokens=Special("output_tokens", lambda usage: usage.output_tokens or None),
    cached_input_tokens=Special("cached_input_tokens", lambda usage: usage.cached_input_tokens or None),
    reasoning_tokens=Special("reasoning_tokens", lambda usage: usage.reasoning_tokens or None),
    costs=Special(
        "costs",
        lambda usage: map(COST.to_pb, usage.costs),
        lambda found: sum_of(COST.all_from_pb(found.costs, "costs")),
    ),
)

BUDGET_DECISION: Final = Codec(BudgetDecision, pb.BudgetDecision, timestamp="create_time")
"""Whole numbers above 2**53 in `observed` and `limit` are rounded: the fields of the contract are doubles."""
