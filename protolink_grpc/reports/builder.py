"""Builds a report from events in one pass, with a constant cost per event."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from protolink_grpc.errors import InvalidArgumentError, TaskNotFoundError
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import BudgetDecision, BudgetUsage, ContextManifest, PolicyEffect
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.lifecycle import TERMINAL, TaskState
from protolink_grpc.models.references import References
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.report_records import (
    ReportedAction,
    ReportedApproval,
    ReportedCall,
    ReportedStep,
    ReportTotals,
)
from protolink_grpc.models.task import Task
from protolink_grpc.wire.events import event_from_pb, unframe
from protolink_grpc.wire.payloads import check_understood


class ReportBuilder:
    """Builds one report from events, oldest first.

    Args:
        run_id: Only this run; empty means all. Events of other runs can still end the actions of this one.
    """

    def __init__(self, run_id: str = "") -> None:
        self._run_id = run_id
        self._references = References()
        self._first: RunEvent | None = None
        self._last: RunEvent | None = None
        self._context: RunContext | None = None
        self._usage: BudgetUsage | None = None
        self._events: list[RunEvent] = []
        self._manifests: list[ContextManifest] = []
        self._estimate = ("", 0, 0)
        self._actions: dict[str, ReportedAction] = {}
        self._approvals: dict[str, ReportedApproval] = {}
        self._included: set[str] = set()
        self._artifacts: dict[str, Artifact] = {}
        self._own_parts: set[str] = set()
        self._calls: dict[str, ReportedCall] = {}
        self._steps: dict[tuple[str, int], ReportedStep] = {}
        self._step: dict[str, ReportedStep] = {}
        self._budget: list[BudgetDecision] = []
        self._fold: TaskFold | None = None
        self._attached_task: Any = None
        self._working_since: int | None = None
        self._runtime = 0

    @property
    def is_empty(self) -> bool:
        """Whether there was no event of the wanted run."""
        return self._first is None

    def add_frames(self, frames: Iterable[bytes]) -> None:
        """Add encoded events.

        Raises:
            InvalidArgumentError: An event is invalid: the log is damaged.
            LogTooNewError: An event of an unknown kind that must be understood.
        """
        for frame in frames:
            event = unframe(frame)
            read = event_from_pb(event)
            if read.payload is None:
                check_understood(event)
            self.add(read)

    def add(self, event: RunEvent) -> None:
        """Add the next event. Deltas are skipped, because the complete text is in the end of their call."""
        if isinstance(event.payload, ev.TextDelta):
            return
        event = self._references.whole(event)
        payload = event.payload
        wanted = not self._run_id or event.run_id == self._run_id
        self._read_task(event, wanted)
        if wanted:
            self._first, self._last = self._first or event, event
            self._events.append(event)
        read = _READERS.get(type(payload))
        if read is not None and (wanted or read in _SPANNING):
            read(self, event, payload)

    # -- Task ------------------------------------------------------------------------------------------------------------

    def _read_task(self, event: RunEvent, wanted: bool) -> None:
        """Update the fold until the end of the wanted run. The runs of a task follow each other."""
        if wanted and "task" in event.metadata:
            self._attached_task = event.metadata["task"]
        if isinstance(event.payload, ev.TaskSubmitted) and event.sequence == 1:
            self._fold = TaskFold(event.task_id)
            self._fold.agent_name = event.agent_name
        fold = self._fold
        if fold is None or (not wanted and self._first is not None):
            return
        if event.task_id != fold.task_id or event.sequence != fold.sequence + 1:
            self._fold = None  # not one complete log
            return
        payload = None if isinstance(event.payload, ev.TextDelta) else event.payload
        fold.apply(payload, event.sequence, micros_from_iso(event.timestamp), event.run_id)

    def _read_status(self, event: RunEvent, status: ev.TaskStatusChanged) -> None:
        now = micros_from_iso(event.timestamp)
        if self._working_since is not None:
            self._runtime += max(0, now - self._working_since)
        self._working_since = now if status.new_state is TaskState.WORKING else None
        self._context = status.context or self._context
        self._usage = status.usage or self._usage
        if status.new_state in TERMINAL:
            for approval in self._approvals.values():
                if approval.state == "pending":
                    approval.state = "withdrawn"

    def _read_submitted(self, event: RunEvent, submitted: ev.TaskSubmitted) -> None:
        for artifact in submitted.task.artifacts:
            self._artifacts[artifact.id] = artifact

    def _read_artifact(self, event: RunEvent, update: ev.TaskArtifactUpdated) -> None:
        artifact = update.artifact
        known = self._artifacts.get(artifact.id) if update.append else None
        if known is None:
            self._artifacts[artifact.id] = artifact
            self._own_parts.discard(artifact.id)
            return
        if artifact.id not in self._own_parts:
            # The list belongs to the event, so it is copied once before the first addition.
            known = self._artifacts[artifact.id] = replace(known, parts=list(known.parts))
            self._own_parts.add(artifact.id)
        known.parts.extend(artifact.parts)
        known.timestamp = artifact.timestamp

    # -- Actions ---------------------------------------------------------------------------------------------------------

    def _action_record(self, event: RunEvent) -> ReportedAction:
        record = self._actions.get(event.action_id)
        if record is None:
            record = self._actions[event.action_id] = ReportedAction(event.action_id, run_id=event.run_id)
            step = self._step.get(event.run_id)
            if step is not None:
                record.step = step.step
                step.action_ids.append(event.action_id)
        self._include(event.action_id, event)
        return record

    def _include(self, name: str, event: RunEvent) -> None:
        if not self._run_id or event.run_id == self._run_id:
            self._included.add(name)

    def _read_requested(self, event: RunEvent, requested: ev.ActionRequested) -> None:
        if not event.action_id:
            event = replace(event, action_id=requested.action.action_id)
        record, action = self._action_record(event), requested.action
        record.action, record.kind, record.name = action, action.kind, action.name
        arguments = action.payload.get("arguments", action.payload)
        record.arguments = arguments if isinstance(arguments, dict) else action.payload
        record.position = requested.position
        record.requested_at = event.timestamp

    def _read_policy(self, event: RunEvent, evaluated: ev.ActionPolicyEvaluated) -> None:
        record = self._action_record(event)
        record.policy = evaluated.decision
        if evaluated.decision.effect is PolicyEffect.DENY:
            record.outcome = "denied"

    def _read_approval_required(self, event: RunEvent, required: ev.ApprovalRequired) -> None:
        request = required.request
        action_id = event.action_id or request.action.action_id
        record = self._action_record(event if event.action_id else replace(event, action_id=action_id))
        record.approval_ids.append(request.request_id)
        record.outcome = "waiting"
        self._include(request.request_id, event)
        self._approvals[request.request_id] = ReportedApproval(
            request.request_id, action_id, event.run_id, request=request, asked_at=event.timestamp
        )

    def _read_decided(self, event: RunEvent, decided: ev.ApprovalDecided) -> None:
        decision = decided.decision
        approval = self._approvals.setdefault(
            decision.request_id, ReportedApproval(decision.request_id, event.action_id, event.run_id)
        )
        approval.decision, approval.decided_at = decision, event.timestamp
        approval.state = decision.state.value
        if approval.asked_at:
            approval.waited_micros = _micros_between(approval.asked_at, event.timestamp)
        self._include(decision.request_id, event)
        record = self._actions.get(approval.action_id)
        if record is not None:
            record.outcome = "approved" if decision.approved else "denied"
            self._include(record.action_id, event)

    def _read_started(self, event: RunEvent, started: ev.ActionStarted) -> None:
        record = self._action_record(event)
        record.kind, record.name = started.kind, started.name
        record.arguments = record.arguments if started.arguments is None else started.arguments
        record.started_at, record.ended_at = event.timestamp, ""
        record.starts += 1
        record.outcome = "running"

    def _read_ended(self, event: RunEvent, ended: ev.ActionEnded) -> None:
        record = self._action_record(event)
        record.kind, record.name = ended.kind or record.kind, ended.name or record.name
        record.result, record.error, record.usage = ended.result, ended.error, ended.usage
        record.ended_at = event.timestamp
        record.outcome = ended.outcome
        if ended.duration_micros:
            record.duration_micros = ended.duration_micros
        elif record.started_at:
            record.duration_micros = _micros_between(record.started_at, event.timestamp)

    # -- Model calls -----------------------------------------------------------------------------------------------------

    def _enter_step(self, event: RunEvent, number: int) -> ReportedStep | None:
        if number <= 0:
            return None
        key = (event.run_id, number)
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = ReportedStep(number, event.run_id, event.timestamp)
        self._step[event.run_id] = step
        return step

    def _read_prepared(self, event: RunEvent, prepared: ev.ContextPrepared) -> None:
        self._enter_step(event, prepared.step)
        self._manifests.append(prepared.manifest)
        self._estimate = (event.run_id, prepared.step, prepared.manifest.total_estimated_tokens)

    def _call_record(self, event: RunEvent, call_id: str, number: int) -> ReportedCall:
        step = self._enter_step(event, number)
        record = self._calls.get(call_id)
        if record is None:
            record = self._calls[call_id] = ReportedCall(call_id, event.run_id, number)
            if step is not None:
                step.call_ids.append(call_id)
        return record

    def _read_call_started(self, event: RunEvent, started: ev.LlmCallStarted) -> None:
        record = self._call_record(event, started.call_id, started.step)
        record.provider, record.model, record.streaming = started.provider, started.model, started.streaming
        record.requested_provider, record.requested_model = started.requested_provider, started.requested_model
        record.attempts += 1
        record.started_at = record.started_at or event.timestamp
        run_id, step, tokens = self._estimate
        if (run_id, step) == (event.run_id, started.step) and self._manifests:
            record.estimated_input_tokens = tokens

    def _read_call_completed(self, event: RunEvent, call: ev.LlmCallCompleted) -> None:
        record = self._call_record(event, call.call_id, call.step)
        record.provider, record.model = call.provider or record.provider, call.model or record.model
        record.response_model = call.response_model
        record.completed, record.ended_at = True, event.timestamp
        record.input_tokens, record.output_tokens = call.input_tokens, call.output_tokens
        record.cost_micros, record.currency = call.cost_micros, call.currency
        record.finish_reason, record.metrics = call.finish_reason, call.metrics
        if call.duration_micros:
            record.duration_micros = call.duration_micros
        elif record.started_at:
            record.duration_micros = _micros_between(record.started_at, event.timestamp)

    def _read_llm_step(self, event: RunEvent, step: ev.LlmStep) -> None:
        self._enter_step(event, step.step)

    def _read_budget(self, event: RunEvent, reported: ev.BudgetReported) -> None:
        self._budget.append(reported.decision)

    # -- Result ----------------------------------------------------------------------------------------------------------

    def report(
        self,
        context: RunContext | None = None,
        final_task: Task | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> RunReport:
        """Return the report; see `RunReport.from_events`."""
        actions = [each for each in self._actions.values() if each.action_id in self._included]
        approvals = [each for each in self._approvals.values() if each.request_id in self._included]
        calls = list(self._calls.values())
        return RunReport(
            context=context or self._build_context(),
            context_manifests=self._manifests,
            events=self._events,
            actions=actions,
            approvals=approvals,
            artifacts=list(self._artifacts.values()),
            metrics=calls,
            final_task=final_task or self._final_task(),
            metadata=plain(metadata or {}),
            steps=list(self._steps.values()),
            budget_decisions=self._budget,
            usage=self._usage,
            totals=ReportTotals.of(len(self._steps), actions, approvals, calls, self._runtime),
        )

    def report_on(self, task_id: str) -> RunReport:
        """Return the report of a task.

        Raises:
            TaskNotFoundError: It has no event of the wanted run.
        """
        if self.is_empty:
            raise TaskNotFoundError(f"task {task_id} has no run {self._run_id}", task_id=task_id, run_id=self._run_id)
        return self.report()

    def _build_context(self) -> RunContext | None:
        first, last = self._first, self._last
        if first is None or last is None:
            return None
        fold = self._fold
        found = self._context or (fold.context if fold is not None else None)
        session = last.session_id or first.session_id or (fold.session_id if fold is not None else None)
        if found is None:
            # Not the current time, so that two reports of one log are equal.
            found = RunContext(last.run_id or first.task_id, session, created_at=first.timestamp)
        context_copy = found.copy(run_id=last.run_id or found.run_id, session_id=session or found.session_id)
        return context_copy.with_agent(first.agent_name) if first.agent_name else context_copy

    def _final_task(self) -> Task | None:
        if self._fold is not None and self._first is not None:
            return self._fold.to_task()
        try:
            return None if self._attached_task is None else Task.from_dict(self._attached_task)
        except InvalidArgumentError:
            return None  # a key of an application


def _micros_between(earlier: str, later: str) -> int:
    """Microseconds between two times; 0 if the clock was set back."""
    return max(0, micros_from_iso(later) - micros_from_iso(earlier))


_Reader = Callable[[ReportBuilder, RunEvent, Any], None]

_READERS: dict[type, _Reader] = {
    ev.TaskSubmitted: ReportBuilder._read_submitted,
    ev.TaskStatusChanged: ReportBuilder._read_status,
    ev.TaskArtifactUpdated: ReportBuilder._read_artifact,
    ev.ActionRequested: ReportBuilder._read_requested,
    ev.ActionPolicyEvaluated: ReportBuilder._read_policy,
    ev.ApprovalRequired: ReportBuilder._read_approval_required,
    ev.ApprovalDecided: ReportBuilder._read_decided,
    ev.ActionStarted: ReportBuilder._read_started,
    ev.ActionEnded: ReportBuilder._read_ended,
    ev.ContextPrepared: ReportBuilder._read_prepared,
    ev.LlmCallStarted: ReportBuilder._read_call_started,
    ev.LlmCallCompleted: ReportBuilder._read_call_completed,
    ev.BudgetReported: ReportBuilder._read_budget,
    ev.LlmStep: ReportBuilder._read_llm_step,
}

_SPANNING = frozenset(
    {
        ReportBuilder._read_requested,
        ReportBuilder._read_policy,
        ReportBuilder._read_approval_required,
        ReportBuilder._read_decided,
        ReportBuilder._read_started,
        ReportBuilder._read_ended,
    }
)
"""The events that are also read in other runs: an action can be requested in one run and end in the next."""
