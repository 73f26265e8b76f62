"""gRPC-Web: the services of the gRPC port for web pages, over HTTP/1.1, with server streaming.

The HTTP status is always 200, and the last frame contains the status of the call. Errors of the HTTP request itself have the form
that all routes of this port use. The frames are those of `net.grpc_web`.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from contextlib import aclosing
from typing import Final, TypeVar

from google.rpc import status_pb2
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from protolink_grpc.edges.grpc.binding import Procedure
from protolink_grpc.edges.http.json_body import media_type
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import Batches, OpenStreams, StreamFormat, open_stream
from protolink_grpc.errors import (
    ContentTypeNotSupportedError,
    DeadlineExceededError,
    InvalidArgumentError,
    UnavailableError,
    UnimplementedError,
)
from protolink_grpc.net.grpc_web import (
    COMPRESSED,
    HEAD_BYTES,
    MAX_TIMEOUT_DIGITS,
    MEDIA_TYPE,
    MEDIA_TYPES,
    frame,
    has_trailers,
    trailers,
)
from protolink_grpc.net.internal_errors import public_error

UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
"""The units of `grpc-timeout`, in seconds. Source: gRPC's PROTOCOL-HTTP2.md."""

T = TypeVar("T")


def grpc_web_routes(guard: RequestGuard, streams: OpenStreams, procedures: Iterable[Procedure]) -> list[BaseRoute]:
    """Create a route for each method."""
    return [Route(each.name, _MethodRoute(guard, streams, each).respond, methods=["POST"]) for each in procedures]


class _MethodRoute:
    """The route of one method."""

    def __init__(self, guard: RequestGuard, streams: OpenStreams, procedure: Procedure) -> None:
        self._guard = guard
        self._streams = streams
        self._procedure = procedure
        shutdown = UnavailableError("the server is shutting down: reconnect and resume")
        self._format = StreamFormat(MEDIA_TYPE, b"", self._error_frame(shutdown), is_last=has_trailers)

    async def respond(self, request: Request) -> Response:
        given = media_type(request.headers.get("content-type"))
        if given not in MEDIA_TYPES:
            raise ContentTypeNotSupportedError(f"the content type must be {MEDIA_TYPE}", media_type=given[:100])
        try:
            principal = await self._guard.principal(request, self._procedure.name)
            deadline = Deadline(request.headers.get("grpc-timeout"))
            message = message_of(await self._guard.body(request))
            authenticated = not self._guard.is_open
            responses = self._procedure.responses(message, principal, request.headers, authenticated=authenticated)
            frames = self._frames(responses, deadline)
            if self._procedure.streams:
                slot = self._guard.stream_quota.take(principal)
                return await open_stream(
                    request, frames, self._streams, self._error_frame, slot, stream_format=self._format
                )
            with self._guard.bounded_wait(request):
                return _complete_response(b"".join([each async for each in frames]))
        except ClientDisconnect:
            raise
        except Exception as error:
            return _complete_response(self._error_frame(error))

    async def _frames(self, responses: Batches, deadline: "Deadline") -> Batches:
        async with aclosing(responses):
            while (message := await deadline.before(anext(responses, None))) is not None:
                yield frame(message)
        yield trailers(status_pb2.Status())

    def _error_frame(self, error: Exception) -> bytes:
        return trailers(self._procedure.to_status(public_error(error, self._procedure.name)))


def _complete_response(body: bytes) -> Response:
    return Response(body, 200, media_type=MEDIA_TYPE)


class Deadline:
    """The deadline of a call.

    Args:
        timeout: The value of a `grpc-timeout` header, such as `300m`; None means no deadline.

    Raises:
        InvalidArgumentError: The value is invalid.
    """

    def __init__(self, timeout: str | None) -> None:
        self._at: float | None = None
        self._timeout = timeout
        if timeout is not None:
            self._at = asyncio.get_running_loop().time() + parse_timeout(timeout)

    async def before(self, result: Awaitable[T]) -> T:
        """Await a result. Raises DeadlineExceededError at the deadline and cancels the awaited operation."""
        bound = asyncio.timeout_at(self._at)
        try:
            async with bound:
                return await result
        except TimeoutError:
            if not bound.expired():
                raise
            raise DeadlineExceededError(f"the deadline of {self._timeout} has passed; the task continues") from None


def parse_timeout(timeout: str) -> float:
    """Parse a `grpc-timeout` (at most eight digits and a unit) to seconds.

    Raises:
        InvalidArgumentError: The value is invalid.
    """
    digits, unit = timeout[:-1], timeout[-1:]
    if unit not in UNITS_S or not (digits.isascii() and digits.isdigit()) or len(digits) > MAX_TIMEOUT_DIGITS:
        raise InvalidArgumentError(f"{timeout[:20]!r} is not a timeout like 300m or 5S", field="grpc-timeout")
    return int(digits) * UNITS_S[unit]


def message_of(body: bytes) -> bytes:
    """Return the message of a request's body.

    Raises:
        InvalidArgumentError: The body is not exactly one frame with a message.
        UnimplementedError: The message is compressed.
    """
    if len(body) < HEAD_BYTES or len(body) != HEAD_BYTES + int.from_bytes(body[1:HEAD_BYTES], "big"):
        raise InvalidArgumentError("must be one complete gRPC-Web frame", field="body")
    if body[0] == COMPRESSED:
        raise UnimplementedError("compressed messages are not supported: send them uncompressed")
    if body[0]:
        raise InvalidArgumentError(f"the frame of a request must not have the flags {body[0]:#04x}", field="body")
    return body[HEAD_BYTES:]
