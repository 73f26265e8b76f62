"""The task store in memory: fast, of limited size, and not durable."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from protolink_grpc.errors import LeaseLostError, SequenceConflictError, TaskNotFoundError
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState, is_terminal
from protolink_grpc.storage.memory_records import MemoryRecords
from protolink_grpc.storage.port import (
    HELD,
    Append,
    CommitTotals,
    Deleted,
    ForeignListener,
    RequestRecord,
    TaskHead,
    TaskPage,
    TaskQuery,
    limit_bytes,
    require_ended,
)
from protolink_grpc.storage.records import Kind, Records, put_all
from protolink_grpc.storage.waiters import Waiters

R = TypeVar("R")
T = TypeVar("T")


@dataclass(slots=True)
class _Entry:
    head: TaskHead
    events: list[bytes] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)
    size: int = 0
    rank: int = 0
    is_kept: bool = False


@dataclass(slots=True)
class _TaskGroup:
    """The tasks of one principal, or all tasks.

    Attributes:
        size: Encoded bytes of their events.
        by_change: All of them, the most recently changed one last.
        forgettable: Those that may be dropped, by their rank in `_RANKS`, oldest first.
    """

    size: int = 0
    by_change: OrderedDict[str, None] = field(default_factory=OrderedDict)
    forgettable: tuple[OrderedDict[str, None], ...] = field(
        default_factory=lambda: tuple(OrderedDict() for _ in range(3))
    )

    def oldest(self) -> str | None:
        """Return the id of the task to drop first."""
        for ranked in self.forgettable:
            if ranked:
                return next(iter(ranked))
        return None


class MemoryStore:
    """Logs in process memory, up to a limit.

    Beyond a limit, tasks are dropped, the least recently changed ones first: those that have ended, then those that wait for input.
    Submitted and working tasks are never dropped, nor is a task that waits for input if turns in its thread's queue wait for it. A
    dropped task is TASK_NOT_FOUND, and repeating its request starts a new task. A principal that uses more than half of a limit
    loses its own tasks first.

    Args:
        max_tasks: Maximum number of tasks.
        max_bytes: Maximum of the encoded bytes of their events.
    """

    durable = False
    shared = False

    @checks_arguments
    def __init__(self, *, max_tasks: int = 50_000, max_bytes: int = 256 << 20) -> None:
        self.worker = ""
        self.runtime_id = ""
        self.listeners: list[ForeignListener] = []
        self._max_tasks = max_tasks
        self._max_bytes = max_bytes
        self.commits = CommitTotals()
        self._entries: dict[str, _Entry] = {}
        # Lists read one principal's tasks, which are almost in the right order.
        self._owned: dict[str, _TaskGroup] = {}
        self._all = _TaskGroup()
        self._requests: dict[tuple[str, str, str], RequestRecord] = {}
        self._records = MemoryRecords(self._is_finished, self._release_task, self._keep_task)
        self._waiters = Waiters()
        self._change_waiters = Waiters()

    async def open(self) -> None:
        self.worker = self.worker or new_uuid()
        self.runtime_id = self.runtime_id or new_uuid()

    async def close(self) -> None:
        self._waiters.wake_all()
        self._change_waiters.wake_all()

    async def append(self, append: Append) -> RequestRecord | None:
        head = append.head
        if append.request_id:
            existing = self._requests.get((head.agent_name, head.principal, append.request_id))
            if existing is not None:
                return existing
        entry = self._entries.get(head.task_id)
        self._check_fence(entry, append)
        before = None if entry is None else entry.head
        if entry is None:
            entry = self._entries[head.task_id] = _Entry(head)
        entry.is_kept = False
        if before is not None and head.epoch == before.epoch and head.worker != before.worker:
            head = replace(head, worker=before.worker)  # the task was released since the caller read it
        entry.head = head  # before the records, which may release the task
        changes_records = bool(append.records) or append.session is not None or append.within is not None
        if changes_records:
            try:
                self._records.change(partial(_change_records, append))
            except BaseException:
                if before is None:
                    del self._entries[head.task_id]
                else:
                    entry.head = before
                raise
        entry.events.extend(append.events)
        size = sum(map(len, append.events))
        entry.size += size
        if append.request_id:
            key = (head.agent_name, head.principal, append.request_id)
            self._requests[key] = RequestRecord(head.task_id, append.expected_sequence)
            entry.request_ids.append(append.request_id)
        owned = self._owned.get(head.principal)
        if owned is None:
            owned = self._owned[head.principal] = _TaskGroup()
        owned.size += size
        self._all.size += size
        owned.by_change[head.task_id] = None
        owned.by_change.move_to_end(head.task_id)
        if entry.rank:
            del owned.forgettable[entry.rank][head.task_id], self._all.forgettable[entry.rank][head.task_id]
            entry.rank = 0
        # Before the task itself may be dropped, because those that wait for its end must still find it.
        if len(self._entries) > self._max_tasks or self._all.size > self._max_bytes:
            self._make_room(owned)
        entry.rank = rank = 0 if entry.is_kept else _RANKS.get(head.state, 0)
        if rank:
            owned.forgettable[rank][head.task_id] = self._all.forgettable[rank][head.task_id] = None
        self._waiters.wake(head.task_id)
        if changes_records:
            self._wake_watchers()
        if append.committed is not None:
            append.committed()
        return None

    @staticmethod
    def _check_fence(entry: _Entry | None, append: Append) -> None:
        if entry is None:
            if append.expected_sequence:
                raise TaskNotFoundError(f"task {append.head.task_id} is not in the store", task_id=append.head.task_id)
            return
        if append.expected_sequence and entry.head.epoch != append.expected_epoch:
            raise LeaseLostError("another worker runs this task", task_id=append.head.task_id)
        if entry.head.sequence != append.expected_sequence:
            raise SequenceConflictError("another writer appended to this task first", task_id=append.head.task_id)

    def _is_finished(self, task_id: str, sequence: int) -> bool | None:
        entry = self._entries.get(task_id)
        return None if entry is None else is_terminal(entry.head.state) and entry.head.sequence <= sequence

    def _release_task(self, task_id: str) -> None:
        entry = self._entries.get(task_id)
        if entry is not None and entry.head.worker == HELD:
            entry.head = replace(entry.head, worker="")

    def _keep_task(self, task_id: str) -> None:
        entry = self._entries.get(task_id)
        if entry is None:
            return
        entry.is_kept = True
        if entry.rank:
            for each in (self._owned[entry.head.principal], self._all):
                del each.forgettable[entry.rank][task_id]
            entry.rank = 0

    def _make_room(self, owned: _TaskGroup) -> None:
        while len(self._entries) > self._max_tasks or self._all.size > self._max_bytes:
            has_most = len(owned.by_change) > self._max_tasks / 2 or owned.size > self._max_bytes / 2
            oldest = (owned.oldest() if has_most else None) or self._all.oldest()
            if oldest is None:
                return
            self._forget(oldest)

    def _forget(self, task_id: str) -> None:
        entry = self._entries.pop(task_id)
        head = entry.head
        self._records.forget_task(task_id)
        owned = self._owned[head.principal]
        del owned.by_change[task_id]
        for each in (owned, self._all):
            each.size -= entry.size
            each.forgettable[entry.rank].pop(task_id, None)  # a task that is kept is not there
        if not owned.by_change:
            del self._owned[head.principal]
        for request_id in entry.request_ids:
            del self._requests[head.agent_name, head.principal, request_id]
        self._waiters.wake(task_id)

    async def delete(self, task_ids: Sequence[str], *, records: Callable[[Records], None] | None = None) -> Deleted:
        heads = [self._entries[task_id].head for task_id in dict.fromkeys(task_ids) if task_id in self._entries]
        for head in heads:
            require_ended(head)
        if records is not None:
            self._records.change(records)
        for head in heads:
            self._forget(head.task_id)
        self._wake_watchers()
        return Deleted(len(heads), sum(head.sequence for head in heads))

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        entry = self._entries.get(task_id)
        if entry is None:
            return []
        return limit_bytes(entry.events[after : after + limit])

    async def wait(self, task_id: str, after: int) -> None:
        entry = self._entries.get(task_id)
        if entry is None and after:
            await asyncio.sleep(0)  # a caller that reads and waits in a loop must not block the others
        elif entry is None or entry.head.sequence <= after:
            await self._waiters.wait(task_id)

    async def head(self, task_id: str) -> TaskHead | None:
        entry = self._entries.get(task_id)
        return entry.head if entry is not None else None

    async def heads(self, task_ids: Collection[str]) -> dict[str, TaskHead]:
        return {task_id: self._entries[task_id].head for task_id in task_ids if task_id in self._entries}

    async def find(self, query: TaskQuery) -> TaskPage:
        # Clock values can repeat and go back, so a cursor needs the sorted order.
        matches = sorted(self._matches(query), key=_position, reverse=True)
        rest = matches
        if query.after is not None:
            rest = [head for head in matches if _position(head) < query.after]
        heads = rest[: query.page_size]
        more = len(rest) > len(heads)
        total = len(matches) if query.include_total else None
        return TaskPage(heads, _position(heads[-1]) if more else None, total)

    def _matches(self, query: TaskQuery) -> Iterator[TaskHead]:
        owned = self._owned.get(query.principal)
        for task_id in reversed(owned.by_change) if owned is not None else ():
            head = self._entries[task_id].head
            if (
                head.agent_name == query.agent_name
                and (not query.states or head.state in query.states)
                and (not query.session_id or head.session_id == query.session_id)
                and head.update_micros > query.updated_after_micros
            ):
                yield head

    async def request(self, agent_name: str, principal: str, request_id: str) -> RequestRecord | None:
        return self._requests.get((agent_name, principal, request_id))

    # -- Records ---------------------------------------------------------------------------------------------------------

    async def view(self, query: Callable[[Records], T]) -> T:
        return self._records.view(query)

    async def change(self, work: Callable[[Records], T]) -> T:
        outcome = self._records.change(work)
        self._wake_watchers()
        return outcome

    def _wake_watchers(self) -> None:
        for scope in self._records.take_changed():
            self._change_waiters.wake(scope)

    async def wait_change(self, kind: Kind[Any], scope: str, after: int) -> None:
        await self.wait_until(kind, scope, lambda records: records.revisions(kind, scope).latest > after)

    async def wait_until(self, kind: Kind[Any], scope: Any, is_changed: Callable[[Records], bool]) -> None:
        if not self._records.view(is_changed):
            await self._change_waiters.wait((kind.name, scope))

    async def claim(self, kind: Kind[R], scope: str) -> list[R]:
        return self._records.change(lambda _: self._records.claim(kind, scope, self.worker))

    async def release_claims(self, kind: Kind[Any], scope: str) -> None:
        self._records.change(lambda _: self._records.release(kind, scope))

    # -- Leases ----------------------------------------------------------------------------------------------------------

    async def heartbeat(self, ttl_s: float) -> None:
        """Do nothing: a worker in memory exists as long as its data."""

    async def release(self, task_ids: Sequence[str], *, to: str = "") -> None:
        """Do nothing, because there are no other workers."""

    async def orphans(self, agent_name: str) -> list[TaskHead]:
        """Return the tasks that have left the queue of their session while no service could start them."""
        heads = [entry.head for entry in self._entries.values()]
        return [head for head in heads if head.agent_name == agent_name and _is_released(head)]


def _change_records(append: Append, records: Records) -> None:
    if append.session is not None:
        append.session.check(records)
    put_all(records, append.records)
    if append.session is not None:
        append.session.write(records)
    if append.within is not None:
        append.within(records)


def _is_released(head: TaskHead) -> bool:
    return not head.worker and head.state is TaskState.SUBMITTED


_RANKS = dict.fromkeys(TERMINAL, 1) | dict.fromkeys(INTERRUPTED, 2)
"""The order in which tasks are dropped, by state: ended ones, then those that wait for input. Rank 0 is never dropped."""


def _position(head: TaskHead) -> tuple[int, str]:
    return head.update_micros, head.task_id
