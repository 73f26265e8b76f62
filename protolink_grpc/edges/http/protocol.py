"""One HTTP/1.1 connection: uvicorn's protocol with additional limits.

There are timeouts for a request's headers, for the rest of an unread body, and for writing, and size limits for headers, trailers
and pipelined requests. The timeout of a body is in `request_guard`.

Closing a connection while its peer still sends would reset it, and the reset may arrive before the response. So the connection
lingers: it shuts down its sending side, discards received data, and is closed when the peer has closed it or after some seconds.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import httptools
import orjson
from uvicorn._types import ASGI3Application, ASGISendEvent, HTTPScope
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected

from protolink_grpc.edges.http.connections import PEER_CERTIFICATE, Connections, log

MAX_PIPELINE = 32
"""Maximum number of pipelined requests; clients that use pipelining send a few.

The next one is answered with 503 after those before it, and the connection is closed.
"""

LINGER_S, LINGER_BYTES = 5.0, 128 << 20
"""How long and how much is discarded after a response to an incomplete request.

It is enough for a peer that reads the response only after it has sent a body of 100 MB.
"""

MAX_UNSENT = 100
"""Number of messages to a disconnected peer after which the application gets an exception."""


class _Output:
    """The transport of a response. Closing is left to the connection, because the peer may still send data."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = close


class _Cycle(RequestResponseCycle):
    """One request with its response. Messages to a disconnected peer are dropped, as in uvicorn, but only up to a limit.

    Dropping a message yields to the event loop, so that a stream with many messages learns of the disconnect; uvicorn's does not.
    """

    unsent = 0

    def take_arrived_body(self) -> bytes | None:
        """Return the body if it has arrived completely, otherwise None.

        Most bodies have arrived when they are read, and this saves the timeout around the reading.
        """
        if self.more_body or self.disconnected or self.response_complete:
            return None
        body, self.body = bytes(self.body), bytearray()
        self.flow.resume_reading()
        self.message_event.clear()
        return body

    async def send(self, message: ASGISendEvent) -> None:
        if self.disconnected or self.transport.is_closing():
            self.unsent += 1
            if self.unsent > MAX_UNSENT:
                raise ClientDisconnected
            await asyncio.sleep(0)
        await super().send(message)


