"""The code assistant: a registry and five agents, each in its own process, repair a small project in a git repository."""
