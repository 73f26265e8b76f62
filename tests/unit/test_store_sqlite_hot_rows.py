"""The rows of a session that a SQLite store knows without reading them: as current as the file, and written before each commit."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc.errors import ResourceExhaustedError, StoreError
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.storage.port import Append, TaskHead
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_log import BESIDE_OTHERS, SessionAppend
from protolink_grpc.storage.session_rows import HEADS, OPEN_TURNS, SessionHead, owner_of
from protolink_grpc.storage.sqlite import records as sqlite_records
from protolink_grpc.storage.sqlite.store import SQLiteStore

OWNER = owner_of("desk", "ann")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    async with opened(tmp_path) as store:
        yield store


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(directory / "tasks.db")
    await store.open()
    yield store
    await store.close()


def opening(task_id: str, session_id: str = "s") -> Append:
    head = TaskHead(task_id, "ann", "desk", session_id, TaskState.WORKING, 1, "run", 1, 1, "worker", 1)
    session = SessionAppend(OWNER, session_id, task_id, 1, 1, 1, BESIDE_OTHERS, True)
    return Append(head, [b"begins"], 0, 0, session=session)


def ending(task_id: str, session_id: str = "s") -> Append:
    begun = opening(task_id, session_id)
    head = replace(begun.head, state=TaskState.COMPLETED, sequence=2)
    session = SessionAppend(OWNER, session_id, task_id, 2, 1, 2, end=(TaskState.COMPLETED, ""))
    return Append(head, [b"ends"], 1, 1, session=session)


async def turn(store: SQLiteStore, task_id: str, session_id: str = "s") -> None:
    await store.append(opening(task_id, session_id))
    await store.append(ending(task_id, session_id))


async def in_one_group(store: SQLiteStore, *appends: Append) -> list[Any]:
    """Append while the writer waits, so that all appends are in one group. Returns results and errors."""
    busy, release = threading.Event(), threading.Event()

    def hold(db: sqlite3.Connection) -> None:
        busy.set()
        release.wait(20)

    holding = asyncio.ensure_future(store._engine.write(hold))
    await asyncio.to_thread(busy.wait, 20)
    waiting = [asyncio.ensure_future(store.append(each)) for each in appends]
    await asyncio.sleep(0)
    release.set()
    await holding
    return await asyncio.gather(*waiting, return_exceptions=True)


async def head_of(store: SQLiteStore, session_id: str = "s") -> SessionHead:
    """The row in the file, which a reading connection sees."""
    found = await store.view(lambda records: records.get(HEADS, OWNER, session_id))
    assert found is not None
    return found


async def open_tasks(store: SQLiteStore) -> list[str]:
    number = (await head_of(store)).number
    return [each.task_id for each in await store.view(lambda records: records.select(OPEN_TURNS, {"session": number}))]


@contextmanager
def traced(store: SQLiteStore) -> Iterator[list[str]]:
    """The statements of the writing connection."""
    statements: list[str] = []
    write = store._engine.write_now
    write(lambda db: db.set_trace_callback(statements.append))
    yield statements
    write(lambda db: db.set_trace_callback(None))


def count(statements: list[str], begin: str) -> int:
    return sum(each.startswith(begin) for each in statements)


async def test_a_turn_does_not_read_the_rows_of_its_session_again(store: SQLiteStore) -> None:
    await turn(store, "first")
    with traced(store) as statements:
        await turn(store, "second")
    assert count(statements, "SELECT") == 0
    assert count(statements, "INSERT INTO session_heads") == 2  # one for each of the two commits
    assert (await head_of(store)).turns == 2
    assert await open_tasks(store) == []


async def test_appends_that_share_a_commit_write_the_row_of_their_session_once(store: SQLiteStore) -> None:
    await turn(store, "first")
    with traced(store) as statements:
        await in_one_group(store, *(opening(f"task {number}") for number in range(8)))
    assert count(statements, "INSERT INTO session_heads") == 1
    assert count(statements, "INSERT INTO session_entries") == 8
    head = await head_of(store)
    assert (head.turns, head.active, head.task_id) == (9, 8, "task 7")
    assert len(await open_tasks(store)) == 8


async def test_rows_that_another_process_has_changed_are_read_again(tmp_path: Path, store: SQLiteStore) -> None:
    async with opened(tmp_path) as other:
        for number in range(3):
            await store.append(opening(f"mine {number}"))
            await other.append(ending(f"mine {number}"))
            await turn(other, f"theirs {number}")
        await turn(store, "last")
    head = await head_of(store)
    assert (head.turns, head.active) == (7, 0)
    assert await open_tasks(store) == []


async def test_rows_of_a_transaction_that_was_rolled_back_are_forgotten(store: SQLiteStore) -> None:
    await turn(store, "first")
    wrong = replace(opening("wrong", ""), session=None, events=[None])  # type: ignore[list-item]  # refused by SQLite
    outcomes = await in_one_group(store, opening("second"), wrong, opening("third"))
    assert [type(each) for each in outcomes] == [type(None), StoreError, type(None)]
    head = await head_of(store)
    assert (head.turns, head.active) == (3, 2)
    assert await open_tasks(store) == ["second", "third"]


def refuse(records: Records) -> None:
    raise ResourceExhaustedError("no more")


async def test_an_append_that_is_refused_at_its_end_changes_no_row_and_no_earlier_append(store: SQLiteStore) -> None:
    await turn(store, "first")
    refused = replace(opening("refused"), within=refuse)
    outcomes = await in_one_group(store, opening("second"), refused, opening("third"))
    assert [type(each) for each in outcomes] == [type(None), ResourceExhaustedError, type(None)]
    head = await head_of(store)
    assert (head.turns, head.active) == (3, 2)
    assert await open_tasks(store) == ["second", "third"]


async def test_a_change_that_is_refused_after_a_put_changes_nothing(store: SQLiteStore) -> None:
    await turn(store, "first")
    before = await head_of(store)

    def work(records: Records) -> None:
        records.put(HEADS, replace(before, title="changed"))
        refuse(records)

    with pytest.raises(ResourceExhaustedError):
        await store.change(work)
    assert await store.change(lambda records: records.get(HEADS, OWNER, "s")) == before
    await turn(store, "second")
    assert (await head_of(store)).title == ""


def _delete_all(records: Records, number: int) -> None:
    records.delete(OPEN_TURNS, number)


def _delete_one(records: Records, number: int) -> None:
    records.delete(OPEN_TURNS, number, "second")


@pytest.mark.parametrize("delete", [_delete_all, _delete_one])
async def test_rows_that_were_put_are_selected_and_deleted_in_the_same_transaction(
    store: SQLiteStore, delete: Callable[[Records, int], None]
) -> None:
    await store.append(opening("first"))
    number = (await head_of(store)).number

    def work(records: Records) -> tuple[list[str], Any]:
        known = records.get(OPEN_TURNS, number, "first")
        assert known is not None
        records.put(OPEN_TURNS, replace(known, task_id="second"))
        selected = [each.task_id for each in records.select(OPEN_TURNS, {"session": number})]
        records.put(OPEN_TURNS, replace(known, task_id="second", place=1))
        delete(records, number)
        return selected, records.get(OPEN_TURNS, number, "second")

    assert await store.change(work) == (["first", "second"], None)
    assert "second" not in await open_tasks(store)


async def test_the_number_of_known_rows_is_bounded(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_records, "MAX_HOT", 3)
    await in_one_group(store, *(opening(f"task {number}", f"s{number}") for number in range(5)))
    assert len(store._hot._known) <= 3
    assert [(await head_of(store, f"s{number}")).active for number in range(5)] == [1] * 5


async def test_a_file_that_is_opened_again_is_read_again(tmp_path: Path, store: SQLiteStore) -> None:
    await turn(store, "first")
    await store.close()
    async with opened(tmp_path) as other:
        await turn(other, "second")
    await store.open()
    await turn(store, "third")
    assert (await head_of(store)).turns == 3
