"""What the conversion of a session to Agent Runtime events remembers of each thread: its queue, its turns and its status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from protolink_grpc.agentruntime.state import TaskRecords
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.session import Turn, TurnEnded, TurnSubmitted
from protolink_grpc.models.snapshot import THREAD_RESULTS, ThreadStatus


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn that has not ended, and the position at which it was submitted."""

    submitted: TurnSubmitted
    position: int


@dataclass(frozen=True, slots=True)
class _LastTurn:
    """Of the turns that have ended, the one that was submitted last."""

    position: int = 0
    task_id: str = ""
    result: TaskState | None = None


MAX_HISTORY: Final = 1000
"""Number of turns of a thread that its history has: a rollback to an older turn names only these."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The turns that a rollback has removed, in the order of their submission, and the last turn before them.

    Attributes:
        removed: At least the turn to which the thread went back. The others are incomplete if not `is_complete`.
        baseline: Id of the last turn that stays; empty without such a turn, None if it is not known.
    """

    removed: list[str]
    baseline: str | None
    is_complete: bool = True


@dataclass(slots=True)
class ThreadRecords:
    """What the conversion of one thread remembers. The status is that of a `ThreadSnapshot` at the same position.

    Attributes:
        queue: The turns that wait, in order.
        status: The status that was shown last.
    """

    queue: list[str] = field(default_factory=list)
    status: ThreadStatus = ThreadStatus.IDLE
    _active: dict[str, str] = field(default_factory=dict)
    """The task of each active turn."""
    _waiting: set[str] = field(default_factory=set)
    """The tasks that wait for input."""
    _last: _LastTurn = _LastTurn()
    _history: dict[str, int] = field(default_factory=dict)
    """The newest turns that have left the queue and were not rolled back, each with the position of its submission."""
    _unstarted: set[str] = field(default_factory=set)
    """The turns of the history that were ended in the queue."""
    _has_older: bool = False
    """There were older turns than those of the history."""

    @classmethod
    def after(cls, last: Turn) -> Self:
        """Return a thread without open turns, after its last turn."""
        status = THREAD_RESULTS.get(last.result or TaskState.UNKNOWN, ThreadStatus.IDLE)
        return cls(status=status, _last=_LastTurn(last.position, last.task_id, last.result))

    @property
    def active(self) -> list[str]:
        """The turns that have started and have not ended."""
        return [*self._active]

    def submit(self, turn: OpenTurn) -> None:
        self._waiting.discard(turn.submitted.task_id)
        if not turn.submitted.queued:
            self.start(turn)

    def start(self, turn: OpenTurn) -> None:
        self._active[turn.submitted.turn_id] = turn.submitted.task_id
        self._remember(turn)

    def _remember(self, turn: OpenTurn) -> None:
        self._history[turn.submitted.turn_id] = turn.position
        if len(self._history) > MAX_HISTORY:
            oldest = min(self._history, key=self._history.__getitem__)
            self._forget(oldest)
            self._has_older = True

    def _forget(self, turn_id: str) -> None:
        del self._history[turn_id]
        self._unstarted.discard(turn_id)

    def roll_back(self, turn_id: str) -> Removal:
        """Take a turn and the later ones out of the history, except those in the queue."""
        target = self._history.get(turn_id)
        is_complete = target is not None or not self._has_older
        first = 0 if not is_complete else target
        removed = [turn for turn, at in self._history.items() if first is not None and at >= first]
        removed.sort(key=self._history.__getitem__)
        for each in removed:
            self._forget(each)
        if turn_id not in removed:
            removed.insert(0, turn_id)
        left = (each for each in self._history if each not in self._unstarted)
        baseline = max(left, key=self._history.__getitem__, default=None if self._has_older else "")
        return Removal(removed, baseline, is_complete)

    def end(self, turn: OpenTurn, ended: TurnEnded) -> None:
        if self._active.pop(ended.turn_id, None) is None:
            self._unstarted.add(ended.turn_id)
            self._remember(turn)
        if ended.result in INTERRUPTED:
            self._waiting.add(turn.submitted.task_id)
        if turn.position > self._last.position:
            self._last = _LastTurn(turn.position, turn.submitted.task_id, ended.result)

    def end_waiting(self, task_id: str, result: TaskState) -> None:
        """Note the end of a task that waited for input. It has no turn."""
        self._waiting.discard(task_id)
        if self._last.task_id == task_id and self._last.result in INTERRUPTED:
            self._last = _LastTurn(self._last.position, task_id, result)

    def has_new_status(self, tasks: Mapping[str, TaskRecords]) -> bool:
        """Compute the status, and return whether it differs from the last one."""
        status = self._status(tasks)
        if status is None or status is self.status:
            return False
        self.status = status
        return True

    def _status(self, tasks: Mapping[str, TaskRecords]) -> ThreadStatus | None:
        if self._active:
            active = (tasks.get(each) for each in self._active.values())
            is_blocked = all(task is not None and (task.is_paused or task.approvals) for task in active)
            return ThreadStatus.BLOCKED if is_blocked else ThreadStatus.RUNNING
        if self._waiting:
            return ThreadStatus.BLOCKED
        if self.queue:
            return ThreadStatus.QUEUED
        return THREAD_RESULTS.get(self._last.result or TaskState.UNKNOWN)
