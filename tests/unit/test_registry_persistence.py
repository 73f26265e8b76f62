"""The registry's file: durability and errors."""

import os
import sqlite3
import stat
from dataclasses import replace

import pytest

from protolink_grpc.errors import StoreError, StoreFullError, StoreReadOnlyError, StoreVersionError
from protolink_grpc.registry.entries import StoredAgent
from protolink_grpc.registry.names import NameRecord
from protolink_grpc.registry.persistence import SQLiteDirectoryFile
from protolink_grpc.wire.registry import InstanceState


def stored(url, card=b"card", revision=1):
    return StoredAgent(url, card, "alice", f"lease of {url}", 30.0, 1_000.25, revision)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "registry.db"


async def reread(path):
    file = SQLiteDirectoryFile(path)
    try:
        return await file.load()
    finally:
        await file.aclose()


async def test_a_new_file_is_empty(path):
    assert await reread(path) == ([], 0, [])


async def test_what_was_written_is_read_again(path):
    file = SQLiteDirectoryFile(path)
    await file.load()
    await file.write([stored("b"), stored("a")], [], 2)
    await file.write([stored("b", b"newer", 3)], ["a", "never there"], 4)
    await file.write([stored("c")], [], 5)
    await file.aclose()
    assert await reread(path) == ([stored("b", b"newer", 3), stored("c")], 5, [])


async def test_what_write_has_acknowledged_survives_without_a_close(path, tmp_path):
    file = SQLiteDirectoryFile(path)
    await file.load()
    await file.write([stored("a")], [], 1)
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):
        copy.with_name(copy.name + suffix).write_bytes(path.with_name(path.name + suffix).read_bytes())
    await file.aclose()
    assert await reread(copy) == ([stored("a")], 1, [])


async def test_writes_are_synced_before_they_are_acknowledged(path):
    file = SQLiteDirectoryFile(path)
    await file.load()

    names = ("journal_mode", "synchronous", "locking_mode")
    found = await file._engine.read(lambda db: [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names])
    await file.aclose()
    assert found == ["wal", 2, "exclusive"]


async def test_a_batch_is_written_atomically(path):
    file = SQLiteDirectoryFile(path)
    await file.load()
    await file.write([stored("a")], [], 1)
    with pytest.raises(StoreError):
        await file.write([stored("b"), stored("c", card=None)], ["a"], 3)
    await file.write([stored("d")], [], 2)
    await file.aclose()
    assert await reread(path) == ([stored("a"), stored("d")], 2, [])


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (1, "oldest version that this protolink_grpc reads is 5; remove the file; running agents register again"),
        (3, "oldest version that this protolink_grpc reads is 5; remove the file; running agents register again"),
        (6, "versions up to 5; upgrade the package"),
    ],
)
async def test_a_file_of_another_version_is_refused_and_not_changed(path, version, advice):
    await reread(path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match=f"has schema version {version}; .*{advice}"):
        await reread(path)
    assert path.read_bytes() == before


async def test_a_file_without_an_application_id_is_refused_and_not_changed(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="of an earlier version; choose another file for the registry"):
        await reread(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("state", InstanceState)
async def test_instance_and_state_survive_a_restart(path, state):
    file = SQLiteDirectoryFile(path)
    await file.load()
    agent = replace(stored("a"), instance_id="i-1", state=state)
    await file.write([agent], [], 1)
    await file.aclose()
    assert (await reread(path))[0] == [agent]


async def test_a_read_only_file_is_reported(path):
    await reread(path)
    with path.open("r+b") as raw:
        raw.seek(18)  # the file format's write version: above 2 SQLite can read but not write the file
        raw.write(b"\x03")
    with pytest.raises(StoreReadOnlyError):
        await reread(path)


async def test_a_full_disk_is_reported_and_later_writes_work(path):
    file = SQLiteDirectoryFile(path, max_bytes=64 * 1024)
    await file.load()
    await file.write([stored("a")], [], 1)
    with pytest.raises(StoreFullError):
        await file.write([stored("b", b"x" * 100_000)], [], 2)
    await file.write([stored("c")], [], 2)
    await file.aclose()
    assert await reread(path) == ([stored("a"), stored("c")], 2, [])


async def test_two_registries_cannot_share_a_file(path):
    first, second = SQLiteDirectoryFile(path), SQLiteDirectoryFile(path, lock_timeout_s=0)
    await first.load()
    with pytest.raises(StoreError, match="another registry"):
        await second.load()
    await second.aclose()
    await first.write([stored("a")], [], 1)
    await first.aclose()
    assert await reread(path) == ([stored("a")], 1, [])


async def test_a_file_that_is_not_a_database_is_reported(path):
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="is not a SQLite database"):
        await reread(path)


async def test_a_missing_directory_is_reported(tmp_path):
    with pytest.raises(StoreError):
        await reread(tmp_path / "nowhere" / "registry.db")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
async def test_the_file_is_readable_only_by_its_owner(path):
    file = SQLiteDirectoryFile(path)
    await file.load()
    await file.write([stored("a")], [], 1)
    rights = [stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()]
    await file.aclose()
    assert set(rights) == {0o600}


async def test_a_closed_file_refuses_writes(path):
    file = SQLiteDirectoryFile(path)
    with pytest.raises(StoreError):
        await file.write([stored("a")], [], 1)
    await file.aclose()


async def test_a_file_may_be_closed_twice(path):
    file = SQLiteDirectoryFile(path)
    await file.load()
    await file.aclose()
    await file.aclose()


async def test_names_are_freed_before_new_owners_are_written(path):
    file = SQLiteDirectoryFile(path)
    await file.load()
    await file.write([], [], 5, names=[NameRecord("a", "alice", 1.0), NameRecord("b", "alice", 1.0)])
    await file.write([], [], 4, names=[NameRecord("a", "bob", 2.0)], freed=["a", "b", "never there"])
    await file.aclose()
    assert await reread(path) == ([], 5, [NameRecord("a", "bob", 2.0)])
