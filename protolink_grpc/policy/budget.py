"""Enforces the budget of a run: limits, usage, and shares for delegated work.

Theory of operation. For each counted measure, an enforcer has the amount *used* and the amount *held* by open reservations; both
count against the limit. A check adds the requested work. Below the *alert* of every measure, the smallest number that could cause
a warning or a denial, it returns at once; only from there on the policy is evaluated. Runtime is measured by a clock that stops
during pauses. Money is known only after a model call, in the currency of its price: costs in the currency of `max_cost` count
against it as one more measure, and all costs are reported.

An enforcer belongs to the event loop of its run. No method may be called from another thread.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from protolink_grpc.errors import BudgetExceededError, InvalidArgumentError
from protolink_grpc.models.action import BudgetDecision, BudgetEffect, BudgetUsage
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.cost import Cost, micros_in, sum_of
from protolink_grpc.models.json_value import plain
from protolink_grpc.policy.limits import BudgetPolicy, BudgetPolicyLike, effective, smaller

__all__ = ["TICK_S", "BudgetEnforcer", "BudgetPolicy", "BudgetPolicyLike", "Reservation", "effective"]

TICK_S = 0.001
"""The resolution of an event loop's timers: a timer may fire this many seconds before the time of a budget is over."""

_COUNTED = ("steps", "llm_calls", "tool_calls", "input_tokens", "output_tokens")
"""Fields of BudgetUsage that add up, in the order of the lists below, which end with millionths of the currency of `max_cost`. The
limit of each is `max_` + its name."""

_counts_in = attrgetter(*_COUNTED)
_limits_in = attrgetter(*(f"max_{each}" for each in _COUNTED))

_MEASURED = (*_COUNTED, "cost")
_STEPS, _LLM_CALLS, _TOOL_CALLS, _INPUT_TOKENS, _OUTPUT_TOKENS, _COST = range(6)
_Amounts = tuple[int, int, int, int, int, int]
_NOTHING: _Amounts = (0, 0, 0, 0, 0, 0)
_ONE_STEP: _Amounts = (1, 0, 0, 0, 0, 0)
_ONE_TOOL_CALL: _Amounts = (0, 0, 1, 0, 0, 0)
_BUILT_IN = BudgetPolicy()


@dataclass(slots=True, eq=False)
class Reservation:
    """A share of a budget for delegated work, created by `BudgetEnforcer.reserve` and open until it is settled.

    Args:
        budget: The limits of the delegated work.
    """

    budget: RunBudget
    _held: list[int]
    _release: Callable[["Reservation", BudgetUsage | None], None]
    _open: bool = field(default=True, init=False)

    @property
    def whole(self) -> BudgetUsage:
        """The usage of work that has used all of the share."""
        cost = self.budget.max_cost
        return BudgetUsage(**_counts_of(self._held), costs=sum_of(() if cost is None else (cost,)))

    def settle(self, usage: BudgetUsage | None) -> None:
        """Return the rest of the share to the budget. Only the first call has an effect.

        Args:
            usage: The usage of the work, which is counted in full even if it exceeds the share. Its runtime is not counted,
                because the run has waited meanwhile. None (unknown) counts the whole share.
        """
        if self._open:
            self._open = False
            self._release(self, usage)


@dataclass(slots=True, eq=False)
class _Waiter:
    wanted: RunBudget
    granted: asyncio.Future[Reservation]


