"""Reads the rows of a session for snapshots, at one position, within one transaction. Lists have bounds.

The cost does not depend on the number of turns that have ended, nor on the number of events.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from protolink_grpc.errors import ResourceExhaustedError
from protolink_grpc.models.session import Session, Thread, Turn, TurnState
from protolink_grpc.models.snapshot import Availability, Gap
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_queries import (
    find_thread,
    mark_rolled_back,
    read_threads,
    read_turns,
    require_head,
    require_turn,
)
from protolink_grpc.storage.session_rows import (
    ENDED_TURNS,
    OPEN_TURNS,
    EndedTurn,
    OpenTurn,
    SessionHead,
    session_of,
    turn_of,
)

SHOWN_THREADS: Final = 100
"""Maximum number of threads in the snapshot of a session."""

MAX_OPEN_TURNS: Final = 1000
"""Maximum number of open turns in the snapshot of a session."""

SESSION_TURNS: Final = 50
THREAD_TURNS: Final = 20
"""Maximum number of the newest turns. Source: the comments of snapshot.proto."""

MAX_SCANNED: Final = 1000
"""Maximum number of turns of a store in memory that are searched for the last ones of the threads."""

LIST_BYTES: Final = 512 << 10
"""Maximum size of one list in a snapshot. gRPC receives 4 MiB per message by default."""

TURN_BYTES: Final = 512
"""Approximate encoded size of a turn without its reason."""

_MAY_BE_DROPPED: Final = "the store keeps only its latest tasks, so turns may be missing"


@dataclass(frozen=True, slots=True)
class ThreadRows:
    """The turns of one thread at one position.

    Args:
        waiting: The turns whose tasks wait for input, oldest first.
        last: Of the turns that have ended, the one that was submitted last.
        is_last_unknown: There may be such a turn, but it was not read.
    """

    thread: Thread
    active: tuple[Turn, ...] = ()
    queued: tuple[Turn, ...] = ()
    waiting: tuple[Turn, ...] = ()
    last: Turn | None = None
    is_last_unknown: bool = False

    @property
    def started(self) -> tuple[Turn, ...]:
        """The turns whose tasks can have pending approvals: the active ones, then those that wait for input."""
        return self.active + self.waiting

    @property
    def has_open_turns(self) -> bool:
        return bool(self.active or self.queued or self.waiting)


@dataclass(frozen=True, slots=True)
class SessionRows:
    """The rows of a session at one position.

    Args:
        session: With its threads and open turns.
        threads: The threads that are shown.
        recent: The newest turns, oldest first.
        more: Position before which there are more turns, or 0.
    """

    head: SessionHead
    session: Session
    threads: tuple[ThreadRows, ...] = ()
    recent: tuple[Turn, ...] = ()
    more: int = 0
    gaps: tuple[Gap, ...] = ()


def _read_open(records: Records, head: SessionHead, thread_id: str = "") -> list[OpenTurn]:
    """Return the open turns of a session or a thread, and those whose tasks wait for input, one more than the bound."""
    if not head.has_open_turns:
        return []
    where: dict[str, object] = {"session": head.number}
    if thread_id:
        where["thread_id"] = thread_id
    return records.select(OPEN_TURNS, where, limit=MAX_OPEN_TURNS + 1)


def _group(
    records: Records, head: SessionHead, threads: Iterable[Thread], opened: Iterable[OpenTurn]
) -> list[ThreadRows]:
    """Return the open turns by thread, the active and the waiting ones by position."""
    found: dict[str, dict[TurnState, list[Turn]]] = {each.thread_id: {} for each in threads}
    for row in opened:
        if row.thread_id in found:
            known = require_turn(records, head, row.turn_id) if row.state is TurnState.ENDED else row
            found[row.thread_id].setdefault(row.state, []).append(turn_of(known))

    def turns(thread: Thread, state: TurnState) -> tuple[Turn, ...]:
        marked = mark_rolled_back(records, head, found[thread.thread_id].get(state, []))
        return tuple(marked if state is TurnState.QUEUED else sorted(marked, key=_position_of))

    return [
        ThreadRows(each, turns(each, TurnState.ACTIVE), turns(each, TurnState.QUEUED), turns(each, TurnState.ENDED))
        for each in threads
    ]


def _position_of(turn: Turn) -> int:
    return turn.position


def _last_ended(
    records: Records, head: SessionHead, thread_id: str, recent: Sequence[Turn], *, is_whole: bool
) -> Turn | None:
    """Return the ended turn of a thread that was submitted last.

    Args:
        recent: The newest turns of the session, or of the thread, oldest first.
        is_whole: There are no older turns.
    """
    for turn in reversed(recent):
        if turn.thread_id == thread_id and turn.state is TurnState.ENDED:
            return turn
    if is_whole:
        return None
    where = {"session": head.number, "thread_id": thread_id}
    ended = [turn_of(row) for row in records.select(ENDED_TURNS, where, limit=1, reverse=True)]
    return next(iter(mark_rolled_back(records, head, ended)), None)


def _with_last_ended(
    records: Records,
    head: SessionHead,
    threads: Sequence[ThreadRows],
    recent: Sequence[Turn],
    more: int,
    *,
    durable: bool,
) -> list[ThreadRows]:
    """Return the threads of a session with their last ended turns.

    A store in memory has no index of the turns of a thread, so only the newest `MAX_SCANNED` turns are read there.
    """
    if durable or not more:
        return [
            replace(each, last=_last_ended(records, head, each.thread.thread_id, recent, is_whole=not more))
            for each in threads
        ]
    ended = records.select(ENDED_TURNS, {"session": head.number}, limit=MAX_SCANNED, reverse=True)
    rows: dict[str, EndedTurn] = {}
    for row in ended:
        rows.setdefault(row.thread_id, row)
    turns = mark_rolled_back(records, head, [turn_of(row) for row in rows.values()])
    last, is_cut = {turn.thread_id: turn for turn in turns}, len(ended) == MAX_SCANNED
    names = [each.thread.thread_id for each in threads]
    return [
        replace(each, last=last.get(name), is_last_unknown=is_cut and name not in last)
        for each, name in zip(threads, names, strict=True)
    ]


def _fitting(turns: Sequence[Turn], more: int) -> tuple[tuple[Turn, ...], int]:
    """Return the newest turns within `LIST_BYTES`, and the position before which there are more, or 0."""
    size = 0
    for index, turn in enumerate(reversed(turns)):
        size += TURN_BYTES + 4 * len(turn.reason)
        if index and size > LIST_BYTES:
            kept = turns[-index:]
            return tuple(kept), kept[0].position
    return tuple(turns), more


def read_session_rows(records: Records, owner: str, session_id: str, *, durable: bool) -> SessionRows:
    """Read what the snapshot of a session needs. Raises SessionNotFoundError.

    Args:
        durable: The store drops no turns.
    """
    head = require_head(records, owner, session_id)
    opened = _read_open(records, head)
    threads = read_threads(records, head)
    turns = [turn_of(each) for each in opened[:MAX_OPEN_TURNS] if each.state is not TurnState.ENDED]
    turns.sort(key=lambda each: each.state is TurnState.QUEUED)
    recent, more = _fitting(*read_turns(records, head, turns, thread_id="", before=0, limit=SESSION_TURNS))
    grouped = _group(records, head, threads, opened[:MAX_OPEN_TURNS])
    shown = sorted(grouped, key=lambda each: not each.has_open_turns)[:SHOWN_THREADS]
    shown = _with_last_ended(records, head, shown, recent, more, durable=durable)
    gaps = [] if durable else list(_lost_questions(records, head))
    if len(opened) > MAX_OPEN_TURNS:
        gaps.append(Gap("open_turns", Availability.UNKNOWN, f"only {MAX_OPEN_TURNS} open turns are included"))
    if len(threads) > SHOWN_THREADS:
        gaps.append(Gap("threads", Availability.UNKNOWN, f"{len(threads) - SHOWN_THREADS} threads are left out"))
    if not more and len(recent) < head.turns:
        gaps.append(Gap("recent_turns", Availability.UNKNOWN, f"{head.turns - len(recent)} turns are lost"))
    session = replace(session_of(head), threads=tuple(threads), open_turns=tuple(turns))
    return SessionRows(head, session, tuple(shown), recent, more, tuple(gaps))


def read_thread_rows(records: Records, owner: str, session_id: str, thread_id: str, *, durable: bool) -> SessionRows:
    """Read what the snapshot of a thread needs. Raises SessionNotFoundError or ThreadNotFoundError.

    Args:
        durable: The store drops no turns.
    """
    head = require_head(records, owner, session_id)
    thread = find_thread(records, head, thread_id)
    opened = _read_open(records, head, thread_id)
    (found,) = _group(records, head, (thread,), opened)
    recent, more = _fitting(
        *read_turns(records, head, (*found.active, *found.queued), thread_id=thread_id, before=0, limit=THREAD_TURNS)
    )
    gaps = [] if durable else list(_lost_questions(records, head))
    if not durable and not more and _has_lost_turns(records, head, len(recent)):
        gaps.append(Gap("recent_turns", Availability.UNKNOWN, _MAY_BE_DROPPED))
    found = replace(found, last=_last_ended(records, head, thread_id, recent, is_whole=not more))
    return SessionRows(head, session_of(head), (found,), recent, more, tuple(gaps))


def read_queue_rows(records: Records, owner: str, session_id: str, thread_id: str) -> SessionRows:
    """Read what the snapshot of the queues needs.

    Raises:
        SessionNotFoundError, ThreadNotFoundError: There is no such session or thread.
        ResourceExhaustedError: The session has more than `MAX_OPEN_TURNS` open turns.
    """
    head = require_head(records, owner, session_id)
    threads = [find_thread(records, head, thread_id)] if thread_id else read_threads(records, head)
    opened = _read_open(records, head, thread_id)
    if len(opened) > MAX_OPEN_TURNS:
        raise ResourceExhaustedError(
            f"session {session_id} has more than {MAX_OPEN_TURNS} open turns: name a thread", session_id=session_id
        )
    return SessionRows(head, session_of(head), tuple(_group(records, head, threads, opened)))


def _lost_questions(records: Records, head: SessionHead) -> Iterator[Gap]:
    """Yield the gap for tasks that wait for input and that a memory store has dropped."""
    kept = records.select(OPEN_TURNS, {"session": head.number, "state": TurnState.ENDED}) if head.waiting else []
    if len(kept) < head.waiting:
        lost = head.waiting - len(kept)
        yield Gap("waiting_turn", Availability.UNKNOWN, f"the store has dropped {lost} tasks that waited for input")


def _has_lost_turns(records: Records, head: SessionHead, known: int) -> bool:
    """Return whether a store may have dropped turns of a session of which `known` turns are read."""
    if known >= head.turns:
        return False
    others = records.select(ENDED_TURNS, {"session": head.number}, limit=SESSION_TURNS, reverse=True)
    return len(others) + head.active + head.queued < head.turns
