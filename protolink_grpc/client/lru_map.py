"""A bounded map that drops the least recently used entry."""

from collections import OrderedDict
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LRUMap(Generic[Value]):
    """A map with at most `max_entries` entries, the most recently used ones."""

    __slots__ = ("_entries", "_max_entries")

    def __init__(self, max_entries: int) -> None:
        self._entries: OrderedDict[str, Value] = OrderedDict()
        self._max_entries = max_entries

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def get(self, key: str) -> Value | None:
        """Return the value of a key and mark it as used, or return None."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: str, value: Value) -> None:
        """Set a value. If there are too many, the least recently used one is dropped."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def pop(self, key: str) -> Value | None:
        """Remove a key. Returns its value, or None."""
        return self._entries.pop(key, None)
