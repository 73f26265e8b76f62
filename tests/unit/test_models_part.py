from typing import Any

import pytest

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import (
    Artifact,
    FileContent,
    Part,
    PartType,
    RouteDecision,
    TaskState,
    ToolCall,
    ToolOutput,
    from_json,
    to_json,
)

SHAPES: list[tuple[Part, dict[str, Any]]] = [
    (Part.text("hi"), {"type": "text", "content": "hi"}),
    (Part.json({"a": 1}), {"type": "json", "content": {"a": 1}}),
    (
        Part.tool_call("add", {"a": 1}, call_id="c1"),
        {"type": "tool_call", "content": {"tool_name": "add", "args": {"a": 1}, "call_id": "c1"}},
    ),
    (
        Part.tool_output("c1", {"sum": 3}),
        {"type": "tool_output", "content": {"call_id": "c1", "result": {"sum": 3}, "error": None}},
    ),
    (
        Part.tool_output("c1", error={"message": "no"}),
        {"type": "tool_output", "content": {"call_id": "c1", "result": None, "error": {"message": "no"}}},
    ),
    (Part.infer("who?"), {"type": "infer", "content": {"prompt": "who?"}}),
    (
        Part.infer(user="u", output_schema={"type": "object"}, metadata={}),
        {"type": "infer", "content": {"user": "u", "output_schema": {"type": "object"}, "metadata": {}}},
    ),
    (Part.infer_output("three"), {"type": "infer_output", "content": "three"}),
    (
        Part.error("E1", "boom", retryable=True),
        {"type": "error", "content": {"code": "E1", "message": "boom", "retryable": True}},
    ),
    (Part.warning("slow"), {"type": "warning", "content": {"code": "warning", "message": "slow"}}),
    (
        Part.status(TaskState.INPUT_REQUIRED, "which city?"),
        {"type": "status", "content": {"state": "input-required", "message": "which city?"}},
    ),
    (
        Part.route("quality", reason="ready", confidence=0.5),
        {
            "type": "route",
            "content": {"route_key": "quality", "reason": "ready", "confidence": 0.5, "metadata": {}},
        },
    ),
    (
        Part.decision("yes"),
        {"type": "decision", "content": {"route_key": "yes", "reason": None, "confidence": None, "metadata": {}}},
    ),
    (
        Part.file(data=b"\x00\xff", name="a.bin"),
        {
            "type": "file",
            "content": {"name": "a.bin", "media_type": "application/octet-stream", "uri": None, "data": "AP8="},
        },
    ),
    (
        Part.image(uri="https://x/y.png"),
        {"type": "image", "content": {"name": None, "media_type": "image/png", "uri": "https://x/y.png"}},
    ),
    (
        Part("text", "hi", {"lang": "en"}, "text/markdown"),
        {"type": "text", "content": "hi", "metadata": {"lang": "en"}, "media_type": "text/markdown"},
    ),
    (Part("x-future", [1, {"a": None}]), {"type": "x-future", "content": [1, {"a": None}]}),
]


@pytest.mark.parametrize(("part", "shape"), SHAPES)
def test_a_part_has_its_documented_json_shape_and_survives_it(part: Part, shape: dict[str, Any]):
    assert part.to_dict() == shape
    assert Part.from_dict(from_json(to_json(part))) == part


def test_metadata_and_media_type_are_written_only_when_set():
    assert Part.text("x").to_dict().keys() == {"type", "content"}
    assert Part("text", "x", metadata={}).to_dict()["metadata"] == {}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (None, ""),
        ("text", ""),
        ({}, "type"),
        ({"content": "x"}, "type"),
        ({"type": ""}, "type"),
        ({"type": 5, "content": "x"}, "type"),
        ({"type": "json", "content": 1, "metadata": []}, "metadata"),
        ({"type": "json", "content": 1, "media_type": 1}, "media_type"),
    ],
)
def test_a_wrong_part_names_its_field(data: object, field: str):
    with pytest.raises(InvalidArgumentError) as caught:
        Part.from_dict(data)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("kind", "content", "field"),
    [
        ("tool_call", None, "content"),
        ("tool_call", {}, "content.tool_name"),
        ("tool_call", {"tool_name": ""}, "content.tool_name"),
        ("tool_call", {"tool_name": "a", "args": []}, "content.args"),
        ("tool_call", {"tool_name": "a", "call_id": 1}, "content.call_id"),
        ("tool_output", {"result": 1}, "content.call_id"),
        ("route", {}, "content.route_key"),
        ("route", {"key": 5}, "content.key"),
        ("decision", {"route_key": "a", "confidence": "high"}, "content.confidence"),
    ],
)
def test_a_content_of_another_shape_is_kept_and_refused_where_it_is_used(kind: str, content: Any, field: str):
    part = Part.from_dict({"type": kind, "content": content})
    assert part.content == content
    use = {"tool_call": part.as_tool_call, "tool_output": part.as_tool_output}.get(kind, part.as_route_decision)
    with pytest.raises(InvalidArgumentError) as caught:
        use()
    assert caught.value.field == field


