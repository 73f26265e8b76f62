"""ControlService over gRPC: converts requests, calls the runtime, converts results."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from plgrpc.v1 import control_service_pb2 as pb
from plgrpc.v1 import control_service_pb2_grpc
from plgrpc.v1.tool_pb2 import Tool

from protolink_grpc.edges.grpc.call import Context, caller, caller_scopes, take_origin
from protolink_grpc.edges.grpc.convert import require_id
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.page_tokens import (
    PAGE_BYTES,
    cursor_from_token,
    name_from_token,
    page_size_of,
    token_from_cursor,
    token_from_name,
)
from protolink_grpc.reports import ReportBuilder, RunExport
from protolink_grpc.runtime.actions.tools import require_output, run_tool
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.state.control import StateControl, require_state
from protolink_grpc.storage.approvals import ApprovalQuery
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.wire.actions import APPROVAL_STATES, answer_from_pb, approval_to_pb
from protolink_grpc.wire.answer_bounds import BODY_BYTES
from protolink_grpc.wire.exports import NDJSON, export_format_from_pb
from protolink_grpc.wire.parts import TOOL_OUTPUT, check_tool_call, tool_call_from_pb
from protolink_grpc.wire.state import (
    compact_request_from_pb,
    compact_result_to_pb,
    describe_request_from_pb,
    describe_result_to_pb,
    reset_request_from_pb,
    reset_result_to_pb,
)
from protolink_grpc.wire.tasks import check_id
from protolink_grpc.wire.tools import TOOL
from protolink_grpc.wire.watch import POSITION

PIECE_CHARS = 256 << 10
"""Maximum length of one piece of a report in characters: at most 1 MiB of UTF-8."""


class ControlServicer(control_service_pb2_grpc.ControlServiceServicer):
    """ControlService of one agent.

    Args:
        redaction: Applied to reports and exports.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        service: TaskService,
        state: StateControl | None = None,
        *,
        redaction: RedactionPolicy = DEFAULT_REDACTION_POLICY,
    ) -> None:
        self._toolbox = toolbox
        self._redaction = redaction
        self._state = state
        self._service = service

    async def ListTools(self, request: pb.ListToolsRequest, context: Context) -> pb.ListToolsResponse:
        after, most = name_from_token(request.page_token), page_size_of(request.page_size)
        tools: list[Tool] = []
        size = 0
        for description in self._toolbox.describe(after):
            tool = TOOL.to_pb(description)
            size += tool.ByteSize()
            if len(tools) == most or (tools and size > PAGE_BYTES):
                return pb.ListToolsResponse(tools=tools, next_page_token=token_from_name(tools[-1].name))
            tools.append(tool)
        return pb.ListToolsResponse(tools=tools)

    async def DescribeState(self, request: pb.DescribeStateRequest, context: Context) -> pb.DescribeStateResponse:
        wanted = describe_request_from_pb(request)
        return describe_result_to_pb(await require_state(self._state).describe(wanted, caller()))

    async def ResetState(self, request: pb.ResetStateRequest, context: Context) -> pb.ResetStateResponse:
        wanted = reset_request_from_pb(request)
        return reset_result_to_pb(await require_state(self._state).reset(wanted, caller()))

    async def CompactState(self, request: pb.CompactStateRequest, context: Context) -> pb.CompactStateResponse:
        wanted = compact_request_from_pb(request)
        return compact_result_to_pb(await require_state(self._state).compact(wanted, caller()))

    async def ListApprovals(self, request: pb.ListApprovalsRequest, context: Context) -> pb.ListApprovalsResponse:
        page = await self._service.approvals.page(caller(), approval_query_from_pb(request))
        return pb.ListApprovalsResponse(
            approvals=[approval_to_pb(each) for each in page.approvals], next_page_token=token_from_cursor(page.next)
        )

    async def WatchApprovals(
        self, request: pb.WatchApprovalsRequest, context: Context
    ) -> AsyncIterator[pb.WatchApprovalsResponse]:
        task_id, after = check_id(request.task_id, "task_id"), request.after_revision
        async with aclosing(self._service.approvals.watch(caller(), task_id, after_revision=after)) as batches:
            async for batch in batches:
                yield pb.WatchApprovalsResponse(
                    approvals=[approval_to_pb(each) for each in batch.approvals],
                    position=POSITION.to_pb(batch.position),
                )

    async def RespondApproval(self, request: pb.RespondApprovalRequest, context: Context) -> pb.RespondApprovalResponse:
        decision = answer_from_pb(request)
        check_id(decision.request_id, "approval_id")
        request_id = check_id(request.request_id, "request_id")
        approval, already_decided = await self._service.approvals.respond(decision, caller(), request_id)
        return pb.RespondApprovalResponse(approval=approval_to_pb(approval), already_decided=already_decided)

    async def GetRunReport(
        self, request: pb.GetRunReportRequest, context: Context
    ) -> AsyncIterator[pb.GetRunReportResponse]:
        task_id = require_id(request.task_id, "task_id")
        head = await self._service.head(task_id, caller())
        builder = ReportBuilder(request.run_id or head.run_id)
        async with aclosing(self._service.watch(task_id, caller(), stop_at=StopAt.CURRENT)) as batches:
            async for frames in batches:
                # In a thread, because a long log would block the event loop.
                await asyncio.to_thread(builder.add_frames, frames)
        report = builder.report_on(task_id)
        text = await asyncio.to_thread(report.to_json, self._redaction)
        for start in range(0, len(text), PIECE_CHARS):
            yield pb.GetRunReportResponse(piece=text[start : start + PIECE_CHARS])

    async def ExportTask(self, request: pb.ExportTaskRequest, context: Context) -> AsyncIterator[pb.ExportTaskResponse]:
        task_id = require_id(request.task_id, "task_id")
        export = RunExport(export_format_from_pb(request.format), self._redaction)
        async with aclosing(self._service.watch(task_id, caller(), stop_at=StopAt.CURRENT)) as batches:
            async for frames in batches:
                for lines in await asyncio.to_thread(export.batches, frames):
                    data = "".join(f"{line}\n" for line in lines).encode()
                    yield pb.ExportTaskResponse(data=data, media_type=NDJSON)

    async def CallTool(self, request: pb.CallToolRequest, context: Context) -> pb.CallToolResponse:
        check_tool_call(request.call, "call")
        call = tool_call_from_pb(request.call, "call")
        take_origin(context)
        fold = await run_tool(
            self._service,
            self._toolbox,
            call,
            caller(),
            session_id=check_id(request.session_id, "session_id"),
            request_id=check_id(request.request_id, "request_id"),
            task_id=check_id(request.task_id, "task_id"),
            scopes=caller_scopes(),
        )
        converted = TOOL_OUTPUT.to_pb(require_output(fold))
        return pb.CallToolResponse(
            output=converted if converted.ByteSize() <= BODY_BYTES else None, task_id=fold.task_id
        )


def approval_query_from_pb(request: pb.ListApprovalsRequest) -> ApprovalQuery:
    states = [
        APPROVAL_STATES.read_request_item(state, f"states[{index}]") for index, state in enumerate(request.states)
    ]
    return ApprovalQuery(
        states=frozenset(states) or frozenset({ApprovalState.PENDING}),
        task_id=check_id(request.task_id, "task_id"),
        page_size=page_size_of(request.page_size),
        after=cursor_from_token(request.page_token),
    )
