"""The gate: every tool call and every delegation passes through this code.

Theory of operation. An action is prepared (arguments checked and converted, preview built), requested, judged by policy,
approved by somebody where policy wants it, started, carried out and ended; each step is a fact in the log, in the order in
which it happened. Nothing is asked and nothing is started before the fact that says so is committed, so a crash leaves a log
that tells where the action stood. A run that takes over finds the action by its position: an outcome is taken as it is, an
open question is waited for again, and an action that was started and has no end is *uncertain*: it is repeated where that is
safe, else somebody is asked.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from protolink_grpc.errors import (
    ActionDeniedError,
    ActionPolicyError,
    ApprovalChangedError,
    ApprovalRequiredError,
    BudgetExceededError,
    ProtolinkError,
    ToolError,
    ToolFailedError,
    ToolRejectedError,
    UncertainExecutionError,
)
from protolink_grpc.models.action import (
    ApprovalDecision,
    ApprovalRequest,
    BudgetDecision,
    BudgetUsage,
    PolicyDecision,
    PolicyEffect,
    RunAction,
)
from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import (
    ActionEnded,
    ActionPolicyEvaluated,
    ActionRequested,
    ActionStarted,
    ApprovalRequired,
    BudgetReported,
    Payload,
    RunEvent,
    Severity,
)
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_value import canonical_json, plain
from protolink_grpc.models.payload import copied
from protolink_grpc.models.tool_result import recorded_error
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.policy.capabilities import Policy, decide
from protolink_grpc.runtime.journal import ActionRecord

TOOL_CALL = "tool.call"
AGENT_CALL = "agent.call"

UNCERTAIN_REASON = "it was under way when the process that ran it ended; approve to run it again"
"""What an approver is told about an action with an unknown outcome."""


class ActionContext(Protocol):
    """The context of an action: a run (`Run`), or no task at all (`actions.outside`)."""

    @property
    def token(self) -> CancellationToken: ...
    @property
    def context(self) -> RunContext: ...
    @property
    def budget(self) -> BudgetEnforcer: ...
    @property
    def task_id(self) -> str: ...
    @property
    def principal(self) -> str: ...

    def recorded(self, position: str) -> ActionRecord | None:
        """What an earlier run of the same turn did at this position."""
        ...

    async def emit(self, item: Any) -> None:
        """Record a fact soon."""
        ...

    async def flush(self) -> None:
        """Return when everything emitted is committed."""
        ...

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait for the answer to a request that is in the log. The answer is recorded before this returns.

        Raises:
            ApprovalRequiredError: No approver is configured.
        """
        ...

    def reported(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
        """A failure as the task's owner may see it; the first report of each logs it, with the trace of what was raised.

        Args:
            peer: It is another agent that failed: nothing was raised here, so nothing is logged that the owner sees.
        """
        ...


@dataclass(slots=True)
class PreparedAction:
    """An action that could run now.

    Args:
        execute: Carries out the action that it is given, whose arguments may have been edited.
        edited: The action with other arguments, checked and converted like the first ones.
        is_same: Whether a recorded payload is that of this action; None compares them.
        repeatable: Doing it twice is the same as doing it once.
        silent: It changes nothing: nothing needs to be on disk before it starts.
    """

    action: RunAction
    execute: Callable[[RunAction], Awaitable["ActionResult"]]
    edited: Callable[[dict[str, Any]], RunAction] | None = None
    is_same: Callable[[dict[str, Any]], bool] | None = None
    repeatable: bool = False
    silent: bool = False


@dataclass(slots=True)
class ActionResult:
    """What carrying out an action gave.

    Args:
        usage: Of delegated work.
        exception: It failed, after it has used that.
    """

    result: Any = None
    usage: BudgetUsage | None = None
    exception: ProtolinkError | None = None


@dataclass(slots=True)
class Outcome:
    """How an action ended: exactly one of a result and an error. A recorded outcome has no exception."""

    action_id: str
    result: Any = None
    error: Any = None
    exception: ProtolinkError | None = None
    rejected: bool = False

    def value(self) -> Any:
        """The result; raises what the action raised, or an equivalent of it."""
        if self.exception is not None:
            raise self.exception
        if self.error is not None:
            raise recorded_error(self.error)
        return self.result


@dataclass(frozen=True, slots=True)
class Gate:
    """What an agent allows.

    Args:
        policy: None allows everything that the context's permissions allow.
        expires_s: Default lifetime of a pending approval if the policy sets none; None means no limit.
    """

    policy: Policy | None = None
    expires_s: float | None = None

    async def perform(
        self,
        action_context: ActionContext,
        prepare: Callable[[], Awaitable[PreparedAction]],
        *,
        position: str = "",
    ) -> Outcome:
        """Take one action from its preparation to its end.

        A failure of the action itself is an outcome. What keeps it from running is an exception.

        Raises:
            ToolRejectedError, InvalidArgumentError: It could not be prepared; nothing was recorded.
            BudgetExceededError, ActionDeniedError, ApprovalRequiredError: It may not run.
            UncertainExecutionError: It was under way when an earlier run was cut off, and nobody wants it repeated.
            asyncio.CancelledError: The run was asked to stop.
        """
        action_context.token.raise_if_cancelled()
        record = action_context.recorded(position) if position else None
        if record is not None and record.ended is not None and record.ended.outcome != "canceled":
            return _known(record)
        try:
            prepared = await prepare()
        except ToolFailedError as error:
            raise action_context.reported(error) from error.__cause__
        execution = ActionExecution(self, action_context, prepared, record)
        await execution.request(position)
        await execution.authorize()
        return await execution.execute()


@dataclass(slots=True)
class ActionExecution:
    """One action on its way through the gate.

    Attributes:
        action: As it will run; `authorize` may have edited it.
        approval: What a person said.
    """

    gate: Gate
    action_context: ActionContext
    prepared: PreparedAction
    record: ActionRecord | None
    action: RunAction = field(init=False)
    approval: ApprovalDecision | None = field(default=None, init=False)
    _requested: dict[str, Any] = field(init=False)  # the arguments that the log has

    def __post_init__(self) -> None:
        # The identity that the log knows; what will run is prepared anew.
        known = self.record.action.action_id if self.record is not None else ""
        self.action = _renamed(self.prepared.action, known) if known else self.prepared.action
        self._requested = self.action.arguments if self.record is None else self.record.action.arguments

    async def request(self, position: str) -> None:
        if self.record is None:
            await self._charge()
            await self._emit(ActionRequested(self.action, position), summary=self._named)

    async def _charge(self) -> None:
        budget = self.action_context.budget
        # Whatever a tool's own builder calls it, it is a tool's call.
        check = budget.check_runtime if self.action.kind == AGENT_CALL else budget.check_tool_call
        await _checked(self.action_context, check)

    async def authorize(self) -> PolicyDecision:
        """Return when the action may run, with what policy said.

        Raises:
            ActionDeniedError, ApprovalRequiredError, UncertainExecutionError: It may not.
            ApprovalChangedError: It is not any more what was approved.
        """
        decision = await decide(self.gate.policy, self.action, self.action_context.context)
        record = self.record
        if record is None or record.policy is None or record.policy.effect is not decision.effect:
            await self._emit(ActionPolicyEvaluated(decision), summary=decision.reason or str(decision.effect))
        if decision.effect is PolicyEffect.DENY:
            await self._denied(decision, None, decision.reason or "policy denies it")
        if record is not None and record.started and not self.prepared.repeatable:
            await self._settle_uncertain(decision, record.arguments)
        elif decision.effect is PolicyEffect.REQUIRE_APPROVAL or _is_asked(record):
            await self._approve(decision)
        self.action_context.token.raise_if_cancelled()
        return decision

    async def _settle_uncertain(self, decision: PolicyDecision, begun: dict[str, Any] | None) -> None:
        """It began before the process died, and nobody knows how it ended: only a person may say that it runs again.

        Args:
            begun: What it was begun with, which somebody may have edited: that is what is repeated.
        """
        if begun is not None and begun != self.action.arguments:
            await self._edit(begun, None)
        try:
            answer = await self._ask(decision, uncertain=True)
        except ApprovalRequiredError as error:
            raise self._uncertain("nobody can be asked") from error
        if not answer.approved:
            raise self._uncertain(answer.reason or "nobody wants it repeated")
        if answer.edited_arguments is not None:
            await self._edit(answer.edited_arguments, answer)

    def _uncertain(self, why: str) -> UncertainExecutionError:
        # No end is recorded: how it ended is what nobody knows.
        return UncertainExecutionError(
            f"{self.action.kind} '{self.action.name}' was started and its outcome is unknown: {why}",
            action_id=self.action.action_id,
        )

    async def _approve(self, decision: PolicyDecision) -> None:
        asked = self.action.fingerprint
        try:
            answer = self.approval = await self._ask(decision)
        except ApprovalRequiredError as error:
            await self._refused(error)
            raise
        if self.action.fingerprint != asked:
            raise ApprovalChangedError(
                f"{self.action.kind} '{self.action.name}' was changed while it waited for its approval",
                action_id=self.action.action_id,
            )
        if not answer.approved:
            await self._denied(decision, answer, answer.reason or "the approval was denied")
        if answer.edited_arguments is not None:
            await self._edit(answer.edited_arguments, answer)

    async def _edit(self, arguments: dict[str, Any], answer: ApprovalDecision | None) -> None:
        """Go on with other arguments, which are checked like the first ones, by policy too."""
        if self.prepared.edited is None:
            return
        try:
            edited = self.prepared.edited(arguments)
        except ToolRejectedError as error:
            value = ended_value(error_value(error), error, self.action.name)
            await self._end(ActionEnded(*self._what, error=value, outcome="rejected"), str(error))
            raise
        self.action = _renamed(edited, self.action.action_id)
        again = await decide(self.gate.policy, self.action, self.action_context.context)
        if again.effect is PolicyEffect.DENY:
            await self._denied(again, answer, again.reason or "policy denies the edited arguments")

    async def _ask(self, decision: PolicyDecision, *, uncertain: bool = False) -> ApprovalDecision:
        """The answer to the question about this action: an earlier run's, or one that is asked now."""
        request = self._open_question(uncertain=uncertain)
        if request is not None and self.record is not None:
            answer = self.record.answers.get(request.request_id)
            if answer is not None:
                return answer
        if request is None:
            request = self._question(decision, uncertain)
            await self._emit(ApprovalRequired(request), summary=f"approve {self._named}?")
        await self.action_context.flush()
        return await self.action_context.ask(request)

    def _open_question(self, *, uncertain: bool) -> ApprovalRequest | None:
        """The latest question of that sort about the same action: one about other arguments answers nothing."""
        is_same = self.prepared.is_same or (lambda payload: payload == self.action.payload)
        for request in reversed(self.record.requests if self.record is not None else ()):
            if request.uncertain is uncertain:
                return request if is_same(request.action.payload) else None
        return None

    def _question(self, decision: PolicyDecision, uncertain: bool) -> ApprovalRequest:
        expires_s = decision.metadata.get("expires_s", self.gate.expires_s)
        request = ApprovalRequest(
            self.action,
            decision,
            run_id=self.action_context.context.run_id,
            task_id=self.action_context.task_id,
            metadata={"reason": UNCERTAIN_REASON} if uncertain else {},
            uncertain=uncertain,
            editable=bool(decision.metadata.get("editable")) and self.prepared.edited is not None,
        )
        if expires_s is None:
            return request
        asked = micros_from_iso(request.created_at)
        return replace(request, expires_at=iso_from_micros(asked + int(float(expires_s) * 1e6)))

    async def _denied(self, decision: PolicyDecision, approval: ApprovalDecision | None, why: str) -> None:
        error = ActionDeniedError(
            f"{self.action.kind} '{self.action.name}' was denied: {why}",
            action=self.action,
            decision=decision,
            approval=approval,
            action_id=self.action.action_id,
        )
        await self._refused(error)
        raise error

    async def _refused(self, error: ActionPolicyError) -> None:
        value = ended_value(refusal_value(error), error, self.action.name)
        await self._end(ActionEnded(*self._what, error=value, outcome="denied"), str(error))

    async def execute(self) -> Outcome:
        """Carry the action out; its end is in the log, or on its way there, when this returns."""
        action_context, action = self.action_context, self.action
        await self._emit(ActionStarted(*self._what, self._other_arguments()), summary=self._named)
        if not self.prepared.silent:
            await action_context.flush()
        action_context.token.raise_if_cancelled()
        started = time.monotonic()
        exception: ProtolinkError | None = None
        done = ActionResult()
        try:
            done = await self.prepared.execute(action)
            if done.exception is not None:
                raise done.exception
        except ToolFailedError as raised:
            exception = action_context.reported(raised, peer=action.kind == AGENT_CALL)
        except BudgetExceededError as raised:
            await report_budget(action_context, raised.decision)
            await self._end(self._ended("failed", done, raised, started), str(raised))
            raise
        except ProtolinkError as raised:
            exception = raised
        except asyncio.CancelledError:
            await self._end(self._ended("canceled", done, None, started), "", severity="warning")
            raise
        error = None if exception is None else error_value(exception)
        rejected = isinstance(exception, ToolRejectedError)
        outcome = "completed" if exception is None else "rejected" if rejected else "failed"
        ended = self._ended(outcome, done, exception, started)
        await self._end(ended, self._named if exception is None else str(exception))
        action_context.token.raise_if_cancelled()
        return Outcome(action.action_id, done.result, error, exception, rejected)

    def _other_arguments(self) -> dict[str, Any] | None:
        """What it runs with where the log does not have that yet, for instance because somebody has edited it."""
        now, asked = self.action.arguments, self._requested
        return None if now is asked or canonical_json(now) == canonical_json(asked) else now

    @property
    def _named(self) -> str:
        return f"{self.action.kind} '{self.action.name}'"

    @property
    def _what(self) -> tuple[str, str]:
        return self.action.kind, self.action.name

    def _ended(self, outcome: str, done: ActionResult, error: ProtolinkError | None, started: float) -> ActionEnded:
        micros = int((time.monotonic() - started) * 1e6)
        value = None if error is None else ended_value(error_value(error), error, self.action.name)
        return ActionEnded(*self._what, done.result, value, micros, done.usage, outcome)

    async def _end(self, ended: ActionEnded, summary: str, severity: Any = None) -> None:
        rank = severity or ("info" if ended.outcome == "completed" else "error")
        await self._emit(ended, severity=rank, summary=summary[:MAX_SUMMARY])

    async def _emit(self, payload: Payload, **envelope: Any) -> None:
        await self.action_context.emit(RunEvent(payload=payload, action_id=self.action.action_id, **envelope))


MAX_SUMMARY = 200


async def charge_tool_call(action_context: ActionContext, budget: BudgetEnforcer) -> None:
    """Count a tool call against a budget other than the action_context's own.

    Raises:
        BudgetExceededError: It allows none.
    """
    await _checked(action_context, budget.check_tool_call)


async def _checked(action_context: ActionContext, check: Callable[[], tuple[BudgetDecision, ...]]) -> None:
    try:
        warnings = check()
    except BudgetExceededError as error:
        await report_budget(action_context, error.decision)
        raise
    for warning in warnings:
        await report_budget(action_context, warning)


async def report_budget(action_context: ActionContext, decision: BudgetDecision) -> None:
    """Record what a budget says about a limit."""
    severity: Severity = "warning" if decision.allowed else "error"
    await action_context.emit(RunEvent(payload=BudgetReported(decision), severity=severity, summary=decision.message))


def _known(record: ActionRecord) -> Outcome:
    """The outcome that an earlier run recorded.

    Raises:
        ActionDeniedError, ApprovalRequiredError, BudgetExceededError: It was kept from running.
    """
    ended, action = record.ended, record.action
    if ended is None:
        raise ValueError("the action has no outcome")
    error: dict[str, Any] = ended.error if isinstance(ended.error, dict) else {}
    code, message = error.get("code"), str(error.get("message") or f"{action.kind} '{action.name}' was denied")
    if code == BudgetExceededError.reason:
        raise BudgetExceededError(message)
    if ended.outcome == "denied":
        if code == ApprovalRequiredError.reason:
            asked = record.requests[-1] if record.requests else None
            raise ApprovalRequiredError(message, request=asked, action_id=action.action_id)
        raise ActionDeniedError(message, action=action, decision=record.policy, action_id=action.action_id)
    failure = shown_value(ended.error)
    if failure is None and ended.outcome != "completed":
        # Never taken for a success, also where a later version has an outcome of its own.
        failure = error_value(ToolFailedError(f"{action.kind} '{action.name}' ended with the outcome {ended.outcome}"))
    return Outcome(action.action_id, copied(ended.result), failure, rejected=ended.outcome == "rejected")


def _renamed(action: RunAction, action_id: str) -> RunAction:
    """The same action under the identity that it has in the log, its previews with it."""
    artifacts = tuple(replace(each, action_id=action_id) for each in action.artifacts)
    return replace(action, action_id=action_id, artifacts=artifacts)


def _is_asked(record: ActionRecord | None) -> bool:
    return record is not None and bool(record.requests)


def error_value(error: ProtolinkError) -> dict[str, Any]:
    """The `error` object of an action that failed."""
    if isinstance(error, ToolRejectedError):
        return error.to_dict()
    own = isinstance(error, ToolError | BudgetExceededError)
    code = error.reason if own else ToolFailedError.reason
    return {"status": "failed", "code": code, "message": str(error)}


def ended_value(value: dict[str, Any], error: ProtolinkError, origin: str) -> dict[str, Any]:
    """The `error` of an action as the log has it: what it says to everybody, and what kind of failure it was, where, and why.

    Args:
        value: What `error_value` or `refusal_value` makes of the error.
        origin: What was called.
    """
    known = Failure.from_error(error, origin=origin)
    told = Failure.from_value(value)
    return dict(replace(told, **{name: getattr(known, name) for name in _KIND}).to_value())


def shown_value(value: Any) -> Any:
    """The inverse of `ended_value`: the same in the run that failed and in one that takes over."""
    if not isinstance(value, dict) or value.get("status") not in _STATUSES:
        return plain(value)
    return {key: plain(each) for key, each in value.items() if key not in _KIND}


_KIND = ("category", "retryable", "retry_delay_s", "origin", "cause")
_STATUSES = ("failed", "rejected", "denied")


def refusal_value(error: ProtolinkError) -> dict[str, Any]:
    """The `error` object of an action that was not allowed to run."""
    return {"status": "denied", "changes_made": False, "code": error.reason, "message": str(error)}
