"""The HTTP port of an agent or a registry as an ASGI application that another server runs, alone or mounted in a host application.

That server is responsible for connections, TLS and HTTP/2, and for the limits of headers, slow peers and pipelined requests. The
limits of requests apply here, too: Host and Origin, authentication, bodies, JSON, waits, streams, and WebSocket messages.
"""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protolink_grpc.errors import UnavailableError
from protolink_grpc.logs import get_logger

log = get_logger(__name__)

POLICY_VIOLATION, TOO_BIG = 1008, 1009
"""Close codes. Source: RFC 6455 section 7.4.1."""


class HostedApp:
    """An ASGI application with routes while its owner runs. At other times, requests are answered with 503.

    The owner starts with the lifespan of the server that runs the application. A host application that mounts it must start the
    owner in its own lifespan (`async with agent: yield`), because mounted applications get no lifespan events.

    Args:
        owner: The owner in errors and logs, such as `agent greeter`.
        start, stop: Start and stop the owner on the running loop. Starting a running owner does nothing.
    """

    def __init__(
        self, owner: str, start: Callable[[], Awaitable[object]], stop: Callable[[], Awaitable[object]]
    ) -> None:
        self._owner, self._start, self._stop = owner, start, stop
        self._app: ASGIApp | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._max_message_bytes = 0

    def open(self, app: ASGIApp, *, max_message_bytes: int) -> None:
        """Pass requests on to `app`, on the running loop.

        Args:
            max_message_bytes: A larger message ends its WebSocket with code 1009.
        """
        self._loop = asyncio.get_running_loop()
        self._app, self._max_message_bytes = app, max_message_bytes

    def close(self) -> None:
        """Pass no more requests on."""
        self._app = self._loop = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._handle_lifespan(receive, send)
            return
        if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
            send = _close_instead_of_response(send)
        app = self._app
        if app is None or asyncio.get_running_loop() is not self._loop:
            await self._refuse(scope, send)
            return
        if scope["type"] == "websocket":
            receive = _limit_messages(receive, send, self._max_message_bytes)
        await app(_without_prefix(scope), receive, send)

    async def _handle_lifespan(self, receive: Receive, send: Send) -> None:
        """Start the owner, and stop it at the end if it was not running before."""
        await receive()
        is_ours = self._app is None
        try:
            await self._start()
        except Exception as error:
            log.exception("%s cannot start", self._owner)
            await send({"type": "lifespan.startup.failed", "message": f"{self._owner} cannot start: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if is_ours:
            await self._stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _refuse(self, scope: Scope, send: Send) -> None:
        from protolink_grpc.edges.http.middleware import error_response, send_json  # here: it loads an HTTP server

        reason = "does not run" if self._app is None else "runs on another event loop"
        error = UnavailableError(
            f"{self._owner} {reason}; start it in the lifespan of the host application, for instance with 'async with'"
        )
        await send_json(scope, send, *error_response(error))


def _without_prefix(scope: Scope) -> Scope:
    """Return the scope with a path relative to the mount point of the application."""
    prefix: str = scope.get("root_path", "")
    path: str = scope["path"]
    own = path[len(prefix) :] if prefix and path.startswith(prefix) else path
    return {**scope, "path": own or "/", "root_path": ""}


def _close_instead_of_response(send: Send) -> Send:
    """Wrap `send` for a server that cannot send a response to the handshake of a WebSocket: it is refused without a reason."""

    async def send_close(message: Message) -> None:
        if message["type"] == "websocket.http.response.start":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        elif message["type"] != "websocket.http.response.body":
            await send(message)

    return send_close


def _limit_messages(receive: Receive, send: Send, max_bytes: int) -> Receive:
    """Wrap `receive` of a WebSocket: a larger message closes the connection."""

    async def receive_limited() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive":
            text, data = message.get("text"), message.get("bytes")
            if len(data or b"") > max_bytes or (text and _is_longer(text, max_bytes)):
                await send({"type": "websocket.close", "code": TOO_BIG})
                return {"type": "websocket.disconnect", "code": TOO_BIG}
        return message

    return receive_limited


def _is_longer(text: str, max_bytes: int) -> bool:
    """Return whether a text has more than `max_bytes` bytes in UTF-8."""
    return len(text) > max_bytes or (4 * len(text) > max_bytes and len(text.encode(errors="replace")) > max_bytes)
