"""An agent with the tools of an MCP server: python -m examples.mcp_tools"""

import asyncio
import sys

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from protolink_grpc import ActionDeniedError, Agent, CapabilityPolicy, MCPToolAdapter, ToolRejectedError

server = MCPServer("weather station")


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def temperature(city: str) -> str:
    """Return the temperature of a city."""
    return f"21 degrees in {city}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True), structured_output=False)
def erase(city: str) -> str:
    """Erase the measurements of a city."""
    return f"erased {city}"


async def main() -> None:
    agent = Agent("weather", policy=CapabilityPolicy({"mcp.read": "allow", "mcp.destructive": "deny"}))
    await agent.add_mcp(MCPToolAdapter("stdio", command=sys.executable, args=["-m", "examples.mcp_tools", "serve"]))
    async with agent:
        print(await agent.call_tool("temperature", city="Athens"))
        for tool, arguments in (("temperature", {"city": 7}), ("erase", {"city": "Athens"})):
            try:
                await agent.call_tool(tool, **arguments)
            except (ToolRejectedError, ActionDeniedError) as error:
                print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    server.run("stdio") if sys.argv[1:] == ["serve"] else asyncio.run(main())
