"""The hotel agent: finds free rooms with their prices, and stores bookings."""

import secrets
from datetime import date, timedelta
from math import ceil
from random import Random

from examples.mesh.process import own_file, own_settings, serve
from examples.vacation.bookings import Bookings
from examples.vacation.places import Hotel, hotel_named, place_named
from examples.vacation.trip import Booking, Budget, Guests, Nights, Offer, Search
from protolink_grpc import Agent, AgentCard, ToolRejectedError

WEEKEND = 1.15
"""The price factor of Fridays and Saturdays."""

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""The characters of references, without the similar I, O, 0 and 1."""

agent = Agent(
    AgentCard(
        name="hotel",
        description="Offers and books hotel rooms.",
        url="grpc://127.0.0.1:0",
        tags=["vacation"],
    ),
    **own_settings("hotel"),
)
bookings = Bookings(own_file("bookings.db"))


@agent.tool(read_only=True)
def offers(destination: str, start: date, nights: Nights, guests: Guests, budget: Budget | None = None) -> Search:
    """Find hotels with enough rooms on every night, within the budget."""
    stay = _stay(start, nights)
    free = [hotel for hotel in place_named(destination).hotels if _has_room(hotel, stay, guests)]
    found = sorted((_offer(hotel, stay, guests) for hotel in free), key=lambda offer: offer.total)
    affordable = [offer for offer in found if budget is None or offer.total <= budget]
    return Search(affordable, found[0].total if found else None)


@agent.tool(idempotent=True)
def book(
    order_id: str, hotel: str, start: date, nights: Nights, guests: Guests, at_most: Budget | None = None
) -> Booking:
    """Book rooms for EUR `at_most` in total. A repeated order is booked once."""
    house, stay = hotel_named(hotel), _stay(start, nights)
    offer = _offer(house, stay, guests)
    if at_most is not None and offer.total > at_most:
        raise ToolRejectedError(f"{house.name} costs EUR {offer.total:,.2f}, more than at_most", code="too_expensive")
    most = [(night, house.rooms - _regulars(house, night)) for night in stay]
    new_reference = "".join(secrets.choice(LETTERS) for _ in range(6))
    reference = bookings.book(order_id, new_reference, house.name, most, offer.rooms, offer.total)
    if reference is None:
        raise ToolRejectedError(f"{house.name} is sold out", code="sold_out", suggestion="Take another hotel.")
    return Booking(reference, house.name, start, nights, guests, offer.rooms, offer.total)


def _stay(start: date, nights: int) -> list[date]:
    return [start + timedelta(days=offset) for offset in range(nights)]


def _offer(hotel: Hotel, stay: list[date], guests: int) -> Offer:
    rooms = _rooms(hotel, guests)
    price = sum(hotel.price * (WEEKEND if night.weekday() in (4, 5) else 1.0) for night in stay)
    return Offer(hotel.name, hotel.stars, rooms, round(rooms * price, 2), list(hotel.extras))


def _rooms(hotel: Hotel, guests: int) -> int:
    return ceil(guests / hotel.sleeps)


def _has_room(hotel: Hotel, stay: list[date], guests: int) -> bool:
    rooms = _rooms(hotel, guests)
    return all(hotel.rooms - _regulars(hotel, night) - bookings.booked(hotel.name, night) >= rooms for night in stay)


def _regulars(hotel: Hotel, night: date) -> int:
    """Return the number of rooms that other guests have booked for that night: up to two thirds of the hotel."""
    return Random(f"{hotel.name} {night}").randint(0, hotel.rooms * 2 // 3)


if __name__ == "__main__":
    serve(agent)
