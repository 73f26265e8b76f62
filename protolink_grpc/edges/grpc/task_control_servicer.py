"""TaskControlService over gRPC: converts requests, calls the runtime, converts results."""

from dataclasses import replace

from plgrpc.v1 import agent_service_pb2, task_control_service_pb2_grpc, task_input_pb2
from plgrpc.v1 import task_control_service_pb2 as pb

from protolink_grpc.edges.grpc import convert
from protolink_grpc.edges.grpc.call import Context, caller, caller_scopes
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.message import Message
from protolink_grpc.net.page_tokens import PAGE_BYTES, cursor_from_token, page_size_of, token_from_cursor
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.wire.bounds import is_small, run_in_thread
from protolink_grpc.wire.payloads import DESCRIPTION, LINK
from protolink_grpc.wire.scalars import json_object_from_pb
from protolink_grpc.wire.snapshots import STATUSES, TASK_SNAPSHOT
from protolink_grpc.wire.tasks import artifacts_from_pb, check_id, encoded_messages_from_pb
from protolink_grpc.wire.values import FAILURE


class TaskControlServicer(task_control_service_pb2_grpc.TaskControlServiceServicer):
    """TaskControlService of one agent."""

    def __init__(self, service: TaskService) -> None:
        self._control = service.control

    async def CreateTask(self, request: pb.CreateTaskRequest, context: Context) -> pb.CreateTaskResponse:
        snapshot = await self._control.create(
            await _read_submission(request),
            caller(),
            description=DESCRIPTION.from_pb(request.description) if request.HasField("description") else None,
            links=LINK.all_from_pb(request.links, "links"),
        )
        return pb.CreateTaskResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def UpdateTask(self, request: pb.UpdateTaskRequest, context: Context) -> pb.UpdateTaskResponse:
        snapshot = await self._control.update(
            convert.require_id(request.task_id, "task_id"),
            caller(),
            description=DESCRIPTION.from_pb(request.description) if request.HasField("description") else None,
            metadata=json_object_from_pb(request.metadata_json, "metadata_json"),
            expected_sequence=request.expected_sequence,
        )
        return pb.UpdateTaskResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def StartTask(self, request: pb.StartTaskRequest, context: Context) -> pb.StartTaskResponse:
        task_id = convert.require_id(request.task_id, "task_id")
        snapshot = await self._control.start(task_id, caller(), external=request.external)
        return pb.StartTaskResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def AppendTaskProgress(
        self, request: pb.AppendTaskProgressRequest, context: Context
    ) -> pb.AppendTaskProgressResponse:
        snapshot = await self._control.report_progress(
            convert.require_id(request.task_id, "task_id"),
            caller(),
            TaskProgress(request.progress if request.HasField("progress") else None, request.message),
            check_id(request.request_id, "request_id"),
        )
        return pb.AppendTaskProgressResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def PauseTask(self, request: pb.PauseTaskRequest, context: Context) -> pb.PauseTaskResponse:
        task_id = convert.require_id(request.task_id, "task_id")
        snapshot = await self._control.pause(task_id, caller(), request.reason)
        return pb.PauseTaskResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def ResumeTask(self, request: pb.ResumeTaskRequest, context: Context) -> pb.ResumeTaskResponse:
        task_id = convert.require_id(request.task_id, "task_id")
        snapshot = await self._control.resume(task_id, caller(), request.reason)
        return pb.ResumeTaskResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def RetryTask(self, request: pb.RetryTaskRequest, context: Context) -> pb.RetryTaskResponse:
        task_id = convert.require_id(request.task_id, "task_id")
        request_id = check_id(request.request_id, "request_id")
        snapshot = await self._control.retry(task_id, caller(), request.reason, request_id, scopes=caller_scopes())
        return pb.RetryTaskResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def CompleteTask(self, request: pb.CompleteTaskRequest, context: Context) -> pb.CompleteTaskResponse:
        read = _read_result
        messages, encoded, artifacts = read(request) if is_small(request) else await run_in_thread(read, request)
        task_id = convert.require_id(request.task_id, "task_id")
        snapshot = await self._control.complete(task_id, caller(), messages, artifacts, encoded=encoded)
        return pb.CompleteTaskResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def FailTask(self, request: pb.FailTaskRequest, context: Context) -> pb.FailTaskResponse:
        failure = FAILURE.from_pb(request.failure, "failure")
        task_id = convert.require_id(request.task_id, "task_id")
        snapshot = await self._control.fail(task_id, caller(), failure)
        return pb.FailTaskResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def LinkTasks(self, request: pb.LinkTasksRequest, context: Context) -> pb.LinkTasksResponse:
        task_id = convert.require_id(request.task_id, "task_id")
        snapshot = await self._control.links.add(task_id, caller(), LINK.from_pb(request.link, "link"))
        return pb.LinkTasksResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def UnlinkTasks(self, request: pb.UnlinkTasksRequest, context: Context) -> pb.UnlinkTasksResponse:
        link = LINK.from_pb(request.link, "link")
        task_id = convert.require_id(request.task_id, "task_id")
        snapshot = await self._control.links.remove(task_id, caller(), link.kind, link.target)
        return pb.UnlinkTasksResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def GetTaskSnapshot(self, request: pb.GetTaskSnapshotRequest, context: Context) -> pb.GetTaskSnapshotResponse:
        snapshot = await self._control.get(convert.require_id(request.task_id, "task_id"), caller())
        return pb.GetTaskSnapshotResponse(snapshot=TASK_SNAPSHOT.to_pb(snapshot))

    async def ListTaskSnapshots(
        self, request: pb.ListTaskSnapshotsRequest, context: Context
    ) -> pb.ListTaskSnapshotsResponse:
        found, following = await self._control.snapshots.page(
            caller(),
            statuses=[
                STATUSES.read_request_item(each, f"statuses[{index}]") for index, each in enumerate(request.statuses)
            ],
            session_id=check_id(request.session_id, "session_id"),
            after=cursor_from_token(request.page_token),
            limit=page_size_of(request.page_size),
        )
        response = pb.ListTaskSnapshotsResponse(next_page_token=token_from_cursor(following))
        size = 0
        for index, (snapshot, _) in enumerate(found):
            message = TASK_SNAPSHOT.to_pb(snapshot)
            size += message.ByteSize()
            if index and size > PAGE_BYTES:
                response.next_page_token = token_from_cursor(found[index - 1][1])
                break
            response.snapshots.append(message)
        return response


def _read_result(request: pb.CompleteTaskRequest) -> tuple[list[Message], tuple[bytes, ...], list[Artifact]]:
    """Return the messages of a result, as values and as bytes, and its artifacts."""
    messages, encoded = encoded_messages_from_pb(request.messages, "messages")
    return messages, encoded, artifacts_from_pb(request.artifacts, "artifacts")


async def _read_submission(request: pb.CreateTaskRequest) -> Submission:
    """Return the submission of a draft, with the caller's scopes. A large request is converted in a thread."""
    if request.input.target not in {task_input_pb2.TASK_TARGET_UNSPECIFIED, task_input_pb2.TASK_TARGET_CREATE}:
        raise InvalidArgumentError("must be CREATE or unset: a draft is a new task", field="input.target")
    whole = agent_service_pb2.SendTaskRequest(input=request.input, request_id=request.request_id)
    read = convert.submission_from_pb
    submission = read(whole) if is_small(request) else await run_in_thread(read, whole)
    return replace(submission, scopes=caller_scopes())
