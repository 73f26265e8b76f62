"""Converts a ModelRequest to pydantic-ai's types. Imported with the first call of a model, because it imports pydantic-ai.

Only the author's instructions are the system prompt. User messages become user parts, and results of tools become tool returns.
Consecutive user messages are joined, because chat templates of local servers require alternating roles.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, assert_never

import orjson
from pydantic_ai import messages as theirs
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.tools import ToolDefinition

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.input_media import list_types, refuse_text, refuse_url
from protolink_grpc.llms.port import ModelRequest, ToolSpec
from protolink_grpc.llms.prompt import data_block, escape_marks
from protolink_grpc.llms.providers import Dialect
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.media import Media, is_media_type

NAME_CHARS = 64
"""The length of a tool's name that every provider accepts."""

_INVALID_CHARS = re.compile(r"[^A-Za-z0-9_-]")

UNREADABLE = "INVALID_JSON"
"""The key for arguments that are not a JSON object, when they are sent back to a model: providers accept only objects."""


class WireNames:
    """Maps tool names of one request to names that every provider accepts: letters, digits, `_` and `-`, at most 64."""

    def __init__(self, names: Iterable[str]) -> None:
        self._theirs: dict[str, str] = {}
        self._ours: dict[str, str] = {}
        # Valid names come first, so that they stay unchanged.
        for name in sorted(set(names), key=lambda name: (_to_wire(name) != name, name)):
            wire = _to_wire(name)
            number = 2
            while wire in self._ours:
                suffix = f"_{number}"
                wire = _to_wire(name)[: NAME_CHARS - len(suffix)] + suffix
                number += 1
            self._theirs[name] = wire
            self._ours[wire] = name

    def wire(self, name: str) -> str:
        return self._theirs[name]

    def ours(self, wire: str) -> str:
        """The tool's own name; an unknown name is returned unchanged."""
        return self._ours.get(wire, wire)


def wire_names(request: ModelRequest) -> WireNames:
    """The names of all tools in a request, including tools of earlier calls that no longer exist."""
    calls = (call.get("name") for message in request.messages for call in message.tool_calls)
    results = (message.tool_name for message in request.messages)
    return WireNames([*(tool.name for tool in request.tools), *(str(name) for name in (*calls, *results) if name)])


def to_messages(request: ModelRequest, names: WireNames) -> list[theirs.ModelMessage]:
    """Convert the messages. All messages between two answers of the model are one request."""
    result: list[theirs.ModelMessage] = []
    parts: list[theirs.ModelRequestPart] = [theirs.SystemPromptPart(request.system)] if request.system else []
    for message in request.messages:
        if message.role != "assistant":
            _append_part(parts, _to_request_part(message, names))
            continue
        if answer := _to_response_parts(message, names):
            if parts:
                result.append(theirs.ModelRequest(parts))
                parts = []
            result.append(theirs.ModelResponse(answer))
        if message.media:
            # Most providers take files only from the user.
            files = [_to_file(each) for each in message.media]
            _append_part(parts, theirs.UserPromptPart(["Files of the answer before:", *files]))
    if parts:
        result.append(theirs.ModelRequest(parts))
    return result


def refuse_media(media: Media, profile: ModelProfile, dialect: Dialect, url_media: Sequence[str]) -> str:
    """Return why a file cannot be sent to a model; empty if it can. `url_media` are the types that its server takes by URL."""
    if why := refuse_text(media):
        return why
    taken = _input_types(profile, dialect)
    if not is_media_type(media.media_type, taken):
        return f"{list_types(taken)}; use a model that takes the file"
    if media.data is not None:
        return ""
    if not is_media_type(media.media_type, url_media):
        return "send the bytes instead; this server does not download it"
    return refuse_url(media.url)


def _input_types(profile: ModelProfile, dialect: Dialect) -> list[str]:
    found = ["image/*"] if profile.get("supports_image_input", True) else []
    if profile.get("supports_audio_file_input", True):
        # Chat completions have only these two formats.
        found += ["audio/wav", "audio/mpeg"] if dialect == "openai" else ["audio/*"]
    if profile.get("supports_video_input", True):
        found.append("video/*")
    if profile.get("supports_document_input", True):
        documents = profile.get("supported_document_media_types", frozenset[str]())
        found += sorted(each for each in documents if not each.startswith("text/"))
    return found


def to_parameters(
    tools: Sequence[ToolSpec], schema: dict[str, Any] | None, names: WireNames, *, with_images: bool = False
) -> ModelRequestParameters:
    """Convert the tools, and the output schema if the provider enforces one. `with_images` lets the answer have images."""
    definitions = [
        ToolDefinition(
            name=names.wire(tool.name),
            description=tool.description or None,
            parameters_json_schema=tool.input_schema or {"type": "object", "properties": {}},
            # Strict modes support only a part of JSON Schema. The arguments are checked before the tool runs.
            strict=False,
        )
        for tool in tools
    ]
    if schema is None:
        return ModelRequestParameters(function_tools=definitions, allow_image_output=with_images)
    # Strict if the provider can enforce the whole schema. Anthropic is always strict: see `fits_anthropic`.
    answer = OutputObjectDefinition(json_schema=_escape_texts(schema), name="answer", strict=None)
    return ModelRequestParameters(function_tools=definitions, output_mode="native", output_object=answer)


