"""HTTP connections to peers: one connection pool per event loop, responses of bounded size, and the errors of this package.

This module knows no protocol above HTTP.
"""

import asyncio
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.request import getproxies, proxy_bypass

import httpx

from protolink_grpc.client.channel import MAX_RESPONSE_BYTES, ChannelOptions
from protolink_grpc.errors import (
    ContentTypeNotSupportedError,
    DeadlineExceededError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    MessageTooLargeError,
    PermissionDeniedError,
    ProtolinkError,
    RemoteError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.net.address import WebAddress
from protolink_grpc.net.pinned_connections import AddressResolver, PinnedBackend
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.net.tracing import add_origin

CONNECT_S = 10.0
"""Timeout for opening a connection, in seconds."""

IDLE_CONNECTIONS, IDLE_S = 100, 30.0
"""How many idle connections are kept and for how long. The time is shorter than that of servers."""

# A peer whose machine has disappeared is detected within a minute, also on an idle stream.
_KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)  # not every system has all of them
]


FRAMED = "plgrpc.framed"
"""Key of a request's extensions: the reader limits each frame of the body, and the body as a whole has no limit."""

Key = tuple[TLSConfig | None, bool, bool, AddressResolver | None]
_clients: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, httpx.AsyncClient]]" = (
    weakref.WeakKeyDictionary()
)


def http_channel_to(
    address: WebAddress, options: ChannelOptions, resolve: AddressResolver | None = None
) -> httpx.AsyncClient:
    """Return the running loop's HTTP client for an address: with a connection pool, without redirects, cookies or timeout.

    Args:
        resolve: Resolves and checks the address of each new connection that does not use a proxy; None resolves as usual.
    """
    loop = asyncio.get_running_loop()
    clients = _clients.get(loop)
    if clients is None:
        # A client references its loop, so the weak key alone would never free either of them.
        for gone in [known for known in _clients if known.is_closed()]:
            del _clients[gone]
        clients = _clients[loop] = {}
    key = (options.tls if address.secure else None, address.secure, _is_direct(address), resolve)
    client = clients.get(key)
    if client is None:
        client = clients[key] = _open_client(*key)
    return client


def _is_direct(address: WebAddress) -> bool:
    # Calls to this machine must not go through a proxy.
    return address.is_local or not getproxies() or bool(proxy_bypass(address.host))


def remote_address(response: httpx.Response, address: WebAddress) -> str:
    """Return the numeric address that sent the response, or an empty text if it is unknown because of a proxy."""
    host: object = address.host
    if _is_direct(address) and (stream := response.extensions.get("network_stream")) is not None:
        host = (stream.get_extra_info("server_addr") or ("",))[0]
    try:
        return str(ip_address(str(host)))
    except ValueError:
        return ""


def _open_client(
    tls: TLSConfig | None, secure: bool, direct: bool, resolve: AddressResolver | None
) -> httpx.AsyncClient:
    # Unencrypted connections need no certificate authorities, and loading them takes time.
    verify = ssl_context(tls) if secure else False
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=IDLE_S)
    transport = None
    if direct:
        transport = httpx.AsyncHTTPTransport(verify=verify, limits=limits, socket_options=_KEEPALIVE, trust_env=False)
        if resolve is not None:
            # httpx has no argument for the network backend.
            transport._pool._network_backend = PinnedBackend(resolve)
    return httpx.AsyncClient(
        transport=transport,
        verify=verify,
        limits=limits,
        trust_env=not direct,
        timeout=httpx.Timeout(None, connect=CONNECT_S),
        follow_redirects=False,
        # An uncompressed body cannot grow when it is decoded.
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [_limit_body]},
    )


def ssl_context(tls: TLSConfig | None) -> ssl.SSLContext:
    """Build the TLS settings of a client: trusted authorities and its own certificate.

    Raises:
        InvalidArgumentError: A file is missing or contains no certificate; names the field.
    """
    given = tls or TLSConfig()
    field_name = "tls.cafile"
    try:
        context = ssl.create_default_context(cafile=given.cafile)
        if given.certfile is not None:
            field_name = "tls.certfile"
            context.load_cert_chain(given.certfile, given.keyfile)
    except OSError as error:  # includes ssl.SSLError
        raise InvalidArgumentError(error.strerror or "cannot be read", field=field_name) from None
    return context


async def close_http_channels() -> None:
    """Close all clients of the running loop. The next call opens new ones."""
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.aclose()


