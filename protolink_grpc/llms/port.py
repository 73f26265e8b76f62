"""The port of language models: what the inference loop asks of one, and the values that cross it. No provider is named here.

One verb, `generate`: a prompt in, pieces of an answer out, the whole answer last. Whoever calls it decides about retries, budgets
and what the answer means.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from protolink_grpc.models.conversation import LLMMessage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it.

    Args:
        input_schema: JSON Schema of the arguments, an object.
        read_only: A call changes nothing: several of one answer may run side by side.
    """

    name: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool that a model asks for.

    Args:
        call_id: As the provider names it; a new one where it has none.
        raw: The arguments as the model wrote them, where they are no JSON object; `arguments` is empty then.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    call_id: str = ""
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What a call used. None means unknown, never zero.

    Args:
        details: Further counts, by the provider's names.
        cached_input_tokens: Those of `input_tokens` that the provider took from its cache.
        reasoning_tokens: Those of `output_tokens` that the model used to reason.
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
        system: Instructions of the agent's author. What tools, peers and users say is never in here.
        messages: The conversation, oldest first, without system messages.
        tools: What the model may call natively; empty for models without native tool calls.
        output_schema: JSON Schema that the final text must satisfy, for models that can enforce one. The caller checks it anyhow.
        max_output_tokens: Bound of the answer; None leaves it to the provider.
        timeout_s: Bound of the whole call in seconds; None means none.
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
    """A whole answer, always the last item of a call.

    Args:
        text: All of its text.
        finish_reason: `stop`, `tool_calls`, `length`, `content_filter`, or what the provider says; empty means unknown.
        model: The model that answered, as the provider names it.
    """

    text: str = ""
    tool_calls: tuple[ModelToolCall, ...] = ()
    usage: ModelUsage = field(default_factory=ModelUsage)
    finish_reason: str = ""
    model: str = ""


ModelItem = TextChunk | ModelResponse


class LanguageModel(Protocol):
    """A model behind one verb. Several calls may be under way at once, on any event loop."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def native_tools(self) -> bool:
        """Whether it takes `ModelRequest.tools`; else the caller puts a JSON contract into the instructions."""
        ...

    def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Answer a prompt: any number of TextChunks, then exactly one ModelResponse whose text is the chunks put together.

        Closing the iterator gives the call up.

        Raises:
            ModelUnavailableError: Overloaded, rate limited, not reachable: worth another try, after `retry_after_s` if it says so.
            ModelTimeoutError: `timeout_s` is over.
            ModelError: The provider refused: a wrong key, an unknown model, a prompt that it does not take.
        """
        ...
