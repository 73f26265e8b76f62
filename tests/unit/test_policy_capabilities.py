import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import Artifact, PolicyDecision, PolicyEffect, RunAction, RunContext, from_json, to_json
from protolink_grpc.policy import CapabilityPolicy, decide, narrow, permissions_effect

STRENGTH = ["allow", "require_approval", "deny"]


def action(*capabilities: str, **payload: Any) -> RunAction:
    return RunAction("tool.call", "publish", payload, frozenset(capabilities))


async def judged(rules: Any, *capabilities: str, default: Any = "allow") -> PolicyDecision:
    return await CapabilityPolicy(rules, default).evaluate(action(*capabilities), RunContext())


async def effect(rules: Any, *capabilities: str, default: Any = "allow") -> str:
    return str((await judged(rules, *capabilities, default=default)).effect)


# Rules


async def test_a_rule_for_the_name_precedes_every_wildcard():
    rules = {"*": "deny", "records.*": "deny", "records.write": "allow"}
    assert await effect(rules, "records.write") == "allow"


async def test_the_longest_namespace_precedes_shorter_ones_and_the_star():
    rules = {"*": "deny", "a.*": "deny", "a.b.*": "allow"}
    assert await effect(rules, "a.b.c.d") == "allow"
    assert await effect(rules, "a.x") == "deny"
    assert await effect({"*": "deny", "a.*": "allow"}, "a.x") == "allow"
    assert await effect({"*": "deny", "a.*": "allow"}, "b") == "deny"


async def test_a_namespace_matches_only_names_below_it():
    assert await effect({"records.*": "deny"}, "records") == "allow"
    assert await effect({"records.*": "deny"}, "recordsets.read") == "allow"


@pytest.mark.parametrize(
    ("effects", "strongest"),
    [
        (["allow", "require_approval", "deny"], "deny"),
        (["allow", "require_approval"], "require_approval"),
        (["allow", "allow"], "allow"),
    ],
)
async def test_the_strictest_effect_of_all_capabilities_applies(effects, strongest):
    rules = {f"c{index}": each for index, each in enumerate(effects)}
    assert await effect(rules, *rules) == strongest


async def test_the_default_applies_without_a_matching_rule():
    assert await effect({"a": "deny"}, "b") == "allow"
    assert await effect({"a": "allow"}, "b", default="deny") == "deny"


async def test_an_action_without_capabilities_is_allowed():
    assert await effect({"*": "deny"}, default="deny") == "allow"


async def test_a_canceled_run_may_do_nothing():
    decision = await CapabilityPolicy().evaluate(action(), RunContext().cancel("enough"))
    assert decision.effect == PolicyEffect.DENY


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        (PolicyEffect.DENY, "deny"),
        (True, "allow"),
        (False, "deny"),
        ("Allowed", "allow"),
        ("DENIED", "deny"),
        ("require-approval", "require_approval"),
        ("Require_Approval", "require_approval"),
        ("approval", "require_approval"),
        ("approve", "require_approval"),
        (" ask ", "require_approval"),
        ({"effect": "ask"}, "require_approval"),
        ({"decision": False}, "deny"),
        ({"mode": "allow"}, "allow"),
    ],
)
async def test_all_spellings_of_effects_are_accepted(spelled, meant):
    assert await effect({"a": spelled}, "a") == meant


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"a.b": "alow"}, "rules.a.b"),
        ({"a": None}, "rules.a"),
        ({"a": 1}, "rules.a"),
        ({"a": ["deny"]}, "rules.a"),
        ({"a": {}}, "rules.a"),
        ({"a": {"effect": "x"}}, "rules.a.effect"),
        ({"a": {"effect": "ask", "editable": "yes"}}, "rules.a.editable"),
        ({"a": {"effect": "ask", "expires_s": 0}}, "rules.a.expires_s"),
        ({"a": {"effect": "ask", "expires_s": True}}, "rules.a.expires_s"),
        ({"a": {"effect": "ask", "expires_s": float("nan")}}, "rules.a.expires_s"),
        ({"a": {"effect": "ask", "expires_s": 10**400}}, "rules.a.expires_s"),
        ({"a": {"effect": "ask", "expire_s": 5}}, "rules.a"),
        ({"a": {"effect": "allow", "mode": "deny"}}, "rules.a"),
        ({"a*": "deny"}, "rules.a*"),
        ({"*.a": "deny"}, "rules.*.a"),
        ({"a.*.b": "deny"}, "rules.a.*.b"),
        ({"*.*": "deny"}, "rules.*.*"),
        ({".*": "deny"}, "rules..*"),
        ({"a ": "deny"}, "rules"),
        ({"": "deny"}, "rules"),
        ({1: "deny"}, "rules"),
        (["a"], "rules"),
    ],
)
def test_an_invalid_rule_is_named_at_construction(rules, field):
    with pytest.raises(InvalidArgumentError) as excinfo:
        CapabilityPolicy(rules)
    assert excinfo.value.field == field


