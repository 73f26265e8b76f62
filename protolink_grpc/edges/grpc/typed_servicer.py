"""A typed service over gRPC: each method calls one tool, as a task of its own.

A call passes the same gate as any tool call (validation, policy, approvals, budgets) and has the same log. `task_call` has its
metadata.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from protolink_grpc.edges.grpc.call import Context, caller, caller_scopes, set_response_headers
from protolink_grpc.edges.grpc.task_call import read_task_call
from protolink_grpc.errors import InvalidArgumentError, ToolFailedError
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.payload import require_json
from protolink_grpc.models.tool_result import require_result
from protolink_grpc.runtime.actions.tools import require_output, run_tool
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.typed.layout import RESULT
from protolink_grpc.typed.service import TypedMethod, TypedService


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
            named = read_task_call(context)
            fold = await run_tool(
                self._service,
                self._toolbox,
                ToolCall(method.tool, method.read(request)),
                caller(),
                session_id=named.session_id,
                request_id=named.request_id,
                task_id=named.task_id,
                scopes=caller_scopes(),
                context=named.context,
            )
            # Before errors, too, because failed work has an id and a usage.
            await set_response_headers(context, named.response_headers(fold))
            return _write(method, require_result(require_output(fold), fold.task_id), fold.task_id)

        return call


def _write(method: TypedMethod, result: Any, task_id: str) -> Message:
    """Convert the recorded result to the response. Raises ToolFailedError if it does not fit; the task has it."""
    try:
        return method.write(require_json(result, RESULT))
    except InvalidArgumentError as error:
        raise ToolFailedError(
            f"the result of tool '{method.tool}' does not fit its response: {error}", tool=method.tool, task_id=task_id
        ) from error
