"""Sessions and their threads: creation, rollbacks, branches, deletion, and one stream of all events of a session and its tasks."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from protolink_grpc.errors import (
    InvalidArgumentError,
    InvalidTransitionError,
    ProtolinkError,
    SessionNotFoundError,
    TaskAlreadyRunningError,
    ThreadBusyError,
    TurnNotFoundError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.events import TaskResumed
from protolink_grpc.models.ids import new_session_id, new_uuid
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    MAX_METADATA_BYTES,
    MAX_REASON_CHARS,
    MAX_TITLE_CHARS,
    ROLLED_BACK,
    DeletedSession,
    Session,
    SessionCreated,
    SessionUpdated,
    Thread,
    ThreadResumption,
    ThreadStarted,
    Turn,
    TurnState,
)
from protolink_grpc.models.task_control import check_length
from protolink_grpc.runtime.admission import Admission
from protolink_grpc.runtime.session_turns import SessionTurns
from protolink_grpc.runtime.session_watch import SessionWatcher
from protolink_grpc.runtime.snapshots import block_reason, facts_of
from protolink_grpc.runtime.tasks import Tasks
from protolink_grpc.runtime.thread_conversations import Branches, make_conversation
from protolink_grpc.runtime.watch import LogWatcher
from protolink_grpc.storage import session_queries as queries
from protolink_grpc.storage import session_rows as rows
from protolink_grpc.storage.port import HELD, TaskHead, TaskQuery
from protolink_grpc.storage.quiet_positions import QuietPosition, QuietSearch
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_log import RolledBack, SessionLog
from protolink_grpc.storage.session_rows import SessionHead

T = TypeVar("T")
log = get_logger(__name__)


class SessionState(Protocol):
    """What an agent stores for a session besides its tasks."""

    async def check_delete(self, session_id: str, principal: str) -> None:
        """Raise ActionDeniedError if the principal may not delete it."""
        ...

    async def delete(self, session_id: str, principal: str) -> dict[str, int]:
        """Delete it, and return the number of messages and items by store."""
        ...


class SessionService(SessionTurns):
    """The sessions of one agent, with their turns.

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
        super().__init__(tasks, admission, cancel, watch)
        self._rollbacks: set[asyncio.Task[Any]] = set()
        self._watcher = SessionWatcher(tasks.store, watching, lambda: admission.is_open)

    # -- Sessions and threads --------------------------------------------------------------------------------------------

    async def create(
        self, principal: str, session_id: str = "", *, title: str = "", metadata: dict[str, Any] | None = None
    ) -> Session:
        """Create a session, or return the existing one with that id unchanged.

        Raises:
            InvalidArgumentError: The title or the metadata is too large.
        """
        check_length(title, MAX_TITLE_CHARS, "title")
        owner, created = self._owner(principal), SessionCreated(title, _check_metadata(metadata or {}))
        name, micros, runtime_id = session_id or new_session_id(), self._clock.micros(), self._store.runtime_id

        def work(records: Records) -> Session:
            log = SessionLog(records, owner, name, micros, create=True, created=created, runtime_id=runtime_id)
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
            check_length(title, MAX_TITLE_CHARS, "title")
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

        session, turns, before = await self._store.view(query)
        opened = tuple(self._with_wait(each, principal) for each in session.open_turns)
        return replace(session, open_turns=opened), [self._with_wait(each, principal) for each in turns], before

    def _with_wait(self, turn: Turn, principal: str) -> Turn:
        """Return an active turn with the reason why it does not proceed, if this process has its run."""
        run = self._tasks.visible_run(turn.task_id, principal) if turn.state is TurnState.ACTIVE else None
        if run is None:
            return turn
        facts = facts_of(run.live.fold)
        return replace(turn, reason=block_reason(facts) or facts.slot_wait)

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
        check_length(title, MAX_TITLE_CHARS, "title")
        owner, micros, runtime_id = self._owner(principal), self._clock.micros(), self._store.runtime_id
        event = ThreadStarted(thread_id or new_uuid(), title, from_thread, from_turn)

        def work(records: Records) -> Thread:
            log = SessionLog(records, owner, session_id, micros, create=True, runtime_id=runtime_id)
            is_default = event.thread_id == DEFAULT_THREAD
            started = queries.find_thread(records, log.head, DEFAULT_THREAD) if is_default else log.start_thread(event)
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
        await self._read(principal, session_id)
        if self.state is not None:
            await self.state.check_delete(session_id, principal)
        await self._end_tasks(principal, session_id)
        head, threads = await self._read(principal, session_id)
        # Again, for tasks that were sent before the head was read.
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

    # -- The thread ------------------------------------------------------------------------------------------------------

    async def roll_back(self, principal: str, session_id: str, turn_id: str, *, reason: str = "") -> tuple[Thread, int]:
        """Take a turn and all later ones that have started out of the conversation of their thread, and cancel those that work.

        Repeating the call changes nothing. A call that has begun is completed even if its caller is canceled.

        Returns:
            The thread, and the number of turns that this call took out.

        Raises:
            SessionNotFoundError, TurnNotFoundError: There is no such session or turn.
            InvalidArgumentError: The turn is in the queue, or the reason is too long.
            ResourceExhaustedError: The thread was rolled back too often.
        """
        check_length(reason, MAX_REASON_CHARS, "reason")
        # In a task of its own: a cancellation after the commit would leave turns that work outside of the conversation.
        return await asyncio.shield(self._spawn_rollback(self._roll_back(principal, session_id, turn_id, reason)))

    def _spawn_rollback(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        rolling = asyncio.get_running_loop().create_task(work)
        self._rollbacks.add(rolling)
        rolling.add_done_callback(self._forget_rollback)
        return rolling

    def _forget_rollback(self, rolling: "asyncio.Task[Any]") -> None:
        self._rollbacks.discard(rolling)
        if not rolling.cancelled():
            rolling.exception()  # the caller may be gone, and asyncio logs an exception that was never retrieved

    async def _roll_back(self, principal: str, session_id: str, turn_id: str, reason: str) -> tuple[Thread, int]:
        owner, micros = self._owner(principal), self._clock.micros()

        def work(records: Records) -> RolledBack:
            log = SessionLog(records, owner, session_id, micros)
            done = log.roll_back(turn_id, reason)
            log.close()
            if done.open_turns:
                worker = self._store.worker
                records.put(
                    rows.OPEN_ROLLBACKS,
                    rows.OpenRollback(self._agent_name, principal, session_id, turn_id, reason, worker),
                )
            return done

        done = await self._store.change(work)
        if done.open_turns:
            await self._interrupt(done.open_turns, principal, reason or ROLLED_BACK)
            await self._close_rollback(principal, session_id, turn_id)
        return done.thread, done.count

    async def _close_rollback(self, principal: str, session_id: str, turn_id: str) -> None:
        key = (self._agent_name, principal, session_id, turn_id)
        await self._store.change(lambda records: records.delete(rows.OPEN_ROLLBACKS, *key))

    async def continue_rollbacks(self) -> None:
        """Begin to cancel the turns of rollbacks whose process died before it did so. Raises StoreError.

        This does not wait for the ends of the turns: the caller has to renew the lease of this process meanwhile.
        """
        for each in await self._store.claim(rows.OPEN_ROLLBACKS, self._agent_name):
            self._spawn_rollback(self._continue_rollback(each))

    async def _continue_rollback(self, opened: rows.OpenRollback) -> None:
        try:
            with suppress(SessionNotFoundError, TurnNotFoundError):
                await self._roll_back(opened.principal, opened.session_id, opened.turn_id, opened.reason)
            await self._close_rollback(opened.principal, opened.session_id, opened.turn_id)
        except ProtolinkError as error:
            # The row stays, so the next process continues it. A repetition of the call does the same.
            log.warning(
                "the rollback of turn %s is incomplete, and the next process continues it: %s", opened.turn_id, error
            )

    async def resume(
        self, principal: str, session_id: str, thread_id: str = DEFAULT_THREAD, *, reason: str = ""
    ) -> ThreadResumption:
        """End the pauses of the active turns of a thread. A thread continues by itself after a restart.

        Raises:
            SessionNotFoundError, ThreadNotFoundError: There is no such session or thread.
            InvalidArgumentError: The reason is too long.
        """
        check_length(reason, MAX_REASON_CHARS, "reason")

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
        if not live.fold.is_pause_requested:
            return False
        try:
            await live.record([TaskResumed(reason, principal)])
        except InvalidTransitionError:  # another call has ended the pause, or the task
            return False
        return True

    async def open_conversation(self, principal: str, session_id: str, conversations: Branches) -> str:
        """Return the id of the current conversation of the thread `default`, and make it if a rollback has not made it yet."""
        return await make_conversation(self._store, self._owner(principal), session_id, DEFAULT_THREAD, conversations)

    # -- The stream ------------------------------------------------------------------------------------------------------

    def watch(self, principal: str, session_id: str, *, after: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the events of a session and of its tasks after a position. See `SessionWatcher.watch`."""
        return self._watcher.watch(self._owner(principal), session_id, after)

    async def quiet_position(self, principal: str, session_id: str, at: int) -> QuietPosition | None:
        """Return a late position up to `at` at which nothing of a session was open, or None. Raises SessionNotFoundError."""
        owner, search = self._owner(principal), QuietSearch(at)

        def step(records: Records) -> bool:
            return search.step(records, queries.require_head(records, owner, session_id))

        while not await self._store.view(step):
            pass
        return search.found


def _drop_unchanged(known: SessionHead, records: Records) -> None:
    """Drop a session whose tasks have ended. Raises ThreadBusyError if it has changed since it was read."""
    head = records.get(rows.HEADS, known.owner, known.session_id)
    if head is None:
        return
    if head.position != known.position:
        name = known.session_id
        raise ThreadBusyError(f"session {name} has changed; delete it again", session_id=name)
    queries.drop_session(records, head)


def _check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    if len(to_json(metadata).encode()) > MAX_METADATA_BYTES:
        raise InvalidArgumentError(f"must have at most {MAX_METADATA_BYTES} bytes", field="metadata_json")
    return metadata
