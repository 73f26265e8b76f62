"""Usage, budgets and money between the models and `plgrpc`. What a limit does is decided elsewhere."""

from typing import Final

from plgrpc.v1 import usage_pb2 as pb2

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import BudgetDecision, BudgetEffect, BudgetUsage
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.cost import Cost, sum_of
from protolink_grpc.models.reader import MAX_INTEGER
from protolink_grpc.wire.scalars import (
    EnumNumbers,
    duration_to_pb,
    json_object_from_pb,
    json_object_to_pb,
    seconds_from_pb,
    timestamp_from_pb,
    timestamp_to_pb,
)

BUDGET_EFFECTS: Final = EnumNumbers(
    BudgetEffect,
    {
        BudgetEffect.ALLOW: pb2.BUDGET_EFFECT_ALLOW,
        BudgetEffect.WARN: pb2.BUDGET_EFFECT_WARN,
        BudgetEffect.DENY: pb2.BUDGET_EFFECT_DENY,
        BudgetEffect.COMPACT: pb2.BUDGET_EFFECT_COMPACT,
        BudgetEffect.TRUNCATE: pb2.BUDGET_EFFECT_TRUNCATE,
        BudgetEffect.REQUIRE_APPROVAL: pb2.BUDGET_EFFECT_REQUIRE_APPROVAL,
    },
    field="effect",
)


def cost_to_pb(cost: Cost) -> pb2.Cost:
    return pb2.Cost(micros=cost.micros, currency=cost.currency)


def cost_from_pb(pb: pb2.Cost, field: str = "cost") -> Cost:
    """Raises InvalidArgumentError for a negative amount, or what is no currency; names its path below `field`."""
    try:
        return Cost(pb.micros, pb.currency)
    except InvalidArgumentError as error:
        raise error.within(field) from None


def budget_to_pb(budget: RunBudget) -> pb2.Budget:
    seconds, cost = budget.max_runtime_seconds, budget.max_cost
    return pb2.Budget(
        max_steps=budget.max_steps,
        max_llm_calls=budget.max_llm_calls,
        max_tool_calls=budget.max_tool_calls,
        max_input_tokens=budget.max_input_tokens,
        max_output_tokens=budget.max_output_tokens,
        max_runtime=None if seconds is None else duration_to_pb(seconds),
        max_cost=None if cost is None else cost_to_pb(cost),
        metadata_json=json_object_to_pb(budget.metadata),
    )


def budget_from_pb(pb: pb2.Budget, field: str = "budget") -> RunBudget:
    """An unset limit is None, a limit of zero stays zero.

    Raises:
        InvalidArgumentError: A negative limit, no currency, or metadata that is no JSON object; names its path below `field`.
    """
    counts: dict[str, int] = {
        name: count_from_pb(getattr(pb, name), f"{field}.{name}") for name in _COUNTS if pb.HasField(name)
    }
    return RunBudget(
        **counts,
        max_runtime_seconds=(
            seconds_from_pb(pb.max_runtime, f"{field}.max_runtime") if pb.HasField("max_runtime") else None
        ),
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        max_cost=cost_from_pb(pb.max_cost, f"{field}.max_cost") if pb.HasField("max_cost") else None,
    )


_COUNTS: Final = ("max_steps", "max_llm_calls", "max_tool_calls", "max_input_tokens", "max_output_tokens")


def usage_to_pb(usage: BudgetUsage) -> pb2.Usage:
    return pb2.Usage(
        steps=usage.steps,
        llm_calls=usage.llm_calls,
        tool_calls=usage.tool_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        runtime=duration_to_pb(usage.runtime_seconds) if usage.runtime_seconds else None,
        costs=[cost_to_pb(each) for each in usage.costs],
        metadata_json=json_object_to_pb(usage.metadata),
    )


def usage_from_pb(pb: pb2.Usage, field: str = "usage") -> BudgetUsage:
    """Raises InvalidArgumentError for a negative amount, no currency, or metadata that is no JSON object; names its path."""
    return BudgetUsage(
        steps=count_from_pb(pb.steps, f"{field}.steps"),
        llm_calls=count_from_pb(pb.llm_calls, f"{field}.llm_calls"),
        tool_calls=count_from_pb(pb.tool_calls, f"{field}.tool_calls"),
        input_tokens=count_from_pb(pb.input_tokens, f"{field}.input_tokens"),
        output_tokens=count_from_pb(pb.output_tokens, f"{field}.output_tokens"),
        runtime_seconds=seconds_from_pb(pb.runtime, f"{field}.runtime"),
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        costs=sum_of(cost_from_pb(each, f"{field}.costs[{index}]") for index, each in enumerate(pb.costs)),
        cached_input_tokens=count_from_pb(pb.cached_input_tokens, f"{field}.cached_input_tokens"),
        reasoning_tokens=count_from_pb(pb.reasoning_tokens, f"{field}.reasoning_tokens"),
    )


def budget_decision_to_pb(decision: BudgetDecision) -> pb2.BudgetDecision:
    """Whole numbers above 2**53 in `observed` and `limit` are rounded: the contract's fields are doubles."""
    return pb2.BudgetDecision(
        effect=BUDGET_EFFECTS[decision.effect],
        limit_name=decision.limit_name or "",
        observed=decision.observed,
        limit=decision.limit,
        message=decision.message,
        usage=usage_to_pb(decision.usage),
        metadata_json=json_object_to_pb(decision.metadata),
        create_time=timestamp_to_pb(decision.timestamp),
    )


def budget_decision_from_pb(pb: pb2.BudgetDecision, field: str = "budget_decision") -> BudgetDecision:
    """Raises InvalidArgumentError like `usage_from_pb`; names the path. An unknown effect is kept."""
    return BudgetDecision(
        effect=BUDGET_EFFECTS.read(pb.effect),
        limit_name=pb.limit_name or None,
        observed=_amount(pb.observed, f"{field}.observed") if pb.HasField("observed") else None,
        limit=_amount(pb.limit, f"{field}.limit") if pb.HasField("limit") else None,
        message=pb.message,
        usage=usage_from_pb(pb.usage, f"{field}.usage"),
        metadata=json_object_from_pb(pb.metadata_json, f"{field}.metadata_json"),
        timestamp=(
            timestamp_from_pb(pb.create_time, f"{field}.create_time") if pb.HasField("create_time") else utc_now()
        ),
    )


def count_from_pb(value: int, field: str) -> int:
    if value < 0:
        raise InvalidArgumentError("must not be negative", field=field)
    return value


def _amount(value: float, field: str) -> float:
    """Bounded as in the models' own reader, because decisions are stored as JSON too; NaN fails the comparison."""
    if not 0 <= value <= MAX_INTEGER:
        raise InvalidArgumentError("must be a number that is not negative", field=field)
    return value
