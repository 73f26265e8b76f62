"""The port of the task store: what the runtime asks of it, and the values that cross it. No SQL and no policy live here.

A store keeps, per task, a head (one row) and a log (framed events, sequence 1..n), an index of the approvals that are asked for
in them, and how far each push config has been told of them. It is used from one event loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from protolink_grpc.errors import InvalidArgumentError, TaskNotFoundError
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.models.lifecycle import TaskState


# Not frozen, though nobody changes one: a frozen one costs three times as much to make, twice a request.
@dataclass(slots=True)
class TaskHead:
    """What is known about a task without reading its log. A value: never changed once made.

    Args:
        session_id: A name among the principal's own: that of another one is another session.
        sequence: Sequence of the last event.
        worker: Store session that runs the task, empty when nobody does.
        epoch: Grows by one whenever a worker takes the task.
        messages, artifacts: How many the task has.
        reason: Why it failed, was rejected or canceled.
    """

    task_id: str
    principal: str
    agent_name: str
    session_id: str
    state: TaskState
    sequence: int
    run_id: str
    create_micros: int
    update_micros: int
    worker: str = ""
    epoch: int = 0
    messages: int = 0
    artifacts: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Where the first request with an id went: the task, and the log's last sequence before it."""

    task_id: str
    after_sequence: int


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """Where an approval stands, what it asks, and where in its task's log its question and answer are.

    Args:
        principal: Owner of the task.
        create_micros: When it was asked for.
        ask_sequence: Event that asks.
        answer_sequence: Event that answers, or ends the task; 0 while it is pending.
        revision: Position among all changes of the agent's approvals, ascending. Set by the store.
        record: The encoded approval as it was asked for, in the append that asks. Empty in other rows: see `approval_record`.
    """

    request_id: str
    agent_name: str
    principal: str
    task_id: str
    state: ApprovalState
    create_micros: int
    ask_sequence: int
    answer_sequence: int = 0
    revision: int = 0
    record: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ApprovalRevisions:
    """Which changes of an agent's approvals a store knows.

    Args:
        first: A reader that is informed up to here, or later, can be told all that it misses. At least 1, and by the clock: no
            revision of an earlier store is taken for one of this store.
        latest: Of the latest change; `first` where there was none.
    """

    first: int
    latest: int


@dataclass(frozen=True, slots=True)
class PushRow:
    """A reader of one task's log with a durable position: what must be pushed somewhere else, and how far that has come.

    Args:
        principal: Owner of the task.
        body: What to push to; opaque to the store. It may hold credentials, so it is not shown.
        cursor: Sequence of the last event that was dealt with.
        worker: Store session that pushes, empty when nobody does.
        done: The task is terminal and the cursor at its end: nothing will ever be due again. Set by the store.
    """

    agent_name: str
    principal: str
    task_id: str
    config_id: str
    body: bytes = field(repr=False)
    cursor: int
    create_micros: int
    worker: str = ""
    done: bool = False


@dataclass(slots=True)
class Append:
    """One atomic addition to one log.

    Args:
        head: The head as it is after the append.
        events: Framed events, ascending sequence, the first being `expected_sequence + 1`. Never empty.
        expected_sequence: Sequence that the log must end with; 0 creates the task.
        expected_epoch: Epoch that the head must have; one less than `head.epoch` takes the task over.
        request_id: Recorded with the head's agent and principal in the same step; empty records nothing.
        approvals: Those that the events ask for, answer or withdraw, as they are afterwards.
    """

    head: TaskHead
    events: list[bytes]
    expected_sequence: int
    expected_epoch: int
    request_id: str = ""
    approvals: Sequence[ApprovalRow] = ()


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """Which heads to list, last changed first. Empty filters match all; `after` is the cursor of the page before.

    Args:
        include_total: Count all matches, too, which costs time where they are many.
    """

    principal: str
    agent_name: str
    states: frozenset[TaskState] = frozenset()
    session_id: str = ""
    updated_after_micros: int = 0
    page_size: int = 50
    after: tuple[int, str] | None = None
    include_total: bool = False


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Heads in order, the cursor of the next page or None, and the number of matches on all pages; None: it was not asked for."""

    heads: list[TaskHead] = field(default_factory=list)
    next: tuple[int, str] | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class ApprovalQuery:
    """Which approvals of an agent to list, oldest first. Empty filters match all; `after` is the cursor of the page before.

    Args:
        principal: Owner of their tasks; None means everybody.
    """

    agent_name: str = ""
    principal: str | None = None
    states: frozenset[ApprovalState] = frozenset()
    task_id: str = ""
    page_size: int = 50
    after: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRows:
    """Rows in order, and the cursor of the next page or None."""

    rows: list[ApprovalRow] = field(default_factory=list)
    next: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class ForeignListener:
    """Interest in other processes' appends: to which tasks, asked again and again, and whom to tell."""

    task_ids: Callable[[], list[str]]
    appended: Callable[[str], None]


