"""The tasks of one agent as one process sees them: tasks that run here, tasks kept in memory between two turns, and the store."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import ceil

from protolink_grpc.errors import TaskAlreadyRunningError, TaskNotFoundError
from protolink_grpc.models.clock import Clock
from protolink_grpc.runtime.log import NO_OBSERVERS, AppendObservers, LiveTask
from protolink_grpc.runtime.run import Run
from protolink_grpc.storage.port import Deleted, TaskHead, TaskStore, require_ended
from protolink_grpc.storage.records import Records

DELETED_AT_ONCE = 500
"""Maximum number of tasks that one transaction deletes: the store accepts no other writes during that time."""

END_WAIT_S = 5.0
"""How long a deletion waits for a run that has recorded the end of its task, in seconds."""


class Tasks:
    """Finds a task in memory first, then in the store. Used from one event loop.

    Args:
        warm: The tasks kept in memory between two turns.
        observers: Called with each append of this process to a log.
        is_lease_held: Whether no other process can have taken the runs of this process.

    Attributes:
        runs: The runs of this process, by task id.
        on_released: Called with the id of a held task that may start.
    """

    def __init__(
        self,
        agent_name: str,
        store: TaskStore,
        *,
        clock: Clock,
        warm: "WarmTasks",
        observers: AppendObservers = NO_OBSERVERS,
        is_lease_held: Callable[[], bool],
    ) -> None:
        self.agent_name = agent_name
        self.store = store
        self.clock = clock
        self.warm = warm
        self.runs: dict[str, Run] = {}
        self._by_run_id: dict[str, Run] = {}
        self._observers = observers
        self._is_lease_held = is_lease_held
        self.on_released: Callable[[str], None] = lambda task_id: None

    # -- runs ------------------------------------------------------------------------------------------------------------

    def add(self, run: Run) -> None:
        self.runs[run.task_id] = run
        self._by_run_id[run.run_id] = run

    def remove(self, run: Run) -> bool:
        """Remove an ended run. Returns False if a later run of the same task has replaced it."""
        if self._by_run_id.get(run.run_id) is run:  # callers may give two tasks one run id
            del self._by_run_id[run.run_id]
        if self.runs.get(run.task_id) is not run:
            return False
        del self.runs[run.task_id]
        return True

    def run_by_id(self, run_id: str) -> Run | None:
        return self._by_run_id.get(run_id)

    @property
    def active_task_ids(self) -> list[str]:
        """Ids of tasks that run or wait for a slot in this process and are already in the store."""
        return [task_id for task_id, run in self.runs.items() if run.live.fold.sequence]

    def own_run(self, task_id: str, principal: str) -> Run | None:
        """Return the task's run in this process if the task is the principal's.

        The tasks of others are treated as those that do not exist, so that response times do not tell them apart. And another
        principal may open a run under the same id, which the store is about to refuse: it must not hide the principal's own task.
        """
        run = self.runs.get(task_id)
        return None if run is None or run.live.fold.principal != principal else run

    def visible_run(self, task_id: str, principal: str) -> Run | None:
        """Return the task's run as `own_run`, unless another process has taken the task."""
        run = self.own_run(task_id, principal)
        return None if run is None or run.is_taken else run

    async def confirmed_run(self, task_id: str) -> Run | None:
        """Return the task's run in this process; None if there is none, or if another process has taken the task.

        While the lease is held the store is not read.

        Raises:
            StoreError: The store cannot be read.
        """
        run = self.runs.get(task_id)
        if run is None or not run.live.fold.sequence:
            return run
        if not self._is_lease_held():
            await run.confirm()
        return None if run.is_taken else run

    async def confirm_runs(self) -> None:
        """Interrupt the runs whose tasks other processes have taken. Raises StoreError if the store cannot be read."""
        found = [self.confirmed_run(task_id) for task_id in self.runs]
        for outcome in await asyncio.gather(*found, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    # -- tasks -----------------------------------------------------------------------------------------------------------

    def new(self, task_id: str) -> LiveTask:
        """Return a task without events."""
        return LiveTask(
            task_id,
            agent_name=self.agent_name,
            store=self.store,
            clock=self.clock,
            observers=self._observers,
            released=self.on_released,
        )

    async def head(self, task_id: str, principal: str) -> TaskHead:
        """Return the head of a principal's task. Raises TaskNotFoundError if the task is unknown or another principal's."""
        head = await self.store.head(task_id)
        if head is None or head.principal != principal or head.agent_name != self.agent_name:
            raise not_found_error(task_id)
        return head

    async def get(self, task_id: str, principal: str) -> LiveTask:
        """Return a principal's task. Raises TaskNotFoundError as `head`."""
        return await self.load(await self.head(task_id, principal))

    async def load(self, head: TaskHead) -> LiveTask:
        """Return the task of a head, from memory if it is kept there."""
        warm = self.warm.get(head.task_id)
        if warm is None:
            return await self.read(head)
        if warm.fold.is_terminal:
            self.warm.forget(head.task_id)  # kept for one read after the end of its stream
        if warm.fold.sequence > head.sequence:
            return await self.read(head)  # another process has deleted the task, and then it was sent again
        if warm.fold.sequence != head.sequence or warm.epoch != head.epoch:
            await warm.refresh()
        return warm

    def may_be_retried(self, task_id: str) -> bool:
        """Return whether a task has been retried; true if it does not run here, because then only its log has that."""
        run = self.runs.get(task_id)
        return run is None or not run.is_accepted or run.live.fold.retries > 0

    async def read(self, head: TaskHead) -> LiveTask:
        """Return the task of a head, from the store."""
        live = self.new(head.task_id)
        await live.refresh()
        return live

    async def delete(
        self, task_ids: Sequence[str], principal: str, *, records: Callable[[Records], None] | None = None
    ) -> Deleted:
        """Delete a principal's tasks that have ended. Tasks that do not exist, or belong to another principal, are skipped.

        Up to `DELETED_AT_ONCE` tasks are deleted together. After a crash in between, some tasks are deleted and the others are
        unchanged; the deletion can be repeated.

        Args:
            records: Called in the transaction that deletes the last tasks: see `LogStore.delete`.

        Raises:
            TaskAlreadyRunningError: A task has not ended. Nothing has changed.
            ProtolinkError: Raised by `records`.
            StoreError: The store failed.
        """
        found = await self._own_heads(task_ids, principal)
        for head in found:
            require_ended(head)
            await self._require_end_of_run(head)
        ids = [head.task_id for head in found]
        cut = (len(ids) - 1) // DELETED_AT_ONCE * DELETED_AT_ONCE if ids else 0
        tasks = events = 0
        for first in range(0, cut + 1, DELETED_AT_ONCE):
            some = ids[first : first + DELETED_AT_ONCE]
            deleted = await self.store.delete(some, records=records if first == cut else None)
            for task_id in some:
                self.warm.forget(task_id)
            tasks, events = tasks + deleted.tasks, events + deleted.events
        return Deleted(tasks, events)

    async def _own_heads(self, task_ids: Sequence[str], principal: str) -> list[TaskHead]:
        ids, found = list(dict.fromkeys(task_ids)), list[TaskHead | None]()
        for first in range(0, len(ids), DELETED_AT_ONCE):
            found += await asyncio.gather(*map(self.store.head, ids[first : first + DELETED_AT_ONCE]))
        return [
            head
            for head in found
            if head is not None and head.principal == principal and head.agent_name == self.agent_name
        ]

    async def _require_end_of_run(self, head: TaskHead) -> None:
        """Wait for the end of the run of an ended task: its last event is stored before the run itself has ended."""
        run = self.runs.get(head.task_id)
        if run is None or not run.live.fold.sequence:
            return
        if not await run.wait_ended(END_WAIT_S):
            raise TaskAlreadyRunningError(f"a run of task {head.task_id} is still stopping", task_id=head.task_id)

    async def find(self, task_id: str) -> LiveTask:
        """Return a task of any principal: that of its run if there is one. Raises TaskNotFoundError if the task is unknown."""
        run = await self.confirmed_run(task_id)
        if run is not None and run.live.fold.sequence:
            return run.live
        head = await self.store.head(task_id)
        if head is None:
            raise not_found_error(task_id)
        return await self.load(head)


def not_found_error(task_id: str) -> TaskNotFoundError:
    return TaskNotFoundError(f"task {task_id} not found", task_id=task_id)


class WarmTasks:
    """A bounded LRU map of tasks.

    A principal that is over its share loses its own tasks, least recently used first; all principals together lose the least
    recently used of all.

    Args:
        tasks: Maximum number of tasks.
        max_bytes: Maximum encoded bytes of these tasks.
        principal_share: Part of both bounds that one principal may use.
    """

    def __init__(self, tasks: int, max_bytes: int, principal_share: float = 1.0) -> None:
        self._all = _Bounded(tasks, max_bytes)
        self._share = (ceil(tasks * principal_share), ceil(max_bytes * principal_share))
        self._of: dict[str, _Bounded] = {}

    @property
    def size(self) -> int:
        """Encoded bytes of all tasks, measured when each was added."""
        return self._all.size

    def get(self, task_id: str) -> LiveTask | None:
        return self._all.tasks.get(task_id)

    def keep(self, live: LiveTask) -> None:
        """Add a task as the most recently used one. A task that is larger than its principal's share is not kept."""
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
    """Tasks in the order of their addition, with the size that each had then, because a task may grow later."""

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
