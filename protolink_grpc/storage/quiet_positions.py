"""Positions of a session at which nothing was open, so that a reader can begin there without the events before."""

from dataclasses import dataclass, field
from typing import Final

from protolink_grpc.models.lifecycle import INTERRUPTED
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    SessionCreated,
    SessionEvent,
    ThreadRolledBack,
    Turn,
    TurnEnded,
    TurnMerged,
    TurnPromoted,
    TurnStarted,
    TurnSubmitted,
)
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_queries import read_entries
from protolink_grpc.storage.session_rows import ENDED_TURNS, ENTRIES, OPEN_TURNS, THREADS, Entry, SessionHead, turn_of
from protolink_grpc.wire.sessions import events_from_frames

MAX_SCANNED: Final = 1024
"""Maximum number of entries, from the end of the session, that are searched."""

MAX_OPEN: Final = 100
"""Maximum number of open turns, and of threads, of a session that is searched."""


@dataclass(frozen=True, slots=True)
class QuietPosition:
    """A position of a session at which no turn was open and no task waited for input.

    Args:
        runtime_id: The installation that has created the session; empty if unknown.
        last_turns: Of each thread, the turn that was submitted last before the position.
    """

    position: int
    runtime_id: str = ""
    last_turns: dict[str, Turn] = field(default_factory=dict)


def find_quiet_position(records: Records, head: SessionHead, at: int) -> QuietPosition | None:
    """Return a late quiet position of a session up to `at`.

    Returns:
        None if there is none between the begin of the session and the last `MAX_SCANNED` entries, or if the session has too many
        threads or open turns.
    """
    if at <= 0:
        return None
    opened = records.select(OPEN_TURNS, {"session": head.number}, limit=MAX_OPEN + 1)
    entries = records.select(ENTRIES, {"session": head.number}, limit=MAX_SCANNED, reverse=True)
    if len(opened) > MAX_OPEN:
        return None
    scan = _Scan({each.turn_id for each in opened}, {each.task_id for each in opened})
    for entry in entries:
        scan.add(entry)
        position = entry.first_position - 1
        if position == 0 or scan.has_rollback:
            return None
        if position <= at and not (scan.turns or scan.tasks):
            return _with_last_turns(records, head, position)
    return None


@dataclass(slots=True)
class _Scan:
    """A scan of entries, newest first.

    Attributes:
        turns, tasks: Those of the entries so far, and the open ones, that began in an earlier entry.
    """

    turns: set[str]
    tasks: set[str]
    has_rollback: bool = False

    def add(self, entry: Entry) -> None:
        events = [event for frames in (entry.lead, entry.tail) if frames for event in events_from_frames(frames)]
        if entry.task_id:
            (self.tasks.discard if entry.first_sequence == 1 else self.tasks.add)(entry.task_id)
        for event in reversed(events):
            self._add_event(event)

    def _add_event(self, event: SessionEvent) -> None:
        match event.payload:
            case TurnSubmitted(turn_id=turn_id):
                self.turns.discard(turn_id)
            case TurnStarted(turn_id=turn_id) | TurnPromoted(turn_id=turn_id) | TurnEnded(turn_id=turn_id):
                self.turns.add(turn_id)
            case TurnMerged(into_turn_id=turn_id):
                self.turns.add(turn_id)
            case ThreadRolledBack():
                self.has_rollback = True


def _with_last_turns(records: Records, head: SessionHead, position: int) -> QuietPosition | None:
    threads = records.select(THREADS, {"session": head.number}, limit=MAX_OPEN + 1)
    if len(threads) > MAX_OPEN:
        return None
    found: dict[str, Turn] = {}
    for thread_id in {DEFAULT_THREAD, *(each.thread_id for each in threads)}:
        where = {"session": head.number, "thread_id": thread_id}
        for row in records.select(ENDED_TURNS, where, after=(position + 1, ""), limit=1, reverse=True):
            if row.result in INTERRUPTED:  # canceled while it waited; the row does not have the end of its task
                return None
            found[thread_id] = turn_of(row)
    return QuietPosition(position, _runtime_id(records, head), found)


def _runtime_id(records: Records, head: SessionHead) -> str:
    """Return the id in the first event of a session; empty if a store in memory has dropped it."""
    for entry in read_entries(records, head.number, 0, 1):
        for event in events_from_frames(entry.lead):
            if isinstance(event.payload, SessionCreated):
                return event.payload.runtime_id
    return ""
