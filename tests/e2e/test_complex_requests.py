"""No request within the size limit blocks the event loop: its complexity is counted before it is parsed."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio
import httpx
import pytest
from a2a.types import a2a_pb2
from plgrpc.v1 import agent_card_pb2, part_pb2, registry_service_pb2, task_input_pb2, task_pb2
from plgrpc.v1 import agent_service_pb2 as pb
from websockets.asyncio.client import connect

from protolink_grpc import Agent, AgentCard, HttpOptions, Registry, ServerOptions, Task
from protolink_grpc.a2a.marks import MARK
from protolink_grpc.wire.scalars import delimited, tag

BYTES = 3_800_000
"""Nearly the largest request that is accepted."""

HELD_S = 0.25
"""Of processor time, in one turn of the loop. The aim is 50 ms, a busy machine gets five times that; unbounded it was 3 to 7 s."""

pytestmark = pytest.mark.timeout(120)


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete("done")


class Heartbeat:
    """The longest turn of the running loop, in seconds of its thread's processor time: other processes do not count."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    @asynccontextmanager
    async def watch(self) -> AsyncIterator["Heartbeat"]:
        beating = asyncio.get_running_loop().create_task(self._beat())
        try:
            yield self
            await asyncio.sleep(0)  # the turn that ends with the answer counts, too
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self.longest_s = max(self.longest_s, now - last)
            last = now


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    card = AgentCard(
        name="echo", description="says done", url="grpc://127.0.0.1:0", input_formats=["text/plain", "application/json"]
    )
    async with Echo(card, http="127.0.0.1:0") as agent:
        yield agent


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry(http="127.0.0.1:0") as found:
        yield found


def wrapped(kind: Any, name: str, *items: bytes) -> bytes:
    return delimited(tag(kind.DESCRIPTOR.fields_by_name[name].number), items)


def filled(kind: Any, name: str, item: bytes = b"") -> bytes:
    """The field again and again, up to the size that a request may have."""
    one = wrapped(kind, name, item)
    return one * (BYTES // len(one))


def sending(given: bytes) -> bytes:
    return wrapped(pb.SendTaskRequest, "input", given)


def with_part(part: part_pb2.Part) -> bytes:
    return sending(
        wrapped(task_input_pb2.TaskInput, "messages", wrapped(task_pb2.Message, "parts", part.SerializeToString()))
    )


def array(item: str, count: int) -> str:
    return "[" + ",".join([item] * count) + "]"


def message_of_a2a(**part: Any) -> a2a_pb2.Message:
    message = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_USER)
    message.parts.add(**part)
    return message


def a2a_numbers() -> bytes:
    message = message_of_a2a()
    message.parts[0].data.list_value.extend([1.5] * 100_000)
    return a2a_pb2.SendMessageRequest(message=message).SerializeToString()


def a2a_exact_text() -> bytes:
    message = message_of_a2a(text="x")
    exact = '{"metadata":{"a":' + array("{}", 1_200_000) + "}}"
    message.parts[0].metadata.fields[MARK].struct_value.fields["exact"].string_value = exact
    return a2a_pb2.SendMessageRequest(message=message).SerializeToString()


SEND, A2A_SEND = "/plgrpc.v1.AgentService/SendTask", "/lf.a2a.v1.A2AService/SendMessage"
LIST, LIST_AGENTS = "/plgrpc.v1.AgentService/ListTasks", "/plgrpc.v1.RegistryService/ListAgents"
REGISTER = "/plgrpc.v1.RegistryService/RegisterAgent"

REFUSED: list[tuple[str, str, Callable[[], bytes]]] = [
    ("messages", SEND, lambda: sending(filled(task_input_pb2.TaskInput, "messages"))),
    ("parts", SEND, lambda: sending(wrapped(task_input_pb2.TaskInput, "messages", filled(task_pb2.Message, "parts")))),
    ("artifacts", SEND, lambda: sending(filled(task_input_pb2.TaskInput, "artifacts"))),
    ("JSON within", SEND, lambda: with_part(part_pb2.Part(data={"json": array("{}", 1_200_000)}))),
    ("cut off", SEND, lambda: sending(filled(task_input_pb2.TaskInput, "messages")) + b"\x0a"),
    ("states", LIST, lambda: wrapped(pb.ListTasksRequest, "states", b"\x01" * BYTES)),
    ("A2A parts", A2A_SEND, lambda: wrapped(a2a_pb2.SendMessageRequest, "message", filled(a2a_pb2.Message, "parts"))),
    (
        "filter",
        LIST_AGENTS,
        lambda: wrapped(
            registry_service_pb2.ListAgentsRequest, "filter", filled(registry_service_pb2.AgentFilter, "tags", b"t")
        ),
    ),
    (
        "skills",
        REGISTER,
        lambda: wrapped(
            registry_service_pb2.RegisterAgentRequest,
            "card",
            filled(agent_card_pb2.AgentCard, "skills"),
        ),
    ),
]

