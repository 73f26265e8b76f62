"""Storage of tasks, registrations and agents' state, in memory and in SQLite.

Run stores are here too, as in ProtoLink. They are in a layer above and are loaded at the first use.
"""

from typing import Any

from protolink_grpc.lazy import load
from protolink_grpc.storage.agent_storage import Storage
from protolink_grpc.storage.in_memory_storage import InMemoryStorage
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.sqlite.storage import SQLiteStorage
from protolink_grpc.storage.sqlite.store import SQLiteStore

_RUN_STORES = ("RunReportRecord", "RunStore", "SQLiteRunStore", "TaskRecord")

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


def __getattr__(name: str) -> Any:
    if name not in _RUN_STORES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"protolink_grpc.reports.run_store:{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_RUN_STORES})
