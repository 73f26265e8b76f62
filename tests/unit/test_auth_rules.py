import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.auth import AccessRules, Principal, RateLimit, admission
from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL
from protolink_grpc.errors import InvalidArgumentError, PermissionDeniedError, ResourceExhaustedError

SEND = "/plgrpc.v1.AgentService/SendTask"
CANCEL = "/plgrpc.v1.AgentService/CancelTask"
A2A_CANCEL = "/lf.a2a.v1.A2AService/CancelTask"
RESET = "/plgrpc.v1.ControlService/ResetState"
CALL = "/plgrpc.v1.ControlService/CallTool"


def caller(*scopes, name="ann"):
    return Principal(name, frozenset(scopes))


def allowed(rules, method, *scopes):
    try:
        rules(method, caller(*scopes))
    except PermissionDeniedError:
        return False
    return True


# Rules by method


def test_a_method_without_a_rule_is_allowed_unless_the_default_denies():
    assert allowed(AccessRules({}), SEND)
    assert not allowed(AccessRules({}, default=False), SEND, "everything")
    assert not allowed(AccessRules({}, default="use"), SEND)
    assert allowed(AccessRules({}, default="use"), SEND, "use")


def test_all_scopes_of_a_rule_are_required():
    rules = AccessRules({SEND: ["use", "pay"]})
    assert allowed(rules, SEND, "use", "pay", "more")
    assert not allowed(rules, SEND, "use")
    assert allowed(rules, CANCEL)


def test_a_refusal_names_the_method_and_the_missing_scopes():
    with pytest.raises(PermissionDeniedError) as caught:
        AccessRules({SEND: {"use", "pay", "see"}})(SEND, caller("pay"))
    assert str(caught.value) == f"{SEND} needs the scope see use"
    assert caught.value.metadata == {"method": SEND, "scope": "see use"}


@pytest.mark.parametrize(
    ("pattern", "method", "matches"),
    [
        ("*", SEND, True),
        ("*/*", SEND, True),
        ("*/SendTask", SEND, True),
        ("*/Send", SEND, False),
        ("*/Send*", SEND, True),
        ("*/*Task", CANCEL, True),
        ("/plgrpc.v1.AgentService/*", SEND, True),
        ("/plgrpc.v1.AgentService/*", RESET, False),
        ("/plgrpc.*/*", RESET, True),
        ("/plgrpc.v1/*", SEND, False),
        ("*.ControlService/*", RESET, True),
        ("*.ControlService/*", SEND, False),
        (SEND, SEND, True),
        (SEND, SEND + "s", False),
        ("/protolinkXv1.AgentService/SendTask", SEND, False),
        ("/plgrpc.v1.AgentService/SendTask".replace(".", "?"), SEND, False),
    ],
)
def test_a_star_matches_text_within_a_part_and_no_other_character_is_special(pattern, method, matches):
    assert allowed(AccessRules({pattern: False}), method, "x") is not matches


@pytest.mark.parametrize(
    ("pattern", "closed"),
    [
        ("/plgrpc.v1.ControlService/*", False),
        ("*.ControlService/*", False),
        ("*/SendTask", True),
        ("/plgrpc.v1.AgentService/*", True),
        ("*", True),
        ("*/CallTool", True),
        ("/plgrpc.v1.ControlService/Call*", True),
    ],
)
def test_calling_a_tool_requires_the_scopes_of_sending_a_task_unless_a_rule_names_it(pattern, closed):
    assert allowed(AccessRules({pattern: "work"}), CALL) is not closed
    assert allowed(AccessRules({pattern: "work"}), CALL, "work")
    assert allowed(AccessRules({"*/SendTask": "work", "*/CallTool": True}), CALL)


def test_the_rule_with_the_more_specific_method_applies_then_the_more_specific_service():
    rules = AccessRules(
        {
            "*": "any",
            "/plgrpc.v1.AgentService/*": "service",
            "*/Cancel*": "prefix",
            "*/CancelTask": "method",
            CANCEL: "exact",
        }
    )
    assert allowed(rules, RESET, "any")
    assert allowed(rules, SEND, "service")
    assert not allowed(rules, SEND, "any")
    assert allowed(rules, A2A_CANCEL, "method")
    assert not allowed(rules, A2A_CANCEL, "prefix")
    assert allowed(rules, "/x.Y/CancelAll", "prefix")
    assert allowed(rules, CANCEL, "exact")
    assert not allowed(rules, CANCEL, "service", "method", "any")


def test_the_order_of_the_rules_does_not_matter():
    rules = {"*": False, "*/SendTask": True}
    for each in (rules, dict(reversed(rules.items()))):
        assert allowed(AccessRules(each), SEND)
        assert not allowed(AccessRules(each), CANCEL)


def test_true_allows_all_callers_and_false_none():
    assert allowed(AccessRules({"*": False, SEND: True}), SEND)
    assert not allowed(AccessRules({SEND: False}), SEND, "all", "scopes")


@pytest.mark.parametrize("pattern", ["", "SendTask", "plgrpc.v1.AgentService/SendTask", "/a/b/c", "/a/", "**"])
def test_a_pattern_that_can_never_match_is_refused(pattern):
    with pytest.raises(InvalidArgumentError) as caught:
        AccessRules({pattern: "x"})
    assert caught.value.field == f"rules.{pattern}"


