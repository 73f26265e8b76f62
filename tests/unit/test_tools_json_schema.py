"""Schemas of the tool's author: all keywords are enforced, no reference is fetched, and errors contain no values."""

from typing import Any

import pytest

from protolink_grpc.errors import ToolRejectedError
from protolink_grpc.tools import Tool


def anything(**arguments: Any) -> Any:
    return arguments


def tool_for(**properties: Any) -> Tool:
    return Tool.from_callable(anything, input_schema={"type": "object", "properties": properties})


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, 1, "1"),
        ({"minimum": 3}, 3, 2),
        ({"maximum": 3}, 3, 4),
        ({"exclusiveMinimum": 3}, 4, 3),
        ({"exclusiveMaximum": 3}, 2, 3),
        ({"multipleOf": 2}, 4, 3),
        ({"minLength": 2}, "ab", "a"),
        ({"maxLength": 2}, "ab", "abc"),
        ({"pattern": "^a"}, "ab", "b"),
        ({"enum": ["x", 1]}, "x", "y"),
        ({"const": {"k": 1}}, {"k": 1}, {"k": 2}),
        ({"minItems": 1}, [1], []),
        ({"maxItems": 1}, [1], [1, 2]),
        ({"uniqueItems": True}, [1, 2], [1, 1]),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["x"], ["x", 1]),
        ({"contains": {"const": 1}}, [2, 1], [2]),
        ({"minProperties": 1}, {"a": 1}, {}),
        ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}),
        ({"patternProperties": {"^x": False}}, {"a": 1}, {"xa": 1}),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, "x", 2),
        ({"oneOf": [{"minimum": 1}, {"minimum": 3}]}, 2, 4),
        ({"not": {"type": "null"}}, 1, None),
        ({"if": {"minimum": 5}, "then": {"multipleOf": 5}}, 10, 11),
        ({"format": "date-time"}, "2026-01-02T03:04:05.5Z", "2026-01-02 03:04:05"),
        ({"format": "date-time"}, "2026-01-02T03:04:05+01:00", "2026-13-02T03:04:05Z"),
        ({"format": "date"}, "2026-01-02", "2026-02-30"),
        ({"format": "time"}, "03:04:05Z", "03:04:05"),
        ({"format": "duration"}, "P1DT2H", "P"),
        ({"format": "duration"}, "P2W", "1D"),
        ({"format": "email"}, "a@b.example", "ab"),
        ({"format": "hostname"}, "a.example", "-a.example"),
        ({"format": "ipv4"}, "127.0.0.1", "127.0.0.256"),
        ({"format": "ipv6"}, "::1", ":::1"),
        ({"format": "uri"}, "https://a.example/b?c", "a b"),
        ({"format": "uri"}, "urn:a:b", "/relative"),
        ({"format": "uuid"}, "12345678-1234-1234-1234-123456789abc", "1234"),
        ({"format": "regex"}, "a+", "("),
        ({"format": "date-time"}, 5, "never"),
        ({"format": "a-house-format"}, "anything", None),
    ],
)
def test_every_keyword_and_format_is_enforced(schema, good, bad):
    tool = tool_for(x=schema)
    assert tool.validate({"x": good}) == {"x": good}
    if schema == {"format": "a-house-format"}:
        return  # Draft 2020-12: an unknown format is an annotation.
    with pytest.raises(ToolRejectedError):
        tool.validate({"x": bad})


def test_a_given_schema_is_used_and_copied():
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = Tool.from_callable(anything, input_schema=schema)
    assert tool.input_schema == schema
    schema["properties"]["n"] = False
    assert tool.validate({"n": 1}) == {"n": 1}


