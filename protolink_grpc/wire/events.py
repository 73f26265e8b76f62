"""Encodes run events: each is encoded once when it is appended; the store and all readers share the bytes.

An event on disk and inside a stream is a *frame*: the tag of field 1, its length, and the encoded RunEvent, exactly what one
element of `repeated RunEvent events = 1` looks like. Concatenated frames are the body of a SubscribeTaskResponse. A response can
also contain delta frames, elements of `repeated Delta deltas = 2`: these are made when they are sent, and never stored.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, assert_never

from google.protobuf.message import DecodeError
from plgrpc.v1 import approval_pb2, context_pb2, policy_pb2, task_pb2, usage_pb2
from plgrpc.v1 import event_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError, LogTooNewError
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import ApprovalRequest, PolicyDecision, PolicyEffect, RunAction
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.payload import MARK, Payload, read_value
from protolink_grpc.models.summaries import MAX_SUMMARY, summary_of
from protolink_grpc.models.task import Task
from protolink_grpc.wire.actions import (
    ABRIDGED_ACTION,
    ACTION,
    APPROVAL_DECISION,
    APPROVAL_STATES,
    EDITS,
    POLICY_DECISION,
)
from protolink_grpc.wire.context import CONTEXT, MANIFEST, STRATEGIES
from protolink_grpc.wire.parts import tool_call_from_pb, tool_call_to_pb
from protolink_grpc.wire.scalars import (
    VARINTS,
    EnumNumbers,
    delimited,
    duration_micros,
    json_object_from_pb,
    json_object_to_pb,
    micros_from_pb,
    micros_to_duration,
    sized_id,
    sized_time,
    tag,
    text_field,
    timestamp_from_pb,
    timestamp_to_pb,
    varint,
)
from protolink_grpc.wire.tasks import (
    ARTIFACT,
    MESSAGES_TAG,
    STATES,
    encode_artifact,
    encode_message,
    encode_task_header,
    message_from_pb,
    message_to_pb,
    submitted_task_from_pb,
    task_to_pb,
)
from protolink_grpc.wire.usage import BUDGET_DECISION, COST, USAGE
from protolink_grpc.wire.values import FAILURE, object_from_pb
from protolink_grpc.wire.values import payload_from_pb as value_from_pb
from protolink_grpc.wire.values import payload_to_pb as value_to_pb

SEVERITIES: Final[dict[ev.Severity, Any]] = {
    "info": pb.SEVERITY_INFO,
    "warning": pb.SEVERITY_WARNING,
    "error": pb.SEVERITY_ERROR,
}
CAUSES: Final = EnumNumbers(
    str,
    {
        "submitted": pb.RUN_CAUSE_SUBMITTED,
        "continued": pb.RUN_CAUSE_CONTINUED,
        "recovered": pb.RUN_CAUSE_RECOVERED,
    },
    field="cause",
    unset="",
)
OUTCOMES: Final = EnumNumbers(
    str,
    {
        "completed": pb.ACTION_OUTCOME_COMPLETED,
        "failed": pb.ACTION_OUTCOME_FAILED,
        "denied": pb.ACTION_OUTCOME_DENIED,
        "rejected": pb.ACTION_OUTCOME_REJECTED,
        "canceled": pb.ACTION_OUTCOME_CANCELED,
    },
    field="outcome",
)
EFFECTS: Final = EnumNumbers(
    str, {"continues": pb.ERROR_EFFECT_CONTINUES, "ends": pb.ERROR_EFFECT_ENDS}, field="effect"
)
_SEVERITIES_FROM_PB: Final[dict[int, ev.Severity]] = {value: name for name, value in SEVERITIES.items()}

_FIELDS: Final[dict[type, str]] = {
    ev.TaskSubmitted: "task_submitted",
    ev.TaskStatusChanged: "task_status",
    ev.TaskMessagesAdded: "task_messages",
    ev.TaskArtifactUpdated: "task_artifact",
    ev.TaskPatched: "task_patched",
    ev.TaskProgress: "task_progress",
    ev.TaskErrorReported: "task_error",
    ev.CancelRequested: "cancel_requested",
    ev.ActionRequested: "action_requested",
    ev.ActionPolicyEvaluated: "action_policy",
    ev.ApprovalRequired: "approval_required",
    ev.ApprovalDecided: "approval_decided",
    ev.ActionStarted: "action_started",
    ev.ActionEnded: "action_ended",
    ev.ContextPrepared: "context_prepared",
    ev.LlmCallStarted: "llm_call_started",
    ev.LlmCallCompleted: "llm_call_completed",
    ev.BudgetReported: "budget_reported",
    ev.LlmCallFailed: "llm_call_failed",
    ev.ContextCompacted: "context_compacted",
    ev.LlmStep: "custom",
    dict: "custom",
}
"""The field of each kind of payload; the descriptors give the numbers."""

_NUMBERS: Final = pb.RunEvent.DESCRIPTOR.fields_by_name


def _tag(name: str) -> bytes:
    return tag(_NUMBERS[name].number)


_PAYLOAD_TAGS: Final = {kind: _tag(name) for kind, name in _FIELDS.items()}
_CUSTOM_TAG: Final = _PAYLOAD_TAGS[dict]
_TASK_TAG, _RUN_TAG, _SESSION_TAG, _AGENT_TAG = map(_tag, ("task_id", "run_id", "session_id", "agent_name"))
_TYPE_TAG: Final = _tag("event_type")
_SUMMARY_TAG: Final = _tag("summary")
_TIME_TAG: Final = _tag("create_time")
_SEQUENCE_TAG: Final = varint(_NUMBERS["sequence"].number << 3)
_FRAME_TAG: Final = tag(1)
_DELTA_TAG: Final = tag(2)
_TYPE_FIELDS: Final = {
    name: _TYPE_TAG + varint(len(name)) + name.encode() for name in (*ev.TYPES.values(), *ev.OUTCOME_TYPES)
}
_FINAL: Final = pb.RunEvent(last=True).SerializeToString()


class EventEncoder:
    """Encodes the events of one run. The envelope's constant part is made once; the rest costs a few string operations.

    protobuf allows fields in any order and merges concatenated messages, so the pieces are only joined.
    """

    __slots__ = ("_constant", "_micros", "_time")

    def __init__(self, task_id: str, run_id: str, session_id: str, agent_name: str) -> None:
        run = _RUN_TAG + sized_id(run_id) if run_id else b""
        self._constant = b"".join(
            (
                _TASK_TAG,
                sized_id(task_id),
                run,
                _SESSION_TAG,
                sized_id(session_id),
                _AGENT_TAG,
                sized_id(agent_name),
                _SEQUENCE_TAG,
            )
        )
        self._micros: int | None = None
        self._time = b""

    def frame(
        self,
        payload: ev.Payload | dict[str, Any],
        sequence: int,
        micros: int,
        *,
        type: str = "",  # noqa: A002 -- the field's name
        final: bool = False,
        envelope: bytes = b"",
    ) -> bytes:
        """Encode one event as a frame.

        Args:
            micros: Time of the append, microseconds since the epoch.
            type: Empty means the type that follows from the payload.
            envelope: Further encoded envelope fields, see `encode_envelope`.

        Raises:
            InvalidArgumentError: A value that the contract does not allow, or a type that contradicts the payload; names the field.
        """
        if micros != self._micros:
            # All events of one append have the same time.
            self._micros, self._time = micros, _TIME_TAG + sized_time(micros)
        if payload.__class__ is ev.TaskProgress and not type and not final:
            summary, tail = _progress_tail(payload)
        elif payload.__class__ is ev.TaskStatusChanged and not type and _is_common(payload):
            summary, tail = _status_tail(*_status_key(payload), final)
        else:
            summary, tail = _summary(payload), _tail(payload, type, final)
        # The last occurrence of a field wins: a summary in the envelope replaces the one made here.
        event = b"".join((self._constant, varint(sequence), self._time, summary, envelope, tail))
        size = len(event)
        return _FRAME_TAG + (VARINTS[size] if size < 2048 else varint(size)) + event


def _summary(payload: ev.Payload | dict[str, Any]) -> bytes:
    """Encode the summary. The ones of the events that nearly every turn has are encoded once."""
    if payload.__class__ is ev.TaskSubmitted:
        return _TASK_SUBMITTED
    if payload.__class__ is ev.TaskMessagesAdded and len(payload.messages) == 1:
        return _MESSAGE_ADDED
    return text_field(_SUMMARY_TAG, summary_of(payload))


_TASK_SUBMITTED: Final = text_field(_SUMMARY_TAG, summary_of(ev.TaskSubmitted(Task())))
_MESSAGE_ADDED: Final = text_field(_SUMMARY_TAG, summary_of(ev.TaskMessagesAdded((Message(),))))


def _tail(payload: ev.Payload | dict[str, Any], kind: str, final: bool) -> bytes:
    """Encode the fields that depend neither on the run nor on the position in the log: type, final, payload."""
    if kind:
        ev.check_type(kind, payload)
    body = encode_payload(payload)
    if not (kind or final) and (head := _HEADS.get(payload.__class__)) is not None:
        return b"".join((head, varint(len(body)), body))
    name = kind or ev.type_of(payload)
    return b"".join(
        (
            _TYPE_FIELDS.get(name) or text_field(_TYPE_TAG, name),
            _FINAL if final else b"",
            _PAYLOAD_TAGS.get(payload.__class__, _CUSTOM_TAG),
            varint(len(body)),
            body,
        )
    )


_HEADS: Final = {
    kind: _TYPE_FIELDS[name] + _PAYLOAD_TAGS[kind] for kind, name in ev.TYPES.items() if kind in _PAYLOAD_TAGS
}
"""What comes before the length of a payload whose class alone decides the type of its event."""

MAX_SHARED_REASON: Final = 80
"""Maximum length, in characters, of a cancellation's reason for which the encoded status is cached."""


