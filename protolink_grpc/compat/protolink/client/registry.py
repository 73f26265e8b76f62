"""A client for a ProtoLink 0.8.3 registry: agent cards by URL, without leases and watches.

Such a registry may drop an agent that sends no heartbeats, after a time that clients do not know.
"""

from dataclasses import replace
from typing import Any, Final

from protolink_grpc.client.http_channel import Sender
from protolink_grpc.client.timeouts import time_limit
from protolink_grpc.compat.protolink.client.http_agent import http_value
from protolink_grpc.errors import (
    AgentNotFoundError,
    AmbiguousAgentError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    LeaseNotFoundError,
)
from protolink_grpc.models import reader
from protolink_grpc.models.card import AgentCard, AgentInterface
from protolink_grpc.net.address import canonical_url, comparable_url
from protolink_grpc.wire.registry import AgentFilter, RegisteredAgent

PATH: Final = "/agents/"
HEARTBEAT_PATH: Final = "/agents/heartbeat"

NOT_FOUND: Final = "agent not found"
"""Its response, with HTTP status 200, to the heartbeat of an unknown agent."""


class ProtolinkRegistry:
    """The methods of such a registry.

    Args:
        sender: Its address, and the metadata and credentials of each call.
        timeout_s: Timeout of a call in seconds.
    """

    def __init__(self, sender: Sender, timeout_s: float) -> None:
        self._sender = sender
        self._timeout_s = timeout_s
        # The URL under which an agent of this client is registered, by the canonical URL of its card.
        self._registered: dict[str, str] = {}

    @property
    def _url(self) -> str:
        return self._sender.address.url

    async def _request(self, method: str, path: str, data: Any = None) -> Any:
        async with time_limit(self._timeout_s, self._url):
            return await http_value(self._sender, method, path, data)

    async def register(self, card: AgentCard) -> None:
        """Add or replace the card. If it has an address that ProtoLink's agents can call, that one is registered."""
        shown = card_on_the_web(card)
        await self._request("POST", PATH, shown.to_dict())
        self._registered[canonical_url(card.url, field="card.url")] = shown.url

    async def heartbeat(self, agent_url: str) -> None:
        """Send a heartbeat for an agent of this client. Raises LeaseNotFoundError if the registry does not know the agent."""
        url = self._registered.get(canonical_url(agent_url, field="agent_url"))
        found = await self._request("POST", HEARTBEAT_PATH, {"agent_url": url}) if url is not None else None
        if url is None or (isinstance(found, dict) and found.get("status") == NOT_FOUND):
            raise LeaseNotFoundError(f"{self._url} does not know {agent_url}: register it", url=agent_url)

    async def unregister(self, agent_url: str) -> bool:
        """Remove a card that this client registered. Returns whether it was registered."""
        url = self._registered.pop(canonical_url(agent_url, field="agent_url"), None)
        if url is None:
            return False
        await self._request("DELETE", PATH, {"agent_url": url})
        return True

    async def get(self, name_or_url: str) -> RegisteredAgent:
        """Return the agent with that name or URL. Raises AgentNotFoundError, AmbiguousAgentError."""
        agents = await self.list_agents(AgentFilter())
        wanted = comparable_url(name_or_url)
        named = [agent for agent in agents if comparable_url(agent.card.url) == wanted] or [
            agent for agent in agents if agent.card.name == name_or_url
        ]
        if not named:
            raise AgentNotFoundError(f"{self._url} has no agent {name_or_url!r}", name=name_or_url)
        if len(named) > 1:
            urls = ", ".join(agent.card.url for agent in named)
            raise AmbiguousAgentError(
                f"{len(named)} agents have the name {name_or_url!r}: {urls}; use the URL of one of them",
                name=name_or_url,
                urls=urls,
            )
        return named[0]

    async def list_agents(self, wanted: AgentFilter) -> list[RegisteredAgent]:
        """Return the matching agents, sorted by name and URL.

        The filter is applied here, because the registry's own has fewer fields.
        """
        cards = [_card(found, self._url) for found in self._cards(await self._request("GET", PATH))]
        found = [RegisteredAgent(card, 0, 0.0, 0.0) for card in cards if wanted.matches(card)]
        return sorted(found, key=lambda agent: (agent.card.name, agent.card.url))

    def _cards(self, found: Any) -> list[Any]:
        if not isinstance(found, list):
            raise InvalidAgentResponseError(f"{self._url}{PATH} did not return a list of cards", url=self._url)
        return found


def _card(found: Any, url: str) -> AgentCard:
    try:
        return AgentCard.from_dict(reader.as_object(found))
    except InvalidArgumentError as error:
        raise InvalidAgentResponseError(f"{url} lists an invalid card: {error}", url=url) from None


def card_on_the_web(card: AgentCard) -> AgentCard:
    """Return the card with its HTTP address first and its own as another interface; unchanged if it has no HTTP address."""
    if card.url.startswith(("http://", "https://", "ws://", "wss://")):
        return card
    web = next((each for each in card.interfaces if each.url.startswith(("http://", "https://"))), None)
    if web is None:
        return card
    others = [each for each in card.interfaces if each is not web]
    own = AgentInterface(card.url, card.transport, card.protocol_version)
    return replace(card, url=web.url, transport="sse", interfaces=[own, *others])
