"""The choice of an interface of a card, the allowed requests, and errors of HTTP and A2A."""

import inspect
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as theirs
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import errors
from protolink_grpc.a2a.client import card_interfaces
from protolink_grpc.a2a.client import transport as a2a_way
from protolink_grpc.a2a.client.card_interfaces import grpc_address
from protolink_grpc.a2a.client.messages import build_request, tidy, tidy_task
from protolink_grpc.a2a.client.transport import Card, a2a_errors, card_of, choose_interface, open_interface
from protolink_grpc.a2a.values import V03, V1
from protolink_grpc.client import http_channel
from protolink_grpc.client.channel import ChannelOptions, close_channels
from protolink_grpc.client.http_channel import Sender, close_http_channels, http_errors, status_error
from protolink_grpc.client.lru_map import LRUMap
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part
from protolink_grpc.models.task import Task
from protolink_grpc.net.address import Address, WebAddress

HERE = WebAddress.parse("https://agent.example:8443/base")


def card(*interfaces: tuple[str, str, str]) -> Card:
    found = [pb.AgentInterface(protocol_binding=b, protocol_version=v, url=u) for b, v, u in interfaces]
    theirs_card = pb.AgentCard(name="a", supported_interfaces=found, capabilities={"streaming": True})
    return Card(theirs_card, AgentCard(name="a", description="b", url="c"), "", 0.0)


def sender(metadata: tuple[tuple[str, str], ...] = (), trusted: frozenset[str] = frozenset()) -> Sender:
    return Sender(HERE, ChannelOptions(metadata=metadata), trusted)


# -- addresses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "origin", "whole"),
    [
        ("http://a", "http://a:80", "http://a:80"),
        ("https://A.example/x/", "https://a.example:443", "https://a.example:443/x"),
        ("ws://[::1]:5/", "http://[::1]:5", "ws://[::1]:5"),
        ("wss://a", "https://a:443", "wss://a:443"),
    ],
)
def test_an_address_on_the_web_has_one_spelling(url: str, origin: str, whole: str) -> None:
    address = WebAddress.parse(url)
    assert (address.origin, address.url) == (origin, whole)
    assert WebAddress.parse(address.url) == address


@pytest.mark.parametrize(
    "url", ["grpc://a:1", "http://", "http://me:pw@a", "http://a?key=1", "http://a#b", "http://a:x"]
)
def test_what_is_no_address_on_the_web_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="agent_url"):
        WebAddress.parse(url, field="agent_url")


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading_of_an_address(text: str) -> None:
    for url in (text, f"http://{text}"):
        try:
            WebAddress.parse(url)
        except errors.InvalidArgumentError:
            pass


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("a:1", Address("a", 1, True)),  # as secure as the card
        ("grpc://a:1", Address("a", 1)),
        ("grpcs://a:1", Address("a", 1, True)),
        ("http://a:1", Address("a", 1)),
        ("https://a", Address("a", 443, True)),
    ],
)
def test_grpc_interfaces_are_spelled_in_many_ways(url: str, address: Address) -> None:
    assert grpc_address(url, HERE) == address


# -- the interface -----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name has a public address."""

    async def look_up(host: str, port: int) -> list[str]:
        return ["8.8.8.8"]

    monkeypatch.setattr(card_interfaces, "resolve_by_system", look_up)


async def _taken(found: Card, who: Sender) -> tuple[str, str, str]:
    try:
        interface = open_interface(*await choose_interface(found, who), found, who)
        return interface.binding, interface.version, interface.web.origin
    finally:
        await close_http_channels()
        await close_channels()


async def test_the_newer_version_is_taken_then_what_the_agent_prefers() -> None:
    found = card(
        ("JSONRPC", "0.3.0", "https://agent.example:8443/rpc"),
        ("HTTP+JSON", "1.0", "https://agent.example:8443/rest"),
        ("JSONRPC", "1.0.1", "https://agent.example:8443/rpc"),
    )
    assert await _taken(found, sender()) == ("HTTP+JSON", V1, "https://agent.example:8443")


async def test_what_is_not_spoken_here_is_passed_over() -> None:
    found = card(
        ("SOAP", "1.0", "https://agent.example:8443/"), ("JSONRPC", "9.0", "https://a"), ("JSONRPC", "0.3", "https://b")
    )
    assert await _taken(found, sender()) == ("JSONRPC", V03, "https://b:443")
    with pytest.raises(errors.UnimplementedError):
        await _taken(card(("SOAP", "1.0", "https://a"), ("JSONRPC", "1.0", "file:///x")), sender())


