"""Records in process memory, for several threads and event loops: each step takes microseconds under one lock."""

import threading
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from protolink_grpc.storage.records import Key, Kind, Records, Revisions, Where, values_getter

R = TypeVar("R")
T = TypeVar("T")

MAX_LOOSE = 20_000
"""Maximum number of records without a task, of kinds that are dropped with tasks: 10,000 new sessions have two each."""

NEAR_END = 16
"""How many records at the end of a list are compared before a binary search, and moved for one that comes before them."""


MANY = 256
"""Number of records of a scope from which on lists that an index of the kind selects do not compare all of them."""


@dataclass(slots=True)
class _Scope:
    """The records of one kind and scope.

    Attributes:
        by_key: In the order of the kind if `is_sorted`. Those of a watched kind are always in the order of their latest change.
        parts: By the fields of an index, for each combination of their values: the records that have them.
    """

    by_key: dict[Key, Any] = field(default_factory=dict)
    is_sorted: bool = True
    parts: "dict[tuple[str, ...], dict[Key, _Scope]] | None" = None


class MemoryRecords:
    """Implements `Records`; one transaction at a time.

    Args:
        is_finished, release_task, keep_task: As those of `Records`, for stores that have tasks.
    """

    def __init__(
        self,
        is_finished: Callable[[str, int], bool | None] = lambda task_id, sequence: None,
        release_task: Callable[[str], None] = lambda task_id: None,
        keep_task: Callable[[str], None] = lambda task_id: None,
    ) -> None:
        self._is_finished = is_finished
        self._release_task = release_task
        self._keep_task = keep_task
        self._lock = threading.RLock()
        self._scopes: defaultdict[tuple[str, Any], _Scope] = defaultdict(_Scope)
        self._of_tasks: dict[str, dict[tuple[str, Key], Kind[Any]]] = {}
        self._former: dict[tuple[str, Key], set[str]] = {}
        """For each record that was put with several tasks, those before the latest one."""
        self._loose: dict[tuple[str, Key], Kind[Any]] = {}
        """Records without a task, of kinds that are dropped with tasks; the most recently put one is last."""
        # Revisions start at the clock's microseconds, so that those of an earlier process are never mistaken for these.
        begin = time.time_ns() // 1_000
        self._revisions: defaultdict[tuple[str, str], Revisions] = defaultdict(lambda: Revisions(begin, begin))
        self._revisions_before: dict[tuple[str, str], Revisions] = {}
        self._changed: set[tuple[str, Any]] = set()
        self._undo: list[tuple[Kind[Any], Key, Any]] | None = None

    def view(self, query: Callable[[Records], T]) -> T:
        with self._lock:
            return query(self)

    def change(self, work: Callable[[Records], T]) -> T:
        """Run a transaction. Its changes are undone if it fails."""
        with self._lock:
            self._undo = []
            self._revisions_before = {}
            try:
                outcome = work(self)
            except BaseException:
                for kind, key, existing in reversed(self._undo):
                    self._restore(kind, key, existing)
                self._revisions |= self._revisions_before
                raise
            finally:
                self._undo = None
            while len(self._loose) > MAX_LOOSE:
                name_and_key, kind = next(iter(self._loose.items()))
                self._drop(kind, name_and_key[1])
            return outcome

    # -- Records ---------------------------------------------------------------------------------------------------------

    def get(self, kind: Kind[R], *key: object, whole: bool = False) -> R | None:
        scope = self._scopes.get((kind.name, key[0]))
        existing: R | None = None if scope is None else scope.by_key.get(key)
        return existing if existing is None or whole or not kind.lazy else _without_lazy_fields(kind, existing)

    def select(
        self, kind: Kind[R], where: Where, *, after: Key | None = None, limit: int | None = None, reverse: bool = False
    ) -> list[R]:
        existing = self._scopes.get((kind.name, where[kind.scope]))
        if existing is not None and len(existing.by_key) >= MANY and (names := _index_for(kind, where)):
            existing = _part_of(existing, names, where)
        if existing is None:
            return []
        position_of = kind.position_of
        if not existing.is_sorted and not kind.watched:
            existing.by_key = dict(sorted(existing.by_key.items(), key=lambda item: position_of(item[1])))
            existing.is_sorted = True
        found: Iterable[R]
        if existing.is_sorted and after is not None:
            found = (
                each for each in _sorted_after(existing.by_key, position_of, after, reverse) if _matches(each, where)
            )
        else:
            found = reversed(existing.by_key.values()) if reverse else existing.by_key.values()
            found = (each for each in found if _matches(each, where))
            if not existing.is_sorted:
                found = sorted(found, key=position_of, reverse=reverse)
            if after is not None and reverse:
                found = (each for each in found if position_of(each) < after)
            elif after is not None:
                found = (each for each in found if position_of(each) > after)
        return [_without_lazy_fields(kind, each) for each in islice(found, limit)]

    def put(self, kind: Kind[R], record: R) -> R:
        key = kind.key_of(record)
        scope = self._scopes[kind.name, key[0]]
        existing = scope.by_key.get(key)
        if existing is not None:
            record = record if kind.merge is None else kind.merge(existing, record)
            if kind.lazy:
                record = replace(record, **{name: getattr(existing, name) for name in kind.lazy})  # type: ignore[type-var]
        if kind.watched:
            revisions = self._revisions[kind.name, key[0]]
            self._revisions_before.setdefault((kind.name, key[0]), revisions)
            self._revisions[kind.name, key[0]] = replace(revisions, latest=revisions.latest + 1)
            record = replace(record, revision=revisions.latest + 1)  # type: ignore[type-var]  # a dataclass
        if kind.watched or kind.waited:
            self._changed.add((kind.name, key[0]))
        if existing is not None and kind.task:
            former = getattr(existing, kind.task)
            if former and former != getattr(record, kind.task):
                self._former.setdefault((kind.name, key), set()).add(former)
        self._set(kind, scope, key, existing, record)
        return _without_lazy_fields(kind, record) if kind.lazy else record

    def delete(self, kind: Kind[Any], *key: object) -> int:
        scope = self._scopes.get((kind.name, key[0]))
        if scope is None:
            return 0
        if len(key) == len(kind.key):
            keys = [key] if key in scope.by_key else []
        else:
            keys = [each for each in scope.by_key if each[: len(key)] == key]
        for each in keys:
            self._set(kind, scope, each, scope.by_key[each], None)
        if keys:
            self._note_change(kind, key[0])
        return len(keys)

    def revisions(self, kind: Kind[Any], scope: str) -> Revisions:
        return self._revisions[kind.name, scope]

    def changes(self, kind: Kind[R], scope: str, after: int, limit: int, *, where: Where, until: int = 0) -> list[R]:
        return [
            _without_lazy_fields(kind, each)
            for each in list(self._changes(kind, scope, after, where, until))[::-1][:limit]
        ]

    def _changes(self, kind: Kind[R], scope: str, after: int, where: Where, until: int) -> Iterator[R]:
        existing = self._scopes.get((kind.name, scope))
        for record in reversed(existing.by_key.values()) if existing is not None else ():
            if record.revision <= after:
                return
            if record.revision > until or _matches(record, where):
                yield record

    def is_finished(self, task_id: str, sequence: int) -> bool | None:
        return self._is_finished(task_id, sequence)

    def release_task(self, task_id: str) -> None:
        self._release_task(task_id)

    def keep_task(self, task_id: str) -> None:
        self._keep_task(task_id)

    def _note_change(self, kind: Kind[Any], scope: Any) -> None:
        if kind.watched or kind.waited:
            self._changed.add((kind.name, scope))

    # -- Changes ---------------------------------------------------------------------------------------------------------

    def _set(self, kind: Kind[Any], scope: _Scope, key: Key, existing: Any, record: Any) -> None:
        """Put a record into its scope in place of the existing one. None means that there is no such record."""
        if self._undo is not None:
            self._undo.append((kind, key, existing))
        _place(kind, scope, key, existing, record)
        if record is not None:
            if kind.task:
                task_id = getattr(record, kind.task)
                if existing is None or not task_id or task_id != getattr(existing, kind.task):
                    self._assign(kind, key, task_id)
            return
        if kind.task and existing is not None:
            for task_id in {getattr(existing, kind.task), *self._former.pop((kind.name, key), ())}:
                self._unassign(kind, key, task_id)
        if not scope.by_key:
            del self._scopes[kind.name, key[0]]

    def _assign(self, kind: Kind[Any], key: Key, task_id: str) -> None:
        name_and_key = (kind.name, key)
        if self._loose:
            self._loose.pop(name_and_key, None)
        if task_id:
            of_task = self._of_tasks.get(task_id)
            if of_task is None:
                of_task = self._of_tasks[task_id] = {}
            of_task[name_and_key] = kind
            if self._former and (former := self._former.get(name_and_key)) is not None:
                former.discard(task_id)
        elif not kind.watched:
            self._loose[name_and_key] = kind

    def _unassign(self, kind: Kind[Any], key: Key, task_id: str) -> None:
        self._loose.pop((kind.name, key), None)
        of_task = self._of_tasks.get(task_id, {})
        of_task.pop((kind.name, key), None)
        if not of_task:
            self._of_tasks.pop(task_id, None)

    def _restore(self, kind: Kind[Any], key: Key, existing: Any) -> None:
        undo, self._undo = self._undo, None
        scope = self._scopes[kind.name, key[0]]
        undone = scope.by_key.get(key)
        if kind.task and undone is not None and existing is not None:
            undone_task = getattr(undone, kind.task)
            if undone_task != getattr(existing, kind.task):
                self._unassign(kind, key, undone_task)
        self._set(kind, scope, key, undone, existing)
        self._undo = undo
        scope.is_sorted, scope.parts = False, None
        if kind.watched:
            scope.by_key = dict(sorted(scope.by_key.items(), key=lambda item: item[1].revision))

    # -- For the task store ----------------------------------------------------------------------------------------------

    def forget_task(self, task_id: str) -> None:
        """Remove the records of a task. Readers that have not read their changes must start again."""
        with self._lock:
            for (_, key), kind in list(self._of_tasks.pop(task_id, {}).items()):
                scope = self._scopes.get((kind.name, key[0]))
                record = None if scope is None else scope.by_key.get(key)
                if scope is None or record is None:
                    continue
                others = self._former.get((kind.name, key), set())
                others.discard(task_id)
                if getattr(record, kind.task) == task_id and others:
                    _place(kind, scope, key, record, replace(record, **{kind.task: others.pop()}))
                elif getattr(record, kind.task) == task_id:
                    self._drop(kind, key)

    def _drop(self, kind: Kind[Any], key: Key) -> None:
        """Remove a record, and those that are dropped with it."""
        scope = self._scopes[kind.name, key[0]]
        record = scope.by_key[key]
        if kind.watched:
            revisions = self._revisions[kind.name, key[0]]
            self._revisions[kind.name, key[0]] = replace(revisions, first=max(revisions.first, record.revision))
        self._set(kind, scope, key, record, None)
        self._note_change(kind, key[0])
        for each, field_name in kind.drops:
            self.delete(each, getattr(record, field_name))

    def take_changed(self) -> set[tuple[str, Any]]:
        """Return the kinds and scopes that have changed since the last call."""
        with self._lock:
            changed, self._changed = self._changed, set()
            return changed

    def claim(self, kind: Kind[R], scope: str, worker: str) -> list[R]:
        """Assign all unfinished records to the only worker."""
        free = [each for each in self.select(kind, {kind.scope: scope, "done": False}) if _worker(each) != worker]
        return [self._give(kind, each, worker) for each in free]

    def release(self, kind: Kind[Any], scope: str) -> None:
        for each in self.select(kind, {kind.scope: scope, "done": False}):
            self._give(kind, each, "")

    def _give(self, kind: Kind[R], record: R, worker: str) -> R:
        given: R = replace(record, worker=worker)  # type: ignore[type-var]  # a dataclass
        key = kind.key_of(record)
        scope = self._scopes[kind.name, key[0]]
        self._set(kind, scope, key, scope.by_key.get(key), given)
        return given


