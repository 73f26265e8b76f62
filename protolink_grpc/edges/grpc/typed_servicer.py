"""A typed service over gRPC: each method calls one tool, as a task of its own.

A call passes the same gate as any tool call (validation, policy, approvals, budgets) and has the same log. Metadata of the request:

- `x-request-id`: idempotency key. A repeated call returns the result of the first one, also after a crash.
- `x-task-id`: id of the new task, chosen by the caller, with which it can be canceled and watched.
- `x-session-id`: session of the task.
- `plgrpc-options-bin`: options of the run, as in `SendTask`. The run of another agent sends permissions, a budget and the chain of
  agents.

The response's metadata has the id of the task as `x-task-id`, and for a request with options the usage of the task as
`plgrpc-usage-bin`. A deadline limits the wait, not the work.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from protolink_grpc.edges.grpc.call import (
    Context,
    caller,
    caller_scopes,
    read_binary,
    read_metadata,
    set_response_headers,
)
from protolink_grpc.errors import InvalidArgumentError, ToolFailedError
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.failure import RUN_LOST
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.payload import require_json
from protolink_grpc.models.tool_result import require_result
from protolink_grpc.net.tracing import WAITING_RUNS, receive_waiting_runs
from protolink_grpc.runtime.actions.tools import require_output, run_tool
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.typed.layout import RESULT
from protolink_grpc.typed.service import TypedMethod, TypedService
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


class TypedServicer:
    """The methods of a typed service; the class has an attribute for each, as `binding` expects."""

    def __init__(self, typed: TypedService, toolbox: Toolbox, service: TaskService) -> None:
        self._toolbox = toolbox
        self._service = service
        self.waiting_methods = frozenset(f"/{typed.descriptor.full_name}/{name}" for name in typed.methods)
        for name, method in typed.methods.items():
            setattr(self, name, self._behavior(method))

    def _behavior(self, method: TypedMethod) -> Callable[[Message, Context], Awaitable[Message]]:
        async def call(request: Message, context: Context) -> Message:
            headers = read_metadata(context)
            receive_waiting_runs(headers.get(WAITING_RUNS, ""))
            session_id, options = _read_id(headers, SESSION_ID), read_binary(context, RUN_OPTIONS)
            fold = await run_tool(
                self._service,
                self._toolbox,
                ToolCall(method.tool, method.read(request)),
                caller(),
                session_id=session_id,
                request_id=_read_id(headers, REQUEST_ID),
                task_id=_read_id(headers, TASK_ID),
                scopes=caller_scopes(),
                context=None if options is None else options_from_bytes(options, session_id),
            )
            # Before errors, too, because failed work has an id and a usage.
            await set_response_headers(context, _response_headers(fold, with_usage=options is not None))
            return _write(method, require_result(require_output(fold), fold.task_id), fold.task_id)

        return call


def _response_headers(fold: TaskFold, *, with_usage: bool) -> dict[str, str | bytes]:
    headers: dict[str, str | bytes] = {TASK_ID: fold.task_id}
    # The log of a lost run does not have its usage.
    if with_usage and not (fold.failure is not None and fold.failure.reason == RUN_LOST):
        headers[USED] = usage_to_bytes(fold.usage or BudgetUsage())
    return headers


def _read_id(headers: Mapping[str, str], name: str) -> str:
    """Return the id in a header; empty without one. Raises InvalidArgumentError if it is not valid, or not ASCII as headers are."""
    value = headers.get(name, "")
    if not value.isascii():
        raise InvalidArgumentError("must be ASCII", field=name)
    return check_id(value, name)


def _write(method: TypedMethod, result: Any, task_id: str) -> Message:
    """Convert the recorded result to the response. Raises ToolFailedError if it does not fit; the task has it."""
    try:
        return method.write(require_json(result, RESULT))
    except InvalidArgumentError as error:
        raise ToolFailedError(
            f"the result of tool '{method.tool}' does not fit its response: {error}", tool=method.tool, task_id=task_id
        ) from error
