"""The gate: every tool call and every delegation passes through this code.

Theory of operation. The gate prepares an action (checks and converts the arguments, builds the preview), records the request,
evaluates the policy, gets an approval if the policy requires one, records the start, executes the action and records its end.
Each step is an event in the log. The events of the earlier steps are committed before an approval is requested and before an
action with effects starts, so after a crash the log shows how far the action got. A recovering run finds the action by its
position: it returns a recorded outcome, and it continues to wait for a pending approval. An action that has started and not
ended is *uncertain*: it is repeated if that is safe, otherwise a person must approve the repetition.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from protolink_grpc.errors import (
    ActionDeniedError,
    ActionPolicyError,
    ApprovalChangedError,
    ApprovalDeniedError,
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
    BudgetUsage,
    PolicyDecision,
    PolicyEffect,
    RunAction,
)
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.events import (
    ActionEnded,
    ActionPolicyEvaluated,
    ActionRequested,
    ActionStarted,
    ApprovalRequired,
    Payload,
    RunEvent,
)
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_value import is_same_json, plain
from protolink_grpc.models.payload import copy_value
from protolink_grpc.models.tool_result import recorded_error, with_failure
from protolink_grpc.net.tracing import action_trace
from protolink_grpc.policy.capabilities import Policy, decide
from protolink_grpc.runtime.actions.action_context import ActionContext, check_budget, executing, report_budget
from protolink_grpc.runtime.journal import ActionRecord

TOOL_CALL = "tool.call"
AGENT_CALL = "agent.call"
FLOW_STEP = "flow.step"

DELEGATE = "agent.delegate"
"""Capability of every call of another agent."""

UNCOUNTED = frozenset({AGENT_CALL, FLOW_STEP})
"""Kinds of actions that are not tool calls. All others count as tool calls: a tool's own action_builder may choose its kind."""

UNCERTAIN_REASON = "the action had started when its process ended, and its outcome is unknown; approve to repeat it"
"""The reason of an approval request for an uncertain action."""


@dataclass(slots=True)
class PreparedAction:
    """An action with checked arguments, ready for the gate.

    Args:
        execute: Executes an action; it gets `action`, or the result of `edit`.
        edit: Returns the action with other arguments, checked and converted like the first ones. None: it cannot be edited.
        is_same: Returns whether a recorded payload belongs to this action. None compares the payloads.
        idempotent: Executing the action twice has the effect of executing it once.
        read_only: The action changes nothing, so its start need not be committed before it runs.
        commits_start: `execute` waits until the start is committed, before it has an effect.
        is_counted: Whether it counts as a tool call or a delegation in the budget.
    """

    action: RunAction
    execute: Callable[[RunAction], Awaitable["ActionResult"]]
    edit: Callable[[dict[str, Any]], RunAction] | None = None
    is_same: Callable[[dict[str, Any]], bool] | None = None
    idempotent: bool = False
    read_only: bool = False
    commits_start: bool = False
    is_counted: bool = True


@dataclass(slots=True)
class ActionResult:
    """The result of an executed action.

    Args:
        usage: Usage of delegated work.
        exception: The failure of an action that has a usage all the same; None if it succeeded.
        in_log: The log has the result already, as the items of the action.
    """

    result: Any = None
    usage: BudgetUsage | None = None
    exception: ProtolinkError | None = None
    in_log: bool = False


