"""A2A over JSON-RPC 2.0: one path for both versions, distinguished by the names of their methods.

Errors have HTTP status 200, as usual for JSON-RPC. Errors before a request is read (credentials, size, media type) have their own
HTTP status. Source: A2A v1.0.1 section 9.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from protolink_grpc.a2a import json_codec as codec
from protolink_grpc.a2a import json_requests as requests
from protolink_grpc.a2a.card import card_json
from protolink_grpc.a2a.edge.caller import admit_caller, identify_caller
from protolink_grpc.a2a.errors import jsonrpc_json
from protolink_grpc.a2a.negotiation import check_version
from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.v03.jsonrpc import JsonRpcV03
from protolink_grpc.a2a.v03.terms import error_json
from protolink_grpc.a2a.values import V1, CallerInfo, Update
from protolink_grpc.edges.http.json_body import JsonResponse, check_json, http_status, read_json, write_json
from protolink_grpc.edges.http.metrics import OPERATION
from protolink_grpc.edges.http.middleware import retry_after_headers
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import Batches, OpenStreams, event_frame, last_event_id, open_stream
from protolink_grpc.errors import (
    InvalidArgumentError,
    MessageTooLargeError,
    ProtolinkError,
    UnauthenticatedError,
)
from protolink_grpc.net.internal_errors import public_error

SERVICE: Final = "/lf.a2a.v1.A2AService/"
SERVICE_V03: Final = "/a2a.v1.A2AService/"
"""Prefixes of the gRPC methods. Access rules use the gRPC names of the operations, on every binding."""

ErrorFormat = Callable[[ProtolinkError], dict[str, Any]]
"""Converts an error to the JSON object of a protocol version."""

Params = dict[str, Any]
Unary = Callable[[CallerInfo, Params], Awaitable[Any]]
Streaming = Callable[[CallerInfo, Params], AsyncGenerator[list[tuple[int, Any]], None]]

MAX_CALL_ID: Final = 1024
"""Maximum characters of a request id. Each event of a stream repeats the id, so a long one would inflate the response."""

STREAMS: Final = frozenset({"SendStreamingMessage", "SubscribeToTask"})
"""v1.0 methods with a stream as response."""

STREAMS_V03: Final = frozenset({"message/stream", "tasks/resubscribe"})
"""v0.3 methods with a stream as response. Their errors are sent as an event, too, even before the stream begins, because v0.3
clients read events only; v1.0 clients respect the content type of the response."""

_NAMES_V03: Final = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "TaskSubscription",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetAgentCard",
}


class JsonRpc:
    """The JSON-RPC binding of one agent.

    Args:
        v03: The v0.3 methods; None means that v0.3 is not served.
    """

    def __init__(
        self, guard: RequestGuard, operations: Operations, streams: OpenStreams, v03: JsonRpcV03 | None = None
    ) -> None:
        self._guard = guard
        self._operations = operations
        self._streams = streams
        self._v03 = v03
        self._unary: dict[str, Unary] = {
            "SendMessage": self._send,
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
            "CreateTaskPushNotificationConfig": self._set_push,
            "GetTaskPushNotificationConfig": self._get_push,
            "ListTaskPushNotificationConfigs": self._list_push,
            "DeleteTaskPushNotificationConfig": self._delete_push,
            "GetExtendedAgentCard": self._get_extended_card,
        }
        self._rpcs = {name: SERVICE + name for name in (*self._unary, *STREAMS)}
        if v03 is not None:
            self._rpcs |= {name: SERVICE_V03 + rpc for name, rpc in _NAMES_V03.items()}

    async def respond(self, request: Request) -> Response:
        """Respond to one request. Errors of the request become responses and are not raised.

        The caller is authenticated once, together with the access check for the method. Only if the body is large or of unknown
        size, the caller is authenticated before the body is read.
        """
        caller: CallerInfo | None = None
        try:
            if not self._guard.reads_body_first(request):
                caller = await identify_caller(self._guard, request)
        except ProtolinkError as error:
            return _refusal_response(error)
        try:
            check_json(request)
            call_id, method, params = await _parse_call(
                await self._guard.body(request), self._guard.bounds.max_complexity
            )
            rpc = self._rpcs.get(method)
            if rpc is None:
                raise _MalformedError(-32601, f"the method {method[:100]!r} does not exist", call_id)
        except (_MalformedError, ProtolinkError) as invalid:
            return await self._respond_to_invalid_call(request, invalid, caller)
        request.scope[OPERATION] = method
        try:
            caller = await (
                identify_caller(self._guard, request, rpc)
                if caller is None
                else admit_caller(self._guard, request, rpc, caller)
            )
            return await self._dispatch(request, caller, call_id, method, params)
        except ClientDisconnect:
            raise  # the client has disconnected
        except Exception as error:
            return self._error_response(request, public_error(error, method), call_id, method)

    async def _respond_to_invalid_call(
        self, request: Request, invalid: "ProtolinkError | _MalformedError", caller: CallerInfo | None
    ) -> Response:
        """Return the response to a request that names no method. It counts toward the caller's rate limit like a call."""
        try:
            if caller is None:
                await self._guard.charge_sender(request)
            else:
                self._guard.charge(caller.principal)
        except ProtolinkError as refusal:
            return _refusal_response(refusal)
        if isinstance(invalid, ProtolinkError):
            return _refusal_response(invalid)
        return _json_response(_encode_malformed(invalid.call_id, invalid.code, str(invalid)))

    def _error_response(self, request: Request, error: ProtolinkError, call_id: bytes, method: str) -> Response:
        is_v03 = method in _NAMES_V03
        body = _encode_error(call_id, error, error_json if is_v03 else jsonrpc_json)
        if isinstance(error, UnauthenticatedError):
            return _json_response(body, 401)
        if method in STREAMS_V03 and "text/event-stream" in request.headers.get("accept", ""):
            return Response(event_frame(body), 200, {"cache-control": "no-cache"}, "text/event-stream")
        return _json_response(body)

    async def _dispatch(
        self, request: Request, caller: CallerInfo, call_id: bytes, method: str, params: Params
    ) -> Response:
        if method in _NAMES_V03:
            return await self._dispatch_v03(request, caller, call_id, method, params)
        check_version(caller, V1)
        if method == "SendStreamingMessage":
            updates = self._operations.stream(caller, codec.send_params(params))
        elif method == "SubscribeToTask":
            after = last_event_id(request)
            updates = self._operations.subscribe(caller, *requests.subscribe_params(params), after)
        else:
            return await self._respond_with_result(
                request, caller, call_id, self._unary[method], params, waits=method == "SendMessage"
            )
        return await self._respond_with_stream(request, caller, call_id, _encode_frames(call_id, updates), jsonrpc_json)

    async def _dispatch_v03(
        self, request: Request, caller: CallerInfo, call_id: bytes, method: str, params: Params
    ) -> Response:
        v03 = self._v03
        if v03 is None:
            raise LookupError(method)
        if method == "tasks/resubscribe":
            events = v03.resubscribe(caller, params, last_event_id(request))
        elif method == "message/stream":
            events = v03.stream(caller, params)
        else:
            return await self._respond_with_result(
                request, caller, call_id, v03.unary[method], params, waits=method == "message/send"
            )
        return await self._respond_with_stream(
            request, caller, call_id, _encode_v03_frames(call_id, events), error_json
        )

    async def _respond_with_result(
        self, request: Request, caller: CallerInfo, call_id: bytes, unary: Unary, params: Params, *, waits: bool
    ) -> Response:
        if waits:
            with self._guard.bounded_wait(request):
                result = await unary(caller, params)
        else:
            result = await unary(caller, params)
        return _json_response(_encode_result(call_id, write_json(result)))

    async def _respond_with_stream(
        self, request: Request, caller: CallerInfo, call_id: bytes, batches: Batches, error_format: ErrorFormat
    ) -> Response:
        def error_frame(error: Exception) -> bytes:
            return event_frame(_encode_error(call_id, public_error(error, "stream"), error_format))

        return await open_stream(
            request, batches, self._streams, error_frame, self._guard.stream_quota.take(caller.principal)
        )

    # -- the methods: read, call, write ----------------------------------------------------------------------------------

    async def _send(self, caller: CallerInfo, params: Params) -> Any:
        return codec.update_json(await self._operations.send(caller, codec.send_params(params)))

    async def _get(self, caller: CallerInfo, params: Params) -> Any:
        return codec.task_json(await self._operations.get(caller, *requests.task_params(params)))

    async def _list(self, caller: CallerInfo, params: Params) -> Any:
        return codec.page_json(await self._operations.list_tasks(caller, codec.list_params(params)))

    async def _cancel(self, caller: CallerInfo, params: Params) -> Any:
        return codec.task_json(await self._operations.cancel(caller, *requests.cancel_params(params)))

    async def _set_push(self, caller: CallerInfo, params: Params) -> Any:
        config = codec.push_config(params)
        return codec.push_json(await self._operations.push.set(caller, config))

    async def _get_push(self, caller: CallerInfo, params: Params) -> Any:
        return codec.push_json(await self._operations.push.get(caller, *requests.push_params(params)))

    async def _list_push(self, caller: CallerInfo, params: Params) -> Any:
        return codec.push_page_json(await self._operations.push.list(caller, *requests.push_list_params(params)))

    async def _delete_push(self, caller: CallerInfo, params: Params) -> Any:
        await self._operations.push.delete(caller, *requests.push_params(params))

    async def _get_extended_card(self, caller: CallerInfo, params: Params) -> Any:
        return card_json(await self._operations.cards.extended(caller, requests.card_params(params)))


