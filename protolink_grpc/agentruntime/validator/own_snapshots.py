"""Reads the JSON of this package's snapshots: of a session, a thread, a queue, a task and the evidence of a task."""

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final

from protolink_grpc.agentruntime.validator.snapshot import (
    Attempt,
    Object,
    Snapshot,
    TaskRecord,
    number_of,
    objects_of,
    text_of,
)
from protolink_grpc.agentruntime.view import PLACES
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task_control import TaskStatus

MAX_PENDING: Final = 100
"""A snapshot has no more open approvals than this."""

_ENDS: Final[dict[str, frozenset[str]]] = {
    TaskState.COMPLETED: frozenset(("completed",)),
    TaskState.FAILED: frozenset(("failed", "timed_out")),
    TaskState.REJECTED: frozenset(("failed",)),
    TaskState.CANCELED: frozenset(("cancelled",)),
    TaskState.INPUT_REQUIRED: frozenset(("waiting_input",)),
    TaskState.AUTH_REQUIRED: frozenset(("waiting_permission",)),
}
"""The statuses in the log of a turn with each result."""

_FINAL: Final = frozenset(("completed", "failed", "timed_out", "cancelled", "lost", "archived"))

_IN_LOG: Final[dict[str, frozenset[str]]] = {
    # The events do not have the blockers in other sessions, nor the archiving of the session.
    TaskStatus.QUEUED: frozenset(("queued", "accepted")),
    # The events have the answer's wait for a slot.
    TaskStatus.WAITING_INPUT: frozenset(("waiting_input", "queued")),
    TaskStatus.WAITING_PERMISSION: frozenset(("waiting_permission", "queued")),
    TaskStatus.RETRYING: frozenset(("retrying", "queued")),
    TaskStatus.BLOCKED: frozenset(("blocked", "accepted")),
    TaskStatus.PREPARING: frozenset(("preparing", "running")),
    TaskStatus.ARCHIVED: _FINAL,
}
"""The statuses in the log of a task with each status, where they differ."""

_PARTS: Final = MappingProxyType({"execution_environment": "executionEnvironment", "sandbox": "sandboxState"})
"""The contract's names of parts."""


def _of_session(document: Object) -> Snapshot:
    session = document["session"]
    if not isinstance(session, dict):
        raise InvalidArgumentError("must be an object", field="session")
    position = _position(session, "session.position")
    threads = [text_of(each, "thread_id", "session.threads") for each in objects_of(session, "threads", "session")]
    turns = objects_of(document, "recent_turns" if "recent_turns" in document else "turns", "")
    queue, active = _places(objects_of(session, "open_turns", "session"), "session.open_turns")
    title, archived = (session.get(name) for name in ("title", "archived"))
    return Snapshot(
        text_of(session, "session_id", "session"),
        sequence=_last_sequence(position),
        first_sequence=position * PLACES,
        threads=frozenset(threads),
        statuses={} if _is_stale(document) else _statuses(objects_of(document, "threads", "")),
        title=title if isinstance(title, str) else None,
        is_archived=archived if isinstance(archived, bool) else None,
        turn_count=number_of(session, "turn_count"),
        queue=queue,
        active=active,
        ended=_ended(turns),
        rolled_back=_rolled_back(turns),
        pending=_pending(document),
        gaps=_gaps(document),
    )


def _of_thread(document: Object) -> Snapshot:
    position = _position(document, "position")
    thread, is_stale = _thread_of(document), _is_stale(document)
    tasks = [] if is_stale else objects_of(document, "open_tasks", "")
    turns = objects_of(document, "recent_turns", "")
    queue = [text_of(each, "turn_id", "queued_turns") for each in objects_of(document, "queued_turns", "")]
    active = [text_of(each, "turn_id", "active_turns") for each in objects_of(document, "active_turns", "")]
    return Snapshot(
        text_of(document, "session_id", ""),
        sequence=_last_sequence(position),
        first_sequence=position * PLACES,
        scope=frozenset((thread,)),
        statuses={} if is_stale else _statuses([document]),
        queue={thread: queue},
        active={thread: active},
        ended=_ended(turns),
        rolled_back=_rolled_back(turns),
        tasks={text_of(each, "task_id", "open_tasks"): _task(each) for each in tasks},
        pending=_pending(document),
        gaps=_gaps(document),
    )


def _of_queue(document: Object) -> Snapshot:
    position = _position(document, "position")
    entries = objects_of(document, "queued_turns", "")
    turns = [each["turn"] if isinstance(each.get("turn"), dict) else {} for each in entries]
    queue, _ = _places(({**each, "state": "queued"} for each in turns), "queued_turns.turn")
    active: dict[str, list[str]] = {}
    for hold in objects_of(document, "holds", ""):
        if hold.get("waits_for_input") is not True:
            names = [text_of(each, "turn_id", "holds.turns") for each in objects_of(hold, "turns", "holds")]
            active[text_of(hold, "thread_id", "holds")] = names
    return Snapshot(
        text_of(document, "session_id", ""),
        sequence=_last_sequence(position),
        first_sequence=position * PLACES,
        scope=frozenset(queue),
        queue=queue,
        active=active,
        gaps=_gaps(document),
    )


