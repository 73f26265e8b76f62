"""The tasks in a store's file, read without a store: from any thread, while agents run. It writes nothing."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from protolink_grpc.storage.port import TaskHead
from protolink_grpc.storage.sqlite.file import connect, explain
from protolink_grpc.storage.sqlite.log import SCHEMA, SELECT, head_of, split_row


class TaskHistory:
    """All tasks in a file as they were at one moment, those of every agent and principal."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def head(self, task_id: str) -> TaskHead | None:
        """The head of a task, None for an unknown one."""
        found = self.heads({"task_id": task_id}, 1)
        return found[0] if found else None

    def heads(self, where: Mapping[str, str], limit: int) -> list[TaskHead]:
        """Heads whose columns have these values, last changed first. Costs a look at every head, except by `task_id`."""
        matching = " AND ".join(f"{name} = ?" for name in where) or "true"
        sql = f"{SELECT} WHERE {matching} ORDER BY update_micros DESC, task_id DESC LIMIT ?"
        return [head_of(row) for row in self._db.execute(sql, [*where.values(), max(0, limit)])]

    def log(self, task_id: str) -> Iterator[bytes]:
        """Framed events of a task as they come from the file, one at a time."""
        rows = self._db.execute("SELECT frames, lengths FROM events WHERE task_id = ? ORDER BY sequence", (task_id,))
        return (frame for row in rows for frame in split_row(*row))

    def events_with(self, text: str) -> Iterator[bytes]:
        """Framed events of all tasks whose append mentions a text. Costs a look at every log."""
        rows = self._db.execute("SELECT frames, lengths FROM events WHERE instr(frames, ?)", (text.encode(),))
        return (frame for row in rows for frame in split_row(*row))


@contextmanager
def task_history(path: Path) -> Iterator[TaskHistory | None]:
    """Open a file for one question; None where the file, or its schema, does not exist yet.

    Raises:
        StoreError: The file cannot be read; StoreVersionError for one of another version.
    """
    if not path.exists():
        yield None  # SQLite would create it
        return
    db = connect(path, SCHEMA, read_only=True)
    try:
        # One moment for everything that is read: a log must not grow between its head and its events.
        db.execute("BEGIN")
        found: int = db.execute("PRAGMA user_version").fetchone()[0]
        yield TaskHistory(db) if found else None
    except sqlite3.Error as error:
        raise explain(error, path) from error
    finally:
        db.close()
