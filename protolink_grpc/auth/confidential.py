"""Which URLs a secret may be sent to."""

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.net.address import is_loopback

SECURE_SCHEMES = frozenset({"https", "wss", "grpcs", "runtime"})
"""Nobody on the way can read along: TLS, or no way at all."""


SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "cookie"})
"""Headers whose values identify a caller, whoever has set them."""


def check_headers(headers: Iterable[tuple[str, str]], url: str, *, insecure_ok: bool) -> None:
    """Let headers that were set by hand go to `url`. Raises InvalidArgumentError as `demand_confidential`, for SECRET_HEADERS."""
    if any(name.lower() in SECRET_HEADERS for name, _ in headers):
        demand_confidential(url, insecure_ok=insecure_ok, field="metadata")


def demand_confidential(url: str, *, insecure_ok: bool, field: str = "credentials") -> None:
    """Let a secret go to `url`.

    Raises:
        InvalidArgumentError: Over this scheme, to another machine, everybody on the way could read it; names `field`.
    """
    if insecure_ok or is_confidential(url):
        return
    split = _split(url, field)
    where = f"{split.scheme}://{split.hostname}"
    raise InvalidArgumentError(
        f"credentials would go to {where} in the clear: use TLS, or allow it with insecure_ok=True", field=field
    )


@lru_cache(maxsize=256)  # asked for each call, about few peers
def is_confidential(url: str) -> bool:
    """Whether nobody on the way to `url` can read or change what is sent. Raises InvalidArgumentError where it is no URL."""
    split = _split(url, "credentials")
    return split.scheme in SECURE_SCHEMES or is_loopback(split.hostname or "")


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
