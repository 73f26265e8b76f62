"""A store's file between processes, after a kill and on a disk that is full or read-only."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from protolink_grpc.errors import StoreFullError, StoreReadOnlyError
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.storage.port import Append, RequestRecord, TaskHead
from protolink_grpc.storage.sqlite.liveness import is_dead
from protolink_grpc.storage.sqlite.store import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path)
    await store.open()
    yield store
    await store.close()


def addition(task_id: str = "task", *events: Any, after: int = 0, request_id: str = "", **known: Any) -> Append:
    frames = list(events) or [b"event %d" % (after + 1)]
    sequence = after + len(frames)
    head = TaskHead(
        task_id, "ada", "agent", "session", TaskState.WORKING, sequence, "run", 1_000, 1_000 + sequence, "worker", 1
    )
    return Append(replace(head, **known), frames, after, 1 if after else 0, request_id)


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What any other program finds in the file."""
    db = sqlite3.connect(path)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


# -- disks ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system of its own in memory, and mounts it again with other options."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def mount(options: str) -> Path:
        nonlocal mounted
        again = "remount," if mounted else ""
        command = ["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(place)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount a file system")
        mounted = True
        return place

    yield mount
    if mounted:
        # Lazily: a store that a failed test left open must not keep the file system there.
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("name", ["tasks.db", "new.db"], ids=["old file", "new file"])
async def test_a_read_only_disk_is_found_when_the_store_opens(small_disk: Callable[[str], Path], name: str) -> None:
    store = SQLiteStore(small_disk("size=1m") / "tasks.db")
    await store.open()
    await store.append(addition("task"))
    await store.close()
    path = small_disk("ro") / name
    with pytest.raises(StoreReadOnlyError) as refused:
        await SQLiteStore(path).open()
    assert refused.value.metadata == {"path": str(path)}


async def fill(store: SQLiteStore) -> int:
    """Append to `task` until there is no space; how many events it has then."""
    for after in range(1000):
        try:
            await store.append(addition("task", bytes([after % 256]) * 50_000, after=after))
        except StoreFullError as error:
            assert str(store.path) in str(error)  # noqa: PT017 -- the loop ends with the first failure, whenever it comes
            return after
    raise AssertionError("the disk never was full")


async def check_full(store: SQLiteStore) -> None:
    """A full disk costs the append that did not fit, and nothing else; once there is space, the store goes on."""
    written = await fill(store)
    assert written > 1
    with pytest.raises(StoreFullError):
        await store.append(addition("another", bytes(50_000), request_id="request"))
    assert await store.head("another") is None
    assert await store.request("agent", "ada", "request") is None
    head = await store.head("task")
    assert head is not None
    assert head.sequence == written
    for after in range(written):
        assert await store.read("task", after, 1) == [bytes([after % 256]) * 50_000]


async def test_a_full_file_costs_only_the_append_that_did_not_fit(store: SQLiteStore) -> None:
    await store._engine.write(lambda db: db.execute("PRAGMA max_page_count = 300"))
    await check_full(store)
    await store._engine.write(lambda db: db.execute("PRAGMA max_page_count = 100000"))
    await store.append(addition("another", bytes(50_000), request_id="request"))
    assert await store.request("agent", "ada", "request") == RequestRecord("another", 0)


async def test_a_full_disk_costs_only_the_append_that_did_not_fit(small_disk: Callable[[str], Path]) -> None:
    store = SQLiteStore(small_disk("size=1m") / "tasks.db")
    await store.open()
    await check_full(store)
    small_disk("size=8m")
    await store.append(addition("another", bytes(50_000), request_id="request"))
    await store.close()
    await store.open()
    assert await store.request("agent", "ada", "request") == RequestRecord("another", 0)
    await store.close()


# -- processes -----------------------------------------------------------------------------------------------------------

