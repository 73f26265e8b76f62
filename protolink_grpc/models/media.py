"""Files of conversations with models: images, audio, video and documents, by value or by URL. Nothing here fetches a URL."""

import base64
import binascii
import hashlib
import mimetypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Self
from urllib.parse import unquote_to_bytes, urlsplit

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.part import FileContent, Part, PartType
from protolink_grpc.models.payload import MARK, Payload, PayloadRef

MediaKind = Literal["image", "audio", "video", "text", "document"]

OCTETS: Final = "application/octet-stream"

FILE_TYPES: Final = frozenset(
    {PartType.FILE, PartType.IMAGE, PartType.AUDIO, PartType.VIDEO, PartType.BYTES, PartType.URI}
)
"""Types of parts that are files."""

_SAME: Final = {
    "audio/mp3": "audio/mpeg",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "image/jpg": "image/jpeg",
}
"""Common names of media types that are not registered."""

_TEXT_TYPES: Final = (
    *("text/*", "application/json", "application/*+json", "application/xml", "application/*+xml"),
    *("application/yaml", "application/x-yaml", "application/toml", "application/javascript"),
)

IMAGE_TOKENS: Final = 1_600
"""Estimated tokens of an image. Source: the most that Anthropic counts for one image; other providers count less."""

_BYTES_PER_TOKEN: Final[dict[MediaKind, int]] = {"audio": 500, "video": 400, "text": 4, "document": 32}
"""Bytes of a file per estimated token.

Audio: 32 tokens a second (Gemini) at 128 kbit/s. Video: 300 tokens a second (Gemini) at 1 Mbit/s. Documents: 2,000 tokens a page
(Anthropic) at 64 KB a page.
"""

URL_TOKENS: Final = IMAGE_TOKENS
"""Estimated tokens of a file whose size is unknown, because only its URL is known."""


