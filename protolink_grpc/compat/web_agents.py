"""Agents on the web: detects the kind of agent at a URL and creates its client.

`ws(s)://` is ProtoLink's protocol. At `http(s)://` there may be an agent of this package, another A2A agent, or a ProtoLink
agent: the caller names the kind, or the agent's cards show it. An agent of this package is called over gRPC-Web, because A2A has
no fields for much of a task.
"""

import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from protolink_grpc.a2a.client.agent import A2AAgent
from protolink_grpc.a2a.client.peer import A2APeer, GrpcPeer
from protolink_grpc.a2a.client.transport import CARD_PATH
from protolink_grpc.client.grpc_web import GrpcWebAgent
from protolink_grpc.client.http_channel import CONNECT_S, Sender
from protolink_grpc.client.lru_map import LRUMap
from protolink_grpc.client.port import AgentPort, SessionPort, SnapshotPort, TaskControlPort
from protolink_grpc.client.sources import SourceOptions
from protolink_grpc.client.timeouts import time_limit
from protolink_grpc.compat.protolink.client.agent import CARD_PATH as PROTOLINK_CARD_PATH
from protolink_grpc.compat.protolink.client.agent import ProtolinkPeer
from protolink_grpc.compat.protolink.client.http_agent import ProtolinkHttpAgent
from protolink_grpc.compat.protolink.client.websocket_agent import ProtolinkSocketAgent
from protolink_grpc.errors import (
    AgentNotFoundError,
    ContentTypeNotSupportedError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    PermissionDeniedError,
    ProtolinkError,
    RemoteError,
    UnauthenticatedError,
    UnimplementedError,
)
from protolink_grpc.models.card import AgentCard
from protolink_grpc.net.address import Address, WebAddress, origin_of

A2A: Final = "a2a"
OWN: Final = "grpc-web"
WEB_TRANSPORTS: Final = ("a2a", "http", "sse", "websocket")
"""The values of `AgentClient(transport=...)` that select a kind of agent on the web."""

KNOWN_PEERS: Final = 1000
KIND_S: Final = 300.0
"""How long the detected kind of agent is cached, in seconds."""

_STREAMS: Final = frozenset({"stream", "watch", "export", "watch_approvals"})
_NO_CARD = (UnimplementedError, InvalidAgentResponseError, RemoteError)
"""Errors of a request for a card that mean that the agent has no card of that kind."""

_NOT_SERVED = (UnimplementedError, InvalidAgentResponseError, PermissionDeniedError, ContentTypeNotSupportedError)
"""Errors that mean that the caller cannot reach this package's services, for instance because of a proxy."""


@dataclass(slots=True)
class _Peer:
    """The clients for the agent at a URL, and its kind if it has been detected.

    Attributes:
        valid_until: End of the cached kind, in seconds of the monotonic clock.
    """

    a2a: A2APeer
    own: "OwnAgent"
    protolink: ProtolinkPeer
    kind: str = ""
    valid_until: float = 0.0


