"""One running agent of each kind per module."""

from collections.abc import AsyncIterator

import pytest_asyncio
from interop_stage import KINDS, World, running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def full() -> AsyncIterator[World]:
    """An agent that can do everything, for callers with credentials."""
    options, authenticated = KINDS["full"]
    async with running(options, authenticated=authenticated) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare() -> AsyncIterator[World]:
    """An agent without authentication, streams, notifications and an extended card."""
    async with running(KINDS["bare"][0]) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def speaking() -> AsyncIterator[World]:
    """An agent that may answer with messages."""
    async with running(KINDS["speaking"][0]) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def demanding() -> AsyncIterator[World]:
    """An agent that demands an extension."""
    async with running(KINDS["demanding"][0]) as found:
        yield found
