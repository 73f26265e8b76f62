"""Other agents as an agent sees them: by URL or by name, calls made inside a run recorded, bounded and canceled with it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import AgentNotFoundError, DeadlineExceededError, ProtolinkError, TaskExecutionError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import CONTEXT_KEY
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolCall, ToolOutput
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.actions import Actions
from protolink_grpc.runtime.background import background
from protolink_grpc.runtime.gate import AGENT_CALL
from protolink_grpc.runtime.run import current_run
from protolink_grpc.wire.registry import AgentChange, AgentChangeKind

log = logging.getLogger(__name__)


class Peers:
    """Finds and calls peers.

    Args:
        own: The card of the agent itself, which is no peer.
    """

    def __init__(
        self, client: AgentClient, registry: RegistryClient | None, own: Callable[[], AgentCard] | None = None
    ) -> None:
        self.client = client
        self._registry = registry
        self._own = own
        self._known: dict[str, AgentCard] = {}
        self._watch: asyncio.Task[None] | None = None
        self._complete = asyncio.Event()
        self._farewells: set[asyncio.Task[Any]] = set()

    async def url_of(self, target: str) -> str:
        """The URL of a peer.

        Raises:
            AgentNotFoundError: The registry has no such name, or there is no registry.
            AmbiguousAgentError: Several agents have that name.
        """
        if "://" in target:
            return target
        if self._registry is None:
            raise AgentNotFoundError(
                f"{target!r} is a name and this agent has no registry; use a URL, or give the agent a registry",
                name=target,
            )
        return (await self._registry.get(target)).card.url

    async def discover(self, filter_by: dict[str, Any] | None) -> list[AgentCard]:
        """Cards of the agents in the registry that match; none without a registry."""
        return [] if self._registry is None else await self._registry.discover(filter_by)

    # -- what the runtime asks -------------------------------------------------------------------------------------------

    async def cards(self) -> Sequence[AgentCard]:
        """Agents that work may be delegated to, sorted by name: asked from the registry once, and kept fresh by its watch.

        A registry that is away does not keep an agent from thinking: it knows the peers that it knew.
        """
        if self._registry is None:
            return ()
        if self._watch is None or self._watch.done():
            self._complete = asyncio.Event()
            self._watch = asyncio.get_running_loop().create_task(self._follow(self._registry, self._complete))
        try:
            async with asyncio.timeout(FIRST_CARDS_S):
                await self._complete.wait()
        except TimeoutError:
            log.warning("the registry does not answer; %d peers are known", len(self._known))
        own = self._own() if self._own is not None else None
        found = [card for card in self._known.values() if own is None or card.url != own.url]
        return sorted(found, key=lambda card: (card.name, card.url))

    async def _follow(self, registry: RegistryClient, complete: asyncio.Event) -> None:
        listed = {each.card.url: each.card for each in await registry.list_agents()}
        self._known = listed
        complete.set()
        async with aclosing(registry.watch()) as changes:
            async for change in changes:
                self._note(change)

    def _note(self, change: AgentChange) -> None:
        card = change.agent.card
        if change.kind is AgentChangeKind.UP:
            self._known[card.url] = card
        else:
            self._known.pop(card.url, None)

    async def aclose(self) -> None:
        """Stop following the registry, and let cancellations that are on their way arrive."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        if self._farewells:
            await asyncio.wait(set(self._farewells), timeout=FAREWELL_S)

    async def run(self, target: str, task: Task, request_id: str | None = None) -> Task:
        """Send a task and return it when it ends or waits. Canceling the wait because the run is canceled cancels the task."""
        url = await self.url_of(target)
        run = current_run()
        try:
            try:
                return await self.client.send_task(url, task, request_id=request_id)
            except DeadlineExceededError:
                # The work goes on there; only our patience with one call is over.
                return await self.client.wait_task(task.id, agent_url=url)
        except asyncio.CancelledError:
            if run is None or run.token.is_cancelled:
                self._spawn(self._cancel(url, task.id, run.token.reason if run is not None else None))
            raise

    async def _cancel(self, url: str, task_id: str, reason: str | None) -> None:
        try:
            await self.client.cancel_task(url, task_id, reason=reason or "the work that delegated this was canceled")
        except ProtolinkError as error:
            log.info("task %s at %s could not be canceled: %s", task_id, url, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, whatever becomes of the task that asks for it."""
        farewell = asyncio.get_running_loop().create_task(work)
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    # -- what handlers ask -----------------------------------------------------------------------------------------------

    async def stream(self, target: str, task: Task, *, deltas: bool = False) -> AsyncGenerator[RunEvent, None]:
        """Send a task and yield its events."""
        url = await self.url_of(target)
        async with aclosing(self.client.send_task_streaming(url, _as_child(task), deltas=deltas)) as events:
            async for event in events:
                yield event

    async def message(self, target: str, message: Message | str) -> Message:
        """Send one message and return the answer."""
        return await self.client.send_message(await self.url_of(target), message)


FIRST_CARDS_S = 2.0
"""How long a question waits for the registry's first answer."""

FAREWELL_S = 2.0
"""How long going down waits for cancellations that were sent to peers."""


def _as_child(task: Task) -> Task:
    """Inside a run, mark a task that has no context of its own as that run's child."""
    run = current_run()
    if run is not None and run.task_id != task.id and CONTEXT_KEY not in task.metadata:
        run.context.child().attach_to_task(task)
    return task


async def call_peer(actions: Actions, peers: Peers, target: str, task: Task) -> Task:
    """Send a task to a peer: inside a run as an action of that run, else as it is."""
    run = current_run()
    if run is None or run.task_id == task.id:
        return await peers.run(target, task)
    asked = [[_asked(part) for part in message.parts] for message in task.messages]
    return await actions.send(run, target, task, position=run.position(AGENT_CALL, target, asked))


def _asked(part: Part) -> Any:
    """What a part asks for, without the ids that are new each time it is made."""
    content = part.content
    return [part.type, content.tool_name, content.args] if isinstance(content, ToolCall) else part.to_dict()


class AgentPeer:
    """One peer, looked up at each call: it may move between two of them."""

    def __init__(self, target: str, peers: Peers, actions: Actions) -> None:
        self.target = target
        self._peers = peers
        self._actions = actions

    async def card(self) -> AgentCard:
        """The peer's card, asked from the peer itself."""
        return await self._peers.client.get_agent_card(await self._peers.url_of(self.target))

    async def run_task(self, task: Task) -> Task:
        """Send a task and return it when it ends or waits."""
        return await call_peer(self._actions, self._peers, self.target, task)

    def run_task_streaming(self, task: Task, *, deltas: bool = False) -> AsyncGenerator[RunEvent, None]:
        """Send a task and yield its events; with `deltas` the text that models are producing, too."""
        return self._peers.stream(self.target, task, deltas=deltas)

    async def send_message(self, message: Message | str) -> Message:
        """Send one message and return the answer."""
        return await self._peers.message(self.target, message)

    async def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        """Run one of the peer's tools and return its result.

        Raises:
            TaskExecutionError: It failed or was rejected; carries the task, with the structured error in its artifact.
        """
        task = (await self.run_task(Task.create_tool_call(tool_name, arguments))).raise_for_status()
        part = task.get_last_part()
        if part is None or not isinstance(part.content, ToolOutput):
            raise TaskExecutionError(f"task {task.id} has no tool output", task=task, task_id=task.id)
        return part.content.result

    def call_tool_sync(self, tool_name: str, /, **arguments: Any) -> Any:
        """`call_tool` for code that does not await."""
        return background.run(self.call_tool(tool_name, **arguments))
