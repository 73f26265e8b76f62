"""The error of a task that ended without its result."""

from protolink_grpc.errors import ProtolinkError, TaskExecutionError, classes
from protolink_grpc.models.fold import TaskFold


def ended_error(fold: TaskFold) -> ProtolinkError:
    """Return the error of a task that has ended: of the class that its code names, otherwise TaskExecutionError.

    Its metadata has the id of the task.
    """
    message = fold.messages[-1] if fold.messages else None
    for part in message.parts if message is not None else ():
        if part.type == "error" and isinstance(part.content, dict):
            error_class = classes().get(str(part.content.get("code")))
            if error_class is not None:
                error = error_class(str(part.content.get("message", fold.reason)))
                error.metadata.setdefault("task_id", fold.task_id)
                return error
    return TaskExecutionError(f"task {fold.task_id} ended {fold.state}: {fold.reason}", task_id=fold.task_id)