def _is_common(payload: ev.TaskStatusChanged) -> bool:
    return (
        payload.usage is None
        and payload.context is None
        and payload.failure is None
        and len(payload.cancel_reason) <= MAX_SHARED_REASON
    )


def _status_key(payload: ev.TaskStatusChanged) -> tuple[TaskState, TaskState, str, int, str, ev.Worker | None]:
    return (
        payload.previous_state,
        payload.new_state,
        payload.cancel_reason,
        payload.attempt,
        payload.cause,
        payload.worker,
    )


# Nearly all status events of an agent are the same few; 512 of them take some 50 KiB.
@lru_cache(maxsize=512)
def _status_tail(  # noqa: PLR0917 -- the key of a cache
    previous: TaskState, new: TaskState, reason: str, attempt: int, cause: str, worker: ev.Worker | None, final: bool
) -> tuple[bytes, bytes]:
    """Return the encoded summary and the result of `_tail`."""
    payload = ev.TaskStatusChanged(previous, new, None, reason, attempt, cause, worker=worker)
    return text_field(_SUMMARY_TAG, summary_of(payload)), _tail(payload, "", final)


def _progress_tail(progress: ev.TaskProgress) -> tuple[bytes, bytes]:
    """Return the encoded summary and the result of `_tail`, in one step because handlers report progress by the thousands.

    The message is encoded once for both, unless it must be shortened for the summary.
    """
    text, percent = progress.message, progress.progress
    raw = text.encode()
    size = len(raw)
    field = (VARINTS[size] if size < 2048 else varint(size)) + raw
    if raw and len(text) <= MAX_SUMMARY and text.isprintable():
        summary = _SUMMARY_TAG + field
    else:
        summary = text_field(_SUMMARY_TAG, summary_of(progress))
    body = b"" if percent is None else _PERCENT.pack(_PERCENT_KEY, percent)
    if raw:
        body += _MESSAGE_TAG + field
    size = len(body)
    return summary, _PROGRESS_HEAD + (VARINTS[size] if size < 2048 else varint(size)) + body