@dataclass(slots=True)
class Outcome:
    """The outcome of an action: a result, or an error.

    Args:
        error: The `error` object that tool outputs and models get; None if the action succeeded.
        exception: The same error with its origin and cause.
        rejected: The action was rejected before it had an effect, for instance because of its arguments.
    """

    action_id: str
    result: Any = None
    error: Any = None
    exception: ProtolinkError | None = None
    rejected: bool = False

    def value(self) -> Any:
        """Return the result, or raise the error of the action."""
        if self.exception is not None:
            raise self.exception
        return self.result


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of one agent.

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
        """Perform an action, from its preparation to its end.

        The outcome includes failures of the action itself. If the action does not run, an exception is raised.

        Args:
            prepare: Called if no earlier run has recorded the outcome.
            position: Position of the action in its turn; empty if it has none, so that no other run finds it.

        Raises:
            ToolRejectedError, InvalidArgumentError: The action cannot be prepared; nothing was recorded.
            BudgetExceededError, ActionDeniedError, ApprovalDeniedError, ApprovalRequiredError: The action must not run.
            UncertainExecutionError: An earlier run started the action, its outcome is unknown, and its repetition was not approved.
            asyncio.CancelledError: The run is canceled.
        """
        action_context.token.raise_if_cancelled()
        record = action_context.action_record(position) if position else None
        if record is not None and record.ended is not None and record.ended.outcome != "canceled":
            return _recorded_outcome(record)
        await action_context.wait_while_paused()
        try:
            prepared = await prepare()
        except ToolFailedError as error:
            raise action_context.report_failure(error) from error.__cause__
        execution = ActionExecution(self, action_context, prepared, record)
        await execution.request(position)
        await execution.authorize()
        return await execution.execute()


