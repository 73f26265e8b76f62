"""The execution of a flow in a run: positions, recorded results, actions and events. The flows decide which step is next.

Theory of operation. A flow is executed from its beginning in every run of its task. Each step has a path in the flow, and the path
is the position of its action in the log. A finished step is read from the log. A step under way is executed again through the gate,
which finds its action: a peer gets the same request again and returns the same task, and a function whose outcome is unknown is
repeated only if this is safe or approved. Therefore all that decides about the next step is in the log: the results of steps, and
the decisions of functions.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from protolink_grpc.a2a.values import A2A_KEY
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, StoreError
from protolink_grpc.flows.description import join
from protolink_grpc.flows.record import DECIDED, POSITION, WAITING, FlowRecord
from protolink_grpc.flows.results import Ending, StepResult, copy_task
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso, utc_now
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.fold import copy_message
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import FileContent, Part, ToolCall, ToolOutput
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.actions.delegation import Actions
from protolink_grpc.runtime.actions.gate import FLOW_STEP, ActionResult, PreparedAction
from protolink_grpc.runtime.facts import FLOW_PROMPT
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.submission import content_size


@dataclass(frozen=True, slots=True)
class StepCall:
    """One call of a step.

    Args:
        position: Position of its action in the log.
        waiting: The result with the question of the step; None for the first call.
        answer: The answer to this question.
    """

    position: str
    waiting: StepResult | None = None
    answer: tuple[Message, ...] = ()


Leaf = Callable[["Scope", Task, StepCall], Awaitable[StepResult]]
"""Calls a step with the task of the flow."""


class Connection(Protocol):
    """The agents that the steps of a flow can reach, and the actions of the agent that runs the flow."""

    @property
    def actions(self) -> Actions: ...

    async def card(self, target: str) -> AgentCard | None:
        """Return the card of an agent by name or URL; None if it is unknown."""
        ...

    def cancel(self, target: str, task_id: str, reason: str) -> None:
        """Cancel a task of another agent, without waiting for it."""
        ...


class FlowHost(Protocol):
    """The agent that runs a flow."""

    def connection(self, client: AgentClient | None, registry: Any, parent: Connection | None) -> Connection:
        """Return the connection of a flow: with its own client and registry, otherwise with those of the flow around it."""
        ...

    async def address(self, agent: Any) -> str:
        """Return a URL under which an Agent object of this process can be called; the agent need not be started."""
        ...


MAX_VALUE_BYTES = 1 << 20
"""Size up to which the result of a step is stored in its action, a quarter of the largest event."""

current_host: ContextVar[FlowHost | None] = ContextVar("plgrpc_flow_host", default=None)
"""The agent whose handler is running."""


class Receiver(Protocol):
    """The next step of a flow, as the step before it needs to know it."""

    async def introduce(self, scope: "Scope") -> str:
        """Return the flow prompt for the step before."""
        ...

    def receive(self, result: StepResult) -> StepResult:
        """Return the result of the step before in the form that this step reads."""
        ...


@dataclass(slots=True, eq=False)
class FlowRun:
    """One execution of a flow in a run."""

    run: Run
    host: FlowHost
    record: FlowRecord
    _published: set[str] = field(default_factory=set)

    async def publish(self, result: StepResult) -> None:
        """Emit the messages and artifacts of a result that the log does not have yet."""
        run = self.run
        for are_artifacts in (not result.ends_with_artifact, result.ends_with_artifact):
            for item in result.artifacts if are_artifacts else result.messages:
                known = run.live.fold.artifact(item.id) == item if are_artifacts else run.has_message(item.id)
                if not known and item.id not in self._published:
                    self._published.add(item.id)
                    await run.emit(item)


@dataclass(slots=True, eq=False)
class Cut:
    """Whether a group of branches was canceled because a sibling failed."""

    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The place of a flow, or of a step, in the execution.

    Args:
        path: Names of the flows around it and its own, separated by `/`; empty for the whole flow.
        node: Its own name.
        receiver: The next step; None: the result goes to the caller, or the next step is not known yet.
        is_last: Without a receiver: the result goes to the caller.
        publishes: Results are added to the task at once. A branch of a Parallel adds them after all branches.
        share: The budget that each step may use; None means all that is left.
        cuts: Of each Parallel around it.
    """

    flow: FlowRun
    connection: Connection
    path: str = ""
    node: str = ""
    receiver: Receiver | None = None
    is_last: bool = True
    publishes: bool = True
    share: RunBudget | None = None
    cuts: tuple[Cut, ...] = ()

    @property
    def run(self) -> Run:
        return self.flow.run

    @property
    def is_cut(self) -> bool:
        return any(cut.reason for cut in self.cuts)

    def has_reported(self, *kinds: str) -> bool:
        """Return whether the log has an event of this part of one of these kinds: completed, failed, canceled or abandoned."""
        return any((f"workflow.node.{kind}", self.path) in self.flow.record.reported for kind in kinds)

    def at(self, name: str, **changes: Any) -> "Scope":
        """Return the scope of a part with that name."""
        return replace(self, path=join(self.path, name), node=name, **changes)

    def connected(self, client: AgentClient | None, registry: Any) -> "Scope":
        """Return the scope of a flow with its own client or registry."""
        return replace(self, connection=self.flow.host.connection(client, registry, self.connection))

    # -- Events ----------------------------------------------------------------------------------------------------------

    async def report(self, event: str, **payload: Any) -> None:
        """Emit an event of this part, unless the log has it."""
        key = (event, self.path)
        if key not in self.flow.record.reported:
            self.flow.record.reported.add(key)
            fields = {"node": self.node, "path": self.path, **payload}
            await self.run.emit(RunEvent(type=event, payload=fields, summary=f"{event} {self.path}".rstrip()))

    async def report_end(self, ending: Ending) -> None:
        """Emit the event for the end of this part. A part that waits has not ended."""
        if ending.is_completed:
            await self.report("workflow.node.completed")
        elif not ending.is_waiting:
            kind = "canceled" if ending.state is TaskState.CANCELED else "failed"
            await self.report(f"workflow.node.{kind}", state=ending.state.value, reason=ending.reason)

    async def report_waiting(self, ending: Ending) -> None:
        """Emit the event that names the step for which the flow waits."""
        fields = {"node": ending.node, "path": ending.path, "state": ending.state.value}
        await self.run.emit(RunEvent(type=WAITING, payload=fields, summary=f"{WAITING} {ending.path}"))

    async def decide(self, work: Task, decide: Callable[[Task], Any], **payload: Any) -> Any:
        """Return the decision of a function at this place, a JSON value.

        The function is called once with a copy of `work`; later runs read its decision from the log.
        """
        decisions = self.flow.record.decisions
        if self.path not in decisions:
            decision = decide(copy_task(work))
            if inspect.isawaitable(decision):
                decision = await decision
            decisions[self.path] = decision
            await self.report(DECIDED, decision=decision, **payload)
        return decisions[self.path]

    # -- Steps -----------------------------------------------------------------------------------------------------------

    async def take(self, leaf: Leaf, work: Task) -> Ending:
        """Execute a step, or read its result from the log, and add the result to `work`. A recorded answer continues it."""
        position = f"{POSITION}{self.path}"
        result = await self._result(leaf, work, StepCall(position))
        await self._add(result, work)
        for number, answer in enumerate(self.flow.record.answers.get(self.path, ()), 1):
            if not result.ending(self.path).is_waiting:
                break
            for message in answer:
                work.add_message(copy_message(message))
            result = await self._result(leaf, work, StepCall(f"{position}?{number}", result, answer))
            await self._add(result, work)
        return result.ending(self.path)

    async def _result(self, leaf: Leaf, work: Task, call: StepCall) -> StepResult:
        known = self.flow.record.results.get(call.position)
        if known is not None:
            return known
        self.run.token.raise_if_cancelled()
        await self.run.wait_while_paused()
        try:
            return await leaf(self, work, call)
        except StoreError:
            raise
        except ProtolinkError as error:
            self.run.token.raise_if_cancelled()
            return StepResult(TaskState.FAILED, failure=self.run.describe_failure(error))

    async def _add(self, result: StepResult, work: Task) -> None:
        if self.receiver is not None:
            result = self.receiver.receive(result)
        result.apply(work)
        if self.publishes:
            await self.flow.publish(result)

    async def perform_function(
        self,
        work: Task,
        call: StepCall,
        name: str,
        function: Callable[[Task], Awaitable[StepResult]],
        *,
        idempotent: bool,
    ) -> StepResult:
        """Call a function as an action of the run. Its result is the result of the action.

        Args:
            name: Name of the function in the log.
        """
        results: list[StepResult] = []

        async def execute(action: RunAction) -> ActionResult:
            results.append(await function(work))
            return ActionResult(await self._value_of(results[0]))

        async def prepare() -> PreparedAction:
            return PreparedAction(RunAction(FLOW_STEP, name, {"path": self.path}), execute, idempotent=idempotent)

        outcome = await self.connection.actions.gate.perform(self.run, prepare, position=call.position)
        value = outcome.value()
        return results[0] if results else StepResult.from_dict(value, {})

    async def perform_call(  # noqa: PLR0917 -- all of them are needed, and there is one caller
        self,
        work: Task,
        call: StepCall,
        name: str,
        target: str,
        tool_call: ToolCall | None,
        prompt: str,
    ) -> StepResult:
        """Send the task of the flow to another agent as an action of the run, or continue the task that waits there.

        Args:
            name: Name of the agent in the log.
            tool_call: The tool call to send; None sends the latest output of the flow.
            prompt: The flow prompt for the agent.
        """
        results: list[StepResult] = []
        task_id, waiting = "", call.waiting

        def build(action: RunAction) -> Task:
            nonlocal task_id
            if waiting is not None:
                # The whole conversation: some agents of other systems do not keep the task.
                task_id, usage = waiting.task_id, waiting.usage
                task = Task(task_id, waiting.state, list(work.messages), list(work.artifacts), usage=usage)
                task.metadata.update(work.metadata | waiting.peer)
                task.take_order(work)
                return task
            task_id = action.action_id
            task = _child_of(work, task_id, tool_call, prompt)
            if self.share is not None:
                task.context = RunContext(run_id=task_id, session_id=self.run.session_id, budget=self.share)
            return task

        async def summarize(answer: Task) -> dict[str, Any]:
            result = StepResult.of(work, answer, leave_out=_input_id(task_id))
            at_peer = {A2A_KEY: found} if (found := result.metadata.pop(A2A_KEY, None)) is not None else {}
            if result.state in INTERRUPTED:
                result.target, result.peer = target, at_peer
            results.append(result)
            return await self._value_of(result)

        actions = self.connection.actions
        try:
            outcome = await actions.exchange(
                self.run, name, target, build, summarize, position=call.position, continues=waiting is not None
            )
        except asyncio.CancelledError:
            if self.is_cut and task_id:
                self.connection.cancel(target, task_id, next(cut.reason for cut in self.cuts if cut.reason))
            raise
        value = outcome.value()
        return results[0] if results else StepResult.from_dict(value, {})

    async def _value_of(self, result: StepResult) -> dict[str, Any]:
        """Return a result as the value of its action. The items of a large one are events of their own, which come before."""
        if not self.publishes or content_size([result.messages, result.artifacts]) <= MAX_VALUE_BYTES:
            return result.to_dict()
        shown = result if self.receiver is None else self.receiver.receive(result)
        await self.flow.publish(shown)
        return shown.to_dict(by_id=True)


