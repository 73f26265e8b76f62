"""Converts the events of one task to types and fields of the Agent Runtime contract.

An action of this package is a tool call there, and an action there is an approval here. The order of a tool call is
`permission.evaluated`, `tool.started`, then `permission.requested`, `action.required`, `action.resolved` and `permission.resolved`
if it needs an approval, then its execution, then `tool.result` or `tool.failed`. Events without an equivalent have a type with the
prefix `plgrpc.`, which the contract allows.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from protolink_grpc.models import events as ev
from protolink_grpc.models.action import ApprovalDecision, PolicyEffect
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import RUN_LOST, Failure, FailureCategory
from protolink_grpc.models.lifecycle import SETTLED, TERMINAL, TaskState
from protolink_grpc.models.references import References
from protolink_grpc.models.session import DEFAULT_THREAD
from protolink_grpc.net.trace_context import span_id_of, trace_of

UNKNOWN: Final = "unknown"
"""The contract's word for an unknown amount."""

MAX_CLOSED: Final = 11
"""Maximum number of approvals, of actions and of model calls that the end of a task closes one by one; further ones are counted.

Together they are at most 55 records, and an event has at most 64.
"""

AGENT_CALL: Final = "agent.call"

Record = dict[str, Any]
Mapped = Iterator[tuple[str, Record]]
"""The type and the fields of each resulting event."""


@dataclass(slots=True)
class _Call:
    """An action that has not ended. `is_shown`: it has its `tool.started`. `is_running`: its execution has begun.

    `execution` counts the tool calls of the same action: an action that an orderly stop has canceled may be executed again.
    """

    kind: str
    name: str
    arguments: Any = None
    child_task_id: str = ""
    execution: int = 1
    was_asked: bool = False
    is_shown: bool = False
    is_running: bool = False


@dataclass(frozen=True, slots=True)
class _ModelCall:
    """A model call that has not ended. Each attempt of a call is a request with an id of its own."""

    request_id: str
    started: ev.LlmCallStarted
    run_id: str


@dataclass(slots=True)
class TaskRecords:
    """The conversion of one task, with the state that it needs.

    Attributes:
        turn_id: The turn that the next events belong to.
        attempt_id, run_id: The current or last attempt, and its run; empty before the first one.
        trace_id: Of the spans of the task; see `telemetry.spans`.
        failure: Of the last status, if it had one.
    """

    thread_id: str = DEFAULT_THREAD
    turn_id: str = ""
    attempt_id: str = ""
    run_id: str = ""
    trace_id: str = ""
    failure: Failure | None = None
    calls: dict[str, _Call] = field(default_factory=dict)
    stopped: dict[str, _Call] = field(default_factory=dict)
    """The actions that were canceled."""
    approvals: dict[str, str] = field(default_factory=dict)
    """The action of each open approval."""
    models: dict[str, _ModelCall] = field(default_factory=dict)
    """The model calls that have not ended."""
    requests: Counter[str] = field(default_factory=Counter)
    """The number of requests of each model call since the last retry of the task."""
    is_turn_started: bool = False
    is_attempt_open: bool = False
    is_canceling: bool = False
    retry: int = 0
    _references: References = field(default_factory=References)

    def begin_turn(self, thread_id: str, turn_id: str) -> None:
        self.thread_id, self.turn_id, self.is_turn_started = thread_id, turn_id, False

    def records(self, event: RunEvent) -> Mapped:
        """Convert the next event of the task's log."""
        event = self._references.whole(event)
        context = getattr(event.payload, "context", None)
        if context is not None or not self.trace_id:
            self.trace_id = trace_of(context, event.task_id).trace_id
        return _TABLE.get(type(event.payload), _map_other)(self, event, event.payload)


def _map_other(_: TaskRecords, event: RunEvent, payload: Any) -> Mapped:
    """Convert an event of a kind that the contract does not have."""
    yield f"plgrpc.{event.type}", {"payload": {"event": event.to_dict()["payload"], "summary": event.summary}}


def _map_nothing(_: TaskRecords, event: RunEvent, payload: Any) -> Mapped:
    return iter(())


# -- The task --------------------------------------------------------------------------------------------------------------


