"""Converts a task's log to events of the Agent Runtime contract.

A session has one thread. Each submission starts a turn, numbered within the task. An action of this package is a tool call there,
and an action there is an approval here. Events without an equivalent have a type with the prefix `plgrpc.`, which the contract
allows.
"""

from collections.abc import Callable, Iterator
from typing import Any

from protolink_grpc.models import events as ev
from protolink_grpc.models.action import PolicyEffect
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import RUN_LOST
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState

SCHEMA_VERSION = "protolink-grpc-0.1"
RUNTIME_ID = "protolink-grpc"
UNKNOWN = "unknown"
"""The contract's word for an unknown amount."""

Record = dict[str, Any]
Mapped = Iterator[tuple[str, Record]]
"""The type and the fields of each resulting event."""


class AgentRuntimeView:
    """Converts all events of one task, in order, to records of the contract."""

    def __init__(self) -> None:
        self._sequence = 0
        self._turn = 0
        self._interrupted = False

    def records(self, event: RunEvent) -> Iterator[Record]:
        """Convert the next event to one or more records, with a sequence of their own without gaps."""
        if isinstance(event.payload, ev.TextDelta):
            return
        self._count_turn(event)
        read = _TABLE.get(type(event.payload), _map_other)
        for index, (kind, more) in enumerate(read(event, event.payload)):
            self._sequence += 1
            yield self._envelope(event, kind, index) | more

    def _count_turn(self, event: RunEvent) -> None:
        if isinstance(event.payload, ev.TaskSubmitted) or (self._interrupted and _is_from_sender(event)):
            self._turn += 1
            self._interrupted = False
        elif isinstance(event.payload, ev.TaskStatusChanged):
            self._interrupted = event.payload.new_state in INTERRUPTED

    def _envelope(self, event: RunEvent, kind: str, index: int) -> Record:
        found = {
            "type": kind,
            "eventId": f"{event.event_id}/{index}" if index else event.event_id,
            "timestamp": event.timestamp,
            "sequence": self._sequence,
            "schemaVersion": SCHEMA_VERSION,
            "runtimeId": RUNTIME_ID,
            "sessionId": event.session_id,
            "threadId": f"{event.session_id}/default" if event.session_id else "",
            "turnId": f"{event.task_id}/turn/{self._turn}",
            "taskId": event.task_id,
            "runId": event.run_id,
            "payload": {},
            "refs": {"sourceType": event.type, "sourceSequence": event.sequence},
        }
        # In the contract, an id is absent or not empty.
        return {key: value for key, value in found.items() if value != ""}


def _is_from_sender(event: RunEvent) -> bool:
    payload = event.payload
    return isinstance(payload, ev.TaskMessagesAdded) and any(each.role == "user" for each in payload.messages)


def _map_other(event: RunEvent, payload: Any) -> Mapped:
    """Convert an event of a kind that the contract does not have."""
    yield f"plgrpc.{event.type}", {"payload": event.to_dict()["payload"] | {"summary": event.summary}}


def _map_submitted(event: RunEvent, submitted: ev.TaskSubmitted) -> Mapped:
    yield "task.created", {"payload": {"status": "accepted", "task": submitted.whole_task().to_dict()}}
    yield "turn.submitted", {"payload": {"status": "accepted", "source": submitted.principal}}


def _map_messages(event: RunEvent, added: ev.TaskMessagesAdded) -> Mapped:
    messages = [message.to_dict() for message in added.messages]
    if _is_from_sender(event):
        yield "turn.submitted", {"payload": {"status": "accepted", "messages": messages}}
    else:
        yield "plgrpc.task.message", {"payload": {"messages": messages}}


_BEGINNINGS = {"continued": "task.resumed", "recovered": "task.retrying"}
_ENDS = {
    TaskState.COMPLETED: ("task.attempt.completed", "turn.completed", "task.completed"),
    TaskState.FAILED: ("task.attempt.failed", "turn.failed", "task.failed"),
    TaskState.REJECTED: ("task.attempt.failed", "turn.failed", "task.failed"),
    TaskState.CANCELED: ("task.attempt.failed", "turn.failed", "task.cancelled"),
    TaskState.INPUT_REQUIRED: ("task.attempt.completed", "turn.completed", "task.waiting"),
    TaskState.AUTH_REQUIRED: ("task.attempt.completed", "turn.completed", "task.waiting"),
}
_STATUSES = {
    TaskState.SUBMITTED: "accepted",
    TaskState.WORKING: "running",
    TaskState.INPUT_REQUIRED: "waiting_input",
    TaskState.AUTH_REQUIRED: "waiting_permission",
    TaskState.CANCELED: "cancelled",
    TaskState.REJECTED: "failed",
}


