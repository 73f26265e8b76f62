"""Run events: the immutable facts that make up a task. `wire` encodes them.

A payload is a small value with one class per kind; an application's own kinds have a plain dict as payload. Payloads are never
changed after construction. They are not frozen because constructing a frozen dataclass takes four times as long, and each request
constructs four. An event owns the values that it is built from: after passing messages and artifacts to it, do not modify them.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.lazy import load
from protolink_grpc.models.action import (
    ApprovalDecision,
    ApprovalRequest,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextManifest,
    OmittedItems,
    PolicyDecision,
    RunAction,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import COMPACTION_STRATEGIES
from protolink_grpc.models.cost import Cost, is_currency
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_form import JsonForm, read_fields, to_object
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.kinds import NOT_IN_JSON, ONLY_IF_SET, REQUIRED, Micros, open_name
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.open_enum import unrecognized_number
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.task import Task, stored_metadata
from protolink_grpc.models.task_control import TaskDescription, TaskLink
from protolink_grpc.models.task_metadata import own_metadata
from protolink_grpc.models.tool import OfferedTools

EVENT_VERSION = "1.0"

UNKNOWN_ACTION = "unknown"
"""Kind and name of an action that an event refers to by its id only."""

PROTOLINK_IDS = ("span_id", "parent_span_id", "parent_action_id", "delegation_id")
"""Ids in the JSON form of an event that only agents of ProtoLink set; an event that comes from one has them in its metadata."""

Severity = Literal["info", "warning", "error"]

ERROR_EFFECTS = ("continues", "ends")
"""The effects of a reported error on the run."""

OUTCOME_TYPES: dict[str, str] = {
    f"action.{outcome}": outcome for outcome in ("completed", "failed", "denied", "rejected", "canceled")
}
"""Outcome of an ActionEnded by its event type."""

ErrorEffect = Annotated[str, open_name(*ERROR_EFFECTS)]
Outcome = Annotated[str, open_name(*OUTCOME_TYPES.values())]
Strategy = Annotated[str, open_name("", *COMPACTION_STRATEGIES)]


class EventPayload(JsonForm):
    """A typed payload of an event. Fields that do not take part in comparisons have no JSON form."""

    __slots__ = ()
    event_types: ClassVar[tuple[str, ...]]
    """The types of its events. If there are several, `type_of` chooses one. The first word of all of them is the same."""


@dataclass(slots=True)
class TaskSubmitted(EventPayload):
    """The submission of a task: sequence 1 of every log.

    Args:
        task: The submitted task. Its metadata has only the caller's own keys: session and context are fields here.
        principal: The owner of the task.
        session_id: Empty means the id of the task.
        context: The context that the caller sent; None if it sent none.
        thread_id: Thread of the session; empty means `default`.
        draft: Nothing begins before a TaskStartRequested.
        runtime_id: Id of the store's installation; empty if unknown.
        encoded: The encoded messages, empty if not available. `wire` caches them here, so that each message is encoded once.
    """

    event_types = ("task.submitted",)

    task: Task
    principal: str = ""
    request_id: str = ""
    session_id: str = field(default="", metadata=NOT_IN_JSON)
    context: RunContext | None = field(default=None, metadata=NOT_IN_JSON)
    encoded: tuple[bytes, ...] = field(default=(), compare=False, repr=False)
    thread_id: str = field(default="", metadata=NOT_IN_JSON)
    draft: bool = field(default=False, metadata=NOT_IN_JSON)
    runtime_id: str = field(default="", metadata=NOT_IN_JSON)

    @classmethod
    def of(cls, task: Task, principal: str = "", request_id: str = "") -> Self:
        """Build the submission of a task, without what only its log can say.

        Raises:
            InvalidArgumentError: `metadata["run_context"]` is not a context; names its path.
        """
        context = task.given_context()
        if context is not None and (context.canceled or context.cancel_reason):
            # Cancellation is recorded by later events of the log.
            context = replace(context, canceled=False, cancel_reason=None)
        own = replace(
            task,
            metadata=own_metadata(stored_metadata(task)),
            failure=None,
            context=None,
            session_id=None,
            state_history=[],
            cancel_reason="",
            usage=None,
        )
        return cls(own, principal, request_id, task.session_id or "", context)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: session and context are in the metadata of the task, where ProtoLink's readers look for them."""
        return to_object(replace(self, task=self.whole_task()))

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object, as `of`."""
        return cls.of(**read_fields(cls, data))

    def whole_task(self) -> Task:
        """Return the task with its session and context."""
        return replace(self.task, context=self.context, session_id=self.session_id or None)


@dataclass(frozen=True, slots=True)
class Worker(JsonForm):
    """The process that executes a run.

    Args:
        name: Agent instance, unique for each process.
        version: Version of the software that writes the log.
        host: Name of the machine.
    """

    name: str = ""
    version: str = ""
    host: str = ""


@dataclass(slots=True)
class TaskStatusChanged(EventPayload):
    """A change of the task's state.

    `failure` is set if the task failed or was rejected, `cancel_reason` if it was canceled. `attempt`, `cause`, `context` and
    `worker` are set if the new state is working: a run begins. `cause` is submitted, continued, recovered, retried or external, or
    `unknown-N` for a cause of a later version. `usage` is the total usage of the task so far, set at the end of a run that used
    anything.
    """

    event_types = ("task.status",)

    previous_state: TaskState
    new_state: TaskState
    failure: Failure | None = None
    cancel_reason: str = ""
    attempt: int = 0
    cause: str = ""
    context: RunContext | None = None
    usage: BudgetUsage | None = None
    worker: Worker | None = None

    @property
    def reason(self) -> str:
        """Why the task ended without success, one sentence; empty in all other cases."""
        return self.failure.message if self.failure is not None else self.cancel_reason

    @classmethod
    def because(
        cls, previous: TaskState, new: TaskState, why: "Failure | str | None", *, usage: BudgetUsage | None = None
    ) -> "TaskStatusChanged":
        """Build a state change with a reason: `cancel_reason` if the new state is canceled, `failure` otherwise."""
        if new is TaskState.CANCELED:
            return cls(previous, new, cancel_reason=why.message if isinstance(why, Failure) else why or "", usage=usage)
        return cls(previous, new, Failure.of_text(why), usage=usage)


@dataclass(slots=True)
class TaskMessagesAdded(EventPayload):
    """Messages, oldest first; `encoded` as in TaskSubmitted."""

    event_types = ("task.message",)

    messages: tuple[Message, ...]
    request_id: str = ""
    encoded: tuple[bytes, ...] = field(default=(), compare=False, repr=False)


@dataclass(slots=True)
class TaskArtifactUpdated(EventPayload):
    """A new or replaced artifact; with `append`, further parts of the artifact with the same id."""

    event_types = ("task.artifact",)

    artifact: Artifact
    append: bool = False
    last_chunk: bool = False


@dataclass(slots=True)
class TaskPatched(EventPayload):
    """Changed keys of the task's metadata and flow state; a None value removes a key."""

    event_types = ("task.patched",)

    metadata: dict[str, Any] = field(default_factory=dict)
    flow_state: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TaskProgress(EventPayload):
    """Progress of the work: a percentage from 0 to 100, None if unknown, and a sentence for people."""

    event_types = ("task.progress",)

    progress: float | None = None
    message: str = ""

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object. Raises as `check`."""
        progress = cls(**read_fields(cls, data))
        progress.check()
        return progress

    def check(self) -> None:
        """Check a report before it is recorded. Reports that are read from a log are not checked.

        Raises:
            InvalidArgumentError: `progress` is not a number from 0 to 100, or `message` is not a text; names the field.
        """
        percent = self.progress
        # Not `int | float`: that builds a union object on each call.
        is_number = percent.__class__ is float or (isinstance(percent, (int, float)) and not isinstance(percent, bool))
        if percent is not None and not (is_number and 0 <= percent <= 100):
            raise InvalidArgumentError("must be a percentage from 0 to 100, or None", field="progress")
        if not isinstance(self.message, str):
            raise InvalidArgumentError("must be a text", field="message")


@dataclass(slots=True)
class TaskErrorReported(EventPayload):
    """A failure and its effect on the run: `effect` is continues or ends, or `unknown-N` for an effect of a later version."""

    event_types = ("task.error",)

    failure: Failure
    effect: ErrorEffect = field(default="ends", metadata=REQUIRED)

    @property
    def error_code(self) -> str:
        """The reason, under ProtoLink's name."""
        return self.failure.reason

    @property
    def error_message(self) -> str:
        """The message, under ProtoLink's name."""
        return self.failure.message

    @property
    def recoverable(self) -> bool:
        """Whether the run continues after the error, under ProtoLink's name."""
        return self.effect == "continues"


