"""Files of conversations: from parts and results of tools, their kinds, their estimated tokens and their JSON form."""

import base64
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.media import (
    IMAGE_TOKENS,
    URL_TOKENS,
    Media,
    is_media_type,
    media_of_parts,
    split_result,
)
from protolink_grpc.models.part import Part
from protolink_grpc.models.payload import Payload, PayloadRef

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(32))
BASE64 = base64.b64encode(PNG).decode()
DIGEST = hashlib.sha256(PNG).hexdigest()[:16]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Part.image(PNG, name="a.png"), Media("image/png", PNG, name="a.png", part="p.parts[0]")),
        (Part.audio(uri="https://x.io/a.wav"), Media("audio/wav", url="https://x.io/a.wav", part="p.parts[0]")),
        (Part.file(PNG, name="a.pdf"), Media("application/pdf", PNG, name="a.pdf", part="p.parts[0]")),
        (
            Part.file(uri="https://x.io/clip.mp4?sig=1"),
            Media("video/mp4", url="https://x.io/clip.mp4?sig=1", part="p.parts[0]"),
        ),
        (Part("bytes", Payload(PNG, "image/png")), Media("image/png", PNG, part="p.parts[0]")),
        (
            Part("file", Payload(PayloadRef("https://x.io/a"), "image/gif")),
            Media("image/gif", url="https://x.io/a", part="p.parts[0]"),
        ),
        (Part.file(uri=f"data:image/png;base64,{BASE64}"), Media("image/png", PNG, part="p.parts[0]")),
        (Part("uri", "https://x.io/a.pdf"), Media("application/pdf", url="https://x.io/a.pdf", part="p.parts[0]")),
        (Part("bytes", PNG, media_type="image/png"), Media("image/png", PNG, part="p.parts[0]")),
        (
            Part("image", {"uri": "https://x.io/a", "media_type": "image/png"}),
            Media("image/png", url="https://x.io/a", part="p.parts[0]"),
        ),
        (Part.file(uri="data:,a%20b"), Media("text/plain", b"a b", part="p.parts[0]")),
    ],
)
def test_every_part_with_a_file_becomes_a_file_with_the_path_of_its_part(part: Part, expected: Media):
    assert media_of_parts([part], "p") == [expected]


def test_parts_without_a_file_are_skipped():
    parts = [Part.text("a"), Part.json({"data": BASE64}), Part.infer("b"), Part("image", {"other": "shape"})]
    assert media_of_parts(parts, "p") == []


@pytest.mark.parametrize("uri", ["data:image/png;base64,!", "data:nothing"])
def test_an_invalid_data_url_is_refused_with_the_path_of_its_part(uri: str):
    with pytest.raises(InvalidArgumentError, match=r"^messages\[2\]\.parts\[0\]: must be a valid data URL"):
        media_of_parts([Part.file(uri=uri)], "messages[2]")


def test_an_invalid_url_is_refused_with_the_path_of_its_part():
    with pytest.raises(InvalidArgumentError, match=r"^m\.parts\[0\]: must be a valid URL"):
        media_of_parts([Part.file(uri="http://[half")], "m")
    with pytest.raises(InvalidArgumentError, match=r"^url: must be a URL"):
        Media("image/png", url="http://[half")


def test_a_file_has_either_bytes_or_a_url():
    for fields in ({}, {"data": b"a", "url": "https://x.io"}):
        with pytest.raises(InvalidArgumentError, match="either data or url"):
            Media("image/png", **fields)


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("image/svg+xml", "image"),
        ("Image/PNG; q=1", "image"),
        ("audio/mp3", "audio"),
        ("video/mp4", "video"),
        ("text/csv", "text"),
        ("application/json", "text"),
        ("application/atom+xml", "text"),
        ("application/pdf", "document"),
        ("", "document"),
    ],
)
def test_the_kind_of_a_file_follows_from_its_media_type(media_type: str, kind: str):
    assert Media(media_type, b"a").kind == kind


def test_only_utf_8_by_value_is_text():
    assert Media("text/plain", "\ufeffgrün".encode()).text == "grün"
    assert Media("text/plain", b"\xff").text is None
    assert Media("text/plain", url="https://x.io/a.txt").text is None
    assert Media("image/png", b"a").text is None


