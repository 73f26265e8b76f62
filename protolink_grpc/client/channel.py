"""gRPC channels, one per event loop and address and shared by all clients, and calls over them with retries."""

import asyncio
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_status import rpc_status

from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.client.backoff import OUTAGE_S, Backoff, is_interruption
from protolink_grpc.errors import DeadlineExceededError, ProtolinkError, UnavailableError, UnimplementedError
from protolink_grpc.net.address import Address, Endpoint
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.net.tracing import add_origin
from protolink_grpc.wire.status import from_code, from_status, has_reason, requested_pause_s

CUT_CODES = frozenset({"UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"})
"""Status codes of calls whose connection broke, if the status has no ErrorInfo. CANCELLED comes from the network: a call that its
caller cancels raises CancelledError."""

MAX_RESPONSE_BYTES = 64 << 20
"""Limit of one response, in bytes: a task may be larger than gRPC's default of 4 MiB."""


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """How to connect, and the metadata and credentials of every call.

    Args:
        outage_s: How long an interrupted call is retried, in seconds.
    """

    tls: TLSConfig | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    credentials: Credentials | None = None
    outage_s: float = OUTAGE_S

    @property
    def is_anonymous(self) -> bool:
        """Whether calls have no credentials: neither `credentials`, nor metadata, nor a client certificate."""
        return self.tls is None and not self.metadata and self.credentials is None


MAX_NUMERIC_CHANNELS = 256
"""Maximum number of channels to numeric addresses per event loop: a peer's name may resolve to new addresses each time."""

CLOSE_S = 60.0
"""How long calls may continue on a channel that is closed to make room for another one, in seconds."""

Key = tuple[Address, TLSConfig | None, tuple[str, ...]]


@dataclass(slots=True)
class _Connection:
    """A channel and its stubs. They are kept because building a stub takes 9 to 12 us: it creates an object per method."""

    channel: grpc.aio.Channel
    stubs: dict[Callable[[Any], Any], Any] = field(default_factory=dict)


_connections: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, _Connection]]" = (
    weakref.WeakKeyDictionary()
)


def channel_to(address: Address, options: ChannelOptions, numeric: tuple[str, ...] = ()) -> grpc.aio.Channel:
    """Return the running loop's channel to an address. It connects at the first use and reconnects automatically.

    Args:
        numeric: The numeric addresses, of one family, to connect to instead of what the host's name resolves to.
    """
    return _connection_to(address, options.tls, numeric).channel


def stub_to(kind: Callable[[Any], Any], address: Address, options: ChannelOptions) -> Any:
    """Return the generated stub over `channel_to(address, options)`, built once per channel."""
    connection = _connection_to(address, options.tls, ())
    stub = connection.stubs.get(kind)
    if stub is None:
        stub = connection.stubs[kind] = kind(connection.channel)
    return stub


def _connection_to(address: Address, tls: TLSConfig | None, numeric: tuple[str, ...]) -> _Connection:
    loop = asyncio.get_running_loop()
    connections = _connections.get(loop)
    if connections is None:
        # A channel references its loop, so the weak key alone would never free either of them.
        for gone in [known for known in _connections if known.is_closed()]:
            del _connections[gone]
        connections = _connections[loop] = {}
    # DNS returns the same addresses in another order each time.
    key = (address, tls, tuple(sorted(numeric)))
    connection = connections.pop(key, None) if numeric else connections.get(key)
    if connection is None:
        connection = _Connection(_open_channel(*key))
        if numeric:
            _make_room(loop, connections)
    connections[key] = connection  # at the end: the first one is the least recently used
    return connection


_closing: set[asyncio.Task[None]] = set()


def _make_room(loop: asyncio.AbstractEventLoop, connections: dict[Key, _Connection]) -> None:
    """Close the least recently used channel to a numeric address if there are too many."""
    keys = [key for key in connections if key[2]]
    for key in keys[: max(0, len(keys) + 1 - MAX_NUMERIC_CHANNELS)]:
        closing = loop.create_task(connections.pop(key).channel.close(CLOSE_S))
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)


