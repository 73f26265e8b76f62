"""URLs of endpoints: `grpc://host:port` without TLS, `grpcs://host:port` with TLS, and the schemes of the web.

Parsing converts an address to its canonical form, so that different spellings of an address are equal. `canonical_url` and
`origin_of` do this for URLs of every scheme; use them to compare URLs. Names are not resolved: `localhost`, `127.0.0.1` and `[::1]`
are three different addresses, because the name may resolve to either IP address.
"""

import errno
import ipaddress
import re
import socket
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, quote, urlsplit

import idna

from protolink_grpc.errors import AddressInUseError, InvalidArgumentError

SCHEMES = ("grpc", "grpcs")

WEB_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
"""The schemes of the web with their default ports."""

RUNTIME_SCHEME = "runtime://"
"""URLs of agents in the same process."""

MAX_URL_BYTES = 2_048
"""Maximum length of a URL from another party, in bytes."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts of URLs that mean this machine."""


@dataclass(frozen=True, slots=True)
class Address:
    """The gRPC address of a server or of a client's target. Port 0 lets the system choose a free port to listen on."""

    host: str
    port: int
    secure: bool = False

    @property
    def target(self) -> str:
        """The target of a gRPC channel."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'grpcs' if self.secure else 'grpc'}://{self.target}"

    @classmethod
    def parse(cls, url: str, *, field: str = "url") -> "Address":
        """Parse a URL. Without a scheme, it is `host:port` without TLS.

        Raises:
            InvalidArgumentError: The scheme is another one, the port is missing, or there is a path, query, fragment or user. Names
                `field`.
        """
        split = _split(url, url if "://" in url else f"grpc://{url}", field)
        if split.scheme not in SCHEMES:
            raise InvalidArgumentError(f"{url!r} must begin with grpc:// or grpcs://", field=field)
        try:
            port = split.port
        except ValueError:
            port = None
        if not split.hostname or port is None:
            raise InvalidArgumentError(f"{url!r} must name a host and a port, like grpc://127.0.0.1:50051", field=field)
        if split.path not in ("", "/") or split.query or split.fragment or "@" in split.netloc:
            raise InvalidArgumentError(f"{url!r} must consist of scheme, host and port only", field=field)
        return cls(_parse_host(url, split.hostname, field), port, split.scheme == "grpcs")


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address is the loopback interface. Names are not resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK


def listen_error(url: str, host: str, port: int, error: OSError | None) -> AddressInUseError:
    """Build the error of a server that cannot listen at an address.

    Args:
        error: The error of the system; None if it is not known.
    """
    number = error.errno if error is not None else None
    if number == errno.EADDRINUSE:
        message = f"port {port} on {host} is in use; choose another port, or port 0 for a free one"
    elif number == errno.EACCES:
        message = f"port {port} on {host} needs rights that this process does not have; choose one above 1023"
    elif number == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        message = f"{host} is not an address of this machine; choose one of its own, like 127.0.0.1"
    else:
        message = f"cannot listen on {url}: {(error.strerror if error is not None else None) or 'no reason was given'}"
    return AddressInUseError(message, url=url)


def find_listen_error(host: str, port: int) -> OSError | None:
    """Try to listen at an address and return the error, or None. For servers that do not report the error themselves."""
    try:
        for family, kind, proto, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, proto) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
    except OSError as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An address on the web. `path` is empty or begins with a slash, and never ends with one."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def secure(self) -> bool:
        return self.scheme in ("https", "wss")

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine."""
        return self.host in LOOPBACK

    @property
    def origin(self) -> str:
        """Scheme, host and port of the server; the scheme is `http` or `https`, also for WebSocket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @classmethod
    def parse(cls, url: str, *, field: str = "url") -> "WebAddress":
        """Parse a URL.

        Raises:
            InvalidArgumentError: The scheme is another one, the host is missing, or there are credentials, a query or a fragment.
                Names `field`.
        """
        split = _split(url, url, field)
        try:
            port = WEB_PORTS.get(split.scheme, 0) if split.port is None else split.port
            path = _canonical_path(split.path)
        except ValueError:
            raise InvalidArgumentError(f"{url!r} is not a URL", field=field) from None
        if split.scheme not in WEB_PORTS or not split.hostname:
            known = ", ".join(f"{scheme}://" for scheme in WEB_PORTS)
            raise InvalidArgumentError(f"{url!r} must begin with one of {known} and name a host", field=field)
        if "@" in split.netloc or split.query or split.fragment:
            # URLs appear in logs, so they must not contain credentials.
            raise InvalidArgumentError("must carry no credentials, no query and no fragment", field=field)
        return cls(split.scheme, _parse_host(url, split.hostname, field), port, path)


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """A name in this process, which needs no connection: `runtime://name`."""

    name: str

    @property
    def secure(self) -> bool:
        return True

    @property
    def url(self) -> str:
        return f"{RUNTIME_SCHEME}{self.name}"

    @classmethod
    def parse(cls, url: str, *, field: str = "url") -> "LocalAddress":
        """Parse a URL. Raises InvalidArgumentError for another scheme, or without a name; names `field`."""
        name = url.removeprefix(RUNTIME_SCHEME).strip("/")
        if not url.startswith(RUNTIME_SCHEME) or not name:
            raise InvalidArgumentError("must be a name in this process, like runtime://name", field=field)
        return cls(name)


Endpoint = Address | WebAddress | LocalAddress
"""The address of this package's services: over gRPC, over gRPC-Web, or in this process."""


