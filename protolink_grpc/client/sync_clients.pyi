"""Generated from the asynchronous classes by tests/contract/make_sync_stub.py. Do not edit."""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal, overload

import grpc

from protolink_grpc.client.agent_access import S
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.port import ApprovalAnswer, ApprovalList, TaskList
from protolink_grpc.client.questions import Answer
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.client.session_calls import SessionCalls
from protolink_grpc.client.snapshot_calls import SnapshotCalls
from protolink_grpc.client.task_calls import Target
from protolink_grpc.client.task_control_calls import TaskControlCalls
from protolink_grpc.models.action import Approval, ApprovalDecision, ApprovalState
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.conversation import CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import Failure
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.push_config import PushConfig
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
from protolink_grpc.models.task_control import LinkKind, TaskDescription, TaskLink, TaskStatus
from protolink_grpc.models.tool import ToolList
from protolink_grpc.models.watch import StopAt
from protolink_grpc.wire.registry import AgentChange, AgentFilter, InstanceStatus, RegisteredAgent

class SyncSessionCalls:
    def __init__(self, sessions: SessionCalls) -> None: ...
    def create(
        self,
        session_id: str | None = None,
        *,
        title: str = "",
        metadata: dict[str, Any] | None = None,
        agent_url: str | None = None,
    ) -> Session: ...
    def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        archived: bool | None = None,
        agent_url: str | None = None,
    ) -> Session: ...
    def delete(self, session_id: str, *, agent_url: str | None = None) -> DeletedSession: ...
    def get(
        self,
        session_id: str,
        *,
        thread_id: str = "",
        page_size: int = 0,
        page_token: str = "",
        agent_url: str | None = None,
    ) -> SessionPage: ...
    def list(
        self, *, page_size: int = 0, page_token: str = "", include_archived: bool = False, agent_url: str | None = None
    ) -> SessionList: ...
    def start_thread(
        self,
        session_id: str,
        thread_id: str | None = None,
        *,
        title: str = "",
        from_thread: str = "",
        from_turn: Turn | str = "",
        agent_url: str | None = None,
    ) -> Thread: ...
    def submit(
        self,
        session_id: str,
        message: Task | Message | str,
        *,
        thread_id: str = ...,
        turn_id: str | None = None,
        when_busy: WhenBusy | str = ...,
        agent_url: str | None = None,
    ) -> Turn: ...
    def stream(
        self, session_id: str, turn: Turn | str, *, deltas: bool = False, agent_url: str | None = None
    ) -> Generator[RunEvent]: ...
    def interrupt(
        self,
        session_id: str,
        *,
        thread_id: str = ...,
        turn: Turn | str = "",
        reason: str = "",
        clear_queue: bool = False,
        agent_url: str | None = None,
    ) -> tuple[Turn, ...]: ...
    def promote(self, session_id: str, turn: Turn | str, *, agent_url: str | None = None) -> Turn: ...
    def remove(self, session_id: str, turn: Turn | str, *, agent_url: str | None = None) -> Turn: ...
    def replace_input(
        self,
        session_id: str,
        turn: Turn | str,
        message: Message | str | Sequence[Message],
        *,
        agent_url: str | None = None,
    ) -> Turn: ...
    def roll_back(
        self, session_id: str, turn: Turn | str, *, reason: str = "", agent_url: str | None = None
    ) -> Thread: ...
    def resume(
        self, session_id: str, *, thread_id: str = ..., reason: str = "", agent_url: str | None = None
    ) -> ThreadResumption: ...
    def subscribe(self, session_id: str, *, after: int = 0, agent_url: str | None = None) -> Generator[SessionItem]: ...
    def runtime_events(
        self, session_id: str, *, after: int = 0, stop_at_end: bool = False, agent_url: str | None = None
    ) -> Generator[dict[str, Any]]: ...