def _open_channel(address: Address, tls: TLSConfig | None, numeric: tuple[str, ...]) -> grpc.aio.Channel:
    arguments: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # By default gRPC waits a minute for the answer to a ping, and sends no pings while a stream is idle.
        ("grpc.http2.ping_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        # An agent that is reachable again is found within this time, no matter how long it was unreachable.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500),
        # Calls to this machine must not go through a proxy.
        ("grpc.enable_http_proxy", 0 if address.host in ("127.0.0.1", "localhost", "::1") else 1),
    ]
    target = address.target
    if numeric:
        # Certificates are verified for the host name, and the server receives it as authority, whatever address is used.
        arguments += [("grpc.ssl_target_name_override", address.host), ("grpc.default_authority", target)]
        target = _numeric_target(numeric, address.port)
    if address.secure:
        return grpc.aio.secure_channel(target, (tls or TLSConfig()).channel_credentials(), arguments)
    return grpc.aio.insecure_channel(target, arguments)


def _numeric_target(numeric: tuple[str, ...], port: int) -> str:
    """Return a gRPC target for several addresses of one family."""
    if ":" in numeric[0]:
        return "ipv6:" + ",".join(f"[{each.replace('%', '%25')}]:{port}" for each in numeric)
    return "ipv4:" + ",".join(f"{each}:{port}" for each in numeric)


def is_connected(address: Address, options: ChannelOptions) -> bool:
    """Return whether the running loop has a connected channel to that address."""
    return channel_to(address, options).get_state() is grpc.ChannelConnectivity.READY


async def connect_channel(address: Address, options: ChannelOptions, timeout_s: float) -> bool:
    """Connect the running loop's channel to an address. Return whether it is connected.

    It fails when an attempt to connect fails, or after `timeout_s`.
    """
    channel = channel_to(address, options)
    state = channel.get_state(try_to_connect=True)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while state in _CONNECTING:
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    return state is grpc.ChannelConnectivity.READY


_CONNECTING = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING)


async def close_channels() -> None:
    """Close all channels of the running loop. The next call opens new ones."""
    for connection in _connections.pop(asyncio.get_running_loop(), {}).values():
        await connection.channel.close()