@pytest.mark.parametrize(("wrong", "field"), [({"default_effect": "maybe"}, "default_effect"), ({"name": " "}, "name")])
def test_an_invalid_default_or_name_is_refused(wrong, field):
    with pytest.raises(InvalidArgumentError) as excinfo:
        CapabilityPolicy(**wrong)
    assert excinfo.value.field == field


async def test_a_decision_names_its_rules():
    decision = await judged({"records.*": "ask", "mail": "allow"}, "records.write", "records.read", "mail")
    assert decision.policy_name == "capability"
    assert decision.matched_capabilities == ("records.read", "records.write")
    assert decision.metadata == {
        "capabilities": {"mail": "allow", "records.read": "require_approval", "records.write": "require_approval"},
        "sources": ["policy"],
        "editable": False,
        "rule": "records.*",
    }
    assert decision.reason == "records.read, records.write: approval required by rule 'records.*' and others"


@pytest.mark.parametrize(
    ("rules", "capabilities", "rule"),
    [
        ({"records.write": "deny", "*": "allow"}, ["records.write"], "records.write"),
        ({"records.*": "deny", "*": "allow"}, ["records.write", "mail"], "records.*"),
        ({"*": "ask"}, ["records.write", "mail"], "*"),
        ({"mail": "ask"}, ["records.write"], "default"),
        ({"mail": "ask", "records.*": "ask"}, ["records.write", "mail"], ""),
        ({"mail": "ask", "records.*": "deny"}, ["records.write", "mail"], "records.*"),
        ({"mail": {"effect": "allow", "scopes": ["post"]}}, ["mail", "records.write"], "mail"),
        ({"mail": "deny"}, [], ""),
    ],
)
async def test_a_decision_names_the_rule_with_its_effect_if_there_is_only_one(
    rules: Any, capabilities: list[str], rule: str
) -> None:
    assert (await judged(rules, *capabilities)).rule == rule


async def test_arguments_are_editable_only_if_all_approval_rules_allow_it_and_the_shortest_lifetime_applies():
    rules = {
        "a": {"effect": "ask", "editable": True, "expires_s": 60},
        "b": {"effect": "ask", "editable": True, "expires_s": 5.5},
        "c": {"effect": "ask"},
        "d": {"effect": "allow", "expires_s": 1},
    }
    both = (await judged(rules, "a", "b", "d")).metadata
    assert (both["editable"], both["expires_s"]) == (True, 5.5)
    assert (await judged(rules, "a", "c")).metadata["editable"] is False
    assert "expires_s" not in (await judged(rules, "c")).metadata
    assert "editable" not in (await judged(rules, "d")).metadata


names = st.sampled_from(["a", "a.b", "a.b.c", "a.*", "a.b.*", "*", "b", "b.*"])
rule_objects = st.fixed_dictionaries(
    {"effect": st.sampled_from(STRENGTH)},
    optional={"editable": st.booleans(), "expires_s": st.integers(1, 9)},
)
capabilities = st.sets(
    st.sampled_from(["a", "a.b", "a.b.c", "a.b.c.d", "a.x", "b", "b.c", "z", "default", "capabilities"])
)


@given(st.dictionaries(names, st.sampled_from(STRENGTH) | st.booleans() | rule_objects), rule_objects, capabilities)
def test_a_policy_decides_the_same_after_json(rules, default, needed):
    policy = CapabilityPolicy(rules, default, name="house")
    again = CapabilityPolicy.from_dict(from_json(to_json(policy.to_dict())))
    assert again.to_dict() == policy.to_dict()

    async def both() -> None:
        first, second = [await each.evaluate(action(*needed), RunContext()) for each in (policy, again)]
        assert first == second

    asyncio.run(both())


