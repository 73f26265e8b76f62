"""One WebSocket: uvicorn's protocol with additional limits for received and for unsent data."""

import asyncio
from typing import Any

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame

from protolink_grpc.edges.http.connections import TEXTS, Connections, log

MAX_FRAGMENTS = 4096
"""Maximum number of frames of one message. Empty frames do not count for the size of a message but need memory."""

PIECE_BYTES = 4096
"""Bytes that are parsed between two checks whether reading is paused. A piece of tiny frames contains some hundred messages."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    """One WebSocket, from the handshake to the end."""

    def __init__(self, config: Config, server_state: Connections, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = self.conn.logger = log
        self._state = server_state
        self._held = b""
        self._output_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_output_timer()
        self._held = b""
        super().connection_lost(exc)
        self._state.lost()

    def abort(self, reason: str) -> None:
        """Close the connection without sending buffered data."""
        self._state.rejected(reason)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._held:
            self._held += data
            return
        for start in range(0, len(data), PIECE_BYTES):
            if self.read_paused:
                self._held = data[start:]
                return
            super().data_received(data[start : start + PIECE_BYTES])

    async def receive(self) -> ASGIReceiveEvent:
        message = await super().receive()
        if self._held and not self.read_paused and not self.disconnected:
            held, self._held = self._held, b""
            self.data_received(held)
        return message

    async def run_asgi(self) -> None:
        self.scope["extensions"][TEXTS] = {}
        await super().run_asgi()

    async def send(self, message: ASGISendEvent) -> None:
        texts: list[bytes] | None = message.get(TEXTS)  # type: ignore[assignment]  # an extension, see TEXTS
        if texts is not None:
            await self._send_texts(texts)
            return
        await super().send(message)
        if self.close_sent and self.initial_response is not None:
            # The handshake was refused with an HTTP response, which uvicorn would log as an incomplete handshake.
            self.handshake_complete = True

    async def _send_texts(self, texts: list[bytes]) -> None:
        """Send several text messages in one write."""
        await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected
        if self.close_sent or not self.handshake_complete:
            raise RuntimeError("a message can only be sent between the handshake and the close frame")
        try:
            for text in texts:
                self.conn.send_text(text)
        except InvalidState:
            raise ClientDisconnected from None
        self.transport.write(b"".join(self.conn.data_to_send()))

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._state.rejected("too_many_fragments")
            self.conn.fail(1009, f"a message may have at most {MAX_FRAGMENTS} frames")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Answers to pings are written even if the buffer is full, so a peer that does not read must not send pings either.
        self.transport.pause_reading()
        if self._output_timer is None:
            self._output_timer = self.loop.call_later(self._state.limits.write_timeout_s, self.abort, "slow_reader")

    def resume_writing(self) -> None:
        self._stop_output_timer()
        super().resume_writing()
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _stop_output_timer(self) -> None:
        if self._output_timer is not None:
            self._output_timer.cancel()
            self._output_timer = None