def _map_status(event: RunEvent, status: ev.TaskStatusChanged) -> Mapped:
    new = status.new_state
    payload = {"status": _STATUSES.get(new, str(new)), "nativeStatus": str(new), "statusReason": status.reason}
    if new is TaskState.WORKING:
        if status.attempt:
            yield _BEGINNINGS.get(status.cause, "task.started"), {"payload": payload}
            yield "task.attempt.started", {"payload": payload | {"attempt": status.attempt}}
            yield "turn.started", {"payload": payload}
        else:
            yield "task.updated", {"payload": payload}
        return
    for kind in _ENDS.get(new, ("task.updated",)):
        failed = kind.endswith(".failed")
        yield kind, {"payload": payload | ({"failureCategory": _failure_category(status)} if failed else {})}


def _failure_category(status: ev.TaskStatusChanged) -> str:
    if status.new_state is not TaskState.FAILED:
        return str(status.new_state)
    return "run_lost" if status.failure is not None and status.failure.reason == RUN_LOST else "agent_failed"


def _map_artifact(event: RunEvent, update: ev.TaskArtifactUpdated) -> Mapped:
    artifact = update.artifact
    payload = {"artifact": artifact.to_dict(), "append": update.append}
    yield "artifact.changed", {"artifactId": artifact.id, "payload": payload}


def _map_patched(event: RunEvent, patched: ev.TaskPatched) -> Mapped:
    yield "task.updated", {"payload": {"metadata": patched.metadata, "flowState": patched.flow_state}}


def _map_progress(event: RunEvent, progress: ev.TaskProgress) -> Mapped:
    yield "task.progress", {"payload": {"percent": progress.progress, "summary": progress.message}}


def _map_error(event: RunEvent, error: ev.TaskErrorReported) -> Mapped:
    failure = error.failure
    payload = {
        "category": str(failure.category or UNKNOWN),
        "detail": failure.message,
        "retryable": failure.retryable,
        "recoverable": error.recoverable,
        "failure": failure.to_dict(),
    }
    yield "runtime.error", {"payload": payload}


def _map_cancel_requested(event: RunEvent, request: ev.CancelRequested) -> Mapped:
    yield "task.cancel_requested", {"payload": {"reason": request.reason, "requestedBy": request.requested_by}}


AGENT_CALL = "agent.call"


def _map_requested(event: RunEvent, requested: ev.ActionRequested) -> Mapped:
    action = requested.action
    payload = {"toolName": action.name, "kind": action.kind, "arguments": action.payload.get("arguments")}
    if action.kind == AGENT_CALL:
        yield "task.delegated", _subagent(event) | {"payload": payload}
    else:
        yield "tool.args", {"toolCallId": event.action_id, "payload": payload}


def _subagent(event: RunEvent) -> Record:
    return {"subagentId": event.action_id, "toolCallId": event.action_id}


_VERDICTS = {PolicyEffect.ALLOW: "allow", PolicyEffect.DENY: "deny", PolicyEffect.REQUIRE_APPROVAL: "ask"}


def _map_policy(event: RunEvent, evaluated: ev.ActionPolicyEvaluated) -> Mapped:
    decision = evaluated.decision
    payload = {
        "decision": _VERDICTS[decision.effect],
        "decisionReason": decision.reason,
        "policy": decision.policy_name,
        "capabilities": list(decision.matched_capabilities),
    }
    yield "permission.evaluated", {"toolCallId": event.action_id, "payload": payload}


def _map_approval_required(event: RunEvent, required: ev.ApprovalRequired) -> Mapped:
    request = required.request
    ids = {"actionId": request.request_id, "toolCallId": event.action_id or request.action.action_id}
    payload = {
        "actionType": "approval",
        "toolName": request.action.name,
        "prompt": event.summary or request.policy_decision.reason,
        "availableDecisions": ["allow", "deny", *(["edit"] if request.editable else [])],
        "expiresAt": request.expires_at,
        "request": request.to_dict(),
    }
    yield "permission.requested", ids | {"payload": payload | {"approvalActionId": request.request_id}}
    yield "action.required", ids | {"payload": payload}


def _map_decided(event: RunEvent, decided: ev.ApprovalDecided) -> Mapped:
    decision = decided.decision
    edited = decision.edited_arguments is not None
    payload = {
        "decision": ("edit" if edited else "allow") if decision.approved else "deny",
        "reason": decision.reason,
        "decidedBy": decision.decided_by,
        "editedArguments": decision.edited_arguments,
    }
    ids = {"actionId": decision.request_id} | ({"toolCallId": event.action_id} if event.action_id else {})
    yield "permission.resolved", ids | {"payload": payload}
    yield "action.resolved", ids | {"payload": payload}


def _map_started(event: RunEvent, started: ev.ActionStarted) -> Mapped:
    payload = {"toolName": started.name, "kind": started.kind, "safeArgs": started.arguments}
    if started.kind == AGENT_CALL:
        yield "subagent.spawned", _subagent(event) | {"payload": payload}
    else:
        yield "tool.started", {"toolCallId": event.action_id, "payload": payload}


def _map_ended(event: RunEvent, ended: ev.ActionEnded) -> Mapped:
    done = ended.outcome == "completed"
    payload: Record = {"toolName": ended.name, "kind": ended.kind, "durationMs": ended.duration_micros / 1000}
    payload |= {"result": ended.result} if done else {"error": ended.error, "failureCategory": f"tool_{ended.outcome}"}
    if ended.kind == AGENT_CALL:
        kind = "subagent.completed" if done else "subagent.failed"
        yield kind, _subagent(event) | {"payload": payload}
    else:
        yield "tool.result" if done else "tool.failed", {"toolCallId": event.action_id, "payload": payload}


