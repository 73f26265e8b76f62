"""Who calls. The hook decides; without one the identity of a client certificate counts, and else everyone is anonymous."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protolink_grpc.auth.principal import ANONYMOUS, Authenticate, unreserved
from protolink_grpc.errors import UnauthenticatedError
from protolink_grpc.server.call import Call
from protolink_grpc.server.interceptors import Interceptor


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
        call.principal, call.scopes = unreserved(principal.name), principal.scopes
        call.authenticated = True
        yield

    return identified


@asynccontextmanager
async def certificate_identity(call: Call) -> AsyncIterator[None]:
    """Take the principal from the client certificate: its first subject alternative name, else its common name."""
    identity = call.context.auth_context()
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        values = identity.get(key)
        if values:
            call.principal, call.authenticated = unreserved(_text(next(iter(values)))), True
            break
    else:
        call.principal = ANONYMOUS
    yield


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
