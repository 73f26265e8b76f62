"""Reads encoded requests within bounds: their size and their complexity are checked before they are parsed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from protolink_grpc.errors import InvalidArgumentError, MessageTooLargeError
from protolink_grpc.models.json_value import check_complexity
from protolink_grpc.wire.bounds import LIGHT_COMPLEXITY, SMALL_BYTES, message_complexity, run_in_thread

Read = Callable[[bytes], Awaitable[Message]]
"""Parses an encoded message.

Raises:
    InvalidArgumentError: It is not valid.
    MessageTooLargeError: It has too many bytes, or is too complex.
"""


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """The limits of one request.

    Args:
        max_bytes: Larger requests are refused with MESSAGE_TOO_LARGE.
        max_complexity: More complex requests are refused before they are parsed; see `wire.bounds.message_complexity`.
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


def request_reader(descriptor: Descriptor, bounds: RequestBounds) -> Read:
    """Return the function that parses requests of one type."""
    kind = GetMessageClass(descriptor)
    max_complexity = bounds.max_complexity

    def parse_counted(data: bytes) -> Message:
        check_complexity(message_complexity(data, descriptor, max_complexity), max_complexity, "request")
        return kind.FromString(data)

    async def read(data: bytes) -> Message:
        bounds.check_size(len(data))
        try:
            if len(data) > SMALL_BYTES and message_complexity(data, descriptor, LIGHT_COMPLEXITY) > LIGHT_COMPLEXITY:
                return await run_in_thread(parse_counted, data)
            return kind.FromString(data)
        except DecodeError:
            raise InvalidArgumentError(f"is not a valid {descriptor.full_name}", field="request") from None

    return read
