"""A gRPC-Web client: a channel for the generated async stubs over HTTP/1.1.

A stub over this channel behaves like one over a gRPC channel, with the same deadlines and metadata. Each failure is an
`AioRpcError` with a code, a message and the details of `google.rpc.Status`.
"""

from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

import grpc
import grpc.aio
import httpx
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, status_pb2

from protolink_grpc.client.channel import (
    MAX_RESPONSE_BYTES,
    ChannelOptions,
)
from protolink_grpc.client.grpc_agent import RpcAgent
from protolink_grpc.client.http_channel import FRAMED, http_channel_to, http_error
from protolink_grpc.client.timeouts import limited_stream
from protolink_grpc.errors import DeadlineExceededError, InvalidAgentResponseError, UnavailableError
from protolink_grpc.net.address import WebAddress
from protolink_grpc.net.grpc_web import (
    COMPRESSED,
    MEDIA_TYPE,
    MEDIA_TYPES,
    TIMEOUT_HEADER,
    TRAILERS,
    frame,
    frames_of,
    status_from_fields,
    status_from_trailers,
    timeout_value,
)
from protolink_grpc.wire.status import to_status

Metadata = Sequence[tuple[str, str | bytes]]

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_DETAILS: Final = "grpc-status-details-bin"


class GrpcWebAgent(RpcAgent):
    """An agent of this package at its HTTP port, with all features of `GrpcAgent`."""

    def __init__(self, address: WebAddress, options: ChannelOptions) -> None:
        super().__init__(address, options)
        self._web_channel = GrpcWebChannel(address, options)
        self._stubs: dict[Callable[[Any], Any], Any] = {}

    def _stub_of(self, kind: Callable[[Any], Any]) -> Any:
        stub = self._stubs.get(kind)
        if stub is None:
            stub = self._stubs[kind] = kind(self._web_channel)
        return stub

    @property
    def is_connected(self) -> bool:
        # Connections are opened for each request.
        return False


class GrpcWebChannel:
    """A channel for the generated async stubs, for methods with one request and one response or a stream of responses.

    Args:
        address: Base URL of the services: a method is at `{url}/{service}/{method}`.
        options: Certificates for `https://`. Metadata and credentials are passed with each call, as on any channel.
    """

    def __init__(self, address: WebAddress, options: ChannelOptions) -> None:
        self._address = address
        self._options = options

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: Any,
    ) -> Callable[..., Awaitable[Any]]:
        """Return a callable for a method with one response."""

        async def call(request: Any, *, timeout: float | None = None, metadata: Metadata | None = None) -> Any:
            found = None
            stream = self._responses(method, request_serializer(request), timeout, metadata or ())
            async with aclosing(stream) as messages:
                async for message in messages:
                    if found is not None:
                        raise InvalidAgentResponseError(f"{self._address.url} sent two responses to {method}")
                    found = message
            if found is None:
                raise InvalidAgentResponseError(f"{self._address.url} sent no response to {method}")
            return self._parse(response_deserializer, found)

        return call

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: Any,
    ) -> Callable[..., AsyncGenerator[Any, None]]:
        """Return a callable for a method with a stream of responses. Closing the returned generator closes the connection."""

        async def call(
            request: Any, *, timeout: float | None = None, metadata: Metadata | None = None
        ) -> AsyncGenerator[Any, None]:
            stream = self._responses(method, request_serializer(request), timeout, metadata or ())
            async with aclosing(stream) as messages:
                async for message in messages:
                    yield self._parse(response_deserializer, message)

        return call

    def _parse(self, parse: Callable[[bytes], Any], message: bytes) -> Any:
        try:
            return parse(message)
        except DecodeError:
            raise InvalidAgentResponseError(
                f"{self._address.url} sent a response that is not a valid message of the method", url=self._address.url
            ) from None

    async def _responses(
        self, method: str, request: bytes, timeout_s: float | None, metadata: Metadata
    ) -> AsyncGenerator[bytes, None]:
        """Yield the encoded responses, within the timeout. Raises AioRpcError, InvalidAgentResponseError."""
        url = self._address.url
        try:
            async with aclosing(
                limited_stream(self._exchange(method, request, timeout_s, metadata), timeout_s, url)
            ) as messages:
                async for message in messages:
                    yield message
        except DeadlineExceededError as error:
            raise rpc_error(status_pb2.Status(code=code_pb2.DEADLINE_EXCEEDED, message=str(error))) from None

    async def _exchange(
        self, method: str, request: bytes, timeout_s: float | None, metadata: Metadata
    ) -> AsyncGenerator[bytes, None]:
        url = self._address.url + method
        client = http_channel_to(self._address, self._options)
        headers = _headers(timeout_s, metadata)
        try:
            async with (
                client.stream(
                    "POST", url, headers=headers, content=frame(request), extensions={FRAMED: True}
                ) as response,
                aclosing(_messages(response, url)) as messages,
            ):
                async for message in messages:
                    yield message
        except EOFError:
            raise rpc_error(_unavailable_status("the response is incomplete")) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _http_error(error, url) from None


