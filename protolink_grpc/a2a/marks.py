"""Lossless conversion of metadata: values that the other form has no field for are stored in its metadata.

This package uses two keys. `MARK` in A2A metadata holds facts of this package that A2A has no field for; `A2A_KEY` in our metadata
holds A2A values that our models have no field for. Other systems may use the same keys for another purpose. So a value under such a
key is interpreted only if converting the result back gives exactly the original; any other value is treated as ordinary metadata
and stored under the opposite key. This makes writing and reading inverse to each other for every value, even for a hostile one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from protolink_grpc.a2a.values import A2A_KEY

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")

MARK: Final = "plgrpc"
"""The key of this package in the metadata of A2A messages, parts and artifacts."""

Metadata = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pairing(Generic[Ours, Theirs]):
    """Two forms of one value: `Ours`, of this package, and `Theirs`, of A2A.

    Args:
        has_extras: Returns whether `A2A_KEY` is in the metadata of `Ours`.
        has_mark: Returns whether `MARK` is in the metadata of `Theirs`.
        show: Converts `Ours` to `Theirs`, with `A2A_KEY` as ordinary metadata.
        restore: Converts `Ours` to `Theirs`, with `A2A_KEY` as the source of A2A's own fields; None if it cannot be that.
        keep: Converts `Theirs` to `Ours`, with `MARK` as ordinary metadata.
        unmark: Converts `Theirs` to `Ours`, with `MARK` as the source of our own fields; None if it cannot be that.
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

    # Each function checks whether the other direction would choose this pair. A pair that converts back to itself is chosen;
    # otherwise the check recurses with a value that has one key less, so it terminates.

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


def show(metadata: Metadata, facts: Metadata) -> Metadata:
    """Return our metadata for A2A, with `facts` under `MARK`. Existing values of either key are moved into the facts."""
    found = dict(metadata)
    facts = dict(facts)
    if MARK in found:
        facts["own"] = found.pop(MARK)
    if A2A_KEY in found:
        facts["a2a"] = found.pop(A2A_KEY)
    if facts:
        found[MARK] = facts
    return found


def keep(metadata: Metadata, extras: Metadata) -> Metadata:
    """Return A2A metadata for us, with `extras` under `A2A_KEY`. Existing values of either key are moved into the extras."""
    found = dict(metadata)
    extras = dict(extras)
    if A2A_KEY in found:
        extras["own"] = found.pop(A2A_KEY)
    if MARK in found:
        extras["plgrpc"] = found.pop(MARK)
    if extras:
        found[A2A_KEY] = extras
    return found


def restore(rest: Metadata, facts: Metadata, extras: Metadata) -> Metadata | None:
    """Return A2A's metadata from our metadata without `A2A_KEY` (`rest`) and from `extras`; None if they contradict each other.

    The inverse of `keep`.
    """
    found = show(rest, facts)
    if "own" in extras:
        found[A2A_KEY] = extras["own"]
    if "plgrpc" in extras:
        if MARK in found:
            return None
        found[MARK] = extras["plgrpc"]
    return found


def unmark(rest: Metadata, extras: Metadata, facts: Metadata) -> Metadata | None:
    """Return our metadata from A2A's metadata without `MARK` (`rest`) and from `facts`; None if they contradict each other.

    The inverse of `show`.
    """
    found = keep(rest, extras)
    if "own" in facts:
        found[MARK] = facts["own"]
    if "a2a" in facts:
        if A2A_KEY in found:
            return None
        found[A2A_KEY] = facts["a2a"]
    return found
