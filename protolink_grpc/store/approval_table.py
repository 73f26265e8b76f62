"""The index of approvals as SQL: statements over one table, run by `SQLiteStore` on the connections that it owns."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.store.port import ApprovalQuery, ApprovalRow, known_approval

_COLUMNS = "request_id, agent_name, principal, task_id, state, create_micros, ask_sequence, answer_sequence, revision"
_SELECT = f"SELECT {_COLUMNS} FROM approvals WHERE agent_name = ?"  # noqa: S608 -- fixed words only
_TASK = "SELECT task_id FROM approvals WHERE agent_name = ? AND request_id = ?"

REVISIONS = (
    "SELECT begin, coalesce((SELECT max(revision) FROM approvals WHERE agent_name = ?), begin) FROM approval_revisions"
)
"""Where the file's revisions begin, and the latest one; takes the agent."""

RECORD = "SELECT record FROM approvals WHERE agent_name = ? AND request_id = ?"
"""What an approval asks; takes the agent and the id."""

CHANGED = f"{_SELECT} AND revision > ? AND (revision > ? OR state = 'pending') ORDER BY revision LIMIT ?"
"""Takes the agent, the revision after which to begin, that up to which only pending ones count, and how many."""


_PUT = """
    INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT(agent_name, request_id) DO UPDATE SET state = excluded.state, answer_sequence = excluded.answer_sequence,
    revision = excluded.revision
"""


def row_of(found: tuple[Any, ...]) -> ApprovalRow:
    (request_id, agent_name, principal, task_id, state), rest = found[:5], found[5:]
    return ApprovalRow(request_id, agent_name, principal, task_id, ApprovalState(state), *rest)


def one(agent_name: str, request_id: str) -> tuple[str, str, str]:
    """The statement for one approval, and its values."""
    return f"{_SELECT} AND request_id = ?", agent_name, request_id


def page(query: ApprovalQuery) -> tuple[Any, ...]:
    """The statement for a page, and its values; it finds one row more than the page has where there is another page."""
    where, values = _SELECT, [query.agent_name]
    if query.states:
        where += f" AND state IN ({','.join('?' * len(query.states))})"
        values += sorted(state.value for state in query.states)
    for column, value in (("principal", query.principal), ("task_id", query.task_id or None)):
        if value is not None:
            where += f" AND {column} = ?"
            values.append(value)
    after: Sequence[Any] = ()
    if query.after is not None:
        where, after = f"{where} AND (create_micros, request_id) > (?, ?)", query.after
    return f"{where} ORDER BY create_micros, request_id LIMIT ?", *values, *after, query.page_size + 1


def taken(db: sqlite3.Connection, rows: Sequence[ApprovalRow]) -> InvalidArgumentError | None:
    """Why these must not be put, None when they may."""
    for row in rows:
        known = db.execute(_TASK, (row.agent_name, row.request_id)).fetchone()
        if known is not None and known[0] != row.task_id:
            return known_approval(row)
    return None


def put(db: sqlite3.Connection, row: ApprovalRow) -> None:
    """Insert a row, or change it and keep its record, under the next revision.

    Inside a transaction that writes: revisions are those of commits.
    """
    revision = db.execute(REVISIONS, (row.agent_name,)).fetchone()[1] + 1
    db.execute(
        _PUT,
        (
            row.request_id,
            row.agent_name,
            row.principal,
            row.task_id,
            row.state.value,
            row.create_micros,
            row.ask_sequence,
            row.answer_sequence,
            revision,
            row.record,
        ),
    )
