"""Channels to peers: one per event loop and address, shared by all clients. Calls over them, repeated where they were cut."""

import asyncio
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_status import rpc_status

from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.client.backoff import OUTAGE_S, Backoff, is_cut
from protolink_grpc.errors import DeadlineExceededError, ProtolinkError, UnavailableError
from protolink_grpc.net.address import Address, Endpoint
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.net.tracing import joined_to_trace
from protolink_grpc.wire.status import from_code, from_status, has_reason, requested_pause_s

CUT_CODES = frozenset({"UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"})
"""How calls end whose connection broke, where the agent itself has not said anything. CANCELLED is by another party: a call that
its own caller cancels raises CancelledError."""

MAX_RESPONSE_BYTES = 64 << 20
"""Bound of one response: a whole task may be larger than what gRPC receives by default."""


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """How to connect, and what goes with every call: `metadata` as it is, headers that `credentials` make.

    Args:
        outage_s: How long a call that was cut is repeated.
    """

    tls: TLSConfig | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    credentials: Credentials | None = None
    outage_s: float = OUTAGE_S

    @property
    def is_anonymous(self) -> bool:
        """Whether nothing that goes with a call can say who calls."""
        return self.tls is None and not self.metadata and self.credentials is None


MAX_JUDGED = 256
"""Channels to numeric addresses that a loop keeps: such a peer's name may lead elsewhere each time."""

LEAVE_S = 60.0
"""How long calls may go on over a channel that makes room for another one."""

Key = tuple[Address, TLSConfig | None, tuple[str, ...]]


@dataclass(slots=True)
class _Connection:
    """A channel and the stubs over it: building a stub takes 9 to 12 us, for it makes an object per method."""

    channel: grpc.aio.Channel
    stubs: dict[Callable[[Any], Any], Any] = field(default_factory=dict)


_connections: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, _Connection]]" = (
    weakref.WeakKeyDictionary()
)


def channel_to(address: Address, options: ChannelOptions, numeric: tuple[str, ...] = ()) -> grpc.aio.Channel:
    """The channel of the running loop to that address. It connects when first used and reconnects by itself.

    Args:
        numeric: The numeric addresses, of one family, to connect to instead of what the host's name resolves to.
    """
    return _connection_to(address, options.tls, numeric).channel


def stub_to(kind: Callable[[Any], Any], address: Address, options: ChannelOptions) -> Any:
    """The generated stub of that class over `channel_to(address, options)`, built once per channel."""
    connection = _connection_to(address, options.tls, ())
    stub = connection.stubs.get(kind)
    if stub is None:
        stub = connection.stubs[kind] = kind(connection.channel)
    return stub


def _connection_to(address: Address, tls: TLSConfig | None, numeric: tuple[str, ...]) -> _Connection:
    loop = asyncio.get_running_loop()
    connections = _connections.get(loop)
    if connections is None:
        # A channel holds on to its loop, so that the weak key alone would never let either of them go.
        for gone in [known for known in _connections if known.is_closed()]:
            del _connections[gone]
        connections = _connections[loop] = {}
    # Names are answered with the same addresses in another order each time.
    key = (address, tls, tuple(sorted(numeric)))
    connection = connections.pop(key, None) if numeric else connections.get(key)
    if connection is None:
        connection = _Connection(_open(*key))
        if numeric:
            _make_room(loop, connections)
    connections[key] = connection  # at the end: the first one is the one not used for longest
    return connection


_leaving: set[asyncio.Task[None]] = set()


def _make_room(loop: asyncio.AbstractEventLoop, connections: dict[Key, _Connection]) -> None:
    """Let go of the channel to a numeric address that was not used for longest, where one more would be too many."""
    judged = [key for key in connections if key[2]]
    for key in judged[: max(0, len(judged) + 1 - MAX_JUDGED)]:
        leaving = loop.create_task(connections.pop(key).channel.close(LEAVE_S))
        _leaving.add(leaving)
        leaving.add_done_callback(_leaving.discard)


def _open(address: Address, tls: TLSConfig | None, numeric: tuple[str, ...]) -> grpc.aio.Channel:
    arguments: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # Without these two, gRPC waits a minute for the answer, and stops asking while a stream is quiet.
        ("grpc.http2.ping_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        # An agent that comes back is found within this time, however long it was away.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500),
        # Calls to this machine must not go through somebody's proxy.
        ("grpc.enable_http_proxy", 0 if address.host in ("127.0.0.1", "localhost", "::1") else 1),
    ]
    target = address.target
    if numeric:
        # Wherever it connects, certificates are verified for the name, and the name is what the server is told.
        arguments += [("grpc.ssl_target_name_override", address.host), ("grpc.default_authority", target)]
        target = _numeric_target(numeric, address.port)
    if address.secure:
        return grpc.aio.secure_channel(target, (tls or TLSConfig()).channel_credentials(), arguments)
    return grpc.aio.insecure_channel(target, arguments)


def _numeric_target(numeric: tuple[str, ...], port: int) -> str:
    """Several addresses of one family, as gRPC spells them."""
    if ":" in numeric[0]:
        return "ipv6:" + ",".join(f"[{each.replace('%', '%25')}]:{port}" for each in numeric)
    return "ipv4:" + ",".join(f"{each}:{port}" for each in numeric)


