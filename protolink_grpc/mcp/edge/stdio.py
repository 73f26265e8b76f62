"""MCP over standard input and output, for programs that start an agent as their MCP server."""

from protolink_grpc.auth.principal import LOCAL, Principal
from protolink_grpc.mcp.client.server import require_sdk
from protolink_grpc.mcp.edge.server import McpAgent, McpEdge, McpPort


async def serve_stdio(agent: McpAgent) -> None:
    """Serve the program at the other end until the input ends. Its tasks belong to the principal `local`.

    Raises:
        UnimplementedError: The `mcp` extra is not installed.
    """
    require_sdk()
    from mcp.server.stdio import stdio_server

    caller = Principal(LOCAL)
    edge = McpEdge(agent, McpPort(lambda context: caller, lambda method, principal: None))
    server = edge.build_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
