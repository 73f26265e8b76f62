"""Rules about the contract's document of a session: its sections, and the facts that only it has."""

from collections.abc import Iterator
from typing import Any, Final

from protolink_grpc.agentruntime.validator.contract_snapshot import SECTIONS, gap_of
from protolink_grpc.agentruntime.validator.lime_rules import SCHEMA_VERSION
from protolink_grpc.agentruntime.validator.rule import Level, SnapshotRuleSet
from protolink_grpc.agentruntime.validator.snapshot import Object, Snapshot
from protolink_grpc.agentruntime.validator.snapshot_fold import SnapshotFold

RULES = SnapshotRuleSet()

LIME_RULES = SnapshotRuleSet(Level.LIME)

_LISTS: Final = ("threads", "tasks", "evidenceRefs")
_OF_LIME: Final = ("runtimeId", "updatedAt", "taskSummary", "routingLimitSummary", "telemetrySummary")
_OF_THREADS: Final = ("turns", "pendingRequests", "queuedTurns")


def empty_sections(snapshot: Snapshot) -> Iterator[str]:
    """Yield an outcome for each section of the document that is there."""
    document = snapshot.document or {}
    for name in SECTIONS:
        if name in document:
            is_value = isinstance(document[name], dict) or gap_of(document[name])
            yield "" if is_value else f"{name} is {document[name]!r}"


def _threads(snapshot: Snapshot) -> list[Object]:
    return [] if snapshot.document is None else snapshot.document.get("threads", [])


def _objects(place: Object, name: str) -> list[Object]:
    found = place.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


@RULES.rule("R145", "A thread has its turns, its open questions and its queue.", "SS:25")
def compare_thread_fields(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for thread in _threads(snapshot):
        missing = [name for name in _OF_THREADS if not isinstance(thread.get(name), list)]
        yield f"thread {thread['threadId']} without {' and '.join(missing)}" if missing else ""


@RULES.rule("R077", "The snapshot of a session with tasks has the tasks and their summary.", "TASK:213")
def compare_task_sections(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.document is None or not fold.has_tasks:
        return
    missing = [] if snapshot.tasks else ["tasks"]
    if "taskSummary" not in snapshot.document:
        missing.append("taskSummary")
    yield f"without {' and '.join(missing)}" if missing else ""


@RULES.rule("R066", "A task has a relationship to each of its subagents.", "TASK:116")
def compare_children(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.document is None:
        return
    for name, record in snapshot.tasks.items():
        found = fold.tasks.get(name)
        targets = {target for _, target in record.edges or ()}
        for subagent in sorted(found.subagents) if found is not None and record.edges is not None else ():
            yield "" if subagent in targets else f"task {name} without a relationship to {subagent}"


@RULES.rule("R117", "A turn with tools or processes has its execution environment.", "EE:12")
def compare_turn_environments(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if dict(snapshot.gaps).get("executionEnvironment"):
        return
    for turn in (turn for thread in _threads(snapshot) for turn in _objects(thread, "turns")):
        if str(turn.get("turnId")) in fold.worked:
            yield "" if turn.get("executionEnvironment") else f"turn {turn['turnId']} without executionEnvironment"


@RULES.rule("R122", "The routing has the profile, the candidates and the decision, or a reason to be missing.", "MR:10")
def compare_routing_parts(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if {"routing", "routingLimitSummary"} & dict(snapshot.gaps).keys():
        yield ""
        return
    if snapshot.document is None or "routing" not in fold.families:
        return
    found = _routing(snapshot)
    parts = (("taskProfile",), ("candidateModelSet", "candidateCount"), ("routingDecision", "selectedModel"))
    missing = [names[0] for names in parts if not any(found.get(name) is not None for name in names)]
    yield f"routingLimitSummary without {' and '.join(missing)}" if missing else ""


@RULES.rule("R126", "The routing of the snapshot is the last one of the log.", "MR:28")
def compare_routing(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.document is None or "routing" not in fold.families:
        return
    found = _routing(snapshot)
    for place in (found.get("candidateModelSet"), found.get("routingDecision")):
        found |= place if isinstance(place, dict) else {}
    for name, in_log in (("candidateCount", fold.candidates), ("selectedModel", fold.model)):
        if name in found and in_log:
            yield "" if found[name] == in_log else f"{name}: {in_log} in the log, {found[name]} in the snapshot"


def _routing(snapshot: Snapshot) -> dict[str, Any]:
    found = (snapshot.document or {}).get("routingLimitSummary")
    return dict(found) if isinstance(found, dict) else {}


@RULES.rule("R054", "A job and its items have their own statuses, which follow from the log.", "CP:80")
def compare_jobs(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    for job in (job for thread in _threads(snapshot) for job in _objects(thread, "jobs")):
        yield _status_difference("job", job.get("jobId"), job.get("status"), fold.jobs)
        for item in _objects(job, "items"):
            yield _status_difference("job item", item.get("jobItemId"), item.get("status"), fold.items)


def _status_difference(noun: str, name: object, status: object, in_log: dict[str, str]) -> str:
    """Compare a status. An item that has ended may be reported, too."""
    found = in_log.get(str(name), "unknown")
    accepted = {found, "reported"} if found in ("completed", "failed") and noun == "job item" else {found}
    return (
        ""
        if isinstance(status, str) and status in accepted
        else f"{noun} {name}: {found} in the log, {status} in the snapshot"
    )


@LIME_RULES.rule("R178", "The snapshot has the sections that the profile requires.", "LP:76, LP:138")
def compare_sections(fold: SnapshotFold, snapshot: Snapshot) -> Iterator[str]:
    document = snapshot.document
    if document is None:
        return
    missing = [name for name in _LISTS if not isinstance(document.get(name), list)]
    missing += [name for name in _OF_LIME if not document.get(name)]
    for thread in _threads(snapshot):
        lists = [name for name in ("incidents", *_OF_THREADS) if not isinstance(thread.get(name), list)]
        if not isinstance(thread.get("evidenceSummary"), dict):
            lists.append("evidenceSummary")
        missing += [f"{name} of thread {thread['threadId']}" for name in lists]
    if document.get("schemaVersion") != SCHEMA_VERSION:
        missing.append(f"the schemaVersion {SCHEMA_VERSION}")
    yield f"without {' and '.join(missing)}" if missing else ""
