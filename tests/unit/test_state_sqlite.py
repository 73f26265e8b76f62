"""The storage in a SQLite file: opening, commits, and errors about unusable files."""

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc.errors import (
    InvalidArgumentError,
    MessageTooLargeError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreVersionError,
    UnsupportedOperationError,
)
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.state import SQLiteStorage
from protolink_grpc.storage.agent_storage import ItemBounds
from protolink_grpc.storage.sqlite import file
from protolink_grpc.storage.sqlite.storage import SCHEMA
from protolink_grpc.storage.sqlite.store import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def storage(path: Path) -> AsyncIterator[SQLiteStorage]:
    async with SQLiteStorage(path) as storage:
        yield storage


Hold = Callable[[SQLiteStorage], Awaitable[threading.Event]]

ROOM = ItemBounds(max_items=9, max_bytes=99)


@asynccontextmanager
async def unopened(path: Path) -> AsyncIterator[SQLiteStorage]:
    """A storage that is opened at its first use and closed at the end."""
    storage = SQLiteStorage(path)
    yield storage
    await storage.close()


def said(*words: str) -> list[LLMMessage]:
    return [LLMMessage("user", word) for word in words]


async def words(storage: SQLiteStorage, session_id: str = "s") -> list[str]:
    return [message.content for message in (await storage.load_messages(session_id)).messages]


def threads() -> int:
    return sum(thread.name.startswith("plgrpc-state") for thread in threading.enumerate())


@pytest.fixture
async def hold_writer() -> AsyncIterator[Hold]:
    """Block the writer until the event is set, so that all writes queued meanwhile are one group."""
    gates: list[threading.Event] = []

    async def hold(storage: SQLiteStorage) -> threading.Event:
        gates.append(await held(storage))
        return gates[-1]

    yield hold
    for gate in gates:
        gate.set()


async def held(storage: SQLiteStorage) -> threading.Event:
    begun, gate = threading.Event(), threading.Event()

    def wait(_: sqlite3.Connection) -> None:
        begun.set()
        gate.wait()

    threading.Thread(target=storage._file.write_now, args=(wait,)).start()
    await asyncio.to_thread(begun.wait)
    return gate


# -- lifecycle -----------------------------------------------------------------------------------------------------------


async def test_nothing_is_opened_before_the_first_use(path: Path) -> None:
    storage = SQLiteStorage(path)
    assert not path.exists()
    await storage.append_messages("s", "t", said("one"))
    assert path.exists()
    await storage.close()


async def test_a_new_file_is_readable_by_its_owner_only(path: Path, storage: SQLiteStorage) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_closing_ends_the_threads_and_the_next_use_starts_them_again(path: Path) -> None:
    storage = SQLiteStorage(path)
    await storage.append_messages("s", "t", said("one"))
    await storage.load_messages("s")
    await storage.close()
    await storage.close()
    assert threads() == 0
    assert await words(storage) == ["one"]
    await storage.close()


async def test_added_turns_are_durable(path: Path) -> None:
    async with SQLiteStorage(path) as storage:
        await storage.append_messages("s", "t", said("one"))
        await storage.set_item("s", "key", "1", ROOM)
    async with SQLiteStorage(path) as storage:
        assert await words(storage) == ["one"]
        assert await storage.get_item("s", "key") == "1"
        assert not await storage.append_messages("s", "t", said("one"))


async def test_the_writer_syncs_each_commit_in_wal_mode(storage: SQLiteStorage) -> None:
    def pragmas(db: sqlite3.Connection) -> list[Any]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "secure_delete")]

    full = 2
    assert await storage._file.write(pragmas) == ["wal", full, 1]


async def test_closing_completes_waiting_writes(path: Path, hold_writer: Hold) -> None:
    storage = SQLiteStorage(path)
    await storage.open()
    gate = await hold_writer(storage)
    adding = asyncio.ensure_future(storage.append_messages("s", "t", said("one")))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(storage.close())
    await asyncio.sleep(0)
    gate.set()
    assert await adding
    await closing
    assert threads() == 0


async def test_reads_do_not_wait_for_the_writer(storage: SQLiteStorage, hold_writer: Hold) -> None:
    await storage.append_messages("s", "t", said("one"))
    gate = await hold_writer(storage)
    assert await words(storage) == ["one"]
    gate.set()


