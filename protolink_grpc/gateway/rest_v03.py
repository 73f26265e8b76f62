"""A2A v0.3's REST paths, under `/v1`, mounted from the table that says what they do."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.v03.rest import RestRoute, rest_v03
from protolink_grpc.a2a.v03.terms import rest_error_json
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.gateway.door import Door
from protolink_grpc.gateway.json_body import JSON, check_json, read_object, write_json
from protolink_grpc.gateway.jsonrpc import SERVICE_V03, last_event_id
from protolink_grpc.gateway.rest import error_response, one_route_a_path, query_of
from protolink_grpc.gateway.sse import Batches, OpenStreams, frame, opened
from protolink_grpc.wire.incidents import answerable

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
"""The RPC of each path: access rules know it by that name."""


def routes_v03(door: Door, operations: Operations, streams: OpenStreams) -> list[BaseRoute]:
    """The paths of v0.3, in the order in which they must be tried."""
    return one_route_a_path(
        (route.path, route.method, _endpoint(door, streams, route)) for route in rest_v03(operations)
    )


def _endpoint(door: Door, streams: OpenStreams, route: RestRoute) -> Callable[[Request], Awaitable[Response]]:
    name = SERVICE_V03 + _NAMES[route.method, route.path]
    waits = _NAMES[route.method, route.path] == "SendMessage"
    needs_no_body = route.path.endswith((":cancel", ":subscribe"))

    async def endpoint(request: Request) -> Response:
        try:
            asked = await door.asked(request, name)
            query = query_of(request)
            body: dict[str, Any] = {}
            if route.method == "POST":
                check_json(request)
                most = door.bounds.max_complexity
                body = await read_object(await door.body(request), max_complexity=most, may_be_null=needs_no_body)
            events = None
            if route.resume is not None:
                events = route.resume(asked, request.path_params, query, body, last_event_id(request))
            elif route.stream is not None:
                events = route.stream(asked, request.path_params, query, body)
            if events is not None:
                return await opened(request, _frames(events), streams, _failed, door.shares.take(asked.principal))
            if route.answer is None:
                raise LookupError(route.path)
            with door.waiting(request) if waits else nullcontext():
                answer = await route.answer(asked, request.path_params, query, body)
            return Response(write_json(answer), 200, None, JSON)
        except ProtolinkError as error:
            return error_response(request, error, rest_error_json)
        except ClientDisconnect:
            raise  # nobody is left to answer, and it is no fault of ours
        except Exception as error:
            return error_response(request, answerable(error, name), rest_error_json)

    return endpoint


def _failed(error: Exception) -> bytes:
    return b"event: error\n" + frame(write_json(rest_error_json(answerable(error, "stream"))))


async def _frames(events: AsyncGenerator[list[tuple[int, dict[str, Any]]], None]) -> Batches:
    async with aclosing(events) as batches:
        async for batch in batches:
            yield b"".join([frame(write_json(event), sequence) for sequence, event in batch])