def _place(kind: Kind[Any], scope: _Scope, key: Key, existing: Any, record: Any) -> None:
    """Put a record into a scope and its parts, in place of the existing one. None means that there is no such record."""
    by_key = scope.by_key
    if record is None:
        by_key.pop(key, None)
    elif (
        existing is not None
        and not kind.watched
        and (not kind.order or kind.position_of(existing) == kind.position_of(record))
    ):
        by_key[key] = record
    else:
        if existing is not None:
            del by_key[key]  # the most recently changed one is last
        later = _take_later(kind, scope, record) if by_key and scope.is_sorted else ()
        by_key[key] = record
        if later:
            by_key.update(later)
    for names, parts in scope.parts.items() if scope.parts else ():
        read = values_getter(names)
        before = None if existing is None else read(existing)
        after = None if record is None else read(record)
        if before is not None and before != after:
            _place(kind, parts[before], key, existing, None)
            if not parts[before].by_key:
                del parts[before]
        if after is not None:
            _place(kind, parts.setdefault(after, _Scope()), key, existing if before == after else None, record)


def _take_later(kind: Kind[Any], scope: _Scope, record: Any) -> list[tuple[Key, Any]]:
    """Remove the records of a sorted scope that follow a new one in the order of the kind, and return them in order.

    If there are more than `NEAR_END`, or the kind is watched, none is removed, and the scope is not sorted any more.
    """
    position = kind.position_of(record)
    later: list[tuple[Key, Any]] = []
    for key, each in reversed(scope.by_key.items()):
        if kind.position_of(each) < position:
            break
        if kind.watched or len(later) == NEAR_END:
            scope.is_sorted = False
            return []
        later.append((key, each))
    for key, _ in later:
        del scope.by_key[key]
    return later[::-1]