def _input_id(task_id: str) -> str:
    """Return the id of the message that a flow adds to the task of an agent as its input."""
    return f"input-{task_id}"


def _child_of(work: Task, task_id: str, tool_call: ToolCall | None, prompt: str) -> Task:
    """Return the task for another agent: the content of `work`, which ends with something that the agent can execute."""
    flow_state = {key: value for key, value in work.flow_state.items() if key != FLOW_PROMPT}
    if prompt:
        flow_state[FLOW_PROMPT] = prompt
    task = Task(task_id, TaskState.SUBMITTED, list(work.messages), list(work.artifacts), flow_state=flow_state)
    task.metadata.update(work.metadata)
    task.take_order(work)
    parts = [Part("tool_call", tool_call)] if tool_call is not None else _input_parts(work)
    if parts:
        task.add_message(Message(_input_id(task_id), "user", parts, _time_after(work)))
    return task


def _input_parts(work: Task) -> list[Part]:
    """Return the latest output as an instruction: for the model of an agent, and as text for agents without one.

    Empty if the latest item is already an instruction or a message of a user.
    """
    last = work.get_last_item()
    if last is None or (isinstance(last, Message) and last.role == "user"):
        return []
    if any(part.type in ("infer", "tool_call") for part in last.parts):
        return []
    content = next((part.content for part in reversed(last.parts) if part.type not in ("route", "decision")), None)
    if isinstance(content, ToolOutput):
        content = content.result if content.error is None else content.error
    if isinstance(content, FileContent):  # the file itself is an artifact of the task
        content = f"{content.name or 'a file'} ({content.media_type})"
    if content is None:
        return []
    text = content if isinstance(content, str) else to_json(content)
    return [Part.infer(prompt=text), Part.text(text)]


def _time_after(work: Task) -> str:
    """Return the current time, or a later one: readers of a task order messages and artifacts by their times."""
    now, last = utc_now(), max((each.timestamp for each in work.artifacts[-1:]), default="")
    try:
        return (
            now
            if not last or micros_from_iso(last) < micros_from_iso(now)
            else iso_from_micros(micros_from_iso(last) + 1)
        )
    except InvalidArgumentError:  # an application has set an invalid timestamp
        return now
