"""An agent as an MCP server, over streamable HTTP and standard input and output."""
