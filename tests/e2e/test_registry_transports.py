"""Registries at URLs of every transport, and with transport objects."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentChangeKind,
    AgentConflictError,
    AgentNotFoundError,
    InvalidArgumentError,
    Principal,
    Registry,
    RegistryClient,
    Task,
    UnauthenticatedError,
    UnavailableError,
)
from protolink_grpc.transport import (
    GRPCTransport,
    HTTPTransport,
    RuntimeTransport,
    SSEJSONRPCTransport,
    Transport,
    WebSocketTransport,
)

URLS = {
    GRPCTransport: "grpc://127.0.0.1:0",
    HTTPTransport: "http://127.0.0.1:0",
    SSEJSONRPCTransport: "http://127.0.0.1:0",
    WebSocketTransport: "ws://127.0.0.1:0",
    RuntimeTransport: "runtime://registry",
}


@pytest.fixture(params=URLS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[Transport]:
    return request.param


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete(f"echo: {task.messages[-1].text}")


async def test_agents_find_each_other_in_a_registry_with_a_transport_object(kind: type[Transport]) -> None:
    transport = kind(URLS[kind])
    async with Registry(transport) as registry:
        assert transport.is_running
        echo = Echo("echo", url="grpc://127.0.0.1:0", registry=registry)
        url = registry.url.replace("http", "ws") if kind is WebSocketTransport else registry.url
        caller = Agent("caller", registry=RegistryClient(kind(url)))
        async with echo, caller:
            assert [card.name for card in await caller.discover_agents()] == ["caller", "echo"]
            assert (await caller.call_agent("echo", "hello")).get_output() == "echo: hello"
        assert await registry.client.list_agents() == []
    assert not transport.is_running


async def test_a_registry_is_given_by_the_name_of_its_transport_and_its_url(kind: type[Transport]) -> None:
    name = kind.transport_type
    async with (
        Registry(name, URLS[kind]) as registry,
        Echo("echo", url="grpc://127.0.0.1:0", registry=name, registry_url=registry.url),
    ):
        found = await RegistryClient(registry.url).get("echo")
    assert found.card.name == "echo"


async def test_a_client_of_a_registry_has_the_credentials_of_its_transport() -> None:
    async def one_token(method: str, metadata: Mapping[str, str]) -> Principal | None:
        return Principal("ada") if metadata.get("authorization") == "Bearer secret" else None

    async with Registry(HTTPTransport("http://127.0.0.1:0", authenticator=one_token)) as registry:
        transport = HTTPTransport(registry.url)
        client = RegistryClient(transport)
        with pytest.raises(UnauthenticatedError):
            await client.list_agents()
        await transport.authenticate("secret")
        assert await client.list_agents() == []


async def test_a_registry_with_an_http_url_has_no_grpc_port() -> None:
    async with Registry(url="http://127.0.0.1:0") as registry:
        assert registry.url == registry.http_url != "http://127.0.0.1:0"


@pytest.mark.parametrize("url", ["http://127.0.0.1:0", "runtime://registry"])
async def test_a_stopped_registry_is_unavailable_and_can_be_started_again(url: str) -> None:
    registry = Registry(url=url)
    await registry.serve()
    client = RegistryClient(registry.url)
    await registry.aclose()
    client = RegistryClient(registry.url, timeout=1.0, outage_s=0.0)
    with pytest.raises(UnavailableError):
        await client.list_agents()
    async with registry:
        assert await registry.client.list_agents() == []


# -- In this process -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def local() -> AsyncIterator[Registry]:
    async with Registry(url="runtime://registry") as registry:
        yield registry


async def test_a_registry_of_this_process_can_be_watched(local: Registry) -> None:
    client, complete = RegistryClient(local.url), asyncio.Event()
    seen: list[Any] = []

    async def watch() -> None:
        async for change in client.watch(complete=complete):
            seen.append((change.kind, change.agent.card.name))
            if change.kind is AgentChangeKind.DOWN:
                return

    watching = asyncio.create_task(watch())
    await complete.wait()
    async with Echo("echo", registry=local):
        pass
    await watching
    assert [seen[0], seen[-1]] == [(AgentChangeKind.UP, "echo"), (AgentChangeKind.DOWN, "echo")]


async def test_errors_of_a_registry_of_this_process_are_typed(local: Registry) -> None:
    client = RegistryClient(local.url)
    with pytest.raises(AgentNotFoundError):
        await client.get("missing")
    with pytest.raises(InvalidArgumentError, match=r"card\.url"):
        await client.register(AgentCard("echo", "Echo", "nowhere"))


async def test_two_registries_of_this_process_cannot_have_one_url(local: Registry) -> None:
    with pytest.raises(AgentConflictError, match="another registry in this process has the URL runtime://registry"):
        await Registry(url=local.url).serve()
    assert await local.client.list_agents() == []


async def test_a_registry_on_the_background_loop_is_called_from_another_loop() -> None:
    registry = Registry("runtime", "runtime://registry")
    await asyncio.to_thread(registry.start, background=True)
    try:
        async with Echo("echo", registry=registry.url):
            assert [card.name for card in await RegistryClient(registry.url).discover()] == ["echo"]
    finally:
        await asyncio.to_thread(registry.stop)


# -- Wrong settings ------------------------------------------------------------------------------------------------------


def test_a_registry_over_another_transport_than_grpc_needs_a_url() -> None:
    with pytest.raises(InvalidArgumentError, match="url: is required with transport 'http'"):
        Registry("http")


def test_a_url_of_another_transport_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="is not a URL of transport 'http'"):
        Registry("http", "grpc://127.0.0.1:0")


def test_a_transport_object_has_the_url_of_the_registry() -> None:
    with pytest.raises(InvalidArgumentError, match="transport: has its own url"):
        Registry(RuntimeTransport("runtime://a"), "runtime://b")
