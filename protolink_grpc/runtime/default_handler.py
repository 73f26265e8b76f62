"""What an agent does by default: run the explicit parts of the latest item of a task, in order, and answer what is said to it.

A part asks for something or it does not; nothing is guessed, but for one thing: a text from a user to an agent with a model is a
question to that model. Each tool call is an action in the log, each answer an artifact. The first failure ends the run.

Everything is named by its position in the task: a run that takes over walks over the same parts and finds what is done.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, ToolFailedError, ToolRejectedError
from protolink_grpc.llms.loop import Inference
from protolink_grpc.llms.loop_host import ActionCall, InferenceRequest, InferSettings, Observation
from protolink_grpc.llms.port import LanguageModel, ToolSpec
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import FOLLOWING_STEPS, LlmCallCompleted, LlmStep, Payload, RunEvent, Severity
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolCall
from protolink_grpc.models.task import Task
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.runtime.actions.delegation import Actions
from protolink_grpc.runtime.actions.gate import TOOL_CALL, Outcome, error_value
from protolink_grpc.runtime.facts import FLOW_PROMPT
from protolink_grpc.runtime.run import Run


class Conversations(Protocol):
    """What an agent remembers of what a principal and it have said, by session."""

    async def history(self, session_id: str) -> list[LLMMessage]: ...
    async def remember(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> Any:
        """Add a turn; the same turn twice is the same as once."""
        ...


@dataclass(slots=True)
class ModelSettings:
    """How an agent thinks.

    Args:
        instructions: Its author's system prompt.
        conversations: What is remembered of a principal; None where each question stands alone.
        peers: Agents that the model may delegate to.
    """

    model: LanguageModel | None = None
    instructions: str = ""
    settings: InferSettings = field(default_factory=InferSettings)
    conversations: Callable[[str], Conversations | None] | None = None
    peers: Callable[[], Awaitable[Sequence[AgentCard]]] | None = None


class DefaultHandler:
    """Runs the explicit parts of tasks with the tools and the model of one agent."""

    def __init__(self, actions: Actions, mind: ModelSettings) -> None:
        self._actions = actions
        self._toolbox = actions.toolbox
        self._mind = mind

    async def execute(self, task: Task, run: Run) -> Task:
        """Do what the latest item asks for, and leave the task in the state that follows; one that has ended stays as it is."""
        if task.is_terminal:
            return task
        item = _asking(task, run)
        parts = list(item.parts) if item is not None else []
        item_id = _place(item, run) if item is not None else ""
        asked = False
        for index, part in enumerate(parts):
            run.token.raise_if_cancelled()
            position = f"{item_id}/{index}"
            match part.type:
                case "tool_call":
                    asked = True
                    failure = await self._call_tool(task, part.as_tool_call(), run, position)
                    if failure is not None:
                        return task.fail(failure)
                case "infer":
                    if self._mind.model is None:
                        return self._refuse(task, run, "has no language model to answer an infer part")
                    asked = True
                    content = part.content if isinstance(part.content, dict) else {}
                    await self._infer(task, run, position, _question(content), content.get("output_schema"))
        if not asked and self._mind.model is not None and isinstance(item, Message) and item.role == "user":
            said = "\n\n".join(str(part.content) for part in parts if part.type == "text")
            if said.strip():
                asked = True
                await self._infer(task, run, f"{item_id}/text", said, None)
        if not asked:
            return self._refuse(task, run, "found nothing to do in this task")
        return task.update_state(TaskState.COMPLETED)

    def _refuse(self, task: Task, run: Run, why: str) -> Task:
        """Say what this agent can be asked instead of completing without an answer."""
        names = sorted(self._toolbox.names)
        offer = f"send a tool_call part for one of: {', '.join(names)}" if names else "it offers no tools either"
        sentence = f"agent {run.agent_name} {why}; {offer}"
        # In words, too: whoever sent a text reads one.
        task.add_message(Message(role="agent", parts=[Part.error("UNSUPPORTED", sentence), Part("text", sentence)]))
        return task.fail(sentence)

    async def _call_tool(self, task: Task, call: ToolCall, run: Run, position: str) -> str | None:
        """One call as an action; its outcome becomes an artifact. Returns why it failed, None for success."""
        action_id, result, shown = None, None, None
        error: ProtolinkError | None = None
        try:
            arguments = _arguments(call)
            outcome = await self._actions.call_tool(
                run, call.tool_name, arguments, position=position, call_id=call.call_id
            )
        except ToolRejectedError as refused:
            error, shown = refused, error_value(refused)
        else:
            action_id, result, shown, error = outcome.action_id, outcome.result, outcome.error, outcome.exception
        output = Part.tool_output(call.call_id, result, shown)
        await self._publish(task, run, position, output, action_id)
        if shown is None:
            return None
        message = str(error) if error is not None else str(shown.get("message", "failed"))
        hint = shown.get("suggestion")
        return f"{message}. {hint}" if hint else message

    async def _infer(self, task: Task, run: Run, position: str, query: str, output_schema: Any) -> None:
        """Ask the model; its answer becomes an artifact, and the turn a part of the session's history."""
        mind = self._mind
        if mind.model is None:
            raise ValueError("there is no model to ask")
        memory = mind.conversations(run.principal) if mind.conversations is not None else None
        flow_prompt, own = str(task.flow_state.get(FLOW_PROMPT) or ""), run.is_own_flow_prompt(task)
        request = InferenceRequest(
            key=position,
            query=query,
            instructions=mind.instructions,
            history=await memory.history(run.session_id) if memory is not None else (),
            tools=self._specs(),
            peers=await mind.peers() if mind.peers is not None else (),
            output_schema=output_schema if isinstance(output_schema, dict) else None,
            run_context=run.context,
            agent_name=run.agent_name,
            flow_prompt=flow_prompt if own else "",
            caller_flow_prompt="" if own else flow_prompt,
            settings=mind.settings,
        )
        result = await Inference(mind.model, request, RunLoopHost(run, self._actions)).run()
        run.token.raise_if_cancelled()
        if memory is not None:
            await memory.remember(run.session_id, f"{run.task_id}/{position}", result.messages)
        await self._publish(task, run, position, Part.infer_output(result.content), None)

    def _specs(self) -> list[ToolSpec]:
        tools = (self._toolbox.get(name) for name in self._toolbox.names)
        return [ToolSpec(tool.name, tool.description, tool.input_schema, tool.read_only) for tool in tools]

    @staticmethod
    async def _publish(task: Task, run: Run, position: str, output: Part, action_id: str | None) -> None:
        artifact = Artifact(id=_artifact_id(run.task_id, position), parts=[output], action_id=action_id)
        if not run.has_artifact(artifact.id):
            task.add_artifact(artifact)
            await run.artifact(artifact)


