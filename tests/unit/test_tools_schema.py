"""Schemas of signatures, one test per kind of annotation."""

import dataclasses
import datetime
import enum
import functools
import typing
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pytest
import typing_extensions
from jsonschema_rs import Draft202012Validator, meta
from pydantic import BaseModel, ConfigDict, Field, model_validator

from protolink_grpc.errors import ToolRejectedError
from protolink_grpc.tools import Tool, ToolContext


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    value: int
    children: list["Node"] = []


@dataclasses.dataclass
class Chain:
    value: int
    next: Optional["Chain"] = None


class Person(TypedDict):
    name: str
    age: NotRequired[int]


class Branch(TypedDict, total=False):
    label: str
    parts: "list[Branch]"


class Modern(typing_extensions.TypedDict):
    name: str


class Booking(BaseModel):
    location: str
    guests: int = Field(gt=0)


class Connection:
    """A type without a JSON form."""


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


def plain(a: int, b: str = "x", *, c: bool) -> None: ...
def untyped(a, b=3): ...
def optional(a: int | None = None): ...
def union(a: int | str): ...
def old_union(a: Union[int, list[str]]): ...  # noqa: UP007 - the old spelling is what is claimed
def literal(a: Literal["x", "y"]): ...
def enumerated(a: Color): ...
def constrained(a: Annotated[int, Field(ge=1, le=5)], b: Annotated[str, Field(pattern="^x", max_length=3)]): ...
def by_default(a: int = Field(3, gt=0)): ...
def many(a: Annotated[list[int], Field(min_length=1)], b: dict[str, float], c: set[str], d: tuple[int, str]): ...
def formats(a: datetime.datetime, b: uuid.UUID): ...
def dataclass_argument(a: Point): ...
def typed_dict(a: Person): ...
def typed_dict_inside(a: list[Annotated[Person | None, Field(description="who")]], b: typing.List[Person]): ...  # noqa: UP006
def modern_typed_dict(a: Modern): ...
def model(a: Booking): ...
def recursive_model(a: Node): ...
def recursive_dataclass(a: Chain): ...
def recursive_typed_dict(a: Branch): ...
def open_ended(a: int, **rest): ...
def open_typed(**rest: int): ...
def awkward(schema: int, copy: int, model_config: int, model_fields: int, _x: int, self: int): ...
def renamed(from_: Annotated[str, Field(alias="from")], to_: str = Field(alias="to")): ...
def nothing(): ...


EVERY_KIND: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = [
    # function, arguments that pass, arguments that do not
    (plain, {"a": 1, "c": True}, {"a": 1}),
    (untyped, {"a": [1, {"b": None}]}, {}),
    (optional, {"a": None}, {"a": "x"}),
    (union, {"a": "007"}, {"a": []}),
    (old_union, {"a": ["x"]}, {"a": [1]}),
    (literal, {"a": "x"}, {"a": "z"}),
    (enumerated, {"a": "red"}, {"a": "green"}),
    (constrained, {"a": 5, "b": "xy"}, {"a": 6, "b": "xy"}),
    (constrained, {"a": 1, "b": "x"}, {"a": 1, "b": "xxxx"}),
    (by_default, {}, {"a": 0}),
    (many, {"a": [1], "b": {"k": 1.5}, "c": ["s"], "d": [1, "x"]}, {"a": [], "b": {}, "c": [], "d": [1, "x"]}),
    (formats, {"a": "2026-01-02T03:04:05Z", "b": str(uuid.UUID(int=1))}, {"a": "soon", "b": str(uuid.UUID(int=1))}),
    (dataclass_argument, {"a": {"x": 1}}, {"a": {"y": 1}}),
    (dataclass_argument, {"a": {"x": 1}}, {"a": {"x": 1, "z": 2}}),
    (typed_dict, {"a": {"name": "n"}}, {"a": {"age": 1}}),
    (typed_dict, {"a": {"name": "n", "age": 3}}, {"a": {"name": "n", "size": 1}}),
    (typed_dict_inside, {"a": [None, {"name": "n"}], "b": []}, {"a": [{}], "b": []}),
    (modern_typed_dict, {"a": {"name": "n"}}, {"a": {"name": "n", "size": 1}}),
    (model, {"a": {"location": "Athens", "guests": 2}}, {"a": {"location": "Athens", "guests": 0}}),
    (recursive_model, {"a": {"value": 1, "children": [{"value": 2}]}}, {"a": {"value": 1, "children": [{}]}}),
    (recursive_dataclass, {"a": {"value": 1, "next": {"value": 2}}}, {"a": {"value": 1, "next": {"value": []}}}),
    (recursive_typed_dict, {"a": {"parts": [{"label": "x"}]}}, {"a": {"parts": [{"label": 1}]}}),
    (open_ended, {"a": 1, "b": "any"}, {"b": 1}),
    (open_typed, {"x": 1}, {"x": []}),
    (renamed, {"from": "a", "to": "b"}, {"from_": "a", "to": "b"}),
    (nothing, {}, {"a": 1}),
]


