"""Conversion of parts to and from A2A, in JSON and protobuf: nothing is lost in either direction."""

import base64
import json
from typing import Any

import pytest
import wire_values as values
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import Message, Part
from protolink_grpc.a2a.content import PART_MEDIA_TYPE
from protolink_grpc.a2a.json_codec import part_from_json, part_json
from protolink_grpc.a2a.pb_codec import message_pb, part_from_pb
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import FileContent, ToolCall
from protolink_grpc.models.json_value import from_json, to_json
from protolink_grpc.models.payload import Payload, PayloadRef, TypedMessage

# Keys and values that mean something to us or to A2A, besides any other: the interesting collisions are rare in random text.
KEYS = st.sampled_from(
    ["plgrpc", "a2a", "own", "type", "content", "media_type", "mediaType", "filename", "shape", "has_metadata", "exact", "data",
     "metadata", "x", "payload", "preview", "size_bytes", "$payload", "message"]
)  # fmt: skip
LEAVES = (
    st.sampled_from(
        ["infer_output", "text", "json", "image", "data", "", PART_MEDIA_TYPE, '{"metadata":{}}', '{"data":1}', True]
    )
    | st.none()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
)
LOADED = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
METADATA = st.none() | st.dictionaries(KEYS, LOADED, max_size=3)
MEDIA_TYPES = st.sampled_from(["", "text/plain", "application/json", "application/octet-stream", PART_MEDIA_TYPE])
TYPED_DATA = st.fixed_dictionaries(
    {"type": st.sampled_from([*values.PART_TYPES, "", "x"]) | LOADED, "content": LOADED | values.texts}
)
A2A_CONTENTS = st.one_of(
    values.texts.map(lambda text: {"text": text}),
    st.binary(max_size=4).map(lambda raw: {"raw": base64.b64encode(raw).decode()}),
    values.texts.map(lambda text: {"url": text}),
    (LOADED | TYPED_DATA).map(lambda data: {"data": data}),
)
A2A_PARTS = st.builds(
    lambda content, metadata, filename, media_type: {
        **content,
        **({} if metadata is None else {"metadata": metadata}),
        **({"filename": filename} if filename else {}),
        **({"mediaType": media_type} if media_type else {}),
    },
    A2A_CONTENTS,
    METADATA,
    st.sampled_from(["", "a.txt"]),
    MEDIA_TYPES,
).filter(lambda part: not _lacks_call_id(part))
OUR_PARTS = st.builds(
    lambda typed, metadata, media_type: Part(*typed, metadata, media_type or None),
    values.contents | st.tuples(st.sampled_from(values.PART_TYPES), LOADED),
    METADATA | st.none() | values.objects,
    MEDIA_TYPES,
).filter(lambda part: not _lacks_call_id(part.to_dict()))


def _lacks_call_id(part: dict[str, Any]) -> bool:
    """A tool call without an id gets one, which is the one thing that is made up."""
    found = part.get("data", part)
    content = found.get("content") if isinstance(found, dict) and found.get("type") == "tool_call" else None
    return isinstance(content, dict) and "tool_name" in content and not content.get("call_id")


def over_json(part: Part) -> Part:
    return part_from_json(as_received(part_json(part)))


def part_pb(part: Part) -> pb.Part:
    return message_pb(Message(role="user", parts=[part]), "", "").parts[0]


def over_protobuf(part: Part) -> Part:
    return part_from_pb(pb.Part.FromString(part_pb(part).SerializeToString()))


def as_received(found: Any) -> Any:
    """What a reader of its JSON text gets."""
    return from_json(to_json(found))


# -- what each kind becomes ----------------------------------------------------------------------------------------------