async def test_table_names_separate_storages_in_one_file(path: Path, storage: SQLiteStorage) -> None:
    await storage.append_messages("s", "t", said("one"))
    async with SQLiteStorage(path, "other") as other:
        assert await words(other) == []
    async with SQLiteStorage(path, namespace="agent") as other:
        assert await words(other) == []


def test_an_invalid_table_name_is_refused() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        SQLiteStorage("state.db", "a/b; DROP TABLE sessions")
    assert caught.value.field == "table_name"


async def test_deleted_messages_are_removed_from_the_file(path: Path) -> None:
    secret = "the word that nobody may find " * 500
    async with SQLiteStorage(path) as storage:
        await storage.append_messages("s", "t", said(secret))
        known = await storage.load_messages("s")
        assert await storage.replace_messages("s", known.version, [])
    assert b"nobody may find" not in path.read_bytes()
    assert not path.with_name("state.db-wal").exists()


async def test_no_file_of_an_open_storage_has_what_was_deleted(path: Path, storage: SQLiteStorage) -> None:
    async def delete_value() -> None:
        await asyncio.to_thread(storage.save, "the word")
        await asyncio.to_thread(storage.delete)

    async def delete_item() -> None:
        await storage.set_item("s", "key", "the word", ROOM)
        await storage.delete_item("s", "key")

    async def delete_items() -> None:
        await storage.set_item("s", "key", "the word", ROOM)
        await storage.delete_items("s")

    async def delete_session() -> None:
        await storage.append_messages("s", "t", said("the word"))
        await storage.delete_session("s")

    for delete in (delete_value, delete_item, delete_items, delete_session):
        await delete()
        files = path.parent.glob(f"{path.name}*")
        assert not [each.name for each in files if b"the word" in each.read_bytes()], delete.__name__


async def test_turns_of_an_earlier_version_can_be_copied_but_not_left_out(path: Path) -> None:
    async with SQLiteStorage(path) as storage:
        await storage.append_messages("s", "t1", said("one"))
    with sqlite3.connect(path) as db:
        # Files of earlier versions have no ranges of messages.
        db.executescript("DROP TABLE turn_messages; DELETE FROM declared_tables WHERE name = 'turn_messages'")
    db.close()
    async with SQLiteStorage(path) as storage:
        await storage.append_messages("s", "t2", said("two"))
        with pytest.raises(UnsupportedOperationError, match="turn t1 cannot be identified"):
            await storage.branch_messages("s", "r", {"t1", "t2"}.__contains__)
        assert await storage.branch_messages("s", "r", {"t2"}.__contains__)
        assert await words(storage, "r") == ["one"]


# -- groups --------------------------------------------------------------------------------------------------------------


async def test_waiting_writes_are_committed_together(storage: SQLiteStorage, hold_writer: Hold) -> None:
    commits: list[str] = []
    gate = await hold_writer(storage)
    watching = storage._file.write(lambda db: db.set_trace_callback(commits.append))
    turns = [storage.append_messages("s", f"t{index}", said(str(index))) for index in range(50)]
    waiting = [asyncio.ensure_future(each) for each in (watching, *turns)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*waiting)
    assert commits.count("COMMIT") == 1
    assert await words(storage) == [str(index) for index in range(50)]


