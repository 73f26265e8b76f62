"""The logs of sessions as records, written in the transactions of the appends to their tasks.

A session has a head, entries and turns. An entry has the events of one append: events of the session's own log, a range of a task's
log, or both. Positions count all these events from 1 without gaps. Heads, threads and turns are the fold of the session's own
events; they are kept, so that reading them does not depend on the length of the log.

Everything here runs within one transaction of a store.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

from protolink_grpc.errors import (
    ResourceExhaustedError,
    SessionNotFoundError,
    TaskAlreadyExistsError,
    ThreadBusyError,
    ThreadNotFoundError,
    TurnNotFoundError,
    TurnNotQueuedError,
)
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    Session,
    SessionCreated,
    SessionPayload,
    SessionUpdated,
    Thread,
    ThreadStarted,
    Turn,
    TurnEnded,
    TurnPromoted,
    TurnStarted,
    TurnState,
    TurnSubmitted,
    WhenBusy,
)
from protolink_grpc.storage.records import Kind, Records
from protolink_grpc.wire.sessions import encode_event, time_of

MAX_QUEUED: Final = 100
"""Maximum number of turns in the queue of one thread."""

MAX_THREADS: Final = 1000
"""Maximum number of threads that one session can have besides the thread `default`."""

PLACES: Final = 1 << 20
"""Distance between the places of two turns in a queue: room for turns that are put before the first one."""


@dataclass(frozen=True, slots=True)
class SessionHead:
    """One row for each session.

    Args:
        owner: See `owner_of`.
        number: Identifies the session in the other kinds, because it is shorter. Random.
        position: Position of the last event.
        metadata: JSON object as text.
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
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread that was started. The thread `default` has no row."""

    session: int
    thread_id: str
    create_micros: int
    title: str = ""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn. The fields are those of Turn; `result` is empty before the end."""

    session: int
    turn_id: str
    thread_id: str
    task_id: str
    after_sequence: int
    state: TurnState
    result: str
    reason: str
    position: int
    create_micros: int
    end_micros: int
    when_busy: WhenBusy


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """The latest turn of a task that has not ended. `place` sorts the queue. In the state `ENDED` the task waits for input."""

    session: int
    task_id: str
    thread_id: str
    turn_id: str
    state: TurnState
    place: int


@dataclass(frozen=True, slots=True)
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
TURNS: Final = Kind(
    TurnRow,
    name="session_turns",
    key=("session", "turn_id"),
    order=("position", "turn_id"),
    indexes=(("session", "position", "turn_id"), ("session", "thread_id", "position", "turn_id")),
    task="task_id",
)
OPEN_TURNS: Final = Kind(
    OpenTurn,
    name="session_open_turns",
    key=("session", "task_id"),
    order=("place", "task_id"),
    indexes=(("session", "thread_id", "state", "place", "task_id"),),
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
    drops=tuple((kind, "number") for kind in (THREADS, TURNS, OPEN_TURNS, ENTRIES)),
)

KINDS: Final[tuple[Kind[Any], ...]] = (HEADS, THREADS, TURNS, OPEN_TURNS, ENTRIES)


def owner_of(agent_name: str, principal: str) -> str:
    """Return the scope of a principal's sessions with an agent. Neither name can have a line break."""
    return f"{agent_name}\n{principal}"


@dataclass(frozen=True, slots=True)
class Opening:
    """How a request begins a turn.

    Args:
        turn_id: Empty means a new id.
        held: The turn is put into the queue. If the thread has no active turn, it leaves the queue at once.
        first: It is put at the front of the queue.
    """

    thread_id: str = DEFAULT_THREAD
    turn_id: str = ""
    when_busy: WhenBusy = WhenBusy.START
    held: bool = False
    first: bool = False


BESIDE_OTHERS: Final = Opening()
"""The opening of a task that is sent with a session: it starts at once, in the thread `default`."""


@dataclass(slots=True)
class SessionAppend:
    """The part of an append to a task's log that belongs to the task's session. Calling it runs it in the append's transaction.

    Args:
        owner: See `owner_of`.
        first_sequence, count: The range that is appended.
        opening: The append begins a turn. None also for tasks whose turn has begun.
        starts: The append begins the work of the turn.
        end: The state and the reason with which the append ends the turn; None if it does not.

    Attributes:
        released: After the append: the held task whose turn is active now, or empty. Its run has to be started.
        turn: After the append: the turn that it has begun, or None.
    """

    owner: str
    session_id: str
    task_id: str
    first_sequence: int
    count: int
    micros: int
    opening: Opening | None = None
    starts: bool = False
    end: tuple[TaskState, str] | None = None
    released: str = ""
    turn: Turn | None = None

    def __call__(self, records: Records) -> None:
        self.released, self.turn = "", None
        log = SessionLog(records, self.owner, self.session_id, self.micros, create=True)
        if self.opening is not None:
            self.turn = log.submit_turn(self.opening, self.task_id, self.first_sequence - 1)
            if self.opening.held and self.turn.state is TurnState.ACTIVE:
                records.release_task(self.task_id)
                self.released = self.task_id
        elif self.starts:
            log.start_turn(self.task_id)
        log.add_range(self.task_id, self.first_sequence, self.count)
        if self.end is not None:
            self.released = log.end_turn(self.task_id, *self.end)
        log.close()


