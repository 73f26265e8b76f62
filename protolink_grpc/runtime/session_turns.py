"""The turns of sessions: submission to a thread, the queue, and interruption.

A turn is a turn of a task. One that waits in a queue is a task that is submitted and held; the append that ends the turn before it
releases it (see `storage.session_log`), and the process that made this append starts its run.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from protolink_grpc.errors import (
    InvalidArgumentError,
    InvalidTransitionError,
    LeaseLostError,
    ProtolinkError,
    ResourceExhaustedError,
    SequenceConflictError,
    SequenceOutOfRangeError,
    StoreError,
    TaskAlreadyExistsError,
    TaskAlreadyRunningError,
    TaskFinishedError,
    ThreadBusyError,
    TurnNotQueuedError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.events import TaskInputReplaced, TaskMessagesAdded
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    MAX_REASON_CHARS,
    ROLLED_BACK,
    ROLLED_BACK_BY_NEXT,
    ThreadRolledBack,
    Turn,
    TurnState,
    WhenBusy,
)
from protolink_grpc.models.task_control import check_length
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.watch import StopAt, WatchPosition
from protolink_grpc.net.tracing import caller_trace
from protolink_grpc.runtime.admission import Admission
from protolink_grpc.runtime.log import Fact, LiveTask
from protolink_grpc.runtime.submission import Submission, check_output_schemas
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.storage import session_queries as queries
from protolink_grpc.storage import session_rows as rows
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_log import BESIDE_OTHERS, MAX_MERGED, Opening, QueuedChange, SessionLog
from protolink_grpc.storage.session_rows import EndedTurn, owner_of
from protolink_grpc.wire.events import find_settling
from protolink_grpc.wire.tasks import encode_message
from protolink_grpc.wire.watch import position_frame

log = get_logger(__name__)

MAX_MERGED_BYTES = 1 << 20
"""Maximum size of the encoded messages of a queued turn after a merge, because each merge writes all of them again."""

READ_EVENTS = 256
"""Maximum number of events that are read at once in the search for the end of a turn."""

RETRIES = 8
"""Attempts of one submission while the thread keeps changing."""

_CHANGED = (
    TurnNotQueuedError,
    TaskAlreadyExistsError,
    TaskAlreadyRunningError,
    TaskFinishedError,
    SequenceConflictError,
)
"""Refusals of a submission whose thread has changed since it was read: another call submitted, answered or ended a turn."""


@dataclass(frozen=True, slots=True)
class _ThreadView:
    """A thread before a submission.

    Args:
        known: The turn that already has the id of the submission.
        waiting: The turn that waits for input.
        rollback: The rollback that took `waiting` out of the conversation.
    """

    known: Turn | None
    active: tuple[Turn, ...]
    waiting: Turn | None
    rollback: ThreadRolledBack | None = None


_IDLE = _ThreadView(None, (), None)

_INTERRUPTING = frozenset({WhenBusy.INTERRUPT, WhenBusy.ROLLBACK})
"""The policies that cancel the active turns."""


class SessionTurns:
    """The turns of one agent's sessions. Every method is for one principal, and does not find the sessions of others.

    Args:
        cancel, watch: Those of TaskService.
    """

    def __init__(
        self,
        tasks: Tasks,
        admission: Admission,
        cancel: Callable[..., Awaitable[Any]],
        watch: Callable[..., AsyncGenerator[list[bytes], None]],
    ) -> None:
        self._agent_name = tasks.agent_name
        self._store = tasks.store
        self._clock = tasks.clock
        self._tasks = tasks
        self._admission = admission
        self._cancel = cancel
        self._watch_task = watch
        self._merging = asyncio.Lock()
        """Inputs are merged one after the other. Only another process can change the input of a turn meanwhile."""

    async def submit(
        self,
        submission: Submission,
        principal: str,
        session_id: str,
        *,
        thread_id: str = DEFAULT_THREAD,
        turn_id: str = "",
        when_busy: WhenBusy = WhenBusy.ENQUEUE,
    ) -> Turn:
        """Accept a turn, and return after it is in the log. The session is created if necessary.

        If a task of the thread waits for input, the turn continues it.

        Args:
            submission: Without task, target, session and request id, which are set here.
            turn_id: Also the idempotency key: a known one returns its turn. Empty means a new id.

        Raises:
            ThreadBusyError: The thread has an active turn, and the policy is `reject`.
            ThreadNotFoundError: The thread was not started.
            ResourceExhaustedError: The queue of the thread is full, or no more can be merged into its last turn.
            ProtolinkError: As `TaskService.submit`.
        """
        turn = await self._accept_turn(submission, principal, session_id, Opening(thread_id, turn_id, when_busy))
        if when_busy not in _INTERRUPTING or turn.state is not TurnState.QUEUED:
            return turn
        # Also for a known turn: an earlier call may have ended between its two steps.
        reason = ROLLED_BACK_BY_NEXT if when_busy is WhenBusy.ROLLBACK else "interrupted by the next turn"
        await self._interrupt_before(principal, session_id, turn.turn_id, reason)
        return await self.turn(principal, session_id, turn.turn_id)

    async def _accept_turn(self, submission: Submission, principal: str, session_id: str, opening: Opening) -> Turn:
        """Accept a turn, or return the known one with its id. Attempts that were refused have added nothing."""
        thread_id, when_busy = opening.thread_id, opening.when_busy
        submission.session_id, submission.opening, submission.trace = session_id, opening, caller_trace()
        submission.task_id, submission.target, submission.request_id = "", TaskTarget.CREATE, ""
        view: _ThreadView | None = None
        queues = False
        for _ in range(RETRIES):
            try:
                # The first attempt does not read the thread. Most threads are idle, and the append refuses it otherwise.
                return await self._submit(submission, principal, view or _IDLE, queues=queues)
            except ThreadBusyError:
                if when_busy is WhenBusy.REJECT:
                    raise
                queues = True  # now the append decides whether this turn waits
                if view is None:
                    continue
            except ResourceExhaustedError:  # a turn that only waits in the queue needs no slot
                if view is not None:
                    raise
            except _CHANGED:
                pass
            view = await self._view_thread(principal, session_id, opening)
            if view.known is not None:
                return view.known
            if view.waiting is not None and view.rollback is not None:
                # The process that rolled it back ended before it canceled the task. The turn must not answer its question.
                await self._cancel_turn(view.waiting, principal, view.rollback.reason or ROLLED_BACK)
                view = replace(view, waiting=None)
            if view.active and when_busy is WhenBusy.REJECT:
                raise rows.thread_busy_error(thread_id, view.active[0].turn_id, when_busy)
        raise SequenceConflictError(f"thread {thread_id} keeps changing; try again later", thread_id=thread_id)

    async def _submit(self, submission: Submission, principal: str, view: _ThreadView, *, queues: bool) -> Turn:
        """Accept a turn, once. An error means that nothing was added.

        Args:
            queues: Put it into the queue, also if `view` has no active turn.
        """
        opening = submission.opening or BESIDE_OTHERS
        if opening.when_busy is WhenBusy.START:
            return await self._accept(submission, principal)
        if view.active or (queues and view.waiting is None):
            if opening.when_busy is WhenBusy.MERGE and (last := await self._last_queued(submission, principal)):
                return await self._merge(submission, last)
            interrupts = opening.when_busy in _INTERRUPTING
            rolls_back = opening.when_busy is WhenBusy.ROLLBACK
            held = replace(submission, opening=replace(opening, held=True, first=interrupts, rolls_back=rolls_back))
            return _begun_turn(await self._admission.hold(held, principal))
        if view.waiting is not None:
            submission = replace(submission, task_id=view.waiting.task_id, target=TaskTarget.CONTINUE)
        return await self._accept(submission, principal)

    async def _last_queued(self, submission: Submission, principal: str) -> Turn | None:
        """Return the last turn in the queue of the submission's thread."""
        thread_id = (submission.opening or BESIDE_OTHERS).thread_id

        def query(records: Records) -> Turn | None:
            head = records.get(rows.HEADS, self._owner(principal), submission.session_id)
            return None if head is None else queries.last_queued_turn(records, head, thread_id)

        return await self._store.view(query)

    async def _merge(self, submission: Submission, turn: Turn) -> Turn:
        """Add the input to a queued turn. The options of the submission are not used.

        Raises:
            TurnNotQueuedError: The turn has left the queue.
            ResourceExhaustedError: Too many inputs were merged into the turn, or they are too large together.
            SequenceConflictError: Another process has changed the input of the turn at the same time.
        """
        merged = (submission.opening or BESIDE_OTHERS).turn_id or new_uuid()
        async with self._merging:
            live, change = await self._queued_task(turn), QueuedChange(turn.turn_id, merged)
            for _ in range(MAX_MERGED):  # nearly every conflict is another merge, and a turn takes no more of them
                # The facts have the whole input, so they belong to the log that they were computed from.
                expected = live.fold.sequence
                with suppress(SequenceConflictError):
                    await _change_queued(turn, live, _merged_input(live.fold, submission, turn), change, expected)
                    return turn
        raise SequenceConflictError(f"turn {turn.turn_id} keeps changing; try again later", turn_id=turn.turn_id)

    async def _queued_task(self, turn: Turn) -> LiveTask:
        head = await self._store.head(turn.task_id)
        if head is None:
            raise rows.turn_not_queued_error(turn)
        return await self._tasks.load(head)

    async def replace_input(self, principal: str, session_id: str, turn_id: str, messages: Sequence[Message]) -> Turn:
        """Replace the messages of a queued turn.

        Raises:
            SessionNotFoundError, TurnNotFoundError: There is no such session or turn.
            TurnNotQueuedError: The turn has started or ended.
            InvalidArgumentError: There are no messages, or one has an invalid schema; names the field.
        """
        if not messages:
            raise InvalidArgumentError("must have a message", field="messages")
        for index, message in enumerate(messages):
            check_output_schemas(message, f"messages[{index}]")
        turn = await self.turn(principal, session_id, turn_id)
        if turn.state is not TurnState.QUEUED:
            raise rows.turn_not_queued_error(turn)
        live = await self._queued_task(turn)
        await _change_queued(turn, live, [TaskInputReplaced(tuple(messages), principal)], QueuedChange(turn.turn_id))
        return turn

    async def _accept(self, submission: Submission, principal: str) -> Turn:
        accepted = await self._admission.accept(submission, principal)
        return _begun_turn(None if accepted.run is None else accepted.run.live)

    async def _view_thread(self, principal: str, session_id: str, opening: Opening) -> _ThreadView:
        def query(records: Records) -> _ThreadView:
            head = records.get(rows.HEADS, self._owner(principal), session_id)
            if head is None:
                if opening.thread_id != DEFAULT_THREAD:
                    raise rows.thread_not_found_error(opening.thread_id)
                return _IDLE
            queries.require_thread(records, head, opening.thread_id)
            known = queries.find_submitted(records, head, opening.turn_id) if opening.turn_id else None
            waiting, owner = queries.waiting_turn(records, head, opening.thread_id), self._owner(principal)
            return _ThreadView(
                None if known is None else rows.turn_of(known),
                tuple(queries.active_turns(records, head, opening.thread_id)),
                waiting,
                None if waiting is None else queries.find_rollback(records, owner, session_id, waiting.task_id),
            )

        return await self._store.view(query)

    async def turn(self, principal: str, session_id: str, turn_id: str) -> Turn:
        """Return a turn.

        Raises:
            SessionNotFoundError, TurnNotFoundError: The principal has no such session, or the session no such turn.
        """

        def query(records: Records) -> Turn:
            head = queries.require_head(records, self._owner(principal), session_id)
            return queries.mark_rolled_back(
                records, head, [rows.turn_of(queries.require_turn(records, head, turn_id))]
            )[0]

        return await self._store.view(query)

    async def interrupt(
        self,
        principal: str,
        session_id: str,
        *,
        thread_id: str = DEFAULT_THREAD,
        turn_id: str = "",
        reason: str = "",
        clear_queue: bool = False,
    ) -> list[Turn]:
        """Cancel the active turns of a thread and its tasks that wait for input, or one turn.

        Args:
            turn_id: Only this turn. It may also be in the queue.
            clear_queue: Also cancel the queued turns of the thread, before the active ones.

        Returns:
            The turns that were open, after the call. One that is still active is stopping.

        Raises:
            SessionNotFoundError, ThreadNotFoundError, TurnNotFoundError: There is no such session, thread or turn.
            InvalidArgumentError: The reason is too long.
        """
        check_length(reason, MAX_REASON_CHARS, "reason")

        def query(records: Records) -> list[Turn]:
            head = queries.require_head(records, self._owner(principal), session_id)
            if turn_id:
                row = queries.require_turn(records, head, turn_id)
                latest = records.get(rows.OPEN_TURNS, head.number, row.task_id)
                return [rows.turn_of(row)] if latest is not None and latest.turn_id == row.turn_id else []
            queries.require_thread(records, head, thread_id)
            found = queries.open_turns(records, head, thread_id)
            waiting = queries.waiting_turns(records, head, thread_id)
            queue = [each for each in found if each.state is TurnState.QUEUED]
            active = [each for each in found if each.state is not TurnState.QUEUED]
            return [*(queue[::-1] if clear_queue else ()), *active, *waiting]

        found = await self._store.view(query)
        await self._interrupt(found, principal, reason)
        return [await self.turn(principal, session_id, each.turn_id) for each in found]

    async def _interrupt(self, turns: list[Turn], principal: str, reason: str) -> None:
        """Cancel queued turns one after the other, then the others at the same time: each may take time to stop."""
        for each in turns:
            if each.state is TurnState.QUEUED:
                await self._cancel_turn(each, principal, reason)
        others = [each for each in turns if each.state is not TurnState.QUEUED]
        stopping = (self._cancel_turn(each, principal, reason) for each in others)
        for outcome in await asyncio.gather(*stopping, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _cancel_turn(self, turn: Turn, principal: str, reason: str) -> None:
        await self._cancel_task(turn.task_id, principal, reason)

    async def _cancel_task(self, task_id: str, principal: str, reason: str) -> None:
        for attempt in range(1, RETRIES + 1):
            try:
                await self._cancel(task_id, principal, reason=reason)
            except SequenceConflictError:
                # Many callers cancel it at the same time. Each attempt reads it again, and most find it canceled.
                if attempt == RETRIES:
                    raise
            except StoreError:
                raise
            except ProtolinkError:
                log.debug("task %s has ended before it could be canceled", task_id)
                return
            else:
                return

    async def _interrupt_before(self, principal: str, session_id: str, turn_id: str, reason: str) -> None:
        """Cancel the active turns that were submitted before a queued turn, which is the first one in its queue."""

        def query(records: Records) -> list[Turn]:
            head = queries.require_head(records, self._owner(principal), session_id)
            queued = queries.require_turn(records, head, turn_id)
            if isinstance(queued, EndedTurn) or queued.state is not TurnState.QUEUED:
                return []
            found = queries.active_turns(records, head, queued.thread_id)
            return [each for each in found if each.position < queued.position]

        await self._interrupt(await self._store.view(query), principal, reason)

    async def promote(self, principal: str, session_id: str, turn_id: str) -> Turn:
        """Put a queued turn at the front of its thread's queue.

        Raises:
            SessionNotFoundError, TurnNotFoundError: There is no such session or turn.
            TurnNotQueuedError: The turn has started or ended.
        """
        owner, micros = self._owner(principal), self._clock.micros()

        def work(records: Records) -> Turn:
            log = SessionLog(records, owner, session_id, micros)
            turn = log.promote_turn(turn_id)
            log.close()
            return turn

        return await self._store.change(work)

    async def remove(self, principal: str, session_id: str, turn_id: str) -> Turn:
        """Remove a turn from the queue: its task is canceled. Raises as `promote`."""
        turn = await self.turn(principal, session_id, turn_id)
        if turn.state is not TurnState.QUEUED:
            raise rows.turn_not_queued_error(turn)
        await self._cancel_turn(turn, principal, "removed from the queue")
        removed = await self.turn(principal, session_id, turn_id)
        if removed.result is not TaskState.CANCELED:
            raise rows.turn_not_queued_error(removed)
        return removed

    async def stream(
        self,
        principal: str,
        session_id: str,
        turn_id: str,
        *,
        after: int = 0,
        deltas: bool = False,
        positions: bool = False,
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the events of a turn as `TaskService.watch` does, until it has ended. A queued turn may start later.

        Args:
            after: Sequence of the last event of the task that the caller has. The stream never begins before the turn.

        Raises:
            SessionNotFoundError, TurnNotFoundError: There is no such session or turn.
            SequenceOutOfRangeError: `after` is greater than the last sequence of the turn, or of the log.
            ProtolinkError: As `TaskService.watch`.
        """
        turn = await self.turn(principal, session_id, turn_id)
        if turn.state is TurnState.ENDED and after > turn.after_sequence:
            # The task may have later turns, whose events are not those of this one.
            end = await self._find_end(turn)
            if end is not None and after > end:
                raise SequenceOutOfRangeError(
                    f"after_sequence {after} is not in turn {turn.turn_id}, which ends with {end}",
                    after_sequence=str(after),
                    last_sequence=str(end),
                )
            if after == end:
                if positions:
                    yield [position_frame(WatchPosition(end, end, caught_up=True))]
                return
        watch = self._watch_task(
            turn.task_id,
            principal,
            after=after if after < 0 else max(after, turn.after_sequence),
            stop_at=StopAt.INTERRUPTED,
            deltas=deltas,
            positions=positions,
        )
        async with aclosing(watch) as batches:
            async for frames in batches:
                yield frames

    async def _find_end(self, turn: Turn) -> int | None:
        """Return the sequence of the last event of an ended turn; None if a memory store has dropped it."""
        after = turn.after_sequence
        while frames := await self._store.read(turn.task_id, after, READ_EVENTS):
            if (place := find_settling(frames)) is not None:
                return after + place + 1
            after += len(frames)
        return None

    def _owner(self, principal: str) -> str:
        return owner_of(self._agent_name, principal)


async def _change_queued(
    turn: Turn, live: LiveTask, facts: Sequence[Fact], change: QueuedChange, expected: int = 0
) -> None:
    """Change the task of a queued turn. Raises TurnNotQueuedError if the turn has left the queue since it was read."""
    try:
        await live.record(facts, change=change, expected=expected)
    except (InvalidTransitionError, LeaseLostError):  # the task has ended, or its run has begun
        state = live.fold.state if live.fold.is_terminal else None
        left = TurnState.ACTIVE if state is None else TurnState.ENDED
        raise rows.turn_not_queued_error(replace(turn, state=left, result=state)) from None


def _merged_input(fold: TaskFold, submission: Submission, turn: Turn) -> list[Fact]:
    """Return the facts that add an input to the task of a queued turn. Raises ResourceExhaustedError.

    Its parts join the last message, because most agents read only that one.
    """
    added, *others = submission.additions(fold)
    messages = fold.messages[fold.turn_message :]
    if not messages or not isinstance(added, TaskMessagesAdded):
        return [added, *others]
    parts = [part for each in added.messages for part in each.parts]
    last = replace(messages[-1], parts=[*messages[-1].parts, *parts])
    whole = (*messages[:-1], last)
    if (size := sum(len(encode_message(each)) for each in whole)) > MAX_MERGED_BYTES:
        raise ResourceExhaustedError(
            f"turn {turn.turn_id} would have an input of {size} bytes, and a merge has at most {MAX_MERGED_BYTES}; "
            "submit another turn",
            turn_id=turn.turn_id,
            max_bytes=str(MAX_MERGED_BYTES),
        )
    return [TaskInputReplaced(whole, fold.principal), *others]


def _begun_turn(live: LiveTask | None) -> Turn:
    """Return the turn that a request without id has begun."""
    if live is None or live.turn is None:
        raise StoreError("the store has accepted a turn and has not written it")
    return rows.turn_of(live.turn)
