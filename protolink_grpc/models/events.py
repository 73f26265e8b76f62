"""Run events: the immutable facts that a task is made of. How they become bytes is `wire.events`' business.

A payload is a small value, one class per kind of fact; an application's own kinds carry a plain dict. Nobody changes one that is
made; they are not frozen only because a frozen one takes four times as long to make, four times a request. Values handed to an
event belong to the event: whoever builds one gives the messages and artifacts away.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.action import (
    ApprovalDecision,
    ApprovalRequest,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextManifest,
    PolicyDecision,
    RunAction,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import utc_now
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.cost import Cost, is_currency
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.open_enum import unrecognized_number
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.task import Task

EVENT_VERSION = "1.0"

UNKNOWN_ACTION = "unknown"
"""Kind and name of an action that an event only refers to."""

Severity = Literal["info", "warning", "error"]


@dataclass(slots=True)
class TaskSubmitted:
    """Sequence 1 of every log. `task` holds what was submitted; `principal` owns the task from now on.

    `encoded` are its messages as bytes, where they are at hand: `wire` keeps them here so that each is encoded once.
    """

    task: Task
    principal: str = ""
    request_id: str = ""
    encoded: tuple[bytes, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Worker:
    """The process that works on a run.

    Args:
        name: Agent instance, another one for each process.
        version: Of the software that writes the log.
        host: Name of the machine.
    """

    name: str = ""
    version: str = ""
    host: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "host": self.host}

    @classmethod
    def from_dict(cls, data: object) -> "Worker":
        source = reader.as_object(data)
        return cls(reader.text(source, "name"), reader.text(source, "version"), reader.text(source, "host"))


@dataclass(slots=True)
class TaskStatusChanged:
    """A step of the lifecycle.

    `failure` is set where the task failed or was rejected, `cancel_reason` where it was canceled. `attempt`, `cause`, `context` and
    `worker` are set when the new state is working: a run begins. `cause` is submitted, continued or recovered, or `unknown-N` in
    what a later version wrote. `usage` is what the task has used up so far, set when a run ends that used anything.
    """

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
        """Why the task ended without success, one sentence; empty for all other states."""
        return self.failure.message if self.failure is not None else self.cancel_reason

    @classmethod
    def because(
        cls, previous: TaskState, new: TaskState, why: "Failure | str | None", *, usage: BudgetUsage | None = None
    ) -> "TaskStatusChanged":
        """A step with its reason, which goes where the new state has it."""
        if new is TaskState.CANCELED:
            return cls(previous, new, cancel_reason=why.message if isinstance(why, Failure) else why or "", usage=usage)
        return cls(previous, new, Failure.of_text(why), usage=usage)


@dataclass(slots=True)
class TaskMessagesAdded:
    """Messages, oldest first; `encoded` as in TaskSubmitted."""

    messages: tuple[Message, ...]
    request_id: str = ""
    encoded: tuple[bytes, ...] = field(default=(), compare=False, repr=False)


@dataclass(slots=True)
class TaskArtifactUpdated:
    """An artifact, or with `append` the further parts of the one with the same id."""

    artifact: Artifact
    append: bool = False
    last_chunk: bool = False


@dataclass(slots=True)
class TaskPatched:
    """Keys that changed; a None value removes a key."""

    metadata: dict[str, Any] = field(default_factory=dict)
    flow_state: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TaskProgress:
    """How far the work is: percent from 0 to 100 or None where that is unknown, and a sentence for people."""

    progress: float | None = None
    message: str = ""

    def check(self) -> None:
        """Pass where this can be recorded. What is in a log already is read as it is.

        Raises:
            InvalidArgumentError: `progress` is no number from 0 to 100, or `message` is no text; names the field.
        """
        percent = self.progress
        is_number = isinstance(percent, int | float) and not isinstance(percent, bool)
        if percent is not None and not (is_number and 0 <= percent <= 100):
            raise InvalidArgumentError("must be a percentage from 0 to 100, or None", field="progress")
        if not isinstance(self.message, str):
            raise InvalidArgumentError("must be a text", field="message")


@dataclass(slots=True)
class TaskErrorReported:
    """A failure, and what it does to the run: `effect` is continues or ends, or `unknown-N` in what a later version wrote."""

    failure: Failure
    effect: str = "ends"

    @property
    def error_code(self) -> str:
        """ProtoLink's name of the reason."""
        return self.failure.reason

    @property
    def error_message(self) -> str:
        """ProtoLink's name of the message."""
        return self.failure.message

    @property
    def recoverable(self) -> bool:
        """ProtoLink's word for an error after which the run goes on."""
        return self.effect == "continues"


