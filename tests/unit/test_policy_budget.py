import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink_grpc.errors import BudgetExceededError, InvalidArgumentError
from protolink_grpc.models import BudgetDecision, BudgetEffect, BudgetUsage, Cost, RunBudget
from protolink_grpc.policy import BudgetEnforcer, BudgetPolicy, Reservation, effective

COUNTED = ("steps", "llm_calls", "tool_calls", "input_tokens", "output_tokens")
LIMITS = (
    "max_steps",
    "max_llm_calls",
    "max_tool_calls",
    "max_runtime_seconds",
    "max_input_tokens",
    "max_output_tokens",
)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def names(decisions: tuple[BudgetDecision, ...]) -> list[str | None]:
    return [each.limit_name for each in decisions]


def refused(excinfo: pytest.ExceptionInfo[BudgetExceededError]) -> BudgetDecision:
    decision = excinfo.value.decision
    assert isinstance(decision, BudgetDecision)
    assert decision.effect == BudgetEffect.DENY
    return decision


# The policy


def test_the_policy_allows_below_warns_from_the_ratio_on_and_denies_above():
    budget = RunBudget(max_steps=10)
    effects = [BudgetPolicy().evaluate(budget, BudgetUsage(steps=n)).effect for n in (0, 7, 8, 10, 11)]
    assert effects == ["allow", "allow", "warn", "warn", "deny"]


def test_a_denial_comes_before_a_warning_of_an_earlier_limit():
    decision = BudgetPolicy().evaluate(
        RunBudget(max_steps=10, max_output_tokens=5), BudgetUsage(steps=9, output_tokens=6)
    )
    assert (decision.effect, decision.limit_name, decision.observed, decision.limit) == (
        "deny",
        "max_output_tokens",
        6,
        5,
    )
    assert decision.message == "max_output_tokens: 6 is over the limit of 5"


def test_several_decisions_are_in_the_order_of_the_budgets_fields():
    budget = RunBudget(**dict.fromkeys(LIMITS, 1))
    usage = BudgetUsage(5, 5, 5, 5, 5, 5.0)
    assert names(BudgetPolicy().decisions(budget, usage)) == list(LIMITS)
    assert BudgetPolicy().evaluate(budget, usage).limit_name == "max_steps"


def test_a_limit_of_zero_without_usage_does_not_warn():
    assert BudgetPolicy().evaluate(RunBudget(max_tool_calls=0), BudgetUsage()).effect == BudgetEffect.ALLOW


@pytest.mark.parametrize("ratio", [0, -1, float("nan"), True])
def test_a_warning_ratio_must_be_above_zero(ratio):
    with pytest.raises(InvalidArgumentError, match="warning_ratio"):
        BudgetPolicy(ratio)


def test_a_ratio_above_one_never_warns():
    enforcer = BudgetEnforcer(RunBudget(max_steps=2), policy=BudgetPolicy(2))
    assert enforcer.check_step() == enforcer.check_step() == ()
    with pytest.raises(BudgetExceededError):
        enforcer.check_step()


def test_the_effective_budget_takes_the_smaller_of_each_limit():
    ours = RunBudget(max_steps=5, max_tool_calls=2, metadata={"a": 1, "b": [1]})
    asked = RunBudget(max_steps=9, max_llm_calls=3, max_tool_calls=0, metadata={"a": 2, "c": 3})
    assert effective(ours, asked) == RunBudget(
        max_steps=5, max_llm_calls=3, max_tool_calls=0, metadata={"a": 1, "b": [1], "c": 3}
    )


# Checks


def test_a_refused_step_is_not_counted():
    enforcer = BudgetEnforcer(RunBudget(max_steps=2))
    enforcer.check_step()
    enforcer.check_step()
    with pytest.raises(BudgetExceededError) as excinfo:
        enforcer.check_step()
    assert (refused(excinfo).limit_name, refused(excinfo).observed) == ("max_steps", 3)
    assert excinfo.value.metadata["limit_name"] == "max_steps"
    assert enforcer.usage.steps == 2