def test_a_policy_from_json_has_defaults_and_errors_name_the_field():
    assert CapabilityPolicy.from_dict({}).to_dict() == {"name": "capability", "default_effect": "allow", "rules": {}}
    with pytest.raises(InvalidArgumentError) as excinfo:
        CapabilityPolicy.from_dict({"rules": {"a": "no"}})
    assert excinfo.value.field == "rules.a"


# Permissions


def permitted(permissions: dict[str, Any], *needed: str) -> str | None:
    decision = permissions_effect(action(*needed), permissions)
    return None if decision is None else str(decision.effect)


@pytest.mark.parametrize(
    "permissions",
    [
        {"records.write": False},
        {"records.write": "deny"},
        {"records.*": {"effect": "deny"}},
        {"*": "denied"},
        {"default": "deny"},
        {"capabilities": {"records.write": "deny"}},
        {"capabilities": {"records.*": False}, "default": True},
        {"capabilities": {"mail": "allow"}, "default": "deny"},
        {"capabilities": {"records.write": "allow"}, "records.write": "deny"},
        {"capabilities": {"mail": "allow"}, "records.write": "deny"},
    ],
)
def test_permissions_deny_in_each_of_their_forms(permissions):
    assert permitted(permissions, "records.write") == "deny"


def test_permissions_without_a_rule_for_the_capabilities_have_no_effect():
    assert permitted({"mail": "deny"}, "records.write") is None
    assert permitted({"*": "deny", "default": "deny"}) is None
    assert permitted({"records.write": None}, "records.write") is None


def test_an_object_of_the_application_allows_and_is_not_a_rule():
    assert permitted({"fs.read": {"paths": ["file:///workspace"]}}, "fs.read") is None
    assert permitted({"fs.read": {"paths": []}, "default": "deny"}, "fs.read") is None
    assert permitted({"fs.read": {"paths": []}, "default": "deny"}, "fs.read", "fs.write") == "deny"
    assert permitted({"fs.read": ["/a"], "*": "deny"}, "fs.read") is None


@pytest.mark.parametrize("value", ["alow", "", {"effect": "x"}, {"effect": None}, {"effect": "ask", "expires_s": -1}])
def test_an_unknown_permission_denies(value):
    assert permitted({"a": value}, "a") == "deny"


def test_permissions_may_contain_approval_terms():
    permissions = {"a": {"effect": "ask", "editable": True, "expires_s": 9, "paths": []}}
    decision = permissions_effect(action("a"), permissions)
    assert decision is not None
    assert decision.metadata == {
        "capabilities": {"a": "require_approval"},
        "sources": ["context"],
        "editable": True,
        "expires_s": 9,
        "rule": "a",
    }


values = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([*STRENGTH, "ask", "nonsense"]),
    rule_objects,
    st.fixed_dictionaries(
        {"effect": st.sampled_from(["ask", "x"])}, optional={"paths": st.just(["/"]), "mode": st.just("r")}
    ),
    st.fixed_dictionaries({}, optional={"paths": st.lists(st.sampled_from("xy")), "expires_s": st.integers(-1, 2)}),
    st.lists(st.just("x"), max_size=1),
    st.integers(0, 1),
)
rule_maps = st.dictionaries(names | st.sampled_from(["default", "capabilities", ".*"]), values, max_size=6)
permission_maps = st.builds(
    lambda flat, nested: flat if nested is None else flat | {"capabilities": nested},
    rule_maps,
    st.none() | rule_maps,
)


@settings(max_examples=2 * settings().max_examples)
@given(permission_maps, permission_maps, capabilities)
def test_narrowed_permissions_have_the_stricter_effect_for_every_action(a, b, needed):
    both = narrow(a, b)
    found = [permissions_effect(action(*needed), each) for each in (a, b)]
    effects = [str(each.effect) for each in found if each is not None]
    expected = max(effects, key=STRENGTH.index, default="allow")
    decision = permissions_effect(action(*needed), both)
    assert (str(decision.effect) if decision else "allow") == expected
    if expected == "require_approval":
        decided = [each for each in found if each is not None and each.effect == expected]
        assert decision.metadata["editable"] == all(each.metadata["editable"] for each in decided)
        times = [each.metadata["expires_s"] for each in decided if "expires_s" in each.metadata]
        assert decision.metadata.get("expires_s") == min(times, default=None)
    assert from_json(to_json(both)) == both


