"""Hashes of passwords (scrypt), which are checked in threads."""

import asyncio
import binascii
import hashlib
import secrets
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Self

from protolink_grpc.auth.headers import digests_equal
from protolink_grpc.errors import InvalidArgumentError, ResourceExhaustedError
from protolink_grpc.models.arguments import checks_arguments

PREFIX = "scrypt$"

COST, BLOCK, PARALLEL = 1 << 14, 8, 5
"""Parameters of new hashes: 16 MiB and about 0.1 s. Source: OWASP Password Storage Cheat Sheet, scrypt."""

MAX_MEMORY = 256 << 20
"""Maximum memory for checking one hash, in bytes."""

MAX_PARALLEL, MAX_DIGITS = 16, 8
"""How much more work than new hashes a hash may need, and the maximum length of its numbers."""

MAX_WAITING = 32
"""Maximum number of running and waiting checks, because each is expensive and unauthenticated callers cause them."""


@checks_arguments
def hash_password(password: str) -> str:
    """Hash a password for storage: `scrypt$<cost>$<block>$<parallel>$<salt>$<hash>`, with salt and hash in base64."""
    salt = secrets.token_bytes(16)
    parsed = PasswordHash(COST, BLOCK, PARALLEL, salt, b"")
    digest = parsed.digest(password, 32)
    return f"{PREFIX}{COST}${BLOCK}${PARALLEL}${b64encode(salt).decode()}${b64encode(digest).decode()}"


@dataclass(frozen=True, slots=True, repr=False)
class PasswordHash:
    """The hash of a password."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    expected: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the result of `hash_password`, with any parameters.

        Raises:
            InvalidArgumentError: It is not such a hash, or checking it would need more than MAX_MEMORY.
        """
        try:
            *numbers, salt, expected = text.removeprefix(PREFIX).split("$")
            cost, block, parallel = map(_parse_number, numbers)
            parsed = cls(cost, block, parallel, b64decode(salt, validate=True), b64decode(expected, validate=True))
        except (ValueError, binascii.Error):
            raise InvalidArgumentError("is not a scrypt$... hash", field="password") from None
        if (
            cost < 2
            or cost & (cost - 1)
            or not 1 <= parallel <= MAX_PARALLEL
            or not block > 0
            or parsed.memory > MAX_MEMORY
        ):
            raise InvalidArgumentError("has scrypt parameters out of range", field="password")
        if len(parsed.salt) < 8 or not 16 <= len(parsed.expected) <= 64:
            raise InvalidArgumentError("has a salt or hash that is too short", field="password")
        return parsed

    @classmethod
    def like(cls, other: "PasswordHash") -> Self:
        """Return a hash that no password matches and whose check takes as long as that of `other`."""
        return cls(other.cost, other.block, other.parallel, secrets.token_bytes(16), secrets.token_bytes(32))

    @property
    def memory(self) -> int:
        """The memory that `digest` needs, in bytes. Source: RFC 7914, section 2, and OpenSSL's additional blocks."""
        return 128 * self.block * (self.cost + self.parallel + 2)

    def digest(self, password: str, length: int) -> bytes:
        """Compute the hash of a password, which is intentionally slow."""
        return hashlib.scrypt(
            password.encode("utf-8", "surrogatepass"),
            salt=self.salt,
            n=self.cost,
            r=self.block,
            p=self.parallel,
            maxmem=self.memory + (1 << 20),
            dklen=length,
        )

    def matches(self, password: str) -> bool:
        return digests_equal(self.digest(password, len(self.expected)), self.expected)


def _parse_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        raise ValueError("not a parameter")
    return int(text)


class PasswordChecks:
    """Checks hashes in two separate threads.

    Raises (from `matches`):
        ResourceExhaustedError: More than MAX_WAITING checks are running or waiting.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, "plgrpc-passwords")
        self._slots = BoundedSemaphore(MAX_WAITING)

    async def matches(self, stored: PasswordHash, password: str) -> bool:
        if not self._slots.acquire(blocking=False):
            raise ResourceExhaustedError("too many passwords are being checked", retry_after_s=1.0)
        check = self._threads.submit(stored.matches, password)
        # A canceled wait does not end work that has started: its slot becomes free when the work ends.
        check.add_done_callback(lambda _: self._slots.release())
        return await asyncio.wrap_future(check)
