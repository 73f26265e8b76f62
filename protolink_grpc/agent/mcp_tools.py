"""The MCP servers of an agent: their tools are added and follow the changes of the server; their sessions end with the agent."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from protolink_grpc.errors import InvalidArgumentError, ProtolinkError
from protolink_grpc.logs import get_logger
from protolink_grpc.mcp.client.adapter import MCPToolAdapter
from protolink_grpc.tools.tool import Tool
from protolink_grpc.tools.toolbox import Toolbox

log = get_logger(__name__)

START_WAIT_S = 5.0
"""How long the start of an agent waits for its MCP servers, in seconds. It continues without them; calls open the session."""


@dataclass(slots=True, eq=False)
class AttachedServer:
    """The tools of one MCP server in an agent.

    Args:
        include: The server's names of the tools to add; None means all, including later ones.
        prefix: Put before the names of the tools.
        names: Names of its tools in the agent.
    """

    adapter: MCPToolAdapter
    include: frozenset[str] | None
    prefix: str
    names: frozenset[str] = field(default=frozenset(), init=False)

    def build_tools(self) -> dict[str, Tool]:
        """Build the included tools of the server's current list, by the server's names."""
        found = self.adapter.build_tools(self.prefix)
        return {name: tool for name, tool in found.items() if self.include is None or name in self.include}


class AttachedServers:
    """The MCP servers of one agent.

    Args:
        add, remove: Add and remove a tool of the agent.
    """

    def __init__(self, toolbox: Toolbox, add: Callable[[Tool], Tool], remove: Callable[[str], None]) -> None:
        self._toolbox = toolbox
        self._add = add
        self._remove = remove
        self._servers: list[AttachedServer] = []
        self._opening: list[asyncio.Task[None]] = []

    async def attach(self, adapter: MCPToolAdapter, include: Iterable[str] | None, prefix: str) -> list[Tool]:
        """Open the session of a server and add its tools. Nothing is added if an error is raised.

        Raises:
            InvalidArgumentError: `include` names a tool that the server does not have, or two tools would have one name.
            UnavailableError, UnimplementedError: As `MCPToolAdapter.open`.
        """
        server = AttachedServer(adapter, None if include is None else frozenset(include), prefix)
        await adapter.open()
        tools = server.build_tools()
        if unknown := sorted((server.include or frozenset()) - tools.keys()):
            raise InvalidArgumentError(f"the MCP server has no tools named {', '.join(unknown)}", field="include")
        names = [tool.name for tool in tools.values()]
        if taken := sorted({name for name in names if name in self._toolbox or names.count(name) > 1}):
            raise InvalidArgumentError(f"two tools would be named {', '.join(taken)}", field="prefix")
        added = [self._add(tool) for tool in tools.values()]
        server.names = frozenset(names)
        self._servers.append(server)
        adapter.on_change(lambda: self._follow(server))
        return added

    def _follow(self, server: AttachedServer) -> None:
        """Replace the tools of a server after it has changed them. A tool whose name is taken is left out."""
        tools = {tool.name: tool for tool in server.build_tools().values()}
        for name in server.names - tools.keys():
            self._remove(name)
        kept = set()
        for name, tool in tools.items():
            if name in self._toolbox and name not in server.names:
                log.warning(
                    "%r: its tool %s is left out, because the agent has another tool of this name", server.adapter, name
                )
                continue
            try:
                self._add(tool)
            except ProtolinkError as error:  # the card would be too large
                log.warning("%r: its tool %s is left out: %s", server.adapter, name, error)
                continue
            kept.add(name)
        server.names = frozenset(kept)

    async def open(self) -> None:
        """Open the sessions, for at most `START_WAIT_S`. A server that is unavailable is logged."""
        if not self._servers:
            return
        self._opening = [asyncio.create_task(self._open(server.adapter)) for server in self._servers]
        await asyncio.wait(self._opening, timeout=START_WAIT_S)

    @staticmethod
    async def _open(adapter: MCPToolAdapter) -> None:
        try:
            await adapter.open()
        except ProtolinkError as error:
            log.warning("%r: %s", adapter, error)

    async def aclose(self) -> None:
        """Close the sessions. They are opened again at the next start."""
        for each in self._opening:
            each.cancel()
        await asyncio.gather(*(server.adapter.aclose() for server in self._servers))
