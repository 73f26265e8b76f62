"""Task: the unit of work between agents, with its conversation, output and state. Tasks are executed elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from protolink_grpc.errors import InvalidArgumentError, TaskExecutionError
from protolink_grpc.models import reader
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import micros_from_iso, utc_now
from protolink_grpc.models.context import CONTEXT_KEY, RunBudget, RunContext
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.models.json_schema import SchemaLike
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import TERMINAL, TRANSITIONS, TaskState, check_transition, parse_state
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolOutput

_REASONS = {
    TaskState.FAILED: "error",
    TaskState.CANCELED: "cancel_reason",
    TaskState.REJECTED: "reject_reason",
}
"""Metadata key of the reason, for each state that ends a task without success."""


@checks_arguments
@dataclass(slots=True)
class Task:
    """A unit of work.

    Args:
        state: Change it with the methods only; they allow the moves in `lifecycle.TRANSITIONS`.
        messages: The conversation, oldest first. It may be a lazy list subclass: read it by index and iteration only.
        artifacts: The output, oldest first; may be lazy like `messages`.
        metadata: Free keys; the library writes `state_history`, `run_context` and its mirrored keys, and the reason of an end.
        flow_state: State of a flow between its steps.
        created_at: ISO 8601 UTC.
        failure: Why the task failed or was rejected: category, retryability, origin and cause. Its message is also in the metadata.
            Not in the JSON form, and not compared.

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
            context: Copied into the metadata.
        """
        task = cls(messages=[Message.user(message) if isinstance(message, str) else message])
        if context is not None or budget is not None:
            given = context or RunContext(run_id=task.id)
            own = given.copy(budget=budget or given.budget, session_id=session_id or given.session_id)
            own.attach_to_task(task)
        elif session_id:
            task.metadata["session_id"] = session_id
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
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Self:
        """Build a task that sends a request to the agent's model; `metadata` belongs to the infer part."""
        message = Message.infer(prompt, user, output_schema, metadata)
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
        self.messages.append(message)
        self._newest = (False, len(self.messages), len(self.artifacts))
        return self

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
        target = state if isinstance(state, TaskState) else parse_state(state)
        current = self.state
        if target == current:
            return self
        check_transition(current, target)
        self.state = target
        history = self.metadata.setdefault("state_history", [])
        if isinstance(history, list):  # otherwise the application uses the key
            history.append(
                {"previous_state": str(current), "new_state": str(target), "timestamp": utc_now()},
            )
        return self

    def begin(self) -> Self:
        return self.update_state(TaskState.WORKING)

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
        """Fail with an error; its message is stored in `metadata["error"]`."""
        return self._end(TaskState.FAILED, error_message)

    def reject(self, reason: str | Failure | None = None) -> Self:
        """Reject the task without doing any work; the reason is stored in `metadata["reject_reason"]`."""
        return self._end(TaskState.REJECTED, reason)

    def cancel(self, reason: str | None = None) -> Self:
        """Move to `canceled`. This changes only this object; it does not stop a run of the task."""
        return self._end(TaskState.CANCELED, reason)

    def _reach(self, state: TaskState, message: Message | None) -> Self:
        ways = TRANSITIONS[self.state]
        if state != self.state and state not in ways and TaskState.WORKING in ways:
            self.update_state(TaskState.WORKING)
        self.update_state(state)
        return self if message is None else self.add_message(message)

    def _end(self, state: TaskState, reason: str | Failure | None) -> Self:
        self.update_state(state)
        if state is not TaskState.CANCELED:
            self.failure = Failure.of_text(reason)
        text = reason.message if isinstance(reason, Failure) else reason
        if text:
            self.metadata[_REASONS[state]] = text
        return self

    def known_failure(self) -> Failure | None:
        """Return why the task failed or was rejected: `failure`, unless the reason in the metadata is a different text."""
        text = self.metadata.get(_REASONS.get(self.state, ""))
        if self.state is TaskState.CANCELED or not isinstance(text, str):
            return self.failure
        known = self.failure
        return known if known is not None and known.message == text else Failure.of_text(text)

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def session_id(self) -> str | None:
        """The session id in the metadata: the top-level key, otherwise that of the run context."""
        context = self.metadata.get(CONTEXT_KEY)
        for source in (self.metadata, context if isinstance(context, dict) else {}):
            value = source.get("session_id")
            if isinstance(value, str) and value:
                return value
        return None

    def raise_for_status(self) -> Self:
        """Return the task, or raise if it ended without success.

        Raises:
            TaskExecutionError: The task failed, was canceled or rejected; carries the task and its failure.
        """
        key = _REASONS.get(self.state)
        if key is None:
            return self
        reason = self.metadata.get(key)
        sentence = f"task {self.id} was {self.state}" if self.state != TaskState.FAILED else f"task {self.id} failed"
        error = TaskExecutionError(
            f"{sentence}: {reason}" if reason else sentence, task=self, task_id=self.id, state=str(self.state)
        )
        error.origin = self._agent_name
        raise error

    @property
    def _agent_name(self) -> str:
        """Name of the last agent in the task's `agent_chain`; empty if there is none."""
        context = self.metadata.get(CONTEXT_KEY)
        chain = context.get("agent_chain") if isinstance(context, dict) else None
        return str(chain[-1]) if isinstance(chain, list) and chain else ""

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

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which shares nothing with the task."""
        return {
            "id": self.id,
            "state": str(self.state),
            "messages": [message.to_dict() for message in self.messages],
            "artifacts": [artifact.to_dict() for artifact in self.artifacts],
            "metadata": plain(self.metadata),
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
        state = source.get("state")
        return cls(
            id=reader.text(source, "id") or new_task_id(),
            state=TaskState.SUBMITTED if state is None else parse_state(state),
            messages=reader.items(source, "messages", Message.from_dict),
            artifacts=reader.items(source, "artifacts", Artifact.from_dict),
            metadata=reader.mapping(source, "metadata"),
            flow_state=reader.mapping(source, "flow_state"),
            created_at=reader.moment(source, "created_at"),
        )


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
            part = _output(item.parts) if answers else None
            if part is not None:
                return item, part
    return None


def _output(parts: Sequence[Part]) -> Part | None:
    """Return the last output part, or None."""
    return next((part for part in reversed(parts) if _is_output(part)), None)


def _is_output(part: Part) -> bool:
    if part.type == "tool_output":
        return isinstance(part.content, ToolOutput) and part.content.error is None
    return part.type in ("text", "json", "infer_output")
