"""Toolbox: tools by name."""

import threading
from typing import Any

import pytest

from protolink_grpc import tools
from protolink_grpc.errors import ToolFailedError, ToolRejectedError, UnavailableError
from protolink_grpc.tools import Tool, Toolbox, ToolContext, ToolRunner


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def greet(name: str, ctx: ToolContext) -> str:
    return f"{ctx.agent_name} greets {name}"


class Remote:
    """A tool that is not a `Tool`."""

    name = "remote"
    description = "Far away."
    input_schema = {  # noqa: RUF012 - a fixed answer
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
    }
    output_schema = {"type": "integer"}  # noqa: RUF012
    tags = ["far"]  # noqa: RUF012
    examples = [{"n": 1}]  # noqa: RUF012
    capabilities = frozenset({"net.call"})

    async def __call__(self, **arguments: Any) -> Any:
        if arguments["n"] > 100:
            raise OSError("gone")
        return arguments


async def test_a_tool_is_found_validated_and_run():
    box = Toolbox()
    box.add(add)
    box.add(greet)
    assert await box.call("add", {"a": "1", "b": 2}) == 3
    assert await box.call("greet", {"name": "Bo"}, ToolContext(agent_name="Ada")) == "Ada greets Bo"
    assert (box.names, len(box), "add" in box, "sub" in box) == (["add", "greet"], 2, True, False)
    await box.aclose()


async def test_an_unknown_tool_is_refused_with_all_names_and_the_most_similar_one():
    box = Toolbox()
    for name in ("weather", "add"):
        box.add(Tool.from_callable(add, name=name))
    for call in (box.call("wether", {}), box.call("nope", {})):
        with pytest.raises(ToolRejectedError) as caught:
            await call
    assert caught.value.to_dict() == {
        "status": "rejected",
        "changes_made": False,
        "code": "unknown_tool",
        "message": "Tool 'nope' not found",
        "details": {"available_tools": ["add", "weather"]},
        "suggestion": "Choose a registered tool.",
    }
    with pytest.raises(ToolRejectedError) as caught:
        box.get("wether")
    assert caught.value.suggestion == "Did you mean 'weather'?"


def test_the_error_about_a_very_long_name_is_short():
    with pytest.raises(ToolRejectedError) as caught:
        Toolbox().get("x" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_the_same_name_again_replaces_tool_and_skill():
    box = Toolbox()
    box.add(add)
    box.add(greet)
    box.add(Tool.from_callable(add, description="Better."))
    assert [(skill.id, skill.description) for skill in box.skills()] == [("add", "Better."), ("greet", "")]


async def test_a_tool_of_another_class_is_checked_and_fails_like_a_tool():
    box = Toolbox()
    tool = box.add(Remote())
    assert (tool.tags, tool.capabilities, tool.output_schema) == (["far"], {"net.call"}, {"type": "integer"})
    assert box.skills()[0].input_schema == Remote.input_schema
    assert await box.call("remote", {"n": 5, "more": "x"}) == {"n": 5, "more": "x"}
    with pytest.raises(ToolRejectedError, match="n: Input should satisfy minimum 1"):
        await box.call("remote", {"n": 0})
    with pytest.raises(ToolFailedError, match="Tool 'remote' failed: OSError: gone"):
        await box.call("remote", {"n": 101})


def test_a_class_with_the_attributes_of_a_tool_is_refused():
    with pytest.raises(TypeError, match="a class is not a tool"):
        Toolbox().add(Remote)


async def test_closing_ends_own_threads_and_leaves_shared_ones():
    def where() -> int:
        return threading.get_ident()

    own, shared = Toolbox(), Toolbox(runner := ToolRunner())
    for box in (own, shared):
        box.add(where)
        await box.call("where", {})
        await box.aclose()
    with pytest.raises(UnavailableError):
        await own.call("where", {})
    assert await shared.call("where", {}) != threading.get_ident()
    await runner.aclose()


def test_the_public_names_are_these():
    assert tools.__all__ == ["ActionBuilder", "BaseTool", "Progress", "Tool", "ToolContext", "ToolRunner", "Toolbox"]
    assert all(hasattr(tools, name) for name in tools.__all__)
