"""Converts the payloads of events: one codec for each kind, and the field of `RunEvent` that it belongs to.

A new kind needs one line in `CODECS`. Frames, and encodings that are faster than a codec, are in `events`.
"""

from collections.abc import Callable
from typing import Any, Final

from plgrpc.v1 import approval_pb2, task_control_pb2, tool_pb2, usage_pb2
from plgrpc.v1 import event_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError, LogTooNewError
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest, PolicyDecision, PolicyEffect, RunAction
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.payload import MARK, Payload, read_value
from protolink_grpc.models.task_control import TaskDescription, TaskLink
from protolink_grpc.models.tool import OfferedTool, OfferedTools
from protolink_grpc.wire.actions import ABRIDGED_ACTION, ACTION, APPROVAL_DECISION, APPROVAL_STATES, EDITS
from protolink_grpc.wire.compile import Codec, Computed, Group, LeftOut, Special, enum_numbers
from protolink_grpc.wire.context import CONTEXT
from protolink_grpc.wire.scalars import micros_from_pb, micros_to_duration
from protolink_grpc.wire.tasks import submitted_task_from_pb, task_to_pb
from protolink_grpc.wire.usage import COST, USAGE
from protolink_grpc.wire.values import FAILURE
from protolink_grpc.wire.values import payload_from_pb as value_from_pb
from protolink_grpc.wire.values import payload_to_pb as value_to_pb

LOG_FORMAT: Final = 1
"""Format of the events that this version writes, and the highest one that it can read. Source: RunStart.log_format."""

_CAUSES: Final = enum_numbers(str, pb.RunCause.DESCRIPTOR, unset="", field="cause")

WORKER: Final = Codec(ev.Worker, pb.Worker)
DESCRIPTION: Final = Codec(TaskDescription, task_control_pb2.TaskDescription)
OFFERED_TOOL: Final = Codec(OfferedTool, tool_pb2.OfferedTool)
OFFERED_TOOLS: Final = Codec(OfferedTools, tool_pb2.OfferedTools)
LINK: Final = Codec(TaskLink, task_control_pb2.TaskLink, created_at="create_time")


# -- groups and specials ---------------------------------------------------------------------------------------------------


def _write_task(submitted: ev.TaskSubmitted) -> Any:
    task = task_to_pb(submitted.task)
    if submitted.session_id:
        task.session_id = submitted.session_id
    if submitted.context is not None:
        task.context.CopyFrom(CONTEXT.to_pb(submitted.context))
    return task


def _read_task(submitted: pb.TaskSubmitted) -> tuple[Any, ...]:
    task = submitted.task
    context = CONTEXT.from_pb(task.context, "task.context") if task.HasField("context") else None
    return submitted_task_from_pb(task, "task"), task.session_id, context


def _write_run(changed: ev.TaskStatusChanged) -> pb.RunStart | None:
    context, worker = changed.context, changed.worker
    if not (changed.attempt or changed.cause or context is not None or worker is not None):
        return None
    return pb.RunStart(
        attempt=changed.attempt,
        cause=_CAUSES[changed.cause],
        context=None if context is None else CONTEXT.to_pb(context),
        worker=None if worker is None else WORKER.to_pb(worker),
        log_format=LOG_FORMAT,
    )


def _read_run(changed: pb.TaskStatusChanged) -> tuple[Any, ...]:
    if not changed.HasField("run"):
        return 0, "", None, None
    run = changed.run
    if run.log_format > LOG_FORMAT:
        raise LogTooNewError(f"the format {run.log_format} of a run needs a later version of this package")
    return (
        run.attempt,
        _CAUSES.read(run.cause),
        CONTEXT.from_pb(run.context, "run.context") if run.HasField("context") else None,
        WORKER.from_pb(run.worker, "run.worker") if run.HasField("worker") else None,
    )


def _write_action(requested: ev.ActionRequested) -> Any:
    return (ABRIDGED_ACTION if requested.abridged else ACTION).to_pb(requested.action)


def _read_action(requested: pb.ActionRequested) -> tuple[Any, ...]:
    action = requested.action
    return ACTION.from_pb(action, "action"), bool(action.call_id) and not action.HasField("payload")


def _read_decision(decided: pb.ApprovalDecided) -> ApprovalDecision:
    _require(decided.approval_id, "approval_id")
    return APPROVAL_DECISION.from_pb(
        decided.decision,
        "decision",
        request_id=decided.approval_id,
        expired=decided.state == approval_pb2.APPROVAL_STATE_EXPIRED,
    )


def _require(text: str, field: str) -> None:
    if not text or text.isspace():
        raise InvalidArgumentError("must be a non-empty string", field=field)


_TOKENS: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")


def _write_usage(call: ev.LlmCallCompleted) -> usage_pb2.Usage | None:
    known = {name: count for name in _TOKENS if (count := getattr(call, name)) is not None}
    cost = call.cost
    if not known and cost is None:
        return None
    return usage_pb2.Usage(**known, costs=[] if cost is None else [COST.to_pb(cost)])


