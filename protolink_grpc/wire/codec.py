"""The encodings of a call's messages. Servers work with the binary encoding; other encodings are converted to and from it."""

from typing import Protocol

from google.protobuf.message import Message


class MessageCodec(Protocol):
    """An encoding of messages."""

    async def to_binary(self, data: bytes, kind: type[Message]) -> bytes:
        """Convert an encoded request of the type `kind` to protobuf's binary encoding.

        Raises:
            InvalidArgumentError: It is not valid; names the field.
            MessageTooLargeError: It is too complex.
        """

    async def encode(self, response: Message | bytes, kind: type[Message]) -> bytes:
        """Encode a response of the type `kind`. Bytes are its binary encoding."""


class BinaryCodec:
    """Protobuf's binary encoding."""

    async def to_binary(self, data: bytes, kind: type[Message]) -> bytes:
        return data

    async def encode(self, response: Message | bytes, kind: type[Message]) -> bytes:
        return response if isinstance(response, bytes) else response.SerializeToString()
