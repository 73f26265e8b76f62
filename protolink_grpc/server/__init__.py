"""The gRPC edge: servicers convert, interceptors guard, `app` puts them on a port."""

from protolink_grpc.server.app import GrpcServer, ServerOptions
from protolink_grpc.server.interceptors.authentication import Authenticate, Principal

__all__ = ["Authenticate", "GrpcServer", "Principal", "ServerOptions"]
