"""The latest events of active tasks in memory, so that a live reader needs no query."""

from collections import OrderedDict
from collections.abc import Sequence

TAIL_TASKS, TAIL_EVENTS = 1024, 512
"""Limits: the number of tasks, and the number of events of each."""


class Tails:
    """The last events of each log that this process appends to."""

    def __init__(self) -> None:
        self._tails: OrderedDict[str, tuple[int, list[bytes]]] = OrderedDict()

    def add(self, task_id: str, expected_sequence: int, events: Sequence[bytes]) -> None:
        """Add events that were committed after `expected_sequence`. Earlier ones are dropped unless they end there."""
        tail = self._tails.get(task_id)
        if tail is None or tail[0] + len(tail[1]) - 1 != expected_sequence:
            self._tails[task_id] = (expected_sequence + 1, list(events))
            if len(self._tails) > TAIL_TASKS:
                self._tails.popitem(last=False)
            return
        first, frames = tail
        frames.extend(events)
        if len(frames) > 2 * TAIL_EVENTS:
            cut = len(frames) - TAIL_EVENTS
            self._tails[task_id] = (first + cut, frames[cut:])
        self._tails.move_to_end(task_id)

    def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        """Return the events after a position, or none if the store must be read."""
        tail = self._tails.get(task_id)
        if tail is None or after + 1 < tail[0]:
            return []
        start = after + 1 - tail[0]
        return tail[1][start : start + limit]

    def end(self, task_id: str) -> int:
        """Return the sequence of the latest event in memory, or 0."""
        tail = self._tails.get(task_id)
        return 0 if tail is None else tail[0] + len(tail[1]) - 1

    def drop(self, task_id: str) -> None:
        self._tails.pop(task_id, None)

    def clear(self) -> None:
        self._tails.clear()
