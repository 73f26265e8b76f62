"""Watches of the directory: content, order, and independence of watchers."""

import asyncio
from contextlib import aclosing

import pytest

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.watch import WatchPosition
from protolink_grpc.registry import (
    AgentChangeKind,
    AgentDirectory,
    AgentFilter,
    ChangeBatch,
    InstanceState,
    InstanceStatus,
)

UP, DOWN, EXPIRED = AgentChangeKind


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def directory(clock):
    return AgentDirectory(clock=clock)


def card(name, **fields):
    return AgentCard(name, "d", f"grpc://{name}:1", **fields)


def told(batch):
    return [(change.kind, change.agent.card.name) for change in batch.changes]


async def test_a_watcher_without_a_revision_starts_with_a_snapshot(directory):
    directory.register(card("b"), "alice")
    directory.register(card("a"), "alice")
    async with aclosing(directory.watch()) as watch:
        batch = await anext(watch)
    assert batch.position.reset
    assert told(batch) == [(UP, "b"), (UP, "a")]
    assert [change.revision for change in batch.changes] == [directory.revision - 1, directory.revision]
    assert batch.position.revision == directory.revision


async def test_an_empty_snapshot_is_sent_too(directory):
    async with aclosing(directory.watch()) as watch:
        batch = await anext(watch)
    assert batch.changes == ()
    assert batch.position == WatchPosition(directory.revision, directory.revision, caught_up=True, reset=True)


async def test_a_watch_from_the_revision_of_a_list_misses_and_repeats_nothing(directory, clock):
    directory.register(card("a"), "alice")
    page = directory.list()
    gone = directory.register(card("b"), "alice")
    directory.register(card("c"), "alice", lease_ttl_s=1)
    directory.deregister(gone.lease_id, "alice")
    clock.now += 1
    directory.expire()
    async with aclosing(directory.watch(after_revision=page.revision)) as watch:
        batch = await anext(watch)
    assert not batch.position.reset
    assert told(batch) == [(UP, "b"), (UP, "c"), (DOWN, "b"), (EXPIRED, "c")]
    assert [change.revision for change in batch.changes] == [page.revision + n for n in (1, 2, 3, 4)]


async def test_a_watcher_at_the_latest_revision_is_caught_up_at_once_and_gets_the_next_change(directory):
    begin = directory.revision
    async with aclosing(directory.watch(after_revision=begin)) as watch:
        assert await anext(watch) == ChangeBatch((), WatchPosition(begin, begin, caught_up=True))
        waiting = asyncio.ensure_future(anext(watch))
        asyncio.get_running_loop().call_soon(directory.register, card("a"), "alice")
        batch = await waiting
    assert told(batch) == [(UP, "a")]
    assert batch.position == WatchPosition(begin + 1, begin + 1)


async def test_heartbeats_and_unchanged_cards_are_not_changes(directory):
    granted = directory.register(card("a"), "alice")
    async with aclosing(directory.watch(after_revision=directory.revision)) as watch:
        directory.renew(granted.lease_id, "alice")
        directory.register(card("a"), "alice")
        directory.register(card("b"), "alice")
        assert told(await anext(watch)) == [(UP, "b")]


async def test_a_watcher_with_a_filter_gets_only_matching_agents(directory):
    async with aclosing(directory.watch(AgentFilter(tags=["x"]), directory.revision)) as watch:
        await anext(watch)
        directory.register(card("a"), "alice")
        directory.register(card("b", tags=["x"]), "alice")
        directory.register(card("c"), "alice")
        batch = await anext(watch)
    assert told(batch) == [(UP, "b")]
    assert batch.position == WatchPosition(directory.revision, directory.revision)


async def test_hidden_changes_advance_the_position_before_it_falls_out_of_the_ring(clock):
    directory = AgentDirectory(clock=clock, ring_size=8)
    begin = directory.revision
    async with aclosing(directory.watch(AgentFilter(tags=["x"]), begin)) as watch:
        await anext(watch)
        following = asyncio.ensure_future(anext(watch))
        seen = []
        for number in range(8):
            directory.register(card(f"a{number}"), "alice")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if following.done():
                seen.append((await following, number))
                following = asyncio.ensure_future(anext(watch))
        following.cancel()
        await asyncio.wait([following])
    positions = [
        ChangeBatch((), WatchPosition(begin + 4, begin + 4)),
        ChangeBatch((), WatchPosition(begin + 8, begin + 8)),
    ]
    assert seen == list(zip(positions, (3, 7), strict=True))


