"""RegistryClient: finds and watches agents, and keeps registrations alive.

A registry of this package is called over gRPC, or over gRPC-Web at an `http(s)://` URL. The first call to such a URL detects
whether it is a ProtoLink 0.8.3 registry, which is called over ProtoLink's protocol.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from google.protobuf.message import Message
from plgrpc.v1 import registry_service_pb2 as pb
from plgrpc.v1 import registry_service_pb2_grpc

from protolink_grpc.auth.confidential import check_headers
from protolink_grpc.auth.credentials import Credentials
from protolink_grpc.client.backoff import OUTAGE_S
from protolink_grpc.client.channel import ChannelOptions, call_stream, call_unary, stub_to, typed_errors
from protolink_grpc.client.port import ClientTransport
from protolink_grpc.client.sync_clients import SyncRegistryClient
from protolink_grpc.errors import (
    AgentConflictError,
    ContentTypeNotSupportedError,
    DeadlineExceededError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    LeaseNotFoundError,
    ProtolinkError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.lazy import load
from protolink_grpc.logs import get_logger
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.net.address import (
    RUNTIME_SCHEME,
    Address,
    Endpoint,
    LocalAddress,
    WebAddress,
    canonical_url,
    comparable_url,
)
from protolink_grpc.net.exponential_delay import ExponentialDelay
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.wire.cards import card_to_pb
from protolink_grpc.wire.registry import (
    AGENT_CHANGE,
    DEFAULT_LEASE_TTL_S,
    FILTER,
    INSTANCE_STATUS,
    REGISTERED_AGENT,
    AgentChange,
    AgentChangeKind,
    AgentFilter,
    InstanceStatus,
    RegisteredAgent,
    lease_ttl_from_pb,
    target_to_pb,
)
from protolink_grpc.wire.scalars import duration_to_pb
from protolink_grpc.wire.watch import POSITION

log = get_logger(__name__)

KIND_S = 300.0
"""How long the detected kind of a registry at an `http(s)://` URL is cached, in seconds."""

POLL_S = 5.0
"""Poll interval for a ProtoLink registry, which cannot be watched, in seconds."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
"""Pauses between attempts to reach an unavailable registry: doubling, with jitter."""


