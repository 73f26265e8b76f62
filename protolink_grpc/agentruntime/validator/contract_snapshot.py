"""Reads the contract's document of a session."""

from typing import Any, Final

from protolink_grpc.agentruntime.validator.snapshot import (
    GAPS,
    Attempt,
    Object,
    Snapshot,
    TaskRecord,
    number_of,
    objects_of,
    text_of,
)
from protolink_grpc.errors import InvalidArgumentError

SECTIONS: Final = (
    "executionEnvironment",
    "permissionState",
    "sandboxState",
    "routingLimitSummary",
    "subagentJobSummary",
    "channelSummary",
    "telemetrySummary",
    "outputSummary",
    "historySummary",
    "taskSummary",
    "taskGraph",
    "deliveryState",
)
"""The sections of the document that are objects."""


def read(document: Object) -> Snapshot:
    """Read the document. Raises InvalidArgumentError, which names the field."""
    queue: dict[str, list[str]] = {}
    active: dict[str, list[str]] = {}
    ended: dict[str, frozenset[str]] = {}
    rolled_back: dict[str, bool] = {}
    statuses: dict[str, str] = {}
    pending: set[str] = set()
    threads = objects_of(document, "threads", "")
    for thread in threads:
        name = text_of(thread, "threadId", "threads")
        statuses[name] = str(thread.get("status") or "")
        queue[name] = [_turn_of(each) for each in _list(thread.get("queuedTurns", []), "queuedTurns")]
        if isinstance(found := thread.get("activeTurnId"), str) and thread.get("status") != "completed":
            active[name] = [found]
        pending.update(
            text_of(each, "actionId", "pendingRequests") for each in objects_of(thread, "pendingRequests", "threads")
        )
        for turn in objects_of(thread, "turns", "threads"):
            if isinstance(removed := turn.get("rolledBack"), bool):
                rolled_back[text_of(turn, "turnId", "turns")] = removed
            if turn.get("completedAt"):
                ended[text_of(turn, "turnId", "turns")] = frozenset((str(turn.get("status")),))
    sequence, title = number_of(document, "sequence"), document.get("title")
    gaps = [(name, gap) for name in SECTIONS if (gap := gap_of(document.get(name)))]
    return Snapshot(
        text_of(document, "sessionId", ""),
        sequence=sequence,
        first_sequence=sequence,
        threads=frozenset(statuses),
        statuses={name: status for name, status in statuses.items() if status},
        title=title if isinstance(title, str) else None,
        turn_count=number_of(document, "turnCount"),
        queue={name: turns for name, turns in queue.items() if turns},
        active=active,
        ended=ended,
        rolled_back=rolled_back,
        tasks={
            text_of(task, "taskId", "tasks"): _task(task)
            for place in (document, *threads)
            for task in objects_of(place, "tasks", "")
        },
        pending=frozenset(pending) if any("pendingRequests" in each for each in threads) else None,
        evidence=tuple(
            each for each in _list(document.get("evidenceRefs", []), "evidenceRefs") if isinstance(each, str)
        ),
        gaps=tuple(gaps),
        parts=frozenset(name for name in SECTIONS if isinstance(document.get(name), dict)) - {name for name, _ in gaps},
        document=document,
    )


def gap_of(section: object) -> str:
    """Return why a section has no current value; empty if it has one, or if it is missing."""
    found = section.get("availability", section.get("status")) if isinstance(section, dict) else section
    return found if isinstance(found, str) and found in GAPS else ""


def _task(task: Object) -> TaskRecord:
    status = text_of(task, "status", "tasks")
    attempts = objects_of(task, "attempts", "tasks") if "attempts" in task else None
    edges = objects_of(task, "relationships", "tasks") if "relationships" in task else None
    has_times = any(task.get(name) for name in ("createdAt", "startedAt", "endedAt"))
    return TaskRecord(
        frozenset((status,)),
        None if attempts is None else tuple(map(_attempt, attempts)),
        None if attempts is None else len(attempts),
        None if edges is None else frozenset(map(_edge, edges)),
        str(task.get("currentRunId") or ""),
        bool(task.get("endedAt")) if has_times else None,
    )


def _attempt(attempt: Object) -> Attempt:
    run_id, status = text_of(attempt, "runId", "attempts"), str(attempt.get("status") or "")
    return Attempt(run_id, status, bool(attempt.get("startedAt")), bool(attempt.get("endedAt")))


def _edge(edge: Object) -> tuple[str, str]:
    return text_of(edge, "kind", "relationships"), text_of(edge, "targetId", "relationships")


def _turn_of(entry: object) -> str:
    """Return the id of a queued turn: a text, or an object with it."""
    found = entry.get("turnId", entry.get("queuedTurnId", entry.get("queueId"))) if isinstance(entry, dict) else entry
    if not isinstance(found, str):
        raise InvalidArgumentError("must have turnId", field="queuedTurns")
    return found


def _list(found: object, name: str) -> list[Any]:
    if not isinstance(found, list):
        raise InvalidArgumentError("must be a list", field=name)
    return found
