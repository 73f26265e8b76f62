"""The vacation mesh: a registry and four agents, each its own process, that plan and book a trip together."""
