"""The HTTP server: an ASGI application on one port of the loop that runs us. What the application does is none of its business.

It is made of uvicorn's protocols without uvicorn's `Server`, which is made to be a process: it takes the signals, exits where it
cannot listen, and looks ten times a second whether it should end.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterable
from email.utils import formatdate
from time import time
from typing import Any

from starlette.types import ASGIApp
from uvicorn.config import Config

from protolink_grpc.edges.http.connections import Connections
from protolink_grpc.edges.http.drain import Drain
from protolink_grpc.edges.http.options import HttpOptions, Listen
from protolink_grpc.edges.http.protocol import HttpConnection
from protolink_grpc.edges.http.websocket_protocol import WebSocketConnection
from protolink_grpc.errors import AddressInUseError, InvalidArgumentError
from protolink_grpc.logs import get_logger
from protolink_grpc.net.address import listen_error
from protolink_grpc.net.tls import TLSConfig, require_server_files

log = get_logger(__name__)

BACKLOG = 2048
"""Connections that the kernel keeps for us while the loop is busy; the system may allow fewer."""

CUT_S = 1.0
"""How long cut requests may take to notice it before their tasks are canceled, and canceled tasks to end."""

PROBE_S = 60
"""Idle seconds after which the kernel asks whether the peer is still there; it gives up after four unanswered questions."""


class HttpServer:
    """An application on one port. Can be started again after a stop.

    Args:
        drain: Told when the server goes down; the application's streams watch it.
        rejected: Called with a reason when a connection or request is given up because of its peer.
    """

    def __init__(
        self,
        app: ASGIApp,
        options: HttpOptions | None = None,
        *,
        drain: Drain | None = None,
        rejected: Callable[[str], None] | None = None,
    ) -> None:
        self._app = app
        self._options = options or HttpOptions()
        self.drained = drain or Drain()
        self._rejected = rejected or (lambda reason: None)
        self._connections: Connections | None = None
        self._servers: list[asyncio.Server] = []
        self._clock: asyncio.TimerHandle | None = None
        self.listen = Listen.parse(self._options.listen, self._options.tls)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.listen.url

    @property
    def is_running(self) -> bool:
        return bool(self._servers)

    @property
    def connections(self) -> int:
        """How many are open, WebSockets included."""
        return len(self._connections.connections) if self._connections is not None else 0

    @property
    def bytes_received(self) -> int:
        """Since its last start, WebSockets not counted."""
        return self._connections.bytes_received if self._connections is not None else 0

    async def start(self) -> str:
        """Listen. Returns the URL with the port that was taken.

        Raises:
            AddressInUseError: The port is taken, or not ours to take.
            InvalidArgumentError: The certificates are not usable.
        """
        loop = asyncio.get_running_loop()
        context = _tls_context(self._options.tls) if self._options.tls is not None else None
        config = self._config()
        state = Connections(self._options.limits, self._rejected)
        app_state: dict[str, Any] = {}
        self.drained.clear()
        sockets = await _sockets(self.listen)
        handshake_s = self._options.header_timeout_s if context is not None else None
        for each in sockets:
            self._servers.append(
                await loop.create_server(
                    lambda: HttpConnection(config, state, app_state, loop),
                    sock=each,
                    ssl=context,
                    backlog=BACKLOG,
                    ssl_handshake_timeout=handshake_s,
                )
            )
        self._connections = state
        self.listen = Listen(self.listen.host, sockets[0].getsockname()[1], self.listen.secure)
        self._tick(loop, state)
        return self.url

    def _config(self) -> Config:
        options = self._options
        config = Config(
            self._app,
            http=HttpConnection,
            ws=WebSocketConnection,
            ws_max_size=options.max_websocket_message_bytes,
            ws_ping_interval=options.ping_interval_s,
            ws_ping_timeout=options.ping_timeout_s,
            # It costs each connection a window, and each message more than the local network does.
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            workers=1,  # else read from the environment
            proxy_headers=bool(options.trusted_proxies),
            forwarded_allow_ips=list(options.trusted_proxies),
            server_header=False,
            root_path=options.root_path,
            # Declared as int, and only ever handed to call_later.
            timeout_keep_alive=options.idle_timeout_s,  # type: ignore[arg-type]
        )
        config.load()
        return config

    def _tick(self, loop: asyncio.AbstractEventLoop, state: Connections) -> None:
        """Set the date of the answers, once a second."""
        state.default_headers = [(b"date", formatdate(time(), usegmt=True).encode())]
        self._clock = loop.call_later(1.0, self._tick, loop, state)

    async def drain(self) -> None:
        """Tell everybody who watches that the server goes down. Nothing is refused yet; streams end after what they are at."""
        self.drained.begin()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Accept no more, let answers under way finish for `grace_s` seconds, cut the rest."""
        servers, self._servers = self._servers, []
        state, self._connections = self._connections, None
        if state is None:
            return
        await self.drain()
        state.is_stopping = True
        for server in servers:
            server.close()
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(grace_s):
                await _emptied(state)
        except TimeoutError:
            await _cut(state)
        if self._clock is not None:
            self._clock.cancel()
        await asyncio.gather(*(server.wait_closed() for server in servers))


