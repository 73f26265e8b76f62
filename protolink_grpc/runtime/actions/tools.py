"""Tools as actions: a call is checked, its action is built, and the gate decides whether and when it runs."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from protolink_grpc.errors import (
    InvalidArgumentError,
    ProtolinkError,
    TaskExecutionError,
    ToolFailedError,
    classes,
    error_text,
)
from protolink_grpc.models.action import RunAction
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import RunEvent, TaskProgress
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import normalize, plain
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolCall, ToolOutput
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.tool_result import find_tool_output
from protolink_grpc.runtime.actions.gate import (
    TOOL_CALL,
    ActionContext,
    ActionResult,
    Gate,
    Outcome,
    PreparedAction,
)
from protolink_grpc.runtime.admission import Submission
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.tools.context import NO_MEMORY, Memory, ToolContext
from protolink_grpc.tools.schema import CheckedArguments
from protolink_grpc.tools.tool import Tool
from protolink_grpc.tools.toolbox import Toolbox


class ToolActions:
    """The tools of one agent, each call of which passes its gate.

    Args:
        memory: Makes a tool's memory of a principal in a session, where the agent keeps one.
    """

    def __init__(self, toolbox: Toolbox, gate: Gate, memory: Callable[[str, str], Memory] | None = None) -> None:
        self.toolbox = toolbox
        self.gate = gate
        self._memory = memory

    async def call_tool(
        self,
        action_context: ActionContext,
        name: str,
        arguments: Mapping[str, Any],
        *,
        position: str,
        call_id: str = "",
    ) -> Outcome:
        """Run a tool through the gate.

        Raises:
            ToolRejectedError: There is no such tool, or the arguments are wrong: `prepare` could not even ask.
            ProtolinkError: As `Gate.perform`.
        """

        async def prepare() -> PreparedAction:
            tool = self.toolbox.get(name)
            return await self._prepared(tool, plain(dict(arguments)), action_context, call_id)

        return await self.gate.perform(action_context, prepare, position=position)

    async def _prepared(
        self, tool: Tool, arguments: dict[str, Any], action_context: ActionContext, call_id: str
    ) -> PreparedAction:
        action, checked = await _built(tool, tool.check(arguments), action_context.context, call_id)

        async def execute(action: RunAction) -> ActionResult:
            context = self._tool_context(action, action_context, call_id)
            return ActionResult(await tool.run(checked.keywords, context=context, runner=self.toolbox.runner))

        def edited(changed: dict[str, Any]) -> RunAction:
            nonlocal checked
            checked = tool.check(changed)
            return action.with_payload({**action.payload, "arguments": checked.shown})

        def is_same(payload: dict[str, Any]) -> bool:
            """Whether a recorded action is this one; its arguments may be written as they were sent, or in another order."""
            own = {**action.payload, "arguments": checked.shown}
            if payload == own:
                return True
            if payload | {"arguments": None} != own | {"arguments": None}:
                return False
            try:
                return tool.validate(payload.get("arguments", {})) == checked.keywords
            except ProtolinkError:
                return False

        return PreparedAction(action, execute, edited, is_same, repeatable=tool.idempotent, silent=tool.read_only)

    def _tool_context(self, action: RunAction, action_context: ActionContext, call_id: str) -> ToolContext:
        async def progress(percent: float | None, message: str = "") -> None:
            report = TaskProgress(percent, message)
            report.check()
            await action_context.emit(RunEvent(payload=report, action_id=action.action_id))

        context = action_context.context
        session = context.session_id or ""
        return ToolContext(
            task_id=action_context.task_id,
            run_id=context.run_id,
            session_id=session,
            agent_name=context.agent_chain[-1] if context.agent_chain else "",
            principal=action_context.principal,
            call_id=call_id,
            action_id=action.action_id,
            run_context=context,
            cancellation=action_context.token,
            memory=self._memory(action_context.principal, session)
            if self._memory is not None and session
            else NO_MEMORY,
            progress=progress,
        )


async def _built(
    tool: Tool, checked: CheckedArguments, context: RunContext, call_id: str
) -> tuple[RunAction, CheckedArguments]:
    """The action of a tool call, and its arguments: the tool's own builder may show more of it and choose other arguments, and can
    drop none of its capabilities.
    """
    arguments = checked.shown
    if tool.action_builder is None:
        payload = {"arguments": arguments}
        text = tool.description[:200]
        return RunAction(TOOL_CALL, tool.name, payload, tool.capabilities, description=text, call_id=call_id), checked
    try:
        built: Any = tool.action_builder(plain(arguments), context.copy())
        if inspect.isawaitable(built):
            built = await built
    except (ProtolinkError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise ToolFailedError(
            f"the preview of tool '{tool.name}' failed: {error_text(error)}", tool=tool.name
        ) from error
    if not isinstance(built, RunAction):
        raise ToolFailedError(
            f"the action_builder of tool '{tool.name}' must return a RunAction, not {type(built).__name__}",
            tool=tool.name,
        )
    shown: Any = normalize(built.payload)
    payload = {"arguments": arguments, **shown}
    if payload["arguments"] != arguments:
        checked = tool.check(payload["arguments"])
        payload["arguments"] = checked.shown
    metadata = built.metadata if built.name == tool.name else {**built.metadata, "tool": tool.name}
    action = replace(
        built,
        payload=payload,
        capabilities=built.capabilities | tool.capabilities,
        artifacts=tuple(replace(each, action_id=built.action_id) for each in built.artifacts),
        metadata=metadata,
        call_id=call_id,
    )
    return action, checked


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
