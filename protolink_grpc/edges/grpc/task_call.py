"""A call of a typed method as a task: the metadata that names it in the request, and the headers that name it in the response.

- `x-request-id`: idempotency key. A repeated call returns the result of the first one, also after a crash.
- `x-task-id`: id of the new task, chosen by the caller, with which it can be canceled and watched.
- `x-session-id`: session of the task.
- `plgrpc-options-bin`: options of the run, as in `SendTask`. The run of another agent sends permissions, a budget and the chain of
  agents.

The response's metadata has the id of the task as `x-task-id`, and for a request with options the usage of the task as
`plgrpc-usage-bin`. A deadline limits the wait, not the work.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from protolink_grpc.edges.grpc.call import Context, read_binary, read_metadata, set_origin
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.failure import RUN_LOST
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.wire.tasks import check_id
from protolink_grpc.wire.typed_calls import (
    REQUEST_ID,
    RUN_OPTIONS,
    SESSION_ID,
    TASK_ID,
    USED,
    options_from_bytes,
    usage_to_bytes,
)


@dataclass(frozen=True, slots=True)
class TaskCall:
    """The caller's choices for the task of a call, from its metadata. An empty text means no choice.

    Args:
        context: The options of the run; None without options.
    """

    request_id: str
    task_id: str
    session_id: str
    context: RunContext | None

    def response_headers(self, fold: TaskFold) -> dict[str, str | bytes]:
        """Return the headers of the response of an ended task. Errors have them, too: failed work has an id and a usage."""
        return {TASK_ID: fold.task_id, **self.usage(fold)}

    def usage(self, fold: TaskFold) -> dict[str, str | bytes]:
        """Return the entry with the usage of an ended task; empty if the caller does not need it, or if it is unknown."""
        # The log of a lost run does not have its usage.
        is_lost = fold.failure is not None and fold.failure.reason == RUN_LOST
        return {} if self.context is None or is_lost else {USED: usage_to_bytes(fold.usage or BudgetUsage())}


def read_task_call(context: "Context | None") -> TaskCall:
    """Read the metadata of the current call, and note its origin.

    Raises:
        InvalidArgumentError: A value is invalid; names the entry.
    """
    headers = read_metadata(context)
    set_origin(context, headers)
    session_id, options = _read_id(headers, SESSION_ID), read_binary(context, RUN_OPTIONS)
    return TaskCall(
        _read_id(headers, REQUEST_ID),
        _read_id(headers, TASK_ID),
        session_id,
        None if options is None else options_from_bytes(options, session_id),
    )


def _read_id(headers: Mapping[str, str], name: str) -> str:
    """Return the id in a header; empty without one. Raises InvalidArgumentError if it is not valid, or not ASCII as headers are."""
    value = headers.get(name)
    if not value:
        return ""
    if not value.isascii():
        raise InvalidArgumentError("must be ASCII", field=name)
    return check_id(value, name)
