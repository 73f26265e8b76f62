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
from protolink_grpc.a2a.edge.jsonrpc import SERVICE, last_event_id
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
from protolink_grpc.edges.http.sse import Batches, OpenStreams, open_stream
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
        return one_route_a_path(
            (prefix + path, method, self._endpoint(name, handler))
            for prefix in ("", "/{tenant}")
            for path, method, name, handler in _TABLE
        )

    def _endpoint(self, name: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                caller = await identify_caller(self._guard, request, SERVICE + name)
                check_version(caller, V1)
                answer = await handler(self, request, caller)
                if isinstance(answer, Response):
                    return answer
                return JsonResponse(write_json(answer), 200, answer_type(request))
            except ProtolinkError as error:
                return error_response(request, error)
            except ClientDisconnect:
                raise  # the client is gone; there is no one to respond to, and it is not a server error
            except Exception as error:
                return error_response(request, public_error(error, name))

        return endpoint

    async def _body(self, request: Request, *, may_be_null: bool = False) -> dict[str, Any]:
        """Read the body of a POST and add the tenant of its path."""
        check_json(request)
        most = self._guard.bounds.max_complexity
        body = await read_object(await self._guard.body(request), max_complexity=most, may_be_null=may_be_null)
        tenant = request.path_params.get("tenant")
        if tenant:
            if body.get("tenant", tenant) != tenant:
                raise InvalidArgumentError("is another one than in the path", field="tenant")
            body["tenant"] = tenant
        return body

    async def _send(self, request: Request, caller: CallerInfo) -> Any:
        params = codec.send_params(await self._body(request))
        with self._guard.bounded_wait(request):
            return codec.update_json(await self._operations.send(caller, params))

    async def _stream(self, request: Request, caller: CallerInfo) -> Any:
        params = codec.send_params(await self._body(request))
        return await self._events(request, caller, self._operations.stream(caller, params))

    async def _get(self, request: Request, caller: CallerInfo) -> Any:
        query = query_of(request)
        given = {"historyLength": query["historyLength"]} if query.get("historyLength") else {}
        _, _, length = requests.task_params({"id": _id(request), **given})
        return codec.task_json(await self._operations.get(caller, _tenant(request), _id(request), length))

    async def _list(self, request: Request, caller: CallerInfo) -> Any:
        params = replace(requests.list_params_from_query(query_of(request)), tenant=_tenant(request))
        return codec.page_json(await self._operations.list_tasks(caller, params))

    async def _cancel(self, request: Request, caller: CallerInfo) -> Any:
        body = await self._body(request, may_be_null=True)
        tenant, task_id, metadata = requests.cancel_params(body | {"id": _id(request)})
        return codec.task_json(await self._operations.cancel(caller, tenant or _tenant(request), task_id, metadata))

    async def _subscribe(self, request: Request, caller: CallerInfo) -> Any:
        after = last_event_id(request)
        body = await self._body(request, may_be_null=True) if request.method == "POST" else {}
        tenant, task_id = requests.subscribe_params(body | {"id": _id(request)})
        updates = self._operations.subscribe(caller, tenant or _tenant(request), task_id, after)
        return await self._events(request, caller, updates)

    async def _set_push(self, request: Request, caller: CallerInfo) -> Any:
        config = codec.push_config(await self._body(request))
        config = replace(config, task_id=_id(request), tenant=config.tenant or _tenant(request))
        return codec.push_json(await self._operations.push.set(caller, config))

    async def _get_push(self, request: Request, caller: CallerInfo) -> Any:
        config_id = request.path_params["config"]
        return codec.push_json(await self._operations.push.get(caller, _tenant(request), _id(request), config_id))

    async def _list_push(self, request: Request, caller: CallerInfo) -> Any:
        given = {key: value for key, value in query_of(request).items() if value != ""}
        _, task_id, size, token = requests.push_list_params(given | {"taskId": _id(request)})
        page = await self._operations.push.list(caller, _tenant(request), task_id, size, token)
        return codec.push_page_json(page)

    async def _delete_push(self, request: Request, caller: CallerInfo) -> Any:
        await self._operations.push.delete(caller, _tenant(request), _id(request), request.path_params["config"])
        return {}

    async def _extended_card(self, request: Request, caller: CallerInfo) -> Any:
        return card_json(await self._operations.cards.extended(caller, _tenant(request)))

    async def _events(
        self, request: Request, caller: CallerInfo, updates: AsyncGenerator[list[Update], None]
    ) -> Response:
        def failed(error: Exception) -> bytes:
            return b"event: error\ndata: %b\n\n" % write_json(rest_json(public_error(error, "stream")))

        slot = self._guard.stream_quota.take(caller.principal)
        return await open_stream(request, _frames(updates), self._streams, failed, slot)


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
    ("/extendedAgentCard", "GET", "GetExtendedAgentCard", Rest._extended_card),
]
"""Path, HTTP method, operation, handler."""


def one_route_a_path(ways: Iterable[tuple[str, str, Endpoint]]) -> list[BaseRoute]:
    """Return one route per path, in order of the paths' first occurrence. A 405 then lists all methods of the path."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for path, method, endpoint in ways:
        by_path.setdefault(path, {})[method] = endpoint
    return [Route(path, _by_method(ends), methods=list(ends)) for path, ends in by_path.items()]


def _by_method(ends: Mapping[str, Endpoint]) -> Endpoint:
    if len(ends) == 1:
        return next(iter(ends.values()))

    async def endpoint(request: Request) -> Response:
        return await ends["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _tenant(request: Request) -> str:
    """Return the tenant of the path or of the query. Raises InvalidArgumentError if the two differ."""
    said = request.query_params.get("tenant", "")
    found = str(request.path_params.get("tenant") or said)
    if said not in ("", found):
        raise InvalidArgumentError("is another one than in the path", field="tenant")
    return found


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def query_of(request: Request) -> dict[str, str]:
    """Return the query parameters by name.

    Raises:
        InvalidArgumentError: A parameter occurs twice.
    """
    found: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if key in found:
            raise InvalidArgumentError("is there twice", field=key)
        found[key] = value
    return found


def answer_type(request: Request) -> str:
    """Return the media type of a response: A2A's own if the request accepts or has it, otherwise plain JSON."""
    headers = request.headers
    wants = headers.get("accept", "")
    return A2A_JSON if A2A_JSON in wants or media_type(headers.get("content-type")) == A2A_JSON else JSON


def error_response(
    request: Request, error: ProtolinkError, words: Callable[[ProtolinkError], dict[str, Any]] = rest_json
) -> Response:
    """Return an error response of A2A's REST binding; `words` is the error format of the version."""
    status = http_status(error)
    body = words(error)
    if words is rest_json:
        body["error"]["code"] = status
    response = Response(write_json(body), status, media_type=answer_type(request))
    response.raw_headers += retry_after_headers(error)
    return response


async def _frames(updates: AsyncGenerator[list[Update], None]) -> Batches:
    async with aclosing(updates) as batches:
        async for batch in batches:
            yield b"".join(
                [b"id: %d\ndata: %b\n\n" % (each.sequence, write_json(codec.update_json(each))) for each in batch]
            )
