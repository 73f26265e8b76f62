"""The task store in one SQLite file, shared by several processes of one machine.

Theory of operation. The engine runs the statements of this class. Each append is fenced by its own conditional UPDATE, so that
one that lost a race fails alone. The latest events of active tasks are kept in memory, so that a live reader needs no query.
Appends of other processes are detected by polling `PRAGMA data_version`, only while a caller waits.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from protolink_grpc.errors import ProtolinkError, StoreError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.json_value import to_json
from protolink_grpc.storage.port import (
    HELD,
    Append,
    Deleted,
    ForeignListener,
    RequestRecord,
    TaskHead,
    TaskPage,
    TaskQuery,
    limit_bytes,
)
from protolink_grpc.storage.records import Kind, Records
from protolink_grpc.storage.sqlite import log as tables
from protolink_grpc.storage.sqlite import records as record_tables
from protolink_grpc.storage.sqlite.engine import Engine
from protolink_grpc.storage.sqlite.file import Pragmas
from protolink_grpc.storage.sqlite.liveness import is_dead, process_identity
from protolink_grpc.storage.sqlite.records import HotRows, SQLiteRecords
from protolink_grpc.storage.sqlite.tails import Tails
from protolink_grpc.storage.waiters import Waiters

R = TypeVar("R")
T = TypeVar("T")
log = get_logger(__name__)

DAY_MICROS = 86_400 * 1_000_000
"""How long a silent worker stays listed, in seconds."""

POLL_S = 0.05
"""Poll interval for appends of other processes, in seconds."""


class SQLiteStore:
    """Logs in a SQLite file, which is created if it does not exist and migrated if it is older.

    Args:
        path: The file. Its directory must exist and be on a local disk, because SQLite's locks do not work on network file systems.
        request_ttl_s: How long a request id is remembered, in seconds. At least a day.
    """

    durable = True
    shared = True

    @checks_arguments
    def __init__(self, path: str | os.PathLike[str], *, request_ttl_s: float = 7 * 86_400) -> None:
        self.path = Path(path)
        self.worker = ""
        self.runtime_id = ""
        self.listeners: list[ForeignListener] = []
        self._request_ttl_micros = int(max(request_ttl_s, 86_400) * 1_000_000)
        self._hot = HotRows()  # used by the writer thread only
        self._engine = Engine(
            self.path,
            tables.SCHEMA,
            name="plgrpc-store",
            # Not only for deletions: a later deletion does not overwrite what an update has unlinked before.
            pragmas=Pragmas(secure_delete=True),
            before_commit=self._hot.before_commit,
            rolled_back=self._hot.clear,
        )
        self.commits = self._engine.commits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters = Waiters()
        self._change_waiters = Waiters()
        self._tails = Tails()
        self._poller: asyncio.Task[None] | None = None
        self._baseline: asyncio.Future[int]
        self._users = 0

    # -- Opening and closing ---------------------------------------------------------------------------------------------

    async def open(self) -> None:
        self._users += 1
        try:
            await self._open()
        except BaseException:
            self._users -= 1
            raise

    async def _open(self) -> None:
        if self._engine.is_open:
            if self._loop is not None and self._loop.is_closed():
                # The loop of an earlier `asyncio.run` has ended, and its users will not close the store any more. The file and
                # the threads are still usable.
                self._loop, self._poller, self._users = asyncio.get_running_loop(), None, 1
            return
        self._loop = asyncio.get_running_loop()
        await self._engine.open()
        try:
            ((self.runtime_id,),) = await self._rows(tables.RUNTIME_ID)
        except BaseException:  # a caller that gets an error does not close the store
            await self._engine.close()
            raise
        self.worker = new_uuid()

    async def close(self) -> None:
        self._users = max(0, self._users - 1)
        if not self._engine.is_open:
            return
        if self._users:
            # Wake all readers: those of the closing user end, the others read and wait again.
            self._wake_all()
            return
        if self._poller is not None:
            self._poller.cancel()
            self._poller = None
        signing_off = asyncio.ensure_future(self._execute("DELETE FROM workers WHERE worker = ?", (self.worker,)))
        await asyncio.sleep(0)  # queued before the end
        await self._engine.close()
        try:
            await signing_off
        except StoreError as error:
            # A full disk must not prevent closing; other processes detect that this one has ended, or wait for its lease.
            log.warning("cannot sign off from the store: %s", error)
        self._tails.clear()
        self._wake_all()

    def _wake_all(self) -> None:
        self._waiters.wake_all()
        self._change_waiters.wake_all()

    # -- Writing ---------------------------------------------------------------------------------------------------------

    async def append(self, append: Append) -> RequestRecord | None:
        if self._poller is None and self.listeners:
            # Queued before the append, so that all later appends of other processes are detected.
            self._start_polling()
        changed: set[tuple[str, Any]] = set()
        hot = self._hot
        return await self._engine.write(
            lambda db: tables.insert(db, append, changed, hot), partial(self._show, append, changed)
        )

    def _show(self, append: Append, changed: set[tuple[str, Any]], earlier: RequestRecord | None) -> None:
        """Make the events visible to readers, after the commit and before the result."""
        if earlier is not None:
            return
        self._tails.add(append.head.task_id, append.expected_sequence, append.events)
        self._waiters.wake(append.head.task_id)
        for scope in changed:
            self._change_waiters.wake(scope)
        if append.committed is not None:
            append.committed()

    async def delete(self, task_ids: Sequence[str], *, records: Callable[[Records], None] | None = None) -> Deleted:
        changed: set[tuple[str, Any]] = set()
        hot = self._hot
        return await self._engine.write(
            lambda db: tables.delete(db, task_ids, records, changed, hot),
            partial(self._forget, task_ids, changed),
            erases=True,
        )

    def _forget(self, task_ids: Sequence[str], changed: set[tuple[str, Any]], _: Deleted) -> None:
        """Wake the readers of deleted tasks, after the commit and before the result."""
        for task_id in task_ids:
            self._tails.drop(task_id)
            self._waiters.wake(task_id)
        for scope in changed:
            self._change_waiters.wake(scope)

    async def _execute(self, sql: str, values: tuple[Any, ...]) -> int:
        """Run one statement and return the number of changed rows."""
        return await self._engine.write(lambda db: db.execute(sql, values).rowcount)

    # -- Reading ---------------------------------------------------------------------------------------------------------

    async def _rows(self, sql: str, *values: Any) -> list[Any]:
        return await self._engine.read(lambda db: db.execute(sql, values).fetchall())

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        frames = self._tails.read(task_id, after, limit)
        # The tail in memory does not contain what other processes wrote; a complete log ends with a terminal head.
        if frames:
            return limit_bytes(frames)
        return await self._engine.read(lambda db: tables.frames(db, task_id, after, limit))

    async def wait(self, task_id: str, after: int) -> None:
        if self._tails.end(task_id) > after:
            return
        async with self._register_waiter(self._waiters, task_id) as waiting:
            head = await self.head(task_id)
            if head is None and after:
                return  # the task was deleted
            if head is None or head.sequence <= after:
                await waiting

    @asynccontextmanager
    async def _register_waiter(self, waiters: Waiters, key: Hashable) -> AsyncIterator["asyncio.Future[None]"]:
        """Register a waiting reader. Reads within the block come after the registration, so a later append wakes the reader."""
        waiting = asyncio.ensure_future(waiters.wait(key))
        try:
            await asyncio.sleep(0)
            if self._poller is None:
                self._start_polling()
            await asyncio.wait([self._baseline])
            yield waiting
        finally:
            waiting.cancel()

    def _start_polling(self) -> None:
        self._baseline = self._engine.start_probe()
        self._poller = asyncio.ensure_future(self._poll(self._baseline))

    async def _poll(self, baseline: "asyncio.Future[int]") -> None:
        """Detect what other processes write after `baseline`, while there are waiting readers or running tasks."""
        try:
            version = await baseline
            while self._waiters or self._change_waiters or self._watched_task_ids():
                await asyncio.sleep(POLL_S)
                latest = await self._engine.start_probe()
                if latest != version:
                    version = latest
                    self._change_waiters.wake_all()
                    # Only now, because later readers find the new head themselves.
                    await self._wake_changed(self._watched_task_ids())
        except StoreError as error:
            # Readers then read again, at most as often as a poll; the next waiting reader starts another poll task.
            log.warning("cannot follow other processes' appends: %s", error)
            await asyncio.sleep(POLL_S)
            self._wake_all()
        finally:
            self._poller = None

    def _watched_task_ids(self) -> list[str]:
        running = [task_id for listener in self.listeners for task_id in listener.task_ids()]
        return list({*self._waiters.keys(), *running})

    async def _wake_changed(self, task_ids: list[str]) -> None:
        rows = await self._rows(
            "SELECT task_id, sequence FROM tasks WHERE task_id IN (SELECT value FROM json_each(?))", to_json(task_ids)
        )
        found = dict(rows)
        for task_id in task_ids:
            # A task that is not found was deleted, or is not stored yet.
            if task_id in found and found[task_id] <= self._tails.end(task_id):
                continue
            self._tails.drop(task_id)
            self._waiters.wake(task_id)
            for listener in self.listeners:
                listener.appended(task_id)

    async def head(self, task_id: str) -> TaskHead | None:
        rows = await self._rows(tables.SELECT + " WHERE task_id = ?", task_id)
        head = tables.head_of(rows[0]) if rows else None
        if head is None or head.worker != self.worker:
            # Another process may have deleted the task, and may have stored another one with the same id.
            self._tails.drop(task_id)
        return head

    async def heads(self, task_ids: Collection[str]) -> dict[str, TaskHead]:
        rows = await self._rows(tables.HEADS, to_json(list(task_ids))) if task_ids else []
        return {head.task_id: head for head in map(tables.head_of, rows)}

    async def find(self, query: TaskQuery) -> TaskPage:
        rows = await self._rows(*tables.page(query))
        total = (await self._rows(*tables.total(query)))[0][0] if query.include_total else None
        heads = [tables.head_of(row) for row in rows[: query.page_size]]
        more = len(rows) > query.page_size
        return TaskPage(heads, (heads[-1].update_micros, heads[-1].task_id) if more else None, total)

    async def request(self, agent_name: str, principal: str, request_id: str) -> RequestRecord | None:
        rows = await self._rows(tables.REQUEST, agent_name, principal, request_id)
        return RequestRecord(*rows[0]) if rows else None

    # -- Records ---------------------------------------------------------------------------------------------------------

    async def view(self, query: Callable[[Records], T]) -> T:
        return await self._engine.read(lambda db: query(SQLiteRecords(db)), snapshot=True)

    async def change(self, work: Callable[[Records], T]) -> T:
        changed: set[tuple[str, Any]] = set()
        hot = self._hot

        def transact(db: sqlite3.Connection) -> T:
            records, puts = SQLiteRecords(db, hot), hot.puts
            try:
                outcome = work(records)
            except ProtolinkError:
                if hot.puts != puts:
                    hot.flush(db)  # now they count as changes, which are rolled back: see `Job.run`
                raise
            changed.update(records.changed)
            return outcome

        def wake(_: object) -> None:
            for scope in changed:
                self._change_waiters.wake(scope)

        outcome: T = await self._engine.write(transact, wake)
        return outcome

    async def wait_change(self, kind: Kind[Any], scope: str, after: int) -> None:
        await self.wait_until(kind, scope, lambda records: records.revisions(kind, scope).latest > after)

    async def wait_until(self, kind: Kind[Any], scope: Any, is_changed: Callable[[Records], bool]) -> None:
        async with self._register_waiter(self._change_waiters, (kind.name, scope)) as waiting:
            if not await self.view(is_changed):
                await waiting

    async def claim(self, kind: Kind[R], scope: str) -> list[R]:
        listed = [worker for (worker,) in await self._rows(record_tables.workers(kind), scope)]
        dead = [worker for worker in listed if await self._remove_if_dead(worker)]
        mine = self.worker
        if not dead:
            return []
        return await self._engine.write(lambda db: record_tables.claim(db, kind, scope, mine, dead))

    async def release_claims(self, kind: Kind[Any], scope: str) -> None:
        mine = self.worker
        await self._engine.write(lambda db: record_tables.set_worker(db, kind, scope, "", [mine]))

    # -- Leases ----------------------------------------------------------------------------------------------------------

    async def heartbeat(self, ttl_s: float) -> None:
        worker, process = self.worker, process_identity()
        forgotten = now_micros() - self._request_ttl_micros

        def beat(db: sqlite3.Connection) -> None:
            # Counted from the time of the write, which may have waited in the queue.
            row = (worker, process, now_micros() + int(ttl_s * 1_000_000))
            db.execute("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)", row)
            # A worker that is not listed counts as dead, like one that has expired.
            db.execute("DELETE FROM workers WHERE expire_micros < ?", (now_micros() - DAY_MICROS,))
            # Old requests are deleted a few at a time, so that a heartbeat stays short.
            db.execute(
                "DELETE FROM requests WHERE (agent_name, principal, request_id) IN "
                "(SELECT agent_name, principal, request_id FROM requests WHERE create_micros < ? LIMIT 500)",
                (forgotten,),
            )

        await self._engine.write(beat)

    async def release(self, task_ids: Sequence[str], *, to: str = "") -> None:
        values = (to, to_json(list(task_ids)), self.worker)
        await self._execute(tables.RELEASE, values)

    async def orphans(self, agent_name: str) -> list[TaskHead]:
        rows = await self._rows(
            tables.SELECT
            + " WHERE agent_name = ? AND state IN ('submitted', 'working') AND worker != ? ORDER BY update_micros",
            agent_name,
            HELD,
        )
        heads = [tables.head_of(row) for row in rows]
        dead = {worker: await self._remove_if_dead(worker) for worker in {head.worker for head in heads}}
        return [head for head in heads if dead[head.worker]]

    async def _remove_if_dead(self, worker: str) -> bool:
        """Return whether a worker is dead. A dead worker is removed from the list, so that its tasks can be taken."""
        if worker == self.worker:
            return False
        rows = await self._rows(tables.WORKER, worker)
        if not rows:
            return True
        process, expire_micros = rows[0]
        if expire_micros >= now_micros() and not is_dead(process):
            return False
        # A worker that has renewed its lease meanwhile was only suspended.
        return await self._execute(tables.REMOVE_WORKER, (worker, expire_micros)) > 0


def now_micros() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000
