"""Which implementation reaches an agent, by the scheme of its URL. An implementation is imported when its first agent is opened."""

from dataclasses import dataclass
from typing import Final

from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.port import AgentSource
from protolink_grpc.lazy import load

GRPC: Final = "protolink_grpc.client.grpc_agent:GrpcAgents"
LOCAL: Final = "protolink_grpc.agent.local_agent:LocalAgents"
WEB: Final = "protolink_grpc.compat.web_agents:WebAgents"

SOURCES: Final = {
    "grpc": GRPC,
    "grpcs": GRPC,
    "runtime": LOCAL,
    "http": WEB,
    "https": WEB,
    "ws": WEB,
    "wss": WEB,
}
"""By name, because the last two stand above the client: the one has the runtime, the other A2A's and ProtoLink's clients."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What one client gives to each of its sources.

    Args:
        channel: What goes with every call, to the origin that the caller named alone.
        trusted: URLs whose origins receive it, too, if a card points there.
        insecure_ok: A card that was found over TLS may point to a place in the clear.
        binding: The A2A binding to speak; empty leaves the choice to the agent.
    """

    channel: ChannelOptions
    trusted: tuple[str, ...] = ()
    insecure_ok: bool = False
    binding: str = ""


def create_source(name: str, options: SourceOptions) -> AgentSource:
    """The source of that name, for instance `GRPC`."""
    source: AgentSource = load(name)(options)
    return source
