"""The contract of task stores, for each implementation. Frames are opaque here, because a store does not decode them."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import (
    InvalidArgumentError,
    LeaseLostError,
    SequenceConflictError,
    StoreError,
    TaskNotFoundError,
)
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.approvals import APPROVALS, ApprovalQuery, ApprovalRow, changed_approvals, find_approvals
from protolink_grpc.storage.links import LINKS, LinkRow
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import (
    HELD,
    READ_BYTES,
    Append,
    RequestRecord,
    TaskHead,
    TaskPage,
    TaskQuery,
    TaskStore,
)
from protolink_grpc.storage.records import Page, Put, Records, Revisions
from protolink_grpc.storage.sqlite.store import SQLiteStore
from protolink_grpc.storage.webhooks import (
    WEBHOOKS,
    PushRow,
    WebhookFailure,
    advance_webhook,
    delete_webhook,
    failures_of,
    put_webhook,
    webhooks_of,
)

PATIENCE_S = 20.0
"""How long something that must happen may take; far more than it needs on a busy machine."""


@pytest.fixture
async def opened(store: TaskStore) -> AsyncIterator[TaskStore]:
    await store.open()
    yield store
    await store.close()


def addition(
    task_id: str = "task",
    *events: bytes,
    after: int = 0,
    request_id: str = "",
    epoch: int = 1,
    expected_epoch: int | None = None,
    **known: object,
) -> Append:
    """An append of `events`, one if none are given, to a log that ends with `after`."""
    frames = list(events) or [b"event %d" % (after + 1)]
    head = TaskHead(
        task_id=task_id,
        principal="ada",
        agent_name="agent",
        session_id="session",
        state=TaskState.WORKING,
        sequence=after + len(frames),
        run_id="run",
        create_micros=1_000,
        update_micros=1_000 + after + len(frames),
        worker="worker",
        epoch=epoch,
    )
    head = replace(head, **known)
    if "session_id" not in known and head.principal != "ada":
        head.session_id = f"session of {head.principal}"  # a session has one principal
    expected = (epoch if after else 0) if expected_epoch is None else expected_epoch
    return Append(head, frames, after, expected, request_id)


async def whole(store: TaskStore, task_id: str = "task") -> list[bytes]:
    """The log, read in small steps."""
    frames: list[bytes] = []
    while more := await store.read(task_id, len(frames), 3):
        frames += more
    return frames


async def settle(store: TaskStore) -> None:
    """Give what others have begun the turns of the loop, and of the store's threads, that it needs to get to its wait."""
    for _ in range(3):
        await asyncio.sleep(0)
        await store.head("nobody")


async def test_the_runtime_id_belongs_to_the_data(store: TaskStore, tmp_path: Path) -> None:
    assert store.runtime_id == ""
    found = list[str]()
    for _ in range(2):
        await store.open()
        found.append(store.runtime_id)
        await store.close()
    assert found == [str(UUID(found[0]))] * 2
    sharing = SQLiteStore(tmp_path / "tasks.db") if isinstance(store, SQLiteStore) else store
    for other, is_same in ((sharing, True), (SQLiteStore(tmp_path / "other.db"), False), (MemoryStore(), False)):
        await other.open()
        assert (other.runtime_id == found[0]) is is_same
        await other.close()


# -- what the runtime asks of records -----------------------------------------------------------------------------------


async def approval_of(store: TaskStore, agent_name: str, request_id: str) -> ApprovalRow | None:
    return await store.view(lambda records: records.get(APPROVALS, agent_name, request_id))


async def record_of(store: TaskStore, agent_name: str, request_id: str) -> bytes:
    row = await store.view(lambda records: records.get(APPROVALS, agent_name, request_id, whole=True))
    return b"" if row is None else row.record


async def approvals_of(store: TaskStore, query: ApprovalQuery) -> Page[ApprovalRow]:
    return await store.view(lambda records: find_approvals(records, query))


async def revisions_of(store: TaskStore, agent_name: str) -> Revisions:
    return await store.view(lambda records: records.revisions(APPROVALS, agent_name))


async def changes_of(
    store: TaskStore, agent_name: str, after: int, limit: int, *, pending_until: int = 0
) -> list[ApprovalRow]:
    return await store.view(
        lambda records: changed_approvals(records, agent_name, after, limit, pending_until=pending_until)
    )


async def put(store: TaskStore, row: PushRow) -> PushRow:
    return await store.change(lambda records: put_webhook(records, row))


async def advance(store: TaskStore, row: PushRow, cursor: int, **known: Any) -> PushRow | None:
    return await store.change(lambda records: advance_webhook(records, row, store.worker, cursor, **known))


async def delete(store: TaskStore, *key: str) -> bool:
    return await store.change(lambda records: records.delete(WEBHOOKS, *key)) > 0


async def hook_of(store: TaskStore, *key: str) -> PushRow | None:
    return await store.view(lambda records: records.get(WEBHOOKS, *key))


async def hooks_of(
    store: TaskStore, agent_name: str, task_id: str, *, after: tuple[int, str] | None = None, limit: int = 100
) -> list[PushRow]:
    return await store.view(lambda records: webhooks_of(records, agent_name, task_id, after=after, limit=limit))


# -- appending -----------------------------------------------------------------------------------------------------------


async def test_a_new_task_has_the_head_and_the_events_of_its_first_append(opened: TaskStore) -> None:
    append = addition("task", b"one", b"two", messages=2, artifacts=1, reason="because", state=TaskState.FAILED)
    assert await opened.append(append) is None
    assert await opened.head("task") == append.head
    assert await opened.read("task", 0, 10) == [b"one", b"two"]


async def test_a_task_that_nobody_created_has_no_head(opened: TaskStore) -> None:
    assert await opened.head("task") is None


