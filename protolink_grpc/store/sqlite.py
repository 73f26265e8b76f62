"""The task store in one SQLite file, shared by several processes of one machine.

Theory of operation. One writer thread owns the only writing connection. Appends queue up; the thread takes all that wait, writes
them in one transaction and commits once (WAL, `synchronous=FULL`: the commit returns after the fsync), then wakes the loop once
for the whole group. That is group commit: one fsync serves everyone who waited. Each append is fenced by its own conditional
UPDATE, so that one that lost a race fails alone. Reads use a second connection in a second thread; the latest events of active
tasks are kept in memory, so that a live reader costs no query. Appends of other processes are noticed by polling
`PRAGMA data_version`, only while somebody waits.
"""

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from protolink_grpc.errors import ProtolinkError, StoreError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.json_value import to_json
from protolink_grpc.store import approval_table, push_table, task_table
from protolink_grpc.store.database import connect, explain
from protolink_grpc.store.liveness import is_dead, process_identity
from protolink_grpc.store.memory import bounded
from protolink_grpc.store.port import (
    Append,
    ApprovalQuery,
    ApprovalRevisions,
    ApprovalRow,
    ApprovalRows,
    ForeignListener,
    PushRow,
    RequestRecord,
    TaskHead,
    TaskPage,
    TaskQuery,
    Waiters,
)
from protolink_grpc.store.tails import Tails

T = TypeVar("T")
log = get_logger(__name__)

GROUP = 512
"""Appends per commit at most: bounds how long the first of a group waits."""

DAY_MICROS = 86_400 * 1_000_000
"""How long a worker that has gone silent stays listed."""

POLL_S = 0.05
"""How late another process's append may be noticed."""


@dataclass(slots=True)
class _Job:
    """What the writer thread does for one caller: an append, another statement, or a look for foreign commits."""

    future: "asyncio.Future[Any]"
    append: Append | None = None
    work: Callable[[sqlite3.Connection], Any] | None = None
    probe: bool = False
    outcome: Any = None

    def run(self, db: sqlite3.Connection) -> Any:
        if self.append is not None:
            return task_table.insert(db, self.append)
        return self.work(db) if self.work is not None else None