async def test_caught_up_is_sent_exactly_once(clock):
    directory = AgentDirectory(clock=clock, ring_size=3)
    directory.register(card("a"), "alice")
    async with aclosing(directory.watch()) as watch:
        batches = [await anext(watch)]
        for number in range(5):
            directory.register(card(f"b{number}"), "alice")
        batches.append(await anext(watch))
        directory.register(card("c"), "alice")
        batches.append(await anext(watch))
    assert [each.position.caught_up for each in batches] == [True, False, False]
    assert [each.position.reset for each in batches] == [True, True, False]


async def test_an_agent_that_stops_matching_is_down_and_one_that_starts_matching_is_up(directory):
    first = directory.register(card("a", tags=["x"]), "alice")
    async with (
        aclosing(directory.watch(AgentFilter(tags=["x"]), directory.revision)) as of_x,
        aclosing(directory.watch(AgentFilter(tags=["y"]), directory.revision)) as of_y,
        aclosing(directory.watch(AgentFilter(), directory.revision)) as of_all,
    ):
        directory.register(card("a", tags=["y"]), "alice", lease_id=first.lease_id)
        down, up, changed = await anext(of_x), await anext(of_y), await anext(of_all)
    assert told(down) == [(DOWN, "a")]
    assert down.changes[0].agent.card.tags == ["x"]
    assert told(up) == told(changed) == [(UP, "a")]
    assert changed.changes[0].agent.card.tags == ["y"]
    assert down.changes[0].revision == up.changes[0].revision == directory.revision


async def test_the_removal_of_an_agent_that_no_longer_matched_is_not_sent(directory):
    first = directory.register(card("a", tags=["x"]), "alice")
    directory.register(card("a"), "alice", lease_id=first.lease_id)
    async with aclosing(directory.watch(AgentFilter(tags=["x"]), directory.revision)) as watch:
        directory.deregister(first.lease_id, "alice")
        directory.register(card("b", tags=["x"]), "alice")
        assert told(await anext(watch)) == [(UP, "b")]


async def test_a_watcher_that_fell_behind_the_ring_gets_a_snapshot_and_stays_consistent(clock):
    directory = AgentDirectory(clock=clock, ring_size=3)
    async with aclosing(directory.watch(after_revision=directory.revision)) as slow:
        directory.register(card("a0"), "alice")
        assert told(await anext(slow)) == [(UP, "a0")]
        for number in range(1, 5):
            directory.register(card(f"a{number}"), "alice")
        batch = await anext(slow)
        assert batch.position.reset
        assert told(batch) == [(UP, f"a{number}") for number in range(5)]
        directory.register(card("b"), "alice")
        after = await anext(slow)
    assert (told(after), after.position.reset) == ([(UP, "b")], False)


async def test_the_oldest_change_in_the_ring_is_sent(clock):
    directory = AgentDirectory(clock=clock, ring_size=3)
    begin = directory.revision
    for number in range(3):
        directory.register(card(f"a{number}"), "alice")
    assert await first_batch(directory, begin) == (3, False)
    directory.register(card("a3"), "alice")
    assert await first_batch(directory, begin) == (4, True)
    assert await first_batch(directory, begin + 1) == (3, False)


async def first_batch(directory: AgentDirectory, revision: int) -> tuple[int, bool]:
    """The number of changes after a revision, and whether they are a snapshot."""
    async with aclosing(directory.watch(after_revision=revision)) as watch:
        batch = await anext(watch)
    return len(batch.changes), batch.position.reset


async def test_a_revision_of_an_earlier_process_starts_with_a_snapshot(clock):
    before = AgentDirectory(clock=clock)
    for number in range(5):
        before.register(card(f"a{number}"), "alice")
    clock.now += 1
    after = AgentDirectory(clock=clock)
    for number in range(9):
        after.register(card(f"b{number}"), "alice")
    assert await first_batch(after, before.revision) == (9, True)
    assert after.revision > before.revision


