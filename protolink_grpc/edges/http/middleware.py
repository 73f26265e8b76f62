"""The middleware around every route: Host and Origin checks, CORS, response headers, and the error boundary.

Routes raise exceptions, which only the boundary here converts to responses. The request guard authenticates and authorizes.
"""

import math
import socket
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from protolink_grpc.edges.http.json_body import http_status
from protolink_grpc.edges.http.options import HttpOptions, Listen
from protolink_grpc.errors import DOMAIN, ProtolinkError, ResourceExhaustedError
from protolink_grpc.net.internal_errors import public_error

Headers = list[tuple[bytes, bytes]]

READ_HEADERS = (
    "Authorization",
    "Content-Type",
    "X-API-Key",
    "A2A-Version",
    "A2A-Extensions",
    "X-A2A-Extensions",
    "Last-Event-ID",
    "Idempotency-Key",
    "X-Request-ID",
    "X-Protolink-Request-ID",
    "X-Task-ID",
    "X-Session-ID",
    "traceparent",
    "tracestate",
    "Connect-Protocol-Version",
    "Connect-Timeout-Ms",
    "grpc-timeout",
    "X-Grpc-Web",
    "X-User-Agent",
)
"""Request headers that routes read, and that allowed web pages may send."""

SHOWN_HEADERS = (
    "ETag",
    "Last-Modified",
    "Retry-After",
    "WWW-Authenticate",
    "A2A-Extensions",
    "X-Request-ID",
    "X-Protolink-Request-ID",
    "grpc-status",
    "grpc-message",
    "grpc-status-details-bin",
    "*",
)
"""Response headers that allowed web pages may read; `*` stands for the headers that servicers add."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods without effects, which any page may send, because it cannot read the response."""

MAX_REQUEST_ID_BYTES = 128
MAX_KNOWN_HOSTS = 256
"""Maximum number of `Host` values whose check is cached."""

_STARTED = "plgrpc.response_started"
"""Key of an ASGI scope: the response has started and cannot be replaced. A key is cheaper than another wrapper of `send`."""

_ECHOED = frozenset({b"x-request-id", b"x-protolink-request-id"})


def with_middleware(app: ASGIApp, options: HttpOptions, *, challenges: Sequence[str] = ()) -> ASGIApp:
    """Wrap an application with all middleware of this module, innermost first.

    Args:
        challenges: Values of `WWW-Authenticate` for responses with status 401.
    """
    app = ErrorBoundary(app)
    if options.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=options.cors_origins,
            allow_methods=METHODS,
            allow_headers=(*READ_HEADERS, *options.cors_headers),
            expose_headers=SHOWN_HEADERS,
        )
    return HeaderGuard(app, Hosts(options), Origins(options), challenges)


class Hosts:
    """The accepted host names.

    A page whose own name resolves to this server (DNS rebinding) sends that name as Host. It cannot send an IP address, so these
    are all accepted.
    """

    def __init__(self, options: HttpOptions) -> None:
        public = urlsplit(options.public_url).hostname if options.public_url else None
        listen = Listen.parse(options.listen, options.tls).host
        named = [
            each.lower().rstrip(".") for each in (*options.allowed_hosts, public or "", listen, socket.gethostname())
        ]
        self._any = "*" in named
        self._names = frozenset({"localhost", *filter(None, named)})
        self._suffixes = (".localhost", *(each[1:] for each in named if each.startswith("*.")))
        self._known: set[bytes] = set()

    def allows(self, host: bytes) -> bool:
        """Return whether the value of a `Host` header is accepted."""
        if host in self._known:
            return True
        found = self._any or self._is_accepted(host)
        if found and len(self._known) < MAX_KNOWN_HOSTS:
            self._known.add(host)
        return found

    def _is_accepted(self, host: bytes) -> bool:
        try:
            name = (urlsplit(b"//" + host).hostname or b"").decode("ascii").rstrip(".")
        except ValueError:
            return False
        return name in self._names or name.endswith(self._suffixes) or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Origins:
    """The accepted origins of web pages. Clients other than browsers send no `Origin` and are not affected."""

    def __init__(self, options: HttpOptions) -> None:
        public = urlsplit(options.public_url)
        own = (f"{public.scheme}://{public.netloc}",) if options.public_url else ()  # an origin has no path
        named = (*options.cors_origins, *own)
        self._any = "*" in named
        self._allowed = frozenset(each.lower().rstrip("/").encode() for each in named)

    def allows(self, origin: bytes, host: bytes) -> bool:
        """Return whether a page of `origin` may call `host`. A page of the same host may."""
        origin = origin.lower()
        of_this_host = host != b"" and origin.partition(b"://")[2] == host.lower()
        return self._any or origin in self._allowed or of_this_host


