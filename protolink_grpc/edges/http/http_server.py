"""The HTTP server: it serves an ASGI application on one port, on the running event loop.

It uses uvicorn's protocols without uvicorn's `Server`, which is written for a process of its own: that class installs signal
handlers, exits the process if it cannot listen, and checks ten times a second whether it should stop.
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
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.logs import get_logger
from protolink_grpc.net.address import listen_error
from protolink_grpc.net.tls import TLSConfig, require_server_files

log = get_logger(__name__)

BACKLOG = 2048
"""Length of the kernel's queue of new connections; the system may have a lower limit."""

CUT_S = 1.0
"""Seconds until the asyncio tasks of requests on aborted connections are canceled, and until canceled ones are abandoned."""

PROBE_S = 60
"""Idle seconds after which TCP keepalive probes the peer. Four unanswered probes close the connection."""


class HttpServer:
    """Serves an application on one port. It can be started again after a stop.

    Args:
        drain: Begins when the server shuts down; the application's streams watch it.
        rejected: Called with a reason when a connection or request is dropped because of its peer.
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
        """The URL of the listening address."""
        return self.listen.url

    @property
    def is_running(self) -> bool:
        return bool(self._servers)

    @property
    def connections(self) -> int:
        """The number of open connections, including WebSockets."""
        return len(self._connections.connections) if self._connections is not None else 0

    @property
    def bytes_received(self) -> int:
        """The bytes received since the last start, without those of WebSockets."""
        return self._connections.bytes_received if self._connections is not None else 0

    async def start(self) -> str:
        """Listen. Returns the URL with the actual port.

        Raises:
            AddressInUseError: The port is in use, or not permitted.
            InvalidArgumentError: The certificates are invalid.
        """
        loop = asyncio.get_running_loop()
        context = _tls_context(self._options.tls) if self._options.tls is not None else None
        config = self._config()
        state = Connections(self._options.limits, self._rejected)
        app_state: dict[str, Any] = {}
        self.drained.clear()
        sockets = await _listen(self.listen)
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
        self._update_date(loop, state)
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
            # Compression needs memory for each connection, and costs more per message than a local network saves.
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            workers=1,  # the default is read from the environment
            proxy_headers=bool(options.trusted_proxies),
            forwarded_allow_ips=list(options.trusted_proxies),
            server_header=False,
            root_path=options.root_path,
            # uvicorn declares it as int, but only passes it to `call_later`.
            timeout_keep_alive=options.idle_timeout_s,  # type: ignore[arg-type]
        )
        config.load()
        return config

    def _update_date(self, loop: asyncio.AbstractEventLoop, state: Connections) -> None:
        """Set the Date header of responses, once a second."""
        state.default_headers = [(b"date", formatdate(time(), usegmt=True).encode())]
        self._clock = loop.call_later(1.0, self._update_date, loop, state)

    async def drain(self) -> None:
        """Announce the shutdown. Requests are still accepted; streams end after their current batch."""
        self.drained.begin()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Refuse new connections, wait up to `grace_s` seconds for running requests, then abort the rest."""
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
                await _wait_until_idle(state)
        except TimeoutError:
            await _abort(state)
        if self._clock is not None:
            self._clock.cancel()
        await asyncio.gather(*(server.wait_closed() for server in servers))


async def _wait_until_idle(state: Connections) -> None:
    """Return when all connections are closed and the asyncio tasks of their requests have ended."""
    if state.connections:
        state.emptied = asyncio.Event()
        await state.emptied.wait()
    if state.tasks:
        await asyncio.wait(set(state.tasks))


async def _abort(state: Connections) -> None:
    """Close all connections and cancel the asyncio tasks of their requests. Tasks that ignore this are logged and abandoned."""
    for connection in list(state.connections):
        connection.transport.abort()
    if state.tasks:
        _, pending = await asyncio.wait(set(state.tasks), timeout=CUT_S)
        for task in pending:
            task.cancel()
        if pending:
            _, pending = await asyncio.wait(pending, timeout=CUT_S)
        if pending:
            log.error("%d requests are still running although their server has stopped", len(pending))


async def _listen(listen: Listen) -> list[socket.socket]:
    """Open listening sockets on every address of a host, all on the same port.

    Raises:
        AddressInUseError: The port is in use on one of the addresses, or no address can be used.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise listen_error(listen.url, listen.host, listen.port, error) from None
    sockets: list[socket.socket] = []
    last: OSError | None = None
    for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
        host, port = address[:2]
        # If the system chose the port of the first socket, the others use the same one.
        at = (host, sockets[0].getsockname()[1] if sockets else port, *address[2:])
        try:
            sockets.append(_listen_at(family, at))
        except OSError as error:
            last = error
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                _close(sockets)
                raise listen_error(listen.url, listen.host, listen.port, error) from None
    if not sockets:
        raise listen_error(listen.url, listen.host, listen.port, last)
    return sockets


def _listen_at(family: int, address: tuple[Any, ...]) -> socket.socket:
    # With the protocol given, asyncio turns Nagle's algorithm off, which delays a response by 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # SO_REUSEADDR allows a port in TIME_WAIT, but not one in use. SO_REUSEPORT is not set: two servers would share the calls
        # of a port at random.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", PROBE_S), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, name):  # otherwise the system's times apply
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address[0] == "::" else 1)
        sock.bind(address)
        # Before the socket is passed to asyncio: until one of them listens, several sockets may be bound to one port.
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _close(sockets: Iterable[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


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
