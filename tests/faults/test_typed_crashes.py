"""A typed call survives kill -9 of its agent: repeated with its request id it returns the first result."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message_factory import GetMessageClass
from typed_agent import make_agent

from protolink_grpc.typed.service import build_typed_service, export_proto

AGENT = Path(__file__).with_name("typed_agent.py")
HEADERS = (("x-request-id", "the call"),)


@asynccontextmanager
async def running(folder: Path, dies_at: int) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A process with the agent, and its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, AGENT, folder, str(dies_at), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        yield url.removeprefix("grpc://"), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def count(address: str, folder: Path) -> Any:
    """The answer to one typed call, with the id of its task."""
    tools = make_agent(folder, 0).tools.values()
    method = build_typed_service(export_proto("counter", "", tools, "acme.counter.v1").plan).descriptor.methods_by_name
    request: Any = GetMessageClass(method["Count"].input_type)(step=21)
    answer: Any = GetMessageClass(method["Count"].output_type)
    async with grpc.aio.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(
            "/acme.counter.v1.Counter/Count",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )(request, metadata=HEADERS, timeout=30)
        return (await call).result, dict(await call.initial_metadata())["x-task-id"]


@pytest.mark.parametrize("dies_at", range(1, 9))
async def test_a_call_that_a_crash_interrupted_is_resumed_by_its_request_id(dies_at: int, tmp_path: Path) -> None:
    async with running(tmp_path, dies_at) as (address, process):
        with pytest.raises(grpc.aio.AioRpcError):
            await count(address, tmp_path)
        assert await process.wait() == -signal.SIGKILL
    async with running(tmp_path, 0) as (address, _):
        first = await count(address, tmp_path)
        assert first[0] == 42
        calls = (tmp_path / "calls").read_text()
        assert await count(address, tmp_path) == first
    assert (tmp_path / "calls").read_text() == calls, "a finished call never runs again"
    # The tool may be repeated where its outcome is not in the log: it says so itself.
    assert calls.splitlines() in (["21"], ["21", "21"])


async def test_a_result_that_was_committed_is_returned_after_a_crash(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as (address, process):
        first = await count(address, tmp_path)
        process.kill()
        await process.wait()
    async with running(tmp_path, 0) as (address, _):
        assert await count(address, tmp_path) == first
    assert (tmp_path / "calls").read_text() == "21\n"
