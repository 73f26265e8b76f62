"""Scopes of the caller in the rules of a policy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import RunAction, RunContext
from protolink_grpc.policy import CapabilityPolicy, decide, permissions_effect

PAY = RunAction("tool.call", "pay", {}, frozenset({"payments.write"}))


async def judged(rule, *scopes, permissions=None):
    context = RunContext(principal="ann", scopes=scopes, permissions=permissions or {})
    return await decide(CapabilityPolicy({"payments.*": rule}), PAY, context)


@pytest.mark.parametrize("effect", ["allow", "require_approval"])
async def test_a_rule_with_scopes_allows_callers_that_have_all_of_them(effect):
    rule = {"effect": effect, "scopes": ["pay", "eu"]}
    assert (await judged(rule, "eu", "pay", "more")).effect == effect
    assert (await judged(rule, "pay")).effect == "deny"
    assert (await judged(rule)).effect == "deny"


async def test_a_denial_names_the_missing_scope_and_the_rule():
    decision = await judged({"effect": "allow", "scopes": ["pay", "eu"]}, "eu")
    assert decision.reason == ("payments.write: denied by rule 'payments.*', which requires the scope pay")


async def test_scopes_do_not_weaken_a_denial():
    assert (await judged({"effect": "deny", "scopes": ["pay"]}, "pay")).effect == "deny"


async def test_the_default_can_require_scopes_too():
    policy = CapabilityPolicy(None, {"effect": "allow", "scopes": ["pay"]})
    assert (await policy.evaluate(PAY, RunContext())).effect == "deny"
    assert (await policy.evaluate(PAY, RunContext(scopes=("pay",)))).effect == "allow"


async def test_one_scope_may_be_a_string():
    assert (await judged({"effect": "allow", "scopes": "pay"}, "pay")).effect == "allow"
    assert (await judged({"effect": "allow", "scopes": "pay"}, "p", "a", "y")).effect == "deny"


async def test_permissions_of_a_run_do_not_grant_scopes():
    permissions = {"payments.write": {"effect": "allow", "scopes": ["pay"]}, "scopes": ["pay"]}
    decision = await judged({"effect": "allow", "scopes": ["pay"]}, permissions=permissions)
    assert decision.effect == "deny"


def test_scopes_in_permissions_are_data_of_the_application():
    decision = permissions_effect(PAY, {"payments.write": {"effect": "allow", "scopes": ["pay"]}})
    assert decision is not None
    assert decision.effect == "allow"


@pytest.mark.parametrize("scopes", [1, True, [1], [""], "", {}, [None], {"pay": True}])
def test_scopes_that_are_not_names_are_refused(scopes):
    with pytest.raises(InvalidArgumentError) as caught:
        CapabilityPolicy({"pay": {"effect": "allow", "scopes": scopes}})
    assert caught.value.field == "rules.pay.scopes"


RULES = st.fixed_dictionaries(
    {"effect": st.sampled_from(["allow", "deny", "require_approval"])},
    optional={"scopes": st.lists(st.text(min_size=1)), "editable": st.booleans(), "expires_s": st.floats(1, 100)},
)


@given(st.dictionaries(st.sampled_from(["a", "a.b", "a.*", "*"]), RULES), RULES)
def test_a_policy_with_scopes_survives_its_dictionary(rules, default):
    written = CapabilityPolicy(rules, default).to_dict()
    assert CapabilityPolicy.from_dict(written).to_dict() == written
    for name, rule in rules.items():
        found = written["rules"][name]
        assert set(found["scopes"] if isinstance(found, dict) and "scopes" in found else ()) == set(
            rule.get("scopes", ())
        )
