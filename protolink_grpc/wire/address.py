"""URLs of endpoints: `grpc://host:port` in the clear and `grpcs://host:port` over TLS, and those of the web."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from protolink_grpc.errors import InvalidArgumentError

SCHEMES = ("grpc", "grpcs")

WEB_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
"""The schemes of the web, and the port of each where a URL names none."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""This machine, as URLs name it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens or a client connects. Port 0 lets the system choose when listening."""

    host: str
    port: int
    secure: bool = False

    @property
    def target(self) -> str:
        """The form that gRPC takes."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'grpcs' if self.secure else 'grpc'}://{self.target}"

    @classmethod
    def parse(cls, url: str, *, field: str = "url") -> "Address":
        """The address of a URL; without a scheme, `host:port` in the clear.

        Raises:
            InvalidArgumentError: Another scheme, no port, or parts that such a URL does not have; names `field`.
        """
        try:
            split = urlsplit(url if "://" in url else f"grpc://{url}")
        except ValueError:
            raise InvalidArgumentError(f"{url!r} is not a URL", field=field) from None
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
        return cls(split.hostname, port, split.scheme == "grpcs")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Where something on the web is: `path` begins with a slash or is empty, and never ends with one."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def secure(self) -> bool:
        return self.scheme in ("https", "wss")

    @property
    def is_local(self) -> bool:
        """On this machine."""
        return self.host in LOOPBACK

    @property
    def origin(self) -> str:
        """Who is spoken to: scheme, host and port, the same over HTTP and WebSocket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @classmethod
    def parse(cls, url: str, *, field: str = "url") -> "WebAddress":
        """The address of a URL.

        Raises:
            InvalidArgumentError: Another scheme, no host, credentials, a query or a fragment; names `field`.
        """
        try:
            split = urlsplit(url)
            port = split.port or WEB_PORTS.get(split.scheme, 0)
        except ValueError:
            raise InvalidArgumentError(f"{url!r} is not a URL", field=field) from None
        if split.scheme not in WEB_PORTS or not split.hostname:
            known = ", ".join(f"{scheme}://" for scheme in WEB_PORTS)
            raise InvalidArgumentError(f"{url!r} must begin with one of {known} and name a host", field=field)
        if "@" in split.netloc or split.query or split.fragment:
            # What a URL carries ends up in logs: credentials belong elsewhere.
            raise InvalidArgumentError("must carry no credentials, no query and no fragment", field=field)
        return cls(split.scheme, split.hostname, port, split.path.rstrip("/"))