class HeaderGuard:
    """Refuses requests with an unknown Host or Origin header, and adds headers to all responses."""

    def __init__(self, app: ASGIApp, hosts: Hosts, origins: Origins, challenges: Sequence[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._challenges: Headers = [(b"www-authenticate", each.encode("latin-1")) for each in challenges]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        host = origin = None
        hosts = 0
        echo: Headers | None = None
        for header in scope["headers"]:
            name = header[0]
            if name == b"host":
                host = header[1]
                hosts += 1
            elif name == b"origin":
                origin = header[1]
            elif name in _ECHOED and _can_be_echoed(header[1]):
                echo = [*(echo or ()), header]
        send = self._send_with_headers(scope, send, echo)
        refusal = self._find_refusal(scope, host, hosts, origin)
        if refusal is not None:
            await send_json(scope, send, *refusal)
        else:
            await self._app(scope, receive, send)

    def _find_refusal(
        self, scope: Scope, host: bytes | None, hosts: int, origin: bytes | None
    ) -> tuple[int, dict[str, Any]] | None:
        """Return status and body of the response if the request is refused, otherwise None. `hosts` is the number of Hosts."""
        if hosts != 1:
            if hosts or scope["http_version"] != "1.0":  # probes of old load balancers have no Host header
                return _status_and_body(400, "a request must have one Host header")
        elif host is not None and not self._hosts.allows(host):
            name = host.decode("ascii", "replace")[:100]
            return _status_and_body(
                421, f"the Host header {name!r} does not name this server; the option allowed_hosts adds names"
            )
        if origin is None or (scope["type"] == "http" and scope["method"] in SAFE_METHODS):
            return None
        if self._origins.allows(origin, host or b""):
            return None
        name = origin.decode("ascii", "replace")[:100]
        return _status_and_body(
            403, f"pages of {name!r} may not call this server; the option cors_origins adds origins"
        )

    def _send_with_headers(self, scope: Scope, send: Send, echo: Headers | None) -> Send:
        is_http1 = not scope["http_version"].startswith(("2", "3"))

        async def send_with_headers(message: Message) -> None:
            kind = message["type"]
            if kind == "http.response.start":
                scope[_STARTED] = True
                self._add_headers(message, echo, is_http1=is_http1)
            elif kind == "websocket.accept":
                scope[_STARTED] = True
            await send(message)

        return send_with_headers

    def _add_headers(self, message: Message, echo: Headers | None, *, is_http1: bool) -> None:
        # A new list, because a response object that is sent repeatedly keeps its own.
        headers = [*message.get("headers", ()), (b"x-content-type-options", b"nosniff")]
        names = {name for name, _ in headers}
        if b"cache-control" not in names:
            headers.append((b"cache-control", b"no-store"))
        if echo is not None:
            headers.extend(each for each in echo if each[0] not in names)
        status = message["status"]
        if status == 401 and b"www-authenticate" not in names:
            headers.extend(self._challenges)
        elif status == 413 and b"connection" not in names and is_http1:
            # Otherwise a client that has read the response would still send the rest of its body. HTTP/2 has no such header.
            headers.append((b"connection", b"close"))
        message["headers"] = headers


def _can_be_echoed(value: bytes) -> bool:
    return 0 < len(value) <= MAX_REQUEST_ID_BYTES and value.isascii() and value.decode().isprintable()


class ErrorBoundary:
    """Converts exceptions to responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except (ClientDisconnect, ClientDisconnected):
            pass  # the client has disconnected
        except Exception as error:
            status, body, headers = error_response(error, scope["path"])
            if not scope.get(_STARTED):
                await send_json(scope, send, status, body, headers)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1011 if status >= 500 else 1008})
            # The response stays incomplete, which closes the connection and shows the error to the peer.


def error_response(error: Exception, path: str = "") -> tuple[int, dict[str, Any], Headers]:
    """Return the status, body and headers of the response for an exception.

    An unexpected error is logged with its traceback, and sent as an incident id.
    """
    if isinstance(error, HTTPException):
        status, body = _status_and_body(error.status_code, error.detail)
        return status, body, [(k.lower().encode(), v.encode()) for k, v in (error.headers or {}).items()]
    error = public_error(error, repr(path))  # text from a caller is quoted, so that it cannot add lines to a log
    status = http_status(error)
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.reason,
        "domain": DOMAIN,
        "metadata": error.metadata,
    }
    body = {"error": {"code": status, "status": error.rule.grpc, "message": str(error), "details": [info]}}
    return status, body, retry_after_headers(error)


def retry_after_headers(error: ProtolinkError) -> Headers:
    """Return the `Retry-After` header of an error with a retry delay, in whole seconds, at least one."""
    if not isinstance(error, ResourceExhaustedError):
        return []
    return [(b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_s)))]


def _status_and_body(status: int, message: str) -> tuple[int, dict[str, Any]]:
    try:
        name = HTTPStatus(status).name
    except ValueError:
        name = "UNKNOWN"
    return status, {"error": {"code": status, "status": name, "message": message}}


async def send_json(
    scope: Scope, send: Send, status: int, body: dict[str, Any], headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send a JSON response to a request or to the handshake of a WebSocket."""
    content = orjson.dumps(body)
    kind = "http" if scope["type"] == "http" else "websocket.http"
    await send(
        {
            "type": f"{kind}.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(content)),
                *headers,
            ],
        }
    )
    await send({"type": f"{kind}.response.body", "body": content})
