"""Changes that the owner of a task makes to it, as facts in the task's own log.

An append does not take the task over from the process that runs it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from protolink_grpc.errors import (
    InvalidArgumentError,
    InvalidTransitionError,
    LeaseLostError,
    SequenceConflictError,
    TaskFinishedError,
)
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.snapshot import TaskSnapshot
from protolink_grpc.runtime.log import Fact, LiveTask, Within
from protolink_grpc.runtime.task_snapshots import TaskSnapshots
from protolink_grpc.runtime.tasks import Tasks

RETRIES: Final = 8
"""Attempts of one change while the task keeps changing."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a change appends to a log.

    Args:
        run_id: As in `LiveTask.record`, like `opens` and `within`.
        exact: The log must not have changed since the step was decided.
    """

    facts: Sequence[Fact]
    run_id: str = ""
    opens: bool = False
    within: Within | None = None
    exact: bool = True


Decide = Callable[[LiveTask], Step | None]
"""Returns the next step for a task, or None if nothing has to change. Raises a ProtolinkError to refuse."""


class TaskChanges:
    """Finds and changes the tasks of one agent. Every method is for one principal, and does not find the tasks of others."""

    def __init__(self, tasks: Tasks, snapshots: TaskSnapshots) -> None:
        self._tasks = tasks
        self._snapshots = snapshots

    async def find(self, task_id: str, principal: str) -> LiveTask:
        """Return a task: that of its run in this process if there is one. Raises TaskNotFoundError."""
        run = await self._tasks.confirmed_run(task_id)
        if run is None or not run.live.fold.sequence or run.live.fold.principal != principal:
            return await self._tasks.get(task_id, principal)
        await run.live.at_rest()
        # While the next turn waits for a slot, the task is settled by the turn before it.
        if run.live.fold.is_settled and run.live.fold.queued is None:
            await run.wait_ended()
        return run.live

    async def make(self, task_id: str, principal: str, decide: Decide, request_id: str = "") -> TaskSnapshot:
        """Record the step for a task, and return the task after it. Raises as `record`."""
        live = await self.record(task_id, principal, decide, request_id)
        return await self._snapshots.of(live.fold)

    async def record(self, task_id: str, principal: str, decide: Decide, request_id: str = "") -> LiveTask:
        """Record the step for a task, decided again while other writers append first.

        Raises:
            TaskNotFoundError: The principal has no such task.
            TaskFinishedError: The task has ended, and nothing can follow.
            InvalidArgumentError: The request id belongs to another task.
            ProtolinkError: Raised by `decide`.
        """
        conflict: Exception | None = None
        for _ in range(RETRIES):
            live = await self.find(task_id, principal)
            step = decide(live)
            if step is None:
                return live
            try:
                known = await live.record(
                    step.facts,
                    run_id=step.run_id,
                    request_id=request_id,
                    opens=step.opens,
                    expected=live.fold.sequence if step.exact else 0,
                    within=step.within,
                )
            except (SequenceConflictError, LeaseLostError) as error:
                conflict = error
                continue
            except InvalidTransitionError:
                if decide(live) is None:
                    return live  # another writer made the same change first, or the end of the task made it unnecessary
                if live.fold.is_terminal:
                    raise finished_error(live.fold) from None
                raise
            if known is not None and known.task_id != task_id:
                raise InvalidArgumentError("was used for another task", field="request_id")
            return live
        raise SequenceConflictError(f"task {task_id} keeps changing; try again later", task_id=task_id) from conflict


def check_within(check: Callable[[], None], field: str) -> None:
    """Call a check of a value. Its error names the path below `field`."""
    try:
        check()
    except InvalidArgumentError as error:
        raise error.within(field) from None


def finished_error(fold: TaskFold) -> TaskFinishedError:
    is_outside = fold.controls is not None and fold.controls.is_external
    advice = "create another one" if is_outside else "retry it, or create another one"
    text = f"task {fold.task_id} is {fold.state} and does not change any more; {advice}"
    return TaskFinishedError(text, task_id=fold.task_id, state=str(fold.state))