@pytest.mark.parametrize("ahead", [1, 1_000_000])
async def test_a_future_revision_starts_with_a_snapshot(directory, ahead):
    async with aclosing(directory.watch(after_revision=directory.revision + ahead)) as watch:
        assert (await anext(watch)).position.reset


async def test_a_negative_revision_is_refused(directory):
    with pytest.raises(InvalidArgumentError) as caught:
        await anext(directory.watch(after_revision=-1))
    assert caught.value.field == "after_revision"


async def test_a_large_snapshot_is_sent_in_batches_and_only_the_last_has_a_revision(directory):
    for number in range(5):
        directory.register(card(f"a{number}", metadata={"blob": "x" * 600_000}), "alice")
    async with aclosing(directory.watch()) as watch:
        pieces = [await anext(watch) for _ in range(3)]
    assert [len(piece.changes) for piece in pieces] == [2, 2, 1]
    assert [piece.position.reset for piece in pieces] == [True, False, False]
    assert [piece.position.revision for piece in pieces] == [0, 0, directory.revision]
    assert [piece.position.caught_up for piece in pieces] == [False, False, True]
    assert {piece.position.head for piece in pieces} == {directory.revision}


async def test_many_large_changes_are_sent_in_several_batches(directory):
    begin = directory.revision
    for number in range(5):
        directory.register(card(f"a{number}", metadata={"blob": "x" * 600_000}), "alice")
    async with aclosing(directory.watch(after_revision=begin)) as watch:
        batches = [await anext(watch) for _ in range(3)]
    assert [len(batch.changes) for batch in batches] == [2, 2, 1]
    assert [batch.position.revision for batch in batches] == [begin + 2, begin + 4, begin + 5]
    assert [batch.position.caught_up for batch in batches] == [False, False, True]
    assert {batch.position.head for batch in batches} == {begin + 5}


async def test_changes_between_the_batches_of_a_snapshot_are_sent_after_it(directory):
    for number in range(3):
        granted = directory.register(card(f"a{number}", metadata={"blob": "x" * 600_000}), "alice")
    async with aclosing(directory.watch()) as watch:
        await anext(watch)
        directory.deregister(granted.lease_id, "alice")
        last_piece, news = await anext(watch), await anext(watch)
    assert told(last_piece) == [(UP, "a2")]
    assert told(news) == [(DOWN, "a2")]


async def test_a_watcher_that_never_reads_does_not_affect_others(directory):
    async with aclosing(directory.watch()) as idle, aclosing(directory.watch()) as busy:
        await anext(idle)
        await anext(busy)
        for number in range(100):
            directory.register(card(f"a{number}"), "alice")
            assert told(await anext(busy)) == [(UP, f"a{number}")]
        assert len((await anext(idle)).changes) == 100


async def test_closing_the_directory_ends_every_watch(directory):
    watch = directory.watch(after_revision=directory.revision)
    await anext(watch)
    waiting = asyncio.ensure_future(anext(watch, None))
    asyncio.get_running_loop().call_soon(directory.close)
    assert await waiting is None
    assert await anext(directory.watch(), None) is None


async def test_a_closed_watch_is_removed(directory):
    async with aclosing(directory.watch()) as watch:
        await anext(watch)
        assert len(directory._wakeups) == 1
    assert directory._wakeups == set()


async def test_a_watcher_gets_changes_of_state_and_not_of_load(directory):
    lease_id = directory.register(card("a"), "alice").lease_id
    async with aclosing(directory.watch(AgentFilter(name="a"))) as watch:
        await anext(watch)
        following = asyncio.ensure_future(anext(watch))
        for status in (InstanceStatus(None, 1, 2), InstanceStatus(InstanceState.UP, 3, 4)):
            directory.renew(lease_id, "alice", status)
            await asyncio.sleep(0)
        assert not following.done()
        directory.renew(lease_id, "alice", InstanceStatus(InstanceState.DRAINING, 5, 6))
        batch = await following
    assert told(batch) == [(UP, "a")]
    agent = batch.changes[0].agent
    assert (agent.state, agent.running, agent.queued) == (InstanceState.DRAINING, 5, 6)