def test_checking_the_next_step_does_not_count_it():
    enforcer = BudgetEnforcer(RunBudget(max_steps=1))
    enforcer.check_next_step()
    enforcer.check_step()
    with pytest.raises(BudgetExceededError):
        enforcer.check_next_step()
    assert enforcer.usage.steps == 1


@pytest.mark.parametrize(
    ("limit", "check"),
    [
        ("max_steps", BudgetEnforcer.check_step),
        ("max_llm_calls", lambda enforcer: enforcer.check_llm_call(0)),
        ("max_tool_calls", BudgetEnforcer.check_tool_call),
        ("max_input_tokens", lambda enforcer: enforcer.check_llm_call(1)),
        ("max_output_tokens", lambda enforcer: enforcer.check_llm_call(0)),
    ],
)
def test_a_limit_of_zero_forbids(limit, check):
    enforcer = BudgetEnforcer(RunBudget(**{limit: 0}), clock=Clock())
    with pytest.raises(BudgetExceededError) as excinfo:
        check(enforcer)
    assert refused(excinfo).limit_name == limit
    assert enforcer.usage == BudgetUsage()


def test_input_above_the_limit_refuses_the_call_and_nothing_is_counted():
    enforcer = BudgetEnforcer(RunBudget(max_input_tokens=100))
    enforcer.check_llm_call(60)
    with pytest.raises(BudgetExceededError) as excinfo:
        enforcer.check_llm_call(41)
    assert refused(excinfo).observed == 101
    assert (enforcer.usage.llm_calls, enforcer.usage.input_tokens) == (1, 60)


def test_a_repeated_call_is_charged_like_the_first():
    enforcer = BudgetEnforcer(RunBudget(max_llm_calls=2))
    enforcer.check_llm_call(10)
    enforcer.check_llm_call(10)
    with pytest.raises(BudgetExceededError):
        enforcer.check_llm_call(10)


def test_output_is_counted_before_it_is_refused():
    enforcer = BudgetEnforcer(RunBudget(max_output_tokens=10))
    with pytest.raises(BudgetExceededError):
        enforcer.record_output_tokens(11)
    assert enforcer.usage.output_tokens == 11


def test_a_call_is_refused_if_no_output_tokens_are_left():
    enforcer = BudgetEnforcer(RunBudget(max_output_tokens=10))
    enforcer.record_output_tokens(10)
    with pytest.raises(BudgetExceededError) as excinfo:
        enforcer.check_llm_call(5)
    assert refused(excinfo).limit_name == "max_output_tokens"
    assert enforcer.usage.llm_calls == 0
    enforcer.check_tool_call()


def test_every_check_evaluates_all_limits():
    enforcer = BudgetEnforcer(RunBudget(max_output_tokens=10))
    with pytest.raises(BudgetExceededError):
        enforcer.record_output_tokens(11)
    for check in (enforcer.check_step, enforcer.check_tool_call, enforcer.check_runtime):
        with pytest.raises(BudgetExceededError):
            check()


def test_a_corrected_estimate_stops_the_run_at_its_next_check():
    enforcer = BudgetEnforcer(RunBudget(max_input_tokens=100))
    enforcer.check_llm_call(50)
    assert enforcer.correct_input_tokens(50, 120) == ()
    assert enforcer.usage.input_tokens == 120
    with pytest.raises(BudgetExceededError):
        enforcer.check_step()


def test_a_corrected_estimate_returns_the_difference_and_warns():
    enforcer = BudgetEnforcer(RunBudget(max_input_tokens=100))
    enforcer.check_llm_call(70)
    assert enforcer.correct_input_tokens(70, 30) == ()
    assert enforcer.remainder().max_input_tokens == 70
    assert names(enforcer.correct_input_tokens(30, 90)) == ["max_input_tokens"]


@pytest.mark.parametrize("call", [lambda e: e.check_llm_call(-1), lambda e: e.record_output_tokens(-1)])
def test_negative_amounts_are_refused(call):
    with pytest.raises(InvalidArgumentError):
        call(BudgetEnforcer(RunBudget()))


