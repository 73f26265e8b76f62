"""Reads sessions, their turns and entries, within one transaction of a store. Writing is in `session_log`."""

from collections.abc import Sequence
from dataclasses import replace

from protolink_grpc.errors import TurnNotFoundError
from protolink_grpc.models.session import DEFAULT_THREAD, Session, Thread, Turn, TurnState
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_rows import (
    ENDED_TURNS,
    ENTRIES,
    HEADS,
    OPEN_TURNS,
    THREADS,
    EndedTurn,
    Entry,
    OpenTurn,
    SessionHead,
    session_not_found_error,
    session_of,
    thread_not_found_error,
    thread_of,
    turn_of,
)


def require_head(records: Records, owner: str, session_id: str) -> SessionHead:
    """Return the row of a session. Raises SessionNotFoundError."""
    known = records.get(HEADS, owner, session_id)
    if known is None:
        raise session_not_found_error(session_id)
    return known


def find_turn(records: Records, head: SessionHead, turn_id: str) -> OpenTurn | EndedTurn | None:
    ended = records.get(ENDED_TURNS, head.number, turn_id)
    if ended is not None or not head.has_open_turns:
        return ended
    for each in records.select(OPEN_TURNS, {"session": head.number, "turn_id": turn_id}, limit=1):
        return each
    return None


def require_turn(records: Records, head: SessionHead, turn_id: str) -> OpenTurn | EndedTurn:
    """Return the row of a turn. Raises TurnNotFoundError."""
    row = find_turn(records, head, turn_id)
    if row is None:
        raise TurnNotFoundError(
            f"session {head.session_id} has no turn {turn_id}", session_id=head.session_id, turn_id=turn_id
        )
    return row


def require_thread(records: Records, head: SessionHead, thread_id: str) -> None:
    """Check that a session has a thread. Raises ThreadNotFoundError."""
    if thread_id != DEFAULT_THREAD and records.get(THREADS, head.number, thread_id) is None:
        raise thread_not_found_error(thread_id)


def find_thread(records: Records, head: SessionHead, thread_id: str) -> Thread:
    """Return a thread of a session. Raises ThreadNotFoundError."""
    if thread_id == DEFAULT_THREAD:
        return Thread()
    row = records.get(THREADS, head.number, thread_id)
    if row is None:
        raise thread_not_found_error(thread_id)
    return thread_of(row)


def read_threads(records: Records, head: SessionHead) -> list[Thread]:
    """Return the thread `default`, then the others, oldest first."""
    return [Thread(), *(thread_of(each) for each in records.select(THREADS, {"session": head.number}))]


def active_turns(records: Records, head: SessionHead, thread_id: str) -> list[Turn]:
    """Return the active turns of a thread, oldest first. Their cost does not depend on the length of its queue."""
    where = {"session": head.number, "thread_id": thread_id, "state": TurnState.ACTIVE}
    return [turn_of(each) for each in records.select(OPEN_TURNS, where)]


def open_turns(records: Records, head: SessionHead, thread_id: str = "") -> list[Turn]:
    """Return the turns that have not ended: active ones, then the queue in the order in which it starts."""
    where: dict[str, object] = {"session": head.number}
    if thread_id:
        where["thread_id"] = thread_id
    found = [each for each in records.select(OPEN_TURNS, where) if each.state is not TurnState.ENDED]
    found.sort(key=lambda each: each.state is TurnState.QUEUED)  # stable: both parts keep their order
    return [turn_of(each) for each in found]


def waiting_turn(records: Records, head: SessionHead, thread_id: str) -> Turn | None:
    """Return the ended turn of a thread whose task waits for input: the oldest one if there are several."""
    where = {"session": head.number, "thread_id": thread_id, "state": TurnState.ENDED}
    for each in records.select(OPEN_TURNS, where, limit=1):
        return turn_of(require_turn(records, head, each.turn_id))
    return None


def read_session(records: Records, head: SessionHead) -> Session:
    """Return a session with its threads and open turns."""
    threads, opened = read_threads(records, head), open_turns(records, head)
    return replace(session_of(head), threads=tuple(threads), open_turns=tuple(opened))


def read_turns(
    records: Records, head: SessionHead, opened: Sequence[Turn], *, thread_id: str, before: int, limit: int
) -> tuple[list[Turn], int]:
    """Return turns submitted before a position, oldest first, and the position before which there are more, or 0.

    Args:
        opened: The open turns of the session.
        thread_id: Only turns of this thread; empty means all.
        before: 0 returns the newest ones.
    """
    where: dict[str, object] = {"session": head.number}
    if thread_id:
        where["thread_id"] = thread_id
    after = (before, "") if before else None
    ended = records.select(ENDED_TURNS, where, after=after, limit=limit + 1, reverse=True)
    found = [
        each
        for each in opened
        if (not thread_id or each.thread_id == thread_id) and (not before or each.position < before)
    ]
    found += map(turn_of, ended)
    found.sort(key=lambda each: each.position, reverse=True)
    more = found[limit - 1].position if len(found) > limit else 0
    return found[:limit][::-1], more


def read_heads(
    records: Records, owner: str, after: tuple[int, str] | None, limit: int, *, include_archived: bool
) -> tuple[list[Session], tuple[int, str] | None]:
    """Return one page of sessions, last changed first, and the cursor of the next page or None."""
    where: dict[str, object] = {"owner": owner} if include_archived else {"owner": owner, "archived": False}
    found = records.select(HEADS, where, after=after, limit=limit + 1, reverse=True)
    shown = found[:limit]
    cursor = (shown[-1].update_micros, shown[-1].session_id) if len(found) > limit else None
    return [session_of(each) for each in shown], cursor


def read_entries(records: Records, number: int, after: int, limit: int) -> list[Entry]:
    """Return the entries with events after a position, ascending."""
    return records.select(ENTRIES, {"session": number}, after=(number, after), limit=limit)
