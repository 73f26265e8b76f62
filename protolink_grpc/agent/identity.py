"""Who an agent is: from a card, a dict, or a name, to a card whose URL and transport agree."""

from dataclasses import replace
from typing import Any

from protolink_grpc.client.local_agent import SCHEME
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.wire.address import Address

TRANSPORTS = ("grpc", "runtime")
ANY_PORT = "grpc://127.0.0.1:0"
"""Where a gRPC agent listens that names no URL: this machine, a free port."""


def resolve_card(
    card: AgentCard | dict[str, Any] | None,
    transport: str | None,
    *,
    name: str | None = None,
    description: str | None = None,
    url: str | None = None,
) -> AgentCard:
    """The agent's own copy of its card.

    Raises:
        InvalidArgumentError: Something required is missing, or URL and transport contradict each other; names the field.
    """
    if card is None:
        if not name:
            raise InvalidArgumentError("an agent needs a card or a name", field="card")
        given = url or (ANY_PORT if transport == "grpc" else f"{SCHEME}{name}")
        card = {"name": name, "description": description or name, "url": given}
    elif isinstance(card, AgentCard):
        card = card.to_dict() | ({"url": url} if url else {})
    source = dict(card)
    source |= {key: value for key, value in (("name", name), ("description", description), ("url", url)) if value}
    own = AgentCard.from_dict(source)
    return replace(own, transport=_transport(own.url, transport))


def _transport(url: str, wanted: str | None) -> str:
    if wanted is not None and wanted not in TRANSPORTS:
        raise InvalidArgumentError(f"{wanted!r} is not one of {', '.join(TRANSPORTS)}", field="transport")
    if url.startswith(SCHEME):
        found = "runtime"
        if not url.removeprefix(SCHEME).strip("/"):
            raise InvalidArgumentError("must name the agent, like runtime://echo", field="card.url")
    else:
        Address.parse(url, field="card.url")
        found = "grpc"
    if wanted is not None and wanted != found:
        raise InvalidArgumentError(f"{url!r} is not a URL of transport {wanted!r}", field="card.url")
    return found
