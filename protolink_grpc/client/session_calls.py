"""`AgentClient.sessions`: conversations with an agent, with a queue of inputs and one stream of all events."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from protolink_grpc.client.agent_access import AgentAccess
from protolink_grpc.client.port import AgentPort
from protolink_grpc.client.resumption import resumed_batches, resumed_items
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.ids import new_session_id, new_uuid
from protolink_grpc.models.lifecycle import SETTLED, TERMINAL
from protolink_grpc.models.message import Message
from protolink_grpc.models.references import References
from protolink_grpc.models.session import (
    DEFAULT_THREAD,
    DeletedSession,
    Session,
    SessionItem,
    SessionList,
    SessionPage,
    Thread,
    ThreadResumption,
    Turn,
    WhenBusy,
)
from protolink_grpc.models.task import Task


@checks_arguments
class SessionCalls:
    """The sessions of the caller with an agent, on the settings of a client.

    A session has threads, a thread has turns: inputs that run one after the other. `agent_url` is as in AgentClient. Agents of
    other systems have no sessions: UnimplementedError.
    """

    def __init__(self, client: AgentAccess, open_agent: Callable[[str | None], AgentPort]) -> None:
        self._client = client
        self._open = open_agent

    async def create(
        self,
        session_id: str | None = None,
        *,
        title: str = "",
        metadata: dict[str, Any] | None = None,
        agent_url: str | None = None,
    ) -> Session:
        """Create a session, or return the existing one with that id unchanged.

        Args:
            session_id: None creates an id.
            title: At most 1000 characters.
            metadata: At most 64 KiB as JSON.
        """
        agent = self._open(agent_url)
        return await agent.sessions.create(session_id or new_session_id(), title, metadata or {}, self._client.timeout)

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        archived: bool | None = None,
        agent_url: str | None = None,
    ) -> Session:
        """Change a session. None leaves a value unchanged.

        Args:
            title, metadata: As in `create`. The metadata are replaced as a whole.
            archived: Whether `list` leaves the session out.

        Raises:
            SessionNotFoundError: The caller has no such session.
        """
        agent = self._open(agent_url)
        return await agent.sessions.update(session_id, title, metadata, archived, self._client.timeout)

    async def delete(self, session_id: str, *, agent_url: str | None = None) -> DeletedSession:
        """Delete a session with its threads, turns, tasks and logs, and the agent's state for it. Open turns are canceled first.

        Returns:
            What was deleted.

        Raises:
            SessionNotFoundError: The caller has no such session.
            ThreadBusyError: A run did not stop in time. The call can be repeated.
        """
        return await self._open(agent_url).sessions.delete(session_id, self._client.timeout)

    async def get(
        self,
        session_id: str,
        *,
        thread_id: str = "",
        page_size: int = 0,
        page_token: str = "",
        agent_url: str | None = None,
    ) -> SessionPage:
        """Return a session, its open turns and one page of its turns, newest page first.

        Args:
            thread_id: Only turns of this thread; empty means all.
            page_size: Maximum number of turns, at most 1000; 0 means 50.
            page_token: `next_page_token` of the page before; empty means the newest turns.

        Raises:
            SessionNotFoundError: The caller has no such session.
        """
        agent = self._open(agent_url)
        return await agent.sessions.get(session_id, thread_id, page_size, page_token, self._client.timeout)

    async def list(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        include_archived: bool = False,
        agent_url: str | None = None,
    ) -> SessionList:
        """Return one page of the caller's sessions, last changed first, without their threads and open turns.

        Args:
            page_size: Maximum number of sessions, at most 1000; 0 means 50.
            page_token: `next_page_token` of the page before; empty means the first page.
        """
        agent = self._open(agent_url)
        return await agent.sessions.find(page_size, page_token, self._client.timeout, include_archived=include_archived)

    async def start_thread(
        self,
        session_id: str,
        thread_id: str | None = None,
        *,
        title: str = "",
        from_thread: str = "",
        from_turn: Turn | str = "",
        agent_url: str | None = None,
    ) -> Thread:
        """Start a thread, or return the existing one with that id unchanged. The session is created if necessary.

        Args:
            from_thread: The thread begins with the conversation of this one; empty means an empty conversation.
            from_turn: The last turn of `from_thread` to include; empty means the last one that has ended.

        Raises:
            ThreadNotFoundError, TurnNotFoundError: There is no such thread or turn to branch from.
            InvalidArgumentError: The turn to branch from has not ended, or was rolled back.
            ResourceExhaustedError: The session has 1000 threads.
        """
        agent, turn_id = self._open(agent_url), _id_of(from_turn)
        return await agent.sessions.start_thread(
            session_id,
            thread_id or new_uuid(),
            title,
            self._client.timeout,
            from_thread=from_thread,
            from_turn=turn_id,
        )

    async def submit(
        self,
        session_id: str,
        message: Task | Message | str,
        *,
        thread_id: str = DEFAULT_THREAD,
        turn_id: str | None = None,
        when_busy: WhenBusy | str = WhenBusy.ENQUEUE,
        agent_url: str | None = None,
    ) -> Turn:
        """Submit an input to a thread, and return its turn as soon as it is in the agent's log.

        If the last task of the thread waits for input, the turn continues it. The session is created if necessary.

        Args:
            message: The input; a task must be new, and its id and session are ignored.
            turn_id: Idempotency key: a repetition returns the turn of the first call. None creates one for each call.
            when_busy: What to do if the thread has an active turn: "enqueue", "reject", "interrupt", "rollback", "merge" or
                "start". See WhenBusy.

        Raises:
            ThreadBusyError: The policy is "reject", and the thread has an active turn.
            ThreadNotFoundError: The thread was not started.
            ResourceExhaustedError: 100 turns wait in the thread.
        """
        try:
            policy = WhenBusy(when_busy)
        except ValueError:
            policy = None
        if policy is None or not policy.is_named:
            raise InvalidArgumentError(f"must be one of {', '.join(WhenBusy)}", field="when_busy")
        agent = self._open(agent_url)
        return await agent.sessions.submit(
            Task.of(message),
            session_id,
            thread_id,
            turn_id or new_uuid(),
            when_busy=policy,
            timeout_s=self._client.timeout,
        )

    async def stream(
        self, session_id: str, turn: Turn | str, *, deltas: bool = False, agent_url: str | None = None
    ) -> AsyncGenerator[RunEvent, None]:
        """Yield the events of a turn, also of one that has not started, until it has ended.

        The stream is resumed after an interruption; each event is yielded exactly once.

        Args:
            turn: The turn or its id.
            deltas: As in `AgentClient.subscribe`.

        Raises:
            SessionNotFoundError, TurnNotFoundError: The caller has no such session, or it has no such turn.
        """
        sessions, turn_id = self._open(agent_url).sessions, _id_of(turn)

        def open_stream(after: int) -> AsyncGenerator[list[RunEvent], None]:
            return sessions.stream(session_id, turn_id, after, deltas=deltas)

        resumed = resumed_batches(open_stream, after=None, ends=SETTLED, outage_s=self._client.outage_s)
        async with aclosing(resumed) as batches:
            async for events in batches:
                for event in events:
                    yield event

    async def interrupt(
        self,
        session_id: str,
        *,
        thread_id: str = DEFAULT_THREAD,
        turn: Turn | str = "",
        reason: str = "",
        clear_queue: bool = False,
        agent_url: str | None = None,
    ) -> tuple[Turn, ...]:
        """Cancel the active turns of a thread and its task that waits for input, or one turn.

        Args:
            turn: Only this turn, active or queued; `thread_id` and `clear_queue` have no effect.
            reason: For people, at most 1000 characters.
            clear_queue: Also remove the queued turns of the thread.

        Returns:
            The turns that were open, after the call; empty if there was nothing to interrupt.

        Raises:
            SessionNotFoundError, ThreadNotFoundError, TurnNotFoundError: The caller has no such session, or it has no such thread
                or turn.
        """
        agent, turn_id = self._open(agent_url), _id_of(turn)
        return await agent.sessions.interrupt(
            session_id, thread_id, turn_id, reason, self._client.timeout, clear_queue=clear_queue
        )

    async def promote(self, session_id: str, turn: Turn | str, *, agent_url: str | None = None) -> Turn:
        """Put a queued turn at the front of its thread's queue.

        Raises:
            TurnNotQueuedError: The turn has started or ended.
            SessionNotFoundError, TurnNotFoundError: The caller has no such session, or it has no such turn.
        """
        agent, turn_id = self._open(agent_url), _id_of(turn)
        return await agent.sessions.promote(session_id, turn_id, self._client.timeout)

    async def remove(self, session_id: str, turn: Turn | str, *, agent_url: str | None = None) -> Turn:
        """Remove a turn from the queue: its task is canceled. Raises as `promote`."""
        agent, turn_id = self._open(agent_url), _id_of(turn)
        return await agent.sessions.remove(session_id, turn_id, self._client.timeout)

    async def replace_input(
        self,
        session_id: str,
        turn: Turn | str,
        message: Message | str | Sequence[Message],
        *,
        agent_url: str | None = None,
    ) -> Turn:
        """Replace the input of a queued turn. Raises as `promote`.

        Args:
            message: The new input: one message or several.
        """
        agent, turn_id = self._open(agent_url), _id_of(turn)
        given = [Message.user(message)] if isinstance(message, str) else message
        messages = [given] if isinstance(given, Message) else given
        return await agent.sessions.replace_input(session_id, turn_id, messages, self._client.timeout)

    async def roll_back(
        self, session_id: str, turn: Turn | str, *, reason: str = "", agent_url: str | None = None
    ) -> Thread:
        """Take a turn and all later ones out of the conversation of their thread, and return the thread.

        Active turns among them are canceled, and queued turns stay in the queue. Nothing is deleted: `Turn.rolled_back` marks the
        turns. Repeating the call changes nothing.

        Args:
            reason: For people, at most 1000 characters.

        Raises:
            SessionNotFoundError, TurnNotFoundError: The caller has no such session, or it has no such turn.
            InvalidArgumentError: The turn is in the queue: `remove` it.
            ResourceExhaustedError: The thread was rolled back 1000 times.
        """
        agent, turn_id = self._open(agent_url), _id_of(turn)
        thread, _ = await agent.sessions.roll_back(session_id, turn_id, reason, self._client.timeout)
        return thread

    async def resume(
        self,
        session_id: str,
        *,
        thread_id: str = DEFAULT_THREAD,
        reason: str = "",
        agent_url: str | None = None,
    ) -> ThreadResumption:
        """End the pauses of the active turns of a thread, and return what the thread still waits for.

        A thread continues by itself after a restart of the agent.

        Args:
            reason: For people, at most 1000 characters.

        Raises:
            SessionNotFoundError, ThreadNotFoundError: The caller has no such session, or it has no such thread.
        """
        agent = self._open(agent_url)
        return await agent.sessions.resume(session_id, thread_id, reason, self._client.timeout)

    async def subscribe(
        self, session_id: str, *, after: int = 0, agent_url: str | None = None
    ) -> AsyncGenerator[SessionItem, None]:
        """Yield everything that happens in a session: its own events and those of all its tasks, in the order of their commits.

        The stream does not end by itself. It is resumed after an interruption; each event is yielded exactly once.

        Args:
            after: Position of the last event that the caller has; 0 means from the beginning.

        Raises:
            SessionNotFoundError: The caller has no such session.
            SequenceOutOfRangeError: The session has no event at `after`.
        """
        sessions, references = self._open(agent_url).sessions, dict[str, References]()
        resumed = resumed_items(
            lambda position: sessions.watch(session_id, position),
            lambda item: item.position,
            after=after,
            outage_s=self._client.outage_s,
        )
        async with aclosing(resumed) as items:
            async for item in items:
                yield _restore(item, references)

    async def runtime_events(
        self, session_id: str, *, after: int = 0, stop_at_end: bool = False, agent_url: str | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a session as JSON objects of the Agent Runtime contract. See `subscribe`.

        Args:
            after: `sequence` of the last event that the caller has; 0 means from the beginning.
            stop_at_end: End after the last event that exists now.

        Raises:
            SessionNotFoundError: The caller has no such session.
            SequenceOutOfRangeError: The session has not reached `after`.
        """
        sessions = self._open(agent_url).sessions
        resumed = resumed_items(
            lambda sequence: sessions.runtime_events(session_id, sequence, stop_at_end=stop_at_end),
            lambda event: int(event["sequence"]),
            after=after,
            outage_s=self._client.outage_s,
        )
        async with aclosing(resumed) as events:
            async for event in events:
                yield event


def _id_of(turn: Turn | str) -> str:
    return turn.turn_id if isinstance(turn, Turn) else turn


def _restore(item: SessionItem, references: dict[str, References]) -> SessionItem:
    """Return the item with the values that its event refers to: each is in an earlier event of the same task."""
    event = item.event
    if not isinstance(event, RunEvent):
        return item
    known = references.get(event.task_id) or references.setdefault(event.task_id, References())
    if event.state in TERMINAL:
        del references[event.task_id]
    return SessionItem(item.position, known.whole(event))
