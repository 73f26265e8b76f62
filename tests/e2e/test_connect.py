"""The services of an agent and a registry over the Connect protocol, called with plain HTTP."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
import pytest
from google.rpc import error_details_pb2
from plgrpc.v1 import agent_service_pb2
from scripted_agent import CARD, Scripted, serving

from protolink_grpc import AccessRules, APIKeyAuth, HttpOptions, Principal, RateLimit, Registry
from protolink_grpc.edges.grpc import ServerOptions
from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.errors import PermissionDeniedError

PATIENCE_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""

STREAMS = frozenset({"StreamTask", "SubscribeTask", "WatchAgents"})


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"input": {"messages": [{"role": "MESSAGE_ROLE_USER", "parts": [{"text": text}]}], **more}}


def enveloped(message: Any, flags: int = 0) -> bytes:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return bytes([flags]) + len(data).to_bytes(4, "big") + data


def reason_of(error: dict[str, Any]) -> str:
    """The reason in the details of an error, as a client decodes it."""
    (value,) = [each["value"] for each in error["details"] if each["type"] == "google.rpc.ErrorInfo"]
    info = error_details_pb2.ErrorInfo.FromString(b64decode(value + "=" * (-len(value) % 4)))
    assert info.domain == "protolink-grpc.github.io"
    return str(info.reason)


class Caller:
    """Calls the methods of one server."""

    def __init__(self, url: str, http: httpx.AsyncClient, service: str = "AgentService") -> None:
        self.url, self.http, self.service = url, http, service

    def at(self, name: str) -> str:
        return f"{self.url}/plgrpc.v1.{self.service}/{name}"

    async def post(self, name: str, body: bytes, kind: str = "application/json", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(self.at(name), content=body, headers={"content-type": kind} | named)

    async def call(self, name: str, request: Any, **headers: str) -> Any:
        """The response to a unary call."""
        response = await self.post(name, json.dumps(request).encode(), **headers)
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json"), response.text
        return response.json()

    async def refused(self, name: str, request: Any, **headers: str) -> tuple[int, str, str]:
        """The HTTP status, the code and the reason of a unary call that fails."""
        response = await self.post(name, json.dumps(request).encode(), **headers)
        assert response.headers["content-type"] == "application/json"
        error = response.json()
        return response.status_code, error["code"], reason_of(error)

    async def stream(self, name: str, request: Any, **headers: str) -> AsyncIterator[Any]:
        """The messages of a stream, and then its end."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        asked, rest, ended = {"content-type": "application/connect+json"} | named, b"", False
        async with self.http.stream("POST", self.at(name), content=enveloped(request), headers=asked) as response:
            assert (response.status_code, response.headers["content-type"]) == (200, "application/connect+json")
            async for chunk in response.aiter_bytes():
                rest += chunk
                while len(rest) >= 5 and len(rest) >= 5 + int.from_bytes(rest[1:5], "big"):
                    end = 5 + int.from_bytes(rest[1:5], "big")
                    assert not ended, "something follows the end"
                    assert rest[0] in (0, 2)
                    ended = rest[0] == 2
                    yield json.loads(rest[5:end])
                    rest = rest[end:]
        assert rest == b""
        assert ended, "the body ended without its end"

    async def whole(self, name: str, request: Any, **headers: str) -> tuple[list[Any], Any]:
        """The messages of a stream, and its end."""
        async with asyncio.timeout(PATIENCE_S):
            *messages, end = [each async for each in self.stream(name, request, **headers)]
        return messages, end


@asynccontextmanager
async def caller_of(http: HttpOptions | None = None, **options: Any) -> AsyncIterator[Caller]:
    async with serving(http, **options) as agent, httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        yield Caller(agent.http_url, client)


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    async with caller_of() as found:
        yield found


# -- calls -------------------------------------------------------------------------------------------------------------------


async def test_a_unary_call_is_json_and_nothing_else(caller: Caller) -> None:
    task = (await caller.call("SendTask", said("echo héllo 世界")))["task"]
    assert task["state"] == "TASK_STATE_COMPLETED"
    assert task["messages"][-1]["parts"] == [{"text": "héllo 世界"}]
    assert isinstance(task["sequence"], str), "integers of 64 bits are strings"


