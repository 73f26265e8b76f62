"""Delegation as an action: another agent works on a task with a share of the run's budget. `PeerPort` calls the agent."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
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
from protolink_grpc.models.events import (
    Payload,
    PeerTaskLinked,
    RunEvent,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskStatusChanged,
)
from protolink_grpc.models.failure import RUN_LOST, Failure
from protolink_grpc.models.json_value import plain, to_json
from protolink_grpc.models.lifecycle import TaskState, parse_state
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, PartType, ToolOutput
from protolink_grpc.models.payload import copy_value
from protolink_grpc.models.task import Task
from protolink_grpc.models.tool import OfferedTool
from protolink_grpc.net.trace_context import with_trace
from protolink_grpc.net.tracing import current_trace
from protolink_grpc.policy.budget import TICK_S, Reservation
from protolink_grpc.policy.capabilities import narrow, static_effect
from protolink_grpc.runtime.actions.action_context import ActionContext, report_budget
from protolink_grpc.runtime.actions.gate import AGENT_CALL, DELEGATE, ActionResult, Gate, Outcome, PreparedAction
from protolink_grpc.runtime.actions.sampling import ModelSampler
from protolink_grpc.runtime.actions.tools import ToolActions
from protolink_grpc.runtime.journal import ActionRecord
from protolink_grpc.tools.context import Memory
from protolink_grpc.tools.tool import PEER_OWNER
from protolink_grpc.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Relay:
    """A receiver of the events of delegated work.

    Args:
        give: Called with each event, in order; the next call waits until it returns.
        deltas: Includes the text that models are producing.
    """

    give: Callable[[RunEvent], Awaitable[None]]
    deltas: bool = False


class PeerPort(Protocol):
    """Sends tasks to other agents."""

    async def run(
        self,
        target: str,
        task: Task,
        request_id: str,
        *,
        note: Callable[[PeerTaskLinked], Awaitable[None]] | None = None,
        known: PeerTaskLinked | None = None,
        relay: Relay | None = None,
        continues: bool = False,
    ) -> Task:
        """Send a task to an agent and return the task when it has ended or waits for input.

        If this call is canceled, the task is canceled, too.

        Args:
            target: Name or URL of the agent.
            request_id: A second request with the same id returns the same task. A2A agents may not support that.
            note: Called when the agent has been found and is reachable, immediately before the task is sent. After this call, an
                error no longer means that the work did not begin. The `task_id` is empty if the agent assigns it: then `note` is
                called again as soon as it is known.
            known: What `note` has got for this request in an earlier process. The task of an A2A agent is read and not sent again,
                unless the agent states that it does not have the task.
            relay: Receives the events of the task.
            continues: The task must exist at the agent.
        """
        ...


class Actions(ToolActions):
    """The actions of one agent: calls of its tools, and delegations to other agents.

    Args:
        peers: None if the agent does not call other agents.
        memory, sampler: As for `ToolActions`.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        gate: Gate,
        peers: PeerPort | None = None,
        memory: Callable[[str, str], Memory] | None = None,
        sampler: ModelSampler | None = None,
    ) -> None:
        super().__init__(toolbox, gate, memory, sampler)
        self.peers = peers

    def offered(self, peers: Sequence[AgentCard], context: RunContext) -> list[OfferedTool]:
        """Return the tools of the agent, and these peers, as a run offers them to a model."""
        found = self.offered_tools(context)
        effect = static_effect(self.gate.policy, frozenset({DELEGATE}), context)
        return found + [OfferedTool(peer.name, f"{PEER_OWNER}{peer.name}", effect=effect) for peer in peers]

    async def delegate(
        self,
        action_context: ActionContext,
        agent: str,
        arguments: Mapping[str, Any],
        *,
        position: str,
        call_id: str = "",
    ) -> Outcome:
        """Delegate a tool call or an inference to another agent. The result of the action is its output.

        Args:
            agent: Name or URL of the agent.
            arguments: `{"action": "tool_call", "tool", "args"}` or `{"action": "infer", "prompt"}`.

        Raises:
            ProtolinkError: As `Gate.perform`.
        """

        async def prepare() -> PreparedAction:
            values = plain(dict(arguments))
            action = RunAction(AGENT_CALL, agent, {"agent": agent, **values}, frozenset({DELEGATE}), call_id=call_id)

            async def execute(action: RunAction) -> ActionResult:
                # A run that repeats the action after a crash finds the same task, because the task has the id of the action.
                task = replace(_build_task(values), id=action.action_id)
                known = _recorded_link(action_context.action_record(position))
                return await self._run_child(
                    action_context, agent, task, action, lambda answer: _output(answer, agent), known=known
                )

            return PreparedAction(action, execute, idempotent=True, commits_start=True)

        return await self.gate.perform(action_context, prepare, position=position)

    async def send(
        self, action_context: ActionContext, target: str, task: Task, *, position: str, relay: Relay | None = None
    ) -> Task:
        """Send a task to another agent, as an action of the run. Return the task when it has ended or waits for input.

        A recovering run gets the task that the earlier run sent. If the action has ended, the task is read from the log.

        Args:
            target: Name or URL of the agent.
            relay: Receives the events of the task.
        """
        answers: list[Task] = []
        record = action_context.action_record(position)
        if record is not None:
            task = replace(task, id=str(record.action.payload.get("task_id", task.id)))

        async def prepare() -> PreparedAction:
            action = RunAction(AGENT_CALL, target, {"agent": target, "task_id": task.id}, frozenset({DELEGATE}))

            def summarize(answer: Task) -> dict[str, Any]:
                answers.append(answer)
                return _record_answer(answer, task)

            async def execute(action: RunAction) -> ActionResult:
                known = _recorded_link(record)
                return await self._run_child(action_context, target, task, action, summarize, known=known, relay=relay)

            return PreparedAction(action, execute, idempotent=True, commits_start=True)

        outcome = await self.gate.perform(action_context, prepare, position=position)
        outcome.value()
        if answers:
            return answers[0]
        answer, given = _recorded_answer(outcome.result, task)
        if relay is not None:
            for event in _events_of(answer, given):
                await relay.give(event)
        return answer

    async def exchange(
        self,
        action_context: ActionContext,
        name: str,
        target: str,
        build: Callable[[RunAction], Task],
        summarize: Callable[[Task], Awaitable[Any]],
        *,
        position: str,
        continues: bool = False,
    ) -> Outcome:
        """Send a task to another agent, as an action whose result in the log is `summarize(answer)`.

        Args:
            name: Name of the agent in the log.
            target: Name or URL of the agent.
            build: Returns the task for an action. A new task must have an id that depends only on the action.
            summarize: Returns the result of the task when it has ended or waits; a JSON value.
            continues: The task waits at the agent for input.

        Raises:
            ProtolinkError: As `Gate.perform`.
        """

        async def prepare() -> PreparedAction:
            async def execute(action: RunAction) -> ActionResult:
                known = _recorded_link(action_context.action_record(position))
                return await self._run_child(
                    action_context, target, build(action), action, summarize, known=known, continues=continues
                )

            action = RunAction(AGENT_CALL, name, {"agent": name}, frozenset({DELEGATE}))
            return PreparedAction(action, execute, idempotent=True, commits_start=True)

        return await self.gate.perform(action_context, prepare, position=position)

    @property
    def _peers(self) -> PeerPort:
        if self.peers is None:
            raise ToolRejectedError("this agent does not call other agents", code="unknown_agent")
        return self.peers

    async def _run_child(
        self,
        action_context: ActionContext,
        target: str,
        task: Task,
        action: RunAction,
        result: Callable[[Task], Any],
        *,
        known: PeerTaskLinked | None,
        relay: Relay | None = None,
        continues: bool = False,
    ) -> ActionResult:
        """Run a task on another agent with a share of this run's budget.

        If the work did not begin, its usage is zero. If its usage is unknown, the whole share counts as used.

        Args:
            result: Returns the result of the task when it has ended or waits, or an awaitable of it; or raises ProtolinkError.
            known: The ids of the task at the agent that an earlier run has recorded. That run may have sent the task.

        Raises:
            BudgetExceededError: The budget has no share left.
        """
        own = task.given_context()
        before = task.usage if task.id != action_context.task_id else None
        share = await reserve_share(action_context, own.budget if own is not None else None)
        used: BudgetUsage | None = BudgetUsage() if known is None else None
        answer: Task | None = None
        recorded, may_have_begun = known, known is not None

        async def note(link: PeerTaskLinked) -> None:
            nonlocal used, recorded, may_have_begun
            is_assigned = used is None and bool(link.task_id)  # by the agent, which has accepted the task
            may_have_begun = may_have_begun or is_assigned
            if link.task_id and link != recorded:
                recorded = link
                await action_context.emit(RunEvent(payload=link, action_id=action.action_id))
            await action_context.flush()
            action_context.token.raise_if_cancelled()
            used = None

        try:
            child = _child_task(task, own, action_context.context, share.budget)
            answer = await self._peers.run(
                target, child, action.action_id, note=note, known=known, relay=relay, continues=continues
            )
            if not _is_lost(answer):
                used = (answer.usage or BudgetUsage()).minus(before)
            value = result(answer)
            value = await value if inspect.isawaitable(value) else value
            return ActionResult(value, recorded_usage(used, share))
        except ProtolinkError as error:
            if answer is None and not may_have_begun and not isinstance(error, MAY_HAVE_BEGUN):
                used = BudgetUsage()
            return ActionResult(None, recorded_usage(used, share), error)
        finally:
            share.settle(used)


