"""How an MCP server is reached: a command to start, or a URL. Loads the `mcp` package when a connection is opened."""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from protolink_grpc.auth.confidential import check_headers
from protolink_grpc.errors import InvalidArgumentError, UnimplementedError

HTTP_TIMEOUT_S = 30.0
HTTP_READ_TIMEOUT_S = 300.0
"""Timeouts of HTTP requests, and of the pause between two parts of a streamed response, in seconds. Source: the SDK's defaults."""

McpTransport = Literal["stdio", "sse", "streamable_http"]


@dataclass(frozen=True, slots=True)
class McpServer:
    """The address of an MCP server.

    Args:
        command: Program to start for `stdio`.
        env: Variables of that program in addition to a few of this process, such as PATH. Others are not inherited.
        cwd: Its working directory.
        url: Endpoint for `sse` and `streamable_http`.
        headers: Headers of each HTTP request.
        insecure_ok: Whether headers with credentials may be sent unencrypted to another machine.

    Raises:
        InvalidArgumentError: An argument is missing, or belongs to another transport; names the field.
    """

    transport: McpTransport
    command: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    insecure_ok: bool = False

    def __post_init__(self) -> None:
        own, other = ("command", "url") if self.transport == "stdio" else ("url", "command")
        if not getattr(self, own):
            raise InvalidArgumentError(f"is required for the transport {self.transport}", field=own)
        if getattr(self, other):
            raise InvalidArgumentError(f"is not used by the transport {self.transport}", field=other)
        if self.url:
            if urlsplit(self.url).scheme not in {"http", "https"}:
                raise InvalidArgumentError("must be an http:// or https:// URL", field="url")
            check_headers(self.headers.items(), self.url, insecure_ok=self.insecure_ok)

    def __str__(self) -> str:
        """A short name for logs and errors, without arguments, queries and credentials."""
        if self.command:
            return os.path.basename(self.command)
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        """Open the transport; yields the SDK's streams for reading and writing. Open and close it in the same asyncio task.

        Raises:
            Exception: Any exception of the transport.
        """
        if self.transport == "stdio":
            from mcp import StdioServerParameters, stdio_client

            parameters = StdioServerParameters(
                command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd
            )
            async with stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr) as streams:
                yield streams
        elif self.transport == "sse":
            from mcp.client.sse import sse_client

            async with sse_client(
                self.url, dict(self.headers), timeout=HTTP_TIMEOUT_S, sse_read_timeout=HTTP_READ_TIMEOUT_S
            ) as streams:
                yield streams
        else:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            # A server may hold the stream of a response open.
            timeout = httpx2.Timeout(HTTP_TIMEOUT_S, read=HTTP_READ_TIMEOUT_S)
            async with (
                httpx2.AsyncClient(headers=dict(self.headers), timeout=timeout) as http,
                streamable_http_client(self.url, http_client=http) as streams,
            ):
                yield streams


def require_sdk() -> None:
    """Raise UnimplementedError unless the `mcp` extra is installed."""
    try:
        import mcp  # noqa: F401 -- only whether it exists
    except ImportError as error:
        raise UnimplementedError("MCP needs the extra: pip install 'protolink-grpc[mcp]'") from error