def _read_usage(call: pb.LlmCallCompleted) -> tuple[Any, ...]:
    if not call.HasField("usage"):
        return None, None, None, None, None, ""
    usage = USAGE.from_pb(call.usage, "usage")
    cost = usage.costs[0] if usage.costs else None
    return (
        *(getattr(usage, name) if call.usage.HasField(name) else None for name in _TOKENS),
        None if cost is None else cost.micros,
        "" if cost is None else cost.currency,
    )


# -- codecs ----------------------------------------------------------------------------------------------------------------

CODECS: Final[tuple[Codec[Any, Any], ...]] = (
    Codec(ev.TaskSubmitted, pb.TaskSubmitted, task=Group(("task", "session_id", "context"), _write_task, _read_task)),
    Codec(
        ev.TaskStatusChanged,
        pb.TaskStatusChanged,
        run=Group(("attempt", "cause", "context", "worker"), _write_run, _read_run),
    ),
    Codec(ev.TaskMessagesAdded, pb.TaskMessagesAdded),
    Codec(ev.TaskArtifactUpdated, pb.TaskArtifactUpdated),
    Codec(ev.TaskPatched, pb.TaskPatched),
    Codec(ev.TaskProgress, pb.TaskProgress),
    Codec(ev.TaskErrorReported, pb.TaskErrorReported),
    Codec(ev.CancelRequested, pb.CancelRequested),
    Codec(ev.ActionRequested, pb.ActionRequested, action=Group(("action", "abridged"), _write_action, _read_action)),
    Codec(ev.ActionPolicyEvaluated, pb.ActionPolicyEvaluated),
    Codec(
        ev.ApprovalDecided,
        pb.ApprovalDecided,
        decision=Special("decision", lambda decided: APPROVAL_DECISION.to_pb(decided.decision), _read_decision),
        approval_id=Computed(lambda decided: decided.decision.request_id),
        state=Computed(lambda decided: APPROVAL_STATES[decided.decision.state]),
        request_id="request_id",
    ),
    Codec(ev.ActionStarted, pb.ActionStarted, arguments="edited_arguments"),
    Codec(
        ev.ActionEnded,
        pb.ActionEnded,
        error=Special(
            "failure",
            lambda ended: None if ended.error is None else FAILURE.to_pb(Failure.from_value(ended.error)),
            lambda ended: FAILURE.from_pb(ended.failure, "failure").to_value() if ended.HasField("failure") else None,
        ),
        duration_micros="duration",
    ),
    Codec(ev.ContextPrepared, pb.ContextPrepared),
    Codec(ev.LlmCallStarted, pb.LlmCallStarted),
    Codec(
        ev.LlmCallCompleted,
        pb.LlmCallCompleted,
        usage=Group((*_TOKENS, "cost_micros", "currency"), _write_usage, _read_usage),
        duration_micros="duration",
    ),
    Codec(
        ev.LlmCallFailed,
        pb.LlmCallFailed,
        # Also set if it is 0: an unset duration is unknown.
        duration_micros=Special("duration", lambda failed: micros_to_duration(failed.duration_micros)),
    ),
    Codec(ev.ContextCompacted, pb.ContextCompacted),
    Codec(ev.BudgetReported, pb.BudgetReported),
    Codec(ev.TaskDescribed, pb.TaskDescribed),
    Codec(ev.TaskInputReplaced, pb.TaskInputReplaced),
    Codec(ev.TaskStartRequested, pb.TaskStartRequested),
    Codec(ev.TaskPauseRequested, pb.TaskPauseRequested),
    Codec(ev.TaskPaused, pb.TaskPaused),
    Codec(ev.TaskResumed, pb.TaskResumed),
    Codec(ev.TaskRetried, pb.TaskRetried),
    Codec(ev.TaskLinked, pb.TaskLinked),
    Codec(ev.TaskUnlinked, pb.TaskUnlinked),
    Codec(ev.TaskQueued, pb.TaskQueued),
    Codec(ev.PeerTaskLinked, pb.PeerTaskLinked),
)
"""The codec of each kind whose message has all its facts."""

APPROVAL_REQUIRED: Final = Codec(
    ApprovalRequest,
    pb.ApprovalRequired,
    request_id="approval_id",
    expires_at="expire_time",
    editable=Special("edit", lambda request: EDITS[request.editable], lambda required: required.edit == EDITS[True]),
    action=LeftOut("The event has its id; an earlier event has the rest."),
    policy_decision=LeftOut("An earlier event has it."),
    run_id=LeftOut("The event has it."),
    task_id=LeftOut("The event has it."),
    created_at=LeftOut("It is the time of the event."),
    etag=LeftOut("The payload has it: see `_required_to_pb`."),
)


def _required_to_pb(payload: ev.ApprovalRequired) -> pb.ApprovalRequired:
    out = APPROVAL_REQUIRED.to_pb(payload.request)
    out.etag = payload.etag or payload.request.action.fingerprint
    return out


