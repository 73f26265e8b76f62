"""Tasks, their events and request ids in SQL: the schema of the store's file, and the statements on these tables.

The engine runs the statements. Those on records are in `records`.
"""

import sqlite3
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from protolink_grpc.errors import LeaseLostError, ProtolinkError, SequenceConflictError, TaskNotFoundError
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.storage.approvals import APPROVALS
from protolink_grpc.storage.links import HELD_COUNTS, HELD_TASKS, LINKS, OPEN_LINKS
from protolink_grpc.storage.port import (
    READ_BYTES,
    Append,
    Deleted,
    RequestRecord,
    TaskHead,
    TaskQuery,
    limit_bytes,
    require_ended,
)
from protolink_grpc.storage.records import Kind, Records, put_all
from protolink_grpc.storage.session_rows import KINDS as SESSION_KINDS
from protolink_grpc.storage.sqlite.file import Schema
from protolink_grpc.storage.sqlite.records import DROPPED, SCOPES, HotRows, SQLiteRecords, tables_of
from protolink_grpc.storage.webhooks import WEBHOOK_FAILURES, WEBHOOKS

MIGRATIONS = (
    None,  # logs of protolink.v1, whose events had other numbers
    None,  # logs of plgrpc.v1 from before its first release
    None,  # approvals and push configs in tables of their own
    f"""
    CREATE TABLE tasks(
      task_id TEXT PRIMARY KEY, principal TEXT NOT NULL, agent_name TEXT NOT NULL, session_id TEXT NOT NULL,
      state TEXT NOT NULL, sequence INTEGER NOT NULL, run_id TEXT NOT NULL,
      create_micros INTEGER NOT NULL, update_micros INTEGER NOT NULL, worker TEXT NOT NULL, epoch INTEGER NOT NULL,
      messages INTEGER NOT NULL, artifacts INTEGER NOT NULL, reason TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tasks_by_change ON tasks(principal, agent_name, update_micros DESC, task_id DESC);
    CREATE INDEX tasks_unfinished ON tasks(agent_name, update_micros) WHERE state IN ('submitted', 'working');
    CREATE TABLE events(
      task_id TEXT NOT NULL, sequence INTEGER NOT NULL, frames BLOB NOT NULL, lengths BLOB, PRIMARY KEY(task_id, sequence)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE requests(
      agent_name TEXT NOT NULL, principal TEXT NOT NULL, request_id TEXT NOT NULL, task_id TEXT NOT NULL,
      after_sequence INTEGER NOT NULL, create_micros INTEGER NOT NULL, PRIMARY KEY(agent_name, principal, request_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE workers(
      worker TEXT PRIMARY KEY, process TEXT NOT NULL, expire_micros INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    {SCOPES}
    """,
)
"""Forward steps; entry i migrates a file from version i to i + 1. Released entries are never edited. None means that
older files are not supported any more; a new file starts after it."""

KINDS: tuple[Kind[Any], ...] = (
    APPROVALS,
    WEBHOOKS,
    WEBHOOK_FAILURES,
    LINKS,
    HELD_TASKS,
    HELD_COUNTS,
    OPEN_LINKS,
    *SESSION_KINDS,
)

# A random UUID (RFC 9562, version 4). It is made here, in the transaction that creates the table: processes that create or migrate
# the same file at the same time read the same one.
_NEW_UUID = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' || "
    "substr('89AB', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
)
_INSTALLATION = {
    "installation": "CREATE TABLE installation(runtime_id TEXT NOT NULL) STRICT; INSERT INTO installation SELECT "
    + _NEW_UUID
}
"""A table with one row about the file as a whole."""

RUNTIME_ID = "SELECT runtime_id FROM installation"

SCHEMA = Schema(MIGRATIONS, tables=tables_of(*KINDS) | DROPPED | _INSTALLATION)

ROW_BYTES = 1 << 18
"""Events of one append share a row of up to this many bytes, because a row costs as much as several events."""

