"""Writes the logs of sessions, in the transactions of the appends to their tasks. The rows are in `session_rows`."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from protolink_grpc.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    TaskAlreadyExistsError,
    TurnNotQueuedError,
)
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    ROLLED_BACK_BY_NEXT,
    SessionCreated,
    SessionPayload,
    SessionUpdated,
    Thread,
    ThreadRolledBack,
    ThreadStarted,
    Turn,
    TurnEnded,
    TurnMerged,
    TurnPromoted,
    TurnStarted,
    TurnState,
    TurnSubmitted,
    WhenBusy,
)
from protolink_grpc.storage.records import Kind, Records
from protolink_grpc.storage.session_queries import (
    find_merged,
    find_turn,
    mark_rolled_back,
    require_thread,
    require_turn,
    turn_not_found_error,
)
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
    MergedTurn,
    OpenTurn,
    Rollback,
    SessionHead,
    ThreadRow,
    metadata_text,
    new_number,
    session_not_found_error,
    thread_busy_error,
    thread_of,
    turn_not_queued_error,
    turn_of,
)
from protolink_grpc.wire.sessions import encode_event

MAX_QUEUED: Final = 100
"""Maximum number of turns in the queue of one thread."""

MAX_MERGED: Final = 100
"""Maximum number of inputs that are merged into one queued turn, because each merge writes the whole input again."""

MAX_THREADS: Final = 1000
"""Maximum number of threads that one session can have besides the thread `default`."""

MAX_ROLLBACKS: Final = 1000
"""Maximum number of rollbacks of one thread."""

PLACES: Final = 1 << 20
"""Distance between the places of two turns in a queue: room for turns that are put before the first one."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How a request begins a turn.

    Args:
        turn_id: Empty means a new id.
        held: The turn is put into the queue. If the thread has no active turn, it leaves the queue at once.
        first: It is put at the front of the queue.
        rolls_back: The active turns of the thread are rolled back.
    """

    thread_id: str = DEFAULT_THREAD
    turn_id: str = ""
    when_busy: WhenBusy = WhenBusy.START
    held: bool = False
    first: bool = False
    rolls_back: bool = False


BESIDE_OTHERS: Final = Opening()
"""The opening of a task that is sent with a session: it starts at once, in the thread `default`."""


@dataclass(frozen=True, slots=True)
class QueuedChange:
    """A change of the input of a queued turn. The append is refused if the turn has left the queue.

    Args:
        turn_id: The turn.
        merged: Id of an input that is merged into it; empty for other changes.
    """

    turn_id: str
    merged: str = ""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The result of a rollback.

    Args:
        count: Number of turns that were taken out of the conversation.
        open_turns: The turns among them that work or wait for input. They have to be canceled.
    """

    thread: Thread
    count: int
    open_turns: list[Turn]


