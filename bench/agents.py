"""The agents and the floor that are measured: they do as little work as possible. This module measures nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import event_pb2, part_pb2, task_pb2

from protolink_grpc import (
    Agent,
    AgentCard,
    Artifact,
    HttpOptions,
    Limits,
    Message,
    Part,
    Run,
    ServerOptions,
    Task,
    TaskProgress,
    current_run,
)
from protolink_grpc.models.events import LlmCallCompleted, LlmCallStarted
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.telemetry import Telemetry

REPLY_CHARACTERS = 100
"""Length of the input that an answer repeats, so that the 64 KiB cases measure the input only."""

ANY_PORT = "grpc://127.0.0.1:0"
# All measured streams are of one caller.
ANY_HTTP_PORT = HttpOptions("127.0.0.1:0", max_streams_per_principal=None)

SERVICE = "plgrpc.v1.AgentService"

PIECE = " token"
"""A piece of a model's text."""

FLOOR_BATCH = 256
"""Events per message of the floor's stream: the maximum batch size of the agent's watches."""


def _reply(text: str) -> str:
    return text[:REPLY_CHARACTERS]


def _card(name: str, url: str) -> AgentCard:
    return AgentCard(name=name, description="is measured", url=url)


SLOW_S = 0.5
"""How long `SlowAgent` works, in seconds."""


class SlowAgent(Agent):
    """It works for `SLOW_S` without using the CPU."""

    def __init__(self, store: TaskStore, url: str = ANY_PORT) -> None:
        super().__init__(_card("slow", url), store=store, limits=Limits(max_concurrency=256))

    async def handle_task(self, task: Task) -> Task:
        await asyncio.sleep(SLOW_S)
        return task.complete("done")


