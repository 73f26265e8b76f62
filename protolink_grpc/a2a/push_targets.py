"""Checks the URLs of webhooks, by the addresses that they resolve to. This module sends nothing.

A caller names a URL and this process connects to it; without a check, the caller could reach hosts that only this process can reach
(SSRF). So the name is resolved here, every address is checked, and the connection goes to a checked address, never to the name: a
later DNS answer has no effect. A redirect would be a new, unchecked target, so redirects are not followed.
"""

import asyncio
import re
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from protolink_grpc.errors import InvalidArgumentError, UnavailableError
from protolink_grpc.net.allowed_addresses import parse_networks
from protolink_grpc.net.checked_resolution import ForbiddenAddressError, Resolve, resolve_permitted

MAX_URL = 4096
"""Maximum characters of a URL; far more than any receiver needs."""

RESOLVERS = 4
"""Number of threads for name resolution. A DNS server that never responds blocks only one of them."""

_PORTS: Final = {"http": 80, "https": 443}
_VISIBLE: Final = re.compile(r"[!-~\u00a1-\U0010ffff]+")
_HOST: Final = re.compile(r"[A-Za-z0-9._~-]+|[0-9A-Fa-f:.]+")


@dataclass(frozen=True, slots=True)
class PushTarget:
    """The parsed parts of a URL; only these are used. Path and query may hold a secret and are not in the repr.

    Args:
        host: A name in ASCII, or a numeric address without brackets.
        target: Path and query.
    """

    scheme: str
    host: str
    port: int
    target: str = field(repr=False)

    @property
    def authority(self) -> str:
        """Host and port in the form of a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


def parse_target(url: str) -> PushTarget:
    """Parse the URL of a webhook.

    Raises:
        InvalidArgumentError: The URL is invalid or not usable for webhooks. Names the field `url`, without its value.
    """
    # Characters that URL parsers interpret differently are refused, not repaired: spaces, controls, backslashes.
    if not url or len(url) > MAX_URL or not _VISIBLE.fullmatch(url) or "\\" in url:
        raise _url_error(f"must be a URL of at most {MAX_URL} characters without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _url_error("is not a URL") from None
    if parts.scheme not in _PORTS:
        raise _url_error("must begin with http:// or https://")
    if "@" in parts.netloc:
        raise _url_error("must not contain credentials: use the field authentication")
    if port == 0:
        raise _url_error("must not have the port 0")
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (f"?{_quote_query(parts)}" if parts.query else "")
    return PushTarget(parts.scheme, _encode_host(parts), port or _PORTS[parts.scheme], target)


def _quote_query(parts: SplitResult) -> str:
    return quote(parts.query, safe="/?%:@!$&'()*+,;=~-._")


def _encode_host(parts: SplitResult) -> str:
    try:
        host = (parts.hostname or "").encode("idna").decode()
    except UnicodeError:
        host = ""
    if not host or not _HOST.fullmatch(host):
        raise _url_error("has no valid host")
    return host


class PushTargets:
    """Checks the targets of webhooks.

    Args:
        allow: Non-public networks that are permitted, such as "10.1.0.0/16", or `PRIVATE`.
        resolve: Resolves names to addresses; None uses the system's resolver, in threads.
    """

    def __init__(self, allow: Iterable[str] = (), resolve: Resolve | None = None) -> None:
        self._allowed = parse_networks(allow)
        self._resolve = resolve or self._resolve_in_thread
        self._threads: ThreadPoolExecutor | None = None

    async def check(self, url: str) -> PushTarget:
        """Parse a URL and check that notifications may be sent to it.

        A name that has no address now is accepted: each connection is checked again.

        Raises:
            InvalidArgumentError: The URL is invalid or not permitted. Names `url`.
        """
        target = parse_target(url)
        try:
            await self.addresses(target.host, target.port)
        except UnavailableError:
            pass  # without an address there is nothing to protect
        return target

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the numeric addresses of a host, after all of them passed the check.

        Raises:
            InvalidArgumentError: One of them is not permitted. Names `url`.
            UnavailableError: The name has no address now.
        """
        try:
            found = await resolve_permitted(self._resolve, host, port, self._allowed)
        except ForbiddenAddressError:
            raise _url_error("resolves to an address to which notifications are not allowed") from None
        if not found:
            raise UnavailableError("the host of the receiver has no address")
        return found

    async def _resolve_in_thread(self, host: str, port: int) -> Sequence[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="plgrpc-push-resolve")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _resolve_by_system, host, port)
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    def close(self) -> None:
        """Stop the resolver threads; `PushTargets` can be used again."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _resolve_by_system(host: str, port: int) -> Sequence[tuple[object, object, object, object, tuple[object, ...]]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _url_error(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(why, field="url")
