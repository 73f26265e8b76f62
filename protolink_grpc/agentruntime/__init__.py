"""Logs of sessions and tasks as events of the Agent Runtime contract, and a validator of such events.

`view` is the entry: it has the envelope and the facts of sessions, threads, turns and queues, and uses `tasks` for the events of
tasks, which uses `calls` and `model_calls`. The events are computed when they are read and are not stored.
"""
