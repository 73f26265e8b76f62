"""A SQLite file behind two threads, one that writes and one that reads. What the statements mean is not known here.

Theory of operation. Work is queued; nothing ever runs on an event loop. The writer takes all that waits, does it in one
transaction and commits once (WAL, `synchronous=FULL`: the commit returns after the fsync), so that one fsync serves everyone who
waited. The reader has a connection of its own and never waits for the writer; each piece of its work sees the file at one moment.
Answers are futures of `concurrent.futures`, so that callers may live on any event loop, or on none. A thread starts with the
first piece of work, opens the file then, and tries to open it again for the next one where it could not.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from protolink_grpc.errors import ProtolinkError, StoreError
from protolink_grpc.logs import get_logger
from protolink_grpc.store.database import explain

T = TypeVar("T")
Open = Callable[[], sqlite3.Connection]
log = get_logger(__name__)

GROUP = 512
"""Pieces of work per commit at most: bounds how long the first of a group waits."""


@dataclass(slots=True)
class _Job:
    work: Callable[[sqlite3.Connection], Any]
    future: "Future[Any]" = field(default_factory=Future)
    outcome: Any = None
    error: Exception | None = None

    def run(self, db: sqlite3.Connection) -> None:
        self.outcome, self.error = None, None
        try:
            self.outcome = self.work(db)
        except ProtolinkError as error:  # a refusal, before anything was changed: its neighbours go on
            self.error = error

    def answer(self) -> None:
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.outcome)


class Lane:
    """One thread, its connection, and what waits for it.

    Args:
        begin: How a transaction begins.
        group: Pieces of work per transaction at most.
    """

    def __init__(self, path: Path, open_file: Open, *, begin: str, group: int) -> None:
        self._path = path
        self._open_file = open_file
        self._begin = begin
        self._group = group
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] | None = None
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> "Future[T]":
        """Queue work for one transaction. It may raise ProtolinkErrors, before it changes anything; it is done again where a
        neighbour in its transaction fails. A future that is canceled in time takes its work with it."""
        job = _Job(work)
        with self._lock:
            if self._jobs is None:
                self._jobs = queue.SimpleQueue()
                # A daemon: a program that forgets to close must still end. Whoever waits for an answer keeps it alive.
                self._thread = threading.Thread(target=self._run, args=(self._jobs,), name="plgrpc-state", daemon=True)
                self._thread.start()
            self._jobs.put(job)
        return job.future

    def close(self) -> None:
        """Finish what is queued, close the file and end the thread. Work that comes later starts another one."""
        with self._lock:
            jobs, thread = self._jobs, self._thread
            self._jobs = self._thread = None
        if jobs is not None and thread is not None:
            jobs.put(None)
            thread.join()

    def _run(self, jobs: "queue.SimpleQueue[_Job | None]") -> None:
        db: sqlite3.Connection | None = None
        while group := self._next(jobs):
            try:
                db = db or self._open_file()
                self._transact(db, group)
            except Exception as error:  # whatever it is, it must not end the thread that everybody waits for
                reason = self._reason(error)
                for job in group:
                    job.error = reason
            for job in group:
                job.answer()
        if db is not None:
            db.close()

    def _next(self, jobs: "queue.SimpleQueue[_Job | None]") -> list[_Job]:
        """What waits, at least one piece of work; nothing when it is over."""
        group: list[_Job] = []
        while not group or (len(group) < self._group and not jobs.empty()):
            job = jobs.get()
            if job is None:
                if group:
                    jobs.put(None)  # nothing comes after it: it is met again when these are done
                break
            if job.future.set_running_or_notify_cancel():
                group.append(job)
        return group

    def _transact(self, db: sqlite3.Connection, group: list[_Job]) -> None:
        try:
            db.execute(self._begin)
            for job in group:
                job.run(db)
            db.execute("COMMIT")
        except Exception as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if len(group) == 1 or _is_about_the_file(error):
                raise
            for job in group:
                self._alone(db, job)

    def _alone(self, db: sqlite3.Connection, job: _Job) -> None:
        """One of a group that failed for what one of them brought along."""
        try:
            self._transact(db, [job])
        except Exception as error:  # its own
            job.error = self._reason(error)

    def _reason(self, error: Exception) -> ProtolinkError:
        if isinstance(error, ProtolinkError):
            return error
        if isinstance(error, sqlite3.Error):
            return explain(error, self._path)
        log.error("work on %s failed", self._path, exc_info=error)
        return StoreError(f"{self._path}: {type(error).__name__}", path=str(self._path))


def _is_about_the_file(error: Exception) -> bool:
    """Full, locked, damaged, gone: the next transaction meets the same. Anything else is about the values of one caller."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


class StateFile:
    """A file with a lane for each direction.

    Args:
        open_file: Makes the writing connection, and the file where there is none.
        open_reader: Makes the reading one, once the other has been there.
    """

    def __init__(self, path: Path, open_file: Open, open_reader: Open) -> None:
        self._writer = Lane(path, open_file, begin="BEGIN IMMEDIATE", group=GROUP)
        self._reader = Lane(path, open_reader, begin="BEGIN", group=1)
        self._is_ready = False

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """On disk when this returns. A caller that is canceled may find its work done or not."""
        return await asyncio.wrap_future(self._writer.submit(work))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._is_ready:
            await self.open()
        return await asyncio.wrap_future(self._reader.submit(work))

    def write_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Blocks."""
        return self._writer.submit(work).result()

    async def open(self) -> None:
        """The file is there and can be used, or this raises why not."""
        await self.write(lambda db: None)
        self._is_ready = True

    async def close(self) -> None:
        self._is_ready = False
        await asyncio.to_thread(self._writer.close)
        await asyncio.to_thread(self._reader.close)
