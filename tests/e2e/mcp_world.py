"""MCP servers in processes of their own, over each transport, and the official client."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ports import free_port
from warm_python import Process, start_python, warm_executable

from protolink_grpc import MCPToolAdapter

SERVER = str(Path(__file__).with_name("mcp_server.py"))
RAW_SERVER = str(Path(__file__).with_name("mcp_raw_server.py"))
START_S = 60.0

SDK = ("mcp.server.mcpserver", "uvicorn")
"""What a server imports: once for all of them, because it takes longer than most tests."""


@asynccontextmanager
async def mcp_client(url: str, headers: dict[str, str] | None = None, **options: Any) -> AsyncIterator[Any]:
    """The official client of an agent with an HTTP port, over streamable HTTP; `options` are those of the client."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=headers or {}, timeout=START_S) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **options) as client,
    ):
        yield client


@dataclass
class McpWorld:
    """One server made with the official SDK. `notes` is a file in which its tools write what they do."""

    transport: str
    notes: Path
    port: int = 0
    process: Process | None = None

    @property
    def arguments(self) -> list[str]:
        return [SERVER, self.transport, str(self.port), str(self.notes)]

    async def start(self) -> None:
        """Start a server for HTTP and wait until it listens. A stdio server is started by its adapter."""
        if self.transport == "stdio":
            return
        self.port = self.port or free_port()
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        ours, theirs = os.pipe()
        with open(ours) as output, open(os.devnull) as null:
            try:
                files = {"stdin": null.fileno(), "stdout": theirs}
                self.process = start_python(*self.arguments, **files, imports=SDK)
            finally:
                os.close(theirs)
            assert output.readline() == "ready\n"

    async def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            await self.wait()

    async def wait(self) -> None:
        """Wait until a server for HTTP has ended by itself."""
        if self.process is not None:
            await asyncio.to_thread(self.process.wait, START_S)

    def adapter(self, **settings: object) -> MCPToolAdapter:
        if self.transport == "stdio":
            return MCPToolAdapter("stdio", command=warm_executable(*SDK), args=self.arguments, **settings)  # type: ignore[arg-type]
        path = "sse" if self.transport == "sse" else "mcp"
        url = f"http://127.0.0.1:{self.port}/{path}"
        return MCPToolAdapter(self.transport, url=url, **settings)  # type: ignore[arg-type]

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []


def raw_adapter(habits: Sequence[str] = (), **settings: object) -> MCPToolAdapter:
    """The adapter of the server that is written by hand."""
    return MCPToolAdapter("stdio", command=sys.executable, args=[RAW_SERVER, *habits], **settings)  # type: ignore[arg-type]
