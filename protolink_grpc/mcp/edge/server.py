"""The MCP server of an agent: its tools, and tools to send and read tasks. Each call is a task with a log."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from protolink_grpc import __version__
from protolink_grpc.auth.principal import Principal
from protolink_grpc.errors import (
    ActionPolicyError,
    ApprovalNotFoundError,
    BudgetExceededError,
    InvalidArgumentError,
    ProtolinkError,
    TaskExecutionError,
    TaskNotCancelableError,
    TaskNotFoundError,
    ToolError,
)
from protolink_grpc.mcp.edge.questions import (
    CallState,
    can_be_asked,
    decision_of,
    may_answer,
    question_of,
    question_result,
)
from protolink_grpc.mcp.edge.results import error_result, output_result, running_result, task_result, tool_of
from protolink_grpc.models.action import ApprovalRequest
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolCall
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.internal_errors import public_error
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.actions.tools import TOOL_TASK, require_output, tool_submission
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.tools.schema_arguments import SchemaArguments
from protolink_grpc.tools.toolbox import Toolbox
from protolink_grpc.wire.events import event_from_frame, requested_approval_id
from protolink_grpc.wire.tasks import check_id

Batches = AsyncGenerator[list[bytes], None]
Convert = Callable[[TaskFold], Any]

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The states of a task of the extension."""

TASK_AFTER_S = 2.0
"""How long a call of a client with the tasks extension waits for its result before it becomes a task, in seconds."""

WAIT_S = 45.0
"""How long a call waits for its task if the client gets no progress, in seconds: clients usually give up after 60 s."""

LIST_TOOLS = "/plgrpc.v1.ControlService/ListTools"
CALL_TOOL = "/plgrpc.v1.ControlService/CallTool"
SEND_TASK = "/plgrpc.v1.AgentService/SendTask"
GET_TASK = "/plgrpc.v1.AgentService/GetTask"
CANCEL_TASK = "/plgrpc.v1.AgentService/CancelTask"
RESPOND_APPROVAL = "/plgrpc.v1.ControlService/RespondApproval"
"""The methods whose access rules apply, as over every protocol."""

CALL_ERRORS = (ToolError, ActionPolicyError, BudgetExceededError, TaskExecutionError)
"""Errors that are results of a call, for the client's model. Others are JSON-RPC errors."""

_TEXT = {"type": "string"}
_TASK_ID = {"type": "object", "properties": {"task_id": _TEXT}, "required": ["task_id"], "additionalProperties": False}
_TASK = {
    "type": "object",
    "properties": {"task_id": _TEXT, "state": _TEXT, "text": _TEXT, "reason": _TEXT},
    "required": ["task_id", "state", "text"],
}


@dataclass(frozen=True, slots=True)
class McpPort:
    """What an MCP server needs from its port.

    Args:
        caller: Returns the authenticated caller of a request (`mcp.server.ServerRequestContext`).
        admit: Checks that the caller may call a method now. Raises PermissionDeniedError, ResourceExhaustedError.
        max_wait_s: Maximum time that a call waits for its task; None means no limit of the port.
    """

    caller: Callable[[Any], Principal]
    admit: Callable[[str, Principal], None]
    max_wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class McpAgent:
    """What an MCP server serves.

    Args:
        approvals: Who may answer approvals; None: callers cannot.
        redaction: Applied to questions.
    """

    service: TaskService
    toolbox: Toolbox
    card: AgentCard
    approvals: Approvals | None
    redaction: RedactionPolicy