async def test_a_unary_call_in_the_binary_encoding(caller: Caller) -> None:
    request = agent_service_pb2.GetAgentCardRequest().SerializeToString()
    response = await caller.post("GetAgentCard", request, "application/proto", connect_protocol_version="1")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/proto")
    assert agent_service_pb2.GetAgentCardResponse.FromString(response.content).card.name == "scripted"


async def test_the_same_request_is_the_same_task_in_both_encodings(caller: Caller) -> None:
    first = (await caller.call("SendTask", said("echo once") | {"requestId": "r-1"}))["task"]
    request = agent_service_pb2.StreamTaskRequest(request_id="r-1", input={"messages": [{"parts": [{"text": "x"}]}]})
    body = enveloped(request.SerializeToString())
    response = await caller.post("StreamTask", body, "application/connect+proto")
    size = int.from_bytes(response.content[1:5], "big")
    found = agent_service_pb2.StreamTaskResponse.FromString(response.content[5 : 5 + size])
    assert {each.task_id for each in found.events} == {first["id"]}


async def test_a_stream_shows_every_event_in_order_and_ends_well(caller: Caller) -> None:
    messages, end = await caller.whole("StreamTask", said("count 300"))
    events = [event for each in messages for event in each.get("events", ())]
    assert [int(each["sequence"]) for each in events] == list(range(1, len(events) + 1))
    assert (events[-1]["last"], end) == (True, {})


async def test_events_arrive_before_the_run_has_ended_and_a_cancel_ends_the_stream(caller: Caller) -> None:
    task_id, last = "", {}
    async with asyncio.timeout(PATIENCE_S):
        async for message in caller.stream("StreamTask", said("wait")):
            if not task_id:
                task_id = message["events"][0]["taskId"]
                await caller.call("CancelTask", {"taskId": task_id, "reason": "enough"})
            last = message or last
    assert last["events"][-1]["taskStatus"]["newState"] == "TASK_STATE_CANCELED"


async def test_a_client_that_leaves_ends_its_watch_and_not_the_run(caller: Caller) -> None:
    async with aclosing(caller.stream("StreamTask", said("wait"))) as stream:
        task_id = (await anext(stream))["events"][0]["taskId"]
    async with asyncio.timeout(PATIENCE_S):
        while "plgrpc_http_event_streams 0.0\n" not in (await caller.http.get(f"{caller.url}/metrics")).text:
            await asyncio.sleep(0.01)
    assert (await caller.call("GetTask", {"taskId": task_id}))["task"]["state"] == "TASK_STATE_WORKING"


async def test_a_large_message_comes_back_whole(caller: Caller) -> None:
    text = "0123456789" * 300_000
    task = (await caller.call("SendTask", said(f"echo {text}")))["task"]
    assert task["messages"][-1]["parts"][0]["text"] == text


async def test_a_field_of_a_later_version_is_ignored(caller: Caller) -> None:
    task = (await caller.call("SendTask", said("echo x", later={"a": 1}) | {"laterToo": []}))["task"]
    assert task["state"] == "TASK_STATE_COMPLETED"


async def test_approvals_and_tools_are_there_too(caller: Caller) -> None:
    caller.service = "ControlService"
    assert await caller.call("ListApprovals", {}) == {}
    assert isinstance(await caller.call("ListTools", {}), dict)


# -- errors ------------------------------------------------------------------------------------------------------------------


async def test_an_error_has_its_status_its_code_and_its_details(caller: Caller) -> None:
    assert await caller.refused("GetTask", {"taskId": "nö"}) == (404, "not_found", "TASK_NOT_FOUND")
    messages, end = await caller.whole("SubscribeTask", {"taskId": "nope"})
    assert (messages, end["error"]["code"], reason_of(end["error"])) == ([], "not_found", "TASK_NOT_FOUND")


