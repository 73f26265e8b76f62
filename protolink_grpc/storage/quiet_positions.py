"""Positions of a session at which nothing was open, so that a reader can begin there without the events before."""

from dataclasses import dataclass, field
from typing import Final

from protolink_grpc.models.lifecycle import INTERRUPTED
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    SessionCreated,
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

MAX_SEARCHED: Final = 1024
"""Maximum number of entries before the wanted position that are searched."""

STEP: Final = 256
"""Number of entries that are read in one transaction."""

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


class QuietSearch:
    """The search for a late quiet position of a session up to `at`, from the end of the session, in steps of a bounded cost.

    Attributes:
        found: The result. None: there is none among the last `MAX_SEARCHED` entries before `at`, a thread was rolled back after it,
            or the session has too many threads or open turns.
    """

    def __init__(self, at: int) -> None:
        self.found: QuietPosition | None = None
        self._at = at
        self._left = MAX_SEARCHED
        self._before: tuple[int, int] | None = None
        """The key of the last entry that was searched; None before the first step."""
        self._turns: set[str] = set()
        self._tasks: set[str] = set()
        """The turns and the tasks of these entries, and the open ones, that began in an earlier entry."""

    def step(self, records: Records, head: SessionHead) -> bool:
        """Search the next entries. Returns whether the search has ended."""
        if self._at <= 0 or (self._before is None and not self._begin(records, head)):
            return True
        entries = records.select(ENTRIES, {"session": head.number}, after=self._before, limit=STEP, reverse=True)
        for entry in entries:
            position = entry.first_position - 1
            self._left -= position < self._at
            if position == 0 or self._left == 0 or not self._add(entry):
                return True
            if position <= self._at and not (self._turns or self._tasks):
                self.found = _with_last_turns(records, head, position)
                return True
            self._before = (head.number, entry.position)
        return not entries

    def _begin(self, records: Records, head: SessionHead) -> bool:
        """Note the open turns. Returns whether they are not too many."""
        opened = records.select(OPEN_TURNS, {"session": head.number}, limit=MAX_OPEN + 1)
        self._turns.update(each.turn_id for each in opened)
        self._tasks.update(each.task_id for each in opened)
        return len(opened) <= MAX_OPEN

    def _add(self, entry: Entry) -> bool:
        """Note the next older entry. Returns whether the search can continue."""
        if entry.task_id:
            (self._tasks.discard if entry.first_sequence == 1 else self._tasks.add)(entry.task_id)
        events = [event for frames in (entry.lead, entry.tail) if frames for event in events_from_frames(frames)]
        for event in reversed(events):
            match event.payload:
                case TurnSubmitted(turn_id=turn_id):
                    self._turns.discard(turn_id)
                case TurnStarted(turn_id=turn_id) | TurnPromoted(turn_id=turn_id) | TurnEnded(turn_id=turn_id):
                    self._turns.add(turn_id)
                case TurnMerged(into_turn_id=turn_id):
                    self._turns.add(turn_id)
                case ThreadRolledBack():
                    return False
        return True


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
