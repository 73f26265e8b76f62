"""Readers of one pass over the log of a task: the context of its latest model call, and what the log proves.

Their memory does not grow with the log, except for actions that have not ended.
"""

from collections import Counter, deque
from dataclasses import replace
from typing import Final

from protolink_grpc.models import events as ev
from protolink_grpc.models.action import ApprovalState, OmittedItems, PolicyEffect
from protolink_grpc.models.snapshot import (
    ActionCount,
    Availability,
    CompactionSummary,
    ContextBoundarySnapshot,
    EvidenceSnapshot,
    Gap,
    PolicyCount,
)
from protolink_grpc.models.task_control import LinkKind, TaskLink
from protolink_grpc.models.tool import OfferedTools
from protolink_grpc.net.trace_context import trace_of
from protolink_grpc.wire.events import events_of_kinds, sequence_of

MAX_COMPACTIONS: Final = 20
MAX_RUNS: Final = 100
"""Maximum length of these lists. Source: the comments of snapshot.proto."""


_NO_PROMPT_FACTS: Final = tuple(
    Gap(part, Availability.UNKNOWN, "an earlier version of the agent has written this log")
    for part in ("offered", "omitted")
)


class ContextReader:
    """Finds the latest `context.prepared` and the newest compactions of a task.

    The tools and the omissions of a prompt are in an earlier event of its run, if they have not changed since. A run whose first
    prompt has no tools was recorded by an earlier version: both are unknown.
    """

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._prepared: ev.RunEvent | None = None
        self._offered: OfferedTools | None = None
        self._omitted = OmittedItems()
        self._compactions: deque[CompactionSummary] = deque(maxlen=MAX_COMPACTIONS)

    def add_frames(self, frames: list[bytes]) -> None:
        """Add the next events of the log."""
        for event in events_of_kinds(frames, ev.ContextPrepared, ev.ContextCompacted):
            if isinstance(event.payload, ev.ContextCompacted):
                self._compactions.append(CompactionSummary(event.sequence or 0, event.timestamp, event.payload))
            elif isinstance(event.payload, ev.ContextPrepared):
                if self._prepared is None or self._prepared.run_id != event.run_id:
                    self._offered, self._omitted = None, OmittedItems()
                self._prepared = event
                self._offered = event.payload.offered or self._offered
                self._omitted = event.payload.omitted or self._omitted

    def snapshot(self, sequence: int) -> ContextBoundarySnapshot:
        """Return the snapshot after the event `sequence`, which was the last one to be added."""
        compactions = tuple(self._compactions)
        prepared = self._prepared
        if prepared is None or not isinstance(prepared.payload, ev.ContextPrepared):
            return ContextBoundarySnapshot(self._task_id, sequence, compactions=compactions)
        manifest, step = prepared.payload.manifest, prepared.payload.step
        found = ContextBoundarySnapshot(self._task_id, sequence, prepared.sequence or 0, manifest, step, compactions)
        if manifest.purpose:
            return replace(found, offered=OfferedTools(), omitted=OmittedItems())
        if self._offered is None:
            return replace(found, gaps=_NO_PROMPT_FACTS)
        return replace(found, offered=self._offered, omitted=self._omitted)


_EVIDENCE: Final = (
    ev.TaskSubmitted,
    ev.TaskStatusChanged,
    ev.ActionRequested,
    ev.ActionEnded,
    ev.ActionPolicyEvaluated,
    ev.ApprovalDecided,
    ev.TaskLinked,
    ev.TaskUnlinked,
)


class EvidenceReader:
    """Counts the actions, approvals and policy decisions of a task."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._sequence = 0
        self._trace_id = ""
        self._run_ids: deque[str] = deque(maxlen=MAX_RUNS)
        self._open: dict[str, str] = {}
        """The kind of each action that has not ended, by its id."""
        self._ended: Counter[tuple[str, str]] = Counter()
        self._answers: Counter[ApprovalState] = Counter()
        self._decisions: Counter[PolicyEffect] = Counter()
        self._links: dict[str, TaskLink] = {}

    def add_frames(self, frames: list[bytes]) -> None:
        """Add the next events of the log."""
        for event in events_of_kinds(frames, *_EVIDENCE):
            self._add(event)
        self._sequence = sequence_of(frames[-1])

    def _add(self, event: ev.RunEvent) -> None:
        match event.payload:
            case ev.TaskSubmitted(context=context):
                self._trace_id = trace_of(context, self._task_id).trace_id
            case ev.TaskStatusChanged() as changed:
                self._add_run(event.run_id, changed)
            case ev.ActionRequested(action=action):
                self._open[action.action_id] = action.kind
            case ev.ActionEnded(kind=kind, outcome=outcome):
                self._open.pop(event.action_id, None)
                self._ended[kind, outcome] += 1
            case ev.ActionPolicyEvaluated(decision=decision):
                self._decisions[decision.effect] += 1
            case ev.ApprovalDecided(decision=answer):
                self._answers[answer.state] += 1
            case ev.TaskLinked(link=link) if link.kind is LinkKind.EVIDENCE:
                self._links[link.target] = link
            case ev.TaskUnlinked(link=link) if link.kind is LinkKind.EVIDENCE:
                self._links.pop(link.target, None)

    def _add_run(self, run_id: str, changed: ev.TaskStatusChanged) -> None:
        if changed.context is not None:
            self._trace_id = trace_of(changed.context, self._task_id).trace_id
        if run_id and run_id not in self._run_ids:
            self._run_ids.append(run_id)

    def snapshot(self) -> EvidenceSnapshot:
        """Return the snapshot after the events that were added."""
        counts = self._ended + Counter((kind, "") for kind in self._open.values())
        return EvidenceSnapshot(
            self._task_id,
            self._sequence,
            self._trace_id if self._run_ids else "",
            tuple(self._run_ids),
            tuple(ActionCount(kind, outcome, count) for (kind, outcome), count in sorted(counts.items())),
            self._answers[ApprovalState.APPROVED],
            self._answers[ApprovalState.DENIED],
            self._answers[ApprovalState.EXPIRED],
            tuple(PolicyCount(effect, count) for effect, count in sorted(self._decisions.items())),
            tuple(self._links.values()),
        )