def test_violations_have_paths_and_messages_without_values():
    schema = {
        "properties": {
            "items": {"items": {"required": ["name", "size"]}},
            "size": {"minimum": 3},
            "kind": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            "never": False,
        },
        "required": ["id"],
        "additionalProperties": False,
    }
    with pytest.raises(ToolRejectedError) as caught:
        Tool.from_callable(anything, input_schema=schema).validate(
            {"items": [{"name": 1, "size": 1}, {}], "size": 1, "kind": 5, "never": 1, "more": 1}
        )
    found = {(each["path"], each["message"], each["type"]) for each in caught.value.details["errors"]}
    assert found == {
        ("id", "Field required", "missing"),
        ("items[1].name", "Field required", "missing"),
        ("items[1].size", "Field required", "missing"),
        ("size", "Input should satisfy minimum 3", "minimum"),
        ("kind", "Input should satisfy oneOf", "oneOf"),
        ("never", "Input is not permitted", "forbidden"),
        ("more", "Extra inputs are not permitted", "extra_forbidden"),
    }
    assert len(caught.value.details["errors"]) == len(found)


@pytest.mark.parametrize("schema", [{"type": "integer"}, {"pattern": "^a"}, {"format": "email"}, {"enum": ["a"]}])
def test_a_rejection_never_repeats_a_value(schema):
    with pytest.raises(ToolRejectedError) as caught:
        tool_for(x=schema).validate({"x": "Xyzzy-9"})
    assert "Xyzzy" not in str(caught.value.to_dict())
    assert caught.value.__context__ is None


def test_the_error_about_a_name_with_lone_surrogates_is_valid_unicode():
    with pytest.raises(ToolRejectedError, match="strings are valid Unicode") as caught:
        Tool.from_callable(anything, input_schema={"additionalProperties": False}).validate({"\ud800": 1})
    assert str(caught.value.to_dict()).isascii()


def test_the_signature_is_checked_after_the_schema_and_converts():
    def fn(n: int, m: int = 2): ...

    tool = Tool.from_callable(fn, input_schema={"properties": {"n": {"type": "string"}}})
    assert tool.validate({"n": "7"}) == {"n": 7, "m": 2}
    for wrong in ({"n": 7}, {"n": "x"}, {"n": "7", "k": 1}):
        with pytest.raises(ToolRejectedError):
            tool.validate(wrong)


def test_a_given_schema_replaces_types_that_cannot_be_described():
    class Matrix: ...

    def fn(m: Matrix, n: int): ...

    tool = Tool.from_callable(fn, input_schema={"properties": {"m": {"type": "array"}}})
    assert tool.validate({"m": [[1]], "n": "1"}) == {"m": [[1]], "n": 1}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"minimum": "3"},
        {"properties": []},
        {"$ref": "https://schemas.example/order.json"},
        {"properties": {"a": {"items": {"$ref": "#/$defs/missing"}}}},
        {"$dynamicRef": "other.json#x"},
    ],
)
def test_an_invalid_schema_or_an_external_reference_is_refused_at_registration(schema):
    with pytest.raises(ValueError, match="Tool 'anything': input_schema"):
        Tool.from_callable(anything, input_schema=schema)


def test_references_inside_of_a_schema_and_to_the_metaschema_are_followed():
    tool = tool_for(
        tree={"$ref": "#/properties/tree/$defs/t", "$defs": {"t": {"items": {"$ref": "#/properties/tree/$defs/t"}}}},
        schema={"$ref": "https://json-schema.org/draft/2020-12/schema"},
    )
    tool.validate({"tree": [[], [[]]], "schema": {"type": "object"}})
    with pytest.raises(ToolRejectedError):
        tool.validate({"schema": {"type": 5}})


def test_too_deeply_nested_arguments_are_rejected():
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    tool = Tool.from_callable(
        anything,
        input_schema={"properties": {"x": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"items": {"$ref": "#/$defs/t"}}}},
    )
    with pytest.raises(ToolRejectedError, match="nested too deeply"):
        tool.validate({"x": deep})


def test_the_error_about_a_thousand_violations_is_short():
    with pytest.raises(ToolRejectedError) as caught:
        tool_for(x={"items": {"type": "integer"}}).validate({"x": ["a"] * 1000})
    assert len(caught.value.details["errors"]) == 20
