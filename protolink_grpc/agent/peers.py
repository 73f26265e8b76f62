"""Other agents as an agent sees them: by URL or by name, calls made inside a run recorded, bounded and canceled with it."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from protolink_grpc.agent.local_agent import PRINCIPAL
from protolink_grpc.agent.trust import PeerClients, PeerTrust, Reached
from protolink_grpc.auth.principal import ANONYMOUS
from protolink_grpc.client.agent_client import answer_of
from protolink_grpc.client.backoff import Backoff
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import (
    AgentNotFoundError,
    DeadlineExceededError,
    ProtolinkError,
    TaskExecutionError,
    TaskNotFoundError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.ids import new_request_id
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.models.task import Task
from protolink_grpc.net.address import RUNTIME_SCHEME, comparable_url
from protolink_grpc.net.background_loop import background
from protolink_grpc.runtime.actions.delegation import Actions, Relay
from protolink_grpc.runtime.actions.gate import AGENT_CALL
from protolink_grpc.runtime.default_handler import asked_for
from protolink_grpc.runtime.run import current_run
from protolink_grpc.wire.registry import AgentChange, AgentChangeKind, AgentFilter, RegisteredAgent
from protolink_grpc.wire.tasks import MAX_ID_BYTES

log = get_logger(__name__)


class Peers:
    """Finds and calls peers.

    A name may have several instances. This agent keeps calling the same instance while it is registered, because a waiting task
    stays on the instance that began it. If that instance is unreachable, or is draining and does not have the task, another
    instance is called.

    Args:
        clients: With and without what says who this agent is.
        trust: Which peers are called with the former.
        own: The card of the agent itself, which is no peer.
    """

    def __init__(
        self,
        clients: PeerClients,
        registry: RegistryClient | None,
        trust: PeerTrust,
        own: Callable[[], AgentCard] | None = None,
    ) -> None:
        self._clients = clients
        self._registry = registry
        self._trust = trust
        self._own = own
        self._known: dict[str, RegisteredAgent] = {}
        # Instances that were called, by name; the latest one last.
        self._met: dict[str, dict[str, None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._complete = asyncio.Event()
        self._patience_ends = 0.0
        self._farewells: set[asyncio.Task[Any]] = set()

    async def find(self, target: str, task_id: str = "") -> Reached:
        """A peer by URL or by name, and the client that may call it. While the registry is away, a name leads where it led last.

        Args:
            task_id: A task that the call is about; an instance that has begun it is called although it is draining.

        Raises:
            UnavailableError: The registry is away, and the name is new.
            AgentNotFoundError: The registry has no such name, or there is no registry.
        """
        if "://" in target:
            return self._clients.reach(target, trusted=self._clients.has_secrets and await self._trust.of_url(target))
        return self._reach_instance(target, await self._url_of(target, task_id))

    async def connect(self, target: str, task_id: str) -> Reached:
        """As `find`, and connected. A task that one instance has begun is for no other one, which would do its work again.

        Raises:
            UnavailableError: No instance of the peer can be reached, or not the one that has the task.
        """
        found = await self.find(target, task_id)
        try:
            await self._connected(found)
        except UnavailableError:
            if found.client.has_begun(found.url, task_id):
                raise
            for other in await self._other_instances(target, found.url):
                with suppress(UnavailableError):
                    return await self._connected(self._reach_instance(target, other))
            raise
        return found

    async def _connected(self, found: Reached) -> Reached:
        with found.explained():
            await found.client.connect(found.url)
        return found

    def _reach_instance(self, name: str, url: str) -> Reached:
        met = self._met.setdefault(name, {})
        met.pop(url, None)
        met[url] = None
        while len(met) > MET_INSTANCES:
            del met[next(iter(met))]
        return self._clients.reach(url, trusted=self._trust.of_name(name) or self._trust.of_server(url))

    def _begun_at(self, name: str, task_id: str) -> str | None:
        """The instance of a name that has a task of this agent's under way; None where there is none."""
        for url in reversed(self._met.get(name, {})) if task_id else ():
            trusted = self._trust.of_name(name) or self._trust.of_server(url)
            if self._clients.reach(url, trusted=trusted).client.has_begun(url, task_id):
                return url
        return None

    async def _url_of(self, name: str, task_id: str) -> str:
        """Return the URL of the instance of a name to call."""
        if self._registry is None:
            raise AgentNotFoundError(
                f"{name!r} is a name and this agent has no registry; use a URL, or give the agent a registry", name=name
            )
        met, begun = next(reversed(self._met.get(name, {})), None), self._begun_at(name, task_id)
        if self._is_following:
            followed = [agent for agent in self._known.values() if agent.card.name == name]
            if followed:
                if begun is not None and any(agent.card.url == begun for agent in followed):
                    return begun
                urls = [agent.card.url for agent in followed if not agent.is_draining] or [followed[-1].card.url]
                return met if met in urls else urls[-1]
        try:
            if begun is not None and await self._instance(begun, name) is not None:
                return begun
            latest = (await self._registry.get(name)).card.url
            if met is None or met == latest:
                return latest
            known = await self._instance(met, name)
            return latest if known is None or known.is_draining else met
        except (UnavailableError, DeadlineExceededError):
            if met is None:
                raise
            return begun or met

    async def _instance(self, url: str, name: str) -> RegisteredAgent | None:
        """Return the instance of a name at a URL, or None if it is no longer registered there."""
        if self._registry is None:
            return None
        try:
            found = await self._registry.get(url)
        except AgentNotFoundError:
            return None
        return found if found.card.name == name else None

    async def _other_instances(self, target: str, failed: str) -> list[str]:
        if self._registry is None or "://" in target:
            return []
        try:
            agents = await self._registry.list_agents(AgentFilter(name=target))
        except ProtolinkError:
            return []
        agents.sort(key=lambda agent: agent.is_draining)
        return [each.card.url for each in agents if comparable_url(each.card.url) != comparable_url(failed)]

    @property
    def _is_following(self) -> bool:
        return self._watch is not None and not self._watch.done()

    async def discover(self, filter_by: dict[str, Any] | None) -> list[AgentCard]:
        """Return the matching cards from the registry; empty without a registry."""
        return [] if self._registry is None else await self._registry.discover(filter_by)

    # -- used by the runtime ---------------------------------------------------------------------------------------------

    async def cards(self) -> Sequence[AgentCard]:
        """Agents that work may be delegated to, sorted by name: asked from the registry once, and kept fresh by its watch.

        A registry that is away does not keep an agent from thinking: it knows the peers that it knew.
        """
        if self._registry is None:
            return ()
        if self._watch is None or self._watch.done():
            loop = asyncio.get_running_loop()
            self._complete = asyncio.Event()
            self._patience_ends = loop.time() + FIRST_CARDS_S
            self._watch = loop.create_task(self._follow(self._registry, self._complete))
        try:
            # After one timeout later calls do not wait; the reply is applied when it arrives.
            async with asyncio.timeout_at(self._patience_ends):
                await self._complete.wait()
        except TimeoutError:
            log.warning("the registry does not answer; %d peers are known", len(self._known))
        own = self._own() if self._own is not None else None
        # A registry may list it under an address of its HTTP port.
        urls = {own.url, *(each.url for each in own.interfaces)} if own is not None else set[str]()
        mine = {comparable_url(url) for url in urls}
        # Instances of one service are one peer: work is delegated to a name. The last one wins, so draining ones come first.
        others = sorted(
            (each for url, each in self._known.items() if url not in mine), key=lambda each: not each.is_draining
        )
        found = {each.card.name: each.card for each in others}
        return sorted(found.values(), key=lambda card: card.name)

    async def _follow(self, registry: RegistryClient, complete: asyncio.Event) -> None:
        """Keep `_known` as the registry has it; through cuts, which the watch survives."""
        self._known = {}
        try:
            async with aclosing(registry.watch(complete=complete)) as changes:
                async for change in changes:
                    self._note(change)
        except ProtolinkError as error:
            log.warning("%s does not let its agents be watched: %s", registry.url, error)
            complete.set()

    def _note(self, change: AgentChange) -> None:
        url = comparable_url(change.agent.card.url)
        if change.kind is AgentChangeKind.UP:
            self._known[url] = change.agent
        elif change.kind.is_named:
            self._known.pop(url, None)

    async def aclose(self) -> None:
        """Stop watching the registry and wait a while for pending cancellations."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        if self._farewells:
            await asyncio.wait(set(self._farewells), timeout=FAREWELL_S)

    async def run(
        self,
        target: str,
        task: Task,
        request_id: str | None = None,
        *,
        sending: Callable[[], None] | None = None,
        relay: Relay | None = None,
    ) -> Task:
        """Send a task and return it when it ends or waits. Canceling the wait because the run is canceled cancels the task.

        Args:
            sending: Called after the peer is connected and before the task is sent.
            relay: Receives the task's events.
        """
        peer = await self.connect(target, task.id)
        if sending is not None:
            sending()
        run, request = current_run(), request_id or new_request_id()
        if run is not None:
            task = self._in_session_of(run.principal, task, peer)
        try:
            with peer.explained():
                if relay is not None:
                    return await self._relayed(peer, task, request, relay)
                return await self._sent(peer, task, request)
        except asyncio.CancelledError:
            if run is None or run.token.is_cancelled:
                self._spawn(self._cancel(peer, task.id, run.token.reason if run is not None else None))
            raise

    def _in_session_of(self, owner: str, task: Task, peer: Reached) -> Task:
        """The task in that owner's session at a peer, to whom all owners are this agent.

        A session keeps its name where the peer knows its owner by the same name as we do, so that no other owner's gets there.
        """
        session = task.session_id
        there = PRINCIPAL if peer.url.startswith(RUNTIME_SCHEME) else ANONYMOUS if peer.client.is_anonymous else None
        if session is None or (owner == there and not _MARK.search(session)):
            return task
        task, marked = task.settled(), marked_session(owner, session)
        context = None if task.context is None else replace(task.context, session_id=marked)
        return replace(task, session_id=marked, context=context)

    async def _sent(self, peer: Reached, task: Task, request: str) -> Task:
        """In one call, as long as nothing goes wrong."""
        try:
            return await peer.client.send_task(peer.url, task, request_id=request)
        except (DeadlineExceededError, UnavailableError) as error:
            # The work goes on there; only our patience with one call is over, or the connection was cut.
            try:
                return await self._ended(peer, task.id)
            except (TaskNotFoundError, UnimplementedError):
                raise error from None  # an agent of another system may keep no tasks to ask for

    async def _relayed(self, peer: Reached, task: Task, request: str, relay: Relay) -> Task:
        task_id = task.id
        stream = peer.client.send_task_streaming(peer.url, task, request_id=request, deltas=relay.deltas)
        async with aclosing(stream) as events:
            async for event in events:
                task_id = event.task_id or task_id
                await relay.give(event)
        return await self._ended(peer, task_id)

    async def _ended(self, peer: Reached, task_id: str) -> Task:
        """Wait for the end of a task, through cuts and restarts; without sending it again, which might begin it anew."""
        backoff = Backoff(OUTAGE_S)
        while True:
            backoff.begin()
            try:
                return await peer.client.wait_task(task_id, agent_url=peer.url)
            except (DeadlineExceededError, UnavailableError) as error:
                await backoff.after(error)

    async def _cancel(self, peer: Reached, task_id: str, reason: str | None) -> None:
        why = reason or "the work that delegated this was canceled"
        for pause_s in (*ARRIVAL_PAUSES_S, 0.0):
            try:
                await peer.client.cancel_task(peer.url, task_id, reason=why)
                return
            except TaskNotFoundError:
                # The task itself may still be on its way.
                await asyncio.sleep(pause_s)
            except ProtolinkError as error:
                log.info("task %s at %s could not be canceled: %s", task_id, peer.url, error)
                return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, whatever becomes of the task that asks for it."""
        farewell = asyncio.get_running_loop().create_task(work)
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)