WRITER = """
    import asyncio, sys
    from protolink_grpc.errors import SequenceConflictError
    from protolink_grpc.models.lifecycle import TaskState
    from protolink_grpc.storage.port import Append, TaskHead
    from protolink_grpc.storage.sqlite.store import SQLiteStore

    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

    def addition(task_id, frame, after):
        head = TaskHead(task_id, "ada", "agent", "s", TaskState.WORKING, after + 1, "run", 1, after + 2, "w", 1)
        return Append(head, [frame], after, 1 if after else 0)

    async def own(store):
        for after in range(count):
            await store.append(addition("of " + name, f"{name} {after}".encode(), after))

    async def shared(store):
        for number in range(count):
            while True:
                head = await store.head("shared")
                try:
                    await store.append(addition("shared", f"{name} {number}".encode(), head.sequence if head else 0))
                    break
                except SequenceConflictError:
                    continue

    async def main():
        store = SQLiteStore(path)
        await store.open()
        print("open", flush=True)
        sys.stdin.readline()
        await asyncio.gather(own(store), shared(store))
        await store.close()

    asyncio.run(main())
"""


async def test_two_processes_on_one_file_lose_nothing_and_repeat_nothing(
    store: SQLiteStore, launch: Callable[..., Awaitable[Any]]
) -> None:
    count, names = 60, ["left", "right"]
    programs = [await launch(WRITER, store.path, name, count) for name in names]
    async with asyncio.timeout(60):
        for program in programs:
            assert await program.line() == "open"
        followed: list[bytes] = []
        for program in programs:
            program.say("go")
        while len(followed) < 2 * count:
            frames = await store.read("shared", len(followed), 7)
            if frames:
                followed += frames
            else:
                await store.wait("shared", len(followed))
        assert [await program.end() for program in programs] == [0, 0]
    for name in names:
        own = [f"{name} {number}".encode() for number in range(count)]
        assert await store.read(f"of {name}", 0, 1000) == own
        assert [frame for frame in followed if frame in own] == own
    assert await store.read("shared", 0, 1000) == followed
    assert rows(store.path, "SELECT sequence FROM events WHERE task_id = 'shared' ORDER BY sequence") == [
        (sequence,) for sequence in range(1, 2 * count + 1)
    ]


WORKER = """
    import asyncio, sys
    from protolink_grpc.models.lifecycle import TaskState
    from protolink_grpc.storage.sqlite.liveness import process_identity
    from protolink_grpc.storage.port import Append, TaskHead
    from protolink_grpc.storage.sqlite.store import SQLiteStore

    async def main():
        store = SQLiteStore(sys.argv[1])
        await store.open()
        await store.heartbeat(3600)
        head = TaskHead("task", "ada", "agent", "s", TaskState.WORKING, 1, "run", 1, 2, store.worker, 1)
        await store.append(Append(head, [b"event"], 0, 0))
        print(process_identity(), flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[Path], tuple[subprocess.Popen[str], str]]]:
    """Starts a process that has taken `task` and lives on; its identity comes with it."""
    started: list[subprocess.Popen[str]] = []

    def start(path: Path) -> tuple[subprocess.Popen[str], str]:
        program = tmp_path / "worker.py"
        program.write_text(dedent(WORKER))
        process = subprocess.Popen([sys.executable, program, path], stdout=subprocess.PIPE, text=True)
        started.append(process)
        if process.stdout is None:
            raise AssertionError("started without a pipe")
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def test_a_killed_workers_tasks_are_orphans_at_once_and_a_living_ones_are_not(
    store: SQLiteStore, worker: Callable[[Path], tuple[subprocess.Popen[str], str]]
) -> None:
    process, identity = await asyncio.to_thread(worker, store.path)
    assert await store.orphans("agent") == []
    assert not is_dead(identity)
    process.send_signal(signal.SIGKILL)
    # Waits for the end without taking notice of it: to the system it is a zombie, to us it must be dead already.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(identity)
    assert await store.orphans("agent") == [await store.head("task")]
    process.wait()
    assert is_dead(identity)
    assert await store.orphans("agent") == [await store.head("task")]
    assert await store.orphans("another agent") == []
