"""Descriptions of tools on the wire."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plgrpc.v1 import tool_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import PolicyEffect
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.tools import Tool, Toolbox, ToolRunner
from protolink_grpc.wire.tools import MAX_DURATION_S, tool_from_pb, tool_to_pb

TEXT = st.text(max_size=20)
WORDS = st.lists(TEXT, max_size=3).map(tuple)
SCHEMAS = st.dictionaries(TEXT, st.integers() | st.booleans() | TEXT, max_size=3)
TOOLS = st.builds(
    ToolDescription,
    name=st.text(min_size=1, max_size=20),
    title=TEXT,
    description=TEXT,
    input_schema=SCHEMAS,
    output_schema=SCHEMAS,
    request_type=TEXT,
    response_type=TEXT,
    read_only=st.booleans(),
    idempotent=st.booleans(),
    destructive=st.booleans(),
    streaming=st.booleans(),
    capabilities=WORDS,
    effect=st.none() | st.sampled_from(list(PolicyEffect)),
    timeout_s=st.none() | st.integers(1, 10**9).map(lambda millis: millis / 1000),
    tags=WORDS,
)


@given(TOOLS)
def test_a_description_survives_the_wire(tool: ToolDescription) -> None:
    assert tool_from_pb(pb.Tool.FromString(tool_to_pb(tool).SerializeToString())) == tool


def test_every_field_of_the_contract_is_one_of_the_model() -> None:
    renamed = {"input_schema_json": "input_schema", "output_schema_json": "output_schema", "timeout": "timeout_s"}
    assert [renamed.get(field.name, field.name) for field in pb.Tool.DESCRIPTOR.fields] == list(
        ToolDescription("t").to_dict()
    )


@pytest.mark.parametrize("timeout_s", [float("inf"), 10.0 * MAX_DURATION_S, None])
def test_a_limit_that_bounds_nothing_is_left_out(timeout_s: float | None) -> None:
    assert not tool_to_pb(ToolDescription("t", timeout_s=timeout_s)).HasField("timeout")


@pytest.mark.parametrize(
    ("tool", "field"),
    [(pb.Tool(), "tool.name"), (pb.Tool(name="t", input_schema_json="[]"), "tool.input_schema_json")],
)
def test_a_description_that_cannot_be_is_refused(tool: pb.Tool, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        tool_from_pb(tool)
    assert caught.value.field == field


def test_an_effect_of_a_later_version_is_kept() -> None:
    assert tool_to_pb(tool_from_pb(pb.Tool(name="t", effect=77))).effect == 77  # type: ignore[arg-type]  # not known here


async def _add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def test_a_tool_describes_itself_with_what_its_author_says() -> None:
    box = Toolbox(ToolRunner(timeout_s=9.0))
    box.add(Tool.from_callable(_add, name="b", title="Add", read_only=True, tags=["math"], capabilities=["z", "a"]))
    box.add(Tool.from_callable(_add, name="a", destructive=True, timeout_s=2.0))
    first, second = box.describe()
    assert (first.name, first.destructive, first.read_only, first.idempotent) == ("a", True, False, False)
    assert (second.title, second.read_only, second.idempotent, second.tags) == ("Add", True, True, ("math",))
    assert (first.timeout_s, second.timeout_s, second.capabilities) == (2.0, 9.0, ("a", "z"))
    assert second.input_schema["required"] == ["a", "b"]
    assert [tool.name for tool in box.describe("a")] == ["b"]
    second.input_schema["required"].clear()
    described: list[Any] = list(box.describe())
    assert described[1].input_schema["required"] == ["a", "b"]


def test_what_is_read_only_is_not_destructive() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Tool.from_callable(_add, read_only=True, destructive=True)