_PERCENT: Final = struct.Struct("<Bd")
_PERCENT_KEY: Final = pb.TaskProgress.DESCRIPTOR.fields_by_name["progress"].number << 3 | 1  # 64 bits follow
_MESSAGE_TAG: Final = tag(pb.TaskProgress.DESCRIPTOR.fields_by_name["message"].number)
_PROGRESS_HEAD: Final = _TYPE_FIELDS[ev.TYPES[ev.TaskProgress]] + _PAYLOAD_TAGS[ev.TaskProgress]


def encode_envelope(event: ev.RunEvent) -> bytes:
    """Encode the optional envelope fields of an event: action, severity, summary, metadata."""
    return pb.RunEvent(
        action_id=event.action_id,
        severity=SEVERITIES[event.severity] if event.severity != "info" else pb.SEVERITY_UNSPECIFIED,
        summary=event.summary,
        metadata_json=json_object_to_pb(event.metadata),
    ).SerializeToString()


def unframe(frame: bytes) -> pb.RunEvent:
    """Decode the event of one frame.

    Raises:
        google.protobuf.message.DecodeError: Not a frame.
    """
    return pb.RunEvent.FromString(_body(frame))


def _body(frame: bytes) -> bytes:
    at = 1
    try:
        while frame[at] & 0x80:
            at += 1
    except IndexError:
        raise DecodeError("not a frame") from None
    return frame[at + 1 :]


def frame_event(event: pb.RunEvent) -> bytes:
    """Return the frame of an event that is already a message."""
    encoded = event.SerializeToString()
    return _FRAME_TAG + varint(len(encoded)) + encoded


def delta_frame(task_id: str, delta: ev.TextDelta) -> bytes:
    """Encode one delta as a frame."""
    encoded = pb.Delta(
        task_id=task_id, run_id=delta.run_id, call_id=delta.call_id, offset_bytes=delta.offset, text=delta.text
    ).SerializeToString()
    return _DELTA_TAG + varint(len(encoded)) + encoded


def is_delta(frame: bytes) -> bool:
    """Whether this is a delta (live text), not an event of the log."""
    return frame.startswith(_DELTA_TAG)


def delta_from_frame(frame: bytes) -> ev.RunEvent:
    """Decode the delta of one frame, as `delta_from_pb`.

    Raises:
        google.protobuf.message.DecodeError: Not a frame.
    """
    return delta_from_pb(pb.Delta.FromString(_body(frame)))


def delta_from_pb(delta: pb.Delta) -> ev.RunEvent:
    """Convert a delta to an event without a sequence, because it is not part of the log.

    Raises:
        InvalidArgumentError: The offset is negative.
    """
    if delta.offset_bytes < 0:
        raise InvalidArgumentError("must not be negative", field="offset_bytes")
    payload = None  # the kind is unknown to this version
    if delta.WhichOneof("piece") == "text":
        payload = ev.TextDelta(delta.call_id, delta.offset_bytes, delta.text, delta.run_id)
    return ev.RunEvent(ev.TYPES[ev.LlmStep], payload, task_id=delta.task_id, run_id=delta.run_id)


def replay(fold: TaskFold, frames: Iterable[bytes]) -> None:
    """Apply stored events, in order, to a fold that ends just before the first of them.

    Raises:
        InvalidArgumentError: There is a gap, or an invalid event: the log is damaged.
        LogTooNewError: An event of an unknown kind that must not be ignored.
    """
    for frame in frames:
        event = unframe(frame)
        if event.sequence != fold.sequence + 1:
            raise InvalidArgumentError(f"{event.sequence} does not follow {fold.sequence}", field="sequence")
        if event.sequence == 1:
            fold.agent_name = event.agent_name
        payload = payload_from_pb(event)
        if payload is None:
            check_understood(event)
        micros = micros_from_pb(event.create_time, "create_time")
        fold.apply(payload, event.sequence, micros, event.run_id, event.action_id)


