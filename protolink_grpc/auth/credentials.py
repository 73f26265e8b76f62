"""What a client shows to those that it calls: its own credential, and nothing that could check anybody's."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Protocol

from protolink_grpc.auth.confidential import demand_confidential
from protolink_grpc.auth.headers import is_token
from protolink_grpc.auth.schemes import header_name
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.arguments import checks_arguments


class Credentials(Protocol):
    """Makes the headers that identify a client. May be asked by several calls at the same time, and from several event loops."""

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        """Headers of one call, names in lower case.

        Args:
            audience_url: Who will read them: at least scheme, host and port.

        Raises:
            InvalidArgumentError: They would travel in the clear.
            UnauthenticatedError, UnavailableError: There are none to be had.
        """
        ...

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        """Called when a peer has answered UNAUTHENTICATED (401): whether `headers` will now make others, so that one more try
        makes sense.

        Args:
            refused: What was refused; None means the latest.
        """
        ...


@checks_arguments
class APIKey:
    """A key in a header of its own.

    Args:
        insecure_ok: Send it in the clear to other machines, too.
    """

    def __init__(self, key: str, header: str = "X-API-Key", *, insecure_ok: bool = False) -> None:
        self._headers = {header_name(header): _checked(key, "key")}
        self._insecure_ok = insecure_ok

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        demand_confidential(audience_url, insecure_ok=self._insecure_ok)
        return self._headers

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        return False


@checks_arguments
class Basic:
    """A user name and a password (RFC 7617). `insecure_ok` as for APIKey."""

    def __init__(self, user: str, password: str, *, insecure_ok: bool = False) -> None:
        if not user or ":" in user:
            raise InvalidArgumentError("must be a name without a colon", field="user")
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"authorization": f"Basic {pair}"}
        self._insecure_ok = insecure_ok

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        demand_confidential(audience_url, insecure_ok=self._insecure_ok)
        return self._headers

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        return False


TokenSource = Callable[[str], str | Awaitable[str]]
"""Takes the URL of who will read the token; called for each call, so it should remember."""


@checks_arguments
class BearerToken:
    """A token, or what makes one.

    Args:
        token: The token itself, or a TokenSource: asked again for each call, so that a token may change.
        insecure_ok: Send it in the clear to other machines, too.
    """

    def __init__(self, token: str | TokenSource, *, insecure_ok: bool = False) -> None:
        self._token = _checked(token, "token") if isinstance(token, str) else token
        self._insecure_ok = insecure_ok

    async def headers(self, audience_url: str) -> Mapping[str, str]:
        demand_confidential(audience_url, insecure_ok=self._insecure_ok)
        token = self._token
        if not isinstance(token, str):
            made = token(audience_url)
            token = _checked(await made if isawaitable(made) else made, "token")
        return {"authorization": f"Bearer {token}"}

    async def refresh(self, refused: Mapping[str, str] | None = None) -> bool:
        return not isinstance(self._token, str)


def _checked(secret: object, field: str) -> str:
    """The secret, if a header can carry it. It is never repeated in the error."""
    if not isinstance(secret, str) or not is_token(secret):
        raise InvalidArgumentError("must be visible ASCII without spaces", field=field)
    return secret
