"""What a request may cost the event loop: its complexity is known before objects are made, and complex ones are read in a thread.

Theory of operation. Two bytes of a request can become an object that takes microseconds to make, so a bound of bytes alone does
not bound time. A bound of complexity does: a count of what the request holds, in which expensive things count more. It is taken
from the encoded bytes: of JSON by searches (`models.json_value`), of protobuf messages by a walk over their fields that stops at
its bound. A simple request is read on the loop, however many bytes it has. A complex one is read in a thread, where the interpreter
hands over to the loop every 5 ms. There is one such thread: with several, the loop would wait for its turn behind all of them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from protolink_grpc.models.json_value import json_complexity

T = TypeVar("T")
M = TypeVar("M", bound=Message)

SMALL_BYTES: Final = 16 << 10
"""A request of up to so many bytes is read without a count: it cannot hold more than the loop reads in a few milliseconds."""

LIGHT_COMPLEXITY: Final = 10_000
"""A request up to this is read on the loop, in a few milliseconds."""

SMALL_MESSAGE_BYTES: Final = 64 << 10
"""A protobuf message of up to so many bytes is converted on the loop: its complexity is bounded already."""

_thread = ThreadPoolExecutor(1, thread_name_prefix="plgrpc-requests")


async def run_in_thread(function: Callable[..., T], *args: object) -> T:
    """The result of a function of CPU work, computed beside the loop, in turn with others. Raises what it raises."""
    return await asyncio.get_running_loop().run_in_executor(_thread, function, *args)


async def converted(convert: Callable[[M], T], message: M) -> T:
    """What `convert` makes of a request, in a thread where the request is large. Raises what it raises."""
    if message.ByteSize() <= SMALL_MESSAGE_BYTES:
        return convert(message)
    return await run_in_thread(convert, message)


def message_complexity(data: bytes, kind: Descriptor, most: int) -> int:
    """What an encoded message costs who reads it: 1 for each field, those of messages inside of it included, and more for some.

    An entry of a map, a `google.protobuf.Struct` and a `ListValue` count 10, and a JSON text (that of a Payload, or a text field
    whose name ends with `_json`) as in `json_complexity`. Elements of a packed field are counted by their bytes.

    Args:
        most: The walk ends above this, so it bounds the time, too.

    Returns:
        The complexity, or some number above `most`.

    Raises:
        DecodeError: A field ends outside of its message.
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
            key, at = _varint(data, at, end)
            wire_type = key & 7
            if wire_type == _DELIMITED:
                size, at = _varint(data, at, end)
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
                _, at = _varint(data, at, end)
            elif wire_type in _FIXED_BYTES:
                at += _FIXED_BYTES[wire_type]
            else:
                # A group, in which numbers have another meaning.
                groups += 1 if wire_type == _START_GROUP else -1
        if at > end:
            raise DecodeError("a field is longer than its message")
    return count


_VARINT, _DELIMITED, _START_GROUP = 0, 2, 3
_FIXED_BYTES: Final = {1: 8, 5: 4}


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins at a position, and where it ends. Raises DecodeError."""
    if at >= end:
        raise DecodeError("cut off in the middle of a field")
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for index in range(at + 1, min(end, at + 10)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise DecodeError("a number does not end")


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
    """What is inside of fields that have a length, by number: a message's type, `_JSON` or `_PACKED`; absent where nothing is."""
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