def encode_payload(payload: ev.Payload | dict[str, Any]) -> bytes:
    """Encode the payload field. Encoded messages are cached with the payload, for later folds."""
    kind = payload.__class__
    if kind is ev.TaskMessagesAdded:
        # Narrowed by the class itself, the fastest test there is; the checker does not follow it.
        return _encode_messages_added(payload)  # type: ignore[arg-type]  # see above
    if kind is ev.TaskSubmitted:
        return _encode_submitted(payload)  # type: ignore[arg-type]  # as above
    if kind is ev.TaskArtifactUpdated and not payload.append and not payload.last_chunk:  # type: ignore[union-attr]  # see above
        raw = encode_artifact(payload.artifact)  # type: ignore[union-attr]  # see above
        return b"".join((_ARTIFACT_TAG, varint(len(raw)), raw))
    encoded: bytes = payload_to_pb(payload).SerializeToString()
    return encoded


def _encode_messages_added(payload: ev.TaskMessagesAdded) -> bytes:
    if len(payload.encoded) != len(payload.messages):
        payload.encoded = tuple([encode_message(message) for message in payload.messages])
    body = delimited(_FRAME_TAG, payload.encoded)
    return (
        body + pb.TaskMessagesAdded(request_id=payload.request_id).SerializeToString() if payload.request_id else body
    )


def _encode_submitted(payload: ev.TaskSubmitted) -> bytes:
    messages = payload.task.messages
    if len(payload.encoded) != len(messages):
        payload.encoded = tuple([encode_message(message) for message in messages])
    task = encode_task_header(payload.task, payload.session_id, payload.context) + delimited(
        MESSAGES_TAG, payload.encoded
    )
    owner = _PRINCIPAL_TAG + sized_id(payload.principal) if payload.principal else b""
    owner += text_field(_REQUEST_TAG, payload.request_id)
    return b"".join((_FRAME_TAG, varint(len(task)), task, owner))


_PRINCIPAL_TAG, _REQUEST_TAG = (
    tag(pb.TaskSubmitted.DESCRIPTOR.fields_by_name[name].number) for name in ("principal", "request_id")
)


def payload_to_pb(payload: ev.Payload | dict[str, Any]) -> Any:
    """Convert a payload to the message of its field in `_FIELDS`."""
    match payload:
        case ev.TaskStatusChanged():
            out = pb.TaskStatusChanged(
                previous_state=STATES[payload.previous_state],
                new_state=STATES[payload.new_state],
                failure=None if payload.failure is None else FAILURE.to_pb(payload.failure),
                cancel_reason=payload.cancel_reason,
            )
            if payload.attempt or payload.cause or payload.context is not None or payload.worker is not None:
                _start_to_pb(payload, out.run)
            if payload.usage is not None:
                out.usage.CopyFrom(USAGE.to_pb(payload.usage))
            return out
        case ev.TaskMessagesAdded():
            return pb.TaskMessagesAdded(
                messages=[message_to_pb(message) for message in payload.messages], request_id=payload.request_id
            )
        case ev.TaskSubmitted():
            return _submitted_to_pb(payload)
        case ev.TaskProgress():
            return pb.TaskProgress(progress=payload.progress, message=payload.message)
        case ev.TaskArtifactUpdated():
            return pb.TaskArtifactUpdated(
                artifact=ARTIFACT.to_pb(payload.artifact), append=payload.append, last_chunk=payload.last_chunk
            )
        case ev.TaskPatched():
            return pb.TaskPatched(
                metadata_json=json_object_to_pb(payload.metadata), flow_state_json=json_object_to_pb(payload.flow_state)
            )
        case ev.TaskErrorReported():
            return pb.TaskErrorReported(failure=FAILURE.to_pb(payload.failure), effect=EFFECTS[payload.effect])
        case ev.CancelRequested():
            return pb.CancelRequested(
                reason=payload.reason,
                requested_by=payload.requested_by,
                metadata_json=json_object_to_pb(payload.metadata),
            )
        case dict():
            return _custom_to_pb(payload)
        case ev.LlmStep():
            chunk = {"kind": payload.kind, "step": payload.step, "content": payload.content, "data": payload.data}
            return _custom_to_pb(chunk)
        case _:
            return _action_payload_to_pb(payload)


def _submitted_to_pb(payload: ev.TaskSubmitted) -> pb.TaskSubmitted:
    task = task_to_pb(payload.task)
    if payload.session_id:
        task.session_id = payload.session_id
    if payload.context is not None:
        task.context.CopyFrom(CONTEXT.to_pb(payload.context))
    return pb.TaskSubmitted(task=task, principal=payload.principal, request_id=payload.request_id)


def _submitted_from_pb(submitted: pb.TaskSubmitted) -> ev.TaskSubmitted:
    task, field = submitted.task, "task_submitted.task"
    return ev.TaskSubmitted(
        submitted_task_from_pb(task, field),
        submitted.principal,
        submitted.request_id,
        task.session_id,
        CONTEXT.from_pb(task.context, f"{field}.context") if task.HasField("context") else None,
    )


