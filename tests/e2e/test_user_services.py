"""A user's own service, called over real sockets by generated stubs: each call is a task, unless the method is not durable."""

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import grpc.aio
import httpx
import pytest
from google.protobuf.json_format import MessageToJson, Parse
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from orders_world import SERVICE, OrdersServicer, pb, pb_grpc, shop, target

import protolink_grpc
from protolink_grpc import (
    AccessRules,
    Agent,
    AgentClient,
    APIKeyAuth,
    InvalidArgumentError,
    Message,
    Part,
    RemoteError,
    ServerOptions,
    SQLiteStore,
    Task,
    TaskState,
    rpc,
)
from protolink_grpc.net.grpc_web import frame

PACKAGE = Path(protolink_grpc.__file__).parent
BUF = str(Path(sys.executable).with_name("buf"))
MOST_FUNCTIONS = 7
"""How many functions of the package a direct call passes on a port without authentication: parsing, passing on, serializing."""


@pytest.fixture
def servicer() -> OrdersServicer:
    return OrdersServicer()


@pytest.fixture
async def agent(servicer: OrdersServicer) -> AsyncIterator[Agent]:
    async with shop(servicer) as running:
        yield running


@pytest.fixture
async def stub(agent: Agent) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(target(agent)) as channel:
        yield pb_grpc.OrdersStub(channel)


def named(request_id: str = "", **headers: str) -> tuple[tuple[str, str], ...]:
    found = {"x-request-id": request_id} if request_id else {}
    return tuple((found | {f"x-{name.replace('_', '-')}": value for name, value in headers.items()}).items())


async def refusal(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


def reason(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    info = error_details_pb2.ErrorInfo()
    status: Any = rpc_status.from_call(error)
    assert status.details[0].Unpack(info)
    return info


async def test_a_call_is_a_task_whose_request_and_response_are_typed_parts(agent: Agent, stub: Any) -> None:
    call = stub.Place(pb.PlaceRequest(item="tea"))
    assert (await call).order == "tea for anonymous"
    task_id = dict(await call.initial_metadata())["x-task-id"]
    task = await AgentClient(url=agent.card.url).get_task(task_id)
    request, response = task.messages[0].parts[0].content, task.get_output()
    assert task.state is TaskState.COMPLETED
    assert (request.value.type_name, response.value.type_name) == (
        "acme.orders.v1.PlaceRequest",
        "acme.orders.v1.PlaceResponse",
    )
    assert pb.PlaceResponse.FromString(response.value.value).order == "tea for anonymous"
    types = [event.type async for event in AgentClient(url=agent.card.url).subscribe(task_id)]
    assert "task.progress" in types


async def test_a_repeated_request_id_returns_the_first_response_and_its_trailers(
    servicer: OrdersServicer, stub: Any
) -> None:
    first = stub.Place(pb.PlaceRequest(item="tea"), metadata=named("r1"))
    assert (await first).order == "tea for anonymous"
    again = stub.Place(pb.PlaceRequest(item="milk"), metadata=named("r1"))
    assert (await again).order == "tea for anonymous"
    assert await first.initial_metadata() == await again.initial_metadata()
    assert await first.trailing_metadata() == await again.trailing_metadata()
    assert dict(await first.trailing_metadata()) == {"x-cost": "7", "x-seal-bin": b"\x00\xff"}
    assert servicer.calls == ["place tea"]


async def test_a_request_id_of_another_request_is_refused(agent: Agent, stub: Any) -> None:
    assert (await stub.Place(pb.PlaceRequest(item="tea"), metadata=named("r1"))).order == "tea for anonymous"
    follow = stub.Follow(pb.FollowRequest(steps=3), metadata=named("r1"))
    for call in (stub.Total(iter([]), metadata=named("r1")), follow.read()):
        error = await refusal(call)
        assert (error.code(), reason(error).metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "x-request-id")


async def test_equal_calls_at_the_same_time_are_executed_once(servicer: OrdersServicer, stub: Any) -> None:
    calls = (stub.Place(pb.PlaceRequest(item="tea"), metadata=named("r1")) for _ in range(20))
    others = (stub.Place(pb.PlaceRequest(item=str(number)), metadata=named(f"o{number}")) for number in range(20))
    found = await asyncio.gather(*calls, *others)
    assert [each.order for each in found[:20]] == ["tea for anonymous"] * 20
    assert [each.order for each in found[20:]] == [f"{number} for anonymous" for number in range(20)]
    assert len(servicer.calls) == 21


async def test_a_status_that_the_method_chose_is_that_of_repeated_calls(servicer: OrdersServicer, stub: Any) -> None:
    for _ in range(2):
        error = await refusal(stub.Place(pb.PlaceRequest(item="unknown"), metadata=named("r1", task_id="t1")))
        assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "there is no such item")
        info = reason(error)
        assert (info.reason, info.domain, dict(info.metadata)) == ("NOT_FOUND", SERVICE, {"task_id": "t1"})
        assert dict(error.trailing_metadata())["x-near"] == "tea"
    assert servicer.calls == ["place unknown"]


async def test_a_code_that_was_set_ends_the_call_with_it(stub: Any) -> None:
    error = await refusal(stub.Place(pb.PlaceRequest(item="sold out")))
    assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "sold out")


