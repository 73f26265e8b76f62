"""A TCP proxy in front of a gRPC server that breaks connections and streams on request of a scripted agent.

The agent sends a marker: a response for the proxy, in the stream to break. The proxy reads the server's HTTP/2 frames, forwards
everything before the marker, and then executes the marker. It does not read headers.
"""

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from protolink_grpc.net.address import Address
from protolink_grpc.wire.scalars import bytes_field, tag

PREFACE_BYTES: Final = 24
"""The client's bytes before its first frame. Source: RFC 9113, section 3.4."""

HEADER_BYTES: Final = 9
"""A frame's header: 3 bytes of length, type, flags, 4 bytes of stream id. Source: RFC 9113, section 4.1."""

DATA, HEADERS, RST_STREAM = 0, 1, 3
CANCEL: Final = 8
"""Frame types, and the error code for the server."""

MESSAGE_PREFIX_BYTES: Final = 5
"""gRPC's prefix of each message."""

SHOWN_S: Final = 0.1
"""How long the proxy waits before a break, because some clients discard received messages that they have not delivered by then. The
protocol does not show when they have been delivered."""

_STREAM_ID: Final = 0x7FFFFFFF
_MARKER_TAG: Final = tag(1002)  # a field number that no response uses
_MARKER: Final = struct.Struct(">16sBI")
_BEFORE_MARKER: Final = MESSAGE_PREFIX_BYTES + len(bytes_field(_MARKER_TAG, bytes(_MARKER.size))) - _MARKER.size


class Break(IntEnum):
    """What a marker requests; its number is a parameter."""

    RESET = 1
    """End the stream with RST_STREAM; the number is the error code."""
    OUTAGE = 2
    """Close every connection, and refuse new ones for that number of milliseconds."""


@dataclass(slots=True)
class _Countdown:
    """The messages of a stream that are still forwarded. `unread` is the last one if it is incomplete."""

    left: int
    unread: bytes = b""

    def find_end(self, payload: bytes) -> int | None:
        """Count the messages that end in the next data of the stream. Returns where the last one ends, or None."""
        before = len(self.unread)
        data = self.unread + payload
        at = 0
        while len(data) >= at + MESSAGE_PREFIX_BYTES:
            end = at + MESSAGE_PREFIX_BYTES + int.from_bytes(data[at + 1 : at + MESSAGE_PREFIX_BYTES])
            if len(data) < end:
                break
            at = end
            self.left -= 1
            if self.left == 0:
                return at - before
        self.unread = data[at:]
        return None