async def _limit_body(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise InvalidAgentResponseError(f"{response.request.url} sent an encoded response, which was not requested")
    stream = response.stream
    is_framed = response.is_success and FRAMED in response.request.extensions
    if isinstance(stream, httpx.AsyncByteStream) and not is_framed:
        endless = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _LimitedBody(stream, endless)


class _LimitedBody(httpx.AsyncByteStream):
    """A response body of limited size. In an event stream, the limit applies to each event."""

    def __init__(self, stream: httpx.AsyncByteStream, endless: bool) -> None:
        self._stream = stream
        self._endless = endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail = 0, b""
        async for chunk in self._stream:
            size += len(chunk)
            if self._endless:
                seen = tail + chunk
                end = max(seen.rfind(b"\n\n") + 2, seen.rfind(b"\n\r\n") + 3)
                # 1 and 2 mean that the end of an event was not found.
                size = len(seen) - end if end > 2 else size
                tail = seen[-2:]
            if size > MAX_RESPONSE_BYTES:
                raise InvalidAgentResponseError(f"a response has more than {MAX_RESPONSE_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@dataclass(slots=True)
class Sender:
    """The metadata and credentials of one caller for one peer.

    Args:
        address: The address that the caller named.
        trusted: Further origins that may receive the credentials if the peer points there.
        insecure_ok: Whether the peer may point from TLS to an unencrypted address.
    """

    address: WebAddress
    options: ChannelOptions
    trusted: frozenset[str] = field(default_factory=frozenset)
    insecure_ok: bool = False

    @property
    def has_secrets(self) -> bool:
        return bool(self.options.metadata) or self.options.credentials is not None

    def may_receive_credentials(self, origin: str) -> bool:
        """Return whether an origin may receive the credentials."""
        return origin == self.address.origin or origin in self.trusted

    async def headers(self, address: WebAddress) -> dict[str, str]:
        """Build the headers of a call. Raises the errors of the credentials."""
        if not self.may_receive_credentials(address.origin):
            return dict(add_origin(()) or ())
        headers = dict(add_origin(self.options.metadata) or ())
        if self.options.credentials is not None:
            headers.update(await self.options.credentials.headers(address.url))
        return headers

    async def refresh(self, refused: Mapping[str, str] | None) -> bool:
        """Renew credentials that the peer refused. Returns whether the call may be tried once more."""
        credentials = self.options.credentials
        return credentials is not None and await credentials.refresh(refused)


@contextmanager
def http_errors(url: str, **metadata: str) -> Iterator[None]:
    """Convert httpx's errors to those of this package. They contain the peer's URL."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise http_error(error, url, **metadata) from None


_UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


def http_error(error: Exception, url: str, **metadata: str) -> ProtolinkError:
    """Build the error for a failed request."""
    if isinstance(error, httpx.HTTPStatusError):
        response = error.response
        text = _error_of_body(response)
        return status_error(response.status_code, url, text=text, headers=response.headers, **metadata)
    why = str(error) or type(error).__name__
    if isinstance(error, _UNREACHED):
        return UnavailableError(f"{url} is not reachable: {why}", url=url, unreached="true", **metadata)
    if isinstance(error, httpx.TimeoutException):
        return deadline_error(url, **metadata)
    if isinstance(error, httpx.TransportError):
        return UnavailableError(f"{url} is not reachable: {why}", url=url, **metadata)
    return RemoteError(f"{url} sent no valid response: {why}", **metadata)


def deadline_error(url: str, **metadata: str) -> DeadlineExceededError:
    """Build the error for a timeout."""
    rest = "; the task continues there" if "task_id" in metadata else ""
    return DeadlineExceededError(f"{url} did not answer in time{rest}", url=url, **metadata)


def _error_of_body(response: httpx.Response) -> str:
    """Return the text of an error response `{"error": ...}`; empty for HTML pages."""
    try:
        error = response.json().get("error")
        text = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError, httpx.ResponseNotRead):
        return ""
    return text[:500] if isinstance(text, str) else ""


SAFE_TO_REPEAT = "refused"
"""Key of an error's metadata: the request was refused before it had any effect."""


def status_error(
    status: int, url: str, *, text: str = "", headers: Mapping[str, str] | None = None, **metadata: str
) -> ProtolinkError:
    """Build the error for an HTTP status other than success.

    Args:
        text: The error text in the response, if any.
    """
    what = text or f"HTTP status {status}"
    if status in (502, 503):
        if status == 503:
            metadata[SAFE_TO_REPEAT] = "true"
        return UnavailableError(f"{url} is not available: {what}", url=url, **metadata)
    if status in (408, 504):
        return deadline_error(url, **metadata)
    if status == 429:
        after = (headers or {}).get("retry-after", "")
        seconds = float(after[:9]) if after.isascii() and after.isdigit() else 1.0
        return ResourceExhaustedError(f"{url}: {what}", retry_after_s=seconds, **metadata)
    if 300 <= status < 400:
        return RemoteError(f"{url} redirects, which is not followed: use the final URL", **metadata)
    cls = _BY_STATUS.get(status)
    if cls is None:
        return RemoteError(f"{url} refused: {what}", code=f"HTTP_{status}", **metadata)
    return cls(f"{url}: {what}", **metadata)


_BY_STATUS: dict[int, type[ProtolinkError]] = {
    400: InvalidArgumentError,
    401: UnauthenticatedError,
    403: PermissionDeniedError,
    404: UnimplementedError,
    405: UnimplementedError,
    413: MessageTooLargeError,
    415: ContentTypeNotSupportedError,
    422: InvalidArgumentError,
    501: UnimplementedError,
}
