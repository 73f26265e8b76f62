"""Ownership of names, over real sockets: principals that compete for a name, several instances, restarts, administrators."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from foreign_world import listening

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentChange,
    AgentChangeKind,
    AgentConflictError,
    AgentNotFoundError,
    InvalidArgumentError,
    LeaseNotFoundError,
    Message,
    Principal,
    Registry,
    RegistryClient,
    ResourceExhaustedError,
    Task,
    UnavailableError,
)
from protolink_grpc.auth import APIKey, APIKeyAuth
from protolink_grpc.registry import AgentDirectory

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""

KEYS = APIKeyAuth(
    {
        "k-ann": Principal("ann", frozenset({"fleet"})),
        "k-ann-2": Principal("ann-2", frozenset({"fleet"})),
        "k-eve": Principal("eve"),
        "k-root": Principal("root", frozenset({"registry.admin"})),
    }
)


def guarded(**options: Any) -> Registry:
    return Registry(authenticator=KEYS, http="127.0.0.1:0", admin_scope="registry.admin", **options)


def client(registry: Registry, who: str) -> RegistryClient:
    return RegistryClient(registry.url, credentials=APIKey(f"k-{who}"))


def card(name: str, port: int) -> AgentCard:
    return AgentCard(name=name, description="d", url=f"grpc://127.0.0.1:{port}")


@asynccontextmanager
async def changes_of(registry: Registry, who: str = "ann") -> AsyncIterator[Callable[[], Awaitable[AgentChange]]]:
    """The next change, and the one after that."""
    watch = client(registry, who).watch()
    waiting = asyncio.ensure_future(anext(watch))

    async def next_change() -> AgentChange:
        nonlocal waiting
        async with asyncio.timeout(WAIT_S):
            change = await waiting
        waiting = asyncio.ensure_future(anext(watch))
        return change

    try:
        yield next_change
    finally:
        waiting.cancel()
        await asyncio.wait([waiting])
        await watch.aclose()


async def test_a_name_whose_lease_has_lapsed_goes_to_no_other_principal() -> None:
    async with guarded() as registry, changes_of(registry) as next_change:
        ann, eve = client(registry, "ann"), client(registry, "eve")
        await ann.register(card("bank", 4001), lease_ttl_s=1.0)
        assert (await next_change()).kind is AgentChangeKind.UP
        assert (await next_change()).kind is AgentChangeKind.EXPIRED
        for attempt in (card("bank", 4001), card("bank", 4666), card("BANK", 4666)):
            with pytest.raises(AgentConflictError) as caught:
                await eve.register(attempt)
            assert "ann" not in str(caught.value)
        with pytest.raises(AgentNotFoundError):
            await eve.get("bank")
        await ann.register(card("bank", 4002))
        assert (await eve.get("bank")).card.url == "grpc://127.0.0.1:4002"


async def test_a_name_stays_its_owners_over_a_restart_of_a_durable_registry(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    async with guarded(path=path) as registry:
        ann = client(registry, "ann")
        await ann.register(card("bank", 4001))
        assert await ann.unregister("GRPC://127.0.0.1:4001/")
    async with guarded(path=path) as registry:
        with pytest.raises(AgentConflictError):
            await client(registry, "eve").register(card("bank", 4666))
        await client(registry, "ann").register(card("bank", 4002))
    async with guarded(path=path, name_hold_s=0) as registry:
        taken = client(registry, "root")
        await taken.register(card("bank", 4002))
        await taken.unregister("grpc://127.0.0.1:4002")
        await client(registry, "eve").register(card("bank", 4666))


async def test_a_second_registration_elsewhere_does_not_divert_or_break_a_lookup() -> None:
    async with guarded() as registry:
        ann = client(registry, "ann")
        await ann.register(card("bank", 4001))
        with pytest.raises(AgentConflictError):
            await client(registry, "eve").register(card("bank", 4666))
        assert (await ann.get("bank")).card.url == "grpc://127.0.0.1:4001"
        await ann.register(card("bank", 4002))
        assert (await ann.get("bank")).card.url == "grpc://127.0.0.1:4002"
        assert len(await ann.discover({"name": "bank"})) == 2


async def test_over_protolinks_routes_a_name_has_the_same_owner() -> None:
    async with guarded() as registry, httpx.AsyncClient(headers={"x-api-key": "k-eve"}) as eve:
        await client(registry, "ann").register(card("bank", 4001))
        answer = await eve.post(f"{registry.http_url}/agents/", json=card("bank", 4666).to_dict())
        assert (answer.status_code, answer.json()["reason"]) == (409, "AGENT_CONFLICT")


async def test_callers_that_the_operator_puts_together_share_their_names() -> None:
    async with guarded(owner_of=lambda who: "fleet" if "fleet" in who.scopes else who.name) as registry:
        await client(registry, "ann").register(card("bank", 4001))
        await client(registry, "ann-2").register(card("bank", 4002))
        with pytest.raises(AgentConflictError):
            await client(registry, "eve").register(card("bank", 4666))


async def test_an_administrator_takes_a_name_over_and_releases_it() -> None:
    async with guarded() as registry:
        ann, eve, root = (client(registry, who) for who in ("ann", "eve", "root"))
        await eve.register(card("bank", 4666))
        with pytest.raises(AgentConflictError):
            await ann.register(card("bank", 4001))
        await root.register(card("bank", 4001))
        assert [each.url for each in await ann.discover()] == ["grpc://127.0.0.1:4001"]
        with pytest.raises(LeaseNotFoundError):
            await eve.heartbeat("grpc://127.0.0.1:4666")
        assert await root.unregister("grpc://127.0.0.1:4001")
        await ann.register(card("bank", 4001))
        assert await registry.release_name("bank")
        assert await ann.discover() == []
        await eve.register(card("bank", 4666))


async def test_without_an_admin_scope_no_scope_is_an_administrators() -> None:
    async with Registry(authenticator=KEYS) as registry:
        await client(registry, "ann").register(card("bank", 4001))
        with pytest.raises(AgentConflictError):
            await client(registry, "root").register(card("bank", 4002))


async def test_a_principal_has_a_bounded_number_of_agents() -> None:
    async with guarded(max_agents_per_principal=1) as registry:
        await client(registry, "ann").register(card("a", 4001))
        with pytest.raises(ResourceExhaustedError):
            await client(registry, "ann").register(card("b", 4002))
        await client(registry, "eve").register(card("b", 4002))


async def test_an_agent_whose_name_is_another_principals_does_not_start_as_if_it_were_found() -> None:
    async with guarded() as registry:
        await client(registry, "ann").register(card("bank", 4001))
        impostor = Agent(AgentCard("bank", "d", "grpc://127.0.0.1:0"), registry=client(registry, "eve"), grace_s=0.1)
        with pytest.raises(AgentConflictError, match="'bank'"):
            await impostor.serve()
        assert not impostor.is_running


REPLICA = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCard, Message, RegistryClient
    from protolink_grpc.auth import APIKey

    class Replica(Agent):
        async def handle_task(self, task):
            if task.messages[-1].text == "ask":
                return task.require_input(Message.agent("which?"))
            return task.complete(self.card.url)

    async def main():
        client = RegistryClient(sys.argv[1], credentials=APIKey("k-ann"))
        async with Replica(AgentCard("bank", "d", "grpc://127.0.0.1:0"), registry=client, lease_ttl_s=20.0) as agent:
            print(agent.card.url, flush=True)
            await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_a_peer_is_reached_by_its_name_while_one_of_its_processes_is_alive(
    launch: Callable[..., Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one dies with its lease alive: the registry still shows it, and the other one answers."""
    monkeypatch.setattr("protolink_grpc.agent.lifecycle.OUTAGE_S", 0.2)  # the dead one does not come back
    async with guarded() as registry:
        programs = [await launch(REPLICA, registry.url) for _ in range(2)]
        urls = [await program.line() for program in programs]
        async with Agent(name="asker", registry=client(registry, "eve"), grace_s=0.1) as asker:
            for registered in (urls[0], urls[1]):
                assert (await client(registry, "ann").get(registered)).card.name == "bank"
            last = (await client(registry, "ann").get("bank")).card.url
            assert (await asker.call_agent("bank", Task.create("where?"))).get_last_part_content() == last
            waiting = await asker.call_agent("bank", Task.create("ask"))
            await programs[urls.index(last)].kill()
            with pytest.raises(UnavailableError):  # the other one would begin the task anew
                await asker.call_agent("bank", waiting.add_message(Message.user("this one")))
            (other,) = {*urls} - {last}
            assert (await client(registry, "ann").get("bank")).card.url == last
            assert (await asker.call_agent("bank", Task.create("where?"))).get_last_part_content() == other


