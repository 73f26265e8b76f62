"""How one HTTP/1.1 connection behaves: uvicorn's protocol with the bounds that it lacks.

A peer can make a server wait, and it can make it keep. What is waited for has a time: the head of a request, the rest of a body
that nobody reads any more, room to write. What is kept has a size: a head, trailers, requests in a pipeline. The time of a body is
its reader's business (`request_guard`).

A connection that is closed while its peer still sends would be reset, and the reset may overtake the answer. So it lingers: it says
that no more will come, throws away what arrives, and is cut when the peer has closed too or some seconds are over.
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
"""Requests that may wait behind the one that is answered. Clients that pipeline at all send a handful. The next one is answered
with 503 when those before it are, and the connection is closed."""

LINGER_S, LINGER_BYTES = 5.0, 128 << 20
"""How long, and how much, is thrown away after an answer that came before its request was complete: enough for a peer that looks
for the answer only when it has sent a body of 100 MB."""

MAX_UNHEARD = 100
"""Messages to a peer that has left, after which the application is told by an exception."""


class _Output:
    """The transport as a response sees it: closing is left to the connection, which knows what its peer still sends."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = close


class _Cycle(RequestResponseCycle):
    """One request with its answer. What is sent to a peer that has left is dropped, as uvicorn does, but not for ever nor at once.

    uvicorn's own returns without giving way, so a stream with much to say would keep the loop from telling it that nobody listens.
    """

    unheard = 0

    def take_arrived_body(self) -> bytes | None:
        """Return the body instead of receiving it, if it has arrived completely; else None.

        Most bodies are there when they are read, and this saves the timeout around the reading.
        """
        if self.more_body or self.disconnected or self.response_complete:
            return None
        body, self.body = bytes(self.body), bytearray()
        self.flow.resume_reading()
        self.message_event.clear()
        return body

    async def send(self, message: ASGISendEvent) -> None:
        if self.disconnected or self.transport.is_closing():
            self.unheard += 1
            if self.unheard > MAX_UNHEARD:
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
        # Bytes since the last head, body or message that they became part of.
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
            # uvicorn tells the request that came last, which waits in the pipeline.
            answered.disconnected = True
            answered.message_event.set()
        super().connection_lost(exc)
        self.server_state.lost()

    def abort(self, reason: str) -> None:
        """Cut the connection; what was not written is lost."""
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
            self._judge_unclaimed()
        if self._input_timer is not None and not self._in_head:
            # An answered request whose body still comes.
            self._discard(self._piece)

    def _judge_unclaimed(self) -> None:
        """Bytes came that are neither a whole head nor body: how many, and since when?"""
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
        """Take a request that offers another protocol (HTTP/2, as Java's client does) for the plain one that it is too.

        The parser has skipped its body, so the request is parsed again without the offer.

        Args:
            rest: What came after its head.
        """
        closing = b"connection: close\r\n" if _closes(self.headers) else b""
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
            raise ConnectionAbortedError("too many requests in a pipeline")  # ends the parser's work on what has come
        parser, scope = self.parser, self.scope
        scope["method"] = parser.get_method().decode("ascii")
        if parser.should_upgrade():
            return
        version = parser.get_http_version()
        if version != "1.1":
            scope["http_version"] = version
        self._target(scope)
        # Trailers would be appended to headers that were judged already.
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

    def _target(self, scope: HTTPScope) -> None:
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
        # One from a pipeline is started by the task of the one before, whose context may say who that one's caller is.
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
            # The answer was there before the body; the connection is as good as new.
            self._stop_input_timer()
            self._discarded = 0
            self._stay()

    def _stay(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._input_timer = self.loop.call_later(self._limits.header_timeout_s, self._head_is_late)

    def _head_is_late(self) -> None:
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
        self._refuse(400, "malformed", "this is no HTTP/1.1 request")

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
        """Answer for the application, and end the connection."""
        if self._lingers or self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.response_started or self.pipeline:
                self.abort(reason)  # an answer of ours would land in the middle of another
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.server_state.rejected(reason)
        self.transport.write(_refusal(status, message, self.server_state.default_headers))
        self._linger()

    def _finish(self) -> None:
        """Close once everything is written, and what the peer sends is read."""
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


def _closes(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"connection" and b"close" in value.lower() for name, value in headers)


def _refusal(status: int, message: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    body = orjson.dumps({"error": {"code": status, "status": HTTPStatus(status).name, "message": message}})
    lines = [STATUS_LINE[status], *(name + b": " + value + b"\r\n" for name, value in headers)]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        lines.append(b"retry-after: 1\r\n")
    lines.append(b"content-type: application/json\r\nconnection: close\r\ncache-control: no-store\r\n")
    lines.append(b"x-content-type-options: nosniff\r\ncontent-length: %d\r\n\r\n" % len(body))
    return b"".join((*lines, body))
