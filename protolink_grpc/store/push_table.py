"""Push configs and their cursors as SQL: statements over one table, run by `SQLiteStore` on the connections that it owns.

Whether a row is done is decided here, in the transaction that moves its cursor: nothing is appended to a task in between.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.store.port import PushRow, no_task_to_push

_COLUMNS = "agent_name, principal, task_id, config_id, body, cursor, create_micros, worker, done"
_SELECT = f"SELECT {_COLUMNS} FROM pushes WHERE agent_name = ?"  # noqa: S608 -- fixed words only
_THIS = "agent_name = ? AND task_id = ? AND config_id = ?"

ONE = f"{_SELECT} AND task_id = ? AND config_id = ?"
"""Takes agent, task and config id."""

PAGE = f"{_SELECT} AND task_id = ? AND (create_micros, config_id) > (?, ?) ORDER BY create_micros, config_id LIMIT ?"
"""Takes agent, task, creation time and config id of the row before, and how many."""

BEGIN = (-(1 << 63), "")
"""Before all rows."""

WORKERS = "SELECT DISTINCT worker FROM pushes WHERE agent_name = ? AND done = 0"
"""Who has rows that are not done; takes the agent."""

_ENDED = ", ".join(f"'{state.value}'" for state in sorted(TERMINAL))
_IS_DONE = f"EXISTS(SELECT 1 FROM tasks WHERE task_id = ? AND state IN ({_ENDED}) AND sequence <= ?)"  # noqa: S608 -- fixed words
_HAS_TASK = "SELECT 1 FROM tasks WHERE task_id = ?"
_PUT = (
    f"INSERT INTO pushes VALUES (?, ?, ?, ?, ?, ?, ?, ?, {_IS_DONE}) "  # noqa: S608 -- fixed words only
    "ON CONFLICT(agent_name, task_id, config_id) DO UPDATE SET body = excluded.body, "
    "worker = CASE worker WHEN '' THEN excluded.worker ELSE worker END"
)
_ADVANCE = (
    f"UPDATE pushes SET cursor = max(cursor, ?), done = done OR {_IS_DONE} "  # noqa: S608 -- fixed words only
    f"WHERE {_THIS} AND worker = ?"
)
_DELETE = f"DELETE FROM pushes WHERE {_THIS}"  # noqa: S608 -- fixed words only
_OF_THOSE = "agent_name = ? AND done = 0 AND worker IN (SELECT value FROM json_each(?))"
_CLAIMABLE = f"SELECT {_COLUMNS} FROM pushes WHERE {_OF_THOSE} ORDER BY create_micros, config_id"  # noqa: S608 -- fixed words only
_SET_WORKER = f"UPDATE pushes SET worker = ? WHERE {_OF_THOSE}"  # noqa: S608 -- fixed words only


def row_of(found: tuple[Any, ...]) -> PushRow:
    agent_name, principal, task_id, config_id, body, cursor, create_micros, worker, done = found
    return PushRow(agent_name, principal, task_id, config_id, body, cursor, create_micros, worker, bool(done))


def put(db: sqlite3.Connection, row: PushRow) -> PushRow:
    """The row as it is kept.

    Raises:
        TaskNotFoundError: There is no such task.
    """
    if db.execute(_HAS_TASK, (row.task_id,)).fetchone() is None:
        raise no_task_to_push(row)
    values = (row.agent_name, row.principal, row.task_id, row.config_id, row.body)
    db.execute(_PUT, (*values, row.cursor, row.create_micros, row.worker, row.task_id, row.cursor))
    return row_of(db.execute(ONE, (row.agent_name, row.task_id, row.config_id)).fetchone())


def delete(db: sqlite3.Connection, key: tuple[str, str, str]) -> bool:
    return db.execute(_DELETE, key).rowcount > 0


def advance(db: sqlite3.Connection, row: PushRow, worker: str, cursor: int) -> PushRow | None:
    """The row as it is then, None where it is not that worker's."""
    key = (row.agent_name, row.task_id, row.config_id)
    if not db.execute(_ADVANCE, (cursor, row.task_id, cursor, *key, worker)).rowcount:
        return None
    return row_of(db.execute(ONE, key).fetchone())


def claim(db: sqlite3.Connection, agent_name: str, worker: str, dead: Sequence[str]) -> list[PushRow]:
    """Give the rows of the dead to `worker`, oldest first."""
    those = (agent_name, to_json(list(dead)))
    rows = db.execute(_CLAIMABLE, those).fetchall()
    db.execute(_SET_WORKER, (worker, *those))
    return [row_of((*row[:-2], worker, row[-1])) for row in rows]


def release(db: sqlite3.Connection, agent_name: str, worker: str) -> None:
    db.execute(_SET_WORKER, ("", agent_name, to_json([worker])))
