"""Arbitrary requests to the REST routes of v0.3 and the routes of ProtoLink: executed, or refused as invalid."""

import json
from typing import Any

import httpx
import pytest
from a2a_requests import OLD_WEBHOOK, v03_send
from hostile_world import Hostile
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st
from json_mutations import json_values, mutated, mutations, written

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("unharmed")

relaxed = settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def must_be_answered(world: Hostile, path: str, body: bytes, **headers: str) -> None:
    answer = world.http.post(path, content=body, headers={"content-type": "application/json"} | headers)
    # 403: a session of another tenant. 413: more parts than there may be.
    assert answer.status_code in (200, 400, 403, 404, 413), answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        frames = [line for line in answer.text.split("\n") if line.startswith("data: ")]
        assert frames
        found = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    else:
        assert answer.headers["content-type"] == "application/json"
        found = [answer.json()]
    assert "incident" not in json.dumps([each for each in found if "error" in each])


def proto_send(task_id: str) -> Json:
    """v0.3's SendMessageRequest as ProtoJSON."""
    return {
        "message": {
            "messageId": "m",
            "role": "ROLE_USER",
            "content": [
                {"text": "hello", "metadata": {"a": 1}},
                {"file": {"fileWithBytes": "AAEC", "mimeType": "image/png", "name": "n"}},
                {"file": {"fileWithUri": "https://files.example/1"}},
                {"data": {"data": {"a": [1, None]}}},
            ],
            "contextId": "proto",
            "metadata": {"a": {"b": [1.5, None]}},
            "extensions": ["urn:x"],
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"],
            "historyLength": 1,
            "blocking": True,
            "pushNotification": {"url": "http://127.0.0.1:9/x", "authentication": {"schemes": ["Bearer"]}},
        },
        "metadata": {"b": 1},
    }


def proto_config(task_id: str) -> Json:
    name = f"tasks/{task_id}/pushNotificationConfigs/one"
    webhook = {"id": "one", "url": "http://127.0.0.1:9/x", "token": "t"}
    return {"configId": "one", "config": {"name": name, "pushNotificationConfig": webhook}}


def plain_config(task_id: str) -> Json:
    return {"taskId": task_id, "pushNotificationConfig": {"id": "one", **OLD_WEBHOOK}}


def sent_task(task_id: str) -> Json:
    """ProtoLink's Task."""
    parts = [
        {"type": "text", "content": "hello", "metadata": {"a": 1}},
        {"type": "tool_call", "content": {"tool_name": "t", "args": {"a": [1]}, "call_id": "c"}},
        {"type": "json", "content": {"a": None}},
        {"type": "infer", "content": {"prompt": "p", "output_schema": {"type": "object"}}},
        {"type": "file", "content": {"data": "AAEC", "media_type": "image/png", "name": "n"}},
    ]
    message = {"id": "m", "role": "user", "parts": parts, "timestamp": "2026-01-01T00:00:00+00:00"}
    context = {"run_id": "r", "session_id": "s", "budget": {"max_steps": 3}, "agent_chain": ["a"]}
    return {
        "messages": [message],
        "artifacts": [{"id": "a", "parts": parts[:1], "metadata": {}}],
        "state": "submitted",
        "metadata": {"session_id": "s", "run_context": context},
        "created_at": "2026-01-01T00:00:00+00:00",
    }


STATE = {"stores": ["conversation"], "session_id": "s", "strategy": "trim", "max_messages": 5, "metadata": {}}

BODIES: dict[str, Any] = {
    "/v1/message:send": v03_send,
    "/v1/message:send?proto": proto_send,
    "/v1/message:stream": v03_send,
    "/v1/message:stream?proto": proto_send,
    "/v1/tasks/{task}/pushNotificationConfigs": plain_config,
    "/v1/tasks/{task}/pushNotificationConfigs?proto": proto_config,
    "/v1/tasks/{task}:cancel": lambda task: {"name": f"tasks/{task}"},
    "/tasks/": sent_task,
    "/tasks/stream": sent_task,
    "/tasks/cancel": lambda task: {"id": task, "metadata": {"reason": "r"}},
    "/state/describe": lambda task: dict(STATE),
    "/state/reset": lambda task: dict(STATE),
    "/state/compact": lambda task: dict(STATE),
    "/llm/history/compact": lambda task: {"strategy": "trim", "max_messages": 5, "preserve_recent": 1},
}


@pytest.mark.parametrize("path", BODIES)
@relaxed
@given(steps=mutations())
def test_a_body_with_something_wrong_is_done_or_refused(
    world: Hostile, task_id: str, path: str, steps: list[tuple[float, str, Any, str]]
) -> None:
    body = written(mutated(BODIES[path](task_id), steps))
    must_be_answered(world, path.replace("{task}", task_id), body)


@pytest.mark.parametrize("path", BODIES)
@relaxed
@given(value=json_values)
@example([])
@example(None)
@example({"message": {"parts": [{}] * 1001}})
@example({"message": {"content": [{}] * 1001, "role": 10**300}})
@example({"message": {"role": 2**40, "metadata": {"a": 10**300, "b": 5e-324}}})
def test_any_value_is_done_or_refused(world: Hostile, task_id: str, path: str, value: Any) -> None:
    must_be_answered(world, path.replace("{task}", task_id), written(value))


@pytest.mark.parametrize("path", ["/tasks/", "/tasks/stream"])
@relaxed
@given(key=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40), steps=mutations())
def test_a_key_makes_no_request_that_fails(
    world: Hostile, path: str, key: str, steps: list[tuple[float, str, Any, str]]
) -> None:
    must_be_answered(world, path, written(mutated(sent_task(""), steps)), **{"idempotency-key": key})


@pytest.mark.parametrize("path", ["/tasks", "/tasks/x/pushNotificationConfigs", "/v1/tasks/x", "/", "/openapi.json"])
@relaxed
@given(
    query=st.dictionaries(
        st.text(max_size=10) | st.sampled_from(["pageSize", "status", "tenant"]), st.text(), max_size=3
    )
)
def test_any_query_is_understood_or_refused(world: Hostile, path: str, query: dict[str, str]) -> None:
    clean = {name.encode("utf-8", "replace"): value.encode("utf-8", "replace") for name, value in query.items()}
    answer = world.http.get(path, params=clean, headers={"a2a-version": "1.0" if "v1" not in path else "0.3"})
    assert answer.status_code in (200, 400, 404, 405), answer.text


@relaxed
@given(
    tail=st.lists(
        st.sampled_from([*"abz:/%.~", "%00", "%ff", "%2f", "%2e%2e", "tasks", "message:send", "é"]), max_size=6
    )
)
def test_any_path_leads_somewhere_or_nowhere(world: Hostile, tail: list[str]) -> None:
    try:
        url = httpx.URL(f"{world.url}/{''.join(tail)}")
    except httpx.InvalidURL:
        reject()
    answer = world.http.get(url, headers={"a2a-version": "1.0"})
    assert answer.status_code in (200, 400, 404, 405), answer.text