_COLUMNS = (
    "task_id, principal, agent_name, session_id, state, sequence, run_id, create_micros, update_micros, "
    "worker, epoch, messages, artifacts, reason"
)
SELECT = f"SELECT {_COLUMNS} FROM tasks"  # noqa: S608 -- fixed words only
_PLACES = ",".join("?" * (_COLUMNS.count(",") + 1))
_INSERT = f"INSERT OR IGNORE INTO tasks VALUES ({_PLACES})"  # noqa: S608 -- fixed words only
_CHANGED = "state = ?, sequence = ?, run_id = ?, update_micros = ?, messages = ?, artifacts = ?, reason = ?"
_EXPECTED = "task_id = ? AND sequence = ? AND epoch = ?"
_UPDATE = f"UPDATE tasks SET {_CHANGED} WHERE {_EXPECTED}"  # noqa: S608 -- fixed words only
# A running task is never taken from a listed worker: a worker that has renewed its lease keeps its tasks.
_UNLISTED = "NOT EXISTS (SELECT 1 FROM workers WHERE workers.worker = tasks.worker)"
_FREE = f"state NOT IN ('submitted', 'working') OR worker = ? OR {_UNLISTED}"
_TAKE = f"UPDATE tasks SET {_CHANGED}, worker = ?, epoch = ? WHERE {_EXPECTED} AND ({_FREE})"  # noqa: S608 -- fixed words only
_THESE = "task_id IN (SELECT value FROM json_each(?))"
HEADS = f"{SELECT} WHERE {_THESE}"
RELEASE = f"UPDATE tasks SET worker = ? WHERE {_THESE} AND (worker = ? OR {_UNLISTED})"  # noqa: S608 -- fixed words only
WORKER = "SELECT process, expire_micros FROM workers WHERE worker = ?"
REMOVE_WORKER = "DELETE FROM workers WHERE worker = ? AND expire_micros = ?"
_INSERT_EVENTS = "INSERT INTO events VALUES (?, ?, ?, ?)"
_THIS_REQUEST = "agent_name = ? AND principal = ? AND request_id = ?"
REQUEST = f"SELECT task_id, after_sequence FROM requests WHERE {_THIS_REQUEST}"  # noqa: S608 -- fixed words only
_FORGET_REQUEST = f"DELETE FROM requests WHERE {_THIS_REQUEST}"  # noqa: S608 -- fixed words only
# Of one owner, because requests are not indexed by task.
_DELETE_REQUESTS = f"DELETE FROM requests WHERE agent_name = ? AND principal = ? AND {_THESE}"  # noqa: S608 -- fixed words only


def head_of(row: tuple[Any, ...]) -> TaskHead:
    (task_id, principal, agent_name, session_id, state), rest = row[:5], row[5:]
    return TaskHead(task_id, principal, agent_name, session_id, TaskState(state), *rest)


def page(query: TaskQuery) -> tuple[Any, ...]:
    """Build the statement for a page of heads and its values. It returns one row more than the page if there is another page."""
    matching, values = _where_clause(query)
    after: tuple[Any, ...] = ()
    if query.after is not None:
        matching, after = f"{matching} AND (update_micros, task_id) < (?, ?)", query.after
    order = "ORDER BY update_micros DESC, task_id DESC LIMIT ?"
    return f"{SELECT} WHERE {matching} {order}", *values, *after, query.page_size + 1


def total(query: TaskQuery) -> tuple[Any, ...]:
    """Build the statement that counts all matches, and its values."""
    matching, values = _where_clause(query)
    return f"SELECT count(*) FROM tasks WHERE {matching}", *values  # noqa: S608 -- fixed words only


def _where_clause(query: TaskQuery) -> tuple[str, list[Any]]:
    where, values = ["principal = ?", "agent_name = ?"], [query.principal, query.agent_name]
    if query.states:
        where.append(f"state IN ({','.join('?' * len(query.states))})")
        values += sorted(state.value for state in query.states)
    if query.session_id:
        where.append("session_id = ?")
        values.append(query.session_id)
    return " AND ".join([*where, "update_micros > ?"]), [*values, query.updated_after_micros]


