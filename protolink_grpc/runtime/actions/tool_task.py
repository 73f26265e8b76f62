"""A tool called from outside: a task of its own, recorded, resumed and approved like any other. No edge is known here."""

from contextlib import suppress

from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, TaskExecutionError, ToolFailedError, classes
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolCall, ToolOutput
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.tool_result import find_tool_output
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.tools.toolbox import Toolbox

TOOL_TASK = "plgrpc.tool_call"
"""Metadata key of a task that asks for a tool and nothing else: also an agent with a handler of its own runs it by default."""


async def run_tool(
    service: TaskService,
    toolbox: Toolbox,
    call: ToolCall,
    principal: str,
    *,
    session_id: str = "",
    request_id: str = "",
    task_id: str = "",
    scopes: frozenset[str] = frozenset(),
) -> tuple[str, ToolOutput]:
    """Run a tool and wait for its end.

    Args:
        task_id: Id of the task that the call becomes; empty lets the service choose.

    Returns:
        The id of its task, and what the tool gave, its failure included.

    Raises:
        ToolRejectedError: There is no such tool, or the arguments are wrong; there is no task then.
        InvalidArgumentError: The arguments are not JSON; there is no task then.
        ProtolinkError: As `TaskService.send`; or the call was not allowed to run, or was canceled.
    """
    # A validator that breaks is the tool's failure, which its task records.
    with suppress(ToolFailedError):
        tool = toolbox.get(call.tool_name)
        try:
            arguments = call.json_args()
        except InvalidArgumentError as error:
            raise error.within("call") from None
        tool.validate(arguments)
    part = Part.tool_call(call.tool_name, call.args, call.call_id or None)
    submission = Submission(
        messages=[Message(role="user", parts=[part])],
        target=TaskTarget.CREATE,
        metadata={TOOL_TASK: True},
        task_id=task_id,
        session_id=session_id,
        request_id=request_id,
        scopes=scopes,
    )
    fold = await service.send(submission, principal)
    output = find_tool_output(fold.artifacts)
    if output is None:
        raise _ended_error(fold)
    return fold.task_id, output


def _ended_error(fold: TaskFold) -> ProtolinkError:
    """The error by which a task ended, as the exception that its code names as far as that is known."""
    message = fold.messages[-1] if fold.messages else None
    for part in message.parts if message is not None else ():
        if part.type == "error" and isinstance(part.content, dict):
            kind = classes().get(str(part.content.get("code")))
            if kind is not None:
                return kind(str(part.content.get("message", fold.reason)))
    return TaskExecutionError(f"task {fold.task_id} ended {fold.state}: {fold.reason}", task_id=fold.task_id)