class SessionLog:
    """One addition to a session's log, within a transaction. `close` writes it.

    Args:
        create: Create the session if it does not exist.

    Raises:
        SessionNotFoundError: The session does not exist.
    """

    def __init__(
        self,
        records: Records,
        owner: str,
        session_id: str,
        micros: int,
        *,
        create: bool = False,
        created: SessionCreated | None = None,
    ) -> None:
        self._records = records
        self._micros = micros
        self._lead: list[bytes] = []
        self._tail: list[bytes] = []
        self._range: tuple[str, int, int] = ("", 0, 0)
        known = records.get(HEADS, owner, session_id)
        is_new = known is None
        if known is None:
            if not create:
                raise session_not_found_error(session_id)
            known = SessionHead(owner, session_id, _new_number(), 0, micros, micros)
        self.head: SessionHead = known
        self._position = known.position
        if is_new:
            first = created or SessionCreated()
            self._add(first)
            self.head = replace(known, title=first.title, metadata=_metadata_text(first.metadata))

    def _add(self, event: SessionPayload) -> int:
        """Add an event, and return its position."""
        self._position += 1
        (self._tail if self._range[2] else self._lead).append(encode_event(event, self._position, self._micros))
        return self._position

    def add_range(self, task_id: str, first_sequence: int, count: int) -> None:
        """Add the events that are appended to a task's log."""
        self._range = (task_id, first_sequence, count)
        self._position += count

    def update(self, event: SessionUpdated) -> None:
        self._add(event)
        self.head = replace(
            self.head, title=event.title, metadata=_metadata_text(event.metadata), archived=event.archived
        )

    def start_thread(self, event: ThreadStarted) -> Thread:
        """Start a thread, or return the existing one with that id.

        Raises:
            ResourceExhaustedError: The session has too many threads.
        """
        known = self._records.get(THREADS, self.head.number, event.thread_id)
        if known is None:
            others = self._records.select(THREADS, {"session": self.head.number}, limit=MAX_THREADS)
            if len(others) == MAX_THREADS:
                raise ResourceExhaustedError(f"the session has {MAX_THREADS} threads already")
            self._add(event)
            row = ThreadRow(self.head.number, event.thread_id, self._micros, event.title)
            known = self._records.put(THREADS, row)
        return thread_of(known)

    # -- Turns -----------------------------------------------------------------------------------------------------------

    def submit_turn(self, opening: Opening, task_id: str, after_sequence: int) -> Turn:
        """Add a turn.

        Raises:
            ThreadNotFoundError: The thread was not started.
            ResourceExhaustedError: The queue of the thread is full.
            TaskAlreadyExistsError: The session has a turn with this id.
            ThreadBusyError: The turn is not held, and the thread has an active turn.
            TurnNotQueuedError: The turn is held, and the thread has no active turn but a task that waits for input.
        """
        number, thread_id = self.head.number, opening.thread_id
        before = self._records.get(OPEN_TURNS, number, task_id)
        if before is not None:
            thread_id = before.thread_id  # a task stays in its thread, also if another kind of request continues it
        if thread_id != DEFAULT_THREAD and self._records.get(THREADS, number, thread_id) is None:
            raise thread_not_found_error(thread_id)
        if opening.turn_id and self._records.get(TURNS, number, opening.turn_id) is not None:
            raise TaskAlreadyExistsError(f"the session has a turn {opening.turn_id} already", turn_id=opening.turn_id)
        active = self._in_state(thread_id, TurnState.ACTIVE, limit=1)
        if active and not opening.held and opening.when_busy is not WhenBusy.START:
            raise thread_busy_error(thread_id, active[0].turn_id, opening.when_busy)
        if opening.held and not active and self._in_state(thread_id, TurnState.ENDED, limit=1):
            raise TurnNotQueuedError(f"a task of thread {thread_id} waits for input", thread_id=thread_id)
        queued = opening.held and bool(active)
        if queued and len(self._queue(thread_id, limit=MAX_QUEUED)) == MAX_QUEUED:
            raise ResourceExhaustedError(f"{MAX_QUEUED} turns wait in thread {thread_id} already", thread_id=thread_id)
        turn_id = opening.turn_id or new_uuid()
        position = self._add(
            TurnSubmitted(
                turn_id, thread_id, task_id, after_sequence, queued, opening.when_busy, queued and opening.first
            )
        )
        state = TurnState.QUEUED if queued else TurnState.ACTIVE
        place = self._first_place(thread_id) if queued and opening.first else position * PLACES
        self._records.put(OPEN_TURNS, OpenTurn(number, task_id, thread_id, turn_id, state, place))
        row = TurnRow(
            number,
            turn_id,
            thread_id,
            task_id,
            after_sequence,
            state,
            "",
            "",
            position,
            self._micros,
            0,
            opening.when_busy,
        )
        self._records.put(TURNS, row)
        self.head = replace(self.head, turns=self.head.turns + 1)
        return turn_of(row)

    def _first_place(self, thread_id: str) -> int:
        queue = self._queue(thread_id, limit=1)
        return queue[0].place - 1 if queue else (self._position + 1) * PLACES

    def _is_busy(self, thread_id: str) -> bool:
        return bool(self._in_state(thread_id, TurnState.ACTIVE, limit=1))

    def _queue(self, thread_id: str, limit: int) -> list[OpenTurn]:
        return self._in_state(thread_id, TurnState.QUEUED, limit=limit)

    def _in_state(self, thread_id: str, state: TurnState, limit: int | None = None) -> list[OpenTurn]:
        where = {"session": self.head.number, "thread_id": thread_id, "state": state}
        return self._records.select(OPEN_TURNS, where, limit=limit)

    def start_turn(self, task_id: str) -> None:
        """Record that the work on a task begins. Its turn has usually left the queue before."""
        known = self._records.get(OPEN_TURNS, self.head.number, task_id)
        if known is not None and known.state is TurnState.QUEUED:
            self._start(known)

    def _start(self, known: OpenTurn) -> None:
        self._add(TurnStarted(known.turn_id))
        self._records.put(OPEN_TURNS, replace(known, state=TurnState.ACTIVE))
        row = self._records.get(TURNS, known.session, known.turn_id)
        if row is not None:
            self._records.put(TURNS, replace(row, state=TurnState.ACTIVE))

    def end_turn(self, task_id: str, result: TaskState, reason: str) -> str:
        """End the turn of a task, if it has one, and take the next one from the queue of its thread.

        The queue does not move while the thread's task waits for input.

        Returns:
            The task of the turn that starts, or empty.
        """
        known = self._records.get(OPEN_TURNS, self.head.number, task_id)
        if known is None:
            return ""
        # In the state ENDED the task waited for input, and its turn ended with the question.
        if known.state is not TurnState.ENDED:
            self._end(known, result, reason)
        if result in INTERRUPTED:
            self._records.put(OPEN_TURNS, replace(known, state=TurnState.ENDED))
        else:
            self._records.delete(OPEN_TURNS, known.session, task_id)
        queue = self._queue(known.thread_id, limit=1)
        if not queue or self._is_busy(known.thread_id):
            return ""
        waiting = self._in_state(known.thread_id, TurnState.ENDED)
        if waiting:
            for each in waiting:
                self._records.keep_task(each.task_id)
            return ""
        self._start(queue[0])
        self._records.release_task(queue[0].task_id)
        return queue[0].task_id

    def _end(self, known: OpenTurn, result: TaskState, reason: str) -> None:
        self._add(TurnEnded(known.turn_id, result, reason))
        row = self._records.get(TURNS, known.session, known.turn_id)
        if row is not None:
            ended = replace(row, state=TurnState.ENDED, result=result.value, reason=reason, end_micros=self._micros)
            self._records.put(TURNS, ended)

    def promote_turn(self, turn_id: str) -> Turn:
        """Put a queued turn at the front. Raises TurnNotFoundError or TurnNotQueuedError."""
        row = require_turn(self._records, self.head, turn_id)
        known = self._records.get(OPEN_TURNS, self.head.number, row.task_id)
        if known is None or known.state is not TurnState.QUEUED:
            raise turn_not_queued_error(turn_of(row))
        if self._queue(row.thread_id, limit=1)[0] != known:
            self._add(TurnPromoted(turn_id))
            self._records.put(OPEN_TURNS, replace(known, place=self._first_place(row.thread_id)))
        return turn_of(row)

    def close(self) -> None:
        """Write what was added."""
        task_id, first, count = self._range
        before = self.head.position
        if self._position == before:
            return
        lead, tail = b"".join(self._lead), b"".join(self._tail)
        self._records.put(
            ENTRIES,
            Entry(
                self.head.number,
                self._position,
                before + 1,
                lead,
                len(self._lead),
                task_id,
                first,
                count,
                tail,
            ),
        )
        self.head = replace(
            self.head,
            position=self._position,
            update_micros=max(self._micros, self.head.update_micros),
            task_id=task_id or self.head.task_id,
        )
        self._records.put(HEADS, self.head)


