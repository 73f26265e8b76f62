"""One concern, one file. An interceptor is an async context manager around a call; `edges.grpc.app` lists them, outermost first."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from protolink_grpc.edges.grpc.call import Call

Interceptor = Callable[[Call], AbstractAsyncContextManager[None]]
"""Entered before the servicer and left after its last response, for unary calls and streams alike."""

__all__ = ["Interceptor"]
