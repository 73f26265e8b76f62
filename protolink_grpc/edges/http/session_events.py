"""The events of a session in the format of the Agent Runtime contract, as server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from protolink_grpc.edges.http.json_body import write_json
from protolink_grpc.edges.http.middleware import error_response
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import Batches, OpenStreams, event_frame, last_event_id, open_stream
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.session import SessionItem
from protolink_grpc.reports import SessionExport
from protolink_grpc.reports.export import check_cursor, convert_session, last_position
from protolink_grpc.runtime.service import TaskService

PATH = "/runtime/v1/sessions/{session_id:path}/events"
"""An id may have slashes."""

METHOD = "/plgrpc.v1.SessionService/SubscribeSession"
"""The method for access rules: the RPC that has the same events."""


class SessionEvents:
    """The route of one agent. The id of a server-sent event is the `sequence` of its record.

    Args:
        redaction: Removes secrets, as in exports of tasks.
    """

    def __init__(
        self,
        guard: RequestGuard,
        service: TaskService,
        streams: OpenStreams,
        agent_name: str,
        redaction: RedactionPolicy,
    ) -> None:
        self._guard = guard
        self._sessions = service.sessions
        self._streams = streams
        self._agent_name = agent_name
        self._redaction = redaction

    def routes(self) -> list[BaseRoute]:
        return [Route(PATH, self._respond, methods=["GET"])]

    async def _respond(self, request: Request) -> Response:
        principal = await self._guard.principal(request, METHOD)
        session_id, after = str(request.path_params["session_id"]), last_event_id(request) or 0
        session, _, _ = await self._sessions.get(principal.name, session_id, limit=1)
        check_cursor(after, session)
        quiet = await self._sessions.quiet_position(principal.name, session_id, last_position(after))
        export = SessionExport(session_id, self._agent_name, after, self._redaction, quiet)
        slot = self._guard.stream_quota.take(principal)
        return await open_stream(
            request, self._frames(principal.name, session_id, export), self._streams, _error_frame, slot
        )

    async def _frames(self, principal: str, session_id: str, export: SessionExport) -> Batches:
        def encode(items: list[SessionItem]) -> bytes:
            return b"".join(event_frame(line.encode(), sequence) for sequence, line in export.lines(items))

        def watch(position: int) -> AsyncGenerator[bytes, None]:
            return self._sessions.watch(principal, session_id, after=position)

        start = b":\n\n"  # so that the response begins at once, even if the reader has all records
        async with aclosing(convert_session(export, watch, encode)) as batches:
            async for frames in batches:
                if start or frames:
                    yield start + frames
                start = b""


def _error_frame(error: Exception) -> bytes:
    return b"event: error\ndata: %b\n\n" % write_json(error_response(error, PATH)[1])
