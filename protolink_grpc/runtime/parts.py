"""What an agent does by default: run the explicit parts of the latest item of a task, in order.

A part asks for something or it does not; nothing is guessed. Each tool call is an action in the log, its outcome an artifact. The
first failure ends the run.
"""

import time
from typing import Any

from protolink_grpc.errors import ProtolinkError, ToolError, ToolFailedError, ToolRejectedError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.events import ActionEnded, ActionStarted, RunEvent, TaskProgress
from protolink_grpc.models.ids import new_action_id
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, ToolCall
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.run import Run
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.toolbox import Toolbox

TOOL_CALL = "tool.call"


class PartExecutor:
    """Runs the explicit parts of tasks with the tools of one agent."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def execute(self, task: Task, run: Run) -> Task:
        """Do what the latest item asks for, and leave the task in the state that follows from it."""
        item = task.get_last_item()
        parts = list(item.parts) if item is not None else []
        asked = False
        for part in parts:
            run.token.raise_if_cancelled()
            match part.type:
                case "tool_call":
                    asked = True
                    failure = await self._call_tool(task, part.as_tool_call(), run)
                    if failure is not None:
                        return task.fail(failure)
                case "infer":
                    return self._refuse(task, run, "has no language model to answer an infer part")
        if not asked:
            return self._refuse(task, run, "found nothing to do in this task")
        return task.update_state(TaskState.COMPLETED)

    def _refuse(self, task: Task, run: Run, why: str) -> Task:
        """Say what this agent can be asked instead of completing without an answer."""
        names = sorted(self._toolbox.names)
        offer = f"send a tool_call part for one of: {', '.join(names)}" if names else "it offers no tools either"
        sentence = f"agent {run.agent_name} {why}; {offer}"
        task.add_message(Message(role="agent", parts=[Part.error("UNSUPPORTED", sentence)]))
        return task.fail(sentence)

    async def _call_tool(self, task: Task, call: ToolCall, run: Run) -> str | None:
        """One call as an action; its outcome becomes an artifact. Returns why it failed, None for success."""
        action_id = new_action_id()
        await run.emit(_event(action_id, "action.started", ActionStarted(TOOL_CALL, call.tool_name, call.args)))
        started = time.monotonic()
        result: Any = None
        error: ProtolinkError | None = None
        try:
            result = await self._toolbox.call(call.tool_name, call.args, self._context(call, run))
        except ToolFailedError as raised:
            error = run.shown(raised)
        except ProtolinkError as raised:
            error = raised
        micros = int((time.monotonic() - started) * 1e6)
        shown = None if error is None else error_value(error)
        kind = "action.completed" if error is None else _kind(error)
        ended = ActionEnded(TOOL_CALL, call.tool_name, result, shown, duration_micros=micros)
        event = _event(action_id, kind, ended)
        if error is not None:
            event.severity = "error"
            event.summary = str(error)[:200]
        await run.emit(event)
        output = Part.tool_output(call.call_id, result, shown)
        task.add_artifact(Artifact(parts=[output], action_id=action_id))
        await run.publish(task)
        if error is None:
            return None
        hint = error.suggestion if isinstance(error, ToolRejectedError) else None
        return f"{error}. {hint}" if hint else str(error)

    @staticmethod
    def _context(call: ToolCall, run: Run) -> ToolContext:
        async def progress(value: float, message: str = "") -> None:
            await run.emit(TaskProgress(100.0 * value, message))

        return ToolContext(
            task_id=run.task_id,
            run_id=run.run_id,
            session_id=run.session_id,
            agent_name=run.agent_name,
            principal=run.principal,
            call_id=call.call_id,
            progress=progress,
        )


def _event(action_id: str, kind: str, payload: ActionStarted | ActionEnded) -> RunEvent:
    return RunEvent(type=kind, payload=payload, action_id=action_id)


def _kind(error: ProtolinkError) -> str:
    return "action.rejected" if isinstance(error, ToolRejectedError) else "action.failed"


def error_value(error: ProtolinkError) -> dict[str, Any]:
    """The `tool_output.error` object for a failed call."""
    if isinstance(error, ToolRejectedError):
        return error.to_dict()
    code = error.reason if isinstance(error, ToolError) else ToolFailedError.reason
    return {"status": "failed", "code": code, "message": str(error)}