def recorded_usage(used: BudgetUsage | None, share: Reservation) -> BudgetUsage | None:
    """Return the usage of delegated work for the log. If it is unknown, that is the whole share, or None without limits."""
    if used is not None:
        return used
    whole = share.whole
    return None if whole == BudgetUsage() else whole


def _recorded_link(record: ActionRecord | None) -> PeerTaskLinked | None:
    return None if record is None else record.peer_task


MAX_ANSWER_BYTES = 1 << 20
"""Maximum size of a task in the result of its action, as JSON. Of a larger one, the log has the output only."""


def _record_answer(answer: Task, sent: Task) -> dict[str, Any]:
    """Return the result of the action for the log: the output of a task, and what the agent has added to it.

    Args:
        sent: The task as it was sent; the handler has its messages and artifacts.
    """
    known = {each.id for each in sent.messages} | {each.id for each in sent.artifacts}
    added = replace(
        answer,
        messages=[each for each in answer.messages if each.id not in known],
        artifacts=[each for each in answer.artifacts if each.id not in known],
        context=None,
    ).to_dict()
    result = {"task_id": answer.id, "state": str(answer.state), "output": copy_value(answer.get_output())}
    if answer.failure is not None:
        result["failure"] = answer.failure.to_value()
    return result | {"task": added} if len(to_json(added).encode()) <= MAX_ANSWER_BYTES else result


