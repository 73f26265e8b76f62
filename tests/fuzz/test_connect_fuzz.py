"""Arbitrary requests over the Connect protocol: executed, or refused as invalid."""

import json
from typing import Any

import pytest
from hostile_world import Hostile
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from json_mutations import json_values, mutated, mutations, written

pytestmark = pytest.mark.usefixtures("unharmed")

relaxed = settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def submission(_task_id: str) -> dict[str, Any]:
    parts = [
        {"text": "hello", "metadataJson": '{"a": 1}', "mediaType": "text/plain"},
        {"data": {"json": '{"a": [1, null]}'}},
        {"file": {"content": {"data": "AAEC"}, "name": "n"}},
        {"custom": {"type": "x", "content": {"json": "[]"}}},
    ]
    options = {
        "runId": "r",
        "agentChain": ["a"],
        "permissions": {"shell": {"effect": "POLICY_EFFECT_DENY"}},
        "budget": {"maxSteps": 3},
        "createTime": "2026-01-01T00:00:00Z",
    }
    message = {"id": "m", "role": "MESSAGE_ROLE_USER", "parts": parts, "createTime": "2026-01-01T00:00:00Z"}
    given_input = {"target": "TASK_TARGET_CREATE", "messages": [message], "sessionId": "s", "options": options}
    return {"input": given_input, "view": "TASK_VIEW_FULL"}


REQUESTS: dict[str, Any] = {
    "AgentService/SendTask": submission,
    "AgentService/StreamTask": submission,
    "AgentService/SubscribeTask": lambda task: {"taskId": task, "afterSequence": "1", "stopAt": "STOP_AT_CURRENT"},
    "AgentService/GetTask": lambda task: {"taskId": task, "view": "TASK_VIEW_FULL"},
    "AgentService/ListTasks": lambda task: {"pageSize": 5, "pageToken": "", "states": ["TASK_STATE_COMPLETED"]},
    "AgentService/CancelTask": lambda task: {"taskId": task, "reason": "r", "metadataJson": "{}"},
    "ControlService/ListApprovals": lambda task: {"taskId": task, "pageSize": 5},
    "ControlService/GetRunReport": lambda task: {"taskId": task},
}
STREAMS = frozenset({"AgentService/StreamTask", "AgentService/SubscribeTask", "ControlService/GetRunReport"})
REFUSALS = frozenset(
    {"invalid_argument", "not_found", "failed_precondition", "out_of_range", "aborted", "already_exists"}
)


def error_of(world: Hostile, method: str, body: bytes) -> dict[str, Any] | None:
    """The error of a call; None for one that succeeds."""
    headers = {"content-type": "application/json", "connect-timeout-ms": "5000"}
    if method not in STREAMS:
        answer = world.http.post(f"/plgrpc.v1.{method}", content=body, headers=headers)
        return None if answer.status_code == 200 else dict(answer.json())
    headers["content-type"] = "application/connect+json"
    envelope = b"\x00" + len(body).to_bytes(4, "big") + body
    answer = world.http.post(f"/plgrpc.v1.{method}", content=envelope, headers=headers)
    assert answer.status_code == 200, answer.text
    rest, last = answer.content, b""
    while rest:
        end = 5 + int.from_bytes(rest[1:5], "big")
        last, rest = rest[5:end], rest[end:]
    error: dict[str, Any] | None = json.loads(last).get("error")
    return error


def must_be_answered(world: Hostile, method: str, body: bytes) -> None:
    """The call succeeds, or fails for a reason that is the caller's."""
    error = error_of(world, method, body)
    assert error is None or error["code"] in REFUSALS, error


@pytest.mark.parametrize("method", REQUESTS)
def test_a_request_without_a_mistake_is_done(world: Hostile, task_id: str, method: str) -> None:
    error = error_of(world, method, written(REQUESTS[method](task_id)))
    assert error is None or (method, error["code"]) == ("AgentService/CancelTask", "failed_precondition")


@pytest.mark.parametrize("method", REQUESTS)
@relaxed
@given(steps=mutations())
def test_a_request_with_something_wrong_is_done_or_refused(
    world: Hostile, task_id: str, method: str, steps: list[tuple[float, str, Any, str]]
) -> None:
    must_be_answered(world, method, written(mutated(REQUESTS[method](task_id), steps)))


@pytest.mark.parametrize("method", REQUESTS)
@relaxed
@given(value=json_values)
@example([])
@example(None)
@example({"input": {"messages": [{}] * 1001}})
@example({"input": {"expectedSequence": 10**300, "createTime": 5}})
@example({"taskId": "x", "pageSize": 2**40})
def test_any_value_is_done_or_refused(world: Hostile, method: str, value: Any) -> None:
    must_be_answered(world, method, written(value))


@pytest.mark.parametrize("method", sorted(STREAMS))
@relaxed
@given(body=st.binary(max_size=60))
@example(b"")
@example(b"\x00\xff\xff\xff\xff")
def test_any_bytes_are_refused_as_an_envelope(world: Hostile, method: str, body: bytes) -> None:
    for kind in ("application/connect+json", "application/connect+proto"):
        headers = {"content-type": kind, "connect-timeout-ms": "5000"}
        answer = world.http.post(f"/plgrpc.v1.{method}", content=body, headers=headers)
        assert (answer.status_code, answer.content[0]) == (200, 2)
        assert json.loads(answer.content[5:])["error"]["code"] in REFUSALS | {"unimplemented"}
