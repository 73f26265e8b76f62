"""What an identified caller may call. Comes after authentication; health and reflection are not bound, and pass neither."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protolink_grpc.auth.principal import Principal
from protolink_grpc.auth.rules import Admission
from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.edges.grpc.interceptors import Interceptor


def authorization(admit: Admission) -> Interceptor:
    """Ask `admit` about every call.

    Raises (inside the call):
        PermissionDeniedError, ResourceExhaustedError: As `admit` does.
    """

    @asynccontextmanager
    async def admitted(call: Call) -> AsyncIterator[None]:
        admit(call.method, Principal(call.principal, call.scopes))
        yield

    return admitted
