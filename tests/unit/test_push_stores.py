"""Webhooks in a file that several processes share: one process serves each, and another one takes over after its death."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.storage.port import Append, TaskHead
from protolink_grpc.storage.sqlite.records import workers
from protolink_grpc.storage.sqlite.store import SQLiteStore
from protolink_grpc.storage.webhooks import WEBHOOKS, PushRow, advance_webhook, put_webhook


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "tasks.db")
    await store.open()
    await store.heartbeat(60.0)
    head = TaskHead("task", "ada", "agent", "task", TaskState.WORKING, 2, "run", 1, 1)
    await store.append(Append(head, [b"one", b"two"], 0, 0))
    yield store
    await store.close()


@pytest.fixture
async def other(store: SQLiteStore) -> AsyncIterator[SQLiteStore]:
    """A second store on the same file: to the first one, another process."""
    other = SQLiteStore(store.path)
    await other.open()
    await other.heartbeat(60.0)
    yield other
    await other.close()


def row_of(store: SQLiteStore, config_id: str = "hook") -> PushRow:
    return PushRow("agent", "ada", "task", config_id, b"{}", 0, 1, store.worker)


async def put(store: SQLiteStore, row: PushRow) -> PushRow:
    return await store.change(lambda records: put_webhook(records, row))


async def advance(store: SQLiteStore, row: PushRow, cursor: int) -> PushRow | None:
    return await store.change(lambda records: advance_webhook(records, row, store.worker, cursor))


async def hook_of(store: SQLiteStore) -> PushRow | None:
    return await store.view(lambda records: records.get(WEBHOOKS, "agent", "task", "hook"))


async def test_what_a_living_process_pushes_is_not_claimed_by_another(store: SQLiteStore, other: SQLiteStore) -> None:
    row = await put(store, row_of(store))
    assert await other.claim(WEBHOOKS, "agent") == []
    assert await advance(other, row, 1) is None
    assert await hook_of(store) == row


async def test_what_a_silent_process_pushed_is_claimed_and_its_cursor_is_out_of_its_reach(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    row = await put(store, row_of(store))
    await advance(store, row, 1)
    await store.heartbeat(-1.0)
    [taken] = await other.claim(WEBHOOKS, "agent")
    assert (taken.worker, taken.cursor) == (other.worker, 1)
    await store.heartbeat(60.0)
    assert await advance(store, row, 2) is None
    moved = await advance(other, taken, 2)
    assert moved is not None
    assert moved.cursor == 2


async def test_what_a_closed_store_pushed_is_claimed_with_its_cursor(store: SQLiteStore, other: SQLiteStore) -> None:
    await put(other, row_of(other))
    await advance(other, row_of(other), 1)
    await other.close()
    [taken] = await store.claim(WEBHOOKS, "agent")
    assert (taken.worker, taken.cursor) == (store.worker, 1)


async def test_of_two_that_claim_at_once_each_config_goes_to_one(store: SQLiteStore, other: SQLiteStore) -> None:
    for number in range(20):
        await put(store, PushRow("agent", "ada", "task", f"hook {number}", b"{}", 0, number))
    mine, yours = await asyncio.gather(store.claim(WEBHOOKS, "agent"), other.claim(WEBHOOKS, "agent"))
    names = [row.config_id for row in (*mine, *yours)]
    assert sorted(names) == sorted({f"hook {number}" for number in range(20)})


async def test_what_one_process_replaces_or_deletes_the_other_sees(store: SQLiteStore, other: SQLiteStore) -> None:
    row = await put(store, row_of(store))
    replaced = await put(other, PushRow("agent", "ada", "task", "hook", b"new", 2, 9, other.worker))
    assert (replaced.body, replaced.worker, replaced.cursor) == (b"new", store.worker, 0)
    assert await hook_of(store) == replaced
    assert await other.change(lambda records: records.delete(WEBHOOKS, "agent", "task", "hook"))
    assert await advance(store, row, 1) is None


async def test_looking_for_work_does_not_read_what_is_done(store: SQLiteStore) -> None:
    with closing(sqlite3.connect(store.path)) as db:
        [step] = db.execute(f"EXPLAIN QUERY PLAN {workers(WEBHOOKS)}", ("agent",)).fetchall()
    assert "INDEX webhooks_undone" in step[-1]
