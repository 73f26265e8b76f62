"""Which agents can be found by which key: sorted postings. Cards, leases and times are the directory's business."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from protolink_grpc.wire.registry import Key

Position = tuple[str, str]
"""Place of an agent in every list: name, then URL."""

# Enough to see a whole small registry, few enough to compare in about a millisecond.
_HINT_WINDOW = 50
_HINT_LENGTH = 128


class AgentIndex:
    """Postings per key, and one of all agents; each is a sorted list of positions."""

    def __init__(self) -> None:
        self._all: list[Position] = []
        self._postings: dict[Key, list[Position]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, position: Position, keys: Iterable[Key]) -> None:
        """Enter an agent that is not there."""
        insort(self._all, position)
        for key in keys:
            insort(self._postings.setdefault(key, []), position)

    def remove(self, position: Position, keys: Iterable[Key]) -> None:
        """Remove an agent that was added with the same position and keys."""
        _cut(self._all, position)
        for key in keys:
            posting = self._postings[key]
            _cut(posting, position)
            if not posting:
                del self._postings[key]

    def candidates(self, keys: frozenset[Key], after: Position | None = None) -> Iterator[Position]:
        """Positions behind `after`, ascending, of the rarest key: every agent with all keys is among them.

        The index must not change before the last one is taken.
        """
        posting = min((self._postings.get(key, []) for key in keys), key=len, default=self._all)
        start = bisect_right(posting, after) if after is not None else 0
        return (posting[index] for index in range(start, len(posting)))

    def nearest_name(self, name: str) -> str:
        """A name that may have been meant, or nothing; looks at alphabetical neighbours only."""
        middle = bisect_left(self._all, (name, ""))
        window = self._all[max(0, middle - _HINT_WINDOW) : middle + _HINT_WINDOW]
        found = get_close_matches(name[:_HINT_LENGTH], dict.fromkeys(each for each, _ in window), n=1)
        return found[0] if found else ""


def _cut(posting: list[Position], position: Position) -> None:
    del posting[bisect_left(posting, position)]
