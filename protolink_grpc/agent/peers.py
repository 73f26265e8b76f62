"""Finds other agents by URL or name, and sends them tasks. The calls that users make are in `agent_peer`."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from protolink_grpc.agent.local_agent import PRINCIPAL
from protolink_grpc.agent.trust import PeerClients, PeerConnection, PeerTrust
from protolink_grpc.auth.principal import ANONYMOUS
from protolink_grpc.client.backoff import Backoff
from protolink_grpc.client.lru_map import LRUMap
from protolink_grpc.client.port import A2A
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.client.task_calls import Target
from protolink_grpc.errors import (
    AgentNotFoundError,
    DeadlineExceededError,
    ProtolinkError,
    TaskNotFoundError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.events import PeerTaskLinked
from protolink_grpc.models.ids import new_request_id
from protolink_grpc.models.task import Task
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.address import RUNTIME_SCHEME, comparable_url
from protolink_grpc.runtime.actions.delegation import Relay
from protolink_grpc.runtime.run import current_run
from protolink_grpc.wire.registry import AgentChange, AgentChangeKind, AgentFilter, RegisteredAgent
from protolink_grpc.wire.tasks import MAX_ID_BYTES

log = get_logger(__name__)

Note = Callable[[PeerTaskLinked], Awaitable[None]]
"""Records the ids of a task at a peer."""


class Peers:
    """Finds and calls peers.

    A name may have several instances. This agent keeps calling the same instance while it is registered, because a waiting task
    exists only there. If that instance is unreachable, or is draining and does not have the task, another instance is called.

    Args:
        clients: The clients with and without credentials.
        trust: Decides which peers are called with credentials.
        own: The agent's own card, which is not a peer.
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
        # The called instances by name, the latest one last.
        self._met: dict[str, dict[str, None]] = {}
        # The number of the latest typed call, by name.
        self._rotation: dict[str, int] = {}
        # The URLs of instances that have received a request, by target and request id.
        self._receivers: LRUMap[str] = LRUMap(REMEMBERED_REQUESTS)
        self._watch: asyncio.Task[None] | None = None
        self._complete = asyncio.Event()
        self._first_cards_deadline = 0.0
        self._cancellations: set[asyncio.Task[Any]] = set()

    def with_other(self, clients: PeerClients | None, registry: RegistryClient | None) -> "Peers":
        """Return peers with another client or another registry. Names in another registry are not trusted."""
        trust = self._trust if registry is None else self._trust.without_names()
        return Peers(clients or self._clients, registry or self._registry, trust, self._own)

    async def find(self, target: str, task_id: str = "", begun: str = "") -> PeerConnection:
        """Find a peer by URL or name, and the client for it. If the registry is unavailable, the last known URL of a name is used.

        Args:
            task_id: The task of the call. An instance that has started it is called even if it is draining.
            begun: URL of the instance to which an earlier process has sent the task; empty if it is unknown.

        Raises:
            UnavailableError: The registry is unavailable, and the name is unknown.
            AgentNotFoundError: The name is not registered, or the agent has no registry.
        """
        if "://" in target:
            return self._clients.reach(target, trusted=self._clients.has_secrets and await self._trust.of_url(target))
        return self._reach_instance(target, await self._url_of(target, task_id, begun))

    async def connect(self, target: str, task_id: str, begun: str = "") -> PeerConnection:
        """As `find`, and connect.

        A task is only sent to the instance that has started it, because another one would repeat its work.

        Raises:
            UnavailableError: No instance of the peer can be reached, or not the one that has the task.
        """
        found = await self.find(target, task_id, begun)
        try:
            await self._connect(found)
        except UnavailableError:
            if found.client.has_begun(found.url, task_id):
                raise
            for other in await self._other_instances(target, found.url):
                with suppress(UnavailableError):
                    return await self._connect(self._reach_instance(target, other))
            raise
        return found

    async def _connect(self, found: PeerConnection) -> PeerConnection:
        with found.explain_refusals():
            await found.client.connect(found.url)
        return found

    async def instances(self, name: str) -> list[str]:
        """Return the URLs of a name's instances, sorted: those that are not draining, or else all.

        Within a run, they are read from the registry once and updated by a watch.

        Raises:
            AgentNotFoundError: The name is not registered, or the agent has no registry.
            UnavailableError: The registry is unavailable, and the name is unknown.
        """
        registry = self._require_registry(name)
        if current_run() is not None:  # other calls may be on another event loop than the agent
            await self._wait_followed(registry)
        found = [agent for agent in self._known.values() if agent.card.name == name] if self._is_following else []
        if not found:
            # There is no watch, or it is late.
            found = await registry.list_agents(AgentFilter(name=name)) or [await registry.get(name)]
        active = [agent for agent in found if not agent.is_draining]
        return sorted(agent.card.url for agent in active or found)

    async def choose_instance(self, target: str) -> str:
        """Return the URL of a target for one typed call: of a name, each time the next instance. Raises as `instances`."""
        if "://" in target:
            return target
        urls = await self.instances(target)
        number = self._rotation[target] = self._rotation.get(target, -1) + 1
        return urls[number % len(urls)]

    def receiver(self, target: str, request_id: str) -> str | None:
        """Return the URL of the instance that has received a request, if this process has sent it; it alone knows the request."""
        return self._receivers.get(f"{request_id} {target}")

    def remember_receiver(self, target: str, request_id: str, url: str) -> None:
        """Note that the instance at a URL is about to receive a request."""
        self._receivers.put(f"{request_id} {target}", url)

    async def reach(self, target: str, url: str) -> PeerConnection:
        """Return the connection to an instance of a target, with credentials if the agent trusts it."""
        if "://" in target:
            trusted = self._clients.has_secrets and await self._trust.of_url(url)
        else:
            trusted = self._trust.of_name(target) or self._trust.of_server(url)
        return self._clients.reach(url, trusted=trusted)

    def _reach_instance(self, name: str, url: str) -> PeerConnection:
        met = self._met.setdefault(name, {})
        met.pop(url, None)
        met[url] = None
        while len(met) > MET_INSTANCES:
            del met[next(iter(met))]
        return self._clients.reach(url, trusted=self._trust.of_name(name) or self._trust.of_server(url))

    def _started_at(self, name: str, task_id: str) -> str | None:
        """Return the instance of a name that has started a task of this agent, or None."""
        for url in reversed(self._met.get(name, {})) if task_id else ():
            trusted = self._trust.of_name(name) or self._trust.of_server(url)
            if self._clients.reach(url, trusted=trusted).client.has_begun(url, task_id):
                return url
        return None

    async def _url_of(self, name: str, task_id: str, begun: str) -> str:
        """Return the URL of the instance of a name to call. Arguments as in `find`."""
        registry = self._require_registry(name)
        met, started = next(reversed(self._met.get(name, {})), None), self._started_at(name, task_id)
        begun = started or begun
        if self._is_following:
            followed = [agent for agent in self._known.values() if agent.card.name == name]
            if followed:
                if begun and any(agent.card.url == begun for agent in followed):
                    return begun
                urls = [agent.card.url for agent in followed if not agent.is_draining] or [followed[-1].card.url]
                return met if met in urls else urls[-1]
        try:
            if begun and await self._instance(begun, name) is not None:
                return begun
            latest = (await registry.get(name)).card.url
            if met is None or met == latest:
                return latest
            last = await self._instance(met, name)
            return latest if last is None or last.is_draining else met
        except (UnavailableError, DeadlineExceededError):
            if met is None:
                raise
            return started or met

    def _require_registry(self, name: str) -> RegistryClient:
        if self._registry is None:
            raise AgentNotFoundError(
                f"{name!r} is a name and this agent has no registry; use a URL, or give the agent a registry", name=name
            )
        return self._registry

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

    # -- For the runtime -------------------------------------------------------------------------------------------------

    async def cards(self) -> Sequence[AgentCard]:
        """Return the agents for delegation, sorted by name: read from the registry once, and updated by a watch.

        If the registry is unavailable, the last known agents are returned.
        """
        if self._registry is None:
            return ()
        await self._wait_followed(self._registry)
        own = self._own() if self._own is not None else None
        # A registry may list the agent itself under the address of its HTTP port.
        urls = {own.url, *(each.url for each in own.interfaces)} if own is not None else set[str]()
        mine = {comparable_url(url) for url in urls}
        # Instances of one service are one peer, because work is delegated by name. The last one is used: draining ones come first.
        others = sorted(
            (each for url, each in self._known.items() if url not in mine), key=lambda each: not each.is_draining
        )
        found = {each.card.name: each.card for each in others}
        return sorted(found.values(), key=lambda card: card.name)

    @property
    def has_all_cards(self) -> bool:
        return self._registry is None or (self._is_following and self._complete.is_set())

    async def _wait_followed(self, registry: RegistryClient) -> None:
        """Start to watch the registry unless that has happened, and wait for its first cards, up to a timeout."""
        if self._watch is None or self._watch.done():
            loop = asyncio.get_running_loop()
            self._complete = asyncio.Event()
            self._first_cards_deadline = loop.time() + FIRST_CARDS_S
            self._watch = loop.create_task(self._follow(registry, self._complete))
        try:
            # After a timeout, later calls do not wait; the response is applied when it arrives.
            async with asyncio.timeout_at(self._first_cards_deadline):
                await self._complete.wait()
        except TimeoutError:
            log.warning("the registry does not answer; %d peers are cached", len(self._known))

    async def _follow(self, registry: RegistryClient, complete: asyncio.Event) -> None:
        """Update `_known` by a watch of the registry."""
        self._known = {}
        try:
            async with aclosing(registry.watch(complete=complete)) as changes:
                async for change in changes:
                    self._note(change)
        except ProtolinkError as error:
            log.warning("the agents of registry %s cannot be watched: %s", registry.url, error)
            complete.set()

    def _note(self, change: AgentChange) -> None:
        url = comparable_url(change.agent.card.url)
        if change.kind is AgentChangeKind.UP:
            self._known[url] = change.agent
        elif change.kind.is_named:
            self._known.pop(url, None)

    async def aclose(self) -> None:
        """Stop watching the registry, and wait for pending cancellations up to a timeout. Those that remain are given up."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        if self._cancellations:
            _, late = await asyncio.wait(set(self._cancellations), timeout=CANCEL_GRACE_S)
            for each in late:
                each.cancel()
            if late:
                await asyncio.wait(late)

    async def run(
        self,
        target: str,
        task: Task,
        request_id: str | None = None,
        *,
        note: Note | None = None,
        known: PeerTaskLinked | None = None,
        relay: Relay | None = None,
        continues: bool = False,
    ) -> Task:
        """Send a task and return it when it ends or waits. If the wait is canceled with the run, the task is canceled too.

        Args:
            note: Called after the peer is connected and before the task is sent, and again when an A2A peer has assigned its ids.
            known: The ids that an earlier process has noted for this request.
            relay: Receives the task's events.
            continues: The task must exist at the peer.
        """
        run, request = current_run(), request_id or new_request_id()
        peer: PeerConnection | None = None
        may_be_sent = False
        try:
            adopted = None if known is None else await self._adopt(target, task, known)
            peer = adopted or await self.connect(target, task.id, "" if known is None else known.url)
            if run is not None:
                task = self._in_session_of(run.principal, task, peer)
            protocol = "" if note is None else await peer.client.protocol(peer.url)
            if note is not None:
                await note(self._link(target, peer, task, protocol) if adopted is None or known is None else known)
            may_be_sent = True
            with peer.explain_refusals(), _noted_ids(peer, task, note if protocol == A2A else None):
                if adopted is not None:
                    return await self._follow_task(peer, task.id, relay)
                if relay is not None:
                    return await self._relay(peer, task, request, relay)
                return await self._send(peer, task, request, "continue" if continues else None)
        except asyncio.CancelledError:
            if run is None or run.token.is_cancelled:
                reason = run.token.reason if run is not None else None
                if peer is not None and may_be_sent:
                    self.cancel_task(peer, task.id, reason)
                elif known is not None:  # an earlier process has sent it
                    self._spawn(self._cancel_known(target, task, known, reason))
            raise

    def _link(self, target: str, peer: PeerConnection, task: Task, protocol: str) -> PeerTaskLinked:
        """Return the ids that a task will have at a peer, as far as they are known."""
        registered = self._known.get(comparable_url(peer.url))
        name = target if "://" not in target else "" if registered is None else registered.card.name
        if protocol == A2A:
            return PeerTaskLinked(name, peer.url, protocol)
        return PeerTaskLinked(name, peer.url, protocol, task.id, task.session_id or "")

    async def _adopt(self, target: str, task: Task, known: PeerTaskLinked) -> PeerConnection | None:
        """Return the A2A peer that has the task which an earlier process sent; None if the task must be sent.

        Raises:
            ProtolinkError: The peer was unavailable for `OUTAGE_S`; the error is retryable.
        """
        if known.protocol != A2A:
            return None
        why = "it has another context, or has not received the message"
        try:
            peer = await self._find_known(target, task, known)
            if peer is not None:
                return peer
        except ProtolinkError as error:
            if error.rule.retryable:
                raise
            why = str(error)
        log.warning(
            "task %s is sent again, because task %s at %s cannot be followed: %s",
            task.id,
            known.task_id,
            known.url,
            why,
        )
        return None

    async def _find_known(self, target: str, task: Task, known: PeerTaskLinked) -> PeerConnection | None:
        """Return the A2A peer if it has the task which an earlier process sent, or None. Retries for up to `OUTAGE_S`.

        Raises:
            ProtolinkError: The peer did not return the task.
        """
        backoff = Backoff(OUTAGE_S)
        while True:
            backoff.begin()
            try:
                peer = await self._reach_recorded(target, known.url)
                is_found = await peer.client.a2a_tasks(peer.url).adopt(task, known, peer.client.timeout)
                return peer if is_found else None
            except ProtolinkError as error:
                if not error.rule.retryable:
                    raise
                await backoff.wait_after(error)

    async def _reach_recorded(self, target: str, url: str) -> PeerConnection:
        """Return the connection to the URL that an earlier process called. Another agent may be there now, so the credentials for a
        name are only sent while the URL is registered under this name.

        Raises:
            UnavailableError: The registry is unavailable.
        """
        if "://" in target:
            return await self.reach(target, url)
        trusted = self._trust.of_server(url)
        if not trusted and self._clients.has_secrets and self._trust.of_name(target):
            trusted = await self._instance(url, target) is not None
        return self._clients.reach(url, trusted=trusted)

    async def _cancel_known(self, target: str, task: Task, known: PeerTaskLinked, reason: str | None) -> None:
        """Cancel a task that an earlier process sent, if the peer has it."""
        try:
            if known.protocol == A2A:
                peer = await self._find_known(target, task, known)
            else:
                peer = await self.find(target, task.id, known.url)
        except ProtolinkError as error:
            log.info("task %s at %s could not be canceled: %s", known.task_id, known.url, error)
            return
        if peer is not None:
            await self._cancel(peer, task.id, reason)

    async def _follow_task(self, peer: PeerConnection, task_id: str, relay: Relay | None) -> Task:
        """Follow a task that the peer has, until it ends or waits."""
        if relay is not None:
            stream = peer.client.subscribe(task_id, agent_url=peer.url, stop_at=StopAt.INTERRUPTED, deltas=relay.deltas)
            async with aclosing(stream) as events:
                async for event in events:
                    await relay.give(event)
        return await self._wait_ended(peer, task_id)

    def _in_session_of(self, owner: str, task: Task, peer: PeerConnection) -> Task:
        """Return the task with a session id that is specific to the owner; see `session_at`."""
        session = task.session_id
        if session is None or (there := self.session_at(peer, owner, session)) == session:
            return task
        task = task.settled()
        context = None if task.context is None else replace(task.context, session_id=there)
        return replace(task, session_id=there, context=context)

    def session_at(self, peer: PeerConnection, owner: str, session_id: str) -> str:
        """Return the id of a session of `owner` at a peer. It is specific to the owner, because there all tasks are this agent's.

        The session id is unchanged if the peer sees the same principal as this agent.
        """
        there = PRINCIPAL if peer.url.startswith(RUNTIME_SCHEME) else ANONYMOUS if peer.client.is_anonymous else None
        return session_id if owner == there and not _MARK.search(session_id) else marked_session(owner, session_id)

    async def _send(self, peer: PeerConnection, task: Task, request: str, target: Target | None) -> Task:
        """Send the task in one call, and follow it if the call is interrupted."""
        try:
            return await peer.client.send_task(peer.url, task, request_id=request, target=target)
        except (DeadlineExceededError, UnavailableError) as error:
            # The task continues there: only the call has timed out or was interrupted.
            try:
                return await self._wait_ended(peer, task.id)
            except (TaskNotFoundError, UnimplementedError):
                raise error from None  # an agent of another system may not support getting tasks

    async def _relay(self, peer: PeerConnection, task: Task, request: str, relay: Relay) -> Task:
        task_id = task.id
        stream = peer.client.send_task_streaming(peer.url, task, request_id=request, deltas=relay.deltas)
        async with aclosing(stream) as events:
            async for event in events:
                task_id = event.task_id or task_id
                await relay.give(event)
        return await self._wait_ended(peer, task_id)

    async def _wait_ended(self, peer: PeerConnection, task_id: str) -> Task:
        """Wait for the end of a task across interruptions, without sending it again, which could start it again."""
        backoff = Backoff(OUTAGE_S)
        while True:
            backoff.begin()
            try:
                return await peer.client.wait_task(task_id, agent_url=peer.url)
            except (DeadlineExceededError, UnavailableError) as error:
                await backoff.wait_after(error)

    def cancel_task(self, peer: PeerConnection, task_id: str, reason: str | None) -> None:
        """Cancel a task of this agent at a peer, without waiting for the answer."""
        self._spawn(self._cancel(peer, task_id, reason))

    async def _cancel(self, peer: PeerConnection, task_id: str, reason: str | None) -> None:
        why = reason or "the work that delegated this was canceled"
        for pause_s in (*ARRIVAL_PAUSES_S, 0.0):
            try:
                await peer.client.cancel_task(peer.url, task_id, reason=why)
                return
            except TaskNotFoundError:
                # The task may not have arrived yet.
                await asyncio.sleep(pause_s)
            except ProtolinkError as error:
                log.info("task %s at %s could not be canceled: %s", task_id, peer.url, error)
                return

    def cancel(self, target: str, task_id: str, reason: str) -> None:
        """Cancel a task of a peer, without waiting for it."""
        self._spawn(self._cancel_at(target, task_id, reason))

    async def _cancel_at(self, target: str, task_id: str, reason: str) -> None:
        try:
            peer = await self.find(target, task_id)
        except ProtolinkError as error:
            log.info("task %s at %s could not be canceled: %s", task_id, target, error)
            return
        await self._cancel(peer, task_id, reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine independently of the calling asyncio task."""
        cancellation = asyncio.get_running_loop().create_task(work)
        self._cancellations.add(cancellation)
        cancellation.add_done_callback(self._cancellations.discard)


