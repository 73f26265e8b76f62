"""A typed call survives kill -9 of its agent: repeated with its request id it returns the first result."""

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message_factory import GetMessageClass
from typed_agent import make_agent

from protolink_grpc.typed.service import build_typed_service, export_proto

AGENT = Path(__file__).with_name("typed_agent.py")
Launch = Callable[..., Awaitable[Any]]
HEADERS = (("x-request-id", "the call"),)


async def count(url: str, folder: Path) -> Any:
    """The answer to one typed call, with the id of its task."""
    tools = make_agent(folder, 0).tools.values()
    method = build_typed_service(export_proto("counter", "", tools, "acme.counter.v1").plan).descriptor.methods_by_name
    request: Any = GetMessageClass(method["Count"].input_type)(step=21)
    answer: Any = GetMessageClass(method["Count"].output_type)
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        call: Any = channel.unary_unary(
            "/acme.counter.v1.Counter/Count",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )(request, metadata=HEADERS, timeout=30)
        return (await call).result, dict(await call.initial_metadata())["x-task-id"]


@pytest.mark.parametrize("dies_at", range(1, 9))
async def test_a_call_that_a_crash_interrupted_is_resumed_by_its_request_id(
    dies_at: int, tmp_path: Path, launch: Launch
) -> None:
    mortal = await launch(AGENT, tmp_path, dies_at)
    url = await mortal.line()
    with pytest.raises(grpc.aio.AioRpcError):
        await count(url, tmp_path)
    assert await mortal.end() == -signal.SIGKILL
    url = await (await launch(AGENT, tmp_path, 0)).line()
    first = await count(url, tmp_path)
    assert first[0] == 42
    calls = (tmp_path / "calls").read_text()
    assert await count(url, tmp_path) == first
    assert (tmp_path / "calls").read_text() == calls, "a finished call never runs again"
    # The tool may be repeated where its outcome is not in the log: it says so itself.
    assert calls.splitlines() in (["21"], ["21", "21"])


async def test_a_result_that_was_committed_is_returned_after_a_crash(tmp_path: Path, launch: Launch) -> None:
    agent = await launch(AGENT, tmp_path, 0)
    first = await count(await agent.line(), tmp_path)
    await agent.kill()
    url = await (await launch(AGENT, tmp_path, 0)).line()
    assert await count(url, tmp_path) == first
    assert (tmp_path / "calls").read_text() == "21\n"
