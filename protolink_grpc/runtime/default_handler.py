"""The default handler of an agent: executes the parts of the latest message or artifact of a task, in order.

A `tool_call` part calls a tool, an `infer` part the model. A text or a file of a user is also a question to the model, if the agent
has one and the message has no other part to execute. The model gets the files of the message and those of the caller's artifacts.
Each tool call is an action in the log, and each result an artifact. The first failure ends the run.

Actions and artifacts are identified by their position in the task, so that a recovering run finds what is already done.
"""

import asyncio
import hashlib
import mimetypes
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from protolink_grpc.errors import (
    InvalidArgumentError,
    ProtolinkError,
    ToolFailedError,
    ToolRejectedError,
    UnsupportedOperationError,
)
from protolink_grpc.llms.context_policy import ContextPolicy
from protolink_grpc.llms.hooks import AgentHooks, InferenceHooks, calling_hook
from protolink_grpc.llms.loop import Inference
from protolink_grpc.llms.loop_host import ActionCall, InferenceRequest, InferSettings, Observation
from protolink_grpc.llms.manifest import LIMIT, UNSUPPORTED, profile_of
from protolink_grpc.llms.port import LanguageModel, ToolSpec
from protolink_grpc.models.action import OmittedContext
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.events import LlmCallCompleted, Payload, RunEvent, Severity
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_schema import OutputType
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.media import FILE_TYPES, Media, media_of_parts
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolCall
from protolink_grpc.models.session import conversation_turn_id
from protolink_grpc.models.task import Task
from protolink_grpc.models.tool_items import reference_to_items
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.runtime.actions.delegation import Actions
from protolink_grpc.runtime.actions.gate import TOOL_CALL, Outcome, error_value
from protolink_grpc.runtime.actions.tool_items import ItemLog
from protolink_grpc.runtime.facts import FLOW_PROMPT
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.thread_conversations import Branches, open_conversation, remember_turn
from protolink_grpc.storage.agent_storage import Conversation

_EXECUTED = ("tool_call", "infer")


class Conversations(Branches, Protocol):
    """The conversations of one principal with the agent, by session."""

    async def read(self, session_id: str) -> Conversation:
        """Return the messages of a conversation, oldest first, without those beyond a limit of the agent."""
        ...


@dataclass(slots=True)
class ModelSettings:
    """The language model of an agent, and the settings of its inferences.

    Args:
        instructions: System prompt of the agent's author.
        conversations: Returns the conversations of a principal. None: inferences have no history.
        peers: Returns the agents to which the model may delegate work.
        context_policy: Limits of the prompts; None means no limits.
        hooks: Functions of the application that see and change the inferences.
    """

    model: LanguageModel | None = None
    instructions: str = ""
    settings: InferSettings = field(default_factory=InferSettings)
    conversations: Callable[[str], Conversations | None] | None = None
    peers: Callable[[], Awaitable[Sequence[AgentCard]]] | None = None
    context_policy: ContextPolicy | None = field(default_factory=ContextPolicy)
    hooks: AgentHooks | None = None