def _recorded_answer(result: Any, sent: Task) -> tuple[Task, tuple[int, int]]:
    """Return the task of a result of `_record_answer`, and the numbers of its messages and artifacts that were sent.

    A result without the task, as earlier versions wrote it, becomes a task with the output as its answer.
    """
    found = result if isinstance(result, Mapping) else {}
    added = found.get("task")
    if isinstance(added, Mapping):
        answer = Task.from_dict(added)
    else:
        answer = Task(str(found.get("task_id", sent.id)), parse_state(found.get("state", TaskState.COMPLETED)))
        if (output := found.get("output")) is not None:
            kind = PartType.TEXT if isinstance(output, str) else PartType.JSON
            answer.messages = [Message(role="agent", parts=[Part(kind, output)])]
    if (failure := found.get("failure")) is not None:
        answer.failure = Failure.from_value(failure)
    given = (len(sent.messages), len(sent.artifacts))
    return (
        replace(answer, messages=[*sent.messages, *answer.messages], artifacts=[*sent.artifacts, *answer.artifacts]),
        given,
    )


def _events_of(answer: Task, given: tuple[int, int]) -> Iterator[RunEvent]:
    """Yield what an agent has added to a task, and its end, as events of the task."""
    messages, artifacts = answer.messages[given[0] :], answer.artifacts[given[1] :]
    payloads: list[Payload] = [TaskArtifactUpdated(each) for each in artifacts]
    if messages:
        payloads.append(TaskMessagesAdded(tuple(messages)))
    payloads.append(TaskStatusChanged(TaskState.WORKING, answer.state, answer.failure, usage=answer.usage))
    for payload in payloads:
        yield RunEvent(payload=payload, task_id=answer.id)