@given(permission_maps, permission_maps, permission_maps, capabilities)
def test_narrowing_further_never_widens(a, b, c, needed):
    def strength(permissions: dict[str, Any]) -> int:
        return STRENGTH.index(permitted(permissions, *needed) or "allow")

    twice = narrow(narrow(a, b), c)
    assert strength(twice) == max(strength(a), strength(b), strength(c))


def test_narrowing_keeps_objects_of_the_application_and_prefers_the_granted_ones():
    granted = {"fs.read": {"paths": ["/a"]}, "fs.write": {"paths": ["/a"]}, "mail": "allow"}
    asked = {"fs.read": {"paths": ["/"], "hidden": False}, "fs.write": "ask"}
    assert narrow(granted, asked) == {
        "fs.read": {"paths": ["/a"], "hidden": False},
        "fs.write": {"paths": ["/a"], "effect": "require_approval"},
        "mail": "allow",
    }
    assert narrow(granted, {}) == granted


def test_narrowed_permissions_share_nothing_with_their_sources():
    granted = {"fs.read": {"paths": ["/a"]}}
    narrow(granted, {})["fs.read"]["paths"].append("/")
    assert granted == {"fs.read": {"paths": ["/a"]}}


# Both together


class Custom:
    """Returns a given decision, or raises it if it is an exception."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.seen: tuple[RunAction, RunContext] | None = None

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        self.seen = action, context
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("ours", STRENGTH)
@pytest.mark.parametrize("theirs", [None, *STRENGTH])
@pytest.mark.parametrize("custom", [True, False])
async def test_the_stricter_of_policy_and_permissions_decides_and_is_named(ours, theirs, custom):
    policy = Custom(PolicyDecision(PolicyEffect(ours), policy_name="mine")) if custom else CapabilityPolicy({"a": ours})
    decision = await decide(policy, action("a"), RunContext(permissions={} if theirs is None else {"a": theirs}))
    strength = STRENGTH.index(ours), -1 if theirs is None else STRENGTH.index(theirs)
    assert decision.effect == STRENGTH[max(strength)]
    sources = ["policy"] * (strength[0] >= strength[1]) + ["context"] * (strength[1] >= strength[0])
    assert decision.metadata["sources"] == sources
    assert decision.policy_name == ("permissions" if sources == ["context"] else "mine" if custom else "capability")


@pytest.mark.parametrize(
    ("permissions", "rule", "sources"),
    [
        ({}, "records.*", ("policy",)),
        ({"records.write": "allow"}, "records.*", ("policy",)),
        ({"records.write": "deny"}, "records.write", ("context",)),
        ({"default": "deny"}, "default", ("context",)),
        ({"capabilities": {"*": "deny"}}, "*", ("context",)),
        ({"records.*": "ask"}, "records.*", ("policy", "context")),
        ({"records.write": "ask"}, "", ("policy", "context")),
    ],
)
async def test_the_rule_is_that_of_the_source_that_decided(permissions: Any, rule: str, sources: Any) -> None:
    decision = await decide(
        CapabilityPolicy({"records.*": "ask"}), action("records.write"), RunContext(permissions=permissions)
    )
    assert (decision.rule, decision.sources) == (rule, sources)


async def test_no_rule_decides_about_an_action_of_a_canceled_run() -> None:
    decision = await decide(CapabilityPolicy({"a": "allow"}), action("a"), RunContext(canceled=True))
    assert (decision.effect, decision.rule, decision.sources) == (PolicyEffect.DENY, "", ("context",))


async def test_a_custom_policy_may_name_its_rule() -> None:
    policy = Custom(PolicyDecision(PolicyEffect.DENY, metadata={"rule": "night"}))
    assert (await decide(policy, action("a"), RunContext())).rule == "night"
    assert (await decide(policy, action("a"), RunContext(permissions={"a": "deny"}))).rule == ""


async def test_without_a_policy_only_the_permissions_restrict():
    context = RunContext(permissions={"records.write": "ask"})
    assert (await decide(None, action("records.write"), context)).effect == "require_approval"
    assert (await decide(None, action("records.read"), context)).effect == "allow"


async def test_permissions_cannot_weaken_the_policy():
    policy = CapabilityPolicy({"a": {"effect": "ask", "expires_s": 10}, "b": "deny"})
    context = RunContext(permissions={"*": "allow", "default": True})
    assert (await decide(policy, action("b"), context)).effect == "deny"
    assert (await decide(policy, action("a"), context)).metadata["expires_s"] == 10


async def test_the_terms_of_two_approvals_are_the_stricter_ones():
    policy = CapabilityPolicy({"a": {"effect": "ask", "editable": True, "expires_s": 10}})
    context = RunContext(permissions={"a": {"effect": "ask", "editable": True, "expires_s": 3}})
    first = (await decide(policy, action("a"), context)).metadata
    assert (first["editable"], first["expires_s"]) == (True, 3)
    second = (await decide(policy, action("a"), RunContext(permissions={"a": "ask"}))).metadata
    assert (second["editable"], second["expires_s"]) == (False, 10)


async def test_a_custom_policy_may_set_the_terms_of_an_approval():
    answer = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, metadata={"editable": True, "expires_s": 7, "ticket": 1})
    decision = await decide(Custom(answer), action("a"), RunContext())
    assert decision.metadata == {"editable": True, "expires_s": 7, "ticket": 1, "sources": ["policy"]}
    assert decision.policy_name == "Custom"


async def test_a_custom_policy_gets_copies():
    class Meddler:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            action.payload["to"].append("everybody")
            action.artifacts[0].add_text("changed")
            context.permissions["a"] = "allow"
            context.agent_chain.append("x")
            return PolicyDecision(PolicyEffect.ALLOW)

    real = action("a", to=["one"]).with_artifacts([Artifact().add_text("preview")])
    before, context = real.fingerprint, RunContext(permissions={"a": "deny"})
    decision = await decide(Meddler(), real, context)
    assert decision.effect == "deny"
    assert (real.fingerprint, context.agent_chain) == (before, [])


async def test_the_copies_are_equal_to_their_originals():
    real = action("a", to=["one"]).with_artifacts([Artifact().add_text("preview")])
    policy, context = Custom(PolicyDecision(PolicyEffect.ALLOW)), RunContext(permissions={"a": "deny"})
    await decide(policy, real, context)
    assert policy.seen == (real, context)


async def test_a_policy_that_raises_denies_without_details_of_the_error(caplog):
    decision = await decide(Custom(RuntimeError("password is hunter2")), action(), RunContext())
    assert decision.effect == "deny"
    assert "hunter2" not in str(decision.to_dict())
    assert decision.metadata["incident"] in caplog.text


@pytest.mark.parametrize("answer", [None, True, "allow", {"effect": "allow"}])
async def test_a_result_of_another_type_is_a_type_error(answer):
    with pytest.raises(TypeError, match="PolicyDecision"):
        await decide(Custom(answer), action(), RunContext())


@pytest.mark.parametrize(
    "answer",
    [
        PolicyDecision("perhaps"),  # type: ignore[arg-type]  # an application may be untyped
        PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, metadata={"editable": 1}),
        PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, metadata={"expires_s": "10"}),
    ],
)
async def test_a_malformed_decision_is_a_type_error(answer):
    with pytest.raises(TypeError):
        await decide(Custom(answer), action(), RunContext())


async def test_a_policy_may_be_synchronous_and_return_its_effect_as_a_string():
    class Plain:
        def evaluate(self, action, context):
            return PolicyDecision("deny")

    decision = await decide(Plain(), action(), RunContext())
    assert decision.effect is PolicyEffect.DENY


async def test_cancellation_passes_through_a_policy():
    with pytest.raises(asyncio.CancelledError):
        await decide(Custom(asyncio.CancelledError()), action(), RunContext())


async def test_a_canceled_run_is_denied_without_calling_the_policy():
    policy = Custom(PolicyDecision(PolicyEffect.ALLOW))
    decision = await decide(policy, action("a"), RunContext().cancel())
    assert (decision.effect, policy.seen) == ("deny", None)
    assert decision.metadata["sources"] == ["context"]