@dataclass(slots=True)
class CancelRequested(EventPayload):
    event_types = ("task.cancel_requested",)

    reason: str = ""
    requested_by: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ActionRequested(EventPayload):
    """A prepared action. `position` identifies its place in the work; it is equal in every run that reaches this place.

    `abridged` means that the payload of the action is omitted, because the log already has it in the tool call `action.call_id`.
    `models.references` restores it for readers that start at the beginning of the log.
    """

    event_types = ("action.requested",)

    action: RunAction
    position: str = ""
    abridged: bool = field(default=False, compare=False, repr=False)


@dataclass(slots=True)
class ActionPolicyEvaluated(EventPayload):
    event_types = ("action.policy",)

    decision: PolicyDecision


@dataclass(slots=True)
class ApprovalRequired(EventPayload):
    """A request for approval. `etag` is that of the approval; empty means the fingerprint of the action.

    `abridged` means that action and policy decision are omitted and only `RunEvent.action_id` refers to them; kind and name of the
    action are `UNKNOWN_ACTION`. `models.references` restores them for readers that start at the beginning of the log.
    """

    event_types = ("approval.required",)

    request: ApprovalRequest
    etag: str = field(default="", compare=False, repr=False)
    abridged: bool = field(default=False, compare=False, repr=False)


