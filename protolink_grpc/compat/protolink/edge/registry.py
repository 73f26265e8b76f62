"""The registry in ProtoLink's own words: a table of verbs over the same directory that agents of every transport are in.

ProtoLink's clients know no leases, only URLs. By default its agents send no heartbeats: they register once and say good-bye when
they stop. So what they register gets a lease of its own length, long by default, which a heartbeat renews. The lease of a URL is
kept here; where it is not, after a restart, it is taken over by registering the same card again, which the directory lets only the
principal do whom the URL belongs to.
"""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

from starlette.routing import BaseRoute

from protolink_grpc.compat.protolink.edge.routes import routes_of
from protolink_grpc.compat.protolink.edge.shapes import Fields
from protolink_grpc.compat.protolink.edge.verbs import Ask, Health, TableRow, Verb, health_verbs, page
from protolink_grpc.compat.protolink.edge.websocket import SocketLimits, socket_route
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import OpenStreams
from protolink_grpc.errors import (
    AgentConflictError,
    AgentNotFoundError,
    InvalidArgumentError,
    LeaseNotFoundError,
)
from protolink_grpc.models import reader
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.json_value import from_json
from protolink_grpc.net.address import canonical_url, comparable_url
from protolink_grpc.registry.pages import MAX_PAGE_SIZE
from protolink_grpc.registry.service import MAX_SILENT_LEASE_S, SILENT_LEASE_S, Registrant, RegistryService
from protolink_grpc.wire.registry import AgentFilter

REGISTRY = "/plgrpc.v1.RegistryService"

MAX_LEASES = 10_000
"""Leases that are kept; of the one that is longest unused, the URL is looked up again at its next heartbeat."""

MAX_FILTER_COMPLEXITY = 10_000
"""Bound of JSON within a query; see `models.json_value.json_complexity`."""

_PLAIN_KEYS = ("url", "transport", "version", "description")
"""Keys of a filter that the directory has no index for: compared card by card."""

_STRUCTURED_KEYS = ("metadata", "capabilities")
"""Keys whose values are no texts; in a query they are JSON."""


def registry_routes(
    guard: RequestGuard,
    service: RegistryService,
    *,
    health: Health | None = None,
    lease_ttl_s: float = SILENT_LEASE_S,
    socket: SocketLimits | None = None,
) -> list[BaseRoute]:
    """Everything that a ProtoLink 0.8.3 client can ask a registry for, over HTTP, and WebSocket at `/`.

    Args:
        health: Answers `/healthz` and `/readyz`; None leaves them to somebody else.
        lease_ttl_s: How long an agent may be silent, from 1 s to `MAX_SILENT_LEASE_S`.
        socket: None means its defaults.
    """
    verbs = RegistryVerbs(service, lease_ttl_s).table(health)
    return [*routes_of(guard, verbs, OpenStreams()), socket_route(guard, verbs, socket or SocketLimits())]


