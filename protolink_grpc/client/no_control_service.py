"""The services that agents of other systems do not have, for control, sessions, snapshots and tasks: UnimplementedError."""

from collections.abc import AsyncGenerator

from protolink_grpc.client.port import (
    ApprovalAnswer,
    ApprovalFilter,
    ApprovalList,
    SessionPort,
    SnapshotPort,
    TaskControlPort,
)
from protolink_grpc.errors import UnimplementedError
from protolink_grpc.models.action import ApprovalDecision
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.tool import ToolList
from protolink_grpc.models.watch import ApprovalChanges


class NoControlService:
    """Implements the methods of ControlService for an agent of another system by raising UnimplementedError.

    Args:
        url: URL of the agent, for the error.
        kind: Kind of the agent, for the error, such as "an A2A agent".
    """

    def __init__(self, url: str, kind: str) -> None:
        self.url = url
        self.kind = kind

    @property
    def is_connected(self) -> bool:
        """Always false: connections are opened for each request."""
        return False

    def unsupported_error(self, what: str) -> UnimplementedError:
        """Build the error for a method that this kind of agent does not have."""
        return UnimplementedError(f"{self.url} is {self.kind}: {what}", url=self.url)

    def _check_expected(self, expected: int) -> None:
        """Refuse a required last sequence. Raises UnimplementedError."""
        if expected:
            raise self.unsupported_error("its events have no sequence, so expected_sequence cannot be used")

    @property
    def sessions(self) -> SessionPort:
        raise self.unsupported_error("sessions are not supported")

    @property
    def snapshots(self) -> SnapshotPort:
        raise self.unsupported_error("snapshots are not supported")

    @property
    def tasks(self) -> TaskControlPort:
        raise self.unsupported_error("the control of tasks is not supported")

    async def report(self, task_id: str, run_id: str, timeout_s: float | None) -> RunReport:
        raise self.unsupported_error("run reports are not supported")

    def export(self, task_id: str, shape: str, timeout_s: float | None) -> AsyncGenerator[tuple[str, ...], None]:
        raise self.unsupported_error("exporting runs is not supported")

    async def list_tools(self, page_size: int, page_token: str, timeout_s: float | None) -> ToolList:
        raise self.unsupported_error("listing tools is not supported; its card may show them as skills")

    async def list_approvals(self, wanted: ApprovalFilter, timeout_s: float | None) -> ApprovalList:
        raise self.unsupported_error("listing approvals is not supported")

    def watch_approvals(self, task_id: str, after_revision: int) -> AsyncGenerator[ApprovalChanges, None]:
        raise self.unsupported_error("listing approvals is not supported")

    async def respond(self, decision: ApprovalDecision, request_id: str, timeout_s: float | None) -> ApprovalAnswer:
        raise self.unsupported_error("answering approvals is not supported")

    async def describe_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        raise self.unsupported_error("describing state is not supported")

    async def reset_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        raise self.unsupported_error("resetting state is not supported")

    async def compact_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        raise self.unsupported_error("compacting state is not supported")

    async def compact_history(
        self, request: HistoryCompactionRequest, timeout_s: float | None
    ) -> HistoryCompactionResult:
        raise self.unsupported_error("compacting state is not supported")
