"""How much a run may still do: limits, what counts against them, and shares for delegated work. Nothing is reported here.

Theory of operation. An enforcer holds, per counted measure, what was *used* and what is *held* by open reservations; both
count against the limit. A check adds up what the run would have used with the work it is asked for; below the *alert* of
every measure, the least number that anybody could have to hear about, it says yes at once. Only from there on the policy is
asked. Runtime is read from a clock that stands while a pause is open. Money is known only after a model call and in the currency
that prices it: costs in the currency of `max_cost` count against it as one more measure, all of them are reported.

Everything belongs to the event loop of its run; no method may be called from another thread.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from protolink_grpc.errors import BudgetExceededError, InvalidArgumentError
from protolink_grpc.models.action import BudgetDecision, BudgetEffect, BudgetUsage
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.cost import Cost, micros_in, sum_of
from protolink_grpc.models.json_value import plain
from protolink_grpc.policy.limits import BudgetPolicy, BudgetPolicyLike, effective, smaller

__all__ = ["BudgetEnforcer", "BudgetPolicy", "BudgetPolicyLike", "Reservation", "effective"]

_COUNTED = ("steps", "llm_calls", "tool_calls", "input_tokens", "output_tokens")
"""Fields of BudgetUsage that add up, in the order of the lists below, which end with millionths of the currency of `max_cost`. The
limit of each is `max_` + its name."""

_MEASURED = (*_COUNTED, "cost")
_STEPS, _LLM_CALLS, _TOOL_CALLS, _INPUT_TOKENS, _OUTPUT_TOKENS, _COST = range(6)
_Amounts = tuple[int, int, int, int, int, int]
_NOTHING: _Amounts = (0, 0, 0, 0, 0, 0)
_ONE_STEP: _Amounts = (1, 0, 0, 0, 0, 0)
_ONE_TOOL_CALL: _Amounts = (0, 0, 1, 0, 0, 0)
_BUILT_IN = BudgetPolicy()


@dataclass(slots=True, eq=False)
class Reservation:
    """A share of a budget that delegated work may use up; made by `BudgetEnforcer.reserve`, and open until settled.

    Args:
        budget: The limits of the delegated work.
    """

    budget: RunBudget
    _held: list[int]
    _release: Callable[["Reservation", BudgetUsage | None], None]
    _open: bool = field(default=True, init=False)

    @property
    def whole(self) -> BudgetUsage:
        """What work would have used that used all of it."""
        cost = self.budget.max_cost
        return _usage_of(self._held, sum_of(() if cost is None else (cost,)))

    def settle(self, usage: BudgetUsage | None) -> None:
        """Give back what is left; only the first call counts.

        Args:
            usage: What the work used, counted in full even if it is more than the share; its runtime is not counted,
                because we have waited meanwhile. None, when nobody knows, counts the whole share.
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
    """Counts what a run does and stops it at its limits.

    Every check looks at every limit, returns the warnings to report (each limit warns once), and raises
    BudgetExceededError before the work that it is asked for is counted. The decisions carry the usage as it would be with
    that work and with what reservations hold; `usage.metadata["reserved"]` says how much of it is held.

    Args:
        budget: The limits; one of 0 forbids.
        policy: Judges them; BudgetPolicy() by default.
        default_steps: Steps that one inference may take where `budget` does not limit them. Delegated work is not counted
            against it: it has a default of its own.
        usage: What earlier attempts have used, as in `restore_usage`.
        clock: Seconds from any origin, never going back.
    """

    def __init__(
        self,
        budget: RunBudget,
        *,
        policy: BudgetPolicyLike | None = None,
        default_steps: int | None = None,
        usage: BudgetUsage | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self._policy = policy if policy is not None else _BUILT_IN
        self._clock = clock
        self._limits = _limits_of(budget)
        self._currency = "" if budget.max_cost is None else budget.max_cost.currency
        self._per_inference = RunBudget(max_steps=default_steps) if budget.max_steps is None else RunBudget()
        self._used = [0, 0, 0, 0, 0, 0]
        self._held = [0, 0, 0, 0, 0, 0]
        self._costs: tuple[Cost, ...] = ()
        self._cached_input_tokens = 0
        self._reasoning_tokens = 0
        self._metadata: dict[str, Any] = {}
        self._warned: set[str | None] = set()
        self._waiters: deque[_Waiter] = deque()
        self._pauses = 0
        self._ran = 0.0
        self._since = clock()
        self._set_alerts()
        if usage is not None:
            self.restore_usage(usage)

    # Checks before work

    def check_step(self, number: int = 0) -> tuple[BudgetDecision, ...]:
        """Before a step of inference: count it.

        Args:
            number: Which of its inference it is, from 1.
        """
        warnings = self._check(_ONE_STEP)
        most = self._per_inference.max_steps
        if most is not None and number >= _BUILT_IN.warning_ratio * most:
            warnings += self._news(_BUILT_IN.decisions(self._per_inference, replace(self.usage, steps=number)))
        self._used[_STEPS] += 1
        return warnings

    def check_next_step(self) -> tuple[BudgetDecision, ...]:
        """Whether one more step would be allowed; nothing is counted."""
        return self._check(_ONE_STEP)

    def check_llm_call(self, input_tokens: int) -> tuple[BudgetDecision, ...]:
        """Before each call of a model and each repetition of it: count the call and its estimated input.

        A call that could not bring a single output token, or not cost anything, is refused as well.
        """
        _check_amount(input_tokens, "input_tokens")
        output, cost = (1 if self._left(each) == 0 else 0 for each in (_OUTPUT_TOKENS, _COST))
        warnings = self._check((0, 1, 0, input_tokens, output, cost))
        self._used[_LLM_CALLS] += 1
        self._used[_INPUT_TOKENS] += input_tokens
        return warnings

    def check_tool_call(self) -> tuple[BudgetDecision, ...]:
        """Before a tool runs: count the call."""
        warnings = self._check(_ONE_TOOL_CALL)
        self._used[_TOOL_CALLS] += 1
        return warnings

    def check_runtime(self) -> tuple[BudgetDecision, ...]:
        """Whether anything may go on; nothing is counted."""
        return self._check(_NOTHING)

    # What is known only after the work

    def record_output_tokens(self, amount: int) -> tuple[BudgetDecision, ...]:
        """Count what a model has answered, then raise if that is over the limit."""
        _check_amount(amount, "output_tokens")
        self._used[_OUTPUT_TOKENS] += amount
        return self._check(_NOTHING)

    def correct_input_tokens(self, estimated: int, actual: int) -> tuple[BudgetDecision, ...]:
        """Put the provider's count in the place of our estimate.

        Never raises BudgetExceededError: the answer is paid for, and the next check stops the run.
        """
        _check_amount(actual, "input_tokens")
        self._used[_INPUT_TOKENS] = max(self._used[_INPUT_TOKENS] - estimated + actual, 0)
        self._serve_waiters()
        try:
            return self._check(_NOTHING)
        except BudgetExceededError:
            return ()

    def record_cost(
        self, cost: Cost | None, *, cached_input_tokens: int = 0, reasoning_tokens: int = 0
    ) -> tuple[BudgetDecision, ...]:
        """Count what a model call cost, None where that is not known, and which of its tokens were cached or used to reason.

        Never raises BudgetExceededError: the answer is paid for, and the next check stops the run.
        """
        self._cached_input_tokens += cached_input_tokens
        self._reasoning_tokens += reasoning_tokens
        if cost is None:
            return ()
        self._pay((cost,))
        try:
            return self._check(_NOTHING)
        except BudgetExceededError:
            return ()

    def _pay(self, costs: tuple[Cost, ...]) -> None:
        self._costs = sum_of(self._costs, costs)
        self._used[_COST] = micros_in(self._costs, self._currency)

    # Readings

    @property
    def budget(self) -> RunBudget:
        return self._budget

    @property
    def usage(self) -> BudgetUsage:
        """What was used up to now; what reservations hold is not in it."""
        return self._reading(self._used, self._costs, plain(self._metadata))

    def _reading(self, counts: Iterable[int], costs: tuple[Cost, ...], metadata: dict[str, Any]) -> BudgetUsage:
        return replace(
            _usage_of(counts, costs),
            runtime_seconds=round(self._elapsed(), 6),  # as the log says it
            metadata=metadata,
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
        """What is neither used nor held."""
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
        """What the policy says about the usage as it is, reservations included."""
        return self._policy.evaluate(self._budget, self._usage_with(_NOTHING))

    # Time and earlier attempts

    def restore_usage(self, usage: BudgetUsage, *, warned: Iterable[str] = ()) -> None:
        """Go on from what earlier attempts have used; it takes the place of what was counted here.

        Args:
            warned: Names of limits whose warning was reported already.
        """
        self._costs = sum_of(usage.costs)
        self._used = _amounts_of(usage, self._currency)
        self._cached_input_tokens, self._reasoning_tokens = usage.cached_input_tokens, usage.reasoning_tokens
        self._metadata = plain(usage.metadata)
        self._ran = usage.runtime_seconds
        self._since = self._clock()
        self._warned.update(warned)
        self._set_alerts()
        self._serve_waiters()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While any such block is open, no time passes for max_runtime_seconds."""
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
        """Set aside a share: of each limit what is wanted, at most what is left; no limit wanted takes all that is left.

        While others hold all that is left of a limit, this waits until one of them is settled, first come first served;
        canceling the wait leaves nothing behind. A limit that is used up gives a share of 0, for work may need none of it.
        Seconds are not divided: each share has those that remain. The caller bounds the wait, by `remaining_seconds` say.
        A share of money is in the currency of our own `max_cost`; what is wanted in another one counts where we have no limit.

        Raises:
            BudgetExceededError: The work could not even begin: nothing is left of the steps, of the time, or neither a
                call of a model nor one of a tool, and nobody holds any.
        """
        asked = wanted if wanted is not None else RunBudget()
        granted = None if self._waiters else self._grant(asked)
        if granted is not None:
            return granted
        waiter = _Waiter(asked, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise

    def _grant(self, asked: RunBudget) -> Reservation | None:
        """The share, or None while it is worth waiting."""
        wanted, left = _limits_of(asked), [self._left(index) for index in range(len(_MEASURED))]
        currency = self._currency or ("" if asked.max_cost is None else asked.max_cost.currency)
        if asked.max_cost is not None and asked.max_cost.currency != currency:
            wanted[_COST] = None
        short = [index for index in range(len(_MEASURED)) if left[index] == 0 and wanted[index] != 0]
        self._refuse_hopeless([index for index in short if not self._held[index]])
        if any(self._held[index] for index in short):
            return None
        shares = [smaller(wanted[index], left[index]) for index in range(len(_MEASURED))]
        seconds = smaller(asked.max_runtime_seconds, self.remaining_seconds)
        budget = self._budget_of(shares, seconds, asked.metadata, currency)
        held = [0 if share is None else share for share in shares]
        if not self._currency:
            held[_COST] = 0
        self._add(self._held, held)
        return Reservation(budget, held, self._settle)

    def _refuse_hopeless(self, gone: list[int]) -> None:
        limit = self._budget.max_runtime_seconds
        late = limit is not None and self._elapsed() > limit
        no_model = any(index in gone for index in (_LLM_CALLS, _INPUT_TOKENS, _OUTPUT_TOKENS, _COST))
        if late or _STEPS in gone or (no_model and _TOOL_CALLS in gone):
            one_more = [1 if index in gone else 0 for index in range(len(_MEASURED))]
            _raise_if_stopped(_BUILT_IN.decisions(self._budget, self._usage_with(one_more)))

    def _settle(self, reservation: Reservation, usage: BudgetUsage | None) -> None:
        self._add(self._held, [-each for each in reservation._held])
        used = reservation.whole if usage is None else usage
        self._add(self._used, _amounts_of(used, ""))
        self._pay(used.costs)
        self._cached_input_tokens += used.cached_input_tokens
        self._reasoning_tokens += used.reasoning_tokens
        self._serve_waiters()

    def _serve_waiters(self) -> None:
        """Answer those who wait, oldest first, as far as it goes."""
        while self._waiters:
            waiter = self._waiters[0]
            if not waiter.granted.done():  # done: canceled
                try:
                    granted = self._grant(waiter.wanted)
                except BudgetExceededError as error:  # it belongs to the one who asked
                    waiter.granted.set_exception(error)
                else:
                    if granted is None:
                        return
                    waiter.granted.set_result(granted)
            self._waiters.popleft()

    def _withdraw(self, waiter: _Waiter) -> None:
        """Its caller was canceled, perhaps just after the answer. While it waits in the line it is passed over."""
        answered = waiter.granted
        if answered.done() and not answered.cancelled() and answered.exception() is None:
            answered.result().settle(BudgetUsage())
        self._serve_waiters()

    @staticmethod
    def _add(counts: list[int], amounts: Iterable[int]) -> None:
        for index, amount in enumerate(amounts):
            counts[index] += amount

    # Judging

    def _check(self, asked: _Amounts) -> tuple[BudgetDecision, ...]:
        for used, held, more, alert in zip(self._used, self._held, asked, self._alerts, strict=True):
            if used + held + more >= alert:
                return self._judge(asked)
        return () if self._elapsed() < self._runtime_alert else self._judge(asked)

    def _judge(self, asked: _Amounts) -> tuple[BudgetDecision, ...]:
        return self._news(self._opinions(asked))

    def _news(self, found: tuple[BudgetDecision, ...]) -> tuple[BudgetDecision, ...]:
        """What nobody was warned of yet; raises BudgetExceededError for what stops the work."""
        _raise_if_stopped(found)
        new = [each for each in found if each.effect == BudgetEffect.WARN and each.limit_name not in self._warned]
        if new:
            self._warned.update(each.limit_name for each in new)
            self._set_alerts()
        return tuple(new)

    def _opinions(self, asked: Iterable[int]) -> tuple[BudgetDecision, ...]:
        usage = self._usage_with(asked)
        if type(self._policy) is BudgetPolicy:
            return self._policy.decisions(self._budget, usage)
        decision: object = self._policy.evaluate(self._budget, usage)
        if not isinstance(decision, BudgetDecision):
            raise TypeError(f"a budget policy must answer a BudgetDecision, not {type(decision).__name__}")
        return (decision,)

    def _usage_with(self, asked: Iterable[int]) -> BudgetUsage:
        whole = [used + held + more for used, held, more in zip(self._used, self._held, asked, strict=True)]
        reserved = {each: held for each, held in zip(_MEASURED, self._held, strict=True) if held}
        more = whole[_COST] - self._used[_COST]
        costs = sum_of(self._costs, (Cost(more, self._currency),)) if more else self._costs
        return self._reading(whole, costs, plain(self._metadata) | ({"reserved": reserved} if reserved else {}))

    def _set_alerts(self) -> None:
        """Recompute the numbers below which nobody needs to be asked: the next warning or denial of each limit."""
        if type(self._policy) is not BudgetPolicy:  # what others think of can only be known by asking
            self._alerts: list[float] = [-math.inf] * len(_MEASURED)
            self._runtime_alert = -math.inf
            return
        ratio = self._policy.warning_ratio
        self._alerts = [
            _alert(limit, math.inf if f"max_{each}" in self._warned else ratio)
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
    limits: list[int | None] = [getattr(budget, f"max_{each}") for each in _COUNTED]
    return [*limits, None if budget.max_cost is None else budget.max_cost.micros]


def _amounts_of(usage: BudgetUsage, currency: str) -> list[int]:
    return [*(getattr(usage, each) for each in _COUNTED), micros_in(usage.costs, currency)]


def _usage_of(counts: Iterable[int], costs: tuple[Cost, ...]) -> BudgetUsage:
    known: dict[str, Any] = dict(zip(_COUNTED, counts, strict=False))
    return BudgetUsage(**known, costs=costs)


def _alert(limit: int | None, ratio: float) -> float:
    if limit is None:
        return math.inf
    over = limit + 1
    # At least 1: nothing warns while nothing is used, so a limit of 0 needs no look before it is passed.
    return max(min(ratio * limit, over), 1) if limit else over


def _raise_if_stopped(decisions: tuple[BudgetDecision, ...]) -> None:
    for decision in decisions:
        if not decision.allowed:
            values = {"limit_name": decision.limit_name, "observed": decision.observed, "limit": decision.limit}
            known = {key: str(value) for key, value in values.items() if value is not None}
            message = decision.message or "the budget of the run does not allow this"
            raise BudgetExceededError(message, decision=decision, effect=str(decision.effect), **known)


def _check_amount(amount: int, name: str) -> None:
    if amount < 0:
        raise InvalidArgumentError("must not be negative", field=name)