EXAMPLES = [
    (Part.text("hi"), {"text": "hi"}),
    (Part("text", "# hi", None, "text/markdown"), {"text": "# hi", "mediaType": "text/markdown"}),
    (Part.infer_output("42"), {"text": "42", "metadata": {"plgrpc": {"type": "infer_output"}}}),
    (Part.json({"n": 1}), {"data": {"n": 1}}),
    (Part.json(None), {"data": None}),
    (
        Part.file(b"hi", name="a.txt", media_type="text/plain"),
        {"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain"},
    ),
    (
        Part.image(uri="https://x/i.png"),
        {"url": "https://x/i.png", "mediaType": "image/png", "metadata": {"plgrpc": {"type": "image"}}},
    ),
    (
        Part.tool_call("add", {"a": 1}, "c1"),
        {
            "data": {"type": "tool_call", "content": {"tool_name": "add", "args": {"a": 1}, "call_id": "c1"}},
            "mediaType": PART_MEDIA_TYPE,
        },
    ),
    (
        Part.infer_output({"n": 1}),
        {"data": {"type": "infer_output", "content": {"n": 1}}, "mediaType": PART_MEDIA_TYPE},
    ),
    (Part("text", 5), {"data": {"type": "text", "content": 5}, "mediaType": PART_MEDIA_TYPE}),
    (
        Part("x-new", [1], {"k": "v"}, "a/b"),
        {
            "data": {"type": "x-new", "content": [1]},
            "mediaType": PART_MEDIA_TYPE,
            "metadata": {"k": "v", "plgrpc": {"media_type": "a/b"}},
        },
    ),
]


@pytest.mark.parametrize(("part", "found"), EXAMPLES)
def test_each_kind_has_its_shape(part, found):
    assert part_json(part) == found
    assert part_from_json(found) == part
    assert json_format.MessageToDict(part_pb(part)) == found
    assert part_from_pb(json_format.ParseDict(found, pb.Part())) == part


FOREIGN = [
    ({"url": "https://x"}, Part("file", FileContent(uri="https://x"), {"a2a": {"media_type": ""}})),
    ({"text": "hi", "filename": "a.txt"}, Part("text", "hi", {"a2a": {"filename": "a.txt"}})),
    ({"text": "hi", "metadata": {}}, Part("text", "hi", {})),
    ({"data": 1, "mediaType": "application/json"}, Part("json", 1, None, "application/json")),
    ({"data": {"type": "x"}, "mediaType": PART_MEDIA_TYPE}, Part("json", {"type": "x"}, None, PART_MEDIA_TYPE)),
    (
        {"data": {"type": "text", "content": "hi"}, "mediaType": PART_MEDIA_TYPE},
        Part("text", "hi", {"a2a": {"shape": "data"}}),
    ),
    ({"text": "hi", "metadata": {"plgrpc": 5}}, Part("text", "hi", {"a2a": {"plgrpc": 5}})),
    (
        {"text": "hi", "metadata": {"plgrpc": {"type": "tool_call"}}},
        Part("text", "hi", {"a2a": {"plgrpc": {"type": "tool_call"}}}),
    ),
]


@pytest.mark.parametrize(("found", "part"), FOREIGN)
def test_what_our_shape_lacks_is_kept_beside_it(found, part):
    assert part_from_json(found) == part
    assert part_json(part) == found


def test_a_tool_call_without_an_id_gets_one():
    part = part_from_json(
        {"data": {"type": "tool_call", "content": {"tool_name": "add", "args": {}}}, "mediaType": PART_MEDIA_TYPE}
    )
    assert isinstance(part.content, ToolCall)
    assert part.content.call_id


def test_base64_of_either_alphabet_is_read_padded_or_not():
    for text in ("-_8=", "+/8=", "-_8", "+/8"):
        assert part_from_json({"raw": text, "mediaType": "a/b"}).content.data == b"\xfb\xff"


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (5, ""),
        ({}, ""),
        ({"text": None}, ""),
        ({"text": "a", "url": "b"}, ""),
        ({"text": "a", "data": None}, ""),
        ({"text": 5}, "text"),
        ({"raw": "a?"}, "raw"),
        ({"raw": "abcde"}, "raw"),
        ({"url": []}, "url"),
        ({"text": "a", "metadata": []}, "metadata"),
        ({"text": "a", "media_type": 1}, "media_type"),
        ({"text": "a", "filename": 1}, "filename"),
    ],
)
def test_a_part_that_is_none_is_refused_by_the_field(found, field):
    with pytest.raises(InvalidArgumentError) as error:
        part_from_json(found)
    assert error.value.field == field


