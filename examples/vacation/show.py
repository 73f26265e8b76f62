"""The vacation demo's own output: results of its tools, and the booking."""

from typing import Any

from rich.table import Table

from examples.mesh.show import EventLines, artifact_of, table
from protolink_grpc import RunReport, Task

COLORS = {"coordinator": "cyan", "weather": "yellow", "hotel": "green", "advisor": "magenta"}


class TripLines(EventLines):
    """The lines of a trip's task."""

    def __init__(self) -> None:
        super().__init__("coordinator")

    def result(self, tool: str, found: Any) -> str:
        match tool, found:
            case "weather.forecast", {"fit": fit, "days": days}:
                return f"fit {fit}/100 on {len(days)} days"
            case "hotel.offers", {"offers": offers}:
                return ", ".join(f"{each['hotel']} EUR {each['total']:,.2f}" for each in offers) or "nothing"
            case "advisor.advise", {"ranking": [best, *_]}:
                return f"{best['hotel']} ({best['because']})"
            case _, {"reference": reference, "total": total}:
                return f"reference {reference}, EUR {total:,.2f}"
            case _:
                return super().result(tool, found)


def booking_table(task: Task, report: RunReport) -> Table:
    """Return a table of the booking with its forecast and advice."""
    booking = artifact_of(task, "booking")
    forecast, advice = _answer(report, "weather", "forecast"), _answer(report, "advisor", "advise")
    chosen = next((each["because"] for each in advice.get("ranking", ()) if each["hotel"] == booking["hotel"]), "")
    rows = {
        "Reference": booking["reference"],
        "Hotel": ", ".join(filter(None, (booking["hotel"], forecast.get("destination")))),
        "Stay": f"from {booking['start']}, nights: {booking['nights']}",
        "Guests": f"{booking['guests']}, rooms: {booking['rooms']}",
        "Total": f"EUR {booking['total']:,.2f}",
        "Weather": f"fit {forecast['fit']}/100. {advice.get('weather', '')}" if forecast else "",
        "Chosen for": chosen,
    }
    return table("Booking", rows)


def _answer(report: RunReport, agent: str, tool: str) -> dict[str, Any]:
    """Return the last result of an agent's tool in this run; empty if the model has not called it."""
    for action in reversed(report.actions):
        arguments = action.arguments or {}
        if action.name == agent and arguments.get("tool") == tool and isinstance(action.result, dict):
            return action.result
    return {}
