"""Interceptors: async context managers around a call, one per file. `edges.grpc.app` lists them, outermost first."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from protolink_grpc.edges.grpc.call import Call

Interceptor = Callable[[Call], AbstractAsyncContextManager[None]]
"""Entered before the servicer is called, and left after its last response."""

__all__ = ["Interceptor"]
