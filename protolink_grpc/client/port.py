"""The interface between a client and one agent: the methods of AgentService with values of `models`."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.errors import RemoteError
from protolink_grpc.models.action import Approval, ApprovalDecision, ApprovalState
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.events import PeerTaskLinked, RunEvent, TaskProgress
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolCall, ToolOutput
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.session import (
    DeletedSession,
    Session,
    SessionItem,
    SessionList,
    SessionPage,
    Thread,
    ThreadResumption,
    Turn,
    WhenBusy,
)
from protolink_grpc.models.snapshot import (
    ArtifactsSnapshot,
    ContextBoundarySnapshot,
    EvidenceSnapshot,
    QueueSnapshot,
    SessionSnapshot,
    TaskSnapshot,
    TaskSnapshotPage,
    ThreadSnapshot,
    ToolInventorySnapshot,
)
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_control import TaskDescription, TaskLink, TaskStatus
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.tool import ToolList
from protolink_grpc.models.watch import ApprovalChanges, StopAt
from protolink_grpc.net.tls import TLSConfig

PLGRPC: Final = "plgrpc"
A2A: Final = "a2a"
PROTOLINK: Final = "protolink"
"""The protocols of agents, as in `PeerTaskLinked`."""


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """A task in a list. Times are ISO 8601 UTC."""

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
    """One page of tasks, most recently changed first.

    Has the token of the next page ("" on the last one), and the number of matching tasks on all pages if that was requested."""

    tasks: list[TaskSummary] = field(default_factory=list)
    next_page_token: str = ""
    total_size: int | None = None


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which tasks to list. Empty fields match all tasks. `updated_after` is ISO 8601."""

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
    """One page of approvals, oldest first, and the token of the next page ("" on the last one). A page may be short or empty."""

    approvals: list[Approval] = field(default_factory=list)
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The result of an answer: the current approval, and whether it had been decided before, in which case nothing changed."""

    approval: Approval
    already_decided: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of sending: the task with what the turn added, and how many messages and artifacts it has in total."""

    task: Task
    message_count: int
    artifact_count: int


@dataclass(frozen=True, slots=True)
class CalledTool:
    """The result of a tool call: its output and the id of the call's task."""

    output: ToolOutput
    task_id: str


class AgentPort(Protocol):
    """One agent: over gRPC, in the same process, over A2A, or over ProtoLink's protocol.

    All methods raise the errors of `errors`. `timeout_s` limits the wait, never the run. `target` says whether a task may be
    created or continued, and `expected` is the required last sequence of a continued task, 0 for any; agents of other systems
    ignore both, because they choose task ids themselves and have no sequences. With `deltas` a stream also contains live text, as
    events without a sequence; each stream contains a text from its beginning. Events are as in the log: `models.references`
    restores the values that they refer to.
    """

    @property
    def is_connected(self) -> bool:
        """Whether a connection is open. False does not mean that the agent is unavailable."""
        ...

    async def card(self, timeout_s: float | None) -> AgentCard: ...

    async def protocol(self) -> str:
        """Return `plgrpc`, `a2a` or `protolink`."""
        ...

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
        """Yield batches of JSON lines."""
        ...

    async def list_tools(self, page_size: int, page_token: str, timeout_s: float | None) -> ToolList: ...

    async def call_tool(
        self, call: ToolCall, request_id: str, task_id: str, session_id: str, timeout_s: float | None
    ) -> CalledTool: ...

    async def list_approvals(self, wanted: ApprovalFilter, timeout_s: float | None) -> ApprovalList: ...

    def watch_approvals(self, task_id: str, after_revision: int) -> AsyncGenerator[ApprovalChanges, None]:
        """Yield the changes after a revision, or a snapshot and then changes: see watch.proto."""
        ...

    async def respond(self, decision: ApprovalDecision, request_id: str, timeout_s: float | None) -> ApprovalAnswer: ...

    async def describe_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult: ...

    async def reset_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult: ...

    async def compact_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult: ...

    async def compact_history(
        self, request: HistoryCompactionRequest, timeout_s: float | None
    ) -> HistoryCompactionResult: ...

    @property
    def sessions(self) -> "SessionPort":
        """The agent's sessions. Raises UnimplementedError for agents of other systems."""
        ...

    @property
    def snapshots(self) -> "SnapshotPort":
        """The agent's snapshots. Raises UnimplementedError for agents of other systems."""
        ...

    @property
    def tasks(self) -> "TaskControlPort":
        """The control of the agent's tasks. Raises UnimplementedError for agents of other systems."""
        ...


