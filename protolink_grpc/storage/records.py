"""Records: small rows of declared kinds, which every store supports.

A kind is declared by a dataclass, the fields of its key, and options such as indexes, watched changes and claims by workers. Each
store derives the rest: a table in SQLite, dictionaries in memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar, get_type_hints

R = TypeVar("R")
Key = tuple[Any, ...]
Where = Mapping[str, object]
"""Conditions on fields: a value, or a frozenset of values. They include the scope, unless a file has a single owner."""


class TaskIds(Protocol):
    """The ids by which the records of a task are found."""

    task_id: str
    principal: str
    agent_name: str
    session_id: str


@dataclass(frozen=True, eq=False)  # a constant: a hash of all fields for each use would cost more than some statements
class Kind(Generic[R]):
    """The declaration of one kind of record.

    Args:
        record: A dataclass. Its fields are str, int, float, bool, bytes or enums of str.
        name: Name of the kind and of its table. It must never change.
        key: Fields that identify a record. The first one is the scope of lists, watches and claims.
        order: Fields that sort a list and form the cursor of a page; together they are unique. Empty means `key`.
        indexes: Further combinations of fields by which lists are selected and sorted. New ones come last: existing files get them.
        lazy: Large fields. They are written once and read only by `get(..., whole=True)`.
        task: Field with the id of the task that a record belongs to: the record is dropped with the task. A record that was put
            with several tasks is dropped with the last of them. Empty means none.
        home: Returns the first fields of the keys of a task's records, so that a deletion finds them without reading all records.
            Required if the kind has a task, unless its records are also dropped with those of another kind.
        drops: Kinds whose records are dropped with a record, each with the field that is their scope. A record that was put with
            several tasks has one in these kinds for each of its tasks.
        watched: Whether changes are ordered by revision within a scope, and readers can wait for them. The dataclass has a field
            `revision`, set by the store.
        waited: Whether readers can wait for changes within a scope (`RecordStore.wait_until`). Always true for watched kinds.
        claimed: Whether each record has one live worker. The dataclass has the fields `worker` (empty for none) and `done` (for
            records that need no worker any more).
        hot: Most transactions get and put a few of these records again and again: a store may keep them in memory, and write each
            of them once per transaction. Such a kind has no other options but `order`, `indexes` and those of its drop.
        merge: Called for a put of an existing record with the existing and the new one. It returns the record to store, or raises a
            ProtolinkError to refuse. None stores the new one.
    """

    record: type[R]
    name: str
    key: tuple[str, ...]
    order: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    lazy: tuple[str, ...] = ()
    task: str = ""
    home: "Callable[[TaskIds], Key] | None" = None
    drops: "tuple[tuple[Kind[Any], str], ...]" = ()
    watched: bool = False
    waited: bool = False
    claimed: bool = False
    hot: bool = False
    merge: Callable[[R, R], R] | None = None

    @property
    def scope(self) -> str:
        return self.key[0]

    @cached_property
    def columns(self) -> tuple[tuple[str, type], ...]:
        """Names and types of the fields, in order."""
        hints = get_type_hints(self.record)
        return tuple((each.name, hints[each.name]) for each in fields(self.record))  # type: ignore[arg-type]  # a dataclass

    @cached_property
    def key_of(self) -> Callable[[R], Key]:
        return values_getter(self.key)

    @cached_property
    def position_of(self) -> Callable[[R], Key]:
        """The position of a record in a list: the cursor of a page that ends with it."""
        return values_getter(self.order or self.key)

    @cached_property
    def enums(self) -> dict[int, type[Enum]]:
        """The enum fields, by their index."""
        return {place: kind for place, (_, kind) in enumerate(self.columns) if issubclass(kind, Enum)}


def values_getter(names: Sequence[str]) -> Callable[[Any], Key]:
    """Return a function that reads some fields as a tuple."""
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda record: (one(record),)
    return attrgetter(*names)


@dataclass(frozen=True, slots=True)
class Put:
    """A record to store with an append. It replaces the one with the same key."""

    kind: Kind[Any]
    record: Any


@dataclass(frozen=True, slots=True)
class Revisions:
    """The range of revisions of a scope that a store knows.

    Args:
        first: A reader at this revision or later can receive all changes that it has not read. At least 1, and derived from the
            clock, so that revisions of an earlier store are never mistaken for those of this one.
        latest: Revision of the latest change, or `first` if there was none.
    """

    first: int
    latest: int


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Records in order, and the cursor of the next page or None."""

    records: list[R] = field(default_factory=list)
    next: Key | None = None


