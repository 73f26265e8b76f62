"""Amounts of money, each in one currency. Nothing is converted: two currencies never add up."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import reader
from protolink_grpc.models.json_form import JsonForm
from protolink_grpc.models.kinds import REQUIRED, Count

MICROS = 1_000_000
"""Millionths in a unit of a currency."""


@dataclass(frozen=True, slots=True)
class Cost(JsonForm):
    """An amount of money.

    Args:
        micros: Millionths of a unit of the currency, at least 0.
        currency: Three capital letters of ISO 4217, for instance USD.

    Raises:
        InvalidArgumentError: A field is invalid; names the field.
    """

    micros: Count
    currency: str = field(default="USD", metadata=REQUIRED)

    def __post_init__(self) -> None:
        if self.micros is None:
            raise InvalidArgumentError("must be an integer", field="micros")
        reader.check_integer(self.micros, "micros")
        if not is_currency(self.currency):
            raise InvalidArgumentError("must be three capital letters of ISO 4217", field="currency")

    @classmethod
    def of(cls, units: float, currency: str = "USD") -> Self:
        """That many units of a currency, rounded to a millionth: `Cost.of(0.5)` is half a dollar."""
        reader.check_amount(units, "units")
        return cls(round(units * MICROS), currency)

    @property
    def units(self) -> float:
        """The amount in units of the currency."""
        return self.micros / MICROS

    def __str__(self) -> str:
        return f"{amount_text(self.micros)} {self.currency}"


def is_currency(text: object) -> bool:
    return isinstance(text, str) and len(text) == 3 and text.isascii() and text.isalpha() and text.isupper()


def amount_text(micros: int) -> str:
    """Units for people, without zeros at the end: `0.5`."""
    whole, rest = divmod(micros, MICROS)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")


def micros_in(costs: Iterable[Cost], currency: str) -> int:
    """Return the sum of the costs in one currency, in millionths of its unit."""
    return sum(each.micros for each in costs if each.currency == currency)


def sum_of(*costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """Return the sums, one entry per currency, sorted by currency. Costs that are known to be free give an entry of 0.

    A sum above the maximum of the contract's int64 is replaced by that maximum.
    """
    found: dict[str, int] = {}
    for each in (cost for group in costs for cost in group):
        found[each.currency] = found.get(each.currency, 0) + each.micros
    return tuple(Cost(min(found[currency], reader.MAX_INTEGER), currency) for currency in sorted(found))


def difference(costs: Iterable[Cost], earlier: Iterable[Cost]) -> tuple[Cost, ...]:
    """Return the increase since `earlier`, without currencies that did not increase."""
    before = {each.currency: each.micros for each in earlier}
    rest = (Cost(max(each.micros - before.get(each.currency, 0), 0), each.currency) for each in sum_of(costs))
    return tuple(each for each in rest if each.micros)
