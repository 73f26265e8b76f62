"""Parts between the models and `plgrpc.v1.Part`, for the network and for the log."""

import binascii
from typing import Any, assert_never

from google.protobuf.message import DecodeError
from plgrpc.v1 import part_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.part import FileContent, Part, PartType, RouteDecision, ToolCall, ToolOutput
from protolink_grpc.wire.scalars import json_object_from_pb, json_object_to_pb

_FILE_TYPES = frozenset(
    {PartType.FILE, PartType.IMAGE, PartType.AUDIO, PartType.VIDEO, PartType.BYTES, PartType.URI},
)
_INFER_KEYS = frozenset({"prompt", "user", "output_schema", "metadata"})
_ERROR_KEYS = frozenset({"code", "message", "retryable"})
_ERROR_KEYS_WITH_DETAILS = _ERROR_KEYS | {"details"}
_STATUS_KEYS = frozenset({"state", "message"})
_UNKNOWN_KEYS = frozenset({"fallback_text", "encoded"})


def part_to_pb(part: Part) -> pb.Part:
    """Total: a content without a field of its own, or with a value that its field cannot carry, travels as `custom`.

    Raises:
        TypeError: The content has no JSON form.
        InvalidArgumentError: No type, too deep, or text that is not valid Unicode.
    """
    try:
        if part.type == "text" and type(part.content) is str:
            out = pb.Part(text=part.content)
        else:
            out = _content_to_pb(part.type, part.content)
    except UnicodeEncodeError:
        raise InvalidArgumentError("text is not valid Unicode", field="content") from None
    if part.metadata is not None:
        out.metadata_json = to_json(part.metadata)
    if part.media_type:
        out.media_type = part.media_type
    return out


def _content_to_pb(kind: str, content: Any) -> pb.Part:
    if isinstance(content, ToolCall | ToolOutput | RouteDecision | FileContent):
        typed = _typed_to_pb(kind, content)
        if typed is not None:
            return typed
    elif kind == PartType.JSON:
        return pb.Part(data_json=to_json(content))
    elif kind == PartType.INFER_OUTPUT:
        value = (
            pb.InferOutput(text=content) if isinstance(content, str) else pb.InferOutput(value_json=to_json(content))
        )
        return pb.Part(infer_output=value)
    elif type(content) is dict:
        shaped = _shaped_to_pb(kind, content)
        if shaped is not None:
            return shaped
    if not kind:
        raise InvalidArgumentError("must not be empty", field="type")
    return pb.Part(custom=pb.CustomContent(type=kind, content_json="" if content is None else to_json(content)))


def _typed_to_pb(kind: str, content: ToolCall | ToolOutput | RouteDecision | FileContent) -> pb.Part | None:
    # A name that is required and missing is no reason to lose a log: such a content is custom, and refused where it is used.
    match content:
        case ToolCall() if kind == PartType.TOOL_CALL and content.tool_name and content.call_id:
            return pb.Part(tool_call=tool_call_to_pb(content))
        case ToolOutput() if kind == PartType.TOOL_OUTPUT:
            return pb.Part(tool_output=tool_output_to_pb(content))
        case RouteDecision() if kind == PartType.ROUTE and content.route_key:
            return pb.Part(route=_route_to_pb(content))
        case RouteDecision() if kind == PartType.DECISION and content.route_key:
            return pb.Part(decision=_route_to_pb(content))
        case FileContent() if kind in _FILE_TYPES and (content.data is None or content.uri is None):
            file = pb.FileContent(name=content.name or "", media_type=content.media_type, kind=kind)
            if content.data is not None:
                file.data = content.data
            if content.uri is not None:
                file.uri = content.uri
            return pb.Part(file=file)
        case ToolCall() | ToolOutput() | RouteDecision() | FileContent():
            return None
        case _:
            assert_never(content)


def tool_call_to_pb(call: ToolCall) -> pb.ToolCall:
    return pb.ToolCall(tool_name=call.tool_name, args_json=json_object_to_pb(call.args), call_id=call.call_id)


def tool_call_from_pb(call: pb.ToolCall, field: str) -> ToolCall:
    """The value of a message as it is, an empty name included.

    Raises:
        InvalidArgumentError: The arguments are no JSON object; names the path below `field`.
    """
    return ToolCall(call.tool_name, json_object_from_pb(call.args_json, f"{field}.args_json"), call.call_id)