class _MalformedError(Exception):
    """A body that is not a valid request. `code` is the JSON-RPC error code."""

    def __init__(self, code: int, message: str, call_id: bytes = b"null") -> None:
        super().__init__(message)
        self.code = code
        self.call_id = call_id


async def _parse_call(body: bytes, max_complexity: int) -> tuple[bytes, str, Params]:
    """Return the id as JSON text, the method and the params of a body."""
    try:
        call = await read_json(body, max_complexity=max_complexity)
    except MessageTooLargeError:
        raise
    except InvalidArgumentError as error:
        raise _MalformedError(-32700, str(error)) from None
    if not isinstance(call, dict):
        raise _MalformedError(-32600, "a request must be one JSON object; batches are not supported")
    # A2A has no JSON-RPC notifications: a request without an id gets a response, too, with the id null.
    call_id = call.get("id")
    if isinstance(call_id, bool | list | dict):
        raise _MalformedError(-32600, "id must be a string or a number")
    if len(str(call_id)) > MAX_CALL_ID:
        raise _MalformedError(-32600, f"id must have at most {MAX_CALL_ID} characters")
    id_json = write_json(call_id)
    if call.get("jsonrpc") != "2.0":
        raise _MalformedError(-32600, 'jsonrpc must be "2.0"', id_json)
    method, params = call.get("method"), call.get("params")
    if not isinstance(method, str) or not method:
        raise _MalformedError(-32600, "method must be a non-empty string", id_json)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise _MalformedError(-32602, "params must be an object", id_json)
    return id_json, method, params