@dataclass(slots=True)
class ApprovalDecided(EventPayload):
    """The answer to an approval request. `request_id` identifies the RPC that sent it, to detect retries; JSON omits it."""

    event_types = ("approval.decided",)

    decision: ApprovalDecision
    request_id: str = field(default="", compare=False, repr=False)


@dataclass(slots=True)
class ActionStarted(EventPayload):
    """The start of an action's execution. `arguments` None means the arguments of the requested action."""

    event_types = ("action.started",)

    kind: str
    name: str
    arguments: dict[str, Any] | None = None


@dataclass(slots=True)
class ActionEnded(EventPayload):
    """The end of an action. `result` is also None if it was withheld; `usage` is the usage of delegated work.

    `error` is the failure as a JSON value in ProtoLink's format; `failure` is the same as a typed value.

    `outcome` is completed, failed, denied, rejected or canceled, or `unknown-N` for an outcome of a later version. The event's type
    follows from it.
    """

    event_types = tuple(OUTCOME_TYPES)

    kind: str
    name: str
    result: Any = None
    error: Any = None
    duration_micros: Micros = 0
    usage: BudgetUsage | None = None
    outcome: Outcome = field(default="completed", metadata=REQUIRED)

    @property
    def failure(self) -> Failure | None:
        """Why the action did not succeed; None if no error is recorded."""
        return None if self.error is None else Failure.from_value(self.error)


@dataclass(slots=True)
class ContextPrepared(EventPayload):
    """A prompt was assembled.

    Args:
        offered: The tools that it offers; None means those of the run's last event that has them.
        omitted: What it leaves out; None means the same as in the run's last event that has it, or nothing.

    A prompt whose manifest has a purpose has neither of them: it offers no tools and leaves nothing out.
    """

    event_types = ("context.prepared",)

    manifest: ContextManifest
    step: int = 0
    offered: OfferedTools | None = field(default=None, metadata=ONLY_IF_SET)
    omitted: OmittedItems | None = field(default=None, metadata=ONLY_IF_SET)


@dataclass(slots=True)
class LlmCallStarted(EventPayload):
    """A model call began. `requested_provider` and `requested_model` are empty if they are `provider` and `model`."""

    event_types = ("llm.call.started",)

    call_id: str
    provider: str = ""
    model: str = ""
    attempt: int = 1
    step: int = 0
    streaming: bool = False
    requested_provider: str = field(default="", metadata=ONLY_IF_SET)
    requested_model: str = field(default="", metadata=ONLY_IF_SET)


