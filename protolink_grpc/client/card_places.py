"""Where a card leads: its interfaces as places, and which of them may be followed from where the card was found.

A peer writes its card as it likes, and this process connects to what it names. So TLS is never given up for it, and a card from a
public place leads to none that only this process can reach: what a name resolves to is judged, and connections go to the judged
addresses. What the caller has named, as the peer or as a trusted origin, the caller has judged.
"""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from a2a.types import a2a_pb2 as pb

from protolink_grpc.a2a.values import V1
from protolink_grpc.client.http_channel import Sender
from protolink_grpc.errors import InvalidAgentResponseError, InvalidArgumentError, UnavailableError
from protolink_grpc.wire.address import Address, WebAddress, is_loopback
from protolink_grpc.wire.guarded import Judge
from protolink_grpc.wire.reach import Network, is_permitted, networks

GRPC = "GRPC"

LOOK_UP_S = 5.0
"""How long a name may take to resolve; the system's own resolver gives one server as much."""

_ANYWHERE = networks(("0.0.0.0/0", "::/0"))
"""Everything but where clouds give a machine its credentials, which no allowance reaches."""


@dataclass(frozen=True, slots=True)
class Place:
    """An interface that could be taken.

    Args:
        url: As the card spells it, because a slash at its end may matter.
        web: Where it is, for its headers: that of a gRPC interface, too.
        grpc: Where it is as a gRPC address, None over HTTP.
    """

    url: str
    web: WebAddress
    grpc: Address | None
    binding: str
    version: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Guide:
    """How to get to a place.

    Args:
        judge: Asked for each new connection; None goes by name.
        addresses: What it has answered last, all of one family.
    """

    judge: Judge | None = None
    addresses: tuple[str, ...] = ()


def place_of(interface: pb.AgentInterface, sender: Sender) -> Place | None:
    """The place of an interface; None for a URL that cannot be called."""
    version = V1 if interface.protocol_version.startswith("1.") else ".".join(interface.protocol_version.split(".")[:2])
    binding = interface.protocol_binding
    try:
        target = grpc_address(interface.url, sender.address) if binding == GRPC else None
        web = WebAddress.parse(interface.url) if target is None else _web(target)
    except InvalidArgumentError:
        return None
    return Place(interface.url, web, target, binding, version, interface.tenant)


def _web(target: Address) -> WebAddress:
    return WebAddress("https" if target.secure else "http", target.host, target.port)


def grpc_address(url: str, named: WebAddress) -> Address:
    """The address of a gRPC interface. One without a scheme, as v1.0 wants it, is as secure as the card was.

    Raises:
        InvalidArgumentError: It is none.
    """
    if "://" not in url:
        return Address.parse(f"{'grpcs' if named.secure else 'grpc'}://{url}")
    scheme, _, rest = url.partition("://")
    if scheme in ("http", "https"):
        web = WebAddress.parse(url)
        return Address(web.host, web.port, web.secure)
    return Address.parse(f"{scheme}://{rest}")


# -- what may be followed ------------------------------------------------------------------------------------------------------


async def guide_to(place: Place, sender: Sender, came_from: str) -> Guide:
    """How the caller of `sender` gets to a place that only the peer has named.

    Args:
        came_from: The numeric address that the card came from; empty where that is not known, which is taken for a public one.

    Raises:
        InvalidAgentResponseError: The card must not lead there.
        UnavailableError: A gRPC interface has no address to judge, or not now.
    """
    named = sender.address
    if sender.may_have(place.web.origin):
        return Guide()
    if named.secure and not place.web.secure and not (sender.insecure_ok or is_loopback(named.host)):
        raise InvalidAgentResponseError(
            f"the card of {named.url} leads from TLS to {place.web.origin}, which is in the clear: "
            "allow it with insecure_ok=True, or name that origin as a trusted one",
            url=named.url,
        )
    if place.web.host == named.host or (is_loopback(place.web.host) and is_loopback(named.host)):
        return Guide()
    is_public = not came_from or is_permitted(ip_address(came_from), ())
    judge = public_addresses if is_public else private_addresses_too
    try:
        found = await judge(place.web.host, place.web.port)
    except UnavailableError:
        if place.grpc is not None:
            raise
        found = []  # a proxy may know the name; where there is none, each connection is judged again
    return Guide(judge, tuple(each for each in found if (":" in each) == (":" in found[0])))


async def public_addresses(host: str, port: int) -> Sequence[str]:
    """Where the card of a public peer may lead; a `Judge`."""
    return await _judged(host, port, ())


async def private_addresses_too(host: str, port: int) -> Sequence[str]:
    """Where the card of a peer may lead that is itself on this machine or in a private network; a `Judge`."""
    return await _judged(host, port, _ANYWHERE)


async def _judged(host: str, port: int, allowed: Sequence[Network]) -> Sequence[str]:
    try:
        async with asyncio.timeout(LOOK_UP_S):
            found = await look_up(host, port)
    except (OSError, UnicodeError, TimeoutError):
        found = []
    if not found:
        url = f"{host}:{port}"
        raise UnavailableError(f"{url}, which a card names, has no address", url=url, unreached="true")
    # Each of them: a name with a public and a private address would else be a matter of luck.
    if not all(is_permitted(ip_address(each), allowed) for each in found):
        raise InvalidAgentResponseError(
            f"a card leads to {host}, which is on this machine or in a private network, while the card is not: "
            "if that is meant, name its origin as a trusted one",
            host=host,
        )
    return found


async def look_up(host: str, port: int) -> Sequence[str]:
    """The numeric addresses that the system has for a name. Raises OSError where there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
