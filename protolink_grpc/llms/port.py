"""The interface of language models, independent of providers.

It has one method, `generate`: from a prompt to pieces of an answer, and the complete answer last. Retries, budgets and the
meaning of the answer are left to the caller.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.media import Media

RUNTIME_KEY = "runtime"
"""Metadata key of messages that the loop writes in the user role: `data`, `observation`, `correction`, `note` or `summary`."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool for a model.

    Args:
        input_schema: JSON Schema of the arguments, an object.
        read_only: Whether a call has no effects, so that several calls of one answer may run concurrently.
    """

    name: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool call that a model requests.

    Args:
        call_id: The provider's id, or a new one if it has none.
        raw: The arguments as text if they are not a JSON object; `arguments` is then empty.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    call_id: str = ""
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The usage of a call. None means unknown.

    Args:
        details: Further counts with the provider's names.
        cached_input_tokens: The part of `input_tokens` from the provider's cache.
        reasoning_tokens: The part of `output_tokens` for reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    details: dict[str, Any] = field(default_factory=dict)
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One prompt.

    Args:
        system: Instructions of the agent's author, without text from tools, peers and users.
        messages: The conversation, oldest first, without system messages. `LLMMessage.media` has the files.
        tools: The tools for native tool calls; empty for models without them.
        output_schema: JSON Schema of the final text, for models that can enforce one. The caller checks it in any case.
        max_output_tokens: Maximum length of the answer; None means the provider's default.
        timeout_s: Timeout of the whole call in seconds; None means no timeout.
    """

    system: str
    messages: Sequence[LLMMessage]
    tools: Sequence[ToolSpec] = ()
    output_schema: dict[str, Any] | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class TextChunk:
    """The next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The complete answer, always the last item of a call.

    Args:
        text: Its complete text.
        finish_reason: `stop`, `tool_calls`, `length`, `content_filter`, or another value of the provider; empty means unknown.
        model: The provider's name of the model that answered.
        files: Files that the model has produced, in their order; given by value.
    """

    text: str = ""
    tool_calls: tuple[ModelToolCall, ...] = ()
    usage: ModelUsage = field(default_factory=ModelUsage)
    finish_reason: str = ""
    model: str = ""
    files: tuple[Media, ...] = ()


ModelItem = TextChunk | ModelResponse


class LanguageModel(Protocol):
    """A language model. It is called concurrently and from any event loop."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def native_tools(self) -> bool:
        """Whether it supports `ModelRequest.tools`. Otherwise the instructions describe actions as JSON."""
        ...

    def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Answer a prompt: yield any number of TextChunks, then one ModelResponse whose text is that of all chunks.

        Closing the iterator cancels the call.

        Raises:
            ModelRateLimitedError: The provider limits the rate of requests. Retry after `retry_after_s`, if it is set.
            ModelUnavailableError: The provider is overloaded or unreachable. Retry as above.
            ModelTimeoutError: `timeout_s` has passed.
            ContentTypeNotSupportedError: The model does not take a file of the last message of the user.
            ModelError: The provider refused: an invalid key, an unknown model, an invalid prompt.
        """
        ...