@lru_cache(maxsize=4_096)  # called for every call, with the few URLs of a fleet
def canonical_url(url: str, *, field: str = "url") -> str:
    """Return the canonical form of an agent's URL, for comparisons.

    Scheme and host are lower case, an international host name is in its ASCII form, the dot at the end of a host is removed, IP
    addresses have their usual notation, and the port is always present. In a path, escapes of plain characters are decoded, `.` and
    `..` are resolved, and slashes at the end are removed. Different schemes are different addresses: `grpc://` is not `grpcs://`.

    Args:
        url: `grpc(s)://`, `http(s)://`, `ws(s)://` or `runtime://`; without a scheme, `host:port` of gRPC without TLS.

    Raises:
        InvalidArgumentError: The URL is invalid, or longer than `MAX_URL_BYTES`. Names `field`.
    """
    if len(url.encode(errors="replace")) > MAX_URL_BYTES:
        raise InvalidArgumentError(f"must be at most {MAX_URL_BYTES:,} bytes", field=field)
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if separator and f"{scheme}://" == RUNTIME_SCHEME:
        if not rest.strip("/") or _UNPRINTABLE.search(rest):
            raise InvalidArgumentError(f"{url!r} must name an agent, like runtime://echo", field=field)
        return RUNTIME_SCHEME + rest.strip("/")
    if separator and scheme in WEB_PORTS:
        return WebAddress.parse(url, field=field).url
    if separator and scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in (*SCHEMES, *WEB_PORTS, "runtime"))
        raise InvalidArgumentError(f"{url!r} must begin with one of {known}", field=field)
    return Address.parse(url, field=field).url


def comparable_url(url: str) -> str:
    """Return the canonical form of a URL. An invalid URL is returned unchanged and differs from every valid one."""
    try:
        return canonical_url(url)
    except InvalidArgumentError:
        return url


@lru_cache(maxsize=4_096)
def origin_of(url: str, *, field: str = "url") -> str:
    """Return the server of a URL, for every protocol: `https://host:port` with TLS, `http://host:port` without.

    Raises:
        InvalidArgumentError: As `canonical_url`, and for `runtime://`, which has no server. Names `field`.
    """
    canonical = canonical_url(url, field=field)
    if canonical.startswith(RUNTIME_SCHEME):
        raise InvalidArgumentError(f"{url!r} has no host and no port", field=field)
    if canonical.startswith(SCHEMES):
        scheme, _, target = canonical.partition("://")
        return f"{'https' if scheme == 'grpcs' else 'http'}://{target}"
    return WebAddress.parse(canonical, field=field).origin


# -- Canonical parts of a URL ------------------------------------------------------------------------------------------------

_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")
"""Characters that `urlsplit` removes silently, which would change the URL."""

_HOST_NAME = re.compile(r"[a-z0-9_~-]+(\.[a-z0-9_~-]+)*")
_NUMERIC = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)")
"""Hosts that resolvers accept as an IPv4 address in another notation: 127.1, 0x7f000001. Source: WHATWG URL, host parsing."""


def _split(url: str, whole: str, field: str) -> SplitResult:
    try:
        if _UNPRINTABLE.search(url):
            raise ValueError
        return urlsplit(whole)
    except ValueError:
        raise InvalidArgumentError(f"{url!r} is not a URL", field=field) from None


def _parse_host(url: str, host: str, field: str) -> str:
    try:
        return _canonical_host(host)
    except ValueError:
        raise InvalidArgumentError(f"{url!r} has an invalid host", field=field) from None


@lru_cache(maxsize=4_096)
def _canonical_host(host: str) -> str:
    """Return the canonical form of a host. Raises ValueError if it is invalid."""
    name = host.lower().removesuffix(".")
    try:
        number = ipaddress.ip_address(name)
    except ValueError:
        pass
    else:
        return str(getattr(number, "ipv4_mapped", None) or number)
    if not name.isascii():
        name = idna.encode(name, uts46=True).decode()  # idna.IDNAError is a ValueError
    if _NUMERIC.fullmatch(name):
        try:
            return socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            raise ValueError(host) from None
    if not _HOST_NAME.fullmatch(name):
        raise ValueError(host)
    return name


_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# Source: RFC 3986, sections 2.3 and 6.2.2.


def _canonical_path(path: str) -> str:
    """Return the canonical form of a path. Raises ValueError if it is not valid text."""

    def escape(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        return character if character in _UNRESERVED else match[0].upper()

    found: list[str] = []
    for segment in _ESCAPE.sub(escape, quote(path, safe="/%:@!$&'()*+,;=-._~")).split("/"):
        if segment == "..":
            del found[max(1, len(found) - 1) :]
        elif segment != ".":
            found.append(segment)
    return "/".join(found).rstrip("/")
