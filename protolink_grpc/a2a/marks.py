"""How metadata carries what the other side's shape has no field for, so that every value comes back as it was.

Two keys are ours: `MARK` in A2A's metadata says what A2A's shape does not, `A2A_KEY` in our metadata what ours does not. Somebody
else may use either key for purposes of his own, so a value below them counts only where writing the other side anew gives exactly
what is there; anything else is a value like any other, and is kept under the opposite key. That makes writing and reading each
other's inverse for every value, not only for well-meant ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from protolink_grpc.a2a.values import A2A_KEY

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")

MARK: Final = "plgrpc"
"""The key of ours in the metadata of A2A's messages, parts and artifacts."""

Metadata = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pairing(Generic[Ours, Theirs]):
    """Two shapes of one value.

    Args:
        has_extras: `A2A_KEY` is in the metadata of ours.
        has_mark: `MARK` is in the metadata of theirs.
        show: Theirs of ours, with `A2A_KEY` as a value like any other.
        restore: Theirs of ours, with `A2A_KEY` as what A2A's own fields hold; None where it cannot be that.
        keep: Ours of theirs, with `MARK` as a value like any other.
        unmark: Ours of theirs, with `MARK` as what our fields hold; None where it cannot be that.
    """

    has_extras: Callable[[Ours], bool]
    has_mark: Callable[[Theirs], bool]
    show: Callable[[Ours], Theirs]
    restore: Callable[[Ours], Theirs | None]
    keep: Callable[[Theirs], Ours]
    unmark: Callable[[Theirs], Ours | None]

    def write(self, ours: Ours) -> Theirs:
        if self.has_extras(ours):
            restored = self.restore(ours)
            if restored is not None and self._reads_as(restored, ours):
                return restored
        return self.show(ours)

    def read(self, theirs: Theirs) -> Ours:
        if self.has_mark(theirs):
            found = self.unmark(theirs)
            if found is not None and self._writes_as(found, theirs):
                return found
        return self.keep(theirs)

    # Each asks whether the other direction would choose this very pair. A pair that confirms itself is chosen; otherwise the
    # question goes on with a value that has one mark less, so it comes to an end.

    def _reads_as(self, theirs: Theirs, ours: Ours) -> bool:
        if self.has_mark(theirs):
            found = self.unmark(theirs)
            if found == ours:
                return True
            if found is not None and self._writes_as(found, theirs):
                return False
        return self.keep(theirs) == ours

    def _writes_as(self, ours: Ours, theirs: Theirs) -> bool:
        if self.has_extras(ours):
            restored = self.restore(ours)
            if restored == theirs:
                return True
            if restored is not None and self._reads_as(restored, ours):
                return False
        return self.show(ours) == theirs


def shown(metadata: Metadata, facts: Metadata) -> Metadata:
    """Our metadata for A2A, with `facts` under the mark, and with what stands in the way of either key among them."""
    found = dict(metadata)
    facts = dict(facts)
    if MARK in found:
        facts["own"] = found.pop(MARK)
    if A2A_KEY in found:
        facts["a2a"] = found.pop(A2A_KEY)
    if facts:
        found[MARK] = facts
    return found


def kept(metadata: Metadata, extras: Metadata) -> Metadata:
    """A2A's metadata for us, with `extras` under A2A's key, and with what stands in the way of either key among them."""
    found = dict(metadata)
    extras = dict(extras)
    if A2A_KEY in found:
        extras["own"] = found.pop(A2A_KEY)
    if MARK in found:
        extras["plgrpc"] = found.pop(MARK)
    if extras:
        found[A2A_KEY] = extras
    return found


def restored(rest: Metadata, facts: Metadata, extras: Metadata) -> Metadata | None:
    """The inverse of `kept`: A2A's metadata of our `rest`, which lacks A2A's key, and of `extras`; None for a contradiction."""
    found = shown(rest, facts)
    if "own" in extras:
        found[A2A_KEY] = extras["own"]
    if "plgrpc" in extras:
        if MARK in found:
            return None
        found[MARK] = extras["plgrpc"]
    return found


def unmarked(rest: Metadata, extras: Metadata, facts: Metadata) -> Metadata | None:
    """The inverse of `shown`: our metadata of A2A's `rest`, which lacks the mark, and of `facts`; None for a contradiction."""
    found = kept(rest, extras)
    if "own" in facts:
        found[MARK] = facts["own"]
    if "a2a" in facts:
        if A2A_KEY in found:
            return None
        found[A2A_KEY] = facts["a2a"]
    return found
