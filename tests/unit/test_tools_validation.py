"""Validation and conversion of arguments."""

import dataclasses
import datetime
import enum
import time
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from protolink_grpc.errors import ToolFailedError, ToolRejectedError
from protolink_grpc.tools import Tool, ToolContext

GENEROUS_S = 2.0
"""The limit of checks that take a fraction of a second, and many seconds if each value is converted separately."""


def rejection(tool: Tool, arguments: Any) -> ToolRejectedError:
    with pytest.raises(ToolRejectedError) as caught:
        tool.validate(arguments)
    return caught.value


def paths(tool: Tool, arguments: Any) -> list[str]:
    return [error["path"] for error in rejection(tool, arguments).details["errors"]]


def add(a: int, b: int) -> int:
    return a + b


def test_the_form_of_a_rejection():
    assert rejection(Tool.from_callable(add), {"a": 1}).to_dict() == {
        "status": "rejected",
        "changes_made": False,
        "code": "invalid_arguments",
        "message": "Tool 'add' arguments were invalid: b: Field required",
        "details": {"errors": [{"path": "b", "message": "Field required", "type": "missing"}]},
        "suggestion": "Correct the arguments using the tool's input schema.",
    }


def test_values_are_converted_without_loss():
    def fn(a: int, b: bool, c: float, d: set[int]): ...

    assert Tool.from_callable(fn).validate({"a": "1", "b": "yes", "c": 1, "d": [1, 1]}) == {
        "a": 1,
        "b": True,
        "c": 1.0,
        "d": {1},
    }


def test_a_union_keeps_text_that_looks_like_a_number():
    def fn(a: int | str): ...

    tool = Tool.from_callable(fn)
    assert tool.validate({"a": "007"}) == {"a": "007"}
    assert tool.validate({"a": 7}) == {"a": 7}


def test_classes_arrive_as_instances_and_defaults_are_filled():
    class Color(enum.Enum):
        RED = "red"

    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 2

    class Booking(BaseModel):
        guests: int = Field(gt=0)

    def fn(color: Color, point: Point, booking: Booking, size: int = 3): ...

    arguments = {"color": "red", "point": {"x": 1}, "booking": {"guests": 1}}
    expected = {"color": Color.RED, "point": Point(1, 2), "booking": Booking(guests=1), "size": 3}
    tool = Tool.from_callable(fn)
    assert tool.validate(arguments) == expected
    assert tool.validate(expected) == expected


def test_a_mutable_default_is_not_shared_between_calls():
    def fn(items: list[int] = []): ...  # noqa: B006 - the claim is about this

    tool = Tool.from_callable(fn)
    tool.validate({})["items"].append(1)
    assert tool.validate({}) == {"items": []}


@pytest.mark.parametrize(
    ("annotation", "bad"),
    [
        (Annotated[int, Field(gt=0)], 0),
        (Annotated[int, Field(le=5)], 6),
        (Annotated[int, Field(multiple_of=2)], 3),
        (Annotated[str, Field(min_length=2)], "a"),
        (Annotated[str, Field(max_length=2)], "abc"),
        (Annotated[str, Field(pattern="^[a-z]+$")], "A1"),
        (Annotated[list[int], Field(min_length=1)], []),
        (Annotated[list[int], Field(max_length=1)], [1, 2]),
        (list[Annotated[int, Field(ge=0)]], [1, -1]),
        (dict[str, Annotated[int, Field(ge=0)]], {"k": -1}),
    ],
)
def test_every_constraint_is_enforced(annotation, bad):
    def fn(a): ...

    fn.__annotations__["a"] = annotation
    assert rejection(Tool.from_callable(fn), {"a": bad}).details["errors"][0]["path"].startswith("a")


def test_unknown_fields_are_named():
    assert paths(Tool.from_callable(add), {"a": 1, "b": 2, "c": 3}) == ["c"]


def test_keyword_arguments_get_extra_arguments_except_names_of_parameters():
    def fn(ctx: ToolContext, from_: Annotated[str, Field(alias="from")] = "", **rest: Any): ...

    tool = Tool.from_callable(fn)
    assert tool.validate({"x": 1, "from": "here"}) == {"from_": "here", "x": 1}
    assert paths(tool, {"ctx": {"principal": "somebody"}}) == ["ctx"]
    assert paths(tool, {"from_": "there"}) == ["from_"]


def test_paths_do_not_contain_names_of_union_members():
    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: int

    class Dog(BaseModel):
        kind: Literal["dog"]
        name: str

    def fn(pets: list[Cat | Dog], best: Annotated[Cat | Dog, Field(discriminator="kind")], n: int | None): ...

    tool = Tool.from_callable(fn)
    wrong = {"pets": [{"kind": "dog"}], "best": {"kind": "cat", "lives": []}, "n": "x"}
    assert set(paths(tool, wrong)) == {"pets[0].kind", "pets[0].lives", "pets[0].name", "best.lives", "n"}


