"""What pydantic-ai and the providers' SDKs raise -> our errors. Loaded with the first call of a model, for it imports pydantic-ai.

A message of ours is shown to callers and kept in logs: it says what the provider said, shortened, and never a key or a header.
"""

from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic_ai import exceptions

from protolink_grpc.errors import (
    ContextLimitError,
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
    ProtolinkError,
)

TEXT_CHARS = 300
"""Bound of what is quoted from a provider."""

_REDIRECT, _CLIENT_ERROR = 300, 400
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
"""How servers that have no code for it say that a prompt does not fit."""

Known = (exceptions.AgentRunError, exceptions.UserError, httpx2.HTTPError, httpx2.StreamError, ValueError)
"""Everything that a call raises for reasons outside of this process; ValueError is an answer that could not be decoded."""


@dataclass(frozen=True, slots=True)
class _Row:
    """What some of their errors are to our callers. `quoted`: the provider's own sentence is added."""

    theirs: tuple[type[Exception], ...]
    ours: type[ModelError]
    sentence: str
    quoted: bool = True


_ROWS = (
    _Row(
        (exceptions.ModelTimeoutError, exceptions.ModelRequestTimeout, httpx2.TimeoutException),
        ModelTimeoutError,
        "the provider did not answer in time",
        quoted=False,
    ),
    _Row(
        (exceptions.ModelConnectionError, httpx2.HTTPError, httpx2.StreamError),
        ModelUnavailableError,
        "the connection to the provider failed",
        quoted=False,
    ),
    # Not quoted: providers repeat the key, or half of it, in what they say about it.
    _Row((exceptions.ModelAuthenticationError,), ModelError, "the provider refused the credentials", quoted=False),
    _Row((exceptions.ModelQuotaExceededError,), ModelError, "the account's quota is used up"),
    _Row((exceptions.ModelRateLimitError,), ModelUnavailableError, "the provider limits the rate"),
    _Row(
        (exceptions.ModelUnavailableError, exceptions.ModelServerError),
        ModelUnavailableError,
        "the provider is not available",
    ),
    _Row(
        (exceptions.ModelHTTPError, exceptions.ModelRequestRejectedError),
        ModelError,
        "the provider refused the request",
    ),
    _Row((exceptions.UserError,), ModelError, "the model does not take the request"),
)

_REDIRECTED = _Row((), ModelError, "the server sends the request elsewhere, correct base_url", quoted=False)
_NOT_READY = _Row((), ModelUnavailableError, "the provider is not ready")
_UNREADABLE = _Row((), ModelUnavailableError, "the provider's answer was cut off or could not be read", quoted=False)


def failure(error: Exception, provider: str, model: str, key: str) -> ProtolinkError:
    """What a failed call means to the caller: ModelUnavailableError, ModelTimeoutError, ContextLimitError or ModelError."""
    facts, said = _facts(error, provider, model, key), _said(error, key)
    if _does_not_fit(error, said):
        return ContextLimitError(f"the prompt does not fit into the model's window ({provider}: {said})", **facts)
    row = _row(error)
    about = f"{provider}: {said}" if said and row.quoted else provider
    return row.ours(f"{row.sentence} ({about})", retry_after_s=getattr(error, "retry_after", None), **facts)


def _row(error: Exception) -> _Row:
    status = _status(error)
    if status in (_REQUEST_TIMEOUT, _TOO_EARLY):
        return _NOT_READY
    if _REDIRECT <= status < _CLIENT_ERROR:
        return _REDIRECTED
    return next((row for row in _ROWS if isinstance(error, row.theirs)), _UNREADABLE)


def _does_not_fit(error: Exception, said: str) -> bool:
    if isinstance(error, exceptions.ModelContextWindowExceededError):
        return True
    rejected = isinstance(error, exceptions.ModelRequestRejectedError) or _status(error) in _TOO_LARGE
    return rejected and any(words in said.lower() for words in _TOO_LONG)


def _status(error: Exception) -> int:
    """The HTTP status, 0 where there is none. A redirect has no error of its own: the SDK's error below has its status."""
    for each in (error, error.__cause__):
        status = getattr(each, "status_code", None) or getattr(each, "code", None)
        if isinstance(status, int):
            return status
    return 0


def _facts(error: Exception, provider: str, model: str, key: str) -> dict[str, str]:
    facts = {"provider": provider, "model": model}
    if status := _status(error):
        facts["status"] = str(status)
    if code := getattr(error, "provider_error_code", None) or getattr(error, "provider_error_type", None):
        facts["code"] = _clean(str(code), key)
    return facts


def _said(error: Exception, key: str) -> str:
    """The provider's own sentence, in one line, without the key."""
    text = str(error) if isinstance(error, exceptions.UserError) else _message_in(getattr(error, "body", None))
    return _clean(text, key)


def _clean(text: str, key: str) -> str:
    if key:
        text = text.replace(key, "***")
    return " ".join(text.split())[:TEXT_CHARS]


def _message_in(body: Any) -> str:
    """The sentence in an error body: `{"error": {"message"}}`, `{"message"}` or `{"error": "..."}`."""
    while isinstance(body, dict):
        body = body.get("error") or body.get("message")
    return body if isinstance(body, str) else ""
