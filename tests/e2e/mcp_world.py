"""MCP servers in processes of their own, over each transport."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from protolink_grpc import MCPToolAdapter

SERVER = str(Path(__file__).with_name("mcp_server.py"))
RAW_SERVER = str(Path(__file__).with_name("mcp_raw_server.py"))
START_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class McpWorld:
    """One server made with the official SDK. `notes` is a file in which its tools write what they do."""

    transport: str
    notes: Path
    port: int = 0
    process: asyncio.subprocess.Process | None = None

    @property
    def arguments(self) -> list[str]:
        return [SERVER, self.transport, str(self.port), str(self.notes)]

    async def start(self) -> None:
        """Start a server for HTTP and wait until it listens. A stdio server is started by its adapter."""
        if self.transport == "stdio":
            return
        self.port = self.port or free_port()
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, *self.arguments, stdout=asyncio.subprocess.PIPE
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(START_S):
            assert await self.process.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def wait(self) -> None:
        """Wait until a server for HTTP has ended by itself."""
        if self.process is not None:
            async with asyncio.timeout(START_S):
                await self.process.wait()

    def adapter(self, **settings: object) -> MCPToolAdapter:
        if self.transport == "stdio":
            return MCPToolAdapter("stdio", command=sys.executable, args=self.arguments, **settings)  # type: ignore[arg-type]
        path = "sse" if self.transport == "sse" else "mcp"
        url = f"http://127.0.0.1:{self.port}/{path}"
        return MCPToolAdapter(self.transport, url=url, **settings)  # type: ignore[arg-type]

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []


def raw_adapter(habits: Sequence[str] = (), **settings: object) -> MCPToolAdapter:
    """The adapter of the server that is written by hand."""
    return MCPToolAdapter("stdio", command=sys.executable, args=[RAW_SERVER, *habits], **settings)  # type: ignore[arg-type]
