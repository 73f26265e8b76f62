"""SnapshotService over gRPC: converts requests, calls the runtime, converts results."""

from plgrpc.v1 import snapshot_service_pb2 as pb
from plgrpc.v1 import snapshot_service_pb2_grpc

from protolink_grpc.edges.grpc.call import Context, caller, caller_scopes
from protolink_grpc.edges.grpc.convert import require_id
from protolink_grpc.models.session import DEFAULT_THREAD
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.wire import snapshots as codecs
from protolink_grpc.wire.tasks import check_id


class SnapshotServicer(snapshot_service_pb2_grpc.SnapshotServiceServicer):
    """SnapshotService of one agent."""

    def __init__(self, service: TaskService) -> None:
        self._snapshots = service.snapshots

    async def GetSessionSnapshot(
        self, request: pb.GetSessionSnapshotRequest, context: Context
    ) -> pb.GetSessionSnapshotResponse:
        found = await self._snapshots.session(caller(), require_id(request.session_id, "session_id"))
        return pb.GetSessionSnapshotResponse(snapshot=codecs.SESSION_SNAPSHOT.to_pb(found))

    async def GetThreadSnapshot(
        self, request: pb.GetThreadSnapshotRequest, context: Context
    ) -> pb.GetThreadSnapshotResponse:
        session_id = require_id(request.session_id, "session_id")
        thread_id = check_id(request.thread_id, "thread_id") or DEFAULT_THREAD
        found = await self._snapshots.thread(caller(), session_id, thread_id)
        return pb.GetThreadSnapshotResponse(snapshot=codecs.THREAD_SNAPSHOT.to_pb(found))

    async def GetQueueSnapshot(
        self, request: pb.GetQueueSnapshotRequest, context: Context
    ) -> pb.GetQueueSnapshotResponse:
        session_id = require_id(request.session_id, "session_id")
        found = await self._snapshots.queue(caller(), session_id, check_id(request.thread_id, "thread_id"))
        return pb.GetQueueSnapshotResponse(snapshot=codecs.QUEUE_SNAPSHOT.to_pb(found))

    async def GetToolInventory(
        self, request: pb.GetToolInventoryRequest, context: Context
    ) -> pb.GetToolInventoryResponse:
        found = await self._snapshots.tools(caller(), caller_scopes())
        return pb.GetToolInventoryResponse(snapshot=codecs.TOOL_INVENTORY.to_pb(found))

    async def GetContextBoundary(
        self, request: pb.GetContextBoundaryRequest, context: Context
    ) -> pb.GetContextBoundaryResponse:
        found = await self._snapshots.context(caller(), require_id(request.task_id, "task_id"))
        return pb.GetContextBoundaryResponse(snapshot=codecs.CONTEXT_BOUNDARY.to_pb(found))

    async def GetArtifacts(self, request: pb.GetArtifactsRequest, context: Context) -> pb.GetArtifactsResponse:
        found = await self._snapshots.artifacts(caller(), require_id(request.task_id, "task_id"))
        return pb.GetArtifactsResponse(snapshot=codecs.ARTIFACTS.to_pb(found))

    async def GetEvidence(self, request: pb.GetEvidenceRequest, context: Context) -> pb.GetEvidenceResponse:
        found = await self._snapshots.evidence(caller(), require_id(request.task_id, "task_id"))
        return pb.GetEvidenceResponse(snapshot=codecs.EVIDENCE.to_pb(found))