@pytest.mark.parametrize("limit", [-1, float("nan")])
def test_an_invalid_limit_is_refused(limit):
    with pytest.raises(InvalidArgumentError, match="max_runtime_seconds"):
        BudgetEnforcer(RunBudget(max_runtime_seconds=limit))


def test_each_limit_warns_once_and_two_may_warn_together():
    enforcer = BudgetEnforcer(RunBudget(max_steps=5, max_llm_calls=2, max_input_tokens=10))
    found = [names(enforcer.check_step()) for _ in range(5)]
    assert found == [[], [], [], ["max_steps"], []]
    assert names(enforcer.check_llm_call(9)) == ["max_input_tokens"]
    assert names(enforcer.check_llm_call(0)) == ["max_llm_calls"]
    assert enforcer.check_tool_call() == ()


def test_limits_whose_warning_was_already_reported_do_not_warn_again():
    enforcer = BudgetEnforcer(RunBudget(max_steps=10, max_tool_calls=10))
    enforcer.restore_usage(BudgetUsage(steps=8, tool_calls=8), warned=["max_steps"])
    assert names(enforcer.check_step()) == ["max_tool_calls"]


def test_restored_usage_counts_its_runtime_too():
    clock = Clock()
    earlier = BudgetUsage(steps=3, runtime_seconds=8.0, metadata={"team": "x"})
    enforcer = BudgetEnforcer(RunBudget(max_steps=4, max_runtime_seconds=10), usage=earlier, clock=clock)
    clock.now += 1
    enforcer.check_step()
    assert enforcer.usage == BudgetUsage(steps=4, runtime_seconds=9.0, metadata={"team": "x"})
    assert enforcer.remaining_seconds == 1.0


def test_has_output_token_limit():
    assert BudgetEnforcer(RunBudget(max_output_tokens=0)).has_output_token_limit
    assert not BudgetEnforcer(RunBudget()).has_output_token_limit


amounts = st.integers(0, 6)
operations = st.one_of(
    st.tuples(st.sampled_from(["check_step", "check_next_step", "check_tool_call", "check_runtime"])),
    st.tuples(st.sampled_from(["check_llm_call", "record_output_tokens"]), amounts),
    st.tuples(st.just("tick"), amounts),
)
budgets = st.builds(
    RunBudget,
    **{limit: st.none() | st.integers(0, 12) for limit in LIMITS},
)


@given(budgets, st.sampled_from([0.3, 0.8, 1.0, 1.5]), st.lists(operations, max_size=40))
def test_every_check_has_the_same_result_as_the_policy(budget, ratio, script):
    """The fast path below all alerts must never differ from the policy."""
    clock, policy = Clock(0.0), BudgetPolicy(ratio)
    enforcer = BudgetEnforcer(budget, policy=policy, clock=clock)
    counts, warned = dict.fromkeys(COUNTED, 0), set()
    asks = {"check_step": {"steps": 1}, "check_next_step": {"steps": 1}, "check_tool_call": {"tool_calls": 1}}
    for name, *arguments in script:
        if name == "tick":
            clock.now += arguments[0]
            continue
        asked = dict(asks.get(name, {}))
        if name == "check_llm_call":
            spent = budget.max_output_tokens is not None and counts["output_tokens"] >= budget.max_output_tokens
            asked = {"llm_calls": 1, "input_tokens": arguments[0], "output_tokens": int(spent)}
        if name == "record_output_tokens":
            counts["output_tokens"] += arguments[0]
        planned = {key: value + asked.get(key, 0) for key, value in counts.items()}
        found = policy.decisions(budget, BudgetUsage(**planned, runtime_seconds=clock.now))
        if any(not each.allowed for each in found):
            with pytest.raises(BudgetExceededError) as excinfo:
                getattr(enforcer, name)(*arguments)
            assert refused(excinfo).limit_name == found[0].limit_name
        else:
            new = [each.limit_name for each in found if each.limit_name not in warned]
            assert names(getattr(enforcer, name)(*arguments)) == new
            warned.update(new)
            counts = counts if name == "check_next_step" else planned
        assert enforcer.usage == BudgetUsage(**counts, runtime_seconds=clock.now)


