// An MCP server made with the official SDK, on standard input and output.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "interop", version: "1" });
const text = (content) => ({ content: [{ type: "text", text: content }] });

const pair = z.tuple([z.number(), z.string()]).optional();
const input = { a: z.number().int(), b: z.number().int(), pair };
server.registerTool(
  "add",
  { description: "Add two integers.", inputSchema: input, annotations: { readOnlyHint: true } },
  async ({ a, b }) => text(String(a + b)),
);
server.registerTool("fail", { inputSchema: {} }, async () => {
  throw new Error("no paper");
});
server.registerTool("grow", { inputSchema: {} }, async () => {
  server.registerTool("extra", { inputSchema: {} }, async () => text("extra"));
  return text("grown");
});
const requestedSchema = { type: "object", properties: { nights: { type: "integer" } }, required: ["nights"] };
server.registerTool("ask", { inputSchema: {} }, async () =>
  text(JSON.stringify(await server.server.elicitInput({ message: "How many nights?", requestedSchema }))),
);
await server.connect(new StdioServerTransport());