class SyncSnapshotCalls:
    def __init__(self, snapshots: SnapshotCalls) -> None: ...
    def session(self, session_id: str, *, agent_url: str | None = None) -> SessionSnapshot: ...
    def thread(self, session_id: str, thread_id: str = ..., *, agent_url: str | None = None) -> ThreadSnapshot: ...
    def queue(self, session_id: str, thread_id: str = "", *, agent_url: str | None = None) -> QueueSnapshot: ...
    def tools(self, *, agent_url: str | None = None) -> ToolInventorySnapshot: ...
    def context(self, task_id: str, *, agent_url: str | None = None) -> ContextBoundarySnapshot: ...
    def artifacts(self, task_id: str, *, agent_url: str | None = None) -> ArtifactsSnapshot: ...
    def evidence(self, task_id: str, *, agent_url: str | None = None) -> EvidenceSnapshot: ...

class SyncTaskControlCalls:
    def __init__(self, tasks: TaskControlCalls) -> None: ...
    def create(
        self,
        message: Task | Message | str,
        *,
        description: TaskDescription | None = None,
        links: Sequence[TaskLink] = ...,
        request_id: str | None = None,
        agent_url: str | None = None,
    ) -> TaskSnapshot: ...
    def update(
        self,
        task_id: str,
        *,
        description: TaskDescription | None = None,
        metadata: dict[str, Any] | None = None,
        expected_sequence: int = 0,
        agent_url: str | None = None,
    ) -> TaskSnapshot: ...
    def start(self, task_id: str, *, external: bool = False, agent_url: str | None = None) -> TaskSnapshot: ...
    def report_progress(
        self,
        task_id: str,
        progress: float | None = None,
        message: str = "",
        *,
        request_id: str | None = None,
        agent_url: str | None = None,
    ) -> TaskSnapshot: ...
    def pause(self, task_id: str, *, reason: str = "", agent_url: str | None = None) -> TaskSnapshot: ...
    def resume(self, task_id: str, *, reason: str = "", agent_url: str | None = None) -> TaskSnapshot: ...
    def retry(
        self, task_id: str, *, reason: str = "", request_id: str | None = None, agent_url: str | None = None
    ) -> TaskSnapshot: ...
    def complete(
        self,
        task_id: str,
        messages: Sequence[Message] = ...,
        artifacts: Sequence[Artifact] = ...,
        *,
        agent_url: str | None = None,
    ) -> TaskSnapshot: ...
    def fail(self, task_id: str, failure: Failure | str, *, agent_url: str | None = None) -> TaskSnapshot: ...
    def link(
        self, task_id: str, kind: LinkKind | str, target: str, *, reason: str = "", agent_url: str | None = None
    ) -> TaskSnapshot: ...
    def unlink(
        self, task_id: str, kind: LinkKind | str, target: str, *, agent_url: str | None = None
    ) -> TaskSnapshot: ...
    def get(self, task_id: str, *, agent_url: str | None = None) -> TaskSnapshot: ...
    def list(
        self,
        *,
        statuses: Sequence[TaskStatus | str] = ...,
        session_id: str = "",
        page_size: int = 0,
        page_token: str = "",
        agent_url: str | None = None,
    ) -> TaskSnapshotPage: ...