@pytest.mark.parametrize(("item", "text"), [("broken", "the shop is broken"), ("odd", "acme.orders.v1.PlaceResponse")])
async def test_a_method_that_fails_is_aborted(agent: Agent, stub: Any, item: str, text: str) -> None:
    error = await refusal(stub.Place(pb.PlaceRequest(item=item)))
    assert (error.code(), reason(error).reason) == (grpc.StatusCode.ABORTED, "TASK_FAILED")
    assert text in str(error.details())
    task = await AgentClient(url=agent.card.url).get_task(reason(error).metadata["task_id"])
    assert task.state is TaskState.FAILED


async def test_a_method_that_is_not_implemented_is_refused(stub: Any) -> None:
    assert (await refusal(stub.Forget(pb.PlaceRequest()))).code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_call_continues_without_its_caller_and_can_be_canceled(
    agent: Agent, servicer: OrdersServicer, stub: Any
) -> None:
    servicer.go.clear()
    headers = named("r1", task_id="t1", session_id="s1")
    error = await refusal(stub.Place(pb.PlaceRequest(item="late"), metadata=headers, timeout=0.5))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    client = AgentClient(url=agent.card.url)
    task = await client.get_task("t1")
    assert (task.state, task.session_id) == (TaskState.WORKING, "s1")
    again = asyncio.ensure_future(refusal(stub.Place(pb.PlaceRequest(item="late"), metadata=headers)))
    await client.cancel_task(None, "t1")
    error = await again
    assert (error.code(), reason(error).metadata["task_id"]) == (grpc.StatusCode.ABORTED, "t1")


async def test_the_context_outlives_its_call(agent: Agent, servicer: OrdersServicer, stub: Any) -> None:
    servicer.go.clear()
    call = stub.Place(pb.PlaceRequest(item="late"), metadata=named("r1", task_id="t1"), timeout=0.5)
    assert (await refusal(call)).code() is grpc.StatusCode.DEADLINE_EXCEEDED
    del call
    gc.collect()  # gRPC's own context is freed with its call
    servicer.go.set()
    await AgentClient(url=agent.card.url).wait_task("t1")
    assert servicer.contexts == [({"x-request-id": "r1", "x-task-id": "t1"}, True, 0.0)]


async def test_a_stream_that_was_cut_is_answered_again_from_the_log(servicer: OrdersServicer, stub: Any) -> None:
    servicer.go.clear()
    cut = stub.Follow(pb.FollowRequest(steps=3), metadata=named("r1"))
    assert (await cut.read()).step == 1
    cut.cancel()
    again = stub.Follow(pb.FollowRequest(steps=3), metadata=named("r1"))
    assert (await again.read()).step == 1
    servicer.go.set()
    assert [(await again.read()).text for _ in range(2)] == ["step 2", "step 3"]
    assert await again.read() is grpc.aio.EOF
    assert dict(await again.initial_metadata()) == dict(await cut.initial_metadata())
    finished = stub.Follow(pb.FollowRequest(steps=3), metadata=named("r1"))
    assert [each.step async for each in finished] == [1, 2, 3]
    assert servicer.calls == ["follow"]


async def test_a_stream_ends_with_the_status_of_its_method(stub: Any) -> None:
    error = await refusal(stub.Follow(pb.FollowRequest(), metadata=named("r1")).read())
    assert (error.code(), error.details()) == (grpc.StatusCode.OUT_OF_RANGE, "no steps")


async def test_a_stream_of_requests_is_read_to_its_end(stub: Any) -> None:
    requests = [pb.PlaceRequest(amount=amount) for amount in (3, 4)]
    for each in (requests, []):
        response = await stub.Total(iter(each), metadata=named("r1"))
        assert response.order == "2 items, 7 in all", "the second call has the request id of the first"


