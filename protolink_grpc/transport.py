"""The transports of ProtoLink's documents, and the events of their streams. The code is in `compat.protolink`."""

from protolink_grpc.compat.protolink.task_events import (
    TaskArtifactUpdateEvent,
    TaskErrorEvent,
    TaskEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
)
from protolink_grpc.compat.protolink.transports import (
    GRPCTransport,
    HTTPTransport,
    RuntimeTransport,
    SSEJSONRPCTransport,
    Transport,
    WebSocketTransport,
)

__all__ = [
    "GRPCTransport",
    "HTTPTransport",
    "RuntimeTransport",
    "SSEJSONRPCTransport",
    "TaskArtifactUpdateEvent",
    "TaskErrorEvent",
    "TaskEvent",
    "TaskLLMStreamEvent",
    "TaskProgressEvent",
    "TaskStatusUpdateEvent",
    "Transport",
    "WebSocketTransport",
]
