"""Parts of messages and artifacts, and the typed contents of parts."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Self, TypeVar

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.ids import new_call_id
from protolink_grpc.models.json_form import JsonForm, read_fields
from protolink_grpc.models.json_schema import OutputType, SchemaLike, json_schema_of
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.kinds import Filled, Kind, check_object
from protolink_grpc.models.payload import MARK, Payload, PayloadRef, UserValue, read_value, require_json


class PartType:
    """The part types of this version. A part of another type is kept unchanged."""

    TEXT: Final = "text"
    JSON: Final = "json"
    FILE: Final = "file"
    BYTES: Final = "bytes"
    URI: Final = "uri"
    IMAGE: Final = "image"
    AUDIO: Final = "audio"
    VIDEO: Final = "video"
    STATUS: Final = "status"
    ERROR: Final = "error"
    WARNING: Final = "warning"
    ROUTE: Final = "route"
    DECISION: Final = "decision"
    INFER: Final = "infer"
    INFER_OUTPUT: Final = "infer_output"
    TOOL_CALL: Final = "tool_call"
    TOOL_OUTPUT: Final = "tool_output"
    TRACE: Final = "trace"
    SUMMARY: Final = "summary"
    CONFIDENCE: Final = "confidence"
    SCHEMA: Final = "schema"
    UNKNOWN: Final = "unknown"
    """A part of a later version: `{fallback_text, encoded}`, a text to show and the encoded protobuf Part in base64."""


_ARGUMENTS: Final = Kind("arguments", lambda value: read_value(check_object(value)))


@dataclass(frozen=True, slots=True)
class ToolCall(JsonForm):
    """A request to call a tool. `call_id` identifies the call; its ToolOutput repeats it.

    `args` is a JSON object, or a Payload in another form that only some tools accept.
    """

    tool_name: Filled
    args: Annotated[dict[str, Any] | Payload, _ARGUMENTS] = field(default_factory=dict)
    call_id: str = field(default_factory=new_call_id)

    def json_args(self) -> dict[str, Any]:
        """Return the arguments as a JSON object.

        Raises:
            InvalidArgumentError: The arguments have another form; names `arguments`.
        """
        args = require_json(self.args, "arguments")
        if not isinstance(args, dict):
            raise InvalidArgumentError("must be a JSON object", field="arguments")
        return args


@dataclass(frozen=True, slots=True)
class ToolOutput(JsonForm):
    """The result of one ToolCall. The call succeeded if `error` is None.

    `result` is any JSON value or a Payload, `error` any JSON value.
    """

    call_id: str
    result: UserValue = None
    error: Any = None


@dataclass(frozen=True, slots=True)
class RouteDecision(JsonForm):
    """The next step of a flow: `route_key` is one of the keys of its router."""

    route_key: Filled
    reason: str | None = None
    confidence: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; `route` and `key` are accepted instead of `route_key`, because models often write them."""
        source = reader.as_object(data)
        name = next((name for name in ("route_key", "route", "key") if source.get(name) is not None), "route_key")
        if name != "route_key":
            reader.filled_text(source, name)
        return cls(**read_fields(cls, {**source, "route_key": source.get(name)}))


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file by value (`data`) or by reference (`uri`).

    Args:
        payload: Set if the other fields cannot hold everything: size or digest of a reference, a preview, a codec, another form.
    """

    data: bytes | None = None
    uri: str | None = None
    name: str | None = None
    media_type: str = "application/octet-stream"
    payload: Payload | None = None

    @classmethod
    def of(cls, payload: Payload, name: str | None = None) -> Self:
        """Build the file of a payload; `data` and `uri` are set if the payload has them."""
        payload = replace(payload, media_type=payload.content_type)
        value = payload.value
        data = value if isinstance(value, bytes) and not payload.encoding else None
        uri = value.uri if isinstance(value, PayloadRef) else None
        return cls(data, uri, name, payload.media_type, payload)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form. `data` is standard base64, omitted if None; a payload is `$payload` instead of `data`."""
        found: dict[str, Any] = {"name": self.name, "media_type": self.media_type, "uri": self.uri}
        if self.payload is not None:
            return found | self.payload.to_dict()
        if self.data is not None:
            found["data"] = base64.b64encode(self.data).decode("ascii")
        return found

    @classmethod
    def from_dict(cls, data: object) -> Self:
        source = reader.as_object(data)
        payload = read_value({MARK: source[MARK]}) if MARK in source else None
        if isinstance(payload, Payload):
            return cls.of(payload, reader.optional_text(source, "name"))
        encoded = reader.optional_text(source, "data")
        try:
            decoded = None if encoded is None else binascii.a2b_base64(encoded, strict_mode=True)
        except ValueError:
            raise InvalidArgumentError("must be base64 text", field="data") from None
        return cls(
            data=decoded,
            uri=reader.optional_text(source, "uri"),
            name=reader.optional_text(source, "name"),
            media_type=reader.text(source, "media_type") or "application/octet-stream",
        )


