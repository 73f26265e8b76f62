"""Tools, outputs and errors of an agent in MCP's form."""

from collections.abc import Iterable
from typing import Any

from protolink_grpc.errors import ProtolinkError, ToolRejectedError
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.part import ToolOutput
from protolink_grpc.models.tool import ToolDescription


def tool_of(description: ToolDescription) -> Any:
    """Return the description of a tool as `mcp.types.Tool`. Only schemas of objects are passed on, as older versions require."""
    from mcp.types import Tool, ToolAnnotations

    is_object = description.output_schema.get("type") == "object"
    return Tool(
        name=description.name,
        title=description.title or None,
        description=description.description or None,
        input_schema={"type": "object", **description.input_schema},
        output_schema=description.output_schema if is_object else None,
        annotations=ToolAnnotations(
            read_only_hint=description.read_only or None,
            idempotent_hint=description.idempotent or None,
            destructive_hint=description.destructive or None,
        ),
    )


def output_result(output: ToolOutput) -> Any:
    """Return the output of a tool as `mcp.types.CallToolResult`."""
    if output.error is not None:
        error = output.error if isinstance(output.error, dict) else {"message": str(output.error)}
        return _result(str(error.get("message", error)), error, is_error=True)
    result = output.result
    text = result if isinstance(result, str) else _json_text(result)
    return _result(text, result if isinstance(result, dict) else None)


def error_result(error: ProtolinkError) -> Any:
    """Return an error that the caller's model can act on: the call was rejected, denied, or did not succeed."""
    shown = error.to_dict() if isinstance(error, ToolRejectedError) else {"code": error.reason, "message": str(error)}
    hint = f". {error.suggestion}" if isinstance(error, ToolRejectedError) and error.suggestion else ""
    return _result(str(error) + hint, shown, is_error=True)


def task_result(fold: TaskFold) -> Any:
    """Return a task: its state, and the text of its newest result or message."""
    task = fold.to_task()
    shown = {"task_id": fold.task_id, "state": str(fold.state)}
    answer = task.get_output()
    if answer is None:
        answer = "\n".join(
            _texts(task.messages[-1].parts if task.messages and task.messages[-1].role == "agent" else ())
        )
    text = answer if isinstance(answer, str) else _json_text(answer)
    if fold.reason:
        shown["reason"] = fold.reason
    return _result(text or fold.reason or str(fold.state), {**shown, "text": text}, is_error=shown["state"] in _FAILED)


def running_result(task_id: str) -> Any:
    """Return the handle of a task that works longer than the client waits."""
    text = f"Task {task_id} is still working. Call get_task with this task_id later."
    return _result(text, {"task_id": task_id, "state": "working", "text": ""})


_FAILED = frozenset({"failed", "rejected", "canceled"})


def _result(text: str, structured: dict[str, Any] | None, *, is_error: bool = False) -> Any:
    from mcp.types import CallToolResult, TextContent

    content = [TextContent(type="text", text=text)]
    if structured is None:
        return CallToolResult(content=content, is_error=is_error)
    return CallToolResult(content=content, structured_content=structured, is_error=is_error)


def _texts(parts: Iterable[Any]) -> Iterable[str]:
    return (each.content for each in parts if each.type == "text" and isinstance(each.content, str))


def _json_text(value: Any) -> str:
    found: Any = to_json(value)
    return found.decode() if isinstance(found, bytes) else str(found)
