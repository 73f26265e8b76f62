"""The values that the agents exchange as JSON: the trip and the answers to it."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated

from pydantic import Field

MAX_NIGHTS = 30
MAX_GUESTS = 12

Nights = Annotated[int, Field(ge=1, le=MAX_NIGHTS)]
Guests = Annotated[int, Field(ge=1, le=MAX_GUESTS)]
Budget = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class Trip:
    """The requested trip. Without a `start`, it begins in the next season with good weather; `budget` is EUR in total."""

    to: str
    nights: Nights = 5
    guests: Guests = 2
    start: date | None = None
    budget: Budget | None = None

    @property
    def question(self) -> str:
        """Return the trip as a sentence."""
        when = f" from {self.start}" if self.start else ", when the weather suits"
        most = f", for at most EUR {self.budget:,.0f}" if self.budget else ""
        nights = "1 night" if self.nights == 1 else f"{self.nights} nights"
        return f"Book {nights} in {self.to} for {self.guests}{when}{most}."


@dataclass(frozen=True, slots=True)
class Day:
    date: date
    high: float
    wet: bool


@dataclass(frozen=True, slots=True)
class Forecast:
    """`fit` is the quality of the weather for this place, 0 to 100."""

    destination: str
    fit: int
    days: list[Day]

    @property
    def wet_days(self) -> int:
        return sum(day.wet for day in self.days)


@dataclass(frozen=True, slots=True)
class Offer:
    """A hotel with rooms on all nights; `total` is EUR for all rooms and nights."""

    hotel: str
    stars: int
    rooms: int
    total: float
    extras: list[str]


@dataclass(frozen=True, slots=True)
class Search:
    """The offers within the budget, cheapest first. `cheapest` is the lowest price of all, or None if no rooms are free."""

    offers: list[Offer]
    cheapest: float | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """An offer with its score and its advantages."""

    hotel: str
    score: int
    because: str
    total: float


@dataclass(frozen=True, slots=True)
class Advice:
    """Hotels, best first, and one sentence about the weather."""

    ranking: list[Ranked]
    weather: str


@dataclass(frozen=True, slots=True)
class Booking:
    reference: str
    hotel: str
    start: date
    nights: int
    guests: int
    rooms: int
    total: float
