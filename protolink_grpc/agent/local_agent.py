"""An agent in the same process, `runtime://name`, with the same methods as over the network.

Callers and agent share no objects: arguments are copied, and results are created from the log.
"""

import asyncio
import difflib
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar
from weakref import WeakMethod

from protolink_grpc.agent.local_sessions import LocalSessions
from protolink_grpc.agent.local_snapshots import LocalSnapshots
from protolink_grpc.agent.local_tasks import LocalTasks
from protolink_grpc.auth.principal import LOCAL
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
from protolink_grpc.errors import (
    AgentConflictError,
    AgentNotFoundError,
    DeadlineExceededError,
    UnavailableError,
)
from protolink_grpc.models.action import ApprovalDecision, ApprovalState
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.clock import iso_from_micros, micros_from_iso
from protolink_grpc.models.conversation import HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.fold import copy_artifact, copy_message
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.part import ToolCall, ToolOutput
from protolink_grpc.models.payload import copy_value
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY, RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.tool import ToolList
from protolink_grpc.models.watch import ApprovalChanges, StopAt
from protolink_grpc.net.page_tokens import (
    cursor_from_token,
    name_from_token,
    page_size_of,
    token_from_cursor,
    token_from_name,
)
from protolink_grpc.reports import ReportBuilder, RunExport, SessionExport
from protolink_grpc.runtime.actions.tools import require_output, run_tool
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.state.control import StateControl, require_state
from protolink_grpc.storage.approvals import ApprovalQuery
from protolink_grpc.storage.port import TaskHead, TaskQuery
from protolink_grpc.storage.quiet_positions import QuietPosition
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.wire.events import delta_from_frame, event_from_frame, is_delta
from protolink_grpc.wire.tasks import MAX_ARTIFACTS, MAX_MESSAGES, check_bounds, check_id

T = TypeVar("T")
U = TypeVar("U")

PRINCIPAL = LOCAL
"""The principal of all callers in the same process, which are not authenticated."""


@dataclass(frozen=True, slots=True)
class LocalEndpoint:
    """A running agent: its service, its event loop, its card, tools, and the control of its state, if any.

    `redaction` is applied to reports and exports.
    """

    service: TaskService
    loop: asyncio.AbstractEventLoop
    card: Callable[[], AgentCard]
    toolbox: Toolbox
    state: StateControl | None = None
    redaction: RedactionPolicy = DEFAULT_REDACTION_POLICY


_endpoints: dict[str, LocalEndpoint] = {}
_objects: dict[str, WeakMethod[Callable[[], LocalEndpoint]]] = {}


def announce(url: str, endpoint: LocalEndpoint) -> None:
    """Make an agent reachable under `runtime://name`.

    Raises:
        AgentConflictError: Another running agent has that URL.
    """
    running = _endpoints.get(url)
    if running is not None and running.service is not endpoint.service:
        raise AgentConflictError(f"another agent in this process has the URL {url}", url=url)
    _endpoints[url] = endpoint


def withdraw(url: str, service: TaskService) -> None:
    """Remove the agent's announcement. An announcement of another agent is not affected."""
    running = _endpoints.get(url)
    if running is not None and running.service is service:
        del _endpoints[url]


def announce_object(url: str, find: "WeakMethod[Callable[[], LocalEndpoint]]") -> None:
    """Make an agent reachable under a URL of its own for code that has the Agent object, while that object exists."""
    for gone in [each for each, found in _objects.items() if found() is None]:
        del _objects[gone]
    _objects[url] = find


