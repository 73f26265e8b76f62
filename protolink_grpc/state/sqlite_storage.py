"""Memory in a SQLite file that several processes of one machine may share: the statements. How they are run is in `lanes`.

A session has a row, its messages are rows with ascending positions without gaps, and a version moves with every change. A turn is
added, and messages are replaced, in one transaction each, so that other writers come before or after it and never between.
"""

import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from protolink_grpc.errors import InvalidArgumentError, StoreError, StoreVersionError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.state.lanes import StateFile
from protolink_grpc.state.storage import (
    TURNS_KEPT,
    Conversation,
    ItemBounds,
    Storage,
    StoredMessage,
    check_bounds,
    checked_id,
    merged,
    messages_from_rows,
    replaced_rows,
    turn_rows,
)
from protolink_grpc.store.database import connect

APPLICATION_ID = 0x504C5354
"""Written into the file's header ("PLST"), so that a file of another kind is told from one of ours."""

MIGRATIONS = (
    f"""
    PRAGMA application_id = {APPLICATION_ID};
    CREATE TABLE single_values(space TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE sessions(
      key INTEGER PRIMARY KEY AUTOINCREMENT, space TEXT NOT NULL, session_id TEXT NOT NULL, version INTEGER NOT NULL,
      first INTEGER NOT NULL, following INTEGER NOT NULL, UNIQUE(space, session_id)
    ) STRICT;
    CREATE TABLE messages(
      session INTEGER NOT NULL, position INTEGER NOT NULL, begins INTEGER NOT NULL, message_id TEXT NOT NULL,
      body TEXT NOT NULL, PRIMARY KEY(session, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE turns(
      session INTEGER NOT NULL, turn_id TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY(session, turn_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE items(
      space TEXT NOT NULL, session_id TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
      PRIMARY KEY(space, session_id, name)
    ) STRICT, WITHOUT ROWID;
    """,
)
"""Forward steps; entry i takes a file from version i to i + 1. Released entries are never edited."""

_SESSION = "SELECT key, version, first, following FROM sessions WHERE space = ? AND session_id = ?"


