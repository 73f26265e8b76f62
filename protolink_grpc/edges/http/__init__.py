"""The HTTP port: server, middleware, RPC methods, health and metrics. The routes of A2A and ProtoLink are in their packages."""
