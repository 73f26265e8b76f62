"""Rules that compare the events of a session with a snapshot of it. The events are folded up to the snapshot's sequence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from protolink_grpc.reports.agentruntime_validator.event_file import Event
from protolink_grpc.reports.agentruntime_validator.log_state import LogState
from protolink_grpc.reports.agentruntime_validator.rule import Rule, RuleResult
from protolink_grpc.reports.agentruntime_validator.snapshot import Snapshot
from protolink_grpc.reports.agentruntime_validator.task_statuses import status_after

Comparison = Callable[["SessionFold", Snapshot], Iterator[str]]
"""Yields an outcome for each compared fact: empty if it is equal in both. Nothing: the snapshot has no such facts."""


@dataclass(frozen=True, slots=True)
class SnapshotRule(Rule):
    compare: Comparison


SNAPSHOT_RULES: Final[list[SnapshotRule]] = []


@dataclass(slots=True)
class SessionFold:
    """The facts of one session, computed from its events. `ends` and `tasks` have only turns and tasks of the snapshot."""

    title: str = ""
    is_archived: bool = False
    turn_count: int = 0
    threads: set[str] = field(default_factory=set)
    queue: dict[str, list[str]] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    """The thread of each open turn, in the order of their submission."""
    ends: dict[str, set[str]] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    """The turns that were rolled back."""
    pending: set[str] = field(default_factory=set)
    last_sequence: int = -1

    def apply(self, event: Event, wanted: Snapshot) -> None:
        kind, payload, turn = event.type, event.payload, event.text("turnId")
        if kind.startswith("task.") and (task := event.text("taskId")) in wanted.tasks:
            self.tasks[task] = status_after(event, self.tasks.get(task, ""))
        if kind in ("session.created", "session.updated"):
            # An update may have only the fields that changed.
            self.title = event.texts.get("title", self.title)
            self.is_archived = payload.get("archived", self.is_archived) is True
        elif kind == "thread.started":
            self.threads.add(event.text("threadId"))
        elif kind == "turn.submitted":
            self.turn_count += 1
            self.open[turn] = event.text("threadId")
        elif kind == "queue.changed":
            order = payload.get("order")
            self.queue[event.text("threadId")] = [str(each) for each in order] if isinstance(order, list) else []
        elif kind in ("turn.completed", "turn.failed"):
            self.open.pop(turn, None)
            if turn in wanted.ended:
                self.ends[turn] = {event.text("outcome") or event.text("status") or kind.removeprefix("turn.")}
        elif kind == "history.rollback.completed":
            removed = payload.get("removedTurns")
            self.removed.update(map(str, removed) if isinstance(removed, list) else ())
        elif kind == "action.required":
            self.pending.add(event.text("actionId"))
        elif kind == "action.resolved":
            self.pending.discard(event.text("actionId"))

    def active(self, thread: str) -> list[str]:
        queue = self.queue.get(thread, [])
        return [turn for turn, its in self.open.items() if its == thread and turn not in queue]


class SnapshotCheck:
    """The comparison of a log with a snapshot, event by event. None: there is no snapshot."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        self._fold = SessionFold()

    def apply(self, event: Event) -> None:
        """Fold the next event, if it is one of the session and not later than the snapshot."""
        snapshot, sequence = self._snapshot, event.record.get("sequence")
        if snapshot is None or event.text("sessionId") != snapshot.session_id:
            return
        if isinstance(sequence, int):
            self._fold.last_sequence = max(sequence, self._fold.last_sequence)
            if snapshot.sequence is not None and sequence > snapshot.sequence:
                return
        self._fold.apply(event, snapshot)

    def results(self, log: LogState) -> list[RuleResult]:
        """Compare, and return the results of all rules."""
        missing = self._missing(log)
        results = [RuleResult(rule, missing=missing) for rule in SNAPSHOT_RULES]
        if self._snapshot is None or missing:
            return results
        for rule, result in zip(SNAPSHOT_RULES, results, strict=True):
            for outcome in rule.compare(self._fold, self._snapshot):
                result.checked += 1
                if outcome:
                    result.fail(0, "", outcome)
            if not result.checked:
                result.missing = "such facts in the snapshot"
        return results

    def _missing(self, log: LogState) -> str:
        """Return what is missing to compare; empty if nothing is."""
        snapshot = self._snapshot
        if snapshot is None:
            return "a snapshot of the session"
        if not log.sessions.get(snapshot.session_id):
            return f"the events of session {snapshot.session_id} from its session.created on"
        # A position of the snapshot stands for a range of sequences: its last event need not have the last of them.
        if snapshot.first_sequence is not None and self._fold.last_sequence < snapshot.first_sequence:
            return f"the events up to sequence {snapshot.first_sequence}"
        return ""


