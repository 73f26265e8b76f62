"""Tasks that wait for their next turn, kept as they are: a turn need not read its log again. What is dropped is read anew."""

from collections import OrderedDict

from protolink_grpc.runtime.live import LiveTask


class WarmTasks:
    """The latest of them.

    Args:
        tasks: How many at most.
        items: How many messages and artifacts they may have together.
    """

    def __init__(self, tasks: int, items: int) -> None:
        self._tasks = tasks
        self._items = items
        self._warm: OrderedDict[str, LiveTask] = OrderedDict()
        self._count = 0

    def get(self, task_id: str) -> LiveTask | None:
        return self._warm.get(task_id)

    def keep(self, live: LiveTask) -> None:
        task_id = live.fold.task_id
        self.forget(task_id)
        self._warm[task_id] = live
        self._count += _items(live)
        while len(self._warm) > self._tasks or self._count > self._items:
            self.forget(next(iter(self._warm)))

    def forget(self, task_id: str) -> None:
        if self._warm.pop(task_id, None) is not None:
            # Counted anew: a task may have grown since it was kept.
            self._count = sum(_items(each) for each in self._warm.values())

    def clear(self) -> None:
        self._warm.clear()
        self._count = 0


def _items(live: LiveTask) -> int:
    return len(live.fold.messages) + len(live.fold.artifacts) + 1