class DefaultHandler:
    """Executes tasks with the tools and the model of one agent."""

    def __init__(self, actions: Actions, settings: ModelSettings) -> None:
        self._actions = actions
        self._toolbox = actions.toolbox
        self._settings = settings

    async def execute(self, task: Task, run: Run) -> Task:
        """Execute the latest message or artifact of the task and set the state of the task.

        A task that has ended is returned unchanged. A task without anything to execute fails.
        """
        if task.is_terminal:
            return task
        item = _input_item(task, run)
        parts = list(item.parts) if item is not None else []
        item_id = _item_position(item, run) if item is not None else ""
        executed = False
        for index, part in enumerate(parts):
            run.token.raise_if_cancelled()
            position = f"{item_id}/{index}"
            match part.type:
                case "tool_call":
                    executed = True
                    failure = await self._call_tool(task, part.as_tool_call(), run, position)
                    if failure is not None:
                        return task.fail(failure)
                case "infer":
                    if self._settings.model is None:
                        return self._refuse(task, run, "has no language model for an infer part")
                    executed = True
                    content = part.content if isinstance(part.content, dict) else {}
                    schema = content.get("output_schema")
                    given = _read_input(self._settings.model, task, item, run, _EXECUTED)
                    await self._infer(task, run, position, _query_of(content), given, output_schema=schema)
        if not executed and self._settings.model is not None and isinstance(item, Message) and item.role == "user":
            query = "\n\n".join(str(part.content) for part in parts if part.type == "text")
            given = _read_input(self._settings.model, task, item, run, ("text",))
            if query.strip() or given.media:
                executed = True
                await self._infer(task, run, f"{item_id}/text", query, given)
        if not executed:
            return self._refuse(task, run, "found no part of this task that it can execute")
        return task.update_state(TaskState.COMPLETED)

    def _refuse(self, task: Task, run: Run, why: str) -> Task:
        """Fail the task with a message that lists what the agent can execute."""
        names = sorted(self._toolbox.names)
        offer = f"send a tool_call part for one of: {', '.join(names)}" if names else "it has no tools"
        sentence = f"agent {run.agent_name} {why}; {offer}"
        # As a text part, too, because callers that send text display text.
        task.add_message(Message(role="agent", parts=[Part.error("UNSUPPORTED", sentence), Part("text", sentence)]))
        return task.fail(sentence)

    async def _call_tool(self, task: Task, call: ToolCall, run: Run, position: str) -> Failure | None:
        """Call a tool as an action and publish its output as an artifact. Return its failure; None for success."""
        action_id, result, shown = None, None, None
        error: ProtolinkError | None = None
        items = self._item_log(call.tool_name, run, position)
        try:
            arguments = _arguments(call)
            outcome = await self._actions.call_tool(
                run, call.tool_name, arguments, position=position, call_id=call.call_id, items=items
            )
        except ToolRejectedError as rejection:
            error, shown = rejection, error_value(rejection)
        else:
            action_id, result, shown, error = outcome.action_id, outcome.result, outcome.error, outcome.exception
        output = Part.tool_output(call.call_id, result, shown)
        stored = None
        if items is not None and items.count and error is None:
            stored = Part.tool_output(call.call_id, reference_to_items(items.artifact_id, items.count))
        await self._publish(task, run, position, output, action_id, stored=stored)
        if error is None:
            return None
        failure = run.describe_failure(error)
        hint = error.suggestion if isinstance(error, ToolRejectedError) else None
        return replace(failure, message=f"{failure.message}. {hint}") if hint else failure

    def _item_log(self, tool_name: str, run: Run, position: str) -> ItemLog | None:
        """Return the log of the items of a generator tool; None for any other tool."""
        if tool_name not in self._toolbox or not self._toolbox.get(tool_name).streams:
            return None
        return ItemLog(_artifact_id(run.task_id, f"{position}/items"), run.live.fold, run.note_size)

    async def _infer(
        self, task: Task, run: Run, position: str, query: str, given: "_Input", *, output_schema: Any = None
    ) -> None:
        """Call the model. Publish its answer as an artifact, and add the turn to the conversation of the session."""
        settings = self._settings
        if settings.model is None:
            raise ValueError("the agent has no model")
        conversations = settings.conversations(run.principal) if settings.conversations is not None else None
        flow_prompt, own = str(task.flow_state.get(FLOW_PROMPT) or ""), run.is_own_flow_prompt(task)
        history = await _read_history(conversations, run, position) if conversations is not None else _History()
        request = replace(
            await self._build_request(run, position, query, output_schema if isinstance(output_schema, dict) else None),
            history=history.messages,
            flow_prompt=flow_prompt if own else "",
            caller_flow_prompt="" if own else flow_prompt,
            media=given.media,
            omitted=[*history.omitted, *given.omitted],
        )
        result = await self._build_inference(settings.model, request, RunLoopHost(run, self._actions)).run()
        run.token.raise_if_cancelled()
        if conversations is not None:
            turn_id = conversation_turn_id(run.task_id, run.turn, position)
            # Otherwise a run after a crash would ask the model again, with the first answer in its history.
            await run.flush()
            await remember_turn(run, conversations, turn_id, result.messages)
        if result.content != "" or not result.files:
            await self._publish(task, run, position, Part.infer_output(result.content), None)

    async def ask(self, run: Run, question: Message, output: OutputType[Any] | None) -> Any:
        """Ask the model a question of the handler, with the agent's tools and peers, and return the answer.

        The conversation of the session is neither read nor extended, and the answer is not published; files that the model writes
        are artifacts of the task. A recovering run reads the answers of the model from the log.

        Args:
            question: Its texts and files.
            output: The type of the answer; None means text.

        Raises:
            UnsupportedOperationError: The agent has no model.
            ProtolinkError: As `Inference.run`.
        """
        model = self._settings.model
        if model is None:
            raise UnsupportedOperationError(f"agent {run.agent_name} has no language model for a question")
        schema = None if output is None else output.schema
        position = run.position("agent.ask", run.agent_name, [content_without_ids(question.parts), schema])
        request = replace(
            await self._build_request(run, position, question.text, schema),
            media=media_of_parts(question.parts, "question"),
            output_type=output,
        )
        result = await self._build_inference(model, request, _QuestionHost(run, self._actions)).run()
        run.token.raise_if_cancelled()
        return result.content if output is None else output.convert(result.content)

    async def _build_request(
        self, run: Run, position: str, query: str, output_schema: dict[str, Any] | None
    ) -> InferenceRequest:
        settings = self._settings
        peers = await settings.peers() if settings.peers is not None else ()
        return InferenceRequest(
            key=position,
            query=query,
            instructions=settings.instructions,
            tools=self._tool_specs(),
            peers=peers,
            offered=self._actions.offered(peers, run.context),
            output_schema=output_schema,
            run_context=run.context,
            agent_name=run.agent_name,
            settings=settings.settings,
            context_policy=settings.context_policy,
        )

    def _build_inference(self, model: LanguageModel, request: InferenceRequest, host: "RunLoopHost") -> Inference:
        # Otherwise a hook that asks the model would be called for its own question.
        hooks = None if calling_hook(request.run_context) else self._settings.hooks
        # Also without hooks: a recovering run reads the decisions of hooks that the agent had before.
        decisions = InferenceHooks(hooks or AgentHooks(), self._toolbox.runner, request, host)
        return Inference(model, request, host, hooks=decisions)

    def _tool_specs(self) -> list[ToolSpec]:
        tools = (self._toolbox.get(name) for name in self._toolbox.names)
        return [ToolSpec(tool.name, tool.description, tool.input_schema, tool.read_only) for tool in tools]

    @staticmethod
    async def _publish(
        task: Task, run: Run, position: str, output: Part, action_id: str | None, *, stored: Part | None = None
    ) -> None:
        """Publish an output as an artifact, unless an earlier run has done so.

        Args:
            stored: The output for the log, if it differs: it may refer to values that the log already has.
        """
        artifact = Artifact(id=_artifact_id(run.task_id, position), parts=[output], action_id=action_id)
        if not run.has_artifact(artifact.id):
            task.add_artifact(artifact)
            await run.artifact(artifact if stored is None else replace(artifact, parts=[stored]))
            if stored is not None:
                # Only the log has the values that it refers to: then the artifact of the task is no change.
                await run.flush()


