"""An MCP server of 2025 written by hand, for tests: it speaks the older protocol, and can send invalid messages.

Its arguments are habits: `junk` sends lines that are not JSON, `silent` answers nothing, `exit` ends at once, `schemas` has tools
with schemas that cannot be enforced, and `wrong` answers calls with something that is not a result.
"""

import json
import sys
from typing import Any

HABITS = set(sys.argv[1:])
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TUPLE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "pair": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}
    },
    "required": ["pair"],
}
TOOLS: list[dict[str, Any]] = [
    {"name": "echo", "inputSchema": TEXT},
    {"name": "ask", "inputSchema": {"type": "object"}},
    {"name": "refuse", "inputSchema": {"type": "object"}},
    {"name": "grow", "inputSchema": {"type": "object"}},
    {"name": "files/read 2", "inputSchema": TUPLE},
]
if "schemas" in HABITS:
    TOOLS += [
        {"name": "remote", "inputSchema": {"type": "object", "$ref": "https://example.com/schema.json"}},
        {"name": "invalid", "inputSchema": {"type": "object", "properties": {"a": {"type": "no such type"}}}},
        {"name": "slow_pattern", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}}},
    ]


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def answer(request: dict[str, Any]) -> None:
    number = request["id"]
    match request["method"]:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "raw", "version": "0"}
            result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
            send(id=number, result=result)
        case "tools/list":
            # Two pages.
            after = int(request.get("params", {}).get("cursor", 0))
            page = {"tools": TOOLS[after : after + 3]}
            send(id=number, result=page if after + 3 >= len(TOOLS) else {**page, "nextCursor": str(after + 3)})
        case "tools/call":
            call(number, request["params"])
        case _:
            send(id=number, error={"code": -32601, "message": "Method not found"})


def call(number: Any, params: dict[str, Any]) -> None:
    if "wrong" in HABITS:
        send(id=number, result={"content": "no list"})
        return
    arguments = params.get("arguments", {})
    match params["name"]:
        case "echo":
            send(id=number, result=text(arguments["text"]))
        case "refuse":
            send(id=number, error={"code": -32602, "message": "not on Sundays"})
        case "grow":
            TOOLS.append({"name": "grown", "inputSchema": {"type": "object"}})
            send(method="notifications/tools/list_changed")
            send(id=number, result=text("grown"))
        case "ask":
            schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            send(id="q1", method="elicitation/create", params={"message": "Who are you?", "requestedSchema": schema})
            reply = json.loads(sys.stdin.readline())
            while reply.get("id") != "q1":
                reply = json.loads(sys.stdin.readline())
            send(id=number, result=text(json.dumps(reply.get("result") or reply["error"]["message"])))
        case "files/read 2":
            send(id=number, result=text(json.dumps(arguments)))


if "exit" in HABITS:
    sys.exit(7)
for line in sys.stdin:
    if "junk" in HABITS:
        print("no JSON at all\n[1, 2\n{}\n\x00\x01", flush=True)
    if "silent" not in HABITS and "id" in (message := json.loads(line)) and "method" in message:
        answer(message)