# Custom policies


@dataclass
class Says:
    effect: BudgetEffect
    seen: list[BudgetUsage] = field(default_factory=list)

    def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision:
        self.seen.append(usage)
        return BudgetDecision(self.effect, limit_name="rent")


@pytest.mark.parametrize("effect", [e for e in BudgetEffect if e not in ("allow", "warn")])
def test_an_effect_that_is_neither_allow_nor_warn_stops_the_work(effect):
    enforcer = BudgetEnforcer(RunBudget(), policy=Says(effect))
    with pytest.raises(BudgetExceededError) as excinfo:
        enforcer.check_tool_call()
    assert excinfo.value.decision.effect == effect
    assert enforcer.usage.tool_calls == 0


def test_a_custom_policy_gets_the_usage_including_the_requested_work_and_warns_once():
    policy = Says(BudgetEffect.WARN)
    enforcer = BudgetEnforcer(RunBudget(), policy=policy)
    assert [names(enforcer.check_step()) for _ in range(3)] == [["rent"], [], []]
    assert [usage.steps for usage in policy.seen] == [1, 2, 3]
    assert enforcer.evaluate().effect == BudgetEffect.WARN


def test_a_custom_policy_must_return_a_decision():
    class Wrong:
        def evaluate(self, budget, usage):
            return True

    enforcer = BudgetEnforcer(RunBudget(), policy=Wrong())
    with pytest.raises(TypeError, match="BudgetDecision, not bool"):
        enforcer.check_step()
    assert enforcer.usage.steps == 0


def test_a_subclass_of_the_built_in_policy_is_called_too():
    class Strict(BudgetPolicy):
        def evaluate(self, budget, usage):
            return BudgetDecision(BudgetEffect.DENY)

    with pytest.raises(BudgetExceededError):
        BudgetEnforcer(RunBudget(), policy=Strict()).check_step()


# Time


def test_every_check_evaluates_the_runtime():
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(max_runtime_seconds=10), clock=clock)
    clock.now += 8
    assert names(enforcer.check_runtime()) == ["max_runtime_seconds"]
    clock.now += 2
    assert enforcer.check_runtime() == ()
    clock.now += 0.001
    checks = (
        enforcer.check_step,
        enforcer.check_next_step,
        enforcer.check_tool_call,
        enforcer.check_runtime,
        lambda: enforcer.check_llm_call(1),
        lambda: enforcer.record_output_tokens(1),
    )
    for check in checks:
        with pytest.raises(BudgetExceededError):
            check()
    assert enforcer.remaining_seconds == 0.0


def test_the_clock_is_stopped_while_any_pause_is_open():
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(max_runtime_seconds=10), clock=clock)
    clock.now += 1
    first, second = enforcer.paused(), enforcer.paused()
    first.__enter__()
    clock.now += 100
    second.__enter__()
    clock.now += 100
    first.__exit__(None, None, None)  # the pauses overlap without nesting
    clock.now += 100
    assert enforcer.usage.runtime_seconds == 1.0
    second.__exit__(None, None, None)
    clock.now += 2
    assert enforcer.usage.runtime_seconds == 3.0


def test_a_pause_ends_with_an_exception_too():
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(), clock=clock)

    def fail() -> None:
        with enforcer.paused():
            clock.now += 5
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    clock.now += 1
    assert enforcer.usage.runtime_seconds == 1.0


@given(st.lists(st.tuples(st.sampled_from(["open", "close"]), st.integers(0, 5)), max_size=30))
def test_runtime_is_the_time_without_an_open_pause(script):
    clock = Clock(0.0)
    enforcer = BudgetEnforcer(RunBudget(), clock=clock)
    pauses, ran = [], 0
    for what, seconds in script:
        if what == "open":
            pauses.append(enforcer.paused())
            pauses[-1].__enter__()
        elif pauses:
            pauses.pop(0).__exit__(None, None, None)
        clock.now += seconds
        ran += 0 if pauses else seconds
        assert enforcer.usage.runtime_seconds == ran


