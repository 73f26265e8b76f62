"""Records: kinds of small rows, declared once and kept by every store. What a kind means lives with its declaration.

A kind is a dataclass, the fields of its key, and what else the store must know: an index, whether readers watch its changes,
whether workers claim its records. Each store derives the rest: a table in SQLite, dictionaries in memory.
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
"""Conditions on fields: equal to a value, or one of a frozenset of values. They name the scope, unless a file has one owner."""


@dataclass(frozen=True)
class Kind(Generic[R]):
    """The declaration of one kind of record.

    Args:
        record: A dataclass. Its fields are str, int, float, bool, bytes or enums of str.
        name: Of the kind, and of its table. Never changed.
        key: Fields that identify a record. The first is its scope: what a list, a watch or a claim is about.
        order: Fields that sort a list, and the cursor of a page; the last ones make it unique. Empty: `key`.
        indexes: Further combinations of fields that lists select and sort by.
        lazy: Large fields. They are written once, and read only by `get(..., whole=True)`.
        task: Field with the id of the task that a record belongs to: a store that forgets the task forgets the record. Empty: none.
        watched: Changes are ordered by revision within a scope, and readers can wait for the next one. The dataclass has a field
            `revision`, set by the store.
        claimed: Each record has one worker, and another one once that is dead. The dataclass has the fields `worker`, empty for
            none, and `done`, for records that need no worker any more.
        merge: For a put of a record that exists: the record to keep, from the known and the new one. It may refuse with a
            ProtolinkError. None: the new one.
    """

    record: type[R]
    name: str
    key: tuple[str, ...]
    order: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    lazy: tuple[str, ...] = ()
    task: str = ""
    watched: bool = False
    claimed: bool = False
    merge: Callable[[R, R], R] | None = None

    @property
    def scope(self) -> str:
        return self.key[0]

    @cached_property
    def columns(self) -> tuple[tuple[str, type], ...]:
        """Names and types of the fields, in their order."""
        hints = get_type_hints(self.record)
        return tuple((each.name, hints[each.name]) for each in fields(self.record))  # type: ignore[arg-type]  # a dataclass

    @cached_property
    def key_of(self) -> Callable[[R], Key]:
        return values_getter(self.key)

    @cached_property
    def position_of(self) -> Callable[[R], Key]:
        """Where a record is in a list: the cursor of a page that ends with it."""
        return values_getter(self.order or self.key)

    @cached_property
    def enums(self) -> dict[int, type[Enum]]:
        """Fields that are enums, by their place."""
        return {place: kind for place, (_, kind) in enumerate(self.columns) if issubclass(kind, Enum)}


def values_getter(names: Sequence[str]) -> Callable[[Any], Key]:
    """The values of some fields as a tuple."""
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda record: (one(record),)
    return attrgetter(*names)


@dataclass(frozen=True, slots=True)
class Put:
    """A record to keep with an append, in the place of the one with the same key."""

    kind: Kind[Any]
    record: Any


@dataclass(frozen=True, slots=True)
class Revisions:
    """Which changes of a scope a store knows.

    Args:
        first: A reader that knows the changes up to here, or later, can be told all that it misses. At least 1, and by the clock:
            no revision of an earlier store is taken for one of this store.
        latest: Of the latest change; `first` where there was none.
    """

    first: int
    latest: int


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Records in order, and the cursor of the next page or None."""

    records: list[R] = field(default_factory=list)
    next: Key | None = None


class Records(Protocol):
    """The records as one transaction sees and changes them. Two implementations; each verb blocks its thread for one statement."""

    def get(self, kind: Kind[R], *key: object, whole: bool = False) -> R | None:
        """One record, None for an unknown one. With `whole` its lazy fields are read."""

    def select(
        self, kind: Kind[R], where: Where, *, after: Key | None = None, limit: int | None = None, reverse: bool = False
    ) -> list[R]:
        """Records that match, in the order of the kind or its reverse, behind the position `after`."""

    def put(self, kind: Kind[R], record: R) -> R:
        """Keep a record; as it is kept."""

    def delete(self, kind: Kind[Any], *key: object) -> int:
        """Delete the record with that key, or all whose key begins with it; how many there were."""

    def revisions(self, kind: Kind[Any], scope: str) -> Revisions:
        """Which changes of a watched kind are known."""

    def changes(self, kind: Kind[R], scope: str, after: int, limit: int, *, where: Where, until: int = 0) -> list[R]:
        """Records of a watched kind as they are now whose latest change has a revision > `after`, ascending by it.

        Those up to revision `until` only where they match: a reader that begins at `until` gets what matches then, and every change
        from there.
        """

    def is_finished(self, task_id: str, sequence: int) -> bool | None:
        """Whether a task is terminal and its log has no event after `sequence`; None for an unknown task. Nothing is appended
        to the task before the transaction ends."""


def put_all(records: Records, puts: Sequence[Put]) -> None:
    for each in puts:
        records.put(each.kind, each.record)


def page_of(kind: Kind[R], found: list[R], size: int) -> Page[R]:
    """The first `size` of what was found with a limit of `size + 1`."""
    shown = found[:size]
    return Page(shown, kind.position_of(shown[-1]) if len(found) > len(shown) else None)


T = TypeVar("T")


class RecordStore(Protocol):
    """Where records are kept. `view` and `change` take a function over `Records`, which a store runs where its connection is: it
    must not touch the event loop, and may be run again when a transaction has to be repeated."""

    async def view(self, query: Callable[[Records], T]) -> T:
        """Read at one moment.

        Raises:
            StoreError: The store cannot be read.
        """

    async def change(self, work: Callable[[Records], T]) -> T:
        """Read and write in one transaction, all or nothing; kept when this returns, also when the caller is canceled meanwhile.

        Raises:
            ProtolinkError: Raised by `work`; nothing was done.
            StoreError: Disk full, read-only, or gone; nothing was done.
        """

    async def wait_change(self, kind: Kind[Any], scope: str, after: int) -> None:
        """Return as soon as there is a change with a revision > `after`. May return early; the caller looks and waits again."""

    async def claim(self, kind: Kind[R], scope: str) -> list[R]:
        """Take the records that are not done and whose worker is dead or missing, in order. Two workers never get the same one."""

    async def release_claims(self, kind: Kind[Any], scope: str) -> None:
        """Give up the records that this worker has: others may claim them at once."""