@dataclass(slots=True)
class ActionExecution:
    """One execution of an action: `request`, `authorize` and `execute`, in this order.

    Attributes:
        action: The action as it will run; `authorize` may edit it.
        approval: The answer to its approval request; None if the policy required no approval.
    """

    gate: Gate
    action_context: ActionContext
    prepared: PreparedAction
    record: ActionRecord | None
    action: RunAction = field(init=False)
    approval: ApprovalDecision | None = field(default=None, init=False)
    _requested: dict[str, Any] = field(init=False)  # the arguments in the log

    def __post_init__(self) -> None:
        # The id is that of the record; the arguments are those that were prepared now.
        recorded_id = self.record.action.action_id if self.record is not None else ""
        self.action = _with_id(self.prepared.action, recorded_id) if recorded_id else self.prepared.action
        self._requested = self.action.arguments if self.record is None else self.record.action.arguments

    async def request(self, position: str) -> None:
        """Count the action against the budget and record its request, unless an earlier run has done so.

        Raises:
            BudgetExceededError: The budget does not allow the action.
        """
        if self.record is None:
            if self.prepared.is_counted:
                await self._charge()
            await self._emit(ActionRequested(self.action, position), summary=self._label)

    async def _charge(self) -> None:
        budget = self.action_context.budget
        check = budget.check_runtime if self.action.kind in UNCOUNTED else budget.check_tool_call
        await check_budget(self.action_context, check)

    async def authorize(self) -> PolicyDecision:
        """Return the decision of the policy when the action may run. This may take as long as an approval.

        Raises:
            ActionDeniedError, ApprovalDeniedError, ApprovalRequiredError, UncertainExecutionError: The action must not run.
            ApprovalChangedError: The action changed while it waited for its approval.
            ToolRejectedError: Arguments that the approver has edited are invalid.
        """
        decision = await decide(self.gate.policy, self.action, self.action_context.context)
        record = self.record
        if record is None or record.policy is None or record.policy.effect is not decision.effect:
            await self._emit(ActionPolicyEvaluated(decision), summary=decision.reason or str(decision.effect))
        if decision.effect is PolicyEffect.DENY:
            await self._deny(ActionDeniedError, decision, None, decision.reason or "the policy does not allow it")
        if record is not None and record.started and not self.prepared.idempotent:
            await self._settle_uncertain(decision, record.arguments)
        elif decision.effect is PolicyEffect.REQUIRE_APPROVAL or _has_approval_request(record):
            await self._approve(decision)
        self.action_context.token.raise_if_cancelled()
        return decision

    async def _settle_uncertain(self, decision: PolicyDecision, arguments: dict[str, Any] | None) -> None:
        """Get an approval to repeat an action that an earlier process started and whose outcome is unknown.

        Args:
            arguments: Arguments of that start, which an approver may have edited: the action is repeated with them.
        """
        if arguments is not None and arguments != self.action.arguments:
            await self._edit(arguments, None)
        try:
            answer = await self._ask(decision, uncertain=True)
        except ApprovalRequiredError as error:
            raise self._uncertain_error("no approver is configured") from error
        if not answer.approved:
            raise self._uncertain_error(answer.reason or "the repetition was not approved")
        if answer.edited_arguments is not None:
            await self._edit(answer.edited_arguments, answer)

    def _uncertain_error(self, why: str) -> UncertainExecutionError:
        # The log gets no end of the action: its outcome stays unknown.
        return UncertainExecutionError(
            f"{self.action.kind} '{self.action.name}' was started and its outcome is unknown: {why}",
            action_id=self.action.action_id,
        )

    async def _approve(self, decision: PolicyDecision) -> None:
        fingerprint = self.action.fingerprint
        try:
            answer = self.approval = await self._ask(decision)
        except ApprovalRequiredError as error:
            await self._end_denied(error)
            raise
        if self.action.fingerprint != fingerprint:
            raise ApprovalChangedError(
                f"{self.action.kind} '{self.action.name}' was changed while it waited for its approval",
                action_id=self.action.action_id,
            )
        if not answer.approved:
            await self._deny(ApprovalDeniedError, decision, answer, answer.reason or "the approval was denied")
        if answer.edited_arguments is not None:
            await self._edit(answer.edited_arguments, answer)

    async def _edit(self, arguments: dict[str, Any], answer: ApprovalDecision | None) -> None:
        """Replace the arguments. The new ones are checked like the first ones, including by the policy."""
        if self.prepared.edit is None:
            return
        try:
            edited = self.prepared.edit(arguments)
        except ToolRejectedError as error:
            value = ended_value(error_value(error), error, self.action.name)
            await self._end(ActionEnded(*self._kind_and_name, error=value, outcome="rejected"), str(error))
            raise
        self.action = _with_id(edited, self.action.action_id)
        again = await decide(self.gate.policy, self.action, self.action_context.context)
        if again.effect is PolicyEffect.DENY:
            why = again.reason or "the policy does not allow the edited arguments"
            await self._deny(ActionDeniedError, again, answer, why)

    async def _ask(self, decision: PolicyDecision, *, uncertain: bool = False) -> ApprovalDecision:
        """Return the answer to the approval request of this action. The request may be from an earlier run."""
        request = self._recorded_request(uncertain=uncertain)
        if request is not None and self.record is not None:
            answer = self.record.answers.get(request.request_id)
            if answer is not None:
                return answer
        if request is None:
            request = self._build_request(decision, uncertain)
            await self._emit(ApprovalRequired(request), summary=f"approve {self._label}?")
        await self.action_context.flush()
        return await self.action_context.ask(request)

    def _recorded_request(self, *, uncertain: bool) -> ApprovalRequest | None:
        """Return the latest recorded request, for a repetition or a first execution, if it has the same arguments."""
        is_same = self.prepared.is_same or (lambda payload: payload == self.action.payload)
        for request in reversed(self.record.requests if self.record is not None else ()):
            if request.uncertain is uncertain:
                return request if is_same(request.action.payload) else None
        return None

    def _build_request(self, decision: PolicyDecision, uncertain: bool) -> ApprovalRequest:
        expires_s = self.gate.expires_s if decision.expires_s is None else decision.expires_s
        request = ApprovalRequest(
            self.action,
            decision,
            run_id=self.action_context.context.run_id,
            task_id=self.action_context.task_id,
            metadata={"reason": UNCERTAIN_REASON} if uncertain else {},
            uncertain=uncertain,
            editable=decision.editable and self.prepared.edit is not None,
        )
        if expires_s is None:
            return request
        created = micros_from_iso(request.created_at)
        return replace(request, expires_at=iso_from_micros(created + int(expires_s * 1e6)))

    async def _deny(
        self,
        kind: type[ActionDeniedError],
        decision: PolicyDecision,
        approval: ApprovalDecision | None,
        why: str,
    ) -> None:
        """Record the denial and raise an error of the class `kind`."""
        error = kind(
            f"{self.action.kind} '{self.action.name}' was denied: {why}",
            action=self.action,
            decision=decision,
            approval=approval,
            action_id=self.action.action_id,
        )
        await self._end_denied(error)
        raise error

    async def _end_denied(self, error: ActionPolicyError) -> None:
        value = ended_value(denied_value(error), error, self.action.name)
        await self._end(ActionEnded(*self._kind_and_name, error=value, outcome="denied"), str(error))

    async def execute(self) -> Outcome:
        """Execute the action. When this returns, its end has been emitted, but may not be committed yet."""
        action_context, action = self.action_context, self.action
        await action_context.wait_while_paused()  # again, because the approval may have taken long
        await self._emit(ActionStarted(*self._kind_and_name, self._changed_arguments()), summary=self._label)
        if not (self.prepared.read_only or self.prepared.commits_start):
            await action_context.flush()
        action_context.token.raise_if_cancelled()
        started = time.monotonic()
        exception: ProtolinkError | None = None
        done = ActionResult()
        try:
            with executing(action_context, action.action_id), action_trace(action.action_id):
                done = await self.prepared.execute(action)
            if done.exception is not None:
                raise done.exception
        except ToolFailedError as raised:
            exception = action_context.report_failure(raised, peer=action.kind == AGENT_CALL)
        except BudgetExceededError as raised:
            await report_budget(action_context, raised.decision)
            await self._end(self._build_end("failed", done, raised, started), str(raised))
            raise
        except ProtolinkError as raised:
            exception = raised
        except asyncio.CancelledError:
            await self._end(self._build_end("canceled", done, None, started), "", severity="warning")
            raise
        error = None
        if exception is not None:
            exception.action_id, error = action.action_id, error_value(exception)
        rejected = isinstance(exception, ToolRejectedError)
        outcome = "completed" if exception is None else "rejected" if rejected else "failed"
        ended = self._build_end(outcome, done, exception, started)
        await self._end(ended, self._label if exception is None else str(exception))
        action_context.token.raise_if_cancelled()
        return Outcome(action.action_id, done.result, error, exception, rejected)

    def _changed_arguments(self) -> dict[str, Any] | None:
        """Return the arguments if they differ from the request in the log, for instance after an edit; otherwise None."""
        now, requested = self.action.arguments, self._requested
        return None if now is requested or is_same_json(now, requested) else now

    @property
    def _label(self) -> str:
        return f"{self.action.kind} '{self.action.name}'"

    @property
    def _kind_and_name(self) -> tuple[str, str]:
        return self.action.kind, self.action.name

    def _build_end(self, outcome: str, done: ActionResult, error: ProtolinkError | None, started: float) -> ActionEnded:
        micros = int((time.monotonic() - started) * 1e6)
        value = None if error is None else ended_value(error_value(error), error, self.action.name)
        result = None if done.in_log else done.result
        return ActionEnded(*self._kind_and_name, result, value, micros, done.usage, outcome)

    async def _end(self, ended: ActionEnded, summary: str, severity: Any = None) -> None:
        rank = severity or ("info" if ended.outcome == "completed" else "error")
        await self._emit(ended, severity=rank, summary=summary[:MAX_SUMMARY])

    async def _emit(self, payload: Payload, **envelope: Any) -> None:
        # The append sets the time.
        event = RunEvent(payload=payload, timestamp="", action_id=self.action.action_id, **envelope)
        await self.action_context.emit(event)


