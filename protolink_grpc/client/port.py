"""How a client reaches one agent, whatever lies between: the verbs of AgentService as values of the models."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from protolink_grpc.errors import RemoteError
from protolink_grpc.models.action import Approval, ApprovalDecision, ApprovalState
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.part import ToolCall, ToolOutput
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.tool import ToolList
from protolink_grpc.models.watch import ApprovalChanges, StopAt


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """A task as a list shows it. Times are ISO 8601 UTC."""

    id: str
    state: TaskState
    session_id: str
    run_id: str
    agent_name: str
    sequence: int
    created_at: str
    updated_at: str
    message_count: int = 0
    artifact_count: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskList:
    """One page: tasks, last changed first, the token of the next page ("" on the last), and matches on all pages where they
    were asked for."""

    tasks: list[TaskSummary] = field(default_factory=list)
    next_page_token: str = ""
    total_size: int | None = None


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which tasks to list; what is empty matches all. `updated_after` is ISO 8601."""

    states: Sequence[TaskState] = ()
    session_id: str = ""
    updated_after: str = ""
    page_size: int = 0
    page_token: str = ""
    include_total: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalFilter:
    """Which approvals to list. No states mean the pending ones; an empty task id matches all."""

    states: Sequence[ApprovalState] = ()
    task_id: str = ""
    page_size: int = 0
    page_token: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalList:
    """One page: approvals, oldest first, and the token of the next page ("" on the last). A page may be short, even empty."""

    approvals: list[Approval] = field(default_factory=list)
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What became of an answer: the approval as it is now, and whether it had been decided before, so that nothing changed."""

    approval: Approval
    already_decided: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """What came back from sending: the task with what the turn added, and how much it has in all."""

    task: Task
    message_count: int
    artifact_count: int


@dataclass(frozen=True, slots=True)
class CalledTool:
    """What came back from calling a tool: its output, and the id of the task that the call became."""

    output: ToolOutput
    task_id: str


class AgentPort(Protocol):
    """One agent: over gRPC, in the same process, an A2A peer, or a ProtoLink peer over its own wire.

    All methods raise the errors of `errors`; `timeout_s` bounds the wait, never the run. `target` says whether a task is to be
    begun or continued, and `expected` with which sequence a task that is continued has to end, 0 for any. Agents that are not ours
    name or forget tasks themselves: what is to be created is not looked up there, and they number nothing. With `deltas` a stream
    shows live text too, as events without a sequence; each stream tells a text from its beginning. Events are as they are in the
    log: `models.references` puts back what they refer to.
    """

    @property
    def is_connected(self) -> bool:
        """Whether what is sent now goes out at once; False says nothing about the agent."""
        ...

    async def card(self, timeout_s: float | None) -> AgentCard: ...

    async def send(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        wait: bool,
        timeout_s: float | None,
    ) -> Sent: ...

    def stream(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        deltas: bool = False,
        timeout_s: float | None,
    ) -> AsyncGenerator[list[RunEvent], None]: ...

    def watch(
        self, task_id: str, after: int, stop_at: StopAt, *, deltas: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]: ...

    async def get(self, task_id: str, timeout_s: float | None) -> Task: ...

    async def list(self, wanted: ListFilter, timeout_s: float | None) -> TaskList: ...

    async def cancel(self, task_id: str, reason: str, timeout_s: float | None) -> Task: ...

    async def report(self, task_id: str, run_id: str, timeout_s: float | None) -> RunReport: ...

    def export(self, task_id: str, shape: str, timeout_s: float | None) -> AsyncGenerator[tuple[str, ...], None]:
        """Batches of JSON lines."""
        ...

    async def list_tools(self, page_size: int, page_token: str, timeout_s: float | None) -> ToolList: ...

    async def call_tool(
        self, call: ToolCall, request_id: str, task_id: str, session_id: str, timeout_s: float | None
    ) -> CalledTool: ...

    async def list_approvals(self, wanted: ApprovalFilter, timeout_s: float | None) -> ApprovalList: ...

    def watch_approvals(self, task_id: str, after_revision: int) -> AsyncGenerator[ApprovalChanges, None]:
        """What changed after a revision, or what waits, then what changes: see watch.proto."""
        ...

    async def respond(self, decision: ApprovalDecision, request_id: str, timeout_s: float | None) -> ApprovalAnswer: ...

    async def describe_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult: ...

    async def reset_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult: ...

    async def compact_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult: ...

    async def compact_history(
        self, request: HistoryCompactionRequest, timeout_s: float | None
    ) -> HistoryCompactionResult: ...


class AgentSource(Protocol):
    """Opens the agents of one kind of URL for one client: `client.sources` names the implementations."""

    def open(self, url: str, transport: str, *, outage_s: float | None = None) -> AgentPort:
        """The agent at a URL.

        Args:
            transport: As `AgentClient(transport=)`: it may say what kind of agent is there.
            outage_s: Instead of the client's, where this kind of agent repeats its calls by itself.

        Raises:
            InvalidArgumentError: The URL is not of this kind; names `agent_url`.
        """
        ...


def compaction_of(done: StateOperationResult) -> HistoryCompactionResult:
    """What a compaction of state did to the conversation. Raises RemoteError: the agent does not say."""
    if done.compaction is None:
        raise RemoteError("the agent did not say what it did")
    return done.compaction
