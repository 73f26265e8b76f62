"""The store in a file: durability, group commits, other processes, and errors for unusable files."""

import asyncio
import logging
import os
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from protolink_grpc.errors import (
    LeaseLostError,
    SequenceConflictError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreVersionError,
    TaskAlreadyRunningError,
)
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.storage.port import READ_BYTES, Append, ForeignListener, RequestRecord, TaskHead
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.sqlite import engine, file, liveness, log, tails
from protolink_grpc.storage.sqlite.file import Schema, connect, explain
from protolink_grpc.storage.sqlite.liveness import is_dead, process_identity
from protolink_grpc.storage.sqlite.log import MIGRATIONS, ROW_BYTES, SCHEMA, split_row
from protolink_grpc.storage.sqlite.store import SQLiteStore, now_micros
from protolink_grpc.storage.webhooks import WEBHOOKS, PushRow, put_webhook

PATIENCE_S = 20.0
"""How long something that must happen may take; far more than it needs on a busy machine."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(path: Path, store: SQLiteStore) -> AsyncIterator[SQLiteStore]:
    """A second store on the same file: to the first one, another process."""
    other = SQLiteStore(path)
    await other.open()
    yield other
    await other.close()


def addition(task_id: str = "task", *events: Any, after: int = 0, request_id: str = "", **known: Any) -> Append:
    frames = list(events) or [b"event %d" % (after + 1)]
    sequence = after + len(frames)
    head = TaskHead(
        task_id, "ada", "agent", "session", TaskState.WORKING, sequence, "run", 1_000, 1_000 + sequence, "worker", 1
    )
    return Append(replace(head, **known), frames, after, 1 if after else 0, request_id)


async def whole(store: SQLiteStore) -> list[bytes]:
    frames: list[bytes] = []
    while more := await store.read("task", len(frames), 100):
        frames += more
    return frames


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What any other program finds in the file."""
    db = sqlite3.connect(path)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def on_disk(path: Path) -> bytes:
    """The content of all files of a store."""
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def held_writer(store: SQLiteStore) -> AsyncIterator[None]:
    """Keep the writer thread busy: what is asked for meanwhile becomes one group when it is let go."""
    busy, release = threading.Event(), threading.Event()

    def hold(db: sqlite3.Connection) -> None:
        busy.set()
        release.wait(PATIENCE_S)

    holding = asyncio.ensure_future(store._engine.write(hold))
    await asyncio.to_thread(busy.wait, PATIENCE_S)
    try:
        yield
    finally:
        release.set()
        await holding


async def settle(store: SQLiteStore) -> None:
    """Let everyone who has begun to wait get as far as the wait itself."""
    for _ in range(4):
        await asyncio.sleep(0)
        await store.head("nobody")
        await store._engine.write(lambda db: None)


# -- durability ----------------------------------------------------------------------------------------------------------


async def test_commits_go_through_a_write_ahead_log_and_wait_for_the_disk(store: SQLiteStore) -> None:
    def pragmas(db: sqlite3.Connection) -> list[Any]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    full = 2
    assert await store._engine.write(pragmas) == ["wal", full]


async def test_an_answered_append_is_in_the_file(store: SQLiteStore, path: Path) -> None:
    await store.append(addition("task", b"one", b"two", request_id="request"))
    ((last, joined, lengths),) = rows(path, "SELECT sequence, frames, lengths FROM events")
    assert (last, split_row(joined, lengths)) == (2, [b"one", b"two"])
    assert rows(path, "SELECT task_id, sequence, state FROM tasks") == [("task", 2, "working")]
    assert rows(path, "SELECT principal, request_id, task_id, after_sequence FROM requests") == [
        ("ada", "request", "task", 0)
    ]


async def test_everything_is_there_after_closing_and_opening(path: Path) -> None:
    last = addition("task", b"two", after=1, request_id="request", state=TaskState.FAILED, reason="because")
    first = SQLiteStore(path)
    await first.open()
    await first.append(addition("task", b"one"))
    await first.append(last)
    await first.close()
    second = SQLiteStore(path)
    await second.open()
    assert await second.head("task") == last.head
    assert await second.read("task", 0, 10) == [b"one", b"two"]
    assert await second.append(last) == RequestRecord("task", 1)
    assert second.worker != first.worker
    await second.close()


