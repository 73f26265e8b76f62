"""Conversion of contexts, budgets and manifests: nothing is lost, and unknown values are not guessed."""

import dataclasses
from typing import Any

import pytest
from plgrpc.v1 import context_pb2 as pb2
from plgrpc.v1 import usage_pb2
from wire_values import FULL_BUDGET, FULL_LIMIT, FULL_MANIFEST

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models import (
    BudgetDecision,
    BudgetEffect,
    ContextManifest,
    RunBudget,
    RunContext,
)
from protolink_grpc.models.clock import format_iso8601, parse_iso8601, utc_now
from protolink_grpc.models.reader import MAX_INTEGER, MAX_SECONDS
from protolink_grpc.wire import context as wire
from protolink_grpc.wire import usage


def test_an_empty_request_context_gets_an_id_and_a_time() -> None:
    before = utc_now()
    first, second = wire.CONTEXT.from_pb(pb2.RunContext()), wire.CONTEXT.from_pb(pb2.RunContext())
    assert first.run_id != second.run_id
    assert before <= first.created_at <= second.created_at <= utc_now()
    assert first == RunContext(run_id=first.run_id, created_at=first.created_at)


def test_a_fresh_context_writes_its_id_and_its_time_only() -> None:
    written = [field.name for field, _ in wire.CONTEXT.to_pb(RunContext()).ListFields()]
    assert written == ["run_id", "create_time"]


def test_what_one_context_changes_no_other_context_sees() -> None:
    pb = wire.CONTEXT.to_pb(RunContext())
    first, second = wire.CONTEXT.from_pb(pb), wire.CONTEXT.from_pb(pb, "context")
    first.budget.metadata["spent"] = 1
    first.metadata["seen"] = True
    first.permissions["shell"] = "deny"
    first.agent_chain.append("writer")
    assert (second.budget, second.metadata, second.permissions, second.agent_chain) == (RunBudget(), {}, {}, [])
    assert len(pb.agent_chain) == 0
    assert wire.CONTEXT.to_pb(RunContext()).HasField("budget") is False


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(RunBudget)])
def test_a_single_limit_alone_travels_with_its_context(field: str) -> None:
    budget = RunBudget(**{field: getattr(FULL_BUDGET, field)})
    assert wire.CONTEXT.from_pb(wire.CONTEXT.to_pb(RunContext(budget=budget))).budget == budget


def test_a_limit_of_zero_is_not_the_absence_of_a_limit() -> None:
    budget = RunBudget(max_steps=0, max_runtime_seconds=0.0)
    assert usage.BUDGET.from_pb(usage.BUDGET.to_pb(budget)) == budget
    assert usage.BUDGET.from_pb(usage_pb2.Budget()) == RunBudget()


@pytest.mark.parametrize(
    "span", [{"seconds": -1}, {"nanos": -1}, {"seconds": 1, "nanos": 10**9}, {"seconds": MAX_SECONDS + 1}], ids=repr
)
def test_a_runtime_that_is_no_length_of_time_is_refused(span: dict[str, int]) -> None:
    pb = pb2.RunContext(budget=usage_pb2.Budget(max_runtime=span))
    with pytest.raises(InvalidArgumentError) as caught:
        wire.CONTEXT.from_pb(pb, "context")
    assert caught.value.field == "context.budget.max_runtime"
    with pytest.raises(InvalidArgumentError) as caught:
        usage.USAGE.from_pb(usage_pb2.Usage(runtime=span), "usage")
    assert caught.value.field == "usage.runtime"


