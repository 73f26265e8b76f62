from dataclasses import replace
from typing import Any

import pytest

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextItem,
    ContextManifest,
    Cost,
    Part,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunBudget,
    RunContext,
    Task,
    from_json,
    to_json,
)


def full() -> RunContext:
    return RunContext(
        run_id="r",
        session_id="s",
        trace_id="t",
        workspace_uri="file:///w",
        parent_run_id="p",
        agent_chain=["gateway"],
        permissions={"fs.read": {"paths": ["a"]}},
        budget=RunBudget(max_steps=8, max_runtime_seconds=1.5, metadata={"team": "x"}),
        metadata={"k": [1]},
    )


def test_a_context_has_its_documented_json_shape():
    context = RunContext(run_id="r")
    assert context.to_dict() == {
        "run_id": "r",
        "session_id": None,
        "trace_id": None,
        "workspace_uri": None,
        "parent_run_id": None,
        "agent_chain": [],
        "permissions": {},
        "budget": {
            "max_steps": None,
            "max_llm_calls": None,
            "max_tool_calls": None,
            "max_runtime_seconds": None,
            "max_input_tokens": None,
            "max_output_tokens": None,
            "metadata": {},
        },
        "canceled": False,
        "cancel_reason": None,
        "metadata": {},
        "created_at": context.created_at,
    }


def test_a_context_survives_its_json():
    context = full()
    assert RunContext.from_dict(from_json(to_json(context))) == context


def test_a_budget_folds_unknown_keys_into_its_metadata():
    budget = RunBudget.from_dict({"max_steps": 1, "max_pages": 5, "metadata": {"a": 1}})
    assert budget == RunBudget(max_steps=1, metadata={"max_pages": 5, "a": 1})


@pytest.mark.parametrize(
    "data",
    [{"max_cost": {"micros": 500_000, "currency": "USD"}}, {"max_cost_usd": 0.5}],
    ids=lambda data: next(iter(data)),
)
def test_money_may_be_limited_in_either_spelling_and_is_written_in_one(data: dict[str, Any]):
    budget = RunBudget.from_dict(data)
    assert budget == RunBudget(max_cost_usd=0.50) == RunBudget(max_cost=Cost(500_000, "USD"))
    assert budget.to_dict()["max_cost"] == {"micros": 500_000, "currency": "USD"}
    assert RunBudget.from_dict(budget.to_dict()) == budget
    assert replace(budget, max_steps=1).max_cost == budget.max_cost


def test_a_budget_without_money_is_written_as_protolink_writes_it():
    assert "max_cost" not in RunBudget().to_dict()
    assert "max_cost_usd" not in RunBudget(max_cost_usd=1).to_dict()


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"max_cost": 5}, "max_cost"),
        ({"max_cost": {"currency": "USD"}}, "max_cost.micros"),
        ({"max_cost": {"micros": -1, "currency": "USD"}}, "max_cost.micros"),
        ({"max_cost": {"micros": 1, "currency": "dollars"}}, "max_cost.currency"),
        ({"max_cost_usd": -0.5}, "max_cost_usd"),
        ({"max_cost_usd": "much"}, "max_cost_usd"),
        ({"max_cost_usd": 1e18}, "max_cost_usd"),
        ({"max_cost_usd": 1, "max_cost": {"micros": 1, "currency": "EUR"}}, "max_cost_usd"),
    ],
    ids=repr,
)
def test_a_limit_of_money_that_is_none_is_refused_by_its_path(data: dict[str, Any], field: str):
    with pytest.raises(InvalidArgumentError) as caught:
        RunBudget.from_dict(data)
    assert caught.value.field == field


@pytest.mark.parametrize("value", [-1, 1.5, True, "3", 2**63])
def test_a_budget_counts_in_whole_numbers(value: object):
    with pytest.raises(InvalidArgumentError) as caught:
        RunContext.from_dict({"budget": {"max_steps": value}})
    assert caught.value.field == "budget.max_steps"


