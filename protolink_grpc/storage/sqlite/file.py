"""Opens a SQLite file: checks its kind, sets pragmas, runs forward migrations, and converts errors."""

import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from protolink_grpc.errors import StoreError, StoreFullError, StoreReadOnlyError, StoreVersionError

BUSY_MS = 10_000
"""How long a writer waits for another process's transaction, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The contents of a kind of file.

    Args:
        migrations: Forward steps; entry i migrates a file from version i to i + 1. Released entries are never edited. None means
            that files of that version are not supported any more; a new file starts after it.
        tables: Further tables by name, as the statements that create them, each with its indexes. A missing table or index is
            created when the file is opened; any other change of a table needs a migration.
        application_id: Written to the file's header, so that a file of another kind is recognized. 0 means that the header is not
            used.
        advice: The advice in the error for an unsupported file.
        owner: The owner of such a file, in the error for a file of another kind.
        busy_owner: The owner of the lock, in the error for a locked file.
    """

    migrations: Sequence[str | None]
    tables: Mapping[str, str] = field(default_factory=dict)
    application_id: int = 0
    advice: str = "choose a new file, and finish the tasks of this one with the version that wrote it"
    owner: str = "the store"
    busy_owner: str = "process"


@dataclass(frozen=True, slots=True)
class Pragmas:
    """Settings of the writing connection that differ between kinds of files. All use WAL and `synchronous=FULL`.

    Args:
        secure_delete: Overwrite deleted data.
        exclusive: Lock the file while it is open; no other connection can read it.
        max_bytes: Maximum size of the file, rounded up to a page; 0 means no limit.
        busy_ms: How long to wait for a lock of another process; None means `BUSY_MS`.
    """

    secure_delete: bool = False
    exclusive: bool = False
    max_bytes: int = 0
    busy_ms: int | None = None


PLAIN = Pragmas()