MAX_SUMMARY = 200


def _recorded_outcome(record: ActionRecord) -> Outcome:
    """Return the outcome that an earlier run recorded.

    Raises:
        ActionDeniedError, ApprovalDeniedError, ApprovalRequiredError, BudgetExceededError: The action was not allowed to run.
    """
    ended, action = record.ended, record.action
    if ended is None:
        raise ValueError("the action has no outcome")
    exception, failure = _recorded_exception(record), ended.failure
    if exception is not None and failure is not None:
        with_failure(exception, failure)
    if isinstance(exception, ActionPolicyError | BudgetExceededError):
        raise exception
    if exception is None:
        return Outcome(action.action_id, copy_value(ended.result))
    exception.action_id = action.action_id
    if isinstance(exception, ToolFailedError):
        exception.is_reported = True  # the run that recorded it has logged it
    error = error_value(exception) if ended.error is None else shown_value(ended.error)
    return Outcome(action.action_id, copy_value(ended.result), error, exception, ended.outcome == "rejected")


def _recorded_exception(record: ActionRecord) -> ProtolinkError | None:
    """Return the exception with which a recorded action ended; None if it succeeded."""
    ended, action = record.ended, record.action
    if ended is None or (ended.error is None and ended.outcome == "completed"):
        return None
    value: dict[str, Any] = ended.error if isinstance(ended.error, dict) else {}
    code, message = value.get("code"), str(value.get("message") or f"{action.kind} '{action.name}' was denied")
    if code == BudgetExceededError.reason:
        return BudgetExceededError(message)
    if ended.outcome == "denied" and code == ApprovalRequiredError.reason:
        request = record.requests[-1] if record.requests else None
        return ApprovalRequiredError(message, request=request, action_id=action.action_id)
    if ended.outcome == "denied":
        # Logs written before the code APPROVAL_DENIED existed have ACTION_DENIED for both.
        kind = ApprovalDeniedError if code == ApprovalDeniedError.reason else ActionDeniedError
        return kind(
            message,
            action=action,
            decision=record.policy,
            approval=record.answers.get(record.requests[-1].request_id) if record.requests else None,
            action_id=action.action_id,
        )
    if ended.error is None:
        # Includes outcomes that only later versions know: they must not count as success.
        return ToolFailedError(f"{action.kind} '{action.name}' ended with the outcome {ended.outcome}")
    return recorded_error(ended.error)


