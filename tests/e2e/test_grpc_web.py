"""The services of the gRPC port as a web page calls them: frames over HTTP/1.1, to an agent and to a registry."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx
import jwt
import pytest
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from plgrpc.v1 import (
    agent_card_pb2,
    agent_service_pb2,
    control_service_pb2,
    registry_service_pb2,
    task_input_pb2,
    task_pb2,
    watch_pb2,
)
from scripted_agent import CARD, Scripted, serving

from protolink_grpc import (
    AccessRules,
    APIKeyAuth,
    BearerTokenAuth,
    HttpOptions,
    Principal,
    RateLimit,
    Registry,
)
from protolink_grpc.edges.grpc import ServerOptions
from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.errors import PermissionDeniedError

MEDIA_TYPE = "application/grpc-web+proto"
PATIENCE_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""

METHODS = {
    method.name: (f"/{service.full_name}/{method.name}", method)
    for file in (agent_service_pb2, control_service_pb2, registry_service_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


@dataclass
class Answer:
    """What a body said: its messages, and how the call went."""

    messages: list[Any] = field(default_factory=list)
    trailers: dict[str, str] = field(default_factory=dict)

    @property
    def code(self) -> int:
        return int(self.trailers["grpc-status"])

    @property
    def message(self) -> str:
        return unquote(self.trailers.get("grpc-message", ""))

    @property
    def status(self) -> status_pb2.Status:
        encoded = self.trailers["grpc-status-details-bin"]
        return status_pb2.Status.FromString(b64decode(encoded + "=" * (-len(encoded) % 4)))

    def detail(self, kind: type[Any]) -> Any:
        found = kind()
        assert any(each.Unpack(found) for each in self.status.details), f"no {kind.__name__} in {self.status}"
        return found

    @property
    def reason(self) -> str:
        info = self.detail(error_details_pb2.ErrorInfo)
        assert info.domain == "protolink-grpc.github.io"
        return str(info.reason)


def framed(message: Message | bytes, flags: int = 0) -> bytes:
    data = message if isinstance(message, bytes) else message.SerializeToString()
    return bytes([flags]) + len(data).to_bytes(4, "big") + data


class Page:
    """A web page with nothing but HTTP/1.1."""

    def __init__(self, url: str, http: httpx.AsyncClient, streams: Any = None) -> None:
        self.url, self.http, self.streams = url, http, streams

    async def post(self, name: str, body: bytes, **headers: str) -> httpx.Response:
        """One answer, however it is."""
        asked = {"content-type": MEDIA_TYPE, "x-grpc-web": "1"} | _spelled(headers)
        return await self.http.post(self.url + METHODS[name][0], content=body, headers=asked)

    async def raw(self, name: str, body: bytes, **headers: str) -> Answer:
        """The answer to a body; it must be one of gRPC-Web."""
        response = await self.post(name, body, **headers)
        assert (response.status_code, response.headers["content-type"]) == (200, MEDIA_TYPE), response.text
        answer, rest = Answer(), response.content
        while rest:
            rest = self._take(name, answer, rest)
        assert answer.trailers
        return answer

    async def call(self, name: str, request: Message, **headers: str) -> Answer:
        return await self.raw(name, framed(request), **headers)

    async def stream(self, name: str, request: Message, **headers: str) -> AsyncIterator[Answer]:
        """The answer so far, at each frame that arrives."""
        asked = {"content-type": MEDIA_TYPE, "x-grpc-web": "1"} | _spelled(headers)
        answer, rest = Answer(), b""
        url = self.url + METHODS[name][0]
        async with self.http.stream("POST", url, content=framed(request), headers=asked) as response:
            assert (response.status_code, response.headers["content-type"]) == (200, MEDIA_TYPE)
            async for chunk in response.aiter_bytes():
                rest += chunk
                while len(rest) >= 5 and len(rest) >= 5 + int.from_bytes(rest[1:5], "big"):
                    rest = self._take(name, answer, rest)
                    yield answer
        assert rest == b""
        assert answer.trailers, "the body ended without trailers"

    def _take(self, name: str, answer: Answer, body: bytes) -> bytes:
        assert not answer.trailers, "something follows the trailers"
        flags, end = body[0], 5 + int.from_bytes(body[1:5], "big")
        assert len(body) >= end
        if flags == 0x80:
            lines = body[5:end].decode("ascii").split("\r\n")
            answer.trailers = dict(line.split(": ", 1) for line in lines if line)
        else:
            assert flags == 0
            answer.messages.append(METHODS[name][1].output_type._concrete_class.FromString(body[5:end]))
        return body[end:]


def _spelled(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def page_of(http: HttpOptions | None = None, **options: Any) -> AsyncIterator[Page]:
    """A page that may call one agent."""
    async with serving(http, **options) as agent, httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        ports: Any = agent._ports
        yield Page(agent.http_url, client, ports._http.gateway.streams)


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with page_of() as found:
        yield found


def said(text: str, **fields: Any) -> task_input_pb2.TaskInput:
    return task_input_pb2.TaskInput(
        messages=[task_pb2.Message(role="MESSAGE_ROLE_USER", parts=[{"text": text}])], **fields
    )


def sending(text: str, **fields: Any) -> agent_service_pb2.SendTaskRequest:
    return agent_service_pb2.SendTaskRequest(input=said(text), **fields)


def streaming(text: str, **fields: Any) -> agent_service_pb2.StreamTaskRequest:
    return agent_service_pb2.StreamTaskRequest(input=said(text), **fields)


async def whole(stream: AsyncIterator[Answer]) -> Answer:
    last = Answer()
    async with asyncio.timeout(PATIENCE_S):
        async for answer in stream:
            last = answer
    return last


# -- calls -------------------------------------------------------------------------------------------------------------------


async def test_a_unary_call_has_one_message_and_its_status(page: Page) -> None:
    answer = await page.call("SendTask", sending("echo héllo 世界"))
    (response,) = answer.messages
    assert answer.trailers == {"grpc-status": "0"}
    assert response.task.state == task_pb2.TASK_STATE_COMPLETED
    assert response.task.messages[-1].parts[0].text == "héllo 世界"


@pytest.mark.parametrize("media_type", ["application/grpc-web", "APPLICATION/GRPC-WEB+PROTO; charset=x"])
async def test_each_spelling_of_the_media_type_is_understood(page: Page, media_type: str) -> None:
    answer = await page.call("GetAgentCard", agent_service_pb2.GetAgentCardRequest(), content_type=media_type)
    assert answer.messages[0].card.name == "scripted"


async def test_the_same_request_is_the_same_task_on_every_edge(page: Page) -> None:
    first = await page.call("SendTask", sending("echo once", request_id="r-1"))
    async with aclosing(page.stream("StreamTask", streaming("echo once", request_id="r-1"))) as stream:
        again = await whole(stream)
    assert {event.task_id for each in again.messages for event in each.events} == {first.messages[0].task.id}


async def test_a_stream_shows_every_event_in_order_and_ends_well(page: Page) -> None:
    answer = await whole(page.stream("StreamTask", streaming("count 300")))
    events = [event for each in answer.messages for event in each.events]
    assert [each.sequence for each in events] == list(range(1, len(events) + 1))
    counted = [each.task_artifact.artifact.parts[0].text for each in events if each.event_type == "task.artifact"]
    assert counted == [str(number + 1) for number in range(300)]
    assert events[-1].last
    assert answer.trailers == {"grpc-status": "0"}


async def test_events_arrive_before_the_run_has_ended_and_a_cancel_ends_the_stream(page: Page) -> None:
    task_id, last = "", Answer()
    async with asyncio.timeout(PATIENCE_S):
        async for answer in page.stream("StreamTask", streaming("wait")):
            last = answer
            if not task_id:
                task_id = answer.messages[0].events[0].task_id
                canceling = agent_service_pb2.CancelTaskRequest(task_id=task_id, reason="enough")
                assert (await page.call("CancelTask", canceling)).code == 0
    assert last.messages[-1].events[-1].task_status.new_state == task_pb2.TASK_STATE_CANCELED
    assert last.trailers == {"grpc-status": "0"}


async def test_a_subscription_goes_on_after_the_last_sequence_seen(page: Page) -> None:
    task = (await page.call("SendTask", sending("count 10"))).messages[0].task
    request = agent_service_pb2.SubscribeTaskRequest(task_id=task.id, after_sequence=5, stop_at="STOP_AT_TERMINAL")
    answer = await whole(page.stream("SubscribeTask", request))
    events = [event for each in answer.messages for event in each.events]
    assert [each.sequence for each in events] == list(range(6, 6 + len(events)))
    assert events[-1].last


async def test_a_stream_without_an_event_has_its_position_and_trailers_only(page: Page) -> None:
    task = (await page.call("SendTask", sending("echo done"))).messages[0].task
    everything = await whole(page.stream("SubscribeTask", agent_service_pb2.SubscribeTaskRequest(task_id=task.id)))
    last = everything.messages[-1].events[-1].sequence
    request = agent_service_pb2.SubscribeTaskRequest(task_id=task.id, after_sequence=last, stop_at="STOP_AT_CURRENT")
    answer = await whole(page.stream("SubscribeTask", request))
    position = watch_pb2.WatchPosition(revision=last, head=last, caught_up=True)
    alone = agent_service_pb2.SubscribeTaskResponse(position=position)
    assert (answer.messages, answer.trailers) == ([alone], {"grpc-status": "0"})


async def test_a_page_that_leaves_ends_its_watch_and_not_the_run(page: Page) -> None:
    task_id = ""
    async with aclosing(page.stream("StreamTask", streaming("wait"))) as stream:
        async for answer in stream:
            task_id = answer.messages[0].events[0].task_id
            break
    metrics = f"{page.url}/metrics"
    async with asyncio.timeout(PATIENCE_S):
        while "plgrpc_http_event_streams 0.0\n" not in (await page.http.get(metrics)).text:
            await asyncio.sleep(0.01)
    found = await page.call("GetTask", agent_service_pb2.GetTaskRequest(task_id=task_id))
    assert found.messages[0].task.state == task_pb2.TASK_STATE_WORKING


async def test_approvals_and_tools_are_there_too(page: Page) -> None:
    tools = await page.call("ListTools", control_service_pb2.ListToolsRequest())
    approvals = await page.call("ListApprovals", control_service_pb2.ListApprovalsRequest())
    assert (tools.code, approvals.code) == (0, 0)
    assert len(tools.messages) == len(approvals.messages) == 1


async def test_a_large_message_comes_back_whole(page: Page) -> None:
    text = "0123456789" * 300_000
    answer = await page.call("SendTask", sending(f"echo {text}"))
    assert answer.messages[0].task.messages[-1].parts[0].text == text


# -- errors ------------------------------------------------------------------------------------------------------------------


async def test_an_error_has_its_code_its_words_and_its_details(page: Page) -> None:
    answer = await page.call("GetTask", agent_service_pb2.GetTaskRequest(task_id="nö"))
    assert (answer.code, answer.reason) == (code_pb2.NOT_FOUND, "TASK_NOT_FOUND")
    assert answer.messages == []
    assert "nö" in answer.message
    assert answer.message == answer.status.message
    assert answer.detail(error_details_pb2.ErrorInfo).metadata["task_id"] == "nö"


async def test_a_stream_that_cannot_begin_is_an_error_without_messages(page: Page) -> None:
    answer = await whole(page.stream("SubscribeTask", agent_service_pb2.SubscribeTaskRequest(task_id="nope")))
    assert (answer.messages, answer.code, answer.reason) == ([], code_pb2.NOT_FOUND, "TASK_NOT_FOUND")


async def test_a_mistake_in_a_field_names_the_field(page: Page) -> None:
    request = agent_service_pb2.SendTaskRequest(input=said("echo x", task_id="x" * 200))
    answer = await page.call("SendTask", request)
    assert answer.code == code_pb2.INVALID_ARGUMENT
    assert [each.field for each in answer.detail(error_details_pb2.BadRequest).field_violations] == ["input.task_id"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", code_pb2.INVALID_ARGUMENT),
        (b"{}", code_pb2.INVALID_ARGUMENT),
        (framed(b"\xff\xff\xff"), code_pb2.INVALID_ARGUMENT),
        (framed(b"")[:-1], code_pb2.INVALID_ARGUMENT),
        (framed(b"") * 2, code_pb2.INVALID_ARGUMENT),
        (framed(b"", 0x80), code_pb2.INVALID_ARGUMENT),
        (framed(b"x", 0x01), code_pb2.UNIMPLEMENTED),
    ],
)
@pytest.mark.parametrize("name", ["SendTask", "StreamTask"])
async def test_junk_is_the_callers_mistake(page: Page, name: str, body: bytes, code: int) -> None:
    answer = await page.raw(name, body)
    assert (answer.messages, answer.code) == ([], code)


async def test_an_agent_that_breaks_makes_a_failed_task_and_no_failed_call(page: Page) -> None:
    answer = await page.call("SendTask", sending("break everything"))
    assert answer.trailers == {"grpc-status": "0"}
    assert answer.messages[0].task.state == task_pb2.TASK_STATE_FAILED


async def test_our_own_mistake_is_an_incident_and_nothing_more(
    page: Page, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("protolink_grpc.edges.grpc.agent_servicer.fold_to_pb", _broken)
    task = (await page.call("SendTask", sending("echo x"))).messages[0].task
    answer = await page.call("GetTask", agent_service_pb2.GetTaskRequest(task_id=task.id))
    assert (answer.code, answer.reason) == (code_pb2.INTERNAL, "INTERNAL")
    assert "secret" not in answer.message
    incident = answer.detail(error_details_pb2.ErrorInfo).metadata["incident"]
    (logged,) = [each for each in caplog.records if each.exc_info and "secret" in str(each.exc_info[1])]
    assert incident in logged.getMessage()


def _broken(*_: Any) -> Any:
    raise RuntimeError("secret")


async def test_a_request_over_the_limit_is_refused_and_the_next_one_served() -> None:
    async with page_of(HttpOptions(max_body_bytes=1000)) as page:
        answer = await page.call("SendTask", sending("echo " + "x" * 1000))
        assert (answer.code, answer.reason) == (code_pb2.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE")
        assert (await page.call("SendTask", sending("echo x"))).code == 0


async def test_a_refused_request_with_a_large_body_does_not_spoil_the_connection() -> None:
    async with page_of(authenticator=APIKeyAuth({"k-ann": Principal("ann")})) as page:
        for _ in range(3):
            answer = await page.call("SendTask", sending("echo " + "x" * 3_000_000))
            assert answer.code == code_pb2.UNAUTHENTICATED
            assert (await page.call("SendTask", sending("echo x"), x_api_key="k-ann")).code == 0


@asynccontextmanager
async def closed_on_sundays(call: Call) -> AsyncIterator[None]:
    """An interceptor of the user: it reads the caller's metadata, and refuses all calls on one day."""
    if call.metadata.get("x-day") == "sunday":
        raise PermissionDeniedError(f"{call.method} is closed for {call.principal}")
    yield


