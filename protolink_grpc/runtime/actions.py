"""What an agent can do: its tools and its peers, each call prepared for the gate. Nothing here decides whether a call may run."""

import asyncio
import inspect
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
    said,
)
from protolink_grpc.models.action import BudgetUsage, RunAction
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import CONTEXT_KEY, RunBudget, RunContext
from protolink_grpc.models.events import RunEvent, TaskProgress
from protolink_grpc.models.fold import USAGE_KEY
from protolink_grpc.models.json_value import normalize, plain
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.models.payload import copied
from protolink_grpc.models.task import Task
from protolink_grpc.policy.budget import Reservation
from protolink_grpc.policy.capabilities import narrow
from protolink_grpc.runtime.engine import LOST
from protolink_grpc.runtime.gate import AGENT_CALL, TOOL_CALL, Done, Gate, Prepared, Scene, report_budget
from protolink_grpc.runtime.outcome import Outcome
from protolink_grpc.tools.context import NO_MEMORY, Memory, ToolContext
from protolink_grpc.tools.schema import CheckedArguments
from protolink_grpc.tools.tool import Tool
from protolink_grpc.tools.toolbox import Toolbox

DELEGATE = "agent.delegate"
"""Capability that every delegation needs."""


@dataclass(frozen=True, slots=True)
class Relay:
    """Who wants to see the events of delegated work as they come.

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


class Actions:
    """The actions of one agent.

    Args:
        peers: None for an agent that knows no others.
        memory: Makes a tool's memory of a principal in a session, where the agent keeps one.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        gate: Gate,
        peers: PeerPort | None = None,
        memory: Callable[[str, str], Memory] | None = None,
    ) -> None:
        self.toolbox = toolbox
        self.gate = gate
        self.peers = peers
        self._memory = memory

    async def call_tool(
        self, scene: Scene, name: str, arguments: Mapping[str, Any], *, position: str, call_id: str = ""
    ) -> Outcome:
        """Run a tool through the gate.

        Raises:
            ToolRejectedError: There is no such tool, or the arguments are wrong: `prepare` could not even ask.
            ProtolinkError: As `Gate.perform`.
        """

        async def prepare() -> Prepared:
            tool = self.toolbox.get(name)
            return await self._prepared(tool, plain(dict(arguments)), scene, call_id)

        return await self.gate.perform(scene, prepare, position=position)

    async def _prepared(self, tool: Tool, arguments: dict[str, Any], scene: Scene, call_id: str) -> Prepared:
        action, checked = await _built(tool, tool.check(arguments), scene.context, call_id)

        async def execute(action: RunAction) -> Done:
            context = self._tool_context(action, scene, call_id)
            return Done(await tool.run(checked.keywords, context=context, runner=self.toolbox.runner))

        def edited(changed: dict[str, Any]) -> RunAction:
            nonlocal checked
            checked = tool.check(changed)
            return action.with_payload({**action.payload, "arguments": checked.shown})

        def is_same(payload: dict[str, Any]) -> bool:
            """Whether a recorded action is this one; its arguments may be written as they were sent, or in another order."""
            own = {**action.payload, "arguments": checked.shown}
            if payload == own:
                return True
            if payload | {"arguments": None} != own | {"arguments": None}:
                return False
            try:
                return tool.validate(payload.get("arguments", {})) == checked.keywords
            except ProtolinkError:
                return False

        return Prepared(action, execute, edited, is_same, repeatable=tool.idempotent, silent=tool.read_only)

    def _tool_context(self, action: RunAction, scene: Scene, call_id: str) -> ToolContext:
        async def progress(percent: float | None, message: str = "") -> None:
            report = TaskProgress(percent, message)
            report.check()
            await scene.emit(RunEvent(payload=report, action_id=action.action_id))

        context = scene.context
        session = context.session_id or ""
        return ToolContext(
            task_id=scene.task_id,
            run_id=context.run_id,
            session_id=session,
            agent_name=context.agent_chain[-1] if context.agent_chain else "",
            principal=scene.principal,
            call_id=call_id,
            action_id=action.action_id,
            run_context=context,
            cancellation=scene.token,
            memory=self._memory(scene.principal, session) if self._memory is not None and session else NO_MEMORY,
            progress=progress,
        )

    async def delegate(
        self, scene: Scene, agent: str, arguments: Mapping[str, Any], *, position: str, call_id: str = ""
    ) -> Outcome:
        """Have another agent do something: one of its tools, or an inference. Its output is the result.

        Args:
            arguments: `{"action": "tool_call", "tool", "args"}` or `{"action": "infer", "prompt"}`.

        Raises:
            ProtolinkError: As `Gate.perform`.
        """

        async def prepare() -> Prepared:
            asked = plain(dict(arguments))
            action = RunAction(AGENT_CALL, agent, {"agent": agent, **asked}, frozenset({DELEGATE}), call_id=call_id)

            async def execute(action: RunAction) -> Done:
                # Named after the action: whoever repeats it after a crash finds the task that it began.
                task = replace(_task_of(asked), id=action.action_id)
                return await self._delegated(scene, agent, task, action, lambda answer: _output(answer, agent))

            return Prepared(action, execute, repeatable=True)

        return await self.gate.perform(scene, prepare, position=position)

    async def send(self, scene: Scene, target: str, task: Task, *, position: str, relay: Relay | None = None) -> Task:
        """Send a task that a handler has made to another agent, as an action of the run; returns it as it ended.

        A run that comes to this point again finds the task that the first one sent.
        """
        sent: list[Task] = []
        known = scene.recorded(position)
        if known is not None:
            task = replace(task, id=str(known.action.payload.get("task_id", task.id)))

        async def prepare() -> Prepared:
            action = RunAction(AGENT_CALL, target, {"agent": target, "task_id": task.id}, frozenset({DELEGATE}))

            def summed_up(answer: Task) -> dict[str, Any]:
                sent.append(answer)
                return {"task_id": answer.id, "state": str(answer.state), "output": copied(answer.get_output())}

            async def execute(action: RunAction) -> Done:
                return await self._delegated(scene, target, task, action, summed_up, relay=relay)

            return Prepared(action, execute, repeatable=True)

        outcome = await self.gate.perform(scene, prepare, position=position)
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
        scene: Scene,
        target: str,
        task: Task,
        action: RunAction,
        result: Callable[[Task], Any],
        *,
        relay: Relay | None = None,
    ) -> Done:
        """Run a task elsewhere under a share of this run's budget.

        What never began has used nothing. Of work that got lost nobody knows what it has used: it counts as all of its share.

        Args:
            result: What the task, as it ended, gave; or raises ProtolinkError.

        Raises:
            BudgetExceededError: There is no share to be had.
        """
        own = RunContext.from_task(task) if CONTEXT_KEY in task.metadata else None
        before = _usage(task) if task.id != scene.task_id else None
        share = await _reserve(scene, own.budget if own is not None else None)
        used = BudgetUsage()
        answer: Task | None = None

        def sending() -> None:
            nonlocal used
            used = share.whole

        try:
            child = _child_task(task, own, scene.context, share.budget)
            answer = await self._peers.run(target, child, action.action_id, sending=sending, relay=relay)
            if not _is_lost(answer):
                used = (_usage(answer) or BudgetUsage()).minus(before)
            return Done(result(answer), used)
        except ProtolinkError as error:
            if answer is None and not isinstance(error, UNCLEAR):
                used = BudgetUsage()
            return Done(None, used, error)
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
    return child.attach_to_task(replace(task, metadata={**task.metadata}))


