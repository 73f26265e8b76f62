"""A request to start or to continue a task, as a value: what the caller has sent, checked and converted to facts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.checks import OutputCheck
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.context import RunContext, check_loose_budget
from protolink_grpc.models.events import TaskArtifactUpdated, TaskMessagesAdded, TaskPatched, TaskSubmitted
from protolink_grpc.models.fold import CopyOnRead, TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import FileContent, Part, ToolCall, ToolOutput
from protolink_grpc.models.payload import Payload, PayloadRef, TypedMessage, UnknownForm
from protolink_grpc.models.permissions import check_permissions, permissions_json
from protolink_grpc.models.session import DEFAULT_THREAD
from protolink_grpc.models.task import Task, stored_metadata
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.net.trace_context import TraceContext, with_trace
from protolink_grpc.net.tracing import WaitingRun
from protolink_grpc.runtime.log import Fact, unexpected_end_error
from protolink_grpc.storage.session_log import Opening


@dataclass(slots=True)
class Submission:
    """A request to start or to continue a task.

    Args:
        task_id: Id of the task; empty lets the service choose the id of a new one.
        target: Whether the task is to be created, to be continued, or either.
        expected_sequence: Required last sequence of a task that is continued; 0 means any.
        messages: New messages; messages whose ids are in the log are left out.
        request_id: Idempotency key: the same id from the same principal is the same request.
        encoded: The messages as bytes, if the edge has them; see `TaskSubmitted`.
        scopes: Scopes of the caller's credentials.
        waiting_runs: Runs, of any agent, that wait for the end of this turn. Set by the service.
        trace: The caller's trace context. Set by the service.
        created_at: Time at which the caller created the task, ISO 8601; empty means now.
        opening: How it begins its turn in the session; None means that of a task that was sent with a session.
        state: State of the caller's copy of the task. A new task must not be terminal; for an existing task the log decides.
    """

    messages: list[Message] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    task_id: str = ""
    target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE
    expected_sequence: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    flow_state: dict[str, Any] = field(default_factory=dict)
    session_id: str = ""
    context: RunContext | None = None
    request_id: str = ""
    encoded: tuple[bytes, ...] = ()
    scopes: frozenset[str] = frozenset()
    state: TaskState = TaskState.SUBMITTED
    created_at: str = ""
    waiting_runs: tuple[WaitingRun, ...] = ()
    trace: TraceContext | None = None
    opening: Opening | None = None

    @property
    def size(self) -> int:
        """Approximate size in bytes: of the encoded messages if there are any, else of the texts and contents."""
        found = sum(map(len, self.encoded)) if self.encoded else content_size(self.messages)
        if self.artifacts or self.metadata or self.flow_state:
            found += content_size([self.artifacts, self.metadata, self.flow_state])
        return found

    def set_caller(self, principal: str) -> None:
        """Set principal and scopes of the context from the credentials, overwriting the caller's values, and the caller's trace.

        The caller's cancellation fields are cleared: only the log records a cancellation.
        """
        context = self.context
        if context is None and not self.scopes and self.trace is None:
            return
        scopes = tuple(sorted(self.scopes))
        if context is None:
            context = RunContext(session_id=self.session_id or None)
        if context is not None and (context.canceled or context.cancel_reason):
            context = replace(context, canceled=False, cancel_reason=None)
        if context is not None and (scopes or context.principal or context.scopes):
            context = replace(context, principal=principal, scopes=scopes)
        self.context = with_trace(context, self.trace)

    def check_target(self) -> None:
        """Check that target, id and expected sequence fit together. Raises InvalidArgumentError."""
        if not self.task_id and self.target is TaskTarget.CONTINUE:
            raise InvalidArgumentError("must name the task to continue", field="input.task_id")
        if self.expected_sequence and self.target is TaskTarget.CREATE:
            raise InvalidArgumentError("is for a task that is continued", field="input.expected_sequence")
        if self.expected_sequence < 0:
            raise InvalidArgumentError("must not be negative", field="input.expected_sequence")

    def check_sequence(self, task_id: str, last: int) -> None:
        """Check that the log ends with the expected sequence. Raises SequenceConflictError."""
        if self.expected_sequence and self.expected_sequence != last:
            raise unexpected_end_error(task_id, self.expected_sequence, last)

    @classmethod
    def of(cls, task: Task, *, request_id: str = "") -> "Submission":
        """Return the submission of a caller's task. Its history is left out: the log decides it."""
        return cls(
            messages=task.messages,
            artifacts=task.artifacts,
            task_id=task.id,
            metadata=stored_metadata(task),
            flow_state=task.flow_state,
            session_id=task.session_id or "",
            context=task.given_context(),
            request_id=request_id,
            state=task.state,
            created_at=task.created_at,
        )

    def run_id_for(self, fold: TaskFold) -> str:
        """Return the run id that the caller has chosen; empty without a choice, or if an earlier run of the task has it."""
        context = self.context
        return context.run_id if context is not None and context.run_id not in fold.run_ids else ""

    def submitted(self, task_id: str, principal: str, runtime_id: str = "") -> TaskSubmitted:
        """Return the first event of the task that this submission creates, in an installation.

        Raises:
            InvalidArgumentError: An `output_schema`, a limit or a permission is invalid; names the field.
        """
        free: dict[str, Any] = {}
        if self.metadata:
            check_loose_budget(self.metadata, "input.metadata_json")
            free = own_metadata(self.metadata)
        for index, message in enumerate(self.messages):
            check_output_schemas(message, f"input.messages[{index}]")
        created_at = self.created_at or utc_now()
        task = Task(task_id, TaskState.SUBMITTED, self.messages, self.artifacts, free, self.flow_state, created_at)
        session_id, context = self.session_id or task_id, self.context
        if context is not None:
            context = context.with_loose_keys(free)
            if context.permissions:
                # Normalized, so that the first run and later runs, which read the log, see the same values.
                rules = check_permissions(context.permissions, "input.options.permissions")
                context = replace(context, permissions=permissions_json(*rules))
            if not context.session_id:
                context = replace(context, session_id=session_id)
        thread_id = "" if self.opening is None or self.opening.thread_id == DEFAULT_THREAD else self.opening.thread_id
        return TaskSubmitted(
            task, principal, self.request_id, session_id, context, self.encoded, thread_id, runtime_id=runtime_id
        )

    def additions(self, fold: TaskFold) -> list[Fact]:
        """Return what this submission adds to an existing task, as facts. Raises as `submitted`."""
        added = [index for index, each in enumerate(self.messages) if each.id not in fold.message_ids]
        for index in added:
            check_output_schemas(self.messages[index], f"input.messages[{index}]")
        messages = tuple(self.messages[index] for index in added)
        encoded = tuple(self.encoded[index] for index in added) if self.encoded else ()
        facts: list[Fact] = [TaskMessagesAdded(messages, self.request_id, encoded)]
        facts += [TaskArtifactUpdated(each) for each in self.artifacts if not fold.has_artifact(each.id)]
        free = own_metadata(self.metadata)
        patch = TaskPatched(_changed(fold.metadata, free), _changed(fold.flow_state, self.flow_state))
        if patch.metadata or patch.flow_state:
            facts.append(patch)
        return facts


