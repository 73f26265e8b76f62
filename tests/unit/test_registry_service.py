"""The service: automatic expiry, and durable changes that are visible after their commit."""

import asyncio
from contextlib import aclosing

import pytest

from protolink_grpc.errors import (
    AgentConflictError,
    AgentNotFoundError,
    LeaseNotFoundError,
    StoreError,
    StoreFullError,
    UnavailableError,
)
from protolink_grpc.models.card import AgentCard
from protolink_grpc.registry import AgentChangeKind, AgentDirectory, AgentFilter, RegistryService, SQLiteDirectoryFile
from protolink_grpc.registry.entries import StoredAgent

UP, DOWN, EXPIRED = AgentChangeKind


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class SlowFile:
    """A test double of the file whose writes end on command. It checks the calls of the service."""

    def __init__(self) -> None:
        self.writes = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.failure = None

    async def load(self):
        return [], 0, []

    async def write(self, agents, gone_urls, revision, **names):
        self.writes.append(([each.url for each in agents], list(gone_urls), revision))
        self.begun.set()
        await self.may_end.wait()
        if self.failure:
            raise self.failure

    async def aclose(self):
        pass


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "registry.db"


@pytest.fixture
async def slow(clock):
    """A service on a slow file, and the file."""
    file = SlowFile()
    async with RegistryService(AgentDirectory(clock=clock), file) as service:
        yield service, file
        file.may_end.set()


def card(name, **fields):
    return AgentCard(name, "d", f"grpc://{name}:1", **fields)


def names(page):
    return [agent.card.name for agent in page.agents]


def told(batch):
    return [(change.kind, change.agent.card.name) for change in batch.changes]


def durable(path, clock):
    return RegistryService(AgentDirectory(clock=clock), SQLiteDirectoryFile(path))


@pytest.fixture(params=["memory", "sqlite"])
async def service(request, clock, path):
    made = durable(path, clock) if request.param == "sqlite" else RegistryService(AgentDirectory(clock=clock))
    async with made:
        yield made


async def test_an_agent_registers_is_found_renews_and_leaves(service):
    granted = await service.register(card("a", tags=["x"]), principal="alice", lease_ttl_s=10)
    assert (await service.get("a")).revision == granted.revision
    assert names(await service.list(AgentFilter(tags=["x"]))) == ["a"]
    assert await service.renew(granted.lease_id, principal="alice") == 10
    assert await service.deregister(granted.lease_id, principal="alice")
    assert not await service.deregister(granted.lease_id, principal="alice")
    with pytest.raises(AgentNotFoundError):
        await service.get("a")


async def test_an_agent_without_heartbeats_expires_and_watchers_are_notified(service, clock):
    await service.register(card("a"), principal="alice", lease_ttl_s=1)
    async with aclosing(service.watch()) as watch:
        assert told(await anext(watch)) == [(UP, "a")]
        clock.now += 1
        assert names(await service.list()) == []
        await service.register(
            card("b"), principal="alice"
        )  # wakes the service, whose timer does not use the fake clock
        changes = told(await anext(watch))
        while (EXPIRED, "a") not in changes:
            changes += told(await anext(watch))
    assert sorted(changes, key=str) == sorted([(UP, "b"), (EXPIRED, "a")], key=str)


async def test_only_the_owner_replaces_a_card(service):
    await service.register(card("a"), principal="alice")
    with pytest.raises(AgentConflictError):
        await service.register(card("a"), principal="mallory")


async def test_concurrent_changes_of_one_url_are_serialized(service):
    versions = [card("a", version=str(number)) for number in range(20)]
    granted = await asyncio.gather(*(service.register(each, principal="alice") for each in versions))
    revisions = [each.revision for each in granted]
    assert len(set(revisions)) == 20
    newest = granted[revisions.index(max(revisions))]
    left = await asyncio.gather(*(service.deregister(newest.lease_id, principal="alice") for _ in range(5)))
    assert sorted(left) == [False] * 4 + [True]


