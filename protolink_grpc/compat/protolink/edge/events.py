"""Converts RunEvents to ProtoLink's stream events, the reverse of `stream_events`.

Events without an equivalent are sent as RunEvent JSON, of which ProtoLink's clients show the type and the summary.
"""

from collections.abc import Callable, Sequence
from typing import Any

from protolink_grpc.compat.protolink.edge.shapes import Fields, state_json
from protolink_grpc.compat.protolink.stream_events import AGENT_CALL, LLM_STREAM, SOURCE_KEY
from protolink_grpc.llms.direct import failed_call_event
from protolink_grpc.models import events as ev
from protolink_grpc.models.json_value import plain, to_json
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.part import Part
from protolink_grpc.models.references import References

_REASONS = {TaskState.CANCELED: "cancel_reason", TaskState.FAILED: "error", TaskState.REJECTED: "error"}
"""The metadata key for the reason of a status, by state; `reason` for all others."""


class StreamEvents:
    """Converts the events of one stream.

    It tracks each running model call, because deltas do not contain their step, and because ProtoLink's clients only join the
    deltas: at the end of a call, the text that no delta contained is sent as a further delta.
    """

    __slots__ = ("_answered", "_calls", "_may_end", "_references", "_step")

    def __init__(self) -> None:
        self._references = References()
        self._step: int | None = None
        self._answered = ""  # the last call that has ended
        self._may_end = False  # whether no action has followed that answer yet
        self._calls: dict[str, tuple[int, int]] = {}  # step, and bytes sent

    def of(self, event: ev.RunEvent) -> list[Fields]:
        """Convert an event to JSON. The reader's own submission is left out."""
        event = self._references.whole(event)
        payload = event.payload
        match payload:
            case ev.TaskSubmitted():
                return []
            case ev.TaskStatusChanged():
                return [_status(event, payload)]
            case ev.TaskArtifactUpdated(append=False):
                # Further parts of an artifact are sent as RunEvent JSON: ProtoLink only has whole artifacts.
                update = _event(event, "task_artifact_update", artifact=payload.artifact.to_dict())
                return [*self._final(event, payload.artifact.parts), update]
            case ev.TaskMessagesAdded(messages=messages):
                parts = [part for each in messages if each.role != "user" for part in each.parts]
                return [*self._final(event, parts), event.to_dict()]
            case ev.TaskProgress():
                return [_progress(event, payload)]
            case ev.TaskErrorReported():
                found = {"error_code": payload.error_code, "error_message": payload.error_message}
                return [_event(event, "task_error", **found, recoverable=payload.recoverable)]
            case ev.TextDelta():
                return [self._chunk(event, payload.call_id, payload.offset, payload.text)]
        write = _WRITERS.get(type(payload))
        if write is None:
            return [event.to_dict()]
        rest = self._follow(event, payload)
        kind, content, metadata = write(event, payload)
        return [*rest, self._of_model(event, kind, content, metadata)]

    def _final(self, event: ev.RunEvent, parts: Sequence[Part]) -> list[Fields]:
        """Return the event for the final answer of a model: an output after its last answer."""
        outputs = [part.content for part in parts if part.type in ("text", "json", "infer_output")]
        if not self._may_end or not outputs or SOURCE_KEY in event.metadata:
            return []
        self._may_end = False
        text = outputs[-1] if isinstance(outputs[-1], str) else to_json(outputs[-1])
        return [self._of_model(event, "llm_final", text, {})]

    def _follow(self, event: ev.RunEvent, payload: Any) -> list[Fields]:
        """Track steps and calls. At the end of a call, return the text that no delta contained.

        The stream of a ProtoLink agent is complete, so nothing is added to its events.
        """
        if SOURCE_KEY in event.metadata:
            self._step = getattr(payload, "step", None) or None
            return []
        step = getattr(payload, "step", None)
        if step is not None:
            self._step = step or None
        self._may_end = self._may_end and not isinstance(payload, ev.ContextPrepared | ev.ActionRequested)
        if isinstance(payload, ev.ContextPrepared):
            return [self._of_model(event, "llm_step", None, {})]
        if isinstance(payload, ev.ActionRequested):
            return self._requested_by_model(event, payload)
        if isinstance(payload, ev.LlmCallStarted):
            self._calls[payload.call_id] = (payload.step, 0)
        elif isinstance(payload, ev.LlmCallCompleted):
            shown = self._calls.get(payload.call_id, (0, 0))[1]
            rest = payload.text.encode(errors="replace")[shown:].decode(errors="replace")
            found = [self._chunk(event, payload.call_id, shown, rest)] if rest else []
            self._calls.pop(payload.call_id, None)
            self._answered, self._may_end = payload.call_id, True
            return found
        return []

    def _requested_by_model(self, event: ev.RunEvent, requested: ev.ActionRequested) -> list[Fields]:
        """Return the event for an action that a model requested; nothing for other actions."""
        if not self._answered or not requested.position.startswith(f"{self._answered}/"):
            return []
        action = requested.action
        if action.kind == AGENT_CALL:
            call: Fields = {"action": "agent_call", "payload": plain(action.payload)}
        else:
            call = {
                "action": "tool_call",
                "payload": {"tool": action.name, "args": plain(action.payload.get("arguments", {}))},
            }
        return [self._of_model(event, "llm_action", None, call)]

    def _chunk(self, event: ev.RunEvent, call_id: str, offset: int, text: str) -> Fields:
        step = self._calls.get(call_id, (self._step or 0, 0))[0]
        self._calls[call_id] = (step, offset + len(text.encode()))
        found = self._of_model(event, "llm_chunk", text, {})
        return found | {"event_id": f"{event.task_id}/{call_id}@{offset}", "step": step or None}

    def _of_model(self, event: ev.RunEvent, kind: str, content: str | None, metadata: Fields) -> Fields:
        if event.action_id:
            metadata["action_id"] = event.action_id
        metadata |= {name: event.metadata[name] for name in ev.PROTOLINK_IDS if name in event.metadata}
        return _event(
            event,
            LLM_STREAM,
            metadata,
            agent_name=event.agent_name,
            llm_event_type=kind,
            step=self._step,
            content=content,
            final=kind == "llm_final",
        )