@checks_arguments
class SQLiteStorage(Storage):
    """Memory in a SQLite file; created when absent, when first used.

    Args:
        db_path: The file, used for nothing else. Its directory must exist and be on a local disk: SQLite's locks do not work on
            network file systems.
        table_name: Sets apart what lies in one file under the same namespace, as a table of its own would.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str] = "protolink_state.db",
        table_name: str = "protolink_state",
        namespace: str | None = None,
    ) -> None:
        super().__init__(namespace)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", table_name):
            raise InvalidArgumentError("must be a name of letters, digits and underscores", field="table_name")
        self.path = Path(db_path)
        self.table_name = table_name
        self._file = StateFile(
            self.path, lambda: _open(self.path), lambda: connect(self.path, MIGRATIONS, read_only=True)
        )

    @property
    def _space(self) -> str:
        return f"{self.table_name}/{self.namespace or ''}"

    async def open(self) -> None:
        await self._file.open()

    async def close(self) -> None:
        await self._file.close()

    # -- one value -------------------------------------------------------------------------------------------------------

    def save(self, value: Any) -> None:
        row = (self._space, to_json(value))
        self._file.write_now(lambda db: _execute(db, "INSERT OR REPLACE INTO single_values VALUES (?, ?)", row))

    def load(self) -> Any:
        text = self._file.write_now(lambda db: _value(db, self._space))
        return None if text is None else from_json(text)

    def update(self, changes: dict[str, Any]) -> None:
        space = self._space

        def merge(db: sqlite3.Connection) -> None:
            text = merged(_value(db, space), changes)
            db.execute("INSERT OR REPLACE INTO single_values VALUES (?, ?)", (space, text))

        self._file.write_now(merge)

    def delete(self) -> None:
        row = (self._space,)
        self._file.write_now(lambda db: _execute(db, "DELETE FROM single_values WHERE space = ?", row))

    # -- conversations ---------------------------------------------------------------------------------------------------

    async def load_messages(self, session_id: str, limit: int | None = None) -> Conversation:
        if limit is not None and limit < 1:
            raise InvalidArgumentError("must be at least 1", field="limit")
        key = (self._space, checked_id(session_id, "session_id"))
        bodies, version, count = await self._file.read(lambda db: _load(db, key, limit))
        return Conversation(messages_from_rows(bodies), version, count)

    async def append_messages(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage]) -> bool:
        key = (self._space, checked_id(session_id, "session_id"))
        checked_id(turn_id, "turn_id")
        rows = turn_rows(messages)
        return await self._file.write(lambda db: _append(db, key, turn_id, rows))

    async def replace_messages(self, session_id: str, expected_version: int, messages: Sequence[LLMMessage]) -> bool:
        key = (self._space, checked_id(session_id, "session_id"))
        kept = list(messages)
        turn_rows(kept)  # what cannot be written is refused here, with the caller's error
        return await self._file.write(lambda db: _replace(db, key, expected_version, kept))

    async def sessions(self, session_id: str | None = None) -> dict[str, int]:
        return await self._counts(
            "SELECT session_id, following - first FROM sessions WHERE space = ? AND following > first{} ORDER BY session_id",
            session_id,
        )

    async def delete_session(self, session_id: str) -> bool:
        key = (self._space, checked_id(session_id, "session_id"))
        return await self._file.write(lambda db: _delete(db, key))

    # -- items of tools --------------------------------------------------------------------------------------------------

    async def get_item(self, session_id: str, name: str) -> str | None:
        row = (self._space, checked_id(session_id, "session_id"), checked_id(name, "key"))
        found = await self._rows("SELECT value FROM items WHERE space = ? AND session_id = ? AND name = ?", row)
        return found[0][0] if found else None

    async def set_item(self, session_id: str, name: str, text: str, bounds: ItemBounds) -> None:
        row = (self._space, checked_id(session_id, "session_id"), checked_id(name, "key"), text)
        await self._file.write(lambda db: _set_item(db, row, bounds))

    async def delete_item(self, session_id: str, name: str) -> bool:
        row = (self._space, checked_id(session_id, "session_id"), checked_id(name, "key"))
        sql = "DELETE FROM items WHERE space = ? AND session_id = ? AND name = ?"
        return await self._file.write(lambda db: _execute(db, sql, row)) > 0

    async def items(self, session_id: str) -> dict[str, str]:
        row = (self._space, checked_id(session_id, "session_id"))
        sql = "SELECT name, value FROM items WHERE space = ? AND session_id = ? ORDER BY name"
        return dict(await self._rows(sql, row))

    async def delete_items(self, session_id: str) -> int:
        row = (self._space, checked_id(session_id, "session_id"))
        sql = "DELETE FROM items WHERE space = ? AND session_id = ?"
        return await self._file.write(lambda db: _execute(db, sql, row))

    async def item_sessions(self, session_id: str | None = None) -> dict[str, int]:
        return await self._counts(
            "SELECT session_id, count(*) FROM items WHERE space = ?{} GROUP BY session_id ORDER BY session_id",
            session_id,
        )

    async def _counts(self, sql: str, session_id: str | None) -> dict[str, int]:
        if session_id is None:
            return dict(await self._rows(sql.format(""), (self._space,)))
        row = (self._space, checked_id(session_id, "session_id"))
        return dict(await self._rows(sql.format(" AND session_id = ?"), row))

    async def _rows(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        return await self._file.read(lambda db: db.execute(sql, values).fetchall())


def _open(path: Path) -> sqlite3.Connection:
    try:
        db = connect(path, MIGRATIONS)
    except StoreVersionError:
        if _is_of_something_else(path):
            raise _of_something_else(path) from None
        raise
    try:
        # What is forgotten is overwritten, not only unlinked.
        db.execute("PRAGMA secure_delete = ON")
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise _of_something_else(path)
    except BaseException:  # a file that is not used must not stay open
        db.close()
        raise
    return db


def _is_of_something_else(path: Path) -> bool:
    with closing(connect(path, MIGRATIONS, read_only=True)) as db:
        found: int = db.execute("PRAGMA application_id").fetchone()[0]
        return found != APPLICATION_ID


def _of_something_else(path: Path) -> StoreError:
    return StoreError(f"{path} is a database of something else; give the memory a file of its own", path=str(path))


def _execute(db: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> int:
    return db.execute(sql, values).rowcount


def _value(db: sqlite3.Connection, space: str) -> str | None:
    row = db.execute("SELECT value FROM single_values WHERE space = ?", (space,)).fetchone()
    return None if row is None else row[0]


def _load(db: sqlite3.Connection, key: tuple[str, str], limit: int | None) -> tuple[list[str], int, int]:
    row = db.execute(_SESSION, key).fetchone()
    if row is None:
        return [], 0, 0
    session, version, first, following = row
    start = first if limit is None else _start(db, session, max(first, following - limit))
    bodies = db.execute(
        "SELECT body FROM messages WHERE session = ? AND position >= ? ORDER BY position", (session, start)
    )
    return [body for (body,) in bodies], version, following - first


def _start(db: sqlite3.Connection, session: int, earliest: int) -> int:
    """The position of the first turn that begins at `earliest` or later; of the latest turn where none does."""
    inside = db.execute(
        "SELECT position FROM messages WHERE session = ? AND position >= ? AND begins ORDER BY position LIMIT 1",
        (session, earliest),
    ).fetchone()
    latest = (
        inside
        or db.execute(
            "SELECT position FROM messages WHERE session = ? AND position < ? AND begins ORDER BY position DESC LIMIT 1",
            (session, earliest),
        ).fetchone()
    )
    return latest[0] if latest else earliest


def _begun(db: sqlite3.Connection, key: tuple[str, str]) -> tuple[int, int, int]:
    """The session's key, version and next position; begun where there is none."""
    row = db.execute(_SESSION, key).fetchone()
    if row is not None:
        return row[0], row[1], row[3]
    session = db.execute("INSERT INTO sessions VALUES (NULL, ?, ?, 0, 1, 1)", key).lastrowid or 0
    # Keys are never used again: a session that was deleted and comes back has no version that it had before.
    return session, session << 32, 1


