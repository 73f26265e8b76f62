"""Agents and their registry over gRPC: leases, watches, restarts, names."""

import asyncio
import itertools
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from plgrpc.v1 import registry_service_pb2 as pb

from protolink_grpc import (
    AddressInUseError,
    Agent,
    AgentCard,
    AgentChange,
    AgentChangeKind,
    AgentClient,
    AgentFilter,
    AgentNotFoundError,
    AgentSkill,
    InstanceState,
    InstanceStatus,
    InvalidArgumentError,
    Limits,
    Message,
    Registry,
    RegistryClient,
    Task,
    TaskExecutionError,
    TaskState,
    UnavailableError,
)
from protolink_grpc.agent.peers import Peers
from protolink_grpc.agent.trust import PeerClients, PeerTrust
from protolink_grpc.errors import LeaseNotFoundError
from protolink_grpc.registry import AgentDirectory

UP, DOWN, EXPIRED = AgentChangeKind.UP, AgentChangeKind.DOWN, AgentChangeKind.EXPIRED

WAIT_S = 20.0
"""Bound of what must happen soon; reached only by a failure."""

LEASE_S = 1.0
"""The shortest lease that there is."""


class Watcher:
    """Follows a registry in the background and hands out what it hears, in order."""

    def __init__(self, client: RegistryClient, wanted: AgentFilter | None = None, after_revision: int = 0) -> None:
        self._changes: asyncio.Queue[AgentChange] = asyncio.Queue()
        self._watch = client.watch(wanted, after_revision=after_revision)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _follow(self) -> None:
        async for change in self._watch:
            self._changes.put_nowait(change)

    async def next(self) -> AgentChange:
        """The next change, whatever it is."""
        async with asyncio.timeout(WAIT_S):
            return await self._changes.get()

    async def heard(self) -> tuple[AgentChangeKind, str]:
        """The next change as its kind and the agent's name."""
        change = await self.next()
        return change.kind, change.agent.card.name

    async def until(self, kind: AgentChangeKind, name: str) -> list[tuple[AgentChangeKind, str]]:
        """Everything up to the first change of that kind and name."""
        found = [await self.heard()]
        while found[-1] != (kind, name):
            found.append(await self.heard())
        return found


def card(name: str, port: int, **fields: Any) -> AgentCard:
    return AgentCard(name=name, description="d", url=f"grpc://127.0.0.1:{port}", **fields)


def agent(name: str, registry: "str | Registry | RegistryClient", **options: Any) -> Agent:
    given = AgentCard(name=name, description="d", url="grpc://127.0.0.1:0", tags=["live"])
    return Agent(given, registry=registry, lease_ttl_s=LEASE_S, grace_s=0.1, **options)


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry() as registry:
        yield registry


# -- leases ------------------------------------------------------------------------------------------------------------------


async def test_heartbeats_keep_an_agent_registered_over_several_leases(registry: Registry) -> None:
    silent = RegistryClient(registry.url)
    async with Watcher(registry.client) as watcher, agent("alive", registry):
        assert await watcher.heard() == (UP, "alive")
        # One agent after the other that says nothing: each time a whole lease goes by.
        for number in range(3):
            await silent.register(card("silent", 4000 + number), lease_ttl_s=LEASE_S)
            assert await watcher.heard() == (UP, "silent")
            assert await watcher.heard() == (EXPIRED, "silent")
        assert [found.card.name for found in await registry.client.list_agents()] == ["alive"]


VANISHING = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCard

    async def main():
        card = AgentCard(name="vanishing", description="d", url="grpc://127.0.0.1:0")
        async with Agent(card, registry=sys.argv[1], lease_ttl_s=1.0) as agent:
            print(agent.card.url, flush=True)
            await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_an_agent_whose_process_dies_is_gone_after_its_lease(
    registry: Registry, launch: Callable[..., Awaitable[Any]]
) -> None:
    async with Watcher(registry.client) as watcher:
        program = await launch(VANISHING, registry.url)
        url = await program.line()
        change = await watcher.next()
        assert (change.kind, change.agent.card.url) == (UP, url)
        await program.kill()
        change = await watcher.next()
        assert (change.kind, change.agent.card.url) == (EXPIRED, url)
    with pytest.raises(AgentNotFoundError):
        await registry.client.get("vanishing")