class McpEdge:
    """Serves one agent. `build_server` returns the SDK's server with its handlers."""

    def __init__(self, agent: McpAgent, port: McpPort) -> None:
        self._service = agent.service
        self._toolbox = agent.toolbox
        self._card = agent.card
        self._approvals = agent.approvals
        self._redaction = agent.redaction
        self._port = port

    @cached_property
    def _own(self) -> dict[str, tuple[Callable[..., Awaitable[Any]], str, SchemaArguments]]:
        """The tools for tasks: function, RPC and schema. They are built at the first request, because that loads the validator."""
        return {
            "send_task": (self._send_task, SEND_TASK, SchemaArguments("send_task", _send_schema(), {})),
            "get_task": (self._get_task, GET_TASK, SchemaArguments("get_task", _TASK_ID, {})),
            "cancel_task": (self._cancel_task, CANCEL_TASK, SchemaArguments("cancel_task", _TASK_ID, {})),
        }

    def build_server(self) -> Any:
        """Build the server (`mcp.server.Server`). It keeps nothing between two requests."""
        from mcp.server import Server

        from protolink_grpc.mcp.edge import tasks

        server = Server(
            self._card.name,
            version=self._card.version or __version__,
            instructions=self._card.description or None,
            # Otherwise the SDK would call `_list_tools` before each call of a tool.
            get_tool_input_schema=self._find_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        server.extensions[tasks.EXTENSION] = {}
        server.add_request_handler("tasks/get", tasks.TaskParams, self._read_task)
        server.add_request_handler("tasks/update", tasks.UpdateTaskParams, self._update_task)
        server.add_request_handler("tasks/cancel", tasks.TaskParams, self._end_task)
        return server

    def _find_schema(self, name: str) -> dict[str, Any] | None:
        if name in self._toolbox:
            return self._toolbox.get(name).input_schema
        return self._own[name][2].input_schema if name in self._own else None

    async def _list_tools(self, context: Any, params: Any) -> Any:
        from mcp.types import ListToolsResult

        try:
            self._admit(LIST_TOOLS, context)
        except ProtolinkError as error:
            raise _protocol_error(error) from error
        tools = [tool_of(each) for each in self._toolbox.describe()]
        taken = {each.name for each in tools}
        tools += [tool_of(each) for each in _own_descriptions(self._card) if each.name not in taken]
        return ListToolsResult(tools=tools)

    async def _call_tool(self, context: Any, params: Any) -> Any:
        name, arguments = params.name, params.arguments or {}
        try:
            if name in self._own and name not in self._toolbox:
                run, method, schema = self._own[name]
                principal = self._admit(method, context)
                checked = schema.validate(arguments)["arguments"]
                return await run(context, principal, checked)
            principal = self._admit(CALL_TOOL, context)
            return await self._run_tool(context, principal, name, arguments)
        except CALL_ERRORS as error:
            return error_result(error)
        except Exception as error:
            raise _protocol_error(public_error(error, f"MCP call of '{name}'")) from error

    # -- tasks of the extension ------------------------------------------------------------------------------------------

    async def _read_task(self, context: Any, params: Any) -> Any:
        from protolink_grpc.mcp.edge.tasks import detailed_task

        _, fold = await self._find_task(context, params.task_id, GET_TASK)
        status = self._status_of(context, fold)
        if status == "input_required":
            questions = {each.request_id: question_of(each, self._redaction) for each in self._questions(context, fold)}
            return detailed_task(fold, status, inputRequests={key: _json(each) for key, each in questions.items()})
        if status != "completed":
            return detailed_task(fold, status)
        try:
            result = tool_result(fold) if fold.metadata.get(TOOL_TASK) else task_result(fold)
        except CALL_ERRORS as error:
            result = error_result(error)
        except ProtolinkError as error:
            failure = _protocol_error(error)
            return detailed_task(fold, "failed", error=_json(failure.error))
        return detailed_task(fold, status, result=_json(result))

    async def _update_task(self, context: Any, params: Any) -> Any:
        principal, fold = await self._find_task(context, params.task_id, RESPOND_APPROVAL)
        pending = set(fold.pending_approvals)
        try:
            for key, response in params.input_responses.items():
                if key in pending:  # others are answered already, or never were asked
                    with suppress(ApprovalNotFoundError):
                        await self._answer(principal, {key: response})
        except ProtolinkError as error:
            raise _protocol_error(error) from error
        return {"resultType": "complete"}

    async def _end_task(self, context: Any, params: Any) -> Any:
        principal, fold = await self._find_task(context, params.task_id, CANCEL_TASK)
        with suppress(TaskNotCancelableError):  # it has ended
            await self._service.cancel(fold.task_id, principal.name)
        return {"resultType": "complete"}

    async def _find_task(self, context: Any, task_id: str, method: str) -> tuple[Principal, TaskFold]:
        """Return the caller and the task of a request about a task.

        Raises:
            MCPError: The client does not declare the extension, the caller may not call `method`, or the task does not exist.
        """
        from mcp import MCPError
        from mcp.types.jsonrpc import INVALID_PARAMS

        from protolink_grpc.mcp.edge.tasks import missing_extension_error, takes_tasks

        if not takes_tasks(context):
            raise missing_extension_error()
        try:
            principal = self._admit(method, context)
            return principal, await self._service.get(task_id, principal.name)
        except TaskNotFoundError as error:
            raise MCPError(INVALID_PARAMS, str(error), {"reason": error.reason}) from error
        except ProtolinkError as error:
            raise _protocol_error(error) from error

    def _status_of(self, context: Any, fold: TaskFold) -> Status:
        if fold.state is TaskState.CANCELED:
            return "cancelled"
        if fold.is_settled:
            return "completed"
        return "input_required" if self._questions(context, fold) else "working"

    def _questions(self, context: Any, fold: TaskFold) -> list[ApprovalRequest]:
        """Return the unanswered approvals of a task that its client can be asked."""
        if not can_be_asked(context):
            return []
        requests = fold.pending_approvals.values()
        return [each for each in requests if may_answer(self._approvals, fold.principal, each)]

    async def _create_task(self, context: Any, task_id: str, principal: Principal) -> Any:
        """Return the handle of a task. It is committed: `tasks/get` finds it."""
        from protolink_grpc.mcp.edge.tasks import created_task

        fold = await self._service.get(task_id, principal.name)
        return created_task(fold, self._status_of(context, fold))

    # -- calls -----------------------------------------------------------------------------------------------------------

    async def _run_tool(self, context: Any, principal: Principal, name: str, arguments: dict[str, Any]) -> Any:
        call = ToolCall(name, arguments, "")
        submission = tool_submission(self._toolbox, call, task_id=new_uuid(), scopes=principal.scopes)
        return await self._start(context, submission, principal, tool_result)

    async def _send_task(self, context: Any, principal: Principal, arguments: dict[str, Any]) -> Any:
        continued = arguments.get("task_id", "")
        submission = Submission(
            messages=[Message.user(arguments["message"])],
            target=TaskTarget.CONTINUE if continued else TaskTarget.CREATE,
            task_id=continued or new_uuid(),
            session_id=check_id(arguments.get("session_id", ""), "session_id"),
            scopes=principal.scopes,
        )
        return await self._start(context, submission, principal, task_result)

    async def _get_task(self, context: Any, principal: Principal, arguments: dict[str, Any]) -> Any:
        return task_result(await self._service.get(arguments["task_id"], principal.name))

    async def _cancel_task(self, context: Any, principal: Principal, arguments: dict[str, Any]) -> Any:
        await self._service.cancel(arguments["task_id"], principal.name)
        return task_result(await self._service.get(arguments["task_id"], principal.name))

    async def _start(self, context: Any, submission: Submission, principal: Principal, convert: Convert) -> Any:
        """Start a task, or continue the call whose state the client returns, and wait until the task is settled."""
        params = context.params or {}
        if not params.get("requestState"):
            batches = self._service.stream(submission, principal.name)
            return await self._wait(context, batches, submission.task_id, principal, convert)
        state = CallState.parse(str(params["requestState"]))
        if not await self._answer(principal, params.get("inputResponses") or {}):
            return running_result(state.task_id)
        batches = self._service.watch(state.task_id, principal.name, after=state.sequence, stop_at=StopAt.INTERRUPTED)
        return await self._wait(context, batches, state.task_id, principal, convert)

    async def _answer(self, principal: Principal, responses: Mapping[str, Any]) -> bool:
        """Answer approvals. Returns False if the person has not decided."""
        from mcp.types import ElicitResult
        from pydantic import ValidationError

        for approval_id, response in responses.items():
            request = await self._service.approvals.request(approval_id)
            if request is None:
                continue
            try:
                answer = ElicitResult.model_validate(response)
            except ValidationError:
                raise InvalidArgumentError("is not an answer to its request", field="input_responses") from None
            decision = decision_of(request, answer)
            if decision is None:
                return False
            await self._service.approvals.respond(decision, principal.name, any_etag=True)
        return True

    async def _wait(self, context: Any, batches: Batches, task_id: str, principal: Principal, convert: Convert) -> Any:
        """Wait until a task is settled, and pass its progress on. The run belongs to the service, not to the call.

        Returns its converted result; or, if the task works longer than the call may wait, a handle; or a question to the client. A
        client with the tasks extension gets a task instead of the handle and the question.
        """
        from protolink_grpc.mcp.edge.tasks import takes_tasks

        is_task = takes_tasks(context)
        has_progress = context.meta is not None and context.meta.get("progress_token") is not None
        own_limit = TASK_AFTER_S if is_task else None if has_progress else WAIT_S
        limits = [each for each in (self._port.max_wait_s, own_limit) if each is not None]
        try:
            async with asyncio.timeout(min(limits, default=None)), aclosing(batches):
                async for frames in batches:
                    for frame in frames:
                        question = await self._pass_on(context, frame, task_id, principal)
                        if question is not None:
                            return await self._create_task(context, task_id, principal) if is_task else question
        except TimeoutError:
            return await self._create_task(context, task_id, principal) if is_task else running_result(task_id)
        return convert(await self._service.get(task_id, principal.name))

    async def _pass_on(self, context: Any, frame: bytes, task_id: str, principal: Principal) -> Any:
        """Pass progress on to the client. Returns the question to the client for an approval that it may answer, else None."""
        event = event_from_frame(frame)
        if isinstance(event.payload, TaskProgress):
            if event.payload.progress is not None:
                await context.session.report_progress(event.payload.progress, 100.0, event.payload.message or None)
            return None
        approval_id = requested_approval_id(frame)
        if not approval_id or not can_be_asked(context):
            return None
        request = await self._service.approvals.request(approval_id)
        if request is None or not may_answer(self._approvals, principal.name, request):
            return None
        return question_result(request, CallState(task_id, event.sequence or 0), self._redaction)

    def _admit(self, method: str, context: Any) -> Principal:
        principal = self._port.caller(context)
        self._port.admit(method, principal)
        return principal


def tool_result(fold: TaskFold) -> Any:
    """Return the output of the tool of an ended task."""
    return output_result(require_output(fold))


def _json(value: Any) -> Any:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def _protocol_error(error: ProtolinkError) -> Any:
    """Return an error of this package as JSON-RPC error, with the code of its row in the table of errors."""
    from mcp import MCPError

    data = {"reason": error.reason}
    if isinstance(error, InvalidArgumentError) and error.field:
        data["field"] = error.field
    return MCPError(error.rule.jsonrpc, str(error), data)


def _send_schema() -> dict[str, Any]:
    about_task = {"type": "string", "description": "Continue this task, for instance one that asked for input."}
    about_session = {"type": "string", "description": "Conversation that the agent remembers."}
    properties = {"message": {"type": "string"}, "task_id": about_task, "session_id": about_session}
    return {"type": "object", "properties": properties, "required": ["message"], "additionalProperties": False}


def _own_descriptions(card: AgentCard) -> list[ToolDescription]:
    about = f" {card.description}" if card.description else ""
    return [
        ToolDescription("send_task", "", f"Send a message to the agent {card.name}.{about}", _send_schema(), _TASK),
        ToolDescription("get_task", "", "Return the state and the result of a task.", _TASK_ID, _TASK, read_only=True),
        ToolDescription("cancel_task", "", "Cancel a task.", _TASK_ID, _TASK, idempotent=True),
    ]
