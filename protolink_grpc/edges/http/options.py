"""How an HTTP port behaves. Values only: an agent without such a port reads them, and imports none of what serves it."""

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
    """What one request, and what one caller, may cost.

    Args:
        max_body_bytes: Larger bodies are refused with 413, before they are read where they say their length.
        max_complexity: Bodies, and messages of a WebSocket, whose JSON is above it are refused before it is parsed: each object and
            array counts 10, each key 4, each further value 1. `ServerOptions(max_complexity=)` is the same for gRPC and gRPC-Web.
        body_timeout_s: How long a body may take to arrive.
        max_wait_s: How long a call may wait for its task; None means as long as its client does. The task goes on.
        max_streams_per_principal: Event streams, WebSockets and streams on WebSockets that one caller has open, everybody
            anonymous together; further ones are RESOURCE_EXHAUSTED. None means no bound.
    """

    max_body_bytes: int = (4 << 20) - (64 << 10)
    body_timeout_s: float = 30.0
    max_wait_s: float | None = None
    max_streams_per_principal: int | None = 1000
    max_complexity: int = MAX_COMPLEXITY


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one peer may cost.

    Args:
        max_header_bytes: Of a request line with its headers, and of the trailers. Counted by pieces of that size, so that up to
            twice as much may be held.
        header_timeout_s: For a head to arrive, from the connection or its own first byte on.
        write_timeout_s: For a peer to take what is written: 64 KiB wait, and it does not read them down to 16 KiB.
        max_connections: Further ones are answered with 503.
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
    """How an HTTP server behaves.

    Args:
        listen: `host:port`, or a URL of these; port 0 lets the system choose. `https://` needs `tls`, and `tls` means `https`.
        public_url: Where callers reach it, if that is not where it listens (behind a proxy, say).
        allowed_hosts: What `Host` may say besides IP addresses, loopback names, this machine's name and the hosts of `listen` and
            `public_url`; `*.example.org` means every name below, `*` any name. It is what keeps a web page that points its own
            name at us (DNS rebinding) from being read here.
        cors_origins: Web pages that may call from a browser, like `https://app.example.org`; `*` means any. None by default.
        cors_headers: Request headers that these may send besides the ones that the gateway itself reads.
        max_body_bytes, body_timeout_s, max_wait_s, max_streams_per_principal, max_complexity: See `Bounds`.
        max_header_bytes, header_timeout_s, write_timeout_s, max_connections: See `connections.ConnectionLimits`.
        idle_timeout_s: For the next request of a connection to begin.
        max_websocket_message_bytes: Larger messages end their WebSocket with code 1009.
        ping_interval_s, ping_timeout_s: A WebSocket's peer is pinged so often, and has so long for its answer.
        trusted_proxies: Addresses or networks whose `X-Forwarded-For` and `X-Forwarded-Proto` count.
        root_path: Prefix that a proxy cuts off.
        metrics_listen: Serves `/metrics` here, to everybody, and only here; None leaves it on `listen`, for callers that the agent
            knows where it knows any.
        metrics_registry: Further metrics for `/metrics`: a CollectorRegistry of prometheus_client. Its `collect` is called on the
            event loop. Names that begin with `plgrpc_` are reserved.
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

    @property
    def bounds(self) -> Bounds:
        """What the request guard needs of this."""
        return Bounds(
            self.max_body_bytes,
            self.body_timeout_s,
            self.max_wait_s,
            self.max_streams_per_principal,
            self.max_complexity,
        )

    @property
    def limits(self) -> ConnectionLimits:
        """What each connection needs of this."""
        return ConnectionLimits(
            self.max_header_bytes, self.header_timeout_s, self.write_timeout_s, self.max_connections
        )


@dataclass(frozen=True, slots=True)
class Listen:
    """Where an HTTP server listens. Port 0 lets the system choose."""

    host: str
    port: int
    secure: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    @classmethod
    def parse(cls, listen: str, tls: TLSConfig | None = None, *, field: str = "listen") -> "Listen":
        """Raises InvalidArgumentError: it is not a host with a port, or `https://` without certificates; names `field`."""
        try:
            split = urlsplit(listen if "://" in listen else f"//{listen}")
            port = split.port
        except ValueError:
            raise InvalidArgumentError(f"{listen!r} names no host and port", field=field) from None
        if split.scheme not in ("", "http", "https") or not split.hostname or port is None:
            raise InvalidArgumentError(f"{listen!r} must be host:port, like 127.0.0.1:8080", field=field)
        if split.path not in ("", "/") or split.query or split.fragment or "@" in split.netloc:
            raise InvalidArgumentError(f"{listen!r} must consist of scheme, host and port only", field=field)
        if split.scheme == "https" and tls is None:
            raise InvalidArgumentError(f"{listen!r} needs certificates", field=field)
        if split.scheme == "http" and tls is not None:
            raise InvalidArgumentError(f"{listen!r} is in the clear, but certificates are given", field=field)
        return cls(split.hostname, port, tls is not None)
