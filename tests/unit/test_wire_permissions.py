"""Permissions as rules of the contract: the JSON form keeps its meaning, and errors have a path."""

from typing import Any

import pytest
from plgrpc.v1 import context_pb2
from plgrpc.v1 import policy_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import RunAction, RunContext, Task
from protolink_grpc.policy import permissions_effect
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.wire.permissions import permissions_from_pb, permissions_to_pb, refuse_unknown_rules

ALLOW, DENY, ASK = pb.POLICY_EFFECT_ALLOW, pb.POLICY_EFFECT_DENY, pb.POLICY_EFFECT_REQUIRE_APPROVAL


def encoded(permissions: dict[str, Any]) -> Any:
    return context_pb2.RunContext(permissions=permissions_to_pb(permissions, "context.permissions")).permissions


@pytest.mark.parametrize(
    ("spelled", "name", "rule"),
    [
        ({"a": "deny"}, "a", pb.CapabilityRule(effect=DENY)),
        ({"a": True}, "a", pb.CapabilityRule(effect=ALLOW)),
        ({"a.*": "ask"}, "a.*", pb.CapabilityRule(effect=ASK)),
        ({"capabilities": {"a": "denied"}}, "a", pb.CapabilityRule(effect=DENY)),
        ({"default": {"mode": "deny"}}, "default", pb.CapabilityRule(effect=DENY)),
        (
            {"a": {"effect": "approve", "editable": True, "expires_s": 1.5}},
            "a",
            pb.CapabilityRule(
                effect=ASK, edit=pb.APPROVAL_EDIT_ARGUMENTS, approval_ttl={"seconds": 1, "nanos": 500_000_000}
            ),
        ),
        ({"a": {"effect": "ask", "expires_s": 1e-9}}, "a", pb.CapabilityRule(effect=ASK, approval_ttl={"nanos": 1000})),
        ({"a": {"paths": ["/d"]}}, "a", pb.CapabilityRule(terms_json='{"paths":["/d"]}')),
        ({"a": {"effect": "allow", "paths": 1}}, "a", pb.CapabilityRule(effect=ALLOW, terms_json='{"paths":1}')),
    ],
    ids=repr,
)
def test_every_spelling_of_a_rule_is_one_rule_of_the_contract(
    spelled: dict[str, Any], name: str, rule: pb.CapabilityRule
) -> None:
    assert dict(encoded(spelled)) == {name: rule}
    read = permissions_from_pb(encoded(spelled))
    assert dict(encoded(read)) == {name: rule}
    needed = RunAction("tool.call", "act", capabilities=frozenset({"a", "a.b", "other"}))
    before, after = permissions_effect(needed, spelled), permissions_effect(needed, read)
    assert (before and before.effect) == (after and after.effect)


@pytest.mark.parametrize(
    ("permissions", "field"),
    [
        ({"a": "perhaps"}, "a"),
        ({"a": {"effect": "perhaps"}}, "a.effect"),
        ({"a": {"effect": "ask", "editable": 1}}, "a.editable"),
        ({"a": {"effect": "ask", "expires_s": 0}}, "a.expires_s"),
        ({"capabilities": {"a": "perhaps"}}, "capabilities.a"),
    ],
    ids=repr,
)
def test_a_rule_that_cannot_be_read_is_refused_by_its_path(permissions: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        encoded(permissions)
    assert refused.value.field == f"context.permissions.{field}"
    task = RunContext(permissions=permissions).attach_to_task(Task.create("go"))
    with pytest.raises(InvalidArgumentError) as refused:
        Submission.of(task).submitted("task", "ada")
    assert refused.value.field == f"input.options.permissions.{field}"


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (pb.CapabilityRule(), "effect"),
        (pb.CapabilityRule(terms_json="null"), "effect"),
        (pb.CapabilityRule(terms_json="{"), "terms_json"),
        (pb.CapabilityRule(terms_json='"deny"'), "terms_json"),
        (pb.CapabilityRule(terms_json='{"effect":"deny"}'), "terms_json"),
        (pb.CapabilityRule(effect=ALLOW, terms_json="[1]"), "terms_json"),
        (pb.CapabilityRule(effect=ASK, approval_ttl={"seconds": 0}), "approval_ttl"),
        (pb.CapabilityRule(effect=ASK, approval_ttl={"seconds": -1}), "approval_ttl"),
        (pb.CapabilityRule(effect=ASK, approval_ttl={"seconds": 2 * 10**9}), "approval_ttl"),
    ],
    ids=str,
)
def test_a_message_that_is_no_rule_is_refused_by_its_path(rule: pb.CapabilityRule, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        permissions_from_pb({"a": rule}, "context.permissions")
    assert refused.value.field == f"context.permissions.a.{field}"


def test_values_of_a_later_version_restrict_where_they_are_read_and_are_refused_where_they_are_asked_for() -> None:
    rules = {"a": pb.CapabilityRule(effect=77), "b": pb.CapabilityRule(effect=ASK, edit=77)}  # type: ignore[arg-type]  # on purpose
    assert permissions_from_pb(rules) == {"a": "deny", "b": "require_approval"}
    for name, field in (("a", "effect"), ("b", "edit")):
        with pytest.raises(InvalidArgumentError) as refused:
            refuse_unknown_rules({name: rules[name]}, "task.context.permissions")
        assert refused.value.field == f"task.context.permissions.{name}.{field}"
