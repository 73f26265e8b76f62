"""Who an agent is: from what a user writes to a card whose URL and transport agree, and a place to listen."""

import inspect
import ipaddress
from dataclasses import replace
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.net.address import RUNTIME_SCHEME, Address

TRANSPORTS = ("grpc", "runtime", "http", "sse", "websocket")
ANY_PORT = "grpc://127.0.0.1:0"
"""Where a gRPC agent listens that names no URL: this machine, a free port."""

WEB = {"http": ("http", "sse"), "https": ("http", "sse"), "ws": ("websocket",), "wss": ("websocket",)}
"""Transports of a ProtoLink URL by its scheme, the usual one first. One HTTP port serves all of them."""


def check_handlers(kind: type, base: type) -> None:
    """Refuse handlers of a class that could only fail once a task comes.

    Raises:
        TypeError: One is not of the kind that it must be; names class and method.
    """
    handler, streaming = (_overridden(kind, base, name) for name in ("handle_task", "handle_task_streaming"))
    if handler is not None and not inspect.iscoroutinefunction(handler):
        raise TypeError(f"{kind.__name__}.handle_task must be async: write `async def handle_task(self, task)`")
    if streaming is not None and inspect.iscoroutinefunction(streaming):
        raise TypeError(
            f"{kind.__name__}.handle_task_streaming must be an async generator: it has no `yield`; "
            "what returns the task at its end is handle_task"
        )


def _overridden(kind: type, base: type, name: str) -> Any:
    """The function that `kind` has in place of the one of `base`, decorators taken off; None where it has none."""
    found = getattr(kind, name)
    return None if found is getattr(base, name) else inspect.unwrap(found)


def listen_address(card: AgentCard, listen: str | None, *, registers: bool) -> Address | None:
    """Where an agent listens that does not listen at its card's URL; None where it does.

    Raises:
        InvalidArgumentError: It is no address, or the card has no use for one; or the card's own is one that nobody else can call.
    """
    if card.transport == "runtime":
        if listen is not None:
            raise InvalidArgumentError(f"an agent at {card.url} listens nowhere; give it a grpc:// url", field="listen")
        return None
    if card.url.partition("://")[0] in WEB:
        if listen is not None:
            raise InvalidArgumentError(f"an agent at {card.url} listens where http= says", field="listen")
        return None
    public = Address.parse(card.url, field="card.url")
    if registers and is_everywhere(public):
        raise InvalidArgumentError(
            f"{card.url} would be registered and nobody else can call it; put the name that others use into the url, "
            f"and pass listen={card.url!r}",
            field="card.url",
        )
    if listen is None:
        return None
    scheme = "grpcs" if public.secure else "grpc"
    return Address.parse(listen if "://" in listen else f"{scheme}://{listen}", field="listen")


def is_everywhere(address: Address) -> bool:
    """Whether it means every address of a machine: good for listening, useless for calling."""
    try:
        return ipaddress.ip_address(address.host).is_unspecified
    except ValueError:
        return False  # a name


def advertised(public: Address, taken: Address) -> str:
    """The URL that others are told: port 0 stands for the port that was taken."""
    return public.url if public.port else replace(public, port=taken.port).url


def resolve_card(
    card: AgentCard | dict[str, Any] | str | None,
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
    if isinstance(card, str):
        if "://" in card:
            raise InvalidArgumentError("is a URL; give the agent a name, and this as url", field="card")
        if name is not None:
            raise InvalidArgumentError("is a name, and name is given, too; leave one of both out", field="card")
        card, name = None, card
    if card is None:
        if not name:
            raise InvalidArgumentError("an agent needs a card or a name", field="card")
        given = url or (ANY_PORT if transport == "grpc" else f"{RUNTIME_SCHEME}{name}")
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
    if url.startswith(RUNTIME_SCHEME):
        found = "runtime"
        if not url.removeprefix(RUNTIME_SCHEME).strip("/"):
            raise InvalidArgumentError("must name the agent, like runtime://echo", field="card.url")
    elif (spoken := WEB.get(url.partition("://")[0])) is not None:
        found = wanted if wanted in spoken else spoken[0]
    else:
        Address.parse(url, field="card.url")
        found = "grpc"
    if wanted is not None and wanted != found:
        raise InvalidArgumentError(f"{url!r} is not a URL of transport {wanted!r}", field="card.url")
    return found
