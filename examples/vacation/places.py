"""The data of the demo: destinations with their climate and hotels. It is constant, so that every run can be repeated.

Climate figures are rounded monthly averages; the hotels are invented.
"""

import difflib
from dataclasses import dataclass

from protolink_grpc import ToolRejectedError


@dataclass(frozen=True, slots=True)
class Hotel:
    """`price` is EUR per room and night, `sleeps` is guests per room, and `extras` are facilities such as a pool."""

    name: str
    stars: int
    price: int
    rooms: int
    sleeps: int
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """`highs` in degrees Celsius and `wet_days` per month, January first; `pleasant` is the range of good temperatures."""

    name: str
    pleasant: tuple[int, int]
    highs: tuple[int, ...]
    wet_days: tuple[int, ...]
    hotels: tuple[Hotel, ...]


PLACES = (
    Place(
        "Bali",
        (24, 33),
        (31, 31, 31, 32, 31, 31, 30, 30, 31, 32, 32, 31),
        (17, 15, 12, 8, 6, 4, 3, 2, 4, 6, 10, 15),
        (
            Hotel("Ubud Rice Terrace", 4, 85, 14, 2, ("pool", "spa")),
            Hotel("Sanur Beach Village", 5, 140, 40, 3, ("pool", "beach", "spa")),
            Hotel("Canggu Surf House", 2, 35, 8, 2, ("beach",)),
        ),
    ),
    Place(
        "Barcelona",
        (20, 30),
        (14, 15, 17, 19, 22, 26, 29, 29, 26, 22, 17, 15),
        (5, 5, 5, 6, 5, 4, 2, 4, 5, 6, 5, 5),
        (
            Hotel("Gotic Corner", 3, 110, 12, 2, ("centre",)),
            Hotel("Barceloneta Mar", 4, 165, 40, 3, ("beach", "pool")),
            Hotel("Gracia Rooms", 2, 75, 6, 2),
        ),
    ),
    Place(
        "Cape Town",
        (20, 30),
        (27, 28, 26, 24, 21, 19, 18, 19, 20, 22, 24, 26),
        (3, 3, 3, 6, 9, 10, 10, 9, 7, 5, 4, 3),
        (
            Hotel("Table View Lodge", 3, 70, 16, 2, ("centre",)),
            Hotel("Camps Bay Sands", 5, 210, 40, 3, ("beach", "pool", "spa")),
            Hotel("Kloof Street Inn", 3, 60, 8, 2),
        ),
    ),
    Place(
        "Dubrovnik",
        (20, 30),
        (12, 13, 15, 18, 22, 26, 29, 29, 25, 21, 17, 14),
        (10, 9, 8, 8, 6, 5, 3, 3, 6, 8, 11, 11),
        (
            Hotel("Old Harbour House", 4, 150, 8, 2, ("centre",)),
            Hotel("Lapad Bay", 4, 120, 40, 3, ("beach", "pool")),
            Hotel("Stradun Attic", 2, 80, 4, 2, ("centre",)),
        ),
    ),
    Place(
        "Innsbruck",
        (12, 26),
        (4, 6, 12, 16, 21, 24, 26, 25, 21, 16, 9, 4),
        (10, 9, 11, 11, 13, 15, 15, 14, 11, 9, 10, 11),
        (
            Hotel("Goldenes Dachl Hof", 4, 135, 18, 2, ("centre", "spa")),
            Hotel("Nordkette Alpin", 4, 115, 40, 4, ("spa", "indoor pool")),
            Hotel("Inn Bridge Guesthouse", 2, 70, 7, 2),
        ),
    ),
    Place(
        "Kyoto",
        (15, 28),
        (9, 10, 14, 20, 25, 28, 32, 34, 29, 23, 17, 12),
        (7, 8, 11, 11, 11, 13, 13, 9, 11, 8, 7, 6),
        (
            Hotel("Gion Ryokan", 5, 240, 6, 2, ("spa", "centre")),
            Hotel("Karasuma Tower", 4, 130, 40, 3, ("centre", "indoor pool")),
            Hotel("Kamo River Hostel", 2, 45, 10, 4),
        ),
    ),
    Place(
        "Lisbon",
        (19, 29),
        (15, 16, 19, 20, 23, 26, 28, 28, 27, 23, 18, 15),
        (11, 9, 7, 8, 5, 2, 1, 1, 4, 8, 10, 11),
        (
            Hotel("Alfama Miradouro", 3, 95, 10, 2, ("centre",)),
            Hotel("Tejo Palace", 5, 190, 40, 3, ("pool", "spa", "centre")),
            Hotel("Cais Rooms", 2, 60, 8, 2),
        ),
    ),
    Place(
        "Madeira",
        (19, 27),
        (20, 20, 20, 21, 22, 24, 25, 26, 26, 25, 23, 21),
        (9, 8, 8, 6, 4, 2, 1, 1, 4, 7, 9, 10),
        (
            Hotel("Funchal Cliff", 4, 125, 22, 2, ("pool", "spa")),
            Hotel("Lido Atlantic", 4, 105, 40, 3, ("pool", "beach")),
            Hotel("Levada Cottage", 3, 65, 4, 4),
        ),
    ),
    Place(
        "Marrakesh",
        (20, 32),
        (18, 20, 23, 25, 29, 33, 37, 37, 32, 28, 23, 19),
        (5, 5, 5, 5, 3, 1, 0, 1, 2, 4, 5, 5),
        (
            Hotel("Riad Jasmine", 4, 90, 7, 2, ("pool", "centre")),
            Hotel("Palmeraie Gardens", 5, 160, 40, 3, ("pool", "spa")),
            Hotel("Medina Nights", 2, 40, 9, 3, ("centre",)),
        ),
    ),
    Place(
        "Reykjavik",
        (8, 18),
        (2, 3, 4, 7, 10, 13, 15, 14, 11, 7, 4, 3),
        (14, 13, 14, 12, 10, 10, 10, 12, 12, 14, 13, 14),
        (
            Hotel("Harbour Lights", 4, 180, 15, 2, ("centre", "spa")),
            Hotel("Aurora Grand", 4, 165, 40, 3, ("spa", "indoor pool")),
            Hotel("Laugavegur Beds", 2, 85, 12, 4, ("centre",)),
        ),
    ),
    Place(
        "Santorini",
        (21, 30),
        (14, 14, 16, 18, 23, 27, 29, 29, 26, 23, 19, 15),
        (10, 8, 7, 4, 2, 1, 0, 0, 1, 4, 7, 10),
        (
            Hotel("Caldera Blue", 5, 260, 10, 2, ("pool", "spa")),
            Hotel("Perissa Sands", 3, 95, 40, 3, ("beach", "pool")),
            Hotel("Fira Steps", 3, 120, 8, 2, ("centre",)),
        ),
    ),
    Place(
        "Zanzibar",
        (25, 33),
        (32, 33, 33, 31, 29, 29, 28, 29, 30, 31, 31, 32),
        (7, 6, 11, 18, 13, 5, 5, 6, 6, 8, 11, 9),
        (
            Hotel("Stone Town Lantern", 3, 80, 11, 2, ("centre",)),
            Hotel("Nungwi Reef", 5, 175, 40, 3, ("beach", "pool", "spa")),
            Hotel("Paje Bungalows", 2, 50, 10, 4, ("beach",)),
        ),
    ),
)

NAMES = tuple(place.name for place in PLACES)


def nearest_name(name: str) -> str | None:
    """Return the most similar destination, ignoring case; None if no name is similar."""
    by_key = {known.casefold(): known for known in NAMES}
    found = difflib.get_close_matches(name.strip().casefold(), by_key, n=1)
    return by_key[found[0]] if found else None


def place_named(name: str) -> Place:
    """Return the destination with that name, ignoring case.

    Raises:
        ToolRejectedError: The destination does not exist. The error suggests the most similar one.
    """
    for place in PLACES:
        if place.name.casefold() == name.strip().casefold():
            return place
    nearest = nearest_name(name)
    raise ToolRejectedError(
        f"{name!r} is not a known destination",
        code="unknown_destination",
        suggestion=f"Did you mean {nearest}?" if nearest else f"Choose one of {', '.join(NAMES)}.",
    )


def hotel_named(name: str) -> Hotel:
    """Return the hotel with that exact name.

    Raises:
        ToolRejectedError: The hotel does not exist.
    """
    for place in PLACES:
        for hotel in place.hotels:
            if hotel.name == name:
                return hotel
    raise ToolRejectedError(f"{name!r} is not a known hotel", code="unknown_hotel")
