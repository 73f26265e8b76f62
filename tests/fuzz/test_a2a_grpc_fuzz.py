"""Arbitrary requests to A2A over gRPC: an invalid one gets a status of the kind "invalid request"."""

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hostile_world import PATIENCE_S, Hostile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_messages import any_fields

pytestmark = pytest.mark.usefixtures("unharmed")

relaxed = settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

Code = grpc.StatusCode

REFUSED: Final = {Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.FAILED_PRECONDITION}
"""What a caller's mistake may be called."""

V03_ONLY: Final = {Code.UNIMPLEMENTED}
"""v0.3's word for what the agent does not offer."""


class Method:
    """One RPC of A2A, without a stub: its requests are any bytes."""

    def __init__(self, service: Any, descriptor: Any) -> None:
        self.name: str = descriptor.name
        self.version = "1.0" if service.full_name.startswith("lf.") else "0.3"
        self.path = f"/{service.full_name}/{self.name}"
        self.request = GetMessageClass(descriptor.input_type)
        self.streams: bool = descriptor.server_streaming

    def __repr__(self) -> str:
        return f"{self.version}-{self.name}"


METHODS = [
    Method(service, method)
    for service in (
        a2a_pb2.DESCRIPTOR.services_by_name["A2AService"],
        a2a_v0_3_pb2.DESCRIPTOR.services_by_name["A2AService"],
    )
    for method in service.methods
]
each_method = pytest.mark.parametrize("method", METHODS, ids=repr)

Call = Callable[[Method, bytes], "Outcome"]


class Outcome:
    """Status of a call, with its details."""

    def __init__(self, error: grpc.RpcError | None = None) -> None:
        self.code = Code.OK if error is None else error.code()
        self.text = "" if error is None else error.details()
        self.info = error_details_pb2.ErrorInfo()
        sent_by_us = error is not None and "Stream removed" not in self.text
        status = rpc_status.from_call(error) if sent_by_us else None
        if status is not None:
            status.details[0].Unpack(self.info)

    def __repr__(self) -> str:
        return f"{self.code} {self.text[:300]}"


@pytest.fixture(scope="module")
def call(world: Hostile) -> Iterator[Call]:
    with grpc.insecure_channel(world.target) as channel:

        def send(method: Method, request: bytes) -> Outcome:
            try:
                metadata = [("a2a-version", method.version)]
                if method.streams:
                    list(channel.unary_stream(method.path)(request, timeout=PATIENCE_S, metadata=metadata))
                else:
                    channel.unary_unary(method.path)(request, timeout=PATIENCE_S, metadata=metadata)
            except grpc.RpcError as error:
                return Outcome(error)
            return Outcome()

        yield send


def must_be_the_callers(outcome: Outcome, method: Method) -> None:
    """Done, or refused for what the caller has done, with the reason."""
    if outcome.code is not Code.OK:
        assert outcome.code in REFUSED | (V03_ONLY if method.version == "0.3" else set()), outcome
        assert outcome.info.reason
        assert outcome.info.domain


def must_be_answered(call: Call, method: Method, raw: bytes) -> None:
    outcome = call(method, raw)
    try:
        method.request.FromString(raw)
    except DecodeError:
        assert outcome.code is Code.INVALID_ARGUMENT, outcome
    must_be_the_callers(outcome, method)


@each_method
@relaxed
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_callers_mistake(call: Call, method: Method, raw: bytes) -> None:
    must_be_answered(call, method, raw)


@pytest.mark.parametrize("method", [each for each in METHODS if each.request.DESCRIPTOR.fields], ids=repr)
@relaxed
@given(data=st.data())
def test_a_message_of_any_values_is_done_or_refused(call: Call, method: Method, data: st.DataObject) -> None:
    fields = data.draw(any_fields(method.request.DESCRIPTOR))
    must_be_the_callers(call(method, method.request(**fields).SerializeToString()), method)


# -- requests that are nearly right --------------------------------------------------------------------------------------

