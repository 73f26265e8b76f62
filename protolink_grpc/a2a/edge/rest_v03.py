"""The REST paths of A2A v0.3, under `/v1`. The table of routes is in `v03.rest`."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from protolink_grpc.a2a.edge.caller import identify_caller
from protolink_grpc.a2a.edge.jsonrpc import SERVICE_V03
from protolink_grpc.a2a.edge.rest import error_response, merge_routes, read_query
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.v03.rest import RestRoute, rest_v03
from protolink_grpc.a2a.v03.terms import rest_error_json
from protolink_grpc.edges.http.json_body import JSON, check_json, read_object, write_json
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import Batches, OpenStreams, event_frame, last_event_id, open_stream
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.net.internal_errors import public_error

_NAMES: Final = {
    ("POST", "/v1/message:send"): "SendMessage",
    ("POST", "/v1/message:stream"): "SendStreamingMessage",
    ("POST", "/v1/tasks/{id}:cancel"): "CancelTask",
    ("GET", "/v1/tasks/{id}:subscribe"): "TaskSubscription",
    ("POST", "/v1/tasks/{id}:subscribe"): "TaskSubscription",
    ("GET", "/v1/tasks/{id}"): "GetTask",
    ("POST", "/v1/tasks/{id}/pushNotificationConfigs"): "CreateTaskPushNotificationConfig",
    ("GET", "/v1/tasks/{id}/pushNotificationConfigs"): "ListTaskPushNotificationConfig",
    ("GET", "/v1/tasks/{id}/pushNotificationConfigs/{config_id}"): "GetTaskPushNotificationConfig",
    ("DELETE", "/v1/tasks/{id}/pushNotificationConfigs/{config_id}"): "DeleteTaskPushNotificationConfig",
    ("GET", "/v1/card"): "GetAgentCard",
}
"""The RPC name of each path; access rules use this name."""


def routes_v03(guard: RequestGuard, operations: Operations, streams: OpenStreams) -> list[BaseRoute]:
    """Return the routes of v0.3, in the order in which they must be matched."""
    return merge_routes((route.path, route.method, _endpoint(guard, streams, route)) for route in rest_v03(operations))


def _endpoint(guard: RequestGuard, streams: OpenStreams, route: RestRoute) -> Callable[[Request], Awaitable[Response]]:
    name = SERVICE_V03 + _NAMES[route.method, route.path]
    waits = _NAMES[route.method, route.path] == "SendMessage"
    needs_no_body = route.path.endswith((":cancel", ":subscribe"))

    async def endpoint(request: Request) -> Response:
        try:
            caller = await identify_caller(guard, request, name)
            query = read_query(request)
            body: dict[str, Any] = {}
            if route.method == "POST":
                check_json(request)
                most = guard.bounds.max_complexity
                body = await read_object(await guard.body(request), max_complexity=most, may_be_null=needs_no_body)
            events = None
            if route.resume is not None:
                events = route.resume(caller, request.path_params, query, body, last_event_id(request))
            elif route.stream is not None:
                events = route.stream(caller, request.path_params, query, body)
            if events is not None:
                return await open_stream(
                    request, _encode_frames(events), streams, _error_frame, guard.stream_quota.take(caller.principal)
                )
            if route.answer is None:
                raise LookupError(route.path)
            with guard.bounded_wait(request) if waits else nullcontext():
                answer = await route.answer(caller, request.path_params, query, body)
            return Response(write_json(answer), 200, None, JSON)
        except ProtolinkError as error:
            return error_response(request, error, rest_error_json)
        except ClientDisconnect:
            raise  # the client has disconnected
        except Exception as error:
            return error_response(request, public_error(error, name), rest_error_json)

    return endpoint


def _error_frame(error: Exception) -> bytes:
    return b"event: error\n" + event_frame(write_json(rest_error_json(public_error(error, "stream"))))


async def _encode_frames(events: AsyncGenerator[list[tuple[int, dict[str, Any]]], None]) -> Batches:
    async with aclosing(events) as batches:
        async for batch in batches:
            yield b"".join([event_frame(write_json(event), sequence) for sequence, event in batch])
