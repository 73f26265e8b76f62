"""Which URLs a secret may be sent to."""

import ipaddress
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from protolink_grpc.errors import InvalidArgumentError

SECURE_SCHEMES = frozenset({"https", "wss", "grpcs", "runtime"})
"""Nobody on the way can read along: TLS, or no way at all."""


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine, as far as its name says."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def demand_confidential(url: str, *, insecure_ok: bool) -> None:
    """Let a secret go to `url`.

    Raises:
        InvalidArgumentError: Over this scheme, to another machine, everybody on the way could read it.
    """
    if insecure_ok or _is_confidential(url):
        return
    split = _split(url, "credentials")
    where = f"{split.scheme}://{split.hostname}"
    raise InvalidArgumentError(
        f"they would go to {where} in the clear: use TLS, or allow it with insecure_ok=True", field="credentials"
    )


@lru_cache(maxsize=256)  # asked for each call, about few peers
def _is_confidential(url: str) -> bool:
    split = _split(url, "credentials")
    return split.scheme in SECURE_SCHEMES or is_loopback(split.hostname)


def endpoint(url: str, *, field: str) -> str:
    """`url`, which keys or tokens come from.

    Raises:
        InvalidArgumentError: It is not https, nor http on this machine, or it carries credentials; names `field`.
    """
    split = _split(url, field)
    if "@" in split.netloc:
        raise InvalidArgumentError("must not contain credentials", field=field)
    if not split.hostname or not (split.scheme == "https" or (split.scheme == "http" and is_loopback(split.hostname))):
        raise InvalidArgumentError("must be an https:// URL; http:// is for this machine only", field=field)
    return url


def _split(url: str, field: str) -> SplitResult:
    try:
        split = urlsplit(url)
        _ = split.hostname, split.port
    except ValueError:
        raise InvalidArgumentError("is not a URL", field=field) from None
    return split
