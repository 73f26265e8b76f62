"""The three bindings of A2A v0.3 over the operations: the calls, and the conversion of their results. No sockets."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb
from a2a.compat.v0_3 import types as schema
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import code_pb2
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import errors
from protolink_grpc.a2a.edge.grpc_servicer_v03 import A2AV03Servicer, to_status
from protolink_grpc.a2a.v03.jsonrpc import JsonRpcV03
from protolink_grpc.a2a.v03.rest import RestRoute, rest_v03
from protolink_grpc.a2a.values import (
    MAX_PAGE_SIZE,
    V03,
    V1,
    Binding,
    CallerInfo,
    MessageReply,
    PublicCard,
    PushPage,
    SendParams,
    Status,
    StatusUpdate,
    TaskView,
    Update,
)
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.push_config import PushConfig

CALLER = CallerInfo()
V03_CALLER = CallerInfo(version=V03)

SERVICE = pb.DESCRIPTOR.services_by_name["A2AService"]

SAID = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "to be"}]}
SAID_PB = pb.Message(message_id="m-1", role=pb.ROLE_USER, content=[pb.Part(text="to be")])
VIEW = TaskView("t-1", "c-1", Status(TaskState.COMPLETED, 1_700_000_000_123_000), sequence=4)
TASK = {
    "kind": "task",
    "id": "t-1",
    "contextId": "c-1",
    "status": {"state": "completed", "timestamp": "2023-11-14T22:13:20.123Z"},
}
TASK_PROTO = {k: v for k, v in TASK.items() if k != "kind"} | {
    "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2023-11-14T22:13:20.123Z"}
}
UPDATES: list[list[Update]] = [
    [TaskView("t-1", "c-1", Status(TaskState.WORKING, 0), sequence=2)],
    [
        StatusUpdate("t-1", "c-1", Status(TaskState.WORKING, 0), sequence=3),
        StatusUpdate("t-1", "c-1", Status(TaskState.COMPLETED, 0), final=True, sequence=4),
    ],
]
CONFIG = PushConfig("https://a/hook", "p-1", "t-1", "tok", "Bearer", "x")
CONFIG_JSON = {
    "taskId": "t-1",
    "pushNotificationConfig": {
        "url": "https://a/hook",
        "id": "p-1",
        "token": "tok",
        "authentication": {"schemes": ["Bearer"], "credentials": "x"},
    },
}
CONFIG_PROTO = {
    "name": "tasks/t-1/pushNotificationConfigs/p-1",
    "pushNotificationConfig": CONFIG_JSON["pushNotificationConfig"],
}


class FakeOperations:
    """Remembers what it is asked and answers what it was told to."""

    def __init__(self, *, extended: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.reply: TaskView | MessageReply = VIEW
        self.pages = [PushPage([CONFIG])]
        self.closed = 0
        self.push, self.cards = FakePush(self), FakeCards(self)
        card = AgentCard("echo", "Says it again", "grpc://localhost:50051")
        self.card = PublicCard(card, (Binding("http://localhost:8080", "JSONRPC", V03),), extended_card=extended)

    async def send(self, caller: CallerInfo, params: SendParams) -> TaskView | MessageReply:
        self.calls.append(("send", caller, params))
        return self.reply

    def stream(self, caller: CallerInfo, params: SendParams) -> AsyncGenerator[list[Update], None]:
        self.calls.append(("stream", caller, params))
        return self._updates()

    def subscribe(
        self, caller: CallerInfo, tenant: str, task_id: str, after: int | None = None
    ) -> AsyncGenerator[list[Update], None]:
        self.calls.append(("subscribe", caller, tenant, task_id, after))
        return self._updates()

    async def _updates(self) -> AsyncGenerator[list[Update], None]:
        try:
            for batch in UPDATES:
                yield batch
        finally:
            self.closed += 1

    async def get(self, caller: CallerInfo, tenant: str, task_id: str, history_length: int | None = None) -> TaskView:
        self.calls.append(("get", caller, tenant, task_id, history_length))
        return VIEW

    async def cancel(
        self, caller: CallerInfo, tenant: str, task_id: str, metadata: dict[str, Any] | None = None
    ) -> TaskView:
        self.calls.append(("cancel", caller, tenant, task_id, metadata))
        return VIEW


class FakePush:
    """The operations about webhooks."""

    def __init__(self, operations: "FakeOperations") -> None:
        self._operations = operations

    async def set(self, caller: CallerInfo, config: PushConfig) -> PushConfig:
        self._operations.calls.append(("set_push", caller, config))
        return config

    async def get(self, caller: CallerInfo, tenant: str, task_id: str, config_id: str) -> PushConfig:
        self._operations.calls.append(("get_push", caller, tenant, task_id, config_id))
        return CONFIG

    async def list(
        self, caller: CallerInfo, tenant: str, task_id: str, page_size: int = 0, page_token: str = ""
    ) -> PushPage:
        self._operations.calls.append(("list_push", caller, tenant, task_id, page_size, page_token))
        return self._operations.pages.pop(0)

    async def delete(self, caller: CallerInfo, tenant: str, task_id: str, config_id: str) -> None:
        self._operations.calls.append(("delete_push", caller, tenant, task_id, config_id))


class FakeCards:
    """The operations about cards."""

    def __init__(self, operations: "FakeOperations") -> None:
        self._operations = operations

    def public(self) -> PublicCard:
        return self._operations.card

    async def extended(self, caller: CallerInfo) -> PublicCard:
        self._operations.calls.append(("extended_card", caller))
        return self._operations.card


@pytest.fixture
def operations() -> FakeOperations:
    return FakeOperations()


async def _call(operations: FakeOperations, method: str, params: dict[str, Any], caller: CallerInfo = CALLER) -> Any:
    return await JsonRpcV03(operations).unary[method](caller, params)


def _route(operations: FakeOperations, method: str, path: str) -> RestRoute:
    return next(each for each in rest_v03(operations) if (each.method, each.path) == (method, path))


async def _rest(
    operations: FakeOperations,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    query: dict[str, str] | None = None,
    caller: CallerInfo = CALLER,
    **params: str,
) -> Any:
    route = _route(operations, method, path)
    if route.stream is not None:
        return [event async for batch in route.stream(caller, params, query or {}, body or {}) for event in batch]
    if route.resume is not None:
        return [event async for batch in route.resume(caller, params, query or {}, body or {}, 7) for event in batch]
    return await route.answer(caller, params, query or {}, body or {})


class FakeContext:
    """What a servicer looks at of an RPC."""

    def __init__(self, version: str = "") -> None:
        self._version = version

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("a2a-version", self._version),) if self._version else ()


CONTEXT: Any = FakeContext()


TASK_PATH = "/v1/tasks/{id}"
CONFIGS = f"{TASK_PATH}/pushNotificationConfigs"


# -- JSON-RPC ------------------------------------------------------------------------------------------------------------


def test_the_methods_are_those_of_v03(operations: FakeOperations) -> None:
    methods = JsonRpcV03(operations).methods
    assert set(methods) == {
        "message/send",
        "message/stream",
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "tasks/pushNotificationConfig/set",
        "tasks/pushNotificationConfig/get",
        "tasks/pushNotificationConfig/list",
        "tasks/pushNotificationConfig/delete",
        "agent/getAuthenticatedExtendedCard",
    }
    assert "tasks/list" not in methods
    assert "SendMessage" not in methods


async def test_a_sent_message_is_answered_with_a_bare_task(operations: FakeOperations) -> None:
    assert await _call(operations, "message/send", {"message": SAID}) == TASK
    [(verb, caller, params)] = operations.calls
    assert (verb, caller, params.message.parts) == ("send", V03_CALLER, [Part("text", "to be")])


async def test_a_sent_message_may_be_answered_with_a_bare_message(operations: FakeOperations) -> None:
    operations.reply = MessageReply(Message("m-2", "agent", [Part("text", "again")]), "c-1")
    assert await _call(operations, "message/send", {"message": SAID}) == {
        "kind": "message",
        "messageId": "m-2",
        "role": "agent",
        "contextId": "c-1",
        "parts": [{"kind": "text", "text": "again"}],
    }


@pytest.mark.parametrize(
    ("method", "params"), [("message/stream", {"message": SAID}), ("tasks/resubscribe", {"id": "t-1"})]
)
async def test_a_stream_ends_with_its_final_update(
    operations: FakeOperations, method: str, params: dict[str, Any]
) -> None:
    batches = [batch async for batch in JsonRpcV03(operations).streaming[method](CALLER, params)]
    assert [[sequence for sequence, _ in batch] for batch in batches] == [[2], [3, 4]]
    found = [event for batch in batches for _, event in batch]
    assert [event["kind"] for event in found] == ["task", "status-update", "status-update"]
    assert [event.get("final") for event in found] == [None, False, True]
    for event in found:
        schema.SendStreamingMessageSuccessResponse.model_validate({"id": 1, "jsonrpc": "2.0", "result": event})
    assert operations.closed == 1


async def test_hanging_up_closes_the_stream_behind(operations: FakeOperations) -> None:
    stream = JsonRpcV03(operations).streaming["message/stream"](CALLER, {"message": SAID})
    await anext(stream)
    await stream.aclose()
    assert operations.closed == 1


async def test_a_task_is_got_and_canceled_by_its_id(operations: FakeOperations) -> None:
    assert await _call(operations, "tasks/get", {"id": "t-1", "historyLength": 2}) == TASK
    assert await _call(operations, "tasks/get", {"id": "t-1", "historyLength": 0}) == TASK
    assert await _call(operations, "tasks/cancel", {"id": "t-1", "metadata": {"reason": "late"}}) == TASK
    assert operations.calls == [
        ("get", V03_CALLER, "", "t-1", 2),
        ("get", V03_CALLER, "", "t-1", None),
        ("cancel", V03_CALLER, "", "t-1", {"reason": "late"}),
    ]


async def test_push_configs_are_set_got_listed_and_deleted(operations: FakeOperations) -> None:
    name = "tasks/pushNotificationConfig/"
    ids = {"id": "t-1", "pushNotificationConfigId": "p-1"}
    assert await _call(operations, f"{name}set", CONFIG_JSON) == CONFIG_JSON
    assert await _call(operations, f"{name}get", ids) == CONFIG_JSON
    operations.pages = [PushPage([CONFIG], "more"), PushPage([CONFIG])]
    assert await _call(operations, f"{name}list", {"id": "t-1"}) == [CONFIG_JSON, CONFIG_JSON]
    assert await _call(operations, f"{name}delete", ids) is None
    assert operations.calls == [
        ("set_push", V03_CALLER, CONFIG),
        ("get_push", V03_CALLER, "", "t-1", "p-1"),
        ("list_push", V03_CALLER, "", "t-1", MAX_PAGE_SIZE, ""),
        ("list_push", V03_CALLER, "", "t-1", MAX_PAGE_SIZE, "more"),
        ("delete_push", V03_CALLER, "", "t-1", "p-1"),
    ]


async def test_a_push_config_without_its_id_is_the_oldest(operations: FakeOperations) -> None:
    operations.pages = [PushPage([CONFIG]), PushPage([])]
    assert await _call(operations, "tasks/pushNotificationConfig/get", {"id": "t-1"}) == CONFIG_JSON
    with pytest.raises(errors.TaskNotFoundError):
        await _call(operations, "tasks/pushNotificationConfig/get", {"id": "t-1"})


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("message/send", {}, "message"),
        ("tasks/get", {}, "id"),
        ("tasks/get", {"id": 1}, "id"),
        ("tasks/get", {"id": "x" * 129}, "id"),
        ("tasks/get", {"id": "t", "historyLength": -1}, "historyLength"),
        ("tasks/get", {"id": "t", "historyLength": "many"}, "historyLength"),
        ("tasks/cancel", {"id": ""}, "id"),
        ("tasks/cancel", {"id": "t", "metadata": 1}, "metadata"),
        ("tasks/pushNotificationConfig/delete", {"id": "t"}, "pushNotificationConfigId"),
        ("tasks/pushNotificationConfig/get", {"pushNotificationConfigId": "p"}, "id"),
        ("tasks/pushNotificationConfig/set", {}, "taskId"),
        ("tasks/pushNotificationConfig/list", {}, "id"),
    ],
)
async def test_wrong_params_are_refused_with_their_path(
    operations: FakeOperations, method: str, params: dict[str, Any], path: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        await _call(operations, method, params)
    assert caught.value.field == path
    assert operations.calls == []


async def test_the_extended_card_of_an_agent_without_one_is_not_configured(operations: FakeOperations) -> None:
    with pytest.raises(errors.ExtendedCardNotConfiguredError):
        await _call(operations, "agent/getAuthenticatedExtendedCard", {})


async def test_the_extended_card_is_a_card_of_v03() -> None:
    operations = FakeOperations(extended=True)
    card = await _call(operations, "agent/getAuthenticatedExtendedCard", {})
    assert schema.AgentCard.model_validate(card).protocol_version == "0.3.0"
    assert operations.calls == [("extended_card", V03_CALLER)]


# -- every binding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, "0.2"])
async def test_no_binding_serves_another_version(operations: FakeOperations, version: str) -> None:
    caller, rpc = CallerInfo(version=version), JsonRpcV03(operations)
    for call in rpc.unary.values():
        with pytest.raises(errors.VersionNotSupportedError):
            await call(caller, {"id": "t", "pushNotificationConfigId": "p", "message": SAID, **CONFIG_JSON})
    for stream in rpc.streaming.values():
        with pytest.raises(errors.VersionNotSupportedError):
            await anext(stream(caller, {"id": "t", "message": SAID}))
    for route in rest_v03(operations):
        with pytest.raises(errors.VersionNotSupportedError):
            await _rest(operations, route.method, route.path, {"message": SAID}, caller=caller, id="t", config_id="p")
    servicer, context = A2AV03Servicer(operations), FakeContext(version)
    for method in SERVICE.methods:
        answer = getattr(servicer, method.name)(_full(method.input_type.name), context)
        with pytest.raises(errors.VersionNotSupportedError):
            await (anext(answer) if method.server_streaming else answer)
    assert operations.calls == []


def _full(name: str) -> Any:
    """A request of this kind that has nothing wrong with it."""
    found = getattr(pb, name)()
    for field, value in (
        ("name", "tasks/t/pushNotificationConfigs/p" if "Config" in name else "tasks/t"),
        ("parent", "tasks/t"),
    ):
        if field in found.DESCRIPTOR.fields_by_name:
            setattr(found, field, value)
    if name == "SendMessageRequest":
        found.request.CopyFrom(SAID_PB)
    if name == "CreateTaskPushNotificationConfigRequest":
        found.config.push_notification_config.url = "https://a/hook"
    return found


# -- REST ----------------------------------------------------------------------------------------------------------------


def test_verbs_are_tried_before_tasks(operations: FakeOperations) -> None:
    routes = [(route.method, route.path) for route in rest_v03(operations)]
    assert routes.index(("GET", f"{TASK_PATH}:subscribe")) < routes.index(("GET", TASK_PATH))
    assert ("POST", f"{TASK_PATH}:subscribe") in routes
    ways = [(route.answer, route.stream, route.resume) for route in rest_v03(operations)]
    assert all(sum(way is not None for way in each) == 1 for each in ways)


@pytest.mark.parametrize("snake", [True, False])
async def test_a_message_in_protojson_is_answered_in_protojson(operations: FakeOperations, snake: bool) -> None:
    body = MessageToDict(pb.SendMessageRequest(request=SAID_PB), preserving_proto_field_name=snake)
    assert ("request" in body) is snake
    assert await _rest(operations, "POST", "/v1/message:send", body) == {"task": TASK_PROTO}
    assert operations.calls[0][2].message.parts == [Part("text", "to be")]


async def test_a_message_in_the_words_of_json_rpc_is_answered_in_them(operations: FakeOperations) -> None:
    assert await _rest(operations, "POST", "/v1/message:send", {"message": SAID}) == TASK
    assert operations.calls[0][2].message.parts == [Part("text", "to be")]


async def test_a_rest_stream_speaks_as_it_is_spoken_to(operations: FakeOperations) -> None:
    body = MessageToDict(pb.SendMessageRequest(request=SAID_PB))
    events = await _rest(operations, "POST", "/v1/message:stream", body)
    assert [sequence for sequence, _ in events] == [2, 3, 4]
    assert [next(iter(event)) for _, event in events] == ["task", "statusUpdate", "statusUpdate"]
    assert events[-1][1]["statusUpdate"]["final"] is True
    events = await _rest(operations, "POST", "/v1/message:stream", {"message": SAID})
    assert [event["kind"] for _, event in events] == ["task", "status-update", "status-update"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_task_is_subscribed_to_with_either_verb(operations: FakeOperations, method: str) -> None:
    events = await _rest(operations, method, f"{TASK_PATH}:subscribe", id="t-1")
    assert [next(iter(event)) for _, event in events] == ["task", "statusUpdate", "statusUpdate"]
    assert operations.calls == [("subscribe", V03_CALLER, "", "t-1", 7)]
    assert operations.closed == 1


@pytest.mark.parametrize(
    ("query", "length"),
    [({}, None), ({"historyLength": "2"}, 2), ({"history_length": "2"}, 2), ({"historyLength": "0"}, None)],
)
async def test_a_task_is_got_over_rest(operations: FakeOperations, query: dict[str, str], length: int | None) -> None:
    assert await _rest(operations, "GET", TASK_PATH, query=query, id="t-1") == TASK_PROTO
    assert operations.calls == [("get", V03_CALLER, "", "t-1", length)]


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "2147483648", "9" * 30, "²"])
async def test_a_history_length_that_is_no_count_is_refused(operations: FakeOperations, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        await _rest(operations, "GET", TASK_PATH, query={"history_length": text}, id="t-1")
    assert caught.value.field == "history_length"


async def test_a_task_is_canceled_over_rest(operations: FakeOperations) -> None:
    assert await _rest(operations, "POST", f"{TASK_PATH}:cancel", id="t-1") == TASK_PROTO
    assert operations.calls == [("cancel", V03_CALLER, "", "t-1", {})]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"parent": "tasks/other", "config_id": "p-1", "config": CONFIG_PROTO}, CONFIG_PROTO),
        (CONFIG_PROTO, CONFIG_PROTO),
        (CONFIG_JSON, CONFIG_JSON),
    ],
)
async def test_a_push_config_is_created_for_the_task_in_the_path(
    operations: FakeOperations, body: dict[str, Any], answer: dict[str, Any]
) -> None:
    assert await _rest(operations, "POST", CONFIGS, body, id="t-1") == answer
    assert operations.calls == [("set_push", V03_CALLER, CONFIG)]


async def test_push_configs_are_got_listed_and_deleted_over_rest(operations: FakeOperations) -> None:
    one = f"{CONFIGS}/{{config_id}}"
    assert await _rest(operations, "GET", one, id="t-1", config_id="p-1") == CONFIG_PROTO
    operations.pages = [PushPage([CONFIG], "more")]
    assert await _rest(operations, "GET", CONFIGS, query={"pageSize": "1"}, id="t-1") == {
        "configs": [CONFIG_PROTO],
        "nextPageToken": "more",
    }
    assert await _rest(operations, "DELETE", one, id="t-1", config_id="p-1") == {}
    assert operations.calls == [
        ("get_push", V03_CALLER, "", "t-1", "p-1"),
        ("list_push", V03_CALLER, "", "t-1", 1, ""),
        ("delete_push", V03_CALLER, "", "t-1", "p-1"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": 1},
        {"message": []},
        {"request": {"content": 1}},
        {"message": {"role": "ROLE_USER"}},
        {"metadata": 3},
    ],
)
async def test_a_wrong_body_is_refused(operations: FakeOperations, body: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        await _rest(operations, "POST", "/v1/message:send", body)
    assert caught.value.field
    assert operations.calls == []


words = st.text(max_size=5) | st.sampled_from(["message", "request", "content", "parts", "kind", "file", "metadata"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(words, values, max_size=4))
async def test_any_body_is_read_or_refused(body: dict[str, Any]) -> None:
    operations = FakeOperations()
    for path in ("/v1/message:send", CONFIGS):
        with suppress(errors.InvalidArgumentError):
            await _rest(operations, "POST", path, body, id="t-1")


async def test_the_card_over_rest_is_the_public_one_or_the_extended_one(operations: FakeOperations) -> None:
    card = await _rest(operations, "GET", "/v1/card")
    ParseDict(card, pb.AgentCard())
    assert (card["name"], card["protocolVersion"], operations.calls) == ("echo", "0.3.0", [])
    extended = FakeOperations(extended=True)
    await _rest(extended, "GET", "/v1/card")
    assert extended.calls == [("extended_card", V03_CALLER)]


# -- gRPC ----------------------------------------------------------------------------------------------------------------


def test_the_servicer_has_every_method_of_the_service(operations: FakeOperations) -> None:
    servicer = A2AV03Servicer(operations)
    assert all(callable(getattr(servicer, method.name)) for method in SERVICE.methods)
    assert SERVICE.full_name == "a2a.v1.A2AService"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.TaskNotFoundError("x"), "NOT_FOUND", "TaskNotFoundError: x"),
        (errors.TaskNotCancelableError("x"), "FAILED_PRECONDITION", "TaskNotCancelableError: x"),
        (errors.TaskFinishedError("x"), "UNIMPLEMENTED", "UnsupportedOperationError: x"),
        (errors.PushNotSupportedError("x"), "UNIMPLEMENTED", "PushNotificationNotSupportedError: x"),
        (errors.UnsupportedOperationError("x"), "UNIMPLEMENTED", "UnsupportedOperationError: x"),
        (errors.ExtendedCardNotConfiguredError("x"), "FAILED_PRECONDITION", "ExtendedAgentCardNotConfiguredError: x"),
        (errors.ContentTypeNotSupportedError("x"), "INVALID_ARGUMENT", "ContentTypeNotSupportedError: x"),
        (errors.InvalidArgumentError("x", field="name"), "INVALID_ARGUMENT", "InvalidParamsError: name: x"),
        (errors.UnauthenticatedError("x"), "UNAUTHENTICATED", "x"),
        (errors.InternalError("x"), "INTERNAL", "InternalError: x"),
    ],
)
def test_an_error_has_the_status_and_name_that_clients_of_v03_know(
    error: errors.ProtolinkError, code: str, message: str
) -> None:
    status = to_status(error)
    assert (code_pb2.Code.Name(status.code), status.message) == (code, message)
    assert len(status.details) >= 1
    assert A2AV03Servicer.to_status is to_status


async def test_a_message_over_grpc_is_answered_with_a_task_or_a_message(operations: FakeOperations) -> None:
    servicer, request = A2AV03Servicer(operations), pb.SendMessageRequest(request=SAID_PB)
    assert MessageToDict((await servicer.SendMessage(request, CONTEXT)).task) == TASK_PROTO
    operations.reply = MessageReply(Message("m-2", "agent", [Part("text", "again")]), "c-1")
    assert (await servicer.SendMessage(request, CONTEXT)).msg.content[0].text == "again"
    assert [call[:2] for call in operations.calls] == [("send", V03_CALLER)] * 2


async def test_streams_over_grpc_end_with_their_final_update(operations: FakeOperations) -> None:
    servicer = A2AV03Servicer(operations)
    streams: list[AsyncIterator[pb.StreamResponse]] = [
        servicer.SendStreamingMessage(pb.SendMessageRequest(request=SAID_PB), CONTEXT),
        servicer.TaskSubscription(pb.TaskSubscriptionRequest(name="tasks/t-1"), CONTEXT),
    ]
    for stream in streams:
        found = [event async for event in stream]
        assert [event.WhichOneof("payload") for event in found] == ["task", "status_update", "status_update"]
        assert [event.status_update.final for event in found[1:]] == [False, True]
    assert operations.closed == 2
    assert operations.calls[1] == ("subscribe", V03_CALLER, "", "t-1", None)


async def test_a_task_over_grpc_is_got_and_canceled_by_its_name(operations: FakeOperations) -> None:
    servicer = A2AV03Servicer(operations)
    for length in (0, 2):
        found = await servicer.GetTask(pb.GetTaskRequest(name="tasks/t-1", history_length=length), CONTEXT)
        assert MessageToDict(found) == TASK_PROTO
    assert MessageToDict(await servicer.CancelTask(pb.CancelTaskRequest(name="tasks/t-1"), CONTEXT)) == TASK_PROTO
    assert operations.calls == [
        ("get", V03_CALLER, "", "t-1", None),
        ("get", V03_CALLER, "", "t-1", 2),
        ("cancel", V03_CALLER, "", "t-1", {}),
    ]


async def test_push_configs_over_grpc_are_set_got_listed_and_deleted(operations: FakeOperations) -> None:
    servicer, name = A2AV03Servicer(operations), "tasks/t-1/pushNotificationConfigs/p-1"
    create = pb.CreateTaskPushNotificationConfigRequest(parent="tasks/t-1", config_id="p-1")
    ParseDict(CONFIG_PROTO, create.config)
    assert MessageToDict(await servicer.CreateTaskPushNotificationConfig(create, CONTEXT)) == CONFIG_PROTO
    get = pb.GetTaskPushNotificationConfigRequest(name=name)
    assert MessageToDict(await servicer.GetTaskPushNotificationConfig(get, CONTEXT)) == CONFIG_PROTO
    page = pb.ListTaskPushNotificationConfigRequest(parent="tasks/t-1", page_size=3, page_token="p")
    listed = await servicer.ListTaskPushNotificationConfig(page, CONTEXT)
    assert MessageToDict(listed) == {"configs": [CONFIG_PROTO]}
    await servicer.DeleteTaskPushNotificationConfig(pb.DeleteTaskPushNotificationConfigRequest(name=name), CONTEXT)
    assert operations.calls == [
        ("set_push", V03_CALLER, CONFIG),
        ("get_push", V03_CALLER, "", "t-1", "p-1"),
        ("list_push", V03_CALLER, "", "t-1", 3, "p"),
        ("delete_push", V03_CALLER, "", "t-1", "p-1"),
    ]


async def test_the_card_over_grpc_is_the_public_one_or_the_extended_one(operations: FakeOperations) -> None:
    card = await A2AV03Servicer(operations).GetAgentCard(pb.GetAgentCardRequest(), CONTEXT)
    assert (card.name, card.protocol_version, operations.calls) == ("echo", "0.3.0", [])
    extended = FakeOperations(extended=True)
    await A2AV03Servicer(extended).GetAgentCard(pb.GetAgentCardRequest(), CONTEXT)
    assert extended.calls == [("extended_card", V03_CALLER)]


async def test_a_reader_over_json_rpc_comes_back_after_the_event_that_it_has_seen(operations: FakeOperations) -> None:
    _ = [batch async for batch in JsonRpcV03(operations).resubscribe(CALLER, {"id": "t-1"}, 7)]
    assert operations.calls == [("subscribe", V03_CALLER, "", "t-1", 7)]
