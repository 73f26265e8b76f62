"""The agents of the A2A suite, one of each kind per module, and the bindings over which the tests call them."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from a2a_stage import DEMANDED, OFFERED, World, agent_with, card, playing, push
from a2a_wires import V03_NAMES, V1_NAMES, Caller

from protolink_grpc import A2AOptions, AgentCard, Extension, Principal


@pytest.fixture(params=[*V1_NAMES, *V03_NAMES])
def binding(request: pytest.FixtureRequest) -> str:
    """Every binding, of both versions."""
    name: str = request.param
    return name


def extended(principal: Principal) -> AgentCard | None:
    """An extended card for each caller, except for callers with certain names."""
    if principal.name.startswith("stranger"):
        return None
    return replace(card(), description=f"knows {principal.name}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[World]:
    """An agent that can do everything, for callers with credentials."""
    async with playing(agent_with(A2AOptions(push=push(), extended_card=extended))) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare() -> AsyncIterator[World]:
    """An agent without capabilities and with two tenants, open to all callers."""
    options = A2AOptions(streaming=False, tenants=frozenset({"acme", "umbrella"}))
    async with playing(agent_with(options, authenticated=False)) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def demanding() -> AsyncIterator[World]:
    """An agent that demands an extension."""
    extensions = (Extension(DEMANDED, required=True), Extension(OFFERED))
    async with playing(agent_with(A2AOptions(push=push(), extended_card=extended, extensions=extensions))) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def speaking() -> AsyncIterator[World]:
    """An agent that may answer with messages."""
    async with playing(agent_with(A2AOptions(push=push(), message_replies=True))) as found:
        yield found


@pytest.fixture
def caller(world: World, binding: str) -> Caller:
    """A new caller over that binding."""
    return world.caller(binding)
