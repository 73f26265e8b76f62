"""Facts about a model: its context window, prices and token counts. Users set them, because prices change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.port import ModelUsage
from protolink_grpc.llms.prices import check_price
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.cost import Cost, is_currency
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
        cached_input_cost_per_million: Price of prompt tokens from the provider's cache; None means that of other prompt tokens.
        reasoning_cost_per_million: Price of output tokens for reasoning; None means that of other output tokens.
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
    input_media: Sequence[str] | None = None
    tokenizer: Callable[[str], int] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    cached_input_cost_per_million: float | None = None
    reasoning_cost_per_million: float | None = None

    def __post_init__(self) -> None:
        if self.context_window is not None and self.context_window < 1:
            raise InvalidArgumentError("must be at least 1", field="context_window")
        if self.input_media is not None:
            object.__setattr__(self, "input_media", tuple(self.input_media))
        for index, pattern in enumerate(self.input_media or ()):
            if "/" not in pattern:
                raise InvalidArgumentError(
                    "must be a media type or a pattern, such as image/*", field=f"input_media[{index}]"
                )
        for name in _PRICES:
            check_price(getattr(self, name), name)
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

    @property
    def has_price(self) -> bool:
        """Whether the cost of every call with known counts is known."""
        return self.input_cost_per_million is not None and self.output_cost_per_million is not None

    def cost_micros(self, usage: ModelUsage) -> int | None:
        """The cost of a call in millionths of `currency`, or None if a required price or count is unknown."""
        read = _cost(
            usage.input_tokens,
            self.input_cost_per_million,
            usage.cached_input_tokens,
            self.cached_input_cost_per_million,
        )
        written = _cost(
            usage.output_tokens,
            self.output_cost_per_million,
            usage.reasoning_tokens,
            self.reasoning_cost_per_million,
        )
        return None if read is None or written is None else round(read + written)

    def cost_of(self, usage: ModelUsage) -> Cost | None:
        """As `cost_micros`, with the currency."""
        micros = self.cost_micros(usage)
        return None if micros is None else Cost(micros, self.currency)

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON, without the tokenizer."""
        special = {name: getattr(self, name) for name in _SPECIAL_PRICES if getattr(self, name) is not None}
        return special | {
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


_SPECIAL_PRICES = ("cached_input_cost_per_million", "reasoning_cost_per_million")
_PRICES = ("input_cost_per_million", "output_cost_per_million", *_SPECIAL_PRICES)


def _cost(tokens: int | None, price: float | None, special: int | None, special_price: float | None) -> Decimal | None:
    """Return the exact cost of tokens in millionths, or None if it is unknown.

    Args:
        special: The tokens among them that have `special_price`, if that is set.
    """
    if tokens == 0:
        return Decimal(0)
    if tokens is None or price is None:
        return None
    other = min(special or 0, tokens) if special_price is not None else 0
    # A price per million tokens is, per token, the same number of millionths.
    return (tokens - other) * Decimal(str(price)) + other * Decimal(str(special_price or 0))