async def test_agents_and_leases_survive_a_restart(path, clock):
    async with durable(path, clock) as service:
        granted = await service.register(card("a", tags=["x"]), principal="alice", lease_ttl_s=10)
        gone = await service.register(card("b"), principal="alice")
        await service.deregister(gone.lease_id, principal="alice")
        before = await service.get("a")
        last = (await service.list()).revision
    clock.now += 100  # longer than the lease: loaded agents get one more lease to register again
    async with durable(path, clock) as service:
        page = await service.list(AgentFilter(tags=["x"]))
        assert names(page) == ["a"]
        assert (page.agents[0].card, page.agents[0].revision) == (before.card, before.revision)
        assert page.agents[0].register_time == before.register_time
        assert page.agents[0].expire_time == clock.now + 10
        assert page.revision >= last
        assert await service.renew(granted.lease_id, principal="alice") == 10
        with pytest.raises(LeaseNotFoundError):
            await service.renew(gone.lease_id, principal="alice")


async def test_revisions_never_go_back_even_when_the_clock_does(path, clock):
    async with durable(path, clock) as service:
        first = await service.register(card("a"), principal="alice")
    clock.now -= 500
    async with durable(path, clock) as service:
        second = await service.register(card("b"), principal="alice")
        assert second.revision == first.revision + 1


async def test_a_watcher_that_reconnects_after_a_restart_stays_consistent(path, clock):
    async with durable(path, clock) as service:
        granted = await service.register(card("a"), principal="alice")
        seen = (await service.list()).revision
        await service.deregister(granted.lease_id, principal="alice")
        await service.register(card("b"), principal="alice")
    async with durable(path, clock) as service, aclosing(service.watch(after_revision=seen)) as watch:
        batch = await anext(watch)
        assert batch.position.reset
        assert told(batch) == [(UP, "b")]


@pytest.mark.parametrize("end", ["killed", "stopped"])
async def test_a_name_stays_reserved_across_a_restart_for_the_hold_time(path, clock, end):
    def durable():
        return RegistryService(AgentDirectory(clock=clock, name_hold_s=100), SQLiteDirectoryFile(path))

    async with durable() as service:
        granted = await service.register(card("bank"), principal="alice", lease_ttl_s=5)
        clock.now += 1_000  # registered for longer than the hold time
        if end == "stopped":
            await service.renew((await service.register(card("bank"), principal="alice")).lease_id, principal="alice")
            granted = await service.register(card("bank"), principal="alice", lease_ttl_s=5)
            await service.deregister(granted.lease_id, principal="alice")
    clock.now += 90
    async with durable() as service:
        if end == "killed":  # it is loaded with a new lease, which then expires
            clock.now += 5
            service._expire()
        with pytest.raises(AgentConflictError):
            await service.register(AgentCard("Bank", "d", "grpc://evil:1"), principal="mallory")
        assert names(await service.list()) == []
    clock.now += 100
    async with durable() as service:
        await service.register(AgentCard("bank", "d", "grpc://evil:1"), principal="mallory")


async def test_an_administrator_that_takes_a_name_over_removes_the_agents_of_others(service):
    squatted = await service.register(AgentCard("bank", "d", "grpc://evil:1"), principal="mallory")
    await service.register(AgentCard("Bank", "d", "grpc://evil:2"), principal="mallory")
    async with aclosing(service.watch(after_revision=(await service.list()).revision)) as watch:
        with pytest.raises(AgentConflictError):
            await service.register(card("bank"), principal="root")
        await service.register(card("bank"), principal="root", is_admin=True)
        changes = []
        while len(changes) < 3:
            changes += told(await anext(watch))
    assert sorted(changes, key=str) == sorted([(UP, "bank"), (DOWN, "bank"), (DOWN, "Bank")], key=str)
    assert [agent.card.url for agent in (await service.list()).agents] == ["grpc://bank:1"]
    with pytest.raises(LeaseNotFoundError):
        await service.renew(squatted.lease_id, principal="mallory")
    with pytest.raises(AgentConflictError):
        await service.register(AgentCard("bank", "d", "grpc://evil:1"), principal="mallory")


async def test_an_agent_with_a_pending_registration_is_removed_by_a_takeover_of_its_name(slow):
    service, file = slow
    late = asyncio.ensure_future(service.register(AgentCard("bank", "d", "grpc://evil:1"), principal="mallory"))
    await file.begun.wait()
    taking = asyncio.ensure_future(service.register(card("bank"), principal="root", is_admin=True))
    asyncio.get_running_loop().call_soon(file.may_end.set)
    await asyncio.gather(late, taking)
    assert [agent.card.url for agent in (await service.list()).agents] == ["grpc://bank:1"]


