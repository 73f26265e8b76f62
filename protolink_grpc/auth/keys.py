"""Public keys of token issuers (JWK Sets, RFC 7517): fixed, or fetched and updated when they rotate."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from protolink_grpc.auth.confidential import check_endpoint
from protolink_grpc.auth.fetch import JsonRequest, Shared, fetch_json
from protolink_grpc.errors import InvalidArgumentError, UnavailableError
from protolink_grpc.logs import get_logger

log = get_logger(__name__)

ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The algorithms that keys of a set may have, without shared secrets and `none`."""

_BY_CURVE = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}

MIN_RSA_BITS = 2048
"""Source: RFC 7518, sections 3.3 and 3.5."""

MAX_KEYS = 256
"""Maximum number of keys that are read from a set: reading one takes about 0.1 ms."""

MAX_STALE_S = 86_400.0
"""How long a key set is used that cannot be fetched again, in seconds."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """One public key. `algorithms` are those of its type, so that a token cannot choose another one."""

    kid: str
    algorithms: frozenset[str]
    key: Any


class Keys(Protocol):
    """A source of keys. `version` changes when the keys may have changed."""

    version: int

    async def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """Return the key with that id; without an id, the only one with the algorithm.

        Raises:
            UnavailableError: The keys could not be fetched.
        """
        ...


class FixedKeys:
    """The keys of a given JWK Set. Raises InvalidArgumentError if none of them is usable."""

    def __init__(self, jwks: object) -> None:
        self.version = 0
        self._keys = read_keys(jwks)
        if not self._keys:
            raise InvalidArgumentError("contains no public key to verify signatures with", field="jwks")

    async def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        return _select_key(self._keys, kid, algorithm)


class RemoteKeys:
    """The keys at a URL. They are fetched at the first use, after `max_age_s`, and when a token names an unknown key.

    Args:
        refetch_s: Minimum interval between two attempts in seconds, also if tokens name unknown keys.
        max_age_s: After how many seconds the keys are fetched again. If the URL does not answer, they are used for MAX_STALE_S
            more.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        refetch_s: float = 30.0,
        max_age_s: float = 3600.0,
        timeout_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.version = 0
        self._request = JsonRequest(check_endpoint(url, field="jwks_url"), timeout_s=timeout_s)
        self._refetch_s, self._max_age_s = refetch_s, max_age_s
        self._clock = clock
        self._keys: tuple[VerificationKey, ...] = ()
        self._fetched_at = self._attempted_at = float("-inf")
        self._fetch = Shared(self._refresh)

    async def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        found = _select_key(self._keys, kid, algorithm)
        age_s = self._clock() - self._fetched_at
        if (found is None or age_s > self._max_age_s) and (self._fetch.is_running or self._is_due()):
            await self._fetch.result()
            found = _select_key(self._keys, kid, algorithm)
            age_s = self._clock() - self._fetched_at
        if age_s > self._max_age_s + MAX_STALE_S:
            raise UnavailableError("the keys of the token issuer cannot be fetched")
        return found

    def _is_due(self) -> bool:
        return self._clock() - self._attempted_at >= self._refetch_s

    def _refresh(self) -> None:
        """Fetch the keys, in a thread, unless they have just been fetched. After a failure the known keys stay in use."""
        if not self._is_due():
            return
        try:
            status, document = fetch_json(self._request)
            keys = read_keys(document) if status == 200 else ()
            if keys:
                self._keys = keys
                self._fetched_at = self._clock()
                self.version += 1
            else:
                log.warning("no usable keys at %s (HTTP %d)", self._request.url, status)
        except UnavailableError as error:
            log.warning("keys cannot be fetched: %s", error)
        finally:
            self._attempted_at = self._clock()


def _select_key(keys: Iterable[VerificationKey], kid: str | None, algorithm: str) -> VerificationKey | None:
    found = [each for each in keys if algorithm in each.algorithms and (kid is None or each.kid == kid)]
    return found[0] if len(found) == 1 or (found and kid is not None) else None


def read_keys(document: object) -> tuple[VerificationKey, ...]:
    """Read the public signature keys of a JWK Set and skip all others."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        return ()
    found = (_read_key(each) for each in listed[:MAX_KEYS])
    return tuple(key for key in found if key is not None)


def _read_key(jwk: object) -> VerificationKey | None:
    import jwt  # takes 0.1 s to import, and only servers with tokens need it

    if not isinstance(jwk, dict) or not _is_for_signatures(jwk):
        return None
    algorithms = _algorithms(jwk)
    if not algorithms:
        return None
    try:
        key = jwt.PyJWK({**jwk, "alg": min(algorithms)}).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if getattr(key, "key_size", MIN_RSA_BITS) < MIN_RSA_BITS and jwk["kty"] == "RSA":
        return None
    kid = jwk.get("kid")
    return VerificationKey(kid if isinstance(kid, str) else "", algorithms, key)


def _is_for_signatures(jwk: dict[str, Any]) -> bool:
    """Whether a key is for signatures and public."""
    operations = jwk.get("key_ops")
    return (
        jwk.get("use") in (None, "sig")
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
        and "d" not in jwk
    )


def _algorithms(jwk: dict[str, Any]) -> frozenset[str]:
    kind, curve = jwk.get("kty"), jwk.get("crv")
    if kind == "RSA":
        possible = frozenset(each for each in ASYMMETRIC if each.startswith(("RS", "PS")))
    elif kind in ("EC", "OKP") and isinstance(curve, str) and curve in _BY_CURVE:
        possible = frozenset({_BY_CURVE[curve]})
    else:
        return frozenset()
    named = jwk.get("alg")
    return possible if named is None else possible & {str(named)}