class Records(Protocol):
    """The records within one transaction. Each method blocks its thread for one statement."""

    def get(self, kind: Kind[R], *key: object, whole: bool = False) -> R | None:
        """Return one record, or None. With `whole` its lazy fields are read."""

    def select(
        self, kind: Kind[R], where: Where, *, after: Key | None = None, limit: int | None = None, reverse: bool = False
    ) -> list[R]:
        """Return matching records after the position `after`, in the order of the kind or its reverse."""

    def put(self, kind: Kind[R], record: R) -> R:
        """Store a record. Returns the stored record."""

    def delete(self, kind: Kind[Any], *key: object) -> int:
        """Delete the record with that key, or all records whose key begins with it. Returns their number."""

    def revisions(self, kind: Kind[Any], scope: str) -> Revisions:
        """Return the range of known revisions of a watched kind."""

    def changes(self, kind: Kind[R], scope: str, after: int, limit: int, *, where: Where, until: int = 0) -> list[R]:
        """Return the current records of a watched kind whose latest change has a revision > `after`, ascending by revision.

        Those up to revision `until` are included only if they match: a reader that starts at `until` gets the matching records
        first, then every change.
        """

    def is_finished(self, task_id: str, sequence: int) -> bool | None:
        """Return whether a task is terminal and its log has no event after `sequence`, or None for an unknown task.

        Nothing is appended to the task before the transaction ends."""

    def release_task(self, task_id: str) -> None:
        """Let any worker take a held task: see `HELD`."""

    def keep_task(self, task_id: str) -> None:
        """Do not drop a task before its next append, because other tasks wait for its end."""


def put_all(records: Records, puts: Sequence[Put]) -> None:
    for each in puts:
        records.put(each.kind, each.record)


def page_of(kind: Kind[R], found: list[R], size: int) -> Page[R]:
    """Build a page of `size` records from a result with a limit of `size + 1`."""
    shown = found[:size]
    return Page(shown, kind.position_of(shown[-1]) if len(found) > len(shown) else None)


T = TypeVar("T")


class RecordStore(Protocol):
    """A store of records. `view` and `change` take a function over `Records`, which runs in a thread of the store.

    The function must not use the event loop, and may be called again if the transaction has to be repeated."""

    async def view(self, query: Callable[[Records], T]) -> T:
        """Run a read transaction.

        Raises:
            StoreError: The store cannot be read.
        """

    async def change(self, work: Callable[[Records], T]) -> T:
        """Run a write transaction. It is committed when this returns, and also if the caller is canceled meanwhile.

        Raises:
            ProtolinkError: Raised by `work`. Nothing has changed.
            StoreError: The disk is full, read-only or gone. Nothing has changed.
        """

    async def wait_change(self, kind: Kind[Any], scope: str, after: int) -> None:
        """Wait for a change with a revision > `after`. May return early; the caller then reads and waits again."""

    async def wait_until(self, kind: Kind[Any], scope: Any, is_changed: Callable[[Records], bool]) -> None:
        """Wait for a change of a waited kind within a scope, unless `is_changed` returns true. May return early."""

    async def claim(self, kind: Kind[R], scope: str) -> list[R]:
        """Claim the unfinished records whose worker is dead or missing, in order. Two workers never get the same one."""

    async def release_claims(self, kind: Kind[Any], scope: str) -> None:
        """Give up this worker's records. Others may claim them at once."""