def connect(path: Path, schema: Schema, pragmas: Pragmas = PLAIN, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the file and migrate it to the newest schema.

    A new file is readable by its owner only. The connection may be used from any one thread at a time. Commits return after the
    fsync.

    Raises:
        StoreVersionError: The file was written by a newer version of this package, or by one whose files are not supported.
        StoreReadOnlyError: The file or its directory cannot be written.
        StoreFullError: No space for the schema.
        StoreError: Not a database, a database of another kind, or not reachable.
    """
    if not read_only:
        # SQLite would create the file readable by everyone; its journal gets the permissions of the file.
        with suppress(OSError):  # SQLite fails in the same way, and `explain` converts its error
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
    except sqlite3.Error as error:
        raise explain(error, path, schema) from error
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS if pragmas.busy_ms is None else pragmas.busy_ms}")
        if read_only:
            db.execute("PRAGMA query_only = ON")
            _require_readable(db, path, schema)
        else:
            _prepare(db, path, schema, pragmas)
    except BaseException as error:  # close the file after any error
        db.close()
        if isinstance(error, sqlite3.Error):
            raise explain(error, path, schema) from error
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path, schema: Schema, pragmas: Pragmas) -> None:
    if pragmas.exclusive:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    _migrate(db, path, schema)
    _enter_wal(db)
    db.execute("PRAGMA synchronous = FULL")
    if pragmas.secure_delete:
        db.execute("PRAGMA secure_delete = ON")
    if pragmas.max_bytes:
        page_size = db.execute("PRAGMA page_size").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {-(-pragmas.max_bytes // page_size)}")
    # Detect a read-only file now, not at the first write.
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA user_version = {len(schema.migrations)}")
    db.execute("ROLLBACK")


def _enter_wal(db: sqlite3.Connection) -> None:
    # If two processes open a new file at once, SQLite refuses the second switch to WAL without waiting: `busy_timeout` does not
    # apply when a read lock becomes a write lock. So this waits itself.
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _migrate(db: sqlite3.Connection, path: Path, schema: Schema) -> None:
    newest = len(schema.migrations)
    if _require_readable(db, path, schema) == newest and not _missing_statements(db, path, schema):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock, because another process may have migrated the file meanwhile.
        found = _require_readable(db, path, schema)
        for version in range(max(found, _oldest(schema)), newest):
            for statement in (schema.migrations[version] or "").split(";"):
                if statement.strip():
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {version + 1}")
        for name, statements in _missing_statements(db, path, schema).items():
            for statement in statements:
                db.execute(statement)
            db.execute("INSERT OR REPLACE INTO declared_tables VALUES (?, ?)", (name, schema.tables[name]))
        if not found and schema.application_id:
            db.execute(f"PRAGMA application_id = {schema.application_id}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _missing_statements(db: sqlite3.Connection, path: Path, schema: Schema) -> dict[str, list[str]]:
    """Return the statements that the file lacks: for each declared table that it does not have, or that has more indexes now.

    Raises:
        StoreVersionError: The file has a table with another declaration.
    """
    if not schema.tables:
        return {}
    if db.in_transaction:
        db.execute(_DECLARED)
    declared: dict[str, str] = dict(db.execute("SELECT name, declaration FROM declared_tables").fetchall())
    missing: dict[str, list[str]] = {}
    for name, declaration in schema.tables.items():
        if name not in declared:
            missing[name] = declaration.split(";")
        elif (further := _further_indexes(declared[name], declaration)) is None:
            raise StoreVersionError(
                f"the table {name} of {path} has another declaration than in this version of protolink_grpc; {schema.advice}",
                found=declared[name],
                known=declaration,
            )
        elif further:
            missing[name] = further
    return missing


def _further_indexes(found: str, declaration: str) -> list[str] | None:
    """Return the statements of a declaration that the found one lacks; None if they differ in more than additional indexes.

    A file of a later version may have additional indexes, too.
    """
    existing, wanted = ([each.strip() for each in text.split(";")] for text in (found, declaration))
    missing = [each for each in wanted if each not in existing]
    unknown = [each for each in existing if each not in wanted]
    are_indexes = all(each.startswith("CREATE INDEX ") for each in (*missing, *unknown))
    return missing if are_indexes and not (missing and unknown) else None


_DECLARED = (
    "CREATE TABLE IF NOT EXISTS declared_tables(name TEXT PRIMARY KEY, declaration TEXT NOT NULL) STRICT, WITHOUT ROWID"
)


def _oldest(schema: Schema) -> int:
    """Return the latest version whose files are no longer supported, or 0."""
    return max((index + 1 for index, step in enumerate(schema.migrations) if step is None), default=0)


def _require_readable(db: sqlite3.Connection, path: Path, schema: Schema) -> int:
    """Return the version of the file, 0 for a new one.

    Raises:
        StoreVersionError: The version is newer than this package, or not supported any more.
        StoreError: The file has another kind.
    """
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if not version and not db.in_transaction:
        return 0  # otherwise the kind is only certain under the lock, because another process may be creating the file
    is_new = not version and db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
    application_id: int = db.execute("PRAGMA application_id").fetchone()[0]
    if not is_new and (not version or application_id != schema.application_id):
        raise StoreError(
            f"{path} is another kind of database, or of an earlier version; choose another file for {schema.owner}",
            path=str(path),
        )
    newest, oldest = len(schema.migrations), _oldest(schema)
    if version > newest:
        raise StoreVersionError(
            f"{path} has schema version {version}; this protolink_grpc reads versions up to {newest}; upgrade the package",
            found=str(version),
            known=str(newest),
        )
    if 0 < version <= oldest:
        raise StoreVersionError(
            f"{path} has schema version {version}; the oldest version that this protolink_grpc reads is {oldest + 1}; "
            + schema.advice,
            found=str(version),
            known=str(newest),
        )
    return version


def explain(error: sqlite3.Error, path: Path, schema: Schema | None = None) -> StoreError:
    """Convert an error of SQLite. The error contains the path but not the statement."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    if code == sqlite3.SQLITE_FULL:
        return StoreFullError(f"no space left for {path}", path=str(path))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or (
        # WAL needs further files in the directory: if it is read-only, SQLite cannot open the database at all.
        code == sqlite3.SQLITE_CANTOPEN and path.parent.is_dir() and not os.access(path.parent, os.W_OK)
    ):
        return StoreReadOnlyError(f"{path} cannot be written", path=str(path))
    if path.is_dir():
        return StoreError(f"{path} cannot be opened: it is a directory")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"{path} cannot be opened: check that its directory exists and is writable")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path} is not a SQLite database")
    if code == sqlite3.SQLITE_BUSY:
        owner = schema.busy_owner if schema is not None else "process"
        return StoreError(f"{path} is locked by another {owner}")
    return StoreError(f"{path}: {error}")
