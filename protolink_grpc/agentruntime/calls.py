"""Converts the actions and approvals of a task to Agent Runtime events.

An action of this package is a tool call there, and an action there is an approval here. The order of a tool call is
`permission.evaluated`, `tool.started`, then `permission.requested`, `action.required`, `action.resolved` and `permission.resolved`
if it needs an approval, then its execution, then `tool.result` or `tool.failed`.
"""

from dataclasses import replace
from typing import Final

from protolink_grpc.agentruntime.state import (
    MAX_CLOSED,
    POLICIES,
    UNAVAILABLE,
    UNKNOWN,
    Call,
    Mapped,
    Record,
    TaskRecords,
    category_of,
    duration_ms,
    resumed,
    show_status,
    to_camel,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import ApprovalDecision, PolicyEffect
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task_control import TaskStatus
from protolink_grpc.net.trace_context import span_id_of

AGENT_CALL: Final = "agent.call"

PLGRPC: Final = "plgrpc"
"""The protocol of a peer that is an agent of this package."""


# -- Actions and approvals -----------------------------------------------------------------------------------------------


def _ids_of(event: RunEvent, action_id: str, call: Call | None = None) -> Record:
    if not action_id:
        return {}
    execution = 1 if call is None else call.execution
    call_id = action_id if execution == 1 else f"{action_id}/{execution}"
    return {
        "toolCallId": call_id,
        "stepId": f"{event.task_id}/call/{call_id}",
        "spanId": span_id_of(action_id),
    }


def _approval_ids(task: TaskRecords, event: RunEvent, request_id: str, action_id: str) -> Record:
    return _ids_of(event, action_id, task.calls.get(action_id)) | {
        "actionId": request_id,
        "spanId": span_id_of(request_id),
    }


def map_requested(task: TaskRecords, event: RunEvent, requested: ev.ActionRequested) -> Mapped:
    """Remember the action. It is shown together with the decision of the policy."""
    action = requested.action
    arguments = action.payload.get("arguments", action.payload)
    child_task_id = str(action.payload.get("task_id", ""))
    action_id = event.action_id or action.action_id
    before = task.stopped.pop(action_id, None)
    execution = 1 if before is None else before.execution + 1
    task.calls[action_id] = Call(action.kind, action.name, arguments, child_task_id, execution)
    return iter(())


_VERDICTS = {PolicyEffect.ALLOW: "allow", PolicyEffect.DENY: "deny", PolicyEffect.REQUIRE_APPROVAL: "ask"}


def map_policy(task: TaskRecords, event: RunEvent, evaluated: ev.ActionPolicyEvaluated) -> Mapped:
    decision, call = evaluated.decision, task.calls.get(event.action_id)
    payload = {
        "decision": _VERDICTS.get(decision.effect, str(decision.effect)),
        "decisionSource": "rule" if decision.rule or decision.matched_capabilities else "host_policy",
        "decisionReason": decision.reason,
        "policy": decision.policy_name,
        "capabilities": list(decision.matched_capabilities),
        "sources": list(decision.sources),
    } | ({"ruleRefs": [decision.rule]} if decision.rule else {})
    payload |= _impact_of(task, call)
    yield "permission.evaluated", _ids_of(event, event.action_id, call) | {"payload": payload}
    if call is not None and not call.is_shown:
        yield _show(event, call, {"policy": POLICIES.get(decision.effect, str(decision.effect))})


def _impact_of(task: TaskRecords, call: Call | None) -> Record:
    """Return the scope of a decision, and whether it is about a destructive tool, as far as the prompt has its tools."""
    is_destructive = call is not None and call.name in task.destructive
    return {"scope": "call"} | ({"destructive": True, "rollbackAdvice": UNAVAILABLE} if is_destructive else {})


def _show(event: RunEvent, call: Call, more: Record) -> tuple[str, Record]:
    call.is_shown = True
    payload = {"toolName": call.name, "kind": call.kind, "safeArgs": call.arguments, **more}
    return "tool.started", _ids_of(event, event.action_id, call) | {"payload": payload}


def map_approval_required(task: TaskRecords, event: RunEvent, required: ev.ApprovalRequired) -> Mapped:
    request = required.request
    action_id = event.action_id or request.action.action_id
    ids = _approval_ids(task, event, request.request_id, action_id)
    payload = {
        "actionType": "approval",
        "toolName": request.action.name,
        "prompt": event.summary or request.policy_decision.reason,
        "availableDecisions": ["allow", "deny", *(["edit"] if request.editable else [])],
        "expiresAt": request.expires_at,
        "request": to_camel(request.to_dict()),
    }
    yield "permission.requested", ids | {"payload": payload | {"approvalActionId": request.request_id}}
    yield "action.required", ids | {"payload": payload}
    task.approvals[request.request_id] = action_id
    if action_id in task.calls:
        task.calls[action_id].was_asked = True
    yield from show_status(task, event, "")


def map_decided(task: TaskRecords, event: RunEvent, decided: ev.ApprovalDecided) -> Mapped:
    decision = decided.decision
    payload = {
        "decision": _word_of(decision),
        "reason": decision.reason,
        "decidedBy": decision.decided_by,
        "decidedAt": decision.decided_at,
        "editedArguments": decision.edited_arguments,
    }
    action_id = task.approvals.pop(decision.request_id, "")
    ids = _approval_ids(task, event, decision.request_id, event.action_id or action_id)
    ids["requestId"] = decided.request_id
    yield "action.resolved", ids | {"payload": payload}
    yield "permission.resolved", ids | {"payload": payload}
    yield from show_status(task, event, "The last open approval was decided")


def _word_of(decision: ApprovalDecision) -> str:
    if decision.approved:
        return "allow" if decision.edited_arguments is None else "edit"
    return "expired" if decision.expired else "deny"


def map_started(task: TaskRecords, event: RunEvent, started: ev.ActionStarted) -> Mapped:
    call = task.calls.get(event.action_id)
    if call is None:
        call, records = _begin_again(task, event, started)
        yield from records
    ids = _ids_of(event, event.action_id, call)
    payload: Record = {"toolName": started.name, "kind": started.kind, "status": "running"}
    if started.arguments is not None and started.arguments != call.arguments:
        payload["safeArgs"] = started.arguments  # an approver has changed them
    if not call.is_shown:
        yield _show(event, call, {})
    yield "tool.progress", ids | {"payload": payload}
    if started.kind == AGENT_CALL:
        ids |= {"subagentId": _subagent_id(event.action_id, call)}
        peer = {"agent": started.name} | ({"childTaskId": call.child_task_id} if call.child_task_id else {})
        kinds = ("subagent.status",) if call.is_running else ("task.delegated", "subagent.spawned")
        yield from ((kind, ids | {"payload": payload | peer}) for kind in kinds)
    call.is_running = True


def _begin_again(task: TaskRecords, event: RunEvent, started: ev.ActionStarted) -> tuple[Call, Mapped]:
    """Return the call of an action that is executed without a new decision, and its records so far.

    It was canceled by an orderly stop. Otherwise the log before this event is not known.
    """
    before = task.stopped.pop(event.action_id, None)
    if before is None:
        call = task.calls[event.action_id] = Call(started.kind, started.name, started.arguments)
        return call, iter(())
    again = replace(before, execution=before.execution + 1, is_shown=False, is_running=False)
    task.calls[event.action_id] = again
    source = "human" if before.was_asked else "host_policy"
    payload = {
        "decision": "allow",
        "decisionSource": source,
        "decisionReason": "an earlier run has begun the same action",
    }
    payload |= _impact_of(task, again)
    ids = _ids_of(event, event.action_id, again)
    shown = _show(event, again, {"policy": "allowed"})
    return again, iter((("permission.evaluated", ids | {"payload": payload}), shown))


def map_peer_task(task: TaskRecords, event: RunEvent, peer: ev.PeerTaskLinked) -> Mapped:
    """Show the ids of a delegated task at its peer."""
    ids: Record = {}
    payload = {
        "nativeProtocol": peer.protocol or UNKNOWN,
        "remoteTaskId": peer.task_id,
        "remoteContextId": peer.context_id or UNKNOWN,
        "remoteAgentRef": peer.url or peer.agent_name or UNKNOWN,
        "agent": peer.agent_name or UNKNOWN,
    }
    call = task.calls.get(event.action_id)
    if call is not None and call.kind == AGENT_CALL and call.is_running:
        ids = _ids_of(event, event.action_id, call) | {"subagentId": _subagent_id(event.action_id, call)}
        # Agents of other protocols have tasks of their own; here, the delegated task has the caller's id.
        child = {"childTaskId": peer.task_id} if peer.protocol == PLGRPC else {}
        yield "subagent.status", ids | {"payload": payload | child | {"status": "running"}}
    yield "channel.peer_task.linked", ids | {"payload": payload}


def _subagent_id(action_id: str, call: Call) -> str:
    """Return the id of delegated work. Several calls may continue the same task of the other agent."""
    return f"{action_id}/subagent" if call.execution == 1 else f"{action_id}/{call.execution}/subagent"


_OUTCOMES = {"canceled": "cancelled"}


def map_ended(task: TaskRecords, event: RunEvent, ended: ev.ActionEnded) -> Mapped:
    call = task.calls.pop(event.action_id, None) or Call(ended.kind, ended.name)
    if not call.is_shown:
        yield _show(event, call, {})
    status = _OUTCOMES.get(ended.outcome, ended.outcome)
    payload: Record = {"toolName": ended.name, "kind": ended.kind, "status": status}
    if call.is_running or ended.duration_micros:
        payload["durationMs"] = duration_ms(ended.duration_micros)
    if is_success := ended.outcome == "completed":
        payload["result"] = ended.result
    else:
        if ended.outcome == "canceled":
            task.stopped[event.action_id] = call
        failure = ended.failure
        category = category_of(failure, status) if ended.outcome == "failed" else status
        payload |= {"error": ended.error, "failureCategory": category}
        payload["retryable"] = failure is not None and failure.retryable
    yield from _end_call(event, event.action_id, call, payload, is_success=is_success)


def _end_call(event: RunEvent, action_id: str, call: Call, payload: Record, *, is_success: bool) -> Mapped:
    ids = _ids_of(event, action_id, call)
    if call.kind == AGENT_CALL and call.is_running:
        kind = "subagent.completed" if is_success else "subagent.failed"
        yield kind, ids | {"subagentId": _subagent_id(action_id, call), "payload": payload}
    yield "tool.result" if is_success else "tool.failed", ids | {"payload": payload}


# -- The end of a task ---------------------------------------------------------------------------------------------------


def close_all(task: TaskRecords, event: RunEvent, new: TaskState) -> Mapped:
    """Close what is open at the end of the task: approvals were withdrawn, actions have an unknown outcome or never ran."""
    for request_id, action_id in [*task.approvals.items()][:MAX_CLOSED]:
        ids = _approval_ids(task, event, request_id, action_id)
        payload = {"decision": "cancelled", "reason": "the task has ended"}
        yield "action.resolved", ids | {"payload": payload}
        yield "permission.resolved", ids | {"payload": payload}
    if new is TaskState.COMPLETED and task.shown not in (TaskStatus.RUNNING, TaskStatus.CANCELLING):
        yield resumed()
    task.failed_call = None
    for action_id, call in [*task.calls.items()][:MAX_CLOSED]:
        status, category = (UNKNOWN, "outcome_unknown") if call.is_running else ("cancelled", "cancelled")
        ended = {"toolName": call.name, "kind": call.kind, "status": status, "failureCategory": category}
        yield from _end_call(event, action_id, call, ended | {"retryable": False}, is_success=False)
    rest = sum(max(len(each) - MAX_CLOSED, 0) for each in (task.approvals, task.calls, task.models))
    if rest:
        yield "runtime.warning", {"payload": {"category": "left_open", "count": rest}}
    task.approvals, task.calls = {}, {}