@pytest.mark.parametrize(("fn", "good", "bad"), EVERY_KIND, ids=lambda value: getattr(value, "__name__", ""))
def test_the_schema_is_valid_and_agrees_with_the_check_on_good_and_bad_arguments(fn, good, bad):
    tool = Tool.from_callable(fn)
    meta.validate(tool.input_schema)
    reader = Draft202012Validator(tool.input_schema, validate_formats=True)
    tool.validate(good)
    assert reader.is_valid(good)
    with pytest.raises(ToolRejectedError) as caught:
        tool.validate(bad)
    assert caught.value.code == "invalid_arguments"
    assert not reader.is_valid(bad)


def test_the_schema_of_a_simple_signature():
    def add(a: int, b: int) -> int: ...

    tool = Tool.from_callable(add)
    assert tool.input_schema == {
        "type": "object",
        "title": "addInput",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert tool.output_schema == {"type": "integer"}


def test_a_tool_without_parameters_still_has_every_key():
    schema = Tool.from_callable(nothing).input_schema
    assert schema == {
        "type": "object",
        "title": "nothingInput",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_constraints_descriptions_and_defaults_are_in_the_schema():
    def fn(a: Annotated[int, Field(gt=0, description="how many")] = 3): ...

    assert Tool.from_callable(fn).input_schema["properties"] == {
        "a": {"type": "integer", "exclusiveMinimum": 0, "description": "how many", "default": 3}
    }


@pytest.mark.parametrize("fn", [recursive_model, recursive_dataclass, recursive_typed_dict])
def test_a_recursive_type_is_one_definition_that_refers_to_itself(fn):
    schema = Tool.from_callable(fn).input_schema
    (name,) = schema["$defs"]
    assert f"#/$defs/{name}" in str(schema["$defs"][name])


def test_nested_plain_classes_forbid_extra_fields_in_the_schema():
    def fn(a: Point, b: Person, c: Closed, d: Booking): ...

    defs = Tool.from_callable(fn).input_schema["$defs"]
    assert [defs[name].get("additionalProperties") for name in ("Point", "Person", "Closed", "Booking")] == [
        False,
        False,
        False,
        None,
    ]


def test_nested_plain_classes_forbid_extra_fields_although_the_tool_allows_them():
    def fn(a: Point | None = None, b: Person | None = None, **rest): ...

    tool = Tool.from_callable(fn)
    assert tool.input_schema["additionalProperties"] is True
    assert [tool.input_schema["$defs"][name]["additionalProperties"] for name in ("Point", "Person")] == [False, False]
    for wrong in ({"a": {"x": 1, "z": 1}}, {"b": {"name": "n", "z": 1}}):
        with pytest.raises(ToolRejectedError):
            tool.validate(wrong)


def test_a_dataclass_with_validators_forbids_extra_fields_too():
    @dataclasses.dataclass
    class Checked:
        x: int

        @model_validator(mode="before")
        @classmethod
        def before(cls, data: Any) -> Any:
            return data

        @model_validator(mode="after")
        def after(self) -> "Checked":
            return self

    def fn(a: Checked): ...

    tool = Tool.from_callable(fn)
    tool.validate({"a": {"x": 1}})
    with pytest.raises(ToolRejectedError):
        tool.validate({"a": {"x": 1, "z": 1}})


def test_typed_keyword_arguments_are_described_by_their_type():
    assert Tool.from_callable(open_typed).input_schema["additionalProperties"] == {"type": "integer"}


def test_a_pydantic_model_decides_about_unknown_fields_itself():
    def fn(a: Booking | None = None, b: Closed | None = None): ...

    tool = Tool.from_callable(fn)
    tool.validate({"a": {"location": "Athens", "guests": 1, "z": 1}})
    with pytest.raises(ToolRejectedError):
        tool.validate({"b": {"n": 1, "z": 1}})


def test_a_class_of_the_user_is_not_changed_by_being_an_argument():
    class Holder(BaseModel):
        point: Point

    def fn(a: Holder, b: Point, c: Person): ...

    before = repr(Holder.__pydantic_core_schema__)
    with pytest.raises(ToolRejectedError):
        Tool.from_callable(fn).validate({"a": {"point": {"x": 1}}, "b": {"x": 1, "z": 1}, "c": {"name": "n"}})
    assert repr(Holder.__pydantic_core_schema__) == before
    assert Holder.model_validate({"point": {"x": 1, "z": 1}}).point == Point(1)
    assert not [name for cls in (Point, Person) for name in vars(cls) if "pydantic" in name]


def test_parameters_may_have_names_of_pydantic_model_attributes():
    tool = Tool.from_callable(awkward)
    names = ["schema", "copy", "model_config", "model_fields", "_x", "self"]
    assert list(tool.input_schema["properties"]) == names
    assert tool.validate(dict.fromkeys(names, 1)) == dict.fromkeys(names, 1)


def test_callers_send_the_alias_and_the_function_gets_the_name():
    tool = Tool.from_callable(renamed)
    assert tool.input_schema["required"] == ["from", "to"]
    assert tool.validate({"from": "a", "to": "b"}) == {"from_": "a", "to_": "b"}


def test_a_field_named_like_a_schema_key_forbids_extra_fields_too():
    @dataclasses.dataclass
    class Odd:
        default: Point
        metadata: Point

    def fn(a: Odd): ...

    tool = Tool.from_callable(fn)
    tool.validate({"a": {"default": {"x": 1}, "metadata": {"x": 1}}})
    for key in ("default", "metadata"):
        with pytest.raises(ToolRejectedError):
            tool.validate({"a": {"default": {"x": 1}, "metadata": {"x": 1}} | {key: {"x": 1, "z": 1}}})


def test_a_default_without_a_json_form_is_used_but_not_in_the_schema():
    marker = object()

    def fn(a: Any = marker): ...

    tool = Tool.from_callable(fn)
    assert tool.input_schema["properties"] == {"a": {}}
    assert tool.validate({}) == {"a": marker}


@pytest.mark.parametrize(
    ("returns", "schema"),
    [
        (None, {"type": "null"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (Any, {}),
        (object(), {}),
        (Callable[[], int], {}),
        ("Missing", {}),
    ],
)
def test_the_output_schema_is_the_return_annotation_or_empty(returns, schema):
    def fn(): ...

    fn.__annotations__["return"] = returns
    assert Tool.from_callable(fn).output_schema == schema


def test_without_a_return_annotation_there_is_no_output_schema():
    assert Tool.from_callable(untyped).output_schema == {}


def test_classes_are_described_as_outputs_too():
    def fn() -> list[Person]: ...

    def tree() -> Node: ...

    assert Tool.from_callable(fn).output_schema["items"] == {"$ref": "#/$defs/Person"}
    assert "Node" in Tool.from_callable(tree).output_schema["$defs"]


def test_the_context_is_never_part_of_the_schema():
    def fn(a: int, ctx: ToolContext, other: "ToolContext | None" = None): ...

    assert list(Tool.from_callable(fn).input_schema["properties"]) == ["a"]


def test_string_annotations_may_name_classes_of_the_defining_function():
    class Local(BaseModel):
        n: int

    @dataclasses.dataclass
    class First:
        second: "Second | None" = None

    @dataclasses.dataclass
    class Second:
        first: "First | None" = None

    def fn(a: "Local", b: "First") -> "Local": ...

    tool = Tool.from_callable(fn)
    assert set(tool.input_schema["$defs"]) == {"Local", "First", "Second"}
    assert tool.output_schema["title"] == "Local"
    assert tool.validate({"a": {"n": 1}, "b": {"second": {}}}) == {"a": Local(n=1), "b": First(Second())}


def test_string_annotations_are_resolved_through_two_functions_and_a_helper():
    class Outer(BaseModel):
        n: int

    def define():
        def fn(a: "Outer"): ...

        return register(fn)

    def register(fn):
        return Tool.from_callable(fn)

    assert define().validate({"a": {"n": 1}}) == {"a": Outer(n=1)}


def test_a_recursive_typed_dict_of_a_function_is_described():
    class Tree(TypedDict):
        label: str
        parts: "NotRequired[list[Tree]]"

    def fn(a: Tree): ...

    tool = Tool.from_callable(fn)
    assert tool.input_schema["$defs"]["Tree"]["required"] == ["label"]
    with pytest.raises(ToolRejectedError):
        tool.validate({"a": {"label": "x", "parts": [{"parts": []}]}})


def unresolvable(a: int, b: "Missing"): ...  # noqa: F821 - the claim is about this
def indescribable(a: int, b: Callable[[], int]): ...
def opaque(a: int, b: Connection): ...


@pytest.mark.parametrize("fn", [unresolvable, indescribable, opaque])
def test_a_parameter_that_cannot_be_described_is_named_at_registration(fn):
    with pytest.raises(TypeError, match=rf"Tool '{fn.__name__}'.*parameter 'b'"):
        Tool.from_callable(fn)


def variadic(a: int, *more: int): ...
def positional(a: int, /): ...


@pytest.mark.parametrize(("fn", "text"), [(variadic, r"'\*more' is variadic"), (positional, "'a' is positional-only")])
def test_a_parameter_that_cannot_be_sent_by_name_is_refused_at_registration(fn, text):
    with pytest.raises(TypeError, match=text):
        Tool.from_callable(fn)


def test_keyword_arguments_of_a_type_without_a_schema_are_refused():
    def fn(**rest: Callable[[], int]): ...

    with pytest.raises(TypeError, match="Tool 'fn'"):
        Tool.from_callable(fn)


def test_two_parameters_cannot_be_sent_under_one_name():
    def fn(a: int, b: Annotated[int, Field(alias="a")]): ...

    with pytest.raises(TypeError, match="two parameters are sent as 'a'"):
        Tool.from_callable(fn)


def test_the_schema_of_a_partial_requires_the_remaining_parameters():
    def add(a: int, b: int, c: int = 0) -> int:
        return a + b + c

    tool = Tool.from_callable(functools.partial(add, 1, c=2), name="add_three")
    assert tool.input_schema["required"] == ["b"]
    assert tool.validate({"b": "5"}) == {"b": 5, "c": 2}


def test_the_schema_of_a_method_does_not_contain_self():
    class Service:
        def greet(self, name: str) -> str:
            """Say hello."""
            return name

    tool = Tool.from_callable(Service().greet)
    assert (tool.name, tool.description) == ("greet", "Say hello.")
    assert list(tool.input_schema["properties"]) == ["name"]


def test_a_decorated_function_is_described_by_the_original():
    def traced(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs)

        return wrapper

    @traced
    def greet(name: "str", point: "Point"): ...

    assert list(Tool.from_callable(greet).input_schema["properties"]) == ["name", "point"]
