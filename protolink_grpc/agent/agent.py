"""Agent: the class that users create or subclass. It joins all layers.

An agent has a card, tools, a handler and ports. It starts in the foreground (`run`), in the background of a program
(`start(background=True)`), or in a running event loop (`async with agent`).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, Unpack, overload

from protolink_grpc.agent.agent_peer import AgentPeer, call_peer, message_peer
from protolink_grpc.agent.agent_tools import AgentTools
from protolink_grpc.agent.config import (
    AgentConfig,
    FlatSettings,
    MemoryConfig,
    ModelConfig,
    PeerConfig,
    RuntimeConfig,
    SafetyConfig,
    ServingConfig,
    ToolConfig,
)
from protolink_grpc.agent.identity import check_handlers, resolve_card
from protolink_grpc.agent.local_agent import PRINCIPAL
from protolink_grpc.agent.registry import Registry
from protolink_grpc.client.port import conversation_compaction
from protolink_grpc.client.questions import Answer, question_task, read_answer
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.compat.protolink.task_events import fact_of
from protolink_grpc.compat.protolink.transports import Transport
from protolink_grpc.errors import (
    InvalidArgumentError,
    TaskNotFoundError,
)
from protolink_grpc.flows.execution import run_flow
from protolink_grpc.flows.flow import Flow
from protolink_grpc.flows.scope import current_host
from protolink_grpc.llms.base import LLM
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunBudget, RunContext
from protolink_grpc.models.conversation import CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult
from protolink_grpc.models.events import ContextCompacted, RunEvent
from protolink_grpc.models.json_schema import OutputType
from protolink_grpc.models.message import Message
from protolink_grpc.models.references import References
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task, stored_metadata
from protolink_grpc.net.address import RUNTIME_SCHEME
from protolink_grpc.policy.capabilities import Policy
from protolink_grpc.runtime.actions.tools import TOOL_TASK
from protolink_grpc.runtime.default_handler import DefaultHandler
from protolink_grpc.runtime.run import Run, current_run
from protolink_grpc.services.execution import ServiceCalls
from protolink_grpc.services.recording import SERVICE_CALL
from protolink_grpc.state import State, Storage
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.telemetry.base import Telemetry
from protolink_grpc.tools.tool import BaseTool

F = TypeVar("F", bound=Callable[..., Any])


@checks_arguments
class Agent(AgentTools):
    """A typed microservice that executes tasks.

    Settings are grouped. Each setting can also be given by its own name, as in ProtoLink's documentation: `Agent(card, policy=p)`
    is `Agent(card, safety=SafetyConfig(policy=p))`.

    Args:
        card: An AgentCard, a dict of its fields, or the agent's name. `name`, `description` and `url` can replace it.
        transport: "grpc", "runtime", or ProtoLink's "http", "sse" and "websocket"; by default that of the card's URL. Or an object
            of `protolink_grpc.transport`, whose URL the card then has or gets.
        registry: The registry for registration and for finding peers: a URL, a RegistryClient, or a Registry of this process.
        registry_url: The URL of the registry if `registry` is its transport, "grpc".
        llm, system_prompt: As in ModelConfig.
        storage, state: As in MemoryConfig.
        telemetry: As in RuntimeConfig.
        tools: Functions or tools.
        services: Servicers of your own .proto files: objects of subclasses of generated classes, with async methods. Each call of a
            method is a task, unless `rpc(durable=False)` marks it.
        flow: Executes the tasks of the agent instead of the default handler.
        store: The task store; by default in memory.
        model: Settings of the language model.
        memory: Settings of the state across tasks.
        tooling: Settings of the tools.
        safety: Policy, approvals and budget.
        serving: Ports, authentication and access.
        peering: Settings of calls to peers and to the registry.
        runtime: Limits, recovery, storage and telemetry of runs.
        settings: Settings of the groups by their own names, and names that only ProtoLink has: `verbosity` is accepted and ignored,
            the others are not implemented yet.

    Raises:
        InvalidArgumentError: A setting is missing or contradicts another one, or the agent would register an address that others
            cannot call, such as 0.0.0.0; names the field.
        TypeError: A handler has the wrong type.
        UnimplementedError: A setting is not implemented yet.

    Override `handle_task`, or `handle_task_streaming` to report progress. Both serve unary calls, streams and resubscriptions.
    """

    def __init__(  # noqa: PLR0917 -- the documented signature
        self,
        card: AgentCard | dict[str, Any] | str | None = None,
        transport: str | Transport | None = None,
        registry: "str | Registry | RegistryClient | None" = None,
        registry_url: str | None = None,
        llm: LLM | str | None = None,
        system_prompt: str | None = None,
        storage: Storage | None = None,
        state: State | Iterable[str] | str | None = None,
        telemetry: Telemetry | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        url: str | None = None,
        tools: Iterable[BaseTool | Callable[..., Any]] = (),
        services: Iterable[object] = (),
        flow: Flow | None = None,
        store: TaskStore | None = None,
        model: ModelConfig | None = None,
        memory: MemoryConfig | None = None,
        tooling: ToolConfig | None = None,
        safety: SafetyConfig | None = None,
        serving: ServingConfig | None = None,
        peering: PeerConfig | None = None,
        runtime: RuntimeConfig | None = None,
        **settings: Unpack[FlatSettings],
    ) -> None:
        given = {"llm": llm, "system_prompt": system_prompt, "storage": storage, "state": state, "telemetry": telemetry}
        config = AgentConfig(
            model=model or ModelConfig(),
            memory=memory or MemoryConfig(),
            tooling=tooling or ToolConfig(),
            safety=safety or SafetyConfig(),
            serving=serving or ServingConfig(),
            peering=peering or PeerConfig(),
            runtime=runtime or RuntimeConfig(),
        ).with_flat({**given, **settings})
        check_handlers(type(self), Agent)
        if flow is not None:
            flow.check()
        resolved = resolve_card(card, transport, name=name, description=description, url=url)
        if isinstance(transport, Transport):
            config = config.with_transport(transport)
        super().__init__(resolved, config, registry=registry, registry_url=registry_url, store=store, flow=flow)
        self._transport = transport if isinstance(transport, Transport) else None
        if self._transport is not None:
            self._transport.attach(self)
        # Every agent supports streaming and history, because both are read from the log.
        capabilities = self.card.capabilities
        capabilities.streaming = capabilities.state_transition_history = True
        capabilities.has_llm = self.llm is not None
        capabilities.push_notifications = self._edge_settings.sends_push
        if capabilities.supports_inference is None and self._is_default and flow is None:
            capabilities.supports_inference = self.llm is not None
        for tool in tools:
            names = self._toolbox.names
            if (added := self.add_tool(tool)).name in names:
                raise InvalidArgumentError(f"two tools are named '{added.name}'", field="tools")
        for servicer in services:
            self.add_service(servicer)

    def __repr__(self) -> str:
        return f"<Agent {self.card.name} at {self.card.url}{' running' if self.is_running else ''}>"

    @property
    def llm(self) -> LLM | None:
        """The language model, or None."""
        return self._components.llm

    @property
    def state(self) -> State | None:
        """The state across tasks, or None."""
        return self._components.state

    @property
    def policy(self) -> Policy | None:
        """The policy for the agent's actions, or None."""
        return self._components.policy

    @property
    def _is_default(self) -> bool:
        """Whether the default handler handles tasks."""
        kind = type(self)
        return kind.handle_task is Agent.handle_task and kind.handle_task_streaming is Agent.handle_task_streaming

    # -- Handlers ---------------------------------------------------------------------------------------------------------

    async def handle_task(self, task: Task) -> Task:
        """Execute a task and return it. Override this; the default executes the flow, or tool calls and inferences.

        The task is a copy. New messages and artifacts, its final state and its metadata are appended to the log when this
        returns. A task that is still working counts as completed. An exception fails the task. The metadata belongs to the user,
        except for ProtoLink's keys that repeat facts of the log, such as run_context: changes of these are ignored.
        `task.fail(...)` and similar methods set the reason of the end.
        """
        return await self.execute_task(task)

    def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        """Execute a task and yield progress, messages, artifacts or events.

        Override this with an async generator to report while working. Changes of `task` are handled as in `handle_task`.

        The default, called within the run of `task` (`super().handle_task_streaming(task)` in an override), does what `handle_task`
        does and yields the recorded events. They are in the log already, so yielding them again has no effect. If `handle_task`
        returns another task, that is yielded last. Outside of a run, it runs the task and yields its events.
        """
        run = current_run()
        if run is None or run.task_id != task.id:
            return self.run_task_streaming(task)
        return self._stream_within(run, task)

    async def _stream_within(self, run: Run, task: Task) -> AsyncGenerator[Any, None]:
        # A handler that calls this from its own handle_task must not be called again.
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
        """Execute the flow of the agent, or the tool calls and inferences of the latest item of `task`.

        Within a handler this uses the current run.
        """
        run = current_run()
        if run is None or run.task_id != task.id:
            return await self.run_task(task)
        if self.flow is not None:
            return await run_flow(self.flow, task, run, self._flow_host)
        return await self._components.executor.execute(task, run)

    # -- Tasks in this process -------------------------------------------------------------------------------------------

    async def run_task(self, task: Task | Message | str) -> Task:
        """Run a task on this agent and return it when it ends or waits for input. The agent does not have to be started."""
        given = Task.of(task)
        return self._note_answer(given, await (await self.local_agent()).run(given))

    async def run_task_streaming(
        self, task: Task | Message | str, deltas: bool = False
    ) -> AsyncGenerator[RunEvent, None]:
        """Run a task on this agent and yield its events. With `deltas`, also yield the text that models are producing."""
        own, references = await self.local_agent(), References()
        async with aclosing(own.stream(Task.of(task), "", deltas=deltas, timeout_s=None)) as batches:
            async for events in batches:
                for event in events:
                    yield references.whole(event)

    @overload
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: type[Answer] = ...,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Answer: ...
    @overload
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: Any,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any: ...
    async def ask(
        self,
        question: Message | str,
        *,
        output_type: Any = str,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any:
        """Ask this agent and return the answer. Arguments and errors as in `AgentClient.ask`; peers have the same method.

        In a handler or a tool of this agent, the question goes to the agent's model as a part of the run: with the run's budget,
        session and cancellation, and without the conversation of the session. It then accepts no further arguments.
        """
        run = current_run()
        if run is None or run.agent_name != self.card.name:
            task = question_task(question, output_type, session_id=session_id, budget=budget, context=context)
            return read_answer(await self.run_task(task), output_type)
        for name, value in (("session_id", session_id), ("budget", budget), ("context", context)):
            if value is not None:
                raise InvalidArgumentError("is that of the run", field=name)
        message = Message.user(question) if isinstance(question, str) else question
        return await self._components.executor.ask(
            run, message, None if output_type is str else OutputType(output_type)
        )

    async def get_task(self, task_id: str) -> Task:
        """Return a task of a caller in this process.

        Raises:
            TaskNotFoundError: The task does not exist.
        """
        return await (await self.local_agent()).get(task_id, None)

    async def cancel_task(self, task_id: str, reason: str | None = None) -> Task:
        """Cancel an active task and return it.

        Raises:
            TaskNotFoundError: No such task is active here.
            TaskNotCancelableError: The task has ended.
        """
        owner = self._service.owner_of_run(task_id) if self._service is not None else None
        if self._service is None or owner is None:
            raise TaskNotFoundError(f"task {task_id} is not active on {self.card.name}", task_id=task_id)
        return (await self._service.cancel(task_id, owner, reason=reason or "")).to_task()

    @property
    def active_task_ids(self) -> list[str]:
        """Return the ids of the tasks that run or wait for a slot."""
        return self._service.active_task_ids if self._service is not None else []

    def get_cancellation_token(self, task_id: str) -> CancellationToken:
        """Return the cancellation token of an active task.

        Raises:
            TaskNotFoundError: No such task is active here.
        """
        token = self._service.cancellation_token(task_id) if self._service is not None else None
        if token is None:
            raise TaskNotFoundError(f"task {task_id} is not active on {self.card.name}", task_id=task_id)
        return token

    # -- State ----------------------------------------------------------------------------------------------------------

    async def describe_state(
        self,
        request: StateOperationRequest | Mapping[str, Any] | str | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
        include_data: bool | None = None,
    ) -> StateOperationResult:
        """Describe the state of a session, or of all sessions of callers in this process.

        Args:
            request: A request, its JSON object, or a session id. The other arguments replace its fields.

        Raises:
            ActionDeniedError: The policy denies it.
            UnimplementedError: The agent has no state.
        """
        wanted = StateOperationRequest.of(request, session_id=session_id, stores=stores, include_data=include_data)
        return await (await self.local_agent()).describe_state(wanted, None)

    async def reset_state(
        self,
        request: StateOperationRequest | Mapping[str, Any] | str | None = None,
        *,
        session_id: str | None = None,
        stores: Sequence[str] | None = None,
    ) -> StateOperationResult:
        """Reset a session, or all sessions of callers in this process. Arguments and errors as in `describe_state`."""
        wanted = StateOperationRequest.of(request, session_id=session_id, stores=stores)
        return await (await self.local_agent()).reset_state(wanted, None)

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
        """Compact the conversation of a session. Arguments and errors as in `describe_state`."""
        wanted = StateOperationRequest.of(
            request,
            session_id=session_id,
            strategy=strategy,
            max_messages=max_messages,
            max_tokens=max_tokens,
            preserve_recent=preserve_recent,
            summary_max_tokens=summary_max_tokens,
        )
        result = await (await self.local_agent()).compact_state(wanted, None)
        run, done = current_run(), result.compaction
        # The session of a run of another principal is another conversation, also if both have the same id.
        is_own = run is not None and run.principal == PRINCIPAL and wanted.session_id == run.session_id
        if run is not None and is_own and done is not None and done.changed:
            await run.emit(ContextCompacted(done.before_tokens, done.after_tokens, done.strategy, done.summary))
        return result

    async def compact_history(
        self,
        request: HistoryCompactionRequest | Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
        strategy: CompactionStrategy | None = None,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        preserve_recent: int | None = None,
        summary_max_tokens: int | None = None,
    ) -> HistoryCompactionResult:
        """As `compact_state`, with the result in the form for histories."""
        done = await self.compact_state(
            HistoryCompactionRequest.from_dict(request) if isinstance(request, Mapping) else request,
            session_id=session_id,
            strategy=strategy,
            max_messages=max_messages,
            max_tokens=max_tokens,
            preserve_recent=preserve_recent,
            summary_max_tokens=summary_max_tokens,
        )
        return conversation_compaction(done)

    # -- Other agents ----------------------------------------------------------------------------------------------------

    async def call_agent(self, agent_url: str, task: Task | Message | str) -> Task:
        """Send a task to a peer, given by URL or by its name in the registry, and return it when it ends or waits."""
        given = Task.of(task)
        answer = await call_peer(self._components.actions, self._peer_tasks, agent_url, given)
        return self._note_answer(given, answer) if agent_url.startswith(RUNTIME_SCHEME) else answer

    def _note_answer(self, task: Task, answer: Task) -> Task:
        # Within a run the task may be the handler's own, whose changes belong to the run.
        if self._transport is not None and current_run() is None:
            self._transport.note_answer(task, answer)
        return answer

    async def send_message_to(self, agent_url: str, message: Message | str) -> Message:
        """Send one message to a peer and return its answer."""
        return await message_peer(self._components.actions, self._peer_tasks, agent_url, message)

    def peer(self, target: str | AgentCard) -> AgentPeer:
        """Return a peer by name, URL or card, for several calls."""
        return AgentPeer(
            target.url if isinstance(target, AgentCard) else target, self._peer_tasks, self._components.actions
        )

    async def discover_agents(self, filter_by: dict[str, Any] | None = None) -> list[AgentCard]:
        """Return the cards of the matching peers in the registry."""
        return await self._peers.discover(filter_by)

    def get_agent_card(self, as_json: bool = True) -> Any:
        """Return the card, as an AgentCard or as a dict."""
        return self.card.to_dict() if as_json else self.card

    # -- Calls of the handlers -----------------------------------------------------------------------------------------------

    def _handler(self) -> Callable[[Task, Run], Awaitable[Task | None]]:
        if type(self).handle_task_streaming is not Agent.handle_task_streaming:
            return self._handle_streaming
        return self._handle

    def _executor_of(self, task: Task) -> DefaultHandler | ServiceCalls | None:
        """Return what executes a task that is a call of a tool or of a method; None for any other task."""
        metadata = stored_metadata(task)
        if SERVICE_CALL in metadata:
            return self._service_calls
        return self._components.executor if TOOL_TASK in metadata else None

    async def _handle(self, task: Task, run: Run) -> Task:
        current_host.set(self._flow_host)
        if (own := self._executor_of(task)) is not None:
            return await own.execute(task, run)
        return await self.handle_task(task)

    async def _handle_streaming(self, task: Task, run: Run) -> Task:
        current_host.set(self._flow_host)
        if (own := self._executor_of(task)) is not None:
            return await own.execute(task, run)
        stream: Any = self.handle_task_streaming(task)
        if not hasattr(stream, "__anext__"):  # a function that is not async may return anything
            raise TypeError("handle_task_streaming must be an async generator")
        answer = task
        async with aclosing(stream) as items:
            async for item in items:
                if isinstance(item, Task):
                    answer = item
                elif (
                    not (isinstance(item, RunEvent) and run.has_recorded(item)) and (fact := fact_of(item)) is not None
                ):
                    await run.emit(fact)
        return answer