async def test_nobody_sees_an_append_before_its_commit(store: SQLiteStore, path: Path) -> None:
    await store.append(addition("task", b"one"))
    reader = asyncio.create_task(store.wait("task", 1))
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")  # from here on no other connection can commit
    writer = asyncio.create_task(store.append(addition("task", b"two", after=1)))
    for _ in range(5):
        head = await store.head("task")
        assert head is not None
        assert head.sequence == 1
        assert await store.read("task", 1, 10) == []
    assert not writer.done()
    assert not reader.done()
    lock.execute("COMMIT")
    lock.close()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(writer, reader)
    assert await store.read("task", 1, 10) == [b"two"]


async def test_events_of_one_append_are_read_from_any_of_them(path: Path) -> None:
    first, second = [b"a" * size for size in (1, 200, 3)], [b"b", b"c"]
    async with opened(path) as store:
        await store.append(addition("task", *first))
        await store.append(addition("task", *second, after=3))
        await store.append(addition("task", b"d", after=5))
    log = [*first, *second, b"d"]
    # Opened anew: nothing is in memory.
    async with opened(path) as store:
        for after in range(len(log) + 1):
            for limit in range(1, len(log) + 2):
                assert await store.read("task", after, limit) == log[after : after + limit]


async def test_large_events_of_one_append_do_not_share_a_row(path: Path) -> None:
    large = [bytes([number]) * (ROW_BYTES // 2 + 1) for number in range(3)]
    async with opened(path) as store:
        await store.append(addition("task", b"small", *large, b"small"))
    assert rows(path, "SELECT sequence FROM events ORDER BY sequence") == [(2,), (3,), (5,)]
    async with opened(path) as store:
        assert await store.read("task", 0, 10) == [b"small", *large, b"small"]


async def test_closing_waits_for_the_appends_that_were_accepted(path: Path) -> None:
    store = SQLiteStore(path)
    await store.open()
    appends = [asyncio.create_task(store.append(addition(f"task {number}"))) for number in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*appends)
    assert rows(path, "SELECT count(*) FROM events") == [(50,)]


async def test_a_closed_store_refuses_everything_and_says_why(path: Path) -> None:
    store = SQLiteStore(path)
    await store.open()
    await store.append(addition("task"))
    await store.close()
    for refused in (
        store.append(addition("other")),
        store.read("task", 0, 10),
        store.head("task"),
        store.wait("task", 1),
        store.heartbeat(1.0),
    ):
        with pytest.raises(StoreError, match="the store is closed"):
            await refused


# -- groups --------------------------------------------------------------------------------------------------------------


async def test_appends_that_wait_together_share_one_commit(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    transact = store._engine._transact
    monkeypatch.setattr(store._engine, "_transact", lambda db, jobs: (sizes.append(len(jobs)), transact(db, jobs)))
    async with held_writer(store):
        appends = [asyncio.create_task(store.append(addition(f"task {number}"))) for number in range(64)]
        await asyncio.sleep(0)
    await asyncio.gather(*appends)
    assert sizes == [1, 64]


async def test_in_a_group_an_append_that_lost_a_race_fails_alone(store: SQLiteStore) -> None:
    await store.append(addition("task"))
    async with held_writer(store):
        appends = [
            asyncio.create_task(store.append(append))
            for append in (
                addition("before", request_id="request 1"),
                addition("task", b"x", b"y", request_id="request 2"),
                addition("after", request_id="request 3"),
            )
        ]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), SequenceConflictError, type(None)]
    assert await store.request("agent", "ada", "request 2") is None
    assert await store.read("task", 0, 10) == [b"event 1"]


@pytest.mark.parametrize(
    "wrong",
    [
        addition("no Unicode: \ud800", request_id="wrong"),
        addition("wrong", b"one", None, request_id="wrong"),
        addition("wrong", request_id="wrong", create_micros=2**70),
    ],
    ids=["text", "event", "number"],
)
async def test_in_a_group_an_append_with_impossible_values_fails_alone_and_as_a_whole(
    store: SQLiteStore, wrong: Append
) -> None:
    async with held_writer(store):
        appends = [asyncio.create_task(store.append(each)) for each in (addition("a"), wrong, addition("b"))]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreError, type(None)]
    assert await store.read("a", 0, 10) == await store.read("b", 0, 10) == [b"event 1"]
    assert await store.head("wrong") is None
    assert await store.read("wrong", 0, 10) == []
    assert await store.request("agent", "ada", "wrong") is None