def tool_output_to_pb(output: ToolOutput) -> pb.ToolOutput:
    return pb.ToolOutput(
        call_id=output.call_id,
        result_json="" if output.result is None else to_json(output.result),
        error_json="" if output.error is None else to_json(output.error),
    )


def _route_to_pb(decision: RouteDecision) -> pb.RouteDecision:
    return pb.RouteDecision(
        route_key=decision.route_key,
        reason=decision.reason,
        confidence=decision.confidence,
        metadata_json=json_object_to_pb(decision.metadata),
    )


def _shaped_to_pb(kind: str, content: dict[str, Any]) -> pb.Part | None:
    """A dict that has exactly the documented shape of its type; any other stays custom, so that nothing is lost."""
    keys = content.keys()
    match kind:
        case PartType.INFER if keys <= _INFER_KEYS and _infer_is_typed(content):
            schema = content.get("output_schema")
            metadata = content.get("metadata")
            infer = pb.Infer(
                prompt=content.get("prompt"),
                user=content.get("user"),
                output_schema_json=to_json(schema) if schema else "",
                metadata_json=to_json(metadata) if metadata else "",
            )
            return pb.Part(infer=infer)
        case PartType.ERROR if keys == _ERROR_KEYS and _are(content, code=str, message=str, retryable=bool):
            return pb.Part(error=pb.ErrorDetail(**content))
        case PartType.ERROR if keys == _ERROR_KEYS_WITH_DETAILS and _are(
            content, code=str, message=str, retryable=bool
        ):
            details = content["details"]
            if isinstance(details, dict) and details:
                error = pb.ErrorDetail(
                    code=content["code"],
                    message=content["message"],
                    retryable=content["retryable"],
                    details_json=to_json(details),
                )
                return pb.Part(error=error)
        case PartType.STATUS if keys == _STATUS_KEYS and isinstance(content["state"], str):
            if content["message"] is None or isinstance(content["message"], str):
                return pb.Part(status=pb.StatusNote(state=content["state"], message=content["message"]))
        case PartType.UNKNOWN if keys == _UNKNOWN_KEYS and _are(content, fallback_text=str, encoded=str):
            return _unknown_to_pb(content["encoded"])
    return None


def _unknown_to_pb(encoded: str) -> pb.Part | None:
    """The part as it came; None where that is no part of an unknown kind."""
    try:
        out = pb.Part.FromString(binascii.a2b_base64(encoded, strict_mode=True))
    except (ValueError, DecodeError):
        return None
    return out if out.WhichOneof("content") is None else None


def _infer_is_typed(content: dict[str, Any]) -> bool:
    # An empty object or a None has no spelling of its own in the typed form.
    return all(
        isinstance(value, str) if key in ("prompt", "user") else isinstance(value, dict) and value
        for key, value in content.items()
    )


def _are(content: dict[str, Any], **types: type) -> bool:
    return all(isinstance(content[key], kind) for key, kind in types.items())


def part_from_pb(part: pb.Part, field: str = "part") -> Part:
    """The part of a message.

    Raises:
        InvalidArgumentError: A content that its kind does not allow; names the path below `field`.
    """
    kind = part.WhichOneof("content")
    if kind is None:
        return Part(
            PartType.UNKNOWN,
            {
                "fallback_text": part.fallback_text,
                "encoded": binascii.b2a_base64(part.SerializeToString(), newline=False).decode("ascii"),
            },
        )
    out = Part("text", part.text) if kind == "text" else _content_from_pb(part, kind, field)
    if part.metadata_json:
        out.metadata = json_object_from_pb(part.metadata_json, f"{field}.metadata_json")
    if part.media_type:
        out.media_type = part.media_type
    return out


