"""How one WebSocket behaves: uvicorn's protocol with the bounds that it lacks on what waits to be read and to be written."""

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
"""Frames of one WebSocket message. Empty ones add nothing to its size, and still something to memory."""

PIECE_BYTES = 4096
"""Bytes that are parsed before its reader is asked again; a piece of tiny frames makes some hundred messages."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    """One WebSocket, from its handshake on."""

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
        """Cut the connection; what was not written is lost."""
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
        texts: list[bytes] | None = message.get(TEXTS)  # type: ignore[assignment]  # ours, see there
        if texts is not None:
            await self._send_texts(texts)
            return
        await super().send(message)
        if self.close_sent and self.initial_response is not None:
            # Refused in HTTP, which uvicorn logs as a handshake that was forgotten.
            self.handshake_complete = True

    async def _send_texts(self, texts: list[bytes]) -> None:
        """Send messages of text in one write, as `send` does for one."""
        await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected
        if self.close_sent or not self.handshake_complete:
            raise RuntimeError("a message can be sent between the handshake and the closing frame only")
        try:
            for text in texts:
                self.conn.send_text(text)
        except InvalidState:
            raise ClientDisconnected from None
        self.transport.write(b"".join(self.conn.data_to_send()))

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._state.rejected("too_many_fragments")
            self.conn.fail(1009, f"a message may have {MAX_FRAGMENTS} frames")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Pings are answered without anybody waiting for room; a peer that takes no answers may not ask either.
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
