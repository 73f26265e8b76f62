"""Converts errors of pydantic-ai and the providers' SDKs to errors of this package. Imported with the first call of a model.

Callers and logs get the messages. A message contains the server, the problem, the provider's message (shortened) and a hint, but
never a key or a header.
"""

import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic_ai import exceptions

from protolink_grpc.errors import (
    ContextLimitError,
    ModelError,
    ModelRateLimitedError,
    ModelTimeoutError,
    ModelUnavailableError,
    ProtolinkError,
)
from protolink_grpc.llms.input_media import media_error
from protolink_grpc.llms.providers import Provider
from protolink_grpc.llms.rate_limits import read_rate_limits
from protolink_grpc.models.media import Media
from protolink_grpc.models.redaction import DEFAULT_REDACTION_POLICY

TEXT_CHARS = 300
"""Maximum length of a quoted message of a provider."""

_REDIRECT, _CLIENT_ERROR = 300, 400
_NO_PATH = (404, 405)
_TOO_LARGE = (400, 413, 422)
_REQUEST_TIMEOUT = 408
_TOO_EARLY = 425

_TOO_LONG = (
    "context length",
    "context size",
    "context window",
    "context_length",
    "prompt is too long",
    "too many tokens",
)
"""Texts of servers without an error code for a prompt that is too long."""

_MEDIA_REFUSALS = (400, 404, 413, 415, 422, 500)
"""Statuses of a refused file. llama.cpp and LM Studio use 500, OpenRouter 404."""

_ABOUT_MEDIA = re.compile(
    r"\b(?:images?|image_url|input_audio|vision|multi-?modal|audio|video|documents?|pdf|files?|media|mmproj)\b",
    re.IGNORECASE,
)
"""Words in the message of a provider that refuses a file; there is no common error code."""

