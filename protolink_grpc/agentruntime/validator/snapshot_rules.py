"""Rules that compare the events of a log with snapshots: of a session, a thread, a queue or a task.

`document_rules` has those about the contract's document.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from protolink_grpc.agentruntime.validator import document_rules
from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.rule import Level, RuleResult, SnapshotRule, SnapshotRuleSet
from protolink_grpc.agentruntime.validator.snapshot import GAPS, Snapshot
from protolink_grpc.agentruntime.validator.snapshot_fold import SnapshotFold
from protolink_grpc.agentruntime.validator.task_statuses import THREAD_STATUSES

RULES = SnapshotRuleSet()

MAX_ATTEMPTS: Final = 100
"""A snapshot may leave out attempts before the newest ones."""

_FAMILIES: Final = {
    "sandboxState": "sandbox",
    "sandbox": "sandbox",
    "routingLimitSummary": "routing",
    "routing": "routing",
    "subagentJobSummary": "job",
    "jobs": "job",
    "channelSummary": "channel",
    "channels": "channel",
    "permissionState": "permission",
    "outputSummary": "output",
    "historySummary": "history",
    "executionEnvironment": "process",
    "processes": "process",
}
"""The families of events whose facts each part has."""


# -- Sessions, threads and turns -------------------------------------------------------------------------------------------


@RULES.rule("R147.1", "The threads of the snapshot are those of the log.", "SPEC:251, SS:12")
def compare_threads(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.threads is None:
        return
    for thread in sorted(fold.threads | snapshot.threads):
        if thread not in fold.threads:
            yield f"thread {thread} is not in the log"
        else:
            yield "" if thread in snapshot.threads else f"thread {thread} is not in the snapshot"


@RULES.rule("R147.2", "The active turns of the snapshot are those of the log.", "SPEC:251, SS:25")
def compare_active(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for thread in _scope(snapshot, fold, snapshot.active):
        found = (snapshot.active or {}).get(thread, [])
        yield _difference(f"active turns of thread {thread}", sorted(fold.active(thread)), sorted(found))


@RULES.rule("R048.6", "The queues of the snapshot are those of the log, in order.", "CP:65, SPEC:255")
def compare_queues(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for thread in _scope(snapshot, fold, snapshot.queue):
        yield _difference(
            f"queue of thread {thread}", fold.queue.get(thread, []), (snapshot.queue or {}).get(thread, [])
        )


def _scope(snapshot: Snapshot, fold: SnapshotFold, found: dict[str, list[str]] | None) -> Iterable[str]:
    """Return the threads to compare: those that the snapshot has turns of, or all."""
    if found is None:
        return ()
    if snapshot.scope is not None:
        return sorted(snapshot.scope & found.keys())
    return sorted(fold.threads | found.keys())


@RULES.rule("R147.3", "A turn of the snapshot ended as in the log.", "SPEC:251, SS:25")
def compare_ends(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for turn, statuses in snapshot.ended.items():
        found = fold.ends.get(turn)
        if found is None:
            yield f"turn {turn} has no end in the log"
        else:
            yield "" if found in statuses else f"turn {turn}: {found} in the log, {min(statuses)} in the snapshot"


@RULES.rule("R147.4", "The snapshot counts the turns of the log.", "SPEC:251, SS:12")
def compare_count(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.turn_count is not None:
        yield _difference("number of turns", fold.turn_count, snapshot.turn_count)


@RULES.rule(
    "R147.5", "The title of the snapshot is that of the log, and so is whether it is archived.", "SPEC:251, SS:12"
)
def compare_title(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.title is not None:
        yield _difference("title", fold.title, snapshot.title)
    if snapshot.is_archived is not None:
        yield _difference("archived", fold.is_archived, snapshot.is_archived)


@RULES.rule("R147.7", "The snapshot has the turns that were rolled back.", "SPEC:251, SH:22")
def compare_rollbacks(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for turn, is_removed in snapshot.rolled_back.items():
        yield _difference(f"turn {turn} was rolled back", turn in fold.removed, is_removed)


@RULES.rule("R147.8", "The status of a thread of the snapshot follows from the log.", "SPEC:251, SS:25")
def compare_statuses(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for thread, status in snapshot.statuses.items():
        if status in ("stale", "unknown"):
            continue
        if thread in fold.statuses:
            yield _difference(f"status of thread {thread}", fold.statuses[thread], status)
            continue
        possible = _statuses_of(fold, thread)
        yield "" if status in possible else f"thread {thread}: {status} in the snapshot, {min(possible)} in the log"


def _statuses_of(fold: SnapshotFold, thread: str) -> frozenset[str]:
    """Return the statuses that a thread may have: the log has its turns, and no thread.updated."""
    if fold.active(thread):
        return frozenset(("running", "blocked"))
    if fold.queue.get(thread):
        return frozenset(("queued", "blocked"))
    return THREAD_STATUSES - {"running", "queued"}


@RULES.rule("R022", "The open questions of the snapshot are those of the log.", "RES:38, SS:25")
def compare_pending(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.pending is None:
        return
    found = [
        question for question, (thread, _) in fold.pending.items() if snapshot.scope is None or thread in snapshot.scope
    ]
    yield _difference("open questions", sorted(found), sorted(snapshot.pending))


# -- Tasks -----------------------------------------------------------------------------------------------------------------


@RULES.rule("R147.6", "A task of the snapshot has the status that follows from the log.", "SPEC:251, TASK:213")
def compare_tasks(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for task, record in snapshot.tasks.items():
        found = fold.tasks[task].status if task in fold.tasks else "unknown"
        if not record.statuses:
            continue
        yield (
            ""
            if found in record.statuses
            else f"task {task}: {found} in the log, {min(record.statuses)} in the snapshot"
        )


@RULES.rule("R063.1", "A task of the snapshot has all its attempts of the log, in order.", "TASK:94, SPEC:256")
def compare_attempts(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for task, record in snapshot.tasks.items():
        if record.attempts is None or task not in fold.tasks:
            continue
        runs = fold.tasks[task].attempts
        newest = [each.run_id for each in record.attempts]
        if record.attempt_count is not None and record.attempt_count != len(runs):
            yield f"task {task}: {len(runs)} attempts in the log, {record.attempt_count} in the snapshot"
        else:
            yield _difference(f"attempts of task {task}", runs[-max(len(newest), MAX_ATTEMPTS) :], newest)


@RULES.rule("R063.2", "A task of the snapshot has its relationships of the log.", "TASK:94, SPEC:256")
def compare_edges(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for task, record in snapshot.tasks.items():
        if record.edges is not None and task in fold.tasks:
            found = fold.tasks[task].edges
            yield _difference(f"relationships of task {task}", sorted(found), sorted(record.edges))


@RULES.rule("R064", "An attempt has its run, its status and the times of its begin and end.", "TASK:96")
def compare_attempt_fields(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for task, record in snapshot.tasks.items():
        for attempt in record.attempts or () if record.statuses else ():
            missing = [
                name
                for name, is_there in (
                    ("status", bool(attempt.status)),
                    ("the time of its begin", attempt.has_start),
                    ("the time of its end", attempt.has_end or attempt.status not in _ENDED),
                )
                if not is_there
            ]
            yield f"attempt {attempt.run_id} of task {task} without {' and '.join(missing)}" if missing else ""


_ENDED: Final = frozenset(("completed", "failed", "cancelled", "timed_out"))
"""The statuses of attempts that have ended. A lost one has no time."""


@RULES.rule("R060", "A task of the snapshot has its current run, and the time of its end if it has ended.", "TASK:38")
def compare_records(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for task, record in snapshot.tasks.items():
        if task not in fold.tasks:
            continue
        runs = fold.tasks[task].attempts
        if record.run_id and runs:  # the work of another person or program has no attempts
            yield _difference(f"run of task {task}", runs[-1], record.run_id)
        if record.is_over is not None:
            has_ended = fold.tasks[task].status in {*_ENDED, "lost", "archived"}
            yield _difference(f"task {task} has ended", has_ended, record.is_over)


@RULES.rule("R150", "The evidence of a snapshot is that of the log.", "SPEC:258, EV:8")
def compare_evidence(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for name in snapshot.evidence:
        yield "" if name in fold.evidence else f"no evidence.changed of evidence {name}"
    for answer, count in (snapshot.answers or {}).items():
        yield _difference(f"answers that are {answer}", fold.answers[answer], count)


# -- All parts -------------------------------------------------------------------------------------------------------------


@RULES.rule(
    "R010",
    "What a snapshot has is in events of the contract, and not only in those of implementations.",
    "SPEC:150",
)
def compare_vendor_ids(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for name in sorted(fold.known | fold.vendor):
        yield "" if name in fold.known else f"{name} is only in events of implementations"


@RULES.rule("R011", "What the snapshot calls unavailable has no events.", "SPEC:154, SPEC:222")
def compare_families(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for part in sorted(part for part, reason in snapshot.gaps if reason == "unavailable" and part in _FAMILIES):
        family = _FAMILIES[part]
        has_events = family in fold.families
        yield f"{part} is unavailable, and the log has events of {family}.*" if has_events else ""


@RULES.rule("R116", "The execution environment is in the snapshot, or has a reason to be missing.", "EE:8")
def compare_environment(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.document is None and not snapshot.gaps:
        return
    if snapshot.task_id or (snapshot.document is None and not snapshot.statuses):
        return  # the environment is a part of sessions and threads
    is_there = "executionEnvironment" in snapshot.parts or "executionEnvironment" in dict(snapshot.gaps)
    yield "" if is_there else "without executionEnvironment"


@RULES.rule("R146", "A part without a current value has one of the contract's reasons.", "SS:48, SS:65")
def compare_gaps(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for part, reason in snapshot.gaps:
        yield "" if reason in GAPS else f"{part} is {reason}"
    yield from document_rules.empty_sections(snapshot)


def _difference(what: str, in_log: object, in_snapshot: object) -> str:
    return "" if in_log == in_snapshot else f"{what}: {in_log} in the log, {in_snapshot} in the snapshot"


SNAPSHOT_RULES: Final[tuple[SnapshotRule, ...]] = (*RULES, *document_rules.RULES, *document_rules.LIME_RULES)


# -- The comparison --------------------------------------------------------------------------------------------------------


class SnapshotComparison:
    """The comparison of a log with snapshots, event by event."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._folds = [SnapshotFold(each) for each in snapshots]

    def apply(self, event: Event) -> None:
        for fold in self._folds:
            fold.apply(event)

    def uncompared(self) -> list[tuple[str, str]]:
        """Return the names of the snapshots that cannot be compared, each with the events that are missing."""
        return [(fold.wanted.name, gap) for fold in self._folds if (gap := _missing(fold))]

    def results(self, level: Level) -> list[RuleResult]:
        """Compare, and return the results of all rules of a level."""
        gaps = [gap for _, gap in self.uncompared()]
        comparable = [fold for fold in self._folds if not _missing(fold)]
        results = []
        for rule in SNAPSHOT_RULES:
            if rule.level not in (Level.CORE, level):
                continue
            result = RuleResult(rule)
            results.append(result)
            for fold in comparable:
                for outcome in rule.compare(fold, fold.wanted):
                    result.checked += 1
                    if outcome:
                        result.fail(0, "", outcome, snapshot=fold.wanted.name)
            if not result.checked:
                result.missing = "such facts in the snapshots" if comparable else next(iter(gaps), "a snapshot")
        return results


def _missing(fold: SnapshotFold) -> str:
    """Return what is missing to compare; empty if nothing is."""
    snapshot = fold.wanted
    if not fold.is_whole:
        if snapshot.task_id:
            return f"the events of task {snapshot.task_id} from its task.created on"
        return f"the events of session {snapshot.session_id} from its session.created on"
    # A position of the snapshot stands for a range of sequences: its last event need not have the last of them.
    if snapshot.first_sequence is not None and fold.last_sequence < snapshot.first_sequence:
        return f"the events up to sequence {snapshot.first_sequence}"
    task = snapshot.tasks.get(snapshot.task_id)
    if task is not None and task.sequence is not None and fold.tasks[snapshot.task_id].sequence < task.sequence:
        return f"the events of task {snapshot.task_id} up to its sequence {task.sequence}"
    return ""
