"""A2A v0.3 over REST, under `/v1`: a table of routes. Mounting them, their callers and their errors belong to the gateway.

v0.3 says twice what a body looks like: its annotations mean ProtoJSON of its protobuf, which its Python peers speak, its text the
objects of JSON-RPC, which early TypeScript peers speak. A body shows by its words which of them it is, and is answered in kind;
requests without a body are answered in ProtoJSON.
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
from protolink_grpc.a2a.v03.terms import speaking_v03
from protolink_grpc.a2a.v03.writing import push_json, reply_json, update_json
from protolink_grpc.a2a.values import Asked, MessageReply, PushConfig, SendParams, TaskView, Update
from protolink_grpc.errors import InvalidArgumentError

M = TypeVar("M", bound=Message)

Json = dict[str, Any]
Events = AsyncGenerator[list[tuple[int, Json]], None]
Texts = Mapping[str, str]

Answer = Callable[[Asked, Texts, Texts, Json], Awaitable[Json]]
Stream = Callable[[Asked, Texts, Texts, Json], Events]
Resume = Callable[[Asked, Texts, Texts, Json, int | None], Events]
"""Of the caller, the parameters of the path, those of the query and the body; {} where there is no body. `Resume` takes the
sequence, too, that its caller has seen; None for one that comes for the first time."""

MAX_DEPTH: Final = 100
"""Levels of a body. Source: json_format's own bound."""


@dataclass(frozen=True, slots=True)
class RestRoute:
    """One way to call: exactly one of `answer`, `stream` and `resume` is there. Paths hold `{id}` and `{config_id}`."""

    method: str
    path: str
    answer: Answer | None = None
    stream: Stream | None = None
    resume: Resume | None = None


def rest_v03(operations: Operations) -> list[RestRoute]:
    """The routes of one agent, in the order in which they must be tried."""
    verbs = _Verbs(operations)
    task, configs = "/v1/tasks/{id}", "/v1/tasks/{id}/pushNotificationConfigs"
    return [
        RestRoute("POST", "/v1/message:send", answer=verbs.send),
        RestRoute("POST", "/v1/message:stream", stream=verbs.stream),
        RestRoute("POST", f"{task}:cancel", answer=verbs.cancel),
        RestRoute("POST", f"{task}:subscribe", resume=verbs.subscribe),
        RestRoute("GET", f"{task}:subscribe", resume=verbs.subscribe),
        RestRoute("GET", task, answer=verbs.get),
        RestRoute("POST", configs, answer=verbs.set_push),
        RestRoute("GET", configs, answer=verbs.list_push),
        RestRoute("GET", f"{configs}/{{config_id}}", answer=verbs.get_push),
        RestRoute("DELETE", f"{configs}/{{config_id}}", answer=verbs.delete_push),
        RestRoute("GET", "/v1/card", answer=verbs.card),
    ]


class _Verbs:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def send(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Json:
        asked, is_plain = speaking_v03(asked), _is_plain(body)
        reply = await self._operations.send(asked, _send_params(body, is_plain))
        return _reply(reply, is_plain)

    async def stream(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Events:
        asked, is_plain = speaking_v03(asked), _is_plain(body)
        async with aclosing(self._operations.stream(asked, _send_params(body, is_plain))) as batches:
            async for updates in batches:
                yield _events(updates, is_plain)

    async def subscribe(self, asked: Asked, path: Texts, query: Texts, body: Json, after: int | None = None) -> Events:
        asked = speaking_v03(asked)
        async with aclosing(self._operations.subscribe(asked, "", path["id"], after)) as batches:
            async for updates in batches:
                yield _events(updates, False)

    async def get(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Json:
        asked = speaking_v03(asked)
        length = _number(query, "historyLength", "history_length") or None
        return MessageToDict(protobuf.task_pb(await self._operations.get(asked, "", path["id"], length)))

    async def cancel(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Json:
        asked = speaking_v03(asked)
        return MessageToDict(protobuf.task_pb(await self._operations.cancel(asked, "", path["id"], {})))

    async def set_push(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Json:
        asked, is_plain = speaking_v03(asked), "taskId" in body
        config = await self._operations.set_push(asked, _push_config(body, path["id"], is_plain))
        return push_json(config) if is_plain else MessageToDict(protobuf.push_pb(config))

    async def get_push(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Json:
        asked = speaking_v03(asked)
        config = await self._operations.get_push(asked, "", path["id"], path["config_id"])
        return MessageToDict(protobuf.push_pb(config))

    async def list_push(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Json:
        asked = speaking_v03(asked)
        size = _number(query, "pageSize", "page_size")
        token = query.get("pageToken") or query.get("page_token") or ""
        page = await self._operations.list_push(asked, "", path["id"], size, token)
        return MessageToDict(protobuf.push_page_pb(page))

    async def delete_push(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Json:
        asked = speaking_v03(asked)
        await self._operations.delete_push(asked, "", path["id"], path["config_id"])
        return {}

    async def card(self, asked: Asked, path: Texts, query: Texts, body: Json) -> Json:
        """The extended card where there is one, which needs credentials; else the public one."""
        asked = speaking_v03(asked)
        public = self._operations.public_card()
        return card_proto_json(await self._operations.extended_card(asked) if public.extended_card else public)


def _is_plain(body: Json) -> bool:
    """Whether it is spelled like JSON-RPC's objects."""
    message = body.get("message")
    return isinstance(message, dict) and ("parts" in message or "kind" in message)


def _send_params(body: Json, is_plain: bool) -> SendParams:
    if is_plain:
        return reading.send_params(body)
    params = protobuf.send_params_from_pb(_parsed(body, v03.SendMessageRequest()))
    configuration = body.get("configuration")
    if isinstance(configuration, dict) and configuration.get("blocking") is False:
        params.return_immediately = True  # said, though protobuf cannot tell it from unsaid
    return params


def _reply(reply: TaskView | MessageReply, is_plain: bool) -> Json:
    return reply_json(reply) if is_plain else MessageToDict(protobuf.reply_pb(reply))


def _events(updates: list[Update], is_plain: bool) -> list[tuple[int, Json]]:
    if is_plain:
        return [(update.sequence, update_json(update)) for update in updates]
    return [(update.sequence, MessageToDict(protobuf.update_pb(update))) for update in updates]


def _push_config(body: Json, task_id: str, is_plain: bool) -> PushConfig:
    """The path says which task; the annotations put the config alone into the body, v0.3's clients send the whole request."""
    if is_plain:
        return reading.push_config({**body, "taskId": task_id})
    request = v03.CreateTaskPushNotificationConfigRequest()
    if "config" in body:
        _parsed(body, request)
    else:
        _parsed(body, request.config)
    request.parent = f"tasks/{task_id}"
    return protobuf.push_config_from_pb(request)


def _parsed(body: Json, into: M) -> M:
    try:
        return ParseDict(body, into, ignore_unknown_fields=True, max_recursion_depth=MAX_DEPTH)
    except ParseError as error:
        raise InvalidArgumentError(str(error), field="body") from None


def _number(query: Texts, *names: str) -> int:
    """A count in the query, 0 where there is none. Raises InvalidArgumentError: not 0 to 2**31 - 1; names the parameter."""
    for name in names:
        text = query.get(name)
        if text:
            if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
                raise InvalidArgumentError("must be an integer from 0 to 2147483647", field=name)
            return int(text)
    return 0
