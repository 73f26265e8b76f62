"""The other HTTP servers that are measured: the floor, and the reference SDK of A2A with an equally simple agent."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import orjson
import uvicorn
from a2a.helpers.proto_helpers import new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2, a2a_pb2_grpc
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from bench.agents import FLOOR_BATCH, REPLY_CHARACTERS

FLOOR_EVENTS = 100_000
"""Number of events of the floor's stream, sent in ready batches."""


# -- the floor -----------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def http_floor() -> AsyncIterator[list[str]]:
    """Run Starlette and orjson on uvicorn without an implementation: the cost of HTTP itself."""
    app = Starlette(
        routes=[
            Route("/", _echo, methods=["POST"]),
            Route("/stream", _events, methods=["POST"]),
            Route("/silent", _silent, methods=["GET"]),
        ]
    )
    async with _serve_app(app) as url:
        yield [url]


async def _echo(request: Request) -> Response:
    text = orjson.loads(await request.body())["params"]["message"]["parts"][0]["text"]
    answer = {"role": "ROLE_AGENT", "parts": [{"text": text[:REPLY_CHARACTERS]}]}
    body = {"jsonrpc": "2.0", "id": 1, "result": {"status": {"state": "TASK_STATE_COMPLETED", "message": answer}}}
    return Response(orjson.dumps(body), media_type="application/json")


def _frame() -> bytes:
    """Return one event, about as large as ours."""
    artifact = {"artifactId": "artifact-50000", "parts": [{"text": "one artifact of many"}]}
    update = {"taskId": "0" * 36, "contextId": "0" * 36, "artifact": artifact, "append": False, "lastChunk": False}
    return b"id: 50000\ndata: %b\n\n" % orjson.dumps({"artifactUpdate": update})


async def _events(request: Request) -> Response:
    async def batches() -> AsyncIterator[bytes]:
        batch = _frame() * FLOOR_BATCH
        for _ in range(FLOOR_EVENTS // FLOOR_BATCH):
            yield batch

    return StreamingResponse(batches(), media_type="text/event-stream")


async def _silent(request: Request) -> Response:
    async def one() -> AsyncIterator[bytes]:
        yield _frame()
        await asyncio.Event().wait()

    return StreamingResponse(one(), media_type="text/event-stream")


# -- the reference SDK ----------------------------------------------------------------------------------------------------------


class _Echo(AgentExecutor):
    """Completes each task with one answer; `make N` makes N artifacts first."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text, task_id, context_id = context.get_user_input(), context.task_id or "", context.context_id or ""
        submitted = a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_SUBMITTED)
        task = a2a_pb2.Task(id=task_id, context_id=context_id, status=submitted)
        if context.message is not None:
            task.history.append(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task_id, context_id)
        if text.startswith("make "):
            for index in range(int(text.removeprefix("make "))):
                await updater.add_artifact([new_text_part("one artifact of many")], artifact_id=f"artifact-{index}")
        await updater.complete(updater.new_agent_message([new_text_part(text[:REPLY_CHARACTERS])]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@asynccontextmanager
async def reference_sdk() -> AsyncIterator[list[str]]:
    """Run a2a-sdk's server with its three bindings: gRPC, JSON-RPC at `/rpc`, and HTTP+JSON under `/rest`."""
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    card = a2a_pb2.AgentCard(
        name="echo",
        description="is measured",
        version="1",
        capabilities=a2a_pb2.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supported_interfaces=[
            a2a_pb2.AgentInterface(url=f"127.0.0.1:{port}", protocol_binding="GRPC", protocol_version="1.0")
        ],
        skills=[a2a_pb2.AgentSkill(id="echo", name="echo", description="Answers.", tags=["all"])],
    )
    handler = DefaultRequestHandler(agent_executor=_Echo(), task_store=InMemoryTaskStore(), agent_card=card)
    routes: list[Any] = [*create_jsonrpc_routes(handler, "/rpc"), *create_rest_routes(handler, path_prefix="/rest")]
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)  # type: ignore[no-untyped-call]  # generated
    await server.start()
    async with _serve_app(Starlette(routes=routes)) as url:
        yield [f"grpc://127.0.0.1:{port}", url]
    await server.stop(0)


# -- uvicorn in our loop ---------------------------------------------------------------------------------------------------------


class _Uvicorn(uvicorn.Server):
    """Sets `ready` when it listens, and does not handle signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _serve_app(app: Starlette) -> AsyncIterator[str]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        log_level="critical",
        access_log=False,
        lifespan="off",
        timeout_keep_alive=600,  # connections must stay open while other systems take their turns
        timeout_graceful_shutdown=1,
    )
    server = _Uvicorn(config)
    running = asyncio.create_task(server.serve([listening]))
    await server.ready.wait()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
