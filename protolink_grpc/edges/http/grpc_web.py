"""gRPC-Web: calls of web pages over HTTP/1.1, with server streaming.

The HTTP status is always 200, and the last frame contains the status of the call. The frames are those of `net.grpc_web`.
"""

from collections.abc import Mapping
from typing import Final

from google.rpc import status_pb2

from protolink_grpc.edges.http.call_format import CallFormat, Deadline
from protolink_grpc.errors import InvalidArgumentError, UnimplementedError
from protolink_grpc.net.grpc_web import (
    COMPRESSED,
    HEAD_BYTES,
    MAX_TIMEOUT_DIGITS,
    MEDIA_TYPES,
    TIMEOUT_HEADER,
    frame,
    has_trailers,
    trailers,
)
from protolink_grpc.wire.codec import BinaryCodec

UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
"""The units of `grpc-timeout`, in seconds. Source: gRPC's PROTOCOL-HTTP2.md."""


class GrpcWeb(CallFormat):
    """Calls of gRPC-Web with binary messages."""

    def __init__(self) -> None:
        super().__init__(MEDIA_TYPES, BinaryCodec())

    def read_headers(self, headers: Mapping[str, str]) -> Deadline:
        timeout = headers.get(TIMEOUT_HEADER)
        return Deadline(None if timeout is None else parse_timeout(timeout))

    def unpack(self, body: bytes) -> bytes:
        return message_of(body)

    def pack(self, message: bytes) -> bytes:
        return frame(message)

    def pack_end(self, status: status_pb2.Status, metadata: Mapping[str, str]) -> bytes:
        return trailers(status, metadata)

    def is_end(self, part: bytes) -> bool:
        return has_trailers(part)


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
