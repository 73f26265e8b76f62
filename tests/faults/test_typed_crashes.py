"""A typed call survives kill -9 of its agent: repeated with its request id it returns the first result, or the first items."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message_factory import GetMessageClass
from typed_agent import make_agent

from protolink_grpc import AgentClient
from protolink_grpc.typed.service import build_typed_service, export_proto

AGENT = Path(__file__).with_name("typed_agent.py")
Launch = Callable[..., Awaitable[Any]]
HEADERS = (("x-request-id", "the call"),)

STEPS = 3
LAST = 11
"""Length of the log of a stream of `STEPS` items."""

FIRST_ITEM = 6
"""Length of the log with the first item; the one before is that of the begin of the tool."""


class CounterStub:
    """A stub as protoc generates it."""

    def __init__(self, channel: Any) -> None:
        tools = make_agent(Path("unused"), 0).tools.values()
        typed = build_typed_service(export_proto("counter", "", tools, "acme.counter.v1").plan)
        self.requests: dict[str, Any] = {}
        for name, method in typed.descriptor.methods_by_name.items():
            self.requests[name] = request = GetMessageClass(method.input_type)
            answer: Any = GetMessageClass(method.output_type)
            make = channel.unary_stream if method.server_streaming else channel.unary_unary
            made = make(
                f"/acme.counter.v1.Counter/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=answer.FromString,
            )
            setattr(self, name, made)

    def start(self, method: str, **fields: int) -> Any:
        return getattr(self, method)(self.requests[method](**fields), metadata=HEADERS, timeout=30)


async def count(url: str) -> Any:
    """The answer to one typed call, with the id of its task."""
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        call = CounterStub(channel).start("Count", step=21)
        return (await call).result, dict(await call.initial_metadata())["x-task-id"]


async def steps(url: str, method: str = "Walk") -> tuple[list[int], str]:
    """The items of one stream, and the code of its failure, empty without one."""
    items: list[int] = []
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        try:
            async for answer in CounterStub(channel).start(method, steps=STEPS):
                items.append(answer.result)  # noqa: PERF401 -- these items stay if the call fails
        except grpc.aio.AioRpcError as error:
            return items, error.code().name
    return items, ""


@pytest.mark.parametrize("dies_at", range(1, 9))
async def test_a_call_that_a_crash_interrupted_is_resumed_by_its_request_id(
    dies_at: int, tmp_path: Path, launch: Launch
) -> None:
    mortal = await launch(AGENT, tmp_path, dies_at)
    url = await mortal.line()
    with pytest.raises(grpc.aio.AioRpcError):
        await count(url)
    assert await mortal.end() == -signal.SIGKILL
    url = await (await launch(AGENT, tmp_path, 0)).line()
    first = await count(url)
    assert first[0] == 42
    calls = (tmp_path / "calls").read_text()
    assert await count(url) == first
    assert (tmp_path / "calls").read_text() == calls, "a finished call never runs again"
    # The tool may be repeated where its outcome is not in the log: it says so itself.
    assert calls.splitlines() in (["21"], ["21", "21"])


async def test_a_result_that_was_committed_is_returned_after_a_crash(tmp_path: Path, launch: Launch) -> None:
    agent = await launch(AGENT, tmp_path, 0)
    first = await count(await agent.line())
    await agent.kill()
    url = await (await launch(AGENT, tmp_path, 0)).line()
    assert await count(url) == first
    assert (tmp_path / "calls").read_text() == "21\n"


@pytest.mark.parametrize("dies_at", range(1, LAST + 1))
async def test_a_stream_that_a_crash_interrupted_is_resumed_without_a_lost_or_doubled_item(
    dies_at: int, tmp_path: Path, launch: Launch
) -> None:
    mortal = await launch(AGENT, tmp_path, dies_at)
    seen, code = await steps(await mortal.line())
    assert await mortal.end() == -signal.SIGKILL
    assert seen == [*range(len(seen))]
    assert len(seen) <= max(0, dies_at - FIRST_ITEM + 1), "an item is sent after its commit"
    # The last event only says that the task has ended; the stream ends before it.
    assert code == "UNAVAILABLE" or (dies_at, len(seen), code) == (LAST, STEPS, "")
    url = await (await launch(AGENT, tmp_path, 0)).line()
    assert await steps(url) == ([0, 1, 2], "")
    calls = (tmp_path / "calls").read_text()
    assert await steps(url) == ([0, 1, 2], "")
    assert (tmp_path / "calls").read_text() == calls, "a finished call never runs again"
    has_ended = dies_at >= FIRST_ITEM + STEPS
    assert calls.splitlines() in ([["walk 3"]] if has_ended else [["walk 3"], ["walk 3", "walk 3"]])


@pytest.mark.parametrize("dies_at", range(FIRST_ITEM - 1, LAST + 1))
async def test_the_items_of_a_tool_with_effects_stay_and_its_outcome_is_unknown_unless_it_had_ended(
    dies_at: int, tmp_path: Path, launch: Launch
) -> None:
    mortal = await launch(AGENT, tmp_path, dies_at)
    await steps(await mortal.line(), "Jump")
    assert await mortal.end() == -signal.SIGKILL
    items, code = await steps(await (await launch(AGENT, tmp_path, 0)).line(), "Jump")
    recorded = [*range(min(STEPS, dies_at - FIRST_ITEM + 1))]
    assert (items, code) == (recorded, "" if dies_at >= FIRST_ITEM + STEPS else "ABORTED")
    calls = tmp_path / "calls"
    assert (calls.read_text() if calls.exists() else "") in ("", "jump 3\n")


@pytest.mark.parametrize("dies_at", [FIRST_ITEM + 1, LAST])
async def test_a_clients_stub_reads_on_from_the_agent_that_was_started_again(
    dies_at: int, tmp_path: Path, launch: Launch
) -> None:
    mortal = await launch(AGENT, tmp_path, dies_at)
    url = await mortal.line()

    async def start_again() -> None:
        assert await mortal.end() == -signal.SIGKILL
        await (await launch(AGENT, tmp_path, 0, url.rpartition(":")[2])).line()

    starting = asyncio.create_task(start_again())
    stub: Any = AgentClient(url=url).stub(CounterStub)
    assert [answer.result async for answer in stub.Walk(stub.requests["Walk"](steps=STEPS))] == [0, 1, 2]
    await starting