@dataclass(slots=True)
class CancelRequested:
    reason: str = ""
    requested_by: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ActionRequested:
    """A prepared action. `position` says where in the work it stands: the same in every run that comes to this point again.

    `abridged`: it is written without the payload of its action, which is in the tool call that `action.call_id` names, and read so.
    `models.references` puts it back for those who read a log from its beginning.
    """

    action: RunAction
    delegation_id: str = ""
    position: str = ""
    abridged: bool = field(default=False, compare=False, repr=False)


@dataclass(slots=True)
class ActionPolicyEvaluated:
    decision: PolicyDecision


@dataclass(slots=True)
class ApprovalRequired:
    """A question. `etag` is that of its approval; empty means the fingerprint of the action.

    `abridged`: action and verdict are only named, by `RunEvent.action_id`; the action has the kind and the name `UNKNOWN_ACTION`.
    `models.references` puts them back for those who read a log from its beginning.
    """

    request: ApprovalRequest
    etag: str = field(default="", compare=False, repr=False)
    abridged: bool = field(default=False, compare=False, repr=False)


@dataclass(slots=True)
class ApprovalDecided:
    """An answer. `request_id` is that of the request that brought it, so that a repetition is known; JSON does not show it."""

    decision: ApprovalDecision
    request_id: str = field(default="", compare=False, repr=False)


@dataclass(slots=True)
class ActionStarted:
    """The beginning of a side effect. `arguments` None means those of the action as it was requested."""

    kind: str
    name: str
    arguments: dict[str, Any] | None = None
    delegation_id: str = ""


@dataclass(slots=True)
class ActionEnded:
    """The end of an action. `result` is None also when it was kept back; `usage` is what delegated work has used up.

    `error` is the failure as a JSON value, in ProtoLink's shape; `failure` is the same, typed.

    `outcome` is completed, failed, denied, rejected or canceled, or `unknown-N` in what a later version wrote. The event's type
    follows from it.
    """

    kind: str
    name: str
    result: Any = None
    error: Any = None
    delegation_id: str = ""
    duration_micros: int = 0
    usage: BudgetUsage | None = None
    outcome: str = "completed"

    @property
    def failure(self) -> Failure | None:
        """Why it did not succeed; None where nothing is said about that."""
        return None if self.error is None else Failure.from_value(self.error)


@dataclass(slots=True)
class ContextPrepared:
    manifest: ContextManifest
    step: int = 0


@dataclass(slots=True)
class LlmCallStarted:
    call_id: str
    provider: str = ""
    model: str = ""
    attempt: int = 1
    step: int = 0
    streaming: bool = False


@dataclass(slots=True)
class LlmCallCompleted:
    """A model call's outcome: what it says (`text`) and what it asks for (`tool_calls`), enough to go on from without asking again.

    None means unknown, never zero; `cost_micros` is in millionths of a unit of `currency`. `cached_input_tokens` are among
    `input_tokens`, `reasoning_tokens` among `output_tokens`.
    """

    call_id: str
    provider: str = ""
    model: str = ""
    step: int = 0
    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_micros: int | None = None
    currency: str = ""
    duration_micros: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def cost(self) -> Cost | None:
        """What it cost; None where its price, or the currency, is not known."""
        is_known = self.cost_micros is not None and is_currency(self.currency)
        return Cost(self.cost_micros or 0, self.currency) if is_known else None