LOG_FORMAT: Final = 1
"""Format of the events that this version writes, and the highest one that it can read. Source: RunStart.log_format."""


def _start_to_pb(payload: ev.TaskStatusChanged, out: pb.RunStart) -> None:
    out.attempt, out.log_format = payload.attempt, LOG_FORMAT
    if payload.cause:
        out.cause = CAUSES[payload.cause]
    if payload.context is not None:
        out.context.CopyFrom(CONTEXT.to_pb(payload.context))
    worker = payload.worker
    if worker is not None:
        out.worker.CopyFrom(pb.Worker(name=worker.name, version=worker.version, host=worker.host))


def _custom_to_pb(payload: dict[str, Any]) -> pb.CustomEvent:
    """Convert an object, or another value in the form written by `Payload.to_dict`."""
    if not payload:
        return pb.CustomEvent()
    inner = payload.get(MARK)
    if (
        len(payload) == 1
        and isinstance(inner, dict)
        and inner.keys() == {"json"}
        and not isinstance(inner["json"], dict)
    ):
        return pb.CustomEvent(payload=value_to_pb(inner["json"]))
    return pb.CustomEvent(payload=value_to_pb(read_value(payload)))


def _custom_from_pb(event: pb.CustomEvent) -> dict[str, Any]:
    if not event.HasField("payload"):
        return {}
    value = value_from_pb(event.payload, "custom.payload")
    if isinstance(value, dict):
        return value
    return (value if isinstance(value, Payload) else Payload(value)).to_dict()


def _action_payload_to_pb(
    payload: ev.ActionRequested
    | ev.ActionPolicyEvaluated
    | ev.ApprovalRequired
    | ev.ApprovalDecided
    | ev.ActionStarted
    | ev.ActionEnded
    | ev.ContextPrepared
    | ev.LlmCallStarted
    | ev.LlmCallCompleted
    | ev.LlmCallFailed
    | ev.ContextCompacted
    | ev.BudgetReported,
) -> Any:
    match payload:
        case ev.ActionStarted():
            return pb.ActionStarted(
                kind=payload.kind,
                name=payload.name,
                edited_arguments=None if payload.arguments is None else value_to_pb(payload.arguments),
            )
        case ev.ActionEnded():
            return pb.ActionEnded(
                kind=payload.kind,
                name=payload.name,
                result=None if payload.result is None else value_to_pb(payload.result),
                failure=None if payload.error is None else FAILURE.to_pb(Failure.from_value(payload.error)),
                duration=micros_to_duration(payload.duration_micros) if payload.duration_micros else None,
                usage=None if payload.usage is None else USAGE.to_pb(payload.usage),
                outcome=OUTCOMES[payload.outcome],
            )
        case ev.ActionRequested():
            return pb.ActionRequested(
                action=(ABRIDGED_ACTION if payload.abridged else ACTION).to_pb(payload.action),
                position=payload.position,
            )
        case ev.ActionPolicyEvaluated():
            return pb.ActionPolicyEvaluated(decision=POLICY_DECISION.to_pb(payload.decision))
        case ev.ApprovalRequired():
            return _required_to_pb(payload)
        case ev.ApprovalDecided():
            return pb.ApprovalDecided(
                approval_id=payload.decision.request_id,
                state=APPROVAL_STATES[payload.decision.state],
                decision=APPROVAL_DECISION.to_pb(payload.decision),
                request_id=payload.request_id,
            )
        case ev.ContextPrepared():
            return pb.ContextPrepared(manifest=MANIFEST.to_pb(payload.manifest), step=payload.step)
        case ev.LlmCallStarted():
            return pb.LlmCallStarted(
                call_id=payload.call_id,
                provider=payload.provider,
                model=payload.model,
                attempt=payload.attempt,
                step=payload.step,
                streaming=payload.streaming,
            )
        case ev.LlmCallCompleted():
            return pb.LlmCallCompleted(
                call_id=payload.call_id,
                provider=payload.provider,
                model=payload.model,
                step=payload.step,
                text=payload.text,
                usage=_call_usage_to_pb(payload),
                duration=micros_to_duration(payload.duration_micros) if payload.duration_micros else None,
                metrics_json=json_object_to_pb(payload.metrics),
                tool_calls=[tool_call_to_pb(call) for call in payload.tool_calls],
                finish_reason=payload.finish_reason,
            )
        case ev.BudgetReported():
            return pb.BudgetReported(decision=BUDGET_DECISION.to_pb(payload.decision))
        case ev.LlmCallFailed():
            return pb.LlmCallFailed(
                call_id=payload.call_id,
                provider=payload.provider,
                model=payload.model,
                step=payload.step,
                attempt=payload.attempt,
                failure=FAILURE.to_pb(payload.failure),
                will_retry=payload.will_retry,
                duration=micros_to_duration(payload.duration_micros),
            )
        case ev.ContextCompacted():
            return pb.ContextCompacted(
                before_tokens=payload.before_tokens,
                after_tokens=payload.after_tokens,
                strategy=STRATEGIES[payload.strategy]
                if payload.strategy
                else context_pb2.COMPACTION_STRATEGY_UNSPECIFIED,
                summary=payload.summary,
            )
        case _:
            assert_never(payload)


