"""Every kind of part is unchanged after its way over A2A, in both directions and over every binding."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from a2a_stage import World, agent_with, card, playing
from a2a_wires import Json, message

from protolink_grpc import Part
from protolink_grpc.a2a.json_codec import part_from_json, part_json
from protolink_grpc.models.part import PartType

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARTS: dict[str, Part] = {
    PartType.TEXT: Part.text("some words"),
    PartType.JSON: Part.json({"a": [1, 2.5, None, True, {"b": "c"}], "": {}}),
    PartType.FILE: Part.file(b"\x00\xff bytes", name="a.bin", media_type="application/zip"),
    PartType.BYTES: Part("bytes", Part.file(b"raw").content),
    PartType.URI: Part("uri", Part.file(uri="https://example.com/x").content),
    PartType.IMAGE: Part.image(b"\x89PNG", media_type="image/png"),
    PartType.AUDIO: Part.audio(uri="https://example.com/a.ogg", media_type="audio/ogg"),
    PartType.VIDEO: Part.video(b"v", name="v.mp4", media_type="video/mp4"),
    PartType.STATUS: Part.status("working", "half"),
    PartType.ERROR: Part.error("E1", "it broke", True),
    PartType.WARNING: Part.warning("careful", "w1"),
    PartType.ROUTE: Part.route("left", "because", 0.5, {"k": 1}),
    PartType.DECISION: Part.decision("right"),
    PartType.INFER: Part.infer("system", "user", {"type": "object"}, {"m": 1}),
    PartType.INFER_OUTPUT: Part.infer_output("an answer"),
    PartType.TOOL_CALL: Part.tool_call("add", {"a": 1, "deep": {"b": [1]}}, "call-1"),
    PartType.TOOL_OUTPUT: Part.tool_output("call-1", {"sum": 3}, None),
    PartType.TRACE: Part("trace", {"span": "x"}),
    PartType.SUMMARY: Part("summary", "short"),
    PartType.CONFIDENCE: Part("confidence", 0.75),
    PartType.SCHEMA: Part("schema", {"type": "string"}),
    PartType.UNKNOWN: Part("unknown", {"fallback_text": "a map", "encoded": "agVhIG1hcMICA25ldw=="}),
}

MORE: dict[str, Part] = {
    "a kind of tomorrow": Part("hologram", {"rays": [1, 2]}),
    "data that are a list": Part.json([1, [2], {}]),
    "data that are null": Part.json(None),
    "data that are a text": Part.json("text"),
    "an empty text": Part.text(""),
    "a failed tool": Part.tool_output("c", None, {"code": "x"}),
    "metadata": Part("text", "x", {"k": {"n": [1, None]}}),
    "empty metadata": Part("text", "x", {}),
    "metadata of a file": Part("image", Part.image(b"x").content, {"k": "v"}),
    "metadata of a call": Part("tool_call", Part.tool_call("a", {}, "c").content, {"k": "v"}),
    "metadata named like ours": Part("text", "x", {"a2a": {"y": 1}, "plgrpc": {"z": 1}}),
    "a media type of a text": Part("text", "# title", None, "text/markdown"),
    "a media type of data": Part("json", {"a": 1}, None, "application/ld+json"),
    "an inference that is no text": Part.infer_output({"answer": 1}),
    "an empty file": Part.file(b"", name="empty"),
    "an unusual name": Part.file(b"x", name="Grüße 世界.txt"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echoing() -> AsyncIterator[World]:
    """An agent that takes everything and gives it back."""
    async with playing(agent_with(card=card(input_formats=["*/*"]))) as found:
        yield found


async def test_every_kind_that_this_version_knows_is_here() -> None:
    known = {value for name, value in vars(PartType).items() if not name.startswith("_")}
    assert set(PARTS) == known


@pytest.mark.parametrize("kind", [*PARTS, *MORE])
async def test_a_part_comes_back_as_what_it_was(
    echoing: World, binding: str, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "empty metadata" and binding in ("grpc-0.3", "rest-0.3"):
        reason = "v0.3's protobuf reads metadata that are there and empty as none"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    part = (PARTS | MORE)[kind]
    sent = part_json(part)
    (back,) = await echoed(echoing, binding, [sent])
    assert back == sent
    assert part_from_json(back) == part


async def test_parts_keep_their_order(echoing: World, binding: str) -> None:
    sent = [part_json(part) for part in PARTS.values()]
    assert await echoed(echoing, binding, sent) == sent


FOREIGN: dict[str, Json] = {
    "a name of a text": {"text": "x", "filename": "x.txt"},
    "a file of no kind": {"raw": "eA=="},
    "a link of no kind": {"url": "https://example.com/"},
    "data with a name": {"data": {"a": 1}, "filename": "a.json", "mediaType": "application/json"},
    "a number": {"data": 7},
    "a mark of ours that is none": {"text": "x", "metadata": {"plgrpc": "not an object"}},
    "our media type around something else": {
        "data": {"type": 7},
        "mediaType": "application/vnd.plgrpc.part+json",
    },
    "a text spelled out": {
        "data": {"type": "text", "content": "x"},
        "mediaType": "application/vnd.plgrpc.part+json",
    },
}


@pytest.mark.parametrize("kind", FOREIGN)
async def test_what_others_say_comes_back_as_they_said_it(echoing: World, binding: str, kind: str) -> None:
    """Parts that no agent of ours would write."""
    assert await echoed(echoing, binding, [FOREIGN[kind]]) == [FOREIGN[kind]]


async def test_messages_keep_what_only_a2a_has_fields_for(echoing: World, binding: str) -> None:
    caller = echoing.caller(binding)
    given = message("hello", metadata={"k": [1]}, extensions=["urn:x"])
    task = await caller.task(given)
    (shown,) = [each for each in task["history"] if each["role"] == "ROLE_USER"]
    assert {key: shown[key] for key in given} == given


async def echoed(world: World, binding: str, parts: list[Json]) -> list[Json]:
    task = await world.caller(binding).task(message(parts=[{"text": "echo"}, *parts]))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    (artifact,) = task["artifacts"]
    found: list[Json] = artifact["parts"]
    return found
