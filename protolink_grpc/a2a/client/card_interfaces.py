"""The interfaces of a peer's card, and the check whether this process may connect to them.

A peer controls the contents of its card, and this process connects to the URLs in it (a risk of SSRF). Therefore a card read over
TLS cannot lead to an unencrypted interface (unless `insecure_ok` allows it), and a card from a public address cannot lead to a
private one: the addresses that a name resolves to are checked, and connections go to the checked addresses. Origins that the caller
has named, as the peer or as a trusted origin, are not checked.
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
from protolink_grpc.net.address import Address, WebAddress, is_loopback
from protolink_grpc.net.allowed_addresses import Network, is_permitted, parse_networks
from protolink_grpc.net.checked_resolution import ForbiddenAddressError, resolve_permitted
from protolink_grpc.net.pinned_connections import AddressResolver

GRPC = "GRPC"

_ANYWHERE = parse_networks(("0.0.0.0/0", "::/0"))
"""All addresses. `is_permitted` still refuses the metadata services of clouds, which hand out a machine's credentials."""


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """An interface of a card that can be called.

    Args:
        url: As the card spells it, because a slash at the end can matter.
        web: Web address of the interface, used to select its headers; set for gRPC interfaces, too.
        grpc: gRPC address of the interface; None for HTTP.
    """

    url: str
    web: WebAddress
    grpc: Address | None
    binding: str
    version: str
    tenant: str


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """The way to connect to an interface.

    Args:
        resolve: Resolves and checks the host for each new connection; None connects by name, without a check.
        addresses: The checked addresses of the host, all of one address family.
    """

    resolve: AddressResolver | None = None
    addresses: tuple[str, ...] = ()


def interface_address(interface: pb.AgentInterface, sender: Sender) -> InterfaceAddress | None:
    """Return the address of an interface, or None if its URL cannot be called."""
    version = V1 if interface.protocol_version.startswith("1.") else ".".join(interface.protocol_version.split(".")[:2])
    binding = interface.protocol_binding
    try:
        target = grpc_address(interface.url, sender.address) if binding == GRPC else None
        web = WebAddress.parse(interface.url) if target is None else _web_address(target)
    except InvalidArgumentError:
        return None
    return InterfaceAddress(interface.url, web, target, binding, version, interface.tenant)


def _web_address(target: Address) -> WebAddress:
    return WebAddress("https" if target.secure else "http", target.host, target.port)


def grpc_address(url: str, named: WebAddress) -> Address:
    """Return the address of a gRPC interface. A URL without a scheme, as in v1.0, uses TLS if the card's address does.

    Raises:
        InvalidArgumentError: The URL is not a valid address.
    """
    if "://" not in url:
        return Address.parse(f"{'grpcs' if named.secure else 'grpc'}://{url}")
    scheme, _, rest = url.partition("://")
    if scheme in ("http", "https"):
        web = WebAddress.parse(url)
        return Address(web.host, web.port, web.secure)
    return Address.parse(f"{scheme}://{rest}")


# -- checks ------------------------------------------------------------------------------------------------------


async def resolve_address(place: InterfaceAddress, sender: Sender, source_address: str) -> ResolvedAddress:
    """Check an interface of a card and return how to connect to it.

    Args:
        source_address: The numeric address that the card came from; empty if unknown, which counts as a public address.

    Raises:
        InvalidAgentResponseError: The card must not lead to this address.
        UnavailableError: The host of a gRPC interface has no address now.
    """
    named = sender.address
    if sender.may_receive_credentials(place.web.origin):
        return ResolvedAddress()
    if named.secure and not place.web.secure and not (sender.insecure_ok or is_loopback(named.host)):
        raise InvalidAgentResponseError(
            f"the card of {named.url}, which uses TLS, leads to {place.web.origin}, which does not: "
            "allow this with insecure_ok=True, or add that origin to trusted_origins",
            url=named.url,
        )
    if place.web.host == named.host or (is_loopback(place.web.host) and is_loopback(named.host)):
        return ResolvedAddress()
    is_public = not source_address or is_permitted(ip_address(source_address), ())
    resolve = resolve_public if is_public else resolve_any
    try:
        found = await resolve(place.web.host, place.web.port)
    except UnavailableError:
        if place.grpc is not None:
            raise
        found = []  # a proxy may resolve the name; without a proxy, each connection is checked again
    return ResolvedAddress(resolve, tuple(each for each in found if (":" in each) == (":" in found[0])))


async def resolve_public(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host that the card of a public peer may lead to; an `AddressResolver`."""
    return await _resolve_checked(host, port, ())


async def resolve_any(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host that the card of a peer on this machine or in a private network may lead to; an
    `AddressResolver`."""
    return await _resolve_checked(host, port, _ANYWHERE)


async def _resolve_checked(host: str, port: int, allowed: Sequence[Network]) -> Sequence[str]:
    try:
        found = await resolve_permitted(resolve_by_system, host, port, allowed)
    except ForbiddenAddressError:
        raise InvalidAgentResponseError(
            f"a public card leads to {host}, which is on this machine or in a private network: "
            "to allow this, add its origin to trusted_origins",
            host=host,
        ) from None
    if not found:
        url = f"{host}:{port}"
        raise UnavailableError(f"{url}, an interface of a card, has no address", url=url, unreached="true")
    return found


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Resolve a name with the system's resolver. Raises OSError if it has no address."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