@pytest.mark.parametrize("arguments", [None, [], "text", 1, [["a", 1]]])
def test_arguments_that_are_not_an_object_are_rejected(arguments):
    assert rejection(Tool.from_callable(add), arguments).details["errors"][0]["type"] == "object_type"


def test_the_error_about_a_thousand_invalid_items_is_short():
    def fn(items: list[int]): ...

    error = rejection(Tool.from_callable(fn), {"items": ["x" * 1000] * 1000})
    assert len(error.details["errors"]) == 20
    assert len(str(error)) < 3000


def test_a_hundred_thousand_invalid_values_are_counted_and_not_listed():
    def fn(items: list[int]): ...

    started = time.process_time()
    error = rejection(Tool.from_callable(fn), {"items": ["x"] * 100_000})
    assert "100000 values are invalid" in str(error)
    assert time.process_time() - started < GENEROUS_S


def test_the_rejection_of_a_large_value_is_fast():
    def refuse(value: object) -> None:
        raise ValueError("no item 77777 here")

    def fn(items: Annotated[list[int], AfterValidator(refuse)]): ...

    started = time.process_time()
    error = rejection(Tool.from_callable(fn), {"items": list(range(100_000))})
    assert "no item [value] here" in str(error)
    assert time.process_time() - started < GENEROUS_S


def test_names_from_the_caller_are_shortened_and_valid_unicode():
    error = rejection(Tool.from_callable(add), {"a": 1, "b": 2, "n" * 10_000: 1})
    assert len(str(error)) < 1000
    rejection(Tool.from_callable(add), {"a": 1, "b": 2, "\ud800": 1}).details["errors"][0]["path"].encode()


