"""The coordinator: takes the wish, asks weather, hotel and advisor by name, and books. It decides by code."""

import time
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from examples.vacation.process import own_store, registry_url, serve
from examples.vacation.trip import Trip
from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    Artifact,
    Message,
    Part,
    Run,
    RunEvent,
    Task,
    TaskExecutionError,
    TaskProgress,
    current_run,
)
from protolink_grpc.models.events import ActionEnded, ActionStarted
from protolink_grpc.models.ids import new_action_id

DELEGATION = "agent.call"
PREPARATION = timedelta(days=14)
"""Without a date, nobody leaves earlier than this."""

TRIP = TypeAdapter(Trip)
EXAMPLE = '{"to": "Santorini", "nights": 5, "guests": 2}'


class Coordinator(Agent):
    """Turns a trip, sent as a JSON part, into a booking. What it finds on the way becomes artifacts."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[TaskProgress | Artifact]:
        try:
            trip = trip_of(task)
        except ValidationError as error:
            task.require_input(Message.agent(f"{_first_problem(error)}; send the trip as JSON, such as {EXAMPLE}"))
            return

        yield TaskProgress(0, f"What is the weather like in {trip.to}?")
        start = trip.start or date.fromisoformat(await self._best_start(trip))
        stay = {"start": start.isoformat(), "nights": trip.nights}
        forecast = await self._ask("weather", "forecast", destination=trip.to, **stay)
        yield _artifact("forecast", forecast)

        yield TaskProgress(30, f"Which hotels have room for {trip.guests}?")
        search = await self._ask("hotel", "offers", destination=trip.to, guests=trip.guests, budget=trip.budget, **stay)
        yield _artifact("offers", search["offers"])
        if not search["offers"]:
            task.reject(_why_nothing(trip, search["cheapest"]))
            return

        yield TaskProgress(60, f"Which of {len(search['offers'])} fits best?")
        advice = await self._ask("advisor", "advise", weather=forecast, offers=search["offers"])
        yield _artifact("advice", advice)

        yield TaskProgress(80, f"Book {advice['ranking'][0]['hotel']}.")
        booking = await self._book_first(task, trip, stay, [each["hotel"] for each in advice["ranking"]])
        if booking is None:
            task.reject("every hotel that fits was sold out a moment ago")
            return
        yield _artifact("booking", booking)
        task.complete(
            f"Booked {booking['hotel']} in {trip.to} from {start}, reference {booking['reference']}: "
            f"EUR {booking['total']:,.2f}. {advice['weather']}"
        )

    async def _best_start(self, trip: Trip) -> str:
        earliest = date.today() + PREPARATION  # noqa: DTZ011 -- a day at the traveller's place, not an instant
        found: str = await self._ask("weather", "best_start", destination=trip.to, earliest=earliest.isoformat())
        return found

    async def _book_first(self, task: Task, trip: Trip, stay: dict[str, Any], hotels: list[str]) -> Any:
        """Book the first that still has room: somebody else may be faster. None when none has."""
        for hotel in hotels:
            try:
                return await self._ask("hotel", "book", order_id=task.id, hotel=hotel, guests=trip.guests, **stay)
            except TaskExecutionError as error:
                if rejection_code(error) != "sold_out":
                    raise
        return None

    async def _ask(self, peer: str, tool: str, **arguments: Any) -> Any:
        """Call a peer's tool, and record it as an action of this run, so that whoever watches sees who does what."""
        run, action_id, name, started = current_run(), new_action_id(), f"{peer}.{tool}", time.monotonic()
        if run is None:
            raise RuntimeError("the coordinator asks its peers inside of a run only")
        await run.emit(RunEvent(payload=ActionStarted(DELEGATION, name, arguments), action_id=action_id))
        try:
            result = await self.peer(peer).call_tool(tool, **arguments)
        except TaskExecutionError as error:
            ended = ActionEnded(DELEGATION, name, error=str(error), duration_micros=_micros_since(started))
            await self._report(run, "action.failed", action_id, ended)
            raise
        ended = ActionEnded(DELEGATION, name, result, duration_micros=_micros_since(started))
        await self._report(run, "action.completed", action_id, ended)
        return result

    @staticmethod
    async def _report(run: Run, kind: str, action_id: str, ended: ActionEnded) -> None:
        await run.emit(RunEvent(type=kind, payload=ended, action_id=action_id, summary=_summary(ended)))


def trip_of(task: Task) -> Trip:
    """The trip in the latest JSON part of the task.

    Raises:
        ValidationError: There is none, or it is not a trip.
    """
    parts = [part for message in task.messages for part in message.parts if part.type == "json"]
    return TRIP.validate_python(parts[-1].content if parts else {})


def rejection_code(error: TaskExecutionError) -> str:
    """The code of the refusal by which a tool call ended, empty when it was none."""
    part = error.task.get_last_part() if error.task is not None else None
    refusal = part.as_tool_output().error if part is not None and part.type == "tool_output" else None
    return str(refusal.get("code", "")) if isinstance(refusal, dict) else ""


def _artifact(name: str, content: Any) -> Artifact:
    return Artifact(name=name, parts=[Part.json(content)], media_type="application/json")


def _why_nothing(trip: Trip, cheapest: float | None) -> str:
    if cheapest is None:
        return f"no hotel in {trip.to} has room for {trip.guests} on these nights"
    return f"EUR {trip.budget:,.0f} is too little: the cheapest hotel in {trip.to} costs EUR {cheapest:,.2f}"


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(step) for step in first['loc']) or 'the trip'}: {first['msg']}"


def _micros_since(started: float) -> int:
    return int((time.monotonic() - started) * 1e6)


def _summary(ended: ActionEnded) -> str:
    """One line about what a peer answered."""
    found = ended.result
    match ended.name:
        case _ if ended.error is not None:
            return str(ended.error)
        case "weather.forecast":
            return f"fit {found['fit']}/100 on {len(found['days'])} days"
        case "weather.best_start":
            return f"go on {found}"
        case "hotel.offers":
            return ", ".join(f"{each['hotel']} EUR {each['total']:,.2f}" for each in found["offers"]) or "nothing"
        case "advisor.advise":
            best = found["ranking"][0]
            return f"take {best['hotel']} ({best['because']})"
        case "hotel.book":
            return f"reference {found['reference']}"
        case _:
            return "done"


agent = Coordinator(
    AgentCard(
        name="coordinator",
        description="Plans and books a trip with the help of its peers.",
        url="grpc://127.0.0.1:0",
        role="orchestrator",
        tags=["vacation"],
        capabilities=AgentCapabilities(streaming=True, max_concurrency=8),
    ),
    registry=registry_url(),
    store=own_store("coordinator"),
)

if __name__ == "__main__":
    serve(agent)