Typed = TypeVar("Typed", ToolCall, ToolOutput, RouteDecision)

_FILE_KEYS = frozenset({"name", "media_type", "uri"})
_TYPED = (ToolCall, ToolOutput, RouteDecision, FileContent)


def _read_text(content: object) -> str:
    if not isinstance(content, str):
        raise InvalidArgumentError("must be a string")
    return content


def _read_file(content: object) -> FileContent:
    """Return a FileContent if the content has exactly the keys of its JSON form; raise InvalidArgumentError otherwise."""
    if isinstance(content, dict) and content.keys() - {"data"} == _FILE_KEYS:
        return FileContent.from_dict(content)
    if isinstance(content, dict) and content.keys() - {MARK} == _FILE_KEYS:
        file = FileContent.from_dict(content)
        if file.to_dict() == content:
            return file
    raise InvalidArgumentError("must be a file")


def _read(kind: str, content: object) -> Any:
    """Return the content as an instance of its type's class, or unchanged if it does not match.

    The wire format keeps such contents too, so a log with any content can be read back.
    """
    typed = _READERS.get(kind)
    if typed is not None:
        try:
            return typed(content)
        except InvalidArgumentError:
            pass  # `as_tool_call` and the like raise this error with its field
    return read_value(plain(content))


def typed_content(kind: str, content: Any) -> Any:
    """Return a JSON object as an instance of its part type's class if the conversion loses nothing; otherwise unchanged."""
    typed = _READERS.get(kind) if isinstance(content, dict) else None
    if typed is not None:
        try:
            found = typed(content)
        except InvalidArgumentError:
            return content
        if found.to_dict() == content:
            return found
    return content


_READERS: dict[str, Callable[[object], Any]] = {
    PartType.TEXT: _read_text,
    PartType.TOOL_CALL: ToolCall.from_dict,
    PartType.TOOL_OUTPUT: ToolOutput.from_dict,
    PartType.ROUTE: RouteDecision.from_dict,
    PartType.DECISION: RouteDecision.from_dict,
    PartType.FILE: _read_file,
    PartType.IMAGE: _read_file,
    PartType.AUDIO: _read_file,
    PartType.VIDEO: _read_file,
    PartType.BYTES: _read_file,
    PartType.URI: _read_file,
}


def _without_none(**found: Any) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value is not None}


