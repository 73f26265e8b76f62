"""A typed service over gRPC: each method calls one tool, as a task of its own.

A call passes the same gate as any tool call (validation, policy, approvals, budgets) and has the same log. `task_call` has its
metadata.

The method of a generator tool returns a stream of its items. A call with the request id of an earlier one returns all items of that
call, from the first one. The usage of the task is in the trailing metadata.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message

from protolink_grpc.edges.grpc.call import Context, caller, caller_scopes, set_response_headers, set_trailers
from protolink_grpc.edges.grpc.task_call import read_task_call
from protolink_grpc.errors import InvalidArgumentError, ToolFailedError
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.payload import require_json
from protolink_grpc.models.tool_result import require_result
from protolink_grpc.runtime.actions.tool_items import read_items
from protolink_grpc.runtime.actions.tools import require_output, run_tool, tool_submission
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.typed.layout import RESULT
from protolink_grpc.typed.service import TypedMethod, TypedService
from protolink_grpc.wire.typed_calls import TASK_ID


class TypedServicer:
    """The methods of a typed service; the class has an attribute for each, as `binding` expects."""

    def __init__(self, typed: TypedService, toolbox: Toolbox, service: TaskService) -> None:
        self._toolbox = toolbox
        self._service = service
        unary = (name for name, method in typed.methods.items() if not method.streams)
        self.waiting_methods = frozenset(f"/{typed.descriptor.full_name}/{name}" for name in unary)
        for name, method in typed.methods.items():
            setattr(self, name, self._stream_behavior(method) if method.streams else self._behavior(method))

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

    def _stream_behavior(self, method: TypedMethod) -> Callable[[Message, Context], AsyncIterator[Message]]:
        async def call(request: Message, context: Context) -> AsyncIterator[Message]:
            named = read_task_call(context)
            submission = tool_submission(
                self._toolbox,
                ToolCall(method.tool, method.read(request)),
                session_id=named.session_id,
                request_id=named.request_id,
                task_id=named.task_id,
                scopes=caller_scopes(),
                context=named.context,
            )
            service, principal = self._service, caller()
            turn = await service.submit(submission, principal, waits=True)
            await set_response_headers(context, {TASK_ID: turn.task_id})
            async with aclosing(read_items(service, turn, principal)) as batches:
                async for items in batches:
                    for item in items:
                        yield _write(method, item, turn.task_id)
            fold = await service.get_after(turn, principal)
            # The usage is known after the items. Before errors, too, as in the headers of other calls.
            set_trailers(context, named.usage(fold).items())
            require_result(require_output(fold), fold.task_id)

        return call


def _write(method: TypedMethod, result: Any, task_id: str) -> Message:
    """Convert the recorded result to the response. Raises ToolFailedError if it does not fit; the task has it."""
    try:
        return method.write(require_json(result, RESULT))
    except InvalidArgumentError as error:
        raise ToolFailedError(
            f"the result of tool '{method.tool}' does not fit its response: {error}", tool=method.tool, task_id=task_id
        ) from error
