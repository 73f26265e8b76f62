"""The Connect protocol: calls with ProtoJSON or binary messages for any HTTP client. Source: connectrpc.com/docs/protocol.

A unary call has the plain message as its body and an HTTP status for each code. A stream has enveloped messages, and the last
envelope contains the status. Compressed messages and GET requests are not supported.
"""

import math
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from starlette.responses import Response

from protolink_grpc.edges.http.call_format import CallFormat, Deadline
from protolink_grpc.edges.http.json_body import JSON, read_json, write_json
from protolink_grpc.errors import InvalidArgumentError, UnimplementedError
from protolink_grpc.net.grpc_web import COMPRESSED, HEAD_BYTES, frame
from protolink_grpc.wire.bounds import SMALL_BYTES, convert_message, run_in_thread
from protolink_grpc.wire.codec import BinaryCodec, MessageCodec
from protolink_grpc.wire.proto_json import message_from_json, message_to_json
from protolink_grpc.wire.status import requested_pause_s

VERSION_HEADER: Final = "connect-protocol-version"
TIMEOUT_HEADER: Final = "connect-timeout-ms"
MAX_TIMEOUT_DIGITS: Final = 10

END_STREAM: Final = 0x02
"""Flag of the last envelope of a stream. An envelope is like a frame of gRPC-Web, with other flags."""

CODES: Final = {
    code_pb2.CANCELLED: ("canceled", 499),
    code_pb2.UNKNOWN: ("unknown", 500),
    code_pb2.INVALID_ARGUMENT: ("invalid_argument", 400),
    code_pb2.DEADLINE_EXCEEDED: ("deadline_exceeded", 504),
    code_pb2.NOT_FOUND: ("not_found", 404),
    code_pb2.ALREADY_EXISTS: ("already_exists", 409),
    code_pb2.PERMISSION_DENIED: ("permission_denied", 403),
    code_pb2.RESOURCE_EXHAUSTED: ("resource_exhausted", 429),
    code_pb2.FAILED_PRECONDITION: ("failed_precondition", 400),
    code_pb2.ABORTED: ("aborted", 409),
    code_pb2.OUT_OF_RANGE: ("out_of_range", 400),
    code_pb2.UNIMPLEMENTED: ("unimplemented", 501),
    code_pb2.INTERNAL: ("internal", 500),
    code_pb2.UNAVAILABLE: ("unavailable", 503),
    code_pb2.DATA_LOSS: ("data_loss", 500),
    code_pb2.UNAUTHENTICATED: ("unauthenticated", 401),
}
"""Connect's name and the HTTP status of each gRPC code. Source: the table "Error Codes" of the protocol."""


def connect_formats(max_complexity: int) -> tuple[list[CallFormat], list[CallFormat]]:
    """Return the formats of unary calls and those of streams.

    Args:
        max_complexity: JSON above it is refused before it is parsed, see `Bounds`.
    """
    codecs: dict[str, MessageCodec] = {"json": JsonCodec(max_complexity), "proto": BinaryCodec()}
    return (
        [ConnectUnary((f"application/{name}",), codec) for name, codec in codecs.items()],
        [ConnectStream((f"application/connect+{name}",), codec) for name, codec in codecs.items()],
    )


class JsonCodec:
    """ProtoJSON. Large messages are converted in a thread."""

    def __init__(self, max_complexity: int) -> None:
        self._max_complexity = max_complexity

    async def to_binary(self, data: bytes, kind: type[Message]) -> bytes:
        value = await read_json(data, max_complexity=self._max_complexity)
        return (
            await run_in_thread(_parse_message, value, kind) if len(data) > SMALL_BYTES else _parse_message(value, kind)
        )

    async def encode(self, response: Message | bytes, kind: type[Message]) -> bytes:
        message = kind.FromString(response) if isinstance(response, bytes) else response
        return write_json(await convert_message(message_to_json, message))


def _parse_message(value: object, kind: type[Message]) -> bytes:
    """Return the binary encoding of a message in JSON."""
    message = kind()
    message_from_json(value, message)
    # Required fields of proto2 are not checked, as in the other protocols.
    return message.SerializePartialToString()


