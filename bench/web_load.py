"""The load over HTTP: keep-alive connections that write ready bytes. httptools reads the responses; their bodies are not parsed."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httptools

from bench.process import Server


class Connection(asyncio.Protocol):
    """One connection with one request at a time.

    Attributes:
        pieces: Pieces of the response body, as received.
    """

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[None] | None = None
        self._arrived: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's transport is one that can write

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self._done, self._arrived):
            if waiting is not None and not waiting.done():
                waiting.set_exception(ConnectionError("the server closed the connection"))

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def on_message_complete(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    async def call(self, request: bytes) -> bytes:
        """Send a request and return the response body. Raises RuntimeError if its status is not 200."""
        done = self.begin(request)
        await done
        body = b"".join(self.pieces)
        if self._parser.get_status_code() != 200:
            raise RuntimeError(f"HTTP {self._parser.get_status_code()}: {body[:500]!r}")
        self._parser = httptools.HttpResponseParser(self)
        return body

    def begin(self, request: bytes) -> asyncio.Future[None]:
        """Send a request. The future is done at the end of the response."""
        if self._transport is None:
            raise RuntimeError("not connected")
        self.pieces = []
        self._done = self._loop.create_future()
        self._transport.write(request)
        return self._done

    async def first_piece(self, request: bytes) -> None:
        """Send a request, and wait for the begin of the response body."""
        self._arrived = self._loop.create_future()
        self.begin(request)
        await self._arrived
        if self._parser.get_status_code() != 200:
            raise RuntimeError(f"HTTP {self._parser.get_status_code()}: {b''.join(self.pieces)[:500]!r}")

    def close(self) -> None:
        self._done = self._arrived = None
        if self._transport is not None:
            self._transport.abort()


class Pool:
    """Connections to one server. Each call uses a free one; there must be one."""

    def __init__(self, connections: list[Connection]) -> None:
        self._free = deque(connections)

    async def call(self, request: bytes) -> bytes:
        connection = self._free.popleft()
        body = await connection.call(request)
        self._free.append(connection)
        return body


@asynccontextmanager
async def connections_to(server: Server, count: int) -> AsyncIterator[list[Connection]]:
    host, _, port = server.http.rpartition(":")
    loop = asyncio.get_running_loop()
    opened: list[Connection] = []
    try:
        while len(opened) < count:
            _, connection = await loop.create_connection(Connection, host, int(port))
            opened.append(connection)
        yield opened
    finally:
        for connection in opened:
            connection.close()


@asynccontextmanager
async def pool_to(server: Server, count: int) -> AsyncIterator[Pool]:
    async with connections_to(server, count) as connections:
        yield Pool(connections)


def post(server: Server, path: str, body: bytes, *headers: str) -> bytes:
    """Return a whole request with a JSON body."""
    return (
        _request(server, f"POST {path}", "content-type: application/json", f"content-length: {len(body)}", *headers)
        + body
    )


def get(server: Server, path: str, *headers: str) -> bytes:
    return _request(server, f"GET {path}", *headers)


def _request(server: Server, start: str, *headers: str) -> bytes:
    lines = (f"{start} HTTP/1.1", f"host: {server.http}", "a2a-version: 1.0", *headers, "", "")
    return "\r\n".join(lines).encode()
