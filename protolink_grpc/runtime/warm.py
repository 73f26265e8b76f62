"""Tasks that wait for their next turn, kept in memory: a turn need not read its log again. What is dropped is read anew."""

from collections import OrderedDict
from math import ceil

from protolink_grpc.runtime.live import LiveTask


class WarmTasks:
    """A bounded LRU map of tasks.

    A principal that is over its share loses its own tasks, least recently used first; all principals together lose the least
    recently used of all.

    Args:
        tasks: How many at most.
        max_bytes: Encoded bytes of these tasks together.
        principal_share: Part of both bounds that one principal may take.
    """

    def __init__(self, tasks: int, max_bytes: int, principal_share: float = 1.0) -> None:
        self._all = _Bounded(tasks, max_bytes)
        self._share = (ceil(tasks * principal_share), ceil(max_bytes * principal_share))
        self._of: dict[str, _Bounded] = {}

    @property
    def size(self) -> int:
        """Encoded bytes of all of them, as they were when they were kept."""
        return self._all.size

    def get(self, task_id: str) -> LiveTask | None:
        return self._all.tasks.get(task_id)

    def keep(self, live: LiveTask) -> None:
        """Keep a task, the most recently used one now. One that is larger than its principal's share is not kept."""
        task_id, principal = live.fold.task_id, live.fold.principal
        self.forget(task_id)
        own = self._of.get(principal)
        if own is None:
            own = self._of[principal] = _Bounded(*self._share)
        own.put(live)
        self._all.put(live)
        while own.is_full:
            self.forget(own.oldest)
        while self._all.is_full:
            self.forget(self._all.oldest)

    def forget(self, task_id: str) -> None:
        live = self._all.pop(task_id)
        if live is not None:
            own = self._of[live.fold.principal]
            own.pop(task_id)
            if not own.tasks:
                del self._of[live.fold.principal]

    def clear(self) -> None:
        self._all.clear()
        self._of.clear()


class _Bounded:
    """Tasks in the order in which they were kept, with the bytes that each had then: it may grow meanwhile."""

    def __init__(self, most: int, max_bytes: int) -> None:
        self.tasks: OrderedDict[str, LiveTask] = OrderedDict()
        self.size = 0
        self._sizes: dict[str, int] = {}
        self._most = most
        self._max_bytes = max_bytes

    @property
    def is_full(self) -> bool:
        return len(self.tasks) > self._most or self.size > self._max_bytes

    @property
    def oldest(self) -> str:
        return next(iter(self.tasks))

    def put(self, live: LiveTask) -> None:
        self.tasks[live.fold.task_id] = live
        self._sizes[live.fold.task_id] = live.size
        self.size += live.size

    def pop(self, task_id: str) -> LiveTask | None:
        self.size -= self._sizes.pop(task_id, 0)
        return self.tasks.pop(task_id, None)

    def clear(self) -> None:
        self.tasks.clear()
        self._sizes.clear()
        self.size = 0