async def test_the_users_interceptors_are_around_these_calls_too() -> None:
    async with page_of(server=ServerOptions(interceptors=(closed_on_sundays,))) as page:
        assert (await page.call("SendTask", sending("echo x"), x_day="monday")).code == 0
        refused = await page.call("SendTask", sending("echo x"), x_day="sunday")
        assert (refused.code, refused.reason) == (code_pb2.PERMISSION_DENIED, "PERMISSION_DENIED")
        stream = await whole(page.stream("StreamTask", streaming("echo x"), x_day="sunday"))
        assert stream.code == code_pb2.PERMISSION_DENIED


# -- what is wrong with the HTTP ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "media_type", ["application/grpc-web-text", "application/grpc-web+json", "application/grpc", "text/plain", ""]
)
async def test_another_media_type_is_refused_by_its_http_status(page: Page, media_type: str) -> None:
    body = framed(agent_service_pb2.GetAgentCardRequest())
    response = await page.post("GetAgentCard", body, content_type=media_type)
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert (response.status_code, error["details"][0]["reason"]) == (415, "CONTENT_TYPE_NOT_SUPPORTED")
    assert "application/grpc-web+proto" in error["message"]


async def test_a_call_is_a_post_to_a_method_that_there_is(page: Page) -> None:
    path = METHODS["SendTask"][0]
    assert (await page.http.get(page.url + path)).status_code == 405
    for unknown in ("/plgrpc.v1.AgentService/Unknown", "/lf.a2a.v1.A2AService/SendMessage", path + "/"):
        response = await page.http.post(page.url + unknown, content=framed(b""), headers={"content-type": MEDIA_TYPE})
        assert response.status_code == 404