@pytest.mark.parametrize(
    ("request_json", "field"),
    [
        (said("echo x", taskId="x" * 200), "input.task_id"),
        (said("echo x", taskId=5), "input.task_id"),
        (said("echo x", target="TASK_TARGET_ELSEWHERE"), "input.target"),
        ({"input": {"messages": [{"parts": [{"text": "x"}, {"text": {}}]}]}}, "input.messages[0].parts[1].text"),
        ({"input": {"messages": "x"}}, "input.messages"),
        ([], "body"),
    ],
)
async def test_a_mistake_in_a_field_names_the_field(caller: Caller, request_json: Any, field: str) -> None:
    response = await caller.post("SendTask", json.dumps(request_json).encode())
    error = response.json()
    assert (response.status_code, error["code"]) == (400, "invalid_argument")
    (violation,) = error["details"][1]["debug"]["fieldViolations"]
    assert violation["field"] == field
    end = (await caller.whole("StreamTask", request_json))[1]
    assert end["error"]["details"][1]["debug"]["fieldViolations"] == [violation]


async def test_our_own_mistake_is_an_incident_and_nothing_more(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr("protolink_grpc.edges.grpc.agent_servicer.fold_to_pb", broken)
    task = (await caller.call("SendTask", said("echo x")))["task"]
    response = await caller.post("GetTask", json.dumps({"taskId": task["id"]}).encode())
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert "incident" in response.text
    assert "secret" not in response.text


async def test_compressed_requests_are_not_supported(caller: Caller) -> None:
    assert (await caller.refused("GetTask", {}, content_encoding="gzip"))[:2] == (501, "unimplemented")
    for header in ({"connect_content_encoding": "gzip"}, {"content_encoding": "gzip"}):
        messages, end = await caller.whole("StreamTask", said("echo x"), **header)
        assert (messages, end["error"]["code"]) == ([], "unimplemented")


async def test_another_version_of_the_protocol_is_refused(caller: Caller) -> None:
    assert (await caller.refused("GetTask", {}, connect_protocol_version="2"))[:2] == (400, "invalid_argument")


async def test_a_preflight_allows_what_a_page_of_connect_sends() -> None:
    async with caller_of(HttpOptions(cors_origins=("https://app.example",))) as caller:
        wanted = "connect-protocol-version,connect-timeout-ms,content-type,x-user-agent"
        asked = {
            "origin": "https://app.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": wanted,
        }
        response = await caller.http.options(caller.at("SendTask"), headers=asked)
        assert response.status_code == 200
        response = await caller.post("GetAgentCard", b"{}", origin="https://app.example")
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert (await caller.post("GetAgentCard", b"{}", origin="https://b.example")).status_code == 403


# -- deadlines ---------------------------------------------------------------------------------------------------------------


async def test_a_deadline_ends_the_wait_and_not_the_run(caller: Caller) -> None:
    refused = await caller.refused("SendTask", said("wait"), connect_timeout_ms="100")
    assert refused == (504, "deadline_exceeded", "DEADLINE_EXCEEDED")
    (task,) = (await caller.call("ListTasks", {}))["tasks"]
    assert task["state"] == "TASK_STATE_WORKING"


async def test_a_stream_at_its_deadline_ends_with_it_after_what_it_has_shown(caller: Caller) -> None:
    messages, end = await caller.whole("StreamTask", said("wait"), connect_timeout_ms="300")
    assert messages[0]["events"][0]["eventType"] == "task.submitted"
    assert end["error"]["code"] == "deadline_exceeded"


async def test_a_timeout_that_is_none_starts_nothing(caller: Caller) -> None:
    refused = await caller.refused("SendTask", said("echo x"), connect_timeout_ms="soon")
    assert refused == (400, "invalid_argument", "INVALID_ARGUMENT")
    assert await caller.call("ListTasks", {}) == {}


async def test_the_servers_own_bound_on_waits_holds_here_too() -> None:
    async with caller_of(HttpOptions(max_wait_s=0.1)) as caller:
        assert (await caller.refused("SendTask", said("wait")))[:2] == (504, "deadline_exceeded")


# -- who calls ---------------------------------------------------------------------------------------------------------------


async def test_callers_are_known_as_on_every_edge_and_see_their_own_tasks_only() -> None:
    async with caller_of(authenticator=APIKeyAuth({"k-ann": Principal("ann"), "k-bob": Principal("bob")})) as caller:
        response = await caller.post("SendTask", json.dumps(said("echo x")).encode())
        assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")
        assert response.headers["www-authenticate"]
        task = (await caller.call("SendTask", said("echo x"), x_api_key="k-ann"))["task"]
        assert (await caller.call("GetTask", {"taskId": task["id"]}, x_api_key="k-ann"))["task"]["id"] == task["id"]
        assert (await caller.refused("GetTask", {"taskId": task["id"]}, x_api_key="k-bob"))[0] == 404
        for key, code in (({}, "unauthenticated"), ({"x_api_key": "k-bob"}, "not_found")):
            _, end = await caller.whole("SubscribeTask", {"taskId": task["id"]}, **key)
            assert end["error"]["code"] == code


async def test_access_rules_and_rate_limits_hold() -> None:
    rules = AccessRules({"/plgrpc.v1.AgentService/CancelTask": "operate"})
    async with caller_of(authenticator=APIKeyAuth({"k": Principal("ann")}), access=rules) as caller:
        refused = await caller.refused("CancelTask", {"taskId": "any"}, x_api_key="k")
        assert refused == (403, "permission_denied", "PERMISSION_DENIED")
    async with caller_of(rate_limit=RateLimit(0.01, burst=1)) as caller:
        await caller.call("SendTask", said("echo x"))
        response = await caller.post("SendTask", json.dumps(said("echo x")).encode())
        assert (response.status_code, response.json()["code"]) == (429, "resource_exhausted")
        assert int(response.headers["retry-after"]) > 1
        assert response.json()["details"][1]["type"] == "google.rpc.RetryInfo"


@asynccontextmanager
async def closed_on_sundays(call: Call) -> AsyncIterator[None]:
    if call.metadata.get("x-day") == "sunday":
        raise PermissionDeniedError(f"{call.method} is closed for {call.principal}")
    call.response_headers["x-day"] = "open"
    yield


async def test_the_users_interceptors_are_around_these_calls_too() -> None:
    async with caller_of(server=ServerOptions(interceptors=(closed_on_sundays,))) as caller:
        assert (await caller.refused("SendTask", said("echo x"), x_day="sunday"))[:2] == (403, "permission_denied")
        response = await caller.post("SendTask", json.dumps(said("echo x")).encode())
        assert response.headers["x-day"] == "open"


async def test_a_caller_has_so_many_streams_and_gets_its_share_back() -> None:
    async with caller_of(HttpOptions(max_streams_per_principal=1)) as caller:
        async with aclosing(caller.stream("StreamTask", said("wait"))) as stream:
            task_id = (await anext(stream))["events"][0]["taskId"]
            _, end = await caller.whole("StreamTask", said("echo x"))
            assert end["error"]["code"] == "resource_exhausted"
            await caller.call("CancelTask", {"taskId": task_id})
            assert [each async for each in stream][-1] == {}
        for _ in range(3):
            assert (await caller.whole("SubscribeTask", {"taskId": "nope"}))[1]["error"]["code"] == "not_found"
            assert (await caller.whole("StreamTask", said("echo x")))[1] == {}


# -- hostile requests --------------------------------------------------------------------------------------------------------

DEEP = b'{"input":{"messages":[' + b"[" * 5000 + b"]" * 5000 + b"]}}"
WIDE = b'{"input":{"messages":[' + b"{}," * 100_000 + b"{}]}}"
HUGE = json.dumps(said("echo " + "x" * 5_000_000)).encode()

HOSTILE = [
    b"",
    b"\x00",
    b"{",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b'{"input":null,"input":null}',
    b'{"input":{"messages":[{"parts":[{"toolCall":{"arguments":{"json":"' + b"[" * 3000 + b'"}}}]}]}}',
    b'{"input":{"expectedSequence":' + b"9" * 10_000 + b"}}",
    DEEP,
    WIDE,
    HUGE,
]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: f"{body[:12]!r}-{len(body)}")
async def test_hostile_json_is_the_callers_mistake_and_the_next_call_is_answered(caller: Caller, body: bytes) -> None:
    response = await caller.post("SendTask", body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_argument"), response.text[:200]
    response = await caller.post("StreamTask", enveloped(body), "application/connect+json")
    assert response.status_code == 200
    assert json.loads(response.content[5:])["error"]["code"] == "invalid_argument"
    assert (await caller.call("SendTask", said("echo x")))["task"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "unimplemented"),
        (b"\x00\x00", "invalid_argument"),
        (b"\x00\xff\xff\xff\xff{}", "invalid_argument"),
        (enveloped(said("echo x"))[:-1], "invalid_argument"),
        (enveloped(said("echo x")) + b"\x00", "unimplemented"),
        (enveloped(said("echo x")) * 2, "unimplemented"),
        (enveloped(b"\x1f\x8b", 1), "unimplemented"),
        (enveloped({}, 2), "invalid_argument"),
        (enveloped({}, 0x80), "invalid_argument"),
    ],
)
@pytest.mark.parametrize("kind", ["application/connect+json", "application/connect+proto"])
async def test_envelopes_that_are_no_request_are_the_callers_mistake(
    caller: Caller, kind: str, body: bytes, code: str
) -> None:
    response = await caller.post("StreamTask", body, kind)
    assert (response.status_code, response.headers["content-type"], response.content[0]) == (200, kind, 2)
    assert json.loads(response.content[5:])["error"]["code"] == code