async def test_with_secrets_the_named_origin_comes_first_and_others_get_none() -> None:
    found = card(("GRPC", "1.0", "agent.example:50051"), ("JSONRPC", "0.3", "https://agent.example:8443/rpc"))
    secret = (("x-key", "secret"),)
    assert await _taken(found, sender()) == ("GRPC", V1, "https://agent.example:50051")
    assert await _taken(found, sender(secret)) == ("JSONRPC", V03, "https://agent.example:8443")
    trusting = sender(secret, frozenset({"https://agent.example:50051"}))
    assert await _taken(found, trusting) == ("GRPC", V1, "https://agent.example:50051")
    assert await sender(secret).headers(WebAddress.parse("https://agent.example:50051")) == {}
    assert await sender(secret).headers(WebAddress.parse("wss://agent.example:8443/x")) == dict(secret)
    assert await sender(secret).headers(WebAddress.parse("http://agent.example:8443")) == {}


@given(st.binary(max_size=200) | st.sampled_from([b"null", b"[]", b"{}", b'{"name":5}', b'{"skills":[1]}']))
def test_what_is_no_card_is_said_to_be_none(text: bytes) -> None:
    with pytest.raises(errors.InvalidAgentResponseError):
        card_of(text, HERE, "", 0.0)


# -- errors ------------------------------------------------------------------------------------------------------------------


def _a2a_errors() -> list[type[theirs.A2AError]]:
    named = [each for _, each in inspect.getmembers(theirs, inspect.isclass) if issubclass(each, theirs.A2AError)]
    return [each for each in named if each not in (theirs.A2AError, theirs.InternalError)]


@pytest.mark.parametrize("cls", _a2a_errors(), ids=lambda cls: cls.__name__)
def test_every_error_of_a2a_has_a_class_here(cls: type[theirs.A2AError]) -> None:
    with pytest.raises(errors.ProtolinkError, match="why") as caught, a2a_errors("http://there", None, task_id="t"):
        raise cls("why", data={"cause": "TASK_FINISHED", "n": 1})
    assert type(caught.value) is not errors.RemoteError
    assert (caught.value.metadata["task_id"], caught.value.metadata["cause"]) == ("t", "TASK_FINISHED")


def _caused(cause: Exception) -> A2AClientError:
    error = A2AClientError("HTTP Error")
    error.__cause__ = cause
    return error


REQUEST = httpx.Request("POST", "http://there")


