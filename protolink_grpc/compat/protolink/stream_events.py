"""Converts ProtoLink's stream events to RunEvents, by one table. The streams of this package have RunEvents already.

`edge.events` is the reverse.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import events as ev
from protolink_grpc.models import reader
from protolink_grpc.models.action import (
    ApprovalDecision,
    ApprovalRequest,
    BudgetDecision,
    ContextManifest,
    PolicyDecision,
    RunAction,
)
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.context import CONTEXT_KEY, RunContext
from protolink_grpc.models.event_json import event_from_dict
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import read_state
from protolink_grpc.models.summaries import summary_of

Fields = dict[str, Any]
AGENT_CALL, TOOL_CALL = "agent.call", "tool.call"

SOURCE_KEY = "source_type"
"""Key in the metadata of a converted event: the type of the stream event."""


def event_from_task_event(event: object, context: RunContext | None, sequence: int | None) -> ev.RunEvent:
    """See `RunEvent.from_task_event`."""
    if isinstance(event, ev.RunEvent):
        return _complete(event, context, sequence)
    to_dict = getattr(event, "to_dict", None)
    source = reader.as_object(event if to_dict is None else to_dict())
    kind = reader.required_text(source, "type")
    made = _convert(source, kind) if kind in _SHAPES else event_from_dict(source)
    return _complete(made, context or _context_of(made.metadata), sequence)


def _complete(event: ev.RunEvent, context: RunContext | None, sequence: int | None) -> ev.RunEvent:
    """Return the event with the run, the session and the sequence that it does not have."""
    more: Fields = {}
    if context is not None and not event.run_id:
        more["run_id"] = context.run_id
    if context is not None and context.session_id and not event.session_id:
        more["session_id"] = context.session_id
    if sequence is not None and event.sequence is None:
        more["sequence"] = sequence
    return replace(event, **more) if more else event


def _context_of(metadata: Fields) -> RunContext | None:
    """Return the context in the task of the last event of a stream; None if there is no task."""
    task = metadata.get("task")
    found = task.get("metadata") if isinstance(task, dict) else None
    context = found.get(CONTEXT_KEY) if isinstance(found, dict) else None
    try:
        return None if context is None else RunContext.from_dict(context)
    except InvalidArgumentError:
        return None  # a key of the application


def _convert(source: Fields, kind: str) -> ev.RunEvent:
    metadata = reader.mapping(source, "metadata")
    shape = _SHAPES[kind] if kind != LLM_STREAM else _LLM_SHAPES.get(reader.text(source, "llm_event_type"), _STEP)
    name, severity, read = shape
    payload: Any
    try:
        payload = read(source, metadata)
    except InvalidArgumentError:
        # The format of another version: kept as a dict, with the metadata merged in.
        payload = reader.copy_value(source, "") | metadata
    return ev.RunEvent(
        type=name,
        payload=payload,
        task_id=reader.text(source, "task_id"),
        agent_name=reader.text(source, "agent_name"),
        timestamp=reader.moment(source, "timestamp"),
        severity=severity,
        summary=summary_of(payload) or _summary(source, metadata),
        final=reader.flag(source, "final"),
        action_id=_action_id(metadata),
        metadata=metadata | {SOURCE_KEY: kind},
    )


def _action_id(metadata: Fields) -> str:
    action = metadata.get("action")
    return _text(metadata, "action_id") or (_text(action, "action_id") if isinstance(action, dict) else "")


def _text(source: Fields, key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) else ""


def _summary(source: Fields, metadata: Fields) -> str:
    """Return a short text for people: a text of the event, otherwise the name of a tool, agent or model."""
    texts = [_text(source, key) for key in ("message", "error_message", "new_state")]
    names = [_text(metadata, key) for key in ("tool", "agent", "model")]
    return next(filter(None, [*texts, *names, _text(source, "content")[:100]]), "")


def _status(source: Fields, metadata: Fields) -> ev.TaskStatusChanged:
    previous = source.get("previous_state")
    task = metadata.get("task")
    own = task.get("metadata") if isinstance(task, dict) else None
    reasons = [_text(own, key) for key in ("error", "cancel_reason", "reject_reason")] if isinstance(own, dict) else []
    return ev.TaskStatusChanged.because(
        read_state("unknown" if previous is None else previous, field="previous_state"),
        read_state(source.get("new_state"), field="new_state"),
        next(filter(None, reasons), ""),
    )


def _artifact(source: Fields, _: Fields) -> ev.TaskArtifactUpdated:
    return ev.TaskArtifactUpdated(reader.nested(source, "artifact", Artifact.from_dict))


def _progress(source: Fields, _: Fields) -> ev.TaskProgress:
    progress = ev.TaskProgress(reader.optional_double(source, "progress"), reader.text(source, "message"))
    progress.check()
    return progress


def _error(source: Fields, _: Fields) -> ev.TaskErrorReported:
    failure = Failure.of(reader.text(source, "error_code"), reader.text(source, "error_message"))
    return ev.TaskErrorReported(failure, "continues" if reader.flag(source, "recoverable") else "ends")


def _step(source: Fields, metadata: Fields) -> ev.LlmStep:
    return ev.LlmStep(
        reader.text(source, "llm_event_type"),
        reader.integer(source, "step"),
        reader.text(source, "content"),
        metadata,
    )


def _prepared(source: Fields, metadata: Fields) -> ev.ContextPrepared:
    manifest = reader.nested(metadata, "manifest", ContextManifest.from_dict)
    return ev.ContextPrepared(manifest, reader.integer(source, "step"))


def _call_id(source: Fields) -> str:
    """Return an id for the call. ProtoLink's calls have none; there is one call per step."""
    return f"{_text(source, 'task_id')}/{reader.integer(source, 'step')}"


