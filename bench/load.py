"""The load over gRPC: raw stubs send ready bytes and do not parse the responses, so that the client adds little to the times."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc.aio
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import part_pb2, task_input_pb2, task_pb2

from bench.plan import Plan
from bench.process import Server
from bench.rows import Sample

Call = Callable[[bytes], Awaitable[bytes]]

MAX_BYTES = 64 << 20


@asynccontextmanager
async def channel_to(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel with its own connection. By default gRPC shares a connection between channels to one address."""
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
    """Return a call that takes and returns bytes."""
    call: Any = channel.unary_unary(f"/plgrpc.v1.{service}/{method}")
    return call  # type: ignore[no-any-return]  # the stubs of grpc.aio leave the multicallable's type open


def subscribe(channel: grpc.aio.Channel, task_id: str, after: int = 0, *, deltas: bool = False) -> AsyncIterator[bytes]:
    """Yield the responses of a subscription as bytes."""
    stream: Any = channel.unary_stream("/plgrpc.v1.AgentService/SubscribeTask")
    mode = pb.DELTA_MODE_ALL if deltas else pb.DELTA_MODE_NONE
    request = pb.SubscribeTaskRequest(task_id=task_id, after_sequence=after, deltas=mode).SerializeToString()
    responses: AsyncIterator[bytes] = aiter(stream(request))
    return responses


def message(text: str, task_id: str = "", *, wait: bool = True) -> bytes:
    """Return a SendTask request with one message, for a new task or for the task `task_id`."""
    sent = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER, parts=[part_pb2.Part(text=text)])
    task_input = task_input_pb2.TaskInput(task_id=task_id, messages=[sent])
    until = pb.WAIT_FOR_SETTLED if wait else pb.WAIT_FOR_ACCEPTED
    return pb.SendTaskRequest(input=task_input, wait_for=until).SerializeToString()


async def new_task(send: Call, text: str) -> task_pb2.Task:
    """Send the first message of a task and return the task. For preparations only, because the response is parsed."""
    return pb.SendTaskResponse.FromString(await send(message(text))).task


def events_in(responses: list[bytes]) -> list[int]:
    """Return the sequences of the events in responses, to check them after the measurement."""
    return [event.sequence for response in responses for event in pb.SubscribeTaskResponse.FromString(response).events]


async def closed_loop(call: Call, request: bytes, in_flight: int, seconds: float) -> Sample:
    """Call repeatedly for `seconds` with `in_flight` callers; each calls again when it has its response."""
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
    """Send each request once, `in_flight` at a time."""
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


async def measure_load(server: Server, load: Callable[[], Awaitable[Sample]]) -> Sample:
    """Run a load and add the server's CPU time to its sample."""
    before = await server.cpu_seconds()
    sample = await load()
    after = await server.cpu_seconds()
    # A thread that was started during the load has spent all its time in it.
    sample.cpu_s = {name: spent - before.get(name, 0.0) for name, spent in after.items()}
    return sample


async def measure_floor(server: Server, channel: grpc.aio.Channel) -> Sample:
    """Measure calls of the gRPC floor for a moment: the current speed of the machine, by which bars are scaled."""
    return await measure_load(server, lambda: closed_loop(unary(channel, "SendTask"), message("x" * 100), 16, 0.3))


# -- Comparisons ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lane:
    """One of several cases that are compared with each other: repeated calls with one request."""

    server: Server
    call: Call
    request: bytes


SLICE_S = 0.25
"""Length of the slices into which the rounds of a comparison are divided, in seconds."""

SETTLE_S = 0.05
"""Time after a slice, in seconds, in which the server ends the work that outlives its response, such as the run of a turn."""


async def measure_in_turns(
    plan: Plan, lanes: Sequence[Lane], in_flight: int, *, slice_s: float = SLICE_S
) -> list[list[Sample]]:
    """Measure lanes in turns, and return the samples of each lane in the same order.

    The lanes take turns in each slice, in reverse order in every second one. So a change of the machine's speed affects all of
    them, and no lane is always the first one. The ratio of two lanes is the median of their ratios in the slices: see `row_of`.
    """
    for lane in lanes:
        await closed_loop(lane.call, lane.request, in_flight, min(0.3, plan.seconds))
    samples: list[list[Sample]] = [[] for _ in lanes]
    order = list(zip(lanes, samples, strict=True))
    slices = max(1, round(plan.seconds / slice_s))
    for _ in range(plan.rounds * slices):
        for lane, mine in order:
            mine.append(await measure_load(lane.server, partial(_slice, lane, in_flight, plan.seconds / slices)))
        order.reverse()
    return samples


async def _slice(lane: Lane, in_flight: int, seconds: float) -> Sample:
    sample = await closed_loop(lane.call, lane.request, in_flight, seconds)
    await asyncio.sleep(SETTLE_S)
    return sample
