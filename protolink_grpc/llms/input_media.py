"""Files in prompts: text files become data blocks, and files that the model does not take are errors or notes. No URL is fetched.

A file of the current request that the model does not take is an error, because the answer would ignore it. In earlier turns and in
results of tools, the model gets a note about the file instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import urlsplit

from protolink_grpc.errors import ContentTypeNotSupportedError
from protolink_grpc.llms.port import RUNTIME_KEY
from protolink_grpc.llms.prompt import data_block
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.media import Media
from protolink_grpc.net.allowed_addresses import is_permitted

Refusal = Callable[[Media], str]
"""Returns why a model does not take a file, for example `it takes image/*`; empty if it takes the file."""


def fit_media(messages: Sequence[LLMMessage], refuse: Refusal, *, provider: str, model: str) -> tuple[LLMMessage, ...]:
    """Return the messages with only the files that the model takes.

    Raises:
        ContentTypeNotSupportedError: The model does not take a file of the last message of the user.
    """
    if not any(message.media for message in messages):
        return tuple(messages)
    query = _find_query(messages)
    return tuple(_fit(each, refuse, provider, model, strict=each is query) if each.media else each for each in messages)


def inline_text(message: LLMMessage) -> LLMMessage:
    """Return the message with its text files as data blocks after its content; every model can read these."""
    texts = [each for each in message.media if each.text is not None]
    if not texts:
        return message
    files = [{"name": each.name, "media_type": each.media_type, "text": each.text} for each in texts]
    rest = tuple(each for each in message.media if each.text is None)
    return replace(message, content=_join(message.content, data_block("files", files)), media=rest)


def refuse_text(media: Media) -> str:
    """Return why a text file cannot be sent as text; empty if it can, and for all other files."""
    if media.kind != "text" or media.text is not None:
        return ""
    return "the file is not UTF-8; convert it" if media.data is not None else "a text file must be sent as bytes"


def media_error(media: Media, provider: str, model: str, why: str, *, detail: str = "") -> ContentTypeNotSupportedError:
    """Build the error of a file that a model does not take. `detail` is the provider's message."""
    what = f"{media.part}: " if media.part else ""
    return ContentTypeNotSupportedError(
        f"{what}the model '{model}' of {provider} does not take {media.media_type}"
        f"{' by URL' if media.url else ''}{f' ({detail})' if detail else ''}; {why}",
        part=media.part,
        media_type=media.media_type,
        provider=provider,
        model=model,
    )


def refuse_url(url: str) -> str:
    """Return why a URL is not sent to a provider, which would download it; empty if it may be sent. Nothing is resolved.

    The credentials in a URL are not the provider's, and a model server in this network must not read from private addresses.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return f"send the bytes, or an http(s) URL instead of {parts.scheme or 'a path'}"
    if "@" in parts.netloc:
        return "the URL contains credentials; send the bytes instead"
    host = (parts.hostname or "").rstrip(".")
    try:
        is_public = is_permitted(ip_address(host), ())
    except ValueError:
        is_public = bool(host) and host != "localhost" and not host.endswith((".localhost", ".internal", ".local"))
    return "" if is_public else "the URL is not on a public address; send the bytes instead"


def list_types(patterns: Sequence[str]) -> str:
    """Return a sentence about the media types that a model takes."""
    return f"it takes text and {', '.join(patterns)}" if patterns else "it takes only text"


def _find_query(messages: Sequence[LLMMessage]) -> LLMMessage | None:
    return next((each for each in reversed(messages) if each.role == "user" and RUNTIME_KEY not in each.metadata), None)


def _fit(message: LLMMessage, refuse: Refusal, provider: str, model: str, *, strict: bool) -> LLMMessage:
    refused: list[Media] = []
    for media in message.media:
        why = refuse(media)
        if why and strict:
            raise media_error(media, provider, model, why)
        if why:
            refused.append(media)
    if not refused:
        return message
    taken = tuple(each for each in message.media if each not in refused)
    return replace(message, content=_join(message.content, _note(refused)), media=taken)


def _note(refused: Sequence[Media]) -> str:
    return data_block("files", [{**each.reference, "note": "this model does not take it"} for each in refused])


def _join(text: str, more: str) -> str:
    return f"{text}\n\n{more}" if text else more