async def test_a_released_name_is_free_at_once_and_after_a_restart(path, clock):
    async with durable(path, clock) as service:
        await service.register(card("bank"), principal="mallory")
        held = await service.register(card("held"), principal="mallory")
        await service.deregister(held.lease_id, principal="mallory")
        assert await service.release_name("Bank")
        assert await service.release_name("held")
        assert not await service.release_name("unknown")
        assert names(await service.list()) == []
        await service.register(card("held"), principal="alice")
    async with durable(path, clock) as service:
        await service.register(card("bank"), principal="bob")
        with pytest.raises(AgentConflictError):
            await service.register(AgentCard("held", "d", "grpc://evil:1"), principal="mallory")


async def test_an_administrator_releases_a_name_by_taking_it_over_and_leaving(service):
    await service.register(AgentCard("bank", "d", "grpc://evil:1"), principal="mallory")
    taken = await service.register(card("bank"), principal="root", is_admin=True)
    assert await service.deregister(taken.lease_id, principal="root", is_admin=True)
    await service.register(card("bank"), principal="alice")


async def test_names_of_many_principals_registered_at_once_have_one_owner_each(service):
    claims = [
        service.register(AgentCard(f"n{number % 5}", "d", f"grpc://{who}:{number + 1}"), principal=who)
        for number in range(50)
        for who in ("alice", "bob", "carl")
    ]
    results = await asyncio.gather(*claims, return_exceptions=True)
    assert {type(each) for each in results if isinstance(each, Exception)} == {AgentConflictError}
    owners = {}
    for agent in (await service.list(page_size=1_000)).agents:
        owners.setdefault(agent.card.name, set()).add(agent.card.url.split(":")[1])
    assert sorted(owners) == [f"n{number}" for number in range(5)]
    assert all(len(each) == 1 for each in owners.values())


async def test_an_expired_agent_does_not_come_back_with_a_restart(path, clock):
    async with durable(path, clock) as service:
        await service.register(card("a"), principal="alice", lease_ttl_s=1)
        async with aclosing(service.watch(after_revision=(await service.list()).revision)) as watch:
            clock.now += 1
            await service.register(card("b"), principal="alice")
            while (EXPIRED, "a") not in told(await anext(watch)):
                pass
    async with durable(path, clock) as service:
        assert names(await service.list()) == ["b"]


async def test_renewals_are_not_written(slow):
    service, file = slow
    file.may_end.set()
    granted = await service.register(card("a"), principal="alice")
    for _ in range(10):
        await service.renew(granted.lease_id, principal="alice")
        await service.register(card("a"), principal="alice", lease_id=granted.lease_id)
    assert len(file.writes) == 1


async def test_changes_are_visible_and_acknowledged_only_after_their_commit(slow):
    service, file = slow
    begin = (await service.list()).revision
    watch = service.watch(after_revision=begin)
    await anext(watch)
    news = asyncio.ensure_future(anext(watch))
    registering = asyncio.ensure_future(service.register(card("a"), principal="alice"))
    await file.begun.wait()
    assert not registering.done()
    assert not news.done()
    page = await service.list()
    assert (names(page), page.revision) == ([], begin)
    file.may_end.set()
    granted = await registering
    assert granted.revision == begin + 1
    assert told(await news) == [(UP, "a")]
    await watch.aclose()


async def test_changes_during_a_commit_share_the_next_one(slow):
    service, file = slow
    first = asyncio.ensure_future(service.register(card("a0"), principal="alice"))
    await file.begun.wait()
    begin = (await service.list()).revision
    others = [asyncio.ensure_future(service.register(card(f"a{n}"), principal="alice")) for n in range(1, 10)]
    asyncio.get_running_loop().call_soon(file.may_end.set)
    granted = await asyncio.gather(first, *others)
    assert len(file.writes) == 2
    assert len(file.writes[1][0]) == 9
    assert [each.revision for each in granted] == list(range(begin + 1, begin + 11))
    assert file.writes[1][2] == begin + 10


