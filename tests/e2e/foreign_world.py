"""Agents of other systems on loopback: a2a-sdk's own server in this loop, over every binding and in both versions."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import a2a.client  # noqa: F401 -- before a2a.server: that imports it in a circle, and the SDK then lacks its gRPC client of v0.3
import grpc.aio
import uvicorn
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers.proto_helpers import new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2, a2a_pb2_grpc
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse

JSONRPC, REST, GRPC = "JSONRPC", "HTTP+JSON", "GRPC"


class Errands(AgentExecutor):
    """Does what the text of the message says.

    Attributes:
        released: What a task that does `work` waits for between its pieces.
        done: A task that does `work` has ended.
        stopped: A task was canceled.
        heard: Every message, as it came.
    """

    def __init__(self) -> None:
        self.released = asyncio.Semaphore(0)
        self.working = asyncio.Event()
        self.done = asyncio.Event()
        self.stopped = asyncio.Event()
        self.heard: list[a2a_pb2.Message] = []
        self.metadata: list[dict[str, Any]] = []
        self.canceled: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        self.heard.append(context.message)
        self.metadata.append(context.metadata)
        words = context.get_user_input()
        if words == "say it":
            reply = a2a_pb2.Message(
                message_id="reply-1",
                role=a2a_pb2.ROLE_AGENT,
                context_id=context.context_id,
                parts=[new_text_part("said")],
            )
            await event_queue.enqueue_event(reply)
            return
        if context.current_task is None:
            await event_queue.enqueue_event(
                a2a_pb2.Task(
                    id=context.task_id,
                    context_id=context.context_id,
                    status=a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_SUBMITTED),
                    history=[context.message],
                )
            )
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.start_work()
        if words == "book":
            await updater.requires_input(updater.new_agent_message([new_text_part("Which city?")]))
        elif words == "fail":
            await updater.failed(updater.new_agent_message([new_text_part("out of paper")]))
        elif words.startswith("work"):
            await self._work(updater, int(words.split()[1]))
        else:
            await updater.add_artifact([new_text_part(f"did: {words}")], artifact_id="result", name="result")
            await updater.complete()

    async def _work(self, updater: TaskUpdater, pieces: int) -> None:
        self.working.set()
        for number in range(pieces):
            await self.released.acquire()
            await updater.add_artifact([new_text_part(f"piece {number}")], artifact_id="pieces", append=number > 0)
            said = updater.new_agent_message([new_text_part(f"step {number}")])
            await updater.update_status(a2a_pb2.TASK_STATE_WORKING, said)
        await self.released.acquire()
        await updater.complete(updater.new_agent_message([new_text_part("finished")]))
        self.done.set()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.canceled.append(context.task_id or "")
        self.stopped.set()
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


class _Guard:
    """ASGI middleware that refuses requests without the header, except for the card."""

    def __init__(self, app: Any, token: str, seen: list[dict[str, str]]) -> None:
        self._app = app
        self._token = token
        self._seen = seen

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        self._seen.append({"path": scope["path"], **headers})
        is_open = not self._token or scope["path"].startswith("/.well-known")
        if is_open or headers.get("authorization") == f"Bearer {self._token}":
            await self._app(scope, receive, send)
            return
        await JSONResponse({"error": "not you"}, 401)(scope, receive, send)


class A2AServer:
    """A running A2A agent.

    Attributes:
        url: Where its card is.
        errands: What it does.
        handler: Answers the requests of each binding.
        requests: The headers and paths of all HTTP requests.
    """

    def __init__(self, url: str, errands: Errands, card: a2a_pb2.AgentCard, handler: Any) -> None:
        self.url = url
        self.errands = errands
        self.handler = handler
        self.card = card
        self.requests: list[dict[str, str]] = []


class _Uvicorn(uvicorn.Server):
    """Says when it has started, and leaves signals to the test."""

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
async def serving(app: Any, port_socket: socket.socket) -> AsyncIterator[None]:
    """An ASGI application on a socket that listens already."""
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, ws="none")
    server = _Uvicorn(config)
    running = asyncio.create_task(server.serve([port_socket]))
    await server.ready.wait()
    try:
        yield
    finally:
        server.should_exit = True
        await running


def listening(port: int = 0) -> tuple[socket.socket, int]:
    """A socket on a free port of loopback, or on that one."""
    # Said to be TCP, which a bare socket is not: asyncio sends small packets at once on such alone, and each answer would wait for
    # the acknowledgment of its first half.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    bound.listen()
    return bound, bound.getsockname()[1]


@asynccontextmanager
async def a2a_server(
    *bindings: str,
    version: str = "1.0",
    streaming: bool = True,
    token: str = "",
    place: str = "",
    port: int = 0,
    push: bool = False,
) -> AsyncIterator[A2AServer]:
    """An agent of a2a-sdk.

    Args:
        bindings: In the order of its preference.
        token: Required from each caller over HTTP.
        place: The URL that its card names instead of its own, over HTTP.
        port: Where it listens; 0 means anywhere.
        push: It takes webhooks, and posts to none of them.
    """
    errands = Errands()
    bound, port = listening(port)
    url = f"http://127.0.0.1:{port}"
    grpc_server = grpc.aio.server()
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    places = {JSONRPC: f"{place or url}/rpc", REST: f"{place or url}/rest", GRPC: f"127.0.0.1:{grpc_port}"}
    card = a2a_pb2.AgentCard(
        name="errands",
        description="Does what it is told.",
        version="1",
        capabilities=a2a_pb2.AgentCapabilities(streaming=streaming, push_notifications=push),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supported_interfaces=[
            a2a_pb2.AgentInterface(url=places[each], protocol_binding=each, protocol_version=version)
            for each in bindings or (JSONRPC,)
        ],
        skills=[a2a_pb2.AgentSkill(id="errands", name="errands", description="All of them.", tags=["all"])],
    )
    webhooks = InMemoryPushNotificationConfigStore() if push else None
    handler = DefaultRequestHandler(
        agent_executor=errands, task_store=InMemoryTaskStore(), agent_card=card, push_config_store=webhooks
    )
    server = A2AServer(url, errands, card, handler)
    app = Starlette(
        routes=[
            *create_agent_card_routes(card, cache_control="max-age=60"),
            *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
            *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
        ],
        middleware=[Middleware(_Guard, token=token, seen=server.requests)],
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
    a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), grpc_server)
    await grpc_server.start()
    try:
        async with serving(app, bound):
            yield server
    finally:
        await grpc_server.stop(0)