@checks_arguments
class BudgetEnforcer:
    """Counts the usage of a run and stops the run at its limits.

    Every check considers every limit, returns the warnings to report (each limit warns once), and raises BudgetExceededError
    before the requested work is counted. The decisions contain the usage including that work and the reservations;
    `usage.metadata["reserved"]` is the reserved part.

    Args:
        budget: The limits. A limit of 0 forbids the work.
        policy: Evaluates the limits; BudgetPolicy() by default.
        default_steps: Maximum steps of one inference if `budget` has no limit. Delegated work is not counted against it, because
            it has its own default.
        usage: The usage of earlier attempts, as in `restore_usage`.
        warned: As in `restore_usage`.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        budget: RunBudget,
        *,
        policy: BudgetPolicyLike | None = None,
        default_steps: int | None = None,
        usage: BudgetUsage | None = None,
        warned: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self._policy = policy if policy is not None else _BUILT_IN
        self._clock = clock
        self._limits = _limits_of(budget)
        self._currency = "" if budget.max_cost is None else budget.max_cost.currency
        self._default_steps = default_steps if budget.max_steps is None else None
        self._used = [0, 0, 0, 0, 0, 0]
        self._held = [0, 0, 0, 0, 0, 0]
        self._costs: tuple[Cost, ...] = ()
        self._cached_input_tokens = 0
        self._reasoning_tokens = 0
        self._metadata: dict[str, Any] = {}
        self._warned: set[str | None] = set(warned)
        self._waiters: deque[_Waiter] = deque()
        self._pauses = 0
        self._ran = 0.0
        self._since = clock()
        if usage is not None:
            self._set_usage(usage)
        self._set_alerts()

    # Checks before work

    def check_step(self, number: int = 0) -> tuple[BudgetDecision, ...]:
        """Check and count a step of inference. Called before the step.

        Args:
            number: Number of the step in its inference, from 1.
        """
        warnings = self._check(_ONE_STEP)
        most = self._default_steps
        if most is not None and number >= _BUILT_IN.warning_ratio * most:
            limit, usage = RunBudget(max_steps=most), replace(self.usage, steps=number)
            warnings += self._new_warnings(_BUILT_IN.decisions(limit, usage))
        self._used[_STEPS] += 1
        return warnings

    def check_next_step(self) -> tuple[BudgetDecision, ...]:
        """Check whether one more step would be allowed, without counting it."""
        return self._check(_ONE_STEP)

    def check_llm_call(self, input_tokens: int) -> tuple[BudgetDecision, ...]:
        """Check and count a model call with its estimated input. Called before each attempt.

        The call is also refused if no output tokens or no money are left.
        """
        _check_amount(input_tokens, "input_tokens")
        output, cost = (1 if self._left(each) == 0 else 0 for each in (_OUTPUT_TOKENS, _COST))
        warnings = self._check((0, 1, 0, input_tokens, output, cost))
        self._used[_LLM_CALLS] += 1
        self._used[_INPUT_TOKENS] += input_tokens
        return warnings

    def check_tool_call(self) -> tuple[BudgetDecision, ...]:
        """Check and count a tool call. Called before the tool runs."""
        warnings = self._check(_ONE_TOOL_CALL)
        self._used[_TOOL_CALLS] += 1
        return warnings

    def check_runtime(self) -> tuple[BudgetDecision, ...]:
        """Check all limits without counting anything."""
        return self._check(_NOTHING)

    # Usage that is known only after the work

    def record_output_tokens(self, amount: int) -> tuple[BudgetDecision, ...]:
        """Count the output of a model, then raise if it exceeds the limit."""
        _check_amount(amount, "output_tokens")
        self._used[_OUTPUT_TOKENS] += amount
        return self._check(_NOTHING)

    def correct_input_tokens(self, estimated: int, actual: int) -> tuple[BudgetDecision, ...]:
        """Replace the estimate by the provider's count.

        Never raises BudgetExceededError, because the answer is paid for. The next check stops the run.
        """
        _check_amount(actual, "input_tokens")
        self._used[_INPUT_TOKENS] = max(self._used[_INPUT_TOKENS] - estimated + actual, 0)
        self._grant_waiting()
        try:
            return self._check(_NOTHING)
        except BudgetExceededError:
            return ()

    def record_cost(
        self, cost: Cost | None, *, cached_input_tokens: int = 0, reasoning_tokens: int = 0
    ) -> tuple[BudgetDecision, ...]:
        """Count the cost of a model call (None if unknown) and its cached and reasoning tokens.

        Never raises BudgetExceededError, because the answer is paid for. The next check stops the run.
        """
        self._cached_input_tokens += cached_input_tokens
        self._reasoning_tokens += reasoning_tokens
        if cost is None:
            return ()
        self._add_costs((cost,))
        try:
            return self._check(_NOTHING)
        except BudgetExceededError:
            return ()

    def _add_costs(self, costs: tuple[Cost, ...]) -> None:
        self._costs = sum_of(self._costs, costs)
        self._used[_COST] = micros_in(self._costs, self._currency)

    # Readings

    @property
    def budget(self) -> RunBudget:
        return self._budget

    @property
    def usage(self) -> BudgetUsage:
        """The current usage, without reservations."""
        return self._build_usage(self._used, self._costs, plain(self._metadata) if self._metadata else {})

    def _build_usage(self, counts: Iterable[int], costs: tuple[Cost, ...], metadata: dict[str, Any]) -> BudgetUsage:
        return BudgetUsage(
            **_counts_of(counts),
            runtime_seconds=round(self._elapsed(), 6),  # as in the log
            metadata=metadata,
            costs=costs,
            cached_input_tokens=self._cached_input_tokens,
            reasoning_tokens=self._reasoning_tokens,
        )

    @property
    def has_output_token_limit(self) -> bool:
        return self._limits[_OUTPUT_TOKENS] is not None

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds until max_runtime_seconds, at least 0; None without such a limit."""
        limit = self._budget.max_runtime_seconds
        return None if limit is None else max(limit - self._elapsed(), 0.0)

    def remainder(self) -> RunBudget:
        """What is neither used nor reserved."""
        left = [self._left(index) for index in range(len(_MEASURED))]
        return self._budget_of(left, self.remaining_seconds, self._budget.metadata, self._currency)

    @staticmethod
    def _budget_of(
        limits: list[int | None], seconds: float | None, metadata: dict[str, Any], currency: str
    ) -> RunBudget:
        cost = limits[_COST]
        return RunBudget(
            **{f"max_{each}": limit for each, limit in zip(_COUNTED, limits, strict=False)},
            max_runtime_seconds=seconds,
            metadata=plain(metadata),
            max_cost=None if cost is None else Cost(cost, currency),
        )

    def evaluate(self) -> BudgetDecision:
        """The policy's decision about the current usage, including reservations."""
        return self._policy.evaluate(self._budget, self._usage_including(_NOTHING))

    # Time and earlier attempts

    def restore_usage(self, usage: BudgetUsage, *, warned: Iterable[str] = ()) -> None:
        """Continue with the usage of earlier attempts, which replaces the current one.

        Args:
            warned: Names of the limits whose warning has been reported.
        """
        self._set_usage(usage)
        self._warned.update(warned)
        self._set_alerts()
        self._grant_waiting()

    def _set_usage(self, usage: BudgetUsage) -> None:
        self._costs = sum_of(usage.costs) if usage.costs else ()
        self._used = _amounts_of(usage, self._currency)
        self._cached_input_tokens, self._reasoning_tokens = usage.cached_input_tokens, usage.reasoning_tokens
        self._metadata = plain(usage.metadata) if usage.metadata else {}
        self._ran = usage.runtime_seconds
        self._since = self._clock()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock of max_runtime_seconds while such a block is open."""
        if self._pauses == 0:
            self._ran = self._elapsed()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self._since = self._clock() if self._pauses == 0 else self._since

    # Shares for delegated work

    async def reserve(self, wanted: RunBudget | None = None) -> Reservation:
        """Reserve a share: for each limit the wanted amount, at most the rest; without a wanted amount the whole rest.

        While other reservations hold the whole rest of a limit, this waits in line until one of them is settled. A limit that is
        used up results in a share of 0, because the work may not need it. Seconds are not divided: each share has all remaining
        ones. The caller limits the wait, for instance to `remaining_seconds`. A share of money is in the currency of this
        budget's `max_cost`; a wanted amount in another currency applies only without such a limit.

        Raises:
            BudgetExceededError: The work could not start: no steps, no time, or neither model calls nor tool calls are left, and
                none are reserved.
        """
        requested = wanted if wanted is not None else RunBudget()
        granted = None if self._waiters else self._grant(requested)
        if granted is not None:
            return granted
        waiter = _Waiter(requested, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise

    def _grant(self, requested: RunBudget) -> Reservation | None:
        """Return the share, or None if the caller should wait."""
        wanted, left = _limits_of(requested), [self._left(index) for index in range(len(_MEASURED))]
        currency = self._currency or ("" if requested.max_cost is None else requested.max_cost.currency)
        if requested.max_cost is not None and requested.max_cost.currency != currency:
            wanted[_COST] = None
        short = [index for index in range(len(_MEASURED)) if left[index] == 0 and wanted[index] != 0]
        self._check_startable([index for index in short if not self._held[index]])
        if any(self._held[index] for index in short):
            return None
        shares = [smaller(wanted[index], left[index]) for index in range(len(_MEASURED))]
        seconds = smaller(requested.max_runtime_seconds, self.remaining_seconds)
        budget = self._budget_of(shares, seconds, requested.metadata, currency)
        held = [0 if share is None else share for share in shares]
        if not self._currency:
            held[_COST] = 0
        self._add(self._held, held)
        return Reservation(budget, held, self._settle)

    def _check_startable(self, used_up: list[int]) -> None:
        """Raise BudgetExceededError if delegated work could not start, because the limits at `used_up` are used up."""
        limit = self._budget.max_runtime_seconds
        late = limit is not None and self._elapsed() > limit
        no_model = any(index in used_up for index in (_LLM_CALLS, _INPUT_TOKENS, _OUTPUT_TOKENS, _COST))
        if late or _STEPS in used_up or (no_model and _TOOL_CALLS in used_up):
            one_more = [1 if index in used_up else 0 for index in range(len(_MEASURED))]
            _check_decisions(_BUILT_IN.decisions(self._budget, self._usage_including(one_more)))

    def _settle(self, reservation: Reservation, usage: BudgetUsage | None) -> None:
        self._add(self._held, [-each for each in reservation._held])
        used = reservation.whole if usage is None else usage
        self._add(self._used, _amounts_of(used, ""))
        self._add_costs(used.costs)
        self._cached_input_tokens += used.cached_input_tokens
        self._reasoning_tokens += used.reasoning_tokens
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        """Grant waiting reservations, oldest first, as far as possible."""
        while self._waiters:
            waiter = self._waiters[0]
            if not waiter.granted.done():  # done: canceled
                try:
                    granted = self._grant(waiter.wanted)
                except BudgetExceededError as error:  # the error is raised to the waiting caller
                    waiter.granted.set_exception(error)
                else:
                    if granted is None:
                        return
                    waiter.granted.set_result(granted)
            self._waiters.popleft()

    def _withdraw(self, waiter: _Waiter) -> None:
        """Withdraw a reservation whose caller was canceled, even if it has just been granted."""
        granted = waiter.granted
        if granted.done() and not granted.cancelled() and granted.exception() is None:
            granted.result().settle(BudgetUsage())
        self._grant_waiting()

    @staticmethod
    def _add(counts: list[int], amounts: Iterable[int]) -> None:
        for index, amount in enumerate(amounts):
            counts[index] += amount

    # Decisions

    def _check(self, requested: _Amounts) -> tuple[BudgetDecision, ...]:
        for used, held, more, alert in zip(self._used, self._held, requested, self._alerts, strict=True):
            if used + held + more >= alert:
                return self._evaluate(requested)
        return () if self._elapsed() < self._runtime_alert else self._evaluate(requested)

    def _evaluate(self, requested: _Amounts) -> tuple[BudgetDecision, ...]:
        return self._new_warnings(self._decide(requested))

    def _new_warnings(self, found: tuple[BudgetDecision, ...]) -> tuple[BudgetDecision, ...]:
        """Return the new warnings. Raises BudgetExceededError for a denial."""
        _check_decisions(found)
        new = [each for each in found if each.effect == BudgetEffect.WARN and each.limit_name not in self._warned]
        if new:
            self._warned.update(each.limit_name for each in new)
            self._set_alerts()
        return tuple(new)

    def _decide(self, requested: Iterable[int]) -> tuple[BudgetDecision, ...]:
        usage = self._usage_including(requested)
        if type(self._policy) is BudgetPolicy:
            return self._policy.decisions(self._budget, usage)
        decision: object = self._policy.evaluate(self._budget, usage)
        if not isinstance(decision, BudgetDecision):
            raise TypeError(f"a budget policy must return a BudgetDecision, not {type(decision).__name__}")
        return (decision,)

    def _usage_including(self, requested: Iterable[int]) -> BudgetUsage:
        whole = [used + held + more for used, held, more in zip(self._used, self._held, requested, strict=True)]
        reserved = {each: held for each, held in zip(_MEASURED, self._held, strict=True) if held}
        more = whole[_COST] - self._used[_COST]
        costs = sum_of(self._costs, (Cost(more, self._currency),)) if more else self._costs
        return self._build_usage(whole, costs, plain(self._metadata) | ({"reserved": reserved} if reserved else {}))

    def _set_alerts(self) -> None:
        """Recompute the alerts: the next warning or denial of each limit."""
        # The decisions of an application's policy are unknown without evaluating it.
        if type(self._policy) is not BudgetPolicy:
            self._alerts: list[float] = [-math.inf] * len(_MEASURED)
            self._runtime_alert = -math.inf
            return
        ratio = self._policy.warning_ratio
        self._alerts = [
            math.inf if limit is None else _alert(limit, math.inf if f"max_{each}" in self._warned else ratio)
            for each, limit in zip(_MEASURED, self._limits, strict=True)
        ]
        seconds = self._budget.max_runtime_seconds
        over = math.inf if seconds is None else math.nextafter(seconds, math.inf)
        warned = seconds is None or "max_runtime_seconds" in self._warned
        self._runtime_alert = over if warned or seconds is None else min(ratio * seconds, over)

    def _left(self, index: int) -> int | None:
        limit = self._limits[index]
        return None if limit is None else max(limit - self._used[index] - self._held[index], 0)

    def _elapsed(self) -> float:
        return self._ran if self._pauses else self._ran + (self._clock() - self._since)


def _limits_of(budget: RunBudget) -> list[int | None]:
    return [*_limits_in(budget), None if budget.max_cost is None else budget.max_cost.micros]


def _amounts_of(usage: BudgetUsage, currency: str) -> list[int]:
    return [*_counts_in(usage), micros_in(usage.costs, currency) if usage.costs else 0]


def _counts_of(amounts: Iterable[int]) -> dict[str, Any]:
    """Return the counted amounts by the names of their fields in BudgetUsage."""
    return dict(zip(_COUNTED, amounts, strict=False))


def _alert(limit: int, ratio: float) -> float:
    over = limit + 1
    # At least 1: without usage there are no warnings, so a limit of 0 matters only when it is exceeded.
    return max(min(ratio * limit, over), 1) if limit else over


def _check_decisions(decisions: tuple[BudgetDecision, ...]) -> None:
    for decision in decisions:
        if not decision.allowed:
            values = {"limit_name": decision.limit_name, "observed": decision.observed, "limit": decision.limit}
            known = {key: str(value) for key, value in values.items() if value is not None}
            message = decision.message or "the budget of the run does not allow this"
            raise BudgetExceededError(message, decision=decision, effect=str(decision.effect), **known)


def _check_amount(amount: int, name: str) -> None:
    if amount < 0:
        raise InvalidArgumentError("must not be negative", field=name)
