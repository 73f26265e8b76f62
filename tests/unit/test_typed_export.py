"""The .proto file of an agent's tools: types from type hints, and stable numbers after changes."""

import datetime
import enum
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from pydantic import BaseModel, Field

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.tools.tool import Tool
from protolink_grpc.typed.proto_source import compile_proto
from protolink_grpc.typed.service import Export, export_proto, load_typed_service

PACKAGE = "acme.calculator.v1"


class Color(enum.Enum):
    RED = "red"
    DARK_BLUE = "dark blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 40


@dataclass
class Leg:
    start: str
    hours: float = 1.5
    next: "Leg | None" = None


class Trip(BaseModel):
    legs: list[Leg]
    max_price: Annotated[int, Field(alias="max-price", gt=0)] = 5


class Filter(TypedDict):
    word: str
    limit: NotRequired[int]


def export(*tools: Callable[..., Any] | Tool, committed: FileDescriptorProto | None = None) -> Export:
    made = [tool if isinstance(tool, Tool) else Tool.from_callable(tool) for tool in tools]
    return export_proto("calculator", "Adds numbers.", made, PACKAGE, committed)


def function(hint: Any, default: Any = ...) -> Callable[..., Any]:
    """A tool with one parameter `x` of that type."""

    def f(x: Any) -> None: ...

    f.__annotations__ = {"x": hint, "return": None}
    f.__defaults__ = None if default is ... else (default,)
    return f


def request_lines(made: Export) -> list[str]:
    """The lines of the message FRequest without comments."""
    body = made.text.partition("message FRequest {\n")[2].partition("\n}\n")[0]
    return [line.strip() for line in body.splitlines() if line.strip() and not line.strip().startswith("//")]


def recompiled(made: Export, folder: Path) -> FileDescriptorProto:
    """The descriptor that protoc makes of the text."""
    path = folder / made.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made.text)
    return compile_proto(path)[-1]


def add(a: int, b: int = 2) -> int:
    """Add two integers.

    Args:
        a: The first one.
    """
    return a + b


CALCULATOR = """\
// The tools of the agent calculator, written by `plgrpc proto export`. Change the tools, then export again:
// numbers stay.
syntax = "proto3";

package acme.calculator.v1;

// Adds numbers.
service Calculator {
  // Add two integers.
  rpc Add(AddRequest) returns (AddResponse);
}

// AddRequest has the arguments of Add.
message AddRequest {
  // The first one.
  int64 a = 1;
  // Default: 2.
  optional int64 b = 2;
}

// AddResponse has the result of Add.
message AddResponse {
  // The result.
  int64 result = 1;
}
"""


def test_a_tool_is_a_method_with_a_request_and_a_response() -> None:
    assert export(add).text == CALCULATOR


@pytest.mark.parametrize(
    ("hint", "default", "lines"),
    [
        (int, ..., ["int64 x = 1;"]),
        (float, ..., ["double x = 1;"]),
        (str, ..., ["string x = 1;"]),
        (bool, ..., ["bool x = 1;"]),
        (bytes, ..., ["bytes x = 1;"]),
        (int | None, ..., ["optional int64 x = 1;"]),
        (int | None, None, ["optional int64 x = 1;"]),
        (int, 5, ["optional int64 x = 1;"]),
        (
            int | None,
            5,
            ["oneof x {", "int64 x_integer = 1;", "google.protobuf.NullValue x_null = 2;", "}"],
        ),
        (datetime.datetime, ..., ["google.protobuf.Timestamp x = 1;"]),
        (datetime.timedelta, ..., ["google.protobuf.Duration x = 1;"]),
        (datetime.date, ..., ["string x = 1;"]),
        (UUID, ..., ["string x = 1;"]),
        (list[int], ..., ["repeated int64 x = 1;"]),
        (set[str], ..., ["repeated string x = 1;"]),
        (Sequence[float], ..., ["repeated double x = 1;"]),
        (dict[str, int], ..., ["map<string, int64> x = 1;"]),
        (dict[str, Any], ..., ["google.protobuf.Struct x = 1;"]),
        (Any, ..., ["google.protobuf.Value x = 1;"]),
        (list[list[int]], ..., ["message XItem {", "repeated int64 items = 1;", "}", "repeated XItem x = 1;"]),
        (list[int] | None, None, ["message X {", "repeated int64 items = 1;", "}", "X x = 1;"]),
        (
            dict[str, list[int]],
            ...,
            ["message XValue {", "repeated int64 items = 1;", "}", "map<string, XValue> x = 1;"],
        ),
        (tuple[int, str], ..., ["message X {", "int64 item_1 = 1;", "string item_2 = 2;", "}", "X x = 1;"]),
        (int | str, ..., ["oneof x {", "int64 x_integer = 1;", "string x_text = 2;", "}"]),
        (Leg | Filter, ..., ["oneof x {", "Leg x_leg = 1;", "Filter x_filter = 2;", "}"]),
        (Literal["a", "b"], ..., ["enum X {", "X_UNSPECIFIED = 0;", "X_A = 1;", "X_B = 2;", "}", "X x = 1;"]),
        (Color, ..., ["Color x = 1;"]),
        (Leg, ..., ["Leg x = 1;"]),
        (Trip, ..., ["Trip x = 1;"]),
        (Filter, ..., ["Filter x = 1;"]),
    ],
)
def test_type_hints_become_fields(hint: Any, default: Any, lines: list[str], tmp_path: Path) -> None:
    made = export(function(hint, default))
    assert request_lines(made) == lines
    assert recompiled(made, tmp_path) == with_json_names(made.plan.file)