@checks_arguments
class RegistryClient:
    """A client of one registry.

    Args:
        url: `grpc(s)://host:port`, the `http(s)://` URL of a registry of this package or of ProtoLink 0.8.3, or the `runtime://`
            URL of a registry in this process. Or an object of `protolink_grpc.transport`, which has certificates and credentials.
        timeout: Seconds that a call may take, including retries.
        metadata: Sent with every call.
        credentials: Sent with every call, only to this registry.
        outage_s, insecure_ok: See AgentClient.
    """

    def __init__(
        self,
        url: str | ClientTransport,
        timeout: float = 10.0,
        *,
        tls: TLSConfig | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        credentials: Credentials | None = None,
        outage_s: float = OUTAGE_S,
        insecure_ok: bool = False,
    ) -> None:
        if not isinstance(url, str):
            if tls is not None or credentials is not None:
                raise InvalidArgumentError("has its own certificates and credentials: set them there", field="url")
            # WebSocket is a route of the HTTP port.
            tls, credentials, url = url.tls, url.credentials, re.sub("^ws", "http", url.url)
        self.address: Endpoint = _parse_endpoint(url)
        self.timeout = timeout
        self._options = ChannelOptions(tls, tuple(metadata), credentials, outage_s)
        check_headers(self._options.metadata, self.address.url, insecure_ok=insecure_ok)
        # Lease ids by canonical URL, for `unregister` and `heartbeat`. They are secrets.
        self._leases: dict[str, str] = {}
        # The stub over another channel than gRPC's, and its address: a registry at port 0 gets its port when it starts.
        self._other_stub: tuple[Endpoint, Any] | None = None
        self._protolink: Any = None
        self._is_protolink = False
        self._kind_expires_s = 0.0

    @property
    def url(self) -> str:
        return self.address.url

    @property
    def sync(self) -> SyncRegistryClient:
        """The same methods, blocking, for code that does not await."""
        return SyncRegistryClient(self)

    @property
    def _stub(self) -> Any:
        if isinstance(self.address, Address):
            return stub_to(registry_service_pb2_grpc.RegistryServiceStub, self.address, self._options)
        if self._other_stub is None or self._other_stub[0] != self.address:
            # The generated types distinguish the async stub from the sync one by the channel, and accept only gRPC's own.
            channel = cast(Any, self._new_channel(self.address))
            self._other_stub = self.address, registry_service_pb2_grpc.RegistryServiceStub(channel)
        return self._other_stub[1]

    def _new_channel(self, address: WebAddress | LocalAddress) -> Any:
        if isinstance(address, LocalAddress):
            # Imported by name, because registries are in a layer above the client.
            return load("protolink_grpc.agent.local_registry:LocalRegistryChannel")(address.url)
        from protolink_grpc.client.grpc_web import GrpcWebChannel  # here: see `_protolink_registry`

        return GrpcWebChannel(address, self._options)

    async def _protolink_registry(self) -> Any:
        """Return the `ProtolinkRegistry` at the URL, or None if it is a registry of this package. Raises UnavailableError."""
        if not isinstance(self.address, WebAddress):
            return None
        if time.monotonic() >= self._kind_expires_s:
            try:
                async with typed_errors(self.address):
                    await self._call(self._stub.ListAgents, pb.ListAgentsRequest(page_size=1))
                self._is_protolink = False
            except (UnimplementedError, InvalidAgentResponseError, ContentTypeNotSupportedError):
                self._is_protolink = True
            self._kind_expires_s = time.monotonic() + KIND_S
        if not self._is_protolink:
            return None
        if self._protolink is None:
            # Imported here, because registries at grpc:// need no HTTP client.
            from protolink_grpc.client.http_channel import Sender

            # Imported by name, because ProtoLink's protocol is in a layer above the client.
            registry = load("protolink_grpc.compat.protolink.client.registry:ProtolinkRegistry")
            self._protolink = registry(Sender(self.address, self._options), self.timeout)
        return self._protolink

    async def _call(self, method: Any, request: Message) -> Any:
        return await call_unary(method, request, self.address, self._options, self.timeout)

    async def register(
        self, card: AgentCard, *, lease_ttl_s: float = DEFAULT_LEASE_TTL_S, instance_id: str = ""
    ) -> float:
        """Register a card under its URL, or replace it. Returns the length of the lease in seconds.

        Args:
            instance_id: Identifies the agent's process. Empty means unknown.

        Raises:
            AgentConflictError: The URL or the name belongs to another principal.
        """
        if (other := await self._protolink_registry()) is not None:
            await other.register(card)
            return lease_ttl_s
        url = canonical_url(card.url, field="card.url")
        request = pb.RegisterAgentRequest(
            card=card_to_pb(card),
            lease_ttl=duration_to_pb(lease_ttl_s),
            lease_id=self._leases.get(url, ""),
            instance_id=instance_id,
        )
        async with typed_errors(self.address):
            response = await self._call(self._stub.RegisterAgent, request)
        self._leases[url] = response.lease_id
        return lease_ttl_from_pb(response.lease_ttl)

    async def heartbeat(self, agent_url: str, status: InstanceStatus | None = None) -> float:
        """Renew the lease of a card that this client registered. Returns its length in seconds.

        Args:
            status: State and load of the agent, ignored by a ProtoLink registry. None leaves the state unchanged and reports no
                load.

        Raises:
            LeaseNotFoundError: The registry does not know the lease: register again.
        """
        if (other := await self._protolink_registry()) is not None:
            await other.heartbeat(agent_url)
            return DEFAULT_LEASE_TTL_S
        lease_id = self._leases.get(canonical_url(agent_url, field="agent_url"))
        if lease_id is None:
            raise LeaseNotFoundError(f"this client did not register {agent_url}", url=agent_url)
        request = INSTANCE_STATUS.to_pb(status or InstanceStatus())
        request.lease_id = lease_id
        async with typed_errors(self.address):
            response = await self._call(self._stub.RenewLease, request)
        return lease_ttl_from_pb(response.lease_ttl)

    async def unregister(self, agent_url: str) -> bool:
        """Remove a card that this client registered. Returns whether it was registered."""
        if (other := await self._protolink_registry()) is not None:
            removed: bool = await other.unregister(agent_url)
            return removed
        lease_id = self._leases.pop(canonical_url(agent_url, field="agent_url"), None)
        if lease_id is None:
            return False
        async with typed_errors(self.address):
            response = await self._call(self._stub.DeregisterAgent, pb.DeregisterAgentRequest(lease_id=lease_id))
        return bool(response.removed)

    async def get(self, name_or_url: str) -> RegisteredAgent:
        """Return the agent with that URL or name.

        If several instances have the name, this is the one registered last that is not draining, or a draining one if all are.

        Raises:
            AgentNotFoundError: The registry has no such agent. The message suggests the most similar name.
            AmbiguousAgentError: Several agents match, and the registry has an older version.
        """
        if (other := await self._protolink_registry()) is not None:
            found: RegisteredAgent = await other.get(name_or_url)
            return found
        async with typed_errors(self.address):
            response = await self._call(self._stub.GetAgent, target_to_pb(name_or_url))
        return REGISTERED_AGENT.from_pb(response.agent, "agent")

    async def list_agents(self, wanted: AgentFilter | None = None) -> list[RegisteredAgent]:
        """Return all matching agents, sorted by name and URL."""
        if (other := await self._protolink_registry()) is not None:
            return list(await other.list_agents(wanted or AgentFilter()))
        agents: list[RegisteredAgent] = []
        request = pb.ListAgentsRequest(filter=FILTER.to_pb(wanted or AgentFilter()), page_size=1000)
        while True:
            async with typed_errors(self.address):
                response = await self._call(self._stub.ListAgents, request)
            agents += REGISTERED_AGENT.all_from_pb(response.agents, "agents")
            if not response.next_page_token:
                return agents
            request.page_token = response.next_page_token

    async def discover(self, filter_by: Mapping[str, Any] | None = None) -> list[AgentCard]:
        """Return the cards of the matching agents, for instance for `{"role": "worker", "tags": ["travel", "eu"]}`."""
        return [agent.card for agent in await self.list_agents(AgentFilter.from_dict(filter_by or {}))]

    async def watch(
        self, wanted: AgentFilter | None = None, *, after_revision: int = 0, complete: asyncio.Event | None = None
    ) -> AsyncGenerator[AgentChange, None]:
        """Yield changes as they happen, across restarts of the registry.

        Without a revision the stream begins with a snapshot of all agents. After a long interruption there is a new snapshot, and
        agents that are missing in it are yielded as DOWN. A ProtoLink registry cannot be watched and is listed every `POLL_S`
        seconds.

        Args:
            complete: Set when the first snapshot has been yielded and the next change is awaited.
        """
        follower = _Follower(self, wanted or AgentFilter(), after_revision)
        delay = ExponentialDelay(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            try:
                async with aclosing(follower.once(complete)) as changes:
                    async for change in changes:
                        delay.reset()
                        yield change
            except (UnavailableError, DeadlineExceededError) as error:
                log.debug("watch of %s interrupted: %s", self.url, error)
            await asyncio.sleep(delay.next_s())

    async def keep_registered(
        self,
        card: Callable[[], AgentCard],
        *,
        lease_ttl_s: float = DEFAULT_LEASE_TTL_S,
        instance_id: str = "",
        status: Callable[[], InstanceStatus] | None = None,
        registered: asyncio.Event | None = None,
    ) -> None:
        """Register a card and renew its lease until canceled.

        The lease is renewed after a third of its length, with jitter. After a restart of the registry or an expired lease the
        card is registered again.

        Args:
            card: Returns the current card; a changed one is registered again.
            instance_id: Identifies the agent's process. Empty means unknown.
            status: Returns the current state and load, reported at each renewal; None reports none.
            registered: Set while the card is registered.

        Raises:
            InvalidArgumentError, AgentConflictError: The registry refused the card at the first attempt. Later refusals are
                retried; the first of several failures is logged, and the success after them.
        """
        delay = ExponentialDelay(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        records = _RegistrationLog(self.url)
        current: AgentCard | None = None
        name, is_first = "an agent", True
        while True:
            try:
                latest = card()
                name, is_known = latest.name, latest == current
                if is_known:
                    ttl_s = await self.heartbeat(latest.url, status() if status is not None else None)
                else:
                    ttl_s = await self.register(latest, lease_ttl_s=lease_ttl_s, instance_id=instance_id)
                    current = AgentCard.from_dict(latest.to_dict())
                records.log_success(name, is_renewal=is_known)
                if registered is not None:
                    registered.set()
                delay.reset()
                # Jitter spreads the heartbeats of agents that were started together.
                await asyncio.sleep(ttl_s / 3 * random.uniform(0.8, 1.0))  # noqa: S311 -- jitter, not a secret
            except LeaseNotFoundError:
                current = None
            except Exception as error:
                # After the first registration nothing awaits this task, so it must survive every error.
                if is_first and (
                    isinstance(error, InvalidArgumentError | AgentConflictError)
                    or not isinstance(error, ProtolinkError)
                ):
                    raise
                if registered is not None:
                    registered.clear()
                records.log_failure(name, error)
                await asyncio.sleep(delay.next_s())
            is_first = False


class _RegistrationLog:
    """Logs the outages of a registry, as seen by one agent: one record at the beginning, and one at the end."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_away = False

    def log_success(self, name: str, *, is_renewal: bool) -> None:
        if not is_renewal:
            log.info("%s registered at %s", name, self._url)
        elif self._is_away:
            log.info("%s is registered at %s again", name, self._url)
        self._is_away = False

    def log_failure(self, name: str, error: Exception) -> None:
        unexpected = None if isinstance(error, ProtolinkError) else error
        level = logging.DEBUG if self._is_away and unexpected is None else logging.WARNING
        self._is_away = True
        log.log(level, "%s is not registered at %s, will retry: %s", name, self._url, error, exc_info=unexpected)


def _parse_endpoint(url: str) -> Endpoint:
    """Parse the URL of a registry. Raises InvalidArgumentError for another scheme."""
    if url.startswith(("http://", "https://")):
        return WebAddress.parse(url, field="registry")
    if url.startswith(RUNTIME_SCHEME):
        return LocalAddress.parse(url, field="registry")
    return Address.parse(url, field="registry")


class _Follower:
    """A watch across several connections. It remembers the revision and the agents."""

    def __init__(self, client: RegistryClient, wanted: AgentFilter, after_revision: int) -> None:
        self._client = client
        self._wanted = wanted
        self._revision = after_revision
        self._known: dict[str, RegisteredAgent] = {}
        self._snapshot: dict[str, RegisteredAgent] | None = None

    async def once(self, complete: asyncio.Event | None = None) -> AsyncGenerator[AgentChange, None]:
        """Yield the changes of one connection."""
        async with aclosing(self._parts()) as parts:
            async for found, position in parts:
                for change in self._take(found, position):
                    yield change
                if complete is not None and position.caught_up:
                    complete.set()

    async def _parts(self) -> AsyncGenerator[tuple[list[AgentChange], WatchPosition], None]:
        """Yield changes with the position after them."""
        client = self._client
        other = await client._protolink_registry()
        if other is None:
            request = pb.WatchAgentsRequest(filter=FILTER.to_pb(self._wanted), after_revision=self._revision)
            stream = call_stream(client._stub.WatchAgents, request, client.address, client._options, None)
            async with typed_errors(client.address), aclosing(stream) as responses:
                async for response in responses:
                    found = AGENT_CHANGE.all_from_pb(response.changes, "changes")
                    yield found, POSITION.from_pb(response.position)
            return
        while True:
            agents = await client.list_agents(self._wanted)
            revision = self._revision + 1
            position = WatchPosition(revision, revision, caught_up=True, reset=True)
            yield [AgentChange(AgentChangeKind.UP, agent, revision) for agent in agents], position
            await asyncio.sleep(POLL_S)

    def _take(self, changes: list[AgentChange], position: WatchPosition) -> list[AgentChange]:
        revision = position.revision
        if position.reset:
            self._snapshot = {}
        if self._snapshot is not None:
            changes = self._compare(changes, revision)
        for change in changes:
            if change.kind is AgentChangeKind.UP:
                self._known[comparable_url(change.agent.card.url)] = change.agent
            elif change.kind.is_named:
                self._known.pop(comparable_url(change.agent.card.url), None)
        if revision:
            self._revision = revision
        return changes

    def _compare(self, changes: list[AgentChange], revision: int) -> list[AgentChange]:
        """Return what is new in a part of a snapshot. The last part has a revision; then missing agents are returned as DOWN."""
        snapshot = self._snapshot if self._snapshot is not None else {}
        news = []
        for change in changes:
            url = comparable_url(change.agent.card.url)
            snapshot[url] = change.agent
            known = self._known.get(url)
            if known is None or not known.is_same_instance(change.agent):
                news.append(change)
        if revision:
            gone = [agent for url, agent in self._known.items() if url not in snapshot]
            news += [AgentChange(AgentChangeKind.DOWN, agent, revision) for agent in gone]
            self._snapshot = None
        return news