def is_last(event: Fields) -> bool:
    """Return whether the stream ends with this event. An application's own RunEvents have no state."""
    return "new_state" in event and event["type"] == "task_status_update" and bool(event["final"])


def _event(event: ev.RunEvent, kind: str, metadata: Fields | None = None, /, **more: Any) -> Fields:
    return {
        "event_id": event.event_id,
        "type": kind,
        "task_id": event.task_id,
        "timestamp": event.timestamp,
        "metadata": {} if metadata is None else metadata,
        **more,
    }


def _progress(event: ev.RunEvent, payload: ev.TaskProgress) -> Fields:
    """Convert progress. The percentage is an integer if possible; unknown progress is left out, which means 0 for these clients."""
    percent = payload.progress
    found = {} if percent is None else {"progress": int(percent) if float(percent).is_integer() else percent}
    return _event(event, "task_progress", **found, message=payload.message)


def _status(event: ev.RunEvent, payload: ev.TaskStatusChanged) -> Fields:
    state = payload.new_state
    metadata = {_REASONS.get(state, "reason"): payload.reason} if payload.reason else {}
    return _event(
        event,
        "task_status_update",
        metadata,
        previous_state=state_json(payload.previous_state),
        new_state=state_json(state),
        final=state in TERMINAL or state in INTERRUPTED,
    )


LlmFields = tuple[str, str | None, Fields]
"""The fields `llm_event_type`, `content` and `metadata` of a `task_llm_stream` event."""


def _step(_: ev.RunEvent, payload: ev.LlmStep) -> LlmFields:
    return payload.kind, payload.content or None, plain(payload.data)


def _call_failed(_: ev.RunEvent, payload: ev.LlmCallFailed) -> LlmFields:
    metadata = failed_call_event(payload)
    return metadata.pop("type"), None, metadata


def _context_prepared(_: ev.RunEvent, payload: ev.ContextPrepared) -> LlmFields:
    return "context_prepared", None, {"manifest": payload.manifest.to_dict()}


def _compacted(_: ev.RunEvent, payload: ev.ContextCompacted) -> LlmFields:
    metadata = payload.to_dict()
    return "context_compacted", metadata.pop("summary") or None, metadata