@pytest.mark.parametrize(
    ("raised", "cls"),
    [
        (theirs.InternalError("x"), errors.RemoteError),
        (A2AClientError("x"), errors.RemoteError),
        (A2AClientTimeoutError("x"), errors.DeadlineExceededError),
        (_caused(httpx.ConnectError("x")), errors.UnavailableError),
        (_caused(httpx.ReadError("x")), errors.UnavailableError),
        (_caused(httpx.ReadTimeout("x")), errors.DeadlineExceededError),
        (
            _caused(httpx.HTTPStatusError("x", request=REQUEST, response=httpx.Response(401))),
            errors.UnauthenticatedError,
        ),
        (_caused(ValueError("no JSON")), errors.InvalidAgentResponseError),
        (NotImplementedError("x"), errors.UnimplementedError),
        (KeyError("result"), errors.InvalidAgentResponseError),
        (errors.InvalidArgumentError("must be", field="parts"), errors.InvalidAgentResponseError),
        (errors.UnauthenticatedError("x"), errors.UnauthenticatedError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_errors_of_the_official_client_are_typed(raised: Exception, cls: type[Exception]) -> None:
    with pytest.raises(errors.ProtolinkError) as caught, a2a_errors("http://there", None):
        raise raised
    assert type(caught.value) is cls


def test_only_a_peer_that_was_never_reached_is_called_so() -> None:
    for error, unreached in ((httpx.ConnectError("x"), True), (httpx.ReadError("x"), False)):
        with pytest.raises(errors.UnavailableError) as caught, http_errors("http://there"):
            raise error
        assert ("unreached" in caught.value.metadata) is unreached


def _subclasses(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(found for each in cls.__subclasses__() for found in _subclasses(each))]


@pytest.mark.parametrize("cls", _subclasses(httpx.HTTPError), ids=lambda cls: cls.__name__)
def test_every_error_of_the_web_has_a_type(cls: type[httpx.HTTPError]) -> None:
    error = cls.__new__(cls)
    Exception.__init__(error, "why")
    error.response = httpx.Response(500)  # type: ignore[attr-defined]  # HTTPStatusError has one
    assert isinstance(http_channel.http_error(error, "http://there"), errors.ProtolinkError)


@given(st.integers(100, 599))
def test_every_status_that_is_no_success_is_an_error(status: int) -> None:
    error = status_error(status, "http://there", task_id="t")
    assert error.metadata["task_id"] == "t"
    assert isinstance(error, errors.UnavailableError) is (status in (502, 503))


def test_a_busy_agent_says_when_to_come_back() -> None:
    error = status_error(429, "http://there", headers={"retry-after": "7"})
    assert isinstance(error, errors.ResourceExhaustedError)
    assert error.retry_after_s == 7.0


def test_only_grpc_errors_of_a_grpc_interface_name_its_address() -> None:
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "Socket closed")
    with pytest.raises(errors.UnavailableError, match="grpc://a:1"), a2a_errors("http://there", Address("a", 1)):
        raise error


# -- answers of bounded size -------------------------------------------------------------------------------------------------


async def _answer(body: bytes, **headers: str) -> bytes:
    response = httpx.Response(200, headers=headers, stream=httpx.ByteStream(body), request=REQUEST)
    await http_channel._limit_body(response)
    return await response.aread()


async def test_an_answer_has_a_bound_and_of_a_stream_each_event_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_channel, "MAX_RESPONSE_BYTES", 10)
    assert await _answer(b"0123456789") == b"0123456789"
    with pytest.raises(errors.InvalidAgentResponseError):
        await _answer(b"0123456789a")
    events = {"content-type": "text/event-stream"}
    assert await _answer(b"data: 123\n\ndata: 4\r\n\r\ndata: 5\n\n", **events)
    with pytest.raises(errors.InvalidAgentResponseError):
        await _answer(b"data: 1\n\ndata: 01234567", **events)


async def test_an_encoding_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(errors.InvalidAgentResponseError):
        await _answer(b"x", **{"content-encoding": "gzip"})


# -- messages ----------------------------------------------------------------------------------------------------------------


def _request(task: Task) -> pb.SendMessageRequest:
    return build_request(task, task_id="", context_id="", tenant="", at_once=False, is_own_agent=True)


def test_the_last_item_of_a_task_is_what_is_sent() -> None:
    task = Task.create("first").add_message(Message.agent("second"))
    sent = _request(task).message
    assert (sent.parts[0].text, sent.role, sent.message_id) == ("second", pb.ROLE_USER, task.messages[-1].id)
    task.add_artifact(Artifact(parts=[Part("text", "third")]))
    assert _request(task).message.parts[0].text == "third"
    with pytest.raises(errors.InvalidArgumentError, match="task"):
        _request(Task())


def test_of_a_runs_context_only_what_narrows_the_work_is_sent() -> None:
    context = RunContext(workspace_uri="file:///home/me", metadata={"x": 1}, agent_chain=["boss"], principal="me")
    task = Task.create("go", context=context)
    task.metadata |= {"color": "red", "a2a": {"task_id": "t"}}
    metadata = _request(task).metadata
    assert set(metadata) == {"color", "plgrpc"}
    told = metadata["plgrpc"]["run_context"]
    assert list(told["agent_chain"]) == ["boss"]
    assert not {"workspace_uri", "metadata", "principal", "scopes"} & set(told)


def test_what_says_nothing_is_left_out_of_answers() -> None:
    silent, spoken = pb.Message(message_id="1"), pb.Message(message_id="2", parts=[pb.Part(text="x")])
    task = pb.Task(
        status=pb.TaskStatus(message=silent),
        history=[silent, spoken],
        artifacts=[pb.Artifact(artifact_id="1"), pb.Artifact(artifact_id="2", parts=[pb.Part(text="x")])],
    )
    cleaned = tidy_task(task)
    assert not cleaned.status.HasField("message")
    assert [(each.message_id, each.role) for each in cleaned.history] == [("2", pb.ROLE_AGENT)]
    assert [each.artifact_id for each in cleaned.artifacts] == ["2"]
    empty = pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=pb.Artifact(artifact_id="1")))
    assert tidy(empty).WhichOneof("payload") is None


def test_what_was_used_last_is_remembered() -> None:
    recent = LRUMap[int](2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert ("a" in recent, "b" in recent, len(recent)) == (True, False, 2)
    assert (recent.pop("a"), recent.pop("a")) == (1, None)


def test_a_card_is_asked_for_again_when_it_says_so() -> None:
    def age(value: str) -> float:
        return a2a_way._max_age_s(httpx.Response(200, headers={"cache-control": value}))

    assert [age("public, max-age=60"), age("no-cache"), age("max-age=99999"), age("")] == [60.0, 0.0, 300.0, 300.0]


def test_an_infer_part_is_text_for_agents_of_other_systems() -> None:
    parts = [Part.infer(prompt="how warm", output_schema={"type": "number"}), Part.infer(prompt="a", user="b")]
    task = Task.create(Message(parts=[*parts, Part.text("how warm")]))
    request = build_request(task, task_id="", context_id="", tenant="", at_once=False, is_own_agent=False)
    rule = 'Answer with JSON, and nothing else, that satisfies this JSON Schema:\n{"type":"number"}'
    assert [part.text for part in request.message.parts] == ["a\n\nb", "how warm", rule]
