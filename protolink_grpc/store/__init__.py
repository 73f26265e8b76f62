"""Where tasks are kept: `MemoryStore` and `SQLiteStore` behind one port."""

from protolink_grpc.store.memory import MemoryStore
from protolink_grpc.store.port import TaskStore
from protolink_grpc.store.sqlite import SQLiteStore

__all__ = ["MemoryStore", "SQLiteStore", "TaskStore"]
