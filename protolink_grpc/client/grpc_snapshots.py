"""The snapshots of agents of this package over gRPC, or over another channel that carries the same services."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message
from plgrpc.v1 import snapshot_service_pb2 as pb
from plgrpc.v1 import snapshot_service_pb2_grpc

from protolink_grpc.client.channel import ChannelOptions, call_unary, typed_errors
from protolink_grpc.models.snapshot import (
    ArtifactsSnapshot,
    ContextBoundarySnapshot,
    EvidenceSnapshot,
    QueueSnapshot,
    SessionSnapshot,
    ThreadSnapshot,
    ToolInventorySnapshot,
)
from protolink_grpc.net.address import Endpoint
from protolink_grpc.wire import snapshots as codecs


class RpcSnapshots:
    """The snapshots of an agent at an address.

    Args:
        stub_of: Returns a stub over the agent's channel.
    """

    def __init__(
        self, address: Endpoint, options: ChannelOptions, stub_of: Callable[[Callable[[Any], Any]], Any]
    ) -> None:
        self._address = address
        self._options = options
        self._stub_of = stub_of

    async def _snapshot(self, method: str, request: Message, timeout_s: float | None, **about: str) -> Any:
        stub = self._stub_of(snapshot_service_pb2_grpc.SnapshotServiceStub)
        async with typed_errors(self._address, **about):
            response = await call_unary(getattr(stub, method), request, self._address, self._options, timeout_s)
        return response.snapshot

    async def session(self, session_id: str, timeout_s: float | None) -> SessionSnapshot:
        request = pb.GetSessionSnapshotRequest(session_id=session_id)
        found = await self._snapshot("GetSessionSnapshot", request, timeout_s, session_id=session_id)
        return codecs.SESSION_SNAPSHOT.from_pb(found, "snapshot")

    async def thread(self, session_id: str, thread_id: str, timeout_s: float | None) -> ThreadSnapshot:
        request = pb.GetThreadSnapshotRequest(session_id=session_id, thread_id=thread_id)
        found = await self._snapshot("GetThreadSnapshot", request, timeout_s, session_id=session_id)
        return codecs.THREAD_SNAPSHOT.from_pb(found, "snapshot")

    async def queue(self, session_id: str, thread_id: str, timeout_s: float | None) -> QueueSnapshot:
        request = pb.GetQueueSnapshotRequest(session_id=session_id, thread_id=thread_id)
        found = await self._snapshot("GetQueueSnapshot", request, timeout_s, session_id=session_id)
        return codecs.QUEUE_SNAPSHOT.from_pb(found, "snapshot")

    async def tools(self, timeout_s: float | None) -> ToolInventorySnapshot:
        found = await self._snapshot("GetToolInventory", pb.GetToolInventoryRequest(), timeout_s)
        return codecs.TOOL_INVENTORY.from_pb(found, "snapshot")

    async def context(self, task_id: str, timeout_s: float | None) -> ContextBoundarySnapshot:
        request = pb.GetContextBoundaryRequest(task_id=task_id)
        found = await self._snapshot("GetContextBoundary", request, timeout_s, task_id=task_id)
        return codecs.CONTEXT_BOUNDARY.from_pb(found, "snapshot")

    async def artifacts(self, task_id: str, timeout_s: float | None) -> ArtifactsSnapshot:
        request = pb.GetArtifactsRequest(task_id=task_id)
        found = await self._snapshot("GetArtifacts", request, timeout_s, task_id=task_id)
        return codecs.ARTIFACTS.from_pb(found, "snapshot")

    async def evidence(self, task_id: str, timeout_s: float | None) -> EvidenceSnapshot:
        request = pb.GetEvidenceRequest(task_id=task_id)
        found = await self._snapshot("GetEvidence", request, timeout_s, task_id=task_id)
        return codecs.EVIDENCE.from_pb(found, "snapshot")