KNOWN_ERRORS = (exceptions.AgentRunError, exceptions.UserError, httpx2.HTTPError, httpx2.StreamError, ValueError)
"""All errors of a call with an external cause. ValueError means an answer that could not be decoded."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The model and server of a failed call, and the key that no text may contain."""

    provider: Provider
    model: str
    url: str
    key: str = ""

    @property
    def display_url(self) -> str:
        """The URL without credentials and query."""
        parts = urlsplit(self.url)
        return _clean(f"{self.server}{parts.path.rstrip('/')}", self.key)

    @property
    def server(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


@dataclass(frozen=True, slots=True)
class _Row:
    """The conversion of some error types.

    Args:
        theirs: Error types of pydantic-ai and the SDKs.
        ours: The error type of this package.
        sentence: The problem; `{provider}`, `{model}`, `{url}` and `{server}` are filled in.
        advice: A hint. `{variable}` is replaced by the environment variable of the key; `{start}`, `{name}` and `{base_url}` by
            hints about the server, the model's name and the URL.
        quoted: Whether the provider's message is added.
    """

    theirs: tuple[type[Exception], ...]
    ours: type[ModelError]
    sentence: str
    advice: str = ""
    quoted: bool = True


_UNREACHABLE = _Row(
    (httpx2.ConnectError, httpx2.ConnectTimeout),
    ModelUnavailableError,
    "cannot reach {server}",
    "is the model server running{start}, and is base_url right?",
    quoted=False,
)
_UNREACHABLE_SERVICE = _Row(
    (),
    ModelUnavailableError,
    "cannot reach {server}",
    "check the network connection of this machine, and base_url",
    quoted=False,
)
_BROKEN = _Row(
    (exceptions.ModelConnectionError, httpx2.HTTPError, httpx2.StreamError),
    ModelUnavailableError,
    "the connection to {server} broke before the answer of {provider} was complete",
    "send the request again; if it happens often, look into the log of the server",
    quoted=False,
)

_ROWS = (
    _Row(
        (exceptions.ModelTimeoutError, exceptions.ModelRequestTimeout, httpx2.TimeoutException),
        ModelTimeoutError,
        "{provider} at {server} did not answer in time",
        "allow more time with timeout_s, or use a faster model",
        quoted=False,
    ),
    _BROKEN,
    # Not quoted: providers repeat the key, or a part of it, in this message.
    _Row(
        (exceptions.ModelAuthenticationError,),
        ModelError,
        "{provider} at {server} refused the API key",
        "pass a valid key that may use this model with api_key={variable}",
        quoted=False,
    ),
    _Row(
        (exceptions.ModelQuotaExceededError,),
        ModelError,
        "the quota of the {provider} account at {server} is used up",
        "check its plan and billing, or use another account's key",
    ),
    _Row(
        (exceptions.ModelRateLimitError,),
        ModelRateLimitedError,
        "{provider} at {server} limits the rate of requests",
        "wait, or send fewer requests at the same time",
    ),
    _Row(
        (exceptions.ModelUnavailableError, exceptions.ModelServerError),
        ModelUnavailableError,
        "{provider} at {server} is not available now",
        "try again later",
    ),
    _Row(
        (exceptions.ModelNotFoundError,),
        ModelError,
        "{provider} at {url} does not know the model '{model}'",
        "check the name of the model{name}, and base_url",
    ),
    _Row(
        (exceptions.ModelHTTPError, exceptions.ModelRequestRejectedError),
        ModelError,
        "{provider} at {server} refused the request to the model '{model}'",
        "check the model, its settings and the schemas of its tools",
    ),
    _Row(
        (exceptions.UserError,), ModelError, "the model '{model}' of {provider} at {server} does not take the request"
    ),
)

_REDIRECTED = _Row(
    (), ModelError, "{provider} at {url} sends the request to another address", "correct base_url", quoted=False
)
_NO_API = _Row((), ModelError, "{url} does not have the API of {provider}", "correct base_url{base_url}", quoted=False)
_NOT_READY = _Row((), ModelUnavailableError, "{provider} at {server} is not ready", "try again later")
_UNREADABLE = _Row(
    (),
    ModelUnavailableError,
    "the answer of {provider} at {server} was cut off or could not be read",
    "does base_url lead to a server that speaks the format of {provider}?",
    quoted=False,
)


def to_model_error(error: Exception, at: Endpoint, media: Sequence[Media] = ()) -> ProtolinkError:
    """Convert an error of a call to ModelUnavailableError, ModelRateLimitedError, ModelTimeoutError, ContextLimitError,
    ContentTypeNotSupportedError or ModelError.

    Args:
        media: The files of the request.
    """
    metadata, quoted = _error_metadata(error, at), _provider_message(error, at.key)
    if _is_context_limit(error, quoted):
        about = f" ({quoted})" if quoted else ""
        text = f"the prompt does not fit into the context window of the model '{at.model}' of {at.provider.name}{about}"
        return ContextLimitError(f"{text}; shorten the conversation, or use a model with a larger window", **metadata)
    if media and _is_media_refusal(error, quoted):
        detail = f"HTTP {metadata['status']}: {quoted}" if "status" in metadata else quoted
        why = "use a model that takes it, and set its input_media, so that other files are refused before the call"
        refused = media_error(media[-1], at.provider.name, at.model, why, detail=detail)
        refused.metadata |= metadata
        return refused
    row = _find_row(error, at)
    details = [cause] if (cause := _cause(error)) and not row.quoted else []
    if status := metadata.get("status"):
        details.append(f"HTTP {status}")
    if quoted and row.quoted:
        details.append(quoted)
    names = _row_names(at)
    text = row.sentence.format(**names) + (f" ({': '.join(details)})" if details else "")
    retry_after_s = getattr(error, "retry_after", None)
    advice = row.advice.format(**names)
    if retry_after_s and advice:
        advice = f"it asks to wait {retry_after_s:g} s; {advice}"
    failed = row.ours(f"{text}; {advice}" if advice else text, retry_after_s=retry_after_s, **metadata)
    if isinstance(failed, ModelRateLimitedError):
        failed.limits = read_rate_limits(getattr(error, "headers", None), getattr(error, "body", None))
    return failed


def _row_names(at: Endpoint) -> dict[str, str]:
    """The texts for the sentence and the advice of a row."""
    provider, model = at.provider, at.model
    start, pull = provider.start.replace("{model}", model), provider.pull.replace("{model}", model)
    base_url = f", for example {provider.base_url}" if provider.base_url else ""
    if provider.dialect == "anthropic":
        base_url = "; /v1/messages is added to it"
    return {
        "provider": provider.name,
        "model": model,
        "url": at.display_url,
        "server": at.server,
        "variable": f" or {provider.key_variables[0]}" if provider.key_variables else "",
        "start": f" (start it with '{start}')" if start else "",
        "name": f" (download it with '{pull}')" if pull else "",
        "base_url": base_url,
    }


def _find_row(error: Exception, at: Endpoint) -> _Row:
    status = _status(error)
    if status in (_REQUEST_TIMEOUT, _TOO_EARLY):
        return _NOT_READY
    if _REDIRECT <= status < _CLIENT_ERROR:
        return _REDIRECTED
    if status in _NO_PATH and not _find_message(_json_body(error)):
        return _NO_API
    if any(isinstance(each, _UNREACHABLE.theirs) for each in _chain(error)):
        return _UNREACHABLE_SERVICE if at.provider.key_variables else _UNREACHABLE
    return next((row for row in _ROWS if isinstance(error, row.theirs)), _UNREADABLE)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, latest first."""
    each: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if each is None:
            return
        yield each
        each = each.__cause__ or each.__context__


_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (socket.gaierror, "unknown host name"),
    (ssl.SSLCertVerificationError, "its TLS certificate is not trusted"),
    (ssl.SSLError, "the TLS handshake failed"),
    (httpx2.ConnectTimeout, "no connection in time"),
    (ConnectionResetError, "connection reset"),
    (BrokenPipeError, "connection reset"),
    (httpx2.RemoteProtocolError, "connection closed"),
)
"""Causes of a failed connection; the first match is used. Texts of the operating system are not quoted: they differ."""

_MAX_CAUSES = 10


def _cause(error: Exception) -> str:
    chain = list(_chain(error))
    return next((text for kind, text in _CAUSES if any(isinstance(each, kind) for each in chain)), "")


def _is_context_limit(error: Exception, quoted: str) -> bool:
    if isinstance(error, exceptions.ModelContextWindowExceededError):
        return True
    rejected = isinstance(error, exceptions.ModelRequestRejectedError) or _status(error) in _TOO_LARGE
    return rejected and any(words in quoted.lower() for words in _TOO_LONG)


def _is_media_refusal(error: Exception, quoted: str) -> bool:
    refused = isinstance(error, exceptions.ModelRequestRejectedError) or _status(error) in _MEDIA_REFUSALS
    return refused and _ABOUT_MEDIA.search(quoted) is not None


def _status(error: Exception) -> int:
    """The HTTP status, or 0. pydantic-ai has no error for a redirect; its status is in the SDK's error."""
    for each in (error, error.__cause__):
        status = getattr(each, "status_code", None) or getattr(each, "code", None)
        if isinstance(status, int):
            return status
    return 0


def _error_metadata(error: Exception, at: Endpoint) -> dict[str, str]:
    metadata = {"provider": at.provider.name, "model": at.model, "url": at.display_url}
    if status := _status(error):
        metadata["status"] = str(status)
    if code := getattr(error, "provider_error_code", None) or getattr(error, "provider_error_type", None):
        metadata["code"] = _clean(str(code), at.key)
    return metadata


def _provider_message(error: Exception, key: str) -> str:
    """The provider's message, on one line, without the key."""
    if isinstance(error, exceptions.UserError):
        return _clean(str(error), key)
    body = getattr(error, "body", None)
    if isinstance(body, str) and body.lstrip().startswith("<"):
        return ""  # the HTML page of a proxy
    return _clean(_find_message(body), key)


def _json_body(error: Exception) -> Any:
    """The error body if it is JSON; the SDKs give others as text."""
    body = getattr(error, "body", None)
    return body if isinstance(body, dict) else None


def _clean(text: str, key: str) -> str:
    """Reduce an external text to one printable, bounded line without the key and anything that looks like one."""
    if key:
        text = text.replace(key, "***")
    text = DEFAULT_REDACTION_POLICY.redact_text(text)
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:TEXT_CHARS]


def _find_message(body: Any) -> str:
    """The message in an error body: `{"error": {"message"}}`, `{"message"}` or `{"error": "..."}`."""
    while isinstance(body, dict):
        body = body.get("error") or body.get("message")
    return body if isinstance(body, str) else ""