def _arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call; raises ToolRejectedError where they are not JSON."""
    try:
        return call.json_args()
    except InvalidArgumentError as error:
        refused = error.within("tool_call")
        raise ToolRejectedError(str(refused), code=refused.reason, details={"field": refused.field}) from None


def _place(item: Message | Artifact, run: Run) -> str:
    """What positions in the item begin with: the same in every run of the turn.

    That is its id where the log has it. One that a handler has made has a new id in every run, so it is named by what it asks for.
    """
    if run.has_message(item.id) or run.has_artifact(item.id):
        return item.id
    return run.position("task.item", item.kind if isinstance(item, Artifact) else item.role, asked_for(item.parts))


def asked_for(parts: Sequence[Part]) -> list[Any]:
    """What parts ask for, without the ids that are new each time they are made."""
    contents = (part.content for part in parts)
    return [
        ["tool_call", content.tool_name, content.args] if isinstance(content, ToolCall) else part.to_dict()
        for part, content in zip(parts, contents, strict=True)
    ]


def _asking(task: Task, run: Run) -> Message | Artifact | None:
    """The item that says what to do: the latest, but for what earlier runs of the same turn have answered to it."""
    item, journal = task.get_last_item(), run.journal
    return journal.item if journal is not None and item is not None and item.id in journal.made else item


def _artifact_id(task_id: str, position: str) -> str:
    """The same for the same part in every run: an answer is published once."""
    return hashlib.sha256(f"{task_id}/{position}".encode()).hexdigest()[:32]


def _question(content: dict[str, Any]) -> str:
    texts = [str(content[key]) for key in ("prompt", "user") if content.get(key)]
    return "\n\n".join(texts)


class RunLoopHost:
    """The world of one inference of one run."""

    def __init__(self, run: Run, actions: Actions) -> None:
        self._run = run
        self._actions = actions

    @property
    def budget(self) -> BudgetEnforcer:
        return self._run.budget

    def check(self) -> None:
        self._run.token.raise_if_cancelled()

    async def report(self, payload: Payload, *, severity: Severity = "info", summary: str = "") -> None:
        if isinstance(payload, LlmStep) and payload.kind in FOLLOWING_STEPS:
            return
        envelope = summary or severity != "info"
        await self._run.emit(RunEvent(payload=payload, severity=severity, summary=summary) if envelope else payload)

    def delta(self, call_id: str, offset: int, text: str) -> None:
        self._run.delta(call_id, offset, text)

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        journal = self._run.journal
        return None if journal is None else journal.answers.get(call_id)

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        if len(calls) == 1:
            return [await self._act(calls[0])]
        tasks = [asyncio.ensure_future(self._act(call)) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        finally:
            # They change nothing: the first that may not run ends the others, too.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _act(self, call: ActionCall) -> Observation:
        run = self._run
        try:
            if call.kind == TOOL_CALL:
                outcome = await self._actions.call_tool(
                    run, call.name, call.arguments, position=call.position, call_id=call.call_id
                )
            else:
                outcome = await self._actions.delegate(
                    run, call.name, call.arguments, position=call.position, call_id=call.call_id
                )
        except ToolRejectedError as error:
            # It could not even be prepared: the model may correct the call.
            return Observation("rejected", None, error_value(error))
        except ToolFailedError as error:
            return Observation("failed", None, error_value(run.reported(error)))
        return _observed(outcome)


def _observed(outcome: Outcome) -> Observation:
    if outcome.error is None:
        return Observation("ok", outcome.result)
    return Observation("rejected" if outcome.rejected else "failed", None, outcome.error)