def marked_session(owner: str, session_id: str) -> str:
    """The name of an owner's session among those of all owners: a mark at its end, the same at each call, tells them apart."""
    mark = blake2b(f"{len(owner)}:{owner}{session_id}".encode(), digest_size=16).hexdigest()
    # One that was marked on its way here gets another mark, not a second one.
    plain = _MARK.sub("", session_id).encode()[: MAX_ID_BYTES - len(mark) - 1]
    return f"{plain.decode(errors='ignore')}~{mark}"


_MARK = re.compile(r"~[0-9a-f]{32}\Z")

MET_INSTANCES = 16
"""Instances of one name that an agent remembers to have called."""

FIRST_CARDS_S = 2.0
"""Timeout of a request that waits for the registry's first response."""

FAREWELL_S = 2.0
"""How long shutdown waits for cancellations that were sent to peers."""

OUTAGE_S = 15.0
"""How long a peer that works for us may be away before its work counts as lost: a restart takes less."""

ARRIVAL_PAUSES_S = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
"""Interval between attempts to cancel a task that its agent does not have yet."""

RELAYED_EVENTS = 256
"""Events of a peer's task that wait for a slow reader, before the peer waits for it too."""


async def call_peer(actions: Actions, peers: Peers, target: str, task: Task, *, relay: Relay | None = None) -> Task:
    """Send a task to a peer: inside a run as an action of that run, also where it is the run's own, else as it is."""
    run = current_run()
    if run is None:
        return await peers.run(target, task, relay=relay)
    asked = [asked_for(message.parts) for message in task.messages]
    return await actions.send(run, target, task, position=run.position(AGENT_CALL, target, asked), relay=relay)


