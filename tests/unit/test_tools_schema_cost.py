"""External schemas: the cost of a check is limited before it starts."""

import time
from typing import Any

import pytest
from pydantic import BaseModel

from protolink_grpc.tools.json_schema import JsonSchema

GENEROUS_S = 1.0
"""Each check takes a few milliseconds; without its limit it would take minutes."""


def nested(depth: int, inner: Any = 1) -> Any:
    for _ in range(depth):
        inner = {"x": inner}
    return inner


def doubling(steps: int) -> dict[str, Any]:
    """A schema of a few hundred bytes that requires 2**steps checks."""
    twice = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(steps)}
    return {"$ref": "#/$defs/a0", "$defs": {**twice, f"a{steps}": {"type": "integer"}}}


BRANCHING = {
    "anyOf": [
        {"properties": {"x": {"$ref": "#"}}, "required": ["q"]},
        {"properties": {"x": {"$ref": "#"}}, "required": ["p"]},
        {"type": "string"},
    ]
}

WEB = {
    f"n{i}": {"allOf": [{"properties": {"x": {"$ref": f"#/$defs/n{(7 * i + j) % 400}"}}} for j in range(3)]}
    for i in range(400)
}
"""Recursive definitions that each refer to three others."""


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 90_000 + "!"),
        ({"pattern": "^(a|a)*$"}, "a" * 90_000 + "!"),
        ({"pattern": "[ab]*a[ab]{1000}c"}, "ab" * 20_000),
        ({"patternProperties": {"(x+x+)+y": {}}, "additionalProperties": False}, {"x" * 90_000: 1}),
        ({"allOf": [{"pattern": f"[ab]*a[ab]{{{n}}}c"} for n in range(900, 999)]}, "ab" * 50_000),
        (doubling(14), "x"),
        (doubling(60), "x"),
        (BRANCHING, nested(18)),
        (BRANCHING, nested(90)),
        ({"$defs": WEB, "$ref": "#/$defs/n0"}, nested(90)),
        ({"items": {"allOf": [{"type": "string"}] * 1000}}, [1] * 100_000),
        ({"items": {"enum": [[n] for n in range(20_000)]}}, [[n] for n in range(20_000)]),
        ({"uniqueItems": True, "allOf": [{"uniqueItems": True}] * 1000}, [[n] for n in range(100_000)]),
        ({"additionalProperties": False}, {str(n): n for n in range(100_000)}),
    ],
    ids=lambda value: str(value)[:40] if "object at" not in str(value) else "object",
)
def test_the_check_of_any_schema_and_value_is_fast(schema, value):
    started = time.process_time()  # other programs on the machine do not count
    try:
        problems = JsonSchema(schema, bounded=True).problems(value)
    except ValueError:
        problems = [{"message": "refused"}]
    assert problems
    assert time.process_time() - started < GENEROUS_S


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"pattern": "(?=a)b"}, "look-around or a back-reference, which are not supported"),
        ({"properties": {"p": {"pattern": r"(a)\1"}}}, "at 'properties.p.pattern': the pattern .* back-reference"),
        ({"patternProperties": {"(?<!a)b": {}}}, "look-around"),
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "(a{1000}){1000}"}, "too large"),
        ({"type": "strin"}, "at 'type': must satisfy"),
        ({"description": "x" * 200_000}, "at most 131072 bytes"),
        ({"not": nested(100, {})}, "nested at most 64 levels deep"),
        ({"properties": {f"p{n}": {} for n in range(3000)}}, "at most 2000 subschemas"),
        ({"patternProperties": {f"p{n}": {} for n in range(101)}}, "at most 100 patterns"),
        ({"$ref": "#"}, "nor refer to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "nor refer to itself"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "refers to 'http://127.0.0.1:9/schema', which is not part of it"),
        ({"$ref": "file:///etc/hostname"}, "refers to 'file:///etc/hostname'"),
        ({"$ref": "#/$defs/none"}, "refers to '#/\\$defs/none'"),
        ({"$ref": "#none"}, "refers to '#none'"),
        ({"$ref": 5}, "refers to '5'"),
        ({"$dynamicRef": "#x"}, r"must not use \$dynamicRef"),
        ({"items": {"$id": "http://a.example/"}}, r"must not have \$id in subschemas"),
        ({"const": "\ud800"}, "must be a JSON object"),
        ({"default": object()}, "must be a JSON object"),
    ],
    ids=lambda value: str(value)[:40] if "object at" not in str(value) else "object",
)
def test_an_invalid_schema_is_refused_with_the_reason(schema, says):
    with pytest.raises(ValueError, match=says) as caught:
        JsonSchema(schema, bounded=True)
    assert len(str(caught.value)) < 500


class Leaf(BaseModel):
    op: str
    left: "Leaf | int"
    right: "Leaf | int | None" = None


class Row(BaseModel):
    name: str
    amount: float
    tags: list[str]
    kind: str = "plain"


class Answer(BaseModel):
    rows: list[Row]
    by_name: dict[str, Row]
    tree: Leaf | None = None


@pytest.mark.parametrize("change", [None, "amount"])
def test_a_large_answer_to_a_usual_schema_is_checked(change):
    row = {"name": "n", "amount": 1.5, "tags": ["a", "b"]}
    if change:
        row[change] = "much"
    tree = {"op": "+", "left": {"op": "-", "left": 1, "right": 2}}
    answer = {"rows": [row] * 100, "by_name": {str(n): row for n in range(100)}, "tree": tree}
    problems = JsonSchema(Answer.model_json_schema(), bounded=True).problems(answer)
    assert bool(problems) is bool(change)
    if change:
        expected = {"path": "rows[0].amount", "message": 'Input should satisfy type "number"', "type": "type"}
        assert expected in problems or {**expected, "path": "by_name.0.amount"} in problems


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "string"}}}, "x", 1),
        ({"$ref": "#there", "$defs": {"a": {"$anchor": "there", "type": "string"}}}, "x", 1),
        ({"$ref": "#/allOf/0/not", "allOf": [{"not": {"type": "null"}}]}, None, 1),
        ({"items": {"$ref": "#"}, "type": "array"}, [[], [[]]], [[1]]),
        ({"properties": {"x": {"$ref": "#"}}, "additionalProperties": False}, nested(50, {}), nested(50, {"y": 1})),
    ],
)
def test_references_within_a_sent_schema_are_followed(schema, good, bad):
    checked = JsonSchema(schema, bounded=True)
    if good is not None:
        assert checked.problems(good) == []
    assert checked.problems(bad)
