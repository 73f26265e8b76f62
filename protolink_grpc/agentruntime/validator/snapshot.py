"""The facts of a snapshot that can be compared with a log. `snapshot_file` reads them from JSON."""

from dataclasses import dataclass, field
from typing import Any, Final

from protolink_grpc.errors import InvalidArgumentError

Object = dict[str, Any]

GAPS: Final = frozenset(("unknown", "unavailable", "not_applicable", "stale", "blocked"))
"""The contract's words for parts without a current value."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run of a task. `status` may be one of a task."""

    run_id: str
    status: str
    has_start: bool
    has_end: bool


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task of a snapshot. None: the document does not have it.

    Args:
        statuses: The statuses that it may have in the log; empty if the document does not have its status.
        attempts: The newest ones, oldest first; all of them if there are fewer than `attempt_count`.
        edges: Kinds and targets of its relationships.
        is_over: Whether it has the time of its end; None if it has no times.
        sequence: Sequence of the last event in its own log that it reflects, if it has a log of its own.
    """

    statuses: frozenset[str]
    attempts: tuple[Attempt, ...] | None = None
    attempt_count: int | None = None
    edges: frozenset[tuple[str, str]] | None = None
    run_id: str = ""
    is_over: bool | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts of a session, of one of its threads, or of a task, at one moment. None: the document does not have them.

    Args:
        name: Where it is from, for people.
        sequence: Sequence of the last event that it reflects; None means all events of the log.
        first_sequence: The log must reach this sequence: the position of this package's snapshots stands for a range of sequences.
        task_id: The task that it is of; empty if it is of a session or a thread.
        threads: All threads of the session.
        scope: The threads that `queue`, `active` and `pending` are about; None means all.
        statuses: The status of each thread.
        queue: The queued turns of each thread, in order.
        active: The open turns of each thread that are not queued.
        ended: The statuses that an ended turn may have in the log. Only turns of the document.
        rolled_back: Whether each turn was taken out of its thread.
        pending: The open questions.
        evidence: References to evidence.
        answers: The number of answers to questions about the task, by `granted`, `denied` and `expired`.
        gaps: The parts without a current value, each with one of `GAPS`.
        parts: The parts that it has. Parts of the contract's document have its names.
        document: The contract's document.
    """

    session_id: str
    name: str = ""
    sequence: int | None = None
    first_sequence: int | None = None
    task_id: str = ""
    threads: frozenset[str] | None = None
    scope: frozenset[str] | None = None
    statuses: dict[str, str] = field(default_factory=dict)
    title: str | None = None
    is_archived: bool | None = None
    turn_count: int | None = None
    queue: dict[str, list[str]] | None = None
    active: dict[str, list[str]] | None = None
    ended: dict[str, frozenset[str]] = field(default_factory=dict)
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    rolled_back: dict[str, bool] = field(default_factory=dict)
    pending: frozenset[str] | None = None
    evidence: tuple[str, ...] = ()
    answers: dict[str, int] | None = None
    gaps: tuple[tuple[str, str], ...] = ()
    parts: frozenset[str] = frozenset()
    document: Object | None = None

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the threads, turns, tasks, runs and questions that it has."""
        turns = [turn for place in (self.queue, self.active) for turns in (place or {}).values() for turn in turns]
        runs = [each.run_id for task in self.tasks.values() for each in task.attempts or ()]
        others = (self.threads or (), self.statuses, self.ended, self.tasks, self.rolled_back, self.pending or ())
        return frozenset((*turns, *runs, *(name for each in others for name in each)))


# -- Fields of documents ---------------------------------------------------------------------------------------------------


def objects_of(place: Object, name: str, where: str) -> list[Object]:
    """Return a list of objects; empty if the field is missing."""
    found = place.get(name, [])
    path = f"{where}.{name}" if where else name
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidArgumentError("must be a list of objects", field=path)
    return found


def text_of(place: Object, name: str, where: str) -> str:
    """Return a text that the document must have."""
    found = place.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidArgumentError("must be a text that is not empty", field=f"{where}.{name}" if where else name)
    return found


def number_of(place: Object, name: str) -> int | None:
    """Return an integer; None for any other value."""
    found = place.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
