"""MCP over streamable HTTP: one route, without sessions, so that a restart loses nothing. Loads the SDK at the first request."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protolink_grpc.auth.principal import Principal
from protolink_grpc.edges.http.json_body import read_json
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.mcp.client.server import require_sdk
from protolink_grpc.mcp.edge.server import McpAgent, McpEdge, McpPort

PATH = "/mcp"
_PRINCIPAL = "plgrpc.principal"

STOP_S = 5.0
"""How long the calls of clients may take to end after they were canceled, in seconds."""


class McpRoute:
    """The route `/mcp` of an HTTP port. Requests are authenticated, bounded and admitted like those of every other route."""

    def __init__(self, guard: RequestGuard, agent: McpAgent) -> None:
        self._guard = guard
        port = McpPort(_caller, guard.admit, guard.bounds.max_wait_s)
        self._edge = McpEdge(agent, port)
        self._stopping = asyncio.Event()
        self._app: asyncio.Future[ASGIApp] | None = None
        self._owner: asyncio.Task[None] | None = None

    def routes(self) -> list[Route]:
        return [Route(PATH, self._answer, methods=["POST"])]

    async def stop(self) -> None:
        """End the running calls of clients. Their tasks continue."""
        self._stopping.set()
        if self._owner is not None:
            await asyncio.wait([self._owner], timeout=STOP_S)
            self._owner.cancel()

    async def _answer(self, request: Request) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """Authenticate a request and check its body.

        Raises:
            UnauthenticatedError, MessageTooLargeError, InvalidArgumentError: It is not accepted.
            UnimplementedError: The `mcp` extra is not installed.
        """
        guard = self._guard
        principal = await guard.identify(request)
        body = await guard.body(request)
        await read_json(body, max_complexity=guard.bounds.max_complexity)
        app = await self._start()

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, _PRINCIPAL: principal}, _replay(body, receive), send)

        return respond

    async def _start(self) -> ASGIApp:
        """Return the SDK's application, which is started by the first request."""
        require_sdk()
        if self._app is None:
            self._app = asyncio.get_running_loop().create_future()
            # The SDK's task group must be left by the asyncio task that entered it.
            self._owner = asyncio.create_task(self._run(self._app), context=contextvars.Context())
        return await asyncio.shield(self._app)

    async def _run(self, app: "asyncio.Future[ASGIApp]") -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager

        manager = StreamableHTTPSessionManager(
            self._edge.build_server(), stateless=True, max_request_body_size=self._guard.bounds.max_body_bytes
        )
        async with manager.run():
            app.set_result(StreamableHTTPASGIApp(manager))
            await self._stopping.wait()


def _caller(context: Any) -> Principal:
    principal: Principal = context.request.scope[_PRINCIPAL]
    return principal


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI function that returns a body that was read already, and then what the connection reports."""
    is_read = False

    async def replay() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
