// Calls an agent over MCP with the official client and prints what it gets as JSON. The argument is the URL of `/mcp`.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "interop", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const progress = [];
const found = {
  server: client.getServerVersion().name,
  tools: (await client.listTools()).tools.map((tool) => tool.name),
  add: await client.callTool({ name: "add", arguments: { a: 1, b: 2 } }),
  wrong: await client.callTool({ name: "add", arguments: { a: "x", b: 2 } }),
  work: await client.callTool({ name: "work", arguments: { steps: 2 } }, undefined, {
    onprogress: (report) => progress.push(report.progress),
  }),
  task: await client.callTool({ name: "send_task", arguments: { message: "Ada" } }),
  progress,
};
await client.close();
console.log(JSON.stringify(found));
