"""Reads the snapshot of a session: the contract's document, or the JSON of `plgrpc snapshot session` and `plgrpc session show`."""

from dataclasses import dataclass, field
from typing import Any, Final

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.reports.agentruntime import PLACES


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts of a session at one sequence. None: the document does not have them.

    Args:
        sequence: Sequence of the last event that it reflects; None means all events of the log.
        queue: The queued turns of each thread, in order.
        active: The open turns of each thread that are not queued.
        ended: The statuses that an ended turn may have in the log. Only turns of the document.
        tasks: The status of each task.
        rolled_back: Whether each turn was taken out of its thread.
        pending: The open questions.
    """

    session_id: str
    threads: frozenset[str]
    sequence: int | None = None
    title: str | None = None
    is_archived: bool | None = None
    turn_count: int | None = None
    queue: dict[str, list[str]] | None = None
    active: dict[str, list[str]] | None = None
    ended: dict[str, frozenset[str]] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    rolled_back: dict[str, bool] = field(default_factory=dict)
    pending: frozenset[str] | None = None
    first_sequence: int | None = None
    """The log must reach this sequence: the position of this package's snapshots stands for a range of sequences."""


def read_snapshot(document: object) -> Snapshot:
    """Read the snapshot of a session.

    Raises:
        InvalidArgumentError: It has neither form; names the field.
    """
    if not isinstance(document, dict):
        raise InvalidArgumentError("must be an object")
    if isinstance(document.get("session"), dict):
        return _from_session(document["session"], document)
    if "sessionId" in document:
        return _from_contract(document)
    raise InvalidArgumentError("must have sessionId, or session as in plgrpc snapshot session --json")


# -- plgrpc snapshot session, and plgrpc session show ----------------------------------------------------------------------

MAX_PENDING: Final = 100
"""A snapshot has no more open approvals than this."""

_STATUSES: Final[dict[str, frozenset[str]]] = {
    TaskState.COMPLETED: frozenset(("completed",)),
    TaskState.FAILED: frozenset(("failed", "timed_out")),
    TaskState.REJECTED: frozenset(("failed",)),
    TaskState.CANCELED: frozenset(("cancelled",)),
    TaskState.INPUT_REQUIRED: frozenset(("waiting_input",)),
    TaskState.AUTH_REQUIRED: frozenset(("waiting_permission",)),
}


def _from_session(session: dict[str, Any], document: dict[str, Any]) -> Snapshot:
    position = session.get("position")
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        raise InvalidArgumentError("must be an integer, 0 or greater", field="session.position")
    threads = frozenset(_text(each, "thread_id", "session.threads") for each in _objects(session, "threads", "session"))
    queue: dict[str, list[str]] = {}
    active: dict[str, list[str]] = {}
    for turn in _objects(session, "open_turns", "session"):
        place = queue if turn.get("state") == "queued" else active
        thread = _text(turn, "thread_id", "session.open_turns")
        place.setdefault(thread, []).append(_text(turn, "turn_id", "session.open_turns"))
    turns = _objects(document, "recent_turns" if "recent_turns" in document else "turns", "")
    ended = {
        _text(turn, "turn_id", "turns"): _STATUSES.get(result, frozenset((result,)))
        for turn in turns
        if (result := str(turn.get("result") or ""))
    }
    title, archived, count = (session.get(name) for name in ("title", "archived", "turn_count"))
    return Snapshot(
        _text(session, "session_id", "session"),
        threads,
        position * PLACES + PLACES - 1,
        title if isinstance(title, str) else None,
        archived if isinstance(archived, bool) else None,
        count if isinstance(count, int) else None,
        queue,
        active,
        ended,
        rolled_back={
            _text(turn, "turn_id", "turns"): turn["rolled_back"]
            for turn in turns
            if isinstance(turn.get("rolled_back"), bool)
        },
        pending=_pending_of(document),
        first_sequence=position * PLACES,
    )


def _pending_of(document: dict[str, Any]) -> frozenset[str] | None:
    """Return the ids of the open approvals; None if the document does not have all of them."""
    found = _objects(document, "pending_approvals", "")
    if "pending_approvals" not in document or len(found) >= MAX_PENDING:
        return None
    requests = [each.get("request") for each in found]
    return frozenset(
        _text(each if isinstance(each, dict) else {}, "request_id", "pending_approvals") for each in requests
    )


# -- The contract's document -----------------------------------------------------------------------------------------------


def _from_contract(document: dict[str, Any]) -> Snapshot:
    threads: list[str] = []
    queue: dict[str, list[str]] = {}
    active: dict[str, list[str]] = {}
    ended: dict[str, frozenset[str]] = {}
    rolled_back: dict[str, bool] = {}
    pending: set[str] = set()
    found_threads = _objects(document, "threads", "")
    for thread in found_threads:
        name = _text(thread, "threadId", "threads")
        threads.append(name)
        queue[name] = [_turn_of(each) for each in _list(thread.get("queuedTurns", []))]
        if isinstance(found := thread.get("activeTurnId"), str) and thread.get("status") != "completed":
            active[name] = [found]
        pending.update(
            _text(each, "actionId", "pendingRequests") for each in _objects(thread, "pendingRequests", "threads")
        )
        for turn in _objects(thread, "turns", "threads"):
            if isinstance(removed := turn.get("rolledBack"), bool):
                rolled_back[_text(turn, "turnId", "turns")] = removed
            if turn.get("completedAt"):
                ended[_text(turn, "turnId", "turns")] = frozenset((str(turn.get("status")),))
    sequence, title, count = (document.get(name) for name in ("sequence", "title", "turnCount"))
    return Snapshot(
        _text(document, "sessionId", ""),
        frozenset(threads),
        sequence if isinstance(sequence, int) and not isinstance(sequence, bool) else None,
        title if isinstance(title, str) else None,
        turn_count=count if isinstance(count, int) else None,
        queue={name: turns for name, turns in queue.items() if turns},
        active=active,
        ended=ended,
        rolled_back=rolled_back,
        tasks={
            _text(task, "taskId", "tasks"): _text(task, "status", "tasks")
            for place in (document, *found_threads)
            for task in _objects(place, "tasks", "")
        },
        pending=frozenset(pending) if any("pendingRequests" in each for each in found_threads) else None,
        first_sequence=sequence if isinstance(sequence, int) and not isinstance(sequence, bool) else None,
    )


def _turn_of(entry: object) -> str:
    """Return the id of a queued turn: a text, or an object with it."""
    found = entry.get("turnId", entry.get("queuedTurnId", entry.get("queueId"))) if isinstance(entry, dict) else entry
    if not isinstance(found, str):
        raise InvalidArgumentError("must have turnId", field="queuedTurns")
    return found


def _list(found: object) -> list[Any]:
    if not isinstance(found, list):
        raise InvalidArgumentError("must be a list", field="queuedTurns")
    return found


def _objects(place: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    found = place.get(name, [])
    path = f"{where}.{name}" if where else name
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidArgumentError("must be a list of objects", field=path)
    return found


def _text(place: dict[str, Any], name: str, where: str) -> str:
    found = place.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidArgumentError("must be a text that is not empty", field=f"{where}.{name}" if where else name)
    return found