def _call_started(_: ev.RunEvent, payload: ev.LlmCallStarted) -> LlmFields:
    return (
        "llm_call_started",
        None,
        {
            "call_id": payload.call_id,
            "attempt": payload.attempt,
            "provider": payload.provider,
            "model": payload.model,
            "streaming": payload.streaming,
        },
    )


def _call_completed(_: ev.RunEvent, payload: ev.LlmCallCompleted) -> LlmFields:
    usage = {"input_tokens": payload.input_tokens, "output_tokens": payload.output_tokens}
    metrics = plain(payload.metrics)
    if any(count is not None for count in usage.values()):
        reported = metrics.get("usage")
        metrics["usage"] = usage | {"total_tokens": sum(count or 0 for count in usage.values())}
        metrics["usage"] |= reported if isinstance(reported, dict) else {}
    return (
        "llm_call_completed",
        payload.text or None,
        {
            "call_id": payload.call_id,
            "provider": payload.provider,
            "model": payload.response_model or payload.model,
            "latency_ms": payload.duration_micros / 1000,
            "metrics": metrics,
        },
    )


def _budget_reported(_: ev.RunEvent, payload: ev.BudgetReported) -> LlmFields:
    return ev.type_of(payload).replace(".", "_"), None, {"decision": payload.decision.to_dict()}


def _action_requested(_: ev.RunEvent, payload: ev.ActionRequested) -> LlmFields:
    return "action_requested", None, {"action": payload.action.to_dict()}


def _policy_evaluated(_: ev.RunEvent, payload: ev.ActionPolicyEvaluated) -> LlmFields:
    return "policy_decision", None, {"decision": payload.decision.to_dict()}


def _approval_required(_: ev.RunEvent, payload: ev.ApprovalRequired) -> LlmFields:
    return "approval_required", None, {"request": payload.request.to_dict()}


def _approval_decided(_: ev.RunEvent, payload: ev.ApprovalDecided) -> LlmFields:
    return "approval_decision", None, {"decision": payload.decision.to_dict()}


def _action_started(_: ev.RunEvent, payload: ev.ActionStarted) -> LlmFields:
    metadata = _target(payload)
    metadata["args"] = plain(payload.arguments or {})
    return f"{_prefix(payload)}_start", None, metadata


def _action_ended(event: ev.RunEvent, payload: ev.ActionEnded) -> LlmFields:
    metadata = _target(payload)
    outcome = payload.outcome
    if outcome == "completed":
        omitted = payload.result is None
        metadata |= {"result_omitted": True} if omitted else {"result": plain(payload.result)}
    else:
        metadata["message"] = event.summary
    if payload.error is not None:
        metadata["rejection" if outcome == "rejected" else "error"] = plain(payload.error)
    kind = "action_denied" if outcome == "denied" else f"{_prefix(payload)}_{_OUTCOMES.get(outcome, 'error')}"
    return kind, None, metadata


_OUTCOMES = {"completed": "result", "rejected": "rejected", "canceled": "canceled"}


def _prefix(payload: ev.ActionStarted | ev.ActionEnded) -> str:
    return "agent_call" if payload.kind == AGENT_CALL else "tool"


def _target(payload: ev.ActionStarted | ev.ActionEnded) -> Fields:
    return {"agent" if payload.kind == AGENT_CALL else "tool": payload.name}


_WRITERS: dict[type, Callable[[ev.RunEvent, Any], LlmFields]] = {
    ev.LlmStep: _step,
    ev.LlmCallFailed: _call_failed,
    ev.ContextPrepared: _context_prepared,
    ev.ContextCompacted: _compacted,
    ev.LlmCallStarted: _call_started,
    ev.LlmCallCompleted: _call_completed,
    ev.BudgetReported: _budget_reported,
    ev.ActionRequested: _action_requested,
    ev.ActionPolicyEvaluated: _policy_evaluated,
    ev.ApprovalRequired: _approval_required,
    ev.ApprovalDecided: _approval_decided,
    ev.ActionStarted: _action_started,
    ev.ActionEnded: _action_ended,
}
"""The kinds of events that are `task_llm_stream` events in ProtoLink."""