def _map_submitted(_: TaskRecords, event: RunEvent, submitted: ev.TaskSubmitted) -> Mapped:
    payload = {
        "status": "draft" if submitted.draft else "accepted",
        "source": submitted.principal,
        "task": submitted.whole_task().to_dict(),
    }
    yield "task.created", {"payload": payload}


def _map_messages(_: TaskRecords, event: RunEvent, added: ev.TaskMessagesAdded) -> Mapped:
    yield "plgrpc.task.message", {"payload": {"messages": [message.to_dict() for message in added.messages]}}


_BEGINNINGS = {"continued": "task.resumed", "recovered": "task.retrying"}
_ENDS = {
    TaskState.COMPLETED: ("task.attempt.completed", "task.completed"),
    TaskState.FAILED: ("task.attempt.failed", "task.failed"),
    TaskState.REJECTED: ("task.attempt.failed", "task.failed"),
    TaskState.CANCELED: ("task.attempt.failed", "task.cancelled"),
    TaskState.INPUT_REQUIRED: ("task.attempt.completed", "task.waiting"),
    TaskState.AUTH_REQUIRED: ("task.attempt.completed", "task.waiting"),
}
_STATUSES = {
    TaskState.SUBMITTED: "accepted",
    TaskState.WORKING: "running",
    TaskState.INPUT_REQUIRED: "waiting_input",
    TaskState.AUTH_REQUIRED: "waiting_permission",
    TaskState.CANCELED: "cancelled",
    TaskState.REJECTED: "failed",
}
_TIMED_OUT = "timed_out"
_ATTEMPT_STATUSES = {_TIMED_OUT: "failed", "waiting_input": "completed", "waiting_permission": "completed"}
"""The statuses of attempts that differ from those of their tasks: the contract has fewer of them."""


def end_of(state: TaskState, failure: Failure | None) -> tuple[str, Record]:
    """Return the contract's word for a state, and why it is no success; empty for other states."""
    status = _STATUSES.get(state, str(state))
    if state is TaskState.CANCELED:
        return status, {"failureCategory": status, "retryable": False}
    if state not in (TaskState.FAILED, TaskState.REJECTED):
        return status, {}
    if failure is None:
        return status, {"failureCategory": str(state), "retryable": False}
    if state is TaskState.FAILED and failure.category is FailureCategory.TIMEOUT:
        status = _TIMED_OUT
    return status, {"failureCategory": _category_of(failure, str(state)), "retryable": failure.retryable}


def _category_of(failure: Failure | None, otherwise: str) -> str:
    if failure is None:
        return otherwise
    if failure.reason == RUN_LOST:
        return "run_lost"
    return str(failure.category or failure.reason.lower() or otherwise)


def _map_status(task: TaskRecords, event: RunEvent, changed: ev.TaskStatusChanged) -> Mapped:
    new, task.failure = changed.new_state, changed.failure
    status, details = end_of(new, changed.failure)
    payload = {"status": status, "nativeStatus": str(new), "statusReason": changed.reason}
    if new is TaskState.WORKING and changed.attempt:
        yield from _begin_attempt(task, event, changed, payload)
        return
    if new is TaskState.CANCELED and not task.is_canceling:  # the handler has decided it
        yield (
            "task.cancel_requested",
            {"payload": {"reason": changed.reason, "requestedBy": event.agent_name or UNKNOWN}},
        )
    if new in TERMINAL:
        yield from _close_all(task, event, new)
    if new in SETTLED:
        yield from _close_models(task, event, "outcome_unknown")
    for kind in _ENDS.get(new, ("task.updated",)):
        if kind.startswith("task.attempt."):
            if not task.is_attempt_open:
                continue  # the task was in the queue or waited for input
            task.is_attempt_open = False
            yield kind, {"payload": payload | {"status": _ATTEMPT_STATUSES.get(status, status)} | details}
            continue
        shown = "task.timed_out" if kind == "task.failed" and status == _TIMED_OUT else kind
        yield shown, {"payload": payload | ({} if kind == "task.cancelled" else details)}