def frames(db: sqlite3.Connection, task_id: str, after: int, limit: int) -> list[bytes]:
    """Read events after a position, as `TaskStore.read`."""
    rows = db.execute(
        "SELECT sequence, frames, lengths FROM events WHERE task_id = ? AND sequence > ? ORDER BY sequence LIMIT ?",
        (task_id, after, limit),
    )
    found: list[bytes] = []
    total_bytes = 0
    for last, joined, lengths in rows:
        # Row by row, so that a log of large events is not read completely before it is cut.
        total_bytes += len(joined)
        if found and total_bytes > READ_BYTES:
            break
        some = split_row(joined, lengths)
        found += some[after - last :] if 0 < last - after < len(some) else some
        if len(found) >= limit:
            break
    rows.close()
    return limit_bytes(found[:limit])


def insert(
    db: sqlite3.Connection, append: Append, changed: set[tuple[str, Any]], hot: HotRows
) -> RequestRecord | ProtolinkError | None:
    """Carry out one append in the group's transaction. A refusal changes nothing and is returned: see `Job.work`.

    Args:
        changed: Receives the kinds and scopes of records whose readers must be woken after the commit.
    """
    if not append.records and append.within is None:
        return _insert(db, append, changed, hot)
    # It may be refused after its first change: without a savepoint the whole group would be repeated. A savepoint copies
    # each page before its first change, so appends that are only refused before their first change have none.
    hot.flush(db)
    db.execute("SAVEPOINT append")
    outcome: RequestRecord | ProtolinkError | None
    try:
        outcome = _insert(db, append, changed, hot)
    except ProtolinkError as refusal:
        db.execute("ROLLBACK TO append")
        hot.clear()
        outcome = refusal
    db.execute("RELEASE append")
    return outcome


def _insert(
    db: sqlite3.Connection, append: Append, changed: set[tuple[str, Any]], hot: HotRows
) -> RequestRecord | ProtolinkError | None:
    head, request_id = append.head, append.request_id
    if request_id:
        key = (head.agent_name, head.principal, request_id)
        record = (*key, head.task_id, append.expected_sequence, head.update_micros)
        if not db.execute("INSERT OR IGNORE INTO requests VALUES (?, ?, ?, ?, ?, ?)", record).rowcount:
            return RequestRecord(*db.execute(REQUEST, key).fetchone())
    refusal: ProtolinkError | None = None
    records = SQLiteRecords(db, hot)
    try:
        if append.session is not None:
            append.session.check(records)
        if not _put_head(db, append):
            refusal = _refusal(db, append)
    except ProtolinkError as error:
        refusal = error
    if refusal is not None:
        if request_id:
            db.execute(_FORGET_REQUEST, key)
        return refusal
    _insert_events(db, append)
    put_all(records, append.records)
    if append.session is not None:
        append.session.write(records)
    if append.within is not None:
        append.within(records)
    changed |= records.changed
    return None


def delete(
    db: sqlite3.Connection,
    task_ids: Sequence[str],
    work: Callable[[Records], None] | None,
    changed: set[tuple[str, Any]],
    hot: HotRows,
) -> Deleted | ProtolinkError:
    """Delete ended tasks in the group's transaction, as `LogStore.delete`. A refusal changes nothing: see `Job.work`.

    Args:
        work: Called before the tasks are deleted.
        changed: Receives the kinds and scopes of records whose readers must be woken after the commit.
    """
    heads = [head_of(row) for row in db.execute(HEADS, (to_json(list(task_ids)),))]
    for head in heads:
        require_ended(head)
    hot.flush(db)
    db.execute("SAVEPOINT deletion")  # `work` may refuse after its first change
    outcome: Deleted | ProtolinkError = Deleted(len(heads), sum(head.sequence for head in heads))
    try:
        records = SQLiteRecords(db, hot)
        if work is not None:
            work(records)
        _delete(db, records, heads)
        changed |= records.changed
    except ProtolinkError as refusal:
        db.execute("ROLLBACK TO deletion")
        hot.clear()
        outcome = refusal
    db.execute("RELEASE deletion")
    return outcome


