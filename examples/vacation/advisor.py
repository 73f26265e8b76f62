"""The advisor agent: ranks offers by comfort, price and weather."""

from examples.vacation.process import own_store, registry_url, serve
from examples.vacation.trip import Advice, Forecast, Offer, Ranked
from protolink_grpc import Agent, AgentCard

POOR_FIT, GOOD_FIT = 50, 75

FINE_WEATHER, BAD_WEATHER = ("beach", "pool"), ("spa", "indoor pool", "centre")
"""Extras that count on sunny days and on other days."""

agent = Agent(
    AgentCard(
        name="advisor",
        description="Ranks hotel offers for the weather that is to come.",
        url="grpc://127.0.0.1:0",
        tags=["vacation"],
    ),
    registry=registry_url(),
    store=own_store("advisor"),
)


@agent.tool(read_only=True)
def advise(weather: Forecast, offers: list[Offer]) -> Advice:
    """Rank the offers, best first, each with its advantages."""
    welcome = FINE_WEATHER if weather.fit >= POOR_FIT else BAD_WEATHER
    dearest = max((offer.total for offer in offers), default=1.0)
    ranked = [_ranked(offer, welcome, dearest) for offer in offers]
    return Advice(sorted(ranked, key=lambda each: (-each.score, each.total)), _sentence(weather))


def _ranked(offer: Offer, welcome: tuple[str, ...], dearest: float) -> Ranked:
    liked = [extra for extra in offer.extras if extra in welcome]
    saved = 1.0 - offer.total / dearest
    score = round(10 * offer.stars + 15 * len(liked) + 40 * saved)
    because = [f"{offer.stars} stars", *liked]
    if saved >= 0.1:
        because.append(f"{100 * saved:.0f} % below the dearest")
    return Ranked(offer.hotel, score, ", ".join(because), offer.total)


def _sentence(weather: Forecast) -> str:
    highs = [day.high for day in weather.days]
    wet = "1 wet day" if weather.wet_days == 1 else f"{weather.wet_days or 'no'} wet days"
    seen = f"{min(highs):.0f} to {max(highs):.0f} °C, {wet}" if highs else "unknown weather"
    if weather.fit >= GOOD_FIT:
        return f"Good weather: {seen}."
    return (
        f"Mixed weather: {seen}." if weather.fit >= POOR_FIT else f"Poor weather: {seen}. Another season suits better."
    )


if __name__ == "__main__":
    serve(agent)
