"""Builds an agent's card and its listen address from the arguments of `Agent`, and checks that URL and transport agree."""

import inspect
import ipaddress
from dataclasses import replace
from typing import Any

from protolink_grpc.compat.protolink.transports import Transport
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import TRANSPORT_ALIASES, AgentCard
from protolink_grpc.net.address import RUNTIME_SCHEME, Address, comparable_url

TRANSPORTS = ("grpc", "runtime", "http", "sse", "websocket")
ANY_PORT = "grpc://127.0.0.1:0"
"""Default URL of a gRPC agent: a free port of this machine."""

WEB = {"http": ("http", "sse"), "https": ("http", "sse"), "ws": ("websocket",), "wss": ("websocket",)}
"""Transports of a ProtoLink URL by its scheme, the default first. One HTTP port serves all of them."""


def check_handlers(cls: type, base: type) -> None:
    """Check that overridden handlers are of the right type, so that the error does not appear only with the first task.

    Raises:
        TypeError: A handler has the wrong type; names class and method.
    """
    handler, streaming = (_override(cls, base, name) for name in ("handle_task", "handle_task_streaming"))
    if handler is not None and not inspect.iscoroutinefunction(handler):
        raise TypeError(f"{cls.__name__}.handle_task must be async: write `async def handle_task(self, task)`")
    if streaming is not None and inspect.iscoroutinefunction(streaming):
        raise TypeError(
            f"{cls.__name__}.handle_task_streaming must be an async generator, but has no `yield`; "
            "to return a task, override handle_task"
        )


def _override(cls: type, base: type, name: str) -> Any:
    """Return the method of `cls` without its decorators if it overrides that of `base`; otherwise None."""
    found = getattr(cls, name)
    return None if found is getattr(base, name) else inspect.unwrap(found)


def listen_address(card: AgentCard, listen: str | None, *, registers: bool) -> Address | None:
    """Return the listen address of an agent; None if it listens at the URL of its card.

    Raises:
        InvalidArgumentError: The address is invalid or the card's transport does not use one; or the card's URL is a wildcard
            address and would be registered.
    """
    if card.transport == "runtime":
        if listen is not None:
            raise InvalidArgumentError(f"an agent at {card.url} has no port; give it a grpc:// url", field="listen")
        return None
    if card.url.partition("://")[0] in WEB:
        if listen is not None:
            raise InvalidArgumentError(
                f"an agent at {card.url} has no gRPC port; set the listen address with http=", field="listen"
            )
        return None
    public = Address.parse(card.url, field="card.url")
    if registers and is_wildcard(public):
        raise InvalidArgumentError(
            f"{card.url} is not reachable from other machines, so it cannot be registered; use the public host name in "
            f"the url, and pass listen={card.url!r}",
            field="card.url",
        )
    if listen is None:
        return None
    scheme = "grpcs" if public.secure else "grpc"
    return Address.parse(listen if "://" in listen else f"{scheme}://{listen}", field="listen")


def is_wildcard(address: Address) -> bool:
    """Return whether the address is 0.0.0.0 or [::]. A server can listen on it, but clients cannot call it."""
    try:
        return ipaddress.ip_address(address.host).is_unspecified
    except ValueError:
        return False  # a name


def public_url(public: Address, actual: Address) -> str:
    """Return the public URL. A port 0 is replaced by the actual port."""
    return public.url if public.port else replace(public, port=actual.port).url


def resolve_card(
    card: AgentCard | dict[str, Any] | str | None,
    transport: str | Transport | None,
    *,
    name: str | None = None,
    description: str | None = None,
    url: str | None = None,
) -> AgentCard:
    """Return a new card for the agent, from a card, a dict or a name.

    Raises:
        InvalidArgumentError: A required value is missing, or URL and transport contradict each other; names the field.
    """
    if isinstance(transport, Transport):
        card, url, transport = _at_transport(card, url, transport)
    if isinstance(card, str):
        if "://" in card:
            raise InvalidArgumentError("is a URL; pass a name here and the URL as url", field="card")
        if name is not None:
            raise InvalidArgumentError("is a name, and name is also set; set only one of them", field="card")
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
    return replace(own, transport=resolve_transport(own.url, transport))


def _at_transport(
    card: AgentCard | dict[str, Any] | str | None, url: str | None, transport: Transport
) -> tuple[AgentCard | dict[str, Any] | str | None, str, str]:
    """Return the card, the URL and the name of the transport. Raises InvalidArgumentError if the card has another URL."""
    given = url or (card.url if isinstance(card, AgentCard) else card.get("url") if isinstance(card, dict) else None)
    if isinstance(given, str) and comparable_url(given) != comparable_url(transport.url):
        raise InvalidArgumentError(
            f"has the URL {transport.url}, and the card has {given}; for another address to listen on, use listen= or http=",
            field="transport",
        )
    return card, given or transport.url, transport.transport_type


def resolve_transport(url: str, wanted: str | None, *, field: str = "card.url") -> str:
    """Return the transport of a URL, which may be given, too.

    Raises:
        InvalidArgumentError: URL and transport contradict each other; names `field` or `transport`.
    """
    wanted = None if wanted is None else TRANSPORT_ALIASES.get(wanted, wanted)
    if wanted is not None and wanted not in TRANSPORTS:
        raise InvalidArgumentError(f"{wanted!r} is not one of {', '.join(TRANSPORTS)}", field="transport")
    if url.startswith(RUNTIME_SCHEME):
        found = "runtime"
        if not url.removeprefix(RUNTIME_SCHEME).strip("/"):
            raise InvalidArgumentError("needs a name, like runtime://echo", field=field)
    elif (supported := WEB.get(url.partition("://")[0])) is not None:
        found = wanted if wanted in supported else supported[0]
    else:
        Address.parse(url, field=field)
        found = "grpc"
    if wanted is not None and wanted != found:
        raise InvalidArgumentError(f"{url!r} is not a URL of transport {wanted!r}", field=field)
    return found