async def _messages(response: httpx.Response, url: str) -> AsyncGenerator[bytes, None]:
    """Yield the encoded messages of a response.

    Raises:
        AioRpcError: The trailers contain an error status.
        EOFError: The trailers are missing or a frame is incomplete.
        InvalidAgentResponseError: The response is not gRPC-Web.
        httpx.HTTPStatusError: An HTTP status other than success.
    """
    if not response.is_success:
        await response.aread()
        response.raise_for_status()
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code != 200 or kind not in MEDIA_TYPES:
        given = f"HTTP status {response.status_code} and {kind or 'no content type'}"
        raise InvalidAgentResponseError(f"{url} answered with {given} instead of {MEDIA_TYPE}", url=url)
    status: status_pb2.Status | None = None
    if "grpc-status" in response.headers:
        status = status_from_fields(dict(response.headers))
    # Read to the end of the body, so that the connection can be reused.
    async with aclosing(frames_of(response.aiter_bytes(), MAX_RESPONSE_BYTES)) as frames:
        async for flags, content in frames:
            if status is not None or flags & ~TRAILERS:
                why = "compressed" if flags & COMPRESSED else "not expected"
                raise InvalidAgentResponseError(f"{url} sent a frame that is {why}", url=url)
            if flags & TRAILERS:
                status = status_from_trailers(content)
            else:
                yield content
    if status is None:
        raise EOFError("the body ends without trailers")
    if status.code != code_pb2.OK:
        raise rpc_error(status)


def _headers(timeout_s: float | None, metadata: Metadata) -> list[tuple[str, str]]:
    found = [("content-type", MEDIA_TYPE), ("accept", MEDIA_TYPE), ("x-grpc-web", "1")]
    if timeout_s is not None:
        found.append((TIMEOUT_HEADER, timeout_value(timeout_s)))
    for key, value in metadata:
        found.append((key, value if isinstance(value, str) else b64encode(value).decode()))
    return found


def _http_error(error: httpx.HTTPError | httpx.StreamError, url: str) -> grpc.aio.AioRpcError:
    """Build the error for a failed connection or for an HTTP status other than success."""
    converted = http_error(error, url)
    if isinstance(converted, UnavailableError) and not isinstance(error, httpx.HTTPStatusError):
        # gRPC's wording, by which `channel.call_error` recognizes that the server was not reached.
        prefix = "failed to connect: " if "unreached" in converted.metadata else ""
        return rpc_error(_unavailable_status(str(error) or type(error).__name__, prefix))
    return rpc_error(to_status(converted))


def _unavailable_status(why: str, prefix: str = "") -> status_pb2.Status:
    return status_pb2.Status(code=code_pb2.UNAVAILABLE, message=prefix + why)


def rpc_error(status: status_pb2.Status) -> grpc.aio.AioRpcError:
    """Build the error that a gRPC channel raises for a call with this status."""
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    trailing = grpc.aio.Metadata()
    if status.details and code.value[0] == status.code:
        trailing.add(_DETAILS, status.SerializeToString())
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details=status.message)