def with_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """The file with the JSON names that protoc fills in."""
    found = FileDescriptorProto()
    found.CopyFrom(file)

    def fill(messages: Any) -> None:
        for message in messages:
            fill(message.nested_type)
            for field in message.field:
                first, *rest = field.name.split("_")
                field.json_name = field.json_name or first + "".join(word[:1].upper() + word[1:] for word in rest)

    fill(found.message_type)
    return found


def test_classes_become_messages_with_presence_for_what_may_be_missing(tmp_path: Path) -> None:
    def f(trip: Trip, only: Filter) -> Leg: ...

    text = export(f).text
    assert "  repeated Leg legs = 1;\n" in text
    assert '  optional int64 max_price = 2 [json_name = "max-price"];\n' in text
    assert "  optional double hours = 2;\n" in text
    assert "  Leg next = 3;\n" in text, "a recursive message has presence"
    assert "  optional int64 limit = 2;\n" in text
    assert "  // More than 0. Default: 5.\n" in text
    assert text.count("message Leg {") == 1, "the class is one message in requests and responses"
    recompiled(export(f), tmp_path)


@pytest.mark.parametrize(
    ("tools", "error"),
    [
        ([function(Annotated[str, Field(json_schema_extra={"not": {}})])], r"'x' of tool 'f' has the keyword 'not'"),
        ([function(Literal[True])], r"'x' of tool 'f' has constants that are neither texts nor integers"),
        ([function(Literal["a b", "a-b"])], r"'x' of tool 'f' has constants with equal names in an enum"),
        (
            [Tool.from_callable(add, name="get_sum"), Tool.from_callable(add, name="get.sum")],
            "the tools 'get_sum' and 'get.sum' would both be the method GetSum",
        ),
    ],
)
def test_what_protobuf_cannot_express_is_refused_with_its_name(tools: list[Any], error: str) -> None:
    with pytest.raises(TypeError, match=error):
        export(*tools)


def test_two_parameters_with_one_name_in_protobuf_are_refused() -> None:
    def f(max_size: int, maxSize: int) -> None: ...

    with pytest.raises(TypeError, match="would both be 'max_size'"):
        export(f)


def test_two_classes_of_one_name_that_differ_are_refused() -> None:
    def other() -> type:
        @dataclass
        class Leg:
            price: int

        return Leg

    first, second = Tool.from_callable(function(Leg)), Tool.from_callable(function(other()), name="g")
    with pytest.raises(TypeError, match=r"two different types would both be acme\.calculator\.v1\.Leg"):
        export(first, second)


@pytest.mark.parametrize("package", ["", "acme..v1", "acme.1v", "acme calculator"])
def test_a_package_must_be_one(package: str) -> None:
    with pytest.raises(InvalidArgumentError, match="package"):
        export_proto("calculator", "", [Tool.from_callable(add)], package)


# -- a committed file --------------------------------------------------------------------------------------------------------------


def f_of(annotations: Mapping[str, Any], defaults: tuple[Any, ...] = ()) -> Callable[..., Any]:
    """A tool `f` with these parameters."""
    names = list(annotations)
    required = len(names) - len(defaults)
    head = ", ".join(name if i < required else f"{name}=None" for i, name in enumerate(names))
    scope: dict[str, Any] = {}
    exec(f"def f({head}): ...", scope)
    f: Callable[..., Any] = scope["f"]
    f.__annotations__, f.__defaults__ = {**annotations, "return": int}, defaults or None  # type: ignore[attr-defined]
    return f


def test_numbers_are_kept_reserved_and_never_used_again(tmp_path: Path) -> None:
    first = export(f_of({"a": int, "b": int, "c": int}))
    second = export(f_of({"c": int, "a": int, "d": int}, (1,)), committed=recompiled(first, tmp_path))
    assert request_lines(second) == [
        "reserved 2;",
        'reserved "b";',
        "int64 c = 3;",
        "int64 a = 1;",
        "optional int64 d = 4;",
    ]
    third = export(f_of({"a": int, "e": int}, (1,)), committed=recompiled(second, tmp_path))
    assert request_lines(third) == [
        "reserved 2, 3, 4;",
        'reserved "b", "c", "d";',
        "int64 a = 1;",
        "optional int64 e = 5;",
    ]
    assert not any(change.breaking for change in [*second.changes, *third.changes])