# Reservations


async def test_a_share_is_the_wanted_amount_and_at_most_the_rest():
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(max_steps=10, max_tool_calls=3, max_runtime_seconds=60), clock=clock)
    enforcer.check_step()
    clock.now += 20
    share = await enforcer.reserve(RunBudget(max_steps=4, max_tool_calls=5, max_llm_calls=7, metadata={"a": 1}))
    assert share.budget == RunBudget(
        max_steps=4, max_tool_calls=3, max_llm_calls=7, max_runtime_seconds=40.0, metadata={"a": 1}
    )
    assert enforcer.remainder() == RunBudget(max_steps=5, max_tool_calls=0, max_runtime_seconds=40.0)


async def test_reservations_count_against_the_runs_own_work():
    enforcer = BudgetEnforcer(RunBudget(max_steps=3))
    await enforcer.reserve(RunBudget(max_steps=2))
    enforcer.check_step()
    with pytest.raises(BudgetExceededError) as excinfo:
        enforcer.check_step()
    assert refused(excinfo).usage.metadata == {"reserved": {"steps": 2}}
    assert enforcer.usage.steps == 1


async def test_settling_returns_the_rest_and_adds_the_usage_without_the_runtime():
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(max_steps=10, max_runtime_seconds=60), clock=clock)
    share = await enforcer.reserve(RunBudget(max_steps=6))
    share.settle(BudgetUsage(steps=2, llm_calls=1, input_tokens=50, runtime_seconds=500.0))
    assert enforcer.usage == BudgetUsage(steps=2, llm_calls=1, input_tokens=50)
    assert enforcer.remainder().max_steps == 8


async def test_settling_twice_counts_once():
    enforcer = BudgetEnforcer(RunBudget(max_steps=10))
    share = await enforcer.reserve(RunBudget(max_steps=6))
    share.settle(BudgetUsage(steps=1))
    share.settle(None)
    assert enforcer.usage.steps == 1
    assert enforcer.remainder().max_steps == 9


async def test_unknown_usage_counts_the_whole_share():
    enforcer = BudgetEnforcer(RunBudget(max_steps=10, max_output_tokens=100), clock=Clock())
    (await enforcer.reserve(RunBudget(max_steps=6, max_tool_calls=2))).settle(None)
    assert enforcer.usage == BudgetUsage(steps=6, tool_calls=2, output_tokens=100)


async def test_delegated_work_that_exceeded_its_share_stops_the_run():
    enforcer = BudgetEnforcer(RunBudget(max_steps=10))
    (await enforcer.reserve(RunBudget(max_steps=2))).settle(BudgetUsage(steps=11))
    with pytest.raises(BudgetExceededError):
        enforcer.check_tool_call()


async def test_shares_of_an_unlimited_budget_do_not_wait_for_each_other():
    enforcer = BudgetEnforcer(RunBudget())
    shares = [await enforcer.reserve() for _ in range(3)]
    assert [share.budget for share in shares] == [RunBudget()] * 3


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_reservations_wait_in_order_while_everything_is_reserved():
    enforcer = BudgetEnforcer(RunBudget(max_llm_calls=4))
    first = await enforcer.reserve()
    second, third = (asyncio.create_task(enforcer.reserve()) for _ in range(2))
    await turns()
    assert not second.done()
    first.settle(BudgetUsage(llm_calls=1))
    await turns()
    assert not third.done()
    assert second.result().budget.max_llm_calls == 3
    second.result().settle(BudgetUsage(llm_calls=2))
    assert (await third).budget.max_llm_calls == 1


async def test_later_reservations_do_not_overtake_waiting_ones():
    enforcer = BudgetEnforcer(RunBudget(max_tool_calls=4))
    first = await enforcer.reserve()
    second = asyncio.create_task(enforcer.reserve())
    await turns()
    needs_no_tool = asyncio.create_task(enforcer.reserve(RunBudget(max_tool_calls=0)))
    await turns()
    assert not needs_no_tool.done()
    first.settle(BudgetUsage())
    assert (await second).budget.max_tool_calls == 4
    assert (await needs_no_tool).budget.max_tool_calls == 0