async def test_a_heartbeat_does_not_wait_for_the_disk(slow):
    service, file = slow
    file.may_end.set()
    granted = await service.register(card("a"), principal="alice")
    file.may_end.clear()
    file.begun.clear()
    registering = asyncio.ensure_future(service.register(card("b"), principal="alice"))
    await file.begun.wait()
    assert await service.renew(granted.lease_id, principal="alice") == 30
    assert not registering.done()
    file.may_end.set()
    await registering


async def test_a_canceled_caller_does_not_undo_its_change(slow):
    service, file = slow
    registering = asyncio.ensure_future(service.register(card("a"), principal="alice"))
    await file.begun.wait()
    registering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await registering
    file.may_end.set()
    await service.register(card("b"), principal="alice")
    assert names(await service.list()) == ["a", "b"]


async def test_a_change_that_could_not_be_written_is_not_applied(slow):
    service, file = slow
    file.may_end.set()
    granted = await service.register(card("a"), principal="alice")
    begin = (await service.list()).revision
    file.failure = StoreFullError("full")
    with pytest.raises(StoreFullError):
        await service.register(card("b"), principal="alice")
    with pytest.raises(StoreFullError):
        await service.register(card("a", tags=["new"]), principal="alice", lease_id=granted.lease_id)
    with pytest.raises(StoreFullError):
        await service.deregister(granted.lease_id, principal="alice")
    page = await service.list()
    assert (names(page), page.revision) == (["a"], begin)
    assert page.agents[0].card.tags == []
    file.failure = None
    later = await service.register(card("b"), principal="alice")
    assert later.revision == begin + 1


async def test_expired_agents_are_removed_although_the_disk_is_full(slow, clock):
    service, file = slow
    file.may_end.set()
    await service.register(card("a"), principal="alice", lease_ttl_s=1)
    async with aclosing(service.watch(after_revision=(await service.list()).revision)) as watch:
        file.failure = StoreFullError("full")
        clock.now += 1
        with pytest.raises(StoreFullError):
            await service.register(card("b"), principal="alice")
        service._leased.set()  # a fake clock has no timer
        assert told(await anext(watch)) == [(EXPIRED, "a")]


async def test_a_lease_that_ran_out_during_a_refused_change_still_expires(slow, clock):
    service, file = slow
    file.may_end.set()
    granted = await service.register(card("a"), principal="alice", lease_ttl_s=1)
    file.may_end.clear()
    file.begun.clear()
    file.failure = StoreFullError("full")
    leaving = asyncio.ensure_future(service.deregister(granted.lease_id, principal="alice"))
    await file.begun.wait()
    clock.now += 1
    service._expire()  # skips the agent with a pending change
    async with aclosing(service.watch(after_revision=(await service.list()).revision)) as watch:
        await anext(watch)
        file.may_end.set()
        with pytest.raises(StoreFullError):
            await leaving
        service._leased.set()
        assert told(await anext(watch)) == [(EXPIRED, "a")]


async def test_closing_completes_accepted_changes_and_refuses_further_ones(clock):
    file = SlowFile()
    service = RegistryService(AgentDirectory(clock=clock), file)
    with pytest.raises(UnavailableError):
        await service.register(card("early"), principal="alice")
    await service.start()
    accepted = [asyncio.ensure_future(service.register(card(f"a{n}"), principal="alice")) for n in range(2)]
    await file.begun.wait()
    closing = asyncio.ensure_future(service.aclose())
    asyncio.get_running_loop().call_soon(file.may_end.set)
    await closing
    assert all(each.lease_id for each in await asyncio.gather(*accepted))
    with pytest.raises(UnavailableError):
        await service.register(card("late"), principal="alice")


async def test_closing_ends_the_watches(service):
    watch = service.watch()
    await anext(watch)
    waiting = asyncio.ensure_future(anext(watch, None))
    await service.aclose()
    assert await waiting is None


async def test_a_damaged_card_in_the_file_stops_the_start_and_names_the_agent(path, clock):
    file = SQLiteDirectoryFile(path)
    await file.load()
    await file.write([StoredAgent("grpc://a:1", b"\xff", "alice", "lease", 30.0, 0.0, 1)], [], 1)
    await file.aclose()
    with pytest.raises(StoreError, match="grpc://a:1"):
        await durable(path, clock).start()
