"""The options of an HTTP port. An agent without one imports only this module, and no HTTP server."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.json_value import MAX_COMPLEXITY
from protolink_grpc.net.tls import TLSConfig


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one request and of one caller.

    Args:
        max_body_bytes: Larger bodies are refused with 413. Bodies with a Content-Length are refused before they are read.
        max_complexity: Bodies and WebSocket messages with more complex JSON are refused before they are parsed: each object and
            array counts 10, each key 4, each further value 1. `ServerOptions(max_complexity=)` is the same for the messages of
            gRPC, gRPC-Web and Connect.
        body_timeout_s: Maximum time for a body to arrive, in seconds.
        max_wait_s: Maximum time that a call waits for its task, in seconds; None means until its client disconnects. The task
            continues.
        max_streams_per_principal: Maximum number of open streams of one caller: event streams, WebSockets, and streams on
            WebSockets. All anonymous callers are one. Further ones are RESOURCE_EXHAUSTED. None means no limit.
    """

    max_body_bytes: int = (4 << 20) - (64 << 10)
    body_timeout_s: float = 30.0
    max_wait_s: float | None = None
    max_streams_per_principal: int | None = 1000
    max_complexity: int = MAX_COMPLEXITY


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one connection, and of their number.

    Args:
        max_header_bytes: Maximum size of a request line with its headers, and of the trailers. Data is counted in pieces of this
            size, so up to twice as much may be in memory.
        header_timeout_s: Maximum time for the headers to arrive, in seconds, from the start of the connection or of the request.
        write_timeout_s: Maximum time that a peer may not read, in seconds: 64 KiB are buffered, and the buffer does not shrink to
            16 KiB.
        max_connections: Further connections are answered with 503.
    """

    max_header_bytes: int
    header_timeout_s: float
    write_timeout_s: float
    max_connections: int


class MetricsRegistry(Protocol):
    """A CollectorRegistry or another collector of prometheus_client, which is not imported here."""

    def collect(self) -> Iterable[Any]: ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class HttpOptions:
    """The options of an HTTP server.

    Args:
        listen: `host:port`, or a URL of these; port 0 lets the system choose. `https://` needs `tls`, and `tls` means `https`.
        public_url: The URL for callers, if it differs from `listen` (for instance behind a proxy).
        allowed_hosts: Accepted `Host` headers besides IP addresses, loopback names, this machine's name and the hosts of `listen`
            and `public_url`; `*.example.org` means every name below, `*` any name. The check protects against web pages whose own
            name resolves to this server (DNS rebinding).
        cors_origins: Origins of web pages that may call from a browser, such as `https://app.example.org`; `*` means any. None by
            default.
        cors_headers: Request headers that these pages may send besides those that routes read.
        max_body_bytes, body_timeout_s, max_wait_s, max_streams_per_principal, max_complexity: See `Bounds`.
        max_header_bytes, header_timeout_s, write_timeout_s, max_connections: See `ConnectionLimits`.
        idle_timeout_s: Maximum idle time of a connection between two requests, in seconds.
        max_websocket_message_bytes: Larger messages close their WebSocket with code 1009.
        ping_interval_s, ping_timeout_s: Interval of pings to the peer of a WebSocket, and maximum time for its answer, in seconds.
        trusted_proxies: Addresses or networks whose `X-Forwarded-For` and `X-Forwarded-Proto` headers are used.
        root_path: Path prefix that a proxy removes.
        metrics_listen: Address of a separate server for `/metrics`, which needs no credentials. None serves it on `listen`, with
            the agent's authentication if it has one.
        metrics_registry: Further metrics for `/metrics`: a CollectorRegistry of prometheus_client. Its `collect` is called on the
            event loop. Names that begin with `plgrpc_` are reserved.
        mcp: Whether an agent serves its tools over MCP at `/mcp`. Needs the extra `mcp`; without it, calls are UNIMPLEMENTED.
    """

    listen: str = "127.0.0.1:0"
    tls: TLSConfig | None = None
    public_url: str = ""
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    cors_headers: tuple[str, ...] = ()
    max_body_bytes: int = Bounds().max_body_bytes
    body_timeout_s: float = Bounds().body_timeout_s
    max_wait_s: float | None = Bounds().max_wait_s
    max_streams_per_principal: int | None = Bounds().max_streams_per_principal
    max_complexity: int = Bounds().max_complexity
    max_header_bytes: int = 32 << 10
    header_timeout_s: float = 10.0
    idle_timeout_s: float = 75.0
    write_timeout_s: float = 60.0
    max_connections: int = 10_000
    max_websocket_message_bytes: int = Bounds().max_body_bytes
    ping_interval_s: float | None = 20.0
    ping_timeout_s: float | None = 20.0
    trusted_proxies: tuple[str, ...] = ()
    root_path: str = ""
    metrics_listen: str | None = None
    metrics_registry: MetricsRegistry | None = None
    mcp: bool = True

    @property
    def bounds(self) -> Bounds:
        """The limits that the request guard applies."""
        return Bounds(
            self.max_body_bytes,
            self.body_timeout_s,
            self.max_wait_s,
            self.max_streams_per_principal,
            self.max_complexity,
        )

    @property
    def limits(self) -> ConnectionLimits:
        """The limits that connections apply."""
        return ConnectionLimits(
            self.max_header_bytes, self.header_timeout_s, self.write_timeout_s, self.max_connections
        )


@dataclass(frozen=True, slots=True)
class Listen:
    """The address that an HTTP server listens on. Port 0 lets the system choose."""

    host: str
    port: int
    secure: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    @classmethod
    def parse(cls, listen: str, tls: TLSConfig | None = None, *, field: str = "listen") -> "Listen":
        """Parse `host:port` or a URL of these.

        Raises:
            InvalidArgumentError: The address is invalid, or its scheme does not fit `tls`. Names `field`.
        """
        try:
            split = urlsplit(listen if "://" in listen else f"//{listen}")
            port = split.port
        except ValueError:
            raise InvalidArgumentError(f"{listen!r} must be host:port, like 127.0.0.1:8080", field=field) from None
        if split.scheme not in ("", "http", "https") or not split.hostname or port is None:
            raise InvalidArgumentError(f"{listen!r} must be host:port, like 127.0.0.1:8080", field=field)
        if split.path not in ("", "/") or split.query or split.fragment or "@" in split.netloc:
            raise InvalidArgumentError(f"{listen!r} must consist of scheme, host and port only", field=field)
        if split.scheme == "https" and tls is None:
            raise InvalidArgumentError(f"{listen!r} needs certificates", field=field)
        if split.scheme == "http" and tls is not None:
            raise InvalidArgumentError(f"{listen!r} is unencrypted, but certificates are given", field=field)
        return cls(split.hostname, port, tls is not None)
