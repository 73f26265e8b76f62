"""Converts parts between the models and `plgrpc.v1.Part`, for the network and for the log."""

import binascii
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, assert_never

from google.protobuf.message import DecodeError
from plgrpc.v1 import failure_pb2, payload_pb2
from plgrpc.v1 import part_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.failure import Failure, category_of
from protolink_grpc.models.json_value import plain, to_json
from protolink_grpc.models.part import FileContent, Part, PartType, RouteDecision, ToolCall, ToolOutput, typed_content
from protolink_grpc.models.payload import Payload, read_value
from protolink_grpc.wire.compile import Codec, Special, register_conversion
from protolink_grpc.wire.scalars import json_object_from_pb
from protolink_grpc.wire.values import FAILURE, check_payload, payload_from_pb, payload_to_pb

PROTOLINK_KEY: Final = "$protolink"
"""Metadata key of a part or message for ProtoLink's part type or role, if the contract has no field for it. Removed again when
Python reads the message."""

_OCTETS: Final = "application/octet-stream"
_FILE_TYPES: Final = frozenset(
    {PartType.FILE, PartType.IMAGE, PartType.AUDIO, PartType.VIDEO, PartType.BYTES, PartType.URI},
)
_SEEN_TYPES: Final = frozenset({PartType.IMAGE, PartType.AUDIO, PartType.VIDEO})
_INFER_KEYS = frozenset({"prompt", "user", "output_schema", "metadata"})
_ERROR_KEYS = frozenset({"code", "message", "retryable", "details", "category", "retry_delay_s", "origin", "cause"})
_UNKNOWN_KEYS = frozenset({"fallback_text", "encoded"})


def part_to_pb(part: Part) -> pb.Part:
    """Convert a part. A content without a field of its own, or with a value that its field cannot hold, becomes `custom`.

    Raises:
        TypeError: The content has no JSON form.
        InvalidArgumentError: No type, too deep, or text that is not valid Unicode.
    """
    metadata = part.metadata
    try:
        if part.type == "text" and type(part.content) is str:
            out = pb.Part(text=part.content)
        else:
            out = _content_to_pb(part.type, part.content)
            if out.HasField("file"):
                out, metadata = _typed_file(part, out)
    except UnicodeEncodeError:
        raise InvalidArgumentError("text is not valid Unicode", field="content") from None
    if metadata is not None:
        out.metadata_json = to_json(metadata)
    if part.media_type:
        out.media_type = part.media_type
    return out


def _content_to_pb(kind: str, content: Any) -> pb.Part:
    if isinstance(content, ToolCall | ToolOutput | RouteDecision | FileContent):
        typed = _typed_to_pb(kind, content)
        if typed is not None:
            return typed
    elif kind == PartType.JSON:
        return pb.Part(data=payload_to_pb(content))
    elif kind == PartType.INFER_OUTPUT:
        value = (
            pb.InferOutput(text=content) if isinstance(content, str) else pb.InferOutput(value=payload_to_pb(content))
        )
        return pb.Part(infer_output=value)
    elif type(content) is dict:
        shaped = _shaped_to_pb(kind, content)
        if shaped is not None:
            return shaped
    return _custom_to_pb(kind, content)


def _custom_to_pb(kind: str, content: Any) -> pb.Part:
    if not kind:
        raise InvalidArgumentError("must not be empty", field="type")
    # The JSON form of a typed content is that of its class.
    return pb.Part(custom=pb.CustomContent(type=kind, content=None if content is None else payload_to_pb(content)))


def _typed_to_pb(kind: str, content: ToolCall | ToolOutput | RouteDecision | FileContent) -> pb.Part | None:
    # A missing required name must not make a log unreadable: such a content becomes custom, and is refused where it is used.
    match content:
        case ToolCall() if kind == PartType.TOOL_CALL and content.tool_name and content.call_id:
            return pb.Part(tool_call=tool_call_to_pb(content))
        case ToolOutput() if kind == PartType.TOOL_OUTPUT and (content.result is None or content.error is None):
            return pb.Part(tool_output=TOOL_OUTPUT.to_pb(content))
        case RouteDecision() if kind == PartType.ROUTE and content.route_key and content.reason != "":
            return pb.Part(route=ROUTE.to_pb(content))
        case FileContent() if kind in _FILE_TYPES:
            file = _file_to_pb(content)
            return None if file is None else pb.Part(file=file)
        case ToolCall() | ToolOutput() | RouteDecision() | FileContent():
            return None
        case _:
            assert_never(content)


