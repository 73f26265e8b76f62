"""Arbitrary requests over JSON-RPC: the answer has the id of the request, and the code of the mistake."""

import json
from typing import Any

import httpx
import pytest
from a2a_requests import OLD_WEBHOOK, WEBHOOK, Json, v03_send, v1_send
from hostile_world import V1, Hostile
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from json_mutations import json_values, mutated, mutations, numbers, texts, written

pytestmark = pytest.mark.usefixtures("unharmed")

relaxed = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602
A2A = range(-32009, -32000)
"""Of these, -32006 is an agent that has failed."""


def answers(world: Hostile, body: bytes, **headers: str) -> list[Json]:
    """Every JSON-RPC answer to a body: one, or those of a stream."""
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    answer = world.http.post("/", content=body, headers=sent | headers)
    assert answer.status_code == 200, answer.text
    found = [checked(each) for each in payloads(answer)]
    assert found
    return found


def payloads(answer: httpx.Response) -> list[str]:
    if answer.headers["content-type"] == "application/json":
        return [answer.text]
    assert answer.headers["content-type"].startswith("text/event-stream")
    frames = answer.text.removesuffix("\n\n").split("\n\n")
    lines = [[line.partition(": ") for line in frame.split("\n")] for frame in frames]
    assert all(name in ("id", "data") for frame in lines for name, _, _ in frame)
    return [data for frame in lines for name, _, data in frame if name == "data"]


def checked(text: str) -> Json:
    found = json.loads(text)
    assert found["jsonrpc"] == "2.0"
    assert found.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in found:
        assert isinstance(found["error"]["code"], int)
        assert isinstance(found["error"]["message"], str)
    return dict(found)