async def test_a_canceled_wait_holds_nothing():
    enforcer = BudgetEnforcer(RunBudget(max_tool_calls=4))
    first = await enforcer.reserve()
    second = asyncio.create_task(enforcer.reserve())
    await turns()
    needs_no_tool = asyncio.create_task(enforcer.reserve(RunBudget(max_tool_calls=0)))
    await turns()
    second.cancel()
    assert (await needs_no_tool).budget.max_tool_calls == 0  # no reservation waits before it
    first.settle(BudgetUsage(tool_calls=1))
    assert enforcer.remainder().max_tool_calls == 3


async def test_a_share_granted_to_a_canceled_waiter_is_returned():
    enforcer = BudgetEnforcer(RunBudget(max_tool_calls=4))
    first = await enforcer.reserve()
    second, third = (asyncio.create_task(enforcer.reserve()) for _ in range(2))
    await turns()
    first.settle(BudgetUsage(tool_calls=1))
    second.cancel()  # its future is done, and its task has not run since
    assert (await third).budget.max_tool_calls == 3
    assert second.cancelled()


async def test_a_wait_fails_when_nothing_is_left_and_nothing_is_reserved():
    enforcer = BudgetEnforcer(RunBudget(max_steps=4))
    first = await enforcer.reserve()
    waiting = [asyncio.create_task(enforcer.reserve()) for _ in range(2)]
    await turns()
    first.settle(None)
    for each in waiting:
        with pytest.raises(BudgetExceededError) as excinfo:
            await each
        assert refused(excinfo).limit_name == "max_steps"


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (RunBudget(max_steps=0), "max_steps"),
        (RunBudget(max_llm_calls=0, max_tool_calls=0), "max_llm_calls"),
        (RunBudget(max_tool_calls=0, max_output_tokens=0), "max_tool_calls"),
    ],
)
async def test_work_that_could_not_start_is_not_delegated(budget, limit):
    enforcer = BudgetEnforcer(budget)
    with pytest.raises(BudgetExceededError) as excinfo:
        await enforcer.reserve()
    assert refused(excinfo).limit_name == limit


async def test_nothing_is_delegated_after_the_time_limit():
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(max_runtime_seconds=1), clock=clock)
    clock.now += 2
    with pytest.raises(BudgetExceededError) as excinfo:
        await enforcer.reserve()
    assert refused(excinfo).limit_name == "max_runtime_seconds"


async def test_a_used_up_limit_that_the_work_may_not_need_results_in_a_share_of_zero():
    enforcer = BudgetEnforcer(RunBudget(max_llm_calls=1, max_steps=5))
    enforcer.check_llm_call(1)
    share = await enforcer.reserve()
    assert (share.budget.max_llm_calls, share.budget.max_steps) == (0, 5)


@dataclass
class Child:
    """One delegated task: its wanted budget, its work and its end."""

    wanted: RunBudget
    work: list[str]
    pauses: list[int]
    ending: str


children = st.builds(
    Child,
    st.builds(RunBudget, max_steps=st.none() | st.integers(0, 8), max_llm_calls=st.none() | st.integers(0, 8)),
    st.lists(st.sampled_from(["check_step", "check_llm_call", "check_tool_call"]), max_size=12),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
    st.sampled_from(["known", "unknown", "canceled"]),
)


async def live(child: Child, parent: BudgetEnforcer, spent: list[BudgetUsage]) -> None:
    await turns(child.pauses[0])
    share: Reservation = await parent.reserve(child.wanted)
    own = BudgetEnforcer(share.budget)
    try:
        for each in child.work:
            await turns(child.pauses[1])
            getattr(own, each)(*([3] if each == "check_llm_call" else []))
    except BudgetExceededError:
        pass
    finally:
        spent.append(own.usage)
        share.settle(None if child.ending == "unknown" else own.usage)