_UNKNOWN: Final = "unknown"
"""Metadata key in the usage of a model call that lists the counts that were not reported."""


def _call_usage_to_pb(call: ev.LlmCallCompleted) -> usage_pb2.Usage | None:
    known = {name: count for name in _TOKENS if (count := getattr(call, name)) is not None}
    cost = call.cost
    if not known and cost is None:
        return None
    missing = [name for name in _TOKENS[:2] if name not in known]
    return usage_pb2.Usage(
        **known,
        costs=[] if cost is None else [COST.to_pb(cost)],
        metadata_json=json_object_to_pb({_UNKNOWN: missing}) if missing else "",
    )


_TOKENS: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")


def _required_to_pb(payload: ev.ApprovalRequired) -> pb.ApprovalRequired:
    request = payload.request
    return pb.ApprovalRequired(
        approval_id=request.request_id,
        etag=payload.etag or request.action.fingerprint,
        edit=EDITS[request.editable],
        uncertain=request.uncertain,
        expire_time=timestamp_to_pb(request.expires_at) if request.expires_at else None,
        metadata_json=json_object_to_pb(request.metadata),
    )


def _required_from_pb(event: pb.RunEvent) -> ev.ApprovalRequired:
    required = event.approval_required
    field = "approval_required"
    _require(required.approval_id, f"{field}.approval_id")
    asked = iso_from_micros(micros_from_pb(event.create_time, "create_time"))
    request = ApprovalRequest(
        RunAction(ev.UNKNOWN_ACTION, ev.UNKNOWN_ACTION, action_id=event.action_id, created_at=asked),
        PolicyDecision(PolicyEffect.REQUIRE_APPROVAL),
        run_id=event.run_id or None,
        request_id=required.approval_id,
        created_at=asked,
        metadata=json_object_from_pb(required.metadata_json, f"{field}.metadata_json"),
        task_id=event.task_id,
        expires_at=(
            timestamp_from_pb(required.expire_time, f"{field}.expire_time")
            if required.HasField("expire_time")
            else None
        ),
        editable=required.edit == policy_pb2.APPROVAL_EDIT_ARGUMENTS,
        uncertain=required.uncertain,
    )
    return ev.ApprovalRequired(request, required.etag, abridged=True)


def _require(text: str, field: str) -> None:
    if not text or text.isspace():
        raise InvalidArgumentError("must be a non-empty string", field=field)


def check_understood(event: pb.RunEvent) -> None:
    """Raise when a reader that does not support the payload of this event must not ignore it.

    Raises:
        LogTooNewError: The event must not be ignored.
    """
    if event.must_understand:
        raise _too_new(event)


def _too_new(event: pb.RunEvent) -> LogTooNewError:
    return LogTooNewError(
        f"event {event.sequence} of task {event.task_id} ({event.event_type}) needs a later version of this package",
        task_id=event.task_id,
    )


def payload_from_pb(event: pb.RunEvent) -> ev.Payload | dict[str, Any] | None:
    """Convert the payload of an event; None for a kind that this version does not support.

    Raises:
        InvalidArgumentError: The payload is not valid for its kind; names the path.
        LogTooNewError: A run starts whose events have a later format.
    """
    kind = event.WhichOneof("payload")
    match kind:
        case None:
            return None
        case "task_status":
            return _status_from_pb(event)
        case "task_messages":
            messages = tuple(
                message_from_pb(message, f"task_messages.messages[{index}]")
                for index, message in enumerate(event.task_messages.messages)
            )
            return ev.TaskMessagesAdded(messages, event.task_messages.request_id)
        case "task_submitted":
            return _submitted_from_pb(event.task_submitted)
        case "task_artifact":
            artifact = ARTIFACT.from_pb(event.task_artifact.artifact, "task_artifact.artifact")
            return ev.TaskArtifactUpdated(artifact, event.task_artifact.append, event.task_artifact.last_chunk)
        case "task_patched":
            return ev.TaskPatched(
                json_object_from_pb(event.task_patched.metadata_json, "task_patched.metadata_json"),
                json_object_from_pb(event.task_patched.flow_state_json, "task_patched.flow_state_json"),
            )
        case "task_progress":
            progress = event.task_progress
            return ev.TaskProgress(progress.progress if progress.HasField("progress") else None, progress.message)
        case "task_error":
            error = event.task_error
            return ev.TaskErrorReported(
                FAILURE.from_pb(error.failure, "task_error.failure"), EFFECTS.read(error.effect)
            )
        case "cancel_requested":
            cancel = event.cancel_requested
            metadata = json_object_from_pb(cancel.metadata_json, "cancel_requested.metadata_json")
            return ev.CancelRequested(cancel.reason, cancel.requested_by, metadata)
        case "custom":
            own = _custom_from_pb(event.custom)
            return _step_of(own) if event.event_type == _STEP_TYPE else own
        case _:
            return _action_payload_from_pb(event, kind)