@pytest.mark.parametrize(
    ("media", "tokens"),
    [
        (Media("image/png", bytes(10_000_000)), IMAGE_TOKENS),
        (Media("audio/wav", bytes(5_001)), 11),
        (Media("video/mp4", bytes(4_000)), 10),
        (Media("text/csv", bytes(4_001)), 1_001),
        (Media("application/pdf", bytes(64_000)), 2_000),
        (Media("application/pdf", url="https://x.io/a.pdf"), URL_TOKENS),
    ],
)
def test_tokens_of_a_file_are_estimated_by_its_kind_and_size(media: Media, tokens: int):
    assert media.estimated_tokens == tokens


def test_the_json_form_is_read_back():
    for media in (Media("image/png", PNG, name="a", part="p"), Media("image/png", url="https://x.io/a?b=c")):
        assert Media.from_dict(media.to_dict()) == media
    with pytest.raises(InvalidArgumentError, match=r"^data: must be base64"):
        Media.from_dict({"media_type": "image/png", "data": "?"})


def test_a_reference_has_neither_content_nor_secrets_of_a_url():
    assert Media("image/png", PNG).reference == {"media_type": "image/png", "bytes": len(PNG), "sha256": DIGEST}
    url = "https://me:secret@x.io/a.png?token=secret#secret"
    assert Media("image/png", url=url).reference == {"media_type": "image/png", "url": "https://x.io/a.png"}


@pytest.mark.parametrize(
    ("pattern", "matches"), [("image/*", True), ("image/png", True), ("image/gif", False), ("*", True)]
)
def test_patterns_match_whole_media_types(pattern: str, matches: bool):
    assert is_media_type("image/png", [pattern]) is matches


REFERENCE = {"media_type": "image/png", "bytes": len(PNG), "sha256": DIGEST}


@pytest.mark.parametrize(
    ("value", "rest"),
    [
        ({"type": "image", "data": BASE64, "mimeType": "image/png"}, REFERENCE),
        (
            {"content": [{"type": "text", "text": "x"}, {"type": "image", "data": BASE64, "mimeType": "image/png"}]},
            {"content": [{"type": "text", "text": "x"}, REFERENCE]},
        ),
        (
            {"type": "resource", "resource": {"uri": "ui://a.png", "blob": BASE64}},
            {"name": "ui://a.png", **REFERENCE},
        ),
        (Part.image(PNG).to_dict(), REFERENCE),
        ([Payload(PNG, "image/png").to_dict()], [REFERENCE]),
    ],
)
def test_files_in_results_of_tools_are_separated_from_the_rest(value: Any, rest: Any):
    found, media = split_result(value)
    assert found == rest
    assert [(each.media_type, each.data) for each in media] == [("image/png", PNG)]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {"type": "image", "data": "no base64!", "mimeType": "image/png"},
        {"type": "image", "content": "a sunset"},
        {"$payload": {"json": 1}},
        {"type": "file", "content": {"name": "a"}},
    ],
)
def test_other_results_stay_unchanged(value: Any):
    assert split_result(value) == (value, [])


def test_a_text_file_in_a_result_stays_text():
    found, media = split_result(Part.file(b"a,b", name="a.csv", media_type="text/csv").to_dict())
    assert (found, media) == ({"media_type": "text/csv", "name": "a.csv", "text": "a,b"}, [])


words = st.sampled_from(["image", "file", "uri", "resource", "aGk=", "data:;base64,aGk=", "http://[x", "https://a.b/c"])
keys = st.sampled_from(
    ["type", "content", "data", "uri", "name", "media_type", "mimeType", "resource", "blob", "$payload"]
)
results = st.recursive(
    st.one_of(st.none(), st.integers(), words, st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=10,
)


@given(results)
def test_any_result_of_a_tool_can_be_split(value: Any):
    _, media = split_result(value)
    for each in media:
        assert Media.from_dict(each.to_dict()) == each
        assert each.reference["media_type"] == each.media_type


def field_of_error(part: Part) -> str:
    """The field that reading the files of a part names; empty if the part is a file or none."""
    try:
        media_of_parts([part], "p")
    except InvalidArgumentError as error:
        return error.field
    return ""


@given(words, results)
def test_a_part_is_a_file_or_none_or_its_error_names_its_path(kind: str, content: Any):
    field = field_of_error(Part.from_dict({"type": kind, "content": content}))
    assert not field or field.startswith("p.parts[0]")
