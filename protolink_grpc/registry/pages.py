"""Pages of a list, and their tokens."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.registry.index import Position
from protolink_grpc.wire.registry import Key, RegisteredAgent

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1_000
# Source of both: ListAgentsRequest.page_size in plgrpc/v1/registry_service.proto.

MAX_PAGE_BYTES = 1 << 20
"""Limit of the encoded cards of one response, without its last card; with it they have less than 2 MiB.

Source: the comment of ListAgents in plgrpc/v1/registry_service.proto; a quarter of what gRPC receives by default."""

_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list. `next_page_token` is empty on the last page. A watch from `revision` yields later changes."""

    agents: tuple[RegisteredAgent, ...]
    next_page_token: str
    revision: int


def check_page_size(page_size: int) -> int:
    if not 0 <= page_size <= MAX_PAGE_SIZE:
        raise InvalidArgumentError(f"must be from 1 to {MAX_PAGE_SIZE:,}, or 0", field="page_size")
    return page_size or DEFAULT_PAGE_SIZE


def encode_token(position: Position, keys: Iterable[Key]) -> str:
    """Build the token for the position after `position` in the list of these keys."""
    name, url = (part.encode() for part in position)
    raw = _digest(keys) + len(name).to_bytes(2, "big") + name + url
    return base64.urlsafe_b64encode(raw).decode("ascii")


def decode_token(token: str, keys: Iterable[Key]) -> Position | None:
    """Return the position of a token, or None for an empty token.

    Raises:
        InvalidArgumentError: The token is invalid or belongs to another filter.
    """
    if not token:
        return None
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
        digest, rest = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        split = 2 + int.from_bytes(rest[:2], "big")
        name, url = rest[2:split].decode(), rest[split:].decode()
    except (binascii.Error, ValueError):  # ValueError: not ASCII, not UTF-8
        raise InvalidArgumentError("must be a token of an earlier page", field="page_token") from None
    if digest != _digest(keys):
        raise InvalidArgumentError("must be used with the same filter as the earlier page", field="page_token")
    return name, url


def _digest(keys: Iterable[Key]) -> bytes:
    return blake2b(repr(sorted(keys)).encode(), digest_size=_DIGEST_BYTES).digest()