def is_connected(address: Address, options: ChannelOptions) -> bool:
    """Whether what is sent there now goes out at once, as far as is known here."""
    return channel_to(address, options).get_state() is grpc.ChannelConnectivity.READY


async def close_channels() -> None:
    """Close every channel of the running loop; the next call opens new ones."""
    for connection in _connections.pop(asyncio.get_running_loop(), {}).values():
        await connection.channel.close()


async def ask(
    method: Any, request: Message, address: Endpoint, options: ChannelOptions, timeout_s: float | None
) -> Any:
    """The one answer to a request, which is sent again where it was cut: every write has a request id.

    Credentials that are refused are renewed once, where they can be.

    Args:
        method: Of an asynchronous stub.
        timeout_s: Bound of all attempts and of the pauses between them.
    """
    attempts = _Attempts(address, options, timeout_s, options.outage_s)
    while True:
        metadata = await attempts.metadata()
        try:
            return await method(request, timeout=attempts.left_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if not await attempts.may_go_on(error):
                raise


async def answers(
    method: Any, request: Message, address: Endpoint, options: ChannelOptions, timeout_s: float | None
) -> AsyncGenerator[Any, None]:
    """The answers to a request. Closing this cancels the call. A stream that was cut is for its reader to go on with."""
    attempts, has_begun = _Attempts(address, options, timeout_s, 0.0), False
    while True:
        metadata = await attempts.metadata()
        call = method(request, timeout=attempts.left_s, metadata=metadata)
        try:
            async for answer in call:
                has_begun = True
                yield answer
            return
        except grpc.aio.AioRpcError as error:
            if has_begun or not await attempts.may_go_on(error):
                raise
        finally:
            if isinstance(call, AsyncGenerator):
                await call.aclose()  # a call over HTTP, whose connection is closed by this
            else:
                call.cancel()


class _Attempts:
    """One request, through all of its attempts and within one bound of time."""

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
            return joined_to_trace(self._options.metadata)
        try:
            async with asyncio.timeout(self.left_s):
                self._headers = await credentials.headers(self._address.url)
        except TimeoutError:
            raise DeadlineExceededError(
                f"there were no credentials for {self._address.url} in time", url=self._address.url
            ) from None
        # gRPC takes keys in lower case only.
        own = tuple((key.lower(), value) for key, value in self._headers.items())
        return joined_to_trace(self._options.metadata + own)

    async def may_go_on(self, error: grpc.aio.AioRpcError) -> bool:
        """Whether to make one more attempt, once it is time for it."""
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            if self._was_renewed or self._options.credentials is None:
                return False
            self._was_renewed = True
            return await self._options.credentials.refresh(self._headers)
        meant = call_error(error, self._address)
        pause_s = self._backoff.next_s(meant) if is_cut(meant) else None
        if pause_s is None:
            return False
        left_s = self.left_s
        # Where no time is left after that, the next attempt ends with DEADLINE_EXCEEDED at once.
        await asyncio.sleep(pause_s if left_s is None else min(pause_s, left_s))
        return True


@asynccontextmanager
async def typed_errors(address: Endpoint, **metadata: str) -> AsyncIterator[None]:
    """Turn what gRPC raises into the errors of this package, unreachable peers named by their URL."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise call_error(error, address, **metadata) from None


def call_error(error: grpc.aio.AioRpcError, address: Endpoint, **metadata: str) -> ProtolinkError:
    """The error that a failed call means."""
    status = rpc_status.from_call(error)
    code, details = error.code().name, error.details() or ""
    if code in CUT_CODES and (status is None or not has_reason(status)):
        if "failed to connect" in details:
            metadata["unreached"] = "true"
            details += _hint(details, address)
        cut = UnavailableError(f"{address.url} is not reachable: {details or code}", url=address.url, **metadata)
        cut.retry_after_s = requested_pause_s(status) if status is not None else None
        return cut
    if status is not None:
        return from_status(status)
    if code == "DEADLINE_EXCEEDED":
        rest = "; the task goes on there" if "task_id" in metadata else ""
        return DeadlineExceededError(f"{address.url} did not answer in time{rest}", url=address.url, **metadata)
    return from_code(code, details)


_HINTS = (
    # What the details contain, on a secure address or not, what it usually means.
    ("Socket closed", False, "it may serve TLS: try {secure}"),
    ("Socket closed", True, "it may ask for a client certificate that it trusts"),
    ("WRONG_VERSION_NUMBER", True, "it may serve in the clear: try {clear}"),
    ("CERTIFICATE_VERIFY_FAILED", True, "its certificate is not trusted: name the authority as tls.cafile"),
    ("Hostname Verification", True, "its certificate is not for this host"),
)


def _hint(details: str, address: Endpoint) -> str:
    scheme = "grpc" if isinstance(address, Address) else "http"
    for fragment, secure, meaning in _HINTS:
        if fragment in details and secure == address.secure:
            return f" ({meaning.format(clear=f'{scheme}://', secure=f'{scheme}s://')})"
    return ""
