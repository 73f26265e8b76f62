"""The client for MCP servers, over the official `mcp` package: it turns their tools into tools of an agent."""