def _begin_attempt(task: TaskRecords, event: RunEvent, changed: ev.TaskStatusChanged, payload: Record) -> Mapped:
    if task.is_attempt_open:  # its process ended without a record
        yield from _close_models(task, event, "run_lost")
        lost = {"status": "failed", "failureCategory": "run_lost", "retryable": True}
        yield "task.attempt.failed", _run_ids(event, task.run_id) | {"payload": lost}
    task.attempt_id, task.run_id = f"{event.task_id}/attempt/{changed.attempt}", event.run_id
    task.is_attempt_open = True
    worker = {} if changed.worker is None else {"worker": changed.worker.to_dict()}
    yield _BEGINNINGS.get(changed.cause, "task.started"), {"payload": payload}
    yield "task.attempt.started", {"payload": payload | {"attempt": changed.attempt} | worker}
    if not task.is_turn_started:
        task.is_turn_started = True
        yield "turn.started", {"payload": payload}
    if task.approvals:
        yield _waiting(task)


def run_id_of(task_id: str, run_id: str) -> str:
    """Return the id of a run. A caller may give it the id of the task; the contract wants different ids for different things."""
    return f"{run_id}/run" if run_id == task_id else run_id


def _run_ids(event: RunEvent, run_id: str) -> Record:
    """Return the ids of an earlier run of the same task."""
    return {"runId": run_id_of(event.task_id, run_id), "spanId": span_id_of(event.task_id, run_id)}


def _waiting(task: TaskRecords) -> tuple[str, Record]:
    payload = {"status": "waiting_permission", "nativeStatus": str(TaskState.WORKING), "actionIds": [*task.approvals]}
    return "task.waiting", {"payload": payload}


def _close_all(task: TaskRecords, event: RunEvent, new: TaskState) -> Mapped:
    """Close what is open at the end of the task: approvals were withdrawn, actions have an unknown outcome or never ran."""
    for request_id, action_id in [*task.approvals.items()][:MAX_CLOSED]:
        ids = _approval_ids(event, request_id, action_id)
        payload = {"decision": "cancelled", "reason": "the task has ended"}
        yield "action.resolved", ids | {"payload": payload}
        yield "permission.resolved", ids | {"payload": payload}
    if task.approvals and new is TaskState.COMPLETED:
        yield _resumed()
    for action_id, call in [*task.calls.items()][:MAX_CLOSED]:
        status, category = (UNKNOWN, "outcome_unknown") if call.is_running else ("cancelled", "cancelled")
        ended = {"toolName": call.name, "kind": call.kind, "status": status, "failureCategory": category}
        yield from _end_call(event, action_id, call, ended | {"retryable": False}, is_success=False)
    rest = sum(max(len(each) - MAX_CLOSED, 0) for each in (task.approvals, task.calls, task.models))
    if rest:
        yield "runtime.warning", {"payload": {"category": "left_open", "count": rest}}
    task.approvals, task.calls = {}, {}


def _close_models(task: TaskRecords, event: RunEvent, category: str) -> Mapped:
    """Close the model calls whose end is not recorded."""
    for call in [*task.models.values()][:MAX_CLOSED]:
        started = call.started
        payload = {"provider": started.provider, "model": started.model, "failureCategory": category, "retryable": True}
        yield (
            "model.failed",
            {"runId": run_id_of(event.task_id, call.run_id)} | _model_ids(event, call) | {"payload": payload},
        )
    task.models = {}


def _map_artifact(_: TaskRecords, event: RunEvent, update: ev.TaskArtifactUpdated) -> Mapped:
    artifact = update.artifact
    payload = {"artifact": artifact.to_dict(), "append": update.append}
    ids = {"artifactId": artifact.id, "stepId": f"{event.task_id}/artifact/{artifact.id}"}
    yield "artifact.changed", ids | {"payload": payload}


def _map_patched(_: TaskRecords, event: RunEvent, patched: ev.TaskPatched) -> Mapped:
    yield "task.updated", {"payload": {"metadata": patched.metadata, "flowState": patched.flow_state}}


def _map_progress(_: TaskRecords, event: RunEvent, progress: ev.TaskProgress) -> Mapped:
    yield "task.progress", {"payload": {"percent": progress.progress, "summary": progress.message}}


def _map_error(_: TaskRecords, event: RunEvent, error: ev.TaskErrorReported) -> Mapped:
    failure = error.failure
    payload = {
        "category": str(failure.category or UNKNOWN),
        "detail": failure.message,
        "retryable": failure.retryable,
        "recoverable": error.recoverable,
        "failure": failure.to_dict(),
    }
    yield "runtime.error", {"payload": payload}