WEBHOOK = {"url": "http://127.0.0.1:9/x", "token": "t"}


def valid(method: Method, task: str) -> Message:
    """A request with which the method does something."""
    return ParseDict(
        v1_request(method.name, task) if method.version == "1.0" else v03_request(method.name, task), method.request()
    )


def v1_request(name: str, task: str) -> dict[str, Any]:
    configs = {"taskId": task, "id": "one"}
    match name:
        case "SendMessage" | "SendStreamingMessage":
            parts = [{"text": "a"}, {"raw": "AAEC"}, {"url": "https://x.example"}, {"data": {"a": [1, None, "b"]}}]
            message = {"messageId": "m", "role": "ROLE_USER", "parts": parts, "metadata": {"a": 1}, "contextId": "c"}
            configuration = {"historyLength": 1, "taskPushNotificationConfig": WEBHOOK}
            return {"message": message, "configuration": configuration, "metadata": {"b": {"c": 2}}}
        case "ListTasks":
            return {"contextId": "c", "pageSize": 2, "statusTimestampAfter": "2020-01-01T00:00:00Z"}
        case "CreateTaskPushNotificationConfig":
            return configs | WEBHOOK
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            return configs
        case "ListTaskPushNotificationConfigs":
            return {"taskId": task}
        case "GetExtendedAgentCard":
            return {}
        case _:
            return {"id": task}


def v03_request(name: str, task: str) -> dict[str, Any]:
    config = f"tasks/{task}/pushNotificationConfigs/one"
    match name:
        case "SendMessage" | "SendStreamingMessage":
            parts = [{"text": "a"}, {"file": {"fileWithBytes": "AAEC"}}, {"data": {"data": {"a": [1]}}}]
            message = {
                "messageId": "m",
                "role": "ROLE_USER",
                "content": parts,
                "metadata": {"a": 1},
                "contextId": "old",
            }
            return {"request": message, "configuration": {"historyLength": 1, "blocking": True}}
        case "CreateTaskPushNotificationConfig":
            webhook = {"name": config, "pushNotificationConfig": {"id": "one", **WEBHOOK}}
            return {"parent": f"tasks/{task}", "configId": "one", "config": webhook}
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            return {"name": config}
        case "ListTaskPushNotificationConfig":
            return {"parent": f"tasks/{task}"}
        case "GetAgentCard":
            return {}
        case _:
            return {"name": f"tasks/{task}"}


ENDED = {"CancelTask", "SubscribeToTask", "TaskSubscription"}


def test_nothing_wrong_is_done(call: Call, task_id: str) -> None:
    """Else the test below would say nothing."""
    for method in METHODS:
        outcome = call(method, valid(method, task_id).SerializeToString())
        unmet = method.name in ENDED or method.name == "GetExtendedAgentCard"
        assert (outcome.code is Code.OK) is not unmet, (method, outcome)


@each_method
def test_a_request_with_wrong_bytes_is_done_or_refused(call: Call, task_id: str, method: Method) -> None:
    noise = random.Random(4)
    right = valid(method, task_id).SerializeToString()
    for _ in range(60):
        raw = bytearray(right)
        for _ in range(noise.randrange(1, 4)):
            at = noise.randrange(len(raw) + 1)
            match noise.randrange(4):
                case 0 if raw:
                    raw[at % len(raw)] = noise.randrange(256)
                case 1:
                    del raw[at : at + noise.randrange(1, 8)]
                case 2:
                    raw[at:at] = noise.randbytes(noise.randrange(1, 8))
                case _:
                    raw[at:at] = raw[at : at + noise.randrange(1, 60)]
        must_be_answered(call, method, bytes(raw))


HUGE = "x" * 1_000_000
TEXTS = {
    "huge": HUGE,
    "a header's worth": "x" * 7000,
    "controls": "\x00\r\n",
    "bidi": "\u202e",
    "unassigned": "\U0010ffff",
}


by_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


def named(name: str) -> Method:
    return next(each for each in METHODS if repr(each) == name)


