"""The HTTP port: server, middleware, gRPC-Web, health and metrics. The routes of A2A and ProtoLink are in their packages."""
