"""A bounded map that drops the least recently used entry."""

from collections import OrderedDict
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LRUMap(Generic[Value]):
    """A map of the `most` most recently used keys to their values."""

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int) -> None:
        self._kept: OrderedDict[str, Value] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def get(self, key: str) -> Value | None:
        """Return the value of a key and mark it as used, or return None."""
        value = self._kept.get(key)
        if value is not None:
            self._kept.move_to_end(key)
        return value

    def put(self, key: str, value: Value) -> None:
        """Set a value. If there are too many, the least recently used one is dropped."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def pop(self, key: str) -> Value | None:
        """Remove a key. Returns its value, or None."""
        return self._kept.pop(key, None)
