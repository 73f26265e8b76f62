"""A real ProtoLink 0.8.3 registry client and a registry of this package: one directory for agents of every transport."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from protolink.client import RegistryClient
from protolink.models import AgentCard as PeerCard
from protolink.transport import get_transport
from protolink.transport.errors import TransportRemoteError
from protolink_peer_world import PATIENCE_S, serving
from starlette.routing import BaseRoute

from protolink_grpc import AgentCard, Principal
from protolink_grpc.compat.protolink.edge.registry import registry_routes
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.errors import AgentNotFoundError
from protolink_grpc.models.card import AgentCapabilities
from protolink_grpc.registry.directory import AgentDirectory
from protolink_grpc.registry.persistence import SQLiteDirectoryFile
from protolink_grpc.registry.service import RegistryService

TRANSPORTS = ("http", "sse", "websocket")


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def listed(service: RegistryService, guard: RequestGuard | None = None, **more: Any) -> AsyncIterator[str]:
    def routes(_: Callable[[], str]) -> Sequence[BaseRoute]:
        return registry_routes(guard or RequestGuard(), service, health=lambda: {"ready": True}, **more)

    async with service, serving(routes) as url:
        yield url


@asynccontextmanager
async def client_of(url: str, transport: str = "http", **options: Any) -> AsyncIterator[RegistryClient]:
    if transport == "websocket":
        url = f"ws{url.removeprefix('http')}"
    carrier = get_transport(transport, url=url, timeout=PATIENCE_S, **options)
    try:
        yield RegistryClient(carrier)
    finally:
        await carrier.close_loop_resources()


def peer_card(name: str, **fields: Any) -> PeerCard:
    return PeerCard(name=name, description=f"the {name}", url=f"http://{name}.example:8000", **fields)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_an_agent_registers_is_found_and_leaves(transport: str) -> None:
    async with listed(RegistryService()) as url, client_of(url, transport) as client:
        assert await client.register(peer_card("ann")) == {"status": "agent registered successfully"}
        assert await client.heartbeat("http://ann.example:8000") == {"status": "agent heartbeat recorded"}
        (found,) = await client.discover()
        assert (found.name, found.url, found.transport) == ("ann", "http://ann.example:8000", "http")
        assert await client.unregister(found.url) == {"status": "agent unregistered successfully"}
        assert await client.discover() == []
        assert await client.heartbeat(found.url) == {"status": "agent not found"}
        assert await client.unregister(found.url) == {"status": "agent unregistered successfully"}


async def test_agents_of_all_transports_are_listed(transport: str) -> None:
    service = RegistryService()
    async with listed(service) as url, client_of(url, transport) as client:
        await client.register(peer_card("ann"))
        await service.register(
            AgentCard(name="bob", description="the bob", url="grpc://bob.example:1", role="observer")
        )
        assert {(card.name, card.transport) for card in await client.discover()} == {("ann", "http"), ("bob", "grpc")}


async def test_agents_are_found_by_what_their_cards_say(transport: str) -> None:
    service = RegistryService()
    async with listed(service) as url, client_of(url, transport) as client:
        await client.register(peer_card("ann", tags=["a", "b"]))
        await client.register(peer_card("bob", tags=["b"], version="2.0.0"))
        await service.register(
            AgentCard(
                name="eve",
                description="the eve",
                url="grpc://eve.example:1",
                role="observer",
                capabilities=AgentCapabilities(streaming=True),
            )
        )
        for wanted, names in (
            ({"name": "bob"}, {"bob"}),
            ({"role": "observer"}, {"eve"}),
            ({"role": "worker"}, {"ann", "bob"}),
            ({"tags": "b"}, {"ann", "bob"}),
            ({"tags": ["a", "b"]}, {"ann"}),
            ({"name": "ann", "tags": ["b"]}, {"ann"}),
            ({"name": "ann", "role": "observer"}, set()),
            ({"version": "2.0.0"}, {"bob"}),
            ({"url": "grpc://eve.example:1"}, {"eve"}),
            ({"transport": "grpc"}, {"eve"}),
            ({"capabilities": "streaming"}, {"eve"}),
        ):
            assert {card.name for card in await client.discover(wanted)} == names, wanted


async def test_a_filter_may_be_one_json_value() -> None:
    service = RegistryService()
    async with listed(service) as url, httpx.AsyncClient() as bare:
        for name in ("ann", "bob"):
            await bare.post(f"{url}/agents/", json=peer_card(name, tags=[name]).to_dict())
        for query, names in (
            ('{"tags":["ann"]}', ["ann"]),
            ('{"name":"bob","capabilities":{"delegation":true}}', ["bob"]),
            ("{}", ["ann", "bob"]),
            ("", ["ann", "bob"]),
        ):
            answer = await bare.get(f"{url}/agents/", params={"filter_by": query})
            assert [card["name"] for card in answer.json()] == names


@pytest.mark.parametrize("query", [{"filter_by": "{"}, {"filter_by": "[1]"}, {"filter_by": "x"}, {"colour": "red"}])
async def test_a_filter_that_is_none_is_the_callers_mistake(query: dict[str, str]) -> None:
    async with listed(RegistryService()) as url, httpx.AsyncClient() as bare:
        answer = await bare.get(f"{url}/agents/", params=query)
    assert (answer.status_code, answer.json()["reason"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("body", [None, [], {"name": "x"}, {"name": 1, "description": "d", "url": "http://x:1"}])
async def test_a_card_that_is_none_is_refused(body: Any) -> None:
    async with listed(RegistryService()) as url, httpx.AsyncClient() as bare:
        answer = await bare.post(f"{url}/agents/", json=body)
    assert (answer.status_code, answer.json()["reason"]) == (400, "INVALID_ARGUMENT")


async def test_heartbeats_keep_a_lease_and_silence_ends_it() -> None:
    clock = Clock()
    service = RegistryService(AgentDirectory(clock=clock))
    async with listed(service, lease_ttl_s=60.0) as url, client_of(url) as client:
        await client.register(peer_card("ann"))
        for _ in range(4):
            clock.now += 40.0
            assert (await client.heartbeat("http://ann.example:8000"))["status"] == "agent heartbeat recorded"
        clock.now += 61.0
        assert await client.discover() == []
        assert (await client.heartbeat("http://ann.example:8000"))["status"] == "agent not found"


async def test_an_agent_that_registers_again_keeps_its_lease() -> None:
    service = RegistryService()
    async with listed(service) as url, client_of(url) as client:
        await client.register(peer_card("ann"))
        before = (await service.get("http://ann.example:8000")).revision
        await client.register(peer_card("ann"))
        assert (await service.get("http://ann.example:8000")).revision == before


async def test_a_heartbeat_counts_after_a_restart_of_the_registry(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    async with listed(RegistryService(file=SQLiteDirectoryFile(path))) as url, client_of(url) as client:
        await client.register(peer_card("ann"))
    async with listed(RegistryService(file=SQLiteDirectoryFile(path))) as url, client_of(url) as client:
        assert (await client.heartbeat("http://ann.example:8000"))["status"] == "agent heartbeat recorded"
        await client.unregister("http://ann.example:8000")
        assert await client.discover() == []


async def test_a_name_is_no_url() -> None:
    service = RegistryService()
    async with listed(service) as url, client_of(url) as client:
        await client.register(peer_card("ann"))
        assert (await client.heartbeat("ann"))["status"] == "agent not found"
        await client.unregister("ann")
        assert [card.name for card in await client.discover()] == ["ann"]


async def by_key(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("x-api-key")
    return Principal(name) if name else None


def credentials(name: str) -> dict[str, Any]:
    from protolink.security.auth import APIKeyAuth

    return {"authenticator": APIKeyAuth({name: ["all"]}), "credentials": name}


async def test_a_registration_is_its_owners(transport: str) -> None:
    service = RegistryService()
    async with (
        listed(service, RequestGuard(by_key)) as url,
        client_of(url, transport, **credentials("ann")) as ann,
        client_of(url, transport, **credentials("bob")) as bob,
    ):
        await ann.register(peer_card("ann"))
        with pytest.raises(TransportRemoteError, match="AGENT_CONFLICT"):
            await bob.register(peer_card("ann"))
        assert (await bob.heartbeat("http://ann.example:8000"))["status"] == "agent not found"
        await bob.unregister("http://ann.example:8000")
        assert [card.name for card in await bob.discover()] == ["ann"]
        await ann.unregister("http://ann.example:8000")
        with pytest.raises(AgentNotFoundError):
            await service.get("http://ann.example:8000")


async def test_the_registry_has_a_page_and_a_health() -> None:
    async with listed(RegistryService()) as url, client_of(url) as client, httpx.AsyncClient() as bare:
        await client.register(peer_card("ann", tags=["<b>"]))
        await client.register(PeerCard(name="<script>", description="d", url="http://evil.example:1"))
        page = await bare.get(f"{url}/status")
        assert "2 agents" in page.text
        assert "&lt;script&gt;" in page.text
        assert "<script>" not in page.text
        assert (await bare.get(f"{url}/readyz")).json() == {"ready": True}
