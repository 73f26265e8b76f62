"""Records in SQL: one table for each kind, derived from its declaration. The engine runs the statements."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from itertools import starmap
from typing import Any, TypeVar

from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.storage.port import HELD
from protolink_grpc.storage.records import Key, Kind, Revisions, TaskIds, Where, values_getter

R = TypeVar("R")

SCOPES = """
    CREATE TABLE record_scopes(
      kind TEXT NOT NULL, scope TEXT NOT NULL, latest INTEGER NOT NULL, PRIMARY KEY(kind, scope)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE record_epoch(begin INTEGER NOT NULL) STRICT;
    INSERT INTO record_epoch VALUES (CAST(strftime('%s', 'now') AS INTEGER) * 1000000);
"""
"""Tables of a file with records: the latest revision of each scope, and the first revision of the file."""

DROPPED = {
    "dropped_records": (
        "CREATE TABLE dropped_records("
        "kind TEXT NOT NULL, scope TEXT NOT NULL, latest INTEGER NOT NULL, PRIMARY KEY(kind, scope)) STRICT, WITHOUT ROWID"
    )
}
"""A table of a file whose records are dropped with tasks: for each scope, the greatest revision of a dropped record."""

_TYPES: dict[type, str] = {int: "INTEGER", bool: "INTEGER", float: "REAL", bytes: "BLOB"}
_REVISIONS = (
    "SELECT max(begin, coalesce((SELECT latest FROM dropped_records WHERE kind = ?1 AND scope = ?2), begin)), "
    "coalesce((SELECT latest FROM record_scopes WHERE kind = ?1 AND scope = ?2), begin) FROM record_epoch"
)
_DROP_REVISION = (
    "INSERT INTO dropped_records VALUES (?, ?, ?) "
    "ON CONFLICT(kind, scope) DO UPDATE SET latest = max(latest, excluded.latest)"
)
_NEXT_REVISION = (
    "INSERT INTO record_scopes SELECT ?, ?, begin + 1 FROM record_epoch WHERE true "
    "ON CONFLICT(kind, scope) DO UPDATE SET latest = latest + 1 RETURNING latest"
)


_END = "SELECT state, sequence FROM tasks WHERE task_id = ?"
_ENDED = frozenset(state.value for state in TERMINAL)


def table(kind: Kind[Any]) -> str:
    """Build the statements that create the table of a kind."""
    columns = ", ".join(f"{name} {_TYPES.get(type_, 'TEXT')} NOT NULL" for name, type_ in kind.columns)
    statements = [
        f"CREATE TABLE {kind.name}({columns}, PRIMARY KEY({', '.join(kind.key)})) STRICT, WITHOUT ROWID",
    ]
    for number, names in enumerate(kind.indexes):
        statements.append(f"CREATE INDEX {kind.name}_{number} ON {kind.name}({', '.join(names)})")
    if kind.watched:
        statements.append(f"CREATE UNIQUE INDEX {kind.name}_by_change ON {kind.name}({kind.scope}, revision)")
    if kind.claimed:
        statements.append(f"CREATE INDEX {kind.name}_undone ON {kind.name}({kind.scope}, worker) WHERE done = 0")
    return ";\n".join(statements)


def tables_of(*kinds: Kind[Any]) -> dict[str, str]:
    """Build the tables of these kinds, for a schema."""
    return {kind.name: table(kind) for kind in kinds}


class _Statements:
    """The fixed statements of a kind, and the conversion of its rows to records."""

    def __init__(self, kind: Kind[Any]) -> None:
        names = [name for name, _ in kind.columns]
        key = " AND ".join(f"{name} = ?" for name in kind.key)
        light = ", ".join(f"x'' AS {name}" if name in kind.lazy else name for name in names)
        changed = [name for name in names if name not in kind.key and name not in kind.lazy]
        assigned = ", ".join(f"{name} = excluded.{name}" for name in changed)
        kept = f"DO UPDATE SET {assigned}" if changed else "DO NOTHING"
        self.select = f"SELECT {light} FROM {kind.name}"  # noqa: S608 -- names of fields only
        self.get = f"{self.select} WHERE {key}"
        self.get_whole = f"SELECT {', '.join(names)} FROM {kind.name} WHERE {key}"  # noqa: S608 -- names of fields only
        self.delete = f"DELETE FROM {kind.name} WHERE {key}"  # noqa: S608 -- names of fields only
        self.put = (
            f"INSERT INTO {kind.name} VALUES ({', '.join('?' * len(names))}) "  # noqa: S608 -- names of fields only
            f"ON CONFLICT({', '.join(kind.key)}) {kept}"
        )
        self.names = names
        self._fields = values_getter(names)
        self.makers: list[tuple[int, Callable[[Any], Any]]] = list(kind.enums.items())
        self.makers += [(place, bool) for place, (_, type_) in enumerate(kind.columns) if type_ is bool]
        self.enums = list(kind.enums)
        self.record: Callable[..., Any] = kind.record

    def build(self, row: tuple[Any, ...]) -> Any:
        if self.makers:
            values = list(row)
            for place, make in self.makers:
                values[place] = make(values[place])
            return self.record(*values)
        return self.record(*row)

    def values(self, record: Any) -> list[Any]:
        values = list(self._fields(record))
        for place in self.enums:
            values[place] = values[place].value
        return values


@cache
def _statements(kind: Kind[Any]) -> _Statements:
    return _Statements(kind)


MAX_HOT = 1024
"""Maximum number of records in a `HotRows`. If it is reached, all of them are written and forgotten."""


class HotRows:
    """The records of hot kinds that the transactions of one writing connection have read or put.

    Besides these transactions, only other processes change the file, and each of their commits changes its version. A transaction
    reads the version at its first use of these records. If it is unchanged, the records are still those of the file. Records that
    were put are written by `flush`: before the commit, and before any statement that could select or delete them.

    Attributes:
        puts: Number of the puts so far.
    """

    def __init__(self) -> None:
        self.puts = 0
        self._known: dict[tuple[str, Key], Any] = {}
        self._unwritten: dict[Kind[Any], dict[Key, Any]] = {}
        self._version = 0
        self._is_current = False
        """The version was read in this transaction."""

    def get(self, db: sqlite3.Connection, kind: Kind[R], key: Key) -> R | None:
        if not self._is_current:
            self._check_version(db)
        return self._known.get((kind.name, key))

    def add(self, db: sqlite3.Connection, kind: Kind[R], key: Key, record: R) -> None:
        """Note a record that was read."""
        if not self._is_current:
            self._check_version(db)
        if len(self._known) >= MAX_HOT:
            self.flush(db)
            self._known.clear()
        self._known[kind.name, key] = record

    def put(self, db: sqlite3.Connection, kind: Kind[R], key: Key, record: R) -> None:
        """Note a record that is stored by the next `flush`."""
        self.add(db, kind, key, record)
        self.puts += 1
        self._unwritten.setdefault(kind, {})[key] = record

    def remove(self, db: sqlite3.Connection, kind: Kind[Any], key: Key) -> None:
        """Forget a record that is about to be deleted."""
        if key in self._unwritten.get(kind, ()):
            self.flush(db)
        self._known.pop((kind.name, key), None)

    def flush(self, db: sqlite3.Connection) -> None:
        """Write the records that were put."""
        for kind, records in self._unwritten.items():
            statements = _statements(kind)
            db.executemany(statements.put, [statements.values(record) for record in records.values()])
        self._unwritten.clear()

    def before_commit(self, db: sqlite3.Connection) -> None:
        self.flush(db)
        self._is_current = False

    def clear(self) -> None:
        """Forget all records, also those that were not written: the transaction was rolled back."""
        self._known.clear()
        self._unwritten.clear()
        self._is_current = False

    def _check_version(self, db: sqlite3.Connection) -> None:
        version: int = db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._known.clear()
            self._version = version
        self._is_current = True


class SQLiteRecords:
    """Implements `Records` on one connection, within a transaction of the engine.

    Args:
        hot: The known rows of a writing connection; None for a reading one.
    """

    __slots__ = ("_db", "_hot", "changed")

    def __init__(self, db: sqlite3.Connection, hot: HotRows | None = None) -> None:
        self._db = db
        self._hot = hot
        self.changed: set[tuple[str, Any]] = set()
        """The kinds and scopes whose readers must be woken after the commit."""

    def get(self, kind: Kind[R], *key: object, whole: bool = False) -> R | None:
        hot = self._hot if kind.hot else None
        if hot is not None and (known := hot.get(self._db, kind, key)) is not None:
            return known
        statements = _statements(kind)
        row = self._db.execute(statements.get_whole if whole else statements.get, key).fetchone()
        if row is None:
            return None
        record: R = statements.build(row)
        if hot is not None:
            hot.add(self._db, kind, key, record)
        return record

    def select(
        self, kind: Kind[R], where: Where, *, after: Key | None = None, limit: int | None = None, reverse: bool = False
    ) -> list[R]:
        sql, values = _conditions(where.items())
        order = kind.order or kind.key
        if after is not None:
            sql += f" AND ({', '.join(order)}) {'<' if reverse else '>'} ({', '.join('?' * len(order))})"
            values += after
        sorting = ", ".join(f"{name} DESC" if reverse else name for name in order)
        return self._select(kind, f"{sql} ORDER BY {sorting} LIMIT ?", [*values, -1 if limit is None else limit])

    def _select(self, kind: Kind[R], rest: str, values: list[Any]) -> list[R]:
        if kind.hot and self._hot is not None:
            self._hot.flush(self._db)
        statements = _statements(kind)
        rows = self._db.execute(f"{statements.select} WHERE {rest}", values)
        if statements.makers:
            return [statements.build(row) for row in rows]
        return list(starmap(statements.record, rows))

    def put(self, kind: Kind[R], record: R) -> R:
        key = kind.key_of(record)
        if kind.hot and self._hot is not None:
            self._hot.put(self._db, kind, key, record)
            return record
        statements = _statements(kind)
        if kind.merge is not None:
            before = self.get(kind, *key)
            record = record if before is None else kind.merge(before, record)
        values = statements.values(record)
        if kind.watched:
            scope = (kind.name, key[0])
            values[statements.names.index("revision")] = self._db.execute(_NEXT_REVISION, scope).fetchone()[0]
            self.changed.add(scope)
        elif kind.waited:
            self.changed.add((kind.name, key[0]))
        self._db.execute(statements.put, values)
        kept = self.get(kind, *key) if kind.watched or kind.lazy else record
        return record if kept is None else kept

    def delete(self, kind: Kind[Any], *key: object) -> int:
        if kind.hot and self._hot is not None and len(key) == len(kind.key):
            self._hot.remove(self._db, kind, key)
            return self._db.execute(_statements(kind).delete, key).rowcount
        return self._delete(kind, dict(zip(kind.key, key, strict=False)))

    def _delete(self, kind: Kind[Any], where: Where) -> int:
        self._forget_hot(kind)
        sql, values = _conditions(where.items())
        deleted = self._db.execute(f"DELETE FROM {kind.name} WHERE {sql}", values).rowcount  # noqa: S608 -- names of fields only
        if deleted and (kind.watched or kind.waited):
            self.changed.add((kind.name, where[kind.scope]))
        return deleted

    def _forget_hot(self, kind: Kind[Any]) -> None:
        """Write the records of a hot kind, because some of them are about to be deleted, and read them again when they are used."""
        if kind.hot and self._hot is not None:
            self._hot.flush(self._db)
            self._hot.clear()

    # -- For the task store ----------------------------------------------------------------------------------------------

    def drop_of_tasks(self, kind: Kind[Any], tasks: Sequence[TaskIds]) -> None:
        """Drop the records of a kind that belong to deleted tasks. Readers that have not read their changes must start again."""
        if kind.home is None:
            return  # dropped with the records of another kind
        ids = frozenset(task.task_id for task in tasks)
        for home in {kind.home(task) for task in tasks}:
            where = dict(zip(kind.key, home, strict=False))
            if kind.drops:
                for record in self.select(kind, where):
                    self._drop_parts(kind, record, ids)
            else:
                self._drop(kind, {**where, kind.task: ids})

    def _drop(self, kind: Kind[Any], where: Where) -> None:
        if not kind.watched:
            self._delete(kind, where)
            return
        sql, values = _conditions(where.items())
        rows = self._db.execute(f"DELETE FROM {kind.name} WHERE {sql} RETURNING revision", values).fetchall()  # noqa: S608 -- names of fields only
        if rows:
            scope = (kind.name, where[kind.scope])
            self._db.execute(_DROP_REVISION, (*scope, max(rows)[0]))
            self.changed.add(scope)

    def _drop_parts(self, kind: Kind[Any], record: Any, ids: frozenset[str]) -> None:
        """Drop the parts of a record that belong to tasks, and the record with all its parts if no other task has one."""
        parts = [(each, getattr(record, name)) for each, name in kind.drops]
        for each, scope in parts:
            if each.task:
                self._drop(each, {each.scope: scope, each.task: ids})
        if getattr(record, kind.task) not in ids:
            return
        others = [task for each, scope in parts if each.task for task in self._one_task(each, scope)]
        if others:
            self.put(kind, replace(record, **{kind.task: others[0]}))
            return
        for each, scope in parts:
            self._delete(each, {each.scope: scope})
        self.delete(kind, *kind.key_of(record))

    def _one_task(self, kind: Kind[Any], scope: Any) -> list[str]:
        """Return a task that has records in a scope, if there is one."""
        sql = f"SELECT {kind.task} FROM {kind.name} WHERE {kind.scope} = ? AND {kind.task} != '' LIMIT 1"  # noqa: S608 -- names of fields only
        return [task_id for (task_id,) in self._db.execute(sql, (scope,))]

    # -- Revisions and ends of tasks -------------------------------------------------------------------------------------

    def revisions(self, kind: Kind[Any], scope: str) -> Revisions:
        return Revisions(*self._db.execute(_REVISIONS, (kind.name, scope)).fetchone())

    def changes(self, kind: Kind[R], scope: str, after: int, limit: int, *, where: Where, until: int = 0) -> list[R]:
        matching, values = _conditions(where.items())
        sql = f"{kind.scope} = ? AND revision > ? AND (revision > ? OR {matching}) ORDER BY revision LIMIT ?"
        return self._select(kind, sql, [scope, after, until, *values, limit])

    def is_finished(self, task_id: str, sequence: int) -> bool | None:
        row = self._db.execute(_END, (task_id,)).fetchone()
        return None if row is None else row[0] in _ENDED and row[1] <= sequence

    def release_task(self, task_id: str) -> None:
        self._db.execute("UPDATE tasks SET worker = '' WHERE task_id = ? AND worker = ?", (task_id, HELD))

    def keep_task(self, task_id: str) -> None:
        """Do nothing: a file drops no tasks."""


def _conditions(where: Iterable[tuple[str, Any]]) -> tuple[str, list[Any]]:
    terms: list[str] = []
    values: list[Any] = []
    for name, wanted in where:
        if isinstance(wanted, frozenset):
            terms.append(f"{name} IN (SELECT value FROM json_each(?))")  # noqa: S608 -- names of fields only
            values.append(to_json(sorted(map(_plain, wanted))))
        elif isinstance(wanted, bool):
            terms.append(f"{name} = {int(wanted)}")  # written out, so that a partial index applies
        else:
            terms.append(f"{name} = ?")
            values.append(_plain(wanted))
    return " AND ".join(terms) or "true", values


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


# -- Claims --------------------------------------------------------------------------------------------------------------


def workers(kind: Kind[Any]) -> str:
    """Return the statement for the workers with unfinished records of a scope."""
    return f"SELECT DISTINCT worker FROM {kind.name} WHERE {kind.scope} = ? AND done = 0"  # noqa: S608 -- names of fields only


def claim(db: sqlite3.Connection, kind: Kind[R], scope: str, worker: str, dead: Iterable[str]) -> list[R]:
    """Assign the records of dead workers to `worker`, in order."""
    those = frozenset(dead)
    found = SQLiteRecords(db).select(kind, {kind.scope: scope, "done": False, "worker": those})
    set_worker(db, kind, scope, worker, those)
    mine = SQLiteRecords(db).get
    return [each for each in (mine(kind, *kind.key_of(record)) for record in found) if each is not None]


def set_worker(db: sqlite3.Connection, kind: Kind[Any], scope: str, worker: str, before: Iterable[str]) -> None:
    db.execute(
        f"UPDATE {kind.name} SET worker = ? WHERE {kind.scope} = ? AND done = 0 "  # noqa: S608 -- names of fields only
        "AND worker IN (SELECT value FROM json_each(?))",
        (worker, scope, to_json(sorted(before))),
    )