def _map_cancel_requested(task: TaskRecords, event: RunEvent, request: ev.CancelRequested) -> Mapped:
    task.is_canceling = True
    yield "task.cancel_requested", {"payload": {"reason": request.reason, "requestedBy": request.requested_by}}


# -- Actions and approvals -------------------------------------------------------------------------------------------------


# -- Control by the owner --------------------------------------------------------------------------------------------------


def _map_described(_: TaskRecords, event: RunEvent, described: ev.TaskDescribed) -> Mapped:
    yield "task.updated", {"payload": described.description.to_dict() | {"changedBy": described.changed_by}}


def _map_input_replaced(_: TaskRecords, event: RunEvent, replaced: ev.TaskInputReplaced) -> Mapped:
    messages = [each.to_dict() for each in replaced.messages]
    yield "task.updated", {"payload": {"messages": messages, "changedBy": replaced.changed_by}}


def _map_start_requested(_: TaskRecords, event: RunEvent, start: ev.TaskStartRequested) -> Mapped:
    payload = {"status": "accepted", "requestedBy": start.requested_by, "external": start.external}
    yield "task.accepted", {"payload": payload}


def _map_pause_requested(_: TaskRecords, event: RunEvent, pause: ev.TaskPauseRequested) -> Mapped:
    payload = {"statusReason": pause.reason, "requestedBy": pause.requested_by, "pauseRequested": True}
    yield "task.updated", {"payload": payload}


def _map_paused(_: TaskRecords, event: RunEvent, paused: ev.TaskPaused) -> Mapped:
    yield "task.paused", {"payload": {"status": "paused"}}


def _map_resumed(_: TaskRecords, event: RunEvent, resumed: ev.TaskResumed) -> Mapped:
    payload = {"status": "running", "statusReason": resumed.reason, "requestedBy": resumed.requested_by}
    yield "task.resumed", {"payload": payload}


def _map_retried(task: TaskRecords, event: RunEvent, retried: ev.TaskRetried) -> Mapped:
    task.is_canceling, task.retry = False, retried.retry
    task.requests.clear()
    payload = {"status": "retrying", "statusReason": retried.reason, "requestedBy": retried.requested_by}
    yield (
        "task.retrying",
        {"payload": payload | {"retry": retried.retry, "previousStatus": str(retried.previous_state)}},
    )


def _map_linked(_: TaskRecords, event: RunEvent, linked: ev.TaskLinked | ev.TaskUnlinked) -> Mapped:
    link = linked.link
    change = "linked" if isinstance(linked, ev.TaskLinked) else "unlinked"
    payload = {"change": change, "kind": str(link.kind), "targetId": link.target, "reason": link.reason}
    payload |= {"status": "active", "createdAt": event.timestamp} if change == "linked" else {"status": "removed"}
    payload["updatedAt"] = event.timestamp
    yield "task.dependency.updated", {"payload": payload}


# -- Actions ---------------------------------------------------------------------------------------------------------------


def _ids_of(event: RunEvent, action_id: str, execution: int = 1) -> Record:
    if not action_id:
        return {}
    call_id = action_id if execution == 1 else f"{action_id}/{execution}"
    return {
        "toolCallId": call_id,
        "stepId": f"{event.task_id}/call/{call_id}",
        "spanId": span_id_of(action_id),
    }


def _approval_ids(event: RunEvent, request_id: str, action_id: str) -> Record:
    return _ids_of(event, action_id) | {"actionId": request_id, "spanId": span_id_of(request_id)}


def _map_requested(task: TaskRecords, event: RunEvent, requested: ev.ActionRequested) -> Mapped:
    """Remember the action. It is shown together with the decision of the policy."""
    action = requested.action
    arguments = action.payload.get("arguments", action.payload)
    child_task_id = str(action.payload.get("task_id", ""))
    task.calls[event.action_id or action.action_id] = _Call(action.kind, action.name, arguments, child_task_id)
    return iter(())


_VERDICTS = {PolicyEffect.ALLOW: "allow", PolicyEffect.DENY: "deny", PolicyEffect.REQUIRE_APPROVAL: "ask"}
_POLICIES = {PolicyEffect.ALLOW: "allowed", PolicyEffect.DENY: "denied", PolicyEffect.REQUIRE_APPROVAL: "ask"}