def test_a_content_that_is_too_deep_names_its_field():
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(InvalidArgumentError) as caught:
        Part.from_dict({"type": "json", "content": deep})
    assert caught.value.field == "content"


@pytest.mark.parametrize("alias", ["route", "key"])
def test_a_route_is_read_under_its_other_names(alias: str):
    part = Part.from_dict({"type": "route", "content": {alias: "left"}})
    assert part.as_route_decision() == RouteDecision("left")


@pytest.mark.parametrize("kind", ["file", "image", "audio", "video", "bytes", "uri"])
@pytest.mark.parametrize(
    "content",
    [
        "aGVsbG8=",
        None,
        {"name": None},
        {"name": None, "media_type": "a/b", "uri": None, "extra": 1},
        {"name": None, "media_type": "a/b", "uri": None, "data": "not base64!"},
        {"name": 5, "media_type": "a/b", "uri": None},
    ],
)
def test_file_like_parts_keep_what_is_not_a_file_content(kind: str, content: Any):
    assert Part.from_dict({"type": kind, "content": content}).content == content


@pytest.mark.parametrize(("data", "uri"), [(None, None), (b"x", "https://x"), (None, "")])
def test_a_file_needs_either_data_or_uri(data: bytes | None, uri: str | None):
    with pytest.raises(InvalidArgumentError):
        Part.file(data=data, uri=uri)


def test_an_empty_file_keeps_its_empty_data():
    part = Part.audio(data=b"")
    assert Part.from_dict(part.to_dict()).content == FileContent(data=b"", media_type="audio/wav")


def test_typed_accessors_read_dicts_and_values():
    assert Part("tool_call", {"tool_name": "a", "call_id": "c"}).as_tool_call() == ToolCall("a", {}, "c")
    assert Part("tool_output", {"call_id": "c", "result": 1}).as_tool_output() == ToolOutput("c", 1)
    call = Part.tool_call("a")
    assert call.as_tool_call() is call.content
    assert call.content.call_id


@pytest.mark.parametrize("accessor", ["as_tool_call", "as_tool_output", "as_route_decision"])
def test_a_typed_accessor_refuses_other_parts(accessor: str):
    with pytest.raises(ValueError, match="a text part is no"):
        getattr(Part.text("x"), accessor)()


def test_parts_share_nothing_with_their_json():
    data = {"type": "json", "content": {"a": [1]}, "metadata": {"b": [1]}}
    part = Part.from_dict(data)
    part.content["a"].append(2)
    written = part.to_dict()
    written["content"]["a"].append(3)
    written["metadata"]["b"].append(3)
    assert data == {"type": "json", "content": {"a": [1]}, "metadata": {"b": [1]}}
    assert part.content == {"a": [1, 2]}
    assert part.metadata == {"b": [1]}


def test_tool_parts_share_nothing_with_their_json():
    args = {"a": [1]}
    part = Part.from_dict({"type": "tool_call", "content": {"tool_name": "t", "args": args}})
    part.content.args["a"].append(2)
    part.to_dict()["content"]["args"]["a"].append(3)
    assert args == {"a": [1]}
    assert part.content.args == {"a": [1, 2]}


def test_part_types_compare_as_text():
    assert Part(PartType.INFER_OUTPUT, "x") == Part.infer_output("x")


def test_an_artifact_has_exactly_its_documented_keys():
    artifact = Artifact(id="a", timestamp="2026-01-01T00:00:00+00:00").add_text("x").for_action("act")
    assert artifact.to_dict() == {
        "id": "a",
        "parts": [{"type": "text", "content": "x"}],
        "metadata": {},
        "timestamp": "2026-01-01T00:00:00+00:00",
        "kind": "result",
        "name": None,
        "uri": None,
        "media_type": None,
        "action_id": "act",
    }


def test_an_artifact_names_the_path_of_a_wrong_part():
    with pytest.raises(InvalidArgumentError) as caught:
        Artifact.from_dict({"parts": [{"type": "text", "content": "x"}, {"content": "x"}]})
    assert caught.value.field == "parts[1].type"
