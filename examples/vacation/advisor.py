"""The advisor agent: ranks offers by comfort, price and weather."""

from examples.mesh.process import own_settings, serve
from examples.vacation.trip import Advice, Forecast, Offer, Ranked
from protolink_grpc import Agent, AgentCard

POOR_FIT, GOOD_FIT = 50, 75

FINE_WEATHER, BAD_WEATHER = ("beach", "pool"), ("spa", "indoor pool", "centre")
"""Extras that count on sunny days and on other days."""

agent = Agent(
    AgentCard(
        name="advisor",
        description="Ranks hotel offers by comfort, price and weather.",
        url="grpc://127.0.0.1:0",
        tags=["vacation"],
    ),
    **own_settings("advisor"),
)


@agent.tool(read_only=True)
def advise(weather: Forecast, offers: list[Offer]) -> Advice:
    """Rank the offers, best first, each with its advantages."""
    useful = FINE_WEATHER if weather.fit >= POOR_FIT else BAD_WEATHER
    highest = max((offer.total for offer in offers), default=1.0)
    ranked = [_rank(offer, useful, highest) for offer in offers]
    return Advice(sorted(ranked, key=lambda each: (-each.score, each.total)), _weather_sentence(weather))


def _rank(offer: Offer, useful: tuple[str, ...], highest: float) -> Ranked:
    extras = [extra for extra in offer.extras if extra in useful]
    saved = 1.0 - offer.total / highest
    score = round(10 * offer.stars + 15 * len(extras) + 40 * saved)
    because = [f"{offer.stars} stars", *extras]
    if saved >= 0.1:
        because.append(f"{100 * saved:.0f} % below the highest price")
    return Ranked(offer.hotel, score, ", ".join(because), offer.total)


def _weather_sentence(weather: Forecast) -> str:
    highs = [day.high for day in weather.days]
    wet = "1 wet day" if weather.wet_days == 1 else f"{weather.wet_days or 'no'} wet days"
    summary = f"{min(highs):.0f} to {max(highs):.0f} °C, {wet}" if highs else "unknown weather"
    if weather.fit >= GOOD_FIT:
        return f"Good weather: {summary}."
    if weather.fit >= POOR_FIT:
        return f"Mixed weather: {summary}."
    return f"Poor weather: {summary}. Another season is better."


if __name__ == "__main__":
    serve(agent)