COUNTS = ("max_steps", "max_llm_calls", "max_tool_calls", "max_input_tokens", "max_output_tokens")


@pytest.mark.parametrize("name", [*COUNTS, "max_runtime_seconds"])
@pytest.mark.parametrize("value", [-1, True, "3", [], float("nan"), float("inf"), 2**63, -0.5], ids=repr)
def test_a_limit_that_is_none_is_refused_when_the_budget_is_made(name: str, value: object):
    for make in (lambda: RunBudget(**{name: value}), lambda: replace(RunBudget(), **{name: value})):
        with pytest.raises(InvalidArgumentError) as caught:
            make()
        assert caught.value.field == name


@pytest.mark.parametrize("name", COUNTS)
def test_a_limit_of_zero_is_one_and_a_fraction_is_none(name: str):
    assert getattr(RunBudget(**{name: 0}), name) == 0
    with pytest.raises(InvalidArgumentError):
        RunBudget(**{name: 1.5})


@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf"), "1", True])
def test_a_budget_of_seconds_is_finite_and_not_negative(value: object):
    with pytest.raises(InvalidArgumentError) as caught:
        RunBudget.from_dict({"max_runtime_seconds": value})
    assert caught.value.field == "max_runtime_seconds"


def test_an_attached_context_is_mirrored_for_older_readers():
    context = full().cancel("stop")
    task = context.attach_to_task(Task())
    mirrored = {
        "run_id": "r",
        "session_id": "s",
        "trace_id": "t",
        "workspace_uri": "file:///w",
        "parent_run_id": "p",
        "canceled": True,
        "cancel_reason": "stop",
    }
    assert task.to_dict()["metadata"] == mirrored | {"run_context": context.to_dict()}
    assert {key: task.metadata[key] for key in mirrored} == mirrored
    assert dict(task.metadata) == {}, "only what the user has written is stored"


def test_what_is_not_set_is_not_mirrored():
    task = RunContext(run_id="r").attach_to_task(Task())
    assert task.to_dict()["metadata"].keys() == {"run_context", "run_id"}
    assert "session_id" not in task.metadata


def test_a_context_comes_back_from_its_task():
    context = full()
    task = context.attach_to_task(Task())
    assert RunContext.from_task(task) == context


def test_a_task_without_context_gives_its_name_to_the_run():
    task = Task()
    assert RunContext.from_task(task).run_id == task.id
    assert task.metadata == {}


def test_loose_keys_of_older_callers_complete_the_context():
    task = Task(
        metadata={
            "session_id": "s",
            "trace_id": "t",
            "workspace": "w",
            "parent_run_id": "p",
            "parent_agent": "boss",
            "permissions": {"a": "deny"},
            "budgets": {"max_steps": 3},
            "cancelled": True,
            "cancellation_reason": "stop",
        }
    )
    context = RunContext.from_task(task)
    assert context == RunContext(
        run_id=task.id,
        session_id="s",
        trace_id="t",
        workspace_uri="w",
        parent_run_id="p",
        agent_chain=["boss"],
        permissions={"a": "deny"},
        budget=RunBudget(max_steps=3),
        canceled=True,
        cancel_reason="stop",
        created_at=context.created_at,
    )


def test_loose_keys_never_overrule_the_context():
    task = full().attach_to_task(Task())
    task.metadata |= {"session_id": "x", "workspace": "x", "budget": {"max_steps": 99}, "permissions": {"all": True}}
    context = RunContext.from_task(task)
    assert (context.session_id, context.workspace_uri, context.budget.max_steps) == ("s", "file:///w", 8)
    assert context.permissions == {"fs.read": {"paths": ["a"]}}


def test_loose_keys_of_an_application_are_skipped():
    task = Task(metadata={"session_id": 5, "workspace": {"x": 1}, "permissions": "all", "budget": {"max_steps": "?"}})
    context = RunContext.from_task(task)
    assert context == RunContext(run_id=task.id, created_at=context.created_at)


