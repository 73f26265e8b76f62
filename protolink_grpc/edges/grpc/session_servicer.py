"""SessionService over gRPC: converts requests, calls the runtime, converts results."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing

from plgrpc.v1 import session_service_pb2 as pb
from plgrpc.v1 import session_service_pb2_grpc

from protolink_grpc.edges.grpc import convert
from protolink_grpc.edges.grpc.call import Context, caller, caller_scopes
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.models.session import DEFAULT_THREAD, SessionItem, WhenBusy
from protolink_grpc.net.page_tokens import (
    PAGE_BYTES,
    cursor_from_token,
    page_size_of,
    position_from_token,
    token_from_cursor,
    token_from_position,
)
from protolink_grpc.reports import SessionExport
from protolink_grpc.reports.export import check_cursor, convert_session, last_position
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.wire.bounds import is_small, run_in_thread
from protolink_grpc.wire.scalars import json_object_from_pb
from protolink_grpc.wire.sessions import DELETED, RESUMPTION, SESSION, THREAD, TURN, WHEN_BUSY, runtime_event_to_pb
from protolink_grpc.wire.tasks import check_id, encoded_messages_from_pb

TURN_BYTES = 512
"""Maximum encoded size of a turn without its reason. Measuring each turn would take as long as its conversion."""

_SET_BY_SERVER = ("task_id", "target", "expected_sequence", "session_id")
"""Fields of the input that SubmitTurn sets itself."""


class SessionServicer(session_service_pb2_grpc.SessionServiceServicer):
    """SessionService of one agent.

    Args:
        agent_name: Returns the name of the agent.
        redaction: Removes secrets from events of the Agent Runtime contract, as in exports of tasks.
    """

    def __init__(
        self,
        service: TaskService,
        agent_name: Callable[[], str],
        redaction: RedactionPolicy = DEFAULT_REDACTION_POLICY,
    ) -> None:
        self._sessions = service.sessions
        self._agent_name = agent_name
        self._redaction = redaction

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        session = await self._sessions.create(
            caller(),
            check_id(request.session_id, "session_id"),
            title=request.title,
            metadata=json_object_from_pb(request.metadata_json, "metadata_json"),
        )
        return pb.CreateSessionResponse(session=SESSION.to_pb(session))

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        metadata = None
        if request.HasField("metadata_json"):
            metadata = json_object_from_pb(request.metadata_json, "metadata_json")
        session = await self._sessions.update(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            title=request.title if request.HasField("title") else None,
            metadata=metadata,
            archived=request.archived if request.HasField("archived") else None,
        )
        return pb.UpdateSessionResponse(session=SESSION.to_pb(session))

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        session, turns, more = await self._sessions.get(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            thread_id=check_id(request.thread_id, "thread_id"),
            before=position_from_token(request.page_token),
            limit=page_size_of(request.page_size),
        )
        count = _fitting(TURN_BYTES + 4 * len(each.reason) for each in reversed(turns))
        if count < len(turns):
            turns = turns[-count:]
            more = turns[0].position
        return pb.GetSessionResponse(
            session=SESSION.to_pb(session), turns=map(TURN.to_pb, turns), next_page_token=token_from_position(more)
        )

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        found, following = await self._sessions.find(
            caller(),
            after=cursor_from_token(request.page_token),
            limit=page_size_of(request.page_size),
            include_archived=request.include_archived,
        )
        sessions = [SESSION.to_pb(each) for each in found]
        count = _fitting(each.ByteSize() for each in sessions)
        if count < len(sessions):
            last = found[count - 1]
            following = (micros_from_iso(last.updated_at or ""), last.session_id)
        return pb.ListSessionsResponse(sessions=sessions[:count], next_page_token=token_from_cursor(following))

    async def StartThread(self, request: pb.StartThreadRequest, context: Context) -> pb.StartThreadResponse:
        thread = await self._sessions.start_thread(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            check_id(request.thread_id, "thread_id"),
            title=request.title,
            from_thread=check_id(request.from_thread_id, "from_thread_id"),
            from_turn=check_id(request.from_turn_id, "from_turn_id"),
        )
        return pb.StartThreadResponse(thread=THREAD.to_pb(thread))

    async def SubmitTurn(self, request: pb.SubmitTurnRequest, context: Context) -> pb.SubmitTurnResponse:
        turn = await self._sessions.submit(
            await _read_submission(request),
            caller(),
            convert.require_id(request.session_id, "session_id"),
            thread_id=check_id(request.thread_id, "thread_id") or DEFAULT_THREAD,
            turn_id=check_id(request.turn_id, "turn_id"),
            when_busy=WHEN_BUSY.read_request(request.when_busy, "when_busy") if request.when_busy else WhenBusy.ENQUEUE,
        )
        return pb.SubmitTurnResponse(turn=TURN.to_pb(turn))

    async def StreamTurn(  # type: ignore[override]  # bytes: encoded responses, as those of AgentServicer
        self, request: pb.StreamTurnRequest, context: Context
    ) -> AsyncIterator[bytes]:
        deltas = convert.deltas_from_pb(request.deltas)
        stream = self._sessions.stream(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            convert.require_id(request.turn_id, "turn_id"),
            after=request.after_sequence,
            deltas=deltas,
            positions=True,
        )
        async with aclosing(stream) as batches:
            async for frames in batches:
                yield b"".join(frames)

    async def InterruptTurn(self, request: pb.InterruptTurnRequest, context: Context) -> pb.InterruptTurnResponse:
        turns = await self._sessions.interrupt(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            thread_id=check_id(request.thread_id, "thread_id") or DEFAULT_THREAD,
            turn_id=check_id(request.turn_id, "turn_id"),
            reason=request.reason,
            clear_queue=request.clear_queue,
        )
        return pb.InterruptTurnResponse(turns=map(TURN.to_pb, turns))

    async def PromoteQueuedTurn(
        self, request: pb.PromoteQueuedTurnRequest, context: Context
    ) -> pb.PromoteQueuedTurnResponse:
        turn = await self._sessions.promote(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            convert.require_id(request.turn_id, "turn_id"),
        )
        return pb.PromoteQueuedTurnResponse(turn=TURN.to_pb(turn))

    async def RemoveQueuedTurn(
        self, request: pb.RemoveQueuedTurnRequest, context: Context
    ) -> pb.RemoveQueuedTurnResponse:
        turn = await self._sessions.remove(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            convert.require_id(request.turn_id, "turn_id"),
        )
        return pb.RemoveQueuedTurnResponse(turn=TURN.to_pb(turn))

    async def SubscribeSession(  # type: ignore[override]  # as StreamTurn
        self, request: pb.SubscribeSessionRequest, context: Context
    ) -> AsyncIterator[bytes]:
        session_id = convert.require_id(request.session_id, "session_id")
        async with aclosing(self._sessions.watch(caller(), session_id, after=request.after_position)) as bodies:
            async for body in bodies:
                yield body

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        deleted = await self._sessions.delete(caller(), convert.require_id(request.session_id, "session_id"))
        return DELETED.to_pb(deleted)

    async def UpdateQueuedTurn(
        self, request: pb.UpdateQueuedTurnRequest, context: Context
    ) -> pb.UpdateQueuedTurnResponse:
        turn = await self._sessions.replace_input(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            convert.require_id(request.turn_id, "turn_id"),
            encoded_messages_from_pb(request.messages, "messages")[0],
        )
        return pb.UpdateQueuedTurnResponse(turn=TURN.to_pb(turn))

    async def RollbackThread(self, request: pb.RollbackThreadRequest, context: Context) -> pb.RollbackThreadResponse:
        thread, count = await self._sessions.roll_back(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            convert.require_id(request.turn_id, "turn_id"),
            reason=request.reason,
        )
        return pb.RollbackThreadResponse(thread=THREAD.to_pb(thread), turn_count=count)

    async def ResumeThread(self, request: pb.ResumeThreadRequest, context: Context) -> pb.ResumeThreadResponse:
        found = await self._sessions.resume(
            caller(),
            convert.require_id(request.session_id, "session_id"),
            check_id(request.thread_id, "thread_id") or DEFAULT_THREAD,
            reason=request.reason,
        )
        return RESUMPTION.to_pb(found)

    async def StreamRuntimeEvents(
        self, request: pb.StreamRuntimeEventsRequest, context: Context
    ) -> AsyncIterator[pb.StreamRuntimeEventsResponse]:
        session_id, principal = convert.require_id(request.session_id, "session_id"), caller()
        session, _, _ = await self._sessions.get(principal, session_id, limit=1)
        check_cursor(request.after_sequence, session)
        after = request.after_sequence
        quiet = await self._sessions.quiet_position(principal, session_id, last_position(after))
        export = SessionExport(session_id, self._agent_name(), after, self._redaction, quiet)

        def encode(items: list[SessionItem]) -> list[pb.RuntimeEvent]:
            return [runtime_event_to_pb(each) for each in export.records(items)]

        def watch(position: int) -> AsyncGenerator[bytes, None]:
            return self._sessions.watch(principal, session_id, after=position)

        converted = convert_session(export, watch, encode, stop_at_end=request.stop_at_end)
        async with aclosing(converted) as batches:
            async for events in batches:
                for piece in _pieces(events):
                    yield pb.StreamRuntimeEventsResponse(events=piece)


def _pieces(events: list[pb.RuntimeEvent]) -> Iterator[list[pb.RuntimeEvent]]:
    """Split events into responses of up to `PAGE_BYTES`; a larger one comes alone."""
    while events:
        count = _fitting(each.ByteSize() for each in events)
        yield events[:count]
        events = events[count:]


def _fitting(sizes: Iterable[int]) -> int:
    """Return how many of the first items fit into a page of `PAGE_BYTES`: at least one, if there is one."""
    count = total = 0
    for size in sizes:
        total += size
        if count and total > PAGE_BYTES:
            break
        count += 1
    return count


async def _read_submission(request: pb.SubmitTurnRequest) -> Submission:
    """Return the submission of a turn, with the caller's scopes. A large request is converted in a thread."""
    for name in _SET_BY_SERVER:
        if getattr(request.input, name):
            raise InvalidArgumentError("is chosen by the server", field=f"input.{name}")
    read = convert.submission_from_input
    submission = read(request.input) if is_small(request) else await run_in_thread(read, request.input)
    submission.scopes = caller_scopes()
    return submission