@dataclass(eq=False, slots=True)
class _Link:
    """A client's connection and the corresponding connection to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    countdown: _Countdown | None = None
    reset: set[int] = field(default_factory=set)
    # The last data of each stream, because a marker may be split across two frames.
    tails: dict[int, bytes] = field(default_factory=dict)

    @property
    def port(self) -> str:
        """The port of this machine from which the server is connected."""
        return str(self.server.get_extra_info("sockname")[1])

    def abort(self) -> None:
        for end in (self.client, self.server):
            end.transport.abort()


class HostileProxy:
    """Forwards connections of clients to one server while `serve` is entered.

    Attributes:
        url: The address for clients.
    """

    def __init__(self) -> None:
        self.url = ""
        self._secret = secrets.token_bytes(16)  # random, so that echoed text is never a marker
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._down_until = 0.0

    def marker(self, what: Break, number: int) -> bytes:
        """The response that makes the proxy break its stream or more. Only for calls that came through the proxy."""
        return bytes_field(_MARKER_TAG, _MARKER.pack(self._secret, what, number))

    def carries(self, peer: str) -> bool:
        """Whether a call came through the proxy. `peer` is the server's name for its client, such as `ipv4:127.0.0.1:50000`."""
        port = peer.rpartition(":")[2]
        return any(link.port == port for link in self._links)

    def close_connection(self, peer: str) -> None:
        """Close the connection of a call, to the client and to the server. `peer` is as in `carries`."""
        port = peer.rpartition(":")[2]
        for link in [each for each in self._links if each.port == port]:
            link.abort()

    def close_connection_after(self, peer: str, messages: int) -> None:
        """As `close_connection`, when the client has received so many messages of a call, which must be the only one."""
        port = peer.rpartition(":")[2]
        for link in [each for each in self._links if each.port == port]:
            link.countdown = _Countdown(messages)

    @asynccontextmanager
    async def serve(self, server: Address) -> AsyncIterator[None]:
        """Listen on a free port of the loopback address and forward to `server` until the block is left."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._carry(reader, writer, server))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        listening = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.url = f"grpc://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            listening.close()
            for link in self._links:
                link.abort()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Address) -> None:
        """Forward both directions until one of them ends."""
        if asyncio.get_running_loop().time() < self._down_until:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(server.host, server.port)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, far_writer)
        self._links.add(link)
        try:
            directions = {
                asyncio.ensure_future(self._to_server(reader, link)),
                asyncio.ensure_future(self._to_client(far_reader, link)),
            }
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for each in directions:
                each.cancel()
            await asyncio.wait(directions)
        finally:
            link.abort()
            self._links.discard(link)

    async def _to_server(self, reader: asyncio.StreamReader, link: _Link) -> None:
        # Frame by frame, so that the proxy can insert frames of its own.
        with suppress(EOFError, OSError):
            link.server.write(await reader.readexactly(PREFACE_BYTES))
            async for header, payload in _frames(reader):
                link.server.write(header + payload)
                await link.server.drain()

    async def _to_client(self, reader: asyncio.StreamReader, link: _Link) -> None:
        with suppress(EOFError, OSError):
            async for header, payload in _frames(reader):
                stream_id = _stream_id(header)
                if header[3] == DATA and stream_id in link.reset:
                    continue
                if header[3] == DATA and link.countdown and (end := link.countdown.find_end(payload)) is not None:
                    link.client.write(frame(DATA, stream_id, payload[:end]))
                    await asyncio.sleep(SHOWN_S)
                    return
                if header[3] == DATA and (found := self._find_marker(link, stream_id, payload)) is not None:
                    at, what, number = found
                    if at > 0:
                        link.client.write(frame(DATA, stream_id, payload[:at]))
                    await asyncio.sleep(SHOWN_S)
                    self._break(link, stream_id, what, number)
                    continue
                if header[3] == HEADERS:
                    link.tails.pop(stream_id, None)  # trailers: before its data a stream has no marker
                link.client.write(header + payload)
                await link.client.drain()

    def _find_marker(self, link: _Link, stream_id: int, payload: bytes) -> tuple[int, Break, int] | None:
        """Find a marker in the data. Returns its position and content."""
        tail = link.tails.pop(stream_id, b"")
        data = tail + payload
        at = data.find(self._secret)
        if at < 0 or len(data) < at + _MARKER.size:
            link.tails[stream_id] = data[-_MARKER.size :]
            return None
        _, what, number = _MARKER.unpack_from(data, at)
        return at - _BEFORE_MARKER - len(tail), Break(what), number

    def _break(self, link: _Link, stream_id: int, what: Break, number: int) -> None:
        if what is Break.RESET:
            link.reset.add(stream_id)
            link.client.write(frame(RST_STREAM, stream_id, number.to_bytes(4)))
            # Also to the server, so that it sends no trailers: the client would ignore them, but HPACK requires decoding them.
            link.server.write(frame(RST_STREAM, stream_id, CANCEL.to_bytes(4)))
            return
        self._down_until = asyncio.get_running_loop().time() + number / 1000
        for each in list(self._links):
            each.abort()


def frame(kind: int, stream_id: int, payload: bytes) -> bytes:
    """Encode an HTTP/2 frame without flags."""
    return len(payload).to_bytes(3) + bytes([kind, 0]) + stream_id.to_bytes(4) + payload


def _stream_id(header: bytes) -> int:
    return int.from_bytes(header[5:HEADER_BYTES]) & _STREAM_ID


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield the frames of a connection as header and payload. Raises EOFError at the end of the connection, or OSError."""
    while True:
        header = await reader.readexactly(HEADER_BYTES)
        yield header, await reader.readexactly(int.from_bytes(header[:3]))
