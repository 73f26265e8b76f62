"""The snapshots of agents of this package over gRPC, or over another channel that carries the same services."""

from plgrpc.v1 import snapshot_service_pb2 as pb
from plgrpc.v1 import snapshot_service_pb2_grpc

from protolink_grpc.client.channel import RpcService
from protolink_grpc.models.snapshot import (
    ArtifactsSnapshot,
    ContextBoundarySnapshot,
    EvidenceSnapshot,
    QueueSnapshot,
    SessionSnapshot,
    ThreadSnapshot,
    ToolInventorySnapshot,
)
from protolink_grpc.wire import snapshots as codecs


class RpcSnapshots(RpcService):
    """The snapshots of an agent at an address."""

    stub_class = snapshot_service_pb2_grpc.SnapshotServiceStub

    async def session(self, session_id: str, timeout_s: float | None) -> SessionSnapshot:
        request = pb.GetSessionSnapshotRequest(session_id=session_id)
        found = (await self._call("GetSessionSnapshot", request, timeout_s, session_id=session_id)).snapshot
        return codecs.SESSION_SNAPSHOT.from_pb(found, "snapshot")

    async def thread(self, session_id: str, thread_id: str, timeout_s: float | None) -> ThreadSnapshot:
        request = pb.GetThreadSnapshotRequest(session_id=session_id, thread_id=thread_id)
        found = (await self._call("GetThreadSnapshot", request, timeout_s, session_id=session_id)).snapshot
        return codecs.THREAD_SNAPSHOT.from_pb(found, "snapshot")

    async def queue(self, session_id: str, thread_id: str, timeout_s: float | None) -> QueueSnapshot:
        request = pb.GetQueueSnapshotRequest(session_id=session_id, thread_id=thread_id)
        found = (await self._call("GetQueueSnapshot", request, timeout_s, session_id=session_id)).snapshot
        return codecs.QUEUE_SNAPSHOT.from_pb(found, "snapshot")

    async def tools(self, timeout_s: float | None) -> ToolInventorySnapshot:
        found = (await self._call("GetToolInventory", pb.GetToolInventoryRequest(), timeout_s)).snapshot
        return codecs.TOOL_INVENTORY.from_pb(found, "snapshot")

    async def context(self, task_id: str, timeout_s: float | None) -> ContextBoundarySnapshot:
        request = pb.GetContextBoundaryRequest(task_id=task_id)
        found = (await self._call("GetContextBoundary", request, timeout_s, task_id=task_id)).snapshot
        return codecs.CONTEXT_BOUNDARY.from_pb(found, "snapshot")

    async def artifacts(self, task_id: str, timeout_s: float | None) -> ArtifactsSnapshot:
        request = pb.GetArtifactsRequest(task_id=task_id)
        found = (await self._call("GetArtifacts", request, timeout_s, task_id=task_id)).snapshot
        return codecs.ARTIFACTS.from_pb(found, "snapshot")

    async def evidence(self, task_id: str, timeout_s: float | None) -> EvidenceSnapshot:
        request = pb.GetEvidenceRequest(task_id=task_id)
        found = (await self._call("GetEvidence", request, timeout_s, task_id=task_id)).snapshot
        return codecs.EVIDENCE.from_pb(found, "snapshot")
