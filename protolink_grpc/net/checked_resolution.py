"""Resolves a host and checks all of its addresses. The connection is then made to one of them, not to the name."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Final

from protolink_grpc.net.allowed_addresses import Network, is_permitted

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves host and port to numeric addresses. Raises OSError if the host has none."""

RESOLVE_S: Final = 5.0
"""Timeout of a resolution; the system's own resolver waits as long for one server."""


class ForbiddenAddressError(Exception):
    """A host has an address that is not permitted. Callers convert this to an error of their own."""


async def resolve_permitted(resolve: Resolve, host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """Return the numeric addresses of a host. The list is empty if it has none or is not resolved within `RESOLVE_S`.

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
    # All are checked: with a public and a private address, the connection could go to either.
    if not all(is_permitted(each, allowed) for each in found):
        raise ForbiddenAddressError(host)
    return [str(each) for each in found]