class EchoAgent(Agent):
    """The simplest agent: it completes each task with one answer."""

    def __init__(
        self,
        store: TaskStore,
        url: str = ANY_PORT,
        http: HttpOptions | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        limits = Limits(max_concurrency=256)
        super().__init__(_card("echo", url), store=store, limits=limits, http=http, telemetry=telemetry)

    async def handle_task(self, task: Task) -> Task:
        return task.complete(_reply(task.messages[-1].parts[0].content))


def adder(store: TaskStore) -> Agent:
    """An agent with one tool, which is also a typed method, and with a service that adds, too."""
    from bench.adder_service import AdderServicer  # imported here, because it compiles a .proto file

    limits = Limits(max_concurrency=256)
    agent = Agent(
        _card("adder", ANY_PORT),
        store=store,
        limits=limits,
        typed="bench.v1",
        services=[AdderServicer()],
        skills="fixed",
    )

    @agent.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return agent


class LogAgent(Agent):
    """Writes logs of a length that the message selects.

    `emit N` reports N steps of progress, `make N` makes N artifacts, `tell N` produces a text in N pieces; all three complete the
    task. `events N` and `messages N` add N events or messages, and then wait for input. Any other message is one turn with one
    message as its answer, and the task waits for input again.
    """

    def __init__(self, store: TaskStore, http: HttpOptions | None = None) -> None:
        # All tasks stay in memory, so that the cost of a turn does not depend on the number of tasks in a round.
        limits = Limits(max_concurrency=256, principal_share=1.0, warm_tasks=10_000, warm_bytes=1 << 30)
        # All measured streams are of one caller.
        server = ServerOptions(max_streams_per_principal=None)
        super().__init__(_card("log", ANY_PORT), store=store, limits=limits, http=http, server=server)

    async def handle_task(self, task: Task) -> Task:
        verb, _, amount = task.messages[-1].parts[0].content.partition(" ")
        if verb in ("emit", "events"):
            await _report_progress(int(amount))
        elif verb == "messages":
            await _send_messages(int(amount))
        elif verb == "make":
            await _make_artifacts(int(amount))
        elif verb == "tell":
            await _produce_text(int(amount))
        return (
            task.complete("done") if verb in ("emit", "make", "tell") else task.require_input(Message.agent("continue"))
        )


class ChainAgent(Agent):
    """Delegates its task along a chain of agents, whose URLs are the words of the message. The last one waits until it is canceled.

    Attributes:
        begun: Number of tasks that this process received as the last agent of a chain.
        interrupted_at: Time of the last interruption, in `time.monotonic()`, which all processes of a machine share.
    """

    begun = 0
    interrupted_at = 0.0

    def __init__(self, store: TaskStore, name: str) -> None:
        super().__init__(_card(name, ANY_PORT), store=store, limits=Limits(max_concurrency=256))

    async def handle_task(self, task: Task) -> Task:
        next_agent, _, rest = task.messages[-1].parts[0].content.partition(" ")
        if next_agent != "hang":
            return await self.call_agent(next_agent, Task.create(rest))
        ChainAgent.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            ChainAgent.interrupted_at = time.monotonic()
        return task


def _run() -> Run:
    run = current_run()
    if run is None:
        raise RuntimeError("the handler is called outside of a run")
    return run


async def _report_progress(count: int) -> None:
    run = _run()
    for index in range(count):
        await run.emit(TaskProgress(100.0 * index / count, "one step of many"))


async def _send_messages(count: int) -> None:
    run = _run()
    for _ in range(count):
        await run.message(Message.agent("one message of many"))


async def _make_artifacts(count: int) -> None:
    run = _run()
    for index in range(count):
        await run.artifact(Artifact(f"artifact-{index}", [Part("text", "one artifact of many")]))


async def _produce_text(count: int) -> None:
    run, whole = _run(), PIECE * count
    await run.emit(LlmCallStarted("call", streaming=True))
    await run.flush()
    for index in range(count):
        run.delta("call", index * len(PIECE), PIECE)
        if index % 64 == 0:
            await asyncio.sleep(
                0
            )  # a real model's tokens arrive over a connection, so other tasks of the loop run in between
    await run.emit(LlmCallCompleted("call", text=whole))


def floor_handler() -> grpc.GenericRpcHandler:
    """Return the same methods without an implementation: the cost of grpc.aio itself."""
    handlers: dict[str, Any] = {
        "SendTask": grpc.unary_unary_rpc_method_handler(
            _floor_send, pb.SendTaskRequest.FromString, pb.SendTaskResponse.SerializeToString
        ),
        # The responses are bytes, as in our servicer.
        "SubscribeTask": grpc.unary_stream_rpc_method_handler(
            _floor_stream(), pb.SubscribeTaskRequest.FromString, None
        ),
    }
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


async def _floor_send(request: pb.SendTaskRequest, context: Any) -> pb.SendTaskResponse:
    text = _reply(request.input.messages[0].parts[0].text)
    answer = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_AGENT, parts=[part_pb2.Part(text=text)])
    return pb.SendTaskResponse(task=task_pb2.Task(state=task_pb2.TASK_STATE_COMPLETED, messages=[answer]))


def _floor_stream() -> Callable[[pb.SubscribeTaskRequest, Any], AsyncIterator[bytes]]:
    """Return a stream of 100,000 events in ready batches for the task id `log`. Any other task sends one event and then waits."""
    event = event_pb2.RunEvent(
        task_id="0" * 36,
        sequence=50_000,
        run_id="0" * 36,
        session_id="0" * 36,
        event_type="task.progress",
        create_time=Timestamp(seconds=1_760_000_000, nanos=123_456_000),
        agent_name="log",
        task_progress=event_pb2.TaskProgress(progress=50.1, message="one step of many"),
    )
    batch = pb.SubscribeTaskResponse(events=[event] * FLOOR_BATCH).SerializeToString()

    async def stream(request: pb.SubscribeTaskRequest, context: Any) -> AsyncIterator[bytes]:
        if request.task_id != "log":
            yield pb.SubscribeTaskResponse(events=[event]).SerializeToString()
            await asyncio.Event().wait()
        for _ in range(100_000 // FLOOR_BATCH):
            yield batch

    return stream
