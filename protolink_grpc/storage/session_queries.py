"""Reads sessions, their turns and entries, within one transaction of a store. Writing is in `session_log`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from protolink_grpc.errors import TurnNotFoundError
from protolink_grpc.models.json_value import from_json
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    Session,
    Thread,
    ThreadRolledBack,
    Turn,
    TurnState,
    conversation_id,
)
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_rows import (
    ENDED_TURNS,
    ENTRIES,
    HEADS,
    MERGED_TURNS,
    OPEN_TURNS,
    ROLLBACKS,
    THREADS,
    EndedTurn,
    Entry,
    OpenTurn,
    Rollback,
    SessionHead,
    session_not_found_error,
    session_of,
    thread_not_found_error,
    thread_of,
    turn_of,
)
from protolink_grpc.wire.sessions import events_from_frames

LAST_POSITION: Final = (1 << 63) - 1


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


def find_merged(records: Records, head: SessionHead, turn_id: str) -> str:
    """Return the turn that an input was merged into, by the id with which it was submitted; empty if there is none."""
    known = records.get(MERGED_TURNS, head.number, turn_id) if head.merged else None
    return "" if known is None else known.into_turn


def find_submitted(records: Records, head: SessionHead, turn_id: str) -> OpenTurn | EndedTurn | None:
    """Return the turn that was submitted with this id, or that this input was merged into; None if there is none."""
    row = find_turn(records, head, turn_id)
    if row is None and (merged := find_merged(records, head, turn_id)):
        row = find_turn(records, head, merged)
    return row


def require_turn(records: Records, head: SessionHead, turn_id: str) -> OpenTurn | EndedTurn:
    """Return the row of a turn, also by the id of an input that was merged into it. Raises TurnNotFoundError."""
    row = find_submitted(records, head, turn_id)
    if row is None:
        raise turn_not_found_error(head, turn_id)
    return row


def turn_not_found_error(head: SessionHead, turn_id: str) -> TurnNotFoundError:
    session_id = head.session_id
    return TurnNotFoundError(f"session {session_id} has no turn {turn_id}", session_id=session_id, turn_id=turn_id)


def require_thread(records: Records, head: SessionHead, thread_id: str) -> None:
    """Check that a session has a thread. Raises ThreadNotFoundError."""
    if thread_id != DEFAULT_THREAD and records.get(THREADS, head.number, thread_id) is None:
        raise thread_not_found_error(thread_id)


def find_thread(records: Records, head: SessionHead, thread_id: str) -> Thread:
    """Return a thread of a session. Raises ThreadNotFoundError."""
    row = records.get(THREADS, head.number, thread_id)
    if row is not None:
        return thread_of(row)
    if thread_id != DEFAULT_THREAD:
        raise thread_not_found_error(thread_id)
    return Thread()


def read_threads(records: Records, head: SessionHead) -> list[Thread]:
    """Return the thread `default`, then the others, oldest first."""
    threads = {DEFAULT_THREAD: Thread()}
    threads |= {each.thread_id: thread_of(each) for each in records.select(THREADS, {"session": head.number})}
    return list(threads.values())


def active_turns(records: Records, head: SessionHead, thread_id: str) -> list[Turn]:
    """Return the active turns of a thread, oldest first. Their cost does not depend on the length of its queue."""
    where = {"session": head.number, "thread_id": thread_id, "state": TurnState.ACTIVE}
    return [turn_of(each) for each in records.select(OPEN_TURNS, where)]


def last_queued_turn(records: Records, head: SessionHead, thread_id: str) -> Turn | None:
    """Return the turn of a thread that leaves the queue last, or None."""
    where = {"session": head.number, "thread_id": thread_id, "state": TurnState.QUEUED}
    for each in records.select(OPEN_TURNS, where, limit=1, reverse=True):
        return turn_of(each)
    return None


def open_turns(records: Records, head: SessionHead, thread_id: str = "") -> list[Turn]:
    """Return the turns that have not ended: active ones, then the queue in the order in which it starts."""
    where: dict[str, object] = {"session": head.number}
    if thread_id:
        where["thread_id"] = thread_id
    found = [each for each in records.select(OPEN_TURNS, where) if each.state is not TurnState.ENDED]
    found.sort(key=lambda each: each.state is TurnState.QUEUED)  # stable: both parts keep their order
    return [turn_of(each) for each in found]


def waiting_turns(records: Records, head: SessionHead, thread_id: str, limit: int | None = None) -> list[Turn]:
    """Return the ended turns of a thread whose tasks wait for input, oldest first."""
    where = {"session": head.number, "thread_id": thread_id, "state": TurnState.ENDED}
    found = records.select(OPEN_TURNS, where, limit=limit)
    return [turn_of(require_turn(records, head, each.turn_id)) for each in found]


def waiting_turn(records: Records, head: SessionHead, thread_id: str) -> Turn | None:
    """Return the oldest of the `waiting_turns`, or None."""
    return next(iter(waiting_turns(records, head, thread_id, 1)), None)


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
    return mark_rolled_back(records, head, found[:limit][::-1]), more


def mark_rolled_back(records: Records, head: SessionHead, turns: list[Turn]) -> list[Turn]:
    """Return the turns, with `rolled_back` set on those that a rollback has taken out of the conversation of their thread."""
    if not head.branched or not turns:
        return turns
    rollbacks = {
        thread_id: [
            (each.first, each.until, _kept(each))
            for each in records.select(ROLLBACKS, {"session": head.number, "thread_id": thread_id})
        ]
        for thread_id in {each.thread_id for each in turns}
    }
    return [
        replace(turn, rolled_back=True)
        if any(
            first <= turn.position < until and turn.turn_id not in kept
            for first, until, kept in rollbacks[turn.thread_id]
        )
        else turn
        for turn in turns
    ]


def find_rollback(records: Records, owner: str, session_id: str, task_id: str) -> ThreadRolledBack | None:
    """Return the first rollback that took the open turn of a task out of the conversation of its thread, or None."""
    head = records.get(HEADS, owner, session_id)
    row = None if head is None or not head.branched else records.get(OPEN_TURNS, head.number, task_id)
    if head is None or row is None:
        return None
    for each in records.select(ROLLBACKS, {"session": head.number, "thread_id": row.thread_id}):
        if _takes_out(each, row):
            return _read_rollback(records, head, each, row.turn_id)
    return None


def _read_rollback(records: Records, head: SessionHead, rollback: Rollback, turn_id: str) -> ThreadRolledBack:
    """Return the event of a rollback. Its reason is empty if the store has dropped the event."""
    for entry in read_entries(records, head.number, rollback.until - 1, 1):
        for event in events_from_frames(entry.lead + entry.tail):
            if event.position == rollback.until and isinstance(event.payload, ThreadRolledBack):
                return event.payload
    return ThreadRolledBack(rollback.thread_id, turn_id)


def _takes_out(rollback: Rollback, turn: OpenTurn) -> bool:
    return rollback.first <= turn.position < rollback.until and turn.turn_id not in _kept(rollback)


def _kept(rollback: Rollback) -> frozenset[str]:
    return _read_ids(rollback.kept)


def _read_ids(text: str) -> frozenset[str]:
    found = from_json(text) if text else []
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


# -- Conversations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Branch:
    """A conversation that begins as a copy of another one, without some turns.

    Args:
        thread_id, number: The thread of the source, and the number of its rollbacks until then.
        left_out: Range of positions, and turns in it that are kept.
        also: Further turns that are left out.
    """

    source_id: str
    conversation_id: str
    thread_id: str
    number: int
    left_out: tuple[int, int, frozenset[str]]
    also: frozenset[str] = frozenset()


def find_branch(records: Records, head: SessionHead, thread_id: str, number: int | None = None) -> Branch | None:
    """Return the branch with which a conversation of a thread begins; None for the first one of a thread that is no branch itself.

    Args:
        number: Number of the rollbacks of the thread before the conversation; None means all of them, the current conversation.
    """
    row = records.get(THREADS, head.number, thread_id) if head.branched else None
    if row is None:
        return None
    number = row.rollbacks if number is None else number
    own_id = conversation_id(head.session_id, thread_id, number)
    if number:
        rollback = records.get(ROLLBACKS, head.number, thread_id, number)
        if rollback is None:
            return None
        source_id = conversation_id(head.session_id, thread_id, number - 1)
        return Branch(source_id, own_id, thread_id, number - 1, (rollback.first, rollback.until, _kept(rollback)))
    if not row.from_thread:
        return None
    source_id = conversation_id(head.session_id, row.from_thread, row.from_number)
    later = (row.from_position + 1, LAST_POSITION, frozenset[str]())
    return Branch(source_id, own_id, row.from_thread, row.from_number, later, _read_ids(row.from_open))


def find_later_conversations(records: Records, head: SessionHead, task_id: str, opened: str) -> list[str]:
    """Return the conversations that rollbacks have made of an earlier one of their thread, oldest first, as far as they have the
    open turn of a task.

    Args:
        opened: Id of the earlier conversation.
    """
    turn = records.get(OPEN_TURNS, head.number, task_id) if head.branched else None
    if turn is None:
        return []
    found: list[str] = []
    is_later = conversation_id(head.session_id, turn.thread_id) == opened
    for each in records.select(ROLLBACKS, {"session": head.number, "thread_id": turn.thread_id}):
        own_id = conversation_id(head.session_id, turn.thread_id, each.number)
        if is_later:
            if _takes_out(each, turn):
                break
            found.append(own_id)
        is_later = is_later or own_id == opened
    return found


def turns_left_out(records: Records, head: SessionHead, branch: Branch) -> frozenset[tuple[str, int]]:
    """Return the turns that a branch leaves out, each as its task and the sequence before it."""
    first, until, kept = branch.left_out
    where = {"session": head.number, "thread_id": branch.thread_id}
    found: list[Turn] = [turn_of(each) for each in records.select(ENDED_TURNS, where, after=(first, ""))]
    found += map(turn_of, records.select(OPEN_TURNS, where))
    left = [each for each in found if first <= each.position < until and each.turn_id not in kept]
    left += [turn_of(each) for name in branch.also if (each := find_turn(records, head, name)) is not None]
    return frozenset((each.task_id, each.after_sequence) for each in left)


def read_heads(
    records: Records, owner: str, after: tuple[int, str] | None, limit: int, *, include_archived: bool
) -> tuple[list[Session], tuple[int, str] | None]:
    """Return one page of sessions, last changed first, and the cursor of the next page or None."""
    where: dict[str, object] = {"owner": owner} if include_archived else {"owner": owner, "archived": False}
    found = records.select(HEADS, where, after=after, limit=limit + 1, reverse=True)
    shown = found[:limit]
    cursor = (shown[-1].update_micros, shown[-1].session_id) if len(found) > limit else None
    return [session_of(each) for each in shown], cursor


def drop_session(records: Records, head: SessionHead) -> None:
    """Delete all rows of a session."""
    for kind in (THREADS, ROLLBACKS, MERGED_TURNS, OPEN_TURNS, ENDED_TURNS, ENTRIES):
        records.delete(kind, head.number)
    records.delete(HEADS, head.owner, head.session_id)


def read_entries(records: Records, number: int, after: int, limit: int) -> list[Entry]:
    """Return the entries with events after a position, ascending."""
    return records.select(ENTRIES, {"session": number}, after=(number, after), limit=limit)
