"""Parts on the wire: every type and every content comes back, and what is written can always be read."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from plgrpc.v1 import part_pb2 as pb
from wire_values import FACTS, FILE_TYPES, FULL_PARTS, PART_TYPES, fields_defined, fields_set, json_values, parts

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import FileContent, Part, RouteDecision, ToolCall, ToolOutput
from protolink_grpc.models.json_value import from_json, normalize, to_json
from protolink_grpc.models.part import PartType
from protolink_grpc.wire.parts import check_parts, part_from_pb, part_to_pb, parts_from_pb, tool_output_from_pb

# A shared machine's pauses are no failure; each kind or type gets its own examples, so a few are many.
relaxed = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


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
        pb.Part(tool_output=pb.ToolOutput(result_json="1")),
        pb.Part(tool_call=pb.ToolCall(tool_name=" ", call_id=" ")),
        pb.Part(route=pb.RouteDecision(route_key=" ")),
        pb.Part(file=pb.FileContent(kind="image")),
        pb.Part(custom=pb.CustomContent(type=" ")),
        pb.Part(custom=pb.CustomContent(type="text", content_json="[1]")),
        pb.Part(custom=pb.CustomContent(type="tool_call")),
    ],
)
def test_what_the_contract_only_just_allows_survives_its_json(message: pb.Part) -> None:
    part = part_from_pb(message)
    assert Part.from_dict(part.to_dict()) == part


@pytest.mark.parametrize("kind", PART_TYPES)
@relaxed
@given(content=json_values)
def test_every_type_carries_any_json(kind: str, content: Any) -> None:
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
        *[("text", "text"), ("json", "data_json"), ("tool_call", "tool_call"), ("tool_output", "tool_output")],
        *[("infer", "infer"), ("infer_output", "infer_output"), ("error", "error"), ("status", "status")],
        *[("route", "route"), ("decision", "decision"), ("file", "file"), ("image", "file"), ("trace", "custom")],
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
def test_unset_and_empty_texts_of_a_question_differ(value: str | None) -> None:
    back = travelled(Part.infer(prompt=value, user=value)).content
    assert back == ({} if value is None else {"prompt": "", "user": ""})


@pytest.mark.parametrize("reason", ["", None])
@pytest.mark.parametrize("confidence", [0.0, None, 1])
def test_unset_and_empty_reasons_of_a_route_differ(reason: str | None, confidence: float | None) -> None:
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
        Part("file", FileContent(b"x", "file:///x", "x")),
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
        {"code": "E", "message": "x", "retryable": True, "details": {}},
        {"code": "E", "message": "x", "retryable": True, "details": ["no object"]},
        {"code": "E", "message": "x", "retryable": True, "more": 1},
    ],
)
def test_an_error_of_another_shape_keeps_it(content: dict[str, Any]) -> None:
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
        (pb.Part(data_json=""), "sent.data_json"),
        (pb.Part(data_json="nonsense"), "sent.data_json"),
        (pb.Part(data_json="[" * 1000 + "]" * 1000), "sent.data_json"),
        (pb.Part(tool_call=pb.ToolCall()), "sent.tool_call.tool_name"),
        (pb.Part(tool_call=pb.ToolCall(tool_name="x", args_json="[]")), "sent.tool_call.args_json"),
        (pb.Part(tool_output=pb.ToolOutput(result_json="{")), "sent.tool_output.result_json"),
        (pb.Part(tool_output=pb.ToolOutput(error_json="{")), "sent.tool_output.error_json"),
        (pb.Part(infer=pb.Infer(output_schema_json="1")), "sent.infer.output_schema_json"),
        (pb.Part(infer=pb.Infer(metadata_json="1")), "sent.infer.metadata_json"),
        (pb.Part(infer_output=pb.InferOutput(value_json="{")), "sent.infer_output.value_json"),
        (pb.Part(error=pb.ErrorDetail(details_json="1")), "sent.error.details_json"),
        (pb.Part(route=pb.RouteDecision()), "sent.route.route_key"),
        (pb.Part(decision=pb.RouteDecision()), "sent.decision.route_key"),
        (pb.Part(decision=pb.RouteDecision(route_key="x", metadata_json="1")), "sent.decision.metadata_json"),
        (pb.Part(custom=pb.CustomContent()), "sent.custom.type"),
        (pb.Part(custom=pb.CustomContent(type="x", content_json="{")), "sent.custom.content_json"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_contract_does_not_allow_is_refused_by_the_name_of_its_field(message: pb.Part, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        part_from_pb(message, "sent")
    assert refused.value.field == field


def test_parts_of_a_list_are_named_by_their_index() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        parts_from_pb([pb.Part(text="fine"), pb.Part(data_json="{")], "message.parts")
    assert refused.value.field == "message.parts[1].data_json"


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


@pytest.mark.parametrize("part", [pb.Part(), newer_part()], ids=["none", "unknown"])
def test_a_part_of_a_request_must_have_a_content_that_is_known(part: pb.Part) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        check_parts([pb.Part(text="fine"), part], "message.parts")
    assert refused.value.field == "message.parts[1]"


def test_a_tool_call_without_an_id_gets_one() -> None:
    call = part_from_pb(pb.Part(tool_call=pb.ToolCall(tool_name="search"))).content
    assert call.call_id
    assert call.args == {}


@pytest.mark.parametrize("kind", ["", *FILE_TYPES])
def test_a_file_is_of_the_kind_that_its_sender_names(kind: str) -> None:
    part = part_from_pb(pb.Part(file=pb.FileContent(kind=kind, data=b"x")))
    assert part == Part(kind or "file", FileContent(b"x"))


def test_an_empty_answer_is_an_empty_text() -> None:
    assert part_from_pb(pb.Part(infer_output=pb.InferOutput())) == Part("infer_output", "")


def test_the_outcome_of_a_call_may_be_null_or_missing() -> None:
    assert tool_output_from_pb(pb.ToolOutput(call_id="c", result_json="null"), "o") == ToolOutput("c")
    assert tool_output_from_pb(pb.ToolOutput(call_id="c"), "o") == ToolOutput("c")
