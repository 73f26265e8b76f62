"""The registry over ProtoLink's protocol: operations on the same directory that all transports use.

ProtoLink's clients have no leases, and by default its agents send no heartbeats: they register at start and deregister at stop.
Their registrations therefore get a long lease, which a heartbeat renews. The lease ids are kept here by URL. After a restart, a
heartbeat registers the same card again, which the directory allows only for the principal that owns the URL.
"""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

from starlette.routing import BaseRoute

from protolink_grpc.compat.protolink.edge.routes import routes_of
from protolink_grpc.compat.protolink.edge.shapes import Fields
from protolink_grpc.compat.protolink.edge.verbs import Health, TableRow, Verb, VerbCall, health_verbs, page
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
"""Maximum number of stored lease ids. If a lease id was dropped, its URL is looked up at the next heartbeat."""

MAX_FILTER_COMPLEXITY = 10_000
"""Maximum complexity of JSON within a query; see `models.json_value.json_complexity`."""

_PLAIN_KEYS = ("url", "transport", "version", "description")
"""Keys of a filter without an index in the directory; cards are compared one by one."""

_STRUCTURED_KEYS = ("metadata", "capabilities")
"""Keys whose values are not strings; in a query they are JSON."""


def registry_routes(
    guard: RequestGuard,
    service: RegistryService,
    *,
    health: Health | None = None,
    lease_ttl_s: float = SILENT_LEASE_S,
    socket: SocketLimits | None = None,
) -> list[BaseRoute]:
    """Return the routes of a registry for ProtoLink 0.8.3 clients over HTTP, and WebSocket at `/`.

    Args:
        health: Answers `/healthz` and `/readyz`; None means that another component serves them.
        lease_ttl_s: How long an agent stays registered without heartbeats, from 1 s to `MAX_SILENT_LEASE_S`.
        socket: Limits of the WebSocket; None means the defaults.
    """
    verbs = RegistryVerbs(service, lease_ttl_s).table(health)
    return [*routes_of(guard, verbs, OpenStreams()), socket_route(guard, verbs, socket or SocketLimits())]


class RegistryVerbs:
    """The operations of one registry."""

    def __init__(self, service: RegistryService, lease_ttl_s: float = SILENT_LEASE_S) -> None:
        self._service = service
        self._lease_ttl_s = lease_ttl_s
        self._leases: OrderedDict[tuple[str, str], str] = OrderedDict()

    def table(self, health: Health | None = None) -> list[Verb]:
        """Return all operations; those for health only with a health source."""
        rows = [
            Verb("POST", "/agents/", f"{REGISTRY}/RegisterAgent", self.register),
            Verb("DELETE", "/agents/", f"{REGISTRY}/DeregisterAgent", self.unregister),
            Verb("POST", "/agents/heartbeat", f"{REGISTRY}/RenewLease", self.heartbeat),
            Verb("GET", "/agents/", f"{REGISTRY}/ListAgents", self.discover),
            Verb("GET", "/status", f"{REGISTRY}/ListAgents", self.status, media="html"),
        ]
        return rows if health is None else rows + health_verbs(health)

    async def register(self, call: VerbCall) -> Fields:
        """Add or replace the card under its URL. Raises AgentConflictError if its URL or name belongs to another principal."""
        await self._register(await call.read(_card_of), self._service.registrant(call.principal))
        return {"status": "agent registered successfully"}

    async def unregister(self, call: VerbCall) -> Fields:
        """Remove the caller's card under that URL, if it is registered."""
        url, registrant = _url_of(call), self._service.registrant(call.principal)
        lease_id = await self._renew(url, registrant)
        if lease_id is not None:
            self._leases.pop((registrant.owner, url), None)
            await self._service.deregister(lease_id, principal=registrant.owner, is_admin=registrant.is_admin)
        return {"status": "agent unregistered successfully"}

    async def heartbeat(self, call: VerbCall) -> Fields:
        """Renew the lease of the caller's card under that URL."""
        lease_id = await self._renew(_url_of(call), self._service.registrant(call.principal))
        return {"status": "agent not found" if lease_id is None else "agent heartbeat recorded"}

    async def discover(self, call: VerbCall) -> list[Fields]:
        """Return all matching cards."""
        wanted, plain = _filter_of(call)
        cards = await self._cards(wanted)
        return [card for card in cards if all(card.get(key) == value for key, value in plain.items())]

    async def status(self, call: VerbCall) -> str:
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

    async def _register(self, card: AgentCard, registrant: Registrant) -> str:
        key = registrant.owner, canonical_url(card.url, field="url")
        granted = await self._service.register(
            card,
            principal=registrant.owner,
            lease_ttl_s=self._lease_ttl_s,
            lease_id=self._leases.get(key, ""),
            is_admin=registrant.is_admin,
            max_lease_ttl_s=MAX_SILENT_LEASE_S,
        )
        self._leases[key] = granted.lease_id
        self._leases.move_to_end(key)
        if len(self._leases) > MAX_LEASES:
            self._leases.popitem(last=False)
        return granted.lease_id

    async def _renew(self, url: str, registrant: Registrant) -> str | None:
        """Renew the caller's lease of that URL and return its id. Returns None if the caller has no registration there."""
        key = registrant.owner, url
        lease_id = self._leases.get(key)
        if lease_id is not None:
            try:
                await self._service.renew(lease_id, principal=registrant.owner)
            except LeaseNotFoundError:
                del self._leases[key]  # it has expired, or another registration has replaced it
            else:
                self._leases.move_to_end(key)
                return lease_id
        try:
            agent = await self._service.get(url)
            # Not as an administrator: a heartbeat never takes over a registration.
            return await self._register(agent.card, replace(registrant, is_admin=False))
        except (AgentNotFoundError, AgentConflictError):
            return None


def _card_of(call: VerbCall) -> AgentCard:
    return AgentCard.from_dict(call.data)


def _url_of(call: VerbCall) -> str:
    """Return the URL of a request in its canonical form. A text without a scheme matches no agent."""
    url = reader.required_text(reader.as_object(call.data), "agent_url")
    return comparable_url(url) if "://" in url else f"://{url}"


def _filter_of(call: VerbCall) -> tuple[AgentFilter, Fields]:
    """Parse the filter of a query or of its `filter_by`. Returns the directory's filter and the keys to compare card by card.

    Raises:
        InvalidArgumentError: An unknown key or a value of the wrong type; names its path.
    """
    params: Any = dict(call.params)
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
    """Parse a value, which is text in a query and JSON over WebSocket. A bare word is a string."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        # Over WebSocket a text may be as long as a frame, and its complexity has not been counted.
        return from_json(value, field=field, max_complexity=MAX_FILTER_COMPLEXITY)
    return value