@dataclass(slots=True)
class LlmCallFailed:
    """The end of an attempt at a model call. With `will_retry`, the same call begins again after the failure's `retry_delay_s`."""

    call_id: str
    provider: str
    model: str
    step: int
    attempt: int
    failure: Failure
    will_retry: bool = False
    duration_micros: int = 0


@dataclass(slots=True)
class ContextCompacted:
    """The conversation of the session was made shorter; `summary` took the place of messages where it is not empty."""

    before_tokens: int
    after_tokens: int
    strategy: str
    summary: str = ""


@dataclass(slots=True)
class BudgetReported:
    decision: BudgetDecision


@dataclass(slots=True)
class LlmStep:
    """One of ProtoLink's chunks of a model's stream that no typed kind says. In the contract it is a kind of an application.

    What follows from other facts is in no log: see `FOLLOWING_STEPS`.
    """

    kind: str
    step: int = 0
    content: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TextDelta:
    """A piece of the text that a model call produces: volatile, shown live and never stored, so no `Payload`.

    `offset` is its position in the call's whole text, in bytes of UTF-8. A piece at offset 0 starts the text over.
    """

    call_id: str
    offset: int
    text: str
    run_id: str = field(default="", compare=False, repr=False)  # as in the event that carries it


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
    | LlmStep
)
"""Every typed kind of fact; `wire.events` ends its conversion of this union in `assert_never`."""

TYPES: dict[type, str] = {
    TaskSubmitted: "task.submitted",
    TaskStatusChanged: "task.status",
    TaskMessagesAdded: "task.message",
    TaskArtifactUpdated: "task.artifact",
    TaskPatched: "task.patched",
    TaskProgress: "task.progress",
    TaskErrorReported: "task.error",
    CancelRequested: "task.cancel_requested",
    ActionRequested: "action.requested",
    ActionPolicyEvaluated: "action.policy",
    ApprovalRequired: "approval.required",
    ApprovalDecided: "approval.decided",
    ActionStarted: "action.started",
    ContextPrepared: "context.prepared",
    LlmCallStarted: "llm.call.started",
    LlmCallCompleted: "llm.call.completed",
    LlmCallFailed: "llm.call.failed",
    ContextCompacted: "context.compacted",
    LlmStep: "llm.stream",
}
"""The type of each kind that has only one, where the writer names none; see `type_of` for the others."""

FOLLOWING_STEPS = frozenset({"llm_step", "llm_action", "llm_final"})
"""Chunks of ProtoLink that follow from the facts beside them: a prepared prompt, a requested action, an output."""

ERROR_EFFECTS = ("continues", "ends")
"""What a reported error does to the run."""

OUTCOME_TYPES: dict[str, str] = {
    f"action.{outcome}": outcome for outcome in ("completed", "failed", "denied", "rejected", "canceled")
}
"""The types of an ActionEnded, and the outcome that each stands for."""


def type_of(payload: object) -> str:
    """The type of an event with that payload, where the writer names none."""
    if isinstance(payload, ActionEnded):
        return f"action.{payload.outcome}"
    if isinstance(payload, BudgetReported):
        return "budget.exceeded" if payload.decision.effect == BudgetEffect.DENY else "budget.warning"
    return TYPES.get(LlmStep if isinstance(payload, TextDelta) else type(payload), "custom")


def check_type(kind: str, payload: object) -> None:
    """Pass where that type may be written beside that payload.

    Raises:
        InvalidArgumentError: It says another outcome of an action than the payload; names `type`.
    """
    if not isinstance(payload, ActionEnded) or kind == type_of(payload):
        return
    # An outcome of a later version has a type of that version, which is passed on as it is.
    if unrecognized_number(payload.outcome) is None or kind in OUTCOME_TYPES:
        raise InvalidArgumentError(f"{kind} contradicts the outcome {payload.outcome}", field="type")


