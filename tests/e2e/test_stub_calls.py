"""The calls of stubs over our channels, compared with those of grpc.aio: metadata, status, and streams of requests."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from delegation_world import log_of
from orders_world import OrdersServicer, pb, pb_grpc, shop, target
from ports import free_port

from protolink_grpc import Agent, AgentClient, RemoteError, SQLiteStore, Task
from protolink_grpc.errors import InvalidArgumentError, UnavailableError, UnimplementedError
from protolink_grpc.models.events import ActionEnded, ActionRequested

ENDLESS_BEGAN, ENDLESS_ENDED = asyncio.Event(), asyncio.Event()


async def endless() -> AsyncIterator[Any]:
    """Requests without an end."""
    try:
        ENDLESS_BEGAN.set()
        yield pb.PlaceRequest(amount=1)
        await asyncio.Event().wait()
    finally:
        ENDLESS_ENDED.set()


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    async with shop(OrdersServicer()) as running:
        yield running


@pytest.fixture(params=["ours", "grpc.aio"])
async def stub(request: pytest.FixtureRequest, agent: Agent) -> AsyncIterator[Any]:
    """The same stub over our channel and over one of grpc.aio: its calls behave in the same way."""
    if request.param == "ours":
        yield AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
        return
    async with grpc.aio.insecure_channel(target(agent)) as channel:
        yield pb_grpc.OrdersStub(channel)


async def test_a_unary_call_has_metadata_and_a_status(stub: Any) -> None:
    call = stub.Place(pb.PlaceRequest(item="tea"), metadata=(("x-task-id", "01920000-0000-7000-8000-000000000001"),))
    assert dict(await call.initial_metadata())["x-task-id"] == "01920000-0000-7000-8000-000000000001"
    assert (await call).order == "tea for anonymous"
    assert dict(await call.trailing_metadata())["x-cost"] == "7"
    assert (await call.code(), await call.details()) == (grpc.StatusCode.OK, "")
    assert (await call).order == "tea for anonymous"  # made once


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"x-a": "b"}, "metadata: must be pairs of a key and a value"),
        ((("x a", "b"),), "metadata: 'x a' is not a key of gRPC metadata"),
        ((("x-a", 1),), "metadata: the value of x-a must be printable ASCII"),
        ((("x-a", "é"),), "metadata: the value of x-a must be printable ASCII"),
        ((("x-a-bin", "b"),), "metadata: the value of x-a-bin must be bytes"),
    ],
)
async def test_metadata_that_grpc_cannot_send_are_an_invalid_argument(agent: Agent, metadata: Any, error: str) -> None:
    ours = AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
    with pytest.raises(InvalidArgumentError) as caught:
        await ours.Place(pb.PlaceRequest(item="tea"), metadata=metadata)
    assert str(caught.value) == error


async def test_keys_of_metadata_are_sent_in_lower_case(agent: Agent) -> None:
    ours = AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
    call = ours.Place(pb.PlaceRequest(item="tea"), metadata=(("X-Task-Id", "01920000-0000-7000-8000-000000000002"),))
    assert dict(await call.initial_metadata())["x-task-id"] == "01920000-0000-7000-8000-000000000002"


async def test_a_request_that_is_not_a_message_is_not_sent_as_an_empty_one(agent: Agent) -> None:
    ours = AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
    with pytest.raises(InvalidArgumentError, match=r"^request: must be a message of protobuf, not str$"):
        await ours.Place("tea")
    with pytest.raises(InvalidArgumentError, match=r"^request: "):
        await anext(ours.Follow({"steps": 1}))


async def test_a_failed_call_has_the_status_of_the_method(stub: Any) -> None:
    call = stub.Place(pb.PlaceRequest(item="unknown"))
    assert (await call.code(), await call.details()) == (grpc.StatusCode.NOT_FOUND, "there is no such item")
    assert dict(await call.trailing_metadata())["x-near"] == "tea"
    with pytest.raises((RemoteError, grpc.aio.AioRpcError)):
        await call


async def test_a_stream_has_metadata_and_a_status_and_can_be_read(stub: Any) -> None:
    call = stub.Follow(pb.FollowRequest(steps=3))
    assert "x-task-id" in dict(await call.initial_metadata())
    assert [(await call.read()).step for _ in range(3)] == [1, 2, 3]
    assert await call.read() is grpc.aio.EOF
    assert (await call.code(), await call.details()) == (grpc.StatusCode.OK, "")
    failed = stub.Follow(pb.FollowRequest(steps=0))
    with pytest.raises((RemoteError, grpc.aio.AioRpcError)):
        async for _ in failed:
            pass
    assert (await failed.code(), await failed.details()) == (grpc.StatusCode.OUT_OF_RANGE, "no steps")


async def test_requests_are_streamed_from_iterators(stub: Any) -> None:
    async def items() -> AsyncIterator[Any]:
        for amount in (1, 2, 3):
            yield pb.PlaceRequest(item="tea", amount=amount)

    call = stub.Total(items())
    assert (await call).order == "3 items, 6 in all"
    assert await call.code() is grpc.StatusCode.OK
    assert (await stub.Total([pb.PlaceRequest(amount=4)])).order == "1 items, 4 in all"
    assert (await stub.Total([])).order == "0 items, 0 in all"


async def test_a_call_can_be_a_task_and_several_can_await_it(agent: Agent) -> None:
    stub = AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
    assert (await asyncio.create_task(stub.Place(pb.PlaceRequest(item="tea")))).order == "tea for anonymous"
    call = stub.Place(pb.PlaceRequest(item="tea"))
    codes = await asyncio.gather(call.code(), call.code(), call)
    assert [*codes[:2], codes[2].order] == [grpc.StatusCode.OK, grpc.StatusCode.OK, "tea for anonymous"]


async def test_a_call_that_is_canceled_before_it_begins_is_not_made(agent: Agent) -> None:
    stub = AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
    canceled = asyncio.create_task(stub.Place(pb.PlaceRequest(item="tea")))
    canceled.cancel()
    closed = stub.Place(pb.PlaceRequest(item="tea"))
    closed.close()
    await asyncio.wait([canceled])
    assert canceled.cancelled()
    gc.collect()  # a coroutine that was never awaited would warn here


async def test_a_canceled_call_cancels_its_rpc(agent: Agent) -> None:
    stub = AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
    uploading = asyncio.create_task(stub.Total(endless()))
    await ENDLESS_BEGAN.wait()
    uploading.cancel()
    await asyncio.wait([uploading])
    assert uploading.cancelled()
    await asyncio.wait_for(ENDLESS_ENDED.wait(), 60)


async def test_an_error_that_comes_with_the_headers_is_raised_by_the_iteration(agent: Agent) -> None:
    stub = AgentClient(url=agent.card.url).stub(pb_grpc.OrdersStub)
    call = stub.Follow(pb.FollowRequest(steps=0))
    await call.initial_metadata()
    with pytest.raises(RemoteError, match="no steps"):
        await anext(call)
    async with aclosing(stub.Follow(pb.FollowRequest(steps=2))) as call:
        await call.initial_metadata()
        assert [each.step async for each in call] == [1, 2]


async def test_a_call_that_reaches_no_server_has_a_status() -> None:
    client = AgentClient(url=f"grpc://127.0.0.1:{free_port()}", outage_s=0)
    call = client.stub(pb_grpc.OrdersStub).Place(pb.PlaceRequest(item="tea"))
    assert await call.code() is grpc.StatusCode.UNAVAILABLE
    assert "x-task-id" not in dict(await call.initial_metadata())
    with pytest.raises(UnavailableError):
        await call


async def test_a_stream_of_requests_is_retried_until_its_server_is_there() -> None:
    port, begun = free_port(), asyncio.Event()

    async def items() -> AsyncIterator[Any]:
        begun.set()
        yield pb.PlaceRequest(amount=1)
        yield pb.PlaceRequest(amount=2)

    stub = AgentClient(url=f"grpc://127.0.0.1:{port}").stub(pb_grpc.OrdersStub)
    call = asyncio.create_task(stub.Total(items()))
    await begun.wait()
    async with Agent("shop", url=f"grpc://127.0.0.1:{port}", services=[OrdersServicer()]):
        assert (await call).order == "2 items, 3 in all"


async def test_streams_in_both_directions_are_refused_with_the_way_to_make_them(agent: Agent) -> None:
    for stub in (
        AgentClient(url=agent.card.url).stub(pb_grpc.ChatStub),
        Agent("caller").peer(agent.card.url).stub(pb_grpc.ChatStub),
    ):
        with pytest.raises(UnimplementedError, match=r"a channel of grpc\.aio"):
            await stub.Talk([])


def test_the_synchronous_stub_takes_an_iterable() -> None:
    async def serve(stop: asyncio.Event, url: "asyncio.Future[str]") -> None:
        async with shop(OrdersServicer()) as agent:
            url.set_result(agent.card.url)
            await stop.wait()

    async def main() -> None:
        stop, url = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(stop, url))
        stub: Any = AgentClient(url=await url).sync.stub(pb_grpc.OrdersStub)
        requests = [pb.PlaceRequest(amount=2)] * 2
        assert (await asyncio.to_thread(stub.Total, requests)).order == "2 items, 4 in all"
        assert len(await asyncio.to_thread(lambda: list(stub.Follow(pb.FollowRequest(steps=2))))) == 2
        stop.set()
        await serving

    asyncio.run(main())


def caller_of(url: str, calls: list[Any], **settings: Any) -> Agent:
    caller = Agent("caller", url="grpc://127.0.0.1:0", **settings)

    @caller.tool(idempotent=True)
    async def total(amounts: list[int]) -> str:
        async def items() -> AsyncIterator[Any]:
            for amount in amounts:
                yield pb.PlaceRequest(item="x" * (1 << 20) if amount < 0 else "tea", amount=amount)

        call = caller.peer(url).stub(pb_grpc.OrdersStub).Total(items())
        calls.append(call)
        return str((await call).order)

    return caller


async def test_a_stream_of_requests_of_a_run_is_an_action_with_its_requests(agent: Agent, tmp_path: Path) -> None:
    calls: list[Any] = []
    async with caller_of(agent.card.url, calls, store=SQLiteStore(tmp_path / "caller.db")) as caller:
        client = AgentClient(url=caller.card.url)
        done = await client.send_task(None, Task.create_tool_call("total", {"amounts": [1, 2]}))
        assert done.get_output() == "2 items, 3 in all"
        log = await log_of(caller, done.id)
    payloads = [event.payload for event in log]
    requested = [each.action for each in payloads if isinstance(each, ActionRequested)][-1]
    assert [each["amount"] for each in requested.payload["request"]["requests"]] == ["1", "2"]
    ended = [each for each in payloads if isinstance(each, ActionEnded)]
    assert [each.outcome for each in ended] == ["completed", "completed"]
    assert await calls[0].code() is grpc.StatusCode.OK
    assert "x-task-id" in dict(await calls[0].initial_metadata())


async def test_the_requests_of_a_run_are_bounded(agent: Agent) -> None:
    async with caller_of(agent.card.url, []) as caller:
        task = await AgentClient(url=caller.card.url).send_task(
            None, Task.create_tool_call("total", {"amounts": [-1, -1, -1]})
        )
    assert "requests: has more than 2097152 bytes" in str(task.get_last_part())