@dataclass(slots=True)
class LlmCallCompleted(EventPayload):
    """The result of a model call: its `text` and its `tool_calls`. A recovered run continues from it without repeating the call.

    None means unknown, never zero. `cost_micros` is in millionths of a unit of `currency`. `cached_input_tokens` are part of
    `input_tokens`, `reasoning_tokens` part of `output_tokens`. `response_model` is the model that the response names; empty if it
    is `model`.
    """

    event_types = ("llm.call.completed",)

    call_id: str
    provider: str = ""
    model: str = ""
    step: int = 0
    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_micros: int | None = None
    currency: str = ""
    duration_micros: Micros = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    response_model: str = field(default="", metadata=ONLY_IF_SET)

    @property
    def cost(self) -> Cost | None:
        """The cost of the call; None if the price or the currency is unknown."""
        is_known = self.cost_micros is not None and is_currency(self.currency)
        return Cost(self.cost_micros or 0, self.currency) if is_known else None


@dataclass(slots=True)
class LlmCallFailed(EventPayload):
    """A failed attempt at a model call. With `will_retry`, the call is retried after the failure's `retry_delay_s`."""

    event_types = ("llm.call.failed",)

    call_id: str
    provider: str
    model: str
    step: int
    attempt: int
    failure: Failure
    will_retry: bool = False
    duration_micros: Micros = 0


@dataclass(slots=True)
class ContextCompacted(EventPayload):
    """The conversation of the session was compacted, or the prompt of a model call was reduced.

    `strategy` is recent, tokens or summary, empty if not stated, or `unknown-N` for a strategy of a later version. A `summary` that
    is not empty has replaced messages.
    """

    event_types = ("context.compacted",)

    before_tokens: int
    after_tokens: int
    strategy: Strategy
    summary: str = ""


@dataclass(slots=True)
class BudgetReported(EventPayload):
    event_types = ("budget.warning", "budget.exceeded")

    decision: BudgetDecision


@dataclass(slots=True)
class TaskDescribed(EventPayload):
    """The description of the task from now on. `changed_by` is a principal."""

    event_types = ("task.described",)

    description: TaskDescription = field(default_factory=TaskDescription)
    changed_by: str = ""


@dataclass(slots=True)
class TaskInputReplaced(EventPayload):
    """All messages of a task that no run has worked on are replaced by these. `changed_by` is a principal."""

    event_types = ("task.input_replaced",)

    messages: tuple[Message, ...]
    changed_by: str = ""


@dataclass(slots=True)
class TaskStartRequested(EventPayload):
    """A draft was started. `external`: the work is done outside of the agent, and no run begins."""

    event_types = ("task.start_requested",)

    requested_by: str = ""
    external: bool = False


@dataclass(slots=True)
class TaskPauseRequested(EventPayload):
    """A pause was requested; the run continues until it can wait."""

    event_types = ("task.pause_requested",)

    reason: str = ""
    requested_by: str = ""


@dataclass(slots=True)
class TaskPaused(EventPayload):
    """The run waits until the task is resumed."""

    event_types = ("task.paused",)


@dataclass(slots=True)
class TaskResumed(EventPayload):
    """The end of a pause, or of the request for one."""

    event_types = ("task.resumed",)

    reason: str = ""
    requested_by: str = ""


@dataclass(slots=True)
class TaskRetried(EventPayload):
    """A retry of an ended task: its state is submitted again, and its messages are those that the last turn began with.

    `retry` counts the retries of the task from 1.
    """

    event_types = ("task.retried",)

    previous_state: TaskState
    reason: str = ""
    requested_by: str = ""
    retry: int = 1


@dataclass(slots=True)
class TaskLinked(EventPayload):
    """A link was added, or has another reason."""

    event_types = ("task.linked",)

    link: TaskLink


@dataclass(slots=True)
class TaskUnlinked(EventPayload):
    """A link was removed."""

    event_types = ("task.unlinked",)

    link: TaskLink