@dataclass(slots=True)
class _History:
    """The conversation before an inference, and what is beyond a limit of the agent."""

    messages: Sequence[LLMMessage] = ()
    omitted: Sequence[OmittedContext] = ()


async def _read_history(conversations: Conversations, run: Run, position: str) -> _History:
    """Return the conversation before an inference: for a recovering run that of the first attempt, without later turns."""
    conversation_id = await open_conversation(run, conversations)
    conversation = await conversations.read(conversation_id)
    messages = conversation.messages
    is_limited = conversation.message_count > len(messages)
    end = None if run.journal is None else run.journal.history_ends.get(position)
    if end == "":  # the first attempt began the conversation: all messages are of later turns
        return _History()
    if end is not None:
        ids = [message.id for message in messages]
        # The conversation may have been compacted or reset since.
        messages = messages[: ids.index(end) + 1] if end in ids else messages
    return _History(messages, (OmittedContext("history", conversation_id, LIMIT),) if is_limited else ())


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; raise ToolRejectedError if they are not JSON."""
    try:
        return call.json_args()
    except InvalidArgumentError as error:
        invalid = error.within("tool_call")
        raise ToolRejectedError(str(invalid), code=invalid.reason, details={"field": invalid.field}) from None


def _item_position(item: Message | Artifact, run: Run) -> str:
    """Return the prefix of all positions in the item. It is the same in every run of the turn.

    It is the id of the item if the log contains it. An item that the handler created gets another id in every run, so its prefix is
    computed from its content.
    """
    if run.has_message(item.id) or run.has_artifact(item.id):
        return item.id
    kind = item.kind if isinstance(item, Artifact) else item.role
    return run.position("task.item", kind, content_without_ids(item.parts))


def content_without_ids(parts: Sequence[Part]) -> list[Any]:
    """Return the content of parts as JSON values without generated ids, which differ in every run."""
    contents = (part.content for part in parts)
    return [
        ["tool_call", content.tool_name, content.args] if isinstance(content, ToolCall) else part.to_dict()
        for part, content in zip(parts, contents, strict=True)
    ]


def _input_item(task: Task, run: Run) -> Message | Artifact | None:
    """Return the latest message or artifact of the task, without those that earlier runs of the same turn have published.

    Artifacts that a caller sends with a message are files for the model; then the message is the item.
    """
    item, journal = task.get_last_item(), run.journal
    if journal is not None and item is not None and item.id in journal.made:
        item = journal.item
    if isinstance(item, Artifact) and not any(part.type in _EXECUTED for part in item.parts):
        sent = any(artifact.id == item.id for _, artifact in run.input_artifacts())
        message = _input_message(task, run) if sent else None
        return item if message is None else message
    return item


def _input_message(task: Task, run: Run) -> Message | None:
    """Return the latest message of a user in the input of this turn; None if there is no such message."""
    made: Collection[str] = run.journal.made if run.journal is not None else ()
    sent = task.messages[run.live.fold.turn_message :]
    return next((each for each in reversed(sent) if each.role == "user" and each.id not in made), None)


@dataclass(slots=True)
class _Input:
    """The files for the model, and what the model does not get of the input, oldest first."""

    media: list[Media] = field(default_factory=list)
    omitted: list[OmittedContext] = field(default_factory=list)


def _read_input(
    model: LanguageModel | None, task: Task, item: Message | Artifact | None, run: Run, used: Collection[str]
) -> _Input:
    """Return the files of the artifacts that the caller has sent with the item, and those of the item.

    Delegated work, such as a step of a flow, has the artifacts of all steps before it. Files in them that the model does not take
    are left out, because they may be meant for other agents.

    Args:
        used: The types of the parts of the item that are executed or are the question to the model.
    """
    found = _Input()
    if item is None or model is None:
        return found
    for index, artifact in run.input_artifacts():
        if artifact.id == item.id:
            continue
        files = media_of_parts(artifact.parts, f"artifacts[{index}]")
        if len(files) < len(artifact.parts):
            found.omitted.append(OmittedContext("artifact", artifact.id, UNSUPPORTED))
        for each in files:
            if run.context.parent_run_id is None or each.text is not None or profile_of(model).takes(each):
                found.media.append(each)
            else:
                found.omitted.append(OmittedContext("file", artifact.id, UNSUPPORTED, each.estimated_tokens))
    for index, part in enumerate(item.parts):
        if part.type not in used and part.type not in FILE_TYPES:
            found.omitted.append(OmittedContext("part", f"{item.id}/{index}", UNSUPPORTED))
    found.media += media_of_parts(item.parts, _path_of(task, item))
    return found


def _path_of(task: Task, item: Message | Artifact) -> str:
    """Return the path of a message or artifact of the task. It is one of the last ones."""
    if isinstance(item, Artifact):
        return f"artifacts[{_last_index(task.artifacts, item)}]"
    return f"messages[{_last_index(task.messages, item)}]"


def _last_index(items: Sequence[Message | Artifact], item: Message | Artifact) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if items[index].id == item.id), 0)


def _artifact_id(task_id: str, position: str) -> str:
    """Return the id of the artifact of a part. It is the same in every run, so that each result is published once."""
    return hashlib.sha256(f"{task_id}/{position}".encode()).hexdigest()[:32]


def _query_of(content: dict[str, Any]) -> str:
    texts = [str(content[key]) for key in ("prompt", "user") if content.get(key)]
    return "\n\n".join(texts)


class RunLoopHost:
    """The host of an inference in a run (`llms/loop_host`): records its events in the log and passes its actions to the gate."""

    def __init__(self, run: Run, actions: Actions) -> None:
        self._run = run
        self._actions = actions
        self._files: dict[str, Sequence[Media]] = {}

    @property
    def budget(self) -> BudgetEnforcer:
        return self._run.budget

    def check_canceled(self) -> None:
        self._run.token.raise_if_cancelled()

    async def wait_while_paused(self) -> None:
        await self._run.wait_while_paused()

    async def report(
        self,
        payload: Payload,
        *,
        severity: Severity = "info",
        summary: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if not summary and severity == "info" and not metadata:
            await self._run.emit(payload)
            return
        event = RunEvent(payload=payload, severity=severity, summary=summary, metadata=dict(metadata or {}))
        await self._run.emit(event)

    def delta(self, call_id: str, offset: int, text: str) -> None:
        self._run.delta(call_id, offset, text)

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        journal = self._run.journal
        return None if journal is None else journal.answers.get(call_id)

    async def publish_files(self, call_id: str, files: Sequence[Media]) -> None:
        named = [
            each if each.name else replace(each, name=_file_name(each, number)) for number, each in enumerate(files, 1)
        ]
        self._files[call_id] = named
        for index, each in enumerate(named):
            artifact_id = self._file_id(call_id, index)
            await self._run.artifact(
                Artifact(artifact_id, [each.to_part()], name=each.name, media_type=each.media_type)
            )

    def recorded_files(self, call_id: str) -> Sequence[Media]:
        if call_id in self._files:
            return self._files[call_id]
        fold, found = self._run.live.fold, list[Media]()
        while (artifact := fold.artifact(self._file_id(call_id, len(found)))) is not None:
            found += filter(None, map(Media.of_part, artifact.parts))
        return found

    def _file_id(self, call_id: str, index: int) -> str:
        return _artifact_id(self._run.task_id, f"{call_id}/files/{index}")

    def decided(self, key: str) -> RunEvent | None:
        journal = self._run.journal
        return None if journal is None else journal.decisions.get(key)

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        if len(calls) == 1:
            return [await self._act(calls[0])]
        tasks = [asyncio.ensure_future(self._act(call)) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        finally:
            # Parallel calls have no effects, so the others can be canceled if one must not run.
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
            # The call could not be prepared: the model may correct it.
            return Observation("rejected", None, error_value(error))
        except ToolFailedError as error:
            return Observation("failed", None, error_value(run.report_failure(error)))
        return _observation_of(outcome)


def _file_name(media: Media, number: int) -> str:
    return f"{media.kind}-{number}{mimetypes.guess_extension(media.media_type) or ''}"


class _QuestionHost(RunLoopHost):
    """The host of a question of the handler: its text is not published while it is written, because it is not the run's answer."""

    def delta(self, call_id: str, offset: int, text: str) -> None:
        return


def _observation_of(outcome: Outcome) -> Observation:
    if outcome.error is None:
        return Observation("ok", outcome.result)
    return Observation("rejected" if outcome.rejected else "failed", None, outcome.error)
