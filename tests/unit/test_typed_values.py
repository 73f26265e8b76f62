"""Values of a typed service are unchanged: tools get and return the same values as in direct calls."""

import asyncio
import datetime
import enum
import keyword
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.json_value import normalize
from protolink_grpc.tools.tool import Tool
from protolink_grpc.typed.converters import Converters
from protolink_grpc.typed.service import TypedService, build_typed_service, export_proto


class Color(enum.Enum):
    RED = "red"
    DARK_BLUE = "dark blue"


@dataclass
class Leg:
    start: str
    hours: float = 1.5
    next: "Leg | None" = None


def echo_of(hint: Any) -> Tool:
    """A tool that returns its argument, with one type for both."""

    def echo(x: Any) -> Any:
        return x

    echo.__annotations__ = {"x": hint, "return": hint}
    return Tool.from_callable(echo)


def crossing(tool: Tool) -> tuple[TypedService, Callable[[dict[str, Any]], Message], Callable[[Message], Any]]:
    """A service, the request that a caller with stubs would make of JSON arguments, and the result that it reads of a response."""
    plan = export_proto("echo", "", [tool], "acme.echo.v1").plan
    service = build_typed_service(plan)
    converters = Converters(service.descriptor.file.pool)
    write, read = converters.writer(plan.methods[0].request), converters.reader(plan.methods[0].response)

    def request(arguments: dict[str, Any]) -> Message:
        made: Message = write(arguments)
        return type(made).FromString(made.SerializeToString())

    return (
        service,
        request,
        lambda response: read(type(response).FromString(response.SerializeToString())).get("result"),
    )


MOMENTS = st.datetimes(
    datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30), timezones=st.just(datetime.UTC)
)  # in UTC, because a Timestamp is a moment without an offset
SPANS = st.timedeltas(datetime.timedelta(days=-3_650_000), datetime.timedelta(days=3_650_000))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, INTEGERS),
    (float, FLOATS),
    (bool, st.booleans()),
    (str, TEXTS),
    (bytes, st.binary(max_size=20)),
    (datetime.datetime, MOMENTS),
    (datetime.timedelta, SPANS),
    (datetime.date, st.dates()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=3)),
    (UUID, st.uuids()),
    (Color, st.sampled_from(Color)),
    (Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    (Leg, st.builds(Leg, TEXTS, FLOATS, st.none() | st.builds(Leg, TEXTS, FLOATS, st.none()))),
]
Typed = tuple[Any, st.SearchStrategy[Any]]


def _list_of(inner: Typed) -> Typed:
    return list[inner[0]], st.lists(inner[1], max_size=3)  # type: ignore[misc]  # a type made at run time


def _dict_of(inner: Typed) -> Typed:
    return dict[str, inner[0]], st.dictionaries(TEXTS, inner[1], max_size=3)  # type: ignore[misc]  # as above


def _tuple_of(one: Typed, other: Typed) -> Typed:
    return tuple[one[0], other[0]], st.tuples(one[1], other[1])  # type: ignore[misc]  # as above


def _optional(inner: Typed) -> Typed:
    return inner[0] | None, st.none() | inner[1]


UNIONS: list[Typed] = [
    (int | str, INTEGERS | TEXTS),
    (bool | list[int], st.booleans() | st.lists(INTEGERS, max_size=3)),
    (Leg | int, SCALARS[-1][1] | INTEGERS),
]

TYPES: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from([*SCALARS, *UNIONS]),
    lambda inner: st.one_of(
        inner.map(_list_of),
        inner.map(_dict_of),
        st.tuples(inner, inner).map(lambda two: _tuple_of(*two)),
        inner.map(_optional),
    ),
    max_leaves=4,
)


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    hint, values = draw(TYPES)
    return hint, draw(values)