# -- reading -------------------------------------------------------------------------------------------------------------


async def test_a_read_from_the_file_is_cut_before_it_fills_the_memory(store: SQLiteStore, other: SQLiteStore) -> None:
    piece = bytes(READ_BYTES // 4)
    await other.append(addition("task", *[piece] * 6))
    assert [len(frame) for frame in await store.read("task", 0, 100)] == [len(piece)] * 4
    assert len(await store.read("task", 4, 100)) == 2


async def test_what_is_kept_in_memory_agrees_with_the_file(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "TAIL_TASKS", 2)
    monkeypatch.setattr(tails, "TAIL_EVENTS", 3)
    lengths = {f"task {number}": 0 for number in range(4)}
    for step in range(60):
        task_id = f"task {step * 7 % 4}"
        after, count = lengths[task_id], step % 3 + 1
        frames = [b"%d" % number for number in range(after, after + count)]
        await store.append(addition(task_id, *frames, after=after))
        lengths[task_id] += count
        for each, length in lengths.items():
            for start in {0, length // 2, max(length - 1, 0), length}:
                assert await store.read(each, start, 1000) == [b"%d" % number for number in range(start, length)]


# -- opening -------------------------------------------------------------------------------------------------------------


async def test_a_file_of_a_newer_version_is_refused_and_not_touched(path: Path) -> None:
    connect(path, SCHEMA).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreVersionError) as refused:
        await SQLiteStore(path).open()
    assert str(path) in str(refused.value)
    assert "99" in str(refused.value)
    assert "upgrade" in str(refused.value)
    assert refused.value.metadata == {"found": "99", "known": str(len(MIGRATIONS))}
    assert rows(path, "PRAGMA user_version") == [(99,)]


def test_a_file_whose_logs_cannot_be_read_any_more_is_refused_and_not_touched(path: Path) -> None:
    connect(path, Schema(("CREATE TABLE notes(text TEXT)",))).close()
    with pytest.raises(StoreVersionError, match="reads is 2; choose a new file") as refused:
        connect(path, Schema((None, "CREATE TABLE tasks(id TEXT)"), advice="choose a new file"))
    assert refused.value.metadata == {"found": "1", "known": "2"}
    assert rows(path, "PRAGMA user_version") == [(1,)]
    assert rows(path, "SELECT name FROM sqlite_schema") == [("notes",)]


async def test_an_older_file_is_brought_forward_and_keeps_its_tasks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = SQLiteStore(path)
    await older.open()
    await older.append(addition("task", b"one", request_id="request"))
    await older.close()
    assert rows(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    further = ("CREATE TABLE notes(text TEXT); INSERT INTO notes VALUES ('hello')", "DROP TABLE notes")
    monkeypatch.setattr(log, "SCHEMA", Schema((*MIGRATIONS, further[0])))
    newer = SQLiteStore(path)
    await newer.open()
    assert rows(path, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]
    assert rows(path, "SELECT text FROM notes") == [("hello",)]
    assert await newer.read("task", 0, 10) == [b"one"]
    assert await newer.request("agent", "ada", "request") == RequestRecord("task", 0)
    await newer.close()
    monkeypatch.setattr(log, "SCHEMA", Schema((*MIGRATIONS, *further)))
    newer = SQLiteStore(path)
    await newer.open()
    assert rows(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'notes'") == [(0,)]
    await newer.close()


def test_a_table_that_is_declared_later_is_added_and_one_that_has_changed_is_refused(path: Path) -> None:
    connect(path, SCHEMA).close()
    notes = {"notes": "CREATE TABLE notes(text TEXT)"}
    connect(path, replace(SCHEMA, tables={**SCHEMA.tables, **notes})).close()
    assert rows(path, "SELECT text FROM notes") == []
    connect(path, SCHEMA).close()  # a version that does not know it leaves it alone
    notes["notes"] = "CREATE TABLE notes(text TEXT, number INTEGER)"
    with pytest.raises(StoreVersionError, match=r"the table notes of .* has another declaration .*; choose a new file"):
        connect(path, replace(SCHEMA, tables=notes))


def test_an_index_that_is_declared_later_is_added_and_one_that_has_changed_is_refused(path: Path) -> None:
    table, by_text, by_number = (
        "CREATE TABLE notes(text TEXT, number INTEGER)",
        "CREATE INDEX notes_0 ON notes(text)",
        "CREATE INDEX notes_1 ON notes(number)",
    )

    def open_with(*statements: str) -> None:
        connect(path, replace(SCHEMA, tables={"notes": ";\n".join(statements)})).close()

    open_with(table)
    open_with(table, by_text, by_number)
    open_with(table, by_text)  # a version that does not know an index leaves it alone
    open_with(table, by_text, by_number)
    indexes = rows(path, "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'notes' ORDER BY name")
    assert indexes == [("notes_0",), ("notes_1",)]
    for changed in (by_text.replace("text", "number"), by_text.replace("INDEX", "UNIQUE INDEX")):
        with pytest.raises(StoreVersionError, match=r"the table notes of .* has another declaration"):
            open_with(table, changed, by_number)


async def test_a_file_from_before_runtime_ids_gets_one(path: Path) -> None:
    connect(path, SCHEMA).close()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("DROP TABLE installation; DELETE FROM declared_tables WHERE name = 'installation'")
    found = list[str]()
    for _ in range(2):
        store = SQLiteStore(path)
        await store.open()
        found.append(store.runtime_id)
        await store.close()
    assert found[0] == found[1]
    assert UUID(found[0]).version == 4


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    connect(path, SCHEMA).close()
    with pytest.raises(StoreError):
        connect(path, Schema((*MIGRATIONS, "CREATE TABLE notes(text TEXT); NOT EVEN SQL")))
    assert rows(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert rows(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'notes'") == [(0,)]
    connect(path, SCHEMA).close()


async def test_many_may_open_a_new_file_at_the_same_moment(tmp_path: Path) -> None:
    for attempt in range(15):  # the moments in which they could hinder each other are short
        path = tmp_path / f"{attempt}.db"
        starting = threading.Barrier(4)

        def begin(path: Path = path, starting: threading.Barrier = starting) -> tuple[str, str]:
            starting.wait(PATIENCE_S)
            db = connect(path, SCHEMA)
            mode, runtime_id = (str(db.execute(sql).fetchone()[0]) for sql in ("PRAGMA journal_mode", log.RUNTIME_ID))
            db.close()
            return mode, runtime_id

        found = await asyncio.gather(*[asyncio.to_thread(begin) for _ in range(4)])
        assert found == [("wal", found[0][1])] * 4


def before_its_journal(path: Path) -> sqlite3.Connection:
    """A process that is creating the file: just before it turns the journal on."""
    connect(path, SCHEMA).close()
    first = sqlite3.connect(path, isolation_level=None)
    first.execute("PRAGMA journal_mode = DELETE")
    first.execute("BEGIN IMMEDIATE")
    return first


def test_two_who_open_a_new_file_do_not_fail_over_its_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = before_its_journal(path)
    waits: list[float] = []

    def meanwhile(seconds: float) -> None:
        waits.append(seconds)
        if first.in_transaction:
            first.execute("COMMIT")

    monkeypatch.setattr(file, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=meanwhile))
    second = connect(path, SCHEMA)
    assert waits  # SQLite itself did not wait, so we did
    assert second.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    second.close()
    first.close()


def test_a_journal_that_stays_locked_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = before_its_journal(path)
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr(file, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None))
    with pytest.raises(StoreError, match="is locked by another process"):
        connect(path, SCHEMA)
    first.close()


def test_a_store_goes_on_when_a_program_starts_another_loop(path: Path) -> None:
    store = SQLiteStore(path)

    async def begin() -> None:
        await store.open()
        await store.append(addition("task"))

    async def go_on() -> None:
        await store.open()
        reader = asyncio.create_task(store.wait("task", 1))
        await settle(store)
        await store.append(addition("task", after=1))
        async with asyncio.timeout(PATIENCE_S):
            await reader
        assert await store.read("task", 0, 10) == [b"event 1", b"event 2"]
        await store.close()

    asyncio.run(begin())
    asyncio.run(go_on())
    # Who had opened it in the loop that is gone does not keep it open.
    assert not store._engine.is_open


def test_the_writer_survives_a_loop_that_closes_before_it_hears_of_a_commit(path: Path) -> None:
    def too_late(*_: Any) -> None:
        raise RuntimeError("Event loop is closed")

    loop: Any = SimpleNamespace(call_soon_threadsafe=too_late)
    future: Any = SimpleNamespace()
    writer = engine.Engine(path, SCHEMA, name="plgrpc-store")
    db = connect(path, SCHEMA)
    writer._commit(db, [engine.Job(lambda _: None, future, loop)])
    db.close()


async def test_nobody_else_may_read_the_tasks(store: SQLiteStore, path: Path) -> None:
    await store.append(addition("task"))
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 100)
    with pytest.raises(StoreError, match="is not a SQLite database") as refused:
        await SQLiteStore(path).open()
    assert type(refused.value) is StoreError
    assert str(path) in str(refused.value)
    assert path.read_bytes() == b"Dear diary, " * 100


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no" / "such" / "tasks.db"
    with pytest.raises(StoreError, match="check that its directory exists") as refused:
        await SQLiteStore(path).open()
    assert type(refused.value) is StoreError
    assert str(path) in str(refused.value)
    assert not path.parent.exists()


async def test_a_directory_in_place_of_the_file_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreError, match="cannot be opened: it is a directory"):
        await SQLiteStore(path).open()


async def test_a_store_that_could_not_open_opens_once_the_cause_is_gone(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "new" / "tasks.db")
    with pytest.raises(StoreError):
        await store.open()
    with pytest.raises(StoreError, match="the store is closed"):
        await store.append(addition())
    (tmp_path / "new").mkdir()
    await store.open()
    await store.append(addition())
    await store.close()


def test_an_error_of_the_file_never_shows_a_statement(path: Path) -> None:
    db = connect(path, SCHEMA)
    with pytest.raises(sqlite3.Error) as caught:
        db.execute("INSERT INTO tasks(principal) VALUES ('secret words')")
    assert "secret words" not in str(explain(caught.value, path))
    db.close()


# -- files that cannot be written ----------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to files of any mode")
async def test_a_read_only_file_is_found_when_the_store_opens(path: Path) -> None:
    connect(path, SCHEMA).close()
    path.chmod(0o400)
    with pytest.raises(StoreReadOnlyError):
        await SQLiteStore(path).open()


async def test_a_file_that_becomes_read_only_refuses_appends_and_can_still_be_read(store: SQLiteStore) -> None:
    await store.append(addition("task"))
    # The same refusal by SQLite as that of a disk that turned read-only, without one.
    await store._engine.write(lambda db: db.execute("PRAGMA query_only = ON"))
    with pytest.raises(StoreReadOnlyError) as refused:
        await store.append(addition("task", after=1, request_id="request"))
    assert refused.value.metadata == {"path": str(store.path)}
    assert await store.read("task", 0, 10) == [b"event 1"]
    assert await store.request("agent", "ada", "request") is None
    await store.close()
    await store.open()
    await store.append(addition("task", after=1, request_id="request"))


async def test_an_outage_of_the_file_is_logged_once_with_its_cause_and_its_end(
    store: SQLiteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "protolink_grpc.storage")
    (pages,) = await store._engine.write(lambda db: db.execute("PRAGMA page_count").fetchone())
    await store._engine.write(lambda db: db.execute(f"PRAGMA max_page_count = {pages}"))
    for _ in range(3):
        with pytest.raises(StoreFullError):
            await store.append(addition("task", b"v" * 100_000))
    await store._engine.write(lambda db: db.execute("PRAGMA max_page_count = 100000"))
    await store.append(addition("task", b"v" * 100_000))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"{store.path} cannot be written, and writes fail until it can: database or disk is full"),
        ("WARNING", f"{store.path} can be written again"),
    ]


