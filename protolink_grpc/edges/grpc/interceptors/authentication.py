"""Who calls. The hook decides; without one the identity of a client certificate counts, and else everyone is anonymous."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from protolink_grpc.auth.principal import ANONYMOUS, Authenticate, unreserved
from protolink_grpc.auth.schemes import CERTIFICATE, CertificateName
from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.edges.grpc.interceptors import Interceptor
from protolink_grpc.errors import UnauthenticatedError


def authentication(authenticate: Authenticate) -> Interceptor:
    """Ask the hook about every call.

    Raises (inside the call):
        UnauthenticatedError: The hook knows no such caller, or gives it a name that is reserved.
    """

    @asynccontextmanager
    async def identified(call: Call) -> AsyncIterator[None]:
        principal = await authenticate(call.method, _with_certificate(call))
        if principal is None:
            raise UnauthenticatedError("valid credentials are needed for this method")
        call.principal, call.scopes = unreserved(principal.name), principal.scopes
        call.authenticated = True
        yield

    return identified


@asynccontextmanager
async def certificate_identity(call: Call) -> AsyncIterator[None]:
    """Take the principal from the client certificate: its first subject alternative name, else its common name."""
    name = _certificate_name(call)
    if name:
        call.principal, call.authenticated = unreserved(name), True
    else:
        call.principal = ANONYMOUS
    yield


def _with_certificate(call: Call) -> Mapping[str, str]:
    """The metadata, with the name in the client's certificate where it has shown one; no header of a caller can look like it."""
    name = _certificate_name(call)
    return {**call.metadata, CERTIFICATE: CertificateName(name)} if name else call.metadata


def _certificate_name(call: Call) -> str:
    """The first subject alternative name of a verified client certificate, else its common name; empty without one."""
    identity = call.context.auth_context() if call.context is not None else None
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        values = identity.get(key) if identity else None
        if values:
            value = next(iter(values))
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return ""
