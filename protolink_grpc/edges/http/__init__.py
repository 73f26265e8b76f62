"""The HTTP edge: A2A over JSON-RPC and REST, ProtoLink's own routes and WebSocket, health and metrics, on one port."""