@dataclass(slots=True)
class SessionAppend:
    """The part of an append to a task's log that belongs to the task's session.

    Args:
        owner: See `owner_of`.
        first_sequence, count: The range that is appended.
        opening: The append begins a turn. None also for tasks whose turn has begun.
        starts: The append begins the work of the turn.
        end: The state and the reason with which the append ends the turn; None if it does not.
        change: The append changes the input of a queued turn; None if it does not.
        runtime_id: Installation of the session, if the append creates it.

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
    change: QueuedChange | None = None
    runtime_id: str = ""
    released: str = ""
    turn: OpenTurn | None = None
    _log: "SessionLog" = field(init=False)

    def check(self, records: Records) -> None:
        """Read the session, without changing it. Raises as `SessionLog.open_turn`."""
        self.released, self.turn = "", None
        self._log = SessionLog(
            records, self.owner, self.session_id, self.micros, create=True, runtime_id=self.runtime_id
        )
        if self.opening is not None:
            self.turn = self._log.open_turn(self.opening, self.task_id, self.first_sequence - 1)
        if self.change is not None:
            self._log.change_queued(self.change)

    def write(self, records: Records) -> None:
        """Change the session. Called after `check`, in the same transaction."""
        log = self._log
        if self.opening is not None:
            log.write_opened()
            if self.opening.held and self.turn is not None and self.turn.state is TurnState.ACTIVE:
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
        created: Title and metadata of a new session.
        runtime_id: Installation of a new session.

    Attributes:
        head: The row of the session; after `close` that with the addition.

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
        runtime_id: str = "",
    ) -> None:
        self._records = records
        self._micros = micros
        self._lead: list[bytes] = []
        self._tail: list[bytes] = []
        self._range: tuple[str, int, int] = ("", 0, 0)
        self._opened: tuple[OpenTurn | None, OpenTurn] | None = None
        """The turn that was added, after the open turn of its task before it."""
        known = records.get(HEADS, owner, session_id)
        if known is None and not create:
            raise session_not_found_error(session_id)
        self.head = head = known or SessionHead(owner, session_id, new_number(), 0, micros, micros)
        self._position = head.position
        self._title, self._metadata, self._archived = head.title, head.metadata, head.archived
        self._puts: list[tuple[Kind[Any], Any]] = []
        """Rows that `close` writes."""
        self._turns, self._branched, self._merged = head.turns, head.branched, head.merged
        self._counts = {TurnState.ACTIVE: head.active, TurnState.QUEUED: head.queued, TurnState.ENDED: head.waiting}
        if known is None:
            first = replace(created or SessionCreated(), runtime_id=runtime_id)
            self._add(first)
            self._title, self._metadata = first.title, metadata_text(first.metadata)

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
        self._title, self._metadata, self._archived = event.title, metadata_text(event.metadata), event.archived

    def start_thread(self, event: ThreadStarted) -> Thread:
        """Start a thread, or return the existing one with that id.

        Raises:
            ResourceExhaustedError: The session has too many threads.
            ThreadNotFoundError, TurnNotFoundError: There is no such thread to branch from, or it has no such turn.
            InvalidArgumentError: The turn to branch from has not ended, or was rolled back.
        """
        known = self._records.get(THREADS, self.head.number, event.thread_id)
        if known is None:
            others = self._records.select(THREADS, {"session": self.head.number}, limit=MAX_THREADS)
            if len(others) == MAX_THREADS:
                raise ResourceExhaustedError(f"the session has {MAX_THREADS} threads already")
            row = ThreadRow(self.head.number, event.thread_id, self._micros, event.title)
            if event.from_thread_id:
                row = self._branch(row, event.from_thread_id, event.from_turn_id)
                event = replace(event, from_turn_id=row.from_turn)
            self._add(event)
            known = self._records.put(THREADS, row)
        return thread_of(known)

    def _branch(self, row: ThreadRow, thread_id: str, turn_id: str) -> ThreadRow:
        """Return the row of a thread that begins with the conversation of another one, up to a turn."""
        require_thread(self._records, self.head, thread_id)
        self._branched += 1
        source = self._records.get(THREADS, self.head.number, thread_id)
        number = 0 if source is None else source.rollbacks
        known = self._last_turn(thread_id) if not turn_id else require_turn(self._records, self.head, turn_id)
        if known is None:
            return replace(row, from_thread=thread_id, from_number=number)
        if known.thread_id != thread_id:
            raise turn_not_found_error(self.head, turn_id)
        (turn,) = mark_rolled_back(self._records, self.head, [turn_of(known)])
        if turn.state is not TurnState.ENDED or turn.rolled_back:
            state = "was rolled back" if turn.rolled_back else f"is {turn.state}"
            raise InvalidArgumentError(f"must have ended; turn {turn_id} {state}", field="from_turn_id")
        states = (TurnState.ACTIVE, TurnState.QUEUED)
        opened = [each for state in states for each in self._in_state(thread_id, state)]
        earlier = [each.turn_id for each in opened if each.position < turn.position]
        return replace(
            row,
            from_thread=thread_id,
            from_turn=turn.turn_id,
            from_position=turn.position,
            from_number=number,
            from_open=to_json(earlier) if earlier else "",
        )

    def _last_turn(self, thread_id: str) -> EndedTurn | None:
        """Return the newest ended turn of a thread that is in its conversation."""
        where, after = {"session": self.head.number, "thread_id": thread_id}, None
        while found := self._records.select(ENDED_TURNS, where, after=after, limit=64, reverse=True):
            turns = mark_rolled_back(self._records, self.head, [turn_of(each) for each in found])
            for row, turn in zip(found, turns, strict=True):
                if not turn.rolled_back:
                    return row
            after = (found[-1].position, found[-1].turn_id)
        return None

    def roll_back(self, turn_id: str, reason: str) -> RolledBack:
        """Take a turn, and all later ones of its thread that have started, out of the conversation of the thread.

        Raises:
            TurnNotFoundError: There is no such turn.
            InvalidArgumentError: The turn has not started.
            ResourceExhaustedError: The thread was rolled back too often.
        """
        known = require_turn(self._records, self.head, turn_id)
        if isinstance(known, OpenTurn) and known.state is TurnState.QUEUED:
            raise InvalidArgumentError("has not started; remove it from the queue instead", field="turn_id")
        thread_id = known.thread_id
        (turn,) = mark_rolled_back(self._records, self.head, [turn_of(known)])
        opened = [turn_of(each) for each in self._in_thread(thread_id) if each.position >= known.position]
        if turn.rolled_back:
            row, count = self._records.get(THREADS, self.head.number, thread_id), 0
            # An earlier call may have ended before it canceled the turns that it took out. Others have started since.
            end = self._end_of_rollback(thread_id, known.position)
            opened = mark_rolled_back(self._records, self.head, [each for each in opened if each.position < end])
            opened = [each for each in opened if each.rolled_back]
        else:
            count = self._count_from(thread_id, known.position)
            row = self._roll_back(thread_id, known.turn_id, known.position, reason)
        return RolledBack(Thread() if row is None else thread_of(row), count, opened)

    def _end_of_rollback(self, thread_id: str, position: int) -> int:
        """Return the position of the last rollback of a thread that covers a position."""
        found = self._records.select(ROLLBACKS, {"session": self.head.number, "thread_id": thread_id})
        return max(each.until for each in found if each.first <= position < each.until)

    def _count_from(self, thread_id: str, first: int) -> int:
        """Return the number of turns from a position on that have started and are not rolled back."""
        where = {"session": self.head.number, "thread_id": thread_id}
        found = [turn_of(each) for each in self._records.select(ENDED_TURNS, where, after=(first, ""))]
        found += [turn_of(each) for each in self._in_state(thread_id, TurnState.ACTIVE) if each.position >= first]
        return sum(not each.rolled_back for each in mark_rolled_back(self._records, self.head, found))

    def _in_thread(self, thread_id: str) -> list[OpenTurn]:
        """Return the open turns of a thread that are not in the queue."""
        return [*self._in_state(thread_id, TurnState.ACTIVE), *self._in_state(thread_id, TurnState.ENDED)]

    def _roll_back(self, thread_id: str, turn_id: str, first: int, reason: str) -> ThreadRow:
        row = self._records.get(THREADS, self.head.number, thread_id) or ThreadRow(self.head.number, thread_id, 0)
        if row.rollbacks == MAX_ROLLBACKS:
            raise ResourceExhaustedError(f"thread {thread_id} was rolled back {MAX_ROLLBACKS} times already")
        until = self._add(ThreadRolledBack(thread_id, turn_id, reason))
        queued = [each.turn_id for each in self._in_state(thread_id, TurnState.QUEUED) if each.position > first]
        number = row.rollbacks + 1
        kept = to_json(queued) if queued else ""
        row = replace(row, rollbacks=number)
        self._puts.append((ROLLBACKS, Rollback(self.head.number, thread_id, number, first, until, kept)))
        self._puts.append((THREADS, row))
        self._branched += 1
        return row

    def change_queued(self, change: QueuedChange) -> None:
        """Check that a turn is in the queue, and record what is merged into it.

        Raises:
            TurnNotFoundError, TurnNotQueuedError: There is no such turn, or it has left the queue.
            TaskAlreadyExistsError: The session has a turn with the id of the merged input.
            ResourceExhaustedError: Too many inputs were merged into the turn.
        """
        known = require_turn(self._records, self.head, change.turn_id)
        if isinstance(known, EndedTurn) or known.state is not TurnState.QUEUED:
            raise turn_not_queued_error(turn_of(known))
        if change.merged:
            self._check_new(change.merged)
            self._check_can_merge(known)
            self._add(TurnMerged(change.merged, known.turn_id))
            self._puts.append((MERGED_TURNS, MergedTurn(self.head.number, change.merged, known.turn_id)))
            self._merged += 1

    def _check_can_merge(self, turn: OpenTurn) -> None:
        if self.head.merged < MAX_MERGED:
            return
        where = {"session": self.head.number, "into_turn": turn.turn_id}
        if len(self._records.select(MERGED_TURNS, where, limit=MAX_MERGED)) == MAX_MERGED:
            raise ResourceExhaustedError(
                f"{MAX_MERGED} inputs were merged into turn {turn.turn_id} already; submit another turn",
                turn_id=turn.turn_id,
            )

    def _check_new(self, turn_id: str) -> None:
        is_known = find_turn(self._records, self.head, turn_id) is not None
        if is_known or find_merged(self._records, self.head, turn_id):
            raise TaskAlreadyExistsError(f"the session has a turn {turn_id} already", turn_id=turn_id)

    # -- Turns -----------------------------------------------------------------------------------------------------------

    def open_turn(self, opening: Opening, task_id: str, after_sequence: int) -> OpenTurn:
        """Add a turn. `write_opened` writes its row.

        Raises:
            ThreadNotFoundError: The thread was not started.
            ResourceExhaustedError: The queue of the thread is full.
            TaskAlreadyExistsError: The session has a turn with this id.
            ThreadBusyError: The turn is not held, and the thread has an active turn.
            TurnNotQueuedError: The task is new, and the thread has no active turn but a task that waits for input.
        """
        number, thread_id = self.head.number, opening.thread_id
        before = self._records.get(OPEN_TURNS, number, task_id) if after_sequence else None  # a new task has no turn
        if before is not None:
            thread_id = before.thread_id  # a task stays in its thread, also if another kind of request continues it
        require_thread(self._records, self.head, thread_id)
        if opening.turn_id:
            self._check_new(opening.turn_id)
        queued = opening.when_busy is not WhenBusy.START and self._must_wait(opening, thread_id, is_new=before is None)
        turn_id = opening.turn_id or new_uuid()
        is_first = queued and opening.first
        if queued and opening.rolls_back:
            oldest = min(self._in_state(thread_id, TurnState.ACTIVE), key=lambda each: each.position)
            self._roll_back(thread_id, oldest.turn_id, oldest.position, ROLLED_BACK_BY_NEXT)
        position = self._add(
            TurnSubmitted(turn_id, thread_id, task_id, after_sequence, queued, opening.when_busy, is_first)
        )
        turn = OpenTurn(
            number,
            task_id,
            thread_id,
            turn_id,
            TurnState.QUEUED if queued else TurnState.ACTIVE,
            self._first_place(thread_id) if is_first else position * PLACES,
            after_sequence,
            position,
            self._micros,
            opening.when_busy,
        )
        self._opened = (before, turn)
        self._turns += 1
        return turn

    def write_opened(self) -> None:
        """Write the turn that `open_turn` has added."""
        if self._opened is not None:
            self._put_open(*self._opened)

    def _must_wait(self, opening: Opening, thread_id: str, *, is_new: bool) -> bool:
        """Return whether a turn that does not start beside others has to wait in the queue. Raises as `open_turn`."""
        active = self._first(thread_id, TurnState.ACTIVE)
        if active is None:
            if is_new and self._first(thread_id, TurnState.ENDED) is not None:
                raise TurnNotQueuedError(f"a task of thread {thread_id} waits for input", thread_id=thread_id)
            return False
        if not opening.held:
            raise thread_busy_error(thread_id, active.turn_id, opening.when_busy)
        may_be_full = self._counts[TurnState.QUEUED] >= MAX_QUEUED
        if may_be_full and len(self._in_state(thread_id, TurnState.QUEUED, limit=MAX_QUEUED)) == MAX_QUEUED:
            raise ResourceExhaustedError(f"{MAX_QUEUED} turns wait in thread {thread_id} already", thread_id=thread_id)
        return True

    def _first_place(self, thread_id: str) -> int:
        first = self._first(thread_id, TurnState.QUEUED)
        return (self._position + 1) * PLACES if first is None else first.place - 1

    def _first(self, thread_id: str, state: TurnState) -> OpenTurn | None:
        for each in self._in_state(thread_id, state, limit=1):
            return each
        return None

    def _in_state(self, thread_id: str, state: TurnState, limit: int | None = None) -> list[OpenTurn]:
        if not self._counts[state]:
            return []
        where = {"session": self.head.number, "thread_id": thread_id, "state": state}
        return self._records.select(OPEN_TURNS, where, limit=limit)

    def _put_open(self, before: OpenTurn | None, after: OpenTurn | None) -> None:
        """Replace the row of an open turn. None means that there is no such row."""
        if before is not None:
            self._counts[before.state] -= 1
        if after is not None:
            self._counts[after.state] += 1
            self._records.put(OPEN_TURNS, after)
        elif before is not None:
            self._records.delete(OPEN_TURNS, before.session, before.task_id)

    def start_turn(self, task_id: str) -> None:
        """Record that the work on a task begins. Its turn has usually left the queue before."""
        if not self._counts[TurnState.QUEUED]:
            return
        known = self._records.get(OPEN_TURNS, self.head.number, task_id)
        if known is not None and known.state is TurnState.QUEUED:
            self._start(known)

    def _start(self, known: OpenTurn) -> None:
        self._add(TurnStarted(known.turn_id))
        self._put_open(known, replace(known, state=TurnState.ACTIVE))

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
        self._put_open(known, replace(known, state=TurnState.ENDED) if result in INTERRUPTED else None)
        following = self._first(known.thread_id, TurnState.QUEUED)
        if following is None or self._first(known.thread_id, TurnState.ACTIVE) is not None:
            return ""
        if waiting := self._in_state(known.thread_id, TurnState.ENDED):
            for each in waiting:
                self._records.keep_task(each.task_id)
            return ""
        self._start(following)
        self._records.release_task(following.task_id)
        return following.task_id

    def _end(self, known: OpenTurn, result: TaskState, reason: str) -> None:
        self._add(TurnEnded(known.turn_id, result, reason))
        ended = EndedTurn(
            known.session,
            known.turn_id,
            known.thread_id,
            known.task_id,
            known.after_sequence,
            result,
            reason,
            known.position,
            known.create_micros,
            self._micros,
            known.when_busy,
        )
        self._records.put(ENDED_TURNS, ended)

    def promote_turn(self, turn_id: str) -> Turn:
        """Put a queued turn at the front. Raises TurnNotFoundError or TurnNotQueuedError."""
        known = require_turn(self._records, self.head, turn_id)
        if isinstance(known, EndedTurn) or known.state is not TurnState.QUEUED:
            raise turn_not_queued_error(turn_of(known))
        if self._first(known.thread_id, TurnState.QUEUED) != known:
            self._add(TurnPromoted(known.turn_id))
            self._put_open(known, replace(known, place=self._first_place(known.thread_id)))
        return turn_of(known)

    def close(self) -> None:
        """Write what was added."""
        head, position = self.head, self._position
        if position == head.position:
            return
        task_id, first, count = self._range
        lead, tail = b"".join(self._lead), b"".join(self._tail)
        entry = Entry(head.number, position, head.position + 1, lead, len(self._lead), task_id, first, count, tail)
        self._records.put(ENTRIES, entry)
        for kind, row in self._puts:
            self._records.put(kind, row)
        counts = self._counts
        self.head = SessionHead(  # every append writes one, and `replace` is much slower
            head.owner,
            head.session_id,
            head.number,
            position,
            head.create_micros,
            max(self._micros, head.update_micros),
            self._title,
            self._metadata,
            self._archived,
            self._turns,
            counts[TurnState.ACTIVE],
            counts[TurnState.QUEUED],
            counts[TurnState.ENDED],
            self._branched,
            self._merged,
            task_id or head.task_id,
        )
        self._records.put(HEADS, self.head)
