"""HTTP connections to checked IP addresses instead of names, so that a DNS answer cannot change between check and connection."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import httpcore

AddressResolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves host and port to at least one permitted IP address. Raises ProtolinkError if the host has no such address."""


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Resolves and checks the host of each new connection, and connects to one of the checked addresses."""

    def __init__(self, resolve: AddressResolver) -> None:
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._resolve(host, port)
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue  # another address of the host may be reachable
        return await self._network.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
