"""The interface of a task store, and its values.

A store has a log for each task (framed events, sequence 1..n) with a head (one row), leases of the processes that work on tasks,
and records (see `records`). It is used from one event loop.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from protolink_grpc.errors import TaskAlreadyRunningError
from protolink_grpc.models.lifecycle import TaskState, is_terminal
from protolink_grpc.storage.records import Put, Records, RecordStore
from protolink_grpc.storage.session_log import SessionAppend

HELD: Final = "held"
"""The worker of a task without a run: one that must not start yet, or whose work is done outside of the agent. It is no orphan, and
any worker may end it."""


# Not frozen although it is never changed, because creating a frozen one costs three times as much, twice per request.
@dataclass(slots=True)
class TaskHead:
    """A summary of a task that is read without its log. It is never changed after its creation.

    Args:
        session_id: Local to the principal: the same id of another principal is another session.
        sequence: Sequence of the last event.
        worker: The worker that runs the task, or empty.
        epoch: Grows by one whenever a worker takes the task.
        messages, artifacts: Their number.
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
    """The task of the first request with an id, and the log's last sequence before it."""

    task_id: str
    after_sequence: int


@dataclass(slots=True)
class Append:
    """One atomic addition to one log.

    Args:
        head: The head after the append. Its worker only counts if the append creates the task or takes it over.
        events: Framed events, ascending sequence, the first being `expected_sequence + 1`. Never empty.
        expected_sequence: Required last sequence of the log; 0 creates the task.
        expected_epoch: Required epoch of the head; one less than `head.epoch` takes the task over.
        request_id: Stored atomically with the head's agent and principal; empty stores nothing.
        records: Stored atomically with the events.
        session: The part of the append that belongs to the task's session. In the transaction, `check` is called before the first
            change and may refuse the append, and `write` after the others. Both may be called more than once.
        within: Called last in the transaction. It may refuse the append, and may be called more than once.
        committed: Called on the event loop after the commit, also if the caller of `append` has been canceled.
    """

    head: TaskHead
    events: list[bytes]
    expected_sequence: int
    expected_epoch: int
    request_id: str = ""
    records: Sequence[Put] = ()
    session: SessionAppend | None = None
    within: Callable[[Records], None] | None = None
    committed: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion has removed: the number of tasks, and of the events in their logs."""

    tasks: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """Which heads to list, most recently changed first. Empty filters match all; `after` is the cursor of the previous page.

    Args:
        include_total: Also count all matches, which is slow if there are many.
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
    """Heads in order, the cursor of the next page or None, and the number of matches on all pages (None if not requested)."""

    heads: list[TaskHead] = field(default_factory=list)
    next: tuple[int, str] | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class ForeignListener:
    """Interest in other processes' appends.

    Args:
        task_ids: Returns the tasks that run here. Called at every poll, and again when a poll detects a change.
        appended: Called with the id of a task that another process has appended to or deleted. It may also be called for a task
            that is not stored yet.
    """

    task_ids: Callable[[], list[str]]
    appended: Callable[[str], None]


@dataclass(slots=True)
class CommitTotals:
    """The commits of an opened store. One thread writes them, and any thread may read them.

    Args:
        count: Number of commits to the file, each of one or more writes.
        seconds: Their time, from the begin of the transaction to the end of the fsync.
    """

    count: int = 0
    seconds: float = 0.0