def _map_policy(task: TaskRecords, event: RunEvent, evaluated: ev.ActionPolicyEvaluated) -> Mapped:
    decision, call = evaluated.decision, task.calls.get(event.action_id)
    payload = {
        "decision": _VERDICTS.get(decision.effect, str(decision.effect)),
        "decisionSource": "rule" if decision.matched_capabilities else "host_policy",
        "decisionReason": decision.reason,
        "policy": decision.policy_name,
        "capabilities": list(decision.matched_capabilities),
        "sources": list(decision.sources),
    }
    yield "permission.evaluated", _ids_of(event, event.action_id) | {"payload": payload}
    if call is not None and not call.is_shown:
        yield _show(event, call, {"policy": _POLICIES.get(decision.effect, str(decision.effect))})


def _show(event: RunEvent, call: _Call, more: Record) -> tuple[str, Record]:
    call.is_shown = True
    payload = {"toolName": call.name, "kind": call.kind, "safeArgs": call.arguments, **more}
    return "tool.started", _ids_of(event, event.action_id, call.execution) | {"payload": payload}


def _map_approval_required(task: TaskRecords, event: RunEvent, required: ev.ApprovalRequired) -> Mapped:
    request = required.request
    action_id = event.action_id or request.action.action_id
    ids = _approval_ids(event, request.request_id, action_id)
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
    task.approvals[request.request_id] = action_id
    if action_id in task.calls:
        task.calls[action_id].was_asked = True
    if len(task.approvals) == 1:
        yield _waiting(task)


def _map_decided(task: TaskRecords, event: RunEvent, decided: ev.ApprovalDecided) -> Mapped:
    decision = decided.decision
    payload = {
        "decision": _word_of(decision),
        "reason": decision.reason,
        "decidedBy": decision.decided_by,
        "editedArguments": decision.edited_arguments,
    }
    was_open = decision.request_id in task.approvals
    action_id = task.approvals.pop(decision.request_id, "")
    ids = _approval_ids(event, decision.request_id, event.action_id or action_id)
    yield "action.resolved", ids | {"payload": payload}
    yield "permission.resolved", ids | {"payload": payload}
    if was_open and not task.approvals:
        yield _resumed()


def _resumed() -> tuple[str, Record]:
    payload = {"status": "running", "nativeStatus": str(TaskState.WORKING), "statusReason": ""}
    return "task.resumed", {"payload": payload}


def _word_of(decision: ApprovalDecision) -> str:
    if decision.approved:
        return "allow" if decision.edited_arguments is None else "edit"
    return "expired" if decision.expired else "deny"


def _map_started(task: TaskRecords, event: RunEvent, started: ev.ActionStarted) -> Mapped:
    call = task.calls.get(event.action_id)
    if call is None:
        call, records = _begin_again(task, event, started)
        yield from records
    ids = _ids_of(event, event.action_id, call.execution)
    payload: Record = {"toolName": started.name, "kind": started.kind, "status": "running"}
    if started.arguments is not None and started.arguments != call.arguments:
        payload["safeArgs"] = started.arguments  # an approver has changed them
    if not call.is_shown:
        yield _show(event, call, {})
    yield "tool.progress", ids | {"payload": payload}
    if started.kind == AGENT_CALL and not call.is_running:
        ids |= {"subagentId": _subagent_id(event.action_id, call)}
        peer = {"agent": started.name} | ({"childTaskId": call.child_task_id} if call.child_task_id else {})
        yield "task.delegated", ids | {"payload": payload | peer}
        yield "subagent.spawned", ids | {"payload": payload | peer}
    call.is_running = True


def _begin_again(task: TaskRecords, event: RunEvent, started: ev.ActionStarted) -> tuple[_Call, Mapped]:
    """Return the call of an action that is executed without a new decision, and its records so far.

    It was canceled by an orderly stop. Otherwise the log before this event is not known.
    """
    before = task.stopped.pop(event.action_id, None)
    if before is None:
        call = task.calls[event.action_id] = _Call(started.kind, started.name, started.arguments)
        return call, iter(())
    again = replace(before, execution=before.execution + 1, is_shown=False, is_running=False)
    task.calls[event.action_id] = again
    source = "human" if before.was_asked else "host_policy"
    payload = {
        "decision": "allow",
        "decisionSource": source,
        "decisionReason": "an earlier run has begun the same action",
    }
    ids = _ids_of(event, event.action_id, again.execution)
    shown = _show(event, again, {"policy": "allowed"})
    return again, iter((("permission.evaluated", ids | {"payload": payload}), shown))