ACCEPTED: list[tuple[str, str, Callable[[], bytes]]] = [
    ("a long text", SEND, lambda: with_part(part_pb2.Part(text='a, {b} "c": ' * 300_000))),
    ("a large file", SEND, lambda: with_part(part_pb2.Part(file=part_pb2.FileContent(content={"data": bytes(BYTES)})))),
    ("100,000 numbers", SEND, lambda: with_part(part_pb2.Part(data={"json": array("12345.25", 100_000)}))),
    ("A2A, 100,000 numbers", A2A_SEND, a2a_numbers),
    ("A2A, a text that is no exact value", A2A_SEND, a2a_exact_text),
]


async def call(url: str, method: str, body: bytes) -> bytes | grpc.aio.AioRpcError:
    """A call in bytes, compressed as the smallest attack is; the answer, or how it was refused."""
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(url.partition("//")[2], options, compression=grpc.Compression.Gzip) as channel:
        try:
            answer: bytes = await channel.unary_unary(method)(body, timeout=60, metadata=(("a2a-version", "1.0"),))
        except grpc.aio.AioRpcError as error:
            return error
        return answer


@pytest.mark.parametrize(("method", "body"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_a_message_with_too_much_in_it_is_refused_before_anything_is_made_of_it(
    echo: Echo, registry: Registry, method: str, body: Callable[[], bytes]
) -> None:
    data = body()
    async with Heartbeat().watch() as heart:
        answer = await call(registry.url if "Registry" in method else echo.card.url, method, data)
    assert isinstance(answer, grpc.aio.AioRpcError)
    assert answer.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert heart.longest_s < HELD_S


@pytest.mark.parametrize(("method", "body"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
async def test_a_large_request_with_a_purpose_is_answered_and_does_not_hold_the_loop(
    echo: Echo, method: str, body: Callable[[], bytes]
) -> None:
    data = body()
    async with Heartbeat().watch() as heart:
        answer = await call(echo.card.url, method, data)
    assert isinstance(answer, bytes), answer
    assert heart.longest_s < HELD_S


MANY = array("{}", 1_250_000)
RPC = '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%s}'
BODIES = [
    ("JSON-RPC", "/", RPC % f'{{"message":{{"parts":{MANY}}}}}'),
    ("JSON-RPC, no request", "/", MANY),
    ("JSON-RPC, quotation marks", "/", '"' * BYTES),
    ("JSON-RPC, escapes", "/", RPC % ('{"a":"' + '\\"' * 1_800_000 + '"}')),
    ("REST", "/message:send", f'{{"message":{{"parts":{MANY}}}}}'),
    ("ProtoLink, messages", "/tasks/", f'{{"messages":{MANY}}}'),
    ("ProtoLink, parts", "/tasks/", f'{{"messages":[{{"role":"user","parts":{array("{}", 15_000)}}}]}}'),
    ("ProtoLink, cancel", "/tasks/cancel", f'{{"id":"x","metadata":{{"a":{MANY}}}}}'),
    ("registry", "/agents/", f'{{"name":"a","skills":{MANY}}}'),
]


@pytest.mark.parametrize(("path", "body"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
async def test_a_body_with_too_much_in_it_is_refused_before_it_is_parsed(
    echo: Echo, registry: Registry, path: str, body: str
) -> None:
    url = registry.http_url if path == "/agents/" else http_url(echo)
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    data = body.encode()
    async with Heartbeat().watch() as heart, httpx.AsyncClient() as client:
        answer = await client.post(url + path, content=data, headers=headers, timeout=60)
    assert answer.status_code == 413 or answer.json()["error"]["code"] in (-32700, -32602)
    assert heart.longest_s < HELD_S


async def test_a_websocket_message_with_too_much_in_it_is_refused_before_it_is_parsed(
    echo: Echo, registry: Registry
) -> None:
    tasks = f'{{"id":"1","method":"POST","path":"/tasks/","data":{{"messages":{MANY}}}}}'
    query = {"id": "1", "method": "GET", "path": "/agents/", "params": {"filter_by": MANY}}
    for url, frame in ((http_url(echo), tasks), (registry.http_url, json.dumps(query))):
        at = f"ws://{urlsplit(url).netloc}/"
        async with connect(at, max_size=None, compression=None) as socket, Heartbeat().watch() as heart:
            await socket.send(frame)
            answer = json.loads(await socket.recv())
        assert "complexity" in answer["error"]["message"]
        assert heart.longest_s < HELD_S


async def test_the_bound_of_complexity_is_an_option_of_each_edge() -> None:
    card = AgentCard(name="strict", description="says done", url="grpc://127.0.0.1:0")
    data = array("1", 20_000)
    async with Echo(
        card, http=HttpOptions(max_complexity=12_000), server=ServerOptions(max_complexity=12_000)
    ) as strict:
        refused = await call(strict.card.url, SEND, with_part(part_pb2.Part(data={"json": data})))
        assert isinstance(refused, grpc.aio.AioRpcError)
        assert "complexity above 12000" in (refused.details() or "")
        async with httpx.AsyncClient() as client:
            answer = await client.post(
                f"{http_url(strict)}/tasks/cancel", json={"id": "x", "metadata": {"a": [1] * 20_000}}
            )
            assert (answer.status_code, answer.json()["reason"]) == (413, "MESSAGE_TOO_LARGE")
        assert isinstance(await call(strict.card.url, SEND, with_part(part_pb2.Part(text=data))), bytes)


def http_url(agent: Agent) -> str:
    return next(each.url for each in agent.card.interfaces if each.url.startswith("http:"))
