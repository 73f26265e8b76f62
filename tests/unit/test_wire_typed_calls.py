"""The metadata of typed calls: arbitrary bytes are read or refused, and written ones are read back."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import policy_pb2, task_input_pb2, usage_pb2

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models import RunBudget, RunContext
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.cost import Cost
from protolink_grpc.wire.typed_calls import (
    MAX_OPTIONS_BYTES,
    RUN_OPTIONS,
    options_from_bytes,
    options_to_bytes,
    usage_from_bytes,
    usage_to_bytes,
)


def test_options_keep_permissions_budget_chain_and_parent() -> None:
    context = RunContext(
        "run-1",
        "session-1",
        parent_run_id="run-0",
        agent_chain=["planner", "broker"],
        permissions={"money.spend": False},
        budget=RunBudget(max_tool_calls=3, max_cost=Cost(5, "USD")),
        metadata={"tenant": "acme"},
        principal="ann",
        scopes=("pay",),
    )
    read = options_from_bytes(options_to_bytes(context), "session-1")
    assert (read.run_id, read.parent_run_id, read.agent_chain) == ("run-1", "run-0", ["planner", "broker"])
    assert (read.session_id, read.budget, read.metadata) == ("session-1", context.budget, {"tenant": "acme"})
    assert "money.spend" in read.permissions
    assert (read.principal, read.scopes) == (None, ())  # the server sets them


@given(st.binary(max_size=200))
def test_any_bytes_are_options_or_a_mistake_of_the_caller(data: bytes) -> None:
    with suppress(InvalidArgumentError):
        options_from_bytes(data, "")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (task_input_pb2.RunOptions(run_id="x" * 129), f"{RUN_OPTIONS}.run_id"),
        (
            task_input_pb2.RunOptions(permissions={"a": policy_pb2.CapabilityRule(effect=99)}),
            f"{RUN_OPTIONS}.permissions",
        ),
        (task_input_pb2.RunOptions(metadata_json="["), f"{RUN_OPTIONS}.metadata_json"),
        (task_input_pb2.RunOptions(budget=usage_pb2.Budget(max_steps=-1)), f"{RUN_OPTIONS}.budget.max_steps"),
    ],
    ids=["id", "effect", "metadata", "budget"],
)
def test_options_are_checked_as_those_of_send_task(options: task_input_pb2.RunOptions, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        options_from_bytes(options.SerializeToString(), "")
    assert refused.value.field.startswith(field)


def test_options_that_are_too_large_are_neither_sent_nor_read() -> None:
    with pytest.raises(MessageTooLargeError, match=RUN_OPTIONS):
        options_from_bytes(task_input_pb2.RunOptions(run_id="x" * MAX_OPTIONS_BYTES).SerializeToString(), "")
    with pytest.raises(MessageTooLargeError, match="context"):
        options_to_bytes(RunContext(metadata={"text": "x" * MAX_OPTIONS_BYTES}))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_usage_or_unknown(data: bytes) -> None:
    usage = usage_from_bytes(data)
    assert usage is None or usage_from_bytes(usage_to_bytes(usage)) == usage


@pytest.mark.parametrize("usage", [BudgetUsage(), BudgetUsage(steps=1, tool_calls=2, costs=(Cost(3, "EUR"),))])
def test_a_usage_is_read_as_it_was_written(usage: BudgetUsage) -> None:
    assert usage_from_bytes(usage_to_bytes(usage)) == usage


def test_a_negative_usage_is_unknown() -> None:
    assert usage_from_bytes(usage_pb2.Usage(tool_calls=-1).SerializeToString()) is None