async def test_a_store_that_cannot_write_any_more_can_still_be_closed(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SQLiteStore(path)
    await store.open()
    # Signing off writes; here every write fails.
    await store._engine.write(lambda db: db.execute("PRAGMA query_only = ON"))
    await store.close()
    assert "cannot sign off" in caplog.text
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("plgrpc-store")]
    await store.open()
    await store.append(addition("task"))
    await store.close()


async def test_a_lock_that_is_held_too_long_is_named_and_then_forgotten(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_MS", 20)
    store = SQLiteStore(path)
    await store.open()
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="is locked by another process"):
        await store.append(addition("task"))
    lock.execute("COMMIT")
    lock.close()
    await store.append(addition("task"))
    await store.close()


# -- several stores on one file ------------------------------------------------------------------------------------------


async def test_another_stores_append_is_read_and_wakes_who_waits(store: SQLiteStore, other: SQLiteStore) -> None:
    await store.append(addition("task", b"one"))
    reader = asyncio.create_task(store.wait("task", 1))
    await settle(store)
    assert not reader.done()
    await other.append(addition("task", b"two", after=1))
    async with asyncio.timeout(PATIENCE_S):
        await reader
    assert await store.read("task", 1, 10) == [b"two"]
    assert await store.read("task", 0, 10) == [b"one", b"two"]


