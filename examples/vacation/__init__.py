"""The vacation demo: a registry and four agents, each in its own process, plan and book a trip."""
