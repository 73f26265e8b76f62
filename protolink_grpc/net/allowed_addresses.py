"""The IP addresses that this process may connect to for a URL chosen by a caller or a peer (webhooks, interfaces of cards)."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

IPAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PRIVATE: Final = "private"
"""Value in `allow` for all private networks and the loopback interface. Link-local addresses are not included."""

_PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "::1", "fc00::/7")

_EMBEDDING: Final = (ip_network("64:ff9b::/96"), ip_network("::ffff:0:0/96"))
"""NAT64 and IPv4-mapped addresses. Each contains an IPv4 address in its last 32 bits and is checked as that address."""

# `ipaddress.is_global` does not exclude all of these, and its result depends on the Python version.
_NEVER: Final = tuple(
    map(
        ip_network,
        (
            *("0.0.0.0/8", "192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            *("::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10", "ff00::/8"),
        ),
    )
)
"""Reserved and multicast networks, and tunnels to IPv4 addresses through a relay. Source: IANA's special-purpose registries."""

_METADATA: Final = frozenset(
    map(
        ip_address,
        (
            *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16"),
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe"),
        ),
    )
)
"""Addresses of the services that give a machine its cloud credentials. They are refused even if `allow` contains them.

In this order: AWS, Google and Azure; AWS for containers; AWS for pods; Alibaba; Azure; AWS; AWS for pods; Google; OpenStack.
"""


def parse_networks(allow: Iterable[str]) -> tuple[Network, ...]:
    """Parse the networks that are permitted although they are not public.

    Raises:
        ValueError: An entry is neither a network nor "private".
    """
    spelled = (each for word in allow for each in (_PRIVATE if word == PRIVATE else (word,)))
    return tuple(ip_network(each) for each in spelled)


def is_permitted(address: IPAddress, allowed: Sequence[Network]) -> bool:
    """Return whether connections to an address are permitted: it is public, or in one of the `allowed` networks."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            address = IPv6Address(int(address))
        for embedding in _EMBEDDING:
            if address in embedding:
                return is_permitted(IPv4Address(int(address) & 0xFFFFFFFF), allowed)
    if address in _METADATA:
        return False
    if any(address in network for network in allowed):
        return True
    return address.is_global and not any(address in network for network in _NEVER)
