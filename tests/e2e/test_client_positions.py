"""What a client makes of the positions of a task's stream, from an agent whose answers are written down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_status import rpc_status
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc as rpc
from plgrpc.v1 import event_pb2, task_pb2

from protolink_grpc import AgentClient, PositionCompactedError, RemoteError, RunEvent, Task, UnavailableError
from protolink_grpc.wire.status import to_status

PATIENCE_S = 20.0


class Written(rpc.AgentServiceServicer):
    """An agent with one task, whose log no longer has its first 39 events.

    Args:
        cuts: Whether each stream shows a position alone and is then cut.
    """

    def __init__(self, *, cuts: bool = False) -> None:
        self.cuts = cuts
        self.asked: list[int] = []

    async def SubscribeTask(  # type: ignore[override]  # the async flavour
        self, request: pb.SubscribeTaskRequest, context: Any
    ) -> AsyncIterator[pb.SubscribeTaskResponse]:
        self.asked.append(request.after_sequence)
        if self.cuts:
            position = {"revision": request.after_sequence, "head": request.after_sequence, "caught_up": True}
            yield pb.SubscribeTaskResponse(position=position)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
        if request.after_sequence < 39:
            error = PositionCompactedError("the log of task t begins with event 40", task_id="t", first_sequence="40")
            await context.abort_with_status(rpc_status.to_status(to_status(error)))
        events = [event_pb2.RunEvent(task_id="t", sequence=41, event_type="task.status", last=True)]
        events[0].task_status.new_state = task_pb2.TASK_STATE_COMPLETED
        yield pb.SubscribeTaskResponse(events=events, position={"revision": 41, "head": 41, "caught_up": True})

    async def GetTask(  # type: ignore[override]  # the async flavour
        self, request: pb.GetTaskRequest, context: Any
    ) -> pb.GetTaskResponse:
        return pb.GetTaskResponse(
            task=task_pb2.Task(id="t", state=task_pb2.TASK_STATE_WORKING, sequence=40, first_sequence=40)
        )


@asynccontextmanager
async def serving(written: rpc.AgentServiceServicer) -> AsyncIterator[str]:
    server = grpc.aio.server()
    rpc.add_AgentServiceServicer_to_server(written, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def test_a_position_that_the_log_no_longer_has_is_an_answer_and_the_task_says_where_to_go_on() -> None:
    written = Written()
    async with serving(written) as url, asyncio.timeout(PATIENCE_S):
        client = AgentClient(url=url)
        with pytest.raises(PositionCompactedError) as refused:
            await anext(client.subscribe("t", after=3))
        assert refused.value.metadata["first_sequence"] == "40"
        assert written.asked == [3]
        now = await client.get_task("t")
        assert now.id == "t"
        assert [event.sequence async for event in client.subscribe("t", after=40)] == [41]


async def test_a_position_alone_is_no_progress() -> None:
    written = Written(cuts=True)
    async with serving(written) as url, asyncio.timeout(PATIENCE_S):
        client = AgentClient(url=url, outage_s=1.0)
        with pytest.raises(UnavailableError):
            await anext(client.subscribe("t", after=40))
    assert 3 <= len(written.asked) <= 8  # pauses of 0.1, 0.2, 0.4, ... s, each shortened by up to a half


class Numbered(rpc.AgentServiceServicer):
    """An agent whose streams show events of these sequences. Each stream is cut, except the last one, which ends the task."""

    def __init__(self, *streams: tuple[int, ...]) -> None:
        self.streams = list(streams)
        self.asked: list[int] = []

    async def StreamTask(  # type: ignore[override]  # the async flavour
        self, request: pb.StreamTaskRequest, context: Any
    ) -> AsyncIterator[pb.StreamTaskResponse]:
        async for events in self.show(0, context):
            yield pb.StreamTaskResponse(events=events)

    async def SubscribeTask(  # type: ignore[override]  # the async flavour
        self, request: pb.SubscribeTaskRequest, context: Any
    ) -> AsyncIterator[pb.SubscribeTaskResponse]:
        async for events in self.show(request.after_sequence, context):
            yield pb.SubscribeTaskResponse(events=events)

    async def show(self, after: int, context: Any) -> AsyncIterator[list[event_pb2.RunEvent]]:
        self.asked.append(after)
        sequences = self.streams.pop(0)
        events = [event_pb2.RunEvent(task_id="t", sequence=each, event_type="task.progress") for each in sequences]
        if not self.streams:
            events[-1].last, events[-1].task_status.new_state = True, task_pb2.TASK_STATE_COMPLETED
        yield events
        if self.streams:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")


async def read_all(events: AsyncIterator[RunEvent]) -> tuple[list[int | None], RemoteError | None]:
    """The sequences of a stream, and the error with which it ended."""
    sequences = []
    try:
        async for event in events:
            sequences.append(event.sequence)  # noqa: PERF401 -- those before the error count
    except RemoteError as error:
        return sequences, error
    return sequences, None


async def test_a_missing_event_ends_a_subscription_with_an_error_after_the_events_before_it() -> None:
    agent = Numbered((8, 9, 11, 12))
    async with serving(agent) as url, asyncio.timeout(PATIENCE_S):
        sequences, error = await read_all(AgentClient(url=url).subscribe("t", after=7))
    assert sequences == [8, 9]
    assert error is not None
    assert (error.code, error.metadata["task_id"]) == ("DATA_LOSS", "t")
    assert str(error) == "task t: event 11 came after 9"
    assert agent.asked == [7]  # it is not an interruption


async def test_an_event_that_is_missing_after_an_interruption_is_found_too() -> None:
    agent = Numbered((1, 2), (2, 4))
    async with serving(agent) as url, asyncio.timeout(PATIENCE_S):
        sequences, error = await read_all(AgentClient(url=url).subscribe("t"))
    assert sequences == [1, 2]
    assert error is not None
    assert error.code == "DATA_LOSS"
    assert agent.asked == [0, 2]


async def test_a_turn_may_begin_at_any_event_and_repeated_events_are_left_out() -> None:
    agent = Numbered((21, 22), (22, 23), (24,))
    async with serving(agent) as url, asyncio.timeout(PATIENCE_S):
        sequences, error = await read_all(AgentClient(url=url).send_task_streaming(None, Task.create("go on")))
    assert sequences == [21, 22, 23, 24]
    assert error is None
    assert agent.asked == [0, 22, 23]
