"""An application with a few routes, and a client that writes raw bytes, for tests of the HTTP server."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
import uvloop
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from protolink_grpc.edges.http.drain import Drain
from protolink_grpc.edges.http.health import Health
from protolink_grpc.edges.http.http_server import HttpServer
from protolink_grpc.edges.http.metrics import Metrics
from protolink_grpc.edges.http.middleware import with_middleware
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.edges.http.request_guard import RequestGuard

PATIENCE_S = 20.0
"""How long a test waits for what must happen; far more than it takes."""


class Stream(Response):
    """Server-sent events that say when they have ended, however they did."""

    def __init__(self, events: AsyncGenerator[bytes, None], ended: asyncio.Event) -> None:
        super().__init__()
        self._events, self._ended = events, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._events):
                await StreamingResponse(self._events, media_type="text/event-stream")(scope, receive, send)
        finally:
            self._ended.set()


class World:
    """A server with routes that read, stream, wait and fail.

    Attributes:
        held: Set while `/wait` has a request; `go` lets it answer.
        written: Bytes that `/flood` has got rid of.
        gone: Streams that have ended, however they did.
    """

    def __init__(self, options: HttpOptions) -> None:
        self.options = options
        self.metrics = Metrics()
        self.drain = Drain()
        self.draining = asyncio.Event()
        self.drain.watch(self.draining.set)
        self.held = asyncio.Event()
        self.go = asyncio.Event()
        self.gone = asyncio.Event()
        self.written = 0
        self._guard = RequestGuard(bounds=options.bounds)
        routes = [
            Route("/echo", self._echo, methods=["GET", "POST"]),
            Route("/wait", self._wait),
            Route("/stubborn", self._stubborn),
            Route("/events", self._events),
            Route("/flood", self._flood),
            Route("/fail", self._fail),
            Route("/certificate", self._certificate),
            WebSocketRoute("/ws", self._websocket),
            *Health(self.drain).routes(),
            self.metrics.route(),
        ]
        app = self.metrics.count_requests(with_middleware(Router(routes), options))
        self.server = HttpServer(app, options, drain=self.drain, rejected=self.metrics.count_rejection)

    @property
    def port(self) -> int:
        return self.server.listen.port

    def rejected(self, reason: str) -> int:
        """How often a peer was given up for it."""
        found = self.metrics.registry.get_sample_value("plgrpc_http_rejected_total", {"reason": reason})
        return int(found or 0)

    async def _echo(self, request: Request) -> Response:
        body = await self._guard.body(request)
        return JSONResponse({"bytes": len(body), "n": request.query_params.get("n")})

    async def _wait(self, request: Request) -> Response:
        self.held.set()
        await self.go.wait()
        return Response(b"done")

    async def _stubborn(self, request: Request) -> Response:
        """Answers, also after the client has disconnected."""
        self.held.set()
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                continue
        return Response(b"done")

    async def _events(self, request: Request) -> Response:
        async def events() -> AsyncGenerator[bytes, None]:
            yield b"id: 1\ndata: {}\n\n"
            await self.draining.wait()
            yield b": going\n\n"

        return Stream(events(), self.gone)

    async def _flood(self, request: Request) -> Response:
        async def events() -> AsyncGenerator[bytes, None]:
            frame = b"data: " + b"x" * 8186 + b"\n\n"
            while True:
                yield frame
                self.written += len(frame)

        return Stream(events(), self.gone)

    async def _fail(self, request: Request) -> Response:
        async def half() -> AsyncIterator[bytes]:
            yield b"first"
            raise RuntimeError("midway")

        return StreamingResponse(half(), headers={"content-length": "100"})

    async def _certificate(self, request: Request) -> Response:
        return JSONResponse(getattr(request.state, "peer_certificate", None))

    async def _websocket(self, websocket: WebSocket) -> None:
        await websocket.accept()
        try:
            while True:
                await websocket.send_text(await websocket.receive_text())
        except WebSocketDisconnect:
            self.gone.set()


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[World]:
    """A world whose server runs."""
    world = World(HttpOptions(**options))
    await world.server.start()
    try:
        yield world
    finally:
        world.go.set()
        await world.server.stop(0)


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on each of the loops that we run on: their transports are different programs.

    An argument `world` is a world with the default options; all others are fixtures.
    """
    names = inspect.signature(test).parameters

    async def run(fixtures: dict[str, Any]) -> None:
        if "world" in names:
            async with running() as world:
                await test(world=world, **fixtures)
        else:
            await test(**fixtures)

    @pytest.mark.parametrize("loop", LOOPS)
    def both(loop: str, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(run(fixtures))

    kinds = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("loop", *names) if name != "world"]
    both.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]  # what pytest asks for fixtures
    both.__name__, both.__doc__, both.__module__ = test.__name__, test.__doc__, test.__module__
    return both


class Peer:
    """A client that says what it likes and reads when it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, world: World, **options: Any) -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", world.port, **options))

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def get(self, path: str, *headers: str, host: str = "localhost") -> tuple[int, dict[str, str], bytes]:
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]
        await self.say("\r\n".join(lines).encode())
        return await self.answer()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next answer; status 0 where the connection ends first."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                return 0, {}
        first, *lines = text.strip().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        return int(first.split()[1]), {name.lower(): value for name, value in pairs}

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer, which says its length."""
        status, headers = await self.head()
        async with asyncio.timeout(PATIENCE_S):
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return status, headers, body

    async def rest(self) -> bytes:
        """What comes until the connection ends; nothing where it is reset."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def close(self) -> None:
        self.writer.close()
