"""URLs of gRPC endpoints: `grpc://host:port` in the clear, `grpcs://host:port` over TLS."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from protolink_grpc.errors import InvalidArgumentError

SCHEMES = ("grpc", "grpcs")


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
