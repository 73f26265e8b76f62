"""ProtoLink's routes and WebSocket, for agents and registries."""
