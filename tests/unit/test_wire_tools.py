"""Descriptions of tools on the wire."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from plgrpc.v1 import tool_pb2 as pb

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.reader import MAX_SECONDS
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.tools import Tool, Toolbox, ToolRunner
from protolink_grpc.wire.tools import TOOL


@pytest.mark.parametrize("timeout_s", [float("inf"), 10.0 * MAX_SECONDS, None])
def test_a_limit_that_bounds_nothing_is_left_out(timeout_s: float | None) -> None:
    assert not TOOL.to_pb(ToolDescription("t", timeout_s=timeout_s)).HasField("timeout")


def test_a_timeout_below_a_microsecond_does_not_become_none() -> None:
    assert TOOL.to_pb(ToolDescription("t", timeout_s=1e-9)).timeout.nanos == 1000


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        (pb.Tool(), "tool.name"),
        (pb.Tool(name="t", input_schema_json="[]"), "tool.input_schema_json"),
        (pb.Tool(name="t", timeout=Duration(seconds=-1)), "tool.timeout"),
    ],
)
def test_a_description_that_cannot_be_is_refused(tool: pb.Tool, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        TOOL.from_pb(tool, "tool")
    assert caught.value.field == field


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


def test_a_read_only_tool_cannot_be_destructive() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        Tool.from_callable(_add, read_only=True, destructive=True)