async def test_each_append_goes_to_the_end_of_the_log_and_replaces_the_head(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one"))
    await opened.append(addition("task", b"two", b"three", after=1))
    last = addition("task", b"four", after=3, state=TaskState.COMPLETED, run_id="later", messages=5, artifacts=2)
    await opened.append(last)
    assert await whole(opened) == [b"one", b"two", b"three", b"four"]
    assert await opened.head("task") == last.head


async def test_a_store_keeps_its_own_list_of_events(opened: TaskStore) -> None:
    frames = [b"one"]
    append = addition("task")
    append.events = frames
    await opened.append(append)
    frames.append(b"an afterthought")
    (await opened.read("task", 0, 10)).append(b"another")
    assert await opened.read("task", 0, 10) == [b"one"]


async def test_empty_and_binary_events_come_back_as_they_were(opened: TaskStore) -> None:
    frames = [b"\x00", bytes(range(256)), b"'; DROP TABLE events; --"]
    await opened.append(addition("task", *frames))
    assert await opened.read("task", 0, 10) == frames


async def test_ids_may_be_any_text(opened: TaskStore) -> None:
    strange = "Ω'\"%_\x00 end"
    append = addition(strange, principal=strange, session_id=strange, agent_name=strange, request_id=strange)
    await opened.append(append)
    assert await opened.head(strange) == append.head
    assert await opened.request(strange, strange, strange) == RequestRecord(strange, 0)
    assert (await opened.find(TaskQuery(strange, strange, session_id=strange))).heads == [append.head]


# -- fences --------------------------------------------------------------------------------------------------------------


async def test_a_task_can_be_created_once_only(opened: TaskStore) -> None:
    first = addition("task", b"mine")
    await opened.append(first)
    with pytest.raises(SequenceConflictError) as refused:
        await opened.append(addition("task", b"yours", principal="bob"))
    assert refused.value.metadata == {"task_id": "task"}
    assert await opened.head("task") == first.head
    assert await whole(opened) == [b"mine"]


@pytest.mark.parametrize("after", [1, 3, 1000])
async def test_an_append_elsewhere_than_at_the_end_is_refused_as_a_whole(opened: TaskStore, after: int) -> None:
    first = addition("task", b"one", b"two")
    await opened.append(first)
    with pytest.raises(SequenceConflictError):
        await opened.append(addition("task", b"x", b"y", b"z", after=after))
    assert await opened.head("task") == first.head
    assert await whole(opened) == [b"one", b"two"]


async def test_an_append_to_an_unknown_task_is_refused(opened: TaskStore) -> None:
    with pytest.raises(TaskNotFoundError) as refused:
        await opened.append(addition("task", after=1))
    assert refused.value.metadata == {"task_id": "task"}
    assert await opened.head("task") is None
    assert await whole(opened) == []


async def test_who_takes_a_task_over_ends_the_lease_of_its_last_worker(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one", worker="first"))
    await opened.append(addition("task", b"two", after=1, worker="second", epoch=2, expected_epoch=1))
    for after in (1, 2):  # whether or not it knows of the last event
        with pytest.raises(LeaseLostError) as refused:
            await opened.append(addition("task", b"late", after=after, worker="first"))
        assert refused.value.metadata == {"task_id": "task"}
    await opened.append(addition("task", b"three", after=2, worker="second", epoch=2))
    head = await opened.head("task")
    assert head is not None
    assert (head.worker, head.epoch) == ("second", 2)
    assert await whole(opened) == [b"one", b"two", b"three"]


async def test_an_append_that_takes_no_task_over_leaves_its_worker(opened: TaskStore) -> None:
    await opened.append(addition("task", worker=HELD, state=TaskState.SUBMITTED))
    await opened.change(lambda records: records.release_task("task"))
    await opened.append(addition("task", after=1, worker=HELD, state=TaskState.SUBMITTED))  # read before the release
    head = await opened.head("task")
    assert head is not None
    assert (head.worker, head.sequence) == ("", 2)


async def test_what_is_done_within_an_append_is_committed_and_refused_with_it(opened: TaskStore) -> None:
    await opened.append(addition("held", worker=HELD, state=TaskState.SUBMITTED))
    append = addition("task", request_id="r")

    def refuse(records: Records) -> None:
        records.put(LINKS, LinkRow("task", "parent", "held"))
        raise InvalidArgumentError("no")

    append.within = refuse
    with pytest.raises(InvalidArgumentError):
        await opened.append(append)
    assert await opened.head("task") is None
    assert await opened.view(lambda records: records.get(LINKS, "task", "parent", "held")) is None
    append.within = lambda records: records.release_task("held")
    assert await opened.append(append) is None
    head = await opened.head("held")
    assert head is not None
    assert head.worker == ""


async def test_of_two_who_take_a_task_over_one_wins(opened: TaskStore) -> None:
    await opened.append(addition("task"))
    claims = [addition("task", after=1, worker=name, epoch=2, expected_epoch=1) for name in ("a", "b")]
    outcomes = await asyncio.gather(*map(opened.append, claims), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["LeaseLostError", "NoneType"]


# -- request ids ---------------------------------------------------------------------------------------------------------


async def test_the_same_request_of_the_same_principal_is_done_once(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one", request_id="request"))
    assert await opened.append(addition("another", b"again", request_id="request")) == RequestRecord("task", 0)
    assert await opened.head("another") is None
    assert await opened.request("agent", "ada", "request") == RequestRecord("task", 0)


async def test_a_record_says_where_the_log_ended_before_the_request(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one", b"two"))
    await opened.append(addition("task", b"three", after=2, request_id="request"))
    repeated = await opened.append(addition("task", b"three", after=3, request_id="request"))
    assert repeated == RequestRecord("task", 2)
    assert await whole(opened) == [b"one", b"two", b"three"]


async def test_another_principals_request_of_the_same_id_is_another_request(opened: TaskStore) -> None:
    await opened.append(addition("task", request_id="request"))
    assert await opened.request("agent", "bob", "request") is None
    assert await opened.append(addition("other", principal="bob", request_id="request")) is None
    assert await opened.request("agent", "bob", "request") == RequestRecord("other", 0)
    assert await opened.request("agent", "ada", "request") == RequestRecord("task", 0)


async def test_the_same_request_id_for_another_agent_is_another_request(opened: TaskStore) -> None:
    await opened.append(addition("task", request_id="request"))
    assert await opened.request("other agent", "ada", "request") is None
    assert await opened.append(addition("other", request_id="request", agent_name="other agent")) is None
    assert await opened.request("other agent", "ada", "request") == RequestRecord("other", 0)
    assert await opened.request("agent", "ada", "request") == RequestRecord("task", 0)


async def test_appends_without_a_request_id_are_never_repetitions(opened: TaskStore) -> None:
    for number in range(3):
        assert await opened.append(addition(f"task {number}")) is None
    assert await opened.request("agent", "ada", "") is None


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (addition("task", request_id="request"), SequenceConflictError),
        (addition("task", after=5, request_id="request"), SequenceConflictError),
        (addition("task", after=1, epoch=7, request_id="request"), LeaseLostError),
        (addition("missing", after=1, request_id="request"), TaskNotFoundError),
    ],
    ids=["created already", "wrong end", "lost lease", "unknown task"],
)
async def test_a_refused_append_leaves_its_request_id_free(
    opened: TaskStore, refused: Append, error: type[Exception]
) -> None:
    await opened.append(addition("task"))
    with pytest.raises(error):
        await opened.append(refused)
    assert await opened.request("agent", "ada", "request") is None
    assert await opened.append(addition("task", after=1, request_id="request")) is None
    assert await opened.request("agent", "ada", "request") == RequestRecord("task", 1)


async def test_of_equal_requests_at_once_one_is_done(opened: TaskStore) -> None:
    attempts = [addition(f"task {number}", request_id="request") for number in range(20)]
    outcomes = await asyncio.gather(*map(opened.append, attempts))
    done = [append.head.task_id for append, outcome in zip(attempts, outcomes, strict=True) if outcome is None]
    assert len(done) == 1
    assert [outcome for outcome in outcomes if outcome is not None] == [RequestRecord(done[0], 0)] * 19
    assert [task for task in (each.head.task_id for each in attempts) if await opened.head(task)] == done


# -- reading -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
@pytest.mark.parametrize("after", [0, 1, 4, 5, 6, 1000])
async def test_reading_begins_after_a_sequence_and_stops_at_the_limit(
    opened: TaskStore, after: int, limit: int
) -> None:
    frames = [b"%d" % number for number in range(1, 6)]
    await opened.append(addition("task", *frames[:2]))
    await opened.append(addition("task", *frames[2:], after=2))
    assert await opened.read("task", after, limit) == frames[after : after + limit]


async def test_an_unknown_task_reads_as_empty(opened: TaskStore) -> None:
    assert await opened.read("task", 0, 10) == []


@pytest.mark.parametrize("reopened", [False, True], ids=["warm", "from the beginning"])
async def test_one_read_is_bounded_in_bytes_but_never_empty(opened: TaskStore, reopened: bool) -> None:
    half, huge = bytes(READ_BYTES // 2), bytes(READ_BYTES + 1)
    await opened.append(addition("task", half, half, b"x", huge, b"y"))
    if reopened:
        await opened.close()
        await opened.open()
    sizes, after = [], 0
    while frames := await opened.read("task", after, 100):
        sizes.append([len(frame) for frame in frames])
        after += len(frames)
    assert sizes == [[READ_BYTES // 2] * 2, [1], [READ_BYTES + 1], [1]]


async def test_a_long_log_reads_whole_from_any_point(opened: TaskStore) -> None:
    frames = [b"%d" % number for number in range(3000)]
    for start in range(0, len(frames), 100):
        await opened.append(addition("task", *frames[start : start + 100], after=start))
    for after in (0, 1, 1499, 2488, 2900, 2999):
        read: list[bytes] = []
        while more := await opened.read("task", after + len(read), 512):
            read += more
        assert read == frames[after:]


# -- waiting -------------------------------------------------------------------------------------------------------------


async def test_waiting_returns_at_once_when_there_is_more(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one", b"two"))
    async with asyncio.timeout(PATIENCE_S):
        await opened.wait("task", 0)
        await opened.wait("task", 1)


@pytest.mark.parametrize("known", [False, True], ids=["not created yet", "at its end"])
async def test_every_reader_that_waits_wakes_when_the_log_grows(opened: TaskStore, known: bool) -> None:
    after = int(known)
    if known:
        await opened.append(addition("task"))
    readers = [asyncio.create_task(opened.wait("task", after)) for _ in range(5)]
    await settle(opened)
    assert not any(reader.done() for reader in readers)
    await opened.append(addition("task", after=after))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*readers)
    assert len(await opened.read("task", after, 10)) == 1


async def test_a_reader_that_follows_sees_each_event_once_and_in_order(opened: TaskStore) -> None:
    async def follow() -> list[bytes]:
        seen: list[bytes] = []
        while not seen or seen[-1] != b"end":
            frames = await opened.read("task", len(seen), 4)
            if frames:
                seen += frames
            else:
                await opened.wait("task", len(seen))
        return seen

    written = [b"%d" % number for number in range(40)] + [b"end"]
    readers = [asyncio.create_task(follow()) for _ in range(4)]
    for after, frame in enumerate(written):
        await opened.append(addition("task", frame, after=after))
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*readers) == [written] * 4


async def test_a_reader_that_stops_waiting_leaves_nothing_behind(opened: TaskStore) -> None:
    await opened.append(addition("task"))
    readers = [asyncio.create_task(opened.wait("task", 1)) for _ in range(3)]
    await settle(opened)
    for reader in readers:
        reader.cancel()
    await asyncio.wait(readers)
    await settle(opened)
    assert all(reader.cancelled() for reader in readers)
    assert not opened._waiters  # the one place where a forgotten reader would stay
    await opened.append(addition("task", after=1))


async def test_closing_wakes_who_waits(store: TaskStore) -> None:
    await store.open()
    await store.append(addition("task"))
    reader = asyncio.create_task(store.wait("task", 1))
    await settle(store)
    await store.close()
    async with asyncio.timeout(PATIENCE_S):
        # With an answer or a refusal: what matters is that it ends.
        await asyncio.wait([reader])
    assert reader.exception() is None or isinstance(reader.exception(), StoreError)


# -- listing -------------------------------------------------------------------------------------------------------------


def position(head: TaskHead) -> tuple[int, str]:
    return head.update_micros, head.task_id


async def populate(store: TaskStore, seed: int) -> list[TaskHead]:
    """Forty tasks of two principals, two agents, three sessions, in many states; some changed more than once, clocks repeat."""
    chance = random.Random(seed)
    heads: dict[str, TaskHead] = {}
    for number in chance.sample(range(100, 140), 40) + [chance.randrange(100, 140) for _ in range(20)]:
        task_id = f"task {number}"
        known = heads.get(task_id)
        append = addition(
            task_id,
            after=known.sequence if known else 0,
            principal=known.principal if known else chance.choice(["ada", "bob"]),
            agent_name=known.agent_name if known else chance.choice(["agent", "agent", "other"]),
            state=chance.choice(list(TaskState)),
            update_micros=chance.randrange(1, 15),
        )
        append.head.session_id = known.session_id if known else f"{append.head.principal} {chance.randrange(1, 4)}"
        await store.append(append)
        heads[task_id] = append.head
    return list(heads.values())


QUERIES = [
    TaskQuery("ada", "agent", include_total=True),
    TaskQuery("bob", "agent", include_total=True),
    TaskQuery("ada", "other", include_total=True),
    TaskQuery("nobody", "agent", include_total=True),
    TaskQuery("ada", "agent", states=frozenset({TaskState.WORKING}), include_total=True),
    TaskQuery("ada", "agent", states=frozenset(TaskState) - {TaskState.WORKING}, include_total=True),
    TaskQuery("ada", "agent", session_id="ada 2", include_total=True),
    TaskQuery("ada", "agent", session_id="no such session", include_total=True),
    TaskQuery("ada", "agent", updated_after_micros=7, include_total=True),
    TaskQuery(
        "bob", "other", states=frozenset(TaskState), session_id="bob 1", updated_after_micros=3, include_total=True
    ),
]


def matching(heads: list[TaskHead], query: TaskQuery) -> list[TaskHead]:
    """What a query asks for, in the words of the port."""
    found = [
        head
        for head in heads
        if head.principal == query.principal
        and head.agent_name == query.agent_name
        and (not query.states or head.state in query.states)
        and (not query.session_id or head.session_id == query.session_id)
        and head.update_micros > query.updated_after_micros
    ]
    return sorted(found, key=position, reverse=True)


@pytest.mark.parametrize("seed", range(3))
async def test_every_filter_lists_what_matches_last_changed_first(opened: TaskStore, seed: int) -> None:
    heads = await populate(opened, seed)
    for query in QUERIES:
        page = await opened.find(replace(query, page_size=1000))
        expected = matching(heads, query)
        assert page == TaskPage(expected, None, len(expected)), query


@pytest.mark.parametrize("page_size", [1, 2, 7, 50])
async def test_pages_joined_are_the_list_without_gaps_or_repetitions(opened: TaskStore, page_size: int) -> None:
    heads = await populate(opened, 7)
    for query in QUERIES:
        expected = matching(heads, query)
        listed: list[TaskHead] = []
        step = replace(query, page_size=page_size)
        while True:
            page = await opened.find(step)
            assert page.total == len(expected)
            assert len(page.heads) <= page_size
            listed += page.heads
            if page.next is None:
                break
            step = replace(step, after=page.next)
        assert listed == expected, query


async def test_the_last_page_says_so_when_it_is_exactly_full(opened: TaskStore) -> None:
    for number in range(4):
        await opened.append(addition(f"task {number}"))
    first = await opened.find(TaskQuery("ada", "agent", page_size=2))
    second = await opened.find(TaskQuery("ada", "agent", page_size=2, after=first.next))
    assert first.next is not None
    assert second.next is None
    assert len(first.heads) == len(second.heads) == 2


async def test_a_change_moves_a_task_to_the_front(opened: TaskStore) -> None:
    for number in range(3):
        await opened.append(addition(f"task {number}", update_micros=100 + number))
    await opened.append(addition("task 0", after=1, update_micros=200))
    page = await opened.find(TaskQuery("ada", "agent", include_total=True))
    assert [head.task_id for head in page.heads] == ["task 0", "task 2", "task 1"]


# -- sessions ------------------------------------------------------------------------------------------------------------


def opening(task_id: str, principal: str, session_id: str = "", **known: object) -> Append:
    """The append that creates a task; without a session it is in its own."""
    return addition(task_id, principal=principal, session_id=session_id or task_id, **known)


async def in_session(store: TaskStore, principal: str, session_id: str, agent_name: str = "agent") -> list[str]:
    page = await store.find(TaskQuery(principal, agent_name, session_id=session_id, include_total=True))
    assert page.total == len(page.heads)
    return sorted(head.task_id for head in page.heads)


async def test_two_principals_use_one_session_id_and_never_meet(opened: TaskStore) -> None:
    await opened.append(opening("one", "ada", "trip", request_id="r"))
    await opened.append(opening("two", "ada", "trip"))
    assert await opened.append(opening("three", "bob", "trip", request_id="r")) is None
    assert await in_session(opened, "ada", "trip") == ["one", "two"]
    assert await in_session(opened, "bob", "trip") == ["three"]
    assert await in_session(opened, "eve", "trip") == []


async def test_the_session_of_a_task_of_its_own_is_its_owners(opened: TaskStore) -> None:
    await opened.append(opening("own", "ada"))
    await opened.append(opening("other", "bob", "own"))
    await opened.append(opening("further", "ada", "own"))
    assert await in_session(opened, "ada", "own") == ["further", "own"]
    assert await in_session(opened, "bob", "own") == ["other"]


async def test_a_task_may_be_named_like_anothers_session(opened: TaskStore) -> None:
    await opened.append(opening("one", "ada", "trip"))
    await opened.append(opening("trip", "bob"))
    assert await in_session(opened, "ada", "trip") == ["one"]
    assert await in_session(opened, "bob", "trip") == ["trip"]


async def test_agents_on_one_store_have_their_sessions_to_themselves(opened: TaskStore) -> None:
    await opened.append(opening("one", "ada", "trip"))
    await opened.append(opening("two", "ada", "trip", agent_name="other"))
    assert await in_session(opened, "ada", "trip") == ["one"]
    assert await in_session(opened, "ada", "trip", "other") == ["two"]


async def test_a_task_that_exists_is_a_conflict_whatever_session_is_asked_for(opened: TaskStore) -> None:
    # The caller means that task: in which session it is, is not the question.
    await opened.append(opening("one", "ada", "trip"))
    for session in ("trip", "one", "other"):
        with pytest.raises(SequenceConflictError):
            await opened.append(opening("one", "bob", session, request_id="r"))
    assert await opened.request("agent", "bob", "r") is None
    assert await in_session(opened, "bob", "trip") == []


async def test_principals_that_begin_one_session_at_once_all_get_theirs(opened: TaskStore) -> None:
    names = ("ada", "bob", "eve")
    assert await asyncio.gather(*(opened.append(opening(name, name, "trip")) for name in names)) == [None] * 3
    for name in names:
        assert await in_session(opened, name, "trip") == [name]


# -- approvals -----------------------------------------------------------------------------------------------------------


def row(request_id: str, task_id: str = "task", **known: object) -> ApprovalRow:
    """A pending approval that the first event of a task asks for."""
    return replace(ApprovalRow(request_id, "agent", "ada", task_id, ApprovalState.PENDING, 1_000, 1), **known)


def asking(*rows: ApprovalRow, after: int = 0, **known: object) -> Append:
    """An append to the task of the first row, of its agent and principal."""
    first = rows[0]
    append = addition(
        first.task_id,
        after=after,
        principal=first.principal,
        agent_name=first.agent_name,
        session_id=first.task_id,
        **known,
    )
    return replace(append, records=[Put(APPROVALS, each) for each in rows])


def plain(rows: list[ApprovalRow]) -> list[ApprovalRow]:
    """Rows as they were given to the store."""
    return [replace(each, revision=0) for each in rows]


async def test_an_approval_is_found_as_it_was_appended(opened: TaskStore) -> None:
    begin = (await revisions_of(opened, "agent")).latest
    asked = row("r1", create_micros=7, ask_sequence=1)
    await opened.append(asking(asked))
    assert await approval_of(opened, "agent", "r1") == replace(asked, revision=begin + 1)
    assert await approval_of(opened, "agent", "r2") is None
    assert await approval_of(opened, "other", "r1") is None


async def test_an_answer_replaces_the_question(opened: TaskStore) -> None:
    begin = (await revisions_of(opened, "agent")).latest
    await opened.append(asking(row("r1"), row("r2")))
    answered = row("r1", state=ApprovalState.APPROVED, answer_sequence=2)
    await opened.append(asking(answered, after=1))
    assert await approval_of(opened, "agent", "r1") == replace(answered, revision=begin + 3)
    pending = await approvals_of(opened, ApprovalQuery("agent", states=frozenset({ApprovalState.PENDING})))
    assert plain(pending.records) == [row("r2")]


@pytest.mark.parametrize("fence", [{"epoch": 5}, {}], ids=["epoch", "sequence"])
async def test_an_append_that_is_refused_leaves_no_approval(opened: TaskStore, fence: dict[str, int]) -> None:
    await opened.append(addition("task", session_id="task"))
    with pytest.raises((LeaseLostError, SequenceConflictError)):
        await opened.append(asking(row("r1"), after=1 if fence else 3, **fence))
    assert await approval_of(opened, "agent", "r1") is None
    revisions = await revisions_of(opened, "agent")
    assert revisions.first == revisions.latest > 0


async def test_a_request_id_that_another_task_has_asked_with_is_refused(opened: TaskStore) -> None:
    await opened.append(asking(row("r1", "one")))
    with pytest.raises(InvalidArgumentError) as refused:
        await opened.append(asking(row("r0", "two"), row("r1", "two"), request_id="request"))
    assert refused.value.field == "request.request_id"
    assert await opened.head("two") is None
    assert await opened.request("agent", "ada", "request") is None
    assert await approval_of(opened, "agent", "r0") is None
    assert plain((await approvals_of(opened, ApprovalQuery("agent"))).records) == [row("r1", "one")]
    await opened.append(asking(row("r1", "of other", agent_name="other")))


QUERIES_OF_APPROVALS = [
    ApprovalQuery("agent"),
    ApprovalQuery("other"),
    ApprovalQuery("nobody"),
    ApprovalQuery("agent", principal="ada"),
    ApprovalQuery("agent", principal=""),
    ApprovalQuery("agent", task_id="task 3"),
    ApprovalQuery("agent", states=frozenset({ApprovalState.PENDING})),
    ApprovalQuery("agent", "bob", frozenset({ApprovalState.DENIED, ApprovalState.PENDING})),
    ApprovalQuery("agent", "ada", frozenset({ApprovalState.APPROVED}), "task 1"),
]


async def populate_approvals(store: TaskStore, seed: int) -> list[ApprovalRow]:
    """Sixty approvals of ten tasks, two agents, two principals; clocks repeat, some are answered."""
    chance = random.Random(seed)
    lengths: dict[str, int] = {}
    rows: dict[str, ApprovalRow] = {}
    for number in chance.sample(range(100, 160), 60) + chance.choices(range(100, 160), k=30):
        known = rows.get(f"r{number}")
        task = number % 10
        asked = known or row(f"r{number}", f"task {task}", create_micros=chance.randrange(1, 9))
        if known:
            asked = replace(known, state=chance.choice(list(ApprovalState)[1:]), answer_sequence=9)
        asked = replace(asked, agent_name="other" if task > 6 else "agent", principal="bob" if task % 3 else "ada")
        after = lengths.get(asked.task_id, 0)
        await store.append(asking(asked, after=after))
        lengths[asked.task_id] = after + 1
        rows[asked.request_id] = asked
    return list(rows.values())


@pytest.mark.parametrize("page_size", [1, 7, 100])
async def test_pages_of_approvals_joined_are_the_list_oldest_first(opened: TaskStore, page_size: int) -> None:
    rows = await populate_approvals(opened, page_size)
    for query in QUERIES_OF_APPROVALS:
        expected = [
            each
            for each in sorted(rows, key=lambda each: (each.create_micros, each.request_id))
            if each.agent_name == query.agent_name
            and query.principal in (None, each.principal)
            and (not query.states or each.state in query.states)
            and query.task_id in ("", each.task_id)
        ]
        listed: list[ApprovalRow] = []
        step = replace(query, page_size=page_size)
        while True:
            page = await approvals_of(opened, step)
            listed += page.records
            if page.next is None:
                break
            assert len(page.records) == page_size
            step = replace(step, after=page.next)
        assert plain(listed) == expected, query


async def test_the_last_page_of_approvals_says_so_when_it_is_exactly_full(opened: TaskStore) -> None:
    await opened.append(asking(row("r1"), row("r2")))
    assert (await approvals_of(opened, ApprovalQuery("agent", page_size=2))).next is None
    assert await approvals_of(opened, ApprovalQuery("agent", after=(1_000, "r2"))) == Page()


async def test_changes_come_in_their_order_each_as_it_is_now(opened: TaskStore) -> None:
    await opened.append(asking(row("r1"), row("r2"), row("r3")))
    await opened.append(asking(row("x", "of other", agent_name="other")))
    await opened.append(asking(row("r1", state=ApprovalState.DENIED, answer_sequence=2), after=1))
    everything = await changes_of(opened, "agent", 0, 10)
    assert [(each.request_id, each.state) for each in everything] == [
        ("r2", ApprovalState.PENDING),
        ("r3", ApprovalState.PENDING),
        ("r1", ApprovalState.DENIED),
    ]
    assert [each.revision for each in everything] == sorted({each.revision for each in everything})
    revisions = await revisions_of(opened, "agent")
    assert revisions == Revisions(everything[-1].revision - 4, everything[-1].revision)
    assert await changes_of(opened, "agent", everything[0].revision, 10) == everything[1:]
    assert await changes_of(opened, "agent", 0, 2) == everything[:2]
    assert await changes_of(opened, "agent", everything[-1].revision, 10) == []


async def test_what_was_settled_before_a_reader_began_is_left_out_for_him(opened: TaskStore) -> None:
    await opened.append(asking(row("r1"), row("r2")))
    await opened.append(asking(row("r1", state=ApprovalState.APPROVED, answer_sequence=2), after=1))
    began = (await revisions_of(opened, "agent")).latest
    assert [each.request_id for each in await changes_of(opened, "agent", 0, 10, pending_until=began)] == ["r2"]
    await opened.append(asking(row("r2", state=ApprovalState.EXPIRED, answer_sequence=3), after=2))
    await opened.append(asking(row("r3", ask_sequence=4), after=3))
    seen = [each.request_id for each in await changes_of(opened, "agent", 0, 10, pending_until=began)]
    assert seen == ["r2", "r3"]


async def test_every_reader_that_waits_for_approvals_wakes_at_the_next_one(opened: TaskStore) -> None:
    await opened.append(asking(row("r1")))
    known = (await revisions_of(opened, "agent")).latest
    async with asyncio.timeout(PATIENCE_S):
        await opened.wait_change(APPROVALS, "agent", known - 1)
    readers = [asyncio.create_task(opened.wait_change(APPROVALS, "agent", known)) for _ in range(3)]
    gone = asyncio.create_task(opened.wait_change(APPROVALS, "agent", known))
    await settle(opened)
    assert not any(reader.done() for reader in readers)
    gone.cancel()
    await opened.append(asking(row("r2", ask_sequence=2), after=1))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*readers)
    await asyncio.wait([gone])
    await settle(opened)
    assert not opened._change_waiters  # the one place where a forgotten reader would stay


async def test_closing_wakes_who_waits_for_approvals(store: TaskStore) -> None:
    await store.open()
    known = (await revisions_of(store, "agent")).latest
    reader = asyncio.create_task(store.wait_change(APPROVALS, "agent", known))
    await settle(store)
    await store.close()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait([reader])
    assert reader.exception() is None or isinstance(reader.exception(), StoreError)


async def test_revisions_of_approvals_are_counted_for_each_agent(opened: TaskStore) -> None:
    begin = (await revisions_of(opened, "agent")).latest
    await opened.append(asking(row("x", "of other", agent_name="other"), row("y", "of other", agent_name="other")))
    await opened.append(asking(row("r1")))
    assert (await revisions_of(opened, "agent")).latest == begin + 1
    assert (await revisions_of(opened, "other")).latest == begin + 2


async def test_a_file_keeps_the_revisions_of_its_approvals_and_a_new_one_begins_after_them(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    known = []
    for _ in range(2):
        store = SQLiteStore(path)
        await store.open()
        if not known:
            await store.append(asking(row("r1"), row("r2")))
        known.append(await revisions_of(store, "agent"))
        await store.close()
    assert known[0] == known[1] == Revisions(known[0].first, known[0].first + 2)
    assert known[0].first > 1_700_000_000_000_000  # microseconds of the clock, in whole seconds


async def test_what_memory_forgets_makes_earlier_revisions_unknown() -> None:
    store = MemoryStore(max_tasks=1)
    begin = await revisions_of(store, "agent")
    ended = row("r1", state=ApprovalState.WITHDRAWN)
    await store.append(replace(asking(ended), head=replace(asking(ended).head, state=TaskState.FAILED)))
    assert await revisions_of(store, "agent") == Revisions(begin.first, begin.first + 1)
    await store.append(addition("another", state=TaskState.COMPLETED))
    assert await revisions_of(store, "agent") == Revisions(begin.first + 1, begin.first + 1)


async def test_approvals_go_with_the_tasks_that_memory_forgets() -> None:
    store = MemoryStore(max_tasks=1)
    withdrawn = row("r1", state=ApprovalState.WITHDRAWN)
    await store.append(replace(asking(withdrawn), head=replace(asking(withdrawn).head, state=TaskState.FAILED)))
    await store.append(asking(row("r2", "another")))
    await store.append(addition("third", state=TaskState.COMPLETED))
    assert await approval_of(store, "agent", "r1") is None
    assert [each.request_id for each in (await approvals_of(store, ApprovalQuery("agent"))).records] == ["r2"]


# -- heads ---------------------------------------------------------------------------------------------------------------


async def test_heads_are_read_together(opened: TaskStore) -> None:
    for task_id in ("one", "two", "three"):
        await opened.append(addition(task_id))
    found = await opened.heads(["three", "one", "unknown", "one"])
    assert found == {"one": await opened.head("one"), "three": await opened.head("three")}
    assert await opened.heads([]) == {}


# -- pushes --------------------------------------------------------------------------------------------------------------


def pushed(config_id: str = "hook", task_id: str = "task", **known: object) -> PushRow:
    """A push config without a worker, of an agent's task, at its beginning."""
    return replace(PushRow("agent", "ada", task_id, config_id, b"body of " + config_id.encode(), 0, 1_000), **known)


async def ended(store: TaskStore, task_id: str = "task") -> None:
    """A task with two events that is over."""
    await store.append(addition(task_id, b"one", b"two", state=TaskState.COMPLETED))


async def claimed(store: TaskStore, agent_name: str = "agent") -> list[str]:
    return [row.config_id for row in await store.claim(WEBHOOKS, agent_name)]


async def test_a_push_config_is_kept_as_it_was_put(opened: TaskStore) -> None:
    await opened.append(addition())
    row = pushed(body=bytes(range(256)), cursor=1, worker="somebody", create_micros=-7)
    assert await put(opened, row) == row
    assert await hook_of(opened, "agent", "task", "hook") == row
    for unknown in (("other", "task", "hook"), ("agent", "other", "hook"), ("agent", "task", "other")):
        assert await hook_of(opened, *unknown) is None


async def test_a_push_config_of_no_task_is_refused(opened: TaskStore) -> None:
    with pytest.raises(TaskNotFoundError) as refused:
        await put(opened, pushed())
    assert refused.value.metadata == {"task_id": "task"}
    assert await hook_of(opened, "agent", "task", "hook") is None


async def test_what_a_push_config_holds_is_not_in_its_text() -> None:
    assert "secret" not in repr(pushed(body=b"secret"))


async def test_a_push_config_put_again_has_the_new_body_and_stands_where_it_stood(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one", b"two", b"three"))
    await put(opened, pushed(cursor=1, worker=opened.worker))
    moved = await advance(opened, pushed(), 2)
    assert moved is not None
    again = await put(opened, pushed(body=b"new", cursor=3, create_micros=9_000, worker="another", principal="bob"))
    assert again == replace(moved, body=b"new")
    assert await hook_of(opened, "agent", "task", "hook") == again
    assert await hooks_of(opened, "agent", "task") == [again]


async def test_a_push_config_without_a_worker_gets_the_one_that_puts_it_again(opened: TaskStore) -> None:
    await opened.append(addition())
    await put(opened, pushed())
    assert (await put(opened, pushed(worker="me"))).worker == "me"
    assert (await put(opened, pushed(worker="you"))).worker == "me"


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_pages_of_a_tasks_push_configs_joined_are_all_of_them_oldest_first(opened: TaskStore, limit: int) -> None:
    await opened.append(addition())
    await opened.append(addition("another"))
    rows = [pushed(f"hook {number}", create_micros=2_000 - number // 2) for number in range(7)]
    for row in rows:
        await put(opened, row)
    await put(opened, pushed("elsewhere", "another"))
    await put(opened, pushed("of another agent", agent_name="other"))
    listed: list[PushRow] = []
    while page := await hooks_of(
        opened, "agent", "task", after=(listed[-1].create_micros, listed[-1].config_id) if listed else None, limit=limit
    ):
        assert len(page) <= limit
        listed += page
    assert listed == sorted(rows, key=lambda each: (each.create_micros, each.config_id))


async def test_a_deleted_push_config_is_gone_and_deleting_it_again_changes_nothing(opened: TaskStore) -> None:
    await opened.append(addition())
    await put(opened, pushed("one"))
    await put(opened, pushed("two"))
    assert await delete(opened, "agent", "task", "one")
    assert not await delete(opened, "agent", "task", "one")
    assert not await delete(opened, "agent", "unknown", "one")
    assert await hook_of(opened, "agent", "task", "one") is None
    assert await advance(opened, pushed("one", worker=opened.worker), 1) is None
    assert await claimed(opened) == ["two"]


async def test_the_cursor_of_a_push_config_moves_forward_only(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one", b"two", b"three"))
    row = await put(opened, pushed(worker=opened.worker))
    for to, stands in ((2, 2), (1, 2), (3, 3)):
        assert await advance(opened, row, to) == replace(row, cursor=stands)
    assert await hook_of(opened, "agent", "task", "hook") == replace(row, cursor=3)


def failure(sequence: int, error: str = "HTTP 500", **known: Any) -> WebhookFailure:
    return replace(WebhookFailure("agent", "task", "hook", sequence, sequence * 1_000, error), **known)


async def failures(store: TaskStore, *rows: PushRow) -> list[WebhookFailure]:
    return await store.view(lambda records: failures_of(records, rows or [pushed()]))


async def test_notifications_that_were_given_up_are_kept_with_the_first_event_and_the_latest_error(
    opened: TaskStore,
) -> None:
    await opened.append(addition("task", b"one", b"two", b"three", b"four"))
    row = await put(opened, pushed(worker=opened.worker))
    await put(opened, pushed("other", worker=opened.worker))
    await advance(opened, row, 1)
    assert await failures(opened) == []
    await advance(opened, row, 2, failure=failure(2))
    assert await advance(opened, row, 3, failure=failure(3, "HTTP 410")) == replace(row, cursor=3)
    await advance(opened, row, 4)
    assert await failures(opened, row, pushed("other")) == [failure(2, "HTTP 410")]


async def test_a_failure_ends_with_a_complete_notification_a_replacement_and_a_deletion(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one", b"two"))
    row = await put(opened, pushed(worker=opened.worker))
    ends: list[Callable[[], Awaitable[Any]]] = [
        lambda: advance(opened, row, 2, is_complete=True),
        lambda: put(opened, pushed(body=b"new")),
        lambda: opened.change(lambda records: delete_webhook(records, "agent", "task", "hook")),
    ]
    for end in ends:
        current = await hook_of(opened, "agent", "task", "hook")
        assert current is not None
        await advance(opened, current, 1, failure=failure(1))
        assert await failures(opened) == [failure(1)]
        await end()
        assert await failures(opened) == []


async def test_a_failure_of_a_receiver_that_was_replaced_is_not_stored(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one", b"two"))
    row = await put(opened, pushed(worker=opened.worker))
    new = await put(opened, pushed(body=b"new"))
    assert await advance(opened, row, 1, failure=failure(1)) == replace(new, cursor=1)
    assert await failures(opened) == []


async def test_who_is_not_its_worker_records_no_failure(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one"))
    row = await put(opened, pushed(worker="another"))
    assert await advance(opened, row, 1, failure=failure(1)) is None
    assert await failures(opened) == []


@pytest.mark.parametrize("worker", ["", "another"])
async def test_who_is_not_its_worker_does_not_move_the_cursor(opened: TaskStore, worker: str) -> None:
    await opened.append(addition("task", b"one", b"two"))
    row = await put(opened, pushed(worker=worker))
    assert await advance(opened, row, 2) is None
    assert await hook_of(opened, "agent", "task", "hook") == row


async def test_a_push_config_is_done_when_the_last_event_of_a_finished_task_was_dealt_with(opened: TaskStore) -> None:
    await opened.append(addition("task", b"one"))
    row = await put(opened, pushed(worker=opened.worker))
    at_end = await advance(opened, row, 1)
    assert at_end is not None
    assert not at_end.done  # the task goes on
    await opened.append(addition("task", b"two", b"three", after=1, state=TaskState.FAILED))
    for cursor, done in ((2, False), (3, True)):
        moved = await advance(opened, row, cursor)
        assert moved == replace(row, cursor=cursor, done=done)
    await opened.release_claims(WEBHOOKS, "agent")
    assert await claimed(opened) == []
    assert await hook_of(opened, "agent", "task", "hook") == moved


@pytest.mark.parametrize(("cursor", "done"), [(0, False), (1, False), (2, True)])
async def test_a_push_config_of_a_finished_task_is_kept_and_done_where_nothing_is_left(
    opened: TaskStore, cursor: int, done: bool
) -> None:
    await ended(opened)
    assert (await put(opened, pushed(cursor=cursor))).done is done
    assert await claimed(opened) == ([] if done else ["hook"])
    assert len(await hooks_of(opened, "agent", "task")) == 1


async def test_a_task_that_waits_for_its_caller_is_not_over_for_its_push_configs(opened: TaskStore) -> None:
    await opened.append(addition(state=TaskState.INPUT_REQUIRED))
    assert not (await put(opened, pushed(cursor=1))).done
    assert await claimed(opened) == ["hook"]


async def test_push_configs_that_nobody_works_on_are_claimed_once_oldest_first(opened: TaskStore) -> None:
    await opened.append(addition())
    await opened.append(addition("another"))
    await put(opened, pushed("second", create_micros=2))
    await put(opened, pushed("first", "another", worker="gone", create_micros=1))
    await put(opened, pushed("mine", worker=opened.worker))
    await put(opened, pushed("of another agent", agent_name="other"))
    rows = await opened.claim(WEBHOOKS, "agent")
    assert [(row.config_id, row.worker) for row in rows] == [("first", opened.worker), ("second", opened.worker)]
    assert await hook_of(opened, "agent", "another", "first") == rows[0]
    assert await opened.claim(WEBHOOKS, "agent") == []
    assert await claimed(opened, "other") == ["of another agent"]


async def test_push_configs_that_were_given_up_can_be_claimed_again(opened: TaskStore) -> None:
    await opened.append(addition())
    row = await put(opened, pushed(worker=opened.worker))
    await put(opened, pushed("of another agent", agent_name="other", worker=opened.worker))
    await opened.release_claims(WEBHOOKS, "agent")
    assert await hook_of(opened, "agent", "task", "hook") == replace(row, worker="")
    assert await claimed(opened, "other") == []
    assert await claimed(opened) == ["hook"]


async def test_a_push_config_of_any_text_is_found(opened: TaskStore) -> None:
    strange = "Ω'\"%_\x00 end"
    await opened.append(addition(strange, agent_name=strange))
    row = await put(opened, pushed(strange, strange, agent_name=strange, worker="gone"))
    assert await hook_of(opened, strange, strange, strange) == row
    assert await claimed(opened, strange) == [strange]


async def test_memory_forgets_the_push_configs_of_the_tasks_that_it_forgets() -> None:
    store = MemoryStore(max_tasks=1)
    await store.open()
    await ended(store, "old")
    await put(store, pushed("undone", "old"))
    await put(store, pushed("done", "old", cursor=2))
    await put(store, pushed("failed", "old", worker=store.worker))
    await advance(store, pushed("failed", "old"), 1, failure=failure(1, task_id="old", config_id="failed"))
    await ended(store, "new")
    await ended(store, "newer")
    assert await hooks_of(store, "agent", "old") == []
    assert await store.claim(WEBHOOKS, "agent") == []
    assert not store._records._scopes  # names of tasks would pile up here


# -- at the same time ----------------------------------------------------------------------------------------------------


async def test_of_writers_that_race_exactly_one_gets_each_sequence(opened: TaskStore) -> None:
    await opened.append(addition("task", b"start"))
    winners = []
    for after in range(1, 6):
        attempts = [addition("task", b"%d by %d" % (after, writer), after=after) for writer in range(16)]
        outcomes = await asyncio.gather(*map(opened.append, attempts), return_exceptions=True)
        assert sum(outcome is None for outcome in outcomes) == 1
        assert sum(isinstance(outcome, SequenceConflictError) for outcome in outcomes) == 15
        winners.append(attempts[outcomes.index(None)].events[0])
    assert await whole(opened) == [b"start", *winners]


async def test_many_appends_at_once_to_different_tasks_all_succeed(opened: TaskStore) -> None:
    appends = [addition(f"task {number}", b"a%d" % number, b"b%d" % number) for number in range(64)]
    assert await asyncio.gather(*map(opened.append, appends)) == [None] * 64
    for number, append in enumerate(appends):
        assert await opened.head(f"task {number}") == append.head
        assert await whole(opened, f"task {number}") == [b"a%d" % number, b"b%d" % number]


async def test_appends_are_done_in_the_order_in_which_they_were_asked_for(opened: TaskStore) -> None:
    # None waits for the one before; each would be refused if it came first.
    appends = [addition("task", b"%d" % after, after=after) for after in range(50)]
    assert await asyncio.gather(*map(opened.append, appends)) == [None] * 50
    assert await whole(opened) == [b"%d" % after for after in range(50)]


async def test_an_append_happens_although_its_caller_is_canceled(opened: TaskStore) -> None:
    caller = asyncio.create_task(opened.append(addition("task", b"one", request_id="request")))
    await asyncio.sleep(0)
    caller.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await opened.wait("task", 0)
    assert await opened.read("task", 0, 10) == [b"one"]
    assert await opened.request("agent", "ada", "request") == RequestRecord("task", 0)
    await asyncio.wait([caller])


async def test_who_waits_is_woken_by_an_append_whose_caller_is_gone(opened: TaskStore) -> None:
    await opened.append(addition("task"))
    reader = asyncio.create_task(opened.wait("task", 1))
    await settle(opened)
    caller = asyncio.create_task(opened.append(addition("task", after=1)))
    await asyncio.sleep(0)
    caller.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await reader
    await asyncio.wait([caller])


# -- life ----------------------------------------------------------------------------------------------------------------


async def test_an_open_store_has_an_identity_and_a_store_that_never_was_open_has_none(store: TaskStore) -> None:
    assert store.worker == ""
    await store.open()
    worker = store.worker
    assert worker
    await store.open()
    assert store.worker == worker
    await store.close()
    await store.close()


async def test_a_store_can_be_closed_twice_and_without_having_been_open(store: TaskStore) -> None:
    await store.close()
    await store.open()
    await store.close()
    await store.close()


async def test_a_closed_store_can_be_opened_again(store: TaskStore) -> None:
    for number in range(3):
        await store.open()
        await store.append(addition(f"task {number}"))
        assert await store.head(f"task {number}") is not None
        await store.close()


async def test_a_store_stays_open_until_its_last_user_has_closed_it(store: TaskStore) -> None:
    await store.open()
    await store.open()
    await store.append(addition("task"))
    reader = asyncio.create_task(store.wait("task", 1))
    await settle(store)
    await store.close()
    await store.append(addition("task", after=1))
    async with asyncio.timeout(PATIENCE_S):
        await reader
    assert await whole(store) == [b"event 1", b"event 2"]
    await store.close()


async def test_of_two_services_on_one_store_one_stops_and_the_other_goes_on_and_keeps_its_listener(
    store: TaskStore,
) -> None:
    go = asyncio.Event()

    async def handler(task: Task, run: Run) -> Task:
        await go.wait()
        return task.complete("done")

    first, second = (TaskService(name, store, handler) for name in ("first", "second"))
    await first.start()
    await second.start()
    turns = [await each.submit(Submission.of(Task.create("go")), "ada") for each in (first, second)]
    listening = [listener.task_ids() for listener in store.listeners]
    assert listening == [[turn.task_id] for turn in turns]
    await first.stop(grace_s=0)
    assert [listener.task_ids() for listener in store.listeners] == [[turns[1].task_id]]
    go.set()
    assert (await second.settled(turns[1])).state is TaskState.COMPLETED
    await second.stop()
    assert store.listeners == []


async def test_its_own_tasks_are_never_orphans(opened: TaskStore) -> None:
    await opened.heartbeat(-1.0)
    await opened.append(addition("task", worker=opened.worker))
    assert await opened.orphans("agent") == []


# -- what only memory needs to promise -----------------------------------------------------------------------------------


async def finished(store: MemoryStore, name: str, **known: object) -> None:
    await store.append(addition(name, request_id=f"request for {name}", **known))
    await store.append(addition(name, after=1, state=TaskState.COMPLETED, **known))


async def test_a_full_memory_forgets_the_finished_tasks_that_changed_longest_ago() -> None:
    store = MemoryStore(max_tasks=3)
    await store.open()
    await store.append(addition("at work"))
    for number in range(5):
        await finished(store, f"task {number}")
    page = await store.find(TaskQuery("ada", "agent", include_total=True))
    assert sorted(head.task_id for head in page.heads) == ["at work", "task 3", "task 4"]
    assert await store.head("task 0") is None
    assert await store.read("task 0", 0, 10) == []
    assert await store.request("agent", "ada", "request for task 0") is None
    assert await store.request("agent", "ada", "request for task 4") == RequestRecord("task 4", 0)


async def test_a_full_memory_never_forgets_what_is_not_finished_nor_the_end_that_just_came() -> None:
    store = MemoryStore(max_tasks=1)
    await store.open()
    for number in range(5):
        await store.append(addition(f"at work {number}"))
    await finished(store, "task")
    page = await store.find(TaskQuery("ada", "agent", include_total=True))
    assert page.total == 6
    assert await store.read("task", 1, 10) == [b"event 2"]


async def test_memory_keeps_nothing_of_a_principal_whose_tasks_are_forgotten() -> None:
    store = MemoryStore(max_tasks=1)
    await store.open()
    for number in range(10):
        await finished(store, f"task {number}", principal=f"principal {number}")
    assert await store.find(TaskQuery("principal 0", "agent")) == TaskPage()
    assert list(store._owned) == ["principal 9"]  # names of callers would pile up here


async def test_a_memory_that_is_full_of_bytes_forgets_what_has_ended_and_then_what_waits_for_input() -> None:
    store = MemoryStore(max_bytes=40)
    await store.open()
    await store.append(addition("at work", b"." * 10))
    await store.append(addition("asking", b"." * 10, state=TaskState.INPUT_REQUIRED))
    await store.append(addition("done", b"." * 10, state=TaskState.COMPLETED))
    await store.append(addition("growing", b"." * 20))
    assert [await store.head(name) is None for name in ("at work", "asking", "done")] == [False, False, True]
    await store.append(addition("growing", b"." * 30, after=1))
    # What works is kept, whatever it needs.
    assert [await store.head(name) is None for name in ("at work", "asking", "growing")] == [False, True, False]
    await store.append(addition("growing", b".", after=2, state=TaskState.INPUT_REQUIRED))
    await store.append(addition("growing", b".", after=3))
    await store.append(addition("growing", b".", after=4, state=TaskState.COMPLETED))
    assert (await whole(store, "growing"))[0] == b"." * 20


@pytest.mark.parametrize("bound", [{"max_bytes": 80}, {"max_tasks": 8}])
async def test_a_principal_with_more_than_half_of_the_memory_loses_its_own_tasks_first(bound: dict[str, int]) -> None:
    store = MemoryStore(**bound)
    await store.open()
    for number in range(4):
        await store.append(addition(f"bob {number}", b"." * 10, principal="bob", state=TaskState.COMPLETED))
    for number in range(100):
        await store.append(addition(f"flood {number}", b"." * 10, principal="flood", state=TaskState.COMPLETED))
    assert (await store.find(TaskQuery("bob", "agent", include_total=True))).total == 4
    flooded = await store.find(TaskQuery("flood", "agent"))
    assert sorted(head.task_id for head in flooded.heads) == ["flood 96", "flood 97", "flood 98", "flood 99"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcde"),
            st.sampled_from([TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.COMPLETED]),
            st.integers(1, 9),
        ),
        max_size=60,
    )
)
async def test_memory_counts_the_bytes_that_it_keeps_and_forgets_only_what_it_may(
    steps: list[tuple[str, TaskState, int]],
) -> None:
    store = MemoryStore(max_tasks=4, max_bytes=25)
    await store.open()
    for name, state, size in steps:
        head = await store.head(name)
        if head is not None and head.state is TaskState.COMPLETED:
            continue
        after = head.sequence if head is not None else 0
        principal = "ann" if name in "abc" else "bob"
        at_work = {key for key, entry in store._entries.items() if entry.head.state is TaskState.WORKING}
        await store.append(addition(name, b"." * size, after=after, state=state, principal=principal))
        kept = {key: sum(map(len, entry.events)) for key, entry in store._entries.items()}
        assert at_work | {name} <= kept.keys()
        assert store._all.size == sum(kept.values()) == sum(owned.size for owned in store._owned.values())
        forgettable = {each for ranked in store._all.forgettable for each in ranked} - {name}
        assert not forgettable or (len(kept) <= 4 and store._all.size <= 25)
