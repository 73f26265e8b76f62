"""Delegation as an action: a peer works on a task under a share of the run's budget. How to reach a peer is not known here."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from protolink_grpc.errors import (
    DeadlineExceededError,
    InternalError,
    ProtolinkError,
    RemoteError,
    StoreError,
    ToolFailedError,
    ToolRejectedError,
    UnavailableError,
    UncertainExecutionError,
)
from protolink_grpc.models.action import BudgetUsage, RunAction
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import RUN_LOST
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.models.payload import copied
from protolink_grpc.models.task import Task
from protolink_grpc.policy.budget import Reservation
from protolink_grpc.policy.capabilities import narrow
from protolink_grpc.runtime.actions.gate import (
    AGENT_CALL,
    ActionContext,
    ActionResult,
    Gate,
    Outcome,
    PreparedAction,
    report_budget,
)
from protolink_grpc.runtime.actions.tools import ToolActions
from protolink_grpc.tools.context import Memory
from protolink_grpc.tools.toolbox import Toolbox

DELEGATE = "agent.delegate"
"""Capability that every delegation needs."""


@dataclass(frozen=True, slots=True)
class Relay:
    """A receiver of the events of delegated work.

    Args:
        give: Is given each in its order; the next one waits until it returns.
        deltas: The text that models are producing is wanted, too.
    """

    give: Callable[[RunEvent], Awaitable[None]]
    deltas: bool = False


class PeerPort(Protocol):
    """Other agents, as the runtime sees them; how they are found and reached is the agent's business."""

    async def cards(self) -> Sequence[AgentCard]:
        """Agents that work may be delegated to, this one excepted, sorted by name."""
        ...

    async def run(
        self,
        target: str,
        task: Task,
        request_id: str,
        *,
        sending: Callable[[], None] | None = None,
        relay: Relay | None = None,
    ) -> Task:
        """Send a task to an agent, by name or URL, and return it when it ends or waits; the same id is the same request.

        Where the caller is canceled, the task is canceled, too.

        Args:
            sending: Called once the agent is found and answers, before it gets the task: from here on, nobody can be sure that
                the work did not begin.
        """
        ...


