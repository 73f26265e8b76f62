"""Connections of HTTP that go to judged addresses instead of names. What is judged how is decided by those who connect."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import httpcore

Judge = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to numeric addresses that may be connected to, at least one; raises a ProtolinkError where there is none."""


class Guarded(httpcore.AsyncNetworkBackend):
    """Asks for each new connection, and connects to what it was told: what the name resolves to a moment later does not matter."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._judge(host, port)
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue  # a host with several addresses may answer at another one
        return await self._network.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
