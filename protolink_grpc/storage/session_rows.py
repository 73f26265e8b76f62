"""The logs of sessions as records: the kinds, their rows, and the values and errors that are made of rows.

A session has a head, threads, turns and entries. An entry has the events of one append: events of the session's own log, a range of
a task's log, or both. Positions count all these events from 1 without gaps. Heads, threads and turns are the fold of the session's
own events; they are kept, so that reading them does not depend on the length of the log. A turn has one row: an `OpenTurn` until it
ends, then an `EndedTurn`, which never changes. `session_log` writes the rows, `session_queries` reads them.

Rows are never changed after construction. Those of each turn are not frozen, because constructing a frozen dataclass of their size
takes ten times as long.
"""

import secrets
from dataclasses import dataclass
from typing import Any, Final

from protolink_grpc.errors import SessionNotFoundError, ThreadBusyError, ThreadNotFoundError, TurnNotQueuedError
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.session import Session, Thread, Turn, TurnState, WhenBusy
from protolink_grpc.storage.records import Kind
from protolink_grpc.wire.sessions import time_of


@dataclass(slots=True)
class SessionHead:
    """One row for each session.

    Args:
        owner: See `owner_of`.
        number: Identifies the session in the other kinds, because it is shorter. Random.
        position: Position of the last event.
        metadata: JSON object as text.
        turns: Number of all turns.
        active, queued, waiting: Number of the open turns in the states `ACTIVE`, `QUEUED` and `ENDED`. If a memory store drops a
            task that waits for input, `waiting` still counts it.
        branched: Number of rollbacks, and of threads that are branches.
        merged: Number of inputs that were merged into a queued turn.
        task_id: Task of the last event; empty if there was none.
    """

    owner: str
    session_id: str
    number: int
    position: int
    create_micros: int
    update_micros: int
    title: str = ""
    metadata: str = ""
    archived: bool = False
    turns: int = 0
    active: int = 0
    queued: int = 0
    waiting: int = 0
    branched: int = 0
    merged: int = 0
    task_id: str = ""

    @property
    def has_open_turns(self) -> bool:
        return bool(self.active or self.queued or self.waiting)


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread that was started, or rolled back. The thread `default` has no row before its first rollback.

    Args:
        create_micros: 0 for the thread `default`.
        from_thread, from_turn: As in Thread.
        from_position: Position of `from_turn`.
        from_number: Number of the rollbacks of `from_thread` at the time of the branch.
        from_open: JSON array with the ids of earlier turns of `from_thread` that were open at that time: it does not have them.
        rollbacks: Number of its own rollbacks.
    """

    session: int
    thread_id: str
    create_micros: int
    title: str = ""
    from_thread: str = ""
    from_turn: str = ""
    from_position: int = 0
    from_number: int = 0
    from_open: str = ""
    rollbacks: int = 0


@dataclass(frozen=True, slots=True)
class Rollback:
    """One rollback of a thread. It takes the turns from position `first` to before position `until` out of the conversation.

    Args:
        number: Counts the rollbacks of the thread from 1.
        kept: JSON array with the ids of turns in this range that were in the queue, and are not taken out.
    """

    session: int
    thread_id: str
    number: int
    first: int
    until: int
    kept: str = ""


@dataclass(frozen=True, slots=True)
class OpenRollback:
    """A rollback whose turns are not all canceled yet.

    Args:
        turn_id: The first turn that it took out.
        worker: The worker that cancels them.
    """

    agent_name: str
    principal: str
    session_id: str
    turn_id: str
    reason: str
    worker: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class MergedTurn:
    """Another name of a turn: the id of an input that was merged into it while it was in the queue."""

    session: int
    turn_id: str
    into_turn: str


@dataclass(slots=True)
class OpenTurn:
    """The latest turn of a task that has not ended. Most fields are those of Turn.

    Args:
        state: In the state `ENDED` the task waits for input, and the turn also has a row as ended turn.
        place: Sorts the queue.
    """

    session: int
    task_id: str
    thread_id: str
    turn_id: str
    state: TurnState
    place: int
    after_sequence: int
    position: int
    create_micros: int
    when_busy: WhenBusy


@dataclass(slots=True)
class EndedTurn:
    """A turn that has ended. The fields are those of Turn."""

    session: int
    turn_id: str
    thread_id: str
    task_id: str
    after_sequence: int
    result: TaskState
    reason: str
    position: int
    create_micros: int
    end_micros: int
    when_busy: WhenBusy


@dataclass(slots=True)
class Entry:
    """The events that one append has added to a session.

    Args:
        position: Position of its last event.
        first_position: Position of its first event.
        lead: Frames of session events before the range.
        leads: Their number.
        task_id, first_sequence, count: The range of a task's log; empty and 0 in an entry without a task.
        tail: Frames of session events after the range.
    """

    session: int
    position: int
    first_position: int
    lead: bytes
    leads: int
    task_id: str
    first_sequence: int
    count: int
    tail: bytes


THREADS: Final = Kind(
    ThreadRow, name="session_threads", key=("session", "thread_id"), order=("create_micros", "thread_id")
)
ROLLBACKS: Final = Kind(Rollback, name="session_rollbacks", key=("session", "thread_id", "number"))
OPEN_ROLLBACKS: Final = Kind(
    OpenRollback,
    name="session_open_rollbacks",
    key=("agent_name", "principal", "session_id", "turn_id"),
    claimed=True,
)
MERGED_TURNS: Final = Kind(
    MergedTurn, name="session_merged_turns", key=("session", "turn_id"), indexes=(("session", "into_turn"),)
)
OPEN_TURNS: Final = Kind(
    OpenTurn,
    name="session_open_turns",
    key=("session", "task_id"),
    order=("place", "task_id"),
    indexes=(("session", "thread_id", "state", "place", "task_id"), ("session", "turn_id")),
    task="task_id",
    hot=True,
)
ENDED_TURNS: Final = Kind(
    EndedTurn,
    name="session_turns",
    key=("session", "turn_id"),
    order=("position", "turn_id"),
    indexes=(("session", "position", "turn_id"), ("session", "thread_id", "position", "turn_id")),
    task="task_id",
)
ENTRIES: Final = Kind(Entry, name="session_entries", key=("session", "position"), task="task_id", waited=True)
HEADS: Final = Kind(
    SessionHead,
    name="session_heads",
    key=("owner", "session_id"),
    order=("update_micros", "session_id"),
    indexes=(("owner", "update_micros", "session_id"),),
    task="task_id",
    hot=True,
    home=lambda task: (owner_of(task.agent_name, task.principal), task.session_id),
    drops=tuple((kind, "number") for kind in (THREADS, ROLLBACKS, MERGED_TURNS, OPEN_TURNS, ENDED_TURNS, ENTRIES)),
)

KINDS: Final[tuple[Kind[Any], ...]] = (
    HEADS,
    THREADS,
    ROLLBACKS,
    MERGED_TURNS,
    OPEN_TURNS,
    ENDED_TURNS,
    ENTRIES,
    OPEN_ROLLBACKS,
)


def owner_of(agent_name: str, principal: str) -> str:
    """Return the scope of a principal's sessions with an agent. Neither name can have a line break."""
    return f"{agent_name}\n{principal}"


