"""The load: raw gRPC stubs that send ready bytes and do not look at the answers, so that the client is never what is measured."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc.aio
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import part_pb2, task_input_pb2, task_pb2

from bench.process import Server
from bench.rows import Sample

Call = Callable[[bytes], Awaitable[bytes]]

MAX_BYTES = 64 << 20


@asynccontextmanager
async def channel_to(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection of its own: gRPC would let channels to one address share one."""
    options = [
        ("grpc.max_receive_message_length", MAX_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    ]
    async with grpc.aio.insecure_channel(server.target, options) as channel:
        yield channel


@asynccontextmanager
async def channels_to(server: Server, count: int) -> AsyncIterator[list[grpc.aio.Channel]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(channel_to(server)) for _ in range(count)]


def unary(channel: grpc.aio.Channel, method: str, service: str = "AgentService") -> Call:
    """A call of bytes for bytes."""
    call: Any = channel.unary_unary(f"/plgrpc.v1.{service}/{method}")
    return call  # type: ignore[no-any-return]  # the stubs of grpc.aio leave the multicallable's type open


def subscribe(channel: grpc.aio.Channel, task_id: str, after: int = 0, *, deltas: bool = False) -> AsyncIterator[bytes]:
    """The responses of a subscription, as bytes."""
    stream: Any = channel.unary_stream("/plgrpc.v1.AgentService/SubscribeTask")
    mode = pb.DELTA_MODE_ALL if deltas else pb.DELTA_MODE_NONE
    request = pb.SubscribeTaskRequest(task_id=task_id, after_sequence=after, deltas=mode).SerializeToString()
    responses: AsyncIterator[bytes] = aiter(stream(request))
    return responses


def message(text: str, task_id: str = "", *, wait: bool = True) -> bytes:
    """A SendTask of one message: to a new task, or to one that is there."""
    said = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER, parts=[part_pb2.Part(text=text)])
    given = task_input_pb2.TaskInput(task_id=task_id, messages=[said])
    until = pb.WAIT_FOR_SETTLED if wait else pb.WAIT_FOR_ACCEPTED
    return pb.SendTaskRequest(input=given, wait_for=until).SerializeToString()


async def new_task(send: Call, text: str) -> task_pb2.Task:
    """Send a first message and read the answer: for preparations only."""
    return pb.SendTaskResponse.FromString(await send(message(text))).task


def events_in(responses: list[bytes]) -> list[int]:
    """Sequences of the events in some responses: to check afterwards what was only counted."""
    return [event.sequence for response in responses for event in pb.SubscribeTaskResponse.FromString(response).events]


async def closed_loop(call: Call, request: bytes, in_flight: int, seconds: float) -> Sample:
    """`in_flight` callers, each of which calls again as soon as it is answered."""
    latencies: list[float] = []
    clock = time.perf_counter
    start = clock()
    deadline = start + seconds

    async def caller() -> None:
        before = clock()
        while before < deadline:
            await call(request)
            after = clock()
            latencies.append(after - before)
            before = after

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(caller())
    return Sample(len(latencies), clock() - start, latencies)


async def one_by_one(call: Call, requests: list[bytes], in_flight: int = 1) -> Sample:
    """Each request once, `in_flight` at a time."""
    latencies: list[float] = []
    clock = time.perf_counter
    start = clock()
    waiting = iter(requests)

    async def caller() -> None:
        for request in waiting:
            before = clock()
            await call(request)
            latencies.append(clock() - before)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(caller())
    return Sample(len(latencies), clock() - start, latencies)


async def measured(server: Server, load: Callable[[], Awaitable[Sample]]) -> Sample:
    """A load together with the CPU time that it cost the server."""
    before = await server.cpu_seconds()
    sample = await load()
    after = await server.cpu_seconds()
    # A thread that came up meanwhile has spent all its time here.
    sample.cpu_s = {name: spent - before.get(name, 0.0) for name, spent in after.items()}
    return sample
