"""Bounds the event loop time of a request: its complexity is measured before decoding; complex requests are decoded in a thread.

Theory of operation. Two bytes of a request can become an object that takes microseconds to create, so a bound on bytes alone does
not bound time. A bound on complexity does: a count of the items in the request, in which expensive items count more. It is
computed from the encoded bytes: for JSON by searches (`models.json_value`), for protobuf messages by a walk over their fields that
stops at the bound. A simple request is decoded on the loop, whatever its size. A complex one is decoded in a thread, where the
interpreter switches back to the loop every 5 ms. There is only one such thread: with several, the loop would wait for all of them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.json_value import check_complexity, json_complexity
from protolink_grpc.wire.scalars import read_varint

T = TypeVar("T")
M = TypeVar("M", bound=Message)

SMALL_BYTES: Final = 16 << 10
"""A request up to this size is decoded without a count: its decoding takes at most a few milliseconds."""

LIGHT_COMPLEXITY: Final = 10_000
"""A request up to this complexity is decoded on the loop, in a few milliseconds."""

SMALL_MESSAGE_BYTES: Final = 64 << 10
"""A protobuf message up to this size is converted on the loop: its complexity is already bounded."""

_thread = ThreadPoolExecutor(1, thread_name_prefix="plgrpc-requests")


async def run_in_thread(function: Callable[..., T], *args: object) -> T:
    """Run a CPU-bound function in the worker thread, one at a time, and return its result. Raises the errors of the function."""
    return await asyncio.get_running_loop().run_in_executor(_thread, function, *args)


def is_small(message: Message) -> bool:
    """Return whether a message may be converted on the event loop."""
    return message.ByteSize() <= SMALL_MESSAGE_BYTES


async def convert_message(convert: Callable[[M], T], message: M) -> T:
    """Return the result of `convert`, computed in a thread if the request is large. Raises the errors of `convert`."""
    return convert(message) if is_small(message) else await run_in_thread(convert, message)


def message_complexity(data: bytes, kind: Descriptor, most: int) -> int:
    """Return the decoding cost of an encoded message: 1 per field, including those of nested messages, and more for some fields.

    An entry of a map, a `google.protobuf.Struct` and a `ListValue` count 10. A JSON text (in a Payload, or in a text field named
    `..._json`) counts as in `json_complexity`. Elements of a packed field are counted by their bytes.

    Args:
        most: The walk stops above this value, which also bounds its time.

    Returns:
        The complexity, or some number above `most`.

    Raises:
        DecodeError: A field extends beyond the end of its message.
    """
    count = 0
    pending = [(0, len(data), kind)]
    while pending:
        at, end, kind = pending.pop()
        fields = _fields_of(kind)
        groups = 0
        while at < end:
            count += 1
            if count > most:
                return count
            key, at = read_varint(data, at, end)
            wire_type = key & 7
            if wire_type == _DELIMITED:
                size, at = read_varint(data, at, end)
                inner = fields.get(key >> 3) if groups == 0 else None
                if size > end - at:
                    raise DecodeError("a field is longer than its message")
                if inner is _JSON:
                    count += json_complexity(data[at : at + size], most)
                elif inner is _PACKED:
                    count += size
                elif inner is not None:
                    if _is_expensive(inner):
                        count += 9
                    if size:
                        pending.append((at, at + size, inner))
                at += size
            elif wire_type == _VARINT:
                _, at = read_varint(data, at, end)
            elif wire_type in _FIXED_BYTES:
                at += _FIXED_BYTES[wire_type]
            else:
                # A group, in which field numbers have another meaning.
                groups += 1 if wire_type == _START_GROUP else -1
        if at > end:
            raise DecodeError("a field is longer than its message")
    return count


_VARINT, _DELIMITED, _START_GROUP = 0, 2, 3
_FIXED_BYTES: Final = {1: 8, 5: 4}


_PAYLOAD_JSON: Final = "plgrpc.v1.Payload.json"
_JSON: Final = "json"
_PACKED: Final = "packed"


@lru_cache(maxsize=1024)
def _is_expensive(kind: Descriptor) -> bool:
    return bool(kind.GetOptions().map_entry) or kind.full_name in (
        "google.protobuf.Struct",
        "google.protobuf.ListValue",
    )


@lru_cache(maxsize=1024)
def _fields_of(kind: Descriptor) -> dict[int, Any]:
    """Return the content of length-delimited fields by number: a message's type, `_JSON` or `_PACKED`; other fields are absent."""
    found: dict[int, Any] = {}
    for field in kind.fields:
        if field.message_type is not None:
            found[field.number] = field.message_type
        elif field.type == FieldDescriptor.TYPE_STRING:
            if field.name.endswith("_json") or field.full_name == _PAYLOAD_JSON:
                found[field.number] = _JSON
        elif field.is_repeated and field.type != FieldDescriptor.TYPE_BYTES:
            found[field.number] = _PACKED
    return found


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """The limits of one request.

    Args:
        max_bytes: Larger requests are refused with MESSAGE_TOO_LARGE.
        max_complexity: More complex requests are refused before they are parsed; see `message_complexity`.
    """

    max_bytes: int
    max_complexity: int

    def check_size(self, size: int) -> None:
        """Raise MessageTooLargeError if a request has more than `max_bytes` bytes."""
        if size > self.max_bytes:
            raise MessageTooLargeError(
                f"has {size} bytes, at most {self.max_bytes} are accepted",
                field="request",
                max_bytes=str(self.max_bytes),
            )


class RequestReader:
    """Parses the requests of one type. A light request is parsed on the event loop, any other in a thread.

    Its methods raise InvalidArgumentError for bytes that are no such message, and MessageTooLargeError beyond the bounds.
    """

    __slots__ = ("_bounds", "_descriptor", "_kind", "_small")

    def __init__(self, descriptor: Descriptor, bounds: RequestBounds) -> None:
        self._descriptor = descriptor
        self._kind = GetMessageClass(descriptor)
        self._bounds = bounds
        self._small = min(SMALL_BYTES, bounds.max_bytes)

    def is_light(self, data: bytes) -> bool:
        """Return whether `parse` takes a few milliseconds at most. Otherwise call `parse_counted` in a thread."""
        if len(data) <= self._small:
            return True
        self._bounds.check_size(len(data))
        return len(data) <= SMALL_BYTES or self._count(data, LIGHT_COMPLEXITY) <= LIGHT_COMPLEXITY

    def parse(self, data: bytes) -> Message:
        try:
            return self._kind.FromString(data)
        except DecodeError:
            raise self._invalid_error() from None

    def parse_counted(self, data: bytes) -> Message:
        """Parse a request whose complexity has not been checked."""
        most = self._bounds.max_complexity
        check_complexity(self._count(data, most), most, "request")
        return self.parse(data)

    def _count(self, data: bytes, most: int) -> int:
        try:
            return message_complexity(data, self._descriptor, most)
        except DecodeError:
            raise self._invalid_error() from None

    def _invalid_error(self) -> InvalidArgumentError:
        return InvalidArgumentError(f"is not a valid {self._descriptor.full_name}", field="request")