async def test_bytes_that_are_no_message_are_the_callers_mistake(caller: Caller) -> None:
    response = await caller.post("SendTask", b"\xff\xff\xff", "application/proto")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_argument")


async def test_a_request_over_the_limit_is_refused_and_the_next_one_served() -> None:
    async with caller_of(HttpOptions(max_body_bytes=1000, max_complexity=100)) as caller:
        for text in ("x" * 1000, ""):
            request = said(text, messages=[{}] * 20) if not text else said(text)
            assert (await caller.refused("SendTask", request))[2] == "MESSAGE_TOO_LARGE"
        await caller.call("SendTask", said("echo x"))


async def test_a_client_that_does_not_finish_its_body_is_told_so() -> None:
    async with caller_of(HttpOptions(body_timeout_s=0.2)) as caller:
        reader, writer = await asyncio.open_connection(*caller.url.removeprefix("http://").split(":"))
        head = (
            f"POST /plgrpc.v1.AgentService/SendTask HTTP/1.1\r\nhost: {caller.url.removeprefix('http://')}\r\n"
            "content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
        )
        writer.write(head.encode())
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read(65536)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 504")
        assert b"REQUEST_TIMEOUT" in answer


# -- shutdown ----------------------------------------------------------------------------------------------------------------


async def test_a_server_that_stops_says_so_at_the_end_of_its_streams() -> None:
    agent = Scripted(CARD, http=HttpOptions())
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http:
        await agent.serve()
        stopping, last = None, {}
        async with asyncio.timeout(PATIENCE_S):
            async for message in Caller(agent.http_url, http).stream("StreamTask", said("wait")):
                last = message
                stopping = stopping or asyncio.ensure_future(agent.aclose(0.5))
        assert (last["error"]["code"], reason_of(last["error"])) == ("unavailable", "UNAVAILABLE")
        assert stopping is not None
        await stopping


# -- a registry --------------------------------------------------------------------------------------------------------------


async def test_a_registry_is_called_the_same_way() -> None:
    async with (
        Registry(http=HttpOptions()) as registry,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http,
    ):
        caller = Caller(registry.http_url, http, "RegistryService")
        where = {"url": "grpc://ann.example:1", "transport": "grpc"}
        await caller.call("RegisterAgent", {"card": {"name": "ann", "description": "ann", "interfaces": [where]}})
        found = await caller.call("GetAgent", {"name": "ann"})
        assert found["agent"]["card"]["interfaces"][0]["url"] == "grpc://ann.example:1"
        async with asyncio.timeout(PATIENCE_S), aclosing(caller.stream("WatchAgents", {})) as stream:
            async for message in stream:
                if message.get("changes"):
                    assert message["changes"][0]["kind"] == "AGENT_CHANGE_KIND_UP"
                    break
        assert await caller.refused("GetAgent", {"name": "bob"}) == (404, "not_found", "AGENT_NOT_FOUND")
