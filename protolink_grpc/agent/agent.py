"""Agent: what a user writes, and the one place where the layers are joined.

An agent is a card, tools, a handler and a place to listen. It starts in the foreground (`run`), in the background of a program
(`start(background=True)`), or inside a loop that is running already (`async with agent`).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar, Unpack, overload

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
from protolink_grpc.agent.lifecycle import AgentLifecycle
from protolink_grpc.agent.peers import AgentPeer, call_peer, message_peer
from protolink_grpc.agent.registry import Registry
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import (
    InvalidArgumentError,
    TaskNotFoundError,
)
from protolink_grpc.llms.base import LLM
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.cancellation import CancellationToken
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import CompactionStrategy, HistoryCompactionRequest
from protolink_grpc.models.events import ContextCompacted, RunEvent
from protolink_grpc.models.json_schema import SchemaLike
from protolink_grpc.models.message import Message
from protolink_grpc.models.references import References
from protolink_grpc.models.state import StateOperationRequest, StateOperationResult
from protolink_grpc.models.task import Task, stored_metadata
from protolink_grpc.policy.capabilities import Policy
from protolink_grpc.runtime.actions.tools import TOOL_TASK
from protolink_grpc.runtime.run import Run, current_run
from protolink_grpc.state import State, Storage
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.tools.tool import ActionBuilder, BaseTool, Tool
from protolink_grpc.tools.toolbox import as_tool
from protolink_grpc.wire.cards import card_to_bytes, check_card_size

F = TypeVar("F", bound=Callable[..., Any])


@checks_arguments
class Agent(AgentLifecycle):
    """A typed microservice that takes tasks.

    Settings come in groups. Each setting can also be given by its own name, as in ProtoLink's documents: `Agent(card, policy=p)` is
    `Agent(card, safety=SafetyConfig(policy=p))`.

    Args:
        card: Who the agent is: an AgentCard, a dict of its fields, or a name. `name`, `description` and `url` may stand in for it.
        transport: "grpc", "runtime", or ProtoLink's "http", "sse" and "websocket"; by default what the card's URL says.
        registry: Where to register and look for peers: a URL, a RegistryClient, or a Registry of this process.
        registry_url: The URL of the registry where `registry` is its transport, "grpc".
        llm, system_prompt: As in ModelConfig.
        storage, state: As in MemoryConfig.
        telemetry: Not implemented yet.
        tools: Functions or tools to begin with.
        store: Where tasks are kept; in memory by default.
        model: Its language model.
        memory: What it remembers between tasks.
        tooling: How its tools run.
        safety: What its actions may do.
        serving: How it is reached, and by whom.
        peering: How it calls its peers and its registry.
        runtime: How its runs are bounded, recovered and kept.
        settings: Settings of the groups by their own names, and names that only ProtoLink has: `verbosity` is accepted and means
            nothing, the others are not implemented yet.

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
        tools: Iterable[BaseTool | Callable[..., Any]] = (),
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
        resolved = resolve_card(card, transport, name=name, description=description, url=url)
        super().__init__(resolved, config, registry=registry, registry_url=registry_url, store=store)
        self._advertise = config.tooling.skills == "auto"
        # Every agent streams and keeps its history: both are readings of the log.
        capabilities = self.card.capabilities
        capabilities.streaming = capabilities.state_transition_history = True
        capabilities.has_llm = self.llm is not None
        capabilities.push_notifications = self._edge_settings.sends_push
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
        return self._components.llm

    @property
    def state(self) -> State | None:
        """What the agent remembers."""
        return self._components.state

    @property
    def policy(self) -> Policy | None:
        """What its actions may do."""
        return self._components.policy

    @property
    def _is_default(self) -> bool:
        """Whether tasks are handled by the agent's own handler of parts."""
        kind = type(self)
        return kind.handle_task is Agent.handle_task and kind.handle_task_streaming is Agent.handle_task_streaming

    # -- what a user writes ----------------------------------------------------------------------------------------------

    async def handle_task(self, task: Task) -> Task:
        """Do the work of a task and return it. Override this; by default explicit tool calls are run.

        The task is a copy: what is added to it, its final state and its metadata go into the log when this returns. A task that is
        left working counts as completed. An exception makes it failed. The metadata is the user's own; keys of ProtoLink that only
        repeat what the log knows, such as run_context, are not kept when set by hand. `task.fail(...)` and its kin set the reason
        of an end.
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
        return await self._components.executor.execute(task, run)

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
        """Register a tool; one of the same name is replaced, and so is its skill on the card.

        Raises:
            InvalidArgumentError: The agent runs, and its card would become larger than 1 MiB as encoded; nothing is added then.
        """
        added = as_tool(tool)
        card = self.card
        if self._advertise:
            skills = [skill for skill in card.skills if skill.id != added.name] + [added.skill()]
            if self.is_running:
                check_card_size(len(card_to_bytes(replace(card, skills=skills))))
            card.skills = skills
        self._toolbox.add(added)
        card.capabilities.tool_calling = True
        return added

    @property
    def tools(self) -> dict[str, Tool]:
        """Return the tools by name."""
        return {name: self._toolbox.get(name) for name in self._toolbox.names}

    async def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        """Run one of the agent's own tools under its policy: inside a handler as an action of the run, else outside of any task.

        Raises:
            ToolRejectedError: No such tool, or wrong arguments.
            ActionDeniedError, ApprovalRequiredError, BudgetExceededError: It may not run.
            ToolFailedError, ToolTimeoutError: It did not succeed.
        """
        return await self._components.call_tool(self.card.name, tool_name, None, arguments)

    async def call_tool_in_context(self, tool_name: str, context: RunContext, /, **arguments: Any) -> Any:
        """`call_tool` under the permissions and the budget of a context; all calls in one context share its budget."""
        return await self._components.call_tool(self.card.name, tool_name, context, arguments)

    # -- running tasks in this process -----------------------------------------------------------------------------------

    async def run_task(self, task: Task | Message | str) -> Task:
        """Run a task on this agent and return it when it ends or waits for input. The agent need not be started."""
        return await (await self._local()).run(Task.of(task))

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
        owner = self._service.owner_of_run(task_id) if self._service is not None else None
        if self._service is None or owner is None:
            raise TaskNotFoundError(f"task {task_id} is not active on {self.card.name}", task_id=task_id)
        return (await self._service.cancel(task_id, owner, reason=reason or "")).to_task()

    @property
    def active_task_ids(self) -> list[str]:
        """Return the ids of the tasks that run or wait for a slot."""
        return self._service.active_task_ids if self._service is not None else []

    def get_cancellation_token(self, task_id: str) -> CancellationToken:
        """The live token of an active task.

        Raises:
            TaskNotFoundError: No such task is active here.
        """
        run = self._service.run_of(task_id) if self._service is not None else None
        if run is None:
            raise TaskNotFoundError(f"task {task_id} is not active on {self.card.name}", task_id=task_id)
        return run.token

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
        return await call_peer(self._components.actions, self._peers, agent_url, Task.of(task))

    async def send_message_to(self, agent_url: str, message: Message | str) -> Message:
        """Send one message to a peer and return its answer."""
        return await message_peer(self._components.actions, self._peers, agent_url, message)

    def peer(self, target: str | AgentCard) -> AgentPeer:
        """A peer by name, URL or card, to be called more than once."""
        return AgentPeer(target.url if isinstance(target, AgentCard) else target, self._peers, self._components.actions)

    async def discover_agents(self, filter_by: dict[str, Any] | None = None) -> list[AgentCard]:
        """Cards of the peers in the registry that match."""
        return await self._peers.discover(filter_by)

    def get_agent_card(self, as_json: bool = True) -> Any:
        """The card, as a dict or as it is."""
        return self.card.to_dict() if as_json else self.card

    # -- how tasks reach the handlers ----------------------------------------------------------------------------------------

    def _handler(self) -> Callable[[Task, Run], Awaitable[Task | None]]:
        if type(self).handle_task_streaming is not Agent.handle_task_streaming:
            return self._handle_streaming
        return self._handle

    async def _handle(self, task: Task, run: Run) -> Task:
        if TOOL_TASK in stored_metadata(task):
            return await self._components.executor.execute(task, run)
        return await self.handle_task(task)

    async def _handle_streaming(self, task: Task, run: Run) -> Task:
        if TOOL_TASK in stored_metadata(task):
            return await self._components.executor.execute(task, run)
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
