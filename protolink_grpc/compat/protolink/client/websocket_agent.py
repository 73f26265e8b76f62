"""A ProtoLink agent over WebSocket, with one connection per request.

Such an agent processes one request per connection at a time, so on a shared connection a cancellation would wait for the work that
it cancels.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from protolink_grpc.client.channel import MAX_RESPONSE_BYTES
from protolink_grpc.client.http_channel import CONNECT_S, ssl_context, status_error
from protolink_grpc.compat.protolink.client.agent import ProtolinkAgent
from protolink_grpc.errors import UnauthenticatedError, UnavailableError
from protolink_grpc.models.ids import new_request_id
from protolink_grpc.models.json_value import from_json, to_json

PING_S: Final = 20.0
"""Ping interval and timeout of an idle connection, in seconds."""


class _Connect(connect):
    """Does not follow redirects, because the credentials are for the original address."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class ProtolinkSocketAgent(ProtolinkAgent):
    """One connection per request."""

    async def _request(self, method: str, path: str, data: Any = None, *, key: str = "") -> Any:
        request = {"id": new_request_id(), "method": method, "path": path}
        if key:
            request["idempotency_key"] = key
        async with self._connect(request, data) as socket:
            result, _ = self._read(self._value(await socket.recv()), "")
            return result

    async def _open_stream(self, path: str, data: Any) -> AsyncGenerator[Any, None]:
        request = {"id": new_request_id(), "method": "POST", "path": path}
        async with self._connect(request, data) as socket:
            async for text in socket:
                yield self._value(text)

    def _value(self, text: str | bytes) -> Any:
        with self._check_response():
            return from_json(text)

    @asynccontextmanager
    async def _connect(self, request: dict[str, Any], data: Any) -> AsyncIterator[ClientConnection]:
        """Open a connection and send the request."""
        if data is not None:
            request = {**request, "data": data}
        socket = await self._authenticate()
        try:
            await socket.send(to_json(request))
            yield socket
        except WebSocketException as error:
            raise UnavailableError(f"the connection to {self.url} was interrupted: {error}", url=self.url) from None
        finally:
            # Does not wait for the peer, which may still have much to send.
            socket.transport.abort()
            # The transport releases its socket in a later iteration of the loop, which may be about to end.
            await socket.wait_closed()

    async def _authenticate(self) -> ClientConnection:
        """Open a connection. Refused credentials are renewed once."""
        renewed = False
        while True:
            shown = await self._sender.headers(self._sender.address)
            try:
                return await self._open(shown)
            except UnauthenticatedError:
                if renewed or not await self._sender.refresh(shown):
                    raise
                renewed = True

    async def _open(self, headers: dict[str, str]) -> ClientConnection:
        address, options = self._sender.address, self._sender.options
        try:
            return await _Connect(
                self.url,
                additional_headers=headers,
                ssl=ssl_context(options.tls) if address.secure else None,
                # Calls to this machine must not go through a proxy.
                proxy=None if address.is_local else True,
                compression=None,
                open_timeout=CONNECT_S,
                ping_interval=PING_S,
                ping_timeout=PING_S,
                max_size=MAX_RESPONSE_BYTES,
            )
        except InvalidStatus as error:
            raise status_error(error.response.status_code, self.url, headers=error.response.headers) from None
        except (OSError, InvalidHandshake, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise UnavailableError(f"{self.url} is not reachable: {why}", url=self.url, unreached="true") from None
