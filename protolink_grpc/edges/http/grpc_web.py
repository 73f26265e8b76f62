"""gRPC-Web: the services of the gRPC port for web pages, over HTTP/1.1, with server streaming.

The HTTP status is always 200, and the last frame contains the status of the call. Errors of the HTTP request itself are answered as
everywhere on this port. The frames are those of `net.grpc_web`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping
from contextlib import aclosing
from typing import Final, Protocol, TypeVar

from google.rpc import status_pb2
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from protolink_grpc.auth.principal import Principal
from protolink_grpc.edges.http.json_body import media_type
from protolink_grpc.edges.http.request_guard import RequestGuard
from protolink_grpc.edges.http.sse import Batches, Form, OpenStreams, opened
from protolink_grpc.errors import (
    ContentTypeNotSupportedError,
    DeadlineExceededError,
    InvalidArgumentError,
    ProtolinkError,
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


class Procedure(Protocol):
    """One method of a service, from bytes to bytes."""

    @property
    def name(self) -> str:
        """The full name, such as `/plgrpc.v1.AgentService/SendTask`."""

    @property
    def streams(self) -> bool:
        """Whether it returns a stream of messages."""

    def answers(
        self, data: bytes, principal: Principal, headers: Mapping[str, str], *, authenticated: bool
    ) -> AsyncGenerator[bytes, None]:
        """The encoded answers to an encoded request. Raises the errors of `errors`."""

    def status(self, error: ProtolinkError) -> status_pb2.Status:
        """Convert an error to a status."""


def grpc_web_routes(guard: RequestGuard, streams: OpenStreams, procedures: Iterable[Procedure]) -> list[BaseRoute]:
    """Create a route for each method."""
    return [Route(each.name, _Calls(guard, streams, each).answer, methods=["POST"]) for each in procedures]


class _Calls:
    """Answers the calls of one method."""

    def __init__(self, guard: RequestGuard, streams: OpenStreams, procedure: Procedure) -> None:
        self._guard = guard
        self._streams = streams
        self._procedure = procedure
        going = UnavailableError("the server is going away; come back and go on")
        self._form = Form(MEDIA_TYPE, b"", self._failed(going), is_last=has_trailers)

    async def answer(self, request: Request) -> Response:
        given = media_type(request.headers.get("content-type"))
        if given not in MEDIA_TYPES:
            raise ContentTypeNotSupportedError(f"this path speaks {MEDIA_TYPE}", media_type=given[:100])
        try:
            principal = await self._guard.principal(request, self._procedure.name)
            deadline = Deadline(request.headers.get("grpc-timeout"))
            message = message_of(await self._guard.body(request))
            known = not self._guard.is_open
            answers = self._procedure.answers(message, principal, request.headers, authenticated=known)
            frames = self._frames(answers, deadline)
            if self._procedure.streams:
                slot = self._guard.stream_quota.take(principal)
                return await opened(request, frames, self._streams, self._failed, slot, form=self._form)
            with self._guard.waiting(request):
                return _whole(b"".join([each async for each in frames]))
        except ClientDisconnect:
            raise  # the client has disconnected
        except Exception as error:
            return _whole(self._failed(error))

    async def _frames(self, answers: Batches, deadline: "Deadline") -> Batches:
        async with aclosing(answers):
            while (message := await deadline.before(anext(answers, None))) is not None:
                yield frame(message)
        yield trailers(status_pb2.Status())

    def _failed(self, error: Exception) -> bytes:
        return trailers(self._procedure.status(public_error(error, self._procedure.name)))


def _whole(body: bytes) -> Response:
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
            self._at = asyncio.get_running_loop().time() + seconds_of(timeout)

    async def before(self, result: Awaitable[T]) -> T:
        """Await a result. Raises DeadlineExceededError at the deadline and cancels the awaited operation."""
        bound = asyncio.timeout_at(self._at)
        try:
            async with bound:
                return await result
        except TimeoutError:
            if not bound.expired():
                raise
            raise DeadlineExceededError(f"the deadline of {self._timeout} has passed; what was begun goes on") from None


def seconds_of(timeout: str) -> float:
    """Parse a `grpc-timeout` (at most eight digits and a unit) to seconds.

    Raises:
        InvalidArgumentError: The value is invalid.
    """
    digits, unit = timeout[:-1], timeout[-1:]
    if unit not in UNITS_S or not (digits.isascii() and digits.isdigit()) or len(digits) > MAX_TIMEOUT_DIGITS:
        raise InvalidArgumentError(f"{timeout[:20]!r} is no timeout like 300m or 5S", field="grpc-timeout")
    return int(digits) * UNITS_S[unit]


def message_of(body: bytes) -> bytes:
    """Return the message of a request's body.

    Raises:
        InvalidArgumentError: The body is not exactly one frame with a message.
        UnimplementedError: The message is compressed.
    """
    if len(body) < HEAD_BYTES or len(body) != HEAD_BYTES + int.from_bytes(body[1:HEAD_BYTES], "big"):
        raise InvalidArgumentError("must be one gRPC-Web frame, whole", field="body")
    if body[0] == COMPRESSED:
        raise UnimplementedError("compressed messages are not read; send them as they are")
    if body[0]:
        raise InvalidArgumentError(f"a request has no frame with the flags {body[0]:#04x}", field="body")
    return body[HEAD_BYTES:]
