"""Typed calls of other agents as actions: one method of a generated stub, with a share of the run's budget.

Theory of operation. The id of the action is the id of the call's request and of its task at the other agent, so a recovering run
repeats the call gets the first answer. A name may have several instances, and only the one that was called knows the request.
Therefore the URL of the instance is part of the action's arguments: it is chosen before the action's request is recorded. If this
instance cannot be connected to, another one takes its place, and before the call is sent, the action is recorded as started again
with the new URL. After the first start, a recovering run calls only the recorded instance.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from protolink_grpc.errors import ActionPolicyError, BudgetExceededError, ProtolinkError, ToolFailedError
from protolink_grpc.models.action import BudgetUsage, RunAction
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import ActionStarted, PeerTaskLinked, RunEvent
from protolink_grpc.models.failure import Failure
from protolink_grpc.net.trace_context import with_trace
from protolink_grpc.net.tracing import current_trace
from protolink_grpc.runtime.actions.action_context import ActionContext
from protolink_grpc.runtime.actions.delegation import recorded_usage, reserve_share
from protolink_grpc.runtime.actions.gate import AGENT_CALL, DELEGATE, ActionResult, Gate, PreparedAction
from protolink_grpc.runtime.journal import ActionRecord

URL = "url"
"""Key of the instance's URL in the arguments of the action."""


@dataclass(frozen=True, slots=True)
class MethodAnswer:
    """The answer to a typed call: a result or an error.

    Args:
        result: What the log has of the responses: a typed message, or JSON.
        usage: The usage of the call's task; None means unknown.
        link: The ids of the call's task; None if it is no task, or unknown.
    """

    result: Any = None
    usage: BudgetUsage | None = None
    error: ProtolinkError | None = None
    link: PeerTaskLinked | None = None


class MethodCall(Protocol):
    """One call of a method of another agent.

    Attributes:
        agent: Name or URL of the agent.
        method: Full name of the method, such as `/acme.calculator.v1.Calculator/Add`.
        request: The request as JSON, for policies and approvers.
    """

    @property
    def agent(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def request(self) -> Any: ...

    async def choose_instance(self) -> str:
        """Return the URL of the next instance of the agent.

        Raises:
            ProtolinkError: The agent is not known, or cannot be found now.
        """
        ...

    async def connect(self, url: str) -> str:
        """Connect to the instance at a URL, or to another one if that cannot be reached. Return the URL of the instance to call."""
        ...

    async def send(self, url: str, action_id: str, context: RunContext) -> MethodAnswer:
        """Call the method at an instance. If this is canceled with the run, the call's task is canceled, too.

        Args:
            action_id: Id of the request and of the call's task.
            context: The context of the call's task.
        """
        ...


async def call_method(gate: Gate, action_context: ActionContext, call: MethodCall, *, position: str) -> Any:
    """Call a method of another agent as an action of the run and return the result of its answer.

    A recovering run gets the recorded result.

    Raises:
        ProtolinkError: The error of the call, or as `Gate.perform`.
    """
    record = action_context.action_record(position)

    async def prepare() -> PreparedAction:
        url = _recorded_url(record) or await call.choose_instance()
        payload = {"agent": call.agent, "method": call.method, "request": call.request, URL: url}
        action = RunAction(AGENT_CALL, call.agent, payload, frozenset({DELEGATE}))
        may_have_sent = record is not None and record.started > 0

        async def execute(action: RunAction) -> ActionResult:
            return await _execute(action_context, call, action, may_have_sent=may_have_sent)

        return PreparedAction(action, execute, idempotent=True)

    return (await gate.perform(action_context, prepare, position=position)).value()


def _recorded_url(record: ActionRecord | None) -> str:
    """Return the URL of the instance that an earlier run has chosen; empty without one."""
    if record is None:
        return ""
    return str((record.arguments or record.action.payload).get(URL, ""))


async def _execute(
    action_context: ActionContext, call: MethodCall, action: RunAction, *, may_have_sent: bool
) -> ActionResult:
    """Execute the call with a share of the run's budget. If its usage is unknown, the whole share counts as used.

    Args:
        may_have_sent: An earlier run may have sent the call, so only this instance may be called.

    Raises:
        BudgetExceededError: The budget has no share left.
    """
    share = await reserve_share(action_context)
    used: BudgetUsage | None = BudgetUsage()
    try:
        url: str = action.payload[URL]
        if not may_have_sent and (reached := await call.connect(url)) != url:
            url = reached
            moved = ActionStarted(action.kind, action.name, {**action.payload, URL: url})
            await action_context.emit(RunEvent(payload=moved, action_id=action.action_id))
            await action_context.flush()
        used = None
        context = with_trace(action_context.context.child().copy(budget=share.budget), current_trace())
        answer = await call.send(url, action.action_id, context)
        used = answer.usage
        if answer.link is not None:
            await action_context.emit(RunEvent(payload=answer.link, action_id=action.action_id))
        error = None if answer.error is None else _peer_error(answer.error, call.agent)
        return ActionResult(answer.result, recorded_usage(used, share), error)
    except ProtolinkError as error:
        return ActionResult(None, recorded_usage(used, share), error)
    finally:
        share.settle(used)


def _peer_error(error: ProtolinkError, agent: str) -> ProtolinkError:
    """Return the error for the run. A refusal by the other agent's policy or budget is a failure here, not one of the run's own."""
    if isinstance(error, ActionPolicyError | BudgetExceededError):
        failed = ToolFailedError(f"agent '{agent}': {error}", tool=agent)
        failed.metadata |= error.metadata  # not as arguments: a peer may use any key
        failed.failure, failed.is_of_peer = Failure.from_error(error), True
        return failed
    if isinstance(error, ToolFailedError):
        error.is_of_peer = True
    return error