class ConnectUnary(CallFormat):
    """Unary calls."""

    def read_headers(self, headers: Mapping[str, str]) -> Deadline:
        check_encoding(headers, "content-encoding")
        return read_deadline(headers)

    def unpack(self, body: bytes) -> bytes:
        return body

    def pack(self, message: bytes) -> bytes:
        return message

    def pack_end(self, status: status_pb2.Status, metadata: Mapping[str, str]) -> bytes:
        return b""

    def is_end(self, part: bytes) -> bool:
        return False

    def error_response(self, status: status_pb2.Status, headers: Mapping[str, str]) -> Response:
        _, http = CODES.get(status.code, CODES[code_pb2.UNKNOWN])
        pause_s = requested_pause_s(status)
        retry = {} if pause_s is None else {"retry-after": str(max(1, math.ceil(pause_s)))}
        return Response(write_json(error_to_json(status)), http, {**headers, **retry}, JSON)


class ConnectStream(CallFormat):
    """Calls with a stream of responses. The HTTP status is always 200."""

    def read_headers(self, headers: Mapping[str, str]) -> Deadline:
        check_encoding(headers, "content-encoding")
        check_encoding(headers, "connect-content-encoding")
        return read_deadline(headers)

    def unpack(self, body: bytes) -> bytes:
        return unpack_envelope(body)

    def pack(self, message: bytes) -> bytes:
        return frame(message)

    def pack_end(self, status: status_pb2.Status, metadata: Mapping[str, str]) -> bytes:
        found: dict[str, Any] = {}
        if status.code:
            found["error"] = error_to_json(status)
        if metadata:
            found["metadata"] = {name: [value] for name, value in metadata.items()}
        return frame(write_json(found), END_STREAM)

    def is_end(self, part: bytes) -> bool:
        return part[:1] == bytes((END_STREAM,))


def check_encoding(headers: Mapping[str, str], name: str) -> None:
    """Check the header with the compression of a request. Raises UnimplementedError."""
    encoding = headers.get(name, "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnimplementedError(f"the {name} {encoding[:20]!r} is not supported: only identity is")


def read_deadline(headers: Mapping[str, str]) -> Deadline:
    """Check the version of the protocol, and return the deadline of the call.

    Raises:
        InvalidArgumentError: The version or the timeout is invalid.
    """
    if headers.get(VERSION_HEADER, "1") != "1":
        raise InvalidArgumentError("must be 1", field=VERSION_HEADER)
    timeout = headers.get(TIMEOUT_HEADER)
    if timeout is None:
        return Deadline(None)
    if not (timeout.isascii() and timeout.isdigit()) or len(timeout) > MAX_TIMEOUT_DIGITS:
        raise InvalidArgumentError(f"must be at most {MAX_TIMEOUT_DIGITS} digits", field=TIMEOUT_HEADER)
    return Deadline(int(timeout) / 1000)


def unpack_envelope(body: bytes) -> bytes:
    """Return the message of a request with exactly one envelope.

    Raises:
        InvalidArgumentError: The envelope is incomplete or has invalid flags.
        UnimplementedError: There is no message or more than one, or the message is compressed.
    """
    if not body:
        raise UnimplementedError("the request has no message")
    size = int.from_bytes(body[1:HEAD_BYTES], "big")
    if len(body) < HEAD_BYTES + size:
        raise InvalidArgumentError("must be one complete envelope", field="body")
    if len(body) > HEAD_BYTES + size:
        raise UnimplementedError("the request has more than one message")
    if body[0] == COMPRESSED:
        raise UnimplementedError("compressed messages are not supported: send them uncompressed")
    if body[0]:
        raise InvalidArgumentError(f"the envelope of a request must not have the flags {body[0]:#04x}", field="body")
    return body[HEAD_BYTES:]


def error_to_json(status: status_pb2.Status) -> dict[str, Any]:
    """Return the JSON object of an error."""
    code, _ = CODES.get(status.code, CODES[code_pb2.UNKNOWN])
    found: dict[str, Any] = {"code": code}
    if status.message:
        found["message"] = status.message
    if status.details:
        found["details"] = [_detail_to_json(each) for each in status.details]
    return found


_READABLE: Final = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)
"""Details that are also shown as JSON. Other types may be unknown in this process."""


def _detail_to_json(detail: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": detail.type_url.rpartition("/")[2],
        "value": b64encode(detail.value).decode().rstrip("="),
    }
    for kind in _READABLE:
        if detail.Is(kind.DESCRIPTOR):
            found["debug"] = message_to_json(kind.FromString(detail.value))
    return found
