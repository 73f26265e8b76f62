"""ProtoLink's protocol over HTTP and server-sent events: a route for each operation.

There are three differences from ProtoLink 0.8.3, which do not affect its clients: errors have a matching status and a JSON body,
request bodies need a JSON content type (so that browsers make a CORS preflight request), and idle streams contain comments.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from math import ceil
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from protolink_grpc.auth.principal import ANONYMOUS_PRINCIPAL
from protolink_grpc.auth.stream_quota import StreamSlot
from protolink_grpc.compat.protolink.edge.events import is_last
from protolink_grpc.compat.protolink.edge.shapes import (
    Fields,
    PublicUrl,
    error_json,
    on_one_line,
)
from protolink_grpc.compat.protolink.edge.verbs import AgentVerbs, Answer, Health, Stream, Verb, VerbCall
from protolink_grpc.compat.protolink.edge.websocket import SocketLimits, socket_route
from protolink_grpc.edges.http.json_body import (
    JSON,
    JsonResponse,
    check_json,
    http_status,
    is_complex,
    read_json,
    write_json,
)
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import SSE, EventStream, OpenStreams, event_frame
from protolink_grpc.errors import (
    ProtolinkError,
    ResourceExhaustedError,
    UnavailableError,
)
from protolink_grpc.models.card import AgentCard
from protolink_grpc.net.internal_errors import public_error
from protolink_grpc.net.trace_context import TRACEPARENT, TRACESTATE
from protolink_grpc.net.tracing import WAITING_RUNS, receive_origin
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.state.control import StateControl

REQUEST_ID = "X-Protolink-Request-ID"
_REQUEST_ID = REQUEST_ID.lower().encode()
MAX_REQUEST_ID = 128
"""Maximum length of a request id that is returned. A longer one is ignored."""


def agent_routes(
    guard: RequestGuard,
    service: TaskService,
    card: Callable[[], AgentCard],
    control: StateControl | None,
    *,
    public_url: PublicUrl,
    streams: OpenStreams | None = None,
    health: Health | None = None,
    public_card: bool = True,
    socket: SocketLimits | None = None,
) -> list[BaseRoute]:
    """Return the routes of an agent for ProtoLink 0.8.3 clients over HTTP, server-sent events, and WebSocket at `/`.

    Args:
        control: The agent's state; None for an agent without state.
        public_url: The `http(s)://` URL in the card.
        streams: The open streams of the server; by default these routes have their own.
        health: Answers `/healthz` and `/readyz`; None means that another component serves them.
        public_card: Whether the card is readable without credentials.
        socket: Limits of the WebSocket; None means the defaults.
    """
    verbs = AgentVerbs(service, card, control, public_url=public_url).table(health, public_card=public_card)
    own = OpenStreams() if streams is None else streams
    return [*routes_of(guard, verbs, own), socket_route(guard, verbs, socket or SocketLimits())]


def routes_of(guard: RequestGuard, verbs: Sequence[Verb], streams: OpenStreams) -> list[BaseRoute]:
    """Create a route for each operation, at exactly its path."""
    return [Route(verb.path, _endpoint(guard, verb, streams), methods=[verb.method]) for verb in verbs]


def _endpoint(guard: RequestGuard, verb: Verb, streams: OpenStreams) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        request_id = _request_id(request)
        try:
            call = await _read_call(guard, verb, request)
            if verb.stream is not None:
                slot = guard.stream_quota.take(call.principal)
                response: Response = _stream_response(verb.stream, call, request_id, streams, slot)
            elif verb.is_work:
                with guard.bounded_wait(request):
                    response = await _answer(verb, call)
            else:
                response = await _answer(verb, call)
        except ClientDisconnect:
            raise  # no response is possible
        except Exception as error:  # every error becomes a status and a JSON body
            response = _error_response(public_error(error, verb.path))
        response.raw_headers.append((_REQUEST_ID, request_id.encode()))
        return response

    return endpoint


async def _read_call(guard: RequestGuard, verb: Verb, request: Request) -> VerbCall:
    principal = ANONYMOUS_PRINCIPAL if verb.is_open else await guard.principal(request, verb.rpc)
    params: Fields = {}
    if request.scope["query_string"]:
        query = request.query_params
        params = {key: found[0] if len(found := query.getlist(key)) == 1 else found for key in query}
    raw = b""
    if verb.method != "GET":
        check_json(request)
        raw = await guard.body(request)
    headers = request.headers
    receive_origin(headers.get(WAITING_RUNS, ""), headers.get(TRACEPARENT, ""), ",".join(headers.getlist(TRACESTATE)))
    data = await read_json(raw, max_complexity=guard.bounds.max_complexity) if raw else None
    return VerbCall(principal, data, params, request.headers.get("idempotency-key", ""), is_complex=is_complex(raw))


async def _answer(verb: Verb, call: VerbCall) -> Response:
    answer: Answer | None = verb.answer
    if answer is None:
        raise TypeError(f"{verb.path} has no answer")
    if verb.media == "html":
        return Response(await answer(call), media_type="text/html")
    return JsonResponse(write_json(await answer(call)))


def _stream_response(
    stream: Stream, call: VerbCall, request_id: str, streams: OpenStreams, slot: StreamSlot
) -> Response:
    """Return the stream with status 200, even if it fails at once, because the 0.8.3 client does not read other responses."""

    def error_frame(error: Exception) -> bytes:
        reason = error_json(public_error(error, "/tasks/stream"))
        return _sse_frame(request_id, {"ok": False, "error": reason, "final": True})

    shutdown = error_frame(UnavailableError("the server is shutting down; the task continues"))
    stream_format = replace(SSE, shutdown=shutdown)
    batches = _frames(stream(call), request_id)
    return EventStream(b"", batches, streams, error_frame, stream_format=stream_format, slot=slot)


async def _frames(batches: AsyncGenerator[list[Fields], None], request_id: str) -> AsyncGenerator[bytes, None]:
    async with aclosing(batches):
        async for events in batches:
            frames = [_sse_frame(request_id, {"ok": True, "result": each, "final": is_last(each)}) for each in events]
            yield b"".join(frames)


def _sse_frame(request_id: str, rest: Fields) -> bytes:
    return event_frame(on_one_line(write_json({"jsonrpc": "2.0", "id": request_id or None, **rest})))


def _error_response(error: ProtolinkError) -> Response:
    body = write_json({"error": str(error), "reason": error.reason})
    response = Response(body, http_status(error), media_type=JSON)
    if isinstance(error, ResourceExhaustedError):
        response.headers["Retry-After"] = str(ceil(error.retry_after_s))
    return response


def _request_id(request: Request) -> str:
    """Return the request id for the response; empty if the request has none, or an invalid one."""
    found = request.headers.get(REQUEST_ID, "")
    return found if len(found) <= MAX_REQUEST_ID and found.isascii() and found.isprintable() else ""