def _map_prepared(event: RunEvent, prepared: ev.ContextPrepared) -> Mapped:
    yield "context.resolved", {"payload": {"manifest": prepared.manifest.to_dict(), "step": prepared.step}}


def _map_call_started(event: RunEvent, call: ev.LlmCallStarted) -> Mapped:
    payload = {"provider": call.provider, "model": call.model, "attempt": call.attempt, "step": call.step}
    yield "model.requested", {"modelRequestId": call.call_id, "payload": payload}


def _map_call_completed(event: RunEvent, call: ev.LlmCallCompleted) -> Mapped:
    usage = {"inputTokens": _amount(call.input_tokens), "outputTokens": _amount(call.output_tokens)}
    payload = {
        "provider": call.provider,
        "model": call.model,
        "usage": usage,
        "stopReason": call.finish_reason or UNKNOWN,
        "text": call.text,
        "toolCalls": [each.to_dict() for each in call.tool_calls],
        "durationMs": call.duration_micros / 1000,
    }
    yield "model.completed", {"modelRequestId": call.call_id, "payload": payload}
    cost = {"costMicros": _amount(call.cost_micros), "currency": call.currency or UNKNOWN}
    yield "cost.recorded", {"modelRequestId": call.call_id, "payload": usage | cost}


def _amount(amount: int | None) -> int | str:
    return UNKNOWN if amount is None else amount


def _map_budget(event: RunEvent, reported: ev.BudgetReported) -> Mapped:
    payload = {"limitState": reported.decision.to_dict()}
    yield "limit.changed", {"payload": payload}
    yield "quota.low" if reported.decision.allowed else "quota.blocked", {"payload": payload}


def _map_call_failed(event: RunEvent, call: ev.LlmCallFailed) -> Mapped:
    payload = {
        "provider": call.provider,
        "model": call.model,
        "attempt": call.attempt,
        "step": call.step,
        "failureCategory": str(call.failure.category or UNKNOWN),
        "detail": call.failure.message,
        "retryable": call.will_retry,
        "durationMs": call.duration_micros / 1000,
    }
    yield "model.failed", {"modelRequestId": call.call_id, "payload": payload}


def _map_compacted(event: RunEvent, done: ev.ContextCompacted) -> Mapped:
    payload = {"beforeTokens": done.before_tokens, "afterTokens": done.after_tokens, "strategy": done.strategy}
    yield "context.compaction.completed", {"payload": payload | {"summary": done.summary}}


_STEPS = {
    "llm_error": "model.failed",
    "context_compacted": "context.compaction.completed",
}


def _map_step(event: RunEvent, step: ev.LlmStep) -> Mapped:
    kind = _STEPS.get(step.kind, f"plgrpc.llm.{step.kind.removeprefix('llm_')}")
    yield kind, {"payload": {"step": step.step, "content": step.content, "data": step.data}}


_TABLE: dict[type, Callable[[RunEvent, Any], Mapped]] = {
    ev.TaskSubmitted: _map_submitted,  # task.created, turn.submitted
    ev.TaskStatusChanged: _map_status,  # task.*, task.attempt.*, turn.*
    ev.TaskMessagesAdded: _map_messages,  # turn.submitted of the sender, plgrpc.task.message of the agent
    ev.TaskArtifactUpdated: _map_artifact,  # artifact.changed
    ev.TaskPatched: _map_patched,  # task.updated
    ev.TaskProgress: _map_progress,  # task.progress
    ev.TaskErrorReported: _map_error,  # runtime.error
    ev.CancelRequested: _map_cancel_requested,  # task.cancel_requested
    ev.ActionRequested: _map_requested,  # tool.args, task.delegated
    ev.ActionPolicyEvaluated: _map_policy,  # permission.evaluated
    ev.ApprovalRequired: _map_approval_required,  # permission.requested, action.required
    ev.ApprovalDecided: _map_decided,  # permission.resolved, action.resolved
    ev.ActionStarted: _map_started,  # tool.started, subagent.spawned
    ev.ActionEnded: _map_ended,  # tool.result, tool.failed, subagent.completed, subagent.failed
    ev.ContextPrepared: _map_prepared,  # context.resolved
    ev.LlmCallStarted: _map_call_started,  # model.requested
    ev.LlmCallCompleted: _map_call_completed,  # model.completed, cost.recorded
    ev.BudgetReported: _map_budget,  # limit.changed, quota.low, quota.blocked
    ev.LlmCallFailed: _map_call_failed,  # model.failed
    ev.ContextCompacted: _map_compacted,  # context.compaction.completed
    ev.LlmStep: _map_step,  # model.failed, context.compaction.completed, plgrpc.llm.*
}
"""The conversions by kind of event. An application's own kinds and unknown kinds use `_map_other`."""