def wrap_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of an object whose property `WRAPPER` has the given schema, because providers enforce only objects.

    None if the schema has references that would point elsewhere then.
    """
    if "$id" in schema or not all(_references(schema)):
        return None
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    wrapper = {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER], "additionalProperties": False}
    return wrapper | ({"$defs": schema["$defs"]} if "$defs" in schema else {})


def _references(node: Any) -> Iterator[bool]:
    """Yield for each reference of a schema whether it points to a definition."""
    if isinstance(node, list):
        for each in node:
            yield from _references(each)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield key == "$ref" and value.startswith("#/$defs/")
            else:
                yield from _references(value)


def unwrap_answer(text: str) -> str:
    """Return the answer in the text of an object of `wrap_schema`; any other text is returned unchanged."""
    try:
        value = from_json(text)
    except InvalidArgumentError:
        return text
    return to_json(value[WRAPPER]) if isinstance(value, dict) and value.keys() == {WRAPPER} else text


WRAPPER = "answer"


def fits_anthropic(schema: dict[str, Any]) -> bool:
    """Return whether Anthropic can enforce a schema without a change of its meaning.

    Anthropic supports objects with known properties only, no recursion, and 24 optional properties and 16 unions in a request.
    Source: the limits of strict schemas at platform.claude.com/docs/en/build-with-claude/structured-outputs.
    """
    optional = unions = visited = 0
    pending: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    while pending:
        node, path = pending.pop()
        visited += 1
        if visited > MAX_VISITED:
            return False
        if isinstance(node, list):
            pending.extend((each, path) for each in node)
        if not isinstance(node, dict):
            continue
        reference, properties = node.get("$ref"), node.get("properties")
        if isinstance(reference, str):
            if reference in path or not reference.startswith("#/$defs/"):
                return False
            target = schema.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
            pending.append((target, path | {reference}))
        if node.get("type") == "object" and not (properties and node.get("additionalProperties") in (None, False)):
            return False
        if isinstance(properties, dict):
            optional += len(properties.keys() - set(node.get("required", ())))
            unions += sum(isinstance(each, dict) and "anyOf" in each for each in properties.values())
            pending.extend((each, path) for each in properties.values())
        pending.extend((value, path) for key, value in node.items() if key in _SCHEMA_KEYS)
        if optional > MAX_OPTIONAL_PROPERTIES or unions > MAX_UNIONS:
            return False
    return True


_SCHEMA_KEYS = ("anyOf", "oneOf", "allOf", "items", "prefixItems")
MAX_OPTIONAL_PROPERTIES = 24
MAX_UNIONS = 16
MAX_VISITED = 10_000
"""Bound of the work for a caller's schema: its references may describe much more than its text."""


def _escape_texts(schema: Any) -> Any:
    """Return a schema without marks of data blocks in its descriptions and titles, which providers show to the model."""
    if isinstance(schema, list):
        return [_escape_texts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: escape_marks(each) if key in ("description", "title") and isinstance(each, str) else _escape_texts(each)
        for key, each in schema.items()
    }


def _to_request_part(message: LLMMessage, names: WireNames) -> theirs.ModelRequestPart:
    files = [_to_file(each) for each in message.media]
    if message.role == "tool" and message.tool_call_id:
        tool = names.wire(message.tool_name) if message.tool_name else "tool"
        content = [message.content, *files] if files else message.content
        return theirs.ToolReturnPart(tool, content, message.tool_call_id)
    if message.role == "user":
        return theirs.UserPromptPart(_with_text(message.content, files))
    # A result without a call, or an unexpected system message, is data.
    block = data_block("message", [{"role": message.role, "content": message.content}])
    return theirs.UserPromptPart(_with_text(block, files))


def _append_part(parts: list[theirs.ModelRequestPart], part: theirs.ModelRequestPart) -> None:
    last = parts[-1] if parts else None
    if isinstance(last, theirs.UserPromptPart) and isinstance(part, theirs.UserPromptPart):
        part = theirs.UserPromptPart(_join(last.content, part.content))
        parts.pop()
    parts.append(part)


_Content = str | Sequence[theirs.UserContent]


def _with_text(text: str, files: Sequence[theirs.UserContent]) -> _Content:
    if not files:
        return text
    return [text, *files] if text else list(files)


def _join(before: _Content, after: _Content) -> _Content:
    if isinstance(before, str) and isinstance(after, str):
        return f"{before}\n\n{after}"
    return [*([before] if isinstance(before, str) else before), *([after] if isinstance(after, str) else after)]


def _to_file(media: Media) -> theirs.MultiModalContent:
    if media.data is not None:
        return theirs.BinaryContent(media.data, media_type=media.media_type)
    match media.kind:
        case "image":
            return theirs.ImageUrl(media.url, media_type=media.media_type)
        case "audio":
            return theirs.AudioUrl(media.url, media_type=media.media_type)
        case "video":
            return theirs.VideoUrl(media.url, media_type=media.media_type)
        case "text" | "document":
            return theirs.DocumentUrl(media.url, media_type=media.media_type)
        case _:
            assert_never(media.kind)


def _to_response_parts(message: LLMMessage, names: WireNames) -> list[theirs.ModelResponsePart]:
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


def _to_wire(name: str) -> str:
    return _INVALID_CHARS.sub("_", name)[:NAME_CHARS]