def new_number() -> int:
    return secrets.randbits(62)


# -- Values and errors ---------------------------------------------------------------------------------------------------


def session_of(head: SessionHead) -> Session:
    return Session(
        head.session_id,
        head.title,
        _metadata_of(head),
        head.archived,
        head.position,
        time_of(head.create_micros),
        time_of(head.update_micros),
        turn_count=head.turns,
    )


def thread_of(row: ThreadRow) -> Thread:
    return Thread(row.thread_id, row.title, time_of(row.create_micros), row.from_thread, row.from_turn, row.rollbacks)


def turn_of(row: OpenTurn | EndedTurn) -> Turn:
    if isinstance(row, OpenTurn):
        return Turn(
            row.turn_id,
            row.thread_id,
            row.task_id,
            row.after_sequence,
            row.state,
            position=row.position,
            created_at=time_of(row.create_micros),
            when_busy=row.when_busy,
        )
    return Turn(
        row.turn_id,
        row.thread_id,
        row.task_id,
        row.after_sequence,
        TurnState.ENDED,
        row.result,
        row.reason,
        row.position,
        time_of(row.create_micros),
        time_of(row.end_micros),
        row.when_busy,
    )


def _metadata_of(head: SessionHead) -> dict[str, Any]:
    found = from_json(head.metadata) if head.metadata else {}
    return found if isinstance(found, dict) else {}


def metadata_text(metadata: dict[str, Any]) -> str:
    return to_json(metadata) if metadata else ""


def session_not_found_error(session_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"session {session_id} not found", session_id=session_id)


def thread_not_found_error(thread_id: str) -> ThreadNotFoundError:
    return ThreadNotFoundError(f"thread {thread_id} not found", thread_id=thread_id)


def thread_busy_error(thread_id: str, turn_id: str, when_busy: WhenBusy) -> ThreadBusyError:
    """Return the error for a turn that does not wait. `turn_id` is an active turn of the thread."""
    return ThreadBusyError(
        f"thread {thread_id} has an active turn, and the policy is {when_busy}",
        thread_id=thread_id,
        turn_id=turn_id,
        policy=str(when_busy),
    )


def turn_not_queued_error(turn: Turn) -> TurnNotQueuedError:
    state = turn.state if turn.result is None else turn.result
    return TurnNotQueuedError(f"turn {turn.turn_id} is {state}, not queued", turn_id=turn.turn_id, state=str(state))