def _subagent_id(action_id: str, call: _Call) -> str:
    """Return the id of delegated work. Several calls may continue the same task of the other agent."""
    return f"{action_id}/subagent" if call.execution == 1 else f"{action_id}/{call.execution}/subagent"


_OUTCOMES = {"canceled": "cancelled"}


def _map_ended(task: TaskRecords, event: RunEvent, ended: ev.ActionEnded) -> Mapped:
    call = task.calls.pop(event.action_id, None) or _Call(ended.kind, ended.name)
    if not call.is_shown:
        yield _show(event, call, {})
    status = _OUTCOMES.get(ended.outcome, ended.outcome)
    payload: Record = {"toolName": ended.name, "kind": ended.kind, "status": status}
    payload["durationMs"] = ended.duration_micros / 1000
    if is_success := ended.outcome == "completed":
        payload["result"] = ended.result
    else:
        if ended.outcome == "canceled":
            task.stopped[event.action_id] = call
        failure = ended.failure
        category = _category_of(failure, status) if ended.outcome == "failed" else status
        payload |= {"error": ended.error, "failureCategory": category}
        payload["retryable"] = failure is not None and failure.retryable
    yield from _end_call(event, event.action_id, call, payload, is_success=is_success)


def _end_call(event: RunEvent, action_id: str, call: _Call, payload: Record, *, is_success: bool) -> Mapped:
    ids = _ids_of(event, action_id, call.execution)
    if call.kind == AGENT_CALL and call.is_running:
        kind = "subagent.completed" if is_success else "subagent.failed"
        yield kind, ids | {"subagentId": _subagent_id(action_id, call), "payload": payload}
    yield "tool.result" if is_success else "tool.failed", ids | {"payload": payload}


# -- Models and contexts ---------------------------------------------------------------------------------------------------


def _map_prepared(_: TaskRecords, event: RunEvent, prepared: ev.ContextPrepared) -> Mapped:
    yield "context.resolved", {"payload": {"manifest": prepared.manifest.to_dict(), "step": prepared.step}}


def _model_ids(event: RunEvent, call: _ModelCall) -> Record:
    started = call.started
    if not started.call_id:
        return {}
    return {
        "modelRequestId": call.request_id,
        "stepId": f"{event.task_id}/model/{started.call_id}",
        "spanId": span_id_of(call.run_id, started.call_id, str(started.attempt)),
    }


def _request_of(task: TaskRecords, event: RunEvent, call_id: str, attempt: int = 1) -> _ModelCall:
    """Remove and return an open model call, or build one if its begin is not known."""
    unknown = _ModelCall(call_id, ev.LlmCallStarted(call_id, attempt=attempt), event.run_id)
    return task.models.pop(call_id, unknown)


def _map_call_started(task: TaskRecords, event: RunEvent, call: ev.LlmCallStarted) -> Mapped:
    if call.call_id in task.models:
        lost = task.models.pop(call.call_id)
        failure = {"failureCategory": "outcome_unknown", "retryable": True}
        yield (
            "model.failed",
            {"runId": run_id_of(event.task_id, lost.run_id)} | _model_ids(event, lost) | {"payload": failure},
        )
    task.requests[call.call_id] += 1
    number = task.requests[call.call_id]
    request_id = f"{call.call_id}/retry/{task.retry}" if task.retry else call.call_id
    request_id = request_id if number == 1 else f"{request_id}/{number}"
    request = task.models[call.call_id] = _ModelCall(request_id, call, event.run_id)
    model = {"provider": call.provider or UNKNOWN, "model": call.model or UNKNOWN}
    payload = model | {"attempt": call.attempt, "step": call.step}
    yield "model.requested", _model_ids(event, request) | {"payload": payload}


