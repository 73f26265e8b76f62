"""HTTP to peers: one pool of connections per event loop, answers of bounded size, the errors of this package.

No protocol is known here: what is asked and what an answer means is the business of those who call.
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
from protolink_grpc.net.tracing import joined_to_trace

CONNECT_S = 10.0
"""How long a connection may take to come about."""

IDLE_CONNECTIONS, IDLE_S = 100, 30.0
"""Connections that are kept for the next request, and how long: shorter than servers keep them."""

# A peer whose machine is gone is noticed within a minute, also by a stream that waits in silence.
_KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)  # each system has some of them
]


FRAMED = "plgrpc.framed"
"""Key of a request's extensions: the body is read frame by frame, and the reader bounds each frame; the whole has no bound."""

Key = tuple[TLSConfig | None, bool, bool, AddressResolver | None]
_clients: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, httpx.AsyncClient]]" = (
    weakref.WeakKeyDictionary()
)


def http_channel_to(
    address: WebAddress, options: ChannelOptions, judge: AddressResolver | None = None
) -> httpx.AsyncClient:
    """The client of the running loop for that address: pooled, without redirects, cookies and a bound of time.

    Args:
        judge: Says where each new connection goes, unless a proxy makes it; None goes by name.
    """
    loop = asyncio.get_running_loop()
    clients = _clients.get(loop)
    if clients is None:
        # A client holds on to its loop, so that the weak key alone would never let either of them go.
        for gone in [known for known in _clients if known.is_closed()]:
            del _clients[gone]
        clients = _clients[loop] = {}
    key = (options.tls if address.secure else None, address.secure, _is_direct(address), judge)
    client = clients.get(key)
    if client is None:
        client = clients[key] = _open(*key)
    return client


def _is_direct(address: WebAddress) -> bool:
    # Calls to this machine must not go through somebody's proxy.
    return address.is_local or not getproxies() or bool(proxy_bypass(address.host))


def came_from(response: httpx.Response, address: WebAddress) -> str:
    """The numeric address that answered; empty where a proxy stands between and the URL does not say it either."""
    host: object = address.host
    if _is_direct(address) and (stream := response.extensions.get("network_stream")) is not None:
        host = (stream.get_extra_info("server_addr") or ("",))[0]
    try:
        return str(ip_address(str(host)))
    except ValueError:
        return ""


def _open(tls: TLSConfig | None, secure: bool, direct: bool, judge: AddressResolver | None) -> httpx.AsyncClient:
    # Whatever speaks no TLS needs no authorities, and loading them takes time.
    verify = ssl_context(tls) if secure else False
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=IDLE_S)
    transport = None
    if direct:
        transport = httpx.AsyncHTTPTransport(verify=verify, limits=limits, socket_options=_KEEPALIVE, trust_env=False)
        if judge is not None:
            # httpx has no argument for it.
            transport._pool._network_backend = PinnedBackend(judge)
    return httpx.AsyncClient(
        transport=transport,
        verify=verify,
        limits=limits,
        trust_env=not direct,
        timeout=httpx.Timeout(None, connect=CONNECT_S),
        follow_redirects=False,
        # What is not compressed cannot grow when it is read.
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [_bound]},
    )


def ssl_context(tls: TLSConfig | None) -> ssl.SSLContext:
    """Whom a client trusts, and who it is.

    Raises:
        InvalidArgumentError: A file is missing or holds no certificate; names the field.
    """
    given = tls or TLSConfig()
    field_name = "tls.cafile"
    try:
        context = ssl.create_default_context(cafile=given.cafile)
        if given.certfile is not None:
            field_name = "tls.certfile"
            context.load_cert_chain(given.certfile, given.keyfile)
    except OSError as error:  # ssl.SSLError is one, too
        raise InvalidArgumentError(error.strerror or "cannot be read", field=field_name) from None
    return context


async def close_http_channels() -> None:
    """Close every client of the running loop; the next call opens new ones."""
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.aclose()