@dataclass(slots=True)
class RunEvent:
    """One fact in the log of a task.

    Args:
        type: What happened, for instance `task.status`, as text for people. Empty means the type that follows from the payload.
        payload: The facts: a typed kind, or a dict of the application's own. None when a kind is unknown to this version.
        sequence: Position in the task's log, from 1 without gaps; None before the append.
        timestamp: ISO 8601, UTC, microseconds.
        final: The task ends here; nothing follows.
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
    parent_action_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.type:
            self.type = type_of(self.payload)

    @property
    def version(self) -> str:
        """Version of the envelope."""
        return EVENT_VERSION

    @property
    def event_id(self) -> str:
        """Identity of the event: a task's log has one event per sequence."""
        return f"{self.task_id}/{self.sequence or 0}"

    @property
    def state(self) -> TaskState | None:
        """The state that the task enters with this event, None where it stays."""
        payload = self.payload
        if isinstance(payload, TaskStatusChanged):
            return payload.new_state
        return TaskState.SUBMITTED if isinstance(payload, TaskSubmitted) else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, sharing nothing with the event. What nobody set is null; a kind that is unknown has no payload."""
        payload = self.payload
        return {
            "event_id": self.event_id,
            "version": self.version,
            "type": self.type,
            "run_id": self.run_id,
            "task_id": self.task_id,
            "agent_name": self.agent_name,
            "sequence": self.sequence,
            "step": _detail(payload, "step", int) or None,
            "span_id": self.span_id or None,
            "parent_span_id": self.parent_span_id or None,
            "action_id": self.action_id or None,
            "parent_action_id": self.parent_action_id or None,
            "delegation_id": _detail(payload, "delegation_id", str) or None,
            "severity": self.severity,
            "summary": self.summary,
            "payload": _payload_dict(payload),
            "final": self.final,
            "timestamp": self.timestamp,
            "metadata": plain(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: object) -> "RunEvent":
        """The event of a JSON object as `to_dict` writes it. A payload that cannot be read as one of its type stays a dict.

        Raises:
            InvalidArgumentError: An envelope that is none; names the field.
        """
        from protolink_grpc.models.event_json import event_from_dict  # here: it needs every kind of this module

        return event_from_dict(data)

    @classmethod
    def from_task_event(
        cls, event: object, context: RunContext | None = None, sequence: int | None = None
    ) -> "RunEvent":
        """The RunEvent of what a stream yields: a RunEvent itself, its JSON form, or one of ProtoLink's stream events.

        Args:
            event: An event, a dict, or an object with `to_dict()`.
            context: Fills in run and session where the event names none; by default that of the task which the event brings.
            sequence: Place of an event that comes from no log.

        Raises:
            InvalidArgumentError: No event; names the path.
        """
        from protolink_grpc.models.stream_events import (
            event_from_task_event,
        )  # here: it needs every kind of this module

        return event_from_task_event(event, context, sequence)


def _detail(payload: Payload | TextDelta | dict[str, Any] | None, name: str, kind: type) -> Any:
    """What the envelope repeats of the payload, whichever form that has."""
    value = payload.get(name) if isinstance(payload, dict) else getattr(payload, name, None)
    return value if type(value) is kind else None


def _payload_dict(payload: Payload | TextDelta | dict[str, Any] | None) -> dict[str, Any]:
    if payload is None:
        return {}
    if isinstance(payload, dict):
        copied: dict[str, Any] = plain(payload)
        return copied
    # What does not compare repeats another field as bytes.
    return {each.name: _plain_field(getattr(payload, each.name)) for each in fields(payload) if each.compare}


def _plain_field(value: Any) -> Any:
    """Models write themselves: `plain` would count their levels against the depth that each JSON value in them may have."""
    if isinstance(value, tuple):
        return [_plain_field(item) for item in value]
    to_dict = getattr(value, "to_dict", None)
    return plain(value) if to_dict is None else to_dict()
