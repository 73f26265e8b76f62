"""Who calls. The hook decides; without one the identity of a client certificate counts, and else everyone is anonymous."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from protolink_grpc.errors import UnauthenticatedError
from protolink_grpc.server.call import ANONYMOUS, RESERVED, Call
from protolink_grpc.server.interceptors import Interceptor


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, and what for. `name` owns tasks and registrations."""

    name: str
    scopes: frozenset[str] = frozenset()


Authenticate = Callable[[str, Mapping[str, str]], Awaitable[Principal | None]]
"""The hook: full method name and request metadata to a principal, None for a caller without valid credentials."""


def authentication(authenticate: Authenticate) -> Interceptor:
    """Ask the hook about every call.

    Raises (inside the call):
        UnauthenticatedError: The hook knows no such caller, or gives it a name that is reserved.
    """

    @asynccontextmanager
    async def identified(call: Call) -> AsyncIterator[None]:
        principal = await authenticate(call.method, call.metadata)
        if principal is None:
            raise UnauthenticatedError("valid credentials are needed for this method")
        call.principal, call.scopes = _unreserved(principal.name), principal.scopes
        yield

    return identified


@asynccontextmanager
async def certificate_identity(call: Call) -> AsyncIterator[None]:
    """Take the principal from the client certificate: its first subject alternative name, else its common name."""
    identity = call.context.auth_context()
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        values = identity.get(key)
        if values:
            call.principal = _unreserved(_text(next(iter(values))))
            break
    else:
        call.principal = ANONYMOUS
    yield


def _unreserved(name: str) -> str:
    if name in RESERVED:
        raise UnauthenticatedError(f"{name!r} cannot be the name of an authenticated caller", principal=name)
    return name


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
