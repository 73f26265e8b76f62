"""The metadata that a client of this package adds to an A2A request."""

import pytest

from protolink_grpc.a2a.request_metadata import split_metadata
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import Cost, RunBudget, RunContext


def test_limits_are_integers_although_a_struct_has_doubles_only() -> None:
    budget = {"max_steps": 3.0, "max_runtime_seconds": 1.5, "max_cost": {"micros": 500_000.0, "currency": "USD"}}
    rest, context, request_id = split_metadata({"color": 1.0, "plgrpc": {"run_context": {"budget": budget}}})
    assert context is not None
    assert context.budget == RunBudget(max_steps=3, max_runtime_seconds=1.5, max_cost=Cost(500_000, "USD"))
    assert isinstance(context, RunContext)
    assert (rest, request_id) == ({"color": 1.0}, "")


def test_a_limit_with_a_fraction_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        split_metadata({"plgrpc": {"run_context": {"budget": {"max_steps": 3.5}}}})
    assert refused.value.field == "metadata.plgrpc.run_context.budget.max_steps"
