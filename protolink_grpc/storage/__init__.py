"""Storage of tasks, registrations and agents' state, in memory and in SQLite."""

from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.sqlite.store import SQLiteStore

__all__ = ["MemoryStore", "SQLiteStore", "TaskStore"]