def endpoint_at(url: str) -> LocalEndpoint:
    """Return the running agent at that URL.

    Raises:
        AgentNotFoundError: No agent runs there. The message suggests the most similar name.
    """
    endpoint = _endpoints.get(url.rstrip("/"))
    find = _objects[url]() if endpoint is None and url in _objects else None
    if find is not None:
        return find()
    if endpoint is None:
        near = difflib.get_close_matches(url, _endpoints, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AgentNotFoundError(f"no agent is running at {url} in this process{hint}", url=url)
    return endpoint


class LocalAgent:
    """An agent in this process, which is looked up at each call.

    Args:
        url: Its URL, for errors and for the default look-up.
        find: Another look-up function.
    """

    def __init__(self, url: str, find: Callable[[], LocalEndpoint] | None = None) -> None:
        self.url = url
        self._principal = PRINCIPAL
        self._find = find or (lambda: endpoint_at(url))

    async def on_service(self, work: Callable[[TaskService], Coroutine[Any, Any, T]]) -> T:
        """Call a function with the agent's service, on the event loop of the agent, and return its result."""
        return await self._on_its_loop(work, None)

    async def _on_its_loop(
        self,
        work: Callable[[TaskService], Coroutine[Any, Any, T]],
        timeout_s: float | None,
        task_id: str = "",
        endpoint: LocalEndpoint | None = None,
    ) -> T:
        endpoint = endpoint or self._find()
        own = endpoint.loop is asyncio.get_running_loop()
        if endpoint.loop.is_closed():
            raise UnavailableError(
                f"{self.url} is not reachable: its event loop is closed", url=self.url, unreached="true"
            )
        coroutine = work(endpoint.service)
        if own and timeout_s is None:
            return await coroutine
        try:
            async with asyncio.timeout(timeout_s):
                if own:
                    return await coroutine
                return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, endpoint.loop))
        except TimeoutError:
            raise DeadlineExceededError(
                f"{self.url} did not answer in time; the task continues there", url=self.url, task_id=task_id
            ) from None

    @property
    def is_connected(self) -> bool:
        return True

    @property
    def sessions(self) -> LocalSessions:
        return LocalSessions(
            self._principal,
            self._on_its_loop,
            self._batches,
            _read_events,
            lambda task: submission_of_copy(task, "", TaskTarget.CREATE),
            export=self._export_session,
        )

    def _export_session(self, session_id: str, after: int, quiet: QuietPosition | None) -> SessionExport:
        found = self._find()
        return SessionExport(session_id, found.card().name, after, found.redaction, quiet)

    @property
    def snapshots(self) -> LocalSnapshots:
        return LocalSnapshots(self._principal, self._on_its_loop)

    @property
    def tasks(self) -> LocalTasks:
        return LocalTasks(
            self._principal,
            self._on_its_loop,
            lambda task, request_id: submission_of_copy(task, request_id, TaskTarget.CREATE),
        )

    async def protocol(self) -> str:
        return PLGRPC

    async def card(self, timeout_s: float | None) -> AgentCard:
        return AgentCard.from_dict(self._find().card().to_dict())

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
        submission = submission_of_copy(task, request_id, target, expected)

        async def work(service: TaskService) -> Sent:
            if wait:
                fold = await service.send(submission, self._principal)
            else:
                turn = await service.submit(submission, self._principal)
                fold = await service.get(turn.task_id, self._principal)
            return Sent(fold.to_task(turn=True), len(fold.messages), len(fold.artifacts))

        return await self._on_its_loop(work, timeout_s, task.id)

    async def run(self, task: Task, request_id: str = "") -> Task:
        """Send a task and return it complete when it ends or waits for input."""
        submission = submission_of_copy(task, request_id, TaskTarget.CREATE_OR_CONTINUE)

        async def work(service: TaskService) -> Task:
            return (await service.send(submission, self._principal)).to_task()

        return await self._on_its_loop(work, None, task.id)

    def stream(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        deltas: bool = False,
        timeout_s: float | None,
    ) -> AsyncGenerator[list[RunEvent], None]:
        submission = submission_of_copy(task, request_id, target, expected)

        def open_stream(service: TaskService) -> AsyncGenerator[list[bytes], None]:
            return service.stream(submission, self._principal, deltas=deltas)

        return self._batches(open_stream, _read_events, timeout_s, task.id)

    def watch(
        self, task_id: str, after: int, stop_at: StopAt, *, deltas: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        def open_watch(service: TaskService) -> AsyncGenerator[list[bytes], None]:
            return service.watch(task_id, self._principal, after=after, stop_at=stop_at, deltas=deltas)

        return self._batches(open_watch, _read_events, timeout_s, task_id)

    async def _batches(
        self,
        open_batches: Callable[[TaskService], AsyncGenerator[T, None]],
        read: Callable[[T], U],
        timeout_s: float | None,
        task_id: str,
    ) -> AsyncGenerator[U, None]:
        """Yield the batches of a reader on the agent's loop, each converted by `read`."""
        endpoint = self._find()
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        batches = open_batches(endpoint.service)
        try:
            while True:
                rest = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
                self._check_runs(endpoint)
                batch = await self._on_its_loop(lambda _: _next(batches), rest, task_id, endpoint)
                if batch is None:
                    return
                yield read(batch)
        finally:
            # On the loop where it was opened, even if the agent has stopped.
            if not endpoint.loop.is_closed():
                await self._on_its_loop(lambda _: batches.aclose(), None, endpoint=endpoint)

    def _check_runs(self, endpoint: LocalEndpoint) -> None:
        now = self._find()
        if now.service is not endpoint.service or now.loop is not endpoint.loop:
            # A generator must not be used on another loop, so the reader starts again after its last event.
            raise UnavailableError(f"{self.url} was restarted", url=self.url)

    async def get(self, task_id: str, timeout_s: float | None) -> Task:
        async def work(service: TaskService) -> Task:
            # Created on the agent's loop, where the fold does not change meanwhile.
            return (await service.get(task_id, self._principal)).to_task()

        return await self._on_its_loop(work, timeout_s, task_id)

    async def list(self, wanted: ListFilter, timeout_s: float | None) -> TaskList:
        query = TaskQuery(
            principal=self._principal,
            agent_name=self._find().service.agent_name,
            states=frozenset(wanted.states),
            session_id=wanted.session_id,
            updated_after_micros=micros_from_iso(wanted.updated_after) if wanted.updated_after else 0,
            page_size=page_size_of(wanted.page_size),
            after=cursor_from_token(wanted.page_token),
            include_total=wanted.include_total,
        )
        page = await self._on_its_loop(lambda service: service.find(query), timeout_s)
        return TaskList([_summary(head) for head in page.heads], token_from_cursor(page.next), page.total)

    async def cancel(self, task_id: str, reason: str, timeout_s: float | None) -> Task:
        async def work(service: TaskService) -> Task:
            return (await service.cancel(task_id, self._principal, reason=reason)).to_task()

        return await self._on_its_loop(work, timeout_s, task_id)

    async def report(self, task_id: str, run_id: str, timeout_s: float | None) -> RunReport:
        head = await self._on_its_loop(lambda service: service.head(task_id, self._principal), timeout_s, task_id)
        builder = ReportBuilder(run_id or head.run_id)
        async with aclosing(self.watch(task_id, 0, StopAt.CURRENT, timeout_s=timeout_s)) as batches:
            async for events in batches:
                for event in events:
                    builder.add(event)
        return builder.report_on(task_id).redacted(self._find().redaction)

    async def export(self, task_id: str, shape: str, timeout_s: float | None) -> AsyncGenerator[tuple[str, ...], None]:
        export = RunExport(shape, self._find().redaction)
        async with aclosing(self.watch(task_id, 0, StopAt.CURRENT, timeout_s=timeout_s)) as batches:
            async for events in batches:
                yield tuple(export.lines(events))

    async def list_tools(self, page_size: int, page_token: str, timeout_s: float | None) -> ToolList:
        most, found = page_size_of(page_size), self._find().toolbox.describe(name_from_token(page_token))
        tools = list(islice(found, most + 1))
        return ToolList(tools[:most], token_from_name(tools[most - 1].name if len(tools) > most else ""))

    async def call_tool(
        self, call: ToolCall, request_id: str, task_id: str, session_id: str, timeout_s: float | None
    ) -> CalledTool:
        copy, endpoint = ToolCall(call.tool_name, copy_value(call.args), call.call_id), self._find()
        for value, field in ((request_id, "request_id"), (task_id, "task_id"), (session_id, "session_id")):
            check_id(value, field)

        async def work(service: TaskService) -> CalledTool:
            fold = await run_tool(
                service,
                endpoint.toolbox,
                copy,
                self._principal,
                session_id=session_id,
                request_id=request_id,
                task_id=task_id,
            )
            output = require_output(fold)
            return CalledTool(ToolOutput(output.call_id, copy_value(output.result), plain(output.error)), fold.task_id)

        return await self._on_its_loop(work, timeout_s, task_id, endpoint)

    async def list_approvals(self, wanted: ApprovalFilter, timeout_s: float | None) -> ApprovalList:
        query = ApprovalQuery(
            states=frozenset(wanted.states) or frozenset({ApprovalState.PENDING}),
            task_id=wanted.task_id,
            page_size=page_size_of(wanted.page_size),
            after=cursor_from_token(wanted.page_token),
        )
        page = await self._on_its_loop(lambda service: service.approvals.page(self._principal, query), timeout_s)
        return ApprovalList(page.approvals, token_from_cursor(page.next))

    def watch_approvals(self, task_id: str, after_revision: int) -> AsyncGenerator[ApprovalChanges, None]:
        def open_watch(service: TaskService) -> AsyncGenerator[ApprovalChanges, None]:
            return service.approvals.watch(self._principal, task_id, after_revision=after_revision)

        return self._batches(open_watch, lambda changes: changes, None, task_id)

    async def respond(self, decision: ApprovalDecision, request_id: str, timeout_s: float | None) -> ApprovalAnswer:
        copy = ApprovalDecision.from_dict(decision.to_dict())
        answered = await self._on_its_loop(
            lambda service: service.approvals.respond(copy, self._principal, request_id), timeout_s
        )
        return ApprovalAnswer(*answered)

    async def describe_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state(lambda state: state.describe(request, self._principal), timeout_s)

    async def reset_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state(lambda state: state.reset(request, self._principal), timeout_s)

    async def compact_state(self, request: StateOperationRequest, timeout_s: float | None) -> StateOperationResult:
        return await self._on_state(lambda state: state.compact(request, self._principal), timeout_s)

    async def compact_history(
        self, request: HistoryCompactionRequest, timeout_s: float | None
    ) -> HistoryCompactionResult:
        return conversation_compaction(
            await self.compact_state(StateOperationRequest.of_compaction(request), timeout_s)
        )

    async def _on_state(
        self, work: Callable[[StateControl], Coroutine[Any, Any, StateOperationResult]], timeout_s: float | None
    ) -> StateOperationResult:
        endpoint = self._find()
        state = require_state(endpoint.state)
        return await self._on_its_loop(lambda _: work(state), timeout_s, endpoint=endpoint)


class LocalAgents:
    """Agents at `runtime://` URLs, as an AgentSource."""

    def __init__(self, options: SourceOptions) -> None:
        """The options do not apply, because there are no connections and no credentials."""

    def open(self, url: str, transport: str, *, outage_s: float | None = None) -> LocalAgent:
        return LocalAgent(url)


async def _next(batches: AsyncGenerator[T, None]) -> T | None:
    return await anext(batches, None)


def _read_events(frames: list[bytes]) -> list[RunEvent]:
    return [delta_from_frame(frame) if is_delta(frame) else event_from_frame(frame) for frame in frames]


def submission_of_copy(task: Task, request_id: str, target: TaskTarget, expected: int = 0) -> Submission:
    """Build the submission for `task` with copies of its content.

    Raises:
        InvalidArgumentError: As on the gRPC edge, with the same field.
    """
    submission = Submission.of(task, request_id=request_id)
    submission.target, submission.expected_sequence = target, expected
    check_bounds(task.messages, MAX_MESSAGES, "messages", "input.messages")
    if task.artifacts:
        check_bounds(task.artifacts, MAX_ARTIFACTS, "artifacts", "input.artifacts")
    check_id(task.id, "input.task_id")
    check_id(submission.session_id, "input.session_id")
    if submission.context is not None:
        check_id(submission.context.run_id, "input.options.run_id")
    check_id(request_id, "request_id")
    submission.messages = [copy_message(message) for message in task.messages]
    submission.artifacts = [copy_artifact(artifact) for artifact in task.artifacts]
    submission.metadata = plain(submission.metadata) if submission.metadata else {}
    submission.flow_state = plain(task.flow_state) if task.flow_state else {}
    return submission


def _summary(head: TaskHead) -> TaskSummary:
    return TaskSummary(
        id=head.task_id,
        state=head.state,
        session_id=head.session_id,
        run_id=head.run_id,
        agent_name=head.agent_name,
        sequence=head.sequence,
        created_at=iso_from_micros(head.create_micros),
        updated_at=iso_from_micros(head.update_micros),
        message_count=head.messages,
        artifact_count=head.artifacts,
        reason=head.reason,
    )