# -- exactness over protobuf ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2**53 + 1, -(2**70), 10**300, [{"n": 2**63 - 1}]])
def test_integers_beyond_a_double_survive_protobuf(value):
    part = Part("json", value, {"n": value})
    assert over_protobuf(part) == part
    assert over_protobuf(Part.text("hi")) == Part.text("hi")


def test_content_too_deep_for_a_protobuf_parser_survives_it():
    deep: Any = 1
    for level in range(90):
        deep = [deep] if level % 2 else {"d": deep}
    part = Part("json", deep, {"m": deep})
    assert over_protobuf(part) == part


def test_an_exact_text_that_says_something_else_is_not_believed():
    found = part_pb(Part("json", 2**53 + 1))
    found.data.number_value = 7
    assert part_from_pb(found).content == 7


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_have_are_refused(number):
    found = pb.Part()
    found.data.list_value.values.add().number_value = number
    with pytest.raises(InvalidArgumentError) as error:
        part_from_pb(found)
    assert error.value.field == "data"


def test_a_protobuf_part_without_content_is_refused():
    with pytest.raises(InvalidArgumentError):
        part_from_pb(pb.Part(filename="x"))


# -- there and back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "shape"),
    [
        (
            Part.json(Payload(b"hi", "text/csv", preview="a table")),
            {"raw": "aGk=", "mediaType": "text/csv"}
            | {"metadata": {"plgrpc": {"type": "json", "payload": {"preview": "a table"}}}},
        ),
        (
            Part("trace", Payload(PayloadRef("https://x", 3))),
            {"url": "https://x", "metadata": {"plgrpc": {"type": "trace", "payload": {"size_bytes": 3}}}},
        ),
        (
            Part("image", FileContent.of(Payload(PayloadRef("https://x", 3), "image/png"), "a.png")),
            {"url": "https://x", "filename": "a.png", "mediaType": "image/png"}
            | {"metadata": {"plgrpc": {"type": "image", "payload": {"size_bytes": 3}}}},
        ),
        (
            Part.json(Payload(TypedMessage("acme.v1.Point", b"\x08\x01"))),
            {
                "data": {"type": "json", "content": {"$payload": {"type_name": "acme.v1.Point", "message": "CAE="}}},
                "mediaType": PART_MEDIA_TYPE,
            },
        ),
        (
            Part.json(Payload(b"hi", encoding="aes")),
            {
                "data": {"type": "json", "content": {"$payload": {"data": "aGk=", "encoding": "aes"}}},
                "mediaType": PART_MEDIA_TYPE,
            },
        ),
    ],
    ids=["bytes", "a reference", "a file with a size", "a protobuf message", "a codec"],
)
def test_a_payload_becomes_the_nearest_part_and_comes_back(part: Part, shape: dict[str, Any]) -> None:
    assert as_received(part_json(part)) == shape
    assert over_json(part) == part
    assert over_protobuf(part) == part


@given(OUR_PARTS)
def test_every_part_of_ours_comes_back_over_json(part):
    assert json.dumps(over_json(part).to_dict(), sort_keys=True) == json.dumps(part.to_dict(), sort_keys=True)


@given(OUR_PARTS)
def test_every_part_of_ours_comes_back_over_protobuf(part):
    assert over_protobuf(part).to_dict() == part.to_dict()


@given(A2A_PARTS)
def test_every_a2a_part_comes_back_over_json(found):
    part = part_from_json(as_received(found))
    assert json.dumps(part_json(part), sort_keys=True) == json.dumps(found, sort_keys=True)
    logged = Part.from_dict(as_received(part.to_dict()))
    assert part_json(logged) == found


@given(A2A_PARTS)
def test_every_a2a_part_comes_back_over_protobuf(found):
    given_part = json_format.ParseDict(rounded(found), pb.Part())
    assert part_pb(part_from_pb(given_part)) == given_part


def rounded(value: Any) -> Any:
    """What a protobuf Value of it holds."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@given(OUR_PARTS)
def test_both_codecs_write_the_same_part(part):
    exact = json_format.MessageToDict(part_pb(part))
    if "exact" not in (exact.get("metadata") or {}).get("plgrpc", {}):
        assert exact == part_json(part)