class Actions(ToolActions):
    """The actions of one agent: calls of its tools, and work that it delegates to peers.

    Args:
        peers: None for an agent that knows no others.
        memory: As for `ToolActions`.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        gate: Gate,
        peers: PeerPort | None = None,
        memory: Callable[[str, str], Memory] | None = None,
    ) -> None:
        super().__init__(toolbox, gate, memory)
        self.peers = peers

    async def delegate(
        self,
        action_context: ActionContext,
        agent: str,
        arguments: Mapping[str, Any],
        *,
        position: str,
        call_id: str = "",
    ) -> Outcome:
        """Have another agent do something: one of its tools, or an inference. Its output is the result.

        Args:
            arguments: `{"action": "tool_call", "tool", "args"}` or `{"action": "infer", "prompt"}`.

        Raises:
            ProtolinkError: As `Gate.perform`.
        """

        async def prepare() -> PreparedAction:
            asked = plain(dict(arguments))
            action = RunAction(AGENT_CALL, agent, {"agent": agent, **asked}, frozenset({DELEGATE}), call_id=call_id)

            async def execute(action: RunAction) -> ActionResult:
                # Named after the action: whoever repeats it after a crash finds the task that it began.
                task = replace(_task_of(asked), id=action.action_id)
                return await self._delegated(action_context, agent, task, action, lambda answer: _output(answer, agent))

            return PreparedAction(action, execute, repeatable=True)

        return await self.gate.perform(action_context, prepare, position=position)

    async def send(
        self, action_context: ActionContext, target: str, task: Task, *, position: str, relay: Relay | None = None
    ) -> Task:
        """Send a task that a handler has made to another agent, as an action of the run; returns it as it ended.

        A run that comes to this point again finds the task that the first one sent.
        """
        sent: list[Task] = []
        known = action_context.recorded(position)
        if known is not None:
            task = replace(task, id=str(known.action.payload.get("task_id", task.id)))

        async def prepare() -> PreparedAction:
            action = RunAction(AGENT_CALL, target, {"agent": target, "task_id": task.id}, frozenset({DELEGATE}))

            def summed_up(answer: Task) -> dict[str, Any]:
                sent.append(answer)
                return {"task_id": answer.id, "state": str(answer.state), "output": copied(answer.get_output())}

            async def execute(action: RunAction) -> ActionResult:
                return await self._delegated(action_context, target, task, action, summed_up, relay=relay)

            return PreparedAction(action, execute, repeatable=True)

        outcome = await self.gate.perform(action_context, prepare, position=position)
        outcome.value()
        if not sent:
            # Recorded by an earlier run: the same request is answered with the same task.
            sent.append(await self._peers.run(target, task, outcome.action_id, relay=relay))
        return sent[0]

    @property
    def _peers(self) -> PeerPort:
        if self.peers is None:
            raise ToolRejectedError("this agent knows no other agents", code="unknown_agent")
        return self.peers

    async def _delegated(
        self,
        action_context: ActionContext,
        target: str,
        task: Task,
        action: RunAction,
        result: Callable[[Task], Any],
        *,
        relay: Relay | None = None,
    ) -> ActionResult:
        """Run a task elsewhere under a share of this run's budget.

        What never began has used nothing. Of work that got lost nobody knows what it has used: it counts as all of its share.

        Args:
            result: What the task, as it ended, gave; or raises ProtolinkError.

        Raises:
            BudgetExceededError: There is no share to be had.
        """
        own = task.given_context()
        before = task.usage if task.id != action_context.task_id else None
        share = await _reserve(action_context, own.budget if own is not None else None)
        used = BudgetUsage()
        answer: Task | None = None

        def sending() -> None:
            nonlocal used
            used = share.whole

        try:
            child = _child_task(task, own, action_context.context, share.budget)
            answer = await self._peers.run(target, child, action.action_id, sending=sending, relay=relay)
            if not _is_lost(answer):
                used = (answer.usage or BudgetUsage()).minus(before)
            return ActionResult(result(answer), used)
        except ProtolinkError as error:
            if answer is None and not isinstance(error, UNCLEAR):
                used = BudgetUsage()
            return ActionResult(None, used, error)
        finally:
            share.settle(used)


def _child_task(task: Task, own: RunContext | None, parent: RunContext, budget: RunBudget) -> Task:
    """The task as it is sent: a copy, under a context that may do nothing that its parent may not.

    Args:
        own: The context that its author gave it, which narrows further.
        budget: Its share.
    """
    child = parent.child().copy(budget=budget)
    if own is not None:
        permissions = narrow(child.permissions, own.permissions)
        child = child.copy(permissions=permissions, metadata={**child.metadata, **own.metadata})
    return child.attach_to_task(replace(task))


async def _reserve(action_context: ActionContext, wanted: RunBudget | None) -> Reservation:
    """A share of the run's budget. The wait for one ends with the run's time.

    Raises:
        BudgetExceededError: Nothing is left, or the time was over first.
    """
    budget = action_context.budget
    while True:
        left = budget.remaining_seconds
        try:
            # A moment longer: the time must be over when it is looked at. The clock may stand meanwhile, then it is not.
            async with asyncio.timeout(None if left is None else left + TICK_S):
                return await budget.reserve(wanted)
        except TimeoutError:
            for warning in budget.check_runtime():
                await report_budget(action_context, warning)


TICK_S = 0.001

UNCLEAR = (
    DeadlineExceededError,
    InternalError,
    RemoteError,
    StoreError,
    UnavailableError,
    UncertainExecutionError,
)
"""Answers to a request that may have been accepted all the same; all others say that it was refused."""


def _is_lost(answer: Task) -> bool:
    """The process that worked on it ended first: its log does not say what was used."""
    return answer.state is TaskState.FAILED and answer.failure is not None and answer.failure.reason == RUN_LOST


def _task_of(asked: dict[str, Any]) -> Task:
    if asked.get("action") == "tool_call":
        return Task.create_tool_call(str(asked["tool"]), asked.get("args") or {})
    return Task.create_infer(prompt=str(asked.get("prompt", "")))


def _output(answer: Task, agent: str) -> Any:
    """What a delegated task gave.

    Raises:
        ToolRejectedError: A tool there refused before anything happened.
        ToolFailedError: It did not end with an output.
    """
    part = answer.get_last_part()
    output = part.content if part is not None and isinstance(part.content, ToolOutput) else None
    if answer.state is TaskState.COMPLETED:
        return copied(answer.get_output())
    error = output.error if output is not None else None
    if isinstance(error, dict) and error.get("status") == "rejected":
        raise ToolRejectedError.from_dict(error, source=agent)
    why = answer.reason
    if answer.state is TaskState.INPUT_REQUIRED:
        why = f"it asks: {answer.get_last_part_content() or 'for more input'}"
    error = ToolFailedError(
        f"agent '{agent}' ended {answer.state}{f': {why}' if why else ''}", tool=agent, task_id=answer.id
    )
    error.failure, error.is_of_peer = answer.known_failure(), True
    raise error