async def stream_peer(
    actions: Actions, peers: Peers, target: str, task: Task, *, deltas: bool = False
) -> AsyncGenerator[RunEvent, None]:
    """Like `call_peer`, but yield the task's events as they arrive. Closing the stream does not cancel the task."""
    if current_run() is None:
        peer = await peers.find(target)
        with peer.explained():
            async with aclosing(peer.client.send_task_streaming(peer.url, task, deltas=deltas)) as stream:
                async for each in stream:
                    yield each
        return
    events: asyncio.Queue[RunEvent | None] = asyncio.Queue(RELAYED_EVENTS)
    work = asyncio.ensure_future(call_peer(actions, peers, target, task, relay=Relay(events.put, deltas)))

    def wake(_: asyncio.Future[Task]) -> None:
        if events.empty():
            events.put_nowait(None)

    work.add_done_callback(wake)
    try:
        while not (work.done() and events.empty()):
            event = await events.get()
            if event is not None:
                yield event
        await work
    finally:
        work.cancel()
        await asyncio.wait([work])


async def message_peer(actions: Actions, peers: Peers, target: str, message: Message | str) -> Message:
    """Like `call_peer`, with one message as a separate task; return the answer."""
    return answer_of(await call_peer(actions, peers, target, Task.create(message)))


class AgentPeer:
    """One peer, looked up at each call: it may move between two of them."""

    def __init__(self, target: str, peers: Peers, actions: Actions) -> None:
        self.target = target
        self._peers = peers
        self._actions = actions

    async def card(self) -> AgentCard:
        """Return the peer's card, requested from the peer itself."""
        peer = await self._peers.find(self.target)
        with peer.explained():
            return await peer.client.get_agent_card(peer.url)

    async def run_task(self, task: Task) -> Task:
        """Send a task and return it when it ends or waits."""
        return await call_peer(self._actions, self._peers, self.target, task)

    def run_task_streaming(self, task: Task, *, deltas: bool = False) -> AsyncGenerator[RunEvent, None]:
        """Send a task and yield its events; with `deltas` the text that models are producing, too."""
        return stream_peer(self._actions, self._peers, self.target, task, deltas=deltas)

    async def send_message(self, message: Message | str) -> Message:
        """Send one message and return the answer."""
        return await message_peer(self._actions, self._peers, self.target, message)

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
        """`call_tool` for code that does not await; in the thread of a tool as a part of its run."""
        run, work = current_run(), self.call_tool(tool_name, **arguments)
        return background.run(work) if run is None else run.wait_for(work)