def test_a_wrong_context_names_its_path_in_the_task():
    with pytest.raises(InvalidArgumentError) as caught:
        RunContext.from_task(Task(metadata={"run_context": {"agent_chain": ["a", 1]}}))
    assert caught.value.field == "metadata.run_context.agent_chain[1]"


def test_ensure_gives_a_session_and_a_place_in_the_chain():
    task = Task()
    context = RunContext.ensure_task_context(task, agent_name="wire")
    assert (context.run_id, context.session_id, context.agent_chain) == (task.id, task.id, ["wire"])
    assert task.metadata["run_context"] == context.to_dict()
    assert task.metadata["session_id"] == task.id
    assert RunContext.ensure_task_context(task, "other", "wire").agent_chain == ["wire"]
    assert RunContext.ensure_task_context(Task(), "given").session_id == "given"


def test_a_child_has_a_new_identity_under_the_same_limits():
    parent = full()
    child = parent.child(agent_name="helper")
    assert child.run_id != "r"
    assert child.parent_run_id == "r"
    assert child.agent_chain == ["gateway", "helper"]
    kept = ("session_id", "trace_id", "workspace_uri", "permissions", "budget", "metadata")
    assert [getattr(child, name) for name in kept] == [getattr(parent, name) for name in kept]
    assert parent.child("given").run_id == "given"


def test_a_child_of_a_canceled_run_is_canceled():
    assert RunContext().cancel("stop").child().canceled


def test_cancel_is_a_copy_and_keeps_an_earlier_reason():
    context = RunContext()
    canceled = context.cancel("stop")
    assert (context.canceled, canceled.canceled, canceled.cancel().cancel_reason) == (False, True, "stop")


def test_copies_share_nothing():
    context = full()
    for copy in (context.copy(), context.child(), context.with_agent("a"), context.cancel()):
        copy.permissions["fs.read"]["paths"].append("b")
        copy.metadata["k"].append(2)
        copy.budget.metadata["team"] = "y"
        copy.agent_chain.append("z")
    task = context.attach_to_task(Task())
    task.metadata["run_context"]["permissions"]["fs.read"]["paths"].append("c")
    assert context.copy(created_at="") == full().copy(created_at="")


# Actions


def action() -> RunAction:
    return RunAction(
        kind="resource.update",
        name="publish",
        payload={"arguments": {"id": "42"}},
        capabilities=frozenset({"b", "a"}),
        artifacts=(Artifact(kind="preview", parts=[Part.json({"id": "42"})]),),
        description="Publish it",
        metadata={"m": [1]},
    )


def test_an_action_has_its_documented_json_shape():
    given = action()
    shape = given.to_dict()
    assert list(shape) == [
        "action_id",
        "kind",
        "name",
        "payload",
        "capabilities",
        "artifacts",
        "description",
        "metadata",
        "created_at",
    ]
    assert shape["capabilities"] == ["a", "b"]
    assert RunAction.from_dict(from_json(to_json(given))) == given


@pytest.mark.parametrize(("kind", "name", "field"), [("", "n", "kind"), ("k", " ", "name")])
def test_an_action_needs_kind_and_name(kind: str, name: str, field: str):
    with pytest.raises(ValueError, match=f"^{field}: ") as caught:
        RunAction(kind, name)
    assert isinstance(caught.value, InvalidArgumentError)


