"""AgentClient: the verbs of an agent, wherever it is and whatever it speaks, with what the network does wrong taken care of.

Sending carries a request id, so that a repetition is never a second run. A stream that is cut is taken up again after the last
event seen, without gap or duplicate.
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
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState, parse_state
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
"""Unfinished tasks of which a client remembers what their agents have."""

CONNECT_S = 2.0
"""How long `connect` looks for an agent: an answer that it is away is wanted soon, while another one may do the work."""

_SETTLED = TERMINAL | INTERRUPTED
_ENDS = {StopAt.TERMINAL: TERMINAL, StopAt.INTERRUPTED: _SETTLED, StopAt.CURRENT: frozenset[TaskState]()}
"""States with which a subscription ends."""

_WEB_SCHEMES = {"a2a": "http://", "http": "http://", "sse": "http://", "websocket": "ws://"}
_SCHEMES = {"grpc": "grpc://", "runtime": RUNTIME_SCHEME, **_WEB_SCHEMES}
"""The scheme of URLs that name none, by transport."""


@checks_arguments
class AgentClient:
    """Talks to agents by URL.

    Args:
        transport: How URLs that name no scheme are spoken to: "grpc", "runtime", "a2a", "http", "sse" or "websocket". A URL's own
            scheme always wins; behind `http(s)://` the last four say what kind of agent is there, with the others it is asked.
        url: Agent to use where a method names none. It may also stand in the place of `transport`.
        timeout: Seconds that a call with one answer may wait, its repetitions included; None means without bound. It bounds the
            wait, not the run. Streams and the waiting of `wait_task` are bounded by `outage_s` alone.
        tls: Certificates for `grpcs://`.
        metadata: Sent with every call; over HTTP as headers. Those that hold credentials (`authorization`, `x-api-key`, ...) never
            go in the clear to another machine, unless `insecure_ok` says so.
        credentials: What is shown to the agents: APIKey, Basic, BearerToken, OAuth2ClientCredentials.
        outage_s: How long a call or a stream that was cut is tried again without progress: an answer, an event, or a stream that
            was open for a second. 0 tries nothing again.
        trusted_origins: URLs whose origins get metadata and credentials, too, where the card of an agent on the web points there.
            Without them, what identifies the caller goes to the origin that the caller named and to no other. They are also
            followed wherever they are, while a card from a public place leads to none in a private network or on this machine.
        insecure_ok: Credentials in `metadata` may go in the clear to other machines; and the card of an agent that was found over
            TLS may lead to a place in the clear, to which no credentials go, as above.
        binding: Speak A2A, over this interface of the agent's card: "JSONRPC", "HTTP+JSON" or "GRPC". None speaks A2A only to
            agents that offer nothing better, over the interface that they prefer.

    Every method raises the typed errors of `protolink_grpc.errors`: what the agent answered, `UnavailableError` when it cannot be
    reached, `DeadlineExceededError` when the wait was over first.
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
        # What the agents of unfinished tasks have of them, by agent and task: it is not sent again.
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    @property
    def is_anonymous(self) -> bool:
        """Whether nothing that goes with its calls can say who calls."""
        return self._options.is_anonymous

    @property
    def outage_s(self) -> float:
        """How long it tries again what was cut."""
        return self._options.outage_s

    @property
    def sync(self) -> SyncAgentClient:
        """The same verbs for code that does not await: scripts, threads, notebooks."""
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
        # A scheme that is not in the table is refused as an address of gRPC.
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
        """The agent as an A2A agent: webhooks are a matter of A2A, for our own agents, too."""
        url = self._url(agent_url)
        if url.startswith(RUNTIME_SCHEME):
            raise UnimplementedError(
                f"{url} is in this process and posts to no webhook: subscribe to the task", url=url
            )
        web: Any = self._source(WEB)
        return web.a2a_agent(url)

    def has_begun(self, agent_url: str | None, task_id: str) -> bool:
        """Whether that agent has this task and has not ended it, as far as this client knows."""
        return self._key(agent_url, task_id) in self._known

    async def connect(self, agent_url: str | None = None) -> None:
        """Make sure that the agent can be reached; what fails after this may have reached it.

        Raises:
            UnavailableError: It cannot be within `CONNECT_S`.
        """
        agent = self._agent(agent_url, outage_s=min(self.outage_s, CONNECT_S))
        if not agent.is_connected:
            await agent.card(self.timeout)

    async def get_agent_card(self, agent_url: str | None = None) -> AgentCard:
        """Who the agent is and what it can do."""
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
            task: A new task, or one that an agent returned with a further message added. It is not changed. A message or a text
                begins a new task.
            request_id: Give the same one to repeat a request safely from another process. The first answer counts, whatever else
                the repetition says.
            task_id: The task to continue with a message or a text. It must exist.
            target: What is to become of the task: "create" fails where its id is taken, "continue" where the agent does not know
                it, "create_or_continue" in neither case. None means "create" for a message or a text alone, "continue" with
                `task_id` and for a task that waits at this agent, and "create_or_continue" for any other task: it may be new.
            expected_sequence: The last event of the task that the caller has seen; 0 means any. Where the task has gone on since,
                nothing is sent to it.

        Returns:
            The task as it is now, history included. A failed task is returned, not raised: see `Task.raise_for_status`.

        Raises:
            TaskNotFoundError: There is no task with that `task_id`; or the agent had the task and has lost it: the last message
                alone would begin another one.
            TaskAlreadyExistsError: The task was to be created, and its id is taken.
            SequenceConflictError: The task does not end with `expected_sequence`; the metadata has its `last_sequence`.
        """
        whole = _addressed(task, task_id)
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
        whole = _addressed(task, task_id)
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
        had = self._had(key, task)
        request, news = request_id or new_request_id(), _news(task, had)
        try:
            sent = await agent.send(news, request, target=target, expected=expected, wait=wait, timeout_s=self.timeout)
        except TaskNotFoundError:
            self._known.pop(key, None)
            raise
        return self._noted(agent_url, await self._whole(agent, task, had, sent))

    def _target(
        self, key: tuple[str, str], given: Task | Message | str, task_id: str | None, target: Target | None
    ) -> TaskTarget:
        """What is to become of a task. Raises InvalidArgumentError: `target` is not one of the known ones."""
        if target is not None:
            try:
                return TaskTarget(target)
            except ValueError:
                raise InvalidArgumentError(f"must be one of {', '.join(get_args(Target))}", field="target") from None
        # What this agent had is continued or not found. A state says nothing: the task may wait at another agent.
        if task_id is not None or key in self._known:
            return TaskTarget.CONTINUE
        return TaskTarget.CREATE_OR_CONTINUE if isinstance(given, Task) else TaskTarget.CREATE

    def _key(self, agent_url: str | None, task_id: str) -> tuple[str, str]:
        url = agent_url or self.url or ""
        return url and comparable_url(url), task_id

    def _noted(self, agent_url: str | None, answer: Task) -> Task:
        """Remember what the agent has of a task that it has just shown whole."""
        # By the answer's id: a repeated request is answered with the task of the first one.
        key = self._key(agent_url, answer.id)
        if answer.is_terminal:
            self._known.pop(key, None)
        else:
            self._remember(key, _Known.of(answer))
        return answer

    def _remember(self, key: tuple[str, str], known: "_Known") -> None:
        self._known[key] = known
        if len(self._known) > KNOWN_TASKS:
            self._known.popitem(last=False)

    def _had(self, key: tuple[str, str], task: Task) -> tuple[int, int]:
        """How many of the task's messages and artifacts its agent has: those of its last answer, if they are still in place."""
        known = self._known.get(key)
        return (known.messages, known.artifacts) if known is not None and known.begins(task) else (0, 0)

    async def _whole(self, agent: AgentPort, task: Task, had: tuple[int, int], sent: Sent) -> Task:
        """The whole task: what the turn added comes back, the rest the caller has. Where it has not, it is fetched."""
        answer = sent.task
        if len(answer.messages) == sent.message_count and len(answer.artifacts) == sent.artifact_count:
            return answer
        messages = task.messages[: had[0]] + _joined(task.messages[had[0] :], answer.messages)
        artifacts = task.artifacts[: had[1]] + _joined(task.artifacts[had[1] :], answer.artifacts)
        history = _joined_history(task, answer)
        if len(messages) != sent.message_count or len(artifacts) != sent.artifact_count or history is None:
            return await agent.get(answer.id, self.timeout)
        answer.messages, answer.artifacts, answer.metadata["state_history"] = messages, artifacts, history
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

        A cut is survived: the events go on where they stopped, each exactly once.

        Args:
            task_id, target, expected_sequence: As in `send_task`.
            deltas: Yield the text that models are producing, too: events `llm.stream` without a sequence whose payload is a
                TextDelta. Those of one call, put together in order, are a beginning of its text, without gap or repetition; an
                `llm.call.started` of the same call voids them. `llm.call.completed` has the whole text.
        """
        given, task = task, _addressed(task, task_id)
        agent, request = self._agent(agent_url), request_id or new_request_id()
        key, sent = self._key(agent_url, task.id), _Known.of(task)
        news, aim = _news(task, self._had(key, task)), self._target(key, given, task_id, target)
        # A repeated request shows the task of the first one, whatever the id of this one.
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
                        if not seen and event.task_id == task.id and _last_sent(event) == sent.last_message:
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
            stop_at: Where to end: at the first event after `after` that ends the task; at the first that ends it or makes it
                wait; or at what is stored now. A task that waits already, with nothing stored after `after`, is watched through
                its next turn. A task that has ended never keeps a reader waiting.
            deltas: Yield the text that models are producing, too, as `send_task_streaming` does; first what there is of it already.
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
        """Send one message as a task of its own and return the agent's answer.

        Raises:
            TaskExecutionError: The task failed, was canceled, or ended without any output; carries the task.
        """
        return answer_of(await self.send_task(agent_url, message))

    async def get_task(self, task_id: str, *, agent_url: str | None = None) -> Task:
        """The whole task as it is now."""
        return self._noted(agent_url, await self._agent(agent_url).get(task_id, self.timeout))

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
        """One page of the caller's tasks, last changed first.

        Args:
            updated_after: ISO 8601.
            include_total: Count the tasks that match on all pages, which takes the agent time where they are many.
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
        """Ask the agent to cancel a task and return it as it is afterwards."""
        return await self._agent(agent_url).cancel(task_id, reason or "", self.timeout)

    async def list_tools(self, agent_url: str | None = None, *, page_size: int = 0, page_token: str = "") -> ToolList:
        """One page of an agent's tools, ordered by name.

        Raises:
            UnimplementedError: The agent is none of this package; its card may show its tools as skills.
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
        """Run one tool of an agent, under its policy, and return the result.

        It is a task of its own there, so it may wait for an approval, and goes on when this call has stopped waiting.

        Args:
            arguments: The tool's arguments; `more` adds to them what has no name of its own here.
            request_id: Give the same one to repeat a request safely from another process.
            task_id: Id of the task that the call becomes, by which it can be found and canceled; None makes one. Errors name it in
                their metadata.
            session_id: Session to run it in; None means one of its own.

        Raises:
            ToolRejectedError: No such tool, or wrong arguments; nothing was changed.
            ToolFailedError, ToolTimeoutError: It ran and did not succeed.
            ActionDeniedError, ApprovalRequiredError, BudgetExceededError: It may not run.
            TaskExecutionError: Its task was canceled.
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
        """One page of the approvals that the caller may answer or has asked for, oldest first.

        Args:
            states: Approvals in one of these states; none means the pending ones.
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
        """Yield what `list_approvals` would show as it changes: first what waits, then what is asked for and answered.

        It does not end by itself. It survives cuts: what was asked for and answered meanwhile is shown afterwards, an approval that
        changed twice only as it is then. An agent that has lost its memory meanwhile shows what waits.
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
            answer: The decision; or the approval as it was shown, or its id, and the decision in the arguments that follow. An
                approval brings its etag along.
            approved: Whether the action may run. Never guessed.
            edited_arguments: What to run with instead of what was asked, all of it, where policy allows it.
            etag: `Approval.etag` as the approver saw it, required to approve: nothing else is then approved.
            request_id: Give the same one to repeat an answer safely from another process.

        Raises:
            ApprovalNotFoundError, ApprovalChangedError, PermissionDeniedError, InvalidArgumentError: As the agent answers.
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
        """What the agent remembers of a session, or of all sessions of the caller; `request` stands for the rest."""
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
        """Make the agent forget a session, or all sessions of the caller; `request` stands for the rest."""
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
        """Make the conversation of a session smaller; arguments that are given replace the fields of `request`."""
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
        """Make the conversation of a session smaller. `fields` are those of a HistoryCompactionRequest, instead of one."""
        wanted = request or HistoryCompactionRequest(**fields)
        return await self._agent(agent_url).compact_history(wanted, self.timeout)

    async def set_push_config(self, agent_url: str | None, task_id: str, config: PushConfig) -> PushConfig:
        """Register a webhook that the agent posts the task's updates to; one with the same id is replaced.

        It goes over A2A, to agents of this package, too. What is posted is what A2A says.

        Args:
            config: Its `task_id` is ignored. Without an `id` the agent chooses one.

        Raises:
            PushNotSupportedError: The agent sends no notifications.
            InvalidArgumentError: The agent does not post to that URL.
            TaskNotFoundError: No such task of the caller's.
            UnimplementedError: The agent does not speak A2A.
        """
        agent = self._over_a2a(agent_url)
        found: PushConfig = await agent.set_push(replace(config, task_id=task_id), self.timeout)
        return found

    async def get_push_config(self, agent_url: str | None, task_id: str, config_id: str) -> PushConfig:
        """One webhook of a task. Raises TaskNotFoundError where there is no such task or webhook, else as `set_push_config`."""
        found: PushConfig = await self._over_a2a(agent_url).get_push(task_id, config_id, self.timeout)
        return found

    async def list_push_configs(self, agent_url: str | None, task_id: str) -> list[PushConfig]:
        """All webhooks of a task. Raises as `set_push_config`."""
        return list(await self._over_a2a(agent_url).list_push(task_id, self.timeout))

    async def delete_push_config(self, agent_url: str | None, task_id: str, config_id: str) -> None:
        """Remove a webhook of a task. Raises as `set_push_config`."""
        await self._over_a2a(agent_url).delete_push(task_id, config_id, self.timeout)

    async def get_run_report(self, agent_url: str | None, task_id: str, run_id: str | None = None) -> RunReport:
        """What a run did, without what its agent hides.

        Args:
            run_id: Which of the task's runs; None means the latest.

        Raises:
            TaskNotFoundError: No such task of the caller's, or no such run of it.
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
        """Yield the log of a task, as it is now, as JSON lines: RunEvents, or the events of the Agent Runtime contract."""
        agent, shown, backoff = self._agent(agent_url), 0, Backoff(self.outage_s)
        while True:
            again = shown  # lines of a log do not change: those that were shown before come first
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
        """Wait until a task ends or waits for input, through cuts and restarts, and return it."""
        agent = self._agent(agent_url)
        after = 0
        while (task := await agent.get(task_id, self.timeout)).state not in _SETTLED:
            # An earlier turn may have ended with a question: one more round for each of those.
            async for event in self.subscribe(task_id, agent_url=agent_url, after=after, stop_at=StopAt.INTERRUPTED):
                after = event.sequence or after
        return self._noted(agent_url, task)


def _addressed(given: Task | Message | str, task_id: str | None) -> Task:
    """What is given, as a task; with that id where there is one. Raises InvalidArgumentError: it is a task with another id."""
    task = Task.of(given)
    if task_id is None or task.id == task_id:
        return task
    if not task_id or isinstance(given, Task):
        raise InvalidArgumentError(
            "must be the id of the task that is given, or stand beside a message", field="task_id"
        )
    return replace(task, id=task_id)


def answer_of(task: Task) -> Message:
    """The last thing that the agent said in a task, its last artifact where it said nothing.

    Raises:
        TaskExecutionError: The task failed, was canceled, or ended without any output; carries the task.
    """
    task.raise_for_status()
    for index in range(len(task.messages) - 1, -1, -1):
        if task.messages[index].role in ("agent", "assistant"):
            return task.messages[index]
    if task.artifacts:
        return Message(role="agent", parts=[_spoken(part) for part in task.artifacts[-1].parts])
    raise TaskExecutionError(f"task {task.id} ended without an answer", task=task, task_id=task.id)


def _spoken(part: Part) -> Part:
    """What a model answered, as the text that it is in a conversation."""
    return Part.text(part.content) if part.type == "infer_output" and isinstance(part.content, str) else part


@dataclass(frozen=True, slots=True)
class _Known:
    """How much of a task its agent had at its last answer, and the ids by which that beginning is recognised."""

    messages: int
    artifacts: int
    last_message: str
    last_artifact: str

    @classmethod
    def of(cls, task: Task) -> "_Known":
        messages, artifacts = task.messages, task.artifacts
        return cls(
            len(messages),
            len(artifacts),
            messages[-1].id if messages else "",
            artifacts[-1].id if artifacts else "",
        )

    def begins(self, task: Task) -> bool:
        """Whether the task, as the caller has it now, begins with what the agent had."""
        return _at(task.messages, self.messages) == self.last_message and (
            _at(task.artifacts, self.artifacts) == self.last_artifact
        )


def _at(items: Sequence[Message] | Sequence[Artifact], count: int) -> str:
    """The id of the last of the first `count`; nobody's id when there are not so many."""
    if not count:
        return ""
    return items[count - 1].id if count <= len(items) else "\n"


