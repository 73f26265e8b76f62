"""Types of answers: their schemas, and the conversion of JSON values to instances."""

import dataclasses
import datetime
import decimal
import uuid
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal, NewType, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator
from typing_extensions import TypeAliasType

from protolink_grpc.errors import InferParseError, InvalidAgentResponseError, InvalidArgumentError, TaskExecutionError
from protolink_grpc.llms.checks import OutputCheck
from protolink_grpc.llms.loop_host import InferSettings
from protolink_grpc.llms.mock import ScriptedLLM
from protolink_grpc.models import Artifact, Part, Task, TaskState, from_json, to_json
from protolink_grpc.models.json_schema import MAX_PROBLEMS, OutputType


class Weather(BaseModel):
    city: str
    degrees: float
    tags: list[str] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def check_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


Celsius = NewType("Celsius", int)
Place = TypeAliasType("Place", Weather | Point)


class Trip(TypedDict):
    city: str
    days: int


KINDS: list[tuple[Any, Any, Any]] = [
    (Weather, {"city": "Rome", "degrees": 21.5}, Weather(city="Rome", degrees=21.5)),
    (Strict, {"day": "2026-02-03"}, Strict(day=datetime.date(2026, 2, 3))),
    (Tree, {"name": "a", "children": [{"name": "b"}]}, Tree(name="a", children=[Tree(name="b")])),
    (Point, {"x": 1}, Point(1)),
    (Trip, {"city": "Rome", "days": 2}, {"city": "Rome", "days": 2}),
    (Color, "red", Color.RED),
    (int, 3, 3),
    (bool, True, True),
    (list[Weather], [{"city": "a", "degrees": 1}], [Weather(city="a", degrees=1)]),
    (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
    (Literal["yes", "no"], "no", "no"),
    (int | None, None, None),
    (Weather | Point, {"x": 4}, Point(4)),
    (Annotated[int, Field(ge=1)], 1, 1),
    (datetime.date, "2026-02-03", datetime.date(2026, 2, 3)),
    (list[decimal.Decimal], ["1.50"], [decimal.Decimal("1.50")]),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 2], {1, 2}),
    (Celsius, 21, 21),
    (Place, {"x": 4}, Point(4)),
]


@pytest.mark.parametrize(("kind", "value", "instance"), KINDS, ids=lambda each: str(each)[:30])
def test_a_json_value_becomes_an_instance_of_its_type(kind: Any, value: Any, instance: Any) -> None:
    output = OutputType[Any](kind)
    assert OutputCheck(output.schema).validate(value) == value
    converted = output.convert(value)
    assert converted == instance
    assert type(converted) is type(instance)


@pytest.mark.parametrize(("kind", "value", "instance"), KINDS, ids=lambda each: str(each)[:30])
def test_a_text_with_the_json_of_a_value_becomes_the_same_instance(kind: Any, value: Any, instance: Any) -> None:
    for text in (to_json(value), f"```json\n{to_json(value)}\n```", f"<think>hm</think>{to_json(value)}"):
        if value is not None:
            assert OutputType[Any](kind).convert(text) == instance


_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**60), 2**60),
    bool: st.booleans(),
    str: st.text(st.characters(codec="utf-8"), max_size=20),
    float: st.floats(allow_nan=False, allow_infinity=False),
    uuid.UUID: st.uuids(),
    datetime.date: st.dates(),
    Color: st.sampled_from(Color),
}


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 2) -> tuple[Any, Any]:
    """A type and one of its instances."""
    if depth == 0 or draw(st.booleans()):
        kind = draw(st.sampled_from(list(_SCALARS)))
        return kind, draw(_SCALARS[kind])
    shape = draw(st.sampled_from(("list", "dict", "optional", "tuple", "dataclass")))
    kind, value = draw(typed_values(depth - 1))
    match shape:
        case "list":
            return list[kind], [value] * draw(st.integers(0, 2))
        case "dict":
            return dict[str, kind], {"a": value}
        case "optional":
            return kind | None, draw(st.sampled_from((value, None)))
        case "tuple":
            return tuple[kind, int], (value, 1)
    made = dataclasses.make_dataclass("Made", [("first", kind), ("second", int, 7)])
    return made, made(value)


