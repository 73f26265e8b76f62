"""Parts between ours and A2A's, in JSON and in protobuf: nothing is lost in either direction."""

import base64
import json
from typing import Any

import wire_values as values
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc import Part
from protolink_grpc.a2a.content import PART_MEDIA_TYPE
from protolink_grpc.a2a.json_codec import part_from_json, part_json
from protolink_grpc.a2a.pb_codec import part_from_pb, part_pb
from protolink_grpc.models.json_value import from_json, to_json

# Keys and values that mean something to us or to A2A, besides any other: the interesting collisions are rare in random text.
KEYS = st.sampled_from(
    ["protolink", "a2a", "own", "type", "content", "media_type", "mediaType", "filename", "shape", "has_metadata", "exact", "data",
     "metadata", "x"]
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
    {"type": st.sampled_from(values.PART_TYPES + ["", "x"]) | LOADED, "content": LOADED | values.texts}
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
    return part_from_json(orjson_like(part_json(part)))


def over_protobuf(part: Part) -> Part:
    return part_from_pb(pb.Part.FromString(part_pb(part).SerializeToString()))


def orjson_like(found: Any) -> Any:
    return from_json(to_json(found))


@given(OUR_PARTS)
def test_every_part_of_ours_comes_back_over_json(part):
    assert json.dumps(over_json(part).to_dict(), sort_keys=True) == json.dumps(part.to_dict(), sort_keys=True)


@given(OUR_PARTS)
def test_every_part_of_ours_comes_back_over_protobuf(part):
    assert over_protobuf(part).to_dict() == part.to_dict()


@given(A2A_PARTS)
def test_every_a2a_part_comes_back_over_json(found):
    part = part_from_json(orjson_like(found))
    assert json.dumps(part_json(part), sort_keys=True) == json.dumps(found, sort_keys=True)
    logged = Part.from_dict(orjson_like(part.to_dict()))
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
    if "exact" not in (exact.get("metadata") or {}).get("protolink", {}):
        assert exact == part_json(part)
