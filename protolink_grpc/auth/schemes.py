"""Authenticators for API keys, passwords, client certificates, and combinations. Tokens are in `bearer`.

Every authenticator reads only its own header with its own prefix, and never a URL. The result for invalid credentials is None, so
that the caller does not learn which part was wrong.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Protocol

from protolink_grpc.auth.headers import authorization, digests_equal, header_value, is_token, keyed_digest
from protolink_grpc.auth.passwords import PREFIX, PasswordChecks, PasswordHash
from protolink_grpc.auth.principal import Principal, check_principal_name
from protolink_grpc.errors import InvalidArgumentError, ResourceExhaustedError, UnauthenticatedError, UnavailableError
from protolink_grpc.models.arguments import checks_arguments


class Authenticator(Protocol):
    """Authenticates the caller of a request, and describes the scheme for the agent card.

    It is called concurrently and from several event loops.
    """

    async def __call__(self, method: str, metadata: Mapping[str, str]) -> Principal | None:
        """Return the caller, or None without valid credentials of this kind.

        Raises:
            UnavailableError, ResourceExhaustedError: The credentials cannot be checked now.
        """
        ...

    def schemes(self) -> dict[str, dict[str, Any]]:
        """Return the entries of the card's `securitySchemes` by name.

        They have `type`, `scheme`, `description`, `metadata`, and A2A's further fields (`in` and `name`, `bearerFormat`)."""
        ...


@checks_arguments
class APIKeyAuth:
    """Authenticates callers by an API key, in a header or in `Authorization: ApiKey <key>`. The former takes precedence.

    Args:
        valid_keys: The scopes or the Principal of each key. Without a Principal the caller's name is `key-` and the first 12 hex
            digits of the key's SHA-256.
        header: The name of the header.

    Raises:
        InvalidArgumentError: A key is not valid in a header; contains its position.
    """

    def __init__(self, valid_keys: Mapping[str, Iterable[str] | Principal], header: str = "X-API-Key") -> None:
        self._header = header_name(header)
        self._display_header = header
        self._known: dict[bytes, tuple[bytes, Principal]] = {}
        for position, (key, owner) in enumerate(valid_keys.items()):
            if not is_token(key):
                raise InvalidArgumentError("must be visible ASCII without spaces", field=f"valid_keys[{position}]")
            digest = keyed_digest(key)
            self._known[digest] = digest, _to_owner(key, owner, f"valid_keys[{position}]")

    async def __call__(self, method: str, metadata: Mapping[str, str]) -> Principal | None:
        key = header_value(metadata, self._header) or authorization(metadata, "apikey")
        if key is None:
            return None
        digest = keyed_digest(key)
        found = self._known.get(digest)
        return found[1] if found is not None and digests_equal(found[0], digest) else None

    def schemes(self) -> dict[str, dict[str, Any]]:
        own = _scheme("apiKey", None, "Simple API key authentication")
        return {"apiKey": own | {"in": "header", "name": self._display_header}}


_NO_DIGEST = bytes(32)
"""A digest that no secret has."""


@checks_arguments
class BasicAuth:
    """Authenticates callers by a user name, which becomes the principal's name, and a password (RFC 7617).

    Args:
        valid_credentials: The password of each user, as plain text or a hash from `hash_password`. Checking a hash is expensive, so
            successful checks are cached (as keyed digests) for the life of the process.
        scopes: The scopes of the users.

    Raises:
        InvalidArgumentError: A user name is invalid, or a text begins like a hash and is not one.
    """

    def __init__(self, valid_credentials: Mapping[str, str], scopes: Mapping[str, Iterable[str]] | None = None) -> None:
        self._plain: dict[str, bytes] = {}
        self._hashed: dict[str, PasswordHash] = {}
        self._principals: dict[str, Principal] = {}
        for user, password in valid_credentials.items():
            if ":" in user:
                raise InvalidArgumentError("cannot contain a colon", field="valid_credentials")
            self._principals[user] = _to_principal(user, (scopes or {}).get(user, ()), "valid_credentials")
            if password.startswith(PREFIX):
                self._hashed[user] = PasswordHash.parse(password)
            else:
                self._plain[user] = keyed_digest(password)
        # An unknown user takes as long as a wrong password.
        self._dummy_hash = next((PasswordHash.like(each) for each in self._hashed.values()), None)
        self._verified: dict[str, bytes] = {}
        self._checks = PasswordChecks()

    async def __call__(self, method: str, metadata: Mapping[str, str]) -> Principal | None:
        token = authorization(metadata, "basic")
        pair = None if token is None else _parse_basic(token)
        if pair is None:
            return None
        user, password = pair
        return self._principals[user] if await self._matches(user, password) else None

    async def _matches(self, user: str, password: str) -> bool:
        digest = keyed_digest(password)
        if self._dummy_hash is None or user in self._plain:
            return digests_equal(self._plain.get(user, _NO_DIGEST), digest)
        if digests_equal(self._verified.get(user, _NO_DIGEST), digest):
            return True
        if (
            not await self._checks.matches(self._hashed.get(user, self._dummy_hash), password)
            or user not in self._hashed
        ):
            return False
        self._verified[user] = digest
        return True

    def schemes(self) -> dict[str, dict[str, Any]]:
        return {"http": _scheme("http", "basic", "HTTP Basic authentication (username:password)")}