async def call_unary(
    method: Any, request: Message, address: Endpoint, options: ChannelOptions, timeout_s: float | None
) -> Any:
    """Make a unary call, retry it after an interruption, and return the response.

    Retries are safe because every write has a request id. Refused credentials are renewed once if they can be.

    Args:
        method: A method of an asynchronous stub.
        timeout_s: Timeout of all attempts and the pauses between them, in seconds.
    """
    attempts = Attempts(address, options, timeout_s, options.outage_s)
    while True:
        metadata = await attempts.metadata()
        try:
            return await method(request, timeout=attempts.left_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if not await attempts.wait_for_retry(error):
                raise


async def call_stream(
    method: Any, request: Message, address: Endpoint, options: ChannelOptions, timeout_s: float | None
) -> AsyncGenerator[Any, None]:
    """Make a streaming call and yield its responses. Closing the generator cancels the call. Resuming is left to the caller."""
    attempts, has_begun = Attempts(address, options, timeout_s, 0.0), False
    while True:
        metadata = await attempts.metadata()
        call = method(request, timeout=attempts.left_s, metadata=metadata)
        try:
            async for response in call:
                has_begun = True
                yield response
            return
        except grpc.aio.AioRpcError as error:
            if has_begun or not await attempts.wait_for_retry(error):
                raise
        finally:
            if isinstance(call, AsyncGenerator):
                await call.aclose()  # a call over HTTP: this closes its connection
            else:
                call.cancel()


class Attempts:
    """The attempts of one request, within one timeout."""

    def __init__(self, address: Endpoint, options: ChannelOptions, timeout_s: float | None, outage_s: float) -> None:
        self._address = address
        self._options = options
        self._end = None if timeout_s is None else time.monotonic() + timeout_s
        self._headers: Mapping[str, str] = {}
        self._was_renewed = False
        self._backoff = Backoff(outage_s)

    @property
    def left_s(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    async def metadata(self) -> tuple[tuple[str, str], ...] | None:
        credentials = self._options.credentials
        if credentials is None:
            return add_origin(self._options.metadata)
        try:
            async with asyncio.timeout(self.left_s):
                self._headers = await credentials.headers(self._address.url)
        except TimeoutError:
            raise DeadlineExceededError(
                f"the credentials for {self._address.url} were not available in time", url=self._address.url
            ) from None
        # gRPC accepts only lower-case keys.
        own = tuple((key.lower(), value) for key, value in self._headers.items())
        return add_origin(self._options.metadata + own)

    async def wait_for_retry(self, error: grpc.aio.AioRpcError) -> bool:
        """Wait before the next attempt. Returns False if the error is to be raised instead."""
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            if self._was_renewed or self._options.credentials is None:
                return False
            self._was_renewed = True
            return await self._options.credentials.refresh(self._headers)
        converted = call_error(error, self._address)
        pause_s = self._backoff.next_s(converted) if is_interruption(converted) else None
        if pause_s is None:
            return False
        left_s = self.left_s
        # If no time is left after the pause, the next attempt ends with DEADLINE_EXCEEDED at once.
        await asyncio.sleep(pause_s if left_s is None else min(pause_s, left_s))
        return True


@asynccontextmanager
async def typed_errors(address: Endpoint, **metadata: str) -> AsyncIterator[None]:
    """Convert gRPC's errors to those of this package. The error for an unreachable peer contains its URL."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise call_error(error, address, **metadata) from None


def call_error(error: grpc.aio.AioRpcError, address: Endpoint, **metadata: str) -> ProtolinkError:
    """Build the error for a failed call.

    Its metadata has `unreached` if the request was not sent, and `protocol` if the peer speaks another protocol than gRPC.
    """
    status = rpc_status.from_call(error)
    code, details = error.code().name, error.details() or ""
    if code in CUT_CODES and (status is None or not has_reason(status)):
        if "failed to connect" in details:
            metadata["unreached"] = "true"
            if HTTP1_MARK in details:
                metadata["protocol"] = "HTTP/1"
            details += _hint(details, address)
        unavailable = UnavailableError(
            f"{address.url} is not reachable: {details or code}", url=address.url, **metadata
        )
        unavailable.retry_after_s = requested_pause_s(status) if status is not None else None
        return unavailable
    if status is not None:
        return from_status(status)
    if code == "DEADLINE_EXCEEDED":
        rest = "; the task continues there" if "task_id" in metadata else ""
        return DeadlineExceededError(f"{address.url} did not answer in time{rest}", url=address.url, **metadata)
    if code == "UNIMPLEMENTED":
        # An existing method that does not support the request responds with an ErrorInfo.
        return UnimplementedError(f"{address.url} does not have this service", url=address.url, **metadata)
    return from_code(code, details)


class RpcService:
    """One service of an agent at an address. A subclass names the class of its stubs.

    Args:
        stub_of: Returns a stub over the agent's channel.
    """

    stub_class: ClassVar[type[Any]]

    def __init__(
        self, address: Endpoint, options: ChannelOptions, stub_of: Callable[[Callable[[Any], Any]], Any]
    ) -> None:
        self._address = address
        self._options = options
        self._stub_of = stub_of

    @property
    def _stub(self) -> Any:
        return self._stub_of(type(self).stub_class)

    async def _call(self, method: str, request: Message, timeout_s: float | None, **about: str) -> Any:
        """Make a unary call. `about` are ids for the metadata of its errors."""
        async with typed_errors(self._address, **about):
            return await call_unary(getattr(self._stub, method), request, self._address, self._options, timeout_s)


HTTP1_MARK = "http1.x server"
"""Part of the details of gRPC's C core when an HTTP/1 server answers. gRPC reports this as text only."""

_HINTS = (
    # Text in the details, whether the address is secure, and the probable cause.
    ("Socket closed", False, "the server may require TLS: try {secure}"),
    ("Socket closed", True, "the server may require a client certificate"),
    ("WRONG_VERSION_NUMBER", True, "the server may not use TLS: try {clear}"),
    ("CERTIFICATE_VERIFY_FAILED", True, "the server's certificate is not trusted: set tls.cafile to its authority"),
    ("Hostname Verification", True, "the server's certificate is not for this host"),
)


def _hint(details: str, address: Endpoint) -> str:
    scheme = "grpc" if isinstance(address, Address) else "http"
    for fragment, secure, meaning in _HINTS:
        if fragment in details and secure == address.secure:
            return f" ({meaning.format(clear=f'{scheme}://', secure=f'{scheme}s://')})"
    return ""