def _required_from_pb(event: pb.RunEvent) -> ev.ApprovalRequired:
    required, field = event.approval_required, "approval_required"
    _require(required.approval_id, f"{field}.approval_id")
    created = iso_from_micros(micros_from_pb(event.create_time, "create_time"))
    request = APPROVAL_REQUIRED.from_pb(
        required,
        field,
        action=RunAction(ev.UNKNOWN_ACTION, ev.UNKNOWN_ACTION, action_id=event.action_id, created_at=created),
        policy_decision=PolicyDecision(PolicyEffect.REQUIRE_APPROVAL),
        run_id=event.run_id or None,
        task_id=event.task_id,
        created_at=created,
    )
    return ev.ApprovalRequired(request, required.etag, abridged=True)


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


def _step_to_pb(step: ev.LlmStep) -> pb.CustomEvent:
    return _custom_to_pb({"kind": step.kind, "step": step.step, "content": step.content, "data": step.data})


_STEP_TYPE: Final = ev.TYPES[ev.LlmStep]
_STEP_SHAPE: Final = {"kind": str, "step": int, "content": str, "data": dict}


def _custom_from_pb(event: pb.RunEvent) -> ev.LlmStep | dict[str, Any]:
    if not event.custom.HasField("payload"):
        return {}
    value = value_from_pb(event.custom.payload, "custom.payload")
    if not isinstance(value, dict):
        return (value if isinstance(value, Payload) else Payload(value)).to_dict()
    if event.event_type == _STEP_TYPE and {name: type(each) for name, each in value.items()} == _STEP_SHAPE:
        return ev.LlmStep(**value)
    return value


def _status_from_pb(event: pb.RunEvent) -> ev.TaskStatusChanged:
    try:
        changed: ev.TaskStatusChanged = _BY_FIELD["task_status"].from_pb(event.task_status, "task_status")
    except LogTooNewError:
        raise _too_new_error(event) from None
    return changed


def _ended_from_pb(event: pb.RunEvent) -> ev.ActionEnded:
    ended: ev.ActionEnded = _BY_FIELD["action_ended"].from_pb(event.action_ended, "action_ended")
    if not event.action_ended.outcome:
        # Logs written before the field existed give the outcome only in the type.
        ended.outcome = ev.OUTCOME_TYPES.get(event.event_type, ended.outcome)
    return ended


# -- all kinds -------------------------------------------------------------------------------------------------------------

_FIELDS: Final = {each.message_type: each.name for each in pb.RunEvent.DESCRIPTOR.oneofs_by_name["payload"].fields}
_BY_FIELD: Final = {_FIELDS[codec.message.DESCRIPTOR]: codec for codec in CODECS}
_READERS: Final[dict[str, Callable[[pb.RunEvent], Any]]] = {
    "task_status": _status_from_pb,
    "action_ended": _ended_from_pb,
    "approval_required": _required_from_pb,
    "custom": _custom_from_pb,
}
"""The kinds that are not read from their own message alone, by field."""
_PLAIN: Final = {field: codec for field, codec in _BY_FIELD.items() if field not in _READERS}

FIELDS: Final[dict[type, str]] = {codec.cls: field for field, codec in _BY_FIELD.items()} | {
    ev.ApprovalRequired: "approval_required",
    ev.LlmStep: "custom",
    dict: "custom",
}
"""The field of each kind of payload; the descriptor of RunEvent has the numbers."""

_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {codec.cls: codec.write for codec in CODECS} | {
    ev.ApprovalRequired: _required_to_pb,
    ev.LlmStep: _step_to_pb,
}


def payload_to_pb(payload: ev.Payload | dict[str, Any]) -> Any:
    """Convert a payload to the message of its field in `FIELDS`.

    Raises:
        InvalidArgumentError: A value that the contract does not allow; names the path.
        TypeError: A value without a JSON form.
    """
    write: Callable[[Any], Any] = _WRITERS.get(payload.__class__, _custom_to_pb)
    return write(payload)


def payload_from_pb(event: pb.RunEvent) -> ev.Payload | dict[str, Any] | None:
    """Convert the payload of an event; None for a kind that this version does not support.

    Raises:
        InvalidArgumentError: The payload is not valid for its kind; names the path.
        LogTooNewError: A run starts whose events have a later format.
    """
    field = event.WhichOneof("payload")
    if field is None:
        return None
    codec = _PLAIN.get(field)
    payload: ev.Payload | dict[str, Any]
    payload = _READERS[field](event) if codec is None else codec.from_pb(getattr(event, field), field)
    return payload


def check_understood(event: pb.RunEvent) -> None:
    """Raise when a reader that does not support the payload of this event must not ignore it.

    Raises:
        LogTooNewError: The event must not be ignored.
    """
    if event.must_understand:
        raise _too_new_error(event)


def _too_new_error(event: pb.RunEvent) -> LogTooNewError:
    return LogTooNewError(
        f"event {event.sequence} of task {event.task_id} ({event.event_type}) needs a later version of this package",
        task_id=event.task_id,
    )
