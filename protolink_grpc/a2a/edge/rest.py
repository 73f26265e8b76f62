"""A2A over HTTP+JSON: a path for each operation, with and without a tenant prefix. Source: A2A v1.0.1 section 11."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from protolink_grpc.a2a import json_codec as codec
from protolink_grpc.a2a import json_requests as requests
from protolink_grpc.a2a.card import card_json
from protolink_grpc.a2a.edge.caller import identify_caller
from protolink_grpc.a2a.edge.jsonrpc import SERVICE
from protolink_grpc.a2a.errors import rest_json
from protolink_grpc.a2a.negotiation import check_version
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.values import V1, CallerInfo, Update
from protolink_grpc.edges.http.json_body import (
    A2A_JSON,
    JSON,
    JsonResponse,
    check_json,
    http_status,
    media_type,
    read_object,
    write_json,
)
from protolink_grpc.edges.http.middleware import retry_after_headers
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import Batches, OpenStreams, last_event_id, open_stream
from protolink_grpc.errors import (
    InvalidArgumentError,
    ProtolinkError,
)
from protolink_grpc.net.internal_errors import public_error

Handler = Callable[["Rest", Request, CallerInfo], Awaitable[Any]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Rest:
    """The HTTP+JSON binding of one agent."""

    def __init__(self, guard: RequestGuard, operations: Operations, streams: OpenStreams) -> None:
        self._guard = guard
        self._operations = operations
        self._streams = streams

    def routes(self) -> list[BaseRoute]:
        """Return the routes. Those with a tenant come last, so that a tenant's name cannot hide an operation."""
        return merge_routes(
            (prefix + path, method, self._endpoint(name, handler))
            for prefix in ("", "/{tenant}")
            for path, method, name, handler in _TABLE
        )

    def _endpoint(self, name: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                caller = await identify_caller(self._guard, request, SERVICE + name)
                check_version(caller, V1)
                result = await handler(self, request, caller)
                if isinstance(result, Response):
                    return result
                return JsonResponse(write_json(result), 200, response_type(request))
            except ProtolinkError as error:
                return error_response(request, error)
            except ClientDisconnect:
                raise  # the client has disconnected
            except Exception as error:
                return error_response(request, public_error(error, name))

        return endpoint

    async def _read_body(self, request: Request, *, may_be_null: bool = False) -> dict[str, Any]:
        """Read the body of a POST and add the tenant of its path."""
        check_json(request)
        most = self._guard.bounds.max_complexity
        body = await read_object(await self._guard.body(request), max_complexity=most, may_be_null=may_be_null)
        tenant = request.path_params.get("tenant")
        if tenant:
            if body.get("tenant", tenant) != tenant:
                raise InvalidArgumentError("differs from the path", field="tenant")
            body["tenant"] = tenant
        return body

    async def _send(self, request: Request, caller: CallerInfo) -> Any:
        params = codec.send_params(await self._read_body(request))
        with self._guard.bounded_wait(request):
            return codec.update_json(await self._operations.send(caller, params))

    async def _stream(self, request: Request, caller: CallerInfo) -> Any:
        params = codec.send_params(await self._read_body(request))
        return await self._respond_with_stream(request, caller, self._operations.stream(caller, params))

    async def _get(self, request: Request, caller: CallerInfo) -> Any:
        query = read_query(request)
        given = {"historyLength": query["historyLength"]} if query.get("historyLength") else {}
        _, _, length = requests.task_params({"id": _task_id(request), **given})
        return codec.task_json(await self._operations.get(caller, _read_tenant(request), _task_id(request), length))

    async def _list(self, request: Request, caller: CallerInfo) -> Any:
        params = replace(requests.list_params_from_query(read_query(request)), tenant=_read_tenant(request))
        return codec.page_json(await self._operations.list_tasks(caller, params))

    async def _cancel(self, request: Request, caller: CallerInfo) -> Any:
        body = await self._read_body(request, may_be_null=True)
        tenant, task_id, metadata = requests.cancel_params(body | {"id": _task_id(request)})
        return codec.task_json(
            await self._operations.cancel(caller, tenant or _read_tenant(request), task_id, metadata)
        )

    async def _subscribe(self, request: Request, caller: CallerInfo) -> Any:
        after = last_event_id(request)
        body = await self._read_body(request, may_be_null=True) if request.method == "POST" else {}
        tenant, task_id = requests.subscribe_params(body | {"id": _task_id(request)})
        updates = self._operations.subscribe(caller, tenant or _read_tenant(request), task_id, after)
        return await self._respond_with_stream(request, caller, updates)

    async def _set_push(self, request: Request, caller: CallerInfo) -> Any:
        config = codec.push_config(await self._read_body(request))
        config = replace(config, task_id=_task_id(request), tenant=config.tenant or _read_tenant(request))
        return codec.push_json(await self._operations.push.set(caller, config))

    async def _get_push(self, request: Request, caller: CallerInfo) -> Any:
        config_id = request.path_params["config"]
        return codec.push_json(
            await self._operations.push.get(caller, _read_tenant(request), _task_id(request), config_id)
        )

    async def _list_push(self, request: Request, caller: CallerInfo) -> Any:
        given = {key: value for key, value in read_query(request).items() if value != ""}
        _, task_id, size, token = requests.push_list_params(given | {"taskId": _task_id(request)})
        page = await self._operations.push.list(caller, _read_tenant(request), task_id, size, token)
        return codec.push_page_json(page)

    async def _delete_push(self, request: Request, caller: CallerInfo) -> Any:
        await self._operations.push.delete(
            caller, _read_tenant(request), _task_id(request), request.path_params["config"]
        )
        return {}

    async def _get_extended_card(self, request: Request, caller: CallerInfo) -> Any:
        return card_json(await self._operations.cards.extended(caller, _read_tenant(request)))

    async def _respond_with_stream(
        self, request: Request, caller: CallerInfo, updates: AsyncGenerator[list[Update], None]
    ) -> Response:
        def error_frame(error: Exception) -> bytes:
            return b"event: error\ndata: %b\n\n" % write_json(rest_json(public_error(error, "stream")))

        slot = self._guard.stream_quota.take(caller.principal)
        return await open_stream(request, _encode_frames(updates), self._streams, error_frame, slot)


_TABLE: Final[list[tuple[str, str, str, Handler]]] = [
    ("/message:send", "POST", "SendMessage", Rest._send),
    ("/message:stream", "POST", "SendStreamingMessage", Rest._stream),
    ("/tasks", "GET", "ListTasks", Rest._list),
    ("/tasks/{id}:cancel", "POST", "CancelTask", Rest._cancel),
    ("/tasks/{id}:subscribe", "GET", "SubscribeToTask", Rest._subscribe),
    ("/tasks/{id}:subscribe", "POST", "SubscribeToTask", Rest._subscribe),
    ("/tasks/{id}/pushNotificationConfigs", "POST", "CreateTaskPushNotificationConfig", Rest._set_push),
    ("/tasks/{id}/pushNotificationConfigs", "GET", "ListTaskPushNotificationConfigs", Rest._list_push),
    ("/tasks/{id}/pushNotificationConfigs/{config}", "GET", "GetTaskPushNotificationConfig", Rest._get_push),
    ("/tasks/{id}/pushNotificationConfigs/{config}", "DELETE", "DeleteTaskPushNotificationConfig", Rest._delete_push),
    ("/tasks/{id}", "GET", "GetTask", Rest._get),
    ("/extendedAgentCard", "GET", "GetExtendedAgentCard", Rest._get_extended_card),
]
"""Path, HTTP method, operation, handler."""


def merge_routes(routes: Iterable[tuple[str, str, Endpoint]]) -> list[BaseRoute]:
    """Return one route per path, in order of the paths' first occurrence. A 405 then lists all methods of the path."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for path, method, endpoint in routes:
        by_path.setdefault(path, {})[method] = endpoint
    return [Route(path, _dispatch_by_method(endpoints), methods=list(endpoints)) for path, endpoints in by_path.items()]


def _dispatch_by_method(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    if len(endpoints) == 1:
        return next(iter(endpoints.values()))

    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _read_tenant(request: Request) -> str:
    """Return the tenant of the path or of the query. Raises InvalidArgumentError if the two differ."""
    in_query = request.query_params.get("tenant", "")
    found = str(request.path_params.get("tenant") or in_query)
    if in_query not in ("", found):
        raise InvalidArgumentError("differs from the path", field="tenant")
    return found


def _task_id(request: Request) -> str:
    return str(request.path_params["id"])


def read_query(request: Request) -> dict[str, str]:
    """Return the query parameters by name.

    Raises:
        InvalidArgumentError: A parameter occurs twice.
    """
    found: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if key in found:
            raise InvalidArgumentError("occurs twice", field=key)
        found[key] = value
    return found


def response_type(request: Request) -> str:
    """Return the media type of a response: A2A's own if the request accepts or has it, otherwise plain JSON."""
    headers = request.headers
    wants = headers.get("accept", "")
    return A2A_JSON if A2A_JSON in wants or media_type(headers.get("content-type")) == A2A_JSON else JSON


def error_response(
    request: Request, error: ProtolinkError, error_format: Callable[[ProtolinkError], dict[str, Any]] = rest_json
) -> Response:
    """Return an error response of A2A's REST binding; `error_format` is the error format of the version."""
    status = http_status(error)
    body = error_format(error)
    if error_format is rest_json:
        body["error"]["code"] = status
    response = Response(write_json(body), status, media_type=response_type(request))
    response.raw_headers += retry_after_headers(error)
    return response


async def _encode_frames(updates: AsyncGenerator[list[Update], None]) -> Batches:
    async with aclosing(updates) as batches:
        async for batch in batches:
            yield b"".join(
                [b"id: %d\ndata: %b\n\n" % (each.sequence, write_json(codec.update_json(each))) for each in batch]
            )
