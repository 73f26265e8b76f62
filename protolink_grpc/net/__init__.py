"""Networking for clients and servers: addresses, TLS, trace headers, frames, page tokens, event loops."""