# -- Reading -------------------------------------------------------------------------------------------------------------


def require_head(records: Records, owner: str, session_id: str) -> SessionHead:
    """Return the row of a session. Raises SessionNotFoundError."""
    known = records.get(HEADS, owner, session_id)
    if known is None:
        raise session_not_found_error(session_id)
    return known


def require_turn(records: Records, head: SessionHead, turn_id: str) -> TurnRow:
    """Return the row of a turn. Raises TurnNotFoundError."""
    row = records.get(TURNS, head.number, turn_id)
    if row is None:
        raise TurnNotFoundError(
            f"session {head.session_id} has no turn {turn_id}", session_id=head.session_id, turn_id=turn_id
        )
    return row


def require_thread(records: Records, head: SessionHead, thread_id: str) -> None:
    """Check that a session has a thread. Raises ThreadNotFoundError."""
    if thread_id != DEFAULT_THREAD and records.get(THREADS, head.number, thread_id) is None:
        raise thread_not_found_error(thread_id)


def active_turns(records: Records, head: SessionHead, thread_id: str) -> list[Turn]:
    """Return the active turns of a thread, oldest first. Their cost does not depend on the length of its queue."""
    where = {"session": head.number, "thread_id": thread_id, "state": TurnState.ACTIVE}
    rows = [records.get(TURNS, head.number, each.turn_id) for each in records.select(OPEN_TURNS, where)]
    return [turn_of(row) for row in rows if row is not None]


