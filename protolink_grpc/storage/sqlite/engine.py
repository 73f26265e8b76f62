"""A SQLite file with one writer thread and two reader threads, independent of the statements.

Theory of operation. Writes are queued. The writer thread takes all queued writes, runs them in one transaction and commits once
(WAL, `synchronous=FULL`: the commit returns after the fsync), then wakes each event loop once for the whole group. This is group
commit: one fsync serves every waiting caller. A refused write raises a ProtolinkError and fails alone. Any other error rolls the
group back, and its writes are repeated one by one, so that only the faulty one fails. Reads have their own connections and
threads and never wait for the writer. Nothing runs on an event loop, so callers may use any loop or none.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from protolink_grpc.errors import ProtolinkError, StoreError
from protolink_grpc.logs import get_logger
from protolink_grpc.storage.port import CommitTotals
from protolink_grpc.storage.sqlite.file import PLAIN, Pragmas, Schema, connect, explain

T = TypeVar("T")
log = get_logger(__name__)

GROUP = 512
"""Maximum number of writes per commit, which limits how long the first of a group waits."""

ERASE_WAIT_MS = 1000
"""How long a deletion waits for readers of the write-ahead log, before deleted content stays in it until a later commit."""

READERS = 2
"""Number of reader threads: more than one, so that a long list does not delay a stream."""


@dataclass(slots=True)
class Job:
    """One write, or one check for commits of other processes.

    Args:
        work: Runs in the transaction of the group and returns the result. A result that is a ProtolinkError is raised to the
            caller. It may raise ProtolinkErrors only before its first change.
        future: Receives the result on `loop`; without a loop it is a thread-safe future.
        committed: Called on the loop after the commit of a successful write and before its result, even if the caller was canceled.
        probe: Read the version of the file outside of a transaction instead of running `work`.
        may_cancel: Whether the write is skipped if its caller is canceled before it starts.
        erases: The write deletes content, which must not stay in the write-ahead log either.
    """

    work: Callable[[sqlite3.Connection], Any] | None
    future: "asyncio.Future[Any] | Future[Any]"
    loop: asyncio.AbstractEventLoop | None
    committed: Callable[[Any], None] | None = None
    probe: bool = False
    may_cancel: bool = False
    erases: bool = False
    outcome: Any = None
    has_erased: bool = False

    def run(self, db: sqlite3.Connection) -> None:
        if self.work is None or (self.may_cancel and self.future.cancelled()):
            return
        changes = db.total_changes
        try:
            self.outcome = self.work(db)
            self.has_erased = self.erases and db.total_changes != changes
        except ProtolinkError as error:
            if db.total_changes != changes:
                raise  # partly done: the group is rolled back, and the other writes are repeated
            self.outcome = error

    def answer(self) -> None:
        failed = isinstance(self.outcome, ProtolinkError)
        if self.committed is not None and not failed:
            self.committed(self.outcome)
        if self.future.done():
            return
        if failed:
            self.future.set_exception(self.outcome)
        else:
            self.future.set_result(self.outcome)


class Engine:
    """One file, its threads and its connections.

    Args:
        name: Name of the threads.
        reopens: Whether a use opens the file, also after a close. Otherwise only `open` does, and a closed file refuses all
            operations.
        before_commit: Called by the writer thread in each transaction, after its writes.
        rolled_back: Called by the writer thread after a transaction that was rolled back, and before the first one of an open file.

    Attributes:
        commits: Commits of this process, counted by the writer thread.
    """

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        name: str,
        pragmas: Pragmas = PLAIN,
        reopens: bool = False,
        before_commit: Callable[[sqlite3.Connection], None] = lambda db: None,
        rolled_back: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self.commits = CommitTotals()
        self._schema = schema
        self._name = name
        self._pragmas = pragmas
        self._reopens = reopens
        self._before_commit = before_commit
        self._rolled_back = rolled_back
        self._life = threading.Lock()
        """Protects opening and closing the file."""
        self._lock = threading.Lock()
        """Protects adding a job, so that none is added after the end of the queue."""
        self._jobs: queue.SimpleQueue[Job | None] | None = None
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._readers: deque[sqlite3.Connection] = deque()
        self._must_truncate = False
        """The write-ahead log may have deleted content."""
        self._is_failing = False
        """The latest transaction has failed because of the file."""

    @property
    def is_open(self) -> bool:
        return self._jobs is not None

    async def open(self) -> None:
        """Open the file and start the threads, unless it is open. Raises as `connect`."""
        await asyncio.to_thread(self.open_now)

    def open_now(self) -> None:
        """As `open`, but blocking."""
        with self._life:
            if self._jobs is not None:
                return
            db = connect(self.path, self._schema, self._pragmas)
            pool: ThreadPoolExecutor | None = None
            try:
                if not self._pragmas.exclusive:
                    self._readers.append(self._connect_reader())
                    pool = ThreadPoolExecutor(READERS, thread_name_prefix=f"{self._name}-read")
            except BaseException:  # close the file if it could not be opened completely
                db.close()
                raise
            jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
            # A daemon, because a program that does not close the file must still end.
            self._thread = threading.Thread(
                target=self._write_forever, args=(jobs, db), name=f"{self._name}-write", daemon=True
            )
            self._thread.start()
            with self._lock:
                self._jobs, self._pool = jobs, pool

    async def close(self) -> None:
        """Finish accepted jobs, end the threads and close the file, unless it is closed."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """As `close`, but blocking."""
        with self._life:
            with self._lock:
                jobs, self._jobs = self._jobs, None
                pool, self._pool = self._pool, None
            thread, self._thread = self._thread, None
            # The readers first, because the last connection to close merges the write-ahead log into the file.
            if pool is not None:
                pool.shutdown()
            while self._readers:
                self._readers.pop().close()
            if jobs is not None and thread is not None:
                jobs.put(None)
                thread.join()

    def _connect_reader(self) -> sqlite3.Connection:
        return connect(self.path, self._schema, read_only=True)

    # -- Writing ---------------------------------------------------------------------------------------------------------

    async def write(
        self,
        work: Callable[[sqlite3.Connection], T | ProtolinkError],
        committed: Callable[[Any], None] | None = None,
        *,
        may_cancel: bool = False,
        erases: bool = False,
    ) -> T:
        """Run `work` in a transaction, which is on disk when this returns. See `Job` for the arguments.

        Raises:
            StoreError: Nothing was written; the subclass shows the reason. Or the error that `work` raised.
        """
        loop = asyncio.get_running_loop()
        job = Job(work, loop.create_future(), loop, committed, False, may_cancel, erases)
        while not self._submit(job):
            await self._reopen()
        outcome: T = await job.future  # type: ignore[misc]  # a job with a loop has a future of that loop
        return outcome

    def write_now(self, work: Callable[[sqlite3.Connection], T], *, erases: bool = False) -> T:
        """As `write`, but blocking, for threads without an event loop."""
        future: Future[Any] = Future()
        job = Job(work, future, None, erases=erases)
        while not self._submit(job):
            self._require_reopening()
            self.open_now()
        outcome: T = future.result()
        return outcome

    def start_probe(self) -> "asyncio.Future[int]":
        """Read the version of the file after all earlier writes. It changes only with commits of other processes."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        if not self._submit(Job(None, future, loop, probe=True)):
            raise self._closed_error()
        return future

    def _submit(self, job: Job) -> bool:
        with self._lock:
            if self._jobs is None:
                return False
            self._jobs.put(job)
        return True

    async def _reopen(self) -> None:
        self._require_reopening()
        await self.open()

    def _require_reopening(self) -> None:
        if not self._reopens:
            raise self._closed_error()

    def _closed_error(self) -> StoreError:
        return StoreError(f"{self._schema.owner} is closed")

    # -- Writer thread ---------------------------------------------------------------------------------------------------

    def _write_forever(self, jobs: "queue.SimpleQueue[Job | None]", db: sqlite3.Connection) -> None:
        self._rolled_back()
        self._must_truncate = self._pragmas.secure_delete  # an earlier process may have died after its deletion
        while (job := jobs.get()) is not None:
            group = [job]
            ended = False
            while len(group) < GROUP and not ended:
                try:
                    following = jobs.get_nowait()
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

    def _commit(self, db: sqlite3.Connection, group: list[Job]) -> None:
        for job in group:
            if job.probe:
                self._probe(db, job)
        jobs = [job for job in group if not job.probe]
        if jobs:
            self._transact(db, jobs)
        loop = group[0].loop if group else None
        if all(job.loop is loop for job in group):
            _deliver(loop, group)
        else:
            for each in {job.loop for job in group}:
                _deliver(each, [job for job in group if job.loop is each])

    def _probe(self, db: sqlite3.Connection, job: Job) -> None:
        try:
            # Read on the writing connection, which does not count its own commits.
            job.outcome = db.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            job.outcome = explain(error, self.path, self._schema)

    def _transact(self, db: sqlite3.Connection, jobs: list[Job]) -> None:
        begun = time.perf_counter()
        try:
            db.execute("BEGIN IMMEDIATE")
            for job in jobs:
                job.run(db)
            self._before_commit(db)
            db.execute("COMMIT")
            self.commits.count += 1
            self.commits.seconds += time.perf_counter() - begun
            if self._is_failing:
                self._is_failing = False
                log.warning("%s can be written again", self.path)
        except Exception as error:  # no error may end the thread that every write depends on
            _roll_back(db)
            self._rolled_back()
            if len(jobs) > 1 and not _is_about_the_file(error):
                # The mistake of one job, for instance invalid Unicode, which must not fail the others.
                for job in jobs:
                    self._transact(db, [job])
                return
            for job in jobs:
                job.outcome = self._reason(error)
            if _is_about_the_file(error) and not self._is_failing:
                self._is_failing = True
                log.warning("%s cannot be written, and writes fail until it can: %s", self.path, error)
            return
        if self._must_truncate or any(job.has_erased for job in jobs):
            self._truncate_log(db)

    def _truncate_log(self, db: sqlite3.Connection) -> None:
        """Merge the write-ahead log into the file and truncate it.

        While a reader uses the log, that is not possible. Then the next commit tries it again, without a wait.
        """
        wait_ms = 0 if self._must_truncate else ERASE_WAIT_MS
        try:
            (before_ms,) = db.execute("PRAGMA busy_timeout").fetchone()
            db.execute(f"PRAGMA busy_timeout = {wait_ms}")
            try:
                is_busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                db.execute(f"PRAGMA busy_timeout = {before_ms}")
        except sqlite3.Error as error:  # for example a full disk: the commit is complete
            log.warning("deleted content is still in the write-ahead log of %s: %s", self.path, error)
            is_busy = 1
        self._must_truncate = bool(is_busy)

    def _reason(self, error: Exception) -> ProtolinkError:
        if isinstance(error, ProtolinkError):
            return error
        if isinstance(error, sqlite3.Error):
            return explain(error, self.path, self._schema)
        log.error("write to %s failed", self.path, exc_info=error)
        return StoreError(f"the write failed: {type(error).__name__}")

    # -- Reading ---------------------------------------------------------------------------------------------------------

    async def read(self, work: Callable[[sqlite3.Connection], T], *, snapshot: bool = False) -> T:
        """Run queries on a reading connection. With `snapshot` they all run in one transaction.

        Raises:
            StoreError: The file cannot be read, or is closed.
        """
        if self._pragmas.exclusive:
            return await self.write(work)
        while (future := self._submit_read(work, snapshot)) is None:
            await self._reopen()
        return await asyncio.wrap_future(future)

    def _submit_read(self, work: Callable[[sqlite3.Connection], T], snapshot: bool) -> "Future[T] | None":
        with self._lock:
            return None if self._pool is None else self._pool.submit(self._query, work, snapshot)

    def _query(self, work: Callable[[sqlite3.Connection], T], snapshot: bool) -> T:
        try:
            db = self._readers.pop()
        except IndexError:
            db = self._connect_reader()
        try:
            if not snapshot:
                return work(db)
            db.execute("BEGIN")
            try:
                return work(db)
            finally:
                _roll_back(db)
        except sqlite3.Error as error:
            raise explain(error, self.path, self._schema) from error
        finally:
            self._readers.append(db)


def _deliver(loop: asyncio.AbstractEventLoop | None, jobs: list[Job]) -> None:
    if loop is None:
        _answer(jobs)
        return
    try:
        loop.call_soon_threadsafe(_answer, jobs)
    except RuntimeError:
        # The loop was closed with all its waiting callers; the thread continues for other loops.
        log.debug("all callers of %d writes have been canceled", len(jobs))


def _answer(jobs: list[Job]) -> None:
    for job in jobs:
        job.answer()


def _is_about_the_file(error: Exception) -> bool:
    """Return whether an error is about the file (full, locked, damaged, gone), and not about the values of one job."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def _roll_back(db: sqlite3.Connection) -> None:
    try:
        if db.in_transaction:
            db.execute("ROLLBACK")
    except sqlite3.Error:
        log.exception("cannot roll back")  # every later write reports the error
