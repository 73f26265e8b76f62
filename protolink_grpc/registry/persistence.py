"""Registrations in a SQLite file.

Theory of operation. While a registry runs, its directory in memory is authoritative: the file is read once at the start and then
only written. Batches are written in order, atomically, and synced before `write` returns. Renewals are not written, so there is
one write per change of a card and not one per heartbeat. The file is locked while it is open, because two registries would
overwrite each other.
"""

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from protolink_grpc.errors import StoreError
from protolink_grpc.registry.entries import StoredAgent
from protolink_grpc.registry.names import NameRecord
from protolink_grpc.storage.records import Kind
from protolink_grpc.storage.sqlite.engine import Engine
from protolink_grpc.storage.sqlite.file import Pragmas, Schema
from protolink_grpc.storage.sqlite.records import SQLiteRecords, tables_of

REGISTRATIONS = Kind(StoredAgent, name="registrations", key=("url",))
NAMES = Kind(NameRecord, name="registered_names", key=("key",))


@dataclass(frozen=True, slots=True)
class _Counter:
    """A number that only increases."""

    name: str
    value: int


COUNTERS = Kind(
    _Counter, name="counters", key=("name",), merge=lambda known, new: max(known, new, key=attrgetter("value"))
)
REVISION = "revision"

SCHEMA = Schema(
    (None, None, None, None, ""),
    tables=tables_of(REGISTRATIONS, NAMES, COUNTERS),
    application_id=0x504C5247,
    advice="remove the file; running agents register again",
    owner="the registry",
    busy_owner="registry",
)
"""The schema. Files of earlier versions are refused, because running agents register again by themselves."""


class SQLiteDirectoryFile:
    """One registry's file.

    Args:
        path: Created if it does not exist, readable by its owner only, because lease ids are secrets.
        max_bytes: Maximum size of the file, rounded up to a page; 0 means no limit.
        lock_timeout_s: How long to wait for another registry's lock, in seconds: long enough for one that is closing.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = 0, lock_timeout_s: float = 2.0) -> None:
        pragmas = Pragmas(exclusive=True, max_bytes=max_bytes, busy_ms=int(lock_timeout_s * 1000))
        self._engine = Engine(Path(path), SCHEMA, name="plgrpc-registry", pragmas=pragmas)

    async def load(self) -> tuple[Sequence[StoredAgent], int, Sequence[NameRecord]]:
        """Open the file. Returns its agents sorted by URL, the last assigned revision, and the owners of names.

        Raises:
            StoreVersionError: It was written by another version.
            StoreReadOnlyError: It cannot be written.
            StoreError: It cannot be opened, another registry uses it, or it is another kind of file.
        """
        if self._engine.is_open:
            raise StoreError("the registry's file is already open")
        await self._engine.open()
        return await self._engine.read(_load)

    async def write(
        self,
        agents: Sequence[StoredAgent],
        gone_urls: Sequence[str],
        revision: int,
        *,
        names: Sequence[NameRecord] = (),
        freed: Sequence[str] = (),
    ) -> None:
        """Add or replace agents and remove URLs atomically. The changes are on disk when this returns.

        The write continues if the caller is canceled.

        Args:
            agents: At most one per URL, and none with a URL to remove.
            revision: The last assigned revision. A smaller one than in an earlier write is ignored.
            names: Owners to add or replace.
            freed: Keys of names to remove before `names` are added.

        Raises:
            StoreFullError: The disk or the file is full.
            StoreReadOnlyError: The file cannot be written.
            StoreError: Any other failure of the disk, or the file is not open.
        """

        def batch(db: sqlite3.Connection) -> None:
            records = SQLiteRecords(db)
            for url in gone_urls:
                records.delete(REGISTRATIONS, url)
            for agent in agents:
                records.put(REGISTRATIONS, agent)
            for key in freed:
                records.delete(NAMES, key)
            for each in names:
                records.put(NAMES, each)
            records.put(COUNTERS, _Counter(REVISION, revision))

        await self._engine.write(batch)

    async def aclose(self) -> None:
        """Finish pending writes and close the file. Closing twice does nothing."""
        await self._engine.close()


def _load(db: sqlite3.Connection) -> tuple[Sequence[StoredAgent], int, Sequence[NameRecord]]:
    records = SQLiteRecords(db)
    counter = records.get(COUNTERS, REVISION)
    return records.select(REGISTRATIONS, {}), 0 if counter is None else counter.value, records.select(NAMES, {})