def _news(task: Task, had: tuple[int, int]) -> Task:
    """What the agent does not have of a task: a turn costs the same however long the conversation is.

    The agent itself leaves out what it has, so knowing too little here only costs bytes.
    """
    metadata = {key: value for key, value in task.metadata.items() if key != "state_history"}
    return replace(task, messages=task.messages[had[0] :], artifacts=task.artifacts[had[1] :], metadata=metadata)


def _last_sent(event: RunEvent) -> str:
    """The id of the last message that a turn began with. A repeated request does not add what is new in the repetition."""
    payload = event.payload
    added = payload.task if isinstance(payload, TaskSubmitted) else payload
    messages = added.messages if isinstance(added, Task | TaskMessagesAdded) else ()
    return messages[-1].id if messages else ""


def _joined(known: list[Item], added: list[Item]) -> list[Item]:
    """What the caller had, then what it did not; an item that came back changed takes the place of the old one."""
    latest = {item.id: item for item in added}
    joined = [latest.pop(item.id, item) for item in known]
    return joined + [item for item in added if item.id in latest]


def _joined_history(task: Task, answer: Task) -> list[Any] | None:
    """The state changes that the caller had, then those of the turn; None where the one does not lead to the other."""
    known, added = task.metadata.get("state_history"), answer.metadata.get("state_history")
    if not isinstance(known, list) or not isinstance(added, list) or not known or not added:
        return None
    return known + added if known[-1]["new_state"] == added[0]["previous_state"] else None