def _index_for(kind: Kind[Any], where: Where) -> tuple[str, ...]:
    """Return the fields of an index by which a list selects; empty if none fits."""
    order = kind.order or kind.key
    for index in kind.indexes:
        names = index[: -len(order)] if index[-len(order) :] == order else index
        if len(names) > 1 and len(names) == len(where) and all(name in where for name in names):
            return () if kind.watched or any(isinstance(each, frozenset) for each in where.values()) else names
    return ()


def _part_of(scope: _Scope, names: tuple[str, ...], where: Where) -> _Scope | None:
    """Return the records of a scope with the given values. Their part is created when it is needed first."""
    if scope.parts is None:
        scope.parts = {}
    parts = scope.parts.get(names)
    if parts is None:
        parts = scope.parts[names] = {}
        read = values_getter(names)
        for key, record in scope.by_key.items():
            part = parts.setdefault(read(record), _Scope(is_sorted=scope.is_sorted))
            part.by_key[key] = record
    return parts.get(tuple(where[name] for name in names))


def _sorted_after(
    records: dict[Key, R],
    position_of: Callable[[R], Key],
    after: Key,
    reverse: bool,
) -> Iterator[R]:
    """Yield sorted records after a position. Readers usually want the last few of many."""
    if not reverse:
        last: list[R] = []
        for record in islice(reversed(records.values()), NEAR_END):
            if position_of(record) <= after:
                yield from reversed(last)
                return
            last.append(record)
    keys = list(records)  # much faster than a comparison of all positions

    def position(key: Key) -> Key:
        return position_of(records[key])

    if reverse:
        found: Iterable[Key] = reversed(keys[: bisect_left(keys, after, key=position)])
    else:
        found = keys[bisect_right(keys, after, key=position) :]
    yield from map(records.__getitem__, found)


def _worker(record: Any) -> str:
    worker: str = record.worker
    return worker


def _without_lazy_fields(kind: Kind[R], record: R) -> R:
    """Return the record without its lazy fields."""
    if not kind.lazy:
        return record
    empty = dict.fromkeys(kind.lazy, b"")
    return replace(record, **empty)  # type: ignore[type-var]  # a dataclass


def _matches(record: Any, where: Where) -> bool:
    for name, wanted in where.items():
        value = getattr(record, name)
        if not (value in wanted if isinstance(wanted, frozenset) else value == wanted):
            return False
    return True
