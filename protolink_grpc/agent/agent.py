"""Agent: what a user writes, and the one place where the layers are joined.

An agent is a card, tools, a handler and a place to listen. It starts in the foreground (`run`), in the background of a program
(`start(background=True)`), or inside a loop that is running already (`async with agent`).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar, overload

from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.agent.edges import Edges, Served, http_options, reach_of
from protolink_grpc.agent.faculties import Faculties, Wishes
from protolink_grpc.agent.identity import ANY_PORT, check_handlers, check_later, listen_address, resolve_card
from protolink_grpc.agent.lifetime import close_from_outside, log_listening, stop_on_signal
from protolink_grpc.agent.peers import OUTAGE_S, AgentPeer, Peers, call_peer, message_peer
from protolink_grpc.agent.registry import REGISTRY_OUTAGE_S, Registry
from protolink_grpc.agent.trust import PeerClients, PeerTrust
from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.auth.principal import Authenticate
from protolink_grpc.auth.rate import RateLimit
from protolink_grpc.auth.rules import Admission
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.local_agent import LocalAgent, LocalEndpoint, announce, withdraw
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import (
    InvalidArgumentError,
    ProtolinkError,
    TaskNotFoundError,
    UnavailableError,
)
from protolink_grpc.gateway.options import HttpOptions
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.surroundings import InferSettings
from protolink_grpc.logs import get_logger
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.conversation import CompactionStrategy, HistoryCompactionRequest
from protolink_grpc.models.events import ContextCompacted, RunEvent
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.json_schema import SchemaLike
from protolink_grpc.models.message import Message
from protolink_grpc.models.references import References
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task
from protolink_grpc.policy.capabilities import Policy
from protolink_grpc.policy.redaction import RedactionPolicy
from protolink_grpc.reports import RunStore, SQLiteRunStore
from protolink_grpc.runtime.approvals import Approvals
from protolink_grpc.runtime.asking import ApprovalHandler
from protolink_grpc.runtime.background import background as shared_loop
from protolink_grpc.runtime.cancellation import CancellationToken
from protolink_grpc.runtime.loops import run as run_loop
from protolink_grpc.runtime.run import Run, current_run
from protolink_grpc.runtime.run_saver import RunSaver
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Limits, Recovery
from protolink_grpc.runtime.tool_task import TOOL_TASK
from protolink_grpc.server.app import ServerOptions
from protolink_grpc.state import State, Storage
from protolink_grpc.store.memory import MemoryStore
from protolink_grpc.store.port import TaskStore
from protolink_grpc.tools.runner import MAX_WORKERS, ToolRunner
from protolink_grpc.tools.tool import ActionBuilder, BaseTool, Tool
from protolink_grpc.wire.registry import InstanceState, InstanceStatus
from protolink_grpc.wire.tls import TLSConfig

log = get_logger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


@checks_arguments
class Agent:
    """A typed microservice that takes tasks.

    Args:
        card: Who the agent is: an AgentCard, a dict of its fields, or a name. `name`, `description` and `url` may stand in for it.
        transport: "grpc", "runtime", or ProtoLink's "http", "sse" and "websocket"; by default what the card's URL says.
        registry: Where to register and look for peers: a URL, a RegistryClient, or a Registry of this process.
        store: Where tasks are kept; in memory by default.
        llm: Answers infer parts and what users say: what `create_llm` makes, or its argument, for instance "openai:gpt-4o".
        system_prompt: Instructions to it.
        storage: Where the agent remembers; with it and without `state`, it remembers conversations.
        state: What it remembers: names of modules (`conversation`, `tools`), or a State. Without both, nothing.
        telemetry: Not implemented yet.
        skills: "auto" advertises every tool as a skill; "fixed" leaves the card's skills alone.
        tools: Functions or tools to begin with.
        tool_timeout_s: Limit of one tool call where the tool has none of its own.
        max_sync_workers: Threads for tools that are not async, started when they are needed; further calls wait for one.
        policy: What the agent's actions may do; by default everything that the caller's permissions allow.
        approval_handler: Answers, in this process, what policy wants approved.
        approvals: Lets others answer, over ControlService, also after a restart. With neither, such an action fails.
        budget: Limits of each task, which callers can only lower.
        infer: Bounds and manners of the inference loop.
        redaction: What is struck out of approvals and reports that are shown; passwords, keys and tokens by default.
        run_store: A SQLiteRunStore, a view over the agent's store, which is then the file of `run_store`. Or a RunStore of your own
            beside `store`: its `save_task` and `save_report` are called after each run, see `RunStore`.
        recovery: What becomes of runs that a dead process left behind: "lost" fails them, "resume" goes on with them, "auto" does
            so unless the agent has a handler of its own. See `Recovery`.
        limits: Bounds of the runtime: runs that work and wait, bytes that they hold. By default 100 runs work at once and 1,000 may
            wait; the card's `max_concurrency` is advertised and bounds nothing.
        http: Where to listen for HTTP, too: `host:port`, a port of 127.0.0.1, or HttpOptions. It serves A2A, ProtoLink's routes
            and WebSocket, health and metrics. An agent whose URL is `http://` listens there and on no gRPC port.
        a2a: How it behaves as an A2A agent, over gRPC and HTTP; False makes it none.
        authenticator: Who calls, on every edge: APIKeyAuth, BasicAuth, BearerTokenAuth, or a hook of one's own.
        access: What an identified caller may call, by method; AccessRules for instance.
        rate_limit: How often each principal may call.
        credentials: What the agent shows to the peers that it trusts: see `trusted_peers` and `trust_registry`. By default that is
            no peer, because the URL of one may come from a model, a caller or a registry.
        trusted_peers: URLs, of which scheme, host and port count (`grpcs://bank.example:443`), and names in the registry. Peers
            there are sent `credentials` and `metadata`. A name needs a registry that authenticates registrations and is reached
            over TLS, on this machine, or in this process.
        trust_registry: Every agent in that registry is trusted like one in `trusted_peers`.
        server: How the gRPC server behaves.
        tls: Certificates, for `grpcs://` and `https://` URLs and for calls to peers.
        listen: Where to listen when others reach the agent elsewhere than there, for instance `grpc://0.0.0.0:50051` behind the
            card's `grpc://agent.example:50051`. Without a scheme it has the card's; the card's port 0 becomes the port taken.
        metadata: Pairs sent with every call to trusted peers and to the registry, for instance credentials. A RegistryClient or
            Registry that is passed in sends its own.
        expose_errors: Whether callers see the text of exceptions that this agent's code raises.
        lease_ttl_s: Length of the lease in the registry.
        grace_s: How long `stop` lets runs finish.
        later: Names that ProtoLink's agents have: `verbosity` is accepted and means nothing, the others are not implemented yet.

    Raises:
        InvalidArgumentError: Something is missing or contradicts itself, or the agent would register an address like 0.0.0.0, which
            nobody else can call; names the field.
        TypeError: A handler is not of the kind that it must be.
        UnimplementedError: An argument belongs to a part that does not exist yet.

    Override `handle_task`, or `handle_task_streaming` for a handler that reports while it works; either serves unary calls,
    streams and resubscription alike.
    """

    def __init__(  # noqa: PLR0917 -- the documented signature
        self,
        card: AgentCard | dict[str, Any] | str | None = None,
        transport: str | None = None,
        registry: "str | Registry | RegistryClient | None" = None,
        registry_url: str | None = None,
        llm: LLM | str | None = None,
        system_prompt: str | None = None,
        storage: Storage | None = None,
        state: State | Iterable[str] | str | None = None,
        telemetry: Any = None,
        *,
        name: str | None = None,
        description: str | None = None,
        url: str | None = None,
        store: TaskStore | None = None,
        skills: Literal["auto", "fixed"] = "auto",
        tools: Iterable[BaseTool | Callable[..., Any]] = (),
        tool_timeout_s: float | None = None,
        max_sync_workers: int = MAX_WORKERS,
        policy: Policy | None = None,
        approval_handler: ApprovalHandler | None = None,
        approvals: Approvals | None = None,
        budget: RunBudget | None = None,
        infer: InferSettings | None = None,
        redaction: RedactionPolicy | None = None,
        run_store: RunStore | None = None,
        recovery: Recovery = "auto",
        limits: Limits | None = None,
        http: HttpOptions | str | int | None = None,
        a2a: A2AOptions | bool = True,
        authenticator: Authenticate | None = None,
        access: Admission | None = None,
        rate_limit: RateLimit | None = None,
        credentials: Credentials | None = None,
        trusted_peers: Iterable[str] = (),
        trust_registry: bool = False,
        server: ServerOptions | None = None,
        tls: TLSConfig | None = None,
        listen: str | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        expose_errors: bool = True,
        lease_ttl_s: float = 30.0,
        grace_s: float = 5.0,
        **later: Any,
    ) -> None:
        check_later(later | {"telemetry": telemetry})
        check_handlers(type(self), Agent)
        self.card = resolve_card(card, transport, name=name, description=description, url=url)
        self.store: TaskStore = _store(store, run_store)
        self.run_store = run_store
        self.grace_s = grace_s
        self._advertise = skills == "auto"
        self._runner = ToolRunner(max_workers=max_sync_workers, timeout_s=tool_timeout_s)
        wishes = Wishes(
            llm=llm,
            system_prompt=system_prompt,
            policy=policy,
            approval_handler=approval_handler,
            approvals=approvals,
            budget=budget,
            infer=infer,
            storage=storage,
            state=state,
            redaction=redaction,
            expose_errors=expose_errors,
        )
        self._faculties = Faculties(self.card.name, wishes, self._runner)
        self._toolbox = self._faculties.toolbox
        self._metadata = tuple(metadata)
        self._registry_given = registry if isinstance(registry, Registry) else None
        self._registry = _registry_client(registry, registry_url, tls, self._metadata)
        self._listen_at = listen_address(self.card, listen, registers=self._registry is not None)
        self._lease_ttl_s = lease_ttl_s
        transport = self.card.transport if self.card.transport == "runtime" else "grpc"
        self._credentials = credentials
        self._trusted_peers = trusted_peers if isinstance(trusted_peers, str) else tuple(trusted_peers)
        self._trust_registry = trust_registry
        self._clients = self._new_clients(transport, tls)
        self._peers = self._new_peers()
        self._limits = limits or Limits()
        options = server or ServerOptions()
        self._http = http
        self._reach = reach_of(
            replace(options, tls=options.tls or tls),
            http_options(http, self.card.url, tls),
            a2a,
            authenticator,
            access=access,
            rate=rate_limit,
        )
        self._recovery: Recovery = recovery
        self._configured_url = self.card.url
        self._own_interfaces = list(self.card.interfaces)
        self._own_schemes = dict(self.card.security_schemes or {})
        self._service: TaskService | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._edges: Edges | None = None
        self._has_come_up = False
        self._keeper: asyncio.Task[None] | None = None
        self._is_draining = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        # Every agent streams and keeps its history: both are readings of the log.
        capabilities = self.card.capabilities
        capabilities.streaming = capabilities.state_transition_history = True
        capabilities.has_llm = self.llm is not None
        capabilities.push_notifications = self._reach.sends_push
        if capabilities.supports_inference is None and self._is_default:
            capabilities.supports_inference = self.llm is not None
        for tool in tools:
            known = self._toolbox.names
            if (added := self.add_tool(tool)).name in known:
                raise InvalidArgumentError(f"two tools are named '{added.name}'", field="tools")

    def __repr__(self) -> str:
        return f"<Agent {self.card.name} at {self.card.url}{' running' if self.is_running else ''}>"

    @property
    def llm(self) -> LLM | None:
        """The model that answers."""
        return self._faculties.llm

    @property
    def state(self) -> State | None:
        """What the agent remembers."""
        return self._faculties.state

    @property
    def policy(self) -> Policy | None:
        """What its actions may do."""
        return self._faculties.policy

    @property
    def _is_default(self) -> bool:
        """Whether tasks are handled by the agent's own handler of parts."""
        kind = type(self)
        return kind.handle_task is Agent.handle_task and kind.handle_task_streaming is Agent.handle_task_streaming

    def _new_clients(self, transport: str, tls: TLSConfig | None) -> PeerClients:
        if self._credentials is None and not self._metadata:
            return PeerClients(AgentClient(transport, tls=tls, outage_s=OUTAGE_S))
        own = AgentClient(
            transport,
            tls=tls,
            metadata=self._metadata,
            credentials=self._credentials,
            outage_s=OUTAGE_S,
            trusted_origins=[each for each in self._trusted_peers if "://" in each],
        )
        return PeerClients(own, AgentClient(transport, tls=tls, outage_s=OUTAGE_S), self.card.name)

    def _new_peers(self) -> Peers:
        trust = PeerTrust(self._trusted_peers, self._trust_registry, self._registry_given or self._registry)
        peers = Peers(self._clients, self._registry, trust, lambda: self.card)
        self._faculties.actions.peers = peers
        self._faculties.mind.peers = peers.cards if self.card.capabilities.delegation else None
        return peers

    # -- what a user writes ----------------------------------------------------------------------------------------------

    async def handle_task(self, task: Task) -> Task:
        """Do the work of a task and return it. Override this; by default explicit tool calls are run.

        The task is a copy: what is added to it, its final state and its metadata go into the log when this returns. A task that is
        left working counts as completed. An exception makes it failed. Metadata that only repeats what the log knows is not kept
        when set by hand: state_history, run_context, run_id, parent_run_id, session_id, trace_id, workspace_uri, canceled,
        cancel_reason, error and reject_reason; `task.fail(...)` and its kin set the last ones.
        """
        return await self.execute_task(task)

    def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        """Do the work of a task as a generator: yield progress, messages, artifacts or events as they come.

        Override this with an async generator where there is something to report; changes to `task` count as in `handle_task`.

        By default, inside the run of `task`, as `super().handle_task_streaming(task)` in an override: does what `handle_task` does
        within that run, and yields the events that it records. They are in the log already, so yielding them again adds nothing.
        Where `handle_task` returns another task, that comes last. Outside of a run: runs the task, and yields its events.
        """
        run = current_run()
        if run is None or run.task_id != task.id:
            return self.run_task_streaming(task)
        return self._stream_within(run, task)

    async def _stream_within(self, run: Run, task: Task) -> AsyncGenerator[Any, None]:
        # A handler that streams from within its own handle_task must not come back to itself.
        is_streaming = type(self).handle_task_streaming is not Agent.handle_task_streaming
        await run.flush()  # what the override has emitted so far is not the default's
        work = asyncio.ensure_future(self.handle_task(task) if is_streaming else self.execute_task(task))
        async with aclosing(run.recorded_during(work)) as events:
            async for event in events:
                yield event
        answer = work.result()
        if answer is not None and answer is not task:
            yield answer

    async def execute_task(self, task: Task) -> Task:
        """Do what the latest item of `task` asks for: tool calls, inferences. Inside a handler this works on the current run."""
        run = current_run()
        if run is None or run.task_id != task.id:
            return await self.run_task(task)
        return await self._faculties.executor.execute(task, run)

    @overload
    def tool(self, name: F) -> F: ...
    @overload
    def tool(
        self,
        name: str | None = None,
        description: str | None = None,
        input_schema: SchemaLike | None = None,
        output_schema: SchemaLike | None = None,
        tags: Iterable[str] | None = None,
        examples: Iterable[Any] | None = None,
        capabilities: Iterable[str] | None = None,
        action_builder: ActionBuilder | None = None,
        *,
        timeout_s: float | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        title: str = "",
        destructive: bool = False,
    ) -> Callable[[F], F]: ...
    def tool(  # noqa: PLR0917 -- the documented signature
        self,
        name: F | str | None = None,
        description: str | None = None,
        input_schema: SchemaLike | None = None,
        output_schema: SchemaLike | None = None,
        tags: Iterable[str] | None = None,
        examples: Iterable[Any] | None = None,
        capabilities: Iterable[str] | None = None,
        action_builder: ActionBuilder | None = None,
        *,
        timeout_s: float | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        title: str = "",
        destructive: bool = False,
    ) -> Any:
        """Register the decorated function as a tool; works bare (`@agent.tool`) and with arguments.

        Its schema comes from the type hints; arguments are checked against them before each call.

        Args:
            title: Name for people; empty means `name`.
            read_only: A call changes nothing: several of one answer of a model may run side by side.
            idempotent: The same call twice is the same as once: a call that a crash cut off is repeated.
            destructive: A call may delete or overwrite something: callers are told so, and it decides nothing.
        """

        def register(fn: F) -> F:
            self.add_tool(
                Tool.from_callable(
                    fn,
                    name=name if isinstance(name, str) else None,
                    description=description,
                    input_schema=input_schema,
                    output_schema=output_schema,
                    tags=tags,
                    examples=examples,
                    capabilities=capabilities,
                    action_builder=action_builder,
                    timeout_s=timeout_s,
                    read_only=read_only,
                    idempotent=idempotent,
                    title=title,
                    destructive=destructive,
                )
            )
            return fn

        return register(name) if callable(name) else register

    def add_tool(self, tool: BaseTool | Callable[..., Any]) -> Tool:
        """Register a tool; one of the same name is replaced, and so is its skill on the card."""
        added = self._toolbox.add(tool)
        if self._advertise:
            self.card.skills = [skill for skill in self.card.skills if skill.id != added.name] + [added.skill()]
        self.card.capabilities.tool_calling = True
        return added

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools by name."""
        return {name: self._toolbox.get(name) for name in self._toolbox.names}

    async def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        """Run one of the agent's own tools under its policy: inside a handler as an action of the run, else outside of any task.

        Raises:
            ToolRejectedError: No such tool, or wrong arguments.
            ActionDeniedError, ApprovalRequiredError, BudgetExceededError: It may not run.
            ToolFailedError, ToolTimeoutError: It did not succeed.
        """
        return await self._faculties.call_tool(self.card.name, tool_name, None, arguments)

    async def call_tool_in_context(self, tool_name: str, context: RunContext, /, **arguments: Any) -> Any:
        """`call_tool` under the permissions and the budget of a context; all calls in one context share its budget."""
        return await self._faculties.call_tool(self.card.name, tool_name, context, arguments)

    # -- running tasks in this process -----------------------------------------------------------------------------------

    async def run_task(self, task: Task | Message | str) -> Task:
        """Run a task on this agent and return it when it ends or waits for input. The agent need not be started."""
        own = await self._local()
        sent = await own.send(Task.of(task), "", wait=True, timeout_s=None)
        whole = len(sent.task.messages) == sent.message_count and len(sent.task.artifacts) == sent.artifact_count
        return sent.task if whole else await own.get(sent.task.id, None)

    async def run_task_streaming(
        self, task: Task | Message | str, deltas: bool = False
    ) -> AsyncGenerator[RunEvent, None]:
        """Run a task on this agent and yield its events; with `deltas` the text that models are producing, too."""
        own, references = await self._local(), References()
        async with aclosing(own.stream(Task.of(task), "", deltas=deltas, timeout_s=None)) as batches:
            async for events in batches:
                for event in events:
                    yield references.whole(event)

    async def get_task(self, task_id: str) -> Task:
        """A task of this process as it is now.

        Raises:
            TaskNotFoundError: There is none with that id.
        """
        return await (await self._local()).get(task_id, None)

    async def cancel_task(self, task_id: str, reason: str | None = None) -> Task:
        """Cancel an active task and return it as it is afterwards.

        Raises:
            TaskNotFoundError: No such task is active here.
            TaskNotCancelableError: It has ended already.
        """
        attempt = self._service.attempt(task_id) if self._service is not None else None
        if self._service is None or attempt is None:
            raise TaskNotFoundError(f"task {task_id} is not active on {self.card.name}", task_id=task_id)
        return (await self._service.cancel(task_id, attempt.live.fold.principal, reason=reason or "")).to_task()

    @property
    def active_task_ids(self) -> list[str]:
        """Tasks that run or wait for a slot."""
        return self._service.active_task_ids if self._service is not None else []

    def get_cancellation_token(self, task_id: str) -> CancellationToken:
        """The live token of an active task.

        Raises:
            TaskNotFoundError: No such task is active here.
        """
        attempt = self._service.attempt(task_id) if self._service is not None else None
        if attempt is None:
            raise TaskNotFoundError(f"task {task_id} is not active on {self.card.name}", task_id=task_id)
        return attempt.run.token

    # -- what it remembers ----------------------------------------------------------------------------------------------

    async def describe_state(
        self,
        request: StateOperationRequest | Mapping[str, Any] | str | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
        include_data: bool | None = None,
    ) -> StateOperationResult:
        """What the agent remembers of a session, or of all sessions of callers in this process.

        Args:
            request: A request, its JSON object, or a session's id; the other arguments replace its fields.

        Raises:
            ActionDeniedError: Policy does not let it be looked at.
            UnimplementedError: The agent remembers nothing.
        """
        wanted = StateOperationRequest.of(request, session_id=session_id, stores=stores, include_data=include_data)
        return await (await self._local()).describe_state(wanted, None)

    async def reset_state(
        self,
        request: StateOperationRequest | Mapping[str, Any] | str | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
    ) -> StateOperationResult:
        """Forget a session, or all sessions of callers in this process. Arguments and errors as of `describe_state`."""
        wanted = StateOperationRequest.of(request, session_id=session_id, stores=stores)
        return await (await self._local()).reset_state(wanted, None)

    async def compact_state(
        self,
        request: StateOperationRequest | HistoryCompactionRequest | Mapping[str, Any] | str | None = None,
        *,
        session_id: str | None = None,
        strategy: CompactionStrategy | None = None,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        preserve_recent: int | None = None,
        summary_max_tokens: int | None = None,
    ) -> StateOperationResult:
        """Make the conversation of a session smaller. Arguments and errors as of `describe_state`."""
        wanted = StateOperationRequest.of(
            request,
            session_id=session_id,
            strategy=strategy,
            max_messages=max_messages,
            max_tokens=max_tokens,
            preserve_recent=preserve_recent,
            summary_max_tokens=summary_max_tokens,
        )
        result = await (await self._local()).compact_state(wanted, None)
        run, done = current_run(), result.compaction
        if run is not None and done is not None and done.changed and wanted.session_id == run.session_id:
            await run.emit(ContextCompacted(done.before_tokens, done.after_tokens, done.strategy))
        return result

    # -- other agents ----------------------------------------------------------------------------------------------------

    async def call_agent(self, agent_url: str, task: Task | Message | str) -> Task:
        """Send a task to a peer, by URL or by its name in the registry, and return it when it ends or waits."""
        return await call_peer(self._faculties.actions, self._peers, agent_url, Task.of(task))

    async def send_message_to(self, agent_url: str, message: Message | str) -> Message:
        """Send one message to a peer and return its answer."""
        return await message_peer(self._faculties.actions, self._peers, agent_url, message)

    def peer(self, target: str | AgentCard) -> AgentPeer:
        """A peer by name, URL or card, to be called more than once."""
        return AgentPeer(target.url if isinstance(target, AgentCard) else target, self._peers, self._faculties.actions)

    async def discover_agents(self, filter_by: dict[str, Any] | None = None) -> list[AgentCard]:
        """Cards of the peers in the registry that match."""
        return await self._peers.discover(filter_by)

    def get_agent_card(self, as_json: bool = True) -> Any:
        """The card, as a dict or as it is."""
        return self.card.to_dict() if as_json else self.card

    # -- life ------------------------------------------------------------------------------------------------------------

    @property
    def http_url(self) -> str:
        """Where the HTTP port is reached; empty where there is none, or the agent does not run."""
        return self._edges.http_url if self._edges is not None else ""

    @property
    def is_running(self) -> bool:
        """Whether the agent is reachable under its URL."""
        return self._loop is not None

    def relocate(
        self,
        *,
        url: str | None = None,
        registry: "str | Registry | RegistryClient | None" = None,
        store: TaskStore | None = None,
        tls: TLSConfig | None = None,
        listen: str | None = None,
        http: HttpOptions | str | int | None = None,
    ) -> Self:
        """Say anew where an agent that is not running listens, registers and keeps its tasks; what is None stays.

        A `url` without `listen` is also where it listens.

        Raises:
            InvalidArgumentError: The URL is none that an agent can have, or none that it can register.
            RuntimeError: The agent has begun to work.
        """
        if self._service is not None or self.is_running:
            raise RuntimeError("relocate() moves agents that are not running; stop it first")
        card = self.card if url is None else resolve_card(self.card, None, url=url)
        known = self._listen_at.url if self._listen_at is not None and url is None else None
        registers = registry is not None or self._registry is not None
        self._listen_at = listen_address(card, listen or known, registers=registers)
        self.card, self._configured_url = card, card.url
        tls = tls or self._reach.grpc.tls
        wanted = http if http is not None else self._http
        self._reach = replace(self._reach, http=http_options(wanted, card.url, tls))
        if tls is not None:
            self._reach = replace(self._reach, grpc=replace(self._reach.grpc, tls=tls))
            self._clients = self._new_clients(self._clients.own.transport, tls)
        if registry is not None:
            self._registry_given = registry if isinstance(registry, Registry) else None
            self._registry = _registry_client(registry, None, tls or self._reach.grpc.tls, self._metadata)
        self._peers = self._new_peers()
        self.store = store if store is not None else self.store
        return self

    async def serve(self, *, register: bool = True) -> None:
        """Come up on the running loop and return: store, port, registry, in this order.

        Raises:
            AddressInUseError: The port is taken.
            AgentConflictError: Another agent of this process has the `runtime://` URL.
            StoreError: The store cannot be opened.
        """
        if self._loop is not None:
            return
        service = await self._own_service()
        self._loop = asyncio.get_running_loop()
        try:
            if self.card.transport == "runtime":
                announce(self.card.url, self._endpoint())
            await self._open_edges(service)
            if register and self._registry is not None:
                await self._register(self._registry, service)
        except BaseException:
            await self.aclose(grace_s=0)
            raise
        urls = dict.fromkeys(filter(None, (self.card.url, self.http_url)))
        self._has_come_up = True
        log_listening(log, f"agent {self.card.name}", urls, foreground=self._stopped is not None)

    async def _open_edges(self, service: TaskService) -> None:
        faculties = self._faculties
        self.card.security_schemes = self._own_schemes | self._reach.security_schemes
        edges = self._edges = Edges(self._reach, self._listen_at)
        await edges.open(
            Served(
                service, self.card, self._toolbox, faculties.control, faculties.redaction, approvals=faculties.approvals
            )
        )

    async def _register(self, registry: RegistryClient, service: TaskService) -> None:
        registered = asyncio.Event()
        self._keeper = asyncio.get_running_loop().create_task(
            registry.keep_registered(
                lambda: self.card,
                lease_ttl_s=self._lease_ttl_s,
                instance_id=new_uuid(),
                status=lambda: self._status(service),
                registered=registered,
            )
        )
        # A registry that is away must not keep the agent from working: registration goes on behind.
        waiting = asyncio.ensure_future(registered.wait())
        await asyncio.wait([waiting, self._keeper], timeout=REGISTER_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._keeper.done():
            self._keeper.result()

    def _status(self, service: TaskService) -> InstanceStatus:
        """What heartbeats report."""
        return InstanceStatus(InstanceState.DRAINING if self._is_draining else InstanceState.UP, *service.load)

    async def _say_draining(self, registry: RegistryClient, service: TaskService) -> None:
        """Stay in the registry for callers that have work here, and send the others elsewhere."""
        self._is_draining = True  # also what the keeper says from now on
        with suppress(ProtolinkError, TimeoutError):
            async with asyncio.timeout(UNREGISTER_WAIT_S):
                await registry.heartbeat(self.card.url, self._status(service))

    async def _unregister(self) -> None:
        """Leave the registry, if the agent is in it."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        keeper.cancel()
        await asyncio.wait([keeper])
        if self._registry is not None:
            with suppress(ProtolinkError, TimeoutError):
                async with asyncio.timeout(UNREGISTER_WAIT_S):
                    await self._registry.unregister(self.card.url)

    async def aclose(self, grace_s: float | None = None) -> None:
        """Go down on the running loop: say so, refuse new work, let runs finish, leave the registry, close port and store.

        An agent without runs, or without a grace for them, leaves the registry first.
        """
        grace = self.grace_s if grace_s is None else grace_s
        was_up, self._has_come_up = self._has_come_up, False
        if was_up:
            log.info("agent %s is stopping", self.card.name)
        if self._edges is not None:
            await self._edges.drain()
        service, self._service = self._service, None
        if self._keeper is not None and self._registry and service and grace > 0 and any(service.load):
            await self._say_draining(self._registry, service)
        else:
            await self._unregister()
        try:
            if service is not None:
                withdraw(self.card.url, service)
                await service.stop(grace)
        finally:
            await self._unregister()
            self._is_draining = False
        edges, self._edges = self._edges, None
        if edges is not None:
            # The runs have ended; what is left are watches, which get their last events.
            await edges.close(min(grace, 1.0))
        await self._peers.aclose()
        await self._faculties.aclose()
        await self._runner.aclose(grace_s=0)
        self._runner = ToolRunner(max_workers=self._runner.max_workers, timeout_s=self._runner.timeout_s)
        self._toolbox.runner = self._runner
        self.card.url, self.card.interfaces = self._configured_url, list(self._own_interfaces)
        self._loop = None
        if was_up:
            log.info("agent %s has stopped", self.card.name)
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            stopped.set()

    def start(self, *, register: bool = True, background: bool = False) -> None:
        """Serve: in the foreground until a signal or `stop`, or with `background` beside the program. Raises as `serve`."""
        if background:
            shared_loop.run(self.serve(register=register))
        else:
            self.run(register=register)

    def stop(self) -> None:
        """Go down, from any thread; returns when everything is closed. A stopped agent can be started again."""
        if self._loop is not None:
            close_from_outside(self._loop, self.aclose, "agent")

    def run(self, *, register: bool = True) -> None:
        """Serve in the foreground until SIGTERM, SIGINT or `stop`. Raises as `serve`."""
        run_loop(self._run(register))

    async def _run(self, register: bool) -> None:
        stopped = self._stopped = asyncio.Event()
        stop_on_signal(stopped)
        await self.serve(register=register)
        if self._edges is None or not self._edges.listens:
            log.warning(
                "%s listens on no port: %s can be called in this process only; give the agent a url like %s to be reached",
                self.card.name,
                self.card.url,
                ANY_PORT,
            )
        await stopped.wait()
        await self.aclose()

    async def __aenter__(self) -> Self:
        await self.serve()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _local(self) -> LocalAgent:
        """This agent as a peer in its own process, from whatever loop the caller runs on."""
        await self._own_service()
        return LocalAgent(self.card.url, self._endpoint)

    def _endpoint(self) -> LocalEndpoint:
        if self._service is None or self._home is None:
            raise UnavailableError(f"agent {self.card.name} was stopped", agent=self.card.name)
        faculties = self._faculties
        return LocalEndpoint(
            self._service, self._home, lambda: self.card, self._toolbox, faculties.control, faculties.redaction
        )

    async def _own_service(self) -> TaskService:
        """The runtime of this agent, started on the running loop when first needed.

        A loop that has ended took its runtime along: the next one gets a runtime of its own, on the same store.
        """
        loop = asyncio.get_running_loop()
        if self._service is None or (self._home is not loop and (self._home is None or self._home.is_closed())):
            self._home = loop
            self._service = TaskService(
                self.card.name,
                self.store,
                self._handler(),
                limits=self._limits,
                recovery=self._recovery,
                controls=self._faculties.controls,
                replayable=self._is_default,
                approvals=self._faculties.approvals,
                redaction=self._faculties.redaction,
                check_edit=self._faculties.check_edit,
                run_saver=_run_saver(self.run_store, self.store),
            )
        service = self._service
        if self._home is loop and not service.is_accepting:
            try:
                await self._faculties.open()
                await service.start()
            except BaseException:
                self._service = None
                raise
        return service

    def _handler(self) -> Callable[[Task, Run], Awaitable[Task | None]]:
        if type(self).handle_task_streaming is not Agent.handle_task_streaming:
            return self._handle_streaming
        return self._handle

    async def _handle(self, task: Task, run: Run) -> Task:
        if TOOL_TASK in task.metadata:
            return await self._faculties.executor.execute(task, run)
        return await self.handle_task(task)

    async def _handle_streaming(self, task: Task, run: Run) -> Task:
        if TOOL_TASK in task.metadata:
            return await self._faculties.executor.execute(task, run)
        stream: Any = self.handle_task_streaming(task)
        if not hasattr(stream, "__anext__"):  # a plain function may return anything
            raise TypeError("handle_task_streaming must be an async generator")
        answer = task
        async with aclosing(stream) as items:
            async for item in items:
                if isinstance(item, Task):
                    answer = item
                elif not (isinstance(item, RunEvent) and run.has_recorded(item)):
                    await run.emit(item)
        return answer