CERTIFICATE = "@certificate"
"""The metadata key under which an edge adds the name in the client's certificate, as a CertificateName."""


class CertificateName(str):
    """The name in a verified certificate. It has its own type, which a caller's header can never have."""

    __slots__ = ()


@checks_arguments
class MutualTLS:
    """Authenticates callers by a client certificate signed by the server's authority. Its name becomes the principal's.

    Args:
        scopes: The scopes of the callers.
    """

    def __init__(self, scopes: Mapping[str, Iterable[str]] | None = None) -> None:
        self._scopes = {name: frozenset(_check_scopes(each, f"scopes.{name}")) for name, each in (scopes or {}).items()}

    async def __call__(self, method: str, metadata: Mapping[str, str]) -> Principal | None:
        name = metadata.get(CERTIFICATE)
        if not isinstance(name, CertificateName) or not name:
            return None
        return Principal(str(name), self._scopes.get(name, frozenset()))

    def schemes(self) -> dict[str, dict[str, Any]]:
        return {"mutualTLS": _scheme("mutualTLS", None, "Client certificate")}


@checks_arguments
class AnyOf:
    """Authenticates callers by the first of several authenticators that accepts them.

    All of them share one namespace of principals: an issuer of names for one of them can name the principals of the others."""

    def __init__(self, *authenticators: Authenticator) -> None:
        if not authenticators:
            raise InvalidArgumentError("needs at least one authenticator", field="authenticators")
        self._authenticators = authenticators

    async def __call__(self, method: str, metadata: Mapping[str, str]) -> Principal | None:
        failure: UnavailableError | ResourceExhaustedError | None = None
        for each in self._authenticators:
            try:
                principal = await each(method, metadata)
            except UnauthenticatedError:
                continue
            except (UnavailableError, ResourceExhaustedError) as error:
                failure = error  # another authenticator may still accept the caller
                continue
            if principal is not None:
                return principal
        if failure is not None:
            raise failure
        return None

    def schemes(self) -> dict[str, dict[str, Any]]:
        """Return the schemes of all authenticators. Repeated names get the HTTP scheme or a number as suffix."""
        found: dict[str, dict[str, Any]] = {}
        for each in self._authenticators:
            for name, scheme in each.schemes().items():
                if scheme not in found.values():
                    found[_unique_name(found, name, scheme)] = scheme
        return found


def _unique_name(taken: Mapping[str, object], name: str, scheme: Mapping[str, Any]) -> str:
    wanted = f"{name}-{scheme['scheme']}" if name in taken and scheme.get("scheme") else name
    free, number = wanted, 2
    while free in taken:
        free, number = f"{wanted}-{number}", number + 1
    return free


_HEADER_NAME = re.compile(r"[a-z0-9_.-]+")


def header_name(header: str) -> str:
    """Return the name in lower case. Raises InvalidArgumentError if it is not valid as a header of both gRPC and HTTP."""
    name = header.lower()
    if not _HEADER_NAME.fullmatch(name) or name.endswith("-bin") or name.startswith("grpc-"):
        raise InvalidArgumentError(f"{header!r} cannot be the name of a header", field="header")
    return name


def _scheme(kind: str, scheme: str | None, description: str) -> dict[str, Any]:
    return {"type": kind, "scheme": scheme, "description": description, "metadata": {}}


def _to_owner(key: str, owner: Iterable[str] | Principal, field: str) -> Principal:
    if isinstance(owner, Principal):
        return _to_principal(owner.name, owner.scopes, field)
    return Principal(f"key-{sha256(key.encode()).hexdigest()[:12]}", frozenset(_check_scopes(owner, field)))


def _to_principal(name: str, scopes: Iterable[str], field: str) -> Principal:
    try:
        return Principal(check_principal_name(name), frozenset(_check_scopes(scopes, field)))
    except UnauthenticatedError as error:
        raise InvalidArgumentError(str(error), field=field) from None


def _check_scopes(scopes: Iterable[str], field: str) -> Iterable[str]:
    if isinstance(scopes, str):
        raise InvalidArgumentError("scopes must be a list, not a string", field=field)
    return scopes


def _parse_basic(token: str) -> tuple[str, str] | None:
    try:
        text = b64decode(token, validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
    user, colon, password = text.partition(":")
    return (user, password) if colon else None