def _append(db: sqlite3.Connection, key: tuple[str, str], turn_id: str, rows: list[StoredMessage]) -> bool:
    session, version, following = _begun(db, key)
    if not _execute(db, "INSERT OR IGNORE INTO turns VALUES (?, ?, ?)", (session, turn_id, version)):
        return False
    _insert(db, session, following, rows)
    db.execute(
        "UPDATE sessions SET version = ?, following = ? WHERE key = ?", (version + 1, following + len(rows), session)
    )
    return True


def _insert(db: sqlite3.Connection, session: int, position: int, rows: list[StoredMessage]) -> None:
    db.executemany(
        "INSERT INTO messages VALUES (?, ?, ?, ?, ?)",
        [(session, position + index, row.begins, row.id, row.body) for index, row in enumerate(rows)],
    )


def _replace(db: sqlite3.Connection, key: tuple[str, str], expected: int, messages: list[LLMMessage]) -> bool:
    known = db.execute(_SESSION, key).fetchone()
    if (known[1] if known is not None else 0) != expected:
        return False
    session, version, following = _begun(db, key)
    before = db.execute("SELECT message_id, begins FROM messages WHERE session = ?", (session,)).fetchall()
    rows = replaced_rows(messages, ((message_id, bool(begins)) for message_id, begins in before))
    db.execute("DELETE FROM messages WHERE session = ?", (session,))
    _insert(db, session, following, rows)
    db.execute(
        "UPDATE sessions SET version = ?, first = ?, following = ? WHERE key = ?",
        (version + 1, following, following + len(rows), session),
    )
    db.execute(
        "DELETE FROM turns WHERE session = ? AND version <= "
        "(SELECT version FROM turns WHERE session = ? ORDER BY version DESC LIMIT 1 OFFSET ?)",
        (session, session, TURNS_KEPT),
    )
    return True


def _delete(db: sqlite3.Connection, key: tuple[str, str]) -> bool:
    row = db.execute(_SESSION, key).fetchone()
    if row is None:
        return False
    db.execute("DELETE FROM messages WHERE session = ?", row[:1])
    db.execute("DELETE FROM turns WHERE session = ?", row[:1])
    db.execute("DELETE FROM sessions WHERE key = ?", row[:1])
    return True


def _set_item(db: sqlite3.Connection, row: tuple[str, str, str, str], bounds: ItemBounds) -> None:
    space, session_id, name, text = row
    count, size = db.execute(
        "SELECT count(*), coalesce(sum(length(CAST(name AS BLOB)) + length(CAST(value AS BLOB))), 0) "
        "FROM items WHERE space = ? AND session_id = ? AND name != ?",
        (space, session_id, name),
    ).fetchone()
    check_bounds(count + 1, size + len(name.encode()) + len(text.encode()), bounds)
    db.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?)", row)
