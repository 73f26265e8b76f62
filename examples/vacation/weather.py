"""The weather agent, which has only tools. Its answers are deterministic."""

from datetime import date, timedelta
from random import Random

from examples.mesh.process import own_settings, serve
from examples.vacation.places import Place, place_named
from examples.vacation.trip import Day, Forecast, Nights
from protolink_grpc import Agent, AgentCard

GOOD_FIT = 80
"""The minimum fit of a season's average day."""

agent = Agent(
    AgentCard(
        name="weather",
        description="Forecasts the weather at the destinations and finds the best season.",
        url="grpc://127.0.0.1:0",
        tags=["vacation"],
    ),
    **own_settings("weather"),
)


@agent.tool(read_only=True)
def forecast(destination: str, start: date, nights: Nights) -> Forecast:
    """Forecast the weather of a stay, day by day, and how well it fits."""
    place = place_named(destination)
    days = [_day(place, start + timedelta(days=offset)) for offset in range(nights)]
    fit = sum(_fit(place, day.high, float(day.wet)) for day in days) / len(days)
    return Forecast(place.name, round(fit), days)


@agent.tool(read_only=True)
def best_start(destination: str, earliest: date) -> date:
    """Find the first day of the next month that suits the destination, or of the best month if none does."""
    place = place_named(destination)
    months = [_month_after(earliest, offset) for offset in range(1, 13)]
    good = [month for month in months if _season(place, month) >= GOOD_FIT]
    return good[0] if good else max(months, key=lambda month: _season(place, month))


def _day(place: Place, day: date) -> Day:
    chance = Random(f"{place.name} {day}")
    high = place.highs[day.month - 1] + chance.uniform(-2.5, 2.5)
    return Day(day, round(high, 1), chance.random() < place.wet_days[day.month - 1] / 30)


def _season(place: Place, day: date) -> float:
    return _fit(place, place.highs[day.month - 1], place.wet_days[day.month - 1] / 30)


def _fit(place: Place, high: float, wet: float) -> float:
    """Return how good a day is, 0 to 100: eight points less per degree outside the pleasant range, up to sixty less for rain."""
    low, top = place.pleasant
    outside = max(low - high, high - top, 0.0)
    return max(0.0, 100.0 - 8.0 * outside - 60.0 * wet)


def _month_after(day: date, months: int) -> date:
    years, month = divmod(day.month - 1 + months, 12)
    return date(day.year + years, month + 1, 1)


if __name__ == "__main__":
    serve(agent)