async def test_a_preflight_allows_what_a_page_of_grpc_web_sends() -> None:
    async with page_of(HttpOptions(cors_origins=("https://app.example",), cors_headers=("X-Mine",))) as page:
        wanted = ["authorization", "content-type", "grpc-timeout", "x-api-key", "x-grpc-web", "x-mine", "x-user-agent"]
        wanted += ["x-request-id", "x-session-id", "x-task-id"]
        asked = {
            "origin": "https://app.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": ",".join(wanted),
        }
        response = await page.http.options(page.url + METHODS["SendTask"][0], headers=asked)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        allowed = {each.strip().lower() for each in response.headers["access-control-allow-headers"].split(",")}
        assert allowed >= set(wanted)
        refused = await page.http.options(
            page.url + METHODS["SendTask"][0], headers=asked | {"origin": "https://b.example"}
        )
        assert "access-control-allow-origin" not in refused.headers


async def test_an_allowed_page_can_read_its_answers_and_another_one_may_not_call() -> None:
    async with page_of(HttpOptions(cors_origins=("https://app.example",))) as page:
        body = framed(sending("echo x"))
        response = await page.post("SendTask", body, origin="https://app.example")
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        shown = {each.strip().lower() for each in response.headers["access-control-expose-headers"].split(",")}
        assert shown >= {"grpc-status", "grpc-message", "grpc-status-details-bin"}
        failed = await page.post("SendTask", b"", origin="https://app.example")
        assert failed.headers["access-control-allow-origin"] == "https://app.example"
        assert (await page.post("SendTask", body, origin="https://b.example")).status_code == 403


