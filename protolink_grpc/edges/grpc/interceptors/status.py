"""The status boundary: the only place on the gRPC server that converts exceptions to a status."""

from collections.abc import Callable
from typing import NoReturn

import grpc.aio
from google.rpc import status_pb2
from grpc_status import rpc_status

from protolink_grpc.edges.grpc.call import Context
from protolink_grpc.errors import ProtolinkError
from protolink_grpc.net.internal_errors import public_error

ToStatus = Callable[[ProtolinkError], status_pb2.Status]
"""Converts an error to the status of a service."""


async def abort_with_error(error: Exception, method: str, context: Context, to_status: ToStatus) -> NoReturn:
    """End the call with the status of `error`. An unexpected error is logged and sent as an incident id."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    status = rpc_status.to_status(to_status(public_error(error, method)))
    trailers = (*(context.trailing_metadata() or ()), *status.trailing_metadata)
    await context.abort(status.code, status.details, trailers)
