"""A connection between client and server that tests can interrupt."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from cut_wire import Wire


@pytest.fixture
async def wire() -> AsyncIterator[Callable[[str], Awaitable[Wire]]]:
    """Puts a wire before the server at a URL."""
    wires: list[Wire] = []

    async def string(url: str) -> Wire:
        wires.append(Wire(int(url.rpartition(":")[2]), "http" if url.startswith("http:") else "grpc"))
        await wires[-1].mend()
        return wires[-1]

    yield string
    for each in wires:
        await each.sever()
