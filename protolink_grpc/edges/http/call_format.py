"""How an RPC protocol represents a call in HTTP: the interface of `grpc_web` and `connect`, and the deadline of a call."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterator, Mapping
from typing import TypeVar

from google.rpc import status_pb2
from starlette.responses import Response

from protolink_grpc.errors import DeadlineExceededError, InvalidArgumentError, UnimplementedError
from protolink_grpc.net.grpc_web import COMPRESSED, HEAD_BYTES
from protolink_grpc.wire.codec import MessageCodec

T = TypeVar("T")


class Deadline:
    """The deadline of a call.

    Args:
        timeout_s: Seconds from now; None means no deadline.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self._at = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s

    async def before(self, result: Awaitable[T]) -> T:
        """Await a result. Raises DeadlineExceededError at the deadline and cancels the awaited operation."""
        bound = asyncio.timeout_at(self._at)
        try:
            async with bound:
                return await result
        except TimeoutError:
            if not bound.expired():
                raise
            late = f"the deadline of {self.timeout_s:g} s has passed; work that has started continues"
            raise DeadlineExceededError(late) from None


class CallFormat(ABC):
    """How a protocol represents a call in an HTTP request and its response.

    The body of a response consists of packed messages and an end.

    Args:
        media_types: The content types of requests; responses have the first one.
        codec: The encoding of the messages.
    """

    def __init__(self, media_types: tuple[str, ...], codec: MessageCodec) -> None:
        self.media_types = media_types
        self.codec = codec

    @property
    def media_type(self) -> str:
        """The content type of responses."""
        return self.media_types[0]

    @abstractmethod
    def read_headers(self, headers: Mapping[str, str]) -> Deadline:
        """Check the headers of a request, and return the deadline in them.

        Raises:
            InvalidArgumentError: A header is invalid; names it.
            UnimplementedError: The message is compressed.
        """

    @abstractmethod
    def unpack(self, body: bytes) -> bytes:
        """Return the encoded message in the body of a request.

        Raises:
            InvalidArgumentError: The body is invalid.
            UnimplementedError: The message is compressed, or there is not exactly one message.
        """

    def unpack_stream(self, body: bytes) -> Iterator[bytes]:
        """Yield the encoded messages in the body of a request that is a stream. The streams of both protocols have the same frames.

        Raises:
            InvalidArgumentError: The body is invalid.
            UnimplementedError: A message is compressed.
        """
        at = 0
        while at < len(body):
            begin = at + HEAD_BYTES
            flags, at = body[at], begin + int.from_bytes(body[at + 1 : begin], "big")
            if begin > len(body) or at > len(body):
                raise InvalidArgumentError("must be complete messages", field="body")
            if flags == COMPRESSED:
                raise UnimplementedError("compressed messages are not supported: send them uncompressed")
            if flags:
                raise InvalidArgumentError(f"a message of a request must not have the flags {flags:#04x}", field="body")
            yield body[begin:at]

    @abstractmethod
    def pack(self, message: bytes) -> bytes:
        """Return an encoded message as a part of a response's body."""

    @abstractmethod
    def pack_end(self, status: status_pb2.Status, metadata: Mapping[str, str]) -> bytes:
        """Return the end of a response's body, with the status of the call and its trailing metadata."""

    @abstractmethod
    def is_end(self, part: bytes) -> bool:
        """Whether a part of a response's body is its end."""

    def error_response(self, status: status_pb2.Status, headers: Mapping[str, str]) -> Response:
        """Return the response to a call that failed before its first message."""
        return Response(self.pack_end(status, {}), 200, headers, self.media_type)