def _delete(db: sqlite3.Connection, records: SQLiteRecords, heads: Sequence[TaskHead]) -> None:
    for kind in KINDS:
        records.drop_of_tasks(kind, heads)
    ids = to_json([head.task_id for head in heads])
    for owner in {(head.agent_name, head.principal) for head in heads}:
        db.execute(_DELETE_REQUESTS, (*owner, ids))
    for table in ("events", "tasks"):
        db.execute(f"DELETE FROM {table} WHERE {_THESE}", (ids,))  # noqa: S608 -- fixed words only


def _insert_events(db: sqlite3.Connection, append: Append) -> None:
    task_id, last, events = append.head.task_id, append.head.sequence, append.events
    if len(events) == 1:
        db.execute(_INSERT_EVENTS, (task_id, last, events[0], None))
        return
    lengths = array("I", map(len, events))
    if sum(lengths) <= ROW_BYTES:  # nearly always
        db.execute(_INSERT_EVENTS, (task_id, last, b"".join(events), lengths.tobytes()))
        return
    for end, some in _row_cuts(append.expected_sequence, events):
        sizes = array("I", map(len, some)).tobytes() if len(some) > 1 else None
        db.execute(_INSERT_EVENTS, (task_id, end, b"".join(some), sizes))


def _row_cuts(after: int, events: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Split an append into rows of consecutive events, each with the sequence of its last event."""
    some: list[bytes] = []
    size = 0
    for event in events:
        if some and size + len(event) > ROW_BYTES:
            yield after, some
            some, size = [], 0
        some.append(event)
        size += len(event)
        after += 1
    if some:
        yield after, some


def split_row(joined: bytes, lengths: bytes | None) -> list[bytes]:
    """Return the events of one row, oldest first."""
    if lengths is None:
        return [joined]
    frames: list[bytes] = []
    at = 0
    for length in array("I", lengths):
        frames.append(joined[at : at + length])
        at += length
    return frames


def _put_head(db: sqlite3.Connection, append: Append) -> int:
    """Write the head if sequence and epoch are as expected. Returns the number of changed heads, 1 or 0."""
    head = append.head
    if not append.expected_sequence:
        return db.execute(_INSERT, _values(head)).rowcount
    changed = (
        head.state.value,
        head.sequence,
        head.run_id,
        head.update_micros,
        head.messages,
        head.artifacts,
        head.reason,
    )
    expected = (head.task_id, append.expected_sequence, append.expected_epoch)
    if head.epoch == append.expected_epoch:
        return db.execute(_UPDATE, (*changed, *expected)).rowcount
    return db.execute(_TAKE, (*changed, head.worker, head.epoch, *expected, head.worker)).rowcount


def _refusal(db: sqlite3.Connection, append: Append) -> ProtolinkError:
    """Build the error for an append that was refused."""
    task_id = append.head.task_id
    row = db.execute("SELECT sequence, epoch FROM tasks WHERE task_id = ?", (task_id,)).fetchone()
    if row is None and append.expected_sequence:
        return TaskNotFoundError(f"task {task_id} is not in the store", task_id=task_id)
    sequence, epoch = row or (0, 0)
    if append.expected_sequence and epoch != append.expected_epoch:
        return LeaseLostError("another worker runs this task", task_id=task_id)
    if append.expected_sequence and sequence == append.expected_sequence:
        return LeaseLostError("the worker of this task is alive", task_id=task_id)
    return SequenceConflictError("another writer appended to this task first", task_id=task_id)


def _values(head: TaskHead) -> tuple[Any, ...]:
    return (
        head.task_id,
        head.principal,
        head.agent_name,
        head.session_id,
        head.state.value,
        head.sequence,
        head.run_id,
        head.create_micros,
        head.update_micros,
        head.worker,
        head.epoch,
        head.messages,
        head.artifacts,
        head.reason,
    )