def test_a_fingerprint_survives_json_and_changes_with_every_field():
    given = action()
    assert RunAction.from_dict(from_json(to_json(given))).fingerprint == given.fingerprint
    shape = given.to_dict()
    others: dict[str, Any] = {
        "action_id": "x",
        "kind": "x",
        "name": "x",
        "payload": {},
        "capabilities": [],
        "artifacts": [],
        "description": "x",
        "metadata": {},
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    assert others.keys() == shape.keys()
    changed = {RunAction.from_dict(shape | {key: value}).fingerprint for key, value in others.items()}
    assert len(changed | {given.fingerprint}) == len(others) + 1


def test_a_fingerprint_notices_a_payload_that_was_changed_in_place():
    given = action()
    before = given.fingerprint
    given.payload["arguments"]["id"] = "43"
    assert given.fingerprint != before


def test_with_artifacts_adds_stamped_copies():
    preview = Artifact(kind="preview")
    given = action()
    more = given.with_artifacts([preview])
    assert [each.action_id for each in more.artifacts] == [None, given.action_id]
    assert preview.action_id is None
    assert len(given.artifacts) == 1
    assert more.action_id == given.action_id


def test_with_capabilities_is_a_union_and_with_payload_replaces():
    assert action().with_capabilities(["c"]).capabilities == {"a", "b", "c"}
    payload = {"x": [1]}
    replaced = action().with_payload(payload)
    payload["x"].append(2)
    assert replaced.payload == {"x": [1]}


MANIFEST = ContextManifest(
    run_id="r",
    model="m",
    system_tokens=100,
    tool_prompt_tokens=30,
    history_tokens=20,
    user_tokens=5,
    context_items=(ContextItem("system", "instructions", 70),),
    context_window=8192,
)
VALUES = [
    PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "rule", "caps", ("a",), {"sources": ["x"]}),
    ApprovalRequest(action(), PolicyDecision(PolicyEffect.DENY), run_id="r"),
    ApprovalRequest(action(), PolicyDecision(PolicyEffect.DENY), task_id="t", expires_at="2026-01-01T00:00:00Z"),
    ApprovalDecision(approved=False, request_id="q", reason="no", decided_by="op"),
    ApprovalDecision(approved=True, request_id="q", edited_arguments={}, fingerprint="f"),
    MANIFEST,
    BudgetUsage(steps=1, runtime_seconds=0.5),
    BudgetDecision(BudgetEffect.WARN, "max_steps", 7, 8, "near", BudgetUsage(steps=7)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_survives_its_json(value: Any):
    assert type(value).from_dict(from_json(to_json(value))) == value


def test_a_manifest_counts_the_tool_prompt_once():
    assert MANIFEST.total_estimated_tokens == MANIFEST.to_dict()["total_estimated_tokens"] == 125
    assert ContextManifest(system_tokens=10, tool_prompt_tokens=30).total_estimated_tokens == 30


def test_only_allow_and_warn_let_work_go_on():
    assert {effect for effect in BudgetEffect if BudgetDecision(effect).allowed} == {"allow", "warn"}


@pytest.mark.parametrize(
    ("read", "data", "field"),
    [
        (PolicyDecision.from_dict, {}, "effect"),
        (PolicyDecision.from_dict, {"effect": "maybe"}, "effect"),
        (ApprovalDecision.from_dict, {"request_id": "q"}, "approved"),
        (ApprovalDecision.from_dict, {"approved": "yes", "request_id": "q"}, "approved"),
        (ApprovalDecision.from_dict, {"approved": True}, "request_id"),
        (ApprovalRequest.from_dict, {}, "action"),
        (ApprovalRequest.from_dict, {"action": {"kind": "k"}}, "action.name"),
        (ApprovalRequest.from_dict, {"action": {"kind": "k", "name": "n"}}, "policy_decision"),
        (RunAction.from_dict, {"kind": "k", "name": "n", "artifacts": [{"parts": [{}]}]}, "artifacts[0].parts[0].type"),
        (ContextManifest.from_dict, {"context_items": [{"tokens": 1}]}, "context_items[0].kind"),
        (BudgetDecision.from_dict, {"effect": "deny", "usage": {"steps": -1}}, "usage.steps"),
    ],
)
def test_a_wrong_value_names_the_path_and_is_never_guessed(read: Any, data: object, field: str):
    with pytest.raises(InvalidArgumentError) as caught:
        read(data)
    assert caught.value.field == field