def content_size(value: object) -> int:
    """Return the approximate encoded size of messages, artifacts or JSON. Takes time by the number of items, not by the bytes."""
    size: int = 0
    rest: list[Any] = [value]
    while rest:
        each = rest.pop()
        if each.__class__ is str:
            size += len(each)
            continue
        items = _ITEMS_OF.get(each.__class__)
        if items is not None:
            rest += items(each)
        else:
            size += len(each) if isinstance(each, _TEXT) else ITEM_BYTES
    return size


_ITEMS_OF: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: lambda items: items,
    tuple: lambda items: items,
    dict: lambda items: (*items.keys(), *items.values()),
    CopyOnRead: lambda items: items,
    Message: lambda message: (*message.parts, message.metadata) if message.metadata else message.parts,
    Artifact: lambda artifact: (*artifact.parts, artifact.metadata),
    Part: lambda part: (part.content, part.metadata) if part.metadata else (part.content,),
    Payload: lambda payload: (payload.value, payload.preview),
    TypedMessage: lambda message: (message.type_name, message.value),
    PayloadRef: lambda ref: (ref.uri,),
    UnknownForm: lambda form: (form.encoded,),
    ToolCall: lambda call: (call.args,),
    ToolOutput: lambda output: (output.result, output.error),
    FileContent: lambda file: (file.data, file.uri) if file.payload is None else (file.payload,),
}
"""Returns the parts of a value that are counted, by type."""

_TEXT = (str, bytes)

ITEM_BYTES = 8
"""Size that is counted for a number or another small value."""


def check_output_schemas(message: Message, field: str) -> None:
    """Check the schemas of a message. Raises InvalidArgumentError, which names the path below `field`."""
    for number, part in enumerate(message.parts):
        if part.type == "infer" and isinstance(part.content, dict) and "output_schema" in part.content:
            try:
                OutputCheck.of(part.content["output_schema"])
            except InvalidArgumentError as error:
                raise error.within(f"{field}.parts[{number}]") from None


def _changed(known: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in now.items() if known.get(key) != value}
