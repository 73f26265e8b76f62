"""Agents on the web: what kind of agent answers at a URL, and the port that speaks with it.

`ws(s)://` is ProtoLink's own wire. Behind `http(s)://` may be an A2A agent or one of ProtoLink: the caller says it, or the cards
do.
"""

import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from protolink_grpc.client.a2a_agent import A2AAgent
from protolink_grpc.client.a2a_peer import A2APeer
from protolink_grpc.client.a2a_way import CARD_PATH
from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.http_channel import CONNECT_S, Sender
from protolink_grpc.client.port import AgentPort
from protolink_grpc.client.protolink_agent import CARD_PATH as PROTOLINK_CARD_PATH
from protolink_grpc.client.protolink_agent import ProtolinkPeer
from protolink_grpc.client.protolink_http_agent import ProtolinkHttpAgent
from protolink_grpc.client.protolink_ws_agent import ProtolinkSocketAgent
from protolink_grpc.client.recent import Recent
from protolink_grpc.errors import (
    AgentNotFoundError,
    InvalidAgentResponseError,
    PermissionDeniedError,
    ProtolinkError,
    RemoteError,
    UnauthenticatedError,
    UnimplementedError,
)
from protolink_grpc.wire.address import WebAddress

A2A: Final = "a2a"
WEB_TRANSPORTS: Final = ("a2a", "http", "sse", "websocket")
"""What `AgentClient(transport=...)` may say of agents on the web."""

KNOWN_PEERS: Final = 1000
KIND_S: Final = 300.0
"""How long what was found out about a URL is believed."""

_STREAMS: Final = frozenset({"stream", "watch", "export", "watch_approvals"})
_NO_CARD = (UnimplementedError, InvalidAgentResponseError, RemoteError)
"""Answers to the question for a card that mean: there is none of this kind."""


@dataclass(slots=True)
class _Peer:
    """One URL: what is known of the agent there, as each kind."""

    a2a: A2APeer
    protolink: ProtolinkPeer
    kind: str = ""
    believed_until: float = 0.0


@dataclass(slots=True)
class ForeignAgents:
    """The agents on the web that one client speaks with.

    Args:
        options: What goes with every call, to the origin that the caller named alone.
        trusted: URLs whose origins may have it, too, should a card point there.
        insecure_ok: A card that was found over TLS may point to a place in the clear.
    """

    options: ChannelOptions
    trusted: tuple[str, ...] = ()
    insecure_ok: bool = False
    _peers: Recent[_Peer] = field(default_factory=lambda: Recent(KNOWN_PEERS))

    def agent(self, url: str, transport: str) -> AgentPort:
        """The agent at a URL.

        Args:
            transport: One of `WEB_TRANSPORTS` where the caller knows what it is; with another, the agent is asked.

        Raises:
            InvalidArgumentError: The URL is none of the web's.
        """
        address = WebAddress.parse(url, field="agent_url")
        for card_path in (CARD_PATH, PROTOLINK_CARD_PATH):
            # Whoever has the URL of its card means the agent.
            address = replace(address, path=address.path.removesuffix(card_path))
        if transport == "websocket" and address.scheme in ("http", "https"):
            address = replace(address, scheme="wss" if address.secure else "ws")
        peer = self._peer(address)
        if address.scheme in ("ws", "wss"):
            return ProtolinkSocketAgent(peer.protolink)
        if transport in WEB_TRANSPORTS:
            return _port(peer, transport)
        if time.monotonic() < peer.believed_until:
            return _port(peer, peer.kind)
        return cast(AgentPort, _Unmet(lambda: _meet(peer)))

    def _peer(self, address: WebAddress) -> _Peer:
        peer = self._peers.get(address.url)
        if peer is None:
            origins = frozenset(WebAddress.parse(each, field="trusted_origins").origin for each in self.trusted)
            sender = Sender(address, self.options, origins, self.insecure_ok)
            peer = _Peer(A2APeer(sender), ProtolinkPeer(sender))
            self._peers.keep(address.url, peer)
        return peer


def _port(peer: _Peer, kind: str) -> AgentPort:
    return A2AAgent(peer.a2a) if kind == A2A else ProtolinkHttpAgent(peer.protolink)


async def _meet(peer: _Peer) -> AgentPort:
    """Ask the agent for its cards, A2A's first.

    Raises:
        UnavailableError: Nobody answers.
        AgentNotFoundError: Somebody does, and it is no agent.
        UnauthenticatedError, PermissionDeniedError: It does not say without other credentials.
    """
    refusal: ProtolinkError | None = None
    port: AgentPort
    for kind in (A2A, "http"):
        port = _port(peer, kind)
        try:
            await port.card(CONNECT_S)
        except _NO_CARD:
            continue
        except (UnauthenticatedError, PermissionDeniedError) as error:
            refusal = error
            continue
        peer.kind, peer.believed_until = kind, time.monotonic() + KIND_S
        return port
    url = peer.a2a.url
    raise refusal or AgentNotFoundError(
        f"no agent answers at {url}: it has neither {CARD_PATH} nor {PROTOLINK_CARD_PATH}", url=url
    )


class _Unmet:
    """An agent of which only the URL is known: the first call finds out what it is, and asks that. All of AgentPort's verbs."""

    is_connected = False

    def __init__(self, meet: Callable[[], Coroutine[Any, Any, AgentPort]]) -> None:
        self._meet = meet
        self._met: AgentPort | None = None

    async def _agent(self) -> AgentPort:
        if self._met is None:
            self._met = await self._meet()
        return self._met

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def called(*arguments: Any, **named: Any) -> Any:
            return await getattr(await self._agent(), verb)(*arguments, **named)

        async def streamed(*arguments: Any, **named: Any) -> AsyncGenerator[Any, None]:
            async with aclosing(getattr(await self._agent(), verb)(*arguments, **named)) as items:
                async for item in items:
                    yield item

        return streamed if verb in _STREAMS else called
