"""Registrations in an SQLite file, so that a registry remembers its agents. It keeps rows; what they mean lives elsewhere.

Theory of operation. The directory in memory is the truth while a registry runs; the file is read once, when it starts, and
then only written to. One thread owns the connection: statements never run on the event loop, and batches go to the disk in
the order in which they were handed over, each as one transaction that is synced before `write` returns. Renewals are not
written, so the file sees one write per change of a card and not one per heartbeat. The file is locked for its whole use:
two registries with two truths would overwrite each other.
"""

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from protolink_grpc.errors import (
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreVersionError,
)
from protolink_grpc.registry.entries import StoredAgent
from protolink_grpc.registry.names import NameRecord
from protolink_grpc.wire.registry import InstanceState

SCHEMA_VERSION = 3
"""Version 3 keeps cards with a list of interfaces, and which instance is in which state. Files of earlier versions are refused."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agents (
  url TEXT PRIMARY KEY,
  card BLOB NOT NULL,
  principal TEXT NOT NULL,
  lease_id TEXT NOT NULL,
  lease_ttl_s REAL NOT NULL,
  register_time REAL NOT NULL,
  revision INTEGER NOT NULL,
  instance_id TEXT NOT NULL,
  state TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS names (
  name TEXT PRIMARY KEY,
  principal TEXT NOT NULL,
  seen_time REAL NOT NULL
) WITHOUT ROWID;
"""
# In the order of the fields of StoredAgent.
_SELECT = """
SELECT url, card, principal, lease_id, lease_ttl_s, register_time, revision, instance_id, state FROM agents ORDER BY url
"""
_REPLACE = """
INSERT OR REPLACE INTO agents (url, card, principal, lease_id, lease_ttl_s, register_time, revision, instance_id, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

T = TypeVar("T")


class SQLiteDirectoryFile:
    """One registry's file.

    Args:
        path: Created where it does not exist, readable by its owner only: lease ids are secrets.
        max_bytes: Bound of the file, rounded up to a page; 0 means as much as the disk holds.
        lock_timeout_s: How long to wait for another registry to let go of the file: long enough for one that is just
            closing, short enough to complain about one that is not.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = 0, lock_timeout_s: float = 2.0) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._lock_timeout_s = lock_timeout_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry-file")
        self._connection: sqlite3.Connection | None = None

    async def load(self) -> tuple[Sequence[StoredAgent], int, Sequence[NameRecord]]:
        """Open the file; its agents, sorted by URL, the last revision given out, and the owners of names.

        Raises:
            StoreVersionError: Another version wrote it.
            StoreReadOnlyError: It cannot be written to.
            StoreError: It cannot be opened, another registry uses it, or it is no such file.
        """
        return await self._in_thread(self._load)

    async def write(
        self,
        agents: Sequence[StoredAgent],
        gone_urls: Sequence[str],
        revision: int,
        *,
        names: Sequence[NameRecord] = (),
        freed: Sequence[str] = (),
    ) -> None:
        """Add or replace agents and remove URLs, all or nothing; on disk when it returns.

        A caller that is cancelled does not stop the write.

        Args:
            agents: At most one per URL, none of a URL that is also gone.
            revision: The last revision given out. A smaller one than that of an earlier write changes nothing.
            names: Owners to add or replace.
            freed: Keys of names to remove, before `names` are added.

        Raises:
            StoreFullError: No room.
            StoreReadOnlyError: The file cannot be written to.
            StoreError: Any other failure of the disk, or the file is not open.
        """
        await self._in_thread(lambda: self._write(agents, gone_urls, revision, names, freed))

    async def aclose(self) -> None:
        """Finish what was handed over and close the file. Closing twice does nothing."""
        try:
            await self._in_thread(self._close)
        except RuntimeError:  # the thread has ended: closed before
            return
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: _translated(work))

    def _load(self) -> tuple[Sequence[StoredAgent], int, Sequence[NameRecord]]:
        if self._connection is not None:
            raise StoreError("the registry's file is open already")
        connection = self._connect()
        try:
            self._prepare(connection)
            rows = connection.execute(_SELECT).fetchall()
            revision = connection.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()
            names = connection.execute("SELECT name, principal, seen_time FROM names").fetchall()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return (
            list(map(_agent, rows)),
            revision[0] if revision else 0,
            [NameRecord(*row) for row in names],
        )

    def _connect(self) -> sqlite3.Connection:
        # SQLite would create the file readable by everyone; its journal gets the rights of the file.
        os.close(os.open(self._path, os.O_RDONLY | os.O_CREAT, 0o600))
        return sqlite3.connect(self._path, timeout=self._lock_timeout_s, isolation_level=None)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if self._max_bytes:
            page_size = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {-(-self._max_bytes // page_size)}")
        connection.execute("BEGIN IMMEDIATE")  # also tells whether the file can be written to
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('schema_version', ?)", (SCHEMA_VERSION,))
        version = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()[0]
        if version != SCHEMA_VERSION:
            connection.execute("ROLLBACK")
            raise StoreVersionError(
                f"the registry's file has version {version}, and this program reads version {SCHEMA_VERSION} only; "
                "remove the file, and agents that run register again",
                version=str(version),
            )
        connection.execute("COMMIT")

    def _write(
        self,
        agents: Sequence[StoredAgent],
        gone_urls: Sequence[str],
        revision: int,
        names: Sequence[NameRecord],
        freed: Sequence[str],
    ) -> None:
        connection = self._connection
        if connection is None:
            raise StoreError("the registry's file is not open")
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM agents WHERE url = ?", ((url,) for url in gone_urls))
            connection.executemany(
                _REPLACE,
                map(_row, agents),
            )
            connection.executemany("DELETE FROM names WHERE name = ?", ((key,) for key in freed))
            connection.executemany(
                "INSERT OR REPLACE INTO names (name, principal, seen_time) VALUES (?, ?, ?)",
                ((each.key, each.principal, each.seen_time) for each in names),
            )
            connection.execute(
                "INSERT INTO meta VALUES ('revision', ?) ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
                (revision,),
            )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite may have rolled back by itself
                connection.execute("ROLLBACK")
            raise

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _agent(row: Sequence[Any]) -> StoredAgent:
    """The inverse of `_row`."""
    *values, state = row
    return StoredAgent(*values, InstanceState(state))  # type: ignore[call-arg]  # mypy counts no values of a row


def _row(agent: StoredAgent) -> tuple[object, ...]:
    return tuple(getattr(agent, each.name) for each in fields(agent))


def _translated(work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.Error as error:
        raise _store_error(error) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise StoreReadOnlyError("the registry's file cannot be written to") from error
        raise StoreError("the registry's file cannot be opened") from error


def _store_error(error: sqlite3.Error) -> StoreError:
    code = (
        getattr(error, "sqlite_errorcode", 0) & 0xFF
    )  # the low byte is the primary code; misuse of the module has none
    match code:
        case sqlite3.SQLITE_FULL:
            return StoreFullError("the registry's file has no room left")
        case sqlite3.SQLITE_READONLY:
            return StoreReadOnlyError("the registry's file cannot be written to")
        case sqlite3.SQLITE_BUSY:
            return StoreError("the registry's file is used by another registry")
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return StoreError("the registry's file is damaged, or no file of a registry")
        case _:
            return StoreError("the registry's file cannot be read or written")
