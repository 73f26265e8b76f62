"""The methods of services as routes of the HTTP port: one route for each method, whose protocol the content type selects.

Authentication, bounds, deadlines, streams and errors are the same in all protocols. Errors of the HTTP request itself, such as an
unknown content type, are answered as everywhere on this port.
"""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from functools import partial

from google.rpc import status_pb2
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from protolink_grpc.edges.grpc.binding import Procedure
from protolink_grpc.edges.http.call_format import CallFormat, Deadline
from protolink_grpc.edges.http.connect import connect_formats
from protolink_grpc.edges.http.grpc_web import GrpcWeb
from protolink_grpc.edges.http.json_body import media_type
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import Batches, OpenStreams, StreamFormat, open_stream
from protolink_grpc.errors import ContentTypeNotSupportedError, UnavailableError
from protolink_grpc.net.internal_errors import public_error
from protolink_grpc.net.response_headers import ResponseHeaders


def procedure_routes(guard: RequestGuard, streams: OpenStreams, procedures: Iterable[Procedure]) -> list[BaseRoute]:
    """Create a route for each method, over gRPC-Web and Connect."""
    web = GrpcWeb()
    unary, stream = connect_formats(guard.bounds.max_complexity)
    routes = [_MethodRoute(guard, streams, each, [web, *(stream if each.has_stream else unary)]) for each in procedures]
    return [Route(each.path, each.respond, methods=["POST"]) for each in routes]


class _MethodRoute:
    """The route of one method."""

    def __init__(
        self, guard: RequestGuard, streams: OpenStreams, procedure: Procedure, formats: Sequence[CallFormat]
    ) -> None:
        self.path = procedure.name
        self._guard = guard
        self._streams = streams
        self._procedure = procedure
        self._formats = {kind: each for each in formats for kind in each.media_types}
        stopping = procedure.to_status(UnavailableError("the server is shutting down: reconnect and resume"))
        self._stream_formats = {
            each: StreamFormat(each.media_type, b"", each.pack_end(stopping, {}), is_last=each.is_end)
            for each in formats
        }

    async def respond(self, request: Request) -> Response:
        given = media_type(request.headers.get("content-type"))
        call_format = self._formats.get(given)
        if call_format is None:
            accepted = ", ".join(self._formats)
            raise ContentTypeNotSupportedError(f"this method accepts {accepted}", media_type=given[:100])
        headers = ResponseHeaders()
        try:
            return await self._call(request, call_format, headers)
        except ClientDisconnect:
            raise
        except Exception as error:
            return call_format.error_response(self._status(error), headers.begin())

    async def _call(self, request: Request, call_format: CallFormat, headers: ResponseHeaders) -> Response:
        guard, procedure = self._guard, self._procedure
        principal = await guard.principal(request, procedure.name)
        deadline = call_format.read_headers(request.headers)
        body = await guard.body(request)
        responses = procedure.responses(
            call_format.unpack_stream(body) if procedure.reads_stream else call_format.unpack(body),
            principal,
            request.headers,
            authenticated=not guard.is_open,
            codec=call_format.codec,
            response_headers=headers,
        )
        parts = _pack_responses(call_format, responses, deadline, headers)
        if procedure.has_stream:
            slot = guard.stream_quota.take(principal)
            error_frame = partial(self._error_frame, call_format, headers)
            stream_format = self._stream_formats[call_format]
            return await open_stream(
                request, parts, self._streams, error_frame, slot, stream_format=stream_format, headers=headers
            )
        with guard.bounded_wait(request):
            body = b"".join([each async for each in parts])
        return Response(body, 200, headers.begin(), call_format.media_type)

    def _error_frame(self, call_format: CallFormat, headers: ResponseHeaders, error: Exception) -> bytes:
        return call_format.pack_end(self._status(error), headers.trailers)

    def _status(self, error: Exception) -> status_pb2.Status:
        return self._procedure.to_status(public_error(error, self._procedure.name))


async def _pack_responses(
    call_format: CallFormat, responses: Batches, deadline: Deadline, headers: ResponseHeaders
) -> Batches:
    """Yield the parts of the body of a response: its messages and its end."""
    async with aclosing(responses):
        while (message := await deadline.before(anext(responses, None))) is not None:
            yield call_format.pack(message)
    yield call_format.pack_end(status_pb2.Status(), headers.trailers)
