"""Agents of this package over gRPC, or over another channel that carries the same services."""

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any

from google.protobuf.message import Message
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc, control_service_pb2_grpc, task_input_pb2, task_pb2
from plgrpc.v1 import control_service_pb2 as control

from protolink_grpc.client.channel import ChannelOptions, call_stream, call_unary, is_connected, stub_to, typed_errors
from protolink_grpc.client.grpc_sessions import RpcSessions
from protolink_grpc.client.grpc_snapshots import RpcSnapshots
from protolink_grpc.client.grpc_tasks import RpcTasks
from protolink_grpc.client.lru_map import LRUMap
from protolink_grpc.client.port import (
    PLGRPC,
    ApprovalAnswer,
    ApprovalFilter,
    ApprovalList,
    CalledTool,
    ListFilter,
    Sent,
    TaskList,
    TaskSummary,
    conversation_compaction,
)
from protolink_grpc.client.sources import SourceOptions
from protolink_grpc.errors import RemoteError, TaskNotFoundError, UnavailableError
from protolink_grpc.models.action import ApprovalDecision
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.events import RunEvent, TextDelta
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import SETTLED, TERMINAL, TaskState
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_target import TaskTarget, finished_error
from protolink_grpc.models.tool import ToolList
from protolink_grpc.models.tool_result import find_tool_output
from protolink_grpc.models.watch import ApprovalChanges, StopAt
from protolink_grpc.net.address import Address, Endpoint
from protolink_grpc.wire.actions import APPROVAL_STATES, answer_to_pb, approval_from_pb
from protolink_grpc.wire.cards import card_from_pb
from protolink_grpc.wire.events import delta_from_pb, event_from_pb
from protolink_grpc.wire.exports import export_format_to_pb, lines_from_pb
from protolink_grpc.wire.parts import TOOL_OUTPUT, tool_call_to_pb
from protolink_grpc.wire.scalars import micros_from_pb, timestamp_to_pb
from protolink_grpc.wire.state import (
    compact_request_to_pb,
    describe_request_to_pb,
    reset_request_to_pb,
    result_from_pb,
)
from protolink_grpc.wire.tasks import STATES, input_to_pb, task_from_pb
from protolink_grpc.wire.tools import TOOL
from protolink_grpc.wire.watch import POSITION

MAX_OPENED = 1000
"""How many agents a client keeps open by URL; the least recently used one is dropped first."""

_STOPS = {
    StopAt.TERMINAL: pb.STOP_AT_TERMINAL,
    StopAt.INTERRUPTED: pb.STOP_AT_INTERRUPTED,
    StopAt.CURRENT: pb.STOP_AT_CURRENT,
}

_TARGETS = {
    TaskTarget.CREATE: task_input_pb2.TASK_TARGET_CREATE,
    TaskTarget.CONTINUE: task_input_pb2.TASK_TARGET_CONTINUE,
    TaskTarget.CREATE_OR_CONTINUE: task_input_pb2.TASK_TARGET_CREATE_OR_CONTINUE,
}


def _input_to_pb(task: Task, target: TaskTarget, expected: int) -> task_input_pb2.TaskInput:
    """Convert a task to an input. An input has no state, so a finished task is only continued, never created.

    Raises:
        InvalidArgumentError: The task is finished and the target is CREATE.
    """
    if task.is_terminal and target is not TaskTarget.CONTINUE:
        if target is TaskTarget.CREATE:
            raise finished_error(task.state)
        target = TaskTarget.CONTINUE
    return input_to_pb(task, _TARGETS[target], expected_sequence=expected)


@contextmanager
def _finished_task_errors(task: Task, target: TaskTarget) -> Iterator[None]:
    """Convert TaskNotFoundError to InvalidArgumentError for a finished task that may be created: it cannot be."""
    try:
        yield
    except TaskNotFoundError:
        if target is TaskTarget.CONTINUE or not task.is_terminal:
            raise
        raise finished_error(task.state) from None


def _deltas_to_pb(wanted: bool) -> "pb.DeltaMode.ValueType":
    return pb.DELTA_MODE_ALL if wanted else pb.DELTA_MODE_NONE


_ENDS = {StopAt.TERMINAL: TERMINAL, StopAt.INTERRUPTED: SETTLED}
"""The states that end a stream."""


