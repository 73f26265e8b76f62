"""Sends one notification over HTTP: builds the request and interprets the response.

It uses httpcore instead of httpx. The network backend of httpcore opens each connection, so every connection goes to a checked
address, while the pool shares connections by the name that TLS verifies. httpx would also log each URL with its query.
"""

import asyncio
import re
import ssl
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

import httpcore

from protolink_grpc.a2a.push_targets import PushTarget, PushTargets, parse_target
from protolink_grpc.a2a.values import V03
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.net.pinned_connections import PinnedBackend

log = get_logger(__name__)

MAX_BODY_BYTES = 1 << 16
"""Maximum bytes of a response body that are read. The body is ignored, but a connection is reused only if all of it is read."""

DRAIN_S = 1.0
"""Timeout for reading the body of a response, in seconds."""

KEEPALIVE_S = 15.0
"""How long an idle connection is kept, in seconds; the events of a run follow each other quickly."""

_MEDIA_TYPES: Final = {V03: "application/json"}
_MEDIA_TYPE: Final = "application/a2a+json"

_SCHEME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_VALUE: Final = re.compile(r"[!-~](?:[ -~]{0,8190}[!-~])?")

_WAIT, _GONE = frozenset({429, 503}), 410


@dataclass(frozen=True, slots=True)
class PostResult:
    """The result of an attempt.

    Args:
        delivered: The receiver accepted the notification.
        gone: The receiver refuses all further attempts (410).
        retry_after_s: Pause in seconds that the receiver requests.
        why: Reason, for the log; contains nothing of the request.
    """

    delivered: bool
    why: str
    gone: bool = False
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification for one receiver. Fields that may be secret are not in its repr.

    Args:
        version: `V1` or `V03`, the version with which the config was registered.
        body: JSON.
    """

    config: PushConfig = field(repr=False)
    version: str
    body: bytes = field(repr=False)

    def headers(self) -> list[tuple[str, str]]:
        config = self.config
        headers = [
            ("Content-Type", _MEDIA_TYPES.get(self.version, _MEDIA_TYPE)),
            ("Content-Length", str(len(self.body))),
            ("User-Agent", "protolink-grpc"),
            ("Accept", "*/*"),
        ]
        if config.scheme and config.credentials:
            headers.append(("Authorization", f"{config.scheme} {config.credentials}"))
        if config.token:
            headers.append(("X-A2A-Notification-Token", config.token))
        return headers


def check_header_values(config: PushConfig) -> None:
    """Check that the token, the scheme and the credentials are valid header values, also against header injection.

    Raises:
        InvalidArgumentError: Names the field as A2A spells it, without its value.
    """
    fields = (
        ("token", config.token, _VALUE),
        ("authentication.scheme", config.scheme, _SCHEME),
        ("authentication.credentials", config.credentials, _VALUE),
    )
    for name, value, form in fields:
        if value and not form.fullmatch(value):
            raise InvalidArgumentError("is not a valid header value", field=name)


class Poster:
    """A connection pool for receivers. Use and close it in one event loop.

    Args:
        timeout_s: Timeout of one attempt in seconds, from the name resolution to the status of the response.
        tls: TLS context that verifies https receivers; None trusts the same authorities as httpx.
    """

    def __init__(
        self, targets: PushTargets, *, timeout_s: float, connections: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self._targets = targets
        self._timeout_s = timeout_s
        self._connections = connections
        self._tls = tls
        self._pools: dict[str, httpcore.AsyncConnectionPool] = {}
        self._lock = asyncio.Lock()

    async def post(self, notification: Notification) -> PostResult:
        """Make one attempt and return its result; connection errors and refused addresses are results, too."""
        try:
            async with asyncio.timeout(self._timeout_s):
                target = parse_target(notification.config.url)
                pool = await self._pool(target.scheme)
                response = await pool.handle_async_request(_build_request(notification, target))
        except TimeoutError:
            return PostResult(False, f"no response within {self._timeout_s:g} s")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            return PostResult(False, _describe(error))
        except ProtolinkError as error:  # the host has a refused address, or none
            return PostResult(False, str(error))
        try:
            await _drain(response)
        finally:
            await response.aclose()
        return _read_result(response)

    async def _pool(self, scheme: str) -> httpcore.AsyncConnectionPool:
        async with self._lock:
            if scheme not in self._pools:
                if scheme == "https" and self._tls is None:
                    self._tls = await asyncio.to_thread(_default_tls_context)
                self._pools[scheme] = httpcore.AsyncConnectionPool(
                    ssl_context=self._tls,
                    max_connections=self._connections,
                    max_keepalive_connections=self._connections,
                    keepalive_expiry=KEEPALIVE_S,
                    network_backend=PinnedBackend(self._targets.addresses),
                )
            return self._pools[scheme]

    async def close(self) -> None:
        """Close all connections; the poster can be used again."""
        pools, self._pools = self._pools, {}
        self._lock = asyncio.Lock()  # the next use may be on another loop
        for pool in pools.values():
            await pool.aclose()
        self._targets.close()


def _build_request(notification: Notification, target: PushTarget) -> httpcore.Request:
    url = httpcore.URL(
        scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.target.encode()
    )
    headers = [("Host", target.authority), *notification.headers()]
    return httpcore.Request("POST", url, headers=headers, content=notification.body)


async def _drain(response: httpcore.Response) -> None:
    """Read and ignore the body, so that the connection can be reused. Only the status of a response matters."""
    read = 0
    try:
        async with asyncio.timeout(DRAIN_S):
            async for chunk in response.aiter_stream():
                read += len(chunk)
                if read > MAX_BODY_BYTES:
                    return
    except (TimeoutError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
        log.debug("the body of a response did not end in time: %r", error)


def _default_tls_context() -> ssl.SSLContext:
    """Return a TLS context with httpx's certificate authorities. It reads some hundred kB, so it must not run on the loop."""
    import httpx  # slow to import, and needed only here

    return httpx.create_ssl_context()


def _describe(error: Exception) -> str:
    """Return the kind of a connection error. The text of the error has details of the network, which the caller must not get."""
    if _is_certificate_error(error):
        return "cannot connect: the certificate is not valid"
    if isinstance(error, httpcore.ConnectError):
        return "cannot connect"
    return f"the connection failed: {type(error).__name__}"


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _read_result(response: httpcore.Response) -> PostResult:
    status = response.status
    wait_s = 0.0
    if status in _WAIT:
        found = [value for name, value in response.headers if name.lower() == b"retry-after"]
        wait_s = retry_after_s(found[0].decode("latin-1")) if found else 0.0
    # A redirect counts as a failure: its target is not checked.
    return PostResult(200 <= status < 300, f"HTTP {status}", status == _GONE, wait_s)


def retry_after_s(value: str) -> float:
    """Return the seconds of a Retry-After header, 0 if it is invalid. Source: RFC 9110 section 10.2.3."""
    value = value.strip()
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
