"""Access checks, after authentication. They do not apply to health and reflection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protolink_grpc.auth.principal import Principal
from protolink_grpc.auth.rules import Admission
from protolink_grpc.edges.grpc.call import Call
from protolink_grpc.edges.grpc.interceptors import Interceptor


def authorization(admit: Admission) -> Interceptor:
    """Call `admit` for every call.

    Raises (inside the call):
        PermissionDeniedError, ResourceExhaustedError: From `admit`.
    """

    @asynccontextmanager
    async def authorize(call: Call) -> AsyncIterator[None]:
        admit(call.method, Principal(call.principal, call.scopes))
        yield

    return authorize
