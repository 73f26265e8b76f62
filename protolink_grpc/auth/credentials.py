"""The credentials of a client."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Protocol

from protolink_grpc.auth.confidential import check_confidential
from protolink_grpc.auth.headers import is_token
from protolink_grpc.auth.schemes import header_name
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments


class Credentials(Protocol):
    """Builds the headers that authenticate a client. It is used concurrently and from several event loops."""

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        """Return the headers of one call, with names in lower case.

        Args:
            audience_url: The receiver: at least scheme, host and port.

        Raises:
            InvalidArgumentError: They would be sent unencrypted.
            UnauthenticatedError, UnavailableError: A token could not be obtained.
        """
        ...

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        """Renew credentials that a peer has refused with UNAUTHENTICATED (401).

        Args:
            refused: The refused headers; None means the latest ones.

        Returns:
            Whether `headers` now returns others, so that the call can be retried once.
        """
        ...


@checks_arguments
class APIKey:
    """An API key in a header.

    Args:
        insecure_ok: Also send it unencrypted to other machines.
    """

    def __init__(self, key: str, header: str = "X-API-Key", *, insecure_ok: bool = False) -> None:
        self._headers = {header_name(header): _check_secret(key, "key")}
        self._insecure_ok = insecure_ok

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        check_confidential(audience_url, insecure_ok=self._insecure_ok)
        return self._headers

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        return False


@checks_arguments
class Basic:
    """A user name and a password (RFC 7617). `insecure_ok` as in APIKey."""

    def __init__(self, user: str, password: str, *, insecure_ok: bool = False) -> None:
        if not user or ":" in user:
            raise InvalidArgumentError("must be a name without a colon", field="user")
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"authorization": f"Basic {pair}"}
        self._insecure_ok = insecure_ok

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        check_confidential(audience_url, insecure_ok=self._insecure_ok)
        return self._headers

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        return False


TokenSource = Callable[[str], str | Awaitable[str]]
"""Returns a token for the URL of its receiver. It is called for each call, so it should cache tokens."""


@checks_arguments
class BearerToken:
    """A bearer token, or a function that returns one.

    Args:
        token: The token, or a TokenSource, which is called for each call.
        insecure_ok: Also send it unencrypted to other machines.
    """

    def __init__(self, token: str | TokenSource, *, insecure_ok: bool = False) -> None:
        self._token = _check_secret(token, "token") if isinstance(token, str) else token
        self._insecure_ok = insecure_ok

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        check_confidential(audience_url, insecure_ok=self._insecure_ok)
        token = self._token
        if not isinstance(token, str):
            result = token(audience_url)
            token = _check_secret(await result if isawaitable(result) else result, "token")
        return {"authorization": f"Bearer {token}"}

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        return not isinstance(self._token, str)


def _check_secret(secret: object, field: str) -> str:
    """Return the secret if it is valid in a header. The error does not contain it."""
    if not isinstance(secret, str) or not is_token(secret):
        raise InvalidArgumentError("must be visible ASCII without spaces", field=field)
    return secret