async def test_an_agent_that_stops_says_good_bye(registry: Registry) -> None:
    async with Watcher(registry.client) as watcher:
        async with agent("polite", registry):
            assert await watcher.heard() == (UP, "polite")
        assert await watcher.heard() == (DOWN, "polite")
    assert await registry.client.discover() == []


async def test_an_agent_that_starts_again_is_registered_again_at_its_new_address(registry: Registry) -> None:
    restless = agent("restless", registry)
    urls = []
    for _ in range(2):
        async with restless:
            urls.append(restless.card.url)
            assert (await registry.client.get("restless")).card.url == urls[-1]
    assert await registry.client.discover() == []


async def test_a_changed_card_is_registered_anew_with_the_next_heartbeat(registry: Registry) -> None:
    def greet(name: str) -> str:
        return f"hello {name}"

    async with Watcher(registry.client) as watcher, agent("learner", registry) as learner:
        first = await watcher.next()
        learner.add_tool(greet)
        second = await watcher.next()
    assert [skill.id for skill in first.agent.card.skills] == []
    assert (second.kind, [skill.id for skill in second.agent.card.skills]) == (UP, ["greet"])
    assert second.agent.register_time == first.agent.register_time
    assert second.revision > first.revision


async def test_an_agent_whose_registration_was_lost_registers_again(registry: Registry) -> None:
    """Its lease is removed behind its back, as after an expiry that it slept through."""
    client = RegistryClient(registry.url)
    async with Watcher(registry.client) as watcher, agent("stubborn", client):
        assert await watcher.heard() == (UP, "stubborn")
        thief = RegistryClient(registry.url)
        thief._leases.update(client._leases)
        for url in client._leases:
            assert await thief.unregister(url)
        assert await watcher.heard() == (DOWN, "stubborn")
        assert await watcher.heard() == (UP, "stubborn")


async def test_a_heartbeat_without_a_registration_says_so(registry: Registry) -> None:
    with pytest.raises(LeaseNotFoundError):
        await registry.client.heartbeat("grpc://127.0.0.1:4000")
    assert not await registry.client.unregister("grpc://127.0.0.1:4000")