@dataclass(slots=True)
class TaskQueued(EventPayload):
    """All `slots` of the agent are in use: the run waits for one, after `waiting` other runs. The wait ends when the run begins."""

    event_types = ("task.queued",)

    slots: int = 0
    waiting: int = 0

    @property
    def reason(self) -> str:
        """Why the run waits, for people."""
        return f"waits for a slot (in use: {self.slots}, waiting before it: {self.waiting})"


@dataclass(slots=True)
class PeerTaskLinked(EventPayload):
    """The ids that a delegated task has at the peer that works on it. The event's `action_id` is the delegating action.

    Args:
        agent_name, url: The peer; empty if unknown. The URL has no credentials.
        protocol: `plgrpc`, `a2a` or `protolink`.
        context_id: Session of the task at the peer; empty if unknown.
    """

    event_types = ("action.peer_task",)

    agent_name: str = ""
    url: str = ""
    protocol: str = ""
    task_id: str = ""
    context_id: str = ""


@dataclass(slots=True)
class LlmStep(EventPayload):
    """A step of an inference that no other kind covers: a rejected answer or call of a model, or a chunk of a ProtoLink agent.

    The contract encodes it as an application's kind.
    """

    event_types = ("llm.stream",)

    kind: str
    step: int = 0
    content: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TextDelta(EventPayload):
    """A piece of the text that a model call produces. It is sent live and never stored, so it is not a `Payload`.

    `offset` is its position in the call's whole text, in bytes of UTF-8. A delta at offset 0 restarts the text.
    """

    event_types = ("llm.stream",)

    call_id: str
    offset: int
    text: str
    run_id: str = field(default="", compare=False, repr=False)  # equal to `RunEvent.run_id`


Payload = (
    TaskSubmitted
    | TaskStatusChanged
    | TaskMessagesAdded
    | TaskArtifactUpdated
    | TaskPatched
    | TaskProgress
    | TaskErrorReported
    | CancelRequested
    | ActionRequested
    | ActionPolicyEvaluated
    | ApprovalRequired
    | ApprovalDecided
    | ActionStarted
    | ActionEnded
    | ContextPrepared
    | LlmCallStarted
    | LlmCallCompleted
    | LlmCallFailed
    | ContextCompacted
    | BudgetReported
    | TaskDescribed
    | TaskInputReplaced
    | TaskStartRequested
    | TaskPauseRequested
    | TaskPaused
    | TaskResumed
    | TaskRetried
    | TaskLinked
    | TaskUnlinked
    | TaskQueued
    | PeerTaskLinked
    | LlmStep
)
"""Every typed kind of payload that a log can have. A class that is new is listed here, and in `wire.payloads` with its codec."""

TYPES: dict[type, str] = {kind: kind.event_types[0] for kind in get_args(Payload) if len(kind.event_types) == 1}
"""The event type of each payload class that has only one; see `type_of` for the others."""


MUST_UNDERSTAND: frozenset[type] = frozenset({TaskInputReplaced, TaskRetried})
"""Kinds that change the state of a task and that earlier versions do not know. Their readers must not ignore them."""


def type_of(payload: object) -> str:
    """Return the default event type for a payload."""
    if isinstance(payload, ActionEnded):
        return f"action.{payload.outcome}"
    if isinstance(payload, BudgetReported):
        return "budget.exceeded" if payload.decision.effect == BudgetEffect.DENY else "budget.warning"
    return payload.event_types[0] if isinstance(payload, EventPayload) else "custom"


def check_type(kind: str, payload: object) -> None:
    """Check that an event type agrees with its payload.

    Raises:
        InvalidArgumentError: The type contradicts the outcome of an ActionEnded; names `type`.
    """
    if not isinstance(payload, ActionEnded) or kind == type_of(payload):
        return
    # An outcome of a later version has an event type of that version, which is kept unchanged.
    if unrecognized_number(payload.outcome) is None or kind in OUTCOME_TYPES:
        raise InvalidArgumentError(f"{kind} contradicts the outcome {payload.outcome}", field="type")


