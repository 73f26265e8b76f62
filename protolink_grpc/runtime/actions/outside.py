"""Actions outside of tasks: the same checks, policy and approvals, without a log. Only an approval handler can answer approvals."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from protolink_grpc.errors import ToolFailedError
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, PolicyDecision, RunAction
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.models.clock import micros_from_iso, utc_now
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.references import References
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.policy.capabilities import Policy, narrow
from protolink_grpc.runtime.actions.approval_answers import ApprovalHandler, answer_event, first_answer, seconds_left
from protolink_grpc.runtime.actions.gate import ActionExecution, ActionResult, Gate, PreparedAction
from protolink_grpc.runtime.controls import Controls, no_approver_error
from protolink_grpc.runtime.journal import ActionRecord
from protolink_grpc.runtime.run import Run
from protolink_grpc.tools.tool import log_tool_failure


class StandaloneContext:
    """The context of one action without a task.

    Args:
        principal: The principal of the action; empty means the program itself.
        event_callback: Called with each event; may be async.
    """

    task_id = ""

    def __init__(
        self,
        context: RunContext,
        budget: BudgetEnforcer,
        controls: Controls,
        principal: str = "",
        *,
        event_callback: Callable[[RunEvent], Any] | None = None,
    ) -> None:
        self._event_callback = event_callback
        self._references = References()
        self.context = context
        self.budget = budget
        self.principal = principal
        self.token = CancellationToken()
        self._controls = controls

    def action_record(self, position: str) -> ActionRecord | None:
        return None

    async def emit(self, item: Any) -> None:
        if self._event_callback is not None:
            event = item if isinstance(item, RunEvent) else RunEvent(payload=item)
            result = self._event_callback(self._references.whole(event))
            if inspect.isawaitable(result):
                await result

    async def flush(self) -> None:
        return

    async def wait_while_paused(self) -> None:
        return  # there is no task

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        handler = self._controls.approval_handler
        if handler is None:
            raise no_approver_error(request)
        with self.budget.paused():
            decision, _ = await first_answer(
                request,
                self.context,
                handler=handler,
                outside=_wait_forever,
                timeout_s=seconds_left(request, micros_from_iso(utc_now())),
            )
        await self.emit(answer_event(request, decision))
        return decision

    def report_failure(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
        if not error.is_reported and not peer:
            log_tool_failure(error)
        error.is_reported = True
        return error


async def _wait_forever() -> ApprovalDecision:
    waiting: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()
    return await waiting


@dataclass(frozen=True, slots=True)
class ActionAuthorization:
    """The authorization of an action: the decision of the policy, and the approval if the policy required one."""

    action: RunAction
    decision: PolicyDecision
    approval: ApprovalDecision | None = None


@checks_arguments
class ActionAuthorizer:
    """Policy and approval for code that executes its actions itself.

    Args:
        policy: None allows everything that the context's permissions allow.
        approval_handler: Answers approval requests. None: an action that requires an approval raises ApprovalRequiredError.
        event_callback: Called with the event of each step, in order, before the next step begins; may be async.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        approval_handler: ApprovalHandler | None = None,
        *,
        event_callback: Callable[[RunEvent], Any] | None = None,
    ) -> None:
        self._gate = Gate(policy)
        self._controls = Controls(approval_handler=approval_handler)
        self._event_callback = event_callback

    async def authorize(self, action: RunAction, context: RunContext | None = None) -> ActionAuthorization:
        """Return when the action may run. The returned action may have edited arguments, if the policy allows edits.

        Raises:
            ActionDeniedError, ApprovalDeniedError, ApprovalRequiredError, ApprovalChangedError: The action must not run.
            ValueError, TypeError: The handler returned an invalid answer.
        """
        action_context = StandaloneContext(
            context or RunContext(), BudgetEnforcer(RunBudget()), self._controls, event_callback=self._event_callback
        )
        prepared = PreparedAction(action, _refuse_to_execute, lambda arguments: _with_arguments(action, arguments))
        execution = ActionExecution(self._gate, action_context, prepared, None)
        await execution.request("")
        decision = await execution.authorize()
        return ActionAuthorization(execution.action, decision, execution.approval)


async def _refuse_to_execute(action: RunAction) -> ActionResult:
    raise RuntimeError("an ActionAuthorizer does not execute actions")


def _with_arguments(action: RunAction, arguments: dict[str, Any]) -> RunAction:
    return action.with_payload({**action.payload, "arguments": arguments})


class NarrowedContext:
    """A run with the additional context of a call. Permissions of that context can only remove permissions of the run."""

    def __init__(self, run: Run, context: RunContext) -> None:
        permissions = narrow(run.context.permissions, context.permissions)
        self.context = run.context.copy(
            permissions=permissions,
            metadata={**run.context.metadata, **context.metadata},
            canceled=run.context.canceled or context.canceled,
        )
        self._run = run

    @property
    def token(self) -> CancellationToken:
        return self._run.token

    @property
    def budget(self) -> BudgetEnforcer:
        return self._run.budget

    @property
    def task_id(self) -> str:
        return self._run.task_id

    @property
    def principal(self) -> str:
        return self._run.principal

    def action_record(self, position: str) -> ActionRecord | None:
        return self._run.action_record(position)

    async def emit(self, item: Any) -> None:
        await self._run.emit(item)

    async def flush(self) -> None:
        await self._run.flush()

    async def wait_while_paused(self) -> None:
        await self._run.wait_while_paused()

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        return await self._run.ask(request)

    def report_failure(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
        return self._run.report_failure(error, peer=peer)
