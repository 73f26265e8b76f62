"""Task: the unit of work between agents, with its conversation, output and state. Tasks are executed elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, TypeVar, overload

from protolink_grpc.errors import InvalidArgumentError, TaskExecutionError
from protolink_grpc.models import reader
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import micros_from_iso, utc_now
from protolink_grpc.models.context import CONTEXT_KEY, RunBudget, RunContext
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.json_schema import OutputType, SchemaLike
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import TERMINAL, TRANSITIONS, StateChange, TaskState, check_transition, parse_state
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolOutput
from protolink_grpc.models.task_metadata import REASON_KEYS, TaskMetadata, protolink_metadata, take_facts

T = TypeVar("T")

_MISSING: Final = object()


@checks_arguments
@dataclass(slots=True)
class Task:
    """A unit of work.

    Args:
        state: Change it with the methods only; they allow the moves in `lifecycle.TRANSITIONS`.
        messages: The conversation, oldest first. It may be a lazy list subclass: read it by index and iteration only.
        artifacts: The output, oldest first; may be lazy like `messages`.
        metadata: The user's keys. `TaskMetadata` describes how it answers for ProtoLink's keys as well.
        flow_state: State of a flow between its steps.
        created_at: ISO 8601 UTC.
        failure: Why the task failed or was rejected: category, retryability, origin and cause. The JSON form has its message only,
            and it is not compared.
        context: The context of the latest run; before the first run, that of the caller. None if there is none; read only.
        session_id: The session. While it is not set, the one in the user's metadata, otherwise that of the context.
        state_history: The changes of the state, oldest first.
        cancel_reason: Why the task was canceled; empty if that is not known.
        usage: What the task has used so far, delegated work included; None if nothing was counted.

    Methods that change the task return it. Messages and artifacts may be added in any state; the server is stricter.
    """

    id: str = field(default_factory=new_task_id)
    state: TaskState = TaskState.SUBMITTED
    messages: list[Message] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    flow_state: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=utc_now)
    failure: Failure | None = field(default=None, repr=False, compare=False)
    context: RunContext | None = None
    session_id: str | None = None
    state_history: list[StateChange] = field(default_factory=list)
    cancel_reason: str = ""
    usage: BudgetUsage | None = None
    # Set by add_*: (an artifact was added last, number of messages, number of artifacts). Invalid if the lists changed since.
    _newest: tuple[bool, int, int] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def create(
        cls,
        message: Message | str,
        *,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Self:
        """Build a submitted task with its first message; a text becomes a user's message.

        Args:
            session_id: Overrides the session of `context`.
            budget: Overrides the budget of `context`.
            context: Copied.
        """
        task = cls(messages=[Message.user(message) if isinstance(message, str) else message])
        if context is not None or budget is not None:
            given = context or RunContext(run_id=task.id)
            task.context = given.copy(budget=budget or given.budget, session_id=session_id or given.session_id)
            session_id = task.context.session_id
        task.session_id = session_id
        return task

    @classmethod
    def of(cls, given: "Task | Message | str") -> "Task":
        """Return a task unchanged, or build one from a message or a user's text."""
        return given if isinstance(given, Task) else cls.create(given)

    @classmethod
    def create_infer(
        cls,
        prompt: str | None = None,
        user: str | None = None,
        output_schema: SchemaLike | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        output_type: Any = None,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Self:
        """Build a task that sends a request to the agent's model; `metadata` belongs to the infer part.

        With an `output_type`, `get_output_as` returns the answer as an instance of it. Errors as in `Part.infer`.
        """
        message = Message.infer(prompt, user, output_schema, metadata, output_type=output_type)
        return cls.create(message, session_id=session_id, budget=budget, context=context)

    @classmethod
    def create_tool_call(
        cls,
        name: str,
        args: dict[str, Any] | None = None,
        *,
        call_id: str | None = None,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Self:
        """Build a task that calls one tool."""
        message = Message.tool_call(name, args, call_id)
        return cls.create(message, session_id=session_id, budget=budget, context=context)

    def add_message(self, message: Message) -> Self:
        self._append(message)
        return self

    def _append(self, message: Message) -> None:
        self.messages.append(message)
        self._newest = (False, len(self.messages), len(self.artifacts))

    def add_artifact(self, artifact: Artifact) -> Self:
        self.artifacts.append(artifact)
        self._newest = (True, len(self.messages), len(self.artifacts))
        return self

    def update_state(self, state: TaskState | str) -> Self:
        """Move to `state` and record the change in `state_history`; moving to the current state does nothing.

        Raises:
            InvalidTransitionError: The lifecycle does not allow the move.
            InvalidArgumentError: No such state.
        """
        return self._move(state if isinstance(state, TaskState) else parse_state(state))

    def _move(self, target: TaskState) -> Self:
        current = self.state
        if target == current:
            return self
        check_transition(current, target)
        self.state = target
        self.state_history.append(StateChange(current, target, utc_now()))
        return self

    def begin(self) -> Self:
        return self._move(TaskState.WORKING)

    def require_input(self, message: Message | str | None = None) -> Self:
        """Wait for input of the sender, optionally with a question; moves through `working` where the lifecycle requires it."""
        return self._reach(TaskState.INPUT_REQUIRED, Message.agent(message) if isinstance(message, str) else message)

    def require_auth(self, message: Message | str | None = None) -> Self:
        """Wait for credentials of the sender; moves through `working` where the lifecycle requires it."""
        return self._reach(TaskState.AUTH_REQUIRED, Message.agent(message) if isinstance(message, str) else message)

    def complete(self, response_text: str) -> Self:
        """Complete with an agent's message; moves through `working` where the lifecycle requires it."""
        return self._reach(TaskState.COMPLETED, Message.agent(response_text))

    def fail(self, error_message: str | Failure) -> Self:
        """Fail with an error."""
        return self._end(TaskState.FAILED, error_message)

    def reject(self, reason: str | Failure | None = None) -> Self:
        """Reject the task without doing any work."""
        return self._end(TaskState.REJECTED, reason)

    def cancel(self, reason: str | None = None) -> Self:
        """Move to `canceled`. This changes only this object; it does not stop a run of the task."""
        return self._end(TaskState.CANCELED, reason)

    def _reach(self, state: TaskState, message: Message | None) -> Self:
        ways = TRANSITIONS[self.state]
        if state != self.state and state not in ways and TaskState.WORKING in ways:
            self._move(TaskState.WORKING)
        self._move(state)
        if message is not None:
            self._append(message)
        return self

    def _end(self, state: TaskState, reason: str | Failure | None) -> Self:
        self._move(state)
        text = reason.message if isinstance(reason, Failure) else reason
        if state is TaskState.CANCELED:
            self.cancel_reason = text or ""
        else:
            self.failure = Failure.of_text(reason)
        if text:
            stored_metadata(self).pop(REASON_KEYS[state], None)
        return self

    @property
    def reason(self) -> str:
        """Why the task ended without success, one sentence; else empty. A reason in the user's metadata comes first."""
        key = REASON_KEYS.get(self.state)
        text = None if key is None else self.metadata.get(key)
        return text if isinstance(text, str) else ""

    def known_failure(self) -> Failure | None:
        """Return why the task failed or was rejected: `failure`, unless the reason in the user's metadata is a different text."""
        known, text = self.failure, self.reason
        if self.state is TaskState.CANCELED or not text or (known is not None and known.message == text):
            return known
        return Failure.of_text(text)

    def given_context(self) -> RunContext | None:
        """Return `RunContext.from_task(self)`; None if the task has no context. Raises like that."""
        is_given = self.context is not None or CONTEXT_KEY in stored_metadata(self)
        return RunContext.from_task(self) if is_given else None

    def settled(self) -> Self:
        """Return a copy in which the keys of ProtoLink that the user has written into the metadata have become fields."""
        metadata = dict(stored_metadata(self))
        facts = take_facts(metadata, self.state)
        return replace(self, metadata=metadata, **facts)

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    def raise_for_status(self) -> Self:
        """Return the task, or raise if it ended without success.

        Raises:
            TaskExecutionError: The task failed, was canceled or rejected; carries the task and its failure.
        """
        if self.state not in REASON_KEYS:
            return self
        reason = self.reason
        sentence = f"task {self.id} was {self.state}" if self.state != TaskState.FAILED else f"task {self.id} failed"
        error = TaskExecutionError(
            f"{sentence}: {reason}" if reason else sentence, task=self, task_id=self.id, state=str(self.state)
        )
        error.origin = self._agent_name
        raise error

    @property
    def _agent_name(self) -> str:
        """Name of the last agent in the task's `agent_chain`; empty if there is none."""
        return self.context.agent_chain[-1] if self.context is not None and self.context.agent_chain else ""

    def get_last_item(self) -> Message | Artifact | None:
        """Return the newest message or artifact, in O(1).

        After `add_message` or `add_artifact`, it is the item added last. If the lists were filled in another way, for instance by
        decoding, it is the last artifact unless the last message has a later timestamp. Timestamps are compared as points in time;
        if they are equal, the artifact counts as newer, because it was made from the message.
        """
        if not self.artifacts:
            return self.messages[-1] if self.messages else None
        if not self.messages:
            return self.artifacts[-1]
        return self.artifacts[-1] if self._artifact_is_newest() else self.messages[-1]

    def _artifact_is_newest(self) -> bool:
        newest = self._newest
        if newest is not None and newest[1] == len(self.messages) and newest[2] == len(self.artifacts):
            return newest[0]
        made, said = self.artifacts[-1].timestamp, self.messages[-1].timestamp
        try:
            return made == said or micros_from_iso(made) >= micros_from_iso(said)
        except InvalidArgumentError:  # an application has set an invalid timestamp
            return True

    def take_order(self, other: "Task") -> None:
        """Take the newest item of `other`, of which this task is a copy, as the newest item of this task."""
        self._newest = (isinstance(other.get_last_item(), Artifact), len(self.messages), len(self.artifacts))

    def get_last_part(self) -> Part | None:
        item = self.get_last_item()
        return item.parts[-1] if item is not None and item.parts else None

    def get_last_part_content(self) -> Any:
        """Return the content of the last part of the last item; None if there is none."""
        part = self.get_last_part()
        return None if part is None else part.content

    def get_output(self, default: Any = None) -> Any:
        """Return the content of the newest result, or `default`.

        Results are artifacts of kind `result` and messages with the role agent or assistant, searched newest first. If the newest
        item is an artifact, all artifacts are searched before the messages; otherwise all messages first. The last output
        part of an item counts: text, json, infer_output, or a tool_output without error, whose result is returned.
        """
        first = isinstance(self.get_last_item(), Artifact)
        found = find_output(self.messages, self.artifacts, artifacts_first=first)
        if found is None:
            return default
        part = found[1]
        return part.as_tool_output().result if part.type == "tool_output" else part.content

    @overload
    def get_output_as(self, output_type: type[T]) -> T: ...
    @overload
    def get_output_as(self, output_type: Any) -> Any: ...
    def get_output_as(self, output_type: Any) -> Any:
        """Return the output, as `get_output` finds it, as an instance of a type. A text may contain the value as JSON.

        Raises:
            TaskExecutionError: The task ended without success, or has no output; carries the task.
            InvalidAgentResponseError: The output is not valid; names the field.
            InvalidArgumentError: No JSON Schema can describe the type.
        """
        output: Any = self.raise_for_status().get_output(_MISSING)
        if output is _MISSING:
            raise TaskExecutionError(f"task {self.id} ended without an answer", task=self, task_id=self.id)
        return OutputType[Any](output_type).convert(output, task_id=self.id)

    def to_dict(self) -> dict[str, Any]:
        """Return ProtoLink's JSON form, which shares nothing with the task: typed facts are among the metadata."""
        return {
            "id": self.id,
            "state": str(self.state),
            "messages": [message.to_dict() for message in self.messages],
            "artifacts": [artifact.to_dict() for artifact in self.artifacts],
            "metadata": protolink_metadata(self, plain(stored_metadata(self))),
            "flow_state": plain(self.flow_state),
            "created_at": self.created_at,
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; the task shares nothing with it. Missing fields get defaults, unknown keys are ignored.

        Raises:
            InvalidArgumentError: A value of the wrong kind; names its path, for instance `messages[2].parts[0].type`.
        """
        source = reader.as_object(data)
        state = TaskState.SUBMITTED if source.get("state") is None else parse_state(source["state"])
        metadata = reader.mapping(source, "metadata")
        facts = take_facts(metadata, state)
        return cls(
            id=reader.text(source, "id") or new_task_id(),
            state=state,
            messages=reader.items(source, "messages", Message.from_dict),
            artifacts=reader.items(source, "artifacts", Artifact.from_dict),
            metadata=metadata,
            flow_state=reader.mapping(source, "flow_state"),
            created_at=reader.moment(source, "created_at"),
            **facts,
        )


_STORED_METADATA: Any = vars(Task)["metadata"]
_STORED_CONTEXT: Any = vars(Task)["context"]
_STORED_SESSION: Any = vars(Task)["session_id"]


def stored_metadata(task: Task) -> dict[str, Any]:
    """Return the user's metadata of a task as it is stored: it does not know ProtoLink's keys, and costs nothing."""
    stored: dict[str, Any] = _STORED_METADATA.__get__(task)
    return stored


def postpone_context(task: Task, make: Callable[[], RunContext | None]) -> None:
    """Set `task.context` to what `make` returns when it is read for the first time: most handlers do not look at it."""
    _STORED_CONTEXT.__set__(task, make)


def _metadata_of(task: Task) -> TaskMetadata:
    stored = stored_metadata(task)
    if isinstance(stored, TaskMetadata) and stored.task is task:
        return stored
    own = TaskMetadata(stored)
    own.task = task
    _STORED_METADATA.__set__(task, own)
    return own


def _context_of(task: Task) -> RunContext | None:
    stored: RunContext | Callable[[], RunContext | None] | None = _STORED_CONTEXT.__get__(task)
    if stored is None or isinstance(stored, RunContext):
        return stored
    made = stored()
    _STORED_CONTEXT.__set__(task, made)
    return made


def _session_of(task: Task) -> str | None:
    """Return the session in the user's metadata, otherwise the one of the task, otherwise that of its context."""
    own = stored_metadata(task)
    inner = dict.get(own, CONTEXT_KEY) if own else None
    found = (
        dict.get(own, "session_id") if own else None,
        _STORED_SESSION.__get__(task),
        inner.get("session_id") if isinstance(inner, dict) else None,
    )
    for each in found:
        if isinstance(each, str) and each:
            return each
    return None if task.context is None or inner is not None else task.context.session_id


# These three are stored as they are given, and computed when they are read.
for _name, _read, _slot in (
    ("metadata", _metadata_of, _STORED_METADATA),
    ("context", _context_of, _STORED_CONTEXT),
    ("session_id", _session_of, _STORED_SESSION),
):
    setattr(Task, _name, property(_read, _slot.__set__))


def find_output(
    messages: Sequence[Message],
    artifacts: Sequence[Artifact],
    *,
    artifacts_first: bool,
    since: tuple[int, int] = (0, 0),
) -> tuple[Message | Artifact, Part] | None:
    """Return the newest result and its output part, or None; `Task.get_output` describes the search.

    Args:
        artifacts_first: Whether the newest item is an artifact.
        since: Indexes of the first message and the first artifact to search.
    """
    for looks_at_artifacts in (artifacts_first, not artifacts_first):
        items: Sequence[Message | Artifact] = artifacts if looks_at_artifacts else messages
        for index in range(len(items) - 1, since[looks_at_artifacts] - 1, -1):  # `reversed` would bypass a lazy list
            item = items[index]
            answers = item.kind == "result" if isinstance(item, Artifact) else item.role in ("agent", "assistant")
            if answers:
                for part in reversed(item.parts):
                    if _is_output(part):
                        return item, part
    return None


def _is_output(part: Part) -> bool:
    if part.type == "tool_output":
        return isinstance(part.content, ToolOutput) and part.content.error is None
    return part.type in ("text", "json", "infer_output")