def _content_from_pb(part: pb.Part, kind: str, field: str) -> Part:
    match kind:
        case "data_json":
            return Part("json", from_json(part.data_json, field=f"{field}.data_json"))
        case "file":
            return _file_from_pb(part.file, f"{field}.file")
        case "tool_call":
            return _tool_call_from_pb(part.tool_call, f"{field}.tool_call")
        case "tool_output":
            return Part("tool_output", tool_output_from_pb(part.tool_output, f"{field}.tool_output"))
        case "infer":
            return Part("infer", _infer_from_pb(part.infer, f"{field}.infer"))
        case "infer_output":
            return _infer_output_from_pb(part.infer_output, f"{field}.infer_output")
        case "error":
            error = part.error
            content = {"code": error.code, "message": error.message, "retryable": error.retryable}
            if error.details_json:
                content["details"] = json_object_from_pb(error.details_json, f"{field}.error.details_json")
            return Part("error", content)
        case "status":
            message = part.status.message if part.status.HasField("message") else None
            return Part("status", {"state": part.status.state, "message": message})
        case "route":
            return Part("route", _route_from_pb(part.route, f"{field}.route"))
        case "decision":
            return Part("decision", _route_from_pb(part.decision, f"{field}.decision"))
        case "custom":
            return _custom_from_pb(part.custom, f"{field}.custom")
        case _:
            raise AssertionError(f"{kind} has no reader")


def _file_from_pb(file: pb.FileContent, field: str) -> Part:
    # A kind of a later version is a file like any other.
    kind = file.kind if file.kind in _FILE_TYPES else PartType.FILE
    source = file.WhichOneof("source")
    content = FileContent(
        data=file.data if source == "data" else None,
        uri=file.uri if source == "uri" else None,
        name=file.name or None,
        media_type=file.media_type or "application/octet-stream",
    )
    return Part(kind, content)


def _tool_call_from_pb(call: pb.ToolCall, field: str) -> Part:
    if not call.tool_name:
        raise InvalidArgumentError("must not be empty", field=f"{field}.tool_name")
    return Part.tool_call(
        call.tool_name, json_object_from_pb(call.args_json, f"{field}.args_json"), call.call_id or None
    )


def tool_output_from_pb(output: pb.ToolOutput, field: str) -> ToolOutput:
    return ToolOutput(
        output.call_id,
        from_json(output.result_json, field=f"{field}.result_json") if output.result_json else None,
        from_json(output.error_json, field=f"{field}.error_json") if output.error_json else None,
    )


def _infer_from_pb(infer: pb.Infer, field: str) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if infer.HasField("prompt"):
        content["prompt"] = infer.prompt
    if infer.HasField("user"):
        content["user"] = infer.user
    if infer.output_schema_json:
        content["output_schema"] = json_object_from_pb(infer.output_schema_json, f"{field}.output_schema_json")
    if infer.metadata_json:
        content["metadata"] = json_object_from_pb(infer.metadata_json, f"{field}.metadata_json")
    return content


def _infer_output_from_pb(output: pb.InferOutput, field: str) -> Part:
    if output.WhichOneof("content") == "value_json":
        return Part("infer_output", from_json(output.value_json, field=f"{field}.value_json"))
    return Part("infer_output", output.text)


def _route_from_pb(route: pb.RouteDecision, field: str) -> RouteDecision:
    if not route.route_key:
        raise InvalidArgumentError("must not be empty", field=f"{field}.route_key")
    return RouteDecision(
        route.route_key,
        route.reason if route.HasField("reason") else None,
        route.confidence if route.HasField("confidence") else None,
        json_object_from_pb(route.metadata_json, f"{field}.metadata_json"),
    )


def _custom_from_pb(custom: pb.CustomContent, field: str) -> Part:
    if not custom.type:
        raise InvalidArgumentError("must not be empty", field=f"{field}.type")
    text = custom.content_json
    return Part(custom.type, from_json(text, field=f"{field}.content_json") if text else None)


def check_parts(parts: Any, field: str) -> None:
    """Pass when every part of a request has a content that this version knows.

    Raises:
        InvalidArgumentError: One has not; names the path below `field`.
    """
    for index, part in enumerate(parts):
        if part.WhichOneof("content") is None:
            raise InvalidArgumentError("must carry a content of a known kind", field=f"{field}[{index}]")
        if part.HasField("file") and part.file.kind and part.file.kind not in _FILE_TYPES:
            raise InvalidArgumentError(
                f"must be one of {', '.join(sorted(_FILE_TYPES))}", field=f"{field}[{index}].file.kind"
            )


def parts_from_pb(parts: Any, field: str) -> list[Part]:
    """Parts of one message or artifact. Raises as `part_from_pb`."""
    found: list[Part] = []
    for part in parts:
        # Plain text, by far the most common, has nothing that could be wrong: no path is spelled for it.
        if part.WhichOneof("content") == "text" and not part.metadata_json and not part.media_type:
            found.append(Part("text", part.text))
        else:
            found.append(part_from_pb(part, f"{field}[{len(found)}]"))
    return found
