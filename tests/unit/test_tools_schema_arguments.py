"""Tools whose arguments are checked by a JSON Schema of another system, which stays unchanged. Values are not converted."""

from typing import Any

import pytest

from protolink_grpc import Tool, ToolContext, ToolFailedError, ToolRejectedError, ToolTimeoutError

SCHEMA: dict[str, Any] = {
    "$defs": {"size": {"type": "integer", "minimum": 1}},
    "type": "object",
    "properties": {"size": {"$ref": "#/$defs/size"}, "context": {"type": "string"}, "arguments": {"type": "array"}},
    "required": ["size"],
}


def tool_of(schema: dict[str, Any] = SCHEMA, fn: Any = None, **options: Any) -> Tool:
    async def echo(arguments: dict[str, Any], context: ToolContext) -> Any:
        return [arguments, context.task_id]

    return Tool.from_schema(fn or echo, name="far.tool", input_schema=schema, **options)


async def test_arguments_of_any_name_reach_the_function_unchanged() -> None:
    tool = tool_of()
    given = {"size": 2, "context": "a name of ours", "arguments": [1], "more": {"x": None}}
    assert await tool.call(given, context=ToolContext(task_id="t")) == [given, "t"]
    assert tool.check(given).as_json == given
    assert tool.input_schema == SCHEMA
    assert tool.contract_schemas() == (SCHEMA, {})


@pytest.mark.parametrize(
    ("arguments", "path"),
    [({}, "size"), ({"size": "2"}, "size"), ({"size": 0}, "size"), ({"size": 1, "context": 2}, "context")],
)
def test_wrong_arguments_are_rejected_and_not_converted(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(ToolRejectedError) as caught:
        tool_of().validate(arguments)
    assert (caught.value.code, [each["path"] for each in caught.value.details["errors"]]) == (
        "invalid_arguments",
        [path],
    )


def test_a_copy_of_the_schema_is_kept() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = tool_of(schema)
    schema["properties"] = {}
    assert tool.input_schema["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"$ref": "https://example.com/schema.json"},
        {"properties": {"a": {"pattern": "(?=x)y"}}},
        {"unevaluatedProperties": False},
        {"allOf": [{"description": "x" * 200_000}]},
    ],
)
def test_a_schema_that_cannot_be_enforced_is_an_error_that_names_the_tool(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Tool 'far\.tool': input_schema"):
        tool_of(schema)


DRAFT_7 = {"properties": {"pair": {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}}}


def test_a_schema_of_draft_7_is_enforced_by_its_rules() -> None:
    tool = tool_of({"$schema": "http://json-schema.org/draft-07/schema#", **DRAFT_7})
    assert tool.validate({"pair": [1, "a"]})["arguments"] == {"pair": [1, "a"]}
    for wrong in (["a", 1], [1, "a", 2]):
        with pytest.raises(ToolRejectedError):
            tool.validate({"pair": wrong})
    with pytest.raises(ValueError, match="input_schema is not valid"):
        tool_of(DRAFT_7)


async def test_errors_that_name_the_tool_pass_unchanged() -> None:
    for error in (ToolFailedError("it broke", tool="far.tool"), ToolTimeoutError("too slow", tool="far.tool")):

        async def fail(arguments: dict[str, Any], context: ToolContext, error: Exception = error) -> Any:
            raise error

        with pytest.raises(type(error)) as caught:
            await tool_of(fn=fail).call({"size": 1})
        assert caught.value is error