async def test_what_this_store_remembers_is_not_mixed_with_what_others_wrote(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    for after in range(0, 20, 2):
        await store.append(addition("task", b"%d" % after, after=after))
        await other.append(addition("task", b"%d" % (after + 1), after=after + 1))
        for each in (store, other):
            assert await whole(each) == [b"%d" % number for number in range(after + 2)]


async def test_an_append_between_a_readers_look_and_its_wait_is_not_missed(
    store: SQLiteStore, other: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append(addition("task"))
    await settle(store)  # no process follows the file any more
    look = store.head

    async def look_then_lose_the_race(task_id: str) -> TaskHead | None:
        head = await look(task_id)
        await other.append(addition("task", after=1))
        return head

    monkeypatch.setattr(store, "head", look_then_lose_the_race)
    async with asyncio.timeout(PATIENCE_S):
        await store.wait("task", 1)


async def test_a_reader_that_comes_while_others_are_waited_for_is_not_missed(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    await store.append(addition("quiet"))
    await store.append(addition("task"))
    first = asyncio.create_task(store.wait("quiet", 1))
    await settle(store)
    second = asyncio.create_task(store.wait("task", 1))
    await settle(store)
    await other.append(addition("task", after=1))
    async with asyncio.timeout(PATIENCE_S):
        await second
    first.cancel()
    await asyncio.wait([first])


async def test_another_stores_deletion_wakes_who_waits_and_nothing_of_the_log_is_remembered(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    heard = asyncio.Queue[str]()
    store.listeners.append(ForeignListener(lambda: ["task"], heard.put_nowait))
    await store.append(addition("task", b"one", state=TaskState.COMPLETED, worker=store.worker))
    waiting = asyncio.create_task(store.wait("task", 1))
    await settle(store)
    assert (await other.delete(["task"])).tasks == 1
    async with asyncio.timeout(PATIENCE_S):
        await waiting
        assert await heard.get() == "task"
    assert await store.read("task", 0, 10) == []
    store.listeners.clear()


async def test_a_log_that_another_store_deleted_and_began_again_is_read_from_the_file(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    await store.append(addition("task", b"old", b"older", state=TaskState.COMPLETED, worker=store.worker))
    await other.delete(["task"])
    await other.append(addition("task", b"new", b"newer", worker=other.worker))
    head = await store.head("task")
    assert head is not None
    assert await whole(store) == [b"new", b"newer"]


async def test_deleted_events_are_removed_from_the_file(path: Path) -> None:
    secret = b"the word that must not be found " * 500
    store = SQLiteStore(path)
    await store.open()
    await store.append(addition("task", secret, state=TaskState.COMPLETED))
    await store.append(addition("another", b"kept"))
    hook = PushRow("agent", "ada", "another", "hook", secret, 0, 1_000)
    await store.change(lambda records: put_webhook(records, hook))
    await store.delete(["task"], records=lambda records: records.delete(WEBHOOKS, "agent") and None)
    assert b"must not be found" not in on_disk(path)
    assert b"kept" in on_disk(path)
    await store.close()
    assert not path.with_name("tasks.db-wal").exists()


async def test_deleted_events_leave_the_write_ahead_log_when_no_other_process_reads_it_any_more(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ERASE_WAIT_MS", 0)
    await store.append(addition("task", b"the word", state=TaskState.COMPLETED))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM tasks").fetchall()
        assert (await store.delete(["task"])).tasks == 1
        await store.append(addition("another", b"kept"))
        assert b"the word" in on_disk(path)
    await store.append(addition("third", b"kept"))
    assert b"the word" not in on_disk(path)


async def test_a_deletion_also_removes_what_was_replaced_before_it(path: Path, store: SQLiteStore) -> None:
    await store.append(addition("task", state=TaskState.COMPLETED))
    await store.delete(["task"])
    await store.append(addition("other", state=TaskState.COMPLETED))
    for url in (b"the word " * 5_000, b"short"):
        hook = PushRow("agent", "ada", "other", "hook", url, 0, 1_000)
        await store.change(lambda records, hook=hook: put_webhook(records, hook))
        await store.append(addition("deleted", state=TaskState.COMPLETED))
        await store.delete(["deleted"])
    assert b"the word" not in on_disk(path)


async def test_content_that_a_dead_process_has_deleted_leaves_the_write_ahead_log_after_the_next_start(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ERASE_WAIT_MS", 0)
    await store.append(addition("task", b"the word", state=TaskState.COMPLETED))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM tasks").fetchall()
        await store.delete(["task"])
    assert b"the word" in on_disk(path)
    async with opened(path) as started:
        await started.append(addition("another"))
        assert b"the word" not in on_disk(path)


async def test_only_a_deletion_that_deletes_something_truncates_the_write_ahead_log(store: SQLiteStore) -> None:
    await store.append(addition("task", state=TaskState.COMPLETED))
    statements: list[str] = []
    await store._engine.write(lambda db: db.set_trace_callback(statements.append))
    assert (await store.delete(["unknown"])).tasks == 0
    assert not [each for each in statements if "wal_checkpoint" in each]
    assert (await store.delete(["task", "unknown"])).tasks == 1
    assert len([each for each in statements if "wal_checkpoint" in each]) == 1


async def test_a_deletion_that_is_refused_does_not_fail_the_others_in_its_group(store: SQLiteStore) -> None:
    await store.append(addition("ended", state=TaskState.COMPLETED))
    await store.append(addition("task"))

    def refuse(records: Records) -> None:
        records.delete(WEBHOOKS, "agent")
        raise LeaseLostError("no")

    async with held_writer(store):
        waiting = [
            asyncio.ensure_future(each)
            for each in (
                store.append(addition("task", after=1)),
                store.delete(["ended", "task"]),
                store.delete(["ended"], records=refuse),
                store.append(addition("task", after=2)),
            )
        ]
        await asyncio.sleep(0)
        before = store.commits.count
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in outcomes] == [type(None), TaskAlreadyRunningError, LeaseLostError, type(None)]
    assert store.commits.count == before + 2  # that of the held writer, and one for the group
    assert await store.head("ended") is not None


async def test_the_listener_hears_of_other_processes_appends_to_the_tasks_that_run_here(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    heard: list[str] = []
    told = asyncio.Event()

    def appended(task_id: str) -> None:
        heard.append(task_id)
        told.set()

    store.listeners.append(ForeignListener(lambda: ["task"], appended))
    await store.append(addition("task"))
    await store.append(addition("not running"))
    await settle(store)
    assert heard == []
    await other.append(addition("not running", after=1))
    await other.append(addition("task", after=1))
    async with asyncio.timeout(PATIENCE_S):
        await told.wait()
    assert set(heard) == {"task"}
    store.listeners.clear()


async def test_the_listener_hears_of_an_append_that_follows_its_own_at_once(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    told = asyncio.Event()
    store.listeners.append(ForeignListener(lambda: ["task"], lambda task_id: told.set()))
    await store.append(addition("task"))
    await other.append(addition("task", after=1))
    async with asyncio.timeout(PATIENCE_S):
        await told.wait()
    store.listeners.clear()


async def test_readers_ask_again_when_other_processes_cannot_be_followed(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await store.append(addition("task"))

    def fail(db: sqlite3.Connection, probe: Any) -> None:
        probe.outcome = StoreError("no look today")

    monkeypatch.setattr(store._engine, "_probe", fail)
    async with asyncio.timeout(PATIENCE_S):
        await store.wait("task", 1)
    assert "no look today" in caplog.text


# -- workers -------------------------------------------------------------------------------------------------------------


async def test_a_closed_stores_tasks_are_orphans(store: SQLiteStore, other: SQLiteStore) -> None:
    await other.heartbeat(3600.0)
    await other.append(addition("task", worker=other.worker))
    assert await store.orphans("agent") == []
    await other.close()
    assert [head.task_id for head in await store.orphans("agent")] == ["task"]


async def test_a_worker_whose_lease_ran_out_counts_as_dead_even_if_its_process_lives(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    await other.append(addition("task", worker=other.worker))
    await other.heartbeat(-1.0)
    assert [head.task_id for head in await store.orphans("agent")] == ["task"]
    await other.heartbeat(60.0)
    assert await store.orphans("agent") == []


async def test_a_worker_that_renews_its_lease_in_time_keeps_its_tasks_from_one_that_thought_it_dead(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    await other.append(addition("task", worker=other.worker))
    await other.heartbeat(-1.0)
    taken = addition("task", after=1, worker=store.worker, epoch=2)
    assert [head.task_id for head in await store.orphans("agent")] == ["task"]
    await other.heartbeat(60.0)  # it only slept, and wakes up between the look and the claim
    with pytest.raises(LeaseLostError):
        await store.append(taken)
    await other.append(addition("task", after=1, worker=other.worker))
    await other.heartbeat(-1.0)
    assert [head.task_id for head in await store.orphans("agent")] == ["task"]
    await store.append(replace(taken, head=replace(taken.head, sequence=3), expected_sequence=2))
    await other.heartbeat(60.0)
    with pytest.raises(LeaseLostError):
        await other.append(addition("task", after=3, worker=other.worker))


async def test_orphans_are_what_is_unfinished_and_not_waiting_oldest_first(store: SQLiteStore) -> None:
    for number, state in enumerate(TaskState):
        await store.append(addition(state.value, state=state, worker="gone", update_micros=100 - number))
    assert [head.state for head in await store.orphans("agent")] == [TaskState.WORKING, TaskState.SUBMITTED]


async def test_what_a_worker_gives_up_is_an_orphan_at_once_and_what_others_have_stays_theirs(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    await store.heartbeat(60.0)
    await other.heartbeat(60.0)
    for task_id, owner in (("kept", store), ("given up", store), ("another's", other)):
        await store.append(addition(task_id, worker=owner.worker))
    await store.release(["given up", "another's"])
    for each in (store, other):
        assert [head.task_id for head in await each.orphans("agent")] == ["given up"]


async def test_a_heartbeat_forgets_workers_that_fell_silent_more_than_a_day_ago(
    store: SQLiteStore, other: SQLiteStore, path: Path
) -> None:
    await other.append(addition("task", worker=other.worker))
    await other.heartbeat(-86_300.0)
    await store.heartbeat(60.0)
    assert len(rows(path, "SELECT worker FROM workers")) == 2
    await other.heartbeat(-86_500.0)
    await store.heartbeat(60.0)
    assert rows(path, "SELECT worker FROM workers") == [(store.worker,)]
    assert [head.task_id for head in await store.orphans("agent")] == ["task"]


async def test_a_heartbeat_forgets_requests_that_are_too_old(path: Path) -> None:
    store = SQLiteStore(path, request_ttl_s=2 * 86_400)
    await store.open()
    day = 86_400 * 1_000_000
    now = now_micros()
    await store.append(addition("old", request_id="old", update_micros=now - 3 * day))
    await store.append(addition("recent", request_id="recent", update_micros=now - day))
    await store.heartbeat(60.0)
    assert await store.request("agent", "ada", "old") is None
    assert await store.request("agent", "ada", "recent") == RequestRecord("recent", 0)
    await store.close()


async def test_request_ids_are_remembered_for_a_day_at_least(path: Path) -> None:
    store = SQLiteStore(path, request_ttl_s=1.0)
    await store.open()
    await store.append(addition("task", request_id="request", update_micros=now_micros() - 3_600_000_000))
    await store.heartbeat(60.0)
    assert await store.request("agent", "ada", "request") is not None
    await store.close()


# -- liveness ------------------------------------------------------------------------------------------------------------


def test_this_process_is_alive() -> None:
    assert not is_dead(process_identity())


def test_a_process_whose_number_was_given_to_another_is_dead() -> None:
    machine, pid, start = process_identity().rsplit("/", 2)
    if not start:
        pytest.skip("this system does not tell when a process started")
    assert is_dead(f"{machine}/{pid}/{int(start) - 1}")


@pytest.mark.parametrize("identity", ["", "x", "//", "elsewhere/1/1", "a/b/c"])
def test_of_a_process_elsewhere_nobody_knows(identity: str) -> None:
    assert not is_dead(identity)


@pytest.mark.parametrize("pid", ["", "one", "-1", "99999999999999999999"])
def test_of_a_number_that_is_none_nobody_knows(pid: str) -> None:
    machine = process_identity().rsplit("/", 2)[0]
    assert not is_dead(f"{machine}/{pid}/1")


def test_where_the_system_does_not_tell_the_start_only_a_missing_process_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(liveness, "_start_ticks", lambda pid: "")
    machine, pid, start = process_identity().rsplit("/", 2)
    assert start == ""
    assert not is_dead(f"{machine}/{pid}/12345")