@given(typed_values())
def test_an_instance_of_any_type_survives_its_way_as_json(typed: tuple[Any, Any]) -> None:
    kind, value = typed
    output, adapter = OutputType[Any](kind), TypeAdapter(kind)
    sent = from_json(adapter.dump_json(value))
    assert OutputCheck(output.schema).validate(to_json(sent)) == sent
    assert output.convert(sent) == value


@pytest.mark.parametrize("kind", [Callable[[int], int], type("Odd", (), {}), object(), "Weather", 5, None])
def test_what_no_schema_can_describe_is_refused_at_once_and_named(kind: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        OutputType[Any](kind)
    assert refused.value.field == "output_type"
    name = getattr(kind, "__name__", "") if isinstance(kind, type) else type(kind).__name__
    assert name in str(refused.value) or "Callable" in str(refused.value)


def test_an_invalid_answer_names_each_field_that_is_wrong() -> None:
    with pytest.raises(InvalidAgentResponseError) as refused:
        OutputType[Weather](Weather).convert({"city": 3, "tags": [1]}, task_id="t")
    assert str(refused.value).startswith("the answer is not a valid Weather: answer.city: ")
    assert "answer.degrees: Field required; answer.tags[0]: " in str(refused.value)
    assert refused.value.metadata == {"field": "answer.city", "output_type": "Weather", "task_id": "t"}


def test_an_error_lists_a_bounded_number_of_problems() -> None:
    with pytest.raises(InvalidAgentResponseError) as refused:
        OutputType[Any](list[int]).convert(["x"] * 100)
    assert str(refused.value).count("answer[") == MAX_PROBLEMS
    assert str(refused.value).endswith(f"; and {100 - MAX_PROBLEMS} more")


def test_a_part_has_the_schema_of_an_output_type_or_a_schema_but_not_both() -> None:
    typed = Task.create_infer(prompt="where", output_type=Trip, session_id="s")
    assert typed.messages[0].parts[0] == Part.infer(prompt="where", output_schema=OutputType[Any](Trip).schema)
    with pytest.raises(InvalidArgumentError) as refused:
        Part.infer(prompt="where", output_schema={}, output_type=Trip)
    assert refused.value.field == "output_type"


def test_the_output_of_a_task_is_an_instance_or_a_clear_error() -> None:
    task = Task.create("where")
    with pytest.raises(TaskExecutionError, match="ended without an answer"):
        task.get_output_as(Weather)
    task.add_artifact(Artifact(parts=[Part.infer_output({"city": "Rome", "degrees": 1})]))
    weather = task.get_output_as(Weather)
    assert weather == Weather(city="Rome", degrees=1)
    with pytest.raises(InvalidAgentResponseError) as refused:
        task.get_output_as(Point)
    assert refused.value.metadata["task_id"] == task.id
    task.begin().fail("no")
    assert task.state is TaskState.FAILED
    with pytest.raises(TaskExecutionError, match="no"):
        task.get_output_as(Weather)


async def test_a_model_returns_an_instance_and_corrects_an_answer_that_only_the_type_refuses() -> None:
    model = ScriptedLLM(['{"number": "two"}', '{"number": 3}', '{"number": 4}'])
    answer = await model.infer("an even number", output_type=Even)
    assert answer == Even(number=4)
    first, second = (request.messages[-1].content for request in model.requests[1:])
    assert "answer.number" in first
    assert "The answer is not a valid Even: answer.number: Value error, must be even" in second


async def test_corrections_end_at_max_parse_failures() -> None:
    model = ScriptedLLM(['{"number": 3}'] * 5)
    with pytest.raises(InferParseError, match="must be even"):
        await model.infer("an even number", output_type=Even, settings=InferSettings(max_parse_failures=2))
    assert len(model.requests) == 2


async def test_a_question_with_the_type_str_has_a_text_as_its_answer() -> None:
    model = ScriptedLLM(["42"])
    assert await model.infer("how many", output_type=str) == "42"
    assert model.requests[0].output_schema is None


async def test_an_output_type_beside_a_schema_is_refused() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        await ScriptedLLM(["1"]).infer("x", output_type=int, output_schema={"type": "integer"})  # type: ignore[call-overload]  # what is tested
    assert refused.value.field == "output_type"