@pytest.mark.parametrize("demand", [[""], [1], ""])
def test_an_invalid_requirement_is_refused(demand):
    with pytest.raises(InvalidArgumentError):
        AccessRules({SEND: demand})


@given(st.text(), st.sets(st.sampled_from("abc")))
def test_any_method_name_has_the_same_result_twice(method, scopes):
    rules = AccessRules({"*/a*": "a", "/b*/*": "b"}, default="c")
    assert allowed(rules, method, *scopes) == allowed(rules, method, *scopes)


def test_the_cache_of_methods_is_bounded():
    rules = AccessRules({"*": "use"})
    for number in range(3000):
        assert not allowed(rules, f"/x.Y/Method{number}")
    assert len(rules._cache) <= 1024


# Rates


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def taken(limit, principal, calls=100):
    """The number of calls that are allowed at once."""
    for number in range(calls):
        try:
            limit(SEND, principal)
        except ResourceExhaustedError:
            return number
    return calls


def test_a_burst_is_allowed_and_then_the_rate_applies():
    clock = Clock()
    limit = RateLimit(2, burst=5, clock=clock)
    assert taken(limit, caller()) == 5
    clock.now += 0.5
    assert taken(limit, caller()) == 1
    clock.now += 1.0
    assert taken(limit, caller()) == 2
    clock.now += 1000
    assert taken(limit, caller()) == 5


def test_a_call_succeeds_after_retry_after_s_and_not_earlier():
    clock = Clock()
    limit = RateLimit(3, burst=2, clock=clock)
    taken(limit, caller())
    with pytest.raises(ResourceExhaustedError) as caught:
        limit(SEND, caller())
    wait_s = caught.value.retry_after_s
    assert 0 < wait_s <= 1 / 3
    clock.now += wait_s * 0.9
    assert taken(limit, caller()) == 0
    clock.now += wait_s * 0.1 + 1e-6
    assert taken(limit, caller()) == 1


def test_refused_calls_do_not_delay_the_next_one():
    clock = Clock()
    limit = RateLimit(1, burst=1, clock=clock)
    for _ in range(50):
        taken(limit, caller())
    clock.now += 1.0
    assert taken(limit, caller()) == 1


def test_each_principal_has_a_bucket_and_anonymous_callers_share_one():
    limit = RateLimit(1, burst=1, clock=Clock())
    assert taken(limit, caller(name="ann")) == 1
    assert taken(limit, caller(name="bob")) == 1
    assert taken(limit, ANONYMOUS_PRINCIPAL) == 1
    assert taken(limit, ANONYMOUS_PRINCIPAL) == 0


def test_the_bucket_does_not_depend_on_scopes():
    limit = RateLimit(1, burst=1, clock=Clock())
    assert taken(limit, caller("a")) == 1
    assert taken(limit, caller("b")) == 0


def test_the_number_of_buckets_is_bounded_and_the_least_recently_used_is_dropped(monkeypatch):
    monkeypatch.setattr("protolink_grpc.auth.rate.MAX_PRINCIPALS", 3)
    limit = RateLimit(1, burst=1, clock=Clock())
    for name in ("a", "b", "c"):
        limit(SEND, caller(name=name))
    assert taken(limit, caller(name="a")) == 0  # it has just called, so its bucket was kept
    limit(SEND, caller(name="d"))
    assert list(limit._full_at) == ["c", "a", "d"]


@given(
    st.floats(0.01, 1000),
    st.integers(1, 20),
    st.lists(st.floats(0, 10), max_size=60),
)
def test_no_interval_allows_more_calls_than_burst_and_rate(per_second, burst, pauses):
    clock = Clock()
    limit = RateLimit(per_second, burst, clock=clock)
    passed = taken(limit, caller(), 30)
    for pause in pauses:
        clock.now += pause
        passed += taken(limit, caller(), 30)
    assert passed <= burst + per_second * sum(pauses) + 1e-3


@pytest.mark.parametrize(("per_second", "burst"), [(0, None), (-1, None), (float("nan"), 1), (float("inf"), 1), (1, 0)])
def test_a_rate_of_zero_or_infinity_is_refused(per_second, burst):
    with pytest.raises(InvalidArgumentError):
        RateLimit(per_second, burst)


def test_the_default_burst_is_the_number_of_calls_in_one_second():
    assert taken(RateLimit(7, clock=Clock()), caller()) == 7
    assert taken(RateLimit(0.1, clock=Clock()), caller()) == 1


# Combinations


def test_the_first_refusing_check_determines_the_error():
    limit = RateLimit(1, burst=1, clock=Clock())
    admit = admission(AccessRules({SEND: "use"}), limit)
    with pytest.raises(PermissionDeniedError):
        admit(SEND, caller())
    admit(SEND, caller("use"))  # the refused call above has not been counted
    with pytest.raises(ResourceExhaustedError):
        admit(SEND, caller("use"))


def test_without_checks_all_calls_are_admitted():
    admission()(SEND, ANONYMOUS_PRINCIPAL)