def _status_from_pb(event: pb.RunEvent) -> ev.TaskStatusChanged:
    status = event.task_status
    changed = ev.TaskStatusChanged(
        STATES.read(status.previous_state), STATES.read(status.new_state), cancel_reason=status.cancel_reason
    )
    if status.HasField("failure"):
        changed.failure = FAILURE.from_pb(status.failure, "task_status.failure")
    if status.HasField("usage"):
        changed.usage = USAGE.from_pb(status.usage, "task_status.usage")
    if status.HasField("run"):
        run = status.run
        if run.log_format > LOG_FORMAT:
            raise _too_new(event)
        changed.attempt, changed.cause = run.attempt, CAUSES.read(run.cause)
        if run.HasField("context"):
            changed.context = CONTEXT.from_pb(run.context, "task_status.run.context")
        if run.HasField("worker"):
            changed.worker = ev.Worker(run.worker.name, run.worker.version, run.worker.host)
    return changed


def _action_payload_from_pb(event: pb.RunEvent, kind: str) -> ev.Payload:
    match kind:
        case "action_requested":
            requested = event.action_requested
            return ev.ActionRequested(
                ACTION.from_pb(requested.action, "action_requested.action"),
                requested.position,
                abridged=bool(requested.action.call_id) and not requested.action.HasField("payload"),
            )
        case "action_policy":
            return ev.ActionPolicyEvaluated(
                POLICY_DECISION.from_pb(event.action_policy.decision, "action_policy.decision")
            )
        case "approval_required":
            return _required_from_pb(event)
        case "approval_decided":
            decided = event.approval_decided
            _require(decided.approval_id, "approval_decided.approval_id")
            decision = APPROVAL_DECISION.from_pb(
                decided.decision,
                "approval_decided.decision",
                request_id=decided.approval_id,
                expired=decided.state == approval_pb2.APPROVAL_STATE_EXPIRED,
            )
            return ev.ApprovalDecided(decision, decided.request_id)
        case "action_started":
            started = event.action_started
            edited, field = started.edited_arguments, "action_started.edited_arguments"
            arguments = object_from_pb(edited, field) if started.HasField("edited_arguments") else None
            return ev.ActionStarted(started.kind, started.name, arguments)
        case "action_ended":
            return _ended_from_pb(event.action_ended, event.event_type)
        case "context_prepared":
            prepared = event.context_prepared
            manifest = MANIFEST.from_pb(prepared.manifest, "context_prepared.manifest")
            return ev.ContextPrepared(manifest, prepared.step)
        case "llm_call_started":
            call = event.llm_call_started
            return ev.LlmCallStarted(call.call_id, call.provider, call.model, call.attempt, call.step, call.streaming)
        case "llm_call_completed":
            return _completed_from_pb(event.llm_call_completed)
        case "budget_reported":
            return ev.BudgetReported(
                BUDGET_DECISION.from_pb(event.budget_reported.decision, "budget_reported.decision")
            )
        case "llm_call_failed":
            failed = event.llm_call_failed
            return ev.LlmCallFailed(
                failed.call_id,
                failed.provider,
                failed.model,
                failed.step,
                failed.attempt,
                FAILURE.from_pb(failed.failure, "llm_call_failed.failure"),
                failed.will_retry,
                duration_micros(failed.duration, "llm_call_failed.duration"),
            )
        case "context_compacted":
            compacted = event.context_compacted
            return ev.ContextCompacted(
                compacted.before_tokens,
                compacted.after_tokens,
                STRATEGIES.read(compacted.strategy),
                compacted.summary,
            )
        case _:
            raise AssertionError(f"{kind} has no reader")


_STEP_TYPE: Final = ev.TYPES[ev.LlmStep]
_STEP_SHAPE: Final = {"kind": str, "step": int, "content": str, "data": dict}


def _step_of(own: dict[str, Any]) -> ev.LlmStep | dict[str, Any]:
    """Return the ProtoLink chunk that was written as the payload of an application's event; any other payload unchanged."""
    return ev.LlmStep(**own) if {name: type(value) for name, value in own.items()} == _STEP_SHAPE else own


def _ended_from_pb(ended: pb.ActionEnded, kind: str) -> ev.ActionEnded:
    # Logs written before the field existed give the outcome only in the type.
    told = "" if ended.outcome else ev.OUTCOME_TYPES.get(kind, "")
    return ev.ActionEnded(
        ended.kind,
        ended.name,
        value_from_pb(ended.result, "action_ended.result") if ended.HasField("result") else None,
        FAILURE.from_pb(ended.failure, "action_ended.failure").to_value() if ended.HasField("failure") else None,
        duration_micros(ended.duration, "action_ended.duration"),
        USAGE.from_pb(ended.usage, "action_ended.usage") if ended.HasField("usage") else None,
        told or OUTCOMES.read(ended.outcome),
    )


def _completed_from_pb(call: pb.LlmCallCompleted) -> ev.LlmCallCompleted:
    known = _call_usage_from_pb(call.usage, "llm_call_completed.usage") if call.HasField("usage") else {}
    return ev.LlmCallCompleted(
        call.call_id,
        call.provider,
        call.model,
        call.step,
        call.text,
        duration_micros=duration_micros(call.duration, "llm_call_completed.duration"),
        metrics=json_object_from_pb(call.metrics_json, "llm_call_completed.metrics_json"),
        tool_calls=tuple(
            tool_call_from_pb(each, f"llm_call_completed.tool_calls[{index}]")
            for index, each in enumerate(call.tool_calls)
        ),
        finish_reason=call.finish_reason,
        **known,
    )


