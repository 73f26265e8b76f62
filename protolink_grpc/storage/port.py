"""The port of the task store: what the runtime calls, and the values that cross it. No SQL and no policy live here.

A store keeps a log per task (framed events, sequence 1..n) with a head (one row), leases of the processes that work on tasks, and
records (see `records`). It is used from one event loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.storage.records import Put, RecordStore


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


@dataclass(slots=True)
class Append:
    """One atomic addition to one log.

    Args:
        head: The head as it is after the append.
        events: Framed events, ascending sequence, the first being `expected_sequence + 1`. Never empty.
        expected_sequence: Sequence that the log must end with; 0 creates the task.
        expected_epoch: Epoch that the head must have; one less than `head.epoch` takes the task over.
        request_id: Recorded with the head's agent and principal in the same step; empty records nothing.
        records: Kept in the same step, with what the events say about them.
    """

    head: TaskHead
    events: list[bytes]
    expected_sequence: int
    expected_epoch: int
    request_id: str = ""
    records: Sequence[Put] = ()


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
class ForeignListener:
    """Interest in other processes' appends: to which tasks, asked again and again, and whom to tell."""

    task_ids: Callable[[], list[str]]
    appended: Callable[[str], None]


class LogStore(Protocol):
    """Logs, their heads, and the requests that began their turns."""

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
            ProtolinkError: The merge of one of the records refuses.
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

    async def request(self, agent_name: str, principal: str, request_id: str) -> RequestRecord | None:
        """The record of an earlier request to that agent, None when there is none."""


class Leases(Protocol):
    """Which process works on a task. A worker that renews its lease in time keeps what it has."""

    async def heartbeat(self, ttl_s: float) -> None:
        """Keep this worker alive for `ttl_s` seconds more."""

    async def release(self, task_ids: Sequence[str], *, to: str = "") -> None:
        """Give up tasks that this worker has: they are orphans at once. Those of other workers stay theirs, while these are listed.

        Args:
            to: What stands in the place of their worker then; no worker's id.
        """

    async def orphans(self, agent_name: str) -> list[TaskHead]:
        """Heads of tasks that are submitted or working while their worker is dead, oldest first."""


class TaskStore(LogStore, Leases, RecordStore, Protocol):
    """All that an agent keeps of its tasks. Two implementations: `MemoryStore`, `SQLiteStore`."""


READ_BYTES = 1 << 20
"""Bound of one `read` in bytes of events; a single larger event is returned alone."""


def bounded(frames: list[bytes]) -> list[bytes]:
    """The longest prefix of `frames` within `READ_BYTES`, at least one of them."""
    if sum(map(len, frames)) <= READ_BYTES:
        return frames
    total = 0
    for index, frame in enumerate(frames):
        total += len(frame)
        if total > READ_BYTES:
            return frames[: max(index, 1)]
    return frames