async def test_a_stream_of_requests_is_bounded_as_a_whole() -> None:
    options = ServerOptions(max_request_bytes=1000)
    async with shop(server=options) as agent:

        async def requests() -> AsyncIterator[Any]:
            for _ in range(10):
                yield pb.PlaceRequest(item="x" * 100)
            await asyncio.Event().wait()  # a client that writes to an ended call may lose its status

        async with grpc.aio.insecure_channel(target(agent)) as channel:
            error = await refusal(pb_grpc.OrdersStub(channel).Total(requests()))
    assert (error.code(), reason(error).reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE")


async def test_a_direct_method_has_no_task(agent: Agent, servicer: OrdersServicer, stub: Any) -> None:
    call = stub.Price(pb.PriceRequest(item="tea"))
    assert (await call).cents == 300
    assert dict(await call.initial_metadata()) == {}
    assert [each.cents async for each in stub.Prices(pb.PriceRequest(item="tea milk"))] == [300, 400]
    assert (await AgentClient(url=agent.card.url).list_tasks()).tasks == []
    assert servicer.calls == ["price tea False"]
    error = await refusal(stub.Price(pb.PriceRequest(item="unknown")))
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "there is no such item")
    error = await refusal(stub.Price(pb.PriceRequest(item="broken")))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(error.details())


async def test_a_direct_call_passes_few_functions_of_the_package(agent: Agent, stub: Any) -> None:
    await stub.Price(pb.PriceRequest(item="tea"))
    passed: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            passed.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await stub.Price(pb.PriceRequest(item="tea"))
    finally:
        sys.setprofile(before)
    assert len(passed) <= MOST_FUNCTIONS, passed


async def test_the_http_port_takes_plain_json(agent: Agent) -> None:
    async with httpx.AsyncClient(base_url=f"{agent.http_url}/{SERVICE}/") as http:
        placed = await http.post("Place", json={"item": "tea"}, headers={"x-request-id": "r1"})
        assert (placed.status_code, placed.json()) == (200, {"order": "tea for anonymous"})
        assert placed.headers["x-cost"] == "7"
        again = await http.post("Place", json={"item": "milk"}, headers={"x-request-id": "r1"})
        assert again.json() == placed.json()
        assert again.headers["x-task-id"] == placed.headers["x-task-id"]
        missing = await http.post("Place", json={"item": "unknown"})
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
        assert (await http.post("Price", json={"item": "tea"})).json() == {"cents": "300"}
        missing = await http.post("Price", json={"item": "unknown"})
        assert (missing.status_code, missing.json()["message"]) == (404, "there is no such item")


async def test_reflection_and_health_know_the_service(agent: Agent) -> None:
    url = f"http://{target(agent)}/{SERVICE}/Place"
    arguments = ("curl", "--protocol", "grpc", "--http2-prior-knowledge", "--data", '{"item": "tea"}', url)
    program = await asyncio.create_subprocess_exec(BUF, *arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await program.communicate()
    assert json.loads(output) == {"order": "tea for anonymous"}
    async with grpc.aio.insecure_channel(target(agent)) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=SERVICE))
    assert health.status == health_pb2.HealthCheckResponse.SERVING


async def test_the_http_port_speaks_grpc_web(agent: Agent) -> None:
    async with httpx.AsyncClient(base_url=f"{agent.http_url}/{SERVICE}/") as http:
        kind = {"content-type": "application/grpc-web+proto"}
        answer = await http.post("Place", content=frame(pb.PlaceRequest(item="tea").SerializeToString()), headers=kind)
        assert answer.content.startswith(frame(pb.PlaceResponse(order="tea for anonymous").SerializeToString()))
        failed = await http.post(
            "Place", content=frame(pb.PlaceRequest(item="unknown").SerializeToString()), headers=kind
        )
    assert "grpc-status: 5" in failed.text


async def test_an_orderly_stop_ends_a_running_method_and_keeps_a_running_tool_call(tmp_path: Path) -> None:
    def make(servicer: OrdersServicer) -> Agent:
        agent = shop(servicer, store=SQLiteStore(tmp_path / "tasks.db"))

        @agent.tool(idempotent=True)
        async def wait() -> str:
            servicer.began.set()
            await servicer.go.wait()
            return "waited"

        return agent

    first, second = OrdersServicer(), OrdersServicer()
    first.go.clear()
    stopped = make(first)
    await stopped.serve()
    client = AgentClient(url=stopped.card.url)
    waiting = await client.submit_task(None, Task.create_tool_call("wait", {}))
    await first.began.wait()
    first.began.clear()
    call = asyncio.ensure_future(
        client.stub(pb_grpc.OrdersStub).Place(pb.PlaceRequest(item="late"), metadata=named("r1", task_id="t1"))  # type: ignore[attr-defined]  # generated
    )
    await first.began.wait()
    await stopped.aclose(grace_s=0)
    call.cancel()
    async with make(second) as agent:
        client = AgentClient(url=agent.card.url)
        assert (await client.wait_task(waiting.id)).get_output() == "waited"
        lost = await client.get_task("t1")
        assert (lost.state, lost.failure and lost.failure.reason) == (TaskState.FAILED, "RUN_LOST")
    assert second.calls == []


