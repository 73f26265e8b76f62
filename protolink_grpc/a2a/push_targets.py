"""Where notifications may go: URLs of callers, checked by the addresses that they lead to. Nothing is sent from here.

A caller names a URL and this process connects to it: without a guard the caller could reach what only this process can. So a name
is resolved here, every address is judged, and the connection goes to one of the judged addresses, never to the name: what it
resolves to a moment later does not matter. A redirect would be a new target, which is why nobody follows one.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from protolink_grpc.errors import InvalidArgumentError, UnavailableError
from protolink_grpc.wire.reach import is_permitted, networks

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to numeric addresses; raises OSError where there are none."""

MAX_URL = 4096
"""Characters of a URL; far more than any receiver needs."""

RESOLVE_S = 5.0
"""How long a name may take to resolve; the system's own resolver gives one server as much."""

RESOLVERS = 4
"""Threads that resolve: a name whose server never answers blocks one of them, and nothing else of the process."""

_PORTS: Final = {"http": 80, "https": 443}
_VISIBLE: Final = re.compile(r"[!-~\u00a1-\U0010ffff]+")
_HOST: Final = re.compile(r"[A-Za-z0-9._~-]+|[0-9A-Fa-f:.]+")


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in its parts, the only ones that are ever used. Path and query may hold a secret and are not shown.

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
        """Host and port as a Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


def parse_target(url: str) -> Target:
    """The parts of a webhook's URL.

    Raises:
        InvalidArgumentError: Not a URL that can be posted to; names `url`, and repeats nothing of it.
    """
    # What another reader could understand otherwise is refused, not repaired: spaces, controls, backslashes.
    if not url or len(url) > MAX_URL or not _VISIBLE.fullmatch(url) or "\\" in url:
        raise _refused(f"must be a URL of at most {MAX_URL} characters without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused("is not a URL") from None
    if parts.scheme not in _PORTS:
        raise _refused("must begin with http:// or https://")
    if "@" in parts.netloc:
        raise _refused("must not hold credentials; authentication has fields of its own")
    if port == 0:
        raise _refused("has a port that nobody can listen on")
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (f"?{_query(parts)}" if parts.query else "")
    return Target(parts.scheme, _host(parts), port or _PORTS[parts.scheme], target)


def _query(parts: SplitResult) -> str:
    return quote(parts.query, safe="/?%:@!$&'()*+,;=~-._")


def _host(parts: SplitResult) -> str:
    try:
        host = (parts.hostname or "").encode("idna").decode()
    except UnicodeError:
        host = ""
    if not host or not _HOST.fullmatch(host):
        raise _refused("has no host that can be looked up")
    return host


class Targets:
    """Judges targets.

    Args:
        allow: Networks that are permitted although they are not public, "10.1.0.0/16" say, or `PRIVATE`.
        resolve: How names become addresses; None asks the system, in threads.
    """

    def __init__(self, allow: Iterable[str] = (), resolve: Resolve | None = None) -> None:
        self._allowed = networks(allow)
        self._resolve = resolve or self._ask_system
        self._threads: ThreadPoolExecutor | None = None

    async def check(self, url: str) -> Target:
        """The parts of a URL that may be pushed to.

        A name that has no address now is accepted: each connection is judged again.

        Raises:
            InvalidArgumentError: It may not be; names `url`.
        """
        target = parse_target(url)
        try:
            await self.addresses(target.host, target.port)
        except UnavailableError:
            pass  # no address, no danger
        return target

    async def addresses(self, host: str, port: int) -> list[str]:
        """Numeric addresses to connect to, none of which was refused.

        Raises:
            InvalidArgumentError: One of them must not be connected to; names `url`.
            UnavailableError: The name has none, or not now.
        """
        try:
            async with asyncio.timeout(RESOLVE_S):
                found = [ip_address(each) for each in await self._resolve(host, port)]
        except (OSError, UnicodeError, TimeoutError):
            found = []
        if not found:
            raise UnavailableError("the receiver's host has no address")
        # Each of them: a name with a public and a private address would else be a matter of luck.
        if not all(is_permitted(each, self._allowed) for each in found):
            raise _refused("leads to an address that notifications must not be sent to")
        return [str(each) for each in found]

    async def _ask_system(self, host: str, port: int) -> Sequence[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="plgrpc-push-resolve")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port)
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    def close(self) -> None:
        """Let go of the threads; `Targets` can be used again."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _look_up(host: str, port: int) -> Sequence[tuple[object, object, object, object, tuple[object, ...]]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _refused(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(why, field="url")
