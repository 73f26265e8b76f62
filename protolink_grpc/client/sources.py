"""Selects the implementation for the scheme of an agent's URL. An implementation is imported when its first agent is opened."""

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
"""Names rather than classes, because the last two are in layers above the client: `runtime://`, and A2A and ProtoLink."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The settings that a client passes to its sources.

    Args:
        channel: Metadata and credentials of every call; sent only to the origin that the caller named.
        trusted: URLs whose origins receive them too, if a card points there.
        insecure_ok: Whether a card that was found over TLS may point to an unencrypted address.
        binding: The A2A binding to use; empty means the agent's preferred one.
    """

    channel: ChannelOptions
    trusted: tuple[str, ...] = ()
    insecure_ok: bool = False
    binding: str = ""


def create_source(name: str, options: SourceOptions) -> AgentSource:
    """Create the source with that name, for instance `GRPC`."""
    source: AgentSource = load(name)(options)
    return source