@settings(max_examples=2 * settings().max_examples)
@given(
    st.integers(0, 12),
    st.integers(0, 12),
    st.none() | st.integers(0, 20),
    st.lists(children, min_size=10, max_size=10),
    st.integers(0, 5),
)
def test_ten_delegated_tasks_never_use_more_than_the_limit(steps, calls, tokens, family, own_steps):
    budget = RunBudget(max_steps=steps, max_llm_calls=calls, max_input_tokens=tokens)

    async def all_of_them() -> None:
        parent, spent = BudgetEnforcer(budget), []
        tasks = [asyncio.create_task(live(child, parent, spent)) for child in family]
        for child, task in zip(family, tasks, strict=True):
            await turns(child.pauses[2])
            if child.ending == "canceled":
                task.cancel()
        mine = 0
        for _ in range(own_steps):
            await turns(2)
            try:
                parent.check_step()
                mine += 1
            except BudgetExceededError:
                pass
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(
            each is None or isinstance(each, BudgetExceededError | asyncio.CancelledError) for each in results
        ), results
        assert mine + sum(usage.steps for usage in spent) <= parent.usage.steps <= steps
        assert sum(usage.llm_calls for usage in spent) <= parent.usage.llm_calls <= calls
        if tokens is not None:
            assert sum(usage.input_tokens for usage in spent) <= parent.usage.input_tokens <= tokens
        left = parent.remainder()  # no reservation is open
        assert (left.max_steps, left.max_llm_calls) == (steps - parent.usage.steps, calls - parent.usage.llm_calls)

    asyncio.run(all_of_them())


# Money


def dollars(units: float) -> Cost:
    return Cost.of(units, "USD")


def test_a_reached_cost_limit_denies_the_next_model_call_after_a_warning():
    enforcer = BudgetEnforcer(RunBudget(max_cost_usd=0.50))
    prices = (0.2, 0.2, 0.1)
    warnings = [names(enforcer.check_llm_call(10) + enforcer.record_cost(dollars(price))) for price in prices]
    assert warnings == [[], ["max_cost"], []]
    assert names(enforcer.check_tool_call() + enforcer.check_step()) == []  # only work with a cost exceeds the limit
    with pytest.raises(BudgetExceededError, match=r"max_cost: the limit of 0\.5 USD is reached") as excinfo:
        enforcer.check_llm_call(10)
    decision = refused(excinfo)
    assert (decision.limit_name, decision.limit) == ("max_cost", 0.5)
    assert excinfo.value.metadata["limit_name"] == "max_cost"
    assert (enforcer.usage.llm_calls, enforcer.usage.costs) == (3, (dollars(0.5),))


def test_a_cost_above_the_limit_raises_at_the_next_check_and_not_when_it_is_counted():
    enforcer = BudgetEnforcer(RunBudget(max_cost_usd=0.50))
    enforcer.check_llm_call(10)
    assert enforcer.record_cost(dollars(0.62)) == ()
    with pytest.raises(BudgetExceededError, match=r"max_cost: 0\.62 USD is over the limit of 0\.5 USD") as excinfo:
        enforcer.check_tool_call()
    assert refused(excinfo).observed == 0.62


def test_costs_in_another_currency_are_reported_and_do_not_count():
    enforcer = BudgetEnforcer(RunBudget(max_cost_usd=0.50))
    assert enforcer.record_cost(Cost.of(100, "EUR")) == ()
    enforcer.check_llm_call(10)
    assert enforcer.usage.costs == (Cost.of(100, "EUR"),)
    assert enforcer.remainder().max_cost == dollars(0.5)


def test_a_call_without_a_known_price_adds_nothing():
    enforcer = BudgetEnforcer(RunBudget(max_cost_usd=0.50))
    for _ in range(9):
        enforcer.check_llm_call(10)
        assert enforcer.record_cost(None) == ()
    assert enforcer.usage.costs == ()