def test_values_of_enums_keep_their_numbers(tmp_path: Path) -> None:
    first = export(f_of({"x": Literal["a", "b"]}))
    second = export(f_of({"x": Literal["b", "c"]}), committed=recompiled(first, tmp_path))
    values = ["enum X {", "reserved 1;", 'reserved "X_A";', "X_UNSPECIFIED = 0;", "X_B = 2;", "X_C = 3;", "}"]
    assert request_lines(second) == [*values, "X x = 1;"]
    recompiled(second, tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (f_of({"a": int}), f_of({"a": str}), "FRequest.a was int64 and would be string"),
        (f_of({"a": int}), f_of({"a": list[int]}), "FRequest.a was int64 and would be repeated int64"),
        (f_of({"a": int}, (1,)), f_of({"a": int}), "FRequest.a was optional"),
        (f_of({"a": int}), f_of({"a": int, "b": int}), "FRequest.b is new and required: give the parameter a default"),
        (f_of({"a": int}), add, "Calculator.F is gone"),
    ],
)
def test_a_change_that_breaks_older_callers_is_known_as_such(
    before: Callable[..., Any], after: Callable[..., Any], change: str, tmp_path: Path
) -> None:
    changes = export(after, committed=recompiled(export(before), tmp_path)).changes
    assert f"acme.calculator.v1.{change}" in [str(each) for each in changes if each.breaking]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f_of({"a": int}), f_of({"a": int}, (1,))),
        (f_of({"a": int}), f_of({"a": int, "b": int}, (1,))),
        (f_of({"a": int, "b": int}), f_of({"a": int})),
    ],
)
def test_a_compatible_change_is_not_breaking(
    before: Callable[..., Any], after: Callable[..., Any], tmp_path: Path
) -> None:
    changes = export(after, committed=recompiled(export(before), tmp_path)).changes
    assert changes
    assert not any(each.breaking for each in changes)


def test_options_of_the_committed_file_stay(tmp_path: Path) -> None:
    first = export_proto(
        "calculator", "", [Tool.from_callable(add)], PACKAGE, options={"go_package": "example.com/calculator/v1"}
    )
    second = export(add, committed=recompiled(first, tmp_path))
    assert not second.changes
    assert 'option go_package = "example.com/calculator/v1";\n' in second.text


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'go_pkg' is not an option"):
        export_proto("calculator", "", [Tool.from_callable(add)], PACKAGE, options={"go_pkg": "x"})


# -- loading -----------------------------------------------------------------------------------------------------------------------


def test_tools_that_differ_from_the_committed_file_are_not_served(tmp_path: Path) -> None:
    made = export(add)
    path = tmp_path / made.path
    recompiled(made, tmp_path)
    tool = Tool.from_callable(add)
    assert list(load_typed_service(path, "calculator", "", [tool]).methods) == ["Add"]
    with pytest.raises(InvalidArgumentError, match=r"AddRequest\.c is new.*plgrpc proto export") as error:
        load_typed_service(
            path, "calculator", "", [Tool.from_callable(f_of({"a": int, "b": int, "c": int}, (2, 3)), name="add")]
        )
    assert error.value.field == "typed"


def test_an_agent_without_its_file_says_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"missing\.proto is not a file; plgrpc proto export writes it"
    ) as error:
        load_typed_service(tmp_path / "missing.proto", "calculator", "", [Tool.from_callable(add)])
    assert error.value.field == "typed"


def test_a_file_that_is_missing_or_invalid_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"missing\.proto is not a file"):
        compile_proto(tmp_path / "missing.proto")
    path = tmp_path / "broken.proto"
    path.write_text('syntax = "proto3";\npackage a.v1;\nmessage M { int65 x = 1; }\n')
    with pytest.raises(InvalidArgumentError, match=r'(?s)broken\.proto is not valid: .*"int65" is not defined'):
        compile_proto(path)


# -- streams -----------------------------------------------------------------------------------------------------------------


async def count(n: int) -> AsyncIterator[int]:
    """Count to n."""
    yield n


def test_a_generator_is_a_method_with_a_stream_of_its_items() -> None:
    made = export(count)
    assert "rpc Count(CountRequest) returns (stream CountResponse);" in made.text
    assert "// One item of the stream.\n  int64 result = 1;" in made.text
    assert [method.streams for method in made.plan.methods] == [True]


def test_items_have_any_type_that_a_result_has() -> None:
    def legs() -> Iterator[Leg | None]:
        yield None

    def ended() -> Iterator[None]:
        yield None

    text = export(legs, ended).text
    assert "  Leg result = 1;" in text
    assert "message EndedResponse {}" in text


@pytest.mark.parametrize("streams_first", [True, False])
def test_a_stream_instead_of_a_single_response_is_a_breaking_change(streams_first: bool, tmp_path: Path) -> None:
    def unary(n: int) -> int:
        """Count to n."""
        return n

    tools = [Tool.from_callable(count, name="count"), Tool.from_callable(unary, name="count")]
    before, after = tools if streams_first else reversed(tools)
    changes = export(after, committed=recompiled(export(before), tmp_path)).changes
    assert [str(each) for each in changes if each.breaking] == [
        f"{PACKAGE}.Calculator.Count {'was' if streams_first else 'would be'} a stream"
    ]
    assert not export(before, committed=recompiled(export(before), tmp_path)).changes
