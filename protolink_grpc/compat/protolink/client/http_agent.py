"""A ProtoLink agent over HTTP, its streams as server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx

from protolink_grpc.client.http_channel import Sender, http_channel_to, http_errors, status_error
from protolink_grpc.compat.protolink.client.agent import ProtolinkAgent, ResponseCheck
from protolink_grpc.errors import UnauthenticatedError
from protolink_grpc.models.ids import new_request_id
from protolink_grpc.models.json_value import from_json

REQUEST_ID_HEADER, KEY_HEADER = "X-Protolink-Request-ID", "Idempotency-Key"


class ProtolinkHttpAgent(ProtolinkAgent):
    """Uses HTTP without following redirects: paths are exact, including a trailing slash."""

    async def _request(self, method: str, path: str, data: Any = None, *, key: str = "") -> Any:
        return await http_value(self._sender, method, path, data, key=key)

    @property
    def _client(self) -> httpx.AsyncClient:
        return http_channel_to(self._sender.address, self._sender.options)

    def _value(self, text: bytes | str) -> Any:
        with self._check_response():
            return from_json(text)

    async def _open_stream(self, path: str, data: Any) -> AsyncGenerator[Any, None]:
        renewed = False
        while True:
            shown = await self._sender.headers(self._sender.address)
            try:
                async with aclosing(self._stream(path, data, shown)) as frames:
                    async for frame in frames:
                        yield frame
                return
            except UnauthenticatedError:
                # An error status can only come before the first frame.
                if renewed or not await self._sender.refresh(shown):
                    raise
                renewed = True

    async def _stream(self, path: str, data: Any, shown: dict[str, str]) -> AsyncGenerator[Any, None]:
        headers = {"Accept": "text/event-stream", REQUEST_ID_HEADER: new_request_id()} | shown
        with http_errors(self.url):
            async with self._client.stream("POST", self.url + path, headers=headers, **_body(data)) as response:
                if not response.is_success:
                    await response.aread()
                    response.raise_for_status()
                    raise status_error(response.status_code, self.url)
                lines: list[str] = []
                async for line in response.aiter_lines():
                    if line.startswith("data:"):
                        lines.append(line[5:].removeprefix(" "))
                    elif not line and lines:
                        frame, lines = "\n".join(lines), []
                        yield self._value(frame)


async def http_value(sender: Sender, method: str, path: str, data: Any = None, *, key: str = "") -> Any:
    """Send an HTTP request and return the JSON value of the response. Refused credentials are renewed once.

    Args:
        key: Idempotency key.

    Raises:
        InvalidAgentResponseError: The response is not JSON.
        ProtolinkError: As `http_errors`.
    """
    url = sender.address.url
    headers = {REQUEST_ID_HEADER: new_request_id()} | ({KEY_HEADER: key} if key else {})
    renewed = False
    while True:
        shown = await sender.headers(sender.address)
        with http_errors(url):
            client = http_channel_to(sender.address, sender.options)
            response = await client.request(method, url + path, headers=headers | shown, **_body(data))
            if response.is_success:
                with ResponseCheck(url):
                    return from_json(response.content)
            if response.status_code != 401 or renewed or not await sender.refresh(shown):
                response.raise_for_status()
                raise status_error(response.status_code, url)
        renewed = True


def _body(data: Any) -> dict[str, Any]:
    return {} if data is None else {"json": data}
