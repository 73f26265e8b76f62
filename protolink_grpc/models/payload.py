"""A user's value that is not plain JSON: a protobuf message, bytes, a reference, or a value with a codec or a label.

In the models, a user's value (arguments, a result, data) that is plain JSON has no wrapper. Any other value is a `Payload`, which
is stored and sent unchanged.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, TypeAlias

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.json_value import plain, to_json
from protolink_grpc.models.kinds import Kind

MARK: Final = "$payload"
"""The only key of a payload in JSON."""

BYTES_KEYS: Final = frozenset({"message", "data", "encoded"})
"""Keys below it whose values are bytes in base64."""


@dataclass(frozen=True, slots=True)
class TypedMessage:
    """A serialized protobuf message and the full name of its type, for instance `acme.calculator.v1.AddRequest`."""

    type_name: str
    value: bytes = b""


@dataclass(frozen=True, slots=True)
class PayloadRef:
    """The address of a value. Nothing in this package fetches it.

    Args:
        size_bytes: 0 means unknown.
        sha256: 32 bytes; empty means unknown.
    """

    uri: str
    size_bytes: int = 0
    sha256: bytes = b""


@dataclass(frozen=True, slots=True)
class UnknownForm:
    """No value, or a form of a later version of the contract, as the encoded `plgrpc.v1.Payload`."""

    encoded: bytes


PayloadForm: TypeAlias = TypedMessage | PayloadRef | UnknownForm | bytes | Any
"""The value in a payload. A value of another class than the first four is a JSON value."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A user's value with the metadata that is needed to read it.

    Args:
        value: A TypedMessage, a PayloadRef, bytes, or any JSON value.
        media_type: Empty means the default of the form.
        encoding: Codec that encoded the value; empty means none.
        preview: Text to show instead of the value, at most 1 KiB.
    """

    value: PayloadForm
    media_type: str = ""
    encoding: str = ""
    preview: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the value is a JSON value. With an `encoding`, it must still be decoded."""
        return not isinstance(self.value, TypedMessage | PayloadRef | UnknownForm | bytes)

    @property
    def content_type(self) -> str:
        """The media type, or the default of the form."""
        match self.value:
            case _ if self.media_type:
                return self.media_type
            case TypedMessage():
                return "application/x-protobuf"
            case PayloadRef() | UnknownForm() | bytes():
                return "application/octet-stream"
            case _:
                return "application/json"

    @property
    def description(self) -> str:
        """Text to show instead of the value: the preview, otherwise a description of the form, or the text of a JSON value."""
        match self.value:
            case _ if self.preview:
                return self.preview
            case TypedMessage():
                return f"{self.value.type_name} ({len(self.value.value)} bytes)"
            case PayloadRef():
                return f"{self.content_type} at {self.value.uri}"
            case UnknownForm():
                return "a value in a form of a later version"
            case bytes():
                return f"{self.content_type} ({len(self.value)} bytes)"
            case _:
                return to_json(self.value)

    def to_dict(self) -> dict[str, Any]:
        """Return `{"$payload": {...}}`, with bytes in base64."""
        found: dict[str, Any]
        match self.value:
            case TypedMessage():
                found = {"type_name": self.value.type_name, "message": _to_base64(self.value.value)}
            case PayloadRef():
                found = {"uri": self.value.uri}
                if self.value.size_bytes:
                    found["size_bytes"] = self.value.size_bytes
                if self.value.sha256:
                    found["sha256"] = self.value.sha256.hex()
            case UnknownForm():
                found = {"encoded": _to_base64(self.value.encoded)}
            case bytes():
                found = {"data": _to_base64(self.value)}
            case _:
                found = {"json": plain(self.value)}
        labels = {"media_type": self.media_type, "encoding": self.encoding, "preview": self.preview}
        return {MARK: found | {name: text for name, text in labels.items() if text}}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object that `to_dict` wrote.

        Raises:
            InvalidArgumentError: An object of another shape; names the field.
        """
        source = reader.as_object(reader.as_object(data).get(MARK))
        value: PayloadForm
        if "message" in source:
            value = TypedMessage(reader.given_text(source, "type_name"), _read_bytes(source, "message"))
        elif "uri" in source:
            value = PayloadRef(
                reader.filled_text(source, "uri"), reader.integer(source, "size_bytes"), _read_digest(source)
            )
        elif "encoded" in source:
            value = UnknownForm(_read_bytes(source, "encoded"))
        elif "data" in source:
            value = _read_bytes(source, "data")
        elif "json" in source:
            value = plain(source["json"])
        else:
            raise InvalidArgumentError("must be one of message, uri, encoded, data, json", field=MARK)
        return cls(
            value, reader.text(source, "media_type"), reader.text(source, "encoding"), reader.text(source, "preview")
        )


def read_value(value: Any) -> Any:
    """Return the Payload whose JSON form this is; any other JSON value unchanged."""
    if isinstance(value, dict) and len(value) == 1 and MARK in value:
        try:
            payload = Payload.from_dict(value)
        except InvalidArgumentError:
            return value
        # Otherwise it is an object of the user that looks like a payload.
        if payload.to_dict() == value and not (payload.is_json and payload == Payload(payload.value)):
            return payload
    return value


UserValue = Annotated[Any, Kind("user value", lambda value: read_value(plain(value)))]
"""A JSON value, or a Payload."""


def copy_value(value: Any) -> Any:
    """Return a copy that shares nothing mutable. A Payload is never modified and is returned itself."""
    return value if isinstance(value, Payload) else plain(value)


def require_json(value: Any, field: str) -> Any:
    """Return the JSON value of a user's value.

    Raises:
        InvalidArgumentError: The value has another form; names `field`.
    """
    if not isinstance(value, Payload):
        return value
    if not value.is_json or value.encoding:
        codec = f" in the encoding {value.encoding!r}" if value.encoding else ""
        raise InvalidArgumentError(f"cannot be read here: {value.content_type}{codec}, not JSON", field=field)
    return value.value


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(source: Any, name: str) -> bytes:
    try:
        return binascii.a2b_base64(reader.given_text(source, name), strict_mode=True)
    except ValueError:
        raise InvalidArgumentError("must be base64 text", field=name) from None


def _read_digest(source: Any) -> bytes:
    try:
        return bytes.fromhex(reader.text(source, "sha256"))
    except ValueError:
        raise InvalidArgumentError("must be hexadecimal digits", field="sha256") from None
