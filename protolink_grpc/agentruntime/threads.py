"""What the conversion of a session to Agent Runtime events remembers of each thread: its queue, its turns and its status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

from protolink_grpc.agentruntime.state import TaskRecords
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.models.session import Turn, TurnEnded, TurnSubmitted
from protolink_grpc.models.snapshot import ThreadStatus

_RESULTS: Final = MappingProxyType(
    {
        TaskState.COMPLETED: ThreadStatus.COMPLETED,
        TaskState.FAILED: ThreadStatus.FAILED,
        TaskState.REJECTED: ThreadStatus.FAILED,
        TaskState.CANCELED: ThreadStatus.CANCELLED,
    }
)


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


@dataclass(slots=True)
class ThreadRecords:
    """What the conversion of one thread remembers. The status is that of a `ThreadSnapshot` at the same position.

    Attributes:
        queue: The turns that wait, in order.
        history: The turns that have started and were not rolled back, each with the position of its submission.
        status: The status that was shown last.
    """

    queue: list[str] = field(default_factory=list)
    history: dict[str, int] = field(default_factory=dict)
    status: ThreadStatus = ThreadStatus.IDLE
    _active: dict[str, str] = field(default_factory=dict)
    """The task of each active turn."""
    _waiting: set[str] = field(default_factory=set)
    """The tasks that wait for input."""
    _last: _LastTurn = _LastTurn()

    @classmethod
    def after(cls, last: Turn) -> Self:
        """Return a thread without open turns, after its last turn."""
        status = _RESULTS.get(last.result or TaskState.UNKNOWN, ThreadStatus.IDLE)
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
        self.history[turn.submitted.turn_id] = turn.position

    def end(self, turn: OpenTurn, ended: TurnEnded) -> None:
        self._active.pop(ended.turn_id, None)
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
        return _RESULTS.get(self._last.result or TaskState.UNKNOWN)
