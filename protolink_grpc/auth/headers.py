"""Reads credentials from the metadata of a request, and compares secrets."""

import hmac
import secrets
from collections.abc import Mapping

MAX_CREDENTIALS_CHARS = 8192
"""Maximum length of credentials. Source: the header limit of common HTTP servers and of gRPC metadata."""

_PEPPER = secrets.token_bytes(32)


def authorization(metadata: Mapping[str, str], scheme: str) -> str | None:
    """Return the token after `scheme` in the Authorization header; None for another scheme or form.

    Args:
        scheme: In lower case; the header's case does not matter (RFC 9110, 11.1).
    """
    name, _, rest = metadata.get("authorization", "").partition(" ")
    if name.lower() != scheme:
        return None
    return _valid_token(rest.strip(" "))


def header_value(metadata: Mapping[str, str], name: str) -> str | None:
    """Return the header with that lower-case name, if it is valid as credentials."""
    return _valid_token(metadata.get(name, "").strip(" "))


def _valid_token(text: str) -> str | None:
    return text if len(text) <= MAX_CREDENTIALS_CHARS and is_token(text) else None


def is_token(text: str) -> bool:
    """Whether a text is non-empty and contains only visible ASCII characters, which headers preserve."""
    return text != "" and text.isascii() and text.isprintable() and " " not in text


def keyed_digest(secret: str) -> bytes:
    """Return a keyed digest of a secret, which differs in each process, so that look-ups do not leak it by their time."""
    return hmac.digest(_PEPPER, secret.encode("utf-8", "surrogatepass"), "sha256")


def digests_equal(left: bytes, right: bytes) -> bool:
    """Compare digests in constant time."""
    return hmac.compare_digest(left, right)