def _call_started(source: Fields, metadata: Fields) -> ev.LlmCallStarted:
    return ev.LlmCallStarted(
        _call_id(source),
        _text(metadata, "provider"),
        _text(metadata, "model"),
        reader.integer(metadata, "attempt", 1),
        reader.integer(source, "step"),
        reader.flag(metadata, "streaming"),
    )


def _call_completed(source: Fields, metadata: Fields) -> ev.LlmCallCompleted:
    metrics = reader.mapping(metadata, "metrics")
    usage = reader.mapping(metrics, "usage")
    latency_ms = reader.optional_amount(metadata, "latency_ms")
    return ev.LlmCallCompleted(
        _call_id(source),
        _text(metadata, "provider"),
        _text(metadata, "model"),
        reader.integer(source, "step"),
        reader.text(source, "content"),
        reader.optional_integer(usage, "input_tokens"),
        reader.optional_integer(usage, "output_tokens"),
        duration_micros=int((latency_ms or 0) * 1000),
        metrics=metrics,
    )


def _budget(_: Fields, metadata: Fields) -> ev.BudgetReported:
    return ev.BudgetReported(reader.nested(metadata, "decision", BudgetDecision.from_dict))


def _requested(_: Fields, metadata: Fields) -> ev.ActionRequested:
    action = reader.nested(metadata, "action", RunAction.from_dict)
    return ev.ActionRequested(action)


def _policy(_: Fields, metadata: Fields) -> ev.ActionPolicyEvaluated:
    return ev.ActionPolicyEvaluated(reader.nested(metadata, "decision", PolicyDecision.from_dict))


def _approval(_: Fields, metadata: Fields) -> ev.ApprovalRequired:
    return ev.ApprovalRequired(reader.nested(metadata, "request", ApprovalRequest.from_dict))


def _answer(_: Fields, metadata: Fields) -> ev.ApprovalDecided:
    return ev.ApprovalDecided(reader.nested(metadata, "decision", ApprovalDecision.from_dict))


def _target(metadata: Fields) -> tuple[str, str]:
    """Return kind and name of an action, from the keys that the event has."""
    action = metadata.get("action")
    if isinstance(action, dict):
        return _text(action, "kind") or TOOL_CALL, _text(action, "name")
    tool = _text(metadata, "tool")
    return (TOOL_CALL, tool) if tool else (AGENT_CALL, _text(metadata, "agent"))


def _started(_: Fields, metadata: Fields) -> ev.ActionStarted:
    return ev.ActionStarted(*_target(metadata), reader.optional_mapping(metadata, "args"))


def _ended(_: Fields, metadata: Fields, outcome: str) -> ev.ActionEnded:
    failed = "result" not in metadata and (metadata.get("error") or metadata.get("rejection"))
    return ev.ActionEnded(
        *_target(metadata),
        result=metadata.get("result"),
        error=failed or None,
        outcome=outcome,
    )


LLM_STREAM = "task_llm_stream"

Shape = tuple[str, ev.Severity, Callable[[Fields, Fields], ev.Payload]]
_STEP: Shape = ("llm.stream", "info", _step)

_SHAPES: dict[str, Shape] = {
    "task_status_update": ("task.status", "info", _status),
    "task_artifact_update": ("task.artifact", "info", _artifact),
    "task_progress": ("task.progress", "info", _progress),
    "task_error": ("task.error", "error", _error),
    LLM_STREAM: _STEP,
}
"""Type, severity and payload of the RunEvent, by type of the stream event."""

_LLM_SHAPES: dict[str, Shape] = {
    "context_prepared": ("context.prepared", "info", _prepared),
    "llm_call_started": ("llm.call.started", "info", _call_started),
    "llm_call_completed": ("llm.call.completed", "info", _call_completed),
    "budget_warning": ("budget.warning", "warning", _budget),
    "budget_exceeded": ("budget.exceeded", "error", _budget),
    "action_requested": ("action.requested", "info", _requested),
    "policy_decision": ("action.policy", "info", _policy),
    "approval_required": ("approval.required", "info", _approval),
    "approval_decision": ("approval.decided", "info", _answer),
    "action_denied": ("action.denied", "error", partial(_ended, outcome="denied")),
    "tool_start": ("action.started", "info", _started),
    "agent_call_start": ("action.started", "info", _started),
    "tool_result": ("action.completed", "info", partial(_ended, outcome="completed")),
    "agent_call_result": ("action.completed", "info", partial(_ended, outcome="completed")),
    "tool_error": ("action.failed", "error", partial(_ended, outcome="failed")),
    "agent_call_error": ("action.failed", "error", partial(_ended, outcome="failed")),
    "tool_rejected": ("action.rejected", "error", partial(_ended, outcome="rejected")),
    "agent_call_rejected": ("action.rejected", "error", partial(_ended, outcome="rejected")),
    "tool_canceled": ("action.canceled", "warning", partial(_ended, outcome="canceled")),
    "agent_call_canceled": ("action.canceled", "warning", partial(_ended, outcome="canceled")),
    "llm_parse_error": ("llm.stream", "warning", _step),
    "llm_retry": ("llm.stream", "warning", _step),
    "llm_error": ("llm.stream", "error", _step),
}
"""The same for the kinds of `task_llm_stream`; those that are not listed become `llm.stream`."""