async def _emptied(state: Connections) -> None:
    """Return when all connections are gone, and what answered them has ended."""
    if state.connections:
        state.emptied = asyncio.Event()
        await state.emptied.wait()
    if state.tasks:
        await asyncio.wait(set(state.tasks))


async def _cut(state: Connections) -> None:
    """End what did not end by itself. A task that ignores this too is left behind."""
    for connection in list(state.connections):
        connection.transport.abort()
    if state.tasks:
        _, pending = await asyncio.wait(set(state.tasks), timeout=CUT_S)
        for task in pending:
            task.cancel()
        if pending:
            _, pending = await asyncio.wait(pending, timeout=CUT_S)
        if pending:
            log.error("%d requests go on although their server has stopped", len(pending))


async def _sockets(listen: Listen) -> list[socket.socket]:
    """Bound sockets on every address of a host, all on one port.

    Raises:
        AddressInUseError: None could be had, or the port is taken on one of them.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise _unavailable(listen, error) from None
    sockets: list[socket.socket] = []
    last: OSError | None = None
    for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
        host, port = address[:2]
        # The first one may have let the system choose; the others follow it.
        at = (host, sockets[0].getsockname()[1] if sockets else port, *address[2:])
        try:
            sockets.append(_bound(family, at))
        except OSError as error:
            last = error
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                _close(sockets)
                raise _unavailable(listen, error) from None
    if not sockets:
        raise _unavailable(listen, last)
    return sockets


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    # Said to be TCP: only then asyncio turns Nagle's algorithm off, with which an answer waits 40 ms for an acknowledgement.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A port whose last connections still wait for late packets is free; one that somebody listens on is not. Never
        # SO_REUSEPORT: two servers would share its calls by chance.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", PROBE_S), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, name):  # where it is absent the system's own times count
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address[0] == "::" else 1)
        sock.bind(address)
        # Now, not when the server takes it over: two sockets may be bound to one port as long as nobody listens.
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _close(sockets: Iterable[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _unavailable(listen: Listen, error: OSError | None) -> AddressInUseError:
    return listen_error(listen.url, listen.host, listen.port, error)


def _tls_context(tls: TLSConfig) -> ssl.SSLContext:
    certfile, keyfile = require_server_files(tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certfile, keyfile)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgumentError(f"{certfile}: {error.strerror or error}", field="tls.certfile") from None
    if tls.cafile is not None:
        try:
            context.load_verify_locations(tls.cafile)
        except (OSError, ssl.SSLError) as error:
            raise InvalidArgumentError(f"{tls.cafile}: {error.strerror or error}", field="tls.cafile") from None
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client_cert else ssl.CERT_OPTIONAL
    return context
