"""A method of a user's service as a tool: for models, for `call_tool`, and for callers that send tool calls.

Theory of operation. A call of the tool is an action of the calling run, and the method runs in a task of its own, with the id of
the action. So its actions are in its own log, by position, exactly as for a call over gRPC. A run that repeats the action after a
crash finds the same task: the method is not called a second time for the same action.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, ToolFailedError, ToolRejectedError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import BudgetUsage, RunAction
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.ended_task import ended_error
from protolink_grpc.models.failure import RUN_LOST, Failure
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.runtime.actions.action_context import ActionContext
from protolink_grpc.runtime.actions.delegation import MAY_HAVE_BEGUN, recorded_usage, reserve_share
from protolink_grpc.runtime.actions.gate import ActionResult
from protolink_grpc.runtime.run import current_run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.services.definition import ServiceMethod
from protolink_grpc.services.json_schema import message_schema
from protolink_grpc.services.recording import call_submission, recorded_response
from protolink_grpc.tools.rejection import invalid_arguments_error, make_problem
from protolink_grpc.tools.tool import Tool
from protolink_grpc.wire.proto_json import message_from_json

log = get_logger(__name__)

OnService = Callable[[Callable[[TaskService], Coroutine[Any, Any, TaskFold]]], Awaitable[TaskFold]]
"""Calls a function with the agent's service, on the event loop of the service, and returns its result."""

NO_COMMENT: Final = "Missing associated documentation comment in .proto file."
"""The docstring of a generated method without a comment in the .proto file."""


class MethodTool:
    """The tool of one durable method with a single request and a single response.

    Args:
        on_service: Starts the agent's service if necessary.

    Attributes:
        tool: The tool, for the agent's toolbox.
    """

    def __init__(self, method: ServiceMethod, on_service: OnService) -> None:
        self._method = method
        self._on_service = on_service
        self._cancellations: set[asyncio.Future[Any]] = set()
        written = (inspect.getdoc(method.behavior) or "").strip()
        self.tool = Tool.from_callable(
            self._refuse,
            name=method.tool,
            description=f"Calls {method.descriptor.full_name}." if written in ("", NO_COMMENT) else written,
            input_schema=message_schema(method.descriptor.input_type, written=False),
            output_schema=message_schema(method.descriptor.output_type, written=True),
            capabilities=method.capabilities,
            read_only=method.is_read_only,
            idempotent=method.is_idempotent,
        )

    async def _refuse(self, **arguments: Any) -> Any:
        raise ToolRejectedError(f"{self._method.tool} is called through its agent: use call_tool", code="not_callable")

    async def execute(self, action_context: ActionContext, action: RunAction) -> ActionResult:
        """Call the method in a task of its own, with a share of the run's budget.

        If the call is canceled with the run, the task is canceled, too.

        Raises:
            ToolRejectedError: The arguments are no request of the method.
            BudgetExceededError: The budget has no share left.
        """
        request = self._read_request(action.arguments or {})
        share = await reserve_share(action_context)
        used: BudgetUsage | None = BudgetUsage()
        try:
            context = action_context.context
            submission = call_submission(
                self._method.name,
                [request],
                task_id=action.action_id,
                request_id=action.action_id,
                session_id=context.session_id or "",
                scopes=frozenset(context.scopes),
                context=_child_context(context).copy(budget=share.budget),
            )
            used = None
            fold = await self._send(submission, action_context)
            is_lost = fold.failure is not None and fold.failure.reason == RUN_LOST
            used = None if is_lost else fold.usage or BudgetUsage()
            return self._result(fold, recorded_usage(used, share))
        except ProtolinkError as error:
            if not isinstance(error, MAY_HAVE_BEGUN):
                used = BudgetUsage()
            return ActionResult(None, recorded_usage(used, share), error)
        finally:
            share.settle(used)

    def _read_request(self, arguments: dict[str, Any]) -> Message:
        request = self._method.request_type()
        try:
            message_from_json(arguments, request)
        except InvalidArgumentError as error:
            problem = make_problem(error.field, error.detail, "proto_json")
            raise invalid_arguments_error(self._method.tool, [problem]) from None
        return request

    async def _send(self, submission: Submission, action_context: ActionContext) -> TaskFold:
        principal, run = action_context.principal, current_run()
        own = run is not None and run.task_id == action_context.task_id
        try:
            # The run of the method takes the slot of the calling run, which would wait for a second one otherwise.
            async with run.without_slot() if run is not None and own else nullcontext():
                return await self._on_service(lambda service: service.send(submission, principal))
        except asyncio.CancelledError:
            token = action_context.token
            if token.is_cancelled:
                self._cancel(submission.task_id, principal, token.reason or "")
            raise

    def _cancel(self, task_id: str, principal: str, reason: str) -> None:
        """Cancel the task, in an asyncio task of its own, because the calling one is being canceled."""

        async def cancel() -> None:
            try:
                await self._on_service(lambda service: service.cancel(task_id, principal, reason=reason))
            except ProtolinkError as error:
                log.info("task %s could not be canceled: %s", task_id, error)

        cancellation = asyncio.ensure_future(cancel())
        self._cancellations.add(cancellation)
        cancellation.add_done_callback(self._cancellations.discard)

    def _result(self, fold: TaskFold, used: BudgetUsage | None) -> ActionResult:
        kind = self._method.response_type
        encoded = recorded_response(fold, kind)
        if encoded is None:
            return ActionResult(None, used, self._failure_of(fold))
        return ActionResult(MessageToDict(kind.FromString(encoded), preserving_proto_field_name=True), used)

    def _failure_of(self, fold: TaskFold) -> ToolFailedError:
        failure = fold.failure or Failure.from_error(ended_error(fold))
        name = self._method.descriptor.full_name
        error = ToolFailedError(
            f"{name} ended {fold.state}: {fold.reason}", tool=self._method.tool, task_id=fold.task_id
        )
        error.failure = failure
        error.is_reported = True  # the run of the method has logged it, and its text is for callers
        return error


def _child_context(parent: RunContext) -> RunContext:
    """Return the context of the method's task: as delegated work, but not a delegation from the agent to itself."""
    return parent.child().copy(agent_chain=parent.agent_chain[:-1])
