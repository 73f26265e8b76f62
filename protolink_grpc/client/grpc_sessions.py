"""The sessions of agents of this package over gRPC, or over another channel that carries the same services."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from plgrpc.v1 import agent_service_pb2, session_service_pb2_grpc
from plgrpc.v1 import session_service_pb2 as pb

from protolink_grpc.client.channel import RpcService, call_stream, typed_errors
from protolink_grpc.errors import UnavailableError
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.lifecycle import SETTLED
from protolink_grpc.models.message import Message
from protolink_grpc.models.session import (
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
from protolink_grpc.wire.events import delta_from_pb, event_from_pb
from protolink_grpc.wire.scalars import json_object_to_pb
from protolink_grpc.wire.sessions import (
    DELETED,
    RESUMPTION,
    SESSION,
    THREAD,
    TURN,
    WHEN_BUSY,
    items_from_pb,
    runtime_event_from_pb,
)
from protolink_grpc.wire.tasks import MESSAGE, input_to_pb


class RpcSessions(RpcService):
    """The sessions of an agent at an address."""

    stub_class = session_service_pb2_grpc.SessionServiceStub

    async def create(self, session_id: str, title: str, metadata: dict[str, Any], timeout_s: float | None) -> Session:
        request = pb.CreateSessionRequest(session_id=session_id, title=title, metadata_json=json_object_to_pb(metadata))
        return SESSION.from_pb((await self._call("CreateSession", request, timeout_s)).session)

    async def update(
        self,
        session_id: str,
        title: str | None,
        metadata: dict[str, Any] | None,
        archived: bool | None,
        timeout_s: float | None,
    ) -> Session:
        request = pb.UpdateSessionRequest(
            session_id=session_id,
            title=title,
            metadata_json=None if metadata is None else json_object_to_pb(metadata),
            archived=archived,
        )
        response = await self._call("UpdateSession", request, timeout_s, session_id=session_id)
        return SESSION.from_pb(response.session)

    async def delete(self, session_id: str, timeout_s: float | None) -> DeletedSession:
        request = pb.DeleteSessionRequest(session_id=session_id)
        return DELETED.from_pb(await self._call("DeleteSession", request, timeout_s, session_id=session_id))

    async def get(
        self, session_id: str, thread_id: str, page_size: int, page_token: str, timeout_s: float | None
    ) -> SessionPage:
        request = pb.GetSessionRequest(
            session_id=session_id, thread_id=thread_id, page_size=page_size, page_token=page_token
        )
        response = await self._call("GetSession", request, timeout_s, session_id=session_id)
        turns = TURN.all_from_pb(response.turns, "turns")
        return SessionPage(SESSION.from_pb(response.session), tuple(turns), response.next_page_token)

    async def find(
        self, page_size: int, page_token: str, timeout_s: float | None, *, include_archived: bool
    ) -> SessionList:
        request = pb.ListSessionsRequest(page_size=page_size, page_token=page_token, include_archived=include_archived)
        response = await self._call("ListSessions", request, timeout_s)
        return SessionList(tuple(SESSION.all_from_pb(response.sessions, "sessions")), response.next_page_token)

    async def start_thread(
        self,
        session_id: str,
        thread_id: str,
        title: str,
        timeout_s: float | None,
        *,
        from_thread: str,
        from_turn: str,
    ) -> Thread:
        request = pb.StartThreadRequest(
            session_id=session_id,
            thread_id=thread_id,
            title=title,
            from_thread_id=from_thread,
            from_turn_id=from_turn,
        )
        response = await self._call("StartThread", request, timeout_s, session_id=session_id)
        return THREAD.from_pb(response.thread)

    async def submit(
        self,
        task: Task,
        session_id: str,
        thread_id: str,
        turn_id: str,
        *,
        when_busy: WhenBusy,
        timeout_s: float | None,
    ) -> Turn:
        given = input_to_pb(task, 0)  # type: ignore[arg-type]  # unset: the server chooses the task
        given.ClearField("task_id")
        given.ClearField("session_id")
        request = pb.SubmitTurnRequest(
            session_id=session_id,
            thread_id=thread_id,
            turn_id=turn_id,
            input=given,
            when_busy=WHEN_BUSY[when_busy],
        )
        about = {"session_id": session_id, "turn_id": turn_id}
        response = await self._call("SubmitTurn", request, timeout_s, **about)
        return TURN.from_pb(response.turn)

    async def stream(
        self, session_id: str, turn_id: str, after: int, *, deltas: bool
    ) -> AsyncGenerator[list[RunEvent], None]:
        mode = agent_service_pb2.DELTA_MODE_ALL if deltas else agent_service_pb2.DELTA_MODE_NONE
        request = pb.StreamTurnRequest(session_id=session_id, turn_id=turn_id, after_sequence=after, deltas=mode)
        stream = call_stream(self._stub.StreamTurn, request, self._address, self._options, None)
        ended = False
        async with typed_errors(self._address, session_id=session_id), aclosing(stream) as responses:
            async for response in responses:
                events = [event_from_pb(each) for each in response.events]
                ended = events[-1].state in SETTLED if events else ended
                if found := events + [delta_from_pb(each) for each in response.deltas]:
                    yield found
        if not ended:
            raise self._incomplete_stream_error()

    async def interrupt(
        self,
        session_id: str,
        thread_id: str,
        turn_id: str,
        reason: str,
        timeout_s: float | None,
        *,
        clear_queue: bool,
    ) -> tuple[Turn, ...]:
        request = pb.InterruptTurnRequest(
            session_id=session_id, thread_id=thread_id, turn_id=turn_id, reason=reason, clear_queue=clear_queue
        )
        response = await self._call("InterruptTurn", request, timeout_s, session_id=session_id)
        return tuple(TURN.all_from_pb(response.turns, "turns"))

    async def promote(self, session_id: str, turn_id: str, timeout_s: float | None) -> Turn:
        request = pb.PromoteQueuedTurnRequest(session_id=session_id, turn_id=turn_id)
        response = await self._call("PromoteQueuedTurn", request, timeout_s, session_id=session_id)
        return TURN.from_pb(response.turn)

    async def remove(self, session_id: str, turn_id: str, timeout_s: float | None) -> Turn:
        request = pb.RemoveQueuedTurnRequest(session_id=session_id, turn_id=turn_id)
        response = await self._call("RemoveQueuedTurn", request, timeout_s, session_id=session_id)
        return TURN.from_pb(response.turn)

    async def replace_input(
        self, session_id: str, turn_id: str, messages: Sequence[Message], timeout_s: float | None
    ) -> Turn:
        request = pb.UpdateQueuedTurnRequest(
            session_id=session_id, turn_id=turn_id, messages=[MESSAGE.to_pb(each) for each in messages]
        )
        response = await self._call("UpdateQueuedTurn", request, timeout_s, session_id=session_id)
        return TURN.from_pb(response.turn)

    async def roll_back(
        self, session_id: str, turn_id: str, reason: str, timeout_s: float | None
    ) -> tuple[Thread, int]:
        request = pb.RollbackThreadRequest(session_id=session_id, turn_id=turn_id, reason=reason)
        response = await self._call("RollbackThread", request, timeout_s, session_id=session_id)
        return THREAD.from_pb(response.thread), response.turn_count

    async def resume(self, session_id: str, thread_id: str, reason: str, timeout_s: float | None) -> ThreadResumption:
        request = pb.ResumeThreadRequest(session_id=session_id, thread_id=thread_id, reason=reason)
        return RESUMPTION.from_pb(await self._call("ResumeThread", request, timeout_s, session_id=session_id))

    async def watch(self, session_id: str, after: int) -> AsyncGenerator[list[SessionItem], None]:
        request = pb.SubscribeSessionRequest(session_id=session_id, after_position=after)
        stream = call_stream(self._stub.SubscribeSession, request, self._address, self._options, None)
        async with typed_errors(self._address, session_id=session_id), aclosing(stream) as responses:
            async for response in responses:
                if items := items_from_pb(response):
                    yield items
        raise self._incomplete_stream_error()  # this stream has no regular end

    async def runtime_events(
        self, session_id: str, after: int, *, stop_at_end: bool
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        request = pb.StreamRuntimeEventsRequest(session_id=session_id, after_sequence=after, stop_at_end=stop_at_end)
        stream = call_stream(self._stub.StreamRuntimeEvents, request, self._address, self._options, None)
        async with typed_errors(self._address, session_id=session_id), aclosing(stream) as responses:
            async for response in responses:
                yield [runtime_event_from_pb(each) for each in response.events]
        if not stop_at_end:
            raise self._incomplete_stream_error()

    def _incomplete_stream_error(self) -> UnavailableError:
        url = self._address.url
        return UnavailableError(f"{url} ended a stream too early", url=url)