@dataclass(frozen=True, slots=True)
class Media(JsonForm):
    """A file for a model, or from a model.

    Args:
        media_type: For example `image/png`, in lower case and without parameters.
        data: The bytes; None if there is a URL.
        url: The address of the bytes; empty if there is `data`.
        name: The name of the file; empty means unknown.
        part: The path of the part in its task, for errors: `messages[0].parts[1]`. Empty means that it is not from a part.
    """

    media_type: str
    data: bytes | None = None
    url: str = ""
    name: str = ""
    part: str = ""

    def __post_init__(self) -> None:
        if (self.data is None) == (not self.url):
            raise InvalidArgumentError("a file needs either data or url")
        try:
            urlsplit(self.url)
        except ValueError:
            raise InvalidArgumentError("must be a URL", field="url") from None
        given = self.media_type.partition(";")[0].strip().lower()
        object.__setattr__(self, "media_type", _SAME.get(given, given) or OCTETS)

    @property
    def kind(self) -> MediaKind:
        """The kind by the media type. Everything that is not an image, audio, video or text is a document."""
        match self.media_type.partition("/")[0]:
            case "image" | "audio" | "video" as kind:
                return kind
            case _:
                return "text" if is_media_type(self.media_type, _TEXT_TYPES) else "document"

    @property
    def text(self) -> str | None:
        """The content of a text file that is given by value; None for all others."""
        if self.data is None or self.kind != "text":
            return None
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None

    @property
    def estimated_tokens(self) -> int:
        """Estimated tokens of the file in a prompt: `IMAGE_TOKENS` for an image, otherwise by the number of bytes."""
        if self.data is None:
            return URL_TOKENS
        if self.kind == "image":
            return IMAGE_TOKENS
        return -(-len(self.data) // _BYTES_PER_TOKEN[self.kind])

    @property
    def reference(self) -> dict[str, Any]:
        """The file without its content, as JSON: what it is, where it is from, and a digest that identifies the bytes."""
        found: dict[str, Any] = {"media_type": self.media_type}
        if self.name:
            found["name"] = self.name
        if self.data is not None:
            found["bytes"] = len(self.data)
            found["sha256"] = hashlib.sha256(self.data).hexdigest()[:16]
        else:
            found["url"] = public_url(self.url)
        if self.part:
            found["part"] = self.part
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form. `data` is standard base64; fields that are not set are omitted."""
        found: dict[str, Any] = {"media_type": self.media_type}
        if self.data is not None:
            found["data"] = base64.b64encode(self.data).decode("ascii")
        return found | {key: text for key in ("url", "name", "part") if (text := getattr(self, key))}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read a JSON object. Raises InvalidArgumentError, which names the field."""
        source = reader.as_object(data)
        encoded = reader.optional_text(source, "data")
        try:
            decoded = None if encoded is None else binascii.a2b_base64(encoded, strict_mode=True)
        except ValueError:
            raise InvalidArgumentError("must be base64 text", field="data") from None
        texts = {key: reader.text(source, key) for key in ("url", "name", "part")}
        return cls(reader.filled_text(source, "media_type"), decoded, **texts)

    def to_part(self) -> Part:
        """Return the file as a part: `image`, `audio` or `video` by its media type, otherwise `file`."""
        content = FileContent(self.data, self.url or None, self.name or None, self.media_type)
        return Part(self.kind if self.kind in ("image", "audio", "video") else PartType.FILE, content)

    @classmethod
    def of_part(cls, part: Part, path: str = "") -> Self | None:
        """Return the file of a part; None if the part is not a file.

        Args:
            path: The path of the part in its task, for errors.

        Raises:
            InvalidArgumentError: The file has no content that can be read; names `path`.
        """
        try:
            content = _file_of(part)
        except InvalidArgumentError as error:
            raise error.within(path) if path else error from None
        if content is None:
            return None
        name, media_type = content.name or "", part.media_type or content.media_type
        if content.data is not None:
            return cls(_guess_type(media_type, name), content.data, name=name, part=path)
        uri = content.uri or ""
        if uri.startswith("data:"):
            media_type, data = _read_data_url(uri, name, path)
            return cls(media_type, data, name=name, part=path)
        if not uri:
            raise InvalidArgumentError("the file has neither bytes nor a URL that can be sent to a model", field=path)
        try:
            found = cls(media_type, url=uri, name=name, part=path)
        except InvalidArgumentError:
            raise InvalidArgumentError("must be a valid URL", field=path) from None
        return replace(found, media_type=_guess_type(media_type, name or urlsplit(uri).path))


def _file_of(part: Part) -> FileContent | None:
    """Return the file of a part, also in the forms of ProtoLink's programs: an object, a URL as text, or bytes."""
    if part.type not in FILE_TYPES:
        return None
    match part.content:
        case FileContent() as file:
            return file
        case Payload(value=bytes() | PayloadRef()) as payload:
            return FileContent.of(payload)
        case bytes() as data:
            return FileContent(data)
        case str() as uri if part.type == PartType.URI:
            return FileContent(uri=uri)
        case {"data": str()} | {"uri": str()} as fields:
            return FileContent.from_dict(fields)
        case _:
            return None


def media_of_parts(parts: Iterable[Part], path: str) -> list[Media]:
    """Return the files of a message or artifact in their order. `path` is its path in the task. Raises as `Media.of_part`."""
    found = (Media.of_part(part, f"{path}.parts[{index}]") for index, part in enumerate(parts))
    return [media for media in found if media is not None]


def is_media_type(media_type: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns, such as `image/*`, matches."""
    return any(fnmatchcase(media_type, pattern) for pattern in patterns)


def public_url(url: str) -> str:
    """Return a URL without credentials, query and fragment, which may contain secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def split_result(value: Any) -> tuple[Any, list[Media]]:
    """Separate the files in the JSON result of a tool from the rest.

    A file is a part of type `image`, `audio`, `video`, `file`, `bytes` or `uri` in its JSON form, a payload of bytes with a media
    type, or a block of MCP. It is replaced by `Media.reference`. Text files by value stay in the result.
    """
    found: list[Media] = []
    return _split(value, found), found


def _split(value: Any, found: list[Media]) -> Any:
    if isinstance(value, list):
        return [_split(each, found) for each in value]
    if not isinstance(value, dict):
        return value
    media = _read_media(value)
    if media is None:
        return {key: _split(each, found) for key, each in value.items()}
    if media.text is not None:
        return {"media_type": media.media_type, "name": media.name, "text": media.text}
    found.append(media)
    return media.reference


def _read_media(value: dict[str, Any]) -> Media | None:
    """Return the file that a JSON object is; None for any other object."""
    try:
        match value:
            case {"type": "image" | "audio", "data": str() as data, "mimeType": str() as media_type}:
                return Media.from_dict({"media_type": media_type, "data": data})
            case {"type": "resource", "resource": {"blob": str() as data, "uri": str() as uri} as resource}:
                media_type = resource.get("mimeType") or OCTETS
                return Media.from_dict({"media_type": _guess_type(media_type, uri), "data": data, "name": uri})
            case {"type": str() as kind, "content": dict()} if kind in FILE_TYPES:
                return Media.of_part(Part.from_dict(value))
            case _ if MARK in value and len(value) == 1:
                payload = Payload.from_dict(value)
                if isinstance(payload.value, bytes) and payload.media_type and not payload.encoding:
                    return Media(payload.media_type, payload.value)
    except InvalidArgumentError:
        pass  # an object of the tool that only looks like a file
    return None


def _guess_type(media_type: str, name: str) -> str:
    """Return the media type; if it is unknown, the one of the file's name."""
    if media_type and media_type != OCTETS:
        return media_type
    return mimetypes.guess_type(name)[0] or OCTETS


def _read_data_url(uri: str, name: str, path: str) -> tuple[str, bytes]:
    """Return the media type and the bytes of a `data:` URL. Raises InvalidArgumentError, which names `path`."""
    head, comma, body = uri.removeprefix("data:").partition(",")
    media_type, _, coding = head.rpartition(";") if head.endswith(";base64") else (head, "", "")
    try:
        if not comma:
            raise ValueError("a data URL needs a comma")
        data = unquote_to_bytes(body)
        data = binascii.a2b_base64(data, strict_mode=True) if coding else data
    except ValueError:
        raise InvalidArgumentError("must be a valid data URL", field=path) from None
    return media_type or "text/plain", data
