"""AgentService over gRPC: converts requests, calls the runtime, converts results."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc, task_pb2

from protolink_grpc.edges.grpc import convert
from protolink_grpc.edges.grpc.call import Context, caller, caller_scopes, take_origin
from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.net.page_tokens import PAGE_BYTES, token_from_cursor
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.port import TaskPage
from protolink_grpc.wire.answer_bounds import WHOLE, Window
from protolink_grpc.wire.bounds import is_small, run_in_thread
from protolink_grpc.wire.cards import card_to_pb
from protolink_grpc.wire.scalars import MAX_INT32, bytes_field, json_object_from_pb, tag
from protolink_grpc.wire.tasks import fold_to_bytes, fold_to_pb

TASK_TAG = tag(pb.SendTaskResponse.DESCRIPTOR.fields_by_name["task"].number)


class AgentServicer(agent_service_pb2_grpc.AgentServiceServicer):
    """AgentService of one agent.

    Frequent responses are bytes: tasks whose messages are encoded already, and events as they are stored.
    """

    def __init__(self, service: TaskService, card: Callable[[], AgentCard]) -> None:
        self._service = service
        self._card = card

    async def GetAgentCard(self, request: pb.GetAgentCardRequest, context: Context) -> pb.GetAgentCardResponse:
        return pb.GetAgentCardResponse(card=card_to_pb(self._card()))

    async def SendTask(  # type: ignore[override]  # bytes: the encoded response, see the class
        self, request: pb.SendTaskRequest, context: Context
    ) -> bytes:
        submission = await _read_submission(request)
        view = convert.view_from_pb(request.view, task_pb2.TASK_VIEW_TURN)
        take_origin(context)
        if convert.waits_from_pb(request.wait_for):
            fold = await self._service.send(submission, caller())
        else:
            turn = await self._service.submit(submission, caller())
            fold = await self._service.get(turn.task_id, caller())
        return bytes_field(TASK_TAG, fold_to_bytes(fold, view))

    async def StreamTask(  # type: ignore[override]  # bytes: the encoded response, see the class
        self, request: pb.StreamTaskRequest, context: Context
    ) -> AsyncIterator[bytes]:
        submission = await _read_submission(request)
        deltas = convert.deltas_from_pb(request.deltas)
        take_origin(context)
        stream = self._service.stream(submission, caller(), deltas=deltas, positions=True)
        async with aclosing(stream) as batches:
            async for frames in batches:
                yield b"".join(frames)

    async def SubscribeTask(  # type: ignore[override]  # as above
        self, request: pb.SubscribeTaskRequest, context: Context
    ) -> AsyncIterator[bytes]:
        watch = self._service.watch(
            convert.require_id(request.task_id, "task_id"),
            caller(),
            after=request.after_sequence,
            stop_at=convert.stop_from_pb(request.stop_at),
            deltas=convert.deltas_from_pb(request.deltas),
            positions=True,
        )
        async with aclosing(watch) as batches:
            async for frames in batches:
                yield b"".join(frames)

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> pb.GetTaskResponse:
        view = convert.view_from_pb(request.view, task_pb2.TASK_VIEW_FULL)
        task_id, window = convert.require_id(request.task_id, "task_id"), convert.window_from_pb(request)
        return pb.GetTaskResponse(task=await self._read(task_id, view, window))

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> pb.ListTasksResponse:
        view = convert.view_from_pb(request.view, task_pb2.TASK_VIEW_HEADER)
        page = await self._service.find(convert.query_from_pb(request, caller(), self._service.agent_name))
        tasks, following = await self._fill_page(page, view)
        return pb.ListTasksResponse(
            tasks=tasks, next_page_token=token_from_cursor(following), total_size=min(page.total or 0, MAX_INT32)
        )

    async def _fill_page(self, page: TaskPage, view: Any) -> tuple[list[task_pb2.Task], tuple[int, str] | None]:
        """Return the tasks of a page up to `PAGE_BYTES`, at least one, and the cursor of the next page."""
        tasks: list[task_pb2.Task] = []
        size, last = 0, None
        for head in page.heads:
            if view == task_pb2.TASK_VIEW_HEADER:
                task = convert.head_to_pb(head)
            else:
                try:
                    task = await self._read(head.task_id, view)
                except TaskNotFoundError:
                    continue  # deleted in the meantime
            size += task.ByteSize()
            if tasks and size > PAGE_BYTES:
                return tasks, last
            tasks.append(task)
            last = (head.update_micros, head.task_id)
        return tasks, page.next

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Context) -> pb.CancelTaskResponse:
        fold = await self._service.cancel(
            convert.require_id(request.task_id, "task_id"),
            caller(),
            reason=request.reason,
            metadata=json_object_from_pb(request.metadata_json, "metadata_json"),
        )
        return pb.CancelTaskResponse(task=fold_to_pb(fold, task_pb2.TASK_VIEW_HEADER))

    async def _read(self, task_id: str, view: Any, window: Window = WHOLE) -> task_pb2.Task:
        if view == task_pb2.TASK_VIEW_HEADER:
            return convert.head_to_pb(await self._service.head(task_id, caller()))
        return fold_to_pb(await self._service.get(task_id, caller()), view, window)


async def _read_submission(request: pb.SendTaskRequest | pb.StreamTaskRequest) -> Submission:
    """Return the submission in a request, with the caller's scopes. A large request is converted in a thread."""
    read = convert.submission_from_pb
    submission = read(request) if is_small(request) else await run_in_thread(read, request)
    submission.scopes = caller_scopes()
    return submission
