"""Sessions: threads with a queue of turns. The stream of a session is in `session_watch`.

A turn is a turn of a task. One that waits in a queue is a task that is submitted and held; the append that ends the turn before it
releases it (see `storage.session_log`), and the process that made this append starts its run.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from protolink_grpc.errors import (
    InvalidArgumentError,
    ProtolinkError,
    ResourceExhaustedError,
    SequenceConflictError,
    StoreError,
    TaskAlreadyExistsError,
    TaskAlreadyRunningError,
    TaskFinishedError,
    ThreadBusyError,
    TurnNotQueuedError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.events import TaskInputReplaced, TaskMessagesAdded, TaskResumed
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_session_id, new_uuid
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    MAX_METADATA_BYTES,
    MAX_REASON_CHARS,
    MAX_TITLE_CHARS,
    DeletedSession,
    Session,
    SessionCreated,
    SessionUpdated,
    Thread,
    ThreadResumption,
    ThreadStarted,
    Turn,
    TurnState,
    WhenBusy,
)
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.tracing import caller_trace
from protolink_grpc.runtime.admission import Admission, Submission, check_output_schemas
from protolink_grpc.runtime.log import Fact, LiveTask
from protolink_grpc.runtime.session_watch import SessionWatcher
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.runtime.watch import LogWatcher
from protolink_grpc.storage import session_queries as queries
from protolink_grpc.storage import session_rows as rows
from protolink_grpc.storage.port import HELD, TaskHead, TaskQuery
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_log import BESIDE_OTHERS, Opening, QueuedChange, RolledBack, SessionLog
from protolink_grpc.storage.session_rows import EndedTurn, SessionHead, owner_of

log = get_logger(__name__)

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
    """A thread before a submission: the turn that already has its id, the active turns, and the turn that waits for input."""

    known: Turn | None
    active: tuple[Turn, ...]
    waiting: Turn | None


_IDLE = _ThreadView(None, (), None)

_INTERRUPTING = frozenset({WhenBusy.INTERRUPT, WhenBusy.ROLLBACK})
"""The policies that cancel the active turns."""


class SessionState(Protocol):
    """What an agent stores for a session besides its tasks."""

    async def check_delete(self, session_id: str, principal: str) -> None:
        """Raise ActionDeniedError if the principal may not delete it."""
        ...

    async def delete(self, session_id: str, principal: str) -> dict[str, int]:
        """Delete it, and return the number of messages and items by store."""
        ...


class SessionService:
    """The sessions of one agent. Every method is for one principal, and does not find the sessions of others.

    Args:
        watching: Counts and stops the readers.
        cancel, watch: Those of TaskService.

    Attributes:
        state: The state of the agent; None if it has none.
    """

    state: SessionState | None = None

    def __init__(
        self,
        tasks: Tasks,
        admission: Admission,
        watching: LogWatcher,
        cancel: Callable[..., Awaitable[Any]],
        watch: Callable[..., AsyncGenerator[list[bytes], None]],
    ) -> None:
        self._agent_name = tasks.agent_name
        self._store = tasks.store
        self._clock = tasks.clock
        self._tasks = tasks
        self._admission = admission
        self._watcher = SessionWatcher(tasks.store, watching, lambda: admission.is_open)
        self._cancel = cancel
        self._watch_task = watch

    # -- Sessions and threads --------------------------------------------------------------------------------------------

    async def create(
        self, principal: str, session_id: str = "", *, title: str = "", metadata: dict[str, Any] | None = None
    ) -> Session:
        """Create a session, or return the existing one with that id unchanged.

        Raises:
            InvalidArgumentError: The title or the metadata is too large.
        """
        owner, created = self._owner(principal), SessionCreated(_check_title(title), _check_metadata(metadata or {}))
        name, micros = session_id or new_session_id(), self._clock.micros()

        def work(records: Records) -> Session:
            log = SessionLog(records, owner, name, micros, create=True, created=created)
            log.close()
            return queries.read_session(records, log.head)

        return await self._store.change(work)

    async def update(
        self,
        principal: str,
        session_id: str,
        *,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        archived: bool | None = None,
    ) -> Session:
        """Change title, metadata or `archived`; None leaves a value unchanged.

        Raises:
            SessionNotFoundError: The principal has no such session.
            InvalidArgumentError: The title or the metadata is too large.
        """
        owner, micros = self._owner(principal), self._clock.micros()
        if title is not None:
            _check_title(title)
        if metadata is not None:
            _check_metadata(metadata)

        def work(records: Records) -> Session:
            log = SessionLog(records, owner, session_id, micros)
            known = rows.session_of(log.head)
            changed = SessionUpdated(
                known.title if title is None else title,
                known.metadata if metadata is None else metadata,
                known.archived if archived is None else archived,
            )
            if changed != SessionUpdated(known.title, known.metadata, known.archived):
                log.update(changed)
            log.close()
            return queries.read_session(records, log.head)

        return await self._store.change(work)

    async def get(
        self, principal: str, session_id: str, *, thread_id: str = "", before: int = 0, limit: int = 50
    ) -> tuple[Session, list[Turn], int]:
        """Return a session and a window of its turns.

        Args:
            thread_id: Only turns of this thread; empty means all.
            before: Only turns whose position is smaller; 0 means the newest.

        Returns:
            The session; at most `limit` turns, oldest first; and the position before which there are more turns, or 0.

        Raises:
            SessionNotFoundError: The principal has no such session.
        """

        def query(records: Records) -> tuple[Session, list[Turn], int]:
            head = queries.require_head(records, self._owner(principal), session_id)
            session = queries.read_session(records, head)
            opened = session.open_turns
            return session, *queries.read_turns(records, head, opened, thread_id=thread_id, before=before, limit=limit)

        return await self._store.view(query)

    async def find(
        self, principal: str, *, after: tuple[int, str] | None = None, limit: int = 50, include_archived: bool = False
    ) -> tuple[list[Session], tuple[int, str] | None]:
        """Return one page of sessions, last changed first, and the cursor of the next page or None."""
        owner = self._owner(principal)
        return await self._store.view(
            lambda records: queries.read_heads(records, owner, after, limit, include_archived=include_archived)
        )

    async def start_thread(
        self,
        principal: str,
        session_id: str,
        thread_id: str = "",
        *,
        title: str = "",
        from_thread: str = "",
        from_turn: str = "",
    ) -> Thread:
        """Start a thread in a session, which is created if necessary; or return the existing thread with that id unchanged.

        Args:
            from_thread: Thread to branch from; empty means an empty conversation.
            from_turn: Last turn of that thread to include; empty means the last one that has ended.

        Raises:
            InvalidArgumentError: The title is too long, or `from_turn` cannot be branched from.
            ThreadNotFoundError, TurnNotFoundError: There is no such thread or turn to branch from.
            ResourceExhaustedError: The session has too many threads.
        """
        if from_turn and not from_thread:
            raise InvalidArgumentError("needs from_thread_id", field="from_turn_id")
        owner, micros = self._owner(principal), self._clock.micros()
        event = ThreadStarted(thread_id or new_uuid(), _check_title(title), from_thread, from_turn)

        def work(records: Records) -> Thread:
            log = SessionLog(records, owner, session_id, micros, create=True)
            started = Thread() if event.thread_id == DEFAULT_THREAD else log.start_thread(event)
            log.close()
            return started

        return await self._store.change(work)

    async def delete(self, principal: str, session_id: str) -> DeletedSession:
        """Delete a session with its tasks and the agent's state for it. Open turns and tasks are canceled first.

        The state is deleted before the session, so that the call can be repeated after a crash.

        Raises:
            SessionNotFoundError: The principal has no such session.
            ThreadBusyError: A run did not stop in time, or another turn was submitted. Some tasks may be deleted.
            ActionDeniedError: The agent's policy does not allow to delete its state.
        """
        head, threads = await self._read(principal, session_id)
        if self.state is not None:
            await self.state.check_delete(session_id, principal)
        task_ids = await self._end_tasks(principal, session_id)
        states = {} if self.state is None else await self.state.delete(session_id, principal)
        try:
            deleted = await self._tasks.delete(task_ids, principal, records=partial(_drop_unchanged, head))
        except TaskAlreadyRunningError as error:
            raise ThreadBusyError(f"session {session_id} is still working: {error}", session_id=session_id) from error
        return DeletedSession(threads, head.turns, deleted.tasks, deleted.events, states)

    async def _read(self, principal: str, session_id: str) -> tuple[SessionHead, int]:
        """Return the row of a session, and the number of its threads."""

        def query(records: Records) -> tuple[SessionHead, int]:
            head = queries.require_head(records, self._owner(principal), session_id)
            return head, len(queries.read_threads(records, head))

        return await self._store.view(query)

    async def _end_tasks(self, principal: str, session_id: str) -> list[str]:
        """Cancel the tasks of a session that have not ended, queued ones first, and return all its tasks."""
        found: list[TaskHead] = []
        query = TaskQuery(principal, self._agent_name, session_id=session_id, page_size=1000)
        while True:
            page = await self._store.find(query)
            found += page.heads
            if page.next is None:
                break
            query = replace(query, after=page.next)
        opened = [each for each in found if each.state not in TERMINAL]
        opened.sort(key=lambda each: each.worker != HELD)
        for each in opened:
            await self._cancel_task(each.task_id, principal, "its session is deleted")
        return [each.task_id for each in found]

    # -- Turns -----------------------------------------------------------------------------------------------------------

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
            ProtolinkError: As `TaskService.submit`.
        """
        opening = Opening(thread_id, turn_id, when_busy)
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
                if when_busy in _INTERRUPTING and view.known.state is TurnState.QUEUED:
                    # An earlier call may have ended between its two steps.
                    await self._interrupt_before(principal, session_id, view.known.turn_id)
                return view.known
            if view.active and when_busy is WhenBusy.REJECT:
                raise rows.thread_busy_error(thread_id, view.active[0].turn_id, when_busy)
        raise SequenceConflictError(f"thread {thread_id} keeps changing; try again later", thread_id=thread_id)

    async def _submit(self, submission: Submission, principal: str, view: _ThreadView, *, queues: bool) -> Turn:
        """Accept a turn, once.

        Args:
            queues: Put it into the queue, also if `view` has no active turn.
        """
        opening = submission.opening or BESIDE_OTHERS
        if opening.when_busy is WhenBusy.START:
            return await self._accept(submission, principal)
        if view.active or (queues and view.waiting is None):
            if opening.when_busy is WhenBusy.MERGE and (last := await self._last_queued(submission, principal)):
                return await self._merge(submission, principal, last)
            interrupts = opening.when_busy in _INTERRUPTING
            rolls_back = opening.when_busy is WhenBusy.ROLLBACK
            held = replace(submission, opening=replace(opening, held=True, first=interrupts, rolls_back=rolls_back))
            turn = _begun_turn(await self._admission.hold(held, principal))
            if not interrupts:
                return turn
            await self._interrupt_before(principal, submission.session_id, turn.turn_id)
            return await self.turn(principal, submission.session_id, turn.turn_id)
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

    async def _merge(self, submission: Submission, principal: str, turn: Turn) -> Turn:
        """Add the input to a queued turn. Raises TurnNotQueuedError if it has left the queue."""
        live = await self._queued_task(turn)
        merged = (submission.opening or BESIDE_OTHERS).turn_id or new_uuid()
        submission.set_caller(principal)
        await live.record(_merged_input(live.fold, submission), change=QueuedChange(turn.turn_id, merged))
        return turn

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
            check_output_schemas(message, index)
        turn = await self.turn(principal, session_id, turn_id)
        if turn.state is not TurnState.QUEUED:
            raise rows.turn_not_queued_error(turn)
        live = await self._queued_task(turn)
        await live.record([TaskInputReplaced(tuple(messages), principal)], change=QueuedChange(turn.turn_id))
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
            return _ThreadView(
                None if known is None else rows.turn_of(known),
                tuple(queries.active_turns(records, head, opening.thread_id)),
                queries.waiting_turn(records, head, opening.thread_id),
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
        """Cancel the active turns of a thread and its task that waits for input, or one turn.

        Args:
            turn_id: Only this turn. It may also be in the queue.
            clear_queue: Also cancel the queued turns of the thread, before the active ones.

        Returns:
            The turns that were open, after the call. One that is still active is stopping.

        Raises:
            SessionNotFoundError, ThreadNotFoundError, TurnNotFoundError: There is no such session, thread or turn.
            InvalidArgumentError: The reason is too long.
        """
        _check_reason(reason)

        def query(records: Records) -> list[Turn]:
            head = queries.require_head(records, self._owner(principal), session_id)
            if turn_id:
                row = queries.require_turn(records, head, turn_id)
                latest = records.get(rows.OPEN_TURNS, head.number, row.task_id)
                return [rows.turn_of(row)] if latest is not None and latest.turn_id == turn_id else []
            queries.require_thread(records, head, thread_id)
            found = queries.open_turns(records, head, thread_id)
            waiting = queries.waiting_turn(records, head, thread_id)
            queue = [each for each in found if each.state is TurnState.QUEUED]
            active = [each for each in found if each.state is not TurnState.QUEUED]
            return [*(queue[::-1] if clear_queue else ()), *active, *((waiting,) if waiting else ())]

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
        try:
            await self._cancel(task_id, principal, reason=reason)
        except StoreError:
            raise
        except ProtolinkError:
            log.debug("task %s has ended before it could be canceled", task_id)

    async def _interrupt_before(self, principal: str, session_id: str, turn_id: str) -> None:
        """Cancel the active turns that were submitted before a queued turn, which is the first one in its queue."""

        def query(records: Records) -> list[Turn]:
            head = queries.require_head(records, self._owner(principal), session_id)
            queued = queries.require_turn(records, head, turn_id)
            if isinstance(queued, EndedTurn) or queued.state is not TurnState.QUEUED:
                return []
            found = queries.active_turns(records, head, queued.thread_id)
            return [each for each in found if each.position < queued.position]

        await self._interrupt(await self._store.view(query), principal, "interrupted by the next turn")

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

    # -- The thread ------------------------------------------------------------------------------------------------------

    async def roll_back(self, principal: str, session_id: str, turn_id: str, *, reason: str = "") -> tuple[Thread, int]:
        """Take a turn and all later ones that have started out of the conversation of their thread, and cancel those that work.

        Repeating the call changes nothing.

        Returns:
            The thread, and the number of turns that this call took out.

        Raises:
            SessionNotFoundError, TurnNotFoundError: There is no such session or turn.
            InvalidArgumentError: The turn is in the queue, or the reason is too long.
            ResourceExhaustedError: The thread was rolled back too often.
        """
        _check_reason(reason)
        owner, micros = self._owner(principal), self._clock.micros()

        def work(records: Records) -> RolledBack:
            log = SessionLog(records, owner, session_id, micros)
            done = log.roll_back(turn_id, reason)
            log.close()
            return done

        done = await self._store.change(work)
        await self._interrupt(done.open_turns, principal, reason or "rolled back")
        return done.thread, done.count

    async def resume(
        self, principal: str, session_id: str, thread_id: str = DEFAULT_THREAD, *, reason: str = ""
    ) -> ThreadResumption:
        """End the pauses of the active turns of a thread. A thread continues by itself after a restart.

        Raises:
            SessionNotFoundError, ThreadNotFoundError: There is no such session or thread.
            InvalidArgumentError: The reason is too long.
        """
        _check_reason(reason)

        def query(records: Records) -> tuple[list[Turn], Turn | None]:
            head = queries.require_head(records, self._owner(principal), session_id)
            queries.require_thread(records, head, thread_id)
            return queries.open_turns(records, head, thread_id), queries.waiting_turn(records, head, thread_id)

        opened, waiting = await self._store.view(query)
        active = [each for each in opened if each.state is TurnState.ACTIVE]
        resumed = [each for each in active if await self._end_pause(each, principal, reason)]
        return ThreadResumption(tuple(resumed), tuple(opened), waiting)

    async def _end_pause(self, turn: Turn, principal: str, reason: str) -> bool:
        """Resume the task of a turn, and return whether it was paused."""
        live = await self._tasks.find(turn.task_id)
        if live.fold.controls is None or live.fold.controls.pause is None:
            return False
        await live.record([TaskResumed(reason, principal)])
        return True

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
            after: Sequence of the last event of the task that the caller has; 0 means the beginning of the turn.

        Raises:
            SessionNotFoundError, TurnNotFoundError: There is no such session or turn.
            ProtolinkError: As `TaskService.watch`.
        """
        turn = await self.turn(principal, session_id, turn_id)
        watch = self._watch_task(
            turn.task_id,
            principal,
            after=after or turn.after_sequence,
            stop_at=StopAt.INTERRUPTED,
            deltas=deltas,
            positions=positions,
        )
        async with aclosing(watch) as batches:
            async for frames in batches:
                yield frames

    # -- The stream ------------------------------------------------------------------------------------------------------

    def watch(self, principal: str, session_id: str, *, after: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the events of a session and of its tasks after a position. See `SessionWatcher.watch`."""
        return self._watcher.watch(self._owner(principal), session_id, after)

    def _owner(self, principal: str) -> str:
        return owner_of(self._agent_name, principal)


def _drop_unchanged(known: SessionHead, records: Records) -> None:
    """Drop a session whose tasks have ended. Raises ThreadBusyError if it has got another turn."""
    head = records.get(rows.HEADS, known.owner, known.session_id)
    if head is None:
        return
    if head.turns != known.turns:
        name = known.session_id
        raise ThreadBusyError(f"session {name} has got another turn; delete it again", session_id=name)
    queries.drop_session(records, head)


def _merged_input(fold: TaskFold, submission: Submission) -> list[Fact]:
    """Return the facts that add an input to a task that has not begun.

    Its parts join the last message, because most agents read only that one.
    """
    added, *others = submission.additions(fold)
    messages = fold.messages[fold.turn_message :]
    if not messages or not isinstance(added, TaskMessagesAdded):
        return [added, *others]
    parts = [part for each in added.messages for part in each.parts]
    last = replace(messages[-1], parts=[*messages[-1].parts, *parts])
    return [TaskInputReplaced((*messages[:-1], last), fold.principal), *others]


def _begun_turn(live: LiveTask | None) -> Turn:
    """Return the turn that a request without id has begun."""
    if live is None or live.turn is None:
        raise StoreError("the store has accepted a turn and has not written it")
    return rows.turn_of(live.turn)


def _check_title(title: str) -> str:
    if len(title) > MAX_TITLE_CHARS:
        raise InvalidArgumentError(f"must have at most {MAX_TITLE_CHARS} characters", field="title")
    return title


def _check_reason(reason: str) -> None:
    if len(reason) > MAX_REASON_CHARS:
        raise InvalidArgumentError(f"must have at most {MAX_REASON_CHARS} characters", field="reason")


def _check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    if len(to_json(metadata).encode()) > MAX_METADATA_BYTES:
        raise InvalidArgumentError(f"must have at most {MAX_METADATA_BYTES} bytes", field="metadata_json")
    return metadata
