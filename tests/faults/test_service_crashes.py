"""A call of a user's own service survives kill -9 of its agent: repeated with its request id it gets the first answer."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from orders_world import pb, pb_grpc

from protolink_grpc import AgentClient, Task, TaskState

AGENT = Path(__file__).with_name("orders_agent.py")
HEADERS = (("x-request-id", "the call"), ("x-task-id", "the-task"))
Launch = Callable[..., Awaitable[Any]]


async def place(url: str, item: str) -> tuple[str, dict[str, Any]]:
    """Order an item. Return the response and the trailing metadata."""
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        call = pb_grpc.OrdersStub(channel).Place(pb.PlaceRequest(item=item), metadata=HEADERS, timeout=60)
        return (await call).order, dict(await call.trailing_metadata())


async def follow(url: str, steps: int) -> list[Any]:
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        call = pb_grpc.OrdersStub(channel).Follow(pb.FollowRequest(steps=steps), metadata=HEADERS, timeout=60)
        return [each async for each in call]


def calls_in(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("dies_at", range(1, 9))
async def test_a_call_that_a_crash_interrupted_is_resumed_by_its_request_id(
    dies_at: int, tmp_path: Path, launch: Launch
) -> None:
    mortal = await launch(AGENT, tmp_path, dies_at, "resume")
    url = await mortal.line()
    with pytest.raises(grpc.aio.AioRpcError):
        await place(url, "tea")
    assert await mortal.end() == -signal.SIGKILL
    url = await (await launch(AGENT, tmp_path, 0, "resume")).line()
    first = await place(url, "tea")
    assert first[0] == "paid tea"
    calls = calls_in(tmp_path)
    assert await place(url, "tea") == first
    assert calls_in(tmp_path) == calls, "a finished call never runs again"
    # The tool may be repeated where its outcome is not in the log: it says so itself.
    assert calls in (["tea"], ["tea", "tea"])


async def test_a_response_that_was_committed_is_returned_after_a_crash(tmp_path: Path, launch: Launch) -> None:
    agent = await launch(AGENT, tmp_path, 0, "auto")
    first = await place(await agent.line(), "tea")
    await agent.kill()
    url = await (await launch(AGENT, tmp_path, 0, "auto")).line()
    assert await place(url, "tea") == first
    assert calls_in(tmp_path) == ["tea"]


@pytest.mark.parametrize("recovery", ["auto", "resume"])
async def test_a_call_that_waited_for_an_approval_continues_after_a_crash(
    recovery: str, tmp_path: Path, launch: Launch
) -> None:
    agent = await launch(AGENT, tmp_path, 0, recovery)
    url = await agent.line()
    call = asyncio.ensure_future(place(url, "caviar"))
    async for asked in AgentClient(url=url).watch_approvals():
        assert asked.request.action.payload["arguments"] == {"item": "caviar"}
        break
    await agent.kill()
    with pytest.raises(grpc.aio.AioRpcError):
        await call
    url = await (await launch(AGENT, tmp_path, 0, recovery)).line()
    again = asyncio.ensure_future(place(url, "caviar"))
    client = AgentClient(url=url)
    async for asked in client.watch_approvals():
        await client.respond_approval(None, asked, True)
        break
    assert await again == ("paid caviar", {"x-attempt": "2"})
    assert calls_in(tmp_path) == ["caviar"]


async def test_a_call_that_was_running_is_lost_unless_the_agent_resumes(tmp_path: Path, launch: Launch) -> None:
    mortal = await launch(AGENT, tmp_path, 6, "auto")
    url = await mortal.line()
    with pytest.raises(grpc.aio.AioRpcError):
        await place(url, "tea")
    assert await mortal.end() == -signal.SIGKILL
    url = await (await launch(AGENT, tmp_path, 0, "auto")).line()
    for _ in range(2):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await place(url, "tea")
        assert (error.value.code(), "lost" in str(error.value.details())) == (grpc.StatusCode.ABORTED, True)
    assert calls_in(tmp_path) in ([], ["tea"])


@pytest.mark.parametrize("dies_at", [3, 7, 8, 13, 18])
async def test_a_stream_that_a_crash_cut_is_resumed_with_each_response_once(
    dies_at: int, tmp_path: Path, launch: Launch
) -> None:
    mortal = await launch(AGENT, tmp_path, dies_at, "resume")
    url = await mortal.line()
    with pytest.raises(grpc.aio.AioRpcError):
        await follow(url, 3)
    assert await mortal.end() == -signal.SIGKILL
    url = await (await launch(AGENT, tmp_path, 0, "resume")).line()
    for _ in range(2):
        assert [(each.step, each.text) for each in await follow(url, 3)] == [(n, f"paid {n}") for n in (1, 2, 3)]
    task = await AgentClient(url=url).get_task("the-task")
    assert len(task.artifacts) == 3
    calls = calls_in(tmp_path)
    assert list(dict.fromkeys(calls)) == ["1", "2", "3"]
    assert len(calls) <= 4, "at most the tool that was running ran again"


@pytest.mark.parametrize("recovery", ["auto", "resume"])
async def test_a_tool_call_of_a_method_that_was_interrupted_finds_its_own_task(
    recovery: str, tmp_path: Path, launch: Launch
) -> None:
    """The calling run is always resumed. The method's own task is resumed as `recovery` says, and its actions are in its log."""
    mortal = await launch(AGENT, tmp_path, 6, recovery)
    url = await mortal.line()
    client = AgentClient(url=url)
    task = await client.submit_task(None, Task.create_tool_call("place", {"item": "tea"}))
    assert await mortal.end() == -signal.SIGKILL
    url = await (await launch(AGENT, tmp_path, 0, recovery)).line()
    ended = await AgentClient(url=url).wait_task(task.id)
    if recovery == "resume":
        assert (ended.state, ended.get_output()) == (TaskState.COMPLETED, {"order": "paid tea"})
        assert set(calls_in(tmp_path)) == {"tea"}
    else:
        assert ended.state is TaskState.FAILED
        assert "lost" in ended.reason
    assert len((await AgentClient(url=url).list_tasks()).tasks) == 2
