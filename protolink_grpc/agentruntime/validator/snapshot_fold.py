"""The facts of a log that a snapshot can have, computed from its events up to the snapshot's sequence."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.event_types import IDS_OF_TYPES
from protolink_grpc.agentruntime.validator.snapshot import Snapshot
from protolink_grpc.agentruntime.validator.task_statuses import status_after

_NAMES: Final = ("threadId", "turnId", "taskId", "runId", "actionId", "queueId")
"""The ids of an event that a snapshot may have."""


_ANSWERS: Final = {"allow": "granted", "edit": "granted", "deny": "denied", "expired": "expired"}


@dataclass(slots=True)
class FoldedTask:
    """A task of the snapshot. `sequence` is the last one of its own log."""

    status: str = ""
    attempts: list[str] = field(default_factory=list)
    edges: set[tuple[str, str]] = field(default_factory=set)
    subagents: set[str] = field(default_factory=set)
    sequence: int = -1


@dataclass(slots=True)
class SnapshotFold:
    """The facts of one session. `ends`, `tasks` and `worked` have only turns and tasks of the snapshot."""

    wanted: Snapshot
    is_whole: bool = False
    """Whether the log has the beginning of the session, or of the task."""
    last_sequence: int = -1
    title: str = ""
    is_archived: bool = False
    turn_count: int = 0
    threads: set[str] = field(default_factory=set)
    statuses: dict[str, str] = field(default_factory=dict)
    """The last status of each thread that the log names."""
    queue: dict[str, list[str]] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    """The thread of each open turn, in the order of their submission."""
    ends: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, FoldedTask] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    """The turns that were rolled back."""
    pending: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The thread and the task of each open question."""
    worked: set[str] = field(default_factory=set)
    """The turns in which a tool or a process was executed."""
    families: set[str] = field(default_factory=set)
    """The families of the events. Tasks of peers need no channel."""
    jobs: dict[str, str] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    """The status of each job, and of each job item."""
    candidates: int | None = None
    model: str = ""
    """The number of candidates, and the selected model, of the last routing."""
    evidence: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)
    """The number of answers to questions, by `granted`, `denied` and `expired`."""
    has_tasks: bool = False
    known: set[str] = field(default_factory=set)
    vendor: set[str] = field(default_factory=set)
    """The ids of the snapshot that events of the contract have, and that events of implementations have."""
    _ids: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._ids = self.wanted.ids

    def apply(self, event: Event) -> None:
        """Fold the next event, if it is one of the session or of the task, and not later than the snapshot."""
        wanted = self.wanted
        task = event.text("taskId")
        if (task != wanted.task_id) if wanted.task_id else (event.text("sessionId") != wanted.session_id):
            return
        sequence = event.record.get("sequence")
        if isinstance(sequence, int):
            self.last_sequence = max(sequence, self.last_sequence)
            if wanted.sequence is not None and sequence > wanted.sequence:
                return
        if wanted.task_id and self._is_too_late(event):
            return
        self._note_ids(event)
        if event.type in IDS_OF_TYPES:
            self._fold(event)

    def _is_too_late(self, event: Event) -> bool:
        """Note the sequence of an event in the log of its task, and return whether it is later than the snapshot."""
        refs, record = event.record.get("refs"), self.wanted.tasks[self.wanted.task_id]
        found = refs.get("sourceSequence") if isinstance(refs, dict) else None
        if not isinstance(found, int):
            return False
        task = self.tasks.setdefault(self.wanted.task_id, FoldedTask())
        task.sequence = max(task.sequence, found)
        return record.sequence is not None and found > record.sequence

    def _note_ids(self, event: Event) -> None:
        found = self.known if event.type in IDS_OF_TYPES else self.vendor
        for name in _NAMES:
            if (value := event.text(name)) in self._ids:
                found.add(value)

    def _fold(self, event: Event) -> None:
        kind = event.type
        family, _, name = kind.partition(".")
        if not name.startswith("peer_task."):
            self.families.add(family)
        match family:
            case "session" | "thread" | "turn" | "queue" | "history":
                self._fold_session(event)
            case "task" | "subagent":
                self._fold_task(event)
            case "action":
                self._fold_action(event)
            case "tool" | "process":
                if name == "started" and event.text("turnId") in self._ids:
                    self.worked.add(event.text("turnId"))
            case "job":
                self._fold_job(event)
            case "evidence":
                if event.text("evidenceId") in self.wanted.evidence:
                    self.evidence.add(event.text("evidenceId"))
            case "routing":
                self._fold_routing(event)

    def _fold_session(self, event: Event) -> None:
        kind, payload, turn, thread = event.type, event.payload, event.text("turnId"), event.text("threadId")
        match kind:
            case "session.created" | "session.updated":
                # An update may have only the fields that changed.
                self.is_whole = self.is_whole or kind == "session.created"
                self.title = event.texts.get("title", self.title)
                self.is_archived = payload.get("archived", self.is_archived) is True
            case "thread.started":
                self.threads.add(thread)
            case "thread.updated":
                self.statuses[thread] = event.text("status")
            case "turn.submitted":
                self.turn_count += 1
                self.open[turn] = thread
            case "queue.changed":
                order = payload.get("order")
                self.queue[thread] = [str(each) for each in order] if isinstance(order, list) else []
            case "turn.completed" | "turn.failed":
                self.open.pop(turn, None)
                if turn in self.wanted.ended:
                    self.ends[turn] = event.text("outcome") or event.text("status") or kind.removeprefix("turn.")
            case "history.rollback.completed":
                removed = payload.get("removedTurns")
                self.removed.update(map(str, removed) if isinstance(removed, list) else ())

    def _fold_task(self, event: Event) -> None:
        kind, name = event.type, event.text("taskId")
        self.has_tasks = True
        if name not in self.wanted.tasks:
            return
        task = self.tasks.setdefault(name, FoldedTask())
        task.status = status_after(event, task.status)
        if kind == "task.created" and self.wanted.task_id:
            self.is_whole = True
        elif kind == "task.attempt.started":
            task.attempts.append(event.text("runId"))
        elif kind == "subagent.spawned":
            task.subagents.add(event.text("subagentId"))
        elif kind == "task.dependency.updated":
            inside = event.record.get("taskRelationship")
            edge = inside if isinstance(inside, dict) else event.payload
            change = task.edges.discard if edge.get("status") == "removed" else task.edges.add
            change((str(edge.get("kind")), str(edge.get("targetId"))))

    def _fold_action(self, event: Event) -> None:
        if event.type == "action.required":
            self.pending[event.text("actionId")] = event.text("threadId"), event.text("taskId")
        else:
            self.pending.pop(event.text("actionId"), None)
            if answer := _ANSWERS.get(event.text("decision")):
                self.answers[answer] += 1

    def _fold_job(self, event: Event) -> None:
        is_item = event.type.startswith("job.item.")
        word = event.type.rpartition(".")[2]
        status = {"created": "pending", "started": "running", "progress": "running"}.get(word, word)
        place = self.items if is_item else self.jobs
        place[event.text("jobItemId" if is_item else "jobId")] = status

    def _fold_routing(self, event: Event) -> None:
        places = (event.record.get("candidateModelSet"), event.record.get("routingDecision"), event.payload)
        found: dict[str, Any] = {}
        for place in places:
            found |= place if isinstance(place, dict) else {}
        if isinstance(count := found.get("candidateCount"), int):
            self.candidates = count
        for name in ("selectedModel", "selected", "to", "toModel"):
            if isinstance(model := found.get(name), str):
                self.model = model

    def active(self, thread: str) -> list[str]:
        """Return the open turns of a thread that are not queued."""
        queue = self.queue.get(thread, [])
        return [turn for turn, its in self.open.items() if its == thread and turn not in queue]