def _file_to_pb(file: FileContent) -> pb.FileContent | None:
    """Convert a file; None if the field cannot hold it."""
    name = file.name or ""
    if file.payload is not None:
        return pb.FileContent(name=name, content=payload_to_pb(file.payload))
    if file.data is not None and file.uri is None:
        return pb.FileContent(name=name, content=payload_pb2.Payload(data=file.data, media_type=file.media_type))
    if file.uri and file.data is None:
        ref = payload_pb2.PayloadRef(uri=file.uri)
        return pb.FileContent(name=name, content=payload_pb2.Payload(ref=ref, media_type=file.media_type))
    if file.data is None and file.uri is None and file.media_type == _OCTETS:
        return pb.FileContent(name=name)
    return None


def _typed_file(part: Part, out: pb.Part) -> tuple[pb.Part, dict[str, Any] | None]:
    """Return the part and its metadata, which together give the type of the file; as `custom` if they cannot."""
    metadata = part.metadata
    said = part.type == _file_type(out.file.content.media_type)
    if metadata is not None and (PROTOLINK_KEY in metadata or not (said or metadata)):
        return _custom_to_pb(part.type, part.content), metadata
    return out, metadata if said else {**(metadata or {}), PROTOLINK_KEY: part.type}


def _file_type(media_type: str) -> str:
    major = media_type.partition("/")[0]
    return major if major in _SEEN_TYPES else PartType.FILE


def tool_call_to_pb(call: ToolCall) -> pb.ToolCall:
    arguments = payload_to_pb(call.args) if call.args or isinstance(call.args, Payload) else None
    return pb.ToolCall(tool_name=call.tool_name, arguments=arguments, call_id=call.call_id)


def tool_call_from_pb(call: pb.ToolCall, field: str = "") -> ToolCall:
    """Convert a tool call unchanged, an empty name included.

    Raises:
        InvalidArgumentError: The arguments are JSON, but not an object; names the path below `field`.
    """
    return ToolCall(call.tool_name, _arguments_from_pb(call, field), call.call_id)


register_conversion(ToolCall, pb.ToolCall, tool_call_to_pb, tool_call_from_pb)


def _arguments_from_pb(call: pb.ToolCall, field: str) -> dict[str, Any] | Payload:
    if not call.HasField("arguments"):
        return {}
    path = f"{field}.arguments" if field else "arguments"
    value = payload_from_pb(call.arguments, path)
    if not isinstance(value, dict | Payload):
        raise InvalidArgumentError("must be a JSON object", field=f"{path}.json")
    return value


def _write_result(output: ToolOutput) -> payload_pb2.Payload | None:
    return None if output.result is None or output.error is not None else payload_to_pb(output.result)


def _write_failure(output: ToolOutput) -> failure_pb2.Failure | None:
    return None if output.error is None else FAILURE.to_pb(Failure.from_value(plain(output.error)))


def _read_failure(output: pb.ToolOutput) -> Any:
    return FAILURE.from_pb(output.failure, "failure").to_value() if output.HasField("failure") else None


TOOL_OUTPUT: Final = Codec(
    ToolOutput,
    pb.ToolOutput,
    result=Special("result", _write_result),
    error=Special("failure", _write_failure, _read_failure),
)
"""The output of a tool. An error takes precedence over a result."""

ROUTE: Final = Codec(RouteDecision, pb.RouteDecision)


def _shaped_to_pb(kind: str, content: dict[str, Any]) -> pb.Part | None:
    """Convert a dict with exactly the documented shape of its type; None for others, which stay custom so that nothing is lost."""
    keys = content.keys()
    match kind:
        case PartType.INFER if keys <= _INFER_KEYS and _infer_is_typed(content):
            schema = content.get("output_schema")
            metadata = content.get("metadata")
            infer = pb.Infer(
                prompt=content.get("prompt", ""),
                user=content.get("user", ""),
                output_schema_json=to_json(schema) if schema else "",
                metadata_json=to_json(metadata) if metadata else "",
            )
            return pb.Part(infer=infer)
        case PartType.ERROR if keys <= _ERROR_KEYS:
            failure = _error_to_failure(plain(content))
            return None if failure is None else pb.Part(failure=FAILURE.to_pb(failure))
        case PartType.UNKNOWN if keys == _UNKNOWN_KEYS and _are(content, fallback_text=str, encoded=str):
            return _unknown_to_pb(content["encoded"])
    return None