REGISTER_WAIT_S = 2.0
UNREGISTER_WAIT_S = 2.0
"""How long coming up waits for the registry, and going down: both go on without it."""


def _store(store: TaskStore | None, run_store: RunStore | None) -> TaskStore:
    if not isinstance(run_store, SQLiteRunStore):
        return store if store is not None else MemoryStore()
    if store is not None:
        raise InvalidArgumentError("the run store brings the task store along: give one of both", field="run_store")
    return run_store.task_store


def _run_saver(run_store: RunStore | None, store: TaskStore) -> RunSaver | None:
    """Passes runs on to a run store of the application; a view over the agent's own store has them already."""
    if run_store is None or isinstance(run_store, SQLiteRunStore):
        return None
    return RunSaver(run_store, store)


def _registry_client(
    registry: "str | Registry | RegistryClient | None",
    registry_url: str | None,
    tls: TLSConfig | None,
    metadata: Sequence[tuple[str, str]],
) -> RegistryClient | None:
    if isinstance(registry, RegistryClient):
        return registry
    if isinstance(registry, Registry):
        return registry.client
    url = registry_url if registry in (None, "grpc") else registry
    if url is None:
        if registry is not None:
            raise InvalidArgumentError("name the registry's url", field="registry_url")
        return None
    return RegistryClient(url, tls=tls, metadata=metadata, outage_s=REGISTRY_OUTAGE_S)
