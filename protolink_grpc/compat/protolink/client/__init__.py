"""Clients for ProtoLink's agents and registries."""