def _unknown_to_pb(encoded: str) -> pb.Part | None:
    """Return the original part; None if the bytes are not a part of an unknown kind."""
    try:
        out = pb.Part.FromString(binascii.a2b_base64(encoded, strict_mode=True))
    except (ValueError, DecodeError):
        return None
    return out if out.WhichOneof("content") is None else None


def _error_to_failure(content: dict[str, Any]) -> Failure | None:
    """Convert an error; None if the failure would not convert back to an equal content."""
    code, message, retryable = content.get("code"), content.get("message"), content.get("retryable")
    if not isinstance(code, str) or not isinstance(message, str) or not isinstance(retryable, bool):
        return None
    rest = {key: content[key] for key in ("category", "retry_delay_s", "origin", "cause") if key in content}
    failure = Failure(code, message, category_of(code), retryable, details=read_value(content.get("details")))
    if rest:
        also = Failure.from_value({"message": message, **rest})
        failure = replace(
            failure,
            category=also.category or failure.category,
            retry_delay_s=also.retry_delay_s,
            origin=also.origin,
            cause=also.cause,
        )
    return failure if _failure_to_error(failure) == content else None


def _failure_to_error(failure: Failure) -> dict[str, Any]:
    found = {"code": failure.reason, "message": failure.message, "retryable": failure.retryable}
    if failure.details is not None:
        found["details"] = plain(failure.details)
    if failure.category is not None and failure.category != category_of(failure.reason):
        found["category"] = str(failure.category)
    if failure.retry_delay_s is not None:
        found["retry_delay_s"] = failure.retry_delay_s
    if failure.origin:
        found["origin"] = failure.origin
    if failure.cause is not None:
        found["cause"] = failure.cause.to_value()
    return found


def _infer_is_typed(content: dict[str, Any]) -> bool:
    # The typed form cannot represent empty values.
    return all(
        bool(value) and isinstance(value, str if key in ("prompt", "user") else dict) for key, value in content.items()
    )


def _are(content: dict[str, Any], **types: type) -> bool:
    return all(isinstance(content[key], kind) for key, kind in types.items())


def part_from_pb(part: pb.Part, field: str = "") -> Part:
    """Convert a message to a part.

    Raises:
        InvalidArgumentError: The content is not valid for its kind; names the path below `field`.
    """
    try:
        return _read_part(part)
    except InvalidArgumentError as error:
        raise (error.within(field) if field else error) from None


def _read_part(part: pb.Part) -> Part:
    kind = part.WhichOneof("content")
    if kind is None:
        return Part(
            PartType.UNKNOWN,
            {
                "fallback_text": part.fallback_text,
                "encoded": binascii.b2a_base64(part.SerializeToString(), newline=False).decode("ascii"),
            },
        )
    out = Part("text", part.text) if kind == "text" else _READERS[kind](getattr(part, kind))
    if part.metadata_json:
        out.metadata = json_object_from_pb(part.metadata_json, "metadata_json")
        if kind == "file" and out.metadata.get(PROTOLINK_KEY) in _FILE_TYPES:
            out.type = out.metadata.pop(PROTOLINK_KEY)
            out.metadata = out.metadata or None
    if part.media_type:
        out.media_type = part.media_type
    return out


def _file_from_pb(file: pb.FileContent) -> Part:
    name, payload = file.name or None, file.content
    content_type = _file_type(payload.media_type)
    if not file.HasField("content"):
        return Part(content_type, FileContent(name=name))
    form = payload.WhichOneof("value")
    labelled = payload.encoding or payload.preview
    if form == "data" and not labelled:
        return Part(content_type, FileContent(payload.data, None, name, payload.media_type or _OCTETS))
    if form == "ref" and not (labelled or payload.ref.size_bytes or payload.ref.sha256):
        return Part(content_type, FileContent(None, payload.ref.uri, name, payload.media_type or _OCTETS))
    value = payload_from_pb(payload, "file.content")
    return Part(content_type, FileContent.of(value if isinstance(value, Payload) else Payload(value), name))


def _tool_call_from_pb(call: pb.ToolCall) -> Part:
    if not call.tool_name:
        raise InvalidArgumentError("must not be empty", field="tool_call.tool_name")
    return Part.tool_call(call.tool_name, _arguments_from_pb(call, "tool_call"), call.call_id or None)


