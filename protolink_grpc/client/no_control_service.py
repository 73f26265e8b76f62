"""ControlService for agents of other systems, which do not have it. Every method raises UnimplementedError."""

from collections.abc import AsyncGenerator

from protolink_grpc.client.port import ApprovalAnswer, ApprovalFilter, ApprovalList
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

    def lacks(self, what: str) -> UnimplementedError:
        """Build the error for a method that this kind of agent does not have."""
        return UnimplementedError(f"{self.url} is {self.kind}: {what}", url=self.url)

    def _refuse_expected(self, expected: int) -> None:
        if expected:
            raise self.lacks("it numbers no events, so none can be expected")

    async def report(self, task_id: str, run_id: str, timeout_s: float | None) -> RunReport:
        raise self.lacks("it has no run reports")

    def export(self, task_id: str, shape: str, timeout_s: float | None) -> AsyncGenerator[tuple[str, ...], None]:
        raise self.lacks("it exports no runs")

    async def list_tools(self, page_size: int, page_token: str, timeout_s: float | None) -> ToolList:
        raise self.lacks("it lists no tools; its card may show them as skills")

    async def list_approvals(self, wanted: ApprovalFilter, timeout_s: float | None) -> ApprovalList:
        raise self.lacks("it lists no approvals")

    def watch_approvals(self, task_id: str, after_revision: int) -> AsyncGenerator[ApprovalChanges, None]:
        raise self.lacks("it lists no approvals")

    async def respond(self, decision: ApprovalDecision, request_id: str, timeout_s: float | None) -> ApprovalAnswer:
        raise self.lacks("it asks for no approvals over this way")

    async def describe_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        raise self.lacks("it does not show what it remembers")

    async def reset_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        raise self.lacks("it does not let its memory be reset")

    async def compact_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        raise self.lacks("it does not let its memory be compacted")

    async def compact_history(
        self, request: HistoryCompactionRequest, timeout_s: float | None
    ) -> HistoryCompactionResult:
        raise self.lacks("it does not let its memory be compacted")
