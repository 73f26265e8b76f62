"""An agent with the tools of an MCP server."""

import asyncio
import sys

from protolink_grpc import ActionDeniedError, Agent, CapabilityPolicy, MCPToolAdapter, ToolRejectedError


def serve() -> None:
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    server = MCPServer("weather station")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
    def temperature(city: str) -> str:
        return f"21 degrees in {city}"

    @server.tool(annotations=ToolAnnotations(destructive_hint=True), structured_output=False)
    def erase(city: str) -> str:
        return f"erased {city}"

    server.run("stdio")


async def main() -> None:
    agent = Agent("weather", policy=CapabilityPolicy({"mcp.read": "allow", "mcp.destructive": "deny"}))
    await agent.add_mcp(MCPToolAdapter("stdio", command=sys.executable, args=[__file__, "serve"]))
    async with agent:
        print(await agent.call_tool("temperature", city="Athens"))
        for tool, arguments in (("temperature", {"city": 7}), ("erase", {"city": "Athens"})):
            try:
                await agent.call_tool(tool, **arguments)
            except (ToolRejectedError, ActionDeniedError) as error:
                print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else asyncio.run(main())