@pytest.mark.parametrize(
    "failure", [InvalidArgumentError("refused", field="card"), RuntimeError("a bug")], ids=["refused", "unexpected"]
)
async def test_after_the_start_a_registration_is_kept_whatever_happens(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr("protolink_grpc.client.registry_client.FIRST_PAUSE_S", 0.001)
    renew, failing = RegistryClient.heartbeat, [failure]

    async def heartbeat(client: RegistryClient, url: str, status: InstanceStatus | None = None) -> float:
        if failing:
            raise failing.pop()
        kept.set()
        return await renew(client, url)

    kept = asyncio.Event()
    monkeypatch.setattr(RegistryClient, "heartbeat", heartbeat)
    async with agent("kept", registry):
        async with asyncio.timeout(WAIT_S):
            await kept.wait()
        assert [found.name for found in await registry.client.discover()] == ["kept"]
    assert not failing


@pytest.mark.parametrize("failure", [InvalidArgumentError("refused", field="card"), RuntimeError("a bug")])
async def test_a_card_that_cannot_be_registered_at_all_is_an_error_of_the_start(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    async def register(*_: Any, **__: Any) -> float:
        raise failure

    monkeypatch.setattr(RegistryClient, "register", register)
    with pytest.raises(type(failure)):
        await agent("wrong", registry).serve()


@pytest.mark.parametrize("lease_ttl_s", [0.5, 3601.0])
async def test_a_lease_has_bounds(registry: Registry, lease_ttl_s: float) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await registry.client.register(card("a", 4000), lease_ttl_s=lease_ttl_s)
    assert caught.value.field == "lease_ttl"


# -- finding -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def town(registry: Registry) -> Registry:
    """A registry with four agents."""
    skills = [AgentSkill(id="book", description="books"), AgentSkill(id="cancel", description="cancels")]
    for each in (
        card("hotel", 1, role="worker", tags=["travel", "eu"], skills=skills, metadata={"team": "red", "tier": "1"}),
        card("flight", 2, role="worker", tags=["travel", "us"], skills=skills[:1], metadata={"team": "red"}),
        card("boss", 3, role="coordinator", tags=["eu"], capabilities={"streaming": True}),
        card("boss", 4, role="coordinator"),
    ):
        await registry.client.register(each)
    return registry


@pytest.mark.parametrize(
    ("filter_by", "ports"),
    [
        (None, [3, 4, 2, 1]),
        ({"name": "hotel"}, [1]),
        ({"name": "hote"}, []),
        ({"role": "coordinator"}, [3, 4]),
        ({"tags": "travel"}, [2, 1]),
        ({"tags": ["travel", "eu"]}, [1]),
        ({"tags": ["travel", "mars"]}, []),
        ({"skills": ["book"]}, [2, 1]),
        ({"skills": ["book", "cancel"]}, [1]),
        ({"metadata": {"team": "red"}}, [2, 1]),
        ({"metadata": {"team": "red", "tier": "1"}}, [1]),
        ({"metadata": {"team": "blue"}}, []),
        ({"capabilities": {"streaming": True}}, [3]),
        ({"role": "worker", "tags": ["us"], "skills": ["book"], "metadata": {"team": "red"}}, [2]),
        ({"role": "coordinator", "tags": ["travel"]}, []),
    ],
)
async def test_a_filter_selects_what_matches_all_of_it(
    town: Registry, filter_by: dict[str, Any] | None, ports: list[int]
) -> None:
    found = await town.client.discover(filter_by)
    assert [int(each.url.rpartition(":")[2]) for each in found] == ports


async def test_a_filter_that_nobody_can_match_is_the_callers_mistake(town: Registry) -> None:
    with pytest.raises(InvalidArgumentError, match=r"filter_by\.colour"):
        await town.client.discover({"colour": "blue"})


async def test_the_card_comes_back_as_it_was_registered(registry: Registry) -> None:
    full = card("full", 1, role="router", tags=["a"], metadata={"k": "ü"}, capabilities={"max_concurrency": 7})
    full.skills = [AgentSkill(id="s", description="d", input_schema={"maximum": 2**60}, examples=[{"x": 1}])]
    await registry.client.register(full)
    assert (await registry.client.get("full")).card == full
    assert (await registry.client.get(full.url)).card == full


async def test_of_several_instances_with_one_name_the_one_registered_last_is_found(town: Registry) -> None:
    assert (await town.client.get("boss")).card.url == "grpc://127.0.0.1:4"
    assert (await town.client.get("grpc://127.0.0.1:3")).card.name == "boss"
    await town.client.unregister("grpc://127.0.0.1:4")
    assert (await town.client.get("boss")).card.url == "grpc://127.0.0.1:3"


async def test_an_unknown_name_is_answered_with_the_nearest(town: Registry) -> None:
    with pytest.raises(AgentNotFoundError, match=r"did you mean 'hotel'\?") as caught:
        await town.client.get("hotle")
    assert caught.value.metadata == {"name": "hotle", "hint": "hotel"}
    with pytest.raises(AgentNotFoundError) as caught:
        await town.client.get("something else")
    assert caught.value.metadata == {"name": "something else"}


async def test_a_fleet_that_registers_all_at_once_is_registered_and_listed_page_by_page(registry: Registry) -> None:
    """More calls at once than gRPC keeps by default, and more agents than one page holds."""
    client = RegistryClient(registry.url, timeout=60)
    cards = [card(f"agent-{number:04}", number, tags=["even"] if number % 2 == 0 else []) for number in range(1, 2501)]
    await asyncio.gather(*(client.register(each) for each in cards))
    assert [found.card.name for found in await client.list_agents()] == [each.name for each in cards]
    assert len(await client.discover({"tags": ["even"]})) == 1250


# -- watching ----------------------------------------------------------------------------------------------------------------


async def test_a_watch_begins_with_who_is_there_and_goes_on_with_what_happens(town: Registry) -> None:
    async with Watcher(town.client) as watcher:
        assert {await watcher.heard() for _ in range(3)} == {(UP, "hotel"), (UP, "flight"), (UP, "boss")}
        assert await watcher.heard() == (UP, "boss")
        await town.client.register(card("late", 9))
        assert await watcher.heard() == (UP, "late")
        await town.client.unregister(card("late", 9).url)
        assert await watcher.heard() == (DOWN, "late")


async def test_a_watch_from_a_revision_shows_only_what_came_after_it(town: Registry) -> None:
    async with Watcher(town.client) as watcher:
        revision = max([(await watcher.next()).revision for _ in range(4)])
    await town.client.register(card("late", 9))
    await town.client.unregister(card("hotel", 1).url)
    async with Watcher(town.client, after_revision=revision) as watcher:
        changes = [await watcher.next(), await watcher.next()]
    assert [(each.kind, each.agent.card.name) for each in changes] == [(UP, "late"), (DOWN, "hotel")]
    assert [each.revision for each in changes] == [revision + 1, revision + 2]


async def test_a_filtered_watch_sees_an_agent_leave_that_matches_no_more(town: Registry) -> None:
    async with Watcher(town.client, AgentFilter(tags=("travel", "eu"))) as watcher:
        assert await watcher.heard() == (UP, "hotel")
        await town.client.register(card("elsewhere", 9, tags=["travel"]))
        await town.client.register(card("hotel", 1, tags=["travel"]))
        assert await watcher.heard() == (DOWN, "hotel")
        await town.client.register(card("hotel", 1, tags=["eu", "travel"]))
        assert await watcher.heard() == (UP, "hotel")


@pytest.mark.parametrize("ring", [10_000, 4], ids=["with its history", "falling behind it"])
async def test_a_watch_under_churn_ends_with_what_is_registered(ring: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "_new_directory", lambda _: AgentDirectory(ring_size=ring))
    async with Registry() as registry, Watcher(registry.client) as watcher:

        async def come_and_go(number: int) -> None:
            client = RegistryClient(registry.url)
            for turn in range(40):
                await client.register(card(f"name-{turn % 3}", 1000 + number, version=str(turn)))
                if (turn + number) % 3 == 0:
                    await client.unregister(f"grpc://127.0.0.1:{1000 + number}")

        await asyncio.gather(*(come_and_go(number) for number in range(8)))
        await registry.client.register(card("last", 9))
        seen: dict[str, AgentCard] = {}
        expected = {each.url: each for each in await registry.client.discover()}
        while seen != expected:
            change = await watcher.next()
            if change.kind is UP:
                seen[change.agent.card.url] = change.agent.card
            else:
                seen.pop(change.agent.card.url)


# -- restarts ----------------------------------------------------------------------------------------------------------------


async def test_after_a_restart_from_memory_agents_register_again_and_watchers_hear_who_is_missing() -> None:
    registry = Registry()
    await registry.serve()
    url = registry.url
    async with agent("steady", url), Watcher(RegistryClient(url)) as watcher:
        assert await watcher.heard() == (UP, "steady")
        await RegistryClient(url).register(card("forgotten", 1))
        assert await watcher.heard() == (UP, "forgotten")
        await registry.aclose()
        await registry.serve()
        assert registry.url == url
        # In whatever order: the one that is gone is missed, the other is there again. It may have been faster than the watch.
        heard = await watcher.until(DOWN, "forgotten")
        while [found.name for found in await RegistryClient(url).discover()] != ["steady"]:
            heard.append(await watcher.heard())
        await RegistryClient(url).register(card("new", 2))
        heard += await watcher.until(UP, "new")
        assert (UP, "forgotten") not in heard
        assert heard.count((DOWN, "steady")) == heard.count((UP, "steady"))
    await registry.aclose()


async def test_after_a_restart_from_a_file_everybody_is_still_there(tmp_path: Path) -> None:
    registry = Registry(path=tmp_path / "registry.db")
    await registry.serve()
    url = registry.url
    async with agent("steady", url), Watcher(RegistryClient(url)) as watcher:
        assert await watcher.heard() == (UP, "steady")
        await RegistryClient(url).register(card("kept", 1))
        assert await watcher.heard() == (UP, "kept")
        await registry.aclose()
        await registry.serve()
        assert [found.name for found in await RegistryClient(url).discover()] == ["kept", "steady"]
        # The watch goes on where it was: what it knows already is not told again.
        await RegistryClient(url).register(card("new", 2), lease_ttl_s=LEASE_S)
        assert await watcher.heard() == (UP, "new")
        # The old lease is still valid, and the one without renewals is not: the clock also runs after the restart.
        assert await watcher.heard() == (EXPIRED, "new")
        assert [found.name for found in await RegistryClient(url).discover()] == ["kept", "steady"]
    await registry.aclose()


async def test_an_agent_that_starts_before_its_registry_registers_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("protolink_grpc.agent.lifecycle.REGISTER_WAIT_S", 0.05)
    monkeypatch.setattr("protolink_grpc.agent.registry.REGISTRY_OUTAGE_S", 0.05)
    registry = Registry()
    await registry.serve()
    await registry.aclose()  # its port is known now, and no server listens there
    async with agent("early", registry.url) as early:
        assert early.is_running
        with pytest.raises(UnavailableError):
            await early.discover_agents()
        async with registry, Watcher(registry.client) as watcher:
            assert await watcher.heard() == (UP, "early")


async def test_an_agent_can_be_given_a_registry_that_has_no_port_yet() -> None:
    registry = Registry()
    waiting = agent("waiting", registry)
    async with registry, waiting:
        assert (await registry.client.get("waiting")).card.url == waiting.card.url


# -- the server --------------------------------------------------------------------------------------------------------------


async def test_the_registry_reports_its_health(registry: Registry, channel: Callable[[str], grpc.aio.Channel]) -> None:
    health = health_pb2_grpc.HealthStub(channel(registry.url))
    answer = await health.Check(health_pb2.HealthCheckRequest(service="plgrpc.v1.RegistryService"))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_port_that_is_taken_is_said_so(registry: Registry) -> None:
    second = Registry(url=registry.url)
    with pytest.raises(AddressInUseError, match=r"port \d+ on 127\.0\.0\.1 is in use"):
        await second.serve()
    assert not second.is_running


async def test_stop_on_its_own_loop_is_an_error_instead_of_a_standstill(registry: Registry) -> None:
    with pytest.raises(RuntimeError, match=r"await registry\.aclose"):
        registry.stop()
    assert registry.is_running


def test_a_registry_in_the_background_is_used_without_a_loop() -> None:
    registry = Registry()
    registry.start(background=True)
    client = registry.client.sync
    client.register(card("a", 1))
    client.register(card("b", 2))
    assert [found.name for found in client.discover({"name": "b"})] == ["b"]
    assert [change.agent.card.name for change in itertools.islice(client.watch(), 2)] == ["a", "b"]
    registry.stop()
    assert not registry.is_running


# -- instances ---------------------------------------------------------------------------------------------------------------


async def test_each_start_of_an_agent_is_an_instance_of_its_own(registry: Registry) -> None:
    restless = agent("restless", registry)
    seen = []
    for _ in range(2):
        async with restless:
            seen.append((await registry.client.get("restless")).instance_id)
            await registry.client.heartbeat(restless.card.url)
    assert len({*seen, ""}) == 3


class Slow(Agent):
    """Works until it is told to end."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.may_end = asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        await self.may_end.wait()
        return task.complete("done")


def slow(registry: Registry, **options: Any) -> Slow:
    return Slow(card("slow", 0), registry=registry, lease_ttl_s=LEASE_S, **options)


async def test_heartbeats_report_the_runs_and_those_that_wait_and_are_no_change(registry: Registry) -> None:
    async with slow(registry, limits=Limits(max_concurrency=1)) as worker, asyncio.timeout(WAIT_S):
        revision = (await registry.client.get("slow")).revision
        runs = [asyncio.create_task(worker.run_task("work")) for _ in range(3)]
        while True:
            found = await registry.client.get("slow")
            if (found.running, found.queued) == (1, 2):
                break
            await asyncio.sleep(0.05)  # no event follows a heartbeat
        assert (found.state, found.revision) == (InstanceState.UP, revision)
        worker.may_end.set()
        await asyncio.gather(*runs)


async def test_an_agent_that_goes_down_is_listed_as_draining_until_its_runs_have_ended(registry: Registry) -> None:
    async with Watcher(registry.client) as watcher:
        worker = slow(registry, grace_s=WAIT_S)
        await worker.serve()
        assert await watcher.heard() == (UP, "slow")
        run = asyncio.create_task(worker.run_task("work"))
        while not worker.active_task_ids:
            await asyncio.sleep(0)
        leaving = asyncio.create_task(worker.aclose())
        change = await watcher.next()
        assert (change.kind, change.agent.state, change.agent.running) == (UP, InstanceState.DRAINING, 1)
        assert (await registry.client.get("slow")).is_draining
        worker.may_end.set()
        assert (await run).state is TaskState.COMPLETED
        assert await watcher.heard() == (DOWN, "slow")
        await leaving


@pytest.mark.parametrize("grace_s", [0.0, WAIT_S])
async def test_an_agent_without_work_or_grace_leaves_without_draining(registry: Registry, grace_s: float) -> None:
    async with Watcher(registry.client) as watcher:
        worker = slow(registry)
        await worker.serve()
        assert await watcher.heard() == (UP, "slow")
        run = asyncio.create_task(worker.run_task("work")) if not grace_s else None
        while run is not None and not worker.active_task_ids:
            await asyncio.sleep(0)
        await worker.aclose(grace_s)
        assert await watcher.heard() == (DOWN, "slow")
        if run is not None:
            await asyncio.wait([run])


async def test_no_log_line_has_the_id_of_a_lease(
    registry: Registry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted: list[str] = []
    make_id = secrets.token_urlsafe
    monkeypatch.setattr(secrets, "token_urlsafe", lambda size: granted.append(make_id(size)) or granted[-1])  # type: ignore[func-returns-value]
    caplog.set_level(logging.DEBUG)
    client = RegistryClient(registry.url)
    async with agent("logged", client):
        assert (await client.get("logged")).card.name == "logged"
        await client.heartbeat((await client.get("logged")).card.url, InstanceStatus(InstanceState.DRAINING, 1))
        wrong = pb.RenewLeaseRequest(lease_id=granted[0], running=-1)
        for request in (wrong, pb.RenewLeaseRequest(lease_id=granted[0][:-1])):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await client._stub.RenewLease(request)
            assert granted[0][:-1] not in str(refused.value)
    assert granted
    assert caplog.records
    for record in caplog.records:
        line = logging.Formatter().format(record)
        assert not any(lease_id in line or lease_id[:-1] in line for lease_id in granted), line


# -- peers -------------------------------------------------------------------------------------------------------------------


class Worker(Agent):
    """Echoes; `ask ...` waits for an answer, `fail` fails, a tool call is run."""

    async def handle_task(self, task: Task) -> Task:
        text = task.messages[-1].text
        if not text:
            return await self.execute_task(task)
        if text == "ask":
            return task.require_input(Message.agent("which one?"))
        return task.fail("as told") if text == "fail" else task.complete(text)


@pytest.fixture
async def pair(registry: Registry) -> AsyncIterator[tuple[Worker, Agent]]:
    """A worker with a tool, and an agent that knows nothing but its name."""

    def divide(a: float, b: float) -> float:
        return a / b

    worker = Worker(
        AgentCard(name="worker", description="d", url="grpc://127.0.0.1:0"), registry=registry, tools=[divide]
    )
    async with worker, Agent(name="asker", registry=registry.url) as asker:
        yield worker, asker


async def test_a_peer_is_called_by_its_name(pair: tuple[Worker, Agent]) -> None:
    worker, asker = pair
    peer = asker.peer("worker")
    assert (await peer.send_message("hello")).text == "hello"
    assert (await asker.send_message_to("worker", "hello")).text == "hello"
    assert (await asker.call_agent("worker", Task.create("hello"))).state is TaskState.COMPLETED
    assert (await peer.run_task(Task.create("ask"))).state is TaskState.INPUT_REQUIRED
    assert len([event async for event in peer.run_task_streaming(Task.create("x"))]) == 4
    assert (await peer.card()).url == worker.card.url
    assert (await asker.peer(worker.card).send_message("by card")).text == "by card"


async def test_a_tool_of_a_peer_is_called_like_a_function(pair: tuple[Worker, Agent]) -> None:
    _, asker = pair
    peer = asker.peer("worker")
    assert await peer.call_tool("divide", a=1, b=4) == 0.25
    assert await asyncio.to_thread(peer.call_tool_sync, "divide", a=1, b=2) == 0.5
    with pytest.raises(TaskExecutionError) as caught:
        await peer.call_tool("divide", a=1, b="zero")
    error = caught.value.task.artifacts[0].parts[0].as_tool_output().error
    assert error["code"] == "invalid_arguments"


async def test_a_peer_that_is_not_registered_is_not_found(pair: tuple[Worker, Agent]) -> None:
    _, asker = pair
    with pytest.raises(AgentNotFoundError, match=r"did you mean 'worker'\?"):
        await asker.peer("wroker").send_message("hello")


async def test_a_name_means_nothing_without_a_registry() -> None:
    async with Agent(name="alone") as alone:
        with pytest.raises(AgentNotFoundError, match="has no registry"):
            await alone.send_message_to("worker", "hello")
        assert await alone.discover_agents() == []


async def test_a_stream_that_is_closed_closes_what_it_reads_from(
    pair: tuple[Worker, Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    async def endless(*_: Any, **__: Any) -> AsyncGenerator[str, None]:
        try:
            while True:
                yield "something"
        finally:
            closed.append("closed")

    registry = RegistryClient("grpc://127.0.0.1:1")
    monkeypatch.setattr("protolink_grpc.client.registry_client._Follower.once", endless)
    monkeypatch.setattr("protolink_grpc.client.agent_client.AgentClient.send_task_streaming", endless)
    streams: list[Any] = [registry.watch(), pair[1].peer("worker").run_task_streaming(Task.create("x"))]
    for stream in streams:
        await anext(stream)
        await stream.aclose()
    assert closed == ["closed"] * 2


async def test_a_peer_is_found_again_after_it_has_moved(pair: tuple[Worker, Agent]) -> None:
    worker, asker = pair
    peer = asker.peer("worker")
    before = worker.card.url
    assert (await peer.send_message("hello")).text == "hello"
    await worker.aclose()
    await worker.serve()
    assert worker.card.url != before
    assert (await peer.send_message("again")).text == "again"


@pytest.fixture
async def twins(registry: Registry) -> AsyncIterator[tuple[list[Worker], Agent]]:
    """Two instances of a worker, and an agent that calls them by their name."""
    given = AgentCard(name="worker", description="d", url="grpc://127.0.0.1:0")
    async with (
        Worker(given, registry=RegistryClient(registry.url)) as first,
        Worker(given, registry=RegistryClient(registry.url)) as second,
        Agent(name="asker", registry=registry.url) as asker,
    ):
        yield [first, second], asker


async def say_draining(worker: Agent) -> None:
    assert worker._registry is not None
    await worker._registry.heartbeat(worker.card.url, InstanceStatus(InstanceState.DRAINING))


@pytest.mark.parametrize("is_following", [False, True])
async def test_a_peer_that_drains_is_left_for_another_instance(
    twins: tuple[list[Worker], Agent], is_following: bool
) -> None:
    workers, asker = twins
    if is_following:
        await asker._peers.cards()
    assert (await asker.peer("worker").card()).url == workers[1].card.url
    await say_draining(workers[1])
    async with asyncio.timeout(WAIT_S):
        while (await asker.peer("worker").card()).url != workers[0].card.url:
            await asyncio.sleep(0.01)  # the watch tells it soon
    await say_draining(workers[0])
    assert (await asker.peer("worker").send_message("hello")).text == "hello"


@pytest.mark.parametrize("is_following", [False, True])
async def test_a_task_stays_with_the_instance_that_an_earlier_process_has_called(
    twins: tuple[list[Worker], Agent], is_following: bool
) -> None:
    workers, asker = twins
    if is_following:
        await asker._peers.cards()
    assert (await asker._peers.connect("worker", "task", workers[0].card.url)).url == workers[0].card.url
    other = Peers(PeerClients(AgentClient()), asker._peers._registry, PeerTrust((), False, None))
    assert (await other.connect("worker", "task", "grpc://127.0.0.1:1")).url == workers[1].card.url


@pytest.mark.parametrize("is_following", [False, True])
async def test_a_task_that_an_instance_has_begun_stays_with_it_while_it_drains(
    twins: tuple[list[Worker], Agent], is_following: bool
) -> None:
    workers, asker = twins
    if is_following:
        await asker._peers.cards()
    peer = asker.peer("worker")
    waiting = await peer.run_task(Task.create("ask"))
    await say_draining(workers[1])
    async with asyncio.timeout(WAIT_S):
        while (await peer.card()).url != workers[0].card.url:
            await asyncio.sleep(0.01)  # the watch tells it soon
    waiting.add_message(Message.user("that one"))
    done = await peer.run_task(waiting)
    assert (done.id, done.state) == (waiting.id, TaskState.COMPLETED)
    there = AgentClient(url=workers[1].card.url)
    assert (await there.get_task(waiting.id)).state is TaskState.COMPLETED