@dataclass(slots=True)
class RunEvent:
    """One fact in the log of a task.

    Args:
        type: Event type as readable text, for instance `task.status`. Empty means the default type of the payload.
        payload: A typed kind, or a dict of the application. None if this version does not know the kind.
        sequence: Position in the task's log, from 1 without gaps; None before the append.
        timestamp: ISO 8601, UTC, microseconds.
        final: This event ends the task. Further events follow only if the task is retried.
        metadata: Further facts. Ids of `PROTOLINK_IDS` in it are written and read in their own keys of the JSON form.
    """

    type: str = ""
    payload: Payload | TextDelta | dict[str, Any] | None = None
    task_id: str = ""
    sequence: int | None = None
    run_id: str = ""
    session_id: str = ""
    agent_name: str = ""
    timestamp: str = field(default_factory=utc_now)
    severity: Severity = "info"
    summary: str = ""
    final: bool = False
    action_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.type:
            self.type = TYPES.get(self.payload.__class__) or type_of(self.payload)

    @property
    def version(self) -> str:
        """Version of the envelope."""
        return EVENT_VERSION

    @property
    def event_id(self) -> str:
        """Id of the event, `<task_id>/<sequence>`; sequence 0 before the append."""
        return f"{self.task_id}/{self.sequence or 0}"

    @property
    def state(self) -> TaskState | None:
        """The state that the task enters with this event; None if the state does not change."""
        payload = self.payload
        if isinstance(payload, TaskStatusChanged):
            return payload.new_state
        return TaskState.SUBMITTED if isinstance(payload, (TaskSubmitted, TaskRetried)) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which shares nothing with the event. Unset optional fields are null, a missing payload is {}."""
        payload, known = self.payload, self.metadata
        return {
            "event_id": self.event_id,
            "version": self.version,
            "type": self.type,
            "run_id": self.run_id,
            "task_id": self.task_id,
            "agent_name": self.agent_name,
            "sequence": self.sequence,
            "step": _detail(payload, "step", int) or None,
            "span_id": _text(known, "span_id"),
            "parent_span_id": _text(known, "parent_span_id"),
            "action_id": self.action_id or None,
            "parent_action_id": _text(known, "parent_action_id"),
            "delegation_id": _detail(payload, "delegation_id", str) or _text(known, "delegation_id"),
            "severity": self.severity,
            "summary": self.summary,
            "payload": _payload_dict(payload),
            "final": self.final,
            "timestamp": self.timestamp,
            "metadata": plain(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: object) -> "RunEvent":
        """Read a JSON object that `to_dict` wrote. A payload that does not match its type stays a dict.

        Raises:
            InvalidArgumentError: The envelope is invalid; names the field.
        """
        from protolink_grpc.models.event_json import event_from_dict  # here because that module imports this one

        return event_from_dict(data)

    @classmethod
    def from_task_event(
        cls, event: object, context: RunContext | None = None, sequence: int | None = None
    ) -> "RunEvent":
        """Convert an item of a stream to a RunEvent: a RunEvent, its JSON form, or one of ProtoLink's stream events.

        Args:
            event: An event, a dict, or an object with `to_dict()`.
            context: Fills in run and session if the event has none; by default the context of the task in the event.
            sequence: Sequence of an event that has none.

        Raises:
            InvalidArgumentError: Not an event; names the path.
        """
        # By name, because the conversion is in an upper layer.
        event_from_task_event = load("protolink_grpc.compat.protolink.stream_events:event_from_task_event")
        found: RunEvent = event_from_task_event(event, context, sequence)
        return found


def _detail(payload: Payload | TextDelta | dict[str, Any] | None, name: str, kind: type) -> Any:
    """Return a field of a typed payload or a dict; None if it is missing or of another type."""
    value = payload.get(name) if isinstance(payload, dict) else getattr(payload, name, None)
    return value if type(value) is kind else None


def _text(known: dict[str, Any], name: str) -> str | None:
    value = known.get(name)
    return value if isinstance(value, str) and value else None


def _payload_dict(payload: Payload | TextDelta | dict[str, Any] | None) -> dict[str, Any]:
    if payload is None:
        return {}
    if isinstance(payload, dict):
        copied: dict[str, Any] = plain(payload)
        return copied
    return payload.to_dict()