def _infer_from_pb(infer: pb.Infer) -> Part:
    content: dict[str, Any] = {}
    if infer.prompt:
        content["prompt"] = infer.prompt
    if infer.user:
        content["user"] = infer.user
    if infer.output_schema_json:
        content["output_schema"] = json_object_from_pb(infer.output_schema_json, "infer.output_schema_json")
    if infer.metadata_json:
        content["metadata"] = json_object_from_pb(infer.metadata_json, "infer.metadata_json")
    return Part("infer", content)


def _infer_output_from_pb(output: pb.InferOutput) -> Part:
    if output.WhichOneof("content") == "value":
        return Part("infer_output", payload_from_pb(output.value, "infer_output.value"))
    return Part("infer_output", output.text)


def _custom_from_pb(custom: pb.CustomContent) -> Part:
    if not custom.type:
        raise InvalidArgumentError("must not be empty", field="custom.type")
    if not custom.HasField("content"):
        return Part(custom.type)
    return Part(custom.type, typed_content(custom.type, payload_from_pb(custom.content, "custom.content")))


_READERS: Final[dict[str, Callable[[Any], Part]]] = {
    "data": lambda data: Part("json", payload_from_pb(data, "data")),
    "file": _file_from_pb,
    "tool_call": _tool_call_from_pb,
    "tool_output": lambda output: Part("tool_output", TOOL_OUTPUT.from_pb(output, "tool_output")),
    "infer": _infer_from_pb,
    "infer_output": _infer_output_from_pb,
    "failure": lambda failure: Part("error", _failure_to_error(FAILURE.from_pb(failure, "failure"))),
    "route": lambda route: Part("route", ROUTE.from_pb(route, "route")),
    "custom": _custom_from_pb,
}
"""The reader of each content. Errors name the path below the part."""


def check_parts(parts: Any, field: str) -> None:
    """Raise unless each part of a request has a content and values that this version supports.

    Raises:
        InvalidArgumentError: A part does not; names the path below `field`.
    """
    for index, part in enumerate(parts):
        kind = part.WhichOneof("content")
        if kind == "text":
            continue
        if kind is None:
            raise InvalidArgumentError("must carry a content of a known kind", field=f"{field}[{index}]")
        _check_content(part, kind, f"{field}[{index}].{kind}")


def _check_content(part: pb.Part, kind: str, field: str) -> None:
    match kind:
        case "data":
            check_payload(part.data, field)
        case "file" if part.file.HasField("content"):
            check_payload(part.file.content, f"{field}.content")
        case "tool_call":
            check_tool_call(part.tool_call, field)
        case "tool_output" if part.tool_output.HasField("result"):
            check_payload(part.tool_output.result, f"{field}.result")
        case "tool_output" if part.tool_output.HasField("failure"):
            check_failure(part.tool_output.failure, f"{field}.failure")
        case "infer_output" if part.infer_output.HasField("value"):
            check_payload(part.infer_output.value, f"{field}.value")
        case "failure":
            check_failure(part.failure, field)
        case "custom" if part.custom.HasField("content"):
            check_payload(part.custom.content, f"{field}.content")


def check_tool_call(call: pb.ToolCall, field: str) -> None:
    """Raise unless this version supports the form of the arguments of a call. Raises as `check_parts`."""
    if call.HasField("arguments"):
        check_payload(call.arguments, f"{field}.arguments")


def check_failure(failure: failure_pb2.Failure, field: str) -> None:
    """Raise unless this version supports the form of the details of a failure and its causes. Raises as `check_parts`."""
    while True:
        if failure.HasField("details"):
            check_payload(failure.details, f"{field}.details")
        if not failure.HasField("cause"):
            return
        failure, field = failure.cause, f"{field}.cause"


def parts_from_pb(parts: Any, field: str) -> list[Part]:
    """Convert the parts of one message or artifact. Raises as `part_from_pb`; names `field[index]`."""
    found: list[Part] = []
    try:
        for part in parts:
            # Plain text, by far the most common, in one step.
            if part.WhichOneof("content") == "text" and not part.metadata_json and not part.media_type:
                found.append(Part("text", part.text))
            else:
                found.append(_read_part(part))
    except InvalidArgumentError as error:
        raise error.within(f"{field}[{len(found)}]") from None
    return found


PARTS: Final = Special(
    "parts",
    lambda value: [part_to_pb(part) for part in value.parts],
    lambda message: parts_from_pb(message.parts, "parts"),
)
"""The parts of a message or an artifact."""
