"""Clients of ProtoLink's agents and registries."""
