"""A2A v0.3 over REST, under `/v1`: a table of routes. `edge.rest_v03` mounts them and handles callers and errors.

v0.3 defines two formats of a body. Its annotations define ProtoJSON of its protobuf, which Python peers use; its text defines the
objects of JSON-RPC, which early TypeScript peers use. The format of a body is recognized by its field names, and the response has
the same format. Responses to requests without a body are ProtoJSON.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from a2a.compat.v0_3 import a2a_v0_3_pb2 as v03
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.v03 import protobuf, reading
from protolink_grpc.a2a.v03.cards import card_proto_json
from protolink_grpc.a2a.v03.terms import require_v03
from protolink_grpc.a2a.v03.writing import push_json, reply_json, update_json
from protolink_grpc.a2a.values import CallerInfo, MessageReply, SendParams, TaskView, Update
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.push_config import PushConfig

M = TypeVar("M", bound=Message)

Json = dict[str, Any]
Events = AsyncGenerator[list[tuple[int, Json]], None]
Texts = Mapping[str, str]

Answer = Callable[[CallerInfo, Texts, Texts, Json], Awaitable[Json]]
Stream = Callable[[CallerInfo, Texts, Texts, Json], Events]
Resume = Callable[[CallerInfo, Texts, Texts, Json, int | None], Events]
"""Arguments: the caller, the path parameters, the query parameters, and the body ({} if there is none). `Resume` also takes the
last sequence that the caller has seen, None for a new stream."""

MAX_DEPTH: Final = 100
"""Maximum nesting of a body. Source: the default of json_format."""


@dataclass(frozen=True, slots=True)
class RestRoute:
    """One route. Exactly one of `answer`, `stream` and `resume` is set. Paths contain `{id}` and `{config_id}`."""

    method: str
    path: str
    answer: Answer | None = None
    stream: Stream | None = None
    resume: Resume | None = None


def rest_v03(operations: Operations) -> list[RestRoute]:
    """Return the routes of one agent, in the order in which they must be matched."""
    handlers = _Handlers(operations)
    task, configs = "/v1/tasks/{id}", "/v1/tasks/{id}/pushNotificationConfigs"
    return [
        RestRoute("POST", "/v1/message:send", answer=handlers.send),
        RestRoute("POST", "/v1/message:stream", stream=handlers.stream),
        RestRoute("POST", f"{task}:cancel", answer=handlers.cancel),
        RestRoute("POST", f"{task}:subscribe", resume=handlers.subscribe),
        RestRoute("GET", f"{task}:subscribe", resume=handlers.subscribe),
        RestRoute("GET", task, answer=handlers.get),
        RestRoute("POST", configs, answer=handlers.set_push),
        RestRoute("GET", configs, answer=handlers.list_push),
        RestRoute("GET", f"{configs}/{{config_id}}", answer=handlers.get_push),
        RestRoute("DELETE", f"{configs}/{{config_id}}", answer=handlers.delete_push),
        RestRoute("GET", "/v1/card", answer=handlers.card),
    ]


class _Handlers:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def send(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Json:
        caller, is_plain = require_v03(caller), _is_plain(body)
        reply = await self._operations.send(caller, _read_send_params(body, is_plain))
        return _reply_json(reply, is_plain)

    async def stream(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Events:
        caller, is_plain = require_v03(caller), _is_plain(body)
        async with aclosing(self._operations.stream(caller, _read_send_params(body, is_plain))) as batches:
            async for updates in batches:
                yield _to_events(updates, is_plain)

    async def subscribe(
        self, caller: CallerInfo, path: Texts, query: Texts, body: Json, after: int | None = None
    ) -> Events:
        caller = require_v03(caller)
        async with aclosing(self._operations.subscribe(caller, "", path["id"], after)) as batches:
            async for updates in batches:
                yield _to_events(updates, False)

    async def get(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Json:
        caller = require_v03(caller)
        length = _read_count(query, "historyLength", "history_length") or None
        return MessageToDict(protobuf.task_pb(await self._operations.get(caller, "", path["id"], length)))

    async def cancel(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Json:
        caller = require_v03(caller)
        return MessageToDict(protobuf.task_pb(await self._operations.cancel(caller, "", path["id"], {})))

    async def set_push(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Json:
        caller, is_plain = require_v03(caller), "taskId" in body
        config = await self._operations.push.set(caller, _read_push_config(body, path["id"], is_plain))
        return push_json(config) if is_plain else MessageToDict(protobuf.push_pb(config))

    async def get_push(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Json:
        caller = require_v03(caller)
        config = await self._operations.push.get(caller, "", path["id"], path["config_id"])
        return MessageToDict(protobuf.push_pb(config))

    async def list_push(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Json:
        caller = require_v03(caller)
        size = _read_count(query, "pageSize", "page_size")
        token = query.get("pageToken") or query.get("page_token") or ""
        page = await self._operations.push.list(caller, "", path["id"], size, token)
        return MessageToDict(protobuf.push_page_pb(page))

    async def delete_push(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Json:
        caller = require_v03(caller)
        await self._operations.push.delete(caller, "", path["id"], path["config_id"])
        return {}

    async def card(self, caller: CallerInfo, path: Texts, query: Texts, body: Json) -> Json:
        """Return the extended card if the agent has one, which requires credentials; otherwise the public card."""
        caller = require_v03(caller)
        public = self._operations.cards.public()
        return card_proto_json(await self._operations.cards.extended(caller) if public.extended_card else public)


def _is_plain(body: Json) -> bool:
    """Return whether a body has the format of JSON-RPC's objects."""
    message = body.get("message")
    return isinstance(message, dict) and ("parts" in message or "kind" in message)


