"""RegistryClient: find agents, watch them come and go, and keep one's own registration alive.

A registry of this package is called over gRPC, or over gRPC-Web behind an `http(s)://` URL. The first call to such a URL finds out
whether it is a ProtoLink 0.8.3 registry, which is called over its own wire.
"""

import asyncio
import random
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
from protolink_grpc.client.channel import ChannelOptions, answers, ask, stub_to, typed_errors
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
from protolink_grpc.net.address import Address, Endpoint, WebAddress, canonical_url, comparable_url
from protolink_grpc.net.exponential_delay import ExponentialDelay
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.wire.cards import card_to_pb
from protolink_grpc.wire.registry import (
    DEFAULT_LEASE_TTL_S,
    AgentChange,
    AgentChangeKind,
    AgentFilter,
    InstanceStatus,
    RegisteredAgent,
    agent_change_from_pb,
    filter_to_pb,
    lease_ttl_from_pb,
    lease_ttl_to_pb,
    registered_agent_from_pb,
    status_to_pb,
    target_to_pb,
)
from protolink_grpc.wire.watch import position_from_pb

log = get_logger(__name__)

KIND_S = 300.0
"""How long what was found out about a registry at an `http(s)://` URL is believed."""

POLL_S = 5.0
"""Between two looks at a ProtoLink registry, which does not say when its agents change."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
"""Between attempts to reach a registry that is away: doubling, with jitter."""


@checks_arguments
class RegistryClient:
    """Talks to one registry.

    Args:
        url: `grpc(s)://host:port`, or the `http(s)://` URL of a registry of this package or of ProtoLink 0.8.3.
        timeout: Seconds that a call may take, its repetitions included.
        metadata: Sent with every call.
        credentials: Who this client is; asked for each call.
        outage_s, insecure_ok: As AgentClient.
    """

    def __init__(
        self,
        url: str,
        timeout: float = 10.0,
        *,
        tls: TLSConfig | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        credentials: Credentials | None = None,
        outage_s: float = OUTAGE_S,
        insecure_ok: bool = False,
    ) -> None:
        self.address: Endpoint = _endpoint(url)
        self.timeout = timeout
        self._options = ChannelOptions(tls, tuple(metadata), credentials, outage_s)
        check_headers(self._options.metadata, self.address.url, insecure_ok=insecure_ok)
        # Lease ids by canonical URL: what `unregister` and `heartbeat` need, and nobody else may know.
        self._leases: dict[str, str] = {}
        self._web_stub: Any = None
        self._protolink: Any = None
        self._is_protolink = False
        self._believed_until = 0.0

    @property
    def url(self) -> str:
        return self.address.url

    @property
    def sync(self) -> SyncRegistryClient:
        """The same verbs for code that does not await."""
        return SyncRegistryClient(self)

    @property
    def _stub(self) -> Any:
        if isinstance(self.address, Address):
            return stub_to(registry_service_pb2_grpc.RegistryServiceStub, self.address, self._options)
        if self._web_stub is None:
            from protolink_grpc.client.grpc_web import GrpcWebChannel  # here: see `_other`

            # Generated types tell the async stub from the sync one by the channel, and know gRPC's own only.
            channel = cast(Any, GrpcWebChannel(self.address, self._options))
            self._web_stub = registry_service_pb2_grpc.RegistryServiceStub(channel)
        return self._web_stub

    async def _other(self) -> Any:
        """The `ProtolinkRegistry`, where there are no services of ours; None where there are. Raises UnavailableError."""
        if isinstance(self.address, Address):
            return None
        if time.monotonic() >= self._believed_until:
            try:
                async with typed_errors(self.address):
                    await self._ask(self._stub.ListAgents, pb.ListAgentsRequest(page_size=1))
                self._is_protolink = False
            except (UnimplementedError, InvalidAgentResponseError, ContentTypeNotSupportedError):
                self._is_protolink = True
            self._believed_until = time.monotonic() + KIND_S
        if not self._is_protolink:
            return None
        if self._protolink is None:
            # Here: most registries are at grpc://, and need no HTTP client.
            from protolink_grpc.client.http_channel import Sender

            # By name: ProtoLink's wire stands above the client.
            registry = load("protolink_grpc.compat.protolink.client.registry:ProtolinkRegistry")
            self._protolink = registry(Sender(self.address, self._options), self.timeout)
        return self._protolink

    async def _ask(self, method: Any, request: Message) -> Any:
        return await ask(method, request, self.address, self._options, self.timeout)

    async def register(
        self, card: AgentCard, *, lease_ttl_s: float = DEFAULT_LEASE_TTL_S, instance_id: str = ""
    ) -> float:
        """Add or replace the card under its URL; returns the length of the lease in seconds.

        Args:
            instance_id: Identifies this start of the agent. Empty means not stated.

        Raises:
            AgentConflictError: The URL or the name belongs to another principal.
        """
        if (other := await self._other()) is not None:
            await other.register(card)
            return lease_ttl_s
        url = canonical_url(card.url, field="card.url")
        request = pb.RegisterAgentRequest(
            card=card_to_pb(card),
            lease_ttl=lease_ttl_to_pb(lease_ttl_s),
            lease_id=self._leases.get(url, ""),
            instance_id=instance_id,
        )
        async with typed_errors(self.address):
            response = await self._ask(self._stub.RegisterAgent, request)
        self._leases[url] = response.lease_id
        return lease_ttl_from_pb(response.lease_ttl)

    async def heartbeat(self, agent_url: str, status: InstanceStatus | None = None) -> float:
        """Renew the lease of a card that this client registered; returns its length in seconds.

        Args:
            status: State and load of the agent; a ProtoLink registry has no place for them. None leaves the state as it is, and
                reports no load.

        Raises:
            LeaseNotFoundError: The registry does not know the lease: register again.
        """
        if (other := await self._other()) is not None:
            await other.heartbeat(agent_url)
            return DEFAULT_LEASE_TTL_S
        lease_id = self._leases.get(canonical_url(agent_url, field="agent_url"))
        if lease_id is None:
            raise LeaseNotFoundError(f"this client did not register {agent_url}", url=agent_url)
        async with typed_errors(self.address):
            response = await self._ask(self._stub.RenewLease, status_to_pb(lease_id, status or InstanceStatus()))
        return lease_ttl_from_pb(response.lease_ttl)

    async def unregister(self, agent_url: str) -> bool:
        """Remove a card that this client registered; whether there was one."""
        if (other := await self._other()) is not None:
            removed: bool = await other.unregister(agent_url)
            return removed
        lease_id = self._leases.pop(canonical_url(agent_url, field="agent_url"), None)
        if lease_id is None:
            return False
        async with typed_errors(self.address):
            response = await self._ask(self._stub.DeregisterAgent, pb.DeregisterAgentRequest(lease_id=lease_id))
        return bool(response.removed)

    async def get(self, name_or_url: str) -> RegisteredAgent:
        """The agent at that URL or of that name.

        Of several instances with one name, the one that was registered last and is not draining; a draining one where all are.

        Raises:
            AgentNotFoundError: There is none; the message has the nearest name.
            AmbiguousAgentError: There are several, and the registry is one of an older version.
        """
        if (other := await self._other()) is not None:
            found: RegisteredAgent = await other.get(name_or_url)
            return found
        async with typed_errors(self.address):
            response = await self._ask(self._stub.GetAgent, target_to_pb(name_or_url))
        return registered_agent_from_pb(response.agent)

    async def list_agents(self, wanted: AgentFilter | None = None) -> list[RegisteredAgent]:
        """All agents that match, sorted by name and URL; pages are fetched as needed."""
        if (other := await self._other()) is not None:
            return list(await other.list_agents(wanted or AgentFilter()))
        agents: list[RegisteredAgent] = []
        request = pb.ListAgentsRequest(filter=filter_to_pb(wanted or AgentFilter()), page_size=1000)
        while True:
            async with typed_errors(self.address):
                response = await self._ask(self._stub.ListAgents, request)
            agents += [registered_agent_from_pb(agent) for agent in response.agents]
            if not response.next_page_token:
                return agents
            request.page_token = response.next_page_token

    async def discover(self, filter_by: Mapping[str, Any] | None = None) -> list[AgentCard]:
        """Cards of the agents that match, for instance `{"role": "worker", "tags": ["travel", "eu"]}`."""
        return [agent.card for agent in await self.list_agents(AgentFilter.from_dict(filter_by or {}))]

    async def watch(
        self, wanted: AgentFilter | None = None, *, after_revision: int = 0, complete: asyncio.Event | None = None
    ) -> AsyncGenerator[AgentChange, None]:
        """Changes as they come, through restarts of the registry.

        Without a revision it begins with every agent that is there. After a cut that was too long it begins so again; agents that
        went away meanwhile are then reported as DOWN by comparing, not forgotten. A
        ProtoLink registry has no watch: it is listed every `POLL_S` seconds.

        Args:
            complete: Set once all that was there at the beginning has been yielded, and the next change is asked for.
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
                log.debug("watch of %s cut: %s", self.url, error)
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
        """Register and renew until canceled: at a third of the lease, with jitter; again after a registry restart or an expiry.

        Args:
            card: The card as it is now; a changed one is registered anew.
            instance_id: Identifies this start of the agent. Empty means not stated.
            status: State and load as they are now, reported at each renewal; None reports none.
            registered: Set while the registration stands.

        Raises:
            InvalidArgumentError, AgentConflictError: The registry refused the card at the very first attempt. Later ones are
                logged and tried again.
        """
        delay = ExponentialDelay(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        current: AgentCard | None = None
        who, first = "an agent", True
        while True:
            try:
                latest = card()
                who = latest.name
                if latest == current:
                    ttl_s = await self.heartbeat(latest.url, status() if status is not None else None)
                else:
                    ttl_s = await self.register(latest, lease_ttl_s=lease_ttl_s, instance_id=instance_id)
                    current = AgentCard.from_dict(latest.to_dict())
                    log.info("%s registered at %s", latest.name, self.url)
                if registered is not None:
                    registered.set()
                delay.reset()
                # Jitter keeps a fleet that started together from beating together.
                await asyncio.sleep(ttl_s / 3 * random.uniform(0.8, 1.0))  # noqa: S311 -- jitter, not a secret
            except LeaseNotFoundError:
                current = None
            except Exception as error:
                # After the start nobody looks at how this task ends: whatever happens, it goes on.
                if first and (
                    isinstance(error, InvalidArgumentError | AgentConflictError)
                    or not isinstance(error, ProtolinkError)
                ):
                    raise
                if registered is not None:
                    registered.clear()
                unexpected = None if isinstance(error, ProtolinkError) else error
                log.warning("%s is not registered at %s, will try again: %s", who, self.url, error, exc_info=unexpected)
                await asyncio.sleep(delay.next_s())
            first = False


def _endpoint(url: str) -> Endpoint:
    """Raises InvalidArgumentError: a URL of another kind."""
    if url.startswith(("http://", "https://")):
        return WebAddress.parse(url, field="registry")
    return Address.parse(url, field="registry")


class _Follower:
    """One watch over several connections: remembers the revision, and who was there."""

    def __init__(self, client: RegistryClient, wanted: AgentFilter, after_revision: int) -> None:
        self._client = client
        self._wanted = wanted
        self._revision = after_revision
        self._known: dict[str, RegisteredAgent] = {}
        self._snapshot: dict[str, RegisteredAgent] | None = None

    async def once(self, complete: asyncio.Event | None = None) -> AsyncGenerator[AgentChange, None]:
        """The changes of one connection."""
        async with aclosing(self._parts()) as parts:
            async for found, position in parts:
                for change in self._take(found, position):
                    yield change
                if complete is not None and position.caught_up:
                    complete.set()

    async def _parts(self) -> AsyncGenerator[tuple[list[AgentChange], WatchPosition], None]:
        """Changes, and the position that they lead to."""
        client = self._client
        other = await client._other()
        if other is None:
            request = pb.WatchAgentsRequest(filter=filter_to_pb(self._wanted), after_revision=self._revision)
            stream = answers(client._stub.WatchAgents, request, client.address, client._options, None)
            async with typed_errors(client.address), aclosing(stream) as responses:
                async for response in responses:
                    found = [agent_change_from_pb(change) for change in response.changes]
                    yield found, position_from_pb(response.position)
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
        """Of a snapshot, what is news; once it is complete (it has a revision then), who has gone."""
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
