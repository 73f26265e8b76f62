"""The gRPC port: servicers, interceptors, and the server."""

from protolink_grpc.auth.principal import Authenticate, Principal
from protolink_grpc.edges.grpc.app import GrpcServer, ServerOptions

__all__ = ["Authenticate", "GrpcServer", "Principal", "ServerOptions"]