class LogStore(Protocol):
    """Logs, their heads, and the ids of requests."""

    durable: bool
    """Whether an acknowledged append survives a crash of the process and of the machine."""

    shared: bool
    """Whether other processes may append to the same logs."""

    worker: str
    """Id of this opened store among all that share the data; empty before `open`."""

    runtime_id: str
    """Id of the installation: random, made with the data, and the same for all stores that share them; empty before `open`."""

    listeners: "list[ForeignListener]"
    """Notified if another process appends to a task that runs here. Only used by shared stores."""

    commits: CommitTotals
    """Commits since the store was created; none in a store without a file."""

    async def open(self) -> None:
        """Open the store. Several agents may open one store; each closes it once.

        Raises:
            StoreError: It cannot be opened; the subclass shows the reason.
        """

    async def close(self) -> None:
        """Close the store when every user has closed it. Accepted appends are finished first. It can be opened again."""

    async def append(self, append: Append) -> RequestRecord | None:
        """Append events to a log atomically, and wake its readers after the commit.

        The append is carried out even if the caller is canceled while it waits.

        Returns:
            None if the events were appended. If `request_id` is known, its record; then nothing was appended.

        Raises:
            SequenceConflictError: The log has another last sequence: another writer appended to it or created the task.
            LeaseLostError: The epoch differs: another worker has the task.
            TaskNotFoundError: The task does not exist, and `expected_sequence` is not 0.
            ProtolinkError: The merge of one of the records, the session, or `within` refused.
            StoreError: The disk is full, read-only or gone. Nothing was appended.
        """

    async def delete(self, task_ids: Sequence[str], *, records: Callable[[Records], None] | None = None) -> Deleted:
        """Delete tasks that have ended, with their logs, request ids and records (see `Kind.task`), in one transaction.

        Unknown tasks are skipped, so a deletion can be repeated. Afterwards the tasks do not exist, also for readers that wait for
        more of their logs, and a repeated request starts a new task. The writer of the store is busy during a deletion: delete
        thousands of tasks with several calls.

        Args:
            records: Called in the same transaction before the tasks are deleted, possibly more than once. An error that it raises
                refuses the deletion.

        Raises:
            TaskAlreadyRunningError: A task has not ended, so a worker may run it. Nothing has changed.
            ProtolinkError: Raised by `records`. Nothing has changed.
            StoreError: The disk is full, read-only or gone. Nothing has changed.
        """

    async def read(self, task_id: str, after: int, limit: int) -> list[bytes]:
        """Read framed events with sequence > `after`, at most `limit` and about 1 MiB; none at the end or for an unknown task."""

    async def wait(self, task_id: str, after: int) -> None:
        """Wait until the log has a sequence > `after`, or the task is deleted. May return early; the caller then reads again.

        With `after` 0, the wait for an unknown task ends when the task is created.
        """

    async def head(self, task_id: str) -> TaskHead | None:
        """Return the head, or None for an unknown task."""

    async def heads(self, task_ids: Collection[str]) -> dict[str, TaskHead]:
        """Return the heads of the known tasks among these, by id, from one moment."""

    async def find(self, query: TaskQuery) -> TaskPage:
        """Return one page of heads."""

    async def request(self, agent_name: str, principal: str, request_id: str) -> RequestRecord | None:
        """Return the record of an earlier request to that agent, or None."""


class Leases(Protocol):
    """The assignment of tasks to processes. A worker keeps its tasks as long as it renews its lease."""

    async def heartbeat(self, ttl_s: float) -> None:
        """Renew this worker's lease for `ttl_s` seconds."""

    async def release(self, task_ids: Sequence[str], *, to: str = "") -> None:
        """Give up tasks of this worker, which become orphans at once. Tasks of other live workers are not affected.

        Args:
            to: The value that replaces their worker; not the id of a worker.
        """

    async def orphans(self, agent_name: str) -> list[TaskHead]:
        """Return the heads of tasks that are submitted or working and whose worker is dead, oldest first; no held ones."""


class TaskStore(LogStore, Leases, RecordStore, Protocol):
    """The storage of an agent's tasks, implemented by `MemoryStore` and `SQLiteStore`."""


def require_ended(head: TaskHead) -> None:
    """Raise TaskAlreadyRunningError if a task has not ended."""
    if not is_terminal(head.state):
        raise TaskAlreadyRunningError(
            f"task {head.task_id} is {head.state}; cancel it first", task_id=head.task_id, state=str(head.state)
        )


READ_BYTES = 1 << 20
"""Limit of one `read` in bytes of events; a single larger event is returned alone."""


def limit_bytes(frames: list[bytes]) -> list[bytes]:
    """Return the longest prefix of `frames` within `READ_BYTES`, at least one."""
    if sum(map(len, frames)) <= READ_BYTES:
        return frames
    total = 0
    for index, frame in enumerate(frames):
        total += len(frame)
        if total > READ_BYTES:
            return frames[: max(index, 1)]
    return frames