# -- ProtoLink's agents --------------------------------------------------------------------------------------------------------


LEASE_S = 5_000.0
"""Longer than gRPC's longest lease."""


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Clocked(Registry):
    """A registry whose leases follow a clock of the test."""

    def __init__(self, clock: Clock, **options: Any) -> None:
        self._clock = clock
        super().__init__(http="127.0.0.1:0", **options)

    def _new_directory(self) -> AgentDirectory:
        return AgentDirectory(lease_clock=self._clock)


PLGRPC_AGENT = """
    import sys
    from protolink.agents import Agent

    url, port, interval = sys.argv[1:]
    agent = Agent(
        name="quiet", description="d", url=f"http://127.0.0.1:{port}", transport="http", verbosity=0,
        registry="http", registry_url=url, registry_heartbeat_interval=float(interval) or None,
    )
    agent.start(background=True)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def free_port() -> str:
    bound, port = listening()
    bound.close()
    return str(port)


async def test_a_protolink_agent_without_heartbeats_is_listed_for_the_lease_of_the_option(
    launch: Callable[..., Awaitable[Any]],
) -> None:
    clock = Clock()
    async with Clocked(clock, protolink_lease_s=LEASE_S) as registry:
        program = await launch(PLGRPC_AGENT, registry.http_url, free_port(), "0")
        assert await program.line() == "ready"
        clock.now += LEASE_S - 1
        assert [found.name for found in await registry.client.discover()] == ["quiet"]
        clock.now += 1
        assert await registry.client.discover() == []


async def test_heartbeats_of_a_protolink_agent_renew_its_lease(launch: Callable[..., Awaitable[Any]]) -> None:
    clock = Clock()
    async with Clocked(clock, protolink_lease_s=LEASE_S) as registry:
        program = await launch(PLGRPC_AGENT, registry.http_url, free_port(), "0.1")
        assert await program.line() == "ready"
        for _ in range(3):
            before = (await registry.client.get("quiet")).expire_time
            clock.now += LEASE_S - 1
            async with asyncio.timeout(WAIT_S):
                while (await registry.client.get("quiet")).expire_time < before - 1:
                    pass  # each look takes a moment; the next heartbeat is on its way
        await program.kill()
        clock.now += LEASE_S
        assert await registry.client.discover() == []


async def test_by_default_a_protolink_agent_is_listed_for_a_day() -> None:
    clock = Clock()
    async with Clocked(clock) as registry, httpx.AsyncClient() as bare:
        await bare.post(f"{registry.http_url}/agents/", json=card("quiet", 4001).to_dict())
        clock.now += 86_399
        assert len(await registry.client.discover()) == 1
        clock.now += 1
        assert await registry.client.discover() == []


@pytest.mark.parametrize("seconds", [0.5, 366 * 86_400.0 + 1, float("nan")])
def test_the_lease_of_protolink_agents_has_bounds(seconds: float) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Registry(protolink_lease_s=seconds)
    assert caught.value.field == "protolink_lease_s"