def test_a_cost_limit_of_zero_forbids_only_model_calls():
    enforcer = BudgetEnforcer(RunBudget(max_cost=Cost(0, "EUR")))
    enforcer.check_step()
    enforcer.check_tool_call()
    with pytest.raises(BudgetExceededError) as excinfo:
        enforcer.check_llm_call(1)
    assert refused(excinfo).limit_name == "max_cost"


def test_cached_and_reasoning_tokens_are_added_up_and_survive_a_restart():
    first = BudgetEnforcer(RunBudget(), clock=Clock())
    first.record_cost(Cost(5, "EUR"), cached_input_tokens=7, reasoning_tokens=8)
    second = BudgetEnforcer(RunBudget(max_cost=Cost(9, "EUR")), usage=first.usage, clock=Clock())
    second.record_cost(Cost(1, "USD"), cached_input_tokens=1, reasoning_tokens=1)
    assert second.usage == BudgetUsage(
        costs=(Cost(5, "EUR"), Cost(1, "USD")), cached_input_tokens=8, reasoning_tokens=9
    )
    assert second.remainder().max_cost == Cost(4, "EUR")


@pytest.mark.parametrize(
    ("limit", "asked", "least"),
    [
        (None, None, None),
        (None, Cost(5, "EUR"), Cost(5, "EUR")),
        (Cost(5, "EUR"), None, Cost(5, "EUR")),
        (Cost(5, "EUR"), Cost(4, "EUR"), Cost(4, "EUR")),
        (Cost(4, "EUR"), Cost(5, "EUR"), Cost(4, "EUR")),
        (Cost(5, "EUR"), Cost(1, "USD"), Cost(5, "EUR")),
    ],
)
def test_the_smaller_cost_limit_applies_and_for_different_currencies_that_of_the_agent(limit, asked, least):
    assert effective(RunBudget(max_cost=limit), RunBudget(max_cost=asked)).max_cost == least


@pytest.mark.parametrize(
    ("wanted", "share"),
    [
        (None, dollars(0.3)),
        (dollars(0.1), dollars(0.1)),
        (dollars(5), dollars(0.3)),
        (Cost.of(9, "EUR"), dollars(0.3)),
    ],
)
async def test_delegated_work_gets_the_rest_of_the_money_and_its_costs_are_counted(wanted, share):
    enforcer = BudgetEnforcer(RunBudget(max_cost_usd=0.50), clock=Clock())
    enforcer.record_cost(dollars(0.2))
    lent = await enforcer.reserve(RunBudget(max_cost=wanted))
    assert lent.budget.max_cost == share
    lent.settle(BudgetUsage(llm_calls=1, costs=(Cost(7, "EUR"), dollars(0.05)), reasoning_tokens=3))
    assert enforcer.usage == BudgetUsage(llm_calls=1, costs=(Cost(7, "EUR"), dollars(0.25)), reasoning_tokens=3)
    assert enforcer.remainder().max_cost == dollars(0.25)


async def test_reserved_money_counts_against_own_calls_and_lost_work_counts_as_its_whole_share():
    enforcer = BudgetEnforcer(RunBudget(max_cost_usd=0.50))
    lent = await enforcer.reserve(RunBudget(max_cost_usd=0.5))
    with pytest.raises(BudgetExceededError) as excinfo:
        enforcer.check_llm_call(1)
    assert refused(excinfo).usage.metadata == {"reserved": {"cost": 500_000}}
    lent.settle(None)
    assert enforcer.usage.costs == (dollars(0.5),)
    with pytest.raises(BudgetExceededError):
        enforcer.check_llm_call(1)


async def test_a_cost_limit_wanted_from_an_unlimited_budget_limits_only_the_delegated_work():
    enforcer = BudgetEnforcer(RunBudget())
    lent = await enforcer.reserve(RunBudget(max_cost=Cost(5, "EUR")))
    assert lent.budget.max_cost == Cost(5, "EUR")
    enforcer.check_llm_call(1)
    lent.settle(None)
    assert enforcer.usage.costs == (Cost(5, "EUR"),)
