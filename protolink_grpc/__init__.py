"""Write an agent as a typed gRPC microservice on a durable, resumable task log.

Names are loaded when they are first used, so that a client does not pay for servers, nor `protolink --help` for gRPC.
`__init__.pyi` says the same to type checkers; a contract test compares the two.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "protolink_grpc.agent": (
        "Agent",
        "AgentPeer",
        "Registry",
    ),
    "protolink_grpc.client": (
        "AgentClient",
        "RegistryClient",
        "TaskList",
        "TaskSummary",
    ),
    "protolink_grpc.errors": (
        "AddressInUseError",
        "AgentConflictError",
        "AgentNotFoundError",
        "AmbiguousAgentError",
        "DeadlineExceededError",
        "InternalError",
        "InvalidArgumentError",
        "InvalidTransitionError",
        "LeaseNotFoundError",
        "PermissionDeniedError",
        "ProtolinkError",
        "RemoteError",
        "ResourceExhaustedError",
        "StoreError",
        "TaskAlreadyRunningError",
        "TaskExecutionError",
        "TaskFinishedError",
        "TaskNotCancelableError",
        "TaskNotFoundError",
        "ToolError",
        "ToolFailedError",
        "ToolRejectedError",
        "ToolTimeoutError",
        "UnauthenticatedError",
        "UnavailableError",
        "UnimplementedError",
    ),
    "protolink_grpc.models": (
        "AgentCapabilities",
        "AgentCard",
        "AgentInterface",
        "AgentSkill",
        "ApprovalDecision",
        "ApprovalRequest",
        "Artifact",
        "Message",
        "Part",
        "PolicyDecision",
        "PolicyEffect",
        "RunAction",
        "RunBudget",
        "RunContext",
        "Task",
        "TaskState",
    ),
    "protolink_grpc.models.events": (
        "RunEvent",
        "TaskArtifactUpdated",
        "TaskMessagesAdded",
        "TaskPatched",
        "TaskProgress",
        "TaskStatusChanged",
    ),
    "protolink_grpc.runtime": (
        "CancellationToken",
        "Limits",
        "Run",
        "StopAt",
        "current_run",
    ),
    "protolink_grpc.server": (
        "Principal",
        "ServerOptions",
    ),
    "protolink_grpc.store": (
        "MemoryStore",
        "SQLiteStore",
    ),
    "protolink_grpc.tools": (
        "Tool",
        "ToolContext",
    ),
    "protolink_grpc.wire.registry": (
        "AgentChange",
        "AgentChangeKind",
        "AgentFilter",
        "RegisteredAgent",
    ),
    "protolink_grpc.wire.tls": ("TLSConfig",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AddressInUseError",
    "Agent",
    "AgentCapabilities",
    "AgentCard",
    "AgentChange",
    "AgentChangeKind",
    "AgentClient",
    "AgentConflictError",
    "AgentFilter",
    "AgentInterface",
    "AgentNotFoundError",
    "AgentPeer",
    "AgentSkill",
    "AmbiguousAgentError",
    "ApprovalDecision",
    "ApprovalRequest",
    "Artifact",
    "CancellationToken",
    "DeadlineExceededError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidTransitionError",
    "LeaseNotFoundError",
    "Limits",
    "MemoryStore",
    "Message",
    "Part",
    "PermissionDeniedError",
    "PolicyDecision",
    "PolicyEffect",
    "Principal",
    "ProtolinkError",
    "RegisteredAgent",
    "Registry",
    "RegistryClient",
    "RemoteError",
    "ResourceExhaustedError",
    "Run",
    "RunAction",
    "RunBudget",
    "RunContext",
    "RunEvent",
    "SQLiteStore",
    "ServerOptions",
    "StopAt",
    "StoreError",
    "TLSConfig",
    "Task",
    "TaskAlreadyRunningError",
    "TaskArtifactUpdated",
    "TaskExecutionError",
    "TaskFinishedError",
    "TaskList",
    "TaskMessagesAdded",
    "TaskNotCancelableError",
    "TaskNotFoundError",
    "TaskPatched",
    "TaskProgress",
    "TaskState",
    "TaskStatusChanged",
    "TaskSummary",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolFailedError",
    "ToolRejectedError",
    "ToolTimeoutError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "current_run",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Found once, it is an ordinary attribute from now on.
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _HOME_OF.keys())