def _of_task(document: Object) -> Snapshot:
    task_id = text_of(document, "task_id", "")
    pending = document.get("pending_approvals")
    if not isinstance(pending, list) or not all(isinstance(each, str) for each in pending):
        raise InvalidArgumentError("must be a list of texts", field="pending_approvals")
    session = text_of(document, "session_id", "")
    return Snapshot(
        f"{task_id}/session" if session == task_id else session,
        task_id=task_id,
        tasks={task_id: _task(document, is_whole=True)},
        pending=frozenset(pending) if len(pending) < MAX_PENDING else None,
        gaps=_gaps(document),
    )


def _of_evidence(document: Object) -> Snapshot:
    task_id = text_of(document, "task_id", "")
    runs = document.get("run_ids")
    if not isinstance(runs, list) or not all(isinstance(each, str) for each in runs):
        raise InvalidArgumentError("must be a list of texts", field="run_ids")
    attempts = tuple(Attempt(_run_id(each, task_id), "", has_start=True, has_end=True) for each in runs)
    record = TaskRecord(frozenset(), attempts, sequence=number_of(document, "sequence"))
    names = ("granted", "denied", "expired")
    found = {name: number_of(document, f"approvals_{name}") for name in names}
    answers = {name: count for name, count in found.items() if count is not None}
    return Snapshot("", task_id=task_id, tasks={task_id: record}, answers=answers, gaps=_gaps(document))


FORMS: Final[MappingProxyType[str, Callable[[Object], Snapshot]]] = MappingProxyType(
    {
        "session": _of_session,
        "thread": _of_thread,
        "queued_turns": _of_queue,
        "attempts": _of_task,
        "policy_decisions": _of_evidence,
    }
)
"""The forms by a field that only one of them has, if they are tried in this order."""


# -- Parts -----------------------------------------------------------------------------------------------------------------


def _position(place: Object, path: str) -> int:
    found = number_of(place, "position")
    if found is None or found < 0:
        raise InvalidArgumentError("must be an integer, 0 or greater", field=path)
    return found


def _last_sequence(position: int) -> int:
    return position * PLACES + PLACES - 1


def _places(turns: Iterable[Object], where: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the queued and the active turns of each thread."""
    queue: dict[str, list[str]] = {}
    active: dict[str, list[str]] = {}
    for turn in turns:
        place = queue if turn.get("state") == "queued" else active
        place.setdefault(text_of(turn, "thread_id", where), []).append(text_of(turn, "turn_id", where))
    return queue, active


def _ended(turns: Iterable[Object]) -> dict[str, frozenset[str]]:
    return {
        text_of(turn, "turn_id", "turns"): _ENDS.get(result, frozenset((result,)))
        for turn in turns
        if (result := str(turn.get("result") or ""))
    }


def _rolled_back(turns: Iterable[Object]) -> dict[str, bool]:
    return {
        text_of(turn, "turn_id", "turns"): turn["rolled_back"]
        for turn in turns
        if isinstance(turn.get("rolled_back"), bool)
    }


def _pending(document: Object) -> frozenset[str] | None:
    """Return the ids of the open approvals; None if the document does not have all of them."""
    found = objects_of(document, "pending_approvals", "")
    if "pending_approvals" not in document or "pending_approvals" in dict(_gaps(document)) or len(found) >= MAX_PENDING:
        return None
    requests = [each.get("request") for each in found]
    return frozenset(
        text_of(each if isinstance(each, dict) else {}, "request_id", "pending_approvals") for each in requests
    )


def _thread_of(document: Object) -> str:
    thread = document.get("thread")
    return text_of(thread if isinstance(thread, dict) else {}, "thread_id", "thread")


def _statuses(threads: Iterable[Object]) -> dict[str, str]:
    """Return the status of each thread that has a current one."""
    return {_thread_of(each): text_of(each, "status", "") for each in threads if "status" not in dict(_gaps(each))}


def _is_stale(document: Object) -> bool:
    """Whether the session kept changing while it was read: statuses, tasks and approvals may be of a later position."""
    return any(availability == "stale" for _, availability in _gaps(document))


def _gaps(document: Object) -> tuple[tuple[str, str], ...]:
    found = [
        (text_of(each, "part", "gaps"), str(each.get("availability"))) for each in objects_of(document, "gaps", "")
    ]
    return tuple((_PARTS.get(part, part), availability) for part, availability in found)


def _task(task: Object, *, is_whole: bool = False) -> TaskRecord:
    """Read the snapshot of a task. Only a whole one has attempts and links."""
    status = text_of(task, "status", "tasks")
    task_id, statuses = text_of(task, "task_id", "tasks"), _IN_LOG.get(status, frozenset((status,)))
    if not is_whole:
        return TaskRecord(statuses)
    links = [each["link"] for each in objects_of(task, "links", "") if isinstance(each.get("link"), dict)]
    return TaskRecord(
        statuses,
        tuple(_attempt(each, task_id) for each in objects_of(task, "attempts", "")),
        number_of(task, "attempt_count"),
        frozenset((text_of(each, "kind", "links"), text_of(each, "target", "links")) for each in links),
        _run_id(task.get("run_id"), task_id),
        bool(task.get("ended_at")),
        number_of(task, "sequence"),
    )


def _attempt(attempt: Object, task_id: str) -> Attempt:
    run_id = _run_id(text_of(attempt, "run_id", "attempts"), task_id)
    status = text_of(attempt, "status", "attempts")
    return Attempt(run_id, status, bool(attempt.get("started_at")), bool(attempt.get("ended_at")))


def _run_id(run_id: object, task_id: str) -> str:
    """Return the id of a run in the events: different things have different ids there."""
    return f"{run_id}/run" if run_id == task_id else str(run_id or "")
