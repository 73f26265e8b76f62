"""Networking of clients and servers: addresses, TLS, trace headers, frames, page tokens, event loops. It serves no request."""
