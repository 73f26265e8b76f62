"""The context in which an action runs, the action that the calling code executes, and the records of budgets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from protolink_grpc.errors import BudgetExceededError, ToolFailedError
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, BudgetDecision
from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import BudgetReported, RunEvent, Severity
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.runtime.journal import ActionRecord


class ActionContext(Protocol):
    """The context in which an action runs: a run (`Run`), or the program itself, without a task (`actions.outside`)."""

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

    def action_record(self, position: str) -> ActionRecord | None:
        """Return the progress that an earlier run of the same turn recorded for the action at this position."""
        ...

    async def emit(self, item: Any) -> None:
        """Record an event, without waiting until it is committed."""
        ...

    async def flush(self) -> None:
        """Wait until everything emitted is committed."""
        ...

    async def wait_while_paused(self) -> None:
        """Wait until the task is not paused. Called where nothing has begun that a restart would have to repeat."""
        ...

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait for the answer to a request that is in the log. Return it after it is recorded.

        Raises:
            ApprovalRequiredError: No approver is configured.
        """
        ...

    def report_failure(self, error: ToolFailedError, *, peer: bool = False) -> ToolFailedError:
        """Return a failure as the task's owner may see it. The first call for an error logs it with its traceback.

        Args:
            peer: Another agent failed. There is no local traceback, so an error whose text the owner sees is not logged.
        """
        ...


_current: ContextVar[tuple[ActionContext, str] | None] = ContextVar("plgrpc_action", default=None)


@contextmanager
def executing(action_context: ActionContext, action_id: str) -> Iterator[None]:
    """The code in the block executes an action of this context."""
    token = _current.set((action_context, action_id))
    try:
        yield
    finally:
        _current.reset(token)


def executing_action(action_context: ActionContext) -> str:
    """Return the id of the action of this context that the calling code executes; empty if it executes none.

    Work in the same process for another agent's run inherits the caller's variables, so the contexts are compared.
    """
    current = _current.get()
    return current[1] if current is not None and current[0] is action_context else ""


async def charge_tool_call(action_context: ActionContext, budget: BudgetEnforcer) -> None:
    """Count a tool call against a budget other than that of the context.

    Raises:
        BudgetExceededError: The budget allows no further tool call.
    """
    await check_budget(action_context, budget.check_tool_call)


async def check_runtime(action_context: ActionContext) -> None:
    """Check the limits of the context's budget and record its decisions, while an action works.

    Raises:
        BudgetExceededError: A limit is exceeded.
    """
    await check_budget(action_context, action_context.budget.check_runtime)


async def check_budget(action_context: ActionContext, check: Callable[[], tuple[BudgetDecision, ...]]) -> None:
    """Run a check of a budget and record its decisions; raise BudgetExceededError if the check does."""
    try:
        warnings = check()
    except BudgetExceededError as error:
        await report_budget(action_context, error.decision)
        raise
    for warning in warnings:
        await report_budget(action_context, warning)


async def report_budget(action_context: ActionContext, decision: BudgetDecision) -> None:
    """Record the decision of a budget about one of its limits."""
    severity: Severity = "warning" if decision.allowed else "error"
    await action_context.emit(RunEvent(payload=BudgetReported(decision), severity=severity, summary=decision.message))