class RpcAgent:
    """An agent at an address. A subclass provides the channel."""

    def __init__(self, address: Endpoint, options: ChannelOptions) -> None:
        self.address = address
        self._options = options

    def _stub_of(self, kind: Callable[[Any], Any]) -> Any:
        """Return the stub over the channel, built once per channel."""
        raise NotImplementedError

    @property
    def _stub(self) -> Any:
        # This is the async stub: the generated types distinguish it from the sync one only by the channel.
        return self._stub_of(agent_service_pb2_grpc.AgentServiceStub)

    @property
    def _control(self) -> Any:
        # The async stub, too.
        return self._stub_of(control_service_pb2_grpc.ControlServiceStub)

    @property
    def sessions(self) -> RpcSessions:
        return RpcSessions(self.address, self._options, self._stub_of)

    @property
    def snapshots(self) -> RpcSnapshots:
        return RpcSnapshots(self.address, self._options, self._stub_of)

    @property
    def tasks(self) -> RpcTasks:
        return RpcTasks(self.address, self._options, self._stub_of)

    async def _call(self, method: Any, request: Message, timeout_s: float | None) -> Any:
        return await call_unary(method, request, self.address, self._options, timeout_s)

    def _responses(self, method: Any, request: Message, timeout_s: float | None) -> AsyncGenerator[Any, None]:
        return call_stream(method, request, self.address, self._options, timeout_s)

    async def protocol(self) -> str:
        return PLGRPC

    async def card(self, timeout_s: float | None) -> AgentCard:
        async with typed_errors(self.address):
            response = await self._call(self._stub.GetAgentCard, pb.GetAgentCardRequest(), timeout_s)
        return card_from_pb(response.card)

    async def send(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        wait: bool,
        timeout_s: float | None,
    ) -> Sent:
        request = pb.SendTaskRequest(
            input=_input_to_pb(task, target, expected),
            request_id=request_id,
            wait_for=pb.WAIT_FOR_SETTLED if wait else pb.WAIT_FOR_ACCEPTED,
        )
        with _finished_task_errors(task, target):
            async with typed_errors(self.address, task_id=task.id):
                response = await self._call(self._stub.SendTask, request, timeout_s)
        found = response.task
        shown = await self.get(found.id, timeout_s) if found.omitted else task_from_pb(found)
        return Sent(shown, found.message_count, found.artifact_count)

    async def stream(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        deltas: bool = False,
        timeout_s: float | None,
    ) -> AsyncGenerator[list[RunEvent], None]:
        request = pb.StreamTaskRequest(
            input=_input_to_pb(task, target, expected),
            request_id=request_id,
            deltas=_deltas_to_pb(deltas),
        )
        stream, last = self._responses(self._stub.StreamTask, request, timeout_s), None
        with _finished_task_errors(task, target):
            async with typed_errors(self.address, task_id=task.id), aclosing(stream) as responses:
                async for response in responses:
                    events = events_from_pb(response)
                    if events:  # a position alone is not progress
                        last = _last_state(events, last)
                        yield events
        if last not in _ENDS[StopAt.INTERRUPTED]:
            raise self._incomplete_stream_error(task.id)

    async def watch(
        self, task_id: str, after: int, stop_at: StopAt, *, deltas: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        request = pb.SubscribeTaskRequest(
            task_id=task_id, after_sequence=after, stop_at=_STOPS[stop_at], deltas=_deltas_to_pb(deltas)
        )
        stream, last, is_empty = self._responses(self._stub.SubscribeTask, request, timeout_s), None, True
        async with typed_errors(self.address, task_id=task_id), aclosing(stream) as responses:
            async for response in responses:
                events = events_from_pb(response)
                if events:
                    is_empty, last = False, _last_state(events, last)
                    yield events
        if stop_at is StopAt.CURRENT or last in _ENDS[stop_at]:
            return
        if not (is_empty and await self._has_ended(task_id, after, timeout_s)):
            raise self._incomplete_stream_error(task_id)

    async def _has_ended(self, task_id: str, after: int, timeout_s: float | None) -> bool:
        """Return whether a task has ended and has no events after a sequence."""
        request = pb.GetTaskRequest(task_id=task_id, view=task_pb2.TASK_VIEW_HEADER)
        async with typed_errors(self.address, task_id=task_id):
            response = await self._call(self._stub.GetTask, request, timeout_s)
        return STATES.read(response.task.state) in TERMINAL and response.task.sequence <= after

    def _incomplete_stream_error(self, task_id: str) -> UnavailableError:
        """Build the error for a stream that ended early without an error, for instance because of a proxy."""
        url = self.address.url
        return UnavailableError(f"{url} ended a stream too early", url=url, task_id=task_id)

    async def get(self, task_id: str, timeout_s: float | None) -> Task:
        """Return the complete task, with as many requests as its size needs."""
        request, pages = pb.GetTaskRequest(task_id=task_id), list[task_pb2.Task]()
        end = None if timeout_s is None else time.monotonic() + timeout_s
        async with typed_errors(self.address, task_id=task_id):
            while True:
                left_s = None if end is None else max(0.0, end - time.monotonic())
                page = (await self._call(self._stub.GetTask, request, left_s)).task
                pages.append(page)
                if page.omitted or not (page.messages or page.artifacts):
                    break  # a field is too large for one response
                if not page.first_message and not page.first_artifact:
                    return task_from_pb(join_pages(pages))
                request.before_message, request.before_artifact = page.first_message, page.first_artifact
        if not page.omitted and len(pages) == 1:
            return task_from_pb(page)  # the page is empty
        return await self._read_log(task_id, timeout_s)

    async def _read_log(self, task_id: str, timeout_s: float | None) -> Task:
        """Return the task computed from its events."""
        fold = TaskFold(task_id)
        async with aclosing(self.watch(task_id, 0, StopAt.CURRENT, timeout_s=timeout_s)) as batches:
            async for events in batches:
                for event in events:
                    payload = None if isinstance(event.payload, TextDelta) else event.payload
                    fold.agent_name = event.agent_name
                    fold.apply(payload, event.sequence or 0, micros_from_iso(event.timestamp), event.run_id)
        return fold.to_task()

    async def list(self, wanted: ListFilter, timeout_s: float | None) -> TaskList:
        request = pb.ListTasksRequest(
            states=[STATES[state] for state in wanted.states],
            session_id=wanted.session_id,
            updated_after=timestamp_to_pb(wanted.updated_after) if wanted.updated_after else None,
            page_size=wanted.page_size,
            page_token=wanted.page_token,
            include_total=wanted.include_total,
        )
        async with typed_errors(self.address):
            response = await self._call(self._stub.ListTasks, request, timeout_s)
        summaries = [summary_from_pb(task) for task in response.tasks]
        total = response.total_size if wanted.include_total else None
        return TaskList(summaries, response.next_page_token, total)

    async def cancel(self, task_id: str, reason: str, timeout_s: float | None) -> Task:
        request = pb.CancelTaskRequest(task_id=task_id, reason=reason)
        async with typed_errors(self.address, task_id=task_id):
            response = await self._call(self._stub.CancelTask, request, timeout_s)
        return task_from_pb(response.task)

    async def report(self, task_id: str, run_id: str, timeout_s: float | None) -> RunReport:
        request = control.GetRunReportRequest(task_id=task_id, run_id=run_id)
        stream = self._responses(self._control.GetRunReport, request, timeout_s)
        async with typed_errors(self.address, task_id=task_id), aclosing(stream) as responses:
            text = "".join([response.piece async for response in responses])
        return RunReport.from_json(text, field="report")

    async def export(self, task_id: str, shape: str, timeout_s: float | None) -> AsyncGenerator[tuple[str, ...], None]:
        request = control.ExportTaskRequest(task_id=task_id, format=export_format_to_pb(shape))
        stream = self._responses(self._control.ExportTask, request, timeout_s)
        async with typed_errors(self.address, task_id=task_id), aclosing(stream) as responses:
            async for response in responses:
                yield lines_from_pb(response)

    async def list_tools(self, page_size: int, page_token: str, timeout_s: float | None) -> ToolList:
        request = control.ListToolsRequest(page_size=page_size, page_token=page_token)
        async with typed_errors(self.address):
            response = await self._call(self._control.ListTools, request, timeout_s)
        tools = TOOL.all_from_pb(response.tools, "tools")
        return ToolList(tools, response.next_page_token)

    async def call_tool(
        self, call: ToolCall, request_id: str, task_id: str, session_id: str, timeout_s: float | None
    ) -> CalledTool:
        request = control.CallToolRequest(
            call=tool_call_to_pb(call), request_id=request_id, task_id=task_id, session_id=session_id
        )
        async with typed_errors(self.address, tool=call.tool_name, task_id=task_id):
            response = await self._call(self._control.CallTool, request, timeout_s)
        if not response.HasField("output"):  # the output is too large for the response
            output = find_tool_output((await self.get(response.task_id, timeout_s)).artifacts)
            if output is None:
                raise RemoteError(f"{self.address.url} did not return the output of the tool", task_id=response.task_id)
            return CalledTool(output, response.task_id)
        return CalledTool(TOOL_OUTPUT.from_pb(response.output, "output"), response.task_id)

    async def list_approvals(self, wanted: ApprovalFilter, timeout_s: float | None) -> ApprovalList:
        request = control.ListApprovalsRequest(
            states=[APPROVAL_STATES[state] for state in wanted.states],
            task_id=wanted.task_id,
            page_size=wanted.page_size,
            page_token=wanted.page_token,
        )
        async with typed_errors(self.address):
            response = await self._call(self._control.ListApprovals, request, timeout_s)
        return ApprovalList([approval_from_pb(each) for each in response.approvals], response.next_page_token)

    async def watch_approvals(self, task_id: str, after_revision: int) -> AsyncGenerator[ApprovalChanges, None]:
        request = control.WatchApprovalsRequest(task_id=task_id, after_revision=after_revision)
        stream = self._responses(self._control.WatchApprovals, request, None)
        async with typed_errors(self.address), aclosing(stream) as responses:
            async for response in responses:
                approvals = [approval_from_pb(each) for each in response.approvals]
                yield ApprovalChanges(approvals, POSITION.from_pb(response.position))
        raise self._incomplete_stream_error(task_id)  # this stream has no regular end

    async def respond(self, decision: ApprovalDecision, request_id: str, timeout_s: float | None) -> ApprovalAnswer:
        request = answer_to_pb(decision, request_id)
        async with typed_errors(self.address, approval_id=decision.request_id):
            response = await self._call(self._control.RespondApproval, request, timeout_s)
        return ApprovalAnswer(approval_from_pb(response.approval), response.already_decided)

    async def describe_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        async with typed_errors(self.address, session_id=request.session_id or ""):
            response = await self._call(self._control.DescribeState, describe_request_to_pb(request), timeout_s)
        return result_from_pb(response, "describe", request.session_id)

    async def reset_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        async with typed_errors(self.address, session_id=request.session_id or ""):
            response = await self._call(self._control.ResetState, reset_request_to_pb(request), timeout_s)
        return result_from_pb(response, "reset", request.session_id)

    async def compact_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        async with typed_errors(self.address, session_id=request.session_id or ""):
            response = await self._call(self._control.CompactState, compact_request_to_pb(request), timeout_s)
        return result_from_pb(response, "compact", request.session_id)

    async def compact_history(
        self, request: HistoryCompactionRequest, timeout_s: float | None
    ) -> HistoryCompactionResult:
        return conversation_compaction(
            await self.compact_state(StateOperationRequest.of_compaction(request), timeout_s)
        )


class GrpcAgent(RpcAgent):
    """An agent at a `grpc://` or `grpcs://` address. Channels are shared, so creating one is cheap."""

    address: Address

    def __init__(self, address: Address, options: ChannelOptions) -> None:
        super().__init__(address, options)

    def _stub_of(self, kind: Callable[[Any], Any]) -> Any:
        return stub_to(kind, self.address, self._options)

    @property
    def is_connected(self) -> bool:
        return is_connected(self.address, self._options)


class GrpcAgents:
    """Agents at `grpc://` and `grpcs://` URLs, as an AgentSource."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options.channel
        self._opened: LRUMap[GrpcAgent] = LRUMap(MAX_OPENED)

    def open(self, url: str, transport: str, *, outage_s: float | None = None) -> GrpcAgent:
        if outage_s is not None:
            return GrpcAgent(Address.parse(url, field="agent_url"), replace(self._options, outage_s=outage_s))
        agent = self._opened.get(url)
        if agent is None:
            agent = GrpcAgent(Address.parse(url, field="agent_url"), self._options)
            self._opened.put(url, agent)
        return agent


def events_from_pb(response: pb.StreamTaskResponse | pb.SubscribeTaskResponse) -> list[RunEvent]:
    """Return the events of a response, followed by its deltas, which are newer than the events."""
    events = [event_from_pb(event) for event in response.events]
    return events + [delta_from_pb(delta) for delta in response.deltas] if response.deltas else events


def join_pages(pages: Sequence[task_pb2.Task]) -> task_pb2.Task:
    """Join the pages of a task, newest first. The first page is authoritative for what changed meanwhile."""
    whole = task_pb2.Task()
    for page in reversed(pages):
        whole.messages.extend(page.messages)
        whole.artifacts.extend(page.artifacts)
    for page in pages:
        page.ClearField("messages")
        page.ClearField("artifacts")
    whole.MergeFrom(pages[0])
    whole.ClearField("first_message")
    whole.ClearField("first_artifact")
    return whole


def _last_state(events: Sequence[RunEvent], before: TaskState | None) -> TaskState | None:
    """Return the state that the last committed event sets, or None. Without a committed event, return `before`."""
    committed = [event for event in events if event.sequence]
    return committed[-1].state if committed else before


def summary_from_pb(task: task_pb2.Task) -> TaskSummary:
    """Convert a task in header view."""
    return TaskSummary(
        id=task.id,
        state=STATES.read(task.state),
        session_id=task.session_id,
        run_id=task.run_id,
        agent_name=task.agent_name,
        sequence=task.sequence,
        created_at=iso_from_micros(micros_from_pb(task.create_time, "create_time")),
        updated_at=iso_from_micros(micros_from_pb(task.update_time, "update_time")),
        message_count=task.message_count,
        artifact_count=task.artifact_count,
        reason=task.failure.message or task.cancel_reason,
    )
