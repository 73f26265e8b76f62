"""Our agents and our client at a real ProtoLink 0.8.3 registry; and at one of ours behind an `http://` URL."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from foreign_world import listening
from protolink.client import AgentClient as TheirAgentClient
from protolink.client import RegistryClient as TheirClient
from protolink.models import Task as TheirTask
from protolink.transport import get_transport
from protolink_peer_world import PATIENCE_S

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    AgentNotFoundError,
    InvalidArgumentError,
    Registry,
    RegistryClient,
    Task,
    TaskState,
    UnavailableError,
)
from protolink_grpc.client import registry_client
from protolink_grpc.errors import AmbiguousAgentError, LeaseNotFoundError
from protolink_grpc.wire.registry import AgentChangeKind, AgentFilter

PROGRAM = """
    import os
    import sys
    import traceback

    from protolink import Agent
    from protolink.discovery.registry import Registry

    def fail(*error):
        traceback.print_exception(*error)
        os._exit(1)  # the registry's thread would keep the process

    sys.excepthook = fail

    class Desk(Agent):
        async def handle_task(self, task):
            return task.complete(f"booked {task.get_last_part().content}")

    registry_port, agent_port = sys.argv[1:]
    registry = Registry(url=f"http://127.0.0.1:{registry_port}", verbosity=0)
    registry.start(background=True)
    url = f"http://127.0.0.1:{agent_port}"
    card = {"name": "desk", "description": "Books.", "url": url, "transport": "sse", "tags": ["travel"]}
    desk = Desk(card, transport="sse", registry=registry, verbosity=0)
    desk.start(background=True)
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Starts a ProtoLink registry, at which an agent of ProtoLink's is registered; always on the same ports."""
    ports = []
    for _ in range(2):
        bound, port = listening()
        bound.close()
        ports.append(str(port))
    program = tmp_path / "registry.py"
    program.write_text(dedent(PROGRAM))
    processes: list[subprocess.Popen[str]] = []

    def end() -> None:
        while processes:
            process = processes.pop()
            process.kill()
            process.communicate()

    def started() -> str:
        end()
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, str(program), *ports], stdin=pipe, stdout=pipe, text=True)
        processes.append(process)
        assert process.stdout is not None
        # Its HTTP server logs there, too.
        assert any(line.strip() == "ready" for line in process.stdout)
        return f"http://127.0.0.1:{ports[0]}"

    yield started
    end()


@pytest.fixture
def url(start: Callable[[], str]) -> str:
    return start()


def card(name: str, url: str, **fields: Any) -> AgentCard:
    return AgentCard(name=name, description=f"the {name}", url=url, **fields)


@asynccontextmanager
async def theirs(url: str) -> AsyncIterator[TheirClient]:
    carrier = get_transport("http", url=url, timeout=PATIENCE_S)
    try:
        yield TheirClient(carrier)
    finally:
        await carrier.close_loop_resources()


async def test_a_client_registers_discovers_and_leaves(url: str) -> None:
    client = RegistryClient(url)
    assert await client.register(card("ann", "http://ann.example:1", tags=["a"]), lease_ttl_s=30.0) == 30.0
    assert await client.heartbeat("HTTP://Ann.example:1/") > 0
    assert [each.name for each in await client.discover()] == ["ann", "desk"]
    assert [each.name for each in await client.discover({"tags": ["a"]})] == ["ann"]
    assert [each.name for each in await client.discover({"name": "desk", "tags": ["travel"]})] == ["desk"]
    assert (await client.get("desk")).card.transport == "sse"
    assert (await client.get("http://ANN.example:1/")).card.name == "ann"
    async with theirs(url) as other:
        assert {each.name for each in await other.discover()} == {"ann", "desk"}
    assert await client.unregister("http://Ann.example:1") is True
    assert await client.unregister("http://ann.example:1") is False
    assert [agent.card.name for agent in await client.list_agents(AgentFilter())] == ["desk"]


async def test_names_that_nobody_or_several_have_are_refused(url: str) -> None:
    client = RegistryClient(url)
    await client.register(card("desk", "http://another.example:1"))
    with pytest.raises(AmbiguousAgentError, match=r"http://another\.example:1"):
        await client.get("desk")
    with pytest.raises(AgentNotFoundError, match="nobody"):
        await client.get("nobody")
    with pytest.raises(LeaseNotFoundError):
        await client.heartbeat("http://somebody.example:1")