def _noted_ids(peer: PeerConnection, task: Task, note: Note | None) -> AbstractContextManager[None]:
    """Call `note` in this block with the ids that an A2A peer assigns to a task."""
    return nullcontext() if note is None else peer.client.a2a_tasks(peer.url).note_ids(task.id, note)


def marked_session(owner: str, session_id: str) -> str:
    """Append a stable suffix for the owner to a session id, so that sessions of different owners differ at a peer."""
    mark = blake2b(f"{len(owner)}:{owner}{session_id}".encode(), digest_size=16).hexdigest()
    # An existing suffix is replaced.
    plain = _MARK.sub("", session_id).encode()[: MAX_ID_BYTES - len(mark) - 1]
    return f"{plain.decode(errors='ignore')}~{mark}"


_MARK = re.compile(r"~[0-9a-f]{32}\Z")

REMEMBERED_REQUESTS = 10_000
"""Maximum number of requests with an id of the caller whose instance is remembered."""

MET_INSTANCES = 16
"""Maximum number of called instances that are remembered for a name."""

FIRST_CARDS_S = 2.0
"""Timeout for the registry's first response, in seconds."""

CANCEL_GRACE_S = 2.0
"""How long shutdown waits for cancellations that were sent to peers, in seconds."""

OUTAGE_S = 15.0
"""How long a peer with a delegated task may be unreachable before the task counts as lost, in seconds: longer than a restart."""

ARRIVAL_PAUSES_S = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
"""Interval between attempts to cancel a task that has not arrived at its agent yet, in seconds."""
