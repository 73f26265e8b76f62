"""Server-sent events: a response that sends batches as they arrive and ends when its client disconnects.

The next batch is read when the last one has been sent, so a slow client needs memory for one batch only. Format: WHATWG HTML,
"Server-sent events".
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from protolink_grpc.auth.stream_quota import StreamSlot
from protolink_grpc.edges.http.bounded_wait import BoundedWait, BoundedWaits, watch_disconnect
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError
from protolink_grpc.logs import get_logger
from protolink_grpc.net.response_headers import ResponseHeaders

log = get_logger(__name__)

KEEPALIVE_S = 15.0
"""Interval of keepalive comments on an idle stream, in seconds: proxies close idle connections after a minute."""

SHUTDOWN_FRAME = b"retry: 1000\n: the server is shutting down: reconnect with Last-Event-ID\n\n"


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """The format of a stream.

    Attributes:
        keepalive: The keepalive frame, or empty if the format has none.
        shutdown: The last frame if the server shuts down before the stream has ended.
        is_last: Returns whether a batch is the last one.
    """

    media_type: str
    keepalive: bytes
    shutdown: bytes
    is_last: Callable[[bytes], bool] = lambda batch: False


SSE = StreamFormat("text/event-stream", b":\n\n", SHUTDOWN_FRAME)

Batches = AsyncGenerator[bytes, None]
"""Batches of concatenated frames."""


class OpenStreams:
    """The open streams of one server. Sends keepalives to idle ones, and ends all at shutdown."""

    def __init__(self, keepalive_s: float = KEEPALIVE_S) -> None:
        self._keepalive_s = keepalive_s
        self._open: set[EventStream] = set()
        self._ticker: asyncio.Task[None] | None = None
        self._draining = False
        self.waits = BoundedWaits()

    @property
    def is_draining(self) -> bool:
        return self._draining

    def reopen(self) -> None:
        """Accept streams again, when the server has started again."""
        self._draining = False

    def add(self, stream: "EventStream") -> None:
        self._open.add(stream)
        if self._ticker is None or self._ticker.done():
            self._ticker = asyncio.get_running_loop().create_task(self._tick())

    def remove(self, stream: "EventStream") -> None:
        self._open.discard(stream)

    def drain(self) -> None:
        """End every stream after its current batch, and new ones at once."""
        self._draining = True
        for stream in list(self._open):
            stream.end()
        if self._ticker is not None:
            self._ticker.cancel()

    async def _tick(self) -> None:
        # One timer for all streams, because a timer per idle stream would cost more than the stream.
        while self._open:
            await asyncio.sleep(self._keepalive_s)
            for stream in list(self._open):
                stream.keep_alive()


class EventStream(Response):
    """A response of many batches, as server-sent events or in another format.

    Args:
        first: The first frames. They are read before the response starts, so that their failure is an ordinary error.
        rest: The further batches.
        error_frame: Creates the last frame of a stream that fails.
        slot: Released when the stream has ended.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        first: bytes,
        rest: Batches,
        streams: OpenStreams,
        error_frame: Callable[[Exception], bytes] | None = None,
        *,
        stream_format: StreamFormat = SSE,
        slot: StreamSlot | None = None,
        headers: ResponseHeaders | None = None,
    ) -> None:
        further = {} if headers is None else headers.begin()
        super().__init__(
            None, 200, {"cache-control": "no-cache", "x-accel-buffering": "no", **further}, stream_format.media_type
        )
        del self.headers["content-length"]
        self._first = first
        self._rest = rest
        self._streams = streams
        self._error_frame = error_frame
        self._format = stream_format
        self._slot = slot
        self._send: Send | None = None
        self._task: asyncio.Task[object] | None = None
        self._quiet = self._busy = self._ended = self._complete = False
        self._pings: set[asyncio.Task[None]] = set()

    def end(self) -> None:
        """End the stream after the current batch."""
        if not self._ended and self._task is not None:
            self._ended = True
            self._task.cancel()

    def keep_alive(self) -> None:
        """Send a keepalive if nothing was sent since the last one."""
        keepalive = self._format.keepalive
        if keepalive and self._quiet and not self._busy and not self._ended:
            ping = asyncio.get_running_loop().create_task(self._write(keepalive))
            self._pings.add(ping)
            ping.add_done_callback(self._pings.discard)
        self._quiet = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._respond(scope, receive, send)
        finally:
            if self._slot is not None:
                self._slot.release()

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # a HEAD request does not read the stream and would never end it
            await self._rest.aclose()
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        self._send = send
        self._task = asyncio.current_task()
        watcher = asyncio.get_running_loop().create_task(watch_disconnect(receive, self.end))
        self._streams.add(self)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._send_batches()
        except asyncio.CancelledError:
            if not self._ended or self._task is None:
                raise
            self._task.uncancel()  # canceled by `end`, not by the server
        finally:
            self._ended = True
            self._streams.remove(self)
            for each in (watcher, *self._pings):
                each.cancel()
            with suppress(RuntimeError):  # the generator is running: its asyncio task was canceled in the middle
                await self._rest.aclose()
        if self._streams.is_draining and not self._complete:
            await send({"type": "http.response.body", "body": self._format.shutdown, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_batches(self) -> None:
        try:
            # Also at shutdown: without the first batch, a client could not resume the stream.
            await self._write(self._first)
            self._first = b""
            if self._streams.is_draining:
                return
            async with aclosing(self._rest) as batches:
                async for frames in batches:
                    await self._write(frames)
            self._complete = True
        except OSError as error:
            # An OSError means that the client has disconnected; errors of the stream are ProtolinkErrors.
            if isinstance(error, ProtolinkError):
                await self._send_error(error)
        except Exception as error:
            await self._send_error(error)

    async def _send_error(self, error: Exception) -> None:
        if self._error_frame is None:
            raise error
        await self._write(self._error_frame(error))
        self._complete = True

    async def _write(self, frames: bytes) -> None:
        if self._send is None or not frames:
            return
        self._quiet, self._busy = False, True
        self._complete = self._complete or self._format.is_last(frames)
        try:
            await self._send({"type": "http.response.body", "body": frames, "more_body": True})
        finally:
            self._busy = False


async def open_stream(
    request: Request,
    batches: Batches,
    streams: OpenStreams,
    error_frame: Callable[[Exception], bytes],
    slot: StreamSlot,
    *,
    stream_format: StreamFormat = SSE,
    headers: ResponseHeaders | None = None,
) -> EventStream:
    """Open a stream and read its first batch. An error of the first batch is raised and releases the slot."""
    try:
        with BoundedWait(streams.waits, request.receive):
            first = await _read_first(batches)
    except BaseException:
        slot.release()
        raise
    return EventStream(first, batches, streams, error_frame, stream_format=stream_format, slot=slot, headers=headers)


async def _read_first(batches: Batches) -> bytes:
    """Return the first batch, which is empty for an empty stream. An error closes the stream and is raised."""
    try:
        return await anext(batches)
    except StopAsyncIteration:
        return b""
    except BaseException:
        await batches.aclose()
        raise


def event_frame(data: bytes, sequence: int = 0) -> bytes:
    """Encode one event. `data` has no line breaks. A sequence becomes its id, with which a client can resume the stream."""
    if sequence:
        return b"id: %d\ndata: %b\n\n" % (sequence, data)
    return b"data: %b\n\n" % data


def last_event_id(request: Request) -> int | None:
    """Return the sequence after which a client resumes an earlier stream; None for a new stream.

    Raises:
        InvalidArgumentError: The Last-Event-ID is not an event id of this server.
    """
    text = request.headers.get("last-event-id", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidArgumentError("must be the id of an event of this stream", field="Last-Event-ID")
    return int(text)