async def test_our_agent_registers_calls_a_peer_by_name_and_leaves(url: str) -> None:
    class Boss(Agent):
        async def handle_task(self, task: Task) -> Task:
            done = await self.call_agent("desk", Task.create("Rome"))
            return task.complete(done.messages[-1].text)

    async with Boss(name="boss", url="grpc://127.0.0.1:0", http="127.0.0.1:0", registry=url) as boss:
        async with theirs(url) as other:
            (found,) = [each for each in await other.discover() if each.name == "boss"]
        assert (found.url, found.transport) == (boss.http_url, "sse")
        done = await AgentClient(url=boss.card.url).send_task(None, Task.create("go"))
        assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "booked Rome")
        assert [peer.name for peer in await boss._peers.cards()] == ["desk"]
    assert [each.name for each in await RegistryClient(url).discover()] == ["desk"]


async def test_an_agent_of_protolink_calls_ours_by_what_the_registry_says(url: str) -> None:
    class Echo(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete(f"heard {task.messages[-1].text}")

    async with Echo(name="echo", url="grpc://127.0.0.1:0", http="127.0.0.1:0", registry=url), theirs(url) as other:
        (found,) = await other.discover({"name": "echo"})
        carrier = get_transport(found.transport, url="http://127.0.0.1:1", timeout=PATIENCE_S)
        try:
            done = await TheirAgentClient(carrier).send_task(found.url, TheirTask.create_infer(prompt="x"))
        finally:
            await carrier.close_loop_resources()
        assert done.state.value == "completed"


async def test_an_agent_registers_again_at_a_registry_that_has_forgotten_it(start: Callable[[], str]) -> None:
    url = start()
    async with Agent(name="boss", url="http://127.0.0.1:0", registry=url, lease_ttl_s=1.0):
        client = RegistryClient(url)
        assert "boss" in [each.name for each in await client.discover()]
        await asyncio.to_thread(start)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    if "boss" in [each.name for each in await client.discover()]:
                        break
                except UnavailableError:
                    pass
                await asyncio.sleep(0.05)


async def test_a_watch_shows_who_is_there_and_who_comes_and_goes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_client, "POLL_S", 0.01)
    client = RegistryClient(url)
    async with asyncio.timeout(PATIENCE_S), aclosing(client.watch()) as changes:
        first = await anext(changes)
        assert (first.kind, first.agent.card.name) == (AgentChangeKind.UP, "desk")
        await client.register(card("ann", "http://ann.example:1"))
        up = await anext(changes)
        assert (up.kind, up.agent.card.name) == (AgentChangeKind.UP, "ann")
        await client.unregister("http://ann.example:1")
        down = await anext(changes)
        assert (down.kind, down.agent.card.name) == (AgentChangeKind.DOWN, "ann")


# -- our own registry over HTTP ------------------------------------------------------------------------------------------------


async def test_our_registry_behind_an_http_url_is_the_whole_registry() -> None:
    async with Registry(http="127.0.0.1:0") as registry:
        client, other = RegistryClient(registry.http_url), RegistryClient(registry.url)
        async with asyncio.timeout(PATIENCE_S), aclosing(client.watch()) as changes:
            coming = asyncio.ensure_future(anext(changes))
            ttl_s = await client.register(
                card("ann", "grpc://ann.example:1", metadata={"region": "eu"}), lease_ttl_s=7.0
            )
            assert ttl_s == 7.0
            up = await coming
            assert (up.kind, up.agent.card.metadata) == (AgentChangeKind.UP, {"region": "eu"})
            assert up.agent.revision > 0
            found = await other.get("ann")
            assert found.card == up.agent.card
            assert await client.heartbeat("grpc://ann.example:1") == 7.0
            assert await client.unregister("grpc://ann.example:1") is True
            assert (await anext(changes)).kind is AgentChangeKind.DOWN


async def test_a_registry_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(UnavailableError):
        await RegistryClient("http://127.0.0.1:1", outage_s=0).discover()


@pytest.mark.parametrize("url", ["ws://127.0.0.1:1", "ftp://x", "http://user:secret@x", "http://x?y=1"])
def test_a_url_that_is_no_registrys_is_refused_by_its_name(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        RegistryClient(url)
    assert refused.value.field == "registry"