def _with_id(action: RunAction, action_id: str) -> RunAction:
    """Return the action with another id, also in its previews."""
    artifacts = tuple(replace(each, action_id=action_id) for each in action.artifacts)
    return replace(action, action_id=action_id, artifacts=artifacts)


def _has_approval_request(record: ActionRecord | None) -> bool:
    return record is not None and bool(record.requests)


def error_value(error: ProtolinkError) -> dict[str, Any]:
    """Return the `error` object of a failed action."""
    if isinstance(error, ToolRejectedError):
        return error.to_dict()
    own = isinstance(error, ToolError | BudgetExceededError)
    code = error.reason if own else ToolFailedError.reason
    return {"status": "failed", "code": code, "message": str(error)}


def ended_value(value: dict[str, Any], error: ProtolinkError, origin: str) -> dict[str, Any]:
    """Return the `error` of an action for the log: `value` with the details of the failure, such as its category and cause.

    Args:
        value: Result of `error_value` or `denied_value` for the error.
        origin: Name of the tool or agent.
    """
    details = Failure.from_error(error, origin=origin)
    failure = Failure.from_value(value)
    return dict(replace(failure, **{name: getattr(details, name) for name in _DETAILS}).to_value())


def shown_value(value: Any) -> Any:
    """Return the `error` of an action in the log without the details: the `value` that `ended_value` received."""
    if not isinstance(value, dict) or value.get("status") not in _STATUSES:
        return plain(value)
    return {key: plain(each) for key, each in value.items() if key not in _DETAILS}


_DETAILS = ("category", "retryable", "retry_delay_s", "origin", "cause")
_STATUSES = ("failed", "rejected", "denied")


def denied_value(error: ProtolinkError) -> dict[str, Any]:
    """Return the `error` object of an action that was not allowed to run."""
    return {"status": "denied", "changes_made": False, "code": error.reason, "message": str(error)}
