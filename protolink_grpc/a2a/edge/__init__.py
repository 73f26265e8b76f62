"""A2A servers: JSON-RPC, HTTP+JSON and gRPC, in v1.0 and v0.3. Each reads a request, calls `a2a.operations` and responds."""
