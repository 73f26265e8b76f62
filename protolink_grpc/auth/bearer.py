"""Bearer tokens (JWTs), verified with a shared secret or with the public keys of their issuer."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protolink_grpc.auth.headers import authorization, keyed_digest
from protolink_grpc.auth.keys import ASYMMETRIC, FixedKeys, Keys, RemoteKeys
from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments

_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Shared-secret algorithms with the minimum length of a secret in bytes: that of the hash. Source: RFC 7518, section 3.2."""

MAX_CACHED = 4096
"""Maximum number of cached verifications; then the cache is cleared."""

CACHED_S = 60.0
"""How long a verification is cached, in seconds, so that a withdrawn key is not accepted for long."""

_TIMES = ("exp", "nbf", "iat")
"""The claims that are times. Source: RFC 7519 section 4.1."""

MAX_NAME_CHARS = 256
"""Maximum length of a principal's name, which is stored with each task."""


@dataclass(frozen=True, slots=True)
class _Verified:
    principal: Principal
    until: float
    version: int


@checks_arguments
class BearerTokenAuth:
    """Authenticates callers by a JWT in `Authorization: Bearer`. Exactly one of `secret`, `jwks` and `jwks_url` is required.

    Args:
        secret: The secret shared with the issuer, for the algorithms HS256 (the default), HS384 and HS512.
        algorithms: One or several. Public-key algorithms (RS, PS, ES, EdDSA) need `jwks` or `jwks_url`, where all are allowed by
            default. The algorithm of a token must also fit its key.
        jwks: A JWK Set as a dict.
        jwks_url: URL of the issuer's keys: https, or http on this machine. Rotated keys are fetched automatically.
        issuer: The required issuer, one or several; None accepts any.
        audience: The required audience, one or several; None accepts only tokens without an audience.
        leeway: Tolerated clock difference in seconds.
        scopes_claim: Claim with the scopes, a list or a text separated by spaces.
        principal_claim: Claim with the name of the principal. A token without it is refused.
        require_exp: Refuse tokens without an expiry.
        refetch_s: Minimum interval between two fetches of `jwks_url`, in seconds.

    Raises:
        InvalidArgumentError: The arguments do not allow a safe verification.
    """

    def __init__(
        self,
        secret: str | bytes | None = None,
        algorithms: str | Sequence[str] | None = None,
        *,
        jwks: Mapping[str, Any] | None = None,
        jwks_url: str | None = None,
        issuer: str | Sequence[str] | None = None,
        audience: str | Sequence[str] | None = None,
        leeway: float = 0.0,
        scopes_claim: str = "scope",
        principal_claim: str = "sub",
        require_exp: bool = True,
        refetch_s: float = 30.0,
    ) -> None:
        import jwt  # takes 0.1 s to import, and only servers with tokens need it

        if sum(each is not None for each in (secret, jwks, jwks_url)) != 1:
            raise InvalidArgumentError("exactly one of secret, jwks and jwks_url is required", field="secret")
        if not 0 <= leeway < float("inf"):
            raise InvalidArgumentError("must be a number of seconds, at least 0", field="leeway")
        self._decoder = jwt.PyJWT()
        # Invalid tokens cause many kinds of exceptions: numbers beyond a date, strings beyond UTF-8, deep nesting.
        self._invalid_token_errors = (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError)
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._keys: Keys | None = None
        if jwks is not None:
            self._keys = FixedKeys(jwks)
        elif jwks_url is not None:
            self._keys = RemoteKeys(jwks_url, refetch_s=refetch_s)
        self._algorithms = _check_algorithms(algorithms, self._secret)
        self._issuer, self._audience, self._leeway = issuer, audience, leeway
        self._scopes_claim, self._principal_claim = scopes_claim, principal_claim
        self._required = ["exp"] if require_exp else []
        self._verified: dict[bytes, _Verified] = {}

    async def __call__(self, method: str, metadata: Mapping[str, str]) -> Principal | None:
        token = authorization(metadata, "bearer")
        if token is None:
            return None
        digest, now = keyed_digest(token), time.time()
        known = self._verified.get(digest)
        if known is not None and now < known.until and known.version == self._version:
            return known.principal
        found = await self._verify(token, now + CACHED_S)
        if found is None:
            return None
        if len(self._verified) >= MAX_CACHED:
            self._verified.clear()  # one step, so it is safe if several loops share this authenticator
        self._verified[digest] = found
        return found.principal

    @property
    def _version(self) -> int:
        return 0 if self._keys is None else self._keys.version

    async def _verify(self, token: str, until: float) -> _Verified | None:
        """Verify a token. The result is valid until `until` at most; None if the token is invalid."""
        import jwt  # loaded already, see above

        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in self._algorithms:
                return None
            key = await self._key(header.get("kid"), algorithm)
            if key is None:
                return None
            version = self._version
            claims = self._decoder.decode(
                token,
                key,
                algorithms=[algorithm],
                options={"require": self._required},
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway,
            )
            if not all(_is_time(claims[name]) for name in _TIMES if name in claims):
                return None
            principal = self._principal(claims)
            end = float(claims["exp"]) + self._leeway if "exp" in claims else until
            return None if principal is None else _Verified(principal, min(until, end), version)
        except self._invalid_token_errors:
            return None

    async def _key(self, kid: str | None, algorithm: str) -> Any:
        if self._keys is None:
            return self._secret
        found = await self._keys.find(kid, algorithm)
        return None if found is None else found.key

    def _principal(self, claims: dict[str, Any]) -> Principal | None:
        name = claims.get(self._principal_claim)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
            return None
        return Principal(name, _read_scopes(claims.get(self._scopes_claim)))

    def schemes(self) -> dict[str, dict[str, Any]]:
        metadata: dict[str, Any] = {"algorithms": list(self._algorithms)}
        for name, value in (("issuer", self._issuer), ("audience", self._audience)):
            if value is not None:
                metadata[name] = value if isinstance(value, str) else list(value)
        return {
            "http": {
                "type": "http",
                "scheme": "bearer",
                "description": "Bearer JWT authentication",
                "metadata": metadata,
                "bearerFormat": "JWT",
            }
        }


def _check_algorithms(algorithms: str | Sequence[str] | None, secret: bytes | None) -> tuple[str, ...]:
    named = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms or ())
    possible: tuple[str, ...] = ASYMMETRIC if secret is None else tuple(_SECRET_BYTES)
    named = named or (possible if secret is None else ("HS256",))
    unknown = next((each for each in named if each not in possible), None)
    if unknown is not None:
        raise InvalidArgumentError(f"{unknown!r} is not one of {', '.join(possible)}", field="algorithms")
    needed = max(_SECRET_BYTES.get(each, 0) for each in named)
    if secret is not None and len(secret) < needed:
        raise InvalidArgumentError(f"must have at least {needed} bytes for {', '.join(named)}", field="secret")
    return named


def _is_time(value: object) -> bool:
    """Whether a claim is a NumericDate: a finite JSON number. The library also accepts values that can be converted to one."""
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]  # a number, as checked before


def _read_scopes(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list):
        return frozenset(each for each in value if isinstance(each, str) and each)
    return frozenset()
