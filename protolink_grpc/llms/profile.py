"""Facts about a model: its context window, prices and token counts. Users set them, because prices change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.port import ModelUsage
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.cost import is_currency
from protolink_grpc.models.json_value import plain
from protolink_grpc.models.media import Media, is_media_type

CHARS_PER_TOKEN = 4
"""Characters per token of English text with the tokenizers of large models; other texts have fewer."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per four characters, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


@checks_arguments
@dataclass(frozen=True, slots=True)
class LLMModelProfile:
    """Facts about one model. None means unknown.

    Args:
        context_window: Maximum tokens of prompt and answer together.
        input_cost_per_million: Price of a million prompt tokens, in `currency`.
        output_cost_per_million: Price of a million tokens of answers, in `currency`.
        supports_tools: Whether the model calls tools natively.
        supports_streaming: Whether answers are streamed.
        supports_structured_output: Whether the provider can enforce a JSON Schema.
        supports_vision: Whether the model accepts images. False refuses them, unless `input_media` is set.
        input_media: Media types of files that the model takes, as patterns such as `image/*`; empty for text only. None means
            unknown: every file is sent, and the provider decides. Text files need no pattern, because they are sent as text.
        tokenizer: Counts the tokens of a text. Called for every new text of a prompt, so it must be fast and must not block.
    """

    context_window: int | None = None
    input_cost_per_million: float | None = None
    output_cost_per_million: float | None = None
    currency: str = "USD"
    provider: str | None = None
    model: str | None = None
    supports_tools: bool | None = None
    supports_streaming: bool | None = None
    supports_structured_output: bool | None = None
    supports_vision: bool | None = None
    input_media: tuple[str, ...] | None = None
    tokenizer: Callable[[str], int] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.context_window is not None and self.context_window < 1:
            raise InvalidArgumentError("must be at least 1", field="context_window")
        for name in ("input_cost_per_million", "output_cost_per_million"):
            price = getattr(self, name)
            if price is not None and not (isfinite(price) and price >= 0):
                raise InvalidArgumentError("must be a price, not negative", field=name)
        for index, pattern in enumerate(self.input_media or ()):
            if "/" not in pattern:
                raise InvalidArgumentError(
                    "must be a media type or a pattern, such as image/*", field=f"input_media[{index}]"
                )
        if not is_currency(self.currency):
            raise InvalidArgumentError("must be three capital letters of ISO 4217", field="currency")

    def takes(self, media: Media) -> bool:
        """Whether the model takes a file, as far as this is known."""
        if self.input_media is not None:
            return is_media_type(media.media_type, self.input_media)
        return not (media.kind == "image" and self.supports_vision is False)

    def estimate_tokens(self, text: str) -> int:
        """Count the tokens of a text with the tokenizer, or estimate them."""
        return self.tokenizer(text) if self.tokenizer else estimate_tokens(text)

    def cost_micros(self, usage: ModelUsage) -> int | None:
        """The cost of a call in millionths of `currency`, or None if a required price or count is unknown."""
        # A price per million tokens is, per token, the same number of millionths.
        read = _cost(usage.input_tokens, self.input_cost_per_million)
        written = _cost(usage.output_tokens, self.output_cost_per_million)
        return None if read is None or written is None else round(read + written)

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON, without the tokenizer."""
        return {
            "context_window": self.context_window,
            "input_cost_per_million": self.input_cost_per_million,
            "output_cost_per_million": self.output_cost_per_million,
            "currency": self.currency,
            "provider": self.provider,
            "model": self.model,
            "supports_tools": self.supports_tools,
            "supports_streaming": self.supports_streaming,
            "supports_structured_output": self.supports_structured_output,
            "supports_vision": self.supports_vision,
            "input_media": None if self.input_media is None else list(self.input_media),
            "metadata": plain(self.metadata),
        }


def _cost(tokens: int | None, price: float | None) -> float | None:
    if tokens == 0:
        return 0.0
    return None if tokens is None or price is None else tokens * price
