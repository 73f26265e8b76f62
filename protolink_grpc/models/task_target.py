"""Whether a request creates a task, continues it, or either."""

from enum import Enum

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.lifecycle import TaskState


class TaskTarget(Enum):
    """Whether a submission begins a task or continues one."""

    CREATE = "create"
    CONTINUE = "continue"
    CREATE_OR_CONTINUE = "create_or_continue"


def finished_error(state: TaskState) -> InvalidArgumentError:
    """Return the error for a submitted new task whose state is already terminal."""
    return InvalidArgumentError(
        f"is {state}: a task that has ended cannot be begun; send a new task instead", field="task.state"
    )
