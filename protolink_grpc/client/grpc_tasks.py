"""The control of tasks of agents of this package over gRPC, or over another channel that carries the same services."""

from collections.abc import Sequence
from typing import Any

from plgrpc.v1 import task_control_service_pb2 as pb
from plgrpc.v1 import task_control_service_pb2_grpc, task_input_pb2

from protolink_grpc.client.channel import RpcService
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.message import Message
from protolink_grpc.models.snapshot import TaskSnapshot, TaskSnapshotPage
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import TaskDescription, TaskLink, TaskStatus
from protolink_grpc.wire.payloads import DESCRIPTION, LINK
from protolink_grpc.wire.scalars import json_object_to_pb
from protolink_grpc.wire.snapshots import STATUSES, TASK_SNAPSHOT
from protolink_grpc.wire.tasks import ARTIFACT, MESSAGE, input_to_pb
from protolink_grpc.wire.values import FAILURE


class RpcTasks(RpcService):
    """The tasks of an agent at an address."""

    stub_class = task_control_service_pb2_grpc.TaskControlServiceStub

    async def _change(self, name: str, request: Any, timeout_s: float | None) -> TaskSnapshot:
        """Call a method about one task, and return the task of its response."""
        about = {"task_id": request.task_id} if request.task_id else {}
        response = await self._call(name, request, timeout_s, **about)
        return TASK_SNAPSHOT.from_pb(response.snapshot)

    async def create(
        self,
        task: Task,
        description: TaskDescription | None,
        links: Sequence[TaskLink],
        request_id: str,
        timeout_s: float | None,
    ) -> TaskSnapshot:
        request = pb.CreateTaskRequest(
            input=input_to_pb(task, task_input_pb2.TASK_TARGET_CREATE),
            description=None if description is None else DESCRIPTION.to_pb(description),
            links=map(LINK.to_pb, links),
            request_id=request_id,
        )
        response = await self._call("CreateTask", request, timeout_s, task_id=task.id)
        return TASK_SNAPSHOT.from_pb(response.snapshot)

    async def update(
        self,
        task_id: str,
        description: TaskDescription | None,
        metadata: dict[str, Any] | None,
        expected_sequence: int,
        timeout_s: float | None,
    ) -> TaskSnapshot:
        request = pb.UpdateTaskRequest(
            task_id=task_id,
            description=None if description is None else DESCRIPTION.to_pb(description),
            metadata_json=json_object_to_pb(metadata),
            expected_sequence=expected_sequence,
        )
        return await self._change("UpdateTask", request, timeout_s)

    async def start(self, task_id: str, timeout_s: float | None, *, external: bool) -> TaskSnapshot:
        return await self._change("StartTask", pb.StartTaskRequest(task_id=task_id, external=external), timeout_s)

    async def report_progress(
        self, task_id: str, report: TaskProgress, request_id: str, timeout_s: float | None
    ) -> TaskSnapshot:
        report.check()
        request = pb.AppendTaskProgressRequest(
            task_id=task_id, progress=report.progress, message=report.message, request_id=request_id
        )
        return await self._change("AppendTaskProgress", request, timeout_s)

    async def pause(self, task_id: str, reason: str, timeout_s: float | None) -> TaskSnapshot:
        return await self._change("PauseTask", pb.PauseTaskRequest(task_id=task_id, reason=reason), timeout_s)

    async def resume(self, task_id: str, reason: str, timeout_s: float | None) -> TaskSnapshot:
        return await self._change("ResumeTask", pb.ResumeTaskRequest(task_id=task_id, reason=reason), timeout_s)

    async def retry(self, task_id: str, reason: str, request_id: str, timeout_s: float | None) -> TaskSnapshot:
        request = pb.RetryTaskRequest(task_id=task_id, reason=reason, request_id=request_id)
        return await self._change("RetryTask", request, timeout_s)

    async def complete(
        self, task_id: str, messages: Sequence[Message], artifacts: Sequence[Artifact], timeout_s: float | None
    ) -> TaskSnapshot:
        request = pb.CompleteTaskRequest(
            task_id=task_id, messages=map(MESSAGE.to_pb, messages), artifacts=map(ARTIFACT.to_pb, artifacts)
        )
        return await self._change("CompleteTask", request, timeout_s)

    async def fail(self, task_id: str, failure: Failure, timeout_s: float | None) -> TaskSnapshot:
        request = pb.FailTaskRequest(task_id=task_id, failure=FAILURE.to_pb(failure))
        return await self._change("FailTask", request, timeout_s)

    async def link(self, task_id: str, link: TaskLink, timeout_s: float | None) -> TaskSnapshot:
        return await self._change("LinkTasks", pb.LinkTasksRequest(task_id=task_id, link=LINK.to_pb(link)), timeout_s)

    async def unlink(self, task_id: str, link: TaskLink, timeout_s: float | None) -> TaskSnapshot:
        request = pb.UnlinkTasksRequest(task_id=task_id, link=LINK.to_pb(link))
        return await self._change("UnlinkTasks", request, timeout_s)

    async def get(self, task_id: str, timeout_s: float | None) -> TaskSnapshot:
        return await self._change("GetTaskSnapshot", pb.GetTaskSnapshotRequest(task_id=task_id), timeout_s)

    async def list(
        self,
        statuses: Sequence[TaskStatus],
        session_id: str,
        page_size: int,
        page_token: str,
        timeout_s: float | None,
    ) -> TaskSnapshotPage:
        request = pb.ListTaskSnapshotsRequest(
            statuses=[STATUSES[each] for each in statuses],
            session_id=session_id,
            page_size=page_size,
            page_token=page_token,
        )
        response = await self._call("ListTaskSnapshots", request, timeout_s)
        snapshots = TASK_SNAPSHOT.all_from_pb(response.snapshots, "snapshots")
        return TaskSnapshotPage(tuple(snapshots), response.next_page_token)
