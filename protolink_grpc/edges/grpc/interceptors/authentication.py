"""Authentication, by an authenticator or by the name in the client certificate. Otherwise callers are anonymous."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from protolink_grpc.auth.principal import ANONYMOUS, Authenticate, check_principal_name
from protolink_grpc.auth.schemes import CERTIFICATE, CertificateName
from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.edges.grpc.interceptors import Interceptor
from protolink_grpc.errors import UnauthenticatedError


def authentication(authenticate: Authenticate) -> Interceptor:
    """Call the authenticator for every call.

    Raises (inside the call):
        UnauthenticatedError: The authenticator returned None or a reserved name.
    """

    @asynccontextmanager
    async def identify(call: Call) -> AsyncIterator[None]:
        principal = await authenticate(call.method, _with_certificate(call))
        if principal is None:
            raise UnauthenticatedError("valid credentials are needed for this method")
        call.principal, call.scopes = check_principal_name(principal.name), principal.scopes
        call.authenticated = True
        yield

    return identify


@asynccontextmanager
async def certificate_identity(call: Call) -> AsyncIterator[None]:
    """Read the principal from the client certificate: its first subject alternative name, otherwise its common name."""
    name = _read_certificate_name(call)
    if name:
        call.principal, call.authenticated = check_principal_name(name), True
    else:
        call.principal = ANONYMOUS
    yield


def _with_certificate(call: Call) -> Mapping[str, str]:
    """The metadata with the name in the client's certificate, if any, under a key that no caller's header can have."""
    name = _read_certificate_name(call)
    return {**call.metadata, CERTIFICATE: CertificateName(name)} if name else call.metadata


def _read_certificate_name(call: Call) -> str:
    """The first subject alternative name of a verified client certificate, otherwise its common name; empty without one."""
    identity = call.context.auth_context() if call.context is not None else None
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        values = identity.get(key) if identity else None
        if values:
            value = next(iter(values))
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return ""