def even(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd, like hunter{value}")
    return value


class Login(BaseModel):
    user: str
    password: str

    @field_validator("user")
    @classmethod
    def known(cls, user: str) -> str:
        raise ValueError(f"no such user: {user!r}")

    @model_validator(mode="before")
    @classmethod
    def strong(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("password") == "hunter2":
            raise ValueError(f"weak: {data['password']} of {data}")
        return data


class Tagged(TypedDict):
    kind: Literal["a"]


def secretive(
    n: Annotated[int, AfterValidator(even)] = 0,
    login: Login | None = None,
    pin: Annotated[str, Field(pattern="^[0-9]{4}$")] = "0000",
    tagged: Annotated[Annotated[Login, Field()] | Tagged | None, Field()] = None,
): ...


@pytest.mark.parametrize(
    ("arguments", "secret"),
    [
        ({"n": 77771}, "77771"),
        ({"login": {"user": "Xyz'zy\"1", "password": "x"}}, "Xyz"),
        ({"login": {"user": "u", "password": "hunter2"}}, "hunter2"),
        ({"pin": "Xyzzy-9"}, "Xyzzy-9"),
        ({"n": "Xyzzy-9"}, "Xyzzy-9"),
        ({"tagged": {"kind": "Xyzzy-9"}}, "Xyzzy-9"),
    ],
)
def test_a_rejection_never_repeats_a_value(arguments, secret):
    error = rejection(Tool.from_callable(secretive), arguments)
    assert secret not in str(error.to_dict())
    assert error.__cause__ is None
    assert error.__context__ is None


def test_an_unknown_tag_is_not_repeated():
    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog"]

    def fn(pet: Annotated[Cat | Dog, Field(discriminator="kind")]): ...

    text = str(rejection(Tool.from_callable(fn), {"pet": {"kind": "Xyzzy-9"}}))
    assert "Xyzzy-9" not in text
    assert "'cat', 'dog'" in text


def test_short_values_are_masked_only_as_whole_words():
    def check(value: str) -> str:
        raise ValueError("a name needs an article, not just a")

    def fn(a: Annotated[str, AfterValidator(check)]): ...

    text = str(rejection(Tool.from_callable(fn), {"a": "a"}))
    assert "[value] name needs an article, not just [value]" in text


def test_an_exception_of_a_validator_is_a_tool_failure():
    def broken(value: int) -> int:
        raise KeyError("oops")

    def fn(a: Annotated[int, AfterValidator(broken)]): ...

    with pytest.raises(ToolFailedError, match="Tool 'fn' failed: KeyError: 'oops'"):
        Tool.from_callable(fn).validate({"a": 1})


# Any JSON against any signature: a rejection or keyword arguments, and no other error.


class Tree(BaseModel):
    value: int | str
    parts: list["Tree"] = []


@dataclasses.dataclass
class Link:
    value: float
    next: "Link | None" = None


class Options(TypedDict, total=False):
    a: int
    b: "Options"


def mixed(a: int, b: str = "", *, c: bool | None = None): ...
def trees(a: Tree, b: Link | None = None, c: Options | None = None): ...
def bounded(a: Annotated[int, Field(ge=0, le=9)], b: Annotated[list[str], Field(max_length=2)] = []): ...  # noqa: B006
def unions(a: int | str | list[float], b: Literal["x", 1] | None = None): ...
def loose(a, **rest: int): ...
def anything(**rest): ...


SIGNATURES = [Tool.from_callable(fn) for fn in (add, mixed, trees, bounded, unions, loose, anything)]
EXPLICIT = Tool.from_callable(
    anything,
    name="explicit",
    input_schema={
        "type": "object",
        "properties": {
            "a": {"type": "string", "format": "date-time", "minLength": 3},
            "b": {"$ref": "#/$defs/tree"},
            "c": {"oneOf": [{"type": "integer", "minimum": 3}, {"enum": ["x", {"y": 1}]}]},
        },
        "$defs": {"tree": {"type": ["object", "array"], "items": {"$ref": "#/$defs/tree"}}},
        "additionalProperties": False,
    },
)


def outcome_of(tool: Tool, arguments: Any) -> dict[str, Any] | ToolRejectedError:
    try:
        return tool.validate(arguments)
    except ToolRejectedError as error:
        return error


KEYS = st.sampled_from(["a", "b", "c", "value", "next", "parts"]) | st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(tool=st.sampled_from([*SIGNATURES, EXPLICIT]), arguments=JSON | st.dictionaries(KEYS, JSON, max_size=4))
def test_any_json_is_accepted_or_rejected_without_other_errors(tool, arguments):
    outcome = outcome_of(tool, arguments)
    if isinstance(outcome, ToolRejectedError):
        assert outcome.code == "invalid_arguments"
        assert outcome.details["errors"]
        str(outcome.to_dict()).encode()
    else:
        assert all(isinstance(name, str) for name in outcome)


@given(tool=st.sampled_from(SIGNATURES), arguments=st.dictionaries(KEYS, JSON, max_size=4))
def test_values_that_satisfy_the_schema_are_accepted(tool, arguments):
    # The converse does not hold, because the check also converts.
    if Draft202012Validator(tool.input_schema).is_valid(arguments):
        outcome = outcome_of(tool, arguments)
        if isinstance(outcome, ToolRejectedError):
            # pydantic refuses lone surrogates and infinite integers, which JSON Schema allows.
            kinds = {each["type"] for each in outcome.details["errors"]}
            assert kinds <= {"string_unicode", "finite_number", "int_parsing_size"}, kinds


# The JSON form


class Stay(BaseModel):
    since: datetime.date = Field(alias="from")
    nights: int = 1


class Opaque:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque)

    __hash__ = None


def test_the_json_form_uses_the_names_that_callers_use():
    def fn(
        stay: Stay,
        to: Annotated[str, Field(alias="for")],
        size: Annotated[bytes, Field()],
        wait: datetime.timedelta,
        number: float = float("nan"),
        **more: int,
    ): ...

    sent = {"stay": {"from": "2026-01-02"}, "for": "Ann", "size": "AP8=", "wait": "PT1S", "other": "7"}
    checked = Tool.from_callable(fn).check(sent)
    assert checked.keywords["stay"] == Stay.model_validate({"from": "2026-01-02"})
    assert checked.as_json == {
        "stay": {"from": "2026-01-02", "nights": 1},
        "for": "Ann",
        "size": "AP8=",
        "wait": "PT1S",
        "number": None,
        "other": 7,
    }


def test_the_json_form_of_opaque_and_secret_values_is_the_sent_value():
    def fn(key: SecretStr, n: int): ...

    assert Tool.from_callable(fn).check({"key": "hush", "n": "1"}).as_json == {"key": "hush", "n": 1}

    def opaque(x: Annotated[object, BeforeValidator(lambda _: Opaque())], n: int): ...

    checked = Tool.from_callable(opaque).check({"x": [1], "n": "1"})
    assert (checked.keywords, checked.as_json) == ({"x": Opaque(), "n": 1}, {"x": [1], "n": "1"})


@given(st.sampled_from(["1", 1, 1.0]), st.lists(st.integers(), max_size=3), st.none() | st.text())
def test_the_json_form_validates_to_the_same_arguments(n, items, text):
    def fn(n: int, items: frozenset[int], text: str | None = None): ...

    tool = Tool.from_callable(fn)
    checked = tool.check({"n": n, "items": items, "text": text})
    assert tool.validate(checked.as_json) == checked.keywords
