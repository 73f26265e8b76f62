"""The frames of gRPC-Web: the encoding of messages and trailers in an HTTP body. No network access happens here.

A body is a sequence of frames: one byte of flags, four bytes of length, the content. Messages have the flags 0. The last frame has
the flag 0x80 and contains gRPC's trailers. Source: the gRPC project's PROTOCOL-WEB.md and PROTOCOL-HTTP2.md.
"""

from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

from google.protobuf.message import DecodeError
from google.rpc import status_pb2

from protolink_grpc.errors import InvalidAgentResponseError

MEDIA_TYPE: Final = "application/grpc-web+proto"

MEDIA_TYPES: Final = (MEDIA_TYPE, "application/grpc-web")
"""Media types of requests and responses. The base64 form, for browsers that cannot stream a body, is not supported."""

TIMEOUT_HEADER: Final = "grpc-timeout"
MAX_TIMEOUT_DIGITS: Final = 8

COMPRESSED, TRAILERS = 0x01, 0x80
"""Flags of a frame."""

HEAD_BYTES: Final = 5

UNQUOTED: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""Characters that `grpc-message` may contain without escapes, besides letters and digits."""


def frame(message: bytes, flags: int = 0) -> bytes:
    """Encode one frame of a body."""
    return b"%c%b%b" % (flags, len(message).to_bytes(4, "big"), message)


def has_trailers(frames: bytes) -> bool:
    """Return whether the first of these frames is the trailers frame."""
    return frames[:1] >= bytes((TRAILERS,))


def trailers(status: status_pb2.Status, metadata: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Encode the last frame of a response, which contains the status of the call and further metadata."""
    lines = [f"grpc-status: {status.code}"]
    if status.message:
        lines.append(f"grpc-message: {quote(status.message, safe=UNQUOTED)}")
    if status.details:
        lines.append(f"grpc-status-details-bin: {b64encode(status.SerializeToString()).decode().rstrip('=')}")
    lines += [f"{key}: {value}" for key, value in metadata.items()]
    return frame("".join(f"{line}\r\n" for line in lines).encode("ascii"), TRAILERS)


def status_from_trailers(lines: bytes) -> status_pb2.Status:
    """Parse the status in the content of a trailers frame.

    Raises:
        InvalidAgentResponseError: The code is missing or invalid.
    """
    found: dict[str, str] = {}
    for line in lines.decode("latin-1").split("\r\n"):
        key, _, value = line.partition(":")
        found[key.strip().lower()] = value.strip()
    return status_from_fields(found)


def status_from_fields(fields: "dict[str, str]") -> status_pb2.Status:
    """Parse `grpc-status`, `grpc-message` and `grpc-status-details-bin`. Raises like `status_from_trailers`."""
    code, details = fields.get("grpc-status", ""), fields.get("grpc-status-details-bin", "")
    if not (code.isascii() and code.isdigit() and len(code) <= 3):
        raise InvalidAgentResponseError(f"the response has an invalid grpc-status: {code[:20]!r}")
    status = status_pb2.Status(code=int(code), message=unquote(fields.get("grpc-message", "")))
    if details:
        try:
            detailed = status_pb2.Status.FromString(b64decode(details + "=" * (-len(details) % 4)))
        except (ValueError, DecodeError):
            return status  # only the details are invalid
        if detailed.code == status.code:
            return detailed
    return status


async def frames_of(chunks: AsyncIterable[bytes], max_bytes: int) -> AsyncGenerator[tuple[int, bytes], None]:
    """Yield the flags and the content of each frame of a body, in order.

    Args:
        chunks: The body; chunks may end inside a frame.
        max_bytes: Maximum size of the content of a frame.

    Raises:
        InvalidAgentResponseError: A frame is larger than `max_bytes`.
        EOFError: The body ends inside a frame.
    """
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        start = 0
        while len(buffer) - start >= HEAD_BYTES:
            size = int.from_bytes(buffer[start + 1 : start + HEAD_BYTES], "big")
            if size > max_bytes:
                raise InvalidAgentResponseError(f"a message has {size} bytes, at most {max_bytes} are accepted")
            end = start + HEAD_BYTES + size
            if len(buffer) < end:
                break
            yield buffer[start], bytes(buffer[start + HEAD_BYTES : end])
            start = end
        del buffer[:start]
    if buffer:
        raise EOFError("the body ends inside a frame")


def timeout_value(timeout_s: float) -> str:
    """Return the value of `grpc-timeout`: at most eight digits and a unit, at least one unit."""
    for unit, per_second in (("m", 1000), ("S", 1)):
        count = max(1, round(timeout_s * per_second))
        if count < 10**MAX_TIMEOUT_DIGITS:
            return f"{count}{unit}"
    return f"{10**MAX_TIMEOUT_DIGITS - 1}S"
