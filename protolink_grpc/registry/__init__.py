"""The registry: agent cards under leases, which can be searched and watched, in memory or in a file."""

from protolink_grpc.registry.changes import ChangeBatch
from protolink_grpc.registry.directory import AgentDirectory
from protolink_grpc.registry.entries import Registration
from protolink_grpc.registry.pages import Page
from protolink_grpc.registry.persistence import SQLiteDirectoryFile
from protolink_grpc.registry.service import RegistryService
from protolink_grpc.wire.registry import (
    DEFAULT_LEASE_TTL_S,
    AgentChange,
    AgentChangeKind,
    AgentFilter,
    InstanceState,
    InstanceStatus,
    RegisteredAgent,
)

__all__ = [
    "DEFAULT_LEASE_TTL_S",
    "AgentChange",
    "AgentChangeKind",
    "AgentDirectory",
    "AgentFilter",
    "ChangeBatch",
    "InstanceState",
    "InstanceStatus",
    "Page",
    "RegisteredAgent",
    "Registration",
    "RegistryService",
    "SQLiteDirectoryFile",
]
