"""Finds other agents by URL or name, with the credentials that they receive. `peer_tasks` sends them tasks."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from protolink_grpc.agent.trust import PeerClients, PeerConnection, PeerTrust
from protolink_grpc.client.lru_map import LRUMap
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import (
    AgentNotFoundError,
    DeadlineExceededError,
    ProtolinkError,
    UnavailableError,
)
from protolink_grpc.logs import get_logger
from protolink_grpc.models.card import AgentCard
from protolink_grpc.net.address import comparable_url
from protolink_grpc.runtime.run import current_run
from protolink_grpc.wire.registry import AgentChange, AgentChangeKind, AgentFilter, RegisteredAgent

log = get_logger(__name__)


class Peers:
    """Finds peers.

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
            if found.client.has_begun(found.url, task_id) or (
                begun and comparable_url(found.url) == comparable_url(begun)
            ):
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

    async def reach_recorded(self, target: str, url: str) -> PeerConnection:
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

    def name_at(self, target: str, url: str) -> str:
        """Return the name of the agent at a URL: the target, or the name under which it is registered; empty if unknown."""
        if "://" not in target:
            return target
        registered = self._known.get(comparable_url(url))
        return "" if registered is None else registered.card.name

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
        """Stop watching the registry."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])


REMEMBERED_REQUESTS = 10_000
"""Maximum number of requests with an id of the caller whose instance is remembered."""

MET_INSTANCES = 16
"""Maximum number of called instances that are remembered for a name."""

FIRST_CARDS_S = 2.0
"""Timeout for the registry's first response, in seconds."""