async def test_a_repeated_call_at_another_process_waits_for_the_first_one(tmp_path: Path) -> None:
    """Two agents share a store, as instances of one service do."""
    first, second = OrdersServicer(), OrdersServicer()
    first.go.clear()
    async with (
        shop(first, store=SQLiteStore(tmp_path / "tasks.db")) as one,
        shop(second, store=SQLiteStore(tmp_path / "tasks.db")) as other,
        grpc.aio.insecure_channel(target(one)) as here,
        grpc.aio.insecure_channel(target(other)) as there,
    ):
        stream = pb_grpc.OrdersStub(here).Follow(pb.FollowRequest(steps=3), metadata=named("s1"))
        assert (await stream.read()).step == 1
        again = pb_grpc.OrdersStub(there).Follow(pb.FollowRequest(steps=3), metadata=named("s1"))
        assert (await again.read()).step == 1
        place = pb.PlaceRequest(item="late")
        calls = [asyncio.ensure_future(answer(pb_grpc.OrdersStub(here).Place(place, metadata=named("r1"))))]
        await first.began.wait()
        calls.append(asyncio.ensure_future(answer(pb_grpc.OrdersStub(there).Place(place, metadata=named("r1")))))
        first.go.set()
        assert [(await again.read()).step for _ in range(2)] == [2, 3]
        assert [each.order for each in await asyncio.gather(*calls)] == ["late for anonymous"] * 2
    assert (first.calls, second.calls) == (["follow", "place late"], [])


async def answer(call: Any) -> Any:
    return await call


async def test_the_http_port_streams(agent: Agent) -> None:
    async with httpx.AsyncClient(base_url=f"{agent.http_url}/{SERVICE}/") as http:
        for method, request, steps in (("Follow", b'{"steps": 2}', [1, 2]), ("Prices", b'{"item": "a"}', [None])):
            kind = {"content-type": "application/connect+json", "x-request-id": method}
            answer = await http.post(method, content=frame(request), headers=kind)
            *messages, (flags, end) = envelopes(answer.content)
            assert [each.get("step") for _, each in messages] == steps
            assert (flags, "error" in end) == (2, False)
        failed = await http.post("Prices", content=frame(b"{}"), headers={"content-type": "application/connect+json"})
        assert envelopes(failed.content)[-1][1]["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    "kind", ["application/connect+json", "application/connect+proto", "application/grpc-web+proto"]
)
async def test_the_http_port_takes_streams_of_requests(agent: Agent, kind: str) -> None:
    amounts = [pb.PlaceRequest(amount=amount) for amount in (3, 4)]
    is_json = kind.endswith("json")
    body = b"".join(frame(MessageToJson(a).encode() if is_json else a.SerializeToString()) for a in amounts)
    async with httpx.AsyncClient(base_url=f"{agent.http_url}/{SERVICE}/") as http:
        for content in (body, b""):
            headers = {"content-type": kind, "x-request-id": "r1"}
            answer = (await http.post("Total", content=content, headers=headers)).content
            message = answer[5 : 5 + int.from_bytes(answer[1:5], "big")]
            response = Parse(message, pb.PlaceResponse()) if is_json else pb.PlaceResponse.FromString(message)
            assert response.order == "2 items, 7 in all"
        for content, text in ((body[:-1], "complete"), (frame(b"", 7), "flags"), (frame(b"", 1), "compressed")):
            wrong = await http.post("Total", content=content, headers={"content-type": kind})
            assert text in wrong.text


def envelopes(body: bytes) -> list[tuple[int, Any]]:
    """The flags and the JSON of each envelope of a Connect stream."""
    found = []
    while body:
        size = int.from_bytes(body[1:5], "big")
        found.append((body[0], json.loads(body[5 : 5 + size])))
        body = body[5 + size :]
    return found


