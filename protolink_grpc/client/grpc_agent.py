"""One agent over gRPC."""

from collections.abc import AsyncGenerator
from typing import Any

from protolink_pb.v1 import agent_service_pb2 as pb
from protolink_pb.v1 import agent_service_pb2_grpc, task_pb2

from protolink_grpc.client.channel import ChannelOptions, channel_to, typed_errors
from protolink_grpc.client.port import ListFilter, Sent, TaskList, TaskSummary
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.submission import StopAt
from protolink_grpc.wire.address import Address
from protolink_grpc.wire.cards import card_from_pb
from protolink_grpc.wire.events import event_from_pb
from protolink_grpc.wire.scalars import micros_from_pb, timestamp_to_pb
from protolink_grpc.wire.tasks import STATES, state_from_pb, task_from_pb, task_to_pb
from protolink_grpc.wire.tracing import joined_to_trace

_STOPS = {
    StopAt.TERMINAL: pb.STOP_AT_TERMINAL,
    StopAt.INTERRUPTED: pb.STOP_AT_INTERRUPTED,
    StopAt.CURRENT: pb.STOP_AT_CURRENT,
}


class GrpcAgent:
    """The agent behind an address. Channels are shared, so making one of these costs nothing."""

    def __init__(self, address: Address, options: ChannelOptions) -> None:
        self.address = address
        self._options = options

    @property
    def _stub(self) -> Any:
        # The async flavour of the stub: generated types tell it from the sync one by the channel only.
        return agent_service_pb2_grpc.AgentServiceStub(channel_to(self.address, self._options))

    def _call(self, timeout_s: float | None) -> dict[str, Any]:
        return {"timeout": timeout_s, "metadata": joined_to_trace(self._options.metadata)}

    async def card(self, timeout_s: float | None) -> AgentCard:
        async with typed_errors(self.address):
            response = await self._stub.GetAgentCard(pb.GetAgentCardRequest(), **self._call(timeout_s))
        return card_from_pb(response.card)

    async def send(
        self, task: Task, request_id: str, *, must_exist: bool = False, wait: bool, timeout_s: float | None
    ) -> Sent:
        request = pb.SendTaskRequest(
            task=task_to_pb(task),
            request_id=request_id,
            task_id=task.id if must_exist else "",
            return_immediately=not wait,
        )
        async with typed_errors(self.address, task_id=task.id):
            response = await self._stub.SendTask(request, **self._call(timeout_s))
        return Sent(task_from_pb(response.task), response.task.message_count, response.task.artifact_count)

    async def stream(
        self, task: Task, request_id: str, *, must_exist: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        request = pb.StreamTaskRequest(
            task=task_to_pb(task), request_id=request_id, task_id=task.id if must_exist else ""
        )
        async with typed_errors(self.address, task_id=task.id):
            call = self._stub.StreamTask(request, **self._call(timeout_s))
            try:
                async for response in call:
                    yield [event_from_pb(event) for event in response.events]
            finally:
                call.cancel()

    async def watch(
        self, task_id: str, after: int, stop_at: StopAt, *, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        request = pb.SubscribeTaskRequest(task_id=task_id, after_sequence=after, stop_at=_STOPS[stop_at])
        async with typed_errors(self.address, task_id=task_id):
            call = self._stub.SubscribeTask(request, **self._call(timeout_s))
            try:
                async for response in call:
                    yield [event_from_pb(event) for event in response.events]
            finally:
                call.cancel()

    async def get(self, task_id: str, timeout_s: float | None) -> Task:
        async with typed_errors(self.address, task_id=task_id):
            response = await self._stub.GetTask(pb.GetTaskRequest(task_id=task_id), **self._call(timeout_s))
        return task_from_pb(response.task)

    async def list(self, wanted: ListFilter, timeout_s: float | None) -> TaskList:
        request = pb.ListTasksRequest(
            states=[STATES[state] for state in wanted.states],
            session_id=wanted.session_id,
            updated_after=timestamp_to_pb(wanted.updated_after) if wanted.updated_after else None,
            page_size=wanted.page_size,
            page_token=wanted.page_token,
        )
        async with typed_errors(self.address):
            response = await self._stub.ListTasks(request, **self._call(timeout_s))
        summaries = [summary_from_pb(task) for task in response.tasks]
        return TaskList(summaries, response.next_page_token, response.total_size)

    async def cancel(self, task_id: str, reason: str, timeout_s: float | None) -> Task:
        request = pb.CancelTaskRequest(task_id=task_id, reason=reason)
        async with typed_errors(self.address, task_id=task_id):
            response = await self._stub.CancelTask(request, **self._call(timeout_s))
        return task_from_pb(response.task)


def summary_from_pb(task: task_pb2.Task) -> TaskSummary:
    """A task in header view."""
    return TaskSummary(
        id=task.id,
        state=state_from_pb(task.state),
        session_id=task.session_id,
        run_id=task.run_id,
        agent_name=task.agent_name,
        sequence=task.sequence,
        created_at=iso_from_micros(micros_from_pb(task.create_time, "create_time")),
        updated_at=iso_from_micros(micros_from_pb(task.update_time, "update_time")),
        message_count=task.message_count,
        artifact_count=task.artifact_count,
        reason=task.error or task.cancel_reason,
    )
