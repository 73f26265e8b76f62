"""Opening a SQLite file safely: pragmas, forward migrations, and what its errors mean. No table of the store is known here."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from protolink_grpc.errors import StoreError, StoreFullError, StoreReadOnlyError, StoreVersionError

BUSY_MS = 10_000
"""How long a writer waits for another process's transaction, in milliseconds."""


def connect(path: Path, migrations: Sequence[str | None], *, read_only: bool = False) -> sqlite3.Connection:
    """Open the file at the newest schema.

    A new one is readable by its owner only. The connection may be used from any one thread at a time. Commits return after
    the fsync.

    Raises:
        StoreVersionError: The file was written by a newer version of this package, or by one whose files it cannot read.
        StoreReadOnlyError: The file or its directory cannot be written.
        StoreFullError: No space for the schema.
        StoreError: Not a database, or not reachable.
    """
    if not read_only:
        # SQLite would create the file readable by everyone; its journal gets the rights of the file.
        with suppress(OSError):  # SQLite meets the same, and `explain` knows what it says
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
    except sqlite3.Error as error:
        raise explain(error, path) from error
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        if read_only:
            db.execute("PRAGMA query_only = ON")
            _require_readable(_version(db), path, migrations)
        else:
            _prepare(db, path, migrations)
    except BaseException as error:  # whatever it is: a file that is not used must not stay open
        db.close()
        if isinstance(error, sqlite3.Error):
            raise explain(error, path) from error
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path, migrations: Sequence[str | None]) -> None:
    _migrate(db, path, migrations)
    _enter_wal(db)
    db.execute("PRAGMA synchronous = FULL")
    # Touches the file: a read-only one is found at start, not at the first task.
    db.execute("BEGIN IMMEDIATE")
    db.execute("PRAGMA application_id")
    db.execute("COMMIT")


def _enter_wal(db: sqlite3.Connection) -> None:
    # Where two processes open a new file at once, SQLite refuses the second switch without waiting: `busy_timeout` covers
    # the start of a transaction, not the growth of a read into a write. So the waiting is done here.
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _migrate(db: sqlite3.Connection, path: Path, migrations: Sequence[str | None]) -> None:
    known = len(migrations)
    if _checked_version(db, path, known) == known:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have migrated meanwhile.
        found = _checked_version(db, path, known)
        for version in range(max(found, _require_readable(found, path, migrations)), known):
            for statement in (migrations[version] or "").split(";"):
                if statement.strip():
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {version + 1}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _require_readable(found: int, path: Path, migrations: Sequence[str | None]) -> int:
    """The latest version whose files cannot be read any more, 0 for none; raises StoreVersionError where `found` is one of them."""
    oldest = max((index + 1 for index, step in enumerate(migrations) if step is None), default=0)
    if 0 < found <= oldest:
        raise StoreVersionError(
            f"{path} has schema version {found}, and this version of protolink_grpc reads none before {oldest + 1}; "
            "choose a new file, and finish the tasks of this one with the version that wrote it",
            found=str(found),
            known=str(len(migrations)),
        )
    return oldest


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def _checked_version(db: sqlite3.Connection, path: Path, known: int) -> int:
    version = _version(db)
    if version > known:
        raise StoreVersionError(
            f"{path} has schema version {version}, this version of protolink_grpc knows {known}; upgrade the package",
            found=str(version),
            known=str(known),
        )
    return version


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """What an error of SQLite means for the caller; the path is named, the statement is not."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFullError(f"no space left for {path}", path=str(path))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or (
        # WAL needs files beside the database: where the directory refuses them, SQLite cannot even open it.
        code == sqlite3.SQLITE_CANTOPEN and path.parent.is_dir() and not os.access(path.parent, os.W_OK)
    ):
        return StoreReadOnlyError(f"{path} cannot be written", path=str(path))
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"{path} cannot be opened: does its directory exist, and may this user write there?")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path} is not a SQLite database")
    if code == sqlite3.SQLITE_BUSY:
        return StoreError(f"{path} is locked by another process for more than {BUSY_MS // 1000} s")
    return StoreError(f"{path}: {error}")