@by_text
@pytest.mark.parametrize("name", ["1.0-GetTask", "1.0-CancelTask", "1.0-SubscribeToTask"])
def test_a_tenant_that_is_none_is_refused(call: Call, name: str, text: str) -> None:
    method = named(name)
    outcome = call(method, method.request(id="i", tenant=text).SerializeToString())
    assert outcome.code is Code.INVALID_ARGUMENT, outcome


@by_text
@pytest.mark.parametrize("name", ["1.0-GetTask", "1.0-CancelTask", "1.0-SubscribeToTask"])
def test_an_id_that_is_none_is_refused(call: Call, name: str, text: str) -> None:
    method = named(name)
    outcome = call(method, method.request(id=text).SerializeToString())
    assert outcome.code is Code.INVALID_ARGUMENT, outcome


@by_text
@pytest.mark.parametrize("field", ["id", "task_id"])
def test_an_id_that_is_none_is_refused_in_a_push_config(call: Call, task_id: str, field: str, text: str) -> None:
    method = named("1.0-GetTaskPushNotificationConfig")
    request = method.request(id="one", task_id=task_id)
    setattr(request, field, text)
    outcome = call(method, request.SerializeToString())
    assert outcome.code is Code.INVALID_ARGUMENT, outcome


@by_text
@pytest.mark.parametrize("name", ["0.3-GetTask", "0.3-CancelTask", "0.3-TaskSubscription"])
def test_a_name_that_is_none_is_refused_in_v03(call: Call, name: str, text: str) -> None:
    method = named(name)
    outcome = call(method, method.request(name=f"tasks/{text}").SerializeToString())
    assert outcome.code is Code.INVALID_ARGUMENT, outcome


LONG_VERSION = pytest.param("9" * 6000, id="long")


@pytest.mark.parametrize("version", [LONG_VERSION, "1.0,0.3", "1", "", "v1.0", "0x1.0"])
def test_another_version_is_refused_whatever_it_says(world: Hostile, version: str) -> None:
    with grpc.insecure_channel(world.target) as channel:
        listing = channel.unary_unary("/lf.a2a.v1.A2AService/ListTasks")
        with pytest.raises(grpc.RpcError) as caught:
            listing(b"", timeout=PATIENCE_S, metadata=[("a2a-version", version)])
    outcome = Outcome(caught.value)
    assert (outcome.code, outcome.info.reason) == (Code.FAILED_PRECONDITION, "VERSION_NOT_SUPPORTED"), outcome


def deep(levels: int, *, lists: bool) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found] if lists else {"a": found}
    return found


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "objects"])
@pytest.mark.parametrize("levels", [20, 30, 33, 45])
def test_data_as_deep_as_protobuf_reads_is_done(call: Call, levels: int, lists: bool) -> None:
    method = METHODS[0]
    request = method.request()
    request.message.message_id, request.message.role = "m", a2a_pb2.ROLE_USER
    ParseDict(deep(levels, lists=lists), request.message.parts.add().data)
    raw = request.SerializeToString()
    must_be_answered(call, method, raw)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_refused_by_its_place(call: Call, number: float) -> None:
    method = METHODS[0]
    request = method.request()
    request.message.message_id, request.message.role = "m", a2a_pb2.ROLE_USER
    request.message.parts.add().data.number_value = number
    outcome = call(method, request.SerializeToString())
    assert (outcome.code, outcome.info.metadata["field"]) == (Code.INVALID_ARGUMENT, "message.parts[0].data")


def test_more_parts_than_the_bound_are_refused(call: Call) -> None:
    for method in (METHODS[0], named("0.3-SendMessage")):
        request = method.request()
        message = request.message if method.version == "1.0" else request.request
        message.message_id, message.role = "m", 1
        parts = message.parts if method.version == "1.0" else message.content
        for _ in range(1001):
            parts.add(text="x")
        outcome = call(method, request.SerializeToString())
        assert (outcome.code, outcome.info.metadata["cause"]) == (Code.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE")