def _read_send_params(body: Json, is_plain: bool) -> SendParams:
    if is_plain:
        return reading.send_params(body)
    params = protobuf.send_params_from_pb(_parse_body(body, v03.SendMessageRequest()))
    configuration = body.get("configuration")
    if isinstance(configuration, dict) and configuration.get("blocking") is False:
        params.return_immediately = True  # protobuf does not distinguish an explicit false from an absent field
    return params


def _reply_json(reply: TaskView | MessageReply, is_plain: bool) -> Json:
    return reply_json(reply) if is_plain else MessageToDict(protobuf.reply_pb(reply))


def _to_events(updates: list[Update], is_plain: bool) -> list[tuple[int, Json]]:
    if is_plain:
        return [(update.sequence, update_json(update)) for update in updates]
    return [(update.sequence, MessageToDict(protobuf.update_pb(update))) for update in updates]


def _read_push_config(body: Json, task_id: str, is_plain: bool) -> PushConfig:
    """Return the push config of a request; the path names the task.

    By v0.3's annotations, the body is the config only; v0.3 clients send the whole request. Both are accepted.
    """
    if is_plain:
        return reading.push_config({**body, "taskId": task_id})
    request = v03.CreateTaskPushNotificationConfigRequest()
    if "config" in body:
        _parse_body(body, request)
    else:
        _parse_body(body, request.config)
    request.parent = f"tasks/{task_id}"
    return protobuf.push_config_from_pb(request)


def _parse_body(body: Json, into: M) -> M:
    try:
        return ParseDict(body, into, ignore_unknown_fields=True, max_recursion_depth=MAX_DEPTH)
    except ParseError as error:
        raise InvalidArgumentError(str(error), field="body") from None


def _read_count(query: Texts, *names: str) -> int:
    """Return a count in the query, 0 if absent. Raises InvalidArgumentError: not 0 to 2**31 - 1; names the parameter."""
    for name in names:
        text = query.get(name)
        if text:
            if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
                raise InvalidArgumentError("must be an integer from 0 to 2147483647", field=name)
            return int(text)
    return 0