class A2ATasks(Protocol):
    """The tasks of a client at an A2A agent, which assigns their ids itself."""

    def note_ids(self, task_id: str, note: Callable[[PeerTaskLinked], Awaitable[None]]) -> AbstractContextManager[None]:
        """Call `note` with the agent's ids of a task that is sent in this block, before any event of the task is yielded."""
        ...

    async def adopt(self, task: Task, link: PeerTaskLinked, timeout_s: float | None) -> bool:
        """Return whether the agent has the task that an earlier process sent as `task`. If so, it can be read under its id."""
        ...


class TaskControlPort(Protocol):
    """The control of one agent's tasks: the methods of TaskControlService with values of `models`. `timeout_s` as in AgentPort."""

    async def create(
        self,
        task: Task,
        description: TaskDescription | None,
        links: Sequence[TaskLink],
        request_id: str,
        timeout_s: float | None,
    ) -> TaskSnapshot:
        """Create a draft whose input is a task that has not been sent."""
        ...

    async def update(
        self,
        task_id: str,
        description: TaskDescription | None,
        metadata: dict[str, Any] | None,
        expected_sequence: int,
        timeout_s: float | None,
    ) -> TaskSnapshot: ...

    async def start(self, task_id: str, timeout_s: float | None, *, external: bool) -> TaskSnapshot: ...

    async def report_progress(
        self, task_id: str, report: TaskProgress, request_id: str, timeout_s: float | None
    ) -> TaskSnapshot: ...

    async def pause(self, task_id: str, reason: str, timeout_s: float | None) -> TaskSnapshot: ...

    async def resume(self, task_id: str, reason: str, timeout_s: float | None) -> TaskSnapshot: ...

    async def retry(self, task_id: str, reason: str, request_id: str, timeout_s: float | None) -> TaskSnapshot: ...

    async def complete(
        self, task_id: str, messages: Sequence[Message], artifacts: Sequence[Artifact], timeout_s: float | None
    ) -> TaskSnapshot: ...

    async def fail(self, task_id: str, failure: Failure, timeout_s: float | None) -> TaskSnapshot: ...

    async def link(self, task_id: str, link: TaskLink, timeout_s: float | None) -> TaskSnapshot: ...

    async def unlink(self, task_id: str, link: TaskLink, timeout_s: float | None) -> TaskSnapshot: ...

    async def get(self, task_id: str, timeout_s: float | None) -> TaskSnapshot: ...

    async def list(
        self,
        statuses: Sequence[TaskStatus],
        session_id: str,
        page_size: int,
        page_token: str,
        timeout_s: float | None,
    ) -> TaskSnapshotPage: ...


