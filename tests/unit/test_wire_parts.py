"""Conversion of parts: every type and content is read back, and all that is written can be read."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from plgrpc.v1 import part_pb2 as pb
from plgrpc.v1 import payload_pb2
from wire_values import FACTS, FILE_TYPES, FULL_PARTS, PART_TYPES, fields_defined, fields_set, json_values, parts

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import FileContent, Part, RouteDecision, ToolCall, ToolOutput
from protolink_grpc.models.fold import copy_part
from protolink_grpc.models.json_value import from_json, normalize, to_json
from protolink_grpc.models.part import PartType
from protolink_grpc.models.payload import Payload, TypedMessage
from protolink_grpc.wire.parts import TOOL_OUTPUT, check_parts, part_from_pb, part_to_pb, parts_from_pb

# A shared machine's pauses are no failure; each kind or type gets its own examples, so a few are many.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def travelled(part: Part) -> Part:
    return part_from_pb(pb.Part.FromString(part_to_pb(part).SerializeToString()))


@relaxed
@given(part=parts)
def test_every_part_comes_back_equal(part: Part) -> None:
    assert travelled(part) == part


@pytest.mark.parametrize("part", FULL_PARTS, ids=lambda part: f"{part.type} {type(part.content).__name__}")
def test_every_documented_content_comes_back_equal_and_of_its_class(part: Part) -> None:
    back = travelled(part)
    assert back == part
    assert type(back.content) is type(part.content)


@relaxed
@given(part=parts.map(travelled))
def test_every_part_that_the_wire_yields_can_be_read_from_its_json(part: Part) -> None:
    shape = from_json(to_json(part))
    back = Part.from_dict(shape)
    if not isinstance(part.content, dict):
        assert type(back.content) is type(part.content)
        assert back.to_dict() == shape


@pytest.mark.parametrize(
    "message",
    [
        pb.Part(tool_output=pb.ToolOutput(result={"json": "1"})),
        pb.Part(tool_call=pb.ToolCall(tool_name=" ", call_id=" ")),
        pb.Part(route=pb.RouteDecision(route_key=" ")),
        pb.Part(file=pb.FileContent(content={"media_type": "image/png"})),
        pb.Part(data={"preview": "nothing"}),
        pb.Part(custom=pb.CustomContent(type=" ")),
        pb.Part(custom=pb.CustomContent(type="text", content={"json": "[1]"})),
        pb.Part(custom=pb.CustomContent(type="tool_call")),
    ],
)
def test_what_the_contract_only_just_allows_survives_its_json(message: pb.Part) -> None:
    part = part_from_pb(message)
    assert Part.from_dict(part.to_dict()) == part


@relaxed
@given(content=json_values)
def test_every_type_carries_any_json(content: Any) -> None:
    for kind in PART_TYPES:
        assert travelled(Part(kind, content)) == Part(kind, content)


@pytest.mark.parametrize(
    "part",
    [
        Part.text("hello"),
        Part.json([1]),
        Part.file(data=b"x"),
        Part.file(uri="file:///x"),
        Part.image(b"x"),
        Part.audio(uri="https://example.org/a"),
        Part.video(b""),
        Part.tool_call("search"),
        Part.tool_output("call"),
        Part.infer(),
        Part.infer("prompt"),
        Part.infer_output({"a": 1}),
        Part.error("E", "broken"),
        Part.warning("careful"),
        Part.status("working"),
        Part.route("left"),
        Part.decision("right"),
    ],
    ids=lambda part: part.type,
)
def test_what_the_constructors_make_comes_back_equal(part: Part) -> None:
    assert travelled(part) == part


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        *[("text", "text"), ("json", "data"), ("tool_call", "tool_call"), ("tool_output", "tool_output")],
        *[("infer", "infer"), ("infer_output", "infer_output"), ("error", "failure"), ("status", "custom")],
        *[("route", "route"), ("decision", "custom"), ("file", "file"), ("image", "file"), ("trace", "custom")],
    ],
)
def test_each_type_has_its_own_field_for_its_documented_content(kind: str, field: str) -> None:
    part = next(part for part in FULL_PARTS if part.type == kind)
    assert part_to_pb(part).WhichOneof("content") == field


def test_full_parts_leave_no_field_of_the_contract_out() -> None:
    written = set().union(*[fields_set(part_to_pb(part)) for part in FULL_PARTS])
    # Kinds of this version have no use for the text that replaces an unknown one.
    assert fields_defined(pb.Part.DESCRIPTOR) - written == {"plgrpc.v1.Part.fallback_text"}


@pytest.mark.parametrize("metadata", [None, {}, FACTS])
@pytest.mark.parametrize("media_type", [None, "text/html"])
def test_no_metadata_and_empty_metadata_differ(metadata: Any, media_type: str | None) -> None:
    part = Part("text", "x", metadata, media_type)
    assert travelled(part) == part


@pytest.mark.parametrize("value", ["", None])
def test_an_empty_text_of_a_question_is_kept_as_custom(value: str | None) -> None:
    part = Part.infer(prompt=value, user=value)
    assert part_to_pb(part).WhichOneof("content") == ("infer" if value is None else "custom")
    assert travelled(part) == part


@pytest.mark.parametrize("reason", ["", None])
@pytest.mark.parametrize("confidence", [0.0, None, 1])
def test_an_empty_reason_of_a_route_is_kept(reason: str | None, confidence: float | None) -> None:
    part = Part.route("left", reason, confidence)
    assert travelled(part) == part


# -- contents that the typed fields cannot carry -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        Part("tool_call", ToolCall("", FACTS, "call")),
        Part("tool_call", ToolCall("search", FACTS, "")),
        Part("route", RouteDecision("")),
        Part("decision", RouteDecision("")),
        Part("json", ToolCall("search", FACTS, "call")),
        Part("text", ToolOutput("call", 1)),
        Part("tool_call", RouteDecision("left")),
        Part("trace", FileContent(b"x")),
        Part("status", FileContent(b"x")),
    ],
    ids=lambda part: f"{part.type} {type(part.content).__name__}",
)
def test_a_typed_content_that_its_field_cannot_carry_becomes_its_json_form(part: Part) -> None:
    back = travelled(part)
    assert back == Part(part.type, part.content.to_dict())
    assert travelled(back) == back


@pytest.mark.parametrize(
    "content",
    [
        {"code": "E", "message": "x", "retryable": 1},
        {"code": "E", "message": "x"},
        {"code": "E", "message": "x", "retryable": True, "details": None},
        {"code": "TOOL_TIMEOUT", "message": "x", "retryable": True, "category": "timeout"},
        {"code": "E", "message": "x", "retryable": True, "retry_delay_s": -1},
        {"code": "E", "message": "x", "retryable": True, "more": 1},
    ],
)
def test_an_error_of_another_shape_keeps_it(content: dict[str, Any]) -> None:
    assert part_to_pb(Part("error", content)).WhichOneof("content") == "custom"
    assert travelled(Part("error", content)) == Part("error", content)


@pytest.mark.parametrize("kind", ["json", "trace", "text", "infer_output", "status"])
def test_what_a_program_puts_into_a_part_comes_back_as_its_json_form(kind: str) -> None:
    @dataclasses.dataclass
    class Point:
        x: int
        when: datetime

    content = {"points": (Point(1, datetime(2026, 6, 12, tzinfo=UTC)),), "tags": {"b", "a"}, "raw": b"\x00"}
    assert travelled(Part(kind, content)) == Part(kind, normalize(content))


def test_a_content_without_a_json_form_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError):
        part_to_pb(Part("json", object()))


@pytest.mark.parametrize(
    "part",
    [
        Part("text", "half a pair: \ud800"),
        Part("infer_output", "\ud800"),
        Part("json", ["\ud800"]),
        Part("t", "\ud800"),
    ],
    ids=lambda part: part.type,
)
def test_text_that_is_not_unicode_is_refused_when_it_is_written(part: Part) -> None:
    with pytest.raises(InvalidArgumentError, match="Unicode"):
        part_to_pb(part)


def test_a_part_without_a_type_is_refused_when_it_is_written() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        part_to_pb(Part("", "x"))
    assert refused.value.field == "type"


# -- messages of others --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.Part(text="x", metadata_json="[]"), "sent.metadata_json"),
        (pb.Part(text="x", metadata_json="{"), "sent.metadata_json"),
        (pb.Part(data={"json": ""}), "sent.data.json"),
        (pb.Part(data={"json": "nonsense"}), "sent.data.json"),
        (pb.Part(data={"json": "[" * 1000 + "]" * 1000}), "sent.data.json"),
        (pb.Part(tool_call=pb.ToolCall()), "sent.tool_call.tool_name"),
        (pb.Part(tool_call=pb.ToolCall(tool_name="x", arguments={"json": "[]"})), "sent.tool_call.arguments.json"),
        (pb.Part(tool_output=pb.ToolOutput(result={"json": "{"})), "sent.tool_output.result.json"),
        (pb.Part(tool_output={"failure": {"details": {"json": "{"}}}), "sent.tool_output.failure.details.json"),
        (pb.Part(infer=pb.Infer(output_schema_json="1")), "sent.infer.output_schema_json"),
        (pb.Part(infer=pb.Infer(metadata_json="1")), "sent.infer.metadata_json"),
        (pb.Part(infer_output=pb.InferOutput(value={"json": "{"})), "sent.infer_output.value.json"),
        (pb.Part(failure={"details": {"json": "{"}}), "sent.failure.details.json"),
        (pb.Part(failure={"cause": {"retry_delay": {"seconds": -1}}}), "sent.failure.cause.retry_delay"),
        (pb.Part(route=pb.RouteDecision()), "sent.route.route_key"),
        (pb.Part(route=pb.RouteDecision(route_key="x", metadata_json="1")), "sent.route.metadata_json"),
        (pb.Part(custom=pb.CustomContent()), "sent.custom.type"),
        (pb.Part(custom=pb.CustomContent(type="x", content={"json": "{"})), "sent.custom.content.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_contract_does_not_allow_is_refused_by_the_name_of_its_field(message: pb.Part, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        part_from_pb(message, "sent")
    assert refused.value.field == field


def test_parts_of_a_list_are_named_by_their_index() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        parts_from_pb([pb.Part(text="fine"), pb.Part(data={"json": "{"})], "message.parts")
    assert refused.value.field == "message.parts[1].data.json"


def newer_part() -> pb.Part:
    """A part with a content in field 40, which no reader has code for."""
    part = pb.Part(fallback_text="a map of Crete", metadata_json='{"a":1}', media_type="image/x-map")
    part.MergeFromString(bytes((40 << 3 & 0x7F | 2 | 0x80, 40 << 3 >> 7, 3)) + b"new")
    return part


def test_a_part_of_a_later_version_is_kept_shown_and_passed_on() -> None:
    part = part_from_pb(newer_part())
    assert (part.type, part.content["fallback_text"]) == (PartType.UNKNOWN, "a map of Crete")
    assert part_to_pb(part) == newer_part()
    assert part_to_pb(Part.from_dict(part.to_dict())) == newer_part()


@pytest.mark.parametrize("encoded", ["", "????", "CgF4"], ids=["nothing", "no base64", "a part that is known"])
def test_what_only_looks_like_a_part_of_a_later_version_is_custom(encoded: str) -> None:
    part = Part("unknown", {"fallback_text": "x", "encoded": encoded})
    assert part_to_pb(part).WhichOneof("content") == ("custom" if encoded else None)


def newer_payload() -> payload_pb2.Payload:
    """A payload with its value in field 40, which no reader has code for."""
    return payload_pb2.Payload.FromString(newer_part().SerializeToString()[-6:])


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (pb.Part(), ""),
        (newer_part(), ""),
        (pb.Part(data={}), ".data"),
        (pb.Part(data=newer_payload()), ".data"),
        (pb.Part(data={"message": {"value": b"x"}}), ".data.message.type_name"),
        (pb.Part(data={"json": "1", "preview": "é" * 513}), ".data.preview"),
        (pb.Part(file={"content": newer_payload()}), ".file.content"),
        (pb.Part(file={"content": {"ref": {}}}), ".file.content.ref.uri"),
        (pb.Part(file={"content": {"ref": {"uri": "a", "size_bytes": -1}}}), ".file.content.ref.size_bytes"),
        (pb.Part(file={"content": {"ref": {"uri": "a", "sha256": b"x"}}}), ".file.content.ref.sha256"),
        (pb.Part(tool_call={"tool_name": "x", "arguments": newer_payload()}), ".tool_call.arguments"),
        (pb.Part(tool_output={"result": newer_payload()}), ".tool_output.result"),
        (pb.Part(tool_output={"failure": {"details": newer_payload()}}), ".tool_output.failure.details"),
        (pb.Part(infer_output={"value": newer_payload()}), ".infer_output.value"),
        (pb.Part(failure={"cause": {"details": newer_payload()}}), ".failure.cause.details"),
        (pb.Part(custom={"type": "x", "content": newer_payload()}), ".custom.content"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_part_of_a_request_must_have_a_content_that_is_known(part: pb.Part, path: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        check_parts([pb.Part(text="fine"), part], "message.parts")
    assert refused.value.field == "message.parts[1]" + path


def test_every_part_of_this_version_may_be_asked() -> None:
    check_parts([part_to_pb(part) for part in FULL_PARTS], "message.parts")


@pytest.mark.parametrize(
    "part",
    [
        pb.Part(data=newer_payload()),
        pb.Part(data={"message": {"type_name": "acme.v1.Point", "value": b"\x08\x01"}}),
        pb.Part(data={"json": "1", "media_type": "application/geo+json"}),
        pb.Part(tool_call={"tool_name": "x", "arguments": newer_payload(), "call_id": "c"}),
        pb.Part(tool_output={"call_id": "c", "result": {"data": b"x", "encoding": "aes"}}),
        pb.Part(infer_output={"value": {"ref": {"uri": "file:///a", "size_bytes": 3}}}),
        pb.Part(custom={"type": "x", "content": newer_payload()}),
        pb.Part(file={"content": {"json": "{}", "media_type": "application/json"}, "name": "a.json"}),
        pb.Part(file={"content": {"ref": {"uri": "a", "sha256": bytes(32)}, "media_type": "image/png"}}),
    ],
)
def test_a_value_that_is_not_plain_json_is_passed_on_as_it_is(part: pb.Part) -> None:
    read = part_from_pb(part)
    assert part_to_pb(read) == part
    assert part_to_pb(Part.from_dict(from_json(to_json(read)))) == part
    assert part_to_pb(copy_part(read)) == part


def test_json_arguments_may_name_their_media_type_and_other_forms_are_refused() -> None:
    call = ToolCall("add", Payload({"a": 1}, "application/json"))
    assert call.json_args() == {"a": 1}
    for args in (Payload(TypedMessage("acme.v1.Sum")), Payload({"a": 1}, "", "aes"), Payload([1], "text/json")):
        with pytest.raises(InvalidArgumentError, match=r"^arguments: "):
            ToolCall("add", args).json_args()


def test_a_tool_call_without_an_id_gets_one() -> None:
    call = part_from_pb(pb.Part(tool_call=pb.ToolCall(tool_name="search"))).content
    assert call.call_id
    assert call.args == {}


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [("image/png", "image"), ("audio/wav", "audio"), ("video/mp4", "video"), ("text/csv", "file"), ("", "file")],
)
def test_the_type_of_a_file_follows_from_its_media_type(media_type: str, kind: str) -> None:
    sent = pb.Part(file=pb.FileContent(content={"data": b"x", "media_type": media_type}))
    part = part_from_pb(sent)
    assert part == Part(kind, FileContent(b"x", media_type=media_type or "application/octet-stream"))
    assert part_to_pb(part).metadata_json == ""


@pytest.mark.parametrize("kind", FILE_TYPES)
@pytest.mark.parametrize("media_type", ["image/png", "text/csv"])
@pytest.mark.parametrize("metadata", [None, {}, {"a": 1}, {"$protolink": "image"}])
def test_protolinks_type_of_a_file_comes_back_and_leaves_no_mark(kind: str, media_type: str, metadata: Any) -> None:
    part = Part(kind, FileContent(b"x", media_type=media_type), metadata)
    assert travelled(part) == part


@pytest.mark.parametrize(
    ("value", "outcome"),
    [({"result": 1}, "result"), ({"error": "no"}, "failure"), ({"error": []}, "failure"), ({}, None)],
)
def test_the_oneof_says_how_a_call_ended(value: dict[str, Any], outcome: str | None) -> None:
    part = Part("tool_output", ToolOutput("c", **value))
    assert part_to_pb(part).tool_output.WhichOneof("outcome") == outcome
    assert travelled(part) == part


def test_an_empty_answer_is_an_empty_text() -> None:
    assert part_from_pb(pb.Part(infer_output=pb.InferOutput())) == Part("infer_output", "")


def test_the_outcome_of_a_call_may_be_null_or_missing() -> None:
    assert TOOL_OUTPUT.from_pb(pb.ToolOutput(call_id="c", result={"json": "null"}), "o") == ToolOutput("c")
    assert TOOL_OUTPUT.from_pb(pb.ToolOutput(call_id="c"), "o") == ToolOutput("c")