async def _bound(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise InvalidAgentResponseError(f"{response.request.url} answered in an encoding that was not asked for")
    stream = response.stream
    is_framed = response.is_success and FRAMED in response.request.extensions
    if isinstance(stream, httpx.AsyncByteStream) and not is_framed:
        endless = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(stream, endless)


class _Bounded(httpx.AsyncByteStream):
    """A body of bounded size; of an endless one, each event is."""

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
                # 1 and 2: there is none.
                size = len(seen) - end if end > 2 else size
                tail = seen[-2:]
            if size > MAX_RESPONSE_BYTES:
                raise InvalidAgentResponseError(f"an answer has more than {MAX_RESPONSE_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@dataclass(slots=True)
class Sender:
    """What goes with each call of one caller to one peer: metadata and credentials, to nobody else.

    Args:
        address: What the caller named.
        trusted: Further origins that may have the credentials, should the peer point there.
        insecure_ok: The peer may point from TLS to a place in the clear.
    """

    address: WebAddress
    options: ChannelOptions
    trusted: frozenset[str] = field(default_factory=frozenset)
    insecure_ok: bool = False

    @property
    def has_secrets(self) -> bool:
        return bool(self.options.metadata) or self.options.credentials is not None

    def may_have(self, origin: str) -> bool:
        """Whether an origin is told who calls."""
        return origin == self.address.origin or origin in self.trusted

    async def headers(self, address: WebAddress) -> dict[str, str]:
        """The headers of a call. Raises what the credentials raise."""
        if not self.may_have(address.origin):
            return dict(joined_to_trace(()) or ())
        headers = dict(joined_to_trace(self.options.metadata) or ())
        if self.options.credentials is not None:
            headers.update(await self.options.credentials.headers(address.url))
        return headers

    async def refresh(self, refused: Mapping[str, str] | None) -> bool:
        """The peer refused these headers: whether there are others, with which the call may be tried once more."""
        credentials = self.options.credentials
        return credentials is not None and await credentials.refresh(refused)


@contextmanager
def http_errors(url: str, **metadata: str) -> Iterator[None]:
    """Turn what httpx raises into the errors of this package, peers named by their URL."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise http_error(error, url, **metadata) from None


_UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


def http_error(error: Exception, url: str, **metadata: str) -> ProtolinkError:
    """The error that a failed exchange means."""
    if isinstance(error, httpx.HTTPStatusError):
        response = error.response
        return status_error(response.status_code, url, said=_error_text(response), headers=response.headers, **metadata)
    why = str(error) or type(error).__name__
    if isinstance(error, _UNREACHED):
        return UnavailableError(f"{url} is not reachable: {why}", url=url, unreached="true", **metadata)
    if isinstance(error, httpx.TimeoutException):
        return deadline_error(url, **metadata)
    if isinstance(error, httpx.TransportError):
        return UnavailableError(f"{url} is not reachable: {why}", url=url, **metadata)
    return RemoteError(f"{url} gave no answer: {why}", **metadata)


def deadline_error(url: str, **metadata: str) -> DeadlineExceededError:
    """The wait is over before the answer came."""
    rest = "; the task goes on there" if "task_id" in metadata else ""
    return DeadlineExceededError(f"{url} did not answer in time{rest}", url=url, **metadata)


def _error_text(response: httpx.Response) -> str:
    """What a refusal says in words: the text of `{"error": ...}`, nothing of a page."""
    try:
        error = response.json().get("error")
        text = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError, httpx.ResponseNotRead):
        return ""
    return text[:500] if isinstance(text, str) else ""


SAFE_TO_REPEAT = "refused"
"""Key of an error's metadata: the request was turned away before anything was done."""


def status_error(
    status: int, url: str, *, said: str = "", headers: Mapping[str, str] | None = None, **metadata: str
) -> ProtolinkError:
    """The error for an HTTP status that is no success."""
    what = said or f"HTTP status {status}"
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
        return RemoteError(f"{url} redirects, which is not followed: name the place itself", **metadata)
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