@given(typed_values())
def test_a_value_is_the_same_through_a_typed_call_and_a_direct_one(drawn: tuple[Any, Any]) -> None:
    hint, value = drawn
    tool = echo_of(hint)
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    sent = {"x": normalize(value)}
    direct = tool.validate(sent)["x"]
    service, request, result_of = crossing(tool)
    arguments = service.methods["Echo"].read(request(sent))
    assert tool.validate(arguments)["x"] == direct
    result = asyncio.run(tool.call(arguments))
    given_back = result_of(service.methods["Echo"].write(result))
    assert adapter.validate_python(given_back) == adapter.validate_python(normalize(direct))


def crossed(hint: Any, default: Any = ...) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The way of JSON arguments through the request of a tool with one parameter."""

    def f(x: Any) -> None: ...

    f.__annotations__ = {"x": hint, "return": None}
    f.__defaults__ = None if default is ... else (default,)
    tool = Tool.from_callable(f, name="echo")
    service, request, _ = crossing(tool)
    return lambda arguments: service.methods["Echo"].read(request(arguments))


@pytest.mark.parametrize(
    ("hint", "default", "sent", "read"),
    [
        (int, ..., {}, {"x": 0}),
        (int, 5, {}, {}),
        (int, 5, {"x": 0}, {"x": 0}),
        (int | None, ..., {"x": None}, {"x": None}),
        (int | None, None, {}, {}),
        (int | None, 5, {}, {}),
        (int | None, 5, {"x": None}, {"x": None}),
        (list[int] | None, None, {}, {}),
        (list[int] | None, None, {"x": []}, {"x": []}),
        (list[int], [], {}, {"x": []}),
        (Leg, ..., {}, {}),
        (Color, ..., {}, {}),
        (dict[str, Any], ..., {"x": {"a": [1, 2.5, None, {"b": True}]}}, {"x": {"a": [1, 2.5, None, {"b": True}]}}),
        (Any, ..., {"x": None}, {"x": None}),
        (list[int | None], ..., {"x": [1, None]}, {"x": [1, None]}),
    ],
)
def test_unset_fields_are_zero_null_or_the_default(
    hint: Any, default: Any, sent: dict[str, Any], read: dict[str, Any]
) -> None:
    assert crossed(hint, default)(sent) == read


@pytest.mark.parametrize(
    ("hint", "value", "error"),
    [
        (int, 1 << 63, "result: must be an integer of 64 bits"),
        (int, "5", "result: must be an integer"),
        (list[int], [1, "2"], r"result\[1\]: must be an integer"),
        (Color, "green", "result: is not one of the constants"),
        (datetime.datetime, "tomorrow", "result: must be a time as RFC 3339 writes it"),
        (Any, 1 << 60, r"result: 1152921504606846976 is not exact"),
        (int | str, 1.5, "result: fits no variant"),
        (Leg, {"start": "A", "next": {"start": 5}}, r"result\.next\.start: must be a text"),
    ],
)
def test_a_result_that_does_not_fit_is_refused_with_its_path(hint: Any, value: Any, error: str) -> None:
    with pytest.raises(InvalidArgumentError, match=error):
        crossing(echo_of(hint))[0].methods["Echo"].write(value)


def test_a_request_with_an_unknown_enum_value_is_refused_with_its_path() -> None:
    service, request_of, _ = crossing(echo_of(list[Color]))
    request: Any = request_of({"x": ["red"]})
    request.x.append(7)
    with pytest.raises(InvalidArgumentError, match=r"x\[1\]: 7 is not a value of this enum"):
        service.methods["Echo"].read(request)


def test_a_number_that_json_cannot_have_is_refused() -> None:
    service, request_of, _ = crossing(echo_of(float))
    request: Any = request_of({"x": 1.5})
    request.x = float("nan")
    with pytest.raises(InvalidArgumentError, match="x: must be a finite number"):
        service.methods["Echo"].read(request)


def test_parameters_may_have_names_that_python_reserves() -> None:
    def route(**more: str) -> None: ...

    assert keyword.iskeyword("from")
    schema = {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}
    tool = Tool.from_callable(route, name="echo", input_schema=schema)
    service, request, _ = crossing(tool)
    assert service.methods["Echo"].read(request({"from": "A"})) == {"from": "A"}
