"""Reads the tasks in a store's file without a store: read-only, from any thread, also while agents run."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from protolink_grpc.storage.port import TaskHead
from protolink_grpc.storage.sqlite.file import connect, explain
from protolink_grpc.storage.sqlite.log import SCHEMA, SELECT, head_of, split_row


class TaskHistory:
    """A snapshot of all tasks in a file, of every agent and principal."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def head(self, task_id: str) -> TaskHead | None:
        """Return the head of a task, or None."""
        found = self.heads({"task_id": task_id}, 1)
        return found[0] if found else None

    def heads(self, where: Mapping[str, str], limit: int) -> list[TaskHead]:
        """Return the heads whose columns have these values, most recently changed first. Reads every head, except for `task_id`."""
        matching = " AND ".join(f"{name} = ?" for name in where) or "true"
        sql = f"{SELECT} WHERE {matching} ORDER BY update_micros DESC, task_id DESC LIMIT ?"
        return [head_of(row) for row in self._db.execute(sql, [*where.values(), max(0, limit)])]

    def log(self, task_id: str) -> Iterator[bytes]:
        """Yield the framed events of a task."""
        rows = self._db.execute("SELECT frames, lengths FROM events WHERE task_id = ? ORDER BY sequence", (task_id,))
        return (frame for row in rows for frame in split_row(*row))

    def events_with(self, text: str) -> Iterator[bytes]:
        """Yield the framed events of all appends that contain a text. Reads every log."""
        rows = self._db.execute("SELECT frames, lengths FROM events WHERE instr(frames, ?)", (text.encode(),))
        return (frame for row in rows for frame in split_row(*row))


@contextmanager
def task_history(path: Path) -> Iterator[TaskHistory | None]:
    """Open a file for reading. Yields None if the file or its schema does not exist.

    Raises:
        StoreError: The file cannot be read. StoreVersionError if it has another version.
    """
    if not path.exists():
        yield None  # SQLite would create it
        return
    db = connect(path, SCHEMA, read_only=True)
    try:
        # One transaction for all reads, so that a log does not grow between its head and its events.
        db.execute("BEGIN")
        found: int = db.execute("PRAGMA user_version").fetchone()[0]
        yield TaskHistory(db) if found else None
    except sqlite3.Error as error:
        raise explain(error, path) from error
    finally:
        db.close()