def _call_usage_from_pb(pb: usage_pb2.Usage, field: str) -> dict[str, Any]:
    usage = USAGE.from_pb(pb, field)
    unknown = usage.metadata.get(_UNKNOWN)
    known: dict[str, Any] = {
        name: None if isinstance(unknown, list) and name in unknown else getattr(usage, name) for name in _TOKENS[:2]
    }
    known |= {name: getattr(usage, name) or None for name in _TOKENS[2:]}
    if usage.costs:
        known |= {"cost_micros": usage.costs[0].micros, "currency": usage.costs[0].currency}
    return known


def event_to_pb(event: ev.RunEvent, micros: int) -> pb.RunEvent:
    """Convert a whole event to a message; `micros` is the time of `event.timestamp` in microseconds."""
    if isinstance(event.payload, ev.TextDelta):
        raise InvalidArgumentError("a delta is no event of the log", field="payload")
    encoder = EventEncoder(
        task_id=event.task_id, run_id=event.run_id, session_id=event.session_id, agent_name=event.agent_name
    )
    frame = encoder.frame(
        event.payload if event.payload is not None else {},
        event.sequence or 0,
        micros,
        type=event.type,
        final=event.final,
        envelope=encode_envelope(event),
    )
    out = unframe(frame)
    if event.payload is None:
        out.ClearField("custom")
    return out


def event_from_pb(event: pb.RunEvent) -> ev.RunEvent:
    """Convert a message to an event; `payload` is None for an unknown payload kind.

    Raises:
        InvalidArgumentError: Names the path.
    """
    if event.sequence < 0:
        raise InvalidArgumentError("must not be negative", field="sequence")
    payload = payload_from_pb(event)
    return ev.RunEvent(
        type=event.event_type or ("unknown" if payload is None else ev.type_of(payload)),
        payload=payload,
        task_id=event.task_id,
        sequence=event.sequence or None,
        run_id=event.run_id,
        session_id=event.session_id,
        agent_name=event.agent_name,
        timestamp=iso_from_micros(micros_from_pb(event.create_time, "create_time")),
        severity=_SEVERITIES_FROM_PB.get(event.severity, "info"),
        summary=event.summary,
        final=event.last,
        action_id=event.action_id,
        metadata=json_object_from_pb(event.metadata_json, "metadata_json"),
    )


def event_from_frame(frame: bytes) -> ev.RunEvent:
    return event_from_pb(unframe(frame))


_BEGIN_TAG: Final = _PAYLOAD_TAGS[ev.LlmCallStarted]
_END_TAG: Final = _PAYLOAD_TAGS[ev.LlmCallCompleted]


def turn_of_call(frame: bytes) -> tuple[str, int] | None:
    """Return call and sequence of an event that starts, restarts or completes a model call; None for all others."""
    # Two bytes that most frames do not contain avoid the decoding; a frame with them by chance costs one microsecond more.
    if _BEGIN_TAG not in frame and _END_TAG not in frame:
        return None
    event = unframe(frame)
    match event.WhichOneof("payload"):
        case "llm_call_started":
            return event.llm_call_started.call_id, event.sequence
        case "llm_call_completed":
            return event.llm_call_completed.call_id, event.sequence
        case _:
            return None


_ASK_TAG: Final = _PAYLOAD_TAGS[ev.ApprovalRequired]


def asked_in(frame: bytes) -> str:
    """Return the id of the approval that an event requests; empty for all other events."""
    if _ASK_TAG not in frame:
        return ""  # as in `turn_of_call`
    event = unframe(frame)
    return event.approval_required.approval_id if event.WhichOneof("payload") == "approval_required" else ""


def sequence_of(frame: bytes) -> int:
    """Return the position of an event in its log."""
    return unframe(frame).sequence


def is_final(frame: bytes) -> bool:
    """Whether this is the last event in its log."""
    return unframe(frame).last


_STATUS: Final = ev.TYPES[ev.TaskStatusChanged].encode()
_IS_FINAL: Final = varint(_NUMBERS["last"].number << 3) + b"\x01"
_ARTIFACT_TAG: Final = tag(pb.TaskArtifactUpdated.DESCRIPTOR.fields_by_name["artifact"].number)


def settles(frame: bytes) -> bool:
    """Whether the task ends with this event, or starts to wait for input or an approval."""
    if _STATUS not in frame and _IS_FINAL not in frame:
        return False  # most events have neither field and need no parsing
    event = unframe(frame)
    return event.last or (
        event.WhichOneof("payload") == "task_status"
        and event.task_status.new_state in (task_pb2.TASK_STATE_INPUT_REQUIRED, task_pb2.TASK_STATE_AUTH_REQUIRED)
    )


def find_settling(frames: Sequence[bytes]) -> int | None:
    """Return the index of the first event that `settles` the task; None if none does."""
    together = b"".join(frames)
    if _STATUS not in together and _IS_FINAL not in together:
        return None  # one search, because most batches of a long log have no such event
    return next((index for index, frame in enumerate(frames) if settles(frame)), None)
