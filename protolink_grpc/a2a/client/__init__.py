"""The client for A2A peers: it reads their cards and converts their tasks to events of this package."""
