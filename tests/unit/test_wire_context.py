"""Contexts, budgets and manifests on the wire: nothing is lost, nothing unknown is guessed."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from plgrpc.v1 import context_pb2 as pb2
from plgrpc.v1 import usage_pb2

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models import (
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextItem,
    ContextManifest,
    RunBudget,
    RunContext,
)
from protolink_grpc.models.clock import format_iso8601, parse_iso8601, utc_now
from protolink_grpc.models.cost import Cost
from protolink_grpc.models.permissions import permissions_json, read_permissions
from protolink_grpc.models.reader import MAX_INTEGER, MAX_SECONDS
from protolink_grpc.wire import context as wire
from protolink_grpc.wire import usage as usage_wire

NOON = "2026-06-12T12:00:00.000001+00:00"

counts = st.integers(0, MAX_INTEGER)
amounts = st.floats(0, 1e15)
seconds = st.integers(0, 2**50).map(lambda micros: micros / 1e6)
currencies = st.sampled_from(["EUR", "JPY", "USD"])
costs = st.builds(Cost, counts, currencies)
cost_sums = st.dictionaries(currencies, counts).map(lambda sums: tuple(Cost(sums[each], each) for each in sorted(sums)))
names = st.text(min_size=1)
maybe_names = st.none() | names
times = st.datetimes().map(format_iso8601)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)

spelled_rules = st.sampled_from(["allow", "deny", "require_approval", True, False]) | st.fixed_dictionaries(
    {"effect": st.sampled_from(["allow", "deny", "ask"])},
    optional={
        "editable": st.booleans(),
        "expires_s": st.integers(1, 10**15).map(lambda each: each / 1e6),
        "own": json_values,
    },
)
permissions = st.dictionaries(
    st.text() | st.sampled_from(["a.*", "*", "default", "capabilities"]), json_values | spelled_rules, max_size=3
).map(lambda each: permissions_json(*read_permissions(each)))
"""In the one form of several that comes back."""

budgets = st.builds(
    RunBudget,
    max_steps=st.none() | counts,
    max_llm_calls=st.none() | counts,
    max_tool_calls=st.none() | counts,
    max_runtime_seconds=st.none() | seconds,
    max_input_tokens=st.none() | counts,
    max_output_tokens=st.none() | counts,
    metadata=objects,
    max_cost=st.none() | costs,
)
contexts = st.builds(
    RunContext,
    run_id=names,
    session_id=maybe_names,
    trace_id=maybe_names,
    workspace_uri=maybe_names,
    parent_run_id=maybe_names,
    agent_chain=st.lists(st.text(), max_size=4),
    permissions=permissions,
    budget=budgets,
    metadata=objects,
    created_at=times,
)
usages = st.builds(
    BudgetUsage,
    steps=counts,
    llm_calls=counts,
    tool_calls=counts,
    input_tokens=counts,
    output_tokens=counts,
    runtime_seconds=seconds,
    metadata=objects,
    costs=cost_sums,
    cached_input_tokens=counts,
    reasoning_tokens=counts,
)
decisions = st.builds(
    BudgetDecision,
    effect=st.sampled_from(BudgetEffect),
    limit_name=maybe_names,
    observed=st.none() | amounts,
    limit=st.none() | amounts,
    message=st.text(),
    usage=usages,
    metadata=objects,
    timestamp=times,
)
items = st.builds(ContextItem, kind=names, name=st.text(), tokens=counts, metadata=objects)


@st.composite
def manifests(draw: st.DrawFn) -> ContextManifest:
    tools = draw(st.integers(0, 2**62))
    return ContextManifest(
        run_id=draw(maybe_names),
        session_id=draw(maybe_names),
        agent_name=draw(maybe_names),
        provider=draw(maybe_names),
        model=draw(maybe_names),
        system_tokens=tools + draw(st.integers(0, 2**62 - 1)),
        history_tokens=draw(counts),
        tool_prompt_tokens=tools,
        user_tokens=draw(counts),
        context_items=tuple(draw(st.lists(items, max_size=3))),
        context_window=draw(st.none() | counts),
        estimated=draw(st.booleans()),
        metadata=draw(objects),
        created_at=draw(times),
    )


FULL_BUDGET = RunBudget(1, 2, 3, 4.5, 5, 6, {"team": "blue"}, Cost(7, "EUR"))
FULL_CONTEXT = RunContext(
    run_id="run",
    session_id="session",
    trace_id="trace",
    workspace_uri="file:///data",
    parent_run_id="parent",
    agent_chain=["planner", "writer"],
    permissions={"shell": "deny"},
    budget=FULL_BUDGET,
    metadata={"tenant": 7},
    created_at=NOON,
    principal="alice",
    scopes=("pay", "read"),
)
FULL_USAGE = BudgetUsage(1, 2, 3, 4, 5, 6.5, {"cached": 7}, (Cost(8, "EUR"), Cost(9, "USD")), 10, 11)
FULL_DECISION = BudgetDecision(BudgetEffect.WARN, "max_steps", 9.0, 10.0, "near the end", FULL_USAGE, {"a": [1]}, NOON)
FULL_ITEM = ContextItem("history", "earlier turns", 30, {"messages": 4})
FULL_MANIFEST = ContextManifest(
    run_id="run",
    session_id="session",
    agent_name="writer",
    provider="openai",
    model="small",
    system_tokens=25,
    history_tokens=30,
    tool_prompt_tokens=5,
    user_tokens=7,
    context_items=(FULL_ITEM,),
    context_window=8192,
    estimated=True,
    metadata={"encoding": "guess"},
    created_at=NOON,
)


class Pair(NamedTuple):
    full: Any
    arbitrary: st.SearchStrategy[Any]
    to_pb: Callable[[Any], Any]
    from_pb: Callable[..., Any]
    elsewhere: tuple[str, ...] = ()
    """Fields of the model that the message has no place for."""


def options_from_pb(pb: Any, field: str = "options") -> RunContext:
    return wire.options_from_pb(pb, "session", field)


OF_THE_SERVER = ("canceled", "cancel_reason", "principal", "scopes")
FULL_OPTIONS = dataclasses.replace(FULL_CONTEXT, principal=None, scopes=())
options = contexts.map(lambda context: dataclasses.replace(context, session_id="session"))


PAIRS = {
    "context": Pair(FULL_CONTEXT, contexts, wire.context_to_pb, wire.context_from_pb, OF_THE_SERVER[:2]),
    "options": Pair(FULL_OPTIONS, options, wire.options_to_pb, options_from_pb, OF_THE_SERVER),
    "budget": Pair(FULL_BUDGET, budgets, usage_wire.budget_to_pb, usage_wire.budget_from_pb),
    "budget_usage": Pair(FULL_USAGE, usages, usage_wire.usage_to_pb, usage_wire.usage_from_pb),
    "budget_decision": Pair(
        FULL_DECISION, decisions, usage_wire.budget_decision_to_pb, usage_wire.budget_decision_from_pb
    ),
    "context_item": Pair(FULL_ITEM, items, wire.context_item_to_pb, wire.context_item_from_pb),
    "context_manifest": Pair(FULL_MANIFEST, manifests(), wire.context_manifest_to_pb, wire.context_manifest_from_pb),
}
each_pair = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())


@each_pair
@settings(deadline=None)  # a shared machine's pauses are no failure
@given(data=st.data())
def test_every_valid_value_comes_back_equal(pair: Pair, data: st.DataObject) -> None:
    value = data.draw(pair.arbitrary)
    encoded = pair.to_pb(value).SerializeToString()
    assert pair.from_pb(type(pair.to_pb(pair.full)).FromString(encoded)) == value


@each_pair
def test_a_full_value_sets_every_field_of_its_message(pair: Pair) -> None:
    pb = pair.to_pb(pair.full)
    written = {field.name for field, _ in pb.ListFields()}
    assert [field.name for field in pb.DESCRIPTOR.fields if field.name not in written] == []


@each_pair
def test_a_full_value_leaves_no_field_of_its_model_empty(pair: Pair) -> None:
    # Otherwise a field that the wire forgets could come back equal by its default.
    empty = [each.name for each in dataclasses.fields(pair.full) if not getattr(pair.full, each.name)]
    assert sorted(empty) == sorted(pair.elsewhere)
    assert pair.from_pb(pair.to_pb(pair.full)) == pair.full


@each_pair
@pytest.mark.parametrize("text", ["{", "[1]", '"text"', "null", "NaN"])
def test_metadata_that_is_no_json_object_is_refused_by_its_path(pair: Pair, text: str) -> None:
    pb = pair.to_pb(pair.full)
    pb.metadata_json = text
    with pytest.raises(InvalidArgumentError) as caught:
        pair.from_pb(pb, "outer[3]")
    assert caught.value.field == "outer[3].metadata_json"


@pytest.mark.parametrize("name", ["context", "options", "budget_decision", "context_manifest"])
def test_a_time_outside_the_calendar_is_refused_by_its_path(name: str) -> None:
    pair = PAIRS[name]
    pb = pair.to_pb(pair.full)
    pb.create_time.CopyFrom(Timestamp(seconds=2**40))
    with pytest.raises(InvalidArgumentError) as caught:
        pair.from_pb(pb, "outer")
    assert caught.value.field == "outer.create_time"


@each_pair
def test_a_negative_number_is_refused_by_its_path(pair: Pair) -> None:
    numbers = [
        each
        for each in type(pair.to_pb(pair.full)).DESCRIPTOR.fields
        if each.type in (each.TYPE_INT64, each.TYPE_DOUBLE)
    ]
    for number in numbers:
        if number.name == "total_estimated_tokens":
            continue  # derived, so never read
        pb = pair.to_pb(pair.full)
        setattr(pb, number.name, -1)
        with pytest.raises(InvalidArgumentError) as caught:
            pair.from_pb(pb, "outer")
        assert caught.value.field == f"outer.{number.name}"


def test_an_empty_request_context_gets_an_id_and_a_time() -> None:
    before = utc_now()
    first, second = wire.context_from_pb(pb2.RunContext()), wire.context_from_pb(pb2.RunContext())
    assert first.run_id != second.run_id
    assert before <= first.created_at <= second.created_at <= utc_now()
    assert first == RunContext(run_id=first.run_id, created_at=first.created_at)


def test_a_fresh_context_writes_its_id_and_its_time_only() -> None:
    written = [field.name for field, _ in wire.context_to_pb(RunContext()).ListFields()]
    assert written == ["run_id", "create_time"]


def test_what_one_context_changes_no_other_context_sees() -> None:
    pb = wire.context_to_pb(RunContext())
    first, second = wire.context_from_pb(pb), wire.context_from_pb(pb)
    first.budget.metadata["spent"] = 1
    first.metadata["seen"] = True
    first.permissions["shell"] = "deny"
    first.agent_chain.append("writer")
    assert (second.budget, second.metadata, second.permissions, second.agent_chain) == (RunBudget(), {}, {}, [])
    assert len(pb.agent_chain) == 0
    assert wire.context_to_pb(RunContext()).HasField("budget") is False


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(RunBudget)])
def test_a_single_limit_alone_travels_with_its_context(field: str) -> None:
    budget = RunBudget(**{field: getattr(FULL_BUDGET, field)})
    assert wire.context_from_pb(wire.context_to_pb(RunContext(budget=budget))).budget == budget


def test_a_limit_of_zero_is_not_the_absence_of_a_limit() -> None:
    budget = RunBudget(max_steps=0, max_runtime_seconds=0.0)
    assert usage_wire.budget_from_pb(usage_wire.budget_to_pb(budget)) == budget
    assert usage_wire.budget_from_pb(usage_pb2.Budget()) == RunBudget()


@pytest.mark.parametrize(
    "span", [{"seconds": -1}, {"nanos": -1}, {"seconds": 1, "nanos": 10**9}, {"seconds": MAX_SECONDS + 1}], ids=repr
)
def test_a_runtime_that_is_no_length_of_time_is_refused(span: dict[str, int]) -> None:
    pb = pb2.RunContext(budget=usage_pb2.Budget(max_runtime=span))
    with pytest.raises(InvalidArgumentError) as caught:
        wire.context_from_pb(pb)
    assert caught.value.field == "context.budget.max_runtime"
    with pytest.raises(InvalidArgumentError) as caught:
        usage_wire.usage_from_pb(usage_pb2.Usage(runtime=span), "usage")
    assert caught.value.field == "usage.runtime"


@pytest.mark.parametrize(
    ("cost", "name"),
    [({"micros": -1, "currency": "USD"}, "micros"), ({"micros": 1}, "currency"), ({"currency": "usd"}, "currency")],
)
def test_what_is_no_money_is_refused_by_its_path(cost: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        wire.context_from_pb(pb2.RunContext(budget=usage_pb2.Budget(max_cost=cost)))
    assert caught.value.field == f"context.budget.max_cost.{name}"
    with pytest.raises(InvalidArgumentError) as caught:
        usage_wire.usage_from_pb(usage_pb2.Usage(costs=[{"micros": 1, "currency": "EUR"}, cost]), "usage")
    assert caught.value.field == f"usage.costs[1].{name}"


def test_a_chain_may_be_as_long_as_the_contract_says_and_no_longer() -> None:
    longest = RunContext(agent_chain=["a"] * wire.MAX_AGENT_CHAIN)
    assert wire.context_from_pb(wire.context_to_pb(longest)) == longest
    with pytest.raises(MessageTooLargeError) as caught:
        wire.context_from_pb(wire.context_to_pb(longest.with_agent("b")), "task.context")
    assert caught.value.field == "task.context.agent_chain"
    with pytest.raises(MessageTooLargeError) as caught:
        wire.options_from_pb(wire.options_to_pb(longest.with_agent("b")), "", "input.options")
    assert caught.value.field == "input.options.agent_chain"


def test_permissions_that_are_no_rules_are_refused_by_their_path() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        wire.context_from_pb(pb2.RunContext(permissions={"shell": {}}), "task.context")
    assert caught.value.field == "task.context.permissions.shell.effect"
    with pytest.raises(InvalidArgumentError) as caught:
        wire.context_to_pb(RunContext(permissions={"shell": "perhaps"}))
    assert caught.value.field == "permissions.shell"


def test_the_epoch_is_a_time_and_not_a_missing_one() -> None:
    epoch = "1970-01-01T00:00:00.000000+00:00"
    assert wire.context_from_pb(wire.context_to_pb(RunContext(created_at=epoch))).created_at == epoch


@pytest.mark.parametrize("spelled", ["2026-06-12T12:00:00Z", "2026-06-12T14:00:00+02:00", "2026-06-12"])
def test_a_time_keeps_its_moment_and_loses_its_spelling(spelled: str) -> None:
    back = wire.context_from_pb(wire.context_to_pb(RunContext(created_at=spelled))).created_at
    assert parse_iso8601(back) == parse_iso8601(spelled)
    assert back == format_iso8601(parse_iso8601(spelled))


@pytest.mark.parametrize("number", [0, 7, 2**31 - 1, -1])
def test_a_budget_effect_of_a_later_version_is_kept_and_allows_nothing(number: int) -> None:
    pb = usage_wire.budget_decision_to_pb(FULL_DECISION)
    pb.effect = number  # type: ignore[assignment]  # on purpose
    read = usage_wire.budget_decision_from_pb(pb)
    assert (read.effect, read.allowed) == (f"unknown-{number}", False)
    assert usage_wire.budget_decision_to_pb(read) == pb
    assert BudgetDecision.from_dict(read.to_dict()) == read


def test_a_budget_effect_that_is_none_is_refused() -> None:
    decision = dataclasses.replace(FULL_DECISION, effect="perhaps")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidArgumentError) as caught:
        usage_wire.budget_decision_to_pb(decision)
    assert caught.value.field == "effect"


@pytest.mark.parametrize("effect", BudgetEffect)
def test_every_budget_effect_travels_as_its_own_name(effect: BudgetEffect) -> None:
    pb = usage_wire.budget_decision_to_pb(dataclasses.replace(FULL_DECISION, effect=effect))
    assert usage_pb2.BudgetEffect.Name(pb.effect) == f"BUDGET_EFFECT_{effect.name}"
    assert usage_wire.budget_decision_from_pb(pb).effect is effect


def test_usage_of_a_decision_is_refused_by_its_path() -> None:
    pb = usage_pb2.BudgetDecision(effect=usage_pb2.BUDGET_EFFECT_ALLOW, usage=usage_pb2.Usage(llm_calls=-1))
    with pytest.raises(InvalidArgumentError) as caught:
        usage_wire.budget_decision_from_pb(pb, "decision")
    assert caught.value.field == "decision.usage.llm_calls"


def test_system_tokens_on_the_wire_leave_the_tools_out_and_the_four_add_up() -> None:
    pb = wire.context_manifest_to_pb(FULL_MANIFEST)
    assert (pb.system_tokens, pb.tool_prompt_tokens, pb.history_tokens, pb.user_tokens) == (20, 5, 30, 7)
    assert pb.total_estimated_tokens == 20 + 5 + 30 + 7 == FULL_MANIFEST.total_estimated_tokens


def test_tools_that_outweigh_the_system_prompt_keep_the_total() -> None:
    odd = ContextManifest(system_tokens=3, tool_prompt_tokens=10, user_tokens=1)
    back = wire.context_manifest_from_pb(wire.context_manifest_to_pb(odd))
    assert back.total_estimated_tokens == odd.total_estimated_tokens == 11
    assert back.system_tokens == back.tool_prompt_tokens == 10


def test_the_total_of_a_manifest_is_computed_and_never_believed() -> None:
    pb = pb2.ContextManifest(user_tokens=4, total_estimated_tokens=1)
    assert wire.context_manifest_from_pb(pb).total_estimated_tokens == 4


def test_a_total_that_no_int64_holds_is_written_as_the_largest_one() -> None:
    huge = ContextManifest(history_tokens=MAX_INTEGER, user_tokens=MAX_INTEGER)
    assert wire.context_manifest_to_pb(huge).total_estimated_tokens == MAX_INTEGER
    with pytest.raises(InvalidArgumentError) as caught:
        wire.context_manifest_from_pb(pb2.ContextManifest(system_tokens=MAX_INTEGER, tool_prompt_tokens=1), "manifest")
    assert caught.value.field == "manifest.system_tokens"


def test_an_item_of_a_manifest_is_refused_by_its_index() -> None:
    pb = pb2.ContextManifest(context_items=[pb2.ContextItem(kind="user"), pb2.ContextItem(kind="tools", tokens=-1)])
    with pytest.raises(InvalidArgumentError) as caught:
        wire.context_manifest_from_pb(pb, "manifest")
    assert caught.value.field == "manifest.context_items[1].tokens"
