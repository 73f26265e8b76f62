"""The latest events of active tasks in memory, so that a live reader costs no query. What is on disk is not known here."""

from collections import OrderedDict
from collections.abc import Sequence

TAIL_TASKS, TAIL_EVENTS = 1024, 512
"""Of how many tasks, and how many of each."""


class Tails:
    """The end of each log that this process appends to. A task that is not among them has no end here, not an empty one."""

    def __init__(self) -> None:
        self._tails: OrderedDict[str, tuple[int, list[bytes]]] = OrderedDict()

    def add(self, task_id: str, expected_sequence: int, events: Sequence[bytes]) -> None:
        """Events that were committed after `expected_sequence`; what is known from before goes unless it ends there."""
        known = self._tails.get(task_id)
        if known is None or known[0] + len(known[1]) - 1 != expected_sequence:
            self._tails[task_id] = (expected_sequence + 1, list(events))
            if len(self._tails) > TAIL_TASKS:
                self._tails.popitem(last=False)
            return
        first, frames = known
        frames.extend(events)
        if len(frames) > 2 * TAIL_EVENTS:
            cut = len(frames) - TAIL_EVENTS
            self._tails[task_id] = (first + cut, frames[cut:])
        self._tails.move_to_end(task_id)

    def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        """Events after a position; none where the store must be asked, which may know more."""
        known = self._tails.get(task_id)
        if known is None or after + 1 < known[0]:
            return []
        start = after + 1 - known[0]
        return known[1][start : start + limit]

    def end(self, task_id: str) -> int:
        """Sequence of the latest event that is known, 0 where none is."""
        known = self._tails.get(task_id)
        return 0 if known is None else known[0] + len(known[1]) - 1

    def drop(self, task_id: str) -> None:
        self._tails.pop(task_id, None)

    def clear(self) -> None:
        self._tails.clear()
