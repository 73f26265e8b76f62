"""The tools of one agent by name, and the threads of its sync tools."""

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from protolink_grpc.errors import ToolRejectedError
from protolink_grpc.models.card import AgentSkill
from protolink_grpc.models.tool import ToolDescription
from protolink_grpc.tools.context import ToolContext
from protolink_grpc.tools.runner import ToolRunner
from protolink_grpc.tools.tool import BaseTool, Tool

MAX_NAME_CHARS = 128
"""Maximum length of a tool's name. A longer text is not compared, and shortened in errors."""


class Toolbox:
    """Tools by name, in the order of their registration.

    Args:
        runner: Threads for sync tools, which the creator closes; by default the toolbox has its own.
    """

    def __init__(self, runner: ToolRunner | None = None) -> None:
        self._tools: dict[str, Tool] = {}
        self._owns_runner = runner is None
        self.runner = ToolRunner() if runner is None else runner

    @property
    def names(self) -> list[str]:
        return list(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def add(self, tool: BaseTool | Callable[..., Any]) -> Tool:
        """Add a tool or a function. A tool with the same name is replaced.

        A tool of another kind is wrapped: its arguments, limit and result are checked like those of a function.
        """
        added = as_tool(tool)
        self._tools[added.name] = added
        return added

    def remove(self, name: str) -> None:
        """Remove the tool with that name, if there is one. Calls that are running continue."""
        self._tools.pop(name, None)

    def get(self, name: str) -> Tool:
        """Return the tool with that name.

        Raises:
            ToolRejectedError: `unknown_tool`; suggests the most similar name.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise self._unknown_tool_error(name)
        return tool

    def all(self) -> list[Tool]:
        """Return the tools in the order of their registration."""
        return list(self._tools.values())

    def skills(self) -> list[AgentSkill]:
        """Return the skills of all tools for the agent's card."""
        return [tool.skill() for tool in self._tools.values()]

    def describe(self, after: str = "") -> Iterator[ToolDescription]:
        """Return the descriptions of the tools with a name after `after`, ordered by name."""
        for name in sorted(name for name in self._tools if name > after):
            yield self._tools[name].describe(self.runner.timeout_s)

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext | None = None) -> Any:
        """Call a tool by name. Raises as `get` and `Tool.call`."""
        return await self.get(name).call(arguments, context=context, runner=self.runner)

    async def aclose(self) -> None:
        """End the threads, unless they are shared."""
        if self._owns_runner:
            await self.runner.aclose()

    def _unknown_tool_error(self, name: str) -> ToolRejectedError:
        near = difflib.get_close_matches(name, self._tools, n=1) if len(name) <= MAX_NAME_CHARS else []
        return ToolRejectedError(
            f"Tool '{name[:MAX_NAME_CHARS]}' not found",
            code="unknown_tool",
            details={"available_tools": sorted(self._tools)},
            suggestion=f"Did you mean '{near[0]}'?" if near else "Choose a registered tool.",
        )


def as_tool(tool: BaseTool | Callable[..., Any]) -> Tool:
    """Return a Tool unchanged, or create one from a function or another kind of tool."""
    if isinstance(tool, Tool):
        return tool
    # A class has the attributes of its objects, but is not a tool.
    if inspect.isclass(tool) or not isinstance(tool, BaseTool):
        return Tool.from_callable(tool)
    return Tool.from_callable(
        tool.__call__,
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        tags=tool.tags,
        examples=tool.examples,
        capabilities=tool.capabilities,
    )
