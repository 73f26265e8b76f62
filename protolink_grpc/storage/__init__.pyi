"""What `__init__.py` offers, for type checkers. A contract test compares the two."""

from protolink_grpc.reports.run_store import RunReportRecord, RunStore, SQLiteRunStore, TaskRecord
from protolink_grpc.storage.agent_storage import Storage
from protolink_grpc.storage.in_memory_storage import InMemoryStorage
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.sqlite.storage import SQLiteStorage
from protolink_grpc.storage.sqlite.store import SQLiteStore

__all__ = [
    "InMemoryStorage",
    "MemoryStore",
    "RunReportRecord",
    "RunStore",
    "SQLiteRunStore",
    "SQLiteStorage",
    "SQLiteStore",
    "Storage",
    "TaskRecord",
    "TaskStore",
]