class TaskStore(Protocol):
    """Logs, heads and request ids. Two implementations: `MemoryStore`, `SQLiteStore`."""

    durable: bool
    """Whether an acknowledged append survives the process and the machine."""

    shared: bool
    """Whether other processes may append to the same logs."""

    worker: str
    """Identity of this opened store among all that share the data; empty before `open`."""

    listeners: "list[ForeignListener]"
    """Who is told when another process appends to a task that runs here. Only asked by shared stores."""

    async def open(self) -> None:
        """Make ready. Several agents may open one store; each closes it once.

        Raises:
            StoreError: It cannot be opened; a subclass says why.
        """

    async def close(self) -> None:
        """Finish what was accepted and let go, once everybody who opened it has closed it. It can be opened again."""

    async def append(self, append: Append) -> RequestRecord | None:
        """Add events to a log, all or none, and wake its readers after the commit.

        The append happens also when the caller is canceled while it waits.

        Returns:
            None when it was done; where `request_id` is known already, its record, and nothing was done.

        Raises:
            SequenceConflictError: The log ends elsewhere: somebody else appended, or created the task.
            LeaseLostError: The epoch differs: another worker has the task.
            TaskNotFoundError: There is no such task and `expected_sequence` is not 0.
            InvalidArgumentError: It asks for an approval under the request id of another one.
            StoreError: Disk full, read-only, or gone; nothing was done.
        """

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        """Framed events with sequence > `after`, at most `limit`, about 1 MiB; empty at the end or for an unknown task."""

    async def wait(self, task_id: str, after: int) -> None:
        """Return as soon as the log has a sequence > `after`. May return early; the caller reads and asks again."""

    async def head(self, task_id: str) -> TaskHead | None:
        """The head, None for an unknown task."""

    async def find(self, query: TaskQuery) -> TaskPage:
        """One page of heads."""

    async def approval(self, agent_name: str, request_id: str) -> ApprovalRow | None:
        """One approval, None for an unknown one."""

    async def approval_record(self, agent_name: str, request_id: str) -> bytes:
        """What was put as the record of an approval, empty for an unknown one."""

    async def approvals(self, query: ApprovalQuery) -> ApprovalRows:
        """One page of approvals."""

    async def approval_revisions(self, agent_name: str) -> ApprovalRevisions:
        """Which changes are known. Revisions survive what the tasks survive."""

    async def changed_approvals(
        self, agent_name: str, after: int, limit: int, *, pending_until: int = 0
    ) -> list[ApprovalRow]:
        """Approvals as they are now whose latest change has a revision > `after`, ascending by it, at most `limit`.

        Those up to `pending_until` only while they are pending: a reader that begins with the revision of that moment gets what
        waits, then what changes.
        """

    async def wait_approvals(self, agent_name: str, after: int) -> None:
        """Return as soon as there is a change with a revision > `after`. May return early; the caller looks and asks again."""

    async def put_push(self, row: PushRow) -> PushRow:
        """Keep a row. Of one with the same agent, task and config id only the body is replaced, and a worker set where it has none.

        Returns:
            The row as it is kept.

        Raises:
            TaskNotFoundError: There is no such task.
        """

    async def push(self, agent_name: str, task_id: str, config_id: str) -> PushRow | None:
        """One row, None for an unknown one."""

    async def pushes(
        self, agent_name: str, task_id: str, *, after: tuple[int, str] | None = None, limit: int = 100
    ) -> list[PushRow]:
        """Rows of a task, oldest first, at most `limit`; `after` is creation time and config id of the last one seen."""

    async def delete_push(self, agent_name: str, task_id: str, config_id: str) -> bool:
        """Forget a row; whether there was one."""

    async def advance_push(self, row: PushRow, cursor: int) -> PushRow | None:
        """Move the cursor of a row of this worker forward.

        Returns:
            The row as it is then; None where it is gone or another worker's: then nothing was done.
        """

    async def claim_pushes(self, agent_name: str) -> list[PushRow]:
        """Take the rows that are not done and whose worker is dead or nobody, oldest first. Two workers never get the same one."""

    async def release_pushes(self, agent_name: str) -> None:
        """Give up the rows that this worker has: others may claim them at once."""

    async def request(self, agent_name: str, principal: str, request_id: str) -> RequestRecord | None:
        """The record of an earlier request to that agent, None when there is none."""

    async def heartbeat(self, ttl_s: float) -> None:
        """Keep this worker alive for `ttl_s` seconds more."""

    async def release(self, task_ids: Sequence[str], *, to: str = "") -> None:
        """Give up tasks that this worker has: they are orphans at once. Those of other workers stay theirs, while these are listed.

        Args:
            to: What stands in the place of their worker then; no worker's id.
        """

    async def orphans(self, agent_name: str) -> list[TaskHead]:
        """Heads of tasks that are submitted or working while their worker is dead, oldest first."""


READ_BYTES = 1 << 20
"""Bound of one `read` in bytes of events; a single larger event is returned alone."""


class Waiters:
    """Futures of readers that wait for a log to grow, by task."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: dict[str, set[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def task_ids(self) -> list[str]:
        return list(self._futures)

    def wake(self, task_id: str) -> None:
        """Let every reader of that task look again."""
        for future in self._futures.pop(task_id, ()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        for task_id in self.task_ids():
            self.wake(task_id)

    async def wait(self, task_id: str) -> None:
        """Wait for the next `wake` of that task. Canceling leaves nothing behind."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        futures = self._futures.setdefault(task_id, set())
        futures.add(future)
        try:
            await future
        finally:
            futures.discard(future)
            if not futures and self._futures.get(task_id) is futures:
                del self._futures[task_id]


def no_task_to_push(row: PushRow) -> TaskNotFoundError:
    return TaskNotFoundError(f"task {row.task_id} is not in the store", task_id=row.task_id)


def known_approval(row: ApprovalRow) -> InvalidArgumentError:
    """A request id names one question."""
    return InvalidArgumentError(
        f"{row.request_id} is the id of another approval", field="request.request_id", request_id=row.request_id
    )