def _encode_result(call_id: bytes, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, result)


def _encode_error(call_id: bytes, error: ProtolinkError, error_format: ErrorFormat = jsonrpc_json) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (call_id, orjson.dumps(error_format(error)))


def _encode_malformed(call_id: bytes, code: int, message: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (call_id, orjson.dumps({"code": code, "message": message}))


def _json_response(body: bytes, status: int = 200) -> Response:
    return JsonResponse(body, status)


def _refusal_response(error: ProtolinkError) -> Response:
    """Return the response to a request that was refused before its call was read; it has the error's HTTP status."""
    response = JsonResponse(_encode_error(b"null", error), http_status(error))
    response.raw_headers += retry_after_headers(error)
    return response


async def _encode_frames(call_id: bytes, updates: AsyncGenerator[list[Update], None]) -> Batches:
    head = b'{"jsonrpc":"2.0","id":%b,"result":' % call_id
    async with aclosing(updates) as batches:
        async for batch in batches:
            yield b"".join(
                [
                    b"id: %d\ndata: %b%b}\n\n" % (each.sequence, head, write_json(codec.update_json(each)))
                    for each in batch
                ]
            )


async def _encode_v03_frames(call_id: bytes, events: AsyncGenerator[list[tuple[int, Any]], None]) -> Batches:
    async with aclosing(events) as batches:
        async for batch in batches:
            yield b"".join(
                [event_frame(_encode_result(call_id, write_json(event)), sequence) for sequence, event in batch]
            )