# -- deadlines ---------------------------------------------------------------------------------------------------------------


async def test_a_deadline_ends_the_wait_and_not_the_run(page: Page) -> None:
    request = sending("wait", request_id="r-late")
    answer = await page.call("SendTask", request, grpc_timeout="100m")
    assert (answer.code, answer.reason) == (code_pb2.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
    (task,) = (await page.call("ListTasks", agent_service_pb2.ListTasksRequest())).messages[0].tasks
    assert task.state == task_pb2.TASK_STATE_WORKING


async def test_a_stream_at_its_deadline_ends_with_it_after_what_it_has_shown(page: Page) -> None:
    answer = await whole(page.stream("StreamTask", streaming("wait"), grpc_timeout="300m"))
    assert answer.messages[0].events[0].event_type == "task.submitted"
    assert (answer.code, answer.reason) == (code_pb2.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
    task_id = answer.messages[0].events[0].task_id
    found = await page.call("GetTask", agent_service_pb2.GetTaskRequest(task_id=task_id))
    assert found.messages[0].task.state == task_pb2.TASK_STATE_WORKING


async def test_a_deadline_that_is_far_away_changes_nothing(page: Page) -> None:
    answer = await whole(page.stream("StreamTask", streaming("count 50"), grpc_timeout="99999999H"))
    assert answer.trailers == {"grpc-status": "0"}


async def test_a_timeout_that_is_none_starts_nothing(page: Page) -> None:
    answer = await page.call("SendTask", sending("echo x"), grpc_timeout="soon")
    assert answer.code == code_pb2.INVALID_ARGUMENT
    assert [each.field for each in answer.detail(error_details_pb2.BadRequest).field_violations] == ["grpc-timeout"]
    assert not (await page.call("ListTasks", agent_service_pb2.ListTasksRequest())).messages[0].tasks


async def test_the_servers_own_bound_on_waits_holds_here_too() -> None:
    async with page_of(HttpOptions(max_wait_s=0.1)) as page:
        answer = await page.call("SendTask", sending("wait"))
        assert (answer.code, answer.reason) == (code_pb2.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")


# -- who calls ---------------------------------------------------------------------------------------------------------------


async def test_callers_are_known_as_on_every_edge_and_see_their_own_tasks_only() -> None:
    async with page_of(authenticator=APIKeyAuth({"k-ann": Principal("ann"), "k-bob": Principal("bob")})) as page:
        for headers in ({}, {"x_api_key": "wrong"}, {"authorization": "Bearer k-ann"}):
            answer = await page.call("SendTask", sending("echo x"), **headers)
            assert (answer.code, answer.reason) == (code_pb2.UNAUTHENTICATED, "UNAUTHENTICATED")
        task = (await page.call("SendTask", sending("echo x"), x_api_key="k-ann")).messages[0].task
        getting = agent_service_pb2.GetTaskRequest(task_id=task.id)
        assert (await page.call("GetTask", getting, x_api_key="k-ann")).code == 0
        assert (await page.call("GetTask", getting, x_api_key="k-bob")).reason == "TASK_NOT_FOUND"
        watching = agent_service_pb2.SubscribeTaskRequest(task_id=task.id)
        assert (await whole(page.stream("SubscribeTask", watching))).reason == "UNAUTHENTICATED"
        assert (await whole(page.stream("SubscribeTask", watching, x_api_key="k-bob"))).reason == "TASK_NOT_FOUND"
        assert (await whole(page.stream("SubscribeTask", watching, x_api_key="k-ann"))).code == 0


async def test_a_bearer_token_is_as_good() -> None:
    secret, others = "s" * 40, "t" * 40
    async with page_of(authenticator=BearerTokenAuth(secret, audience="agents")) as page:
        for key, code in ((secret, 0), (others, code_pb2.UNAUTHENTICATED)):
            token = jwt.encode({"sub": "ann", "aud": "agents", "exp": 2**31}, key)
            assert (await page.call("SendTask", sending("echo x"), authorization=f"Bearer {token}")).code == code


async def test_access_rules_are_about_the_methods_of_the_contract() -> None:
    rules = AccessRules({"/plgrpc.v1.AgentService/CancelTask": "operate"})
    async with page_of(authenticator=APIKeyAuth({"k": Principal("ann")}), access=rules) as page:
        assert (await page.call("SendTask", sending("echo x"), x_api_key="k")).code == 0
        canceling = agent_service_pb2.CancelTaskRequest(task_id="any")
        answer = await page.call("CancelTask", canceling, x_api_key="k")
        assert (answer.code, answer.reason) == (code_pb2.PERMISSION_DENIED, "PERMISSION_DENIED")


async def test_too_many_calls_are_told_when_to_come_back() -> None:
    async with page_of(rate_limit=RateLimit(0.01, burst=1)) as page:
        assert (await page.call("SendTask", sending("echo x"))).code == 0
        answer = await page.call("SendTask", sending("echo x"))
        assert answer.code == code_pb2.RESOURCE_EXHAUSTED
        assert answer.detail(error_details_pb2.RetryInfo).retry_delay.ToTimedelta().total_seconds() > 1


async def test_a_caller_has_so_many_streams_and_gets_its_share_back() -> None:
    async with page_of(HttpOptions(max_streams_per_principal=1)) as page:
        async with aclosing(page.stream("StreamTask", streaming("wait"))) as stream:
            task_id = (await anext(stream)).messages[0].events[0].task_id
            refused = await whole(page.stream("StreamTask", streaming("echo x")))
            assert (refused.code, refused.reason) == (code_pb2.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED")
            await page.call("CancelTask", agent_service_pb2.CancelTaskRequest(task_id=task_id))
            assert (await whole(stream)).code == 0
        for _ in range(3):
            nothing = agent_service_pb2.SubscribeTaskRequest(task_id="nope")
            assert (await whole(page.stream("SubscribeTask", nothing))).reason == "TASK_NOT_FOUND"
            assert (await whole(page.stream("StreamTask", streaming("echo x")))).code == 0


# -- going down --------------------------------------------------------------------------------------------------------------


async def test_a_server_that_goes_away_says_so_in_the_last_frame_of_its_streams() -> None:
    agent = Scripted(CARD, http=HttpOptions())
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http:
        await agent.serve()
        stopping, last = None, Answer()
        async with asyncio.timeout(PATIENCE_S):
            async for answer in Page(agent.http_url, http).stream("StreamTask", streaming("wait")):
                last = answer
                if stopping is None:
                    stopping = asyncio.ensure_future(agent.aclose(0.5))
        assert last.messages[0].events[0].event_type == "task.submitted"
        assert (last.code, last.reason) == (code_pb2.UNAVAILABLE, "UNAVAILABLE")
        assert stopping is not None
        await stopping


async def test_a_server_that_goes_away_ends_a_stream_without_an_event_once_after_its_position(page: Page) -> None:
    task = (await page.call("SendTask", sending("echo done"))).messages[0].task
    request = agent_service_pb2.SubscribeTaskRequest(task_id=task.id, stop_at="STOP_AT_CURRENT")
    everything = await whole(page.stream("SubscribeTask", request))
    request.after_sequence = everything.messages[-1].events[-1].sequence
    page.streams.drain()
    answer = await whole(page.stream("SubscribeTask", request))
    assert [(len(each.events), each.position.caught_up) for each in answer.messages] == [(0, True)]
    assert answer.code == code_pb2.UNAVAILABLE


# -- a registry --------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def registry_page() -> AsyncIterator[Page]:
    async with (
        Registry(http=HttpOptions()) as registry,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http,
    ):
        yield Page(registry.http_url, http)


def registering(name: str) -> registry_service_pb2.RegisterAgentRequest:
    where = {"url": f"grpc://{name}.example:1", "transport": "grpc"}
    card = agent_card_pb2.AgentCard(name=name, description=name, interfaces=[where], tags=["temporary"])
    return registry_service_pb2.RegisterAgentRequest(card=card)


async def test_a_registry_is_asked_the_same_way() -> None:
    async with registry_page() as page:
        lease = (await page.call("RegisterAgent", registering("ann"))).messages[0]
        found = (await page.call("GetAgent", registry_service_pb2.GetAgentRequest(name="ann"))).messages[0]
        assert [each.url for each in found.agent.card.interfaces] == ["grpc://ann.example:1"]
        by_url = registry_service_pb2.GetAgentRequest(url="grpc://ann.example:1")
        assert (await page.call("GetAgent", by_url)).messages == [found]
        tagged = registry_service_pb2.ListAgentsRequest(filter={"tags": ["temporary"]})
        assert [each.card.name for each in (await page.call("ListAgents", tagged)).messages[0].agents] == ["ann"]
        leaving = registry_service_pb2.DeregisterAgentRequest(lease_id=lease.lease_id)
        assert (await page.call("DeregisterAgent", leaving)).messages[0].removed
        gone = await page.call("GetAgent", registry_service_pb2.GetAgentRequest(name="ann"))
        assert (gone.code, gone.reason) == (code_pb2.NOT_FOUND, "AGENT_NOT_FOUND")


async def test_a_watch_of_a_registry_shows_who_comes_and_goes() -> None:
    seen: list[tuple[str, int]] = []
    async with registry_page() as page, asyncio.timeout(PATIENCE_S):
        lease = (await page.call("RegisterAgent", registering("ann"))).messages[0]
        async with aclosing(page.stream("WatchAgents", registry_service_pb2.WatchAgentsRequest())) as stream:
            answered = 0
            async for answer in stream:
                new, answered = answer.messages[answered:], len(answer.messages)
                changes = [change for each in new for change in each.changes]
                seen += [(each.agent.card.name, each.kind) for each in changes]
                if changes and len(seen) == 1:
                    await page.call("RegisterAgent", registering("bob"))
                elif changes and len(seen) == 2:
                    leaving = registry_service_pb2.DeregisterAgentRequest(lease_id=lease.lease_id)
                    await page.call("DeregisterAgent", leaving)
                elif len(seen) == 3:
                    break
    up, down = registry_service_pb2.AGENT_CHANGE_KIND_UP, registry_service_pb2.AGENT_CHANGE_KIND_DOWN
    assert seen == [("ann", up), ("bob", up), ("ann", down)]
