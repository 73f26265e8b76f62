"""Pausing and resuming a task, in whatever process it runs. The run waits by itself: see `Run.wait_while_paused`."""

from collections.abc import Callable

from protolink_grpc.errors import InvalidTransitionError, LeaseLostError, TaskFinishedError
from protolink_grpc.models.events import TaskPauseRequested, TaskResumed
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.runtime.log import LiveTask
from protolink_grpc.runtime.tasks import Tasks, not_found_error


async def pause(tasks: Tasks, task_id: str, principal: str, reason: str = "") -> TaskFold:
    """Request that the run of a task waits at its next point at which it can. Return the task, which may still be working.

    A task with such a request is returned unchanged. A run that has not begun waits before its handler is called.

    Raises:
        TaskNotFoundError: The task is unknown, or belongs to another principal.
        TaskFinishedError: The task has ended.
        InvalidTransitionError: The task is a draft or waits for input, or its cancellation was requested.
    """
    return await _record(
        tasks, task_id, principal, lambda fold: not fold.is_pause_requested, TaskPauseRequested(reason, principal)
    )


async def resume(tasks: Tasks, task_id: str, principal: str, reason: str = "") -> TaskFold:
    """End the pause of a task, or the request for one. A task without it is returned unchanged. Raises as `pause`."""
    return await _record(
        tasks, task_id, principal, lambda fold: fold.is_pause_requested, TaskResumed(reason, principal)
    )


async def _record(
    tasks: Tasks,
    task_id: str,
    principal: str,
    is_change: Callable[[TaskFold], bool],
    fact: TaskPauseRequested | TaskResumed,
) -> TaskFold:
    """Append a fact, unless it changes nothing."""
    while True:
        live = await _find(tasks, task_id, principal)
        fold = live.fold
        if fold.is_terminal:
            raise TaskFinishedError(f"task {task_id} is {fold.state}", task_id=task_id, state=str(fold.state))
        if not is_change(fold):
            return fold
        try:
            await live.record([fact])
            return fold
        except LeaseLostError:
            continue  # another process has taken the task, or a run has begun here
        except InvalidTransitionError:
            if is_change(fold) and not fold.is_terminal:
                raise
            # The task has changed in the meantime.


async def _find(tasks: Tasks, task_id: str, principal: str) -> LiveTask:
    run = await tasks.confirmed_run(task_id)
    if run is None or not run.live.fold.sequence:
        return await tasks.get(task_id, principal)
    if run.live.fold.principal != principal:
        raise not_found_error(task_id)
    await run.live.at_rest()
    return run.live
