"""Converts parts, messages and artifacts of this package to their A2A form and back. Both codecs, JSON and protobuf, use it.

    this package                                     A2A
    text                                             text
    infer_output with a text                         text, marked
    json                                             data
    file, image, audio, video, bytes, uri            raw or url, marked unless file
    a payload with bytes or a URI                    raw or url, marked
    everything else, and contents of unusual types   data {"type": ..., "content": ...} of PART_MEDIA_TYPE

"Marked" means that the metadata holds the facts that the A2A form has no field for. Each direction is the inverse of the other
(`marks` explains how), with one exception: a tool call without an id gets a new id.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from protolink_grpc.a2a import marks
from protolink_grpc.a2a.marks import MARK, Metadata, Pairing
from protolink_grpc.a2a.values import A2A_KEY
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.ids import new_call_id
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import FileContent, Part, PartType, RouteDecision, ToolCall, ToolOutput
from protolink_grpc.models.payload import MARK as PAYLOAD_MARK
from protolink_grpc.models.payload import Payload, PayloadRef, read_value

PART_MEDIA_TYPE: Final = "application/vnd.plgrpc.part+json"
"""Media type of a data part that holds a part of this package as `{"type": ..., "content": ...}`."""

OCTETS: Final = "application/octet-stream"

_TEXT_TYPES = frozenset({PartType.TEXT, PartType.INFER_OUTPUT})
_FILES = frozenset({PartType.FILE, PartType.IMAGE, PartType.AUDIO, PartType.VIDEO, PartType.BYTES, PartType.URI})
_CALL_KEYS = frozenset({"tool_name", "args", "call_id"})
_TYPED = (ToolCall, ToolOutput, RouteDecision, FileContent)
_CLASSES: dict[str, type[ToolCall] | type[ToolOutput] | type[RouteDecision] | type[FileContent]] = {
    PartType.TOOL_CALL: ToolCall,
    PartType.TOOL_OUTPUT: ToolOutput,
    PartType.ROUTE: RouteDecision,
    PartType.DECISION: RouteDecision,
    **dict.fromkeys(_FILES, FileContent),
}


@dataclass(slots=True)
class Shape:
    """A part in its A2A form.

    Args:
        value: The content, by kind: "text" str, "raw" bytes, "url" str, "data" any JSON value.
        metadata: None and empty differ, as they do in A2A.
        filename, media_type: Empty means not set.
    """

    kind: Literal["text", "raw", "url", "data"]
    value: Any
    metadata: Metadata | None = None
    filename: str = ""
    media_type: str = ""


def shape_of(part: Part) -> Shape:
    """Return the A2A form of a part; it shares nothing mutable with the part.

    Raises:
        TypeError: The content has no JSON form.
        InvalidArgumentError: Nested too deep.
    """
    return _PARTS.write(part)


def part_of(shape: Shape) -> Part:
    """Return the part of an A2A form; the part takes over the value and the metadata of `shape`."""
    return _PARTS.read(shape)


# -- parts ---------------------------------------------------------------------------------------------------------------


def _encode_content(
    kind: str, content: Any, media_type: str | None, *, as_data: bool = False
) -> tuple[Shape, Metadata]:
    """Return the A2A form of a content, and the facts that this form has no field for."""
    if not as_data:
        if kind in _TEXT_TYPES and isinstance(content, str):
            facts = {} if kind == PartType.TEXT else {"type": kind}
            return Shape("text", plain(content), media_type=media_type or ""), facts
        if kind == PartType.JSON and not isinstance(content, Payload):
            value = plain(content)
            facts = {"type": kind} if media_type == PART_MEDIA_TYPE and _holds_part(value) else {}
            return Shape("data", value, media_type=media_type or ""), facts
        file = _find_file(kind, content)
        if file is not None:
            return _encode_file(kind, file, media_type)
        if kind not in _FILES and isinstance(content, Payload) and _has_a2a_form(content):
            return _encode_payload(kind, content, media_type)
    simple = content.to_dict() if isinstance(content, _TYPED) else plain(content)
    shape = Shape("data", {"type": kind, "content": simple}, media_type=PART_MEDIA_TYPE)
    return shape, {"media_type": media_type} if media_type else {}


def _encode_file(kind: str, file: FileContent, media_type: str | None) -> tuple[Shape, Metadata]:
    facts: Metadata = {} if kind == PartType.FILE else {"type": kind}
    if media_type:
        facts["media_type"] = media_type
    if file.payload is not None:
        facts["payload"] = _payload_labels(file.payload)
    shape = Shape("url", file.uri, filename=file.name or "", media_type=file.media_type or OCTETS)
    if file.data is not None:
        shape.kind, shape.value = "raw", bytes(file.data)
    return shape, facts


def _encode_payload(kind: str, payload: Payload, media_type: str | None) -> tuple[Shape, Metadata]:
    facts: Metadata = {"type": kind, "payload": _payload_labels(payload)}
    if media_type:
        facts["media_type"] = media_type
    value = payload.value
    if isinstance(value, PayloadRef):
        return Shape("url", value.uri, media_type=payload.media_type), facts
    return Shape("raw", value, media_type=payload.media_type), facts


def _has_a2a_form(payload: Payload) -> bool:
    """Return whether A2A can express the payload: bytes or a URI, without an encoding."""
    value = payload.value
    return (isinstance(value, bytes) or (isinstance(value, PayloadRef) and value.uri != "")) and not payload.encoding


def _payload_labels(payload: Payload) -> Metadata:
    """Return the fields of a payload that A2A lacks, named as in `Payload.to_dict`."""
    found: Metadata = payload.to_dict()[PAYLOAD_MARK]
    return {key: found[key] for key in ("size_bytes", "sha256", "preview") if key in found}


def _read_payload(shape: Shape, labels: Any) -> Payload | None:
    """Return the payload of a shape and the labels of `_payload_labels`; None if the labels are not valid for it."""
    value = {"data": base64.b64encode(shape.value).decode()} if shape.kind == "raw" else {"uri": shape.value}
    if type(labels) is not dict or labels.keys() - {"size_bytes", "sha256", "preview"}:
        return None
    try:
        payload = Payload.from_dict({PAYLOAD_MARK: {**value, **labels, "media_type": shape.media_type}})
    except InvalidArgumentError:
        return None
    return payload if _payload_labels(payload) == labels else None


def _find_file(kind: str, content: Any) -> FileContent | None:
    """Return the file in the content of a file-like part; None unless it has either data or a URI, and not both."""
    if kind not in _FILES:
        return None
    file = _to_typed(kind, content)
    if not isinstance(file, FileContent) or (file.data is None) == (file.uri is None):
        return None
    if file.payload is None or (_has_a2a_form(file.payload) and file == FileContent.of(file.payload, file.name)):
        return file
    return None


def _holds_part(value: Any) -> bool:
    return (
        type(value) is dict
        and value.keys() == {"type", "content"}
        and type(value["type"]) is str
        and value["type"] != ""
    )


def _to_typed(kind: str, content: Any) -> Any:
    """Convert a JSON object to the class of its kind, if that loses nothing of it."""
    cls = _CLASSES.get(kind)
    if cls is None or type(content) is not dict:
        return read_value(content)
    if cls is ToolCall and content.keys() == _CALL_KEYS:  # the common case, without a copy
        name, args, call_id = content["tool_name"], content["args"], content["call_id"]
        if _is_text(name) and type(args) is dict and _is_text(call_id):
            return ToolCall(name, read_value(args), call_id)
    if cls is ToolCall and "tool_name" in content and not content.get("call_id"):
        content = {**content, "call_id": new_call_id()}  # as on every edge: the tool output refers to this id
    try:
        typed = cls.from_dict(content)
    except InvalidArgumentError:
        return content  # the error, with its field, is raised where the typed content is read
    return typed if typed.to_dict() == content else content


def _decode_content(shape: Shape, facts: Metadata) -> tuple[Part, Metadata]:
    """Return the part of an A2A form, without its metadata, and the A2A values that the part has no field for.

    The inverse of `_encode_content`.
    """
    kind, media_type = facts.get("type"), facts.get("media_type")
    labels = facts.get("payload")
    if shape.kind in ("raw", "url") and labels is not None:
        payload = _read_payload(shape, labels)
        if payload is None:
            raise ValueError("checked before")
        if kind is None or kind in _FILES:
            return Part(kind or PartType.FILE, FileContent.of(payload, shape.filename or None), None, media_type), {}
        extras = {"filename": shape.filename} if shape.filename else {}
        return Part(kind, payload, None, media_type), extras
    if shape.kind in ("raw", "url"):
        file = FileContent(
            data=shape.value if shape.kind == "raw" else None,
            uri=shape.value if shape.kind == "url" else None,
            name=shape.filename or None,
            media_type=shape.media_type or OCTETS,
        )
        return Part(kind or PartType.FILE, file, None, media_type), {} if shape.media_type else {"media_type": ""}
    extras = {"filename": shape.filename} if shape.filename else {}
    if shape.kind == "text":
        return Part(kind or PartType.TEXT, shape.value, None, shape.media_type or None), extras
    if kind is None and shape.media_type == PART_MEDIA_TYPE and _holds_part(shape.value):
        inner = shape.value["type"]
        part = Part(inner, _to_typed(inner, shape.value["content"]), None, media_type)
        if _has_own_shape(part):
            extras["shape"] = "data"  # the sender used a data part although this content has an A2A form of its own
        return part, extras
    return Part(PartType.JSON, shape.value, None, shape.media_type or None), extras


def _has_own_shape(part: Part) -> bool:
    content = part.content
    if isinstance(content, Payload):
        return part.type not in _FILES and _has_a2a_form(content)
    return (
        part.type == PartType.JSON
        or (part.type in _TEXT_TYPES and type(content) is str)
        or _find_file(part.type, content) is not None
    )


def _show(part: Part) -> Shape:
    shape, facts = _encode_content(part.type, part.content, part.media_type)
    shape.metadata = _show_metadata(part.metadata, facts)
    return shape


def _show_metadata(metadata: Metadata | None, facts: Metadata) -> Metadata | None:
    if metadata is None:
        return {MARK: facts} if facts else None
    if facts and not metadata:
        facts["has_metadata"] = True
    return marks.show(plain(metadata), facts)


def _restore(part: Part) -> Shape | None:
    rest = plain(part.metadata)
    extras = rest.pop(A2A_KEY)
    if type(extras) is not dict or not extras:
        return None
    shape, facts = _encode_content(part.type, part.content, part.media_type, as_data=extras.get("shape") == "data")
    metadata = marks.restore(rest, facts, extras)
    if metadata is None:
        return None
    shape.metadata = metadata if metadata or extras.get("has_metadata") is True else None
    name = extras.get("filename")
    if type(name) is str:
        shape.filename = name
    if extras.get("media_type") == "":
        shape.media_type = ""
    return shape


def _keep(shape: Shape) -> Part:
    part, extras = _decode_content(shape, {})
    if shape.metadata is None:
        part.metadata = {A2A_KEY: extras} if extras else None
        return part
    if extras and not shape.metadata:
        extras["has_metadata"] = True
    part.metadata = marks.keep(shape.metadata, extras)
    return part


def _unmark(shape: Shape) -> Part | None:
    rest = dict(shape.metadata or {})
    facts = rest.pop(MARK)
    if (
        type(facts) is not dict
        or not facts
        or not all(type(facts.get(key, "")) is str for key in ("type", "media_type"))
        or ("payload" in facts and not _fits_payload(shape, facts))
    ):
        return None
    part, extras = _decode_content(shape, facts)
    metadata = marks.unmark(rest, extras, facts)
    if metadata is None:
        return None
    part.metadata = metadata if metadata or facts.get("has_metadata") is True else None
    return part


def _fits_payload(shape: Shape, facts: Metadata) -> bool:
    return shape.kind in ("raw", "url") and _read_payload(shape, facts["payload"]) is not None


_PARTS: Final[Pairing[Part, Shape]] = Pairing(
    has_extras=lambda part: bool(part.metadata) and A2A_KEY in part.metadata,  # type: ignore[operator]  # bool() does not narrow
    has_mark=lambda shape: bool(shape.metadata) and MARK in shape.metadata,  # type: ignore[operator]  # the same
    show=_show,
    restore=_restore,
    keep=_keep,
    unmark=_unmark,
)


# -- messages and artifacts ----------------------------------------------------------------------------------------------

Fields = dict[str, Callable[[Any], bool]]


def _is_text(value: Any) -> bool:
    return type(value) is str and value != ""


def _is_texts(value: Any) -> bool:
    return type(value) is list and value != [] and all(type(each) is str for each in value)


def _is_anything(_: Any) -> bool:
    return True


def _fits(value: Any, fields: Fields) -> bool:
    return (
        type(value) is dict and value != {} and all(key in fields and fields[key](each) for key, each in value.items())
    )


_FOREIGN: Fields = {"own": _is_anything, "plgrpc": _is_anything}
_OURS: Fields = {"own": _is_anything, "a2a": _is_anything}

Head = tuple[Metadata, Metadata]
"""Metadata, and the fields that the other form lacks."""


def _restore_head(extras_fit: Fields, ours: Head) -> Head | None:
    rest = dict(ours[0])
    extras = rest.pop(A2A_KEY)
    if not _fits(extras, extras_fit):
        return None
    metadata = marks.restore(rest, ours[1], extras)
    return (
        None if metadata is None else (metadata, {key: value for key, value in extras.items() if key not in _FOREIGN})
    )


def _unmark_head(facts_fit: Fields, theirs: Head) -> Head | None:
    rest = dict(theirs[0])
    facts = rest.pop(MARK)
    if not _fits(facts, facts_fit):
        return None
    metadata = marks.unmark(rest, theirs[1], facts)
    return None if metadata is None else (metadata, {key: value for key, value in facts.items() if key not in _OURS})


def _head_pairing(facts: Fields, extras: Fields) -> Pairing[Head, Head]:
    return Pairing(
        has_extras=lambda ours: A2A_KEY in ours[0],
        has_mark=lambda theirs: MARK in theirs[0],
        show=lambda ours: (marks.show(*ours), {}),
        restore=partial(_restore_head, extras | _FOREIGN),
        keep=lambda theirs: (marks.keep(*theirs), {}),
        unmark=partial(_unmark_head, facts | _OURS),
    )


_MESSAGE_EXTRAS: Fields = {"extensions": _is_texts, "reference_task_ids": _is_texts}
# A user message has no role in its facts: a caller's metadata must not turn its message into one of the agent.
_MESSAGES: Final = {
    "user": _head_pairing({}, _MESSAGE_EXTRAS),
    "agent": _head_pairing({"role": lambda role: role in ("assistant", "system", "tool")}, _MESSAGE_EXTRAS),
}
_ARTIFACTS: Final = _head_pairing(
    {
        "kind": lambda kind: _is_text(kind) and kind != "result",
        "uri": _is_text,
        "media_type": _is_text,
        "action_id": _is_text,
    },
    {"description": _is_text, "extensions": _is_texts},
)


@dataclass(slots=True)
class MessageHead:
    """The fields of an A2A message apart from its parts. Empty means not set.

    Args:
        message_id: The sender's id of the message, if it differs from the id in the log.
    """

    role: Literal["user", "agent"]
    metadata: Metadata = field(default_factory=dict)
    extensions: list[str] = field(default_factory=list)
    reference_task_ids: list[str] = field(default_factory=list)
    message_id: str = ""


def message_head(message: Message) -> MessageHead:
    """Return the A2A fields of a message. A2A has the roles user and agent only; all roles but `user` become agent."""
    role: Literal["user", "agent"] = "user" if message.role == "user" else "agent"
    facts = {} if message.role in ("user", "agent") else {"role": message.role}
    if not message.metadata and not facts:
        return MessageHead(role)
    ours = plain(message.metadata or {})
    message_id = _take_id(ours)
    metadata, extras = _MESSAGES[role].write((ours, facts))
    return MessageHead(role, metadata, extras.get("extensions", []), extras.get("reference_task_ids", []), message_id)


def _take_id(metadata: Metadata) -> str:
    """Remove the sender's id from the metadata and return it; empty if there is none.

    A message gets a new id if its task already has a message with the sender's id, which is then kept in the metadata.
    """
    extras = metadata.get(A2A_KEY)
    if type(extras) is not dict or not _is_text(extras.get("message_id")):
        return ""
    message_id: str = extras.pop("message_id")
    if not extras:
        del metadata[A2A_KEY]
    return message_id


def message_of(message_id: str, parts: list[Part], head: MessageHead) -> Message:
    """Return the message of these A2A fields, with the current time. The inverse of `message_head`."""
    if not head.metadata and not head.extensions and not head.reference_task_ids:
        return Message(message_id, head.role, parts)
    named = {"extensions": head.extensions, "reference_task_ids": head.reference_task_ids}
    extras = {key: value for key, value in named.items() if value}
    metadata, facts = _MESSAGES[head.role].read((head.metadata, extras))
    return Message(message_id, facts.get("role", head.role), parts, metadata=metadata or None)


@dataclass(slots=True)
class ArtifactHead:
    """The fields of an A2A artifact apart from its parts. Empty means not set."""

    name: str = ""
    description: str = ""
    metadata: Metadata = field(default_factory=dict)
    extensions: list[str] = field(default_factory=list)


def artifact_head(artifact: Artifact) -> ArtifactHead:
    facts: Metadata = {} if artifact.kind in ("result", "") else {"kind": artifact.kind}
    for key in ("uri", "media_type", "action_id"):
        value = getattr(artifact, key)
        if value:
            facts[key] = value
    if not artifact.metadata and not facts:
        return ArtifactHead(artifact.name or "")
    metadata, extras = _ARTIFACTS.write((plain(artifact.metadata), facts))
    return ArtifactHead(artifact.name or "", extras.get("description", ""), metadata, extras.get("extensions", []))


def artifact_of(artifact_id: str, parts: list[Part], head: ArtifactHead) -> Artifact:
    """Return the artifact of these A2A fields, with the current time. The inverse of `artifact_head`."""
    named = {"description": head.description, "extensions": head.extensions}
    extras = {key: value for key, value in named.items() if value}
    if not head.metadata and not extras:
        return Artifact(artifact_id, parts, name=head.name or None)
    metadata, facts = _ARTIFACTS.read((head.metadata, extras))
    return Artifact(artifact_id, parts, metadata, name=head.name or None, **facts)
