"""Prices of model calls: those that a user sets, and those of a provider's models in the table of `genai-prices`.

`genai-prices` is installed with the extras of the providers. It contains its table, so nothing is requested from the network; a
newer version has newer prices.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.port import ModelUsage
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.cost import MICROS, Cost, is_currency

_CACHE_COUNTS = ("cache_read_tokens", "cache_write_tokens")
"""Keys of `ModelUsage.details` that `genai-prices` knows by the same names."""


class ModelPrice(Protocol):
    """The price of one model. `LLMModelProfile` and `ListedPrice` implement it."""

    @property
    def currency(self) -> str: ...
    def cost_of(self, usage: ModelUsage) -> Cost | None:
        """Return the cost of a call, or None if a required count is unknown."""
        ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in units of `currency` per million tokens. `Price(0, 0)` is free.

    Args:
        cached_input: Price of input tokens from the provider's cache; None means `input`.
        reasoning: Price of output tokens for reasoning; None means `output`.
        currency: Three capital letters of ISO 4217.
    """

    input: float
    output: float
    cached_input: float | None = None
    reasoning: float | None = None
    currency: str = "USD"

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input", "reasoning"):
            check_price(getattr(self, name), name)
        if not is_currency(self.currency):
            raise InvalidArgumentError("must be three capital letters of ISO 4217", field="currency")

    @property
    def profile_fields(self) -> dict[str, Any]:
        """The price as fields of `LLMModelProfile`."""
        return {
            "input_cost_per_million": self.input,
            "output_cost_per_million": self.output,
            "cached_input_cost_per_million": self.cached_input,
            "reasoning_cost_per_million": self.reasoning,
            "currency": self.currency,
        }


def check_price(price: float | None, field: str) -> None:
    """Raise InvalidArgumentError if a price is negative or not finite; None is allowed."""
    if price is not None and not (isfinite(price) and price >= 0):
        raise InvalidArgumentError("must be a price, not negative", field=field)


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """The price of a model in the table of `genai-prices`, in US dollars.

    Args:
        model: The provider's name of the model.
        url: The base URL of the provider.
    """

    model: str
    url: str
    currency: str = "USD"

    def cost_of(self, usage: ModelUsage) -> Cost | None:
        """As `ModelPrice.cost_of`. The table has prices by time of day and size of the prompt; the current time is used."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        from genai_prices import Usage, calc_price

        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        cached = {name: usage.details[name] for name in _CACHE_COUNTS if usage.details.get(name)}
        for counts in (tokens | cached, tokens):
            try:
                price = calc_price(Usage(**counts), self.model, provider_api_url=self.url).total_price
            except ValueError:  # the counts of the provider contradict each other
                continue
            return Cost(round(price * MICROS), self.currency)
        return None


def find_listed_price(url: str, model: str) -> ListedPrice | None:
    """Return the price of a model at a base URL, or None. Importing the table takes up to a second: call this in a thread."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    try:
        calc_price(Usage(input_tokens=1), model, provider_api_url=url)
    except (LookupError, ValueError):
        return None
    return ListedPrice(model, url)
