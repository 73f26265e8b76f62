"""An index from keys to agents: sorted posting lists."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from protolink_grpc.wire.registry import Key

Position = tuple[str, str]
"""Sort position of an agent: name, then URL."""

# Enough to contain a whole small registry, few enough to compare in about a millisecond.
_HINT_WINDOW = 50
_HINT_LENGTH = 128


class AgentIndex:
    """A sorted list of positions for each key, and one of all agents."""

    def __init__(self) -> None:
        self._all: list[Position] = []
        self._postings: dict[Key, list[Position]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, position: Position, keys: Iterable[Key]) -> None:
        """Add an agent that is not in the index."""
        insort(self._all, position)
        for key in keys:
            insort(self._postings.setdefault(key, []), position)

    def remove(self, position: Position, keys: Iterable[Key]) -> None:
        """Remove an agent that was added with the same position and keys."""
        _delete(self._all, position)
        for key in keys:
            posting = self._postings[key]
            _delete(posting, position)
            if not posting:
                del self._postings[key]

    def candidates(self, keys: frozenset[Key], after: Position | None = None) -> Iterator[Position]:
        """Yield the positions after `after`, ascending, of the rarest key. They include every agent with all keys.

        The index must not change during the iteration.
        """
        posting = min((self._postings.get(key, []) for key in keys), key=len, default=self._all)
        start = bisect_right(posting, after) if after is not None else 0
        return (posting[index] for index in range(start, len(posting)))

    def nearest_name(self, name: str) -> str:
        """The most similar name among the alphabetical neighbors; empty if none is similar."""
        middle = bisect_left(self._all, (name, ""))
        window = self._all[max(0, middle - _HINT_WINDOW) : middle + _HINT_WINDOW]
        found = get_close_matches(name[:_HINT_LENGTH], dict.fromkeys(each for each, _ in window), n=1)
        return found[0] if found else ""


def _delete(posting: list[Position], position: Position) -> None:
    del posting[bisect_left(posting, position)]