def _rule(rule_id: str, sentence: str, source: str) -> Callable[[Comparison], Comparison]:
    def declare(compare: Comparison) -> Comparison:
        SNAPSHOT_RULES.append(SnapshotRule(rule_id, sentence, source, compare))
        return compare

    return declare


@_rule("R147.1", "The threads of the snapshot are those of the log.", "SPEC:251, SS:12")
def compare_threads(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    for thread in sorted(fold.threads | snapshot.threads):
        if thread not in fold.threads:
            yield f"thread {thread} is not in the log"
        else:
            yield "" if thread in snapshot.threads else f"thread {thread} is not in the snapshot"


@_rule("R147.2", "The active turns of the snapshot are those of the log.", "SPEC:251, SS:25")
def compare_active(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.active is None:
        return
    for thread in sorted(fold.threads | snapshot.active.keys()):
        yield _difference(f"active turns of thread {thread}", fold.active(thread), snapshot.active.get(thread, []))


@_rule("R048.6", "The queues of the snapshot are those of the log, in order.", "CP:65, SPEC:255")
def compare_queues(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.queue is None:
        return
    for thread in sorted(fold.threads | snapshot.queue.keys()):
        yield _difference(f"queue of thread {thread}", fold.queue.get(thread, []), snapshot.queue.get(thread, []))


@_rule("R147.3", "A turn of the snapshot ended as in the log.", "SPEC:251, SS:25")
def compare_ends(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    for turn, statuses in snapshot.ended.items():
        if turn not in fold.ends:
            yield f"turn {turn} has no end in the log"
        else:
            found = min(fold.ends[turn])
            yield "" if found in statuses else f"turn {turn}: {found} in the log, {min(statuses)} in the snapshot"


@_rule("R147.4", "The snapshot counts the turns of the log.", "SPEC:251, SS:12")
def compare_count(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.turn_count is not None:
        yield _difference("number of turns", fold.turn_count, snapshot.turn_count)


@_rule("R147.5", "The title of the snapshot is that of the log, and so is whether it is archived.", "SPEC:251, SS:12")
def compare_title(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.title is not None:
        yield _difference("title", fold.title, snapshot.title)
    if snapshot.is_archived is not None:
        yield _difference("archived", fold.is_archived, snapshot.is_archived)


@_rule("R147.6", "A task of the snapshot has the status that follows from the log.", "SPEC:251, TASK:213")
def compare_tasks(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    for task, status in snapshot.tasks.items():
        yield _difference(f"task {task}", fold.tasks.get(task, "unknown"), status)


@_rule("R147.7", "The snapshot has the turns that were rolled back.", "SPEC:251, SH:22")
def compare_rollbacks(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    for turn, is_removed in snapshot.rolled_back.items():
        yield _difference(f"turn {turn} was rolled back", turn in fold.removed, is_removed)


@_rule("R022", "The open questions of the snapshot are those of the log.", "RES:38, SS:25")
def compare_pending(fold: SessionFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.pending is not None:
        yield _difference("open questions", sorted(fold.pending), sorted(snapshot.pending))


def _difference(what: str, in_log: object, in_snapshot: object) -> str:
    return "" if in_log == in_snapshot else f"{what}: {in_log} in the log, {in_snapshot} in the snapshot"
