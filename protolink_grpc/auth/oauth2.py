"""Tokens obtained with a client id and secret (OAuth 2.0 client credentials, RFC 6749 section 4.4)."""

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import quote_plus

from protolink_grpc.auth.confidential import check_confidential, check_endpoint
from protolink_grpc.auth.fetch import JsonRequest, Shared, fetch_json
from protolink_grpc.auth.headers import is_token
from protolink_grpc.errors import InvalidArgumentError, UnauthenticatedError, UnavailableError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.arguments import checks_arguments

log = get_logger(__name__)

UNKNOWN_LIFETIME_S = 300.0
"""Assumed lifetime of a token if the endpoint does not state it, which RFC 6749 only recommends, in seconds."""

MAX_LIFETIME_S = 86_400.0
"""Tokens are renewed after at most this time, in seconds."""

EARLY_S = 60.0
"""How long before its expiry a token is renewed, in seconds, or a fifth of its lifetime if that is shorter."""

PAUSE_S = 5.0
"""Minimum interval between two requests for a token, in seconds, even if peers refuse it."""


@dataclass(frozen=True, slots=True)
class _Token:
    value: str = field(repr=False)
    renew_at: float
    ends_at: float


@checks_arguments
class OAuth2ClientCredentials:
    """A bearer token from a token endpoint. It is renewed before it expires; calls use the old one meanwhile.

    Args:
        token_url: https, or http on this machine.
        scope: The requested scopes, separated by spaces.
        audience: The requested audience, if the endpoint needs it.
        secret_in_body: Send id and secret in the form; by default they are sent as HTTP Basic (RFC 6749, section 2.3.1).
        timeout_s: Timeout of each step of a request to the endpoint, in seconds.
        insecure_ok: Also send the token unencrypted to other machines.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        token_url: str,
        client_id: str,
        client_secret: str,
        scope: str | None = None,
        audience: str | None = None,
        *,
        secret_in_body: bool = False,
        timeout_s: float = 5.0,
        insecure_ok: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not client_id or not client_secret:
            raise InvalidArgumentError("a client needs an id and a secret", field="client_id")
        form = {"grant_type": "client_credentials", "scope": scope or "", "audience": audience or ""}
        headers: dict[str, str] = {}
        if secret_in_body:
            form |= {"client_id": client_id, "client_secret": client_secret}
        else:
            pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        filled = {key: value for key, value in form.items() if value}
        self._request = JsonRequest(check_endpoint(token_url, field="token_url"), filled, headers, timeout_s)
        self._insecure_ok = insecure_ok
        self._clock = clock
        self._token: _Token | None = None
        self._requested_at = float("-inf")
        self._fetch = Shared(self._renew)
        self._lock = Lock()

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        check_confidential(audience_url, insecure_ok=self._insecure_ok)
        token, now = self._token, self._clock()
        if token is None or now >= token.ends_at:
            token = await self._fetch.result()
        elif now >= token.renew_at and now - self._requested_at >= PAUSE_S:
            self._fetch.begin()
        return {"authorization": f"Bearer {token.value}"}

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        with self._lock:
            token = self._token
            if token is None or (refused is not None and refused.get("authorization") != f"Bearer {token.value}"):
                return True
            if self._clock() - self._requested_at < PAUSE_S:
                return False  # a new one would be refused too
            self._token = None
            return True

    def _renew(self) -> _Token:
        """Request a new token, in a thread, unless it has just been renewed."""
        token = self._token
        if token is not None and self._clock() < token.renew_at:
            return token
        try:
            renewed = self._read(*fetch_json(self._request))
        except (UnavailableError, UnauthenticatedError) as error:
            log.warning("no token: %s", error)
            raise
        finally:
            self._requested_at = self._clock()
        with self._lock:
            self._token = renewed
        return renewed

    def _read(self, status: int, document: Any) -> _Token:
        source = document if isinstance(document, dict) else {}
        if status in (400, 401, 403):
            error = source.get("error")
            code = error if isinstance(error, str) and len(error) <= 40 and is_token(error) else f"HTTP {status}"
            raise UnauthenticatedError(f"the token endpoint refuses this client: {code}", code=code)
        value, kind = source.get("access_token"), source.get("token_type", "bearer")
        if status != 200 or not isinstance(value, str) or not is_token(value):
            raise UnavailableError(f"the token endpoint answered without a token: HTTP {status}", status=str(status))
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise UnavailableError("the token endpoint issues tokens of another type than Bearer")
        lifetime_s = _read_lifetime(source.get("expires_in"))
        now = self._clock()
        return _Token(value, now + lifetime_s - min(EARLY_S, lifetime_s / 5), now + lifetime_s)


def _read_lifetime(value: object) -> float:
    """Read the lifetime. Some endpoints write the number as text."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        seconds = 0.0
    return min(seconds, MAX_LIFETIME_S) if seconds > 0 else UNKNOWN_LIFETIME_S