async def test_access_rules_name_the_methods() -> None:
    rules = AccessRules({f"/{SERVICE}/Place": "buy"})
    keys = {"key-of-ann": ["buy"], "key-of-bob": ["look"]}
    async with (
        shop(authenticator=APIKeyAuth(keys), access=rules) as agent,
        grpc.aio.insecure_channel(target(agent)) as channel,
    ):
        stub: Any = pb_grpc.OrdersStub(channel)
        ann, bob = named(api_key="key-of-ann"), named(api_key="key-of-bob")
        assert (await stub.Price(pb.PriceRequest(item="tea"), metadata=bob)).cents == 300
        assert (await stub.Place(pb.PlaceRequest(item="tea"), metadata=ann)).order.startswith("tea for ")
        for caller, code in ((bob, grpc.StatusCode.PERMISSION_DENIED), ((), grpc.StatusCode.UNAUTHENTICATED)):
            assert (await refusal(stub.Place(pb.PlaceRequest(item="tea"), metadata=caller))).code() is code


async def test_request_ids_belong_to_their_callers(servicer: OrdersServicer) -> None:
    keys = {"key-of-ann": ["buy"], "key-of-bob": ["buy"]}
    async with (
        shop(servicer, authenticator=APIKeyAuth(keys)) as agent,
        grpc.aio.insecure_channel(target(agent)) as channel,
    ):
        stub: Any = pb_grpc.OrdersStub(channel)
        orders = [
            (await stub.Place(pb.PlaceRequest(item="tea"), metadata=named("r1", api_key=key))).order
            for key in (*keys, *keys)
        ]
    assert orders[:2] == orders[2:]
    assert len({*orders}) == len(servicer.calls) == 2


async def test_a_clients_stub_raises_the_status_of_a_method(agent: Agent) -> None:
    stub: Any = AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
    assert (await stub.Place(pb.PlaceRequest(item="tea"))).order == "tea for anonymous"
    with pytest.raises(RemoteError, match="no such item") as error:
        await stub.Place(pb.PlaceRequest(item="unknown"))
    assert (error.value.code, error.value.remote_reason) == ("NOT_FOUND", "NOT_FOUND")


class Talking(pb_grpc.ChatServicer):  # type: ignore[misc]  # generated at run time
    @rpc(durable=False)
    async def Talk(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for each in requests:
            yield pb.PriceResponse(cents=len(each.item))


async def test_a_direct_method_may_stream_in_both_directions() -> None:
    async with shop(Talking()) as agent, grpc.aio.insecure_channel(target(agent)) as channel:
        call = pb_grpc.ChatStub(channel).Talk()
        for item in ("a", "bb"):
            await call.write(pb.PriceRequest(item=item))
            assert (await call.read()).cents == len(item)
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        async with httpx.AsyncClient() as http:  # half-duplex: the requests are complete before the first response
            url, headers = f"{agent.http_url}/acme.orders.v1.Chat/Talk", {"content-type": "application/connect+json"}
            answer = await http.post(url, content=frame(b'{"item": "a"}') + frame(b'{"item": "bb"}'), headers=headers)
            assert [each for _, each in envelopes(answer.content)] == [{"cents": "1"}, {"cents": "2"}, {}]


class NotAsync(pb_grpc.OrdersServicer):  # type: ignore[misc]  # generated at run time
    def Place(self, request: Any, context: Any) -> Any: ...


class NotAGenerator(pb_grpc.OrdersServicer):  # type: ignore[misc]  # generated at run time
    async def Follow(self, request: Any, context: Any) -> Any: ...


class DurableTalk(pb_grpc.ChatServicer):  # type: ignore[misc]  # generated at run time
    async def Talk(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        yield


@pytest.mark.parametrize(
    ("servicers", "text"),
    [
        ([NotAsync()], "NotAsync.Place must be async"),
        ([NotAGenerator()], "NotAGenerator.Follow must be an async generator"),
        ([DurableTalk()], "streams in both directions"),
        ([OrdersServicer(), OrdersServicer()], f"two services are named {SERVICE}"),
        ([OrdersServicer], "is a class"),
        ([object()], "object is not a servicer"),
    ],
)
def test_a_servicer_of_the_wrong_form_is_refused(servicers: list[object], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text) as error:
        Agent("shop", services=servicers)
    assert error.value.field == "services"


async def test_a_task_that_only_looks_like_a_call_is_checked_like_one() -> None:
    rules = AccessRules({f"/{SERVICE}/*": "buy"})
    keys = {"key-of-bob": ["look"]}
    async with shop(authenticator=APIKeyAuth(keys), access=rules) as agent:
        client = AgentClient(url=agent.card.url, metadata=named(api_key="key-of-bob"))
        message = Message(role="user", parts=[Part.text("hello")])
        task = Task(messages=[message], metadata={"plgrpc.service_call": f"/{SERVICE}/Place"})
        ended = await client.send_task(None, task)
        assert (ended.state, ended.failure and ended.failure.reason) == (TaskState.FAILED, "PERMISSION_DENIED")