def refused_for_its_params(error: Json) -> None:
    """It is neither our mistake nor the agent's, and says of what kind it is."""
    code, data = error["code"], error["data"]
    reason = data["reason"] if isinstance(data, dict) else data[0]["reason"]
    assert reason
    assert code == PARAMS or (code in A2A and code != -32006), error


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same type: 1 is neither 1.0 nor true."""
    return type(one) is type(other) and (repr(one) == repr(other))


# -- envelopes -----------------------------------------------------------------------------------------------------------


@relaxed
@given(body=st.binary(max_size=100) | st.text(max_size=50).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"")
@example(b"\xef\xbb\xbf{}")
@example(b"\x00")
@example(b"{}\x00")
@example('{"jsonrpc":"2.0"}'.encode("utf-16"))
@example(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}')
@example(b'{"jsonrpc":"2.0","id":NaN,"method":"GetTask"}')
@example(b'{"jsonrpc":"2.0","id":"\\ud800","method":"GetTask"}')
@example(b"[" * 10_000)
@example(b"[" * 10_000 + b"]" * 10_000)
@example(b'{"a":' * 10_000 + b"1" + b"}" * 10_000)
def test_bytes_that_are_no_request_are_told_so(world: Hostile, body: bytes) -> None:
    (answer,) = answers(world, body)
    assert answer["id"] is None
    assert answer["error"]["code"] in (PARSE, REQUEST)


@relaxed
@given(value=json_values)
@example([{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}])
@example([])
@example("GetTask")
def test_a_value_that_is_no_request_is_told_so(world: Hostile, value: Any) -> None:
    (answer,) = answers(world, written(value))
    assert answer["error"]["code"] == REQUEST
    given_id = value.get("id") if isinstance(value, dict) else None
    assert same(answer["id"], None if isinstance(given_id, bool | list | dict) else given_id)


ENVELOPE: Json = {"jsonrpc": "2.0", "id": "1", "method": "ListTasks", "params": {}}


@relaxed
@given(
    key=st.sampled_from(list(ENVELOPE)),
    value=json_values,
    unknown=st.dictionaries(texts, json_values, max_size=2),
)
def test_an_envelope_with_one_wrong_member_has_the_code_of_that_member(
    world: Hostile, key: str, value: Any, unknown: Json
) -> None:
    envelope = unknown | ENVELOPE | {key: value}
    (answer,) = answers(world, written(envelope), **V1)
    code = answer.get("error", {}).get("code")
    match key:
        case "jsonrpc":
            assert code == REQUEST
        case "id" if isinstance(value, bool | list | dict):
            assert code == REQUEST
            return
        case "id":
            assert code is None
        case "method":
            assert code == (METHOD if isinstance(value, str) and value else REQUEST)
        case _:
            assert code in ((None, PARAMS) if isinstance(value, dict) or value is None else (PARAMS,))
    assert same(answer["id"], envelope["id"])


ids = numbers | texts | st.none() | st.integers(10**300, 10**307)


@relaxed
@given(call_id=ids)
@example(2**64)
@example(-(2**63) - 1)
@example(10**307)
@example(0.1 + 0.2)
@example(-0.0)
@example(1.0)
@example(5e-324)
@example("\x00\n\r\u2028\ud7ff\U0010ffff")
@example("x" * 1024)
def test_an_id_comes_back_exactly_whatever_becomes_of_the_call(world: Hostile, task_id: str, call_id: Any) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    for method, params in (
        ("GetTask", {"id": task_id}),
        ("GetTask", {"id": "unknown"}),
        ("GetTask", {}),
        ("Nothing", {}),
        ("SendStreamingMessage", {"message": message}),
    ):
        envelope = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
        for answer in answers(world, written(envelope), **V1):
            assert same(answer["id"], call_id)


@relaxed
@given(name=texts | st.sampled_from(["sendMessage", "SENDMESSAGE", "GetTask ", "tasks/list", "__init__", "message/"]))
def test_a_method_that_is_none_is_not_found(world: Hostile, name: str) -> None:
    (answer,) = answers(world, written(ENVELOPE | {"method": name}), **V1)
    assert answer["error"]["code"] == (METHOD if name else REQUEST)


# -- parameters ----------------------------------------------------------------------------------------------------------


def valid(method: str, task: str) -> Json:
    """Parameters with which the method does something."""
    match method:
        case "SendMessage" | "SendStreamingMessage":
            return v1_send(task)
        case "message/send" | "message/stream":
            return v03_send(task)
        case "GetTask" | "tasks/get":
            return {"id": task, "historyLength": 2}
        case "ListTasks":
            stamp = "2020-01-01T00:00:00.5Z"
            return {"contextId": "c", "status": "TASK_STATE_COMPLETED", "pageSize": 2, "statusTimestampAfter": stamp}
        case "CreateTaskPushNotificationConfig":
            return {"taskId": task, "id": "one", **WEBHOOK}
        case "tasks/pushNotificationConfig/set":
            return {"taskId": task, "pushNotificationConfig": {"id": "one", **OLD_WEBHOOK}}
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            return {"taskId": task, "id": "one"}
        case "ListTaskPushNotificationConfigs":
            return {"taskId": task, "pageSize": 2, "pageToken": ""}
        case _:
            return {"id": task, "metadata": {"reason": "r"}, "pushNotificationConfigId": "one"}


METHODS = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
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
]


@pytest.mark.parametrize("method", METHODS)
@relaxed
@given(steps=mutations(), call_id=ids)
def test_params_with_something_wrong_are_done_or_refused(
    world: Hostile, task_id: str, method: str, steps: list[tuple[float, str, Any, str]], call_id: Any
) -> None:
    version = {} if "/" in method else V1
    params = mutated(valid(method, task_id), steps)
    envelope = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
    for answer in answers(world, written(envelope), **version):
        assert same(answer["id"], call_id)
        if "error" in answer:
            refused_for_its_params(answer["error"])


@pytest.mark.parametrize("method", [each for each in METHODS if "ard" not in each])
def test_params_with_nothing_wrong_are_done(world: Hostile, task_id: str, method: str) -> None:
    """Else the test above would say nothing."""
    setting = "CreateTaskPushNotificationConfig"
    answers(world, written(ENVELOPE | {"method": setting, "params": valid(setting, task_id)}), **V1)
    version = {} if "/" in method else V1
    envelope = ENVELOPE | {"method": method, "params": valid(method, task_id)}
    codes = {each["error"]["code"] for each in answers(world, written(envelope), **version) if "error" in each}
    finished = {"CancelTask": -32002, "tasks/cancel": -32002, "SubscribeToTask": -32004, "tasks/resubscribe": -32004}
    assert codes == ({finished[method]} if method in finished else set())


@relaxed
@given(params=st.dictionaries(texts, json_values, max_size=3), method=st.sampled_from(METHODS))
def test_any_params_are_done_or_refused(world: Hostile, params: Json, method: str) -> None:
    version = {} if "/" in method else V1
    for answer in answers(world, written(ENVELOPE | {"method": method, "params": params}), **version):
        if "error" in answer:
            refused_for_its_params(answer["error"])
