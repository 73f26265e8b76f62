"""Records in process memory, for several threads and event loops: each step takes microseconds under one lock."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from protolink_grpc.storage.records import Key, Kind, Records, Revisions, Where

R = TypeVar("R")
T = TypeVar("T")


@dataclass(slots=True)
class _Scope:
    """The records of one kind and scope.

    Attributes:
        by_key: In the order of their latest change.
        is_sorted: Whether that is also the order of the kind.
    """

    by_key: dict[Key, Any] = field(default_factory=dict)
    is_sorted: bool = True


class MemoryRecords:
    """Implements `Records`; one transaction at a time.

    Args:
        is_finished, release_task: As those of `Records`, for stores that have tasks.
    """

    def __init__(
        self,
        is_finished: Callable[[str, int], bool | None] = lambda task_id, sequence: None,
        release_task: Callable[[str], None] = lambda task_id: None,
    ) -> None:
        self._is_finished = is_finished
        self._release_task = release_task
        self._lock = threading.RLock()
        self._scopes: defaultdict[tuple[str, Any], _Scope] = defaultdict(_Scope)
        self._of_tasks: dict[str, dict[tuple[str, Key], Kind[Any]]] = {}
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
                return work(self)
            except BaseException:
                for kind, key, existing in reversed(self._undo):
                    self._restore(kind, key, existing)
                self._revisions |= self._revisions_before
                raise
            finally:
                self._undo = None

    # -- Records ---------------------------------------------------------------------------------------------------------

    def get(self, kind: Kind[R], *key: object, whole: bool = False) -> R | None:
        scope = self._scopes.get((kind.name, key[0]))
        existing: R | None = None if scope is None else scope.by_key.get(key)
        return existing if existing is None or whole else _without_lazy_fields(kind, existing)

    def select(
        self, kind: Kind[R], where: Where, *, after: Key | None = None, limit: int | None = None, reverse: bool = False
    ) -> list[R]:
        existing = self._scopes.get((kind.name, where[kind.scope]))
        if existing is None:
            return []
        position_of = kind.position_of
        found: Iterable[R] = reversed(existing.by_key.values()) if reverse else existing.by_key.values()
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
            record = replace(record, **{name: getattr(existing, name) for name in kind.lazy})  # type: ignore[type-var]
        if kind.watched:
            revisions = self._revisions[kind.name, key[0]]
            self._revisions_before.setdefault((kind.name, key[0]), revisions)
            self._revisions[kind.name, key[0]] = replace(revisions, latest=revisions.latest + 1)
            self._changed.add((kind.name, key[0]))
            record = replace(record, revision=revisions.latest + 1)  # type: ignore[type-var]  # a dataclass
        elif kind.waited:
            self._changed.add((kind.name, key[0]))
        self._set(kind, key, record)
        return _without_lazy_fields(kind, record)

    def delete(self, kind: Kind[Any], *key: object) -> int:
        scope = self._scopes.get((kind.name, key[0]))
        if scope is None:
            return 0
        whole = len(key) == len(kind.key)
        keys = [each for each in ([key] if whole else scope.by_key) if each in scope.by_key and each[: len(key)] == key]
        for each in keys:
            self._set(kind, each, None)
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

    # -- Changes ---------------------------------------------------------------------------------------------------------

    def _set(self, kind: Kind[Any], key: Key, record: Any) -> None:
        scope = self._scopes[kind.name, key[0]]
        existing = scope.by_key.get(key)
        if self._undo is not None:
            self._undo.append((kind, key, existing))
        if record is not None:
            if kind.watched:
                scope.by_key.pop(key, None)  # the most recently changed one is last
            self._check_order(kind, scope, existing, record)
            scope.by_key[key] = record
            if kind.task:
                self._of_tasks.setdefault(getattr(record, kind.task), {})[kind.name, key] = kind
            return
        scope.by_key.pop(key, None)
        if kind.task and existing is not None:
            of_task = self._of_tasks.get(getattr(existing, kind.task), {})
            of_task.pop((kind.name, key), None)
            if not of_task:
                self._of_tasks.pop(getattr(existing, kind.task), None)
        if not scope.by_key:
            del self._scopes[kind.name, key[0]]

    @staticmethod
    def _check_order(kind: Kind[Any], scope: _Scope, existing: Any, record: Any) -> None:
        """Check whether the order of changes is still the order of the kind."""
        if not scope.is_sorted or not scope.by_key:
            return
        position = kind.position_of(record)
        if existing is not None and not kind.watched:
            scope.is_sorted = position == kind.position_of(existing)
        else:
            scope.is_sorted = kind.position_of(scope.by_key[next(reversed(scope.by_key))]) < position

    def _restore(self, kind: Kind[Any], key: Key, existing: Any) -> None:
        undo, self._undo = self._undo, None
        self._set(kind, key, existing)
        self._undo = undo
        scope = self._scopes.get((kind.name, key[0]))
        if scope is not None:
            scope.is_sorted = False
            if kind.watched:
                scope.by_key = dict(sorted(scope.by_key.items(), key=lambda item: item[1].revision))

    # -- For the task store ----------------------------------------------------------------------------------------------

    def forget_task(self, task_id: str) -> None:
        """Remove the records of a task. Readers that have not read their changes must start again."""
        with self._lock:
            for (_, key), kind in list(self._of_tasks.pop(task_id, {}).items()):
                if kind.watched:
                    revisions = self._revisions[kind.name, key[0]]
                    gone = self._scopes[kind.name, key[0]].by_key[key].revision
                    self._revisions[kind.name, key[0]] = replace(revisions, first=max(revisions.first, gone))
                self._set(kind, key, None)

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
        self._set(kind, kind.key_of(record), given)
        return given


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