class HttpConnection(HttpToolsProtocol):
    """One HTTP/1.1 connection."""

    server_state: Connections

    def __init__(
        self, config: Config, state: Connections, app_state: dict[str, Any], loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(config, state, app_state, loop)
        self.logger = log
        self.access_log = False
        self._limits = state.limits
        self._output: Any = None
        self._in_head = True
        self._lingers = False
        self._is_overfull = False
        self._piece = 0
        self._answered: RequestResponseCycle | None = None
        # Bytes since the last complete headers, body or message.
        self._unclaimed = 0
        self._discarded = 0
        self._input_timer: asyncio.TimerHandle | None = None
        self._output_timer: asyncio.TimerHandle | None = None
        self._context = copy_context()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn's own
        super().connection_made(transport)
        self._output = _Output(transport, self._finish)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, PEER_CERTIFICATE: certificate}
        most = self._limits.max_connections
        if self.server_state.is_stopping:
            transport.abort()
        elif len(self.connections) > most:
            self._refuse(503, "too_many_connections", "too many connections: try again later")
            if len(self.connections) > most + most // 10:
                transport.abort()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_input_timer()
        self._stop_output_timer()
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        answered = self._answered
        if answered is not None and answered is not self.cycle and not answered.response_complete:
            # uvicorn notifies the last request only, which may still be in the pipeline.
            answered.disconnected = True
            answered.message_event.set()
        super().connection_lost(exc)
        self.server_state.lost()

    def abort(self, reason: str) -> None:
        """Close the connection without sending buffered data."""
        self.server_state.rejected(reason)
        self.transport.abort()

    # Input

    def data_received(self, data: bytes) -> None:
        limit = self._limits.max_header_bytes
        self.server_state.bytes_received += len(data)
        if self._is_overfull and not self._lingers:
            self._discard(len(data))
            return
        if len(data) <= limit and not self._lingers:
            self._parse(data)
            return
        for start in range(0, len(data), limit):
            if self._lingers:
                self._discard(len(data) - start)
                return
            self._parse(data[start : start + limit])

    def _parse(self, data: bytes) -> None:
        self._piece = len(data)
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        self._feed(data)
        if self._is_overfull:
            return
        self._unclaimed += self._piece
        if self._unclaimed > 0:
            self._check_unclaimed()
        if self._input_timer is not None and not self._in_head:
            # A request that was answered while its body is still arriving.
            self._discard(self._piece)

    def _check_unclaimed(self) -> None:
        """Check the size and the age of received bytes that are not yet complete headers or body."""
        if self._unclaimed > self._limits.max_header_bytes:
            what = "the headers" if self._in_head else "the trailers or chunk extensions"
            self._refuse(431, "headers_too_large", f"{what} have more than {self._limits.max_header_bytes} bytes")
        elif self._in_head and self._input_timer is None and not self._is_answering() and not self._lingers:
            self._expect_head()

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            elif self.scope["method"] == "CONNECT":
                self.send_400_response("")
            else:
                self._stay_with_http(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            if not self._is_overfull:
                self.send_400_response("")

    def _stay_with_http(self, rest: bytes) -> None:
        """Handle a request that offers an upgrade (to HTTP/2, as Java's client does) as plain HTTP/1.1.

        The parser has skipped its body, so the request is parsed again without the offer.

        Args:
            rest: The bytes after its headers.
        """
        closing = b"connection: close\r\n" if _requests_close(self.headers) else b""
        kept = [each for each in self.headers if each[0] not in _OFFER]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        head = b"%b %b HTTP/1.1\r\n%b%b\r\n" % (
            self.scope["method"].encode(),
            self.url,
            b"".join(name + b": " + value + b"\r\n" for name, value in kept),
            closing,
        )
        self._feed(head + rest)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unclaimed = -self._piece
        self._stop_input_timer()
        if len(self.pipeline) >= MAX_PIPELINE:
            self._is_overfull = True
            raise ConnectionAbortedError("too many requests in a pipeline")  # stops the parser at the received data
        parser, scope = self.parser, self.scope
        scope["method"] = parser.get_method().decode("ascii")
        if parser.should_upgrade():
            return
        version = parser.get_http_version()
        if version != "1.1":
            scope["http_version"] = version
        self._set_target(scope)
        # Trailers would be appended to headers that have been checked already.
        self.headers = []
        self._begin(
            _Cycle(
                scope,
                self._output,
                self.flow,
                log,
                self.access_logger,
                False,
                self.server_state.default_headers,
                asyncio.Event(),
                self.expect_100_continue,
                version != "1.0" and parser.should_keep_alive(),
                self.on_response_complete,
            )
        )

    def _set_target(self, scope: HTTPScope) -> None:
        url = httptools.parse_url(self.url)
        raw_path = url.path or b"/"
        path = raw_path.decode("ascii")
        scope["path"] = self.root_path + (unquote(path) if "%" in path else path)
        scope["raw_path"] = self.root_path.encode("ascii") + raw_path
        scope["query_string"] = url.query or b""

    def _begin(self, cycle: _Cycle) -> None:
        before, self.cycle = self.cycle, cycle
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        # A pipelined request is started by the asyncio task of the previous one, whose context may contain that request's caller.
        self._context.run(super()._start_asgi_task, cycle, app)

    def on_body(self, body: bytes) -> None:
        self._unclaimed = -self._piece
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._unclaimed = -self._piece
        if self._input_timer is not None:
            # The response was sent before the body arrived; the connection can be reused.
            self._stop_input_timer()
            self._discarded = 0
            self._keep_alive()

    def _keep_alive(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._input_timer = self.loop.call_later(self._limits.header_timeout_s, self._handle_late_head)

    def _handle_late_head(self) -> None:
        self._input_timer = None
        if self._unclaimed > 0:
            self._refuse(408, "slow_headers", f"the headers did not arrive within {self._limits.header_timeout_s:g} s")
        else:
            self.server_state.rejected("silent")
            self.transport.close()

    def _stop_input_timer(self) -> None:
        if self._input_timer is not None:
            self._input_timer.cancel()
            self._input_timer = None

    def handle_websocket_upgrade(self) -> None:
        self._stop_input_timer()
        if self._is_answering():
            self.abort("malformed")
            return
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "malformed", "this is not a valid HTTP/1.1 request")

    # The end of a request, and of the connection

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_overfull:
            if self.cycle.response_complete:
                self._refuse(503, "long_pipeline", f"at most {MAX_PIPELINE} requests may wait on one connection")
            return
        if not self._in_head and not self._lingers and self.cycle.response_complete:
            self._stop_input_timer()
            self._input_timer = self.loop.call_later(LINGER_S, self._end_lingering)

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.abort("slow_reader")
        else:
            super().timeout_keep_alive_handler()

    def _refuse(self, status: int, reason: str, message: str) -> None:
        """Send an error response and close the connection."""
        if self._lingers or self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.response_started or self.pipeline:
                self.abort(reason)  # the response would be sent in the middle of another
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.server_state.rejected(reason)
        self.transport.write(_encode_refusal(status, message, self.server_state.default_headers))
        self._linger()

    def _finish(self) -> None:
        """Close when everything is written and the peer's data is read."""
        if not self._in_head:
            self._linger()
            return
        self.transport.close()
        if self._output_timer is None and self.transport.get_write_buffer_size():
            self._expect_reading()

    def _linger(self) -> None:
        self._lingers = True
        self.pipeline.clear()
        self._stop_input_timer()
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._input_timer = self.loop.call_later(LINGER_S, self._end_lingering)

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > LINGER_BYTES:
            self._end_lingering()

    def _end_lingering(self) -> None:
        self._input_timer = None
        self.transport.abort()

    # Output

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._output_timer is None:
            self._expect_reading()

    def resume_writing(self) -> None:
        self._stop_output_timer()
        super().resume_writing()

    def _expect_reading(self) -> None:
        self._output_timer = self.loop.call_later(self._limits.write_timeout_s, self.abort, "slow_reader")

    def _stop_output_timer(self) -> None:
        if self._output_timer is not None:
            self._output_timer.cancel()
            self._output_timer = None


_OFFER = frozenset({b"connection", b"upgrade", b"http2-settings"})


def _requests_close(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"connection" and b"close" in value.lower() for name, value in headers)


def _encode_refusal(status: int, message: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    body = orjson.dumps({"error": {"code": status, "status": HTTPStatus(status).name, "message": message}})
    lines = [STATUS_LINE[status], *(name + b": " + value + b"\r\n" for name, value in headers)]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        lines.append(b"retry-after: 1\r\n")
    lines.append(b"content-type: application/json\r\nconnection: close\r\ncache-control: no-store\r\n")
    lines.append(b"x-content-type-options: nosniff\r\ncontent-length: %d\r\n\r\n" % len(body))
    return b"".join((*lines, body))