def _map_call_completed(task: TaskRecords, event: RunEvent, call: ev.LlmCallCompleted) -> Mapped:
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
    ids = _model_ids(event, _request_of(task, event, call.call_id))
    yield "model.completed", ids | {"payload": payload}
    cost = {"costMicros": _amount(call.cost_micros), "currency": call.currency or UNKNOWN}
    yield "cost.recorded", ids | {"payload": usage | cost}


def _amount(amount: int | None) -> int | str:
    return UNKNOWN if amount is None else amount


def _map_budget(_: TaskRecords, event: RunEvent, reported: ev.BudgetReported) -> Mapped:
    payload = {"limitState": reported.decision.to_dict()}
    yield "limit.changed", {"payload": payload}
    yield "quota.low" if reported.decision.allowed else "quota.blocked", {"payload": payload}


def _map_call_failed(task: TaskRecords, event: RunEvent, call: ev.LlmCallFailed) -> Mapped:
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
    yield "model.failed", _model_ids(event, _request_of(task, event, call.call_id, call.attempt)) | {"payload": payload}


def _map_compacted(_: TaskRecords, event: RunEvent, done: ev.ContextCompacted) -> Mapped:
    trigger = "auto" if "decision" in event.metadata else "manual"
    yield "context.compaction.started", {"payload": {"trigger": trigger}}
    payload = {
        "beforeTokens": done.before_tokens,
        "afterTokens": done.after_tokens,
        "strategy": done.strategy or UNKNOWN,
    }
    yield "context.compaction.completed", {"payload": payload | {"summary": done.summary}}


def _map_step(_: TaskRecords, event: RunEvent, step: ev.LlmStep) -> Mapped:
    yield (
        f"plgrpc.llm.{step.kind.removeprefix('llm_')}",
        {"payload": {"step": step.step, "content": step.content, "data": step.data}},
    )


_TABLE: dict[type, Callable[[TaskRecords, RunEvent, Any], Mapped]] = {
    ev.TaskSubmitted: _map_submitted,  # task.created
    ev.TaskStatusChanged: _map_status,  # task.*, task.attempt.*, turn.started
    ev.TaskMessagesAdded: _map_messages,  # plgrpc.task.message
    ev.TaskArtifactUpdated: _map_artifact,  # artifact.changed
    ev.TaskPatched: _map_patched,  # task.updated
    ev.TaskProgress: _map_progress,  # task.progress
    ev.TaskErrorReported: _map_error,  # runtime.error
    ev.CancelRequested: _map_cancel_requested,  # task.cancel_requested
    ev.ActionRequested: _map_requested,  # nothing; see _map_policy
    ev.ActionPolicyEvaluated: _map_policy,  # permission.evaluated, tool.started
    ev.ApprovalRequired: _map_approval_required,  # permission.requested, action.required, task.waiting
    ev.ApprovalDecided: _map_decided,  # action.resolved, permission.resolved, task.resumed
    ev.ActionStarted: _map_started,  # tool.progress, task.delegated, subagent.spawned
    ev.ActionEnded: _map_ended,  # tool.result, tool.failed, subagent.completed, subagent.failed
    ev.ContextPrepared: _map_prepared,  # context.resolved
    ev.LlmCallStarted: _map_call_started,  # model.requested
    ev.LlmCallCompleted: _map_call_completed,  # model.completed, cost.recorded
    ev.BudgetReported: _map_budget,  # limit.changed, quota.low, quota.blocked
    ev.LlmCallFailed: _map_call_failed,  # model.failed
    ev.ContextCompacted: _map_compacted,  # context.compaction.started, context.compaction.completed
    ev.TaskDescribed: _map_described,  # task.updated
    ev.TaskInputReplaced: _map_input_replaced,  # task.updated
    ev.TaskStartRequested: _map_start_requested,  # task.accepted
    ev.TaskPauseRequested: _map_pause_requested,  # task.updated
    ev.TaskPaused: _map_paused,  # task.paused
    ev.TaskResumed: _map_resumed,  # task.resumed
    ev.TaskRetried: _map_retried,  # task.retrying
    ev.TaskLinked: _map_linked,  # task.dependency.updated
    ev.TaskUnlinked: _map_linked,  # task.dependency.updated
    ev.LlmStep: _map_step,  # plgrpc.llm.*
    ev.TextDelta: _map_nothing,
}
"""The conversions by kind of event. An application's own kinds and unknown kinds use `_map_other`."""
