"""A map that forgets: what was used last stays."""

from collections import OrderedDict
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The latest values by key, at most `most` of them."""

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int) -> None:
        self._kept: OrderedDict[str, Value] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def get(self, key: str) -> Value | None:
        """The value of that key, which counts as used; None where there is none, or none any more."""
        value = self._kept.get(key)
        if value is not None:
            self._kept.move_to_end(key)
        return value

    def keep(self, key: str, value: Value) -> None:
        """Remember; the one that was used longest ago is forgotten where there are too many."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def drop(self, key: str) -> Value | None:
        """Forget that key; its value."""
        return self._kept.pop(key, None)