class RegistryVerbs:
    """The verbs of one registry."""

    def __init__(self, service: RegistryService, lease_ttl_s: float = SILENT_LEASE_S) -> None:
        self._service = service
        self._lease_ttl_s = lease_ttl_s
        self._leases: OrderedDict[tuple[str, str], str] = OrderedDict()

    def table(self, health: Health | None = None) -> list[Verb]:
        """All rows; those of the health only where something tells it."""
        rows = [
            Verb("POST", "/agents/", f"{REGISTRY}/RegisterAgent", self.register),
            Verb("DELETE", "/agents/", f"{REGISTRY}/DeregisterAgent", self.unregister),
            Verb("POST", "/agents/heartbeat", f"{REGISTRY}/RenewLease", self.heartbeat),
            Verb("GET", "/agents/", f"{REGISTRY}/ListAgents", self.discover),
            Verb("GET", "/status", f"{REGISTRY}/ListAgents", self.status, media="html"),
        ]
        return rows if health is None else rows + health_verbs(health)

    async def register(self, ask: Ask) -> Fields:
        """Add or replace the card under its URL. Raises AgentConflictError where its URL or its name is another principal's."""
        await self._register(await ask.read(_card_of), self._service.registrant(ask.principal))
        return {"status": "agent registered successfully"}

    async def unregister(self, ask: Ask) -> Fields:
        """Remove the caller's card under that URL; none is fine, too."""
        url, who = _url_of(ask), self._service.registrant(ask.principal)
        lease_id = await self._lease(url, who)
        if lease_id is not None:
            self._leases.pop((who.owner, url), None)
            await self._service.deregister(lease_id, principal=who.owner, is_admin=who.is_admin)
        return {"status": "agent unregistered successfully"}

    async def heartbeat(self, ask: Ask) -> Fields:
        """Renew the lease of the caller's card under that URL."""
        known = await self._lease(_url_of(ask), self._service.registrant(ask.principal))
        return {"status": "agent not found" if known is None else "agent heartbeat recorded"}

    async def discover(self, ask: Ask) -> list[Fields]:
        """The cards that match, all of them."""
        wanted, plain = _filter_of(ask)
        cards = await self._cards(wanted)
        return [card for card in cards if all(card.get(key) == value for key, value in plain.items())]

    async def status(self, ask: Ask) -> str:
        rows = [TableRow(card["name"], card["url"]) for card in await self._cards(AgentFilter())]
        return page("Registry", f"{len(rows)} agents.", TableRow("Agent", "URL"), rows)

    async def _cards(self, wanted: AgentFilter) -> list[Fields]:
        found: list[Fields] = []
        token = ""
        while True:
            listed = await self._service.list(wanted, MAX_PAGE_SIZE, token)
            found += [agent.card.to_dict() for agent in listed.agents]
            token = listed.next_page_token
            if not token:
                return found

    async def _register(self, card: AgentCard, who: Registrant) -> str:
        key = who.owner, canonical_url(card.url, field="url")
        granted = await self._service.register(
            card,
            principal=who.owner,
            lease_ttl_s=self._lease_ttl_s,
            lease_id=self._leases.get(key, ""),
            is_admin=who.is_admin,
            max_lease_ttl_s=MAX_SILENT_LEASE_S,
        )
        self._leases[key] = granted.lease_id
        self._leases.move_to_end(key)
        if len(self._leases) > MAX_LEASES:
            self._leases.popitem(last=False)
        return granted.lease_id

    async def _lease(self, url: str, who: Registrant) -> str | None:
        """The lease of that URL, renewed; None where it is not the caller's, or nobody's."""
        key = who.owner, url
        known = self._leases.get(key)
        if known is not None:
            try:
                await self._service.renew(known, principal=who.owner)
            except LeaseNotFoundError:
                del self._leases[key]  # it has run out, or somebody else has replaced it
            else:
                self._leases.move_to_end(key)
                return known
        try:
            agent = await self._service.get(url)
            # As any other caller: a heartbeat takes nothing over.
            return await self._register(agent.card, replace(who, is_admin=False))
        except (AgentNotFoundError, AgentConflictError):
            return None


def _card_of(ask: Ask) -> AgentCard:
    return AgentCard.from_dict(ask.data)


def _url_of(ask: Ask) -> str:
    """The URL that a request names, as it is compared; a text without a scheme is nobody's URL."""
    url = reader.required_text(reader.as_object(ask.data), "agent_url")
    return comparable_url(url) if "://" in url else f"://{url}"


def _filter_of(ask: Ask) -> tuple[AgentFilter, Fields]:
    """The filter of a query, or of `filter_by` in it, and what the directory leaves to its readers.

    Raises:
        InvalidArgumentError: An unknown key, or a value of the wrong kind; names its path.
    """
    params: Any = dict(ask.params)
    if "filter_by" in params:
        params = _read(params["filter_by"], "filter_by") or {}
    if not isinstance(params, dict):
        raise InvalidArgumentError("must be an object", field="filter_by")
    found = {key: value for key, value in params.items() if value not in (None, "")}
    plain = {key: found.pop(key) for key in _PLAIN_KEYS if key in found}
    for key in _STRUCTURED_KEYS:
        if key in found:
            found[key] = _read(found[key], key)
    return AgentFilter.from_dict(found), plain


def _read(value: Any, field: str) -> Any:
    """The value of what is a text in a query, and JSON itself over WebSocket. A bare word is itself."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        # Over WebSocket it may be as long as a frame, and a text within JSON is not counted with it.
        return from_json(value, field=field, max_complexity=MAX_FILTER_COMPLEXITY)
    return value