def open_turns(records: Records, head: SessionHead, thread_id: str = "") -> list[Turn]:
    """Return the turns that have not ended: active ones, then the queue in the order in which it starts."""
    where: dict[str, object] = {"session": head.number}
    if thread_id:
        where["thread_id"] = thread_id
    known = [each for each in records.select(OPEN_TURNS, where) if each.state is not TurnState.ENDED]
    known.sort(key=lambda each: each.state is TurnState.QUEUED)  # stable: both parts keep their order
    rows = [records.get(TURNS, head.number, each.turn_id) for each in known]
    return [turn_of(row) for row in rows if row is not None]


def waiting_turn(records: Records, head: SessionHead, thread_id: str) -> Turn | None:
    """Return the ended turn of a thread whose task waits for input: the oldest one if there are several."""
    where = {"session": head.number, "thread_id": thread_id, "state": TurnState.ENDED}
    for each in records.select(OPEN_TURNS, where, limit=1):
        return turn_of(require_turn(records, head, each.turn_id))
    return None


def read_session(records: Records, head: SessionHead) -> Session:
    """Return a session with its threads and open turns."""
    threads = [thread_of(each) for each in records.select(THREADS, {"session": head.number})]
    return replace(session_of(head), threads=(Thread(), *threads), open_turns=tuple(open_turns(records, head)))


def read_turns(records: Records, head: SessionHead, thread_id: str, before: int, limit: int) -> tuple[list[Turn], int]:
    """Return turns submitted before a position, oldest first, and the position before which there are more, or 0.

    Position 0 returns the newest ones.
    """
    where: dict[str, object] = {"session": head.number}
    if thread_id:
        where["thread_id"] = thread_id
    after = (before, "") if before else None
    found = records.select(TURNS, where, after=after, limit=limit + 1, reverse=True)
    more = found[limit - 1].position if len(found) > limit else 0
    return [turn_of(each) for each in found[:limit]][::-1], more


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
    return Thread(row.thread_id, row.title, time_of(row.create_micros))


def turn_of(row: TurnRow) -> Turn:
    return Turn(
        row.turn_id,
        row.thread_id,
        row.task_id,
        row.after_sequence,
        row.state,
        TaskState(row.result) if row.result else None,
        row.reason,
        row.position,
        time_of(row.create_micros),
        time_of(row.end_micros),
        row.when_busy,
    )


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


def _metadata_of(head: SessionHead) -> dict[str, Any]:
    found = from_json(head.metadata) if head.metadata else {}
    return found if isinstance(found, dict) else {}


def _metadata_text(metadata: dict[str, Any]) -> str:
    return to_json(metadata) if metadata else ""


def _new_number() -> int:
    return secrets.randbits(62)
