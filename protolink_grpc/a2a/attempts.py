"""The attempts at a task as A2A tasks. A task of A2A does not change after its end, so each retry is shown as another task.

The first attempt has the id of the task, the n-th retry has `<id>~<n>`. If the caller has a task with just that id, it comes first.
A retry whose id would be longer than an id may be is not shown.
"""

from protolink_grpc.a2a.negotiation import require_id
from protolink_grpc.errors import TaskNotFoundError
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.wire.events import replay
from protolink_grpc.wire.tasks import MAX_ID_BYTES

MARK = "~"

PIECE = 1024
"""Events that are read at a time."""


def shown_id(fold: TaskFold) -> str:
    """Return the id that A2A shows for the latest attempt in a fold."""
    controls = fold.controls
    return (
        fold.task_id
        if controls is None or not controls.retried_at
        else f"{fold.task_id}{MARK}{len(controls.retried_at)}"
    )


def first_sequence(fold: TaskFold) -> int:
    """Return the sequence of the event that began the latest attempt, which A2A does not show; 0 for the first attempt."""
    controls = fold.controls
    return 0 if controls is None or not controls.retried_at else controls.retried_at[-1]


async def find_attempt(service: TaskService, task_id: str, owner: str) -> TaskFold:
    """Return the task at the end of an attempt, or at its current end, by the id that A2A shows.

    Raises:
        TaskNotFoundError: The task is unknown or belongs to another principal, or it was not retried so often.
    """
    require_id(task_id)
    try:
        fold, number = await service.get(task_id, owner), 0
    except TaskNotFoundError as error:
        own, _, digits = task_id.rpartition(MARK)
        if not own or not digits.isdecimal() or not digits.isascii() or digits.startswith("0"):
            raise
        try:
            fold, number = await service.get(own, owner), int(digits[:9])
        except TaskNotFoundError:
            raise error from None
        if fold.controls is None or number > len(fold.controls.retried_at):
            raise
    retried_at = [] if fold.controls is None else fold.controls.retried_at
    return fold if number == len(retried_at) else await _read_until(service, fold, retried_at[number] - 1)


async def latest_attempt(service: TaskService, task_id: str, owner: str) -> TaskFold:
    """Return the task at its current end, or at the end of the first attempt if the id of the latest retry would be too long.

    Raises:
        TaskNotFoundError: The task is unknown or belongs to another principal.
    """
    fold = await service.get(task_id, owner)
    return fold if len(shown_id(fold).encode()) <= MAX_ID_BYTES else await find_attempt(service, task_id, owner)


async def _read_until(service: TaskService, known: TaskFold, end: int) -> TaskFold:
    """Return the task as it was after an event."""
    fold = TaskFold(known.task_id)
    fold.agent_name = known.agent_name
    while fold.sequence < end:
        frames = await service.read_log(fold.task_id, fold.sequence, min(PIECE, end - fold.sequence))
        if not frames:
            break  # deleted in the meantime
        replay(fold, frames)
    return fold
