"""Results, resources and prompts of MCP as values of this package, and MCP's errors as errors of a tool call."""

import base64
import binascii
from typing import Any

from protolink_grpc.errors import ToolFailedError, ToolRejectedError
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part

MAX_ERROR_CHARS = 2000
"""Maximum length of the text of an error that a server sends. It is stored in the log and shown to models."""

_REJECTIONS = {-32602: "invalid_arguments", -32601: "unknown_tool", -32600: "invalid_request"}
"""JSON-RPC codes of requests that a server has not executed, as codes of rejections."""


def result_of(tool: str, result: Any) -> Any:
    """Return the result of a call (`mcp.types.CallToolResult`) as JSON.

    It is the structured content if there is some, the text if there is one text, None if there is nothing, and otherwise
    `{"content": [...]}` with the blocks in MCP's JSON form.

    Raises:
        ToolFailedError: The tool reported an error.
    """
    if result.is_error:
        raise tool_error(tool, _text_of(result.content) or "the tool reported an error without a text")
    if "structured_content" in result.model_fields_set and result.structured_content is not None:
        return result.structured_content
    if not result.content:
        return None
    blocks = [to_json(each) for each in result.content]
    if len(blocks) == 1 and blocks[0].get("type") == "text" and blocks[0].keys() <= {"type", "text"}:
        return blocks[0]["text"]
    return {"content": blocks}


def tool_error(tool: str, text: str, **metadata: str) -> ToolFailedError:
    """Build the error of a call that may have been executed. Its text comes from the server, like a result, and is shown."""
    error = ToolFailedError(f"Tool '{tool}' failed: {text[:MAX_ERROR_CHARS]}", tool=tool, **metadata)
    error.is_reported = True  # the server has the traceback
    return error


def protocol_error(tool: str, error: Any) -> ToolFailedError | ToolRejectedError:
    """Build the error of a call from the JSON-RPC error of the server (`mcp.MCPError`): a rejection if it was not executed."""
    text = str(error.message)[:MAX_ERROR_CHARS]
    if error.code in _REJECTIONS:
        details = {"mcp_code": error.code}
        return ToolRejectedError(f"Tool '{tool}' was rejected: {text}", code=_REJECTIONS[error.code], details=details)
    return tool_error(tool, text, mcp_code=str(error.code))


def parts_of(blocks: list[Any]) -> list[Part]:
    """Return content blocks, or contents of a resource, as parts. A block of an unknown kind is a JSON part."""
    return [_part_of(each) for each in blocks]


def messages_of(prompt: Any) -> list[Message]:
    """Return the messages of a prompt (`mcp.types.GetPromptResult`); the assistant's role is `agent`."""
    return [
        Message(role="agent" if each.role == "assistant" else "user", parts=[_part_of(each.content)])
        for each in prompt.messages
    ]


def to_json(value: Any) -> dict[str, Any]:
    """Return a value of the SDK in MCP's JSON form."""
    found: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _text_of(blocks: list[Any]) -> str:
    return "\n".join(each.text for each in blocks if getattr(each, "type", "") == "text")


def _part_of(block: Any) -> Part:
    fields = to_json(block)
    match fields:
        case {"type": "text", "text": str() as text}:
            return Part.text(text)
        case {"type": "image" | "audio" as kind, "data": str() as data, "mimeType": str() as media_type}:
            return _file_part(kind, data, media_type, None)
        case {"type": "resource", "resource": dict()}:
            return _part_of(block.resource)
        case {"type": "resource_link", "uri": str() as uri}:
            media_type = fields.get("mimeType", "application/octet-stream")
            return Part.file(uri=uri, name=fields.get("name"), media_type=media_type)
        case {"uri": str() as uri, "text": str() as text}:
            part = Part.text(text)
            part.metadata = {"uri": uri}
            return part
        case {"uri": str() as uri, "blob": str() as data}:
            return _file_part("file", data, fields.get("mimeType", "application/octet-stream"), uri)
        case _:
            return Part.json(fields)


def _file_part(kind: str, data: str, media_type: str, name: str | None) -> Part:
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error:
        return Part.json({"type": kind, "data": data, "mimeType": media_type})
    build = {"image": Part.image, "audio": Part.audio}.get(kind, Part.file)
    return build(content, name=name, media_type=media_type)
