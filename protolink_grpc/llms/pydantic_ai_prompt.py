"""A ModelRequest in pydantic-ai's values. Loaded with the first call of a model, for it imports pydantic-ai. Nothing is sent here.

The author's instructions are the only system prompt. What users say is a user's part, and what tools say is a tool's return.
User messages that follow each other become one: chat templates of local servers want the roles to alternate.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from pydantic_ai import messages as theirs
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from protolink_grpc.llms.port import ModelRequest, ToolSpec
from protolink_grpc.llms.prompt import data_block
from protolink_grpc.models.conversation import LLMMessage

NAME_CHARS = 64
"""Bound of a tool's name that every provider takes."""

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")

UNREADABLE = "INVALID_JSON"
"""Key under which arguments that are no JSON object go back to a model: providers take objects only."""


class WireNames:
    """Our names of tools and those that every provider takes: letters, digits, `_` and `-`, at most 64. One per request."""

    def __init__(self, names: Iterable[str]) -> None:
        self._theirs: dict[str, str] = {}
        self._ours: dict[str, str] = {}
        # Names that are fine keep themselves, whatever the others become.
        for name in sorted(set(names), key=lambda name: (_plain(name) != name, name)):
            wire = _plain(name)
            number = 2
            while wire in self._ours:
                suffix = f"_{number}"
                wire = _plain(name)[: NAME_CHARS - len(suffix)] + suffix
                number += 1
            self._theirs[name] = wire
            self._ours[wire] = name

    def wire(self, name: str) -> str:
        return self._theirs[name]

    def ours(self, wire: str) -> str:
        """The tool that a model means; a name that was never offered is left as it is."""
        return self._ours.get(wire, wire)


def wire_names(request: ModelRequest) -> WireNames:
    """The names in a request: of the tools offered, and of those called before, which may be gone."""
    said = (call.get("name") for message in request.messages for call in message.tool_calls)
    answered = (message.tool_name for message in request.messages)
    return WireNames([*(tool.name for tool in request.tools), *(str(name) for name in (*said, *answered) if name)])


def conversation(request: ModelRequest, names: WireNames) -> list[theirs.ModelMessage]:
    """The prompt: what stands between two answers of the model is one request."""
    result: list[theirs.ModelMessage] = []
    asked: list[theirs.ModelRequestPart] = [theirs.SystemPromptPart(request.system)] if request.system else []
    for message in request.messages:
        if message.role != "assistant":
            _append(asked, _said(message, names))
            continue
        if answer := _answered(message, names):
            if asked:
                result.append(theirs.ModelRequest(asked))
                asked = []
            result.append(theirs.ModelResponse(answer))
    if asked:
        result.append(theirs.ModelRequest(asked))
    return result


def parameters(tools: Sequence[ToolSpec], schema: dict[str, Any] | None, names: WireNames) -> ModelRequestParameters:
    """The tools, and the schema of the answer where the provider is to enforce one."""
    definitions = [
        ToolDefinition(
            name=names.wire(tool.name),
            description=tool.description or None,
            parameters_json_schema=tool.input_schema or {"type": "object", "properties": {}},
            # Strict modes take less than JSON Schema, and whoever runs the tool checks its arguments anyhow.
            strict=False,
        )
        for tool in tools
    ]
    if schema is None:
        return ModelRequestParameters(function_tools=definitions)
    answer = OutputObjectDefinition(json_schema=schema, name="answer", strict=False)
    return ModelRequestParameters(function_tools=definitions, output_mode="native", output_object=answer)


def _said(message: LLMMessage, names: WireNames) -> theirs.ModelRequestPart:
    if message.role == "tool" and message.tool_call_id:
        tool = names.wire(message.tool_name) if message.tool_name else "tool"
        return theirs.ToolReturnPart(tool, message.content, message.tool_call_id)
    if message.role == "user":
        return theirs.UserPromptPart(message.content)
    # A result without a call, or a stray system message, is data.
    return theirs.UserPromptPart(data_block("message", [{"role": message.role, "content": message.content}]))


def _append(asked: list[theirs.ModelRequestPart], part: theirs.ModelRequestPart) -> None:
    last = asked[-1] if asked else None
    if isinstance(last, theirs.UserPromptPart) and isinstance(part, theirs.UserPromptPart):
        part = theirs.UserPromptPart(f"{last.content}\n\n{part.content}")
        asked.pop()
    asked.append(part)


def _answered(message: LLMMessage, names: WireNames) -> list[theirs.ModelResponsePart]:
    parts: list[theirs.ModelResponsePart] = [theirs.TextPart(message.content)] if message.content else []
    for call in message.tool_calls:
        name, call_id = str(call.get("name") or "tool"), str(call.get("id") or "")
        wire = names.wire(name) if call.get("name") else name
        parts.append(theirs.ToolCallPart(wire, _arguments(call.get("arguments")), call_id))
    return parts


def _arguments(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = orjson.loads(value) if value else {}
        except ValueError:
            return {UNREADABLE: value}
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {UNREADABLE: value}


def _plain(name: str) -> str:
    return _FOREIGN.sub("_", name)[:NAME_CHARS]