async def _reserve(scene: Scene, wanted: RunBudget | None) -> Reservation:
    """A share of the run's budget. The wait for one ends with the run's time.

    Raises:
        BudgetExceededError: Nothing is left, or the time was over first.
    """
    budget = scene.budget
    while True:
        left = budget.remaining_seconds
        try:
            # A moment longer: the time must be over when it is looked at. The clock may stand meanwhile, then it is not.
            async with asyncio.timeout(None if left is None else left + TICK_S):
                return await budget.reserve(wanted)
        except TimeoutError:
            for warning in budget.check_runtime():
                await report_budget(scene, warning)


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


def _usage(task: Task) -> BudgetUsage | None:
    found = task.metadata.get(USAGE_KEY)
    return None if found is None else BudgetUsage.from_dict(found)


def _is_lost(answer: Task) -> bool:
    """The process that worked on it ended first: its log does not say what was used."""
    return answer.state is TaskState.FAILED and str(answer.metadata.get("error", "")).startswith(LOST)


async def _built(
    tool: Tool, checked: CheckedArguments, context: RunContext, call_id: str
) -> tuple[RunAction, CheckedArguments]:
    """The action of a tool call, and its arguments: the tool's own builder may show more of it and choose other arguments, and can
    drop none of its capabilities.
    """
    arguments = checked.shown
    if tool.action_builder is None:
        payload = {"arguments": arguments}
        text = tool.description[:200]
        return RunAction(TOOL_CALL, tool.name, payload, tool.capabilities, description=text, call_id=call_id), checked
    try:
        built: Any = tool.action_builder(plain(arguments), context.copy())
        if inspect.isawaitable(built):
            built = await built
    except (ProtolinkError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise ToolFailedError(f"the preview of tool '{tool.name}' failed: {said(error)}", tool=tool.name) from error
    if not isinstance(built, RunAction):
        raise ToolFailedError(
            f"the action_builder of tool '{tool.name}' must return a RunAction, not {type(built).__name__}",
            tool=tool.name,
        )
    shown: Any = normalize(built.payload)
    payload = {"arguments": arguments, **shown}
    if payload["arguments"] != arguments:
        checked = tool.check(payload["arguments"])
        payload["arguments"] = checked.shown
    metadata = built.metadata if built.name == tool.name else {**built.metadata, "tool": tool.name}
    action = replace(
        built,
        payload=payload,
        capabilities=built.capabilities | tool.capabilities,
        artifacts=tuple(replace(each, action_id=built.action_id) for each in built.artifacts),
        metadata=metadata,
        call_id=call_id,
    )
    return action, checked


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
        raise ToolRejectedError.from_dict(error, said_by=agent)
    why = answer.metadata.get("error") or answer.metadata.get("reject_reason") or answer.metadata.get("cancel_reason")
    if answer.state is TaskState.INPUT_REQUIRED:
        why = f"it asks: {answer.get_last_part_content() or 'for more input'}"
    error = ToolFailedError(
        f"agent '{agent}' ended {answer.state}{f': {why}' if why else ''}", tool=agent, task_id=answer.id
    )
    error.failure, error.is_of_peer = answer.known_failure(), True
    raise error
