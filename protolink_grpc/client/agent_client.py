"""AgentClient: calls agents over every supported protocol, with retries and resumed streams.

Every request that starts work carries a request id, so a retry never starts a second run. An interrupted stream is resumed after
the last received event, without gaps or duplicates.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

from protolink_grpc.auth.confidential import check_headers
from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.client.approvals import follow_approvals
from protolink_grpc.client.backoff import OUTAGE_S, Backoff, is_cut
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.port import (
    AgentPort,
    AgentSource,
    ApprovalAnswer,
    ApprovalFilter,
    ApprovalList,
    ListFilter,
    Sent,
    TaskList,
)
from protolink_grpc.client.resumption import resumed_batches
from protolink_grpc.client.sources import GRPC, SOURCES, WEB, SourceOptions, create_source
from protolink_grpc.client.sync_clients import SyncAgentClient
from protolink_grpc.errors import (
    InvalidArgumentError,
    ProtolinkError,
    TaskExecutionError,
    TaskNotFoundError,
    UnimplementedError,
)
from protolink_grpc.models.action import Approval, ApprovalDecision, ApprovalState
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.clock import micros_from_iso
from protolink_grpc.models.conversation import CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.events import RunEvent, TaskMessagesAdded, TaskSubmitted
from protolink_grpc.models.ids import new_request_id, new_task_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, StateChange, TaskState, parse_state
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolCall
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.tool import ToolList
from protolink_grpc.models.tool_result import require_result
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.address import RUNTIME_SCHEME, comparable_url
from protolink_grpc.net.tls import TLSConfig

Item = TypeVar("Item", Message, Artifact)

Target = Literal["create", "continue", "create_or_continue"]

A2ABinding = Literal["JSONRPC", "HTTP+JSON", "GRPC"]

KNOWN_TASKS = 1000
"""Unfinished tasks for which a client remembers which messages and artifacts the agent already has."""

CONNECT_S = 2.0
"""Timeout of `connect`. It is short, because another agent may be able to do the work."""

_SETTLED = TERMINAL | INTERRUPTED
_ENDS = {StopAt.TERMINAL: TERMINAL, StopAt.INTERRUPTED: _SETTLED, StopAt.CURRENT: frozenset[TaskState]()}
"""States with which a subscription ends."""

_WEB_SCHEMES = {"a2a": "http://", "http": "http://", "sse": "http://", "websocket": "ws://"}
_SCHEMES = {"grpc": "grpc://", "runtime": RUNTIME_SCHEME, **_WEB_SCHEMES}
"""The default URL scheme of each transport."""


@checks_arguments
class AgentClient:
    """Calls agents by URL.

    Args:
        transport: Protocol for URLs without a scheme: "grpc", "runtime", "a2a", "http", "sse" or "websocket". A URL's own scheme
            takes precedence. For `http(s)://` URLs, the last four select the protocol; otherwise it is detected.
        url: Default agent of methods that are called with None. It may also be given as the first argument.
        timeout: Seconds that a unary call may take, including retries; None means no timeout. It limits the wait, not the run.
            Streams and `wait_task` are limited only by `outage_s`.
        tls: Certificates for `grpcs://`.
        metadata: Sent with every call; over HTTP as headers. Keys that contain credentials (`authorization`, `x-api-key`, ...) are
            not sent unencrypted to another machine, unless `insecure_ok` is set.
        credentials: APIKey, Basic, BearerToken or OAuth2ClientCredentials.
        outage_s: How long an interrupted call or stream is retried without progress, in seconds. Progress is a response, an event,
            or a stream that was open for a second. 0 turns retries off.
        trusted_origins: URLs whose origins also receive metadata and credentials, if the card of an agent on the web points there.
            By default only the origin that the caller named receives them. A card from a public address may point to a private
            network or to this machine only if that origin is trusted.
        insecure_ok: Allow sending credentials in `metadata` unencrypted to other machines, and following the card of an agent
            found over TLS to an unencrypted address (which receives no credentials).
        binding: Use A2A over this interface of the agent's card: "JSONRPC", "HTTP+JSON" or "GRPC". None uses A2A only for agents
            that offer nothing better, over their preferred interface.

    Every method raises the typed errors of `protolink_grpc.errors`: the agent's error, `UnavailableError` if the agent cannot be
    reached, or `DeadlineExceededError` after the timeout.
    """

    def __init__(
        self,
        transport: str = "grpc",
        url: str | None = None,
        timeout: float | None = 300.0,
        *,
        tls: TLSConfig | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        credentials: Credentials | None = None,
        outage_s: float = OUTAGE_S,
        trusted_origins: Sequence[str] = (),
        insecure_ok: bool = False,
        binding: A2ABinding | None = None,
    ) -> None:
        if "://" in transport:
            if url is not None:
                raise InvalidArgumentError("is a URL, and url is given, too; leave one of both out", field="transport")
            transport, url = "grpc", transport
        if transport not in _SCHEMES:
            raise InvalidArgumentError(f"{transport!r} is not one of {', '.join(_SCHEMES)}", field="transport")
        if binding is not None and transport not in ("a2a", "grpc"):
            raise InvalidArgumentError(f"is for A2A agents, and the transport is {transport}", field="binding")
        self.transport = transport
        self.url = url
        self.timeout = timeout
        self._options = ChannelOptions(tls, tuple(metadata), credentials, outage_s)
        self._insecure_ok = insecure_ok
        self._binding = binding
        self._source_options = SourceOptions(self._options, tuple(trusted_origins), insecure_ok, binding or "")
        self._sources: dict[str, AgentSource] = {}
        # By agent and task id: what the agent already has of an unfinished task, and what is therefore not sent again.
        self._known: OrderedDict[tuple[str, str], _KnownTask] = OrderedDict()

    @property
    def is_anonymous(self) -> bool:
        """Whether the calls carry no credentials: neither `credentials`, nor metadata, nor a client certificate."""
        return self._options.is_anonymous

    @property
    def outage_s(self) -> float:
        """How long an interrupted call or stream is retried without progress, in seconds."""
        return self._options.outage_s

    @property
    def sync(self) -> SyncAgentClient:
        """The same methods, blocking, for code that does not await: scripts, threads, notebooks."""
        return SyncAgentClient(self)

    def _url(self, agent_url: str | None) -> str:
        url = agent_url or self.url
        if not url:
            raise InvalidArgumentError("name an agent, or give the client a url", field="agent_url")
        if "://" not in url:
            url = _SCHEMES[self.transport] + url
        scheme, _, rest = url.partition("://")
        return f"{scheme.lower()}://{rest}"

    def _agent(self, agent_url: str | None, *, outage_s: float | None = None) -> AgentPort:
        url = self._url(agent_url)
        check_headers(self._options.metadata, url, insecure_ok=self._insecure_ok)
        # An unknown scheme is refused as an invalid gRPC address.
        name = SOURCES.get(url.partition("://")[0], GRPC)
        if self._binding is not None and name != WEB:
            raise InvalidArgumentError(
                f"chooses among the interfaces of an A2A card, and {url} has none: use the agent's http:// URL",
                field="binding",
            )
        return self._source(name).open(url, self.transport, outage_s=outage_s)

    def _source(self, name: str) -> AgentSource:
        source = self._sources.get(name)
        if source is None:
            source = self._sources[name] = create_source(name, self._source_options)
        return source

    def _over_a2a(self, agent_url: str | None) -> Any:
        """The agent over A2A, which is the only protocol with webhooks."""
        url = self._url(agent_url)
        if url.startswith(RUNTIME_SCHEME):
            raise UnimplementedError(
                f"{url} is in this process and posts to no webhook: subscribe to the task", url=url
            )
        web: Any = self._source(WEB)
        return web.a2a_agent(url)

    def has_begun(self, agent_url: str | None, task_id: str) -> bool:
        """Whether, as far as this client knows, the agent has this task and it is unfinished."""
        return self._key(agent_url, task_id) in self._known

    async def connect(self, agent_url: str | None = None) -> None:
        """Check that the agent can be reached. A later call that fails may have reached the agent.

        Raises:
            UnavailableError: It could not be reached within `CONNECT_S`.
        """
        agent = self._agent(agent_url, outage_s=min(self.outage_s, CONNECT_S))
        if not agent.is_connected:
            await agent.card(self.timeout)

    async def get_agent_card(self, agent_url: str | None = None) -> AgentCard:
        """Return the agent's card: its name, skills and interfaces."""
        return await self._agent(agent_url).card(self.timeout)

    async def send_task(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
    ) -> Task:
        """Start or continue a task and wait until it ends or waits for input.

        Args:
            task: A new task, or a returned task with another message added. It is not modified. A message or a text starts a new
                task, unless `task_id` is given.
            request_id: Idempotency key. A request with the same key returns the first request's task, whatever its content. None
                creates one for each call.
            task_id: The existing task to continue with a message or a text.
            target: "create" fails if the task's id exists, "continue" fails if it does not, "create_or_continue" accepts both.
                None means "create" for a message or a text alone, "continue" with `task_id` and for a task that waits at this
                agent, and "create_or_continue" for any other task.
            expected_sequence: The last event of the task that the caller has seen; 0 means any. If the task has newer events, the
                request is refused.

        Returns:
            The current task with its history. A failed task is returned, not raised: see `Task.raise_for_status`.

        Raises:
            TaskNotFoundError: The agent has no task with this id, or no longer has it.
            TaskAlreadyExistsError: The target is "create" and the id exists.
            SequenceConflictError: The last event of the task is not `expected_sequence`; the metadata has its `last_sequence`.
        """
        whole = _as_task(task, task_id)
        aim = self._target(self._key(agent_url, whole.id), task, task_id, target)
        return await self._send(agent_url, whole, request_id, target=aim, expected=expected_sequence, wait=True)

    async def submit_task(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
    ) -> Task:
        """Start or continue a task, as `send_task`, and return as soon as the agent has accepted it."""
        whole = _as_task(task, task_id)
        aim = self._target(self._key(agent_url, whole.id), task, task_id, target)
        return await self._send(agent_url, whole, request_id, target=aim, expected=expected_sequence, wait=False)

    async def _send(
        self,
        agent_url: str | None,
        task: Task,
        request_id: str | None,
        *,
        target: TaskTarget,
        expected: int,
        wait: bool,
    ) -> Task:
        agent, key = self._agent(agent_url), self._key(agent_url, task.id)
        had = self._count_known(key, task)
        request, news = request_id or new_request_id(), _unsent_part(task, had)
        try:
            sent = await agent.send(news, request, target=target, expected=expected, wait=wait, timeout_s=self.timeout)
        except TaskNotFoundError:
            self._known.pop(key, None)
            raise
        return self._remember_answer(agent_url, await self._complete_task(agent, task, had, sent))

    def _target(
        self, key: tuple[str, str], given: Task | Message | str, task_id: str | None, target: Target | None
    ) -> TaskTarget:
        """The target of a request for this task. Raises InvalidArgumentError if `target` is unknown."""
        if target is not None:
            try:
                return TaskTarget(target)
            except ValueError:
                raise InvalidArgumentError(f"must be one of {', '.join(get_args(Target))}", field="target") from None
        # A task that this agent had must still exist there. The state alone is not enough: the task may wait at another agent.
        if task_id is not None or key in self._known:
            return TaskTarget.CONTINUE
        return TaskTarget.CREATE_OR_CONTINUE if isinstance(given, Task) else TaskTarget.CREATE

    def _key(self, agent_url: str | None, task_id: str) -> tuple[str, str]:
        url = agent_url or self.url or ""
        return url and comparable_url(url), task_id

    def _remember_answer(self, agent_url: str | None, answer: Task) -> Task:
        """Remember what the agent has of a task that it has just returned completely."""
        # Under the id in the response: a repeated request returns the task of the first one.
        key = self._key(agent_url, answer.id)
        if answer.is_terminal:
            self._known.pop(key, None)
        else:
            self._remember(key, _KnownTask.of(answer))
        return answer

    def _remember(self, key: tuple[str, str], known: "_KnownTask") -> None:
        self._known[key] = known
        if len(self._known) > KNOWN_TASKS:
            self._known.popitem(last=False)

    def _count_known(self, key: tuple[str, str], task: Task) -> tuple[int, int]:
        """How many messages and artifacts the agent has: those of its last response, if the task still begins with them."""
        known = self._known.get(key)
        return (known.messages, known.artifacts) if known is not None and known.begins(task) else (0, 0)

    async def _complete_task(self, agent: AgentPort, task: Task, had: tuple[int, int], sent: Sent) -> Task:
        """The complete task: what the turn added, joined with what the caller has. The rest is fetched if the caller lacks it."""
        answer = sent.task
        if len(answer.messages) == sent.message_count and len(answer.artifacts) == sent.artifact_count:
            return answer
        messages = task.messages[: had[0]] + _join_items(task.messages[had[0] :], answer.messages)
        artifacts = task.artifacts[: had[1]] + _join_items(task.artifacts[had[1] :], answer.artifacts)
        history = _join_history(task, answer)
        if len(messages) != sent.message_count or len(artifacts) != sent.artifact_count or history is None:
            return await agent.get(answer.id, self.timeout)
        answer.messages, answer.artifacts, answer.state_history = messages, artifacts, history
        return answer

    async def send_task_streaming(
        self,
        agent_url: str | None,
        task: Task | Message | str,
        *,
        request_id: str | None = None,
        task_id: str | None = None,
        target: Target | None = None,
        expected_sequence: int = 0,
        deltas: bool = False,
    ) -> AsyncGenerator[RunEvent, None]:
        """Start or continue a task and yield the events of this turn as they are committed, until it ends or waits.

        The stream is resumed after an interruption; each event is yielded exactly once.

        Args:
            task_id, target, expected_sequence: As in `send_task`.
            deltas: Also yield the text that models are producing, as `llm.stream` events without a sequence, whose payload is a
                TextDelta. The deltas of one call are consecutive pieces of its text. After an `llm.call.started` of the same
                call, the text starts again. `llm.call.completed` has the complete text.
        """
        given, task = task, _as_task(task, task_id)
        agent, request = self._agent(agent_url), request_id or new_request_id()
        key, sent = self._key(agent_url, task.id), _KnownTask.of(task)
        news, aim = _unsent_part(task, self._count_known(key, task)), self._target(key, given, task_id, target)
        # A repeated request returns the task of the first one, even if the ids differ.
        watched, seen = task.id, 0

        def open_stream(after: int) -> AsyncGenerator[list[RunEvent], None]:
            if after:
                return agent.watch(watched, after, StopAt.INTERRUPTED, deltas=deltas, timeout_s=None)
            return agent.stream(news, request, target=aim, expected=expected_sequence, deltas=deltas, timeout_s=None)

        resumed = resumed_batches(open_stream, ends=_SETTLED, outage_s=self.outage_s)
        try:
            async with aclosing(resumed) as batches:
                async for events in batches:
                    watched = events[0].task_id or watched
                    for event in events:
                        if not seen and event.task_id == task.id and _last_message_of_turn(event) == sent.last_message:
                            self._remember(key, sent)
                        seen = event.sequence or seen
                        if event.state in TERMINAL:
                            self._known.pop(key, None)
                        yield event
        except TaskNotFoundError:
            self._known.pop(key, None)
            raise

    async def subscribe(
        self,
        task_id: str,
        *,
        agent_url: str | None = None,
        after: int = 0,
        stop_at: StopAt = StopAt.TERMINAL,
        deltas: bool = False,
    ) -> AsyncGenerator[RunEvent, None]:
        """Yield a task's events after a sequence: stored ones first, then live ones, each exactly once and in order.

        Args:
            after: Last sequence that the caller has; 0 means from the beginning.
            stop_at: Where the stream ends: at the first event after `after` that ends the task; at the first one that ends it or
                makes it wait; or at the last stored event. If the task waits and has no events after `after`, the stream covers
                its next turn. The stream of a finished task always ends.
            deltas: Also yield the text that models are producing, as in `send_task_streaming`, beginning with what exists of it.
        """
        agent = self._agent(agent_url)

        def open_stream(sequence: int) -> AsyncGenerator[list[RunEvent], None]:
            return agent.watch(task_id, sequence, stop_at, deltas=deltas, timeout_s=None)

        resumed = resumed_batches(open_stream, after=after, ends=_ENDS[stop_at], outage_s=self.outage_s)
        async with aclosing(resumed) as batches:
            async for events in batches:
                for event in events:
                    yield event

    async def send_message(self, agent_url: str | None, message: Message | str) -> Message:
        """Send one message as a new task and return the agent's answer.

        Raises:
            TaskExecutionError: The task failed, was canceled, or ended without output; the error carries the task.
        """
        return answer_of(await self.send_task(agent_url, message))

    async def get_task(self, task_id: str, *, agent_url: str | None = None) -> Task:
        """Return the complete current task."""
        return self._remember_answer(agent_url, await self._agent(agent_url).get(task_id, self.timeout))

    async def list_tasks(
        self,
        *,
        agent_url: str | None = None,
        states: Sequence[TaskState | str] = (),
        session_id: str = "",
        updated_after: str = "",
        page_size: int = 0,
        page_token: str = "",
        include_total: bool = False,
    ) -> TaskList:
        """Return one page of the caller's tasks, most recently changed first.

        Args:
            updated_after: ISO 8601.
            include_total: Also count the matching tasks on all pages. This is slow for large numbers of tasks.
        """
        if updated_after:
            micros_from_iso(updated_after, field="updated_after")
        wanted = ListFilter(
            tuple(parse_state(state, field="states") for state in states),
            session_id,
            updated_after,
            page_size,
            page_token,
            include_total,
        )
        return await self._agent(agent_url).list(wanted, self.timeout)

    async def cancel_task(self, agent_url: str | None, task_id: str, *, reason: str | None = None) -> Task:
        """Ask the agent to cancel a task and return the task."""
        return await self._agent(agent_url).cancel(task_id, reason or "", self.timeout)

    async def list_tools(self, agent_url: str | None = None, *, page_size: int = 0, page_token: str = "") -> ToolList:
        """Return one page of an agent's tools, ordered by name.

        Raises:
            UnimplementedError: The agent does not use this package. Its card may list its tools as skills.
        """
        return await self._agent(agent_url).list_tools(page_size, page_token, self.timeout)

    async def call_tool(
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
    ) -> Any:
        """Call one tool of an agent, subject to the agent's policy, and return the result.

        The call is a task of its own: it may wait for an approval, and it continues if the caller stops waiting.

        Args:
            arguments: The tool's arguments. `more` are further arguments.
            request_id: Idempotency key, as in `send_task`.
            task_id: Id of the call's task, for finding and canceling it; None creates one. Errors have it in their metadata.
            session_id: Session of the call; None means a new one.

        Raises:
            ToolRejectedError: The tool does not exist or the arguments are invalid. Nothing was executed.
            ToolFailedError, ToolTimeoutError: The tool ran and failed.
            ActionDeniedError, ApprovalRequiredError, BudgetExceededError: The tool was not allowed to run.
            TaskExecutionError: The task was canceled.
        """
        call = ToolCall(tool_name, {**(arguments or {}), **more})
        agent, request = self._agent(agent_url), request_id or new_request_id()
        called = await agent.call_tool(call, request, task_id or new_task_id(), session_id or "", self.timeout)
        return require_result(called.output, called.task_id)

    async def list_approvals(
        self,
        agent_url: str | None = None,
        *,
        states: Sequence[ApprovalState | str] = (),
        task_id: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> ApprovalList:
        """Return one page of the approvals that the caller may answer or has requested, oldest first.

        Args:
            states: Only approvals in these states; by default the pending ones.
        """
        try:
            wanted = tuple(ApprovalState(state) for state in states)
        except ValueError:
            wanted = ()
        if len(wanted) < len(states) or not all(state.is_named for state in wanted):
            raise InvalidArgumentError(f"must be among {', '.join(ApprovalState)}", field="states")
        page = ApprovalFilter(wanted, task_id, page_size, page_token)
        return await self._agent(agent_url).list_approvals(page, self.timeout)

    async def watch_approvals(
        self, agent_url: str | None = None, *, task_id: str = ""
    ) -> AsyncGenerator[Approval, None]:
        """Yield the pending approvals, then every new or answered one.

        The stream does not end by itself. After an interruption it yields what has changed meanwhile; an approval that changed
        twice is yielded once, in its latest state. If the agent has lost its state meanwhile, the pending approvals are yielded.
        """
        follow = follow_approvals(self._agent(agent_url), task_id, outage_s=self.outage_s)
        async with aclosing(follow) as approvals:
            async for approval in approvals:
                yield approval

    async def respond_approval(
        self,
        agent_url: str | None,
        answer: ApprovalDecision | Approval | str,
        approved: bool | None = None,
        *,
        reason: str = "",
        edited_arguments: dict[str, Any] | None = None,
        etag: str = "",
        request_id: str | None = None,
    ) -> ApprovalAnswer:
        """Answer an approval.

        Args:
            answer: An ApprovalDecision; or an approval or its id, with the decision in the other arguments. An approval includes
                its etag.
            approved: Whether the action may run. Required.
            edited_arguments: Complete replacement of the action's arguments, if the policy allows edits.
            etag: `Approval.etag` of the approval that was reviewed. Required to approve, so that nothing else is approved.
            request_id: Idempotency key, as in `send_task`.

        Raises:
            ApprovalNotFoundError: No such approval, or the caller may not see it.
            ApprovalChangedError: The approval has another etag, or has been answered.
            PermissionDeniedError: The caller may not answer it.
            InvalidArgumentError: The answer is incomplete or not allowed.
        """
        if isinstance(answer, Approval):
            etag, answer = etag or answer.etag, answer.approval_id
        if isinstance(answer, str):
            if approved is None:
                raise InvalidArgumentError("must be true or false", field="approved")
            answer = ApprovalDecision(approved, answer, reason, edited_arguments=edited_arguments, fingerprint=etag)
        elif approved is not None or reason or edited_arguments is not None or etag:
            raise InvalidArgumentError("the decision says it already", field="answer")
        return await self._agent(agent_url).respond(answer, request_id or new_request_id(), self.timeout)

    async def describe_state(
        self,
        agent_url: str | None = None,
        request: StateOperationRequest | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
        include_data: bool = False,
    ) -> StateOperationResult:
        """Describe what the agent remembers of a session, or of all sessions of the caller.

        `request` replaces the other arguments.
        """
        wanted = request or StateOperationRequest(session_id, tuple(stores or ()), include_data)
        return await self._agent(agent_url).describe_state(wanted, self.timeout)

    async def reset_state(
        self,
        agent_url: str | None = None,
        request: StateOperationRequest | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
    ) -> StateOperationResult:
        """Delete what the agent remembers of a session, or of all sessions of the caller.

        `request` replaces the other arguments.
        """
        wanted = request or StateOperationRequest(session_id, tuple(stores or ()))
        return await self._agent(agent_url).reset_state(wanted, self.timeout)

    async def compact_state(
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
    ) -> StateOperationResult:
        """Compact the conversation of a session. Arguments take precedence over the fields of `request`."""
        wanted = StateOperationRequest.of(
            request,
            session_id=session_id,
            strategy=strategy,
            max_messages=max_messages,
            max_tokens=max_tokens,
            preserve_recent=preserve_recent,
            summary_max_tokens=summary_max_tokens,
        )
        return await self._agent(agent_url).compact_state(wanted, self.timeout)

    async def compact_history(
        self, agent_url: str | None, request: HistoryCompactionRequest | None = None, **fields: Any
    ) -> HistoryCompactionResult:
        """Compact the conversation of a session. `fields` are those of a HistoryCompactionRequest and replace `request`."""
        wanted = request or HistoryCompactionRequest(**fields)
        return await self._agent(agent_url).compact_history(wanted, self.timeout)

    async def set_push_config(self, agent_url: str | None, task_id: str, config: PushConfig) -> PushConfig:
        """Register a webhook to which the agent posts updates of the task. A webhook with the same id is replaced.

        This always uses A2A, also with agents of this package.

        Args:
            config: Its `task_id` is ignored. Without an `id` the agent creates one.

        Raises:
            PushNotSupportedError: The agent does not send notifications.
            InvalidArgumentError: The agent refuses the URL.
            TaskNotFoundError: The caller has no such task.
            UnimplementedError: The agent does not support A2A.
        """
        agent = self._over_a2a(agent_url)
        found: PushConfig = await agent.set_push(replace(config, task_id=task_id), self.timeout)
        return found

    async def get_push_config(self, agent_url: str | None, task_id: str, config_id: str) -> PushConfig:
        """Return one webhook of a task.

        Raises TaskNotFoundError if there is no such task or webhook, otherwise as `set_push_config`.
        """
        found: PushConfig = await self._over_a2a(agent_url).get_push(task_id, config_id, self.timeout)
        return found

    async def list_push_configs(self, agent_url: str | None, task_id: str) -> list[PushConfig]:
        """Return all webhooks of a task. Raises as `set_push_config`."""
        return list(await self._over_a2a(agent_url).list_push(task_id, self.timeout))

    async def delete_push_config(self, agent_url: str | None, task_id: str, config_id: str) -> None:
        """Remove a webhook of a task. Raises as `set_push_config`."""
        await self._over_a2a(agent_url).delete_push(task_id, config_id, self.timeout)

    async def get_run_report(self, agent_url: str | None, task_id: str, run_id: str | None = None) -> RunReport:
        """Return the report of a run, without what the agent redacts.

        Args:
            run_id: One of the task's runs; None means the latest.

        Raises:
            TaskNotFoundError: The caller has no such task, or the task has no such run.
        """
        agent, backoff = self._agent(agent_url), Backoff(self.outage_s)
        while True:
            try:
                return await agent.report(task_id, run_id or "", self.timeout)
            except ProtolinkError as error:
                if not is_cut(error):
                    raise
                await backoff.after(error)

    async def export_task(
        self,
        agent_url: str | None,
        task_id: str,
        *,
        format: Literal["protolink", "agentruntime"] = "protolink",  # noqa: A002 -- the field's name
    ) -> AsyncGenerator[str, None]:
        """Yield the current log of a task as JSON lines: RunEvents, or events of the Agent Runtime contract."""
        agent, shown, backoff = self._agent(agent_url), 0, Backoff(self.outage_s)
        while True:
            again = shown  # a log only grows: the lines that were yielded before come first
            try:
                async with aclosing(agent.export(task_id, format, None)) as batches:
                    async for lines in batches:
                        for line in lines[again:]:
                            backoff.reset()
                            shown += 1
                            yield line
                        again = max(0, again - len(lines))
                return
            except ProtolinkError as error:
                if not is_cut(error):
                    raise
                await backoff.after(error)

    async def wait_task(self, task_id: str, *, agent_url: str | None = None) -> Task:
        """Wait until a task ends or waits for input, across interruptions and restarts, and return it."""
        agent = self._agent(agent_url)
        after = 0
        while (task := await agent.get(task_id, self.timeout)).state not in _SETTLED:
            # An earlier turn may have ended waiting for input, which ends the subscription too: continue after each of those.
            async for event in self.subscribe(task_id, agent_url=agent_url, after=after, stop_at=StopAt.INTERRUPTED):
                after = event.sequence or after
        return self._remember_answer(agent_url, task)


def _as_task(given: Task | Message | str, task_id: str | None) -> Task:
    """Convert the input to a task, with `task_id` if given. Raises InvalidArgumentError for a task with another id."""
    task = Task.of(given)
    if task_id is None or task.id == task_id:
        return task
    if not task_id or isinstance(given, Task):
        raise InvalidArgumentError(
            "must be the id of the task that is given, or stand beside a message", field="task_id"
        )
    return replace(task, id=task_id)


def answer_of(task: Task) -> Message:
    """The agent's last message in a task, or its last artifact as a message if there is none.

    Raises:
        TaskExecutionError: The task failed, was canceled, or ended without output; the error carries the task.
    """
    task.raise_for_status()
    for index in range(len(task.messages) - 1, -1, -1):
        if task.messages[index].role in ("agent", "assistant"):
            return task.messages[index]
    if task.artifacts:
        return Message(role="agent", parts=[_as_text(part) for part in task.artifacts[-1].parts])
    raise TaskExecutionError(f"task {task.id} ended without an answer", task=task, task_id=task.id)


def _as_text(part: Part) -> Part:
    """A part with a model's answer, converted to a text part."""
    return Part.text(part.content) if part.type == "infer_output" and isinstance(part.content, str) else part


@dataclass(frozen=True, slots=True)
class _KnownTask:
    """How much of a task the agent had in its last response, and the ids by which that part is recognized."""

    messages: int
    artifacts: int
    last_message: str
    last_artifact: str

    @classmethod
    def of(cls, task: Task) -> "_KnownTask":
        messages, artifacts = task.messages, task.artifacts
        return cls(
            len(messages),
            len(artifacts),
            messages[-1].id if messages else "",
            artifacts[-1].id if artifacts else "",
        )

    def begins(self, task: Task) -> bool:
        """Whether the caller's task begins with what the agent had."""
        return _id_of(task.messages, self.messages) == self.last_message and (
            _id_of(task.artifacts, self.artifacts) == self.last_artifact
        )


def _id_of(items: Sequence[Message] | Sequence[Artifact], count: int) -> str:
    """The id of item number `count`, or an unused id if there are fewer items."""
    if not count:
        return ""
    return items[count - 1].id if count <= len(items) else "\n"


def _unsent_part(task: Task, had: tuple[int, int]) -> Task:
    """The part of a task that the agent does not have, so that the cost of a turn does not grow with the conversation.

    The agent ignores what it has already, so sending too much costs only bytes.
    """
    if had == (0, 0) and not task.state_history:
        return task
    return replace(task, messages=task.messages[had[0] :], artifacts=task.artifacts[had[1] :], state_history=[])


def _last_message_of_turn(event: RunEvent) -> str:
    """The id of the last message that the turn started with. A repeated request adds no messages to the first one's turn."""
    payload = event.payload
    added = payload.task if isinstance(payload, TaskSubmitted) else payload
    messages = added.messages if isinstance(added, Task | TaskMessagesAdded) else ()
    return messages[-1].id if messages else ""


def _join_items(known: list[Item], added: list[Item]) -> list[Item]:
    """The caller's items and the new ones. A new item replaces an old one with the same id."""
    latest = {item.id: item for item in added}
    joined = [latest.pop(item.id, item) for item in known]
    return joined + [item for item in added if item.id in latest]


def _join_history(task: Task, answer: Task) -> list[StateChange] | None:
    """The caller's state changes and those of the turn, or None if the two do not connect."""
    known, added = task.state_history, answer.state_history
    return known + added if known and added and known[-1].new_state is added[0].previous_state else None
