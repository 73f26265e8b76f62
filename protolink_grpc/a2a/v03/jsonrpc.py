"""A2A v0.3 over JSON-RPC: its methods by name. `edge.jsonrpc` handles the envelope and the errors."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from protolink_grpc.a2a.operations import Operations
from protolink_grpc.a2a.v03 import reading
from protolink_grpc.a2a.v03.cards import card_json
from protolink_grpc.a2a.v03.terms import require_v03
from protolink_grpc.a2a.v03.writing import push_json, reply_json, task_json, update_json
from protolink_grpc.a2a.values import MAX_PAGE_SIZE, CallerInfo, Update
from protolink_grpc.errors import ExtendedCardNotConfiguredError, TaskNotFoundError
from protolink_grpc.models import reader

Json = dict[str, Any]
Events = AsyncGenerator[list[tuple[int, Json]], None]
"""Batches of (sequence, event); each batch is sent as soon as it is ready."""

Unary = Callable[[CallerInfo, Json], Awaitable[Any]]
Streaming = Callable[[CallerInfo, Json], Events]


class JsonRpcV03:
    """The v0.3 methods of one agent.

    Args (of each method):
        params: The request's `params`, any object; an invalid field raises InvalidArgumentError with its path.

    Attributes:
        unary: Methods with one result, a JSON value.
        streaming: Methods with a stream of results.
        methods: All of them.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.unary: dict[str, Unary] = {
            "message/send": self._send,
            "tasks/get": self._get,
            "tasks/cancel": self._cancel,
            "tasks/pushNotificationConfig/set": self._set_push,
            "tasks/pushNotificationConfig/get": self._get_push,
            "tasks/pushNotificationConfig/list": self._list_push,
            "tasks/pushNotificationConfig/delete": self._delete_push,
            "agent/getAuthenticatedExtendedCard": self._get_extended_card,
        }
        self.streaming: dict[str, Streaming] = {"message/stream": self.stream, "tasks/resubscribe": self.resubscribe}
        self.methods: dict[str, Unary | Streaming] = {**self.unary, **self.streaming}

    async def _send(self, caller: CallerInfo, params: Json) -> Json:
        caller = require_v03(caller)
        return reply_json(await self._operations.send(caller, reading.send_params(params)))

    async def stream(self, caller: CallerInfo, params: Json) -> Events:
        """Run `message/stream`."""
        caller = require_v03(caller)
        async with aclosing(self._operations.stream(caller, reading.send_params(params))) as batches:
            async for updates in batches:
                yield to_events(updates)

    async def resubscribe(self, caller: CallerInfo, params: Json, after: int | None = None) -> Events:
        """Run `tasks/resubscribe`. With `after`, only the events after that sequence are streamed."""
        caller = require_v03(caller)
        async with aclosing(self._operations.subscribe(caller, "", reading.require_id(params), after)) as batches:
            async for updates in batches:
                yield to_events(updates)

    async def _get(self, caller: CallerInfo, params: Json) -> Json:
        caller, task_id = require_v03(caller), reading.require_id(params)
        return task_json(await self._operations.get(caller, "", task_id, reading.history_length(params)))

    async def _cancel(self, caller: CallerInfo, params: Json) -> Json:
        caller, task_id = require_v03(caller), reading.require_id(params)
        return task_json(await self._operations.cancel(caller, "", task_id, reader.mapping(params, "metadata")))

    async def _set_push(self, caller: CallerInfo, params: Json) -> Json:
        caller = require_v03(caller)
        return push_json(await self._operations.push.set(caller, reading.push_config(params)))

    async def _get_push(self, caller: CallerInfo, params: Json) -> Json:
        caller, task_id = require_v03(caller), reading.require_id(params)
        config_id = reader.text(params, "pushNotificationConfigId")
        if config_id:
            return push_json(await self._operations.push.get(caller, "", task_id, config_id))
        # v0.3 allows a request without a config id: return the oldest config.
        page = await self._operations.push.list(caller, "", task_id, 1, "")
        if not page.configs:
            raise TaskNotFoundError(f"task {task_id} has no push config", task_id=task_id)
        return push_json(page.configs[0])

    async def _list_push(self, caller: CallerInfo, params: Json) -> list[Json]:
        caller, task_id = require_v03(caller), reading.require_id(params)
        found: list[Json] = []
        token = ""
        while True:  # v0.3's JSON has no pages
            page = await self._operations.push.list(caller, "", task_id, MAX_PAGE_SIZE, token)
            found += map(push_json, page.configs)
            token = page.next_page_token
            if not token:
                return found

    async def _delete_push(self, caller: CallerInfo, params: Json) -> None:
        caller, task_id = require_v03(caller), reading.require_id(params)
        config_id = reading.require_id(params, "pushNotificationConfigId")
        await self._operations.push.delete(caller, "", task_id, config_id)

    async def _get_extended_card(self, caller: CallerInfo, params: Json) -> Json:
        caller = require_v03(caller)
        if not self._operations.cards.public().extended_card:
            # In v1.0 this is an UnsupportedOperationError.
            raise ExtendedCardNotConfiguredError("this agent has no extended card")
        return card_json(await self._operations.cards.extended(caller))


def to_events(updates: list[Update]) -> list[tuple[int, Json]]:
    """Return the updates as v0.3 events, each with its sequence."""
    return [(update.sequence, update_json(update)) for update in updates]