class SQLiteStore:
    """Logs in a SQLite file; created when absent, migrated forward when older.

    Args:
        path: The file. Its directory must exist and be on a local disk: SQLite's locks do not work on network file systems.
        request_ttl_s: How long a request id is remembered, in seconds. At least a day.
    """

    durable = True
    shared = True

    @checks_arguments
    def __init__(self, path: str | os.PathLike[str], *, request_ttl_s: float = 7 * 86_400) -> None:
        self.path = Path(path)
        self.worker = ""
        self.listeners: list[ForeignListener] = []
        self._request_ttl_micros = int(max(request_ttl_s, 86_400) * 1_000_000)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._reader: sqlite3.Connection | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters = Waiters()
        self._approval_waiters = Waiters()
        self._tails = Tails()
        self._poller: asyncio.Task[None] | None = None
        self._baseline: asyncio.Future[int]
        self._users = 0

    # -- life ------------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        self._users += 1
        try:
            await self._open()
        except BaseException:
            self._users -= 1
            raise

    async def _open(self) -> None:
        if self._thread is not None:
            if self._loop is not None and self._loop.is_closed():
                # The loop of an earlier `asyncio.run` is gone; file and threads are as good as new.
                # Who opened it there and did not close it never will.
                self._loop, self._poller, self._users = asyncio.get_running_loop(), None, 1
            return
        self._loop = asyncio.get_running_loop()
        connection = await asyncio.to_thread(connect, self.path, task_table.MIGRATIONS)
        try:
            self._reader = await asyncio.to_thread(connect, self.path, task_table.MIGRATIONS, read_only=True)
        except BaseException:  # a store that did not open must not keep the file
            connection.close()
            raise
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="plgrpc-store-read")
        self.worker = new_uuid()
        self._thread = threading.Thread(
            target=self._write_forever, args=(connection,), name="plgrpc-store-write", daemon=True
        )
        self._thread.start()

    async def close(self) -> None:
        self._users = max(0, self._users - 1)
        if self._thread is None:
            return
        if self._users:
            # Those who wait on behalf of the one that goes must notice; the others look and wait again.
            self._wake_all()
            return
        if self._poller is not None:
            self._poller.cancel()
            self._poller = None
        worker = self.worker
        farewell = _Job(self._future(), work=lambda db: db.execute("DELETE FROM workers WHERE worker = ?", (worker,)))
        self._jobs.put(farewell)
        self._jobs.put(None)
        thread, self._thread = self._thread, None
        try:
            await farewell.future
        except StoreError as error:
            # A full disk must not keep the file open; other processes see that this one is gone, or wait for its lease.
            log.warning("cannot sign off from the store: %s", error)
        await asyncio.to_thread(thread.join)
        pool, self._pool = self._pool, None
        reader, self._reader = self._reader, None
        if pool is not None and reader is not None:
            await asyncio.get_running_loop().run_in_executor(pool, reader.close)
            pool.shutdown()
        self._tails.clear()
        self._wake_all()

    def _wake_all(self) -> None:
        self._waiters.wake_all()
        self._approval_waiters.wake_all()

    # -- writing ---------------------------------------------------------------------------------------------------------

    async def append(self, append: Append) -> RequestRecord | None:
        job = _Job(self._future(), append=append)
        if self._poller is None and self.listeners:
            # Queued before the append: what others write after it is noticed for certain.
            self._start_polling()
        outcome: RequestRecord | None = await self._submit(job)
        return outcome

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        outcome: T = await self._submit(_Job(self._future(), work=work))
        return outcome

    def _future(self) -> "asyncio.Future[Any]":
        if self._loop is None or self._thread is None:
            raise StoreError("the store is closed")
        return self._loop.create_future()

    async def _submit(self, job: _Job) -> Any:
        self._jobs.put(job)
        return await job.future

    def _write_forever(self, db: sqlite3.Connection) -> None:
        while (job := self._jobs.get()) is not None:
            group = [job]
            ended = False
            while len(group) < GROUP and not ended:
                try:
                    following = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    ended = True
                else:
                    group.append(following)
            self._commit(db, group)
            if ended:
                break
        db.close()

    def _commit(self, db: sqlite3.Connection, group: list[_Job]) -> None:
        for job in group:
            if job.probe:
                self._look(db, job)
        jobs = [job for job in group if not job.probe]
        if jobs:
            self._transact(db, jobs)
        loop = self._loop
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._committed, group)
        except RuntimeError:
            # The loop was closed, maybe this instant, and everybody who waited with it; the thread serves the next loop.
            log.debug("nobody is left to hear of %d writes", len(group))

    def _look(self, db: sqlite3.Connection, probe: _Job) -> None:
        try:
            # Asked of the writing connection, which does not count its own commits: a change is another process's.
            probe.outcome = db.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            probe.outcome = explain(error, self.path)

    def _transact(self, db: sqlite3.Connection, jobs: list[_Job]) -> None:
        try:
            db.execute("BEGIN IMMEDIATE")
            for job in jobs:
                try:
                    job.outcome = job.run(db)
                except ProtolinkError as error:
                    job.outcome = error
            db.execute("COMMIT")
        except Exception as error:  # whatever it is, it must not end the thread that everybody's appends go through
            _roll_back(db)
            if len(jobs) > 1 and not _is_about_the_file(error):
                # One job's own mistake, a text that is not Unicode, say: its neighbours do not fail with it.
                for job in jobs:
                    self._transact(db, [job])
                return
            for job in jobs:
                job.outcome = self._reason(error)

    def _reason(self, error: Exception) -> StoreError:
        if isinstance(error, sqlite3.Error):
            return explain(error, self.path)
        log.error("store write failed", exc_info=error)
        return StoreError(f"the write failed: {type(error).__name__}")

    def _committed(self, group: list[_Job]) -> None:
        """On the loop, after the commit: show the events, then answer."""
        for job in group:
            outcome, append = job.outcome, job.append
            if append is not None and outcome is None:
                self._tails.add(append.head.task_id, append.expected_sequence, append.events)
                self._waiters.wake(append.head.task_id)
                if append.approvals:
                    self._approval_waiters.wake(append.head.agent_name)
            if job.future.done():
                continue
            if isinstance(outcome, ProtolinkError):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    # -- reading ---------------------------------------------------------------------------------------------------------

    async def _read(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            raise StoreError("the store is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except sqlite3.Error as error:
            raise explain(error, self.path) from error

    async def _rows(self, sql: str, *values: Any) -> list[Any]:
        return await self._read(lambda: self._query(sql, values))

    def _query(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        if self._reader is None:
            raise StoreError("the store is closed")
        return self._reader.execute(sql, values).fetchall()

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        frames = self._tails.read(task_id, after, limit)
        # An empty tail says nothing about what other processes wrote; a full log ends with a terminal head.
        if frames:
            return bounded(frames)
        return await self._read(lambda: self._frames(task_id, after, limit))

    def _frames(self, task_id: str, after: int, limit: int) -> list[bytes]:
        if self._reader is None:
            raise StoreError("the store is closed")
        return task_table.frames(self._reader, task_id, after, limit)

    async def wait(self, task_id: str, after: int) -> None:
        if self._tails.end(task_id) > after:
            return
        async with self._registered(self._waiters, task_id) as waiting:
            head = await self.head(task_id)
            if head is None or head.sequence <= after:
                await waiting

    @asynccontextmanager
    async def _registered(self, waiters: Waiters, key: str) -> AsyncIterator["asyncio.Future[None]"]:
        """Whoever looks inside comes after the registration and after the poll's first: an append in between wakes the future."""
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
        first = _Job(self._future(), probe=True)
        self._jobs.put(first)
        self._baseline = first.future
        self._poller = asyncio.ensure_future(self._poll(first.future))

    async def _poll(self, baseline: "asyncio.Future[int]") -> None:
        """Notice what other processes write after `baseline`, as long as anybody here waits for a task or runs one."""
        try:
            version = await baseline
            while self._waiters or self._approval_waiters or self._wanted():
                await asyncio.sleep(POLL_S)
                latest = await self._submit(_Job(self._future(), probe=True))
                if latest != version:
                    version = latest
                    self._approval_waiters.wake_all()
                    # Asked only now: who begins to wait later than this finds the new head himself.
                    await self._wake_grown(self._wanted())
        except StoreError as error:
            # Readers fall back to asking again, not faster than a poll; the next one who waits starts another.
            log.warning("cannot follow other processes' appends: %s", error)
            await asyncio.sleep(POLL_S)
            self._wake_all()
        finally:
            self._poller = None

    def _wanted(self) -> list[str]:
        running = [task_id for listener in self.listeners for task_id in listener.task_ids()]
        return list({*self._waiters.task_ids(), *running})

    async def _wake_grown(self, task_ids: list[str]) -> None:
        rows = await self._rows(
            "SELECT task_id, sequence FROM tasks WHERE task_id IN (SELECT value FROM json_each(?))", to_json(task_ids)
        )
        for task_id, sequence in rows:
            if sequence <= self._tails.end(task_id):
                continue
            self._tails.drop(task_id)
            self._waiters.wake(task_id)
            for listener in self.listeners:
                listener.appended(task_id)

    async def head(self, task_id: str) -> TaskHead | None:
        rows = await self._rows(task_table.SELECT + " WHERE task_id = ?", task_id)
        return task_table.head_of(rows[0]) if rows else None

    async def find(self, query: TaskQuery) -> TaskPage:
        rows = await self._rows(*task_table.page(query))
        total = (await self._rows(*task_table.total(query)))[0][0] if query.include_total else None
        heads = [task_table.head_of(row) for row in rows[: query.page_size]]
        more = len(rows) > query.page_size
        return TaskPage(heads, (heads[-1].update_micros, heads[-1].task_id) if more else None, total)

    async def approval(self, agent_name: str, request_id: str) -> ApprovalRow | None:
        rows = await self._rows(*approval_table.one(agent_name, request_id))
        return approval_table.row_of(rows[0]) if rows else None

    async def approval_record(self, agent_name: str, request_id: str) -> bytes:
        rows = await self._rows(approval_table.RECORD, agent_name, request_id)
        return bytes(rows[0][0]) if rows else b""

    async def approvals(self, query: ApprovalQuery) -> ApprovalRows:
        found = await self._rows(*approval_table.page(query))
        rows = [approval_table.row_of(each) for each in found[: query.page_size]]
        more = len(found) > len(rows)
        return ApprovalRows(rows, (rows[-1].create_micros, rows[-1].request_id) if more else None)

    async def approval_revisions(self, agent_name: str) -> ApprovalRevisions:
        return ApprovalRevisions(*(await self._rows(approval_table.REVISIONS, agent_name))[0])

    async def changed_approvals(
        self, agent_name: str, after: int, limit: int, *, pending_until: int = 0
    ) -> list[ApprovalRow]:
        rows = await self._rows(approval_table.CHANGED, agent_name, after, pending_until, limit)
        return [approval_table.row_of(each) for each in rows]

    async def wait_approvals(self, agent_name: str, after: int) -> None:
        async with self._registered(self._approval_waiters, agent_name) as waiting:
            if (await self.approval_revisions(agent_name)).latest <= after:
                await waiting

    async def request(self, agent_name: str, principal: str, request_id: str) -> RequestRecord | None:
        rows = await self._rows(task_table.REQUEST, agent_name, principal, request_id)
        return RequestRecord(*rows[0]) if rows else None

    # -- pushes ----------------------------------------------------------------------------------------------------------

    async def put_push(self, row: PushRow) -> PushRow:
        return await self._write(lambda db: push_table.put(db, row))

    async def push(self, agent_name: str, task_id: str, config_id: str) -> PushRow | None:
        rows = await self._rows(push_table.ONE, agent_name, task_id, config_id)
        return push_table.row_of(rows[0]) if rows else None

    async def pushes(
        self, agent_name: str, task_id: str, *, after: tuple[int, str] | None = None, limit: int = 100
    ) -> list[PushRow]:
        rows = await self._rows(push_table.PAGE, agent_name, task_id, *(after or push_table.BEGIN), limit)
        return [push_table.row_of(each) for each in rows]

    async def delete_push(self, agent_name: str, task_id: str, config_id: str) -> bool:
        return await self._write(lambda db: push_table.delete(db, (agent_name, task_id, config_id)))

    async def advance_push(self, row: PushRow, cursor: int) -> PushRow | None:
        worker = self.worker
        return await self._write(lambda db: push_table.advance(db, row, worker, cursor))

    async def claim_pushes(self, agent_name: str) -> list[PushRow]:
        workers = [worker for (worker,) in await self._rows(push_table.WORKERS, agent_name)]
        dead = [worker for worker in workers if await self._strike_off(worker)]
        mine = self.worker
        return await self._write(lambda db: push_table.claim(db, agent_name, mine, dead)) if dead else []

    async def release_pushes(self, agent_name: str) -> None:
        mine = self.worker
        await self._write(lambda db: push_table.release(db, agent_name, mine))

    # -- workers ---------------------------------------------------------------------------------------------------------

    async def heartbeat(self, ttl_s: float) -> None:
        worker, process = self.worker, process_identity()
        forgotten = now_micros() - self._request_ttl_micros

        def beat(db: sqlite3.Connection) -> None:
            # From the time of the write: it may have waited long for its turn.
            row = (worker, process, now_micros() + int(ttl_s * 1_000_000))
            db.execute("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)", row)
            # One that is not listed is as dead as one that has expired.
            db.execute("DELETE FROM workers WHERE expire_micros < ?", (now_micros() - DAY_MICROS,))
            # Old requests go a few at a time: a heartbeat stays short whatever has piled up.
            db.execute(
                "DELETE FROM requests WHERE (agent_name, principal, request_id) IN "
                "(SELECT agent_name, principal, request_id FROM requests WHERE create_micros < ? LIMIT 500)",
                (forgotten,),
            )

        await self._write(beat)

    async def release(self, task_ids: Sequence[str], *, to: str = "") -> None:
        values = (to, to_json(list(task_ids)), self.worker)
        await self._write(lambda db: db.execute(task_table.RELEASE, values).rowcount)

    async def orphans(self, agent_name: str) -> list[TaskHead]:
        rows = await self._rows(
            task_table.SELECT + " WHERE agent_name = ? AND state IN ('submitted', 'working') ORDER BY update_micros",
            agent_name,
        )
        heads = [task_table.head_of(row) for row in rows]
        dead = {worker: await self._strike_off(worker) for worker in {head.worker for head in heads}}
        return [head for head in heads if dead[head.worker]]

    async def _strike_off(self, worker: str) -> bool:
        """Whether a worker is dead; one that is dead is not listed any more, so that its tasks can be taken."""
        if worker == self.worker:
            return False
        rows = await self._rows(task_table.WORKER, worker)
        if not rows:
            return True
        process, expire_micros = rows[0]
        if expire_micros >= now_micros() and not is_dead(process):
            return False
        # One that has renewed its lease meanwhile was only asleep.
        return await self._write(lambda db: db.execute(task_table.STRIKE_OFF, (worker, expire_micros)).rowcount > 0)


def _is_about_the_file(error: Exception) -> bool:
    """Full, locked, damaged, gone: whoever writes next meets the same. Anything else is about the values of one job."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def _roll_back(db: sqlite3.Connection) -> None:
    try:
        if db.in_transaction:
            db.execute("ROLLBACK")
    except sqlite3.Error:
        log.exception("cannot roll back")  # every later write will say why


def now_micros() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000
