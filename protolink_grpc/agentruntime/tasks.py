"""Converts the events of one task to types and fields of the Agent Runtime contract.

Events without an equivalent have a type with the prefix `plgrpc.`, which the contract allows.
"""

from collections.abc import Callable
from typing import Any, Final

from protolink_grpc.agentruntime import calls, model_calls
from protolink_grpc.agentruntime.state import (
    UNKNOWN,
    Mapped,
    Record,
    TaskRecords,
    amount,
    category_of,
    ids_of_run,
    run_id_of,
    run_status,
    show_status,
    to_camel,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import SETTLED, TERMINAL, TaskState
from protolink_grpc.models.session import DEFAULT_THREAD
from protolink_grpc.models.task_control import LinkKind, TaskStatus
from protolink_grpc.models.task_status import status_at_end


def records_of(task: TaskRecords, event: RunEvent) -> Mapped:
    """Convert the next event of the task's log."""
    event = task.prepare(event)
    return _TABLE.get(type(event.payload), _map_other)(task, event, event.payload)


def _map_other(_: TaskRecords, event: RunEvent, payload: Any) -> Mapped:
    """Convert an event of a kind that the contract does not have."""
    yield f"plgrpc.{event.type}", {"payload": {"event": event.to_dict()["payload"], "summary": event.summary}}


def _map_nothing(_: TaskRecords, event: RunEvent, payload: Any) -> Mapped:
    return iter(())


# -- The task ------------------------------------------------------------------------------------------------------------


def _map_submitted(task: TaskRecords, event: RunEvent, submitted: ev.TaskSubmitted) -> Mapped:
    task.runtime_id, task.is_started = submitted.runtime_id, not submitted.draft
    if not task.turn_id:  # a draft
        task.thread_id = submitted.thread_id or DEFAULT_THREAD
    payload = {
        "status": "draft" if submitted.draft else "accepted",
        "source": submitted.principal,
        "task": to_camel(submitted.whole_task().to_dict()),
    }
    yield "task.created", {"requestId": submitted.request_id, "payload": payload}


def _map_queued(_: TaskRecords, event: RunEvent, queued: ev.TaskQueued) -> Mapped:
    yield "task.queued", {"payload": {"status": "queued", "slots": queued.slots, "waiting": queued.waiting}}


def _map_messages(_: TaskRecords, event: RunEvent, added: ev.TaskMessagesAdded) -> Mapped:
    yield "plgrpc.task.message", {"payload": {"messages": [to_camel(message.to_dict()) for message in added.messages]}}


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
LOST: Final = "lost"
_FAILURES = {_TIMED_OUT: "task.timed_out", LOST: "task.lost"}
_ATTEMPT_STATUSES = {
    _TIMED_OUT: "failed",
    LOST: "failed",
    "waiting_input": "completed",
    "waiting_permission": "completed",
}
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
    return str(status_at_end(state, failure)), {
        "failureCategory": category_of(failure, str(state)),
        "retryable": failure.retryable,
    }


def _map_status(task: TaskRecords, event: RunEvent, changed: ev.TaskStatusChanged) -> Mapped:
    new, task.failure = changed.new_state, changed.failure
    task.state = new
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
        task.is_paused = False
        yield from calls.close_all(task, event, new)
    if new in SETTLED:
        yield from model_calls.close_models(task, event, "outcome_unknown")
    for kind in _ENDS.get(new, ("task.updated",)):
        if kind.startswith("task.attempt."):
            if task.is_attempt_open:  # otherwise the task was in the queue or waited for input
                yield from _end_attempt(task, event, kind, payload, details)
            continue
        shown = _FAILURES.get(status, kind) if kind == "task.failed" else kind
        yield shown, {"payload": payload | ({} if kind == "task.cancelled" else details)}


def _begin_attempt(task: TaskRecords, event: RunEvent, changed: ev.TaskStatusChanged, payload: Record) -> Mapped:
    if task.is_attempt_open:  # its process ended without a record
        yield from model_calls.close_models(task, event, "run_lost")
        lost = {"status": "failed", "failureCategory": "run_lost", "retryable": True}
        yield "task.attempt.failed", ids_of_run(event, task.run_id) | {"payload": lost}
    task.begin_run(f"{event.task_id}/attempt/{changed.attempt}", event.run_id)
    worker = {} if changed.worker is None else {"worker": to_camel(changed.worker.to_dict())}
    yield _BEGINNINGS.get(changed.cause, "task.started"), {"payload": payload}
    yield "task.attempt.started", {"payload": payload | {"attempt": changed.attempt} | worker}
    if task.turn_id and not task.is_turn_started:  # the owner of a draft may complete it without a turn
        task.is_turn_started = True
        yield "turn.started", {"payload": payload}
    yield run_status(task, event, "running", f"Attempt {changed.attempt} has begun", changed.cause)
    yield from show_status(task, event, "")  # an earlier attempt was paused, or has requested approvals


_TITLES = {
    "completed": "The task is completed",
    "waiting_input": "The task waits for input",
    "waiting_permission": "The task waits for an authorization",
    "cancelled": "The task was canceled",
    _TIMED_OUT: "The task has failed: a limit of time was reached",
    LOST: "The task has failed: its run was lost",
}


def _end_attempt(task: TaskRecords, event: RunEvent, kind: str, payload: Record, details: Record) -> Mapped:
    """Show the end of the attempt, and the report of the run, which is evidence."""
    task.is_attempt_open = False
    status = payload["status"]
    yield kind, {"payload": payload | {"status": _ATTEMPT_STATUSES.get(status, status)} | details}
    yield run_status(task, event, status, _TITLES.get(status, "The task has failed"), payload["statusReason"])
    run_id = run_id_of(event.task_id, event.run_id)
    refs = {"packRef": event.event_id, "replayRef": event.event_id, "traceRef": task.trace_id}
    report = {"kind": "run_report", "change": "exported", "verification": "unavailable"}
    yield "evidence.changed", {"evidenceId": f"{run_id}/report", "payload": report | refs}


def _map_artifact(_: TaskRecords, event: RunEvent, update: ev.TaskArtifactUpdated) -> Mapped:
    artifact = update.artifact
    payload = {"artifact": to_camel(artifact.to_dict()), "append": update.append}
    # Beside the artifact, which is replaced by a reference if it is large.
    facts = {"kind": artifact.kind, "name": artifact.name, "mediaType": artifact.media_type, "readRef": artifact.uri}
    payload |= {name: value for name, value in facts.items() if value}
    payload |= {"partCount": len(artifact.parts), "lastChunk": update.last_chunk}
    ids = {"artifactId": artifact.id, "stepId": f"{event.task_id}/artifact/{artifact.id}"}
    yield "artifact.changed", ids | {"payload": payload}


def _map_patched(_: TaskRecords, event: RunEvent, patched: ev.TaskPatched) -> Mapped:
    yield "task.updated", {"payload": {"metadata": patched.metadata, "flowState": patched.flow_state}}


def _map_progress(_: TaskRecords, event: RunEvent, progress: ev.TaskProgress) -> Mapped:
    yield "task.progress", {"payload": {"percent": amount(progress.progress), "summary": progress.message}}


def _map_error(_: TaskRecords, event: RunEvent, error: ev.TaskErrorReported) -> Mapped:
    failure = error.failure
    payload = {
        "category": str(failure.category or UNKNOWN),
        "detail": failure.message,
        "retryable": failure.retryable,
        "recoverable": error.recoverable,
        "failure": to_camel(failure.to_dict()),
    }
    yield "runtime.error", {"payload": payload}


def _map_cancel_requested(task: TaskRecords, event: RunEvent, request: ev.CancelRequested) -> Mapped:
    task.is_canceling, task.shown = True, TaskStatus.CANCELLING
    yield "task.cancel_requested", {"payload": {"reason": request.reason, "requestedBy": request.requested_by}}
    if task.is_attempt_open:
        yield run_status(task, event, "cancelling", "A cancellation was requested", request.reason)


# -- Control by the owner ------------------------------------------------------------------------------------------------


def _map_described(_: TaskRecords, event: RunEvent, described: ev.TaskDescribed) -> Mapped:
    yield "task.updated", {"payload": described.description.to_dict() | {"changedBy": described.changed_by}}


def _map_input_replaced(_: TaskRecords, event: RunEvent, replaced: ev.TaskInputReplaced) -> Mapped:
    messages = [to_camel(each.to_dict()) for each in replaced.messages]
    yield "task.updated", {"payload": {"messages": messages, "changedBy": replaced.changed_by}}


def _map_start_requested(task: TaskRecords, event: RunEvent, start: ev.TaskStartRequested) -> Mapped:
    payload: Record = {"requestedBy": start.requested_by, "external": start.external}
    if task.is_started:  # it waited for other tasks, and its owner ends it without them
        yield "task.updated", {"payload": payload}
        return
    task.is_started = True
    yield "task.accepted", {"payload": {"status": "accepted", **payload}}


def _map_pause_requested(_: TaskRecords, event: RunEvent, pause: ev.TaskPauseRequested) -> Mapped:
    payload = {"statusReason": pause.reason, "requestedBy": pause.requested_by, "pauseRequested": True}
    yield "task.updated", {"payload": payload}


def _map_paused(task: TaskRecords, event: RunEvent, paused: ev.TaskPaused) -> Mapped:
    task.is_paused = True
    yield from show_status(task, event, "")


def _map_resumed(task: TaskRecords, event: RunEvent, resumed: ev.TaskResumed) -> Mapped:
    task.is_paused = False
    payload = {"statusReason": resumed.reason, "requestedBy": resumed.requested_by}
    # The pause had not begun, or the task is to be canceled or waits for input.
    if task.shown is not TaskStatus.PAUSED or task.state in SETTLED:
        yield "task.updated", {"payload": payload | {"pauseRequested": False}}
        return
    task.shown = TaskStatus.RUNNING
    yield "task.resumed", {"payload": payload | {"status": "running"}}
    yield run_status(task, event, "running", "The pause has ended", resumed.reason)
    yield from show_status(task, event, "")


def _map_retried(task: TaskRecords, event: RunEvent, retried: ev.TaskRetried) -> Mapped:
    task.state, task.is_canceling, task.retry = TaskState.SUBMITTED, False, retried.retry
    task.requests.clear()
    payload = {"status": "retrying", "statusReason": retried.reason, "requestedBy": retried.requested_by}
    yield (
        "task.retrying",
        {"payload": payload | {"retry": retried.retry, "previousStatus": str(retried.previous_state)}},
    )


def _map_linked(task: TaskRecords, event: RunEvent, linked: ev.TaskLinked | ev.TaskUnlinked) -> Mapped:
    link = linked.link
    change = "linked" if isinstance(linked, ev.TaskLinked) else "unlinked"
    if link.kind is LinkKind.BLOCKED_BY:
        (task.blockers.add if change == "linked" else task.blockers.discard)(link.target)
    payload = {"change": change, "kind": str(link.kind), "targetId": link.target, "reason": link.reason}
    payload |= {"status": "active", "createdAt": event.timestamp} if change == "linked" else {"status": "removed"}
    payload["updatedAt"] = event.timestamp
    yield "task.dependency.updated", {"payload": payload}
    if link.kind is LinkKind.EVIDENCE:
        evidence = {"kind": "link", "change": change, "evidenceRef": link.target, "reason": link.reason}
        yield "evidence.changed", {"evidenceId": link.target, "payload": evidence}


_TABLE: dict[type, Callable[[TaskRecords, RunEvent, Any], Mapped]] = {
    ev.TaskSubmitted: _map_submitted,  # task.created
    ev.TaskStatusChanged: _map_status,  # task.*, task.attempt.*, turn.started, run.status, evidence.changed
    ev.TaskMessagesAdded: _map_messages,  # plgrpc.task.message
    ev.TaskArtifactUpdated: _map_artifact,  # artifact.changed
    ev.TaskPatched: _map_patched,  # task.updated
    ev.TaskProgress: _map_progress,  # task.progress
    ev.TaskErrorReported: _map_error,  # runtime.error
    ev.CancelRequested: _map_cancel_requested,  # task.cancel_requested, run.status
    ev.ActionRequested: calls.map_requested,  # nothing; see calls.map_policy
    ev.ActionPolicyEvaluated: calls.map_policy,  # permission.evaluated, tool.started
    ev.ApprovalRequired: calls.map_approval_required,  # permission.requested, action.required, task.waiting, run.status
    ev.ApprovalDecided: calls.map_decided,  # action.resolved, permission.resolved, task.resumed, run.status
    ev.ActionStarted: calls.map_started,  # tool.progress, task.delegated, subagent.spawned, subagent.status
    ev.ActionEnded: calls.map_ended,  # tool.result, tool.failed, subagent.completed, subagent.failed
    ev.ContextPrepared: model_calls.map_prepared,  # tool.catalog.resolved, context.resolved
    ev.LlmCallStarted: model_calls.map_call_started,  # task.resumed, run.status, routing.decided, model.requested
    ev.LlmCallCompleted: model_calls.map_call_completed,  # reasoning.summary, model.completed, cost.recorded
    ev.BudgetReported: model_calls.map_budget,  # limit.changed, quota.low, quota.blocked
    ev.LlmCallFailed: model_calls.map_call_failed,  # rate_limit.hit, model.failed, task.waiting, run.status
    ev.ContextCompacted: model_calls.map_compacted,  # context.compaction.started, context.compaction.completed
    ev.TaskDescribed: _map_described,  # task.updated
    ev.TaskInputReplaced: _map_input_replaced,  # task.updated
    ev.TaskStartRequested: _map_start_requested,  # task.accepted, task.updated
    ev.TaskPauseRequested: _map_pause_requested,  # task.updated
    ev.TaskPaused: _map_paused,  # task.paused, run.status
    ev.TaskResumed: _map_resumed,  # task.resumed, run.status
    ev.TaskRetried: _map_retried,  # task.retrying
    ev.TaskLinked: _map_linked,  # task.dependency.updated, evidence.changed
    ev.TaskUnlinked: _map_linked,  # task.dependency.updated, evidence.changed
    ev.TaskQueued: _map_queued,  # task.queued
    ev.PeerTaskLinked: calls.map_peer_task,  # subagent.status, channel.peer_task.linked
    ev.LlmStep: model_calls.map_step,  # plgrpc.llm.*
    ev.TextDelta: _map_nothing,
}
"""The conversions by kind of event. An application's own kinds and unknown kinds use `_map_other`."""