def _child_task(task: Task, own: RunContext | None, parent: RunContext, budget: RunBudget) -> Task:
    """Return a copy of the task whose context has at most the permissions of its parent, and the trace of the action.

    Args:
        own: The context that the handler gave the task; it narrows the permissions further.
        budget: The share of the task.
    """
    child = parent.child().copy(budget=budget)
    if own is not None:
        permissions = narrow(child.permissions, own.permissions)
        child = child.copy(permissions=permissions, metadata={**child.metadata, **own.metadata})
    return with_trace(child, current_trace()).attach_to_task(replace(task))


async def reserve_share(action_context: ActionContext, wanted: RunBudget | None = None) -> Reservation:
    """Reserve a share of the run's budget. Wait for a share until the run's time is over.

    Raises:
        BudgetExceededError: The budget has no share left, or the time is over.
    """
    budget = action_context.budget
    while True:
        left = budget.remaining_seconds
        try:
            # A little longer, so that `check_runtime` finds the time over. If the budget's clock was paused, the loop waits again.
            async with asyncio.timeout(None if left is None else left + TICK_S):
                return await budget.reserve(wanted)
        except TimeoutError:
            for warning in budget.check_runtime():
                await report_budget(action_context, warning)


MAY_HAVE_BEGUN = (
    DeadlineExceededError,
    InternalError,
    RemoteError,
    StoreError,
    UnavailableError,
    UncertainExecutionError,
)
"""Errors of a request that may have been accepted all the same. All other errors mean that it was refused."""


def _is_lost(answer: Task) -> bool:
    """Return whether the process of the task's run died, so that its log does not contain its usage."""
    return answer.state is TaskState.FAILED and answer.failure is not None and answer.failure.reason == RUN_LOST


def _build_task(arguments: dict[str, Any]) -> Task:
    if arguments.get("action") == "tool_call":
        return Task.create_tool_call(str(arguments["tool"]), arguments.get("args") or {})
    return Task.create_infer(prompt=str(arguments.get("prompt", "")))


def _output(answer: Task, agent: str) -> Any:
    """Return the output of a delegated task.

    Raises:
        ToolRejectedError: A tool of the agent rejected the call before it had an effect.
        ToolFailedError: The task did not complete.
    """
    part = answer.get_last_part()
    output = part.content if part is not None and isinstance(part.content, ToolOutput) else None
    if answer.state is TaskState.COMPLETED:
        return copy_value(answer.get_output())
    error = output.error if output is not None else None
    if isinstance(error, dict) and error.get("status") == "rejected":
        raise ToolRejectedError.from_dict(error, source=agent)
    why = answer.reason
    if answer.state is TaskState.INPUT_REQUIRED:
        why = str(answer.get_last_part_content() or "more input is required")
    error = ToolFailedError(
        f"agent '{agent}' ended {answer.state}{f': {why}' if why else ''}", tool=agent, task_id=answer.id
    )
    error.failure, error.is_of_peer = answer.known_failure(), True
    raise error
