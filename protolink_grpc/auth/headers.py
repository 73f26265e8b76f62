"""How credentials lie in the metadata of a request, and how secrets are compared. Whose they are is decided elsewhere."""

import hmac
import secrets
from collections.abc import Mapping

MAX_CREDENTIALS_CHARS = 8192
"""Longer credentials are none. Source: the header limit of common HTTP servers, and of gRPC metadata."""

_PEPPER = secrets.token_bytes(32)


def authorization(metadata: Mapping[str, str], scheme: str) -> str | None:
    """What follows `scheme` in the Authorization header; None for another scheme, or for anything but one token.

    Args:
        scheme: In lower case; the header's case does not matter (RFC 9110, 11.1).
    """
    said, _, rest = metadata.get("authorization", "").partition(" ")
    if said.lower() != scheme:
        return None
    return _token(rest.strip(" "))


def header_value(metadata: Mapping[str, str], name: str) -> str | None:
    """The header of that lower-case name, if it can be credentials."""
    return _token(metadata.get(name, "").strip(" "))


def _token(text: str) -> str | None:
    return text if len(text) <= MAX_CREDENTIALS_CHARS and is_token(text) else None


def is_token(text: str) -> bool:
    """Whether text is visible ASCII and nothing else, and there is some: what a header carries unchanged."""
    return text != "" and text.isascii() and text.isprintable() and " " not in text


def blinded(secret: str) -> bytes:
    """A digest that says nothing about the secret, not even by the time a lookup of it takes: it differs in each process."""
    return hmac.digest(_PEPPER, secret.encode("utf-8", "surrogatepass"), "sha256")


def same(left: bytes, right: bytes) -> bool:
    """Compare digests in a time that does not depend on them."""
    return hmac.compare_digest(left, right)
