"""Checks that secrets are sent only to confidential URLs: over TLS, or within this machine."""

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.net.address import is_loopback

SECURE_SCHEMES = frozenset({"https", "wss", "grpcs", "runtime"})
"""Schemes with TLS or without a network."""


SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "cookie"})
"""Headers that contain credentials."""


def check_headers(headers: Iterable[tuple[str, str]], url: str, *, insecure_ok: bool) -> None:
    """Check that headers of the application may be sent to `url`. Raises as `check_confidential` if one is in SECRET_HEADERS."""
    if any(name.lower() in SECRET_HEADERS for name, _ in headers):
        check_confidential(url, insecure_ok=insecure_ok, field="metadata")


def check_confidential(url: str, *, insecure_ok: bool, field: str = "credentials") -> None:
    """Check that a secret may be sent to `url`.

    Raises:
        InvalidArgumentError: It would be sent unencrypted to another machine; names `field`.
    """
    if insecure_ok or is_confidential(url):
        return
    split = _split(url, field)
    where = f"{split.scheme}://{split.hostname}"
    raise InvalidArgumentError(
        f"credentials would be sent to {where} unencrypted: use TLS, or allow it with insecure_ok=True", field=field
    )


@lru_cache(maxsize=256)  # called for each call, with few different peers
def is_confidential(url: str) -> bool:
    """Whether requests to `url` cannot be read or changed on the way. Raises InvalidArgumentError if it is not a URL."""
    split = _split(url, "credentials")
    return split.scheme in SECURE_SCHEMES or is_loopback(split.hostname or "")


def check_endpoint(url: str, *, field: str) -> str:
    """Return the URL of a source of keys or tokens if it is valid.

    Raises:
        InvalidArgumentError: It is neither https nor http on this machine, or it contains credentials; names `field`.
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
