"""Resolves a host and checks all of its addresses. A connection then goes to one of them, not to the name."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Final

from protolink_grpc.net.allowed_addresses import Network, is_permitted

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to numeric addresses; raises OSError where there are none."""

RESOLVE_S: Final = 5.0
"""Timeout of a resolution; the system's own resolver waits as long for one server."""


class ForbiddenAddressError(Exception):
    """A host has an address that must not be connected to. Callers answer with an error of their own."""


async def resolve_permitted(resolve: Resolve, host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """The numeric addresses of a host, or an empty list if it has none or is not resolved within `RESOLVE_S`.

    Args:
        allowed: Networks that are permitted although they are not public.

    Raises:
        ForbiddenAddressError: One of the addresses is not permitted.
    """
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = [ip_address(each) for each in await resolve(host, port)]
    except (OSError, UnicodeError, TimeoutError):
        return []
    # All of them: with a public and a private address, the one that is connected to would be a matter of luck.
    if not all(is_permitted(each, allowed) for each in found):
        raise ForbiddenAddressError(host)
    return [str(each) for each in found]