async def test_a_failing_write_does_not_affect_others_in_its_group(storage: SQLiteStorage, hold_writer: Hold) -> None:
    def wrong(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO turns VALUES (1, 'half done', 0)")
        raise ZeroDivisionError

    gate = await hold_writer(storage)
    waiting = [
        asyncio.ensure_future(storage.append_messages("s", "t1", said("one"))),
        asyncio.ensure_future(storage._file.write(wrong)),
        asyncio.ensure_future(storage.set_item("s", "key", "too long", ItemBounds(1, 1))),
        asyncio.ensure_future(storage.append_messages("s", "t2", said("two"))),
    ]
    await asyncio.sleep(0)
    gate.set()
    first, mistake, refused, last = await asyncio.gather(*waiting, return_exceptions=True)
    assert (first, last) == (True, True)
    assert isinstance(mistake, StoreError)
    assert "ZeroDivisionError" in str(mistake)
    assert isinstance(refused, MessageTooLargeError)
    assert await words(storage) == ["one", "two"]
    assert await storage.append_messages("s", "half done", said("three"))


async def test_a_write_canceled_while_it_waits_is_not_executed(storage: SQLiteStorage, hold_writer: Hold) -> None:
    gate = await hold_writer(storage)
    adding = asyncio.ensure_future(storage.append_messages("s", "t", said("one")))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    gate.set()
    assert await storage.append_messages("s", "t", said("two"))
    assert await words(storage) == ["two"]


# -- unusable files ------------------------------------------------------------------------------------------------------


async def test_a_missing_directory_is_named_and_the_storage_works_once_it_exists(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "state.db"
    storage = SQLiteStorage(path)
    with pytest.raises(StoreError, match=r"cannot be opened: check that its directory exists"):
        await storage.open()
    path.parent.mkdir()
    assert await storage.append_messages("s", "t", said("one"))
    await storage.close()


async def test_a_file_that_is_not_a_database_is_refused_and_not_changed(path: Path) -> None:
    path.write_bytes(b"dear diary " * 1000)
    async with unopened(path) as storage:
        for use in (storage.open, lambda: storage.load_messages("s"), lambda: storage.set_item("s", "k", "v", ROOM)):
            with pytest.raises(StoreError, match="not a SQLite database"):
                await use()
    assert path.read_bytes() == b"dear diary " * 1000


async def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    async with SQLiteStorage(path) as storage:
        await storage.append_messages("s", "t", said("one"))
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(SCHEMA.migrations) + 1}")
    db.close()
    async with unopened(path) as storage:
        with pytest.raises(StoreVersionError, match="upgrade the package"):
            await storage.open()


async def test_a_file_of_tasks_is_refused(path: Path) -> None:
    tasks = SQLiteStore(path)
    await tasks.open()
    await tasks.close()
    async with unopened(path) as storage:
        with pytest.raises(StoreError, match="is another kind of database"):
            await storage.open()


async def test_a_damaged_page_is_a_store_error(path: Path) -> None:
    async with SQLiteStorage(path) as storage:
        await storage.append_messages("s", "t", said("long " * 20_000))
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    async with unopened(path) as storage:
        with pytest.raises(StoreError):
            await storage.load_messages("s")
        with pytest.raises(StoreError):
            await storage.append_messages("s", "u", said("two"))


@pytest.mark.parametrize("body", ["not JSON", "[]", '{"role": "user", "unheard_of": 1}'])
async def test_a_damaged_message_is_a_store_error(storage: SQLiteStorage, body: str) -> None:
    await storage.append_messages("s", "t", said("one"))
    await storage._file.write(lambda db: db.execute("UPDATE messages SET body = ?", (body,)) and None)
    with pytest.raises(StoreError, match="damaged"):
        await storage.load_messages("s")


async def test_a_file_that_becomes_read_only_can_still_be_read(storage: SQLiteStorage) -> None:
    await storage.append_messages("s", "t", said("one"))
    # SQLite refuses writes as it does for a disk that has become read-only.
    await storage._file.write(lambda db: db.execute("PRAGMA query_only = ON") and None)
    with pytest.raises(StoreReadOnlyError):
        await storage.append_messages("s", "u", said("two"))
    assert await words(storage) == ["one"]
    await storage.close()
    assert await storage.append_messages("s", "u", said("two"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to files of any mode")
async def test_a_read_only_file_fails_when_it_is_opened(path: Path) -> None:
    async with SQLiteStorage(path):
        pass
    path.chmod(0o400)
    async with unopened(path) as storage:
        with pytest.raises(StoreReadOnlyError):
            await storage.open()


async def test_a_full_file_loses_only_the_turn_that_did_not_fit(storage: SQLiteStorage) -> None:
    await storage.append_messages("s", "t1", said("one"))
    await storage._file.write(lambda db: db.execute("PRAGMA max_page_count = 60") and None)
    with pytest.raises(StoreFullError):
        await storage.append_messages("s", "t2", said("small", "long " * 100_000))
    assert await words(storage) == ["one"]
    await storage._file.write(lambda db: db.execute("PRAGMA max_page_count = 100000") and None)
    assert await storage.append_messages("s", "t2", said("two"))
    assert await words(storage) == ["one", "two"]


async def test_a_lock_timeout_is_named_and_the_storage_works_afterwards(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_MS", 20)
    async with SQLiteStorage(path) as storage:
        lock = sqlite3.connect(path, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked by another process"):
            await storage.append_messages("s", "t", said("one"))
        lock.execute("COMMIT")
        lock.close()
        assert await storage.append_messages("s", "t", said("one"))
