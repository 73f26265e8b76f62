"""ControlService over gRPC. Methods whose behaviour does not exist yet say so."""

from typing import Any, NoReturn

from protolink_pb.v1 import control_service_pb2 as pb
from protolink_pb.v1 import control_service_pb2_grpc

from protolink_grpc.errors import UnimplementedError
from protolink_grpc.server.call import Context
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.wire.cards import skill_to_pb


def _later(method: str) -> Any:
    async def refuse(self: object, request: object, context: Context) -> NoReturn:
        raise UnimplementedError(f"{method} is not implemented by this version", method=method)

    return refuse


def _later_stream(method: str) -> Any:
    def refuse(self: object, request: object, context: Context) -> NoReturn:
        raise UnimplementedError(f"{method} is not implemented by this version", method=method)

    return refuse


class ControlServicer(control_service_pb2_grpc.ControlServiceServicer):
    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def ListTools(self, request: pb.ListToolsRequest, context: Context) -> pb.ListToolsResponse:
        skills = sorted(self._toolbox.skills(), key=lambda skill: skill.id)
        return pb.ListToolsResponse(tools=[skill_to_pb(skill, "tools") for skill in skills])

    ListApprovals = _later("ListApprovals")
    WatchApprovals = _later_stream("WatchApprovals")
    RespondApproval = _later("RespondApproval")
    GetRunReport = _later("GetRunReport")
    ExportRun = _later_stream("ExportRun")
    DescribeState = _later("DescribeState")
    ResetState = _later("ResetState")
    CompactState = _later("CompactState")
    CallTool = _later("CallTool")
