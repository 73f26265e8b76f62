"""MCP: tools, resources and prompts of MCP servers for agents."""
