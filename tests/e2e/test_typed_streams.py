"""Generator tools as streams of a typed service, over real sockets: gRPC, gRPC-Web and Connect, with stubs and without."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any

import grpc.aio
import httpx
import pytest
from cut_wire import Wire
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from pydantic import Field

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    BudgetExceededError,
    CapabilityPolicy,
    Limits,
    MemoryStore,
    Message,
    Part,
    RunBudget,
    Task,
    TaskExecutionError,
    ToolFailedError,
    ToolRejectedError,
    ToolTimeoutError,
)
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.grpc_web import GrpcWebChannel
from protolink_grpc.errors import DeadlineExceededError, ResourceExhaustedError
from protolink_grpc.models.events import ActionEnded, TaskArtifactUpdated
from protolink_grpc.net.address import WebAddress
from protolink_grpc.runtime.actions import tool_items
from protolink_grpc.typed.service import build_typed_service, export_proto

PACKAGE = "acme.counter.v1"
SERVICE = f"{PACKAGE}.Counter"
PATIENCE_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""

Strung = Callable[[str], Awaitable[Wire]]


@dataclass
class Row:
    number: int
    text: str


class Counter(Agent):
    """Its tools yield what the tests ask for, and note what happens to them.

    Attributes:
        calls: Names of the calls of tools.
        closed: Set when the generator of a tool is closed; `threading.Event`, because one works on a thread.
        go_on: Lets the tool `step` yield its next item.
    """

    def __init__(self, **settings: Any) -> None:
        card = AgentCard(name="counter", description="Counts.", url="grpc://127.0.0.1:0")
        super().__init__(card, **{"typed": PACKAGE, "http": "127.0.0.1:0", **settings})
        self.calls: list[str] = []
        self.closed = threading.Event()
        self.go_on = asyncio.Semaphore(0)
        for tool in (self.count, self.words, self.rows, self.fail, self.wrong, self.step, self.hang, self.spin):
            self.tool(tool)
        self.tool(capabilities=["secrets.read"])(self.secrets)

    async def count(self, n: Annotated[int, Field(ge=0)]) -> AsyncIterator[int]:
        """Count to n."""
        self.calls.append("count")
        for number in range(n):
            yield number

    def words(self, n: int, size: int = 8) -> Iterator[str]:
        """Yield words, on a thread."""
        self.calls.append("words")
        for number in range(n):
            yield f"{number}".rjust(size)

    async def rows(self) -> AsyncIterator[Row]:
        """Yield rows."""
        yield Row(1, "one")
        yield Row(2, "two")

    async def fail(self, after: int) -> AsyncIterator[int]:
        """Yield some numbers and fail."""
        for number in range(after):
            yield number
        raise ValueError("no luck")

    async def wrong(self) -> AsyncIterator[int]:
        """Yield a number, and then something else."""
        yield 1
        yield "two"  # type: ignore[misc]  # what is tested

    async def step(self) -> AsyncIterator[int]:
        """Yield a number each time the test says so."""
        self.calls.append("step")
        for number in range(1000):
            await self.go_on.acquire()
            yield number

    async def hang(self, size: int = 1) -> AsyncIterator[str]:
        """Yield a text and wait until canceled."""
        try:
            yield "1" * size
            await asyncio.Event().wait()
        finally:
            self.closed.set()

    def spin(self) -> Iterator[int]:
        """Yield without end, on a thread."""
        number = 0
        try:
            while True:
                yield (number := number + 1)
        finally:
            self.closed.set()

    async def secrets(self) -> AsyncIterator[str]:
        """Yield secrets."""
        yield "1234"


class CounterStub:
    """A stub as protoc generates it; `request` makes the request of a method."""

    def __init__(self, channel: Any) -> None:
        typed = build_typed_service(export_proto("counter", "", Counter().tools.values(), PACKAGE).plan)
        self._requests: dict[str, Any] = {}
        for name, method in typed.descriptor.methods_by_name.items():
            self._requests[name] = request = GetMessageClass(method.input_type)
            answer: Any = GetMessageClass(method.output_type)
            made = channel.unary_stream(
                f"/{SERVICE}/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=answer.FromString,
                _registered_method=True,
            )
            setattr(self, name, made)

    def start(self, method: str, *, headers: dict[str, str] | None = None, timeout: float = 20.0, **fields: Any) -> Any:
        request = self._requests[method](**fields)
        return getattr(self, method)(request, metadata=tuple((headers or {}).items()), timeout=timeout)

    async def items(self, method: str, **options: Any) -> list[Any]:
        return [answer.result async for answer in self.start(method, **options)]


@pytest.fixture
async def agent() -> AsyncIterator[Counter]:
    async with Counter() as running:
        yield running


@pytest.fixture
async def stub(agent: Counter) -> AsyncIterator[CounterStub]:
    async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
        yield CounterStub(channel)


def client_stub(agent: Agent, url: str = "") -> CounterStub:
    return AgentClient(url=url or agent.card.url).stub(CounterStub)


async def closed(agent: Counter) -> bool:
    return await asyncio.to_thread(agent.closed.wait, PATIENCE_S)


async def read_into(items: list[Any], call: Any) -> None:
    async for answer in call:
        items.append(answer.result)  # noqa: PERF401 -- these items stay if the call fails


async def failure(call: Any) -> tuple[list[Any], grpc.aio.AioRpcError, error_details_pb2.ErrorInfo]:
    """The items before the failure of a stream, and the failure."""
    items: list[Any] = []
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await read_into(items, call)
    info, status = error_details_pb2.ErrorInfo(), rpc_status.from_call(error.value)
    for detail in status.details if status is not None else ():
        detail.Unpack(info)
    return items, error.value, info


# -- streams -----------------------------------------------------------------------------------------------------------------


async def test_the_items_of_a_generator_are_the_messages_of_its_stream(stub: CounterStub) -> None:
    assert await stub.items("Count", n=1000) == list(range(1000))
    assert await stub.items("Words", n=3, size=2) == [" 0", " 1", " 2"]
    assert [(row.number, row.text) for row in await stub.items("Rows")] == [(1, "one"), (2, "two")]
    assert await stub.items("Count", n=0) == []


async def test_an_item_arrives_while_the_tool_works_and_is_in_the_log_before(agent: Counter, stub: CounterStub) -> None:
    call = stub.start("Step")
    task_id = dict(await call.initial_metadata())["x-task-id"]
    client = AgentClient(url=agent.card.url)
    for number in range(3):
        agent.go_on.release()
        assert (await call.read()).result == number
        task = await client.get_task(task_id)
        items = [part.content for artifact in task.artifacts for part in artifact.parts]
        assert (str(task.state), items) == ("working", list(range(number + 1)))
    await client.cancel_task(None, task_id)


async def test_the_log_has_each_item_once_and_readers_get_the_whole_list() -> None:
    store, whole = MemoryStore(), [f"{number}".rjust(40) for number in range(3)]
    async with Counter(store=store) as agent:
        assert await client_stub(agent).items("Words", n=3, size=40, headers={"x-task-id": "t1"}) == whole
        frames = b"".join(await store.read("t1", 0, 1000))
        assert [frames.count(word.encode()) for word in whole] == [1, 1, 1]
        client = AgentClient(url=agent.card.url)
        assert (await client.get_task("t1")).get_output() == whole
        ended = [event.payload async for event in client.subscribe("t1") if isinstance(event.payload, ActionEnded)]
        assert [each.result for each in ended] == [whole]


async def test_elsewhere_the_result_of_a_generator_is_the_list_of_its_items(agent: Counter) -> None:
    client = AgentClient(url=agent.card.url)
    assert await client.call_tool(None, "count", {"n": 3}) == [0, 1, 2]
    task = Task(messages=[Message(role="user", parts=[Part.tool_call("rows", {})])])
    answer = await client.send_task(None, task)
    assert answer.get_output() == [{"number": 1, "text": "one"}, {"number": 2, "text": "two"}]
    assert await agent.call_tool("count", n=2) == [0, 1]


async def test_a_watcher_of_the_task_sees_the_items_appended_to_one_artifact(agent: Counter, stub: CounterStub) -> None:
    call = stub.start("Count", n=3)
    task_id = dict(await call.initial_metadata())["x-task-id"]
    updates = [
        (each.append, [part.content for part in each.artifact.parts], each.artifact.id)
        async for event in AgentClient(url=agent.card.url).subscribe(task_id)
        if isinstance(each := event.payload, TaskArtifactUpdated) and each.artifact.kind == "tool_items"
    ]
    assert [update[:2] for update in updates] == [(False, [0]), (True, [1]), (True, [2])]
    assert len({update[2] for update in updates}) == 1


# -- failures ----------------------------------------------------------------------------------------------------------------


async def test_a_tool_that_fails_in_the_middle_ends_the_stream_after_its_items(
    agent: Counter, stub: CounterStub
) -> None:
    items, error, info = await failure(stub.start("Fail", after=3))
    assert (items, error.code(), info.reason) == ([0, 1, 2], grpc.StatusCode.ABORTED, "TOOL_FAILED")
    assert "no luck" in str(error.details())
    task = await AgentClient(url=agent.card.url).get_task(info.metadata["task_id"])
    assert str(task.state) == "failed"


async def test_an_item_of_another_type_is_a_failure(stub: CounterStub) -> None:
    items, error, info = await failure(stub.start("Wrong"))
    assert (items, info.reason) == ([1], "TOOL_FAILED")
    assert "yielded a value of type str that is not of its declared type int" in str(error.details())


async def test_invalid_arguments_and_denied_calls_have_no_items() -> None:
    async with Counter(policy=CapabilityPolicy({"secrets.read": "deny"})) as agent:
        stub = client_stub(agent)
        with pytest.raises(ToolRejectedError, match="n: Input should be greater than or equal to 0"):
            await stub.items("Count", n=-1)
        async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
            items, error, info = await failure(CounterStub(channel).start("Secrets"))
    assert (items, error.code(), info.reason) == ([], grpc.StatusCode.PERMISSION_DENIED, "ACTION_DENIED")


# -- readers and the tool ----------------------------------------------------------------------------------------------------


async def test_a_repeated_request_id_returns_the_items_of_the_first_call(agent: Counter, stub: CounterStub) -> None:
    headers = {"x-request-id": "r1"}
    assert await stub.items("Count", n=3, headers=headers) == [0, 1, 2]
    assert await stub.items("Count", n=5, headers=headers) == [0, 1, 2]
    assert agent.calls == ["count"]


async def test_a_second_reader_gets_all_items_while_the_tool_works(agent: Counter, stub: CounterStub) -> None:
    headers = {"x-request-id": "r1", "x-task-id": "t1"}
    first = stub.start("Step", headers=headers)
    for _ in range(2):
        agent.go_on.release()
        await first.read()
    second = stub.start("Step", headers=headers)
    assert [(await second.read()).result for _ in range(2)] == [0, 1]
    agent.go_on.release()
    assert [(await call.read()).result for call in (first, second)] == [2, 2]
    assert agent.calls == ["step"]
    await AgentClient(url=agent.card.url).cancel_task(None, "t1")


async def test_a_reader_that_hangs_up_or_whose_deadline_passes_does_not_stop_the_tool(
    agent: Counter, stub: CounterStub
) -> None:
    headers = {"x-request-id": "r1", "x-task-id": "t1"}
    first = stub.start("Step", headers=headers)
    agent.go_on.release()
    await first.read()
    first.cancel()
    items, error, _ = await failure(stub.start("Step", headers=headers, timeout=0.5))
    assert (items, error.code()) == ([0], grpc.StatusCode.DEADLINE_EXCEEDED)
    agent.go_on.release()
    third = stub.start("Step", headers=headers)
    assert [(await third.read()).result for _ in range(2)] == [0, 1]
    assert agent.calls == ["step"]
    await AgentClient(url=agent.card.url).cancel_task(None, "t1")


@pytest.mark.parametrize("method", ["Hang", "Spin"])
async def test_canceling_the_task_closes_the_generator(agent: Counter, stub: CounterStub, method: str) -> None:
    call = aiter(stub.start(method, headers={"x-task-id": "t1"}))
    assert (await anext(call)).result in (1, "1")
    await AgentClient(url=agent.card.url).cancel_task(None, "t1")
    _, error, info = await failure(call)
    assert (error.code(), info.reason) == (grpc.StatusCode.ABORTED, "TASK_FAILED")
    assert await closed(agent)


async def test_a_tool_does_not_wait_for_a_reader_that_does_not_read(agent: Counter, stub: CounterStub) -> None:
    count, size = 1000, 4000  # far more than what flow control lets the server send
    call = aiter(stub.start("Words", n=count, size=size, headers={"x-task-id": "t1"}))
    await anext(call)
    assert str((await AgentClient(url=agent.card.url).wait_task("t1")).state) == "completed"
    rest = [answer.result async for answer in call]
    assert rest == [f"{number}".rjust(size) for number in range(1, count)]


# -- generators without end --------------------------------------------------------------------------------------------------


async def test_the_runtime_of_a_budget_ends_a_generator_without_end() -> None:
    async with Counter(budget=RunBudget(max_runtime_seconds=0.2)) as agent:
        with pytest.raises(BudgetExceededError):
            await client_stub(agent).items("Spin")
        assert await closed(agent)


async def test_the_timeout_of_a_tool_ends_a_generator_without_end() -> None:
    async with Counter(tool_timeout_s=0.2) as agent:
        with pytest.raises(ToolTimeoutError):
            await client_stub(agent).items("Hang")
        assert await closed(agent)


async def test_the_size_of_all_items_is_bounded(agent: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_items, "MAX_BYTES", 1 << 20)
    items: list[int] = []
    with pytest.raises(ToolFailedError, match="more than 1 MiB"):
        await read_into(items, client_stub(agent).start("Spin"))
    assert items == list(range(1, len(items) + 1))
    assert len(items) == (1 << 20) // (tool_items.ITEM_BYTES + 8)
    assert await closed(agent)


async def test_a_task_that_streams_counts_with_its_size_against_the_limit_of_all_tasks() -> None:
    async with Counter(limits=Limits(max_task_bytes=1 << 20, principal_share=1.0)) as agent:
        stub = client_stub(agent)
        async with aclosing(stub.start("Hang", size=2 << 20, headers={"x-task-id": "t1"})) as call:
            assert len((await anext(call)).result) == 2 << 20
            with pytest.raises(ResourceExhaustedError):
                await AgentClient(url=agent.card.url, outage_s=0).call_tool(None, "count", {"n": 1})
        await AgentClient(url=agent.card.url).cancel_task(None, "t1")
        assert await stub.items("Count", n=1) == [0]


# -- other protocols ---------------------------------------------------------------------------------------------------------


def enveloped(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4, "big") + data


def envelopes(body: bytes) -> list[tuple[int, Any]]:
    found = []
    while body:
        size = int.from_bytes(body[1:5], "big")
        found.append((body[0], json.loads(body[5 : 5 + size])))
        body = body[5 + size :]
    return found


async def test_the_connect_protocol_streams_items_as_json(agent: Counter) -> None:
    headers = {"content-type": "application/connect+json", "x-request-id": "r1"}
    async with httpx.AsyncClient() as client:
        for _ in range(2):
            answer = await client.post(
                f"{agent.http_url}/{SERVICE}/Count", content=enveloped(b'{"n": 3}'), headers=headers
            )
            assert answer.headers["x-task-id"]
            # Zero is the default, so ProtoJSON leaves it out.
            assert envelopes(answer.content) == [(0, {}), (0, {"result": "1"}), (0, {"result": "2"}), (2, {})]
        failed = await client.post(
            f"{agent.http_url}/{SERVICE}/Fail",
            content=enveloped(b'{"after": 1}'),
            headers={"content-type": "application/connect+json"},
        )
    assert agent.calls == ["count"]
    (_, first), (flag, end) = envelopes(failed.content)
    assert (failed.status_code, first, flag, end["error"]["code"]) == (200, {}, 2, "aborted")


async def test_connect_sends_an_item_while_the_tool_works(agent: Counter) -> None:
    headers = {"content-type": "application/connect+json", "x-task-id": "t1"}
    url, body = f"{agent.http_url}/{SERVICE}/Step", enveloped(b"{}")
    agent.go_on.release()
    async with httpx.AsyncClient() as client, client.stream("POST", url, content=body, headers=headers) as answer:
        parts = answer.aiter_bytes()
        assert envelopes(await anext(parts)) == [(0, {})]
        agent.go_on.release()
        assert envelopes(await anext(parts)) == [(0, {"result": "1"})]
    await AgentClient(url=agent.card.url).cancel_task(None, "t1")


async def test_grpc_web_streams_items(agent: Counter) -> None:
    channel = GrpcWebChannel(WebAddress.parse(agent.http_url), ChannelOptions())
    assert await CounterStub(channel).items("Count", n=3) == [0, 1, 2]


async def test_a_client_of_a2a_sees_an_artifact_to_which_items_are_appended(agent: Counter) -> None:
    call = {"type": "tool_call", "content": {"tool_name": "words", "args": {"n": 2, "size": 3}, "call_id": "c"}}
    part = {"data": call, "mediaType": "application/vnd.plgrpc.part+json"}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [part]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{agent.http_url}/", json=body, headers={"A2A-Version": "1.0"})
    events = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    updates = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    first, second, output = [update["artifact"] for update in updates]
    assert [update.get("append", False) for update in updates] == [False, True, False]
    assert [each["parts"] for each in (first, second)] == [[{"text": "  0"}], [{"text": "  1"}]]
    assert first["artifactId"] == second["artifactId"]
    assert first["metadata"]["plgrpc"]["kind"] == "tool_items"
    reference = {"$payload": {"uri": f"artifact:{first['artifactId']}", "preview": "2 items"}}
    assert output["parts"][0]["data"]["content"]["result"] == reference
    assert await AgentClient(url=agent.card.url).call_tool(None, "words", {"n": 2, "size": 3}) == ["  0", "  1"]


# -- stubs of clients --------------------------------------------------------------------------------------------------------


async def test_a_clients_stub_yields_messages_and_raises_typed_errors(agent: Counter) -> None:
    stub = client_stub(agent)
    assert await stub.items("Count", n=3) == [0, 1, 2]
    items: list[int] = []
    with pytest.raises(ToolFailedError, match="no luck"):
        await read_into(items, stub.start("Fail", after=2))
    assert items == [0, 1]


def test_a_clients_stub_works_without_await() -> None:
    agent = Counter()
    agent.start(background=True)
    try:
        stub: Any = AgentClient(url=agent.card.url).sync.stub(CounterStub)
        request = client_stub(agent)._requests["Count"](n=3)
        assert [answer.result for answer in stub.Count(request)] == [0, 1, 2]
    finally:
        agent.stop()


async def test_a_stream_that_is_cut_continues_without_a_lost_or_doubled_item(agent: Counter, wire: Strung) -> None:
    strung = await wire(agent.card.url)
    strung.cut_after([3000, 6000, 20_000])
    assert await client_stub(agent, strung.url).items("Words", n=500, size=30) == [
        f"{number}".rjust(30) for number in range(500)
    ]
    assert strung.connections == 4
    assert agent.calls == ["words"]


async def test_a_stream_that_is_cut_while_the_tool_waits_is_resumed(agent: Counter, wire: Strung) -> None:
    strung = await wire(agent.card.url)
    call = client_stub(agent, strung.url).start("Step", headers={"x-task-id": "t1"})
    for number in range(4):
        agent.go_on.release()
        assert (await anext(call)).result == number
        strung.cut()
    await call.aclose()
    assert agent.calls == ["step"]
    await AgentClient(url=agent.card.url).cancel_task(None, "t1")


async def test_the_timeout_of_a_stub_ends_the_stream_and_not_the_tool(agent: Counter) -> None:
    stub, headers = client_stub(agent), {"x-request-id": "r1", "x-task-id": "t1"}
    agent.go_on.release()
    with pytest.raises(DeadlineExceededError):
        await stub.items("Step", headers=headers, timeout=0.5)
    async with aclosing(stub.start("Step", headers=headers)) as again:
        assert (await anext(again)).result == 0
    await AgentClient(url=agent.card.url).cancel_task(None, "t1")
    with pytest.raises(TaskExecutionError):
        await stub.items("Step", headers=headers)
    assert agent.calls == ["step"]