class SyncAgentClient:
    def __init__(self, client: AgentClient) -> None: ...
    def send_task(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
    ) -> Task: ...
    def submit_task(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
    ) -> Task: ...
    def send_task_streaming(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
        deltas: bool = False,
    ) -> Generator[RunEvent]: ...
    def subscribe(
        self, task_id: str, *, agent_url: str | None = None, after: int = 0, stop_at: StopAt = ..., deltas: bool = False
    ) -> Generator[RunEvent]: ...
    def send_message(self, agent_url: str | None, message: Message | str) -> Message: ...
    @overload
    def ask(
        self,
        question: Message | str,
        *,
        output_type: type[Answer] = ...,
        agent_url: str | None = None,
        task_id: str | None = None,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
        request_id: str | None = None,
    ) -> Answer: ...
    @overload
    def ask(
        self,
        question: Message | str,
        *,
        output_type: Any,
        agent_url: str | None = None,
        task_id: str | None = None,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
        request_id: str | None = None,
    ) -> Any: ...
    def get_task(self, task_id: str, *, agent_url: str | None = None) -> Task: ...
    def list_tasks(
        self,
        *,
        agent_url: str | None = None,
        states: Sequence[TaskState | str] = ...,
        session_id: str = "",
        updated_after: str = "",
        page_size: int = 0,
        page_token: str = "",
        include_total: bool = False,
    ) -> TaskList: ...
    def cancel_task(self, agent_url: str | None, task_id: str, *, reason: str | None = None) -> Task: ...
    def wait_task(self, task_id: str, *, agent_url: str | None = None) -> Task: ...
    def list_approvals(
        self,
        agent_url: str | None = None,
        *,
        states: Sequence[ApprovalState | str] = ...,
        task_id: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> ApprovalList: ...
    def watch_approvals(self, agent_url: str | None = None, *, task_id: str = "") -> Generator[Approval]: ...
    def respond_approval(
        self,
        agent_url: str | None,
        answer: ApprovalDecision | Approval | str,
        approved: bool | None = None,
        *,
        reason: str = "",
        edited_arguments: dict[str, Any] | None = None,
        etag: str = "",
        request_id: str | None = None,
    ) -> ApprovalAnswer: ...
    def list_tools(self, agent_url: str | None = None, *, page_size: int = 0, page_token: str = "") -> ToolList: ...
    def call_tool(
        self,
        agent_url: str | None,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        session_id: str | None = None,
        **more: Any,
    ) -> Any: ...
    def describe_state(
        self,
        agent_url: str | None = None,
        request: StateOperationRequest | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
        include_data: bool = False,
    ) -> StateOperationResult: ...
    def reset_state(
        self,
        agent_url: str | None = None,
        request: StateOperationRequest | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
    ) -> StateOperationResult: ...
    def compact_state(
        self,
        agent_url: str | None = None,
        request: StateOperationRequest | HistoryCompactionRequest | None = None,
        *,
        session_id: str | None = None,
        strategy: CompactionStrategy | None = None,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        preserve_recent: int | None = None,
        summary_max_tokens: int | None = None,
    ) -> StateOperationResult: ...
    def compact_history(
        self, agent_url: str | None, request: HistoryCompactionRequest | None = None, **fields: Any
    ) -> HistoryCompactionResult: ...
    def set_push_config(self, agent_url: str | None, task_id: str, config: PushConfig) -> PushConfig: ...
    def get_push_config(self, agent_url: str | None, task_id: str, config_id: str) -> PushConfig: ...
    def list_push_configs(self, agent_url: str | None, task_id: str) -> list[PushConfig]: ...
    def delete_push_config(self, agent_url: str | None, task_id: str, config_id: str) -> None: ...
    def get_run_report(self, agent_url: str | None, task_id: str, run_id: str | None = None) -> RunReport: ...
    def export_task(
        self, agent_url: str | None, task_id: str, *, format: Literal["protolink", "agentruntime"] = "protolink"
    ) -> Generator[str]: ...
    def connect(self, agent_url: str | None = None) -> None: ...
    def protocol(self, agent_url: str | None = None) -> str: ...
    def get_agent_card(self, agent_url: str | None = None) -> AgentCard: ...
    @property
    def sessions(self) -> SyncSessionCalls: ...
    @property
    def snapshots(self) -> SyncSnapshotCalls: ...
    @property
    def tasks(self) -> SyncTaskControlCalls: ...
    def stub(self, kind: Callable[[grpc.Channel], S], agent_url: str | None = None) -> S: ...

class SyncRegistryClient:
    def __init__(self, client: RegistryClient) -> None: ...
    def register(self, card: AgentCard, *, lease_ttl_s: float = ..., instance_id: str = "") -> float: ...
    def heartbeat(self, agent_url: str, status: InstanceStatus | None = None) -> float: ...
    def unregister(self, agent_url: str) -> bool: ...
    def get(self, name_or_url: str) -> RegisteredAgent: ...
    def list_agents(self, wanted: AgentFilter | None = None) -> list[RegisteredAgent]: ...
    def discover(self, filter_by: Mapping[str, Any] | None = None) -> list[AgentCard]: ...
    def watch(
        self, wanted: AgentFilter | None = None, *, after_revision: int = 0, complete: asyncio.Event | None = None
    ) -> Generator[AgentChange]: ...
    def keep_registered(
        self,
        card: Callable[[], AgentCard],
        *,
        lease_ttl_s: float = ...,
        instance_id: str = "",
        status: Callable[[], InstanceStatus] | None = None,
        registered: asyncio.Event | None = None,
    ) -> None: ...