@dataclass(slots=True)
class Part:
    """One piece of content.

    `content` by type: text is str; tool_call, tool_output, route, decision are their classes here; infer is an object
    of `prompt`, `user`, `output_schema`, `metadata`; error is `{code, message, retryable}`, warning `{code, message}`,
    status `{state, message}`; unknown `{fallback_text, encoded}`; json and every other type are any value that `to_json`
    takes, or a Payload. Contents are checked on use, by `as_tool_call` and similar methods, not on construction: a part keeps any
    content of its sender.
    """

    type: str
    content: Any = None
    metadata: dict[str, Any] | None = None
    media_type: str | None = None

    def to_dict(self) -> dict[str, Any]:
        content = self.content
        simple = content.to_dict() if isinstance(content, _TYPED) else plain(content)
        found: dict[str, Any] = {"type": self.type, "content": simple}
        if self.metadata is not None:
            found["metadata"] = plain(self.metadata)
        if self.media_type is not None:
            found["media_type"] = self.media_type
        return found

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object; content that does not match its type, or has an unknown type, is kept unchanged.

        Raises:
            InvalidArgumentError: Not an object, no `type`, or content nested too deeply; names the field.
        """
        source = reader.as_object(data)
        kind = reader.filled_text(source, "type")
        content = reader.nested(source, "content", lambda found: _read(kind, found))
        return cls(
            kind, content, reader.optional_mapping(source, "metadata"), reader.optional_text(source, "media_type")
        )

    @classmethod
    def text(cls, content: str) -> Self:
        return cls("text", content)

    @classmethod
    def json(cls, content: Any) -> Self:
        return cls("json", content)

    @classmethod
    def file(
        cls,
        data: bytes | None = None,
        uri: str | None = None,
        name: str | None = None,
        media_type: str = "application/octet-stream",
    ) -> Self:
        """Build a file part by value or by reference. Raises InvalidArgumentError unless exactly one of `data` and `uri` is set."""
        return cls("file", _file_content(data, uri, name, media_type))

    @classmethod
    def image(
        cls, data: bytes | None = None, uri: str | None = None, name: str | None = None, media_type: str = "image/png"
    ) -> Self:
        return cls("image", _file_content(data, uri, name, media_type))

    @classmethod
    def audio(
        cls, data: bytes | None = None, uri: str | None = None, name: str | None = None, media_type: str = "audio/wav"
    ) -> Self:
        return cls("audio", _file_content(data, uri, name, media_type))

    @classmethod
    def video(
        cls, data: bytes | None = None, uri: str | None = None, name: str | None = None, media_type: str = "video/mp4"
    ) -> Self:
        return cls("video", _file_content(data, uri, name, media_type))

    @classmethod
    def tool_call(
        cls, tool_name: str, args: dict[str, Any] | Payload | None = None, call_id: str | None = None
    ) -> Self:
        return cls("tool_call", ToolCall(tool_name, {} if args is None else args, call_id or new_call_id()))

    @classmethod
    def tool_output(cls, call_id: str, result: Any = None, error: Any = None) -> Self:
        return cls("tool_output", ToolOutput(call_id, result, error))

    @classmethod
    def infer(
        cls,
        prompt: str | None = None,
        user: str | None = None,
        output_schema: SchemaLike | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        output_type: Any = None,
    ) -> Self:
        """Build a request to the agent's model; arguments that are None are omitted.

        Args:
            output_schema: JSON Schema of the answer, or a type that has one: a pydantic model, a dataclass, a TypedDict.
            output_type: The type of the answer, instead of its schema; `Task.get_output_as` returns an instance.

        Raises:
            InvalidArgumentError: `output_schema` is neither, no JSON Schema can describe `output_type`, or both are given.
        """
        schema = None if output_schema is None else json_schema_of(output_schema, field="output_schema")
        if output_type is not None:
            if schema is not None:
                raise InvalidArgumentError(
                    "has the same meaning as output_schema; give one of them", field="output_type"
                )
            schema = OutputType[Any](output_type).schema
        return cls("infer", _without_none(prompt=prompt, user=user, output_schema=schema, metadata=metadata))

    @classmethod
    def infer_output(cls, content: Any) -> Self:
        return cls("infer_output", content)

    @classmethod
    def error(cls, code: str, message: str, retryable: bool = False) -> Self:
        return cls("error", {"code": code, "message": message, "retryable": retryable})

    @classmethod
    def warning(cls, message: str, code: str = "warning") -> Self:
        return cls("warning", {"code": code, "message": message})

    @classmethod
    def status(cls, state: str, message: str | None = None) -> Self:
        return cls("status", {"state": str(state), "message": message})

    @classmethod
    def route(
        cls,
        route_key: str,
        reason: str | None = None,
        confidence: float | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        return cls("route", RouteDecision(route_key, reason, confidence, {} if metadata is None else metadata))

    @classmethod
    def decision(
        cls,
        route_key: str,
        reason: str | None = None,
        confidence: float | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        return cls("decision", RouteDecision(route_key, reason, confidence, {} if metadata is None else metadata))

    def as_tool_call(self) -> ToolCall:
        """Return the content as a ToolCall; a dict is converted.

        Raises:
            InvalidArgumentError: The part has another type, or its content is not a tool call; names the field.
        """
        return _typed(self, ToolCall, "tool_call")

    def as_tool_output(self) -> ToolOutput:
        """Return the content as a ToolOutput. Raises like `as_tool_call`."""
        return _typed(self, ToolOutput, "tool_output")

    def as_route_decision(self) -> RouteDecision:
        """Return the content as a RouteDecision. Raises like `as_tool_call`."""
        return _typed(self, RouteDecision, "route", "decision")


def _typed(part: Part, kind: type[Typed], *types: str) -> Typed:
    if part.type not in types:
        raise InvalidArgumentError(f"a {part.type} part is no {' or '.join(types)}", field="type")
    content = part.content
    return content if isinstance(content, kind) else reader.nested({"content": content}, "content", kind.from_dict)


def _file_content(data: bytes | None, uri: str | None, name: str | None, media_type: str) -> FileContent:
    if (data is None) == (not uri):
        raise InvalidArgumentError("a file needs either data or uri")
    return FileContent(data, uri or None, name, media_type)
