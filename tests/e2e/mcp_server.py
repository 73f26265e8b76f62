"""An MCP server made with the official SDK, for tests. Arguments: the transport, a port (0 for stdio), and a file for notes."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CreateMessageResult, SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel

TRANSPORT, PORT, NOTES = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])

app = MCPServer("test server", version="7")


@app.tool(annotations=ToolAnnotations(title="Adds", read_only_hint=True, idempotent_hint=True))
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@app.tool(annotations=ToolAnnotations(destructive_hint=False), structured_output=False)
def note(text: str) -> str:
    """Write a line into the file of notes."""
    with NOTES.open("a") as notes:
        notes.write(text + "\n")
    return f"noted {text}"


@app.tool(annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True), structured_output=False)
def erase() -> str:
    """Erase all notes."""
    NOTES.write_text("")
    return "erased"


@app.tool(structured_output=False)
async def steps(count: int, ctx: Context) -> str:
    """Report progress."""
    for done in range(1, count + 1):
        await ctx.report_progress(done, count, f"step {done}")
    return "done"


@app.tool()
def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason)


@app.tool(structured_output=False)
def die(text: str) -> str:
    """Write a note and end the process."""
    note(text)
    os._exit(3)


@app.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True), structured_output=False)
def die_once(text: str) -> str:
    """Write a note and end the process, unless it is the second call with this text."""
    before = NOTES.read_text().splitlines() if NOTES.exists() else []
    note(text)
    if text not in before:
        os._exit(3)
    return "alive"


@app.tool(structured_output=False)
async def hang() -> str:
    """Do nothing, for ever."""
    await asyncio.Event().wait()
    return ""


@app.tool(structured_output=False)
async def grow(name: str, ctx: Context) -> str:
    """Add a tool."""
    app.add_tool(lambda: f"I am {name}", name=name, description="A new tool.", structured_output=False)
    await ctx.notify_tools_changed()
    return "grown"


@app.tool(structured_output=False)
async def shrink(name: str, ctx: Context) -> str:
    """Remove a tool."""
    app.remove_tool(name)
    await ctx.notify_tools_changed()
    return "shrunk"


@app.tool(structured_output=False)
def picture() -> list[TextContent]:
    """Return two blocks."""
    return [TextContent(type="text", text="one"), TextContent(type="text", text="two")]


class Booking(BaseModel):
    nights: int
    breakfast: bool = True


def ask_nights() -> Elicit[Booking]:
    return Elicit("How many nights?", Booking)


@app.tool(structured_output=False)
def book(booking: Annotated[Booking, Resolve(ask_nights)]) -> str:
    """Book a room, after asking for the number of nights."""
    note(f"booked {booking.nights}")
    return f"{booking.nights} nights"


def ask_model() -> Sample:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="What is the capital of Peru?"))
    return Sample([question], max_tokens=64, system_prompt="Answer in one word.")


@app.tool(structured_output=False)
def think(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the model of the client."""
    return f"the model says {answer.content.text}"


@app.resource("memo://today", mime_type="text/plain")
def today() -> str:
    """The memo of today."""
    return "buy milk"


@app.resource("memo://logo", mime_type="image/png")
def logo() -> bytes:
    """A picture."""
    return b"\x89PNG"


@app.prompt()
def greet(who: str) -> str:
    """Greet a person."""
    return f"Say hello to {who}."


async def serve() -> None:
    http = app.sse_app() if TRANSPORT == "sse" else app.streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(http, port=PORT, log_level="critical", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await serving


if TRANSPORT == "stdio":
    app.run("stdio")
else:
    asyncio.run(serve())