@pytest.mark.parametrize(
    ("cost", "name"),
    [({"micros": -1, "currency": "USD"}, "micros"), ({"micros": 1}, "currency"), ({"currency": "usd"}, "currency")],
)
def test_what_is_no_money_is_refused_by_its_path(cost: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        wire.CONTEXT.from_pb(pb2.RunContext(budget=usage_pb2.Budget(max_cost=cost)), "context")
    assert caught.value.field == f"context.budget.max_cost.{name}"
    with pytest.raises(InvalidArgumentError) as caught:
        usage.USAGE.from_pb(usage_pb2.Usage(costs=[{"micros": 1, "currency": "EUR"}, cost]), "usage")
    assert caught.value.field == f"usage.costs[1].{name}"


def test_a_chain_may_be_as_long_as_the_contract_says_and_no_longer() -> None:
    longest = RunContext(agent_chain=["a"] * wire.MAX_AGENT_CHAIN)
    assert wire.CONTEXT.from_pb(wire.CONTEXT.to_pb(longest)) == longest
    with pytest.raises(MessageTooLargeError) as caught:
        wire.CONTEXT.from_pb(wire.CONTEXT.to_pb(longest.with_agent("b")), "task.context")
    assert caught.value.field == "task.context.agent_chain"
    with pytest.raises(MessageTooLargeError) as caught:
        wire.OPTIONS.from_pb(wire.OPTIONS.to_pb(longest.with_agent("b")), "input.options")
    assert caught.value.field == "input.options.agent_chain"


def test_permissions_that_are_no_rules_are_refused_by_their_path() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        wire.CONTEXT.from_pb(pb2.RunContext(permissions={"shell": {}}), "task.context")
    assert caught.value.field == "task.context.permissions.shell.effect"
    with pytest.raises(InvalidArgumentError) as caught:
        wire.CONTEXT.to_pb(RunContext(permissions={"shell": "perhaps"}))
    assert caught.value.field == "permissions.shell"


def test_the_epoch_is_a_time_and_not_a_missing_one() -> None:
    epoch = "1970-01-01T00:00:00.000000+00:00"
    assert wire.CONTEXT.from_pb(wire.CONTEXT.to_pb(RunContext(created_at=epoch))).created_at == epoch


@pytest.mark.parametrize("spelled", ["2026-06-12T12:00:00Z", "2026-06-12T14:00:00+02:00", "2026-06-12"])
def test_a_time_keeps_its_moment_and_loses_its_spelling(spelled: str) -> None:
    back = wire.CONTEXT.from_pb(wire.CONTEXT.to_pb(RunContext(created_at=spelled))).created_at
    assert parse_iso8601(back) == parse_iso8601(spelled)
    assert back == format_iso8601(parse_iso8601(spelled))


@pytest.mark.parametrize("number", [0, 7, 2**31 - 1, -1])
def test_a_budget_effect_of_a_later_version_is_kept_and_allows_nothing(number: int) -> None:
    pb = usage.BUDGET_DECISION.to_pb(FULL_LIMIT)
    pb.effect = number  # type: ignore[assignment]  # on purpose
    read = usage.BUDGET_DECISION.from_pb(pb)
    assert (read.effect, read.allowed) == (f"unknown-{number}", False)
    assert usage.BUDGET_DECISION.to_pb(read) == pb
    assert BudgetDecision.from_dict(read.to_dict()) == read


def test_a_budget_effect_that_is_none_is_refused() -> None:
    decision = dataclasses.replace(FULL_LIMIT, effect="perhaps")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidArgumentError) as caught:
        usage.BUDGET_DECISION.to_pb(decision)
    assert caught.value.field == "effect"


@pytest.mark.parametrize("effect", BudgetEffect)
def test_every_budget_effect_travels_as_its_own_name(effect: BudgetEffect) -> None:
    pb = usage.BUDGET_DECISION.to_pb(dataclasses.replace(FULL_LIMIT, effect=effect))
    assert usage_pb2.BudgetEffect.Name(pb.effect) == f"BUDGET_EFFECT_{effect.name}"
    assert usage.BUDGET_DECISION.from_pb(pb).effect is effect


def test_system_tokens_on_the_wire_leave_the_tools_out_and_the_four_add_up() -> None:
    pb = wire.MANIFEST.to_pb(FULL_MANIFEST)
    assert (pb.system_tokens, pb.tool_prompt_tokens, pb.history_tokens, pb.user_tokens) == (70, 30, 20, 4)
    assert pb.total_estimated_tokens == 70 + 30 + 20 + 4 == FULL_MANIFEST.total_estimated_tokens


def test_tools_that_outweigh_the_system_prompt_keep_the_total() -> None:
    odd = ContextManifest(system_tokens=3, tool_prompt_tokens=10, user_tokens=1)
    back = wire.MANIFEST.from_pb(wire.MANIFEST.to_pb(odd))
    assert back.total_estimated_tokens == odd.total_estimated_tokens == 11
    assert back.system_tokens == back.tool_prompt_tokens == 10


def test_the_total_of_a_manifest_is_computed_and_never_believed() -> None:
    pb = pb2.ContextManifest(user_tokens=4, total_estimated_tokens=1)
    assert wire.MANIFEST.from_pb(pb).total_estimated_tokens == 4


def test_a_total_that_no_int64_holds_is_written_as_the_largest_one() -> None:
    huge = ContextManifest(history_tokens=MAX_INTEGER, user_tokens=MAX_INTEGER)
    assert wire.MANIFEST.to_pb(huge).total_estimated_tokens == MAX_INTEGER
    with pytest.raises(InvalidArgumentError) as caught:
        wire.MANIFEST.from_pb(pb2.ContextManifest(system_tokens=MAX_INTEGER, tool_prompt_tokens=1), "manifest")
    assert caught.value.field == "manifest.system_tokens"