class WebAgents:
    """Agents at `http(s)://` and `ws(s)://` URLs, as an AgentSource."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._peers: LRUMap[_Peer] = LRUMap(KNOWN_PEERS)

    def open(self, url: str, transport: str, *, outage_s: float | None = None) -> AgentPort:
        """Open the agent at a URL. A transport of `WEB_TRANSPORTS` selects its kind; otherwise the kind is detected."""
        address = _address(url)
        if transport == "websocket" and address.scheme in ("http", "https"):
            address = replace(address, scheme="wss" if address.secure else "ws")
        peer = self._peer(address)
        if self._options.binding:
            return self.a2a_agent(url)
        if address.scheme in ("ws", "wss"):
            return ProtolinkSocketAgent(peer.protolink)
        if transport in WEB_TRANSPORTS:
            return _port(peer, transport)
        if time.monotonic() < peer.valid_until:
            return _port(peer, peer.kind)
        return cast(AgentPort, _DetectedAgent(lambda: _detect(peer)))

    def a2a_agent(self, url: str) -> A2AAgent:
        """Open the agent at a URL over A2A; at a `grpc(s)://` URL over the A2A service of its gRPC port.

        Raises:
            InvalidArgumentError: The URL has another scheme.
        """
        if not url.startswith(("grpc://", "grpcs://")):
            address = _address(url)
            if address.scheme in ("ws", "wss"):
                raise InvalidArgumentError(f"{url} uses ProtoLink's protocol, not A2A", field="agent_url")
            return A2AAgent(self._peer(address).a2a)
        target = Address.parse(url, field="agent_url")
        web = WebAddress("https" if target.secure else "http", target.host, target.port)
        return A2AAgent(GrpcPeer(Sender(web, self._options.channel), target))

    def _peer(self, address: WebAddress) -> _Peer:
        peer = self._peers.get(address.url)
        if peer is None:
            options = self._options
            origins = frozenset(origin_of(each, field="trusted_origins") for each in options.trusted)
            sender = Sender(address, options.channel, origins, options.insecure_ok)
            a2a = A2APeer(sender, options.binding)
            peer = _Peer(a2a, OwnAgent(a2a), ProtolinkPeer(sender))
            self._peers.put(address.url, peer)
        return peer


def _address(url: str) -> WebAddress:
    """Return the base URL of an agent, from that URL or the URL of its card."""
    address = WebAddress.parse(url, field="agent_url")
    for card_path in (CARD_PATH, PROTOLINK_CARD_PATH):
        address = replace(address, path=address.path.removesuffix(card_path))
    return address


class OwnAgent(GrpcWebAgent):
    """An agent of this package whose public card is on the web."""

    def __init__(self, peer: A2APeer) -> None:
        super().__init__(peer.sender.address, peer.sender.options)
        self._peer = peer

    async def is_served(self) -> bool:
        """Return whether this package's services are reachable at the URL. A proxy or an access rule may prevent that."""
        try:
            await super().card(CONNECT_S)
        except UnauthenticatedError:
            return True  # A2A would require credentials too
        except _NOT_SERVED:
            return False
        return True

    async def card(self, timeout_s: float | None) -> AgentCard:
        try:
            return await super().card(timeout_s)
        except (UnauthenticatedError, PermissionDeniedError):
            # The public card needs no credentials.
            async with time_limit(timeout_s, self.address.url):
                return (await self._peer.card(refresh=True)).own


def _port(peer: _Peer, kind: str) -> AgentPort:
    if kind == OWN:
        return peer.own
    return A2AAgent(peer.a2a) if kind == A2A else ProtolinkHttpAgent(peer.protolink)


async def _detect(peer: _Peer) -> AgentPort:
    """Detect the kind of an agent by its cards, A2A's first, and return its client.

    Raises:
        UnavailableError: The server cannot be reached.
        AgentNotFoundError: The server has no agent card.
        UnauthenticatedError, PermissionDeniedError: The cards require other credentials.
    """
    refusal: ProtolinkError | None = None
    for kind in (A2A, "http"):
        try:
            await _port(peer, kind).card(CONNECT_S)
        except _NO_CARD:
            continue
        except (UnauthenticatedError, PermissionDeniedError) as error:
            refusal = error
            continue
        if kind == A2A and (await peer.a2a.card()).has_own_services and await peer.own.is_served():
            kind = OWN  # noqa: PLW2901 -- the better protocol for the same agent
        peer.kind, peer.valid_until = kind, time.monotonic() + KIND_S
        return _port(peer, kind)
    url = peer.a2a.url
    raise refusal or AgentNotFoundError(
        f"no agent answers at {url}: it has neither {CARD_PATH} nor {PROTOLINK_CARD_PATH}", url=url
    )


class _Forwarder:
    """Passes each call on to an object that is found at the call."""

    def __init__(self, find: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._find = find

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            return await getattr(await self._find(), verb)(*arguments, **named)

        async def stream(*arguments: Any, **named: Any) -> AsyncGenerator[Any, None]:
            async with aclosing(getattr(await self._find(), verb)(*arguments, **named)) as items:
                async for item in items:
                    yield item

        return stream if verb in _STREAMS else call


class _DetectedAgent(_Forwarder):
    """An AgentPort for a URL. The first call detects the kind of agent; all calls are passed on to its client."""

    is_connected = False

    def __init__(self, detect: Callable[[], Coroutine[Any, Any, AgentPort]]) -> None:
        super().__init__(self._agent)
        self._detect = detect
        self._found: AgentPort | None = None

    async def _agent(self) -> AgentPort:
        if self._found is None:
            self._found = await self._detect()
        return self._found

    @property
    def sessions(self) -> _Forwarder:
        async def find() -> SessionPort:
            return (await self._agent()).sessions

        return _Forwarder(find)

    @property
    def snapshots(self) -> _Forwarder:
        async def find() -> SnapshotPort:
            return (await self._agent()).snapshots

        return _Forwarder(find)

    @property
    def tasks(self) -> _Forwarder:
        async def find() -> TaskControlPort:
            return (await self._agent()).tasks

        return _Forwarder(find)