class SessionPort(Protocol):
    """The sessions of one agent: the methods of SessionService with values of `models`. `timeout_s` is that of AgentPort."""

    async def create(
        self, session_id: str, title: str, metadata: dict[str, Any], timeout_s: float | None
    ) -> Session: ...

    async def update(
        self,
        session_id: str,
        title: str | None,
        metadata: dict[str, Any] | None,
        archived: bool | None,
        timeout_s: float | None,
    ) -> Session: ...

    async def get(
        self, session_id: str, thread_id: str, page_size: int, page_token: str, timeout_s: float | None
    ) -> SessionPage: ...

    async def find(
        self, page_size: int, page_token: str, timeout_s: float | None, *, include_archived: bool
    ) -> SessionList: ...

    async def start_thread(
        self,
        session_id: str,
        thread_id: str,
        title: str,
        timeout_s: float | None,
        *,
        from_thread: str,
        from_turn: str,
    ) -> Thread: ...

    async def submit(
        self,
        task: Task,
        session_id: str,
        thread_id: str,
        turn_id: str,
        *,
        when_busy: WhenBusy,
        timeout_s: float | None,
    ) -> Turn:
        """Submit a turn whose input is a task that has not been sent. Its id and session are ignored."""
        ...

    def stream(
        self, session_id: str, turn_id: str, after: int, *, deltas: bool
    ) -> AsyncGenerator[list[RunEvent], None]:
        """Yield the events of a turn after a sequence of its task; 0 means from the beginning of the turn."""
        ...

    async def interrupt(
        self,
        session_id: str,
        thread_id: str,
        turn_id: str,
        reason: str,
        timeout_s: float | None,
        *,
        clear_queue: bool,
    ) -> tuple[Turn, ...]: ...

    async def promote(self, session_id: str, turn_id: str, timeout_s: float | None) -> Turn: ...

    async def remove(self, session_id: str, turn_id: str, timeout_s: float | None) -> Turn: ...

    async def replace_input(
        self, session_id: str, turn_id: str, messages: Sequence[Message], timeout_s: float | None
    ) -> Turn: ...

    async def roll_back(
        self, session_id: str, turn_id: str, reason: str, timeout_s: float | None
    ) -> tuple[Thread, int]:
        """Return the thread, and the number of turns that were rolled back."""
        ...

    async def delete(self, session_id: str, timeout_s: float | None) -> DeletedSession: ...

    async def resume(
        self, session_id: str, thread_id: str, reason: str, timeout_s: float | None
    ) -> ThreadResumption: ...

    def watch(self, session_id: str, after: int) -> AsyncGenerator[list[SessionItem], None]:
        """Yield the events of the session after a position, in order and without an end."""
        ...

    def runtime_events(
        self, session_id: str, after: int, *, stop_at_end: bool
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """Yield the events of the session in the JSON of the Agent Runtime contract after a sequence, in order."""
        ...


class SnapshotPort(Protocol):
    """The snapshots of one agent: the methods of SnapshotService with values of `models`. `timeout_s` is that of AgentPort."""

    async def session(self, session_id: str, timeout_s: float | None) -> SessionSnapshot: ...

    async def thread(self, session_id: str, thread_id: str, timeout_s: float | None) -> ThreadSnapshot: ...

    async def queue(self, session_id: str, thread_id: str, timeout_s: float | None) -> QueueSnapshot: ...

    async def tools(self, timeout_s: float | None) -> ToolInventorySnapshot: ...

    async def context(self, task_id: str, timeout_s: float | None) -> ContextBoundarySnapshot: ...

    async def artifacts(self, task_id: str, timeout_s: float | None) -> ArtifactsSnapshot: ...

    async def evidence(self, task_id: str, timeout_s: float | None) -> EvidenceSnapshot: ...


class ClientTransport(Protocol):
    """A transport object of `protolink_grpc.transport`, as a client uses it. The classes are in a layer above the client."""

    timeout: float
    tls: TLSConfig | None

    @property
    def transport_type(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def credentials(self) -> Credentials: ...

    @property
    def has_credentials(self) -> bool:
        """Whether `credentials` currently returns headers."""
        ...

    def event_converter(self, get_task: Callable[[str], Awaitable[Task]]) -> Callable[[RunEvent], Awaitable[list[Any]]]:
        """Return the function that converts the events of one stream to those that the users of the transport expect."""
        ...

    def note_answer(self, task: Task, answer: Task) -> None:
        """Called with each task that a user has sent, and the agent's current task."""
        ...


class AgentSource(Protocol):
    """Opens agents at one kind of URL for one client. `client.sources` lists the implementations."""

    def open(self, url: str, transport: str, *, outage_s: float | None = None) -> AgentPort:
        """Open the agent at a URL.

        Args:
            transport: See `AgentClient(transport=)`.
            outage_s: Replaces the client's retry time, for kinds of agents that retry by themselves.

        Raises:
            InvalidArgumentError: The URL is not of this kind; names `agent_url`.
        """
        ...


def conversation_compaction(done: StateOperationResult) -> HistoryCompactionResult:
    """Return the result of compacting the conversation. Raises RemoteError if the agent does not report it."""
    if done.compaction is None:
        raise RemoteError("the agent did not report the result of the compaction")
    return done.compaction
