"""The coordinator: its model plans the trip with the other agents and books it after an approval.

The model chooses the steps. The code decides which ones are allowed and whether the trip is booked: only a booking counts, not the
text of the model.
"""

import json
from dataclasses import asdict
from datetime import date, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from examples.mesh.process import own_settings, serve
from examples.vacation.thinker import thinker
from examples.vacation.trip import Budget, Guests, Nights, Trip
from protolink_grpc import (
    LLM,
    ActionDeniedError,
    Agent,
    AgentCapabilities,
    AgentCard,
    Approvals,
    Artifact,
    CapabilityPolicy,
    InferSettings,
    Message,
    Part,
    RunAction,
    RunContext,
    Task,
    TaskExecutionError,
    TaskState,
    ToolContext,
    ToolRejectedError,
    current_run,
)

PREPARATION = timedelta(days=14)
"""The minimum number of days until the departure, for trips without a date."""

TRIP = TypeAdapter(Trip)
EXAMPLE = '{"to": "Santorini", "nights": 5, "guests": 2}'

INSTRUCTIONS = """\
You plan one trip and book it, with the help of other agents, one call at a time:
1. Without a start date, ask weather for best_start.
2. Ask weather for the forecast.
3. Ask hotel for offers, within the budget if there is one.
4. Ask advisor to advise, with the forecast and the offers exactly as you got them.
5. Call book for the hotel that ranks first; at_most is the total of its offer. If it is sold out, take the next one.
6. Answer with one sentence: hotel, place, first night, reference, price, weather.
Before each call, say in one short sentence what you do. Book once. Never invent a hotel, a price or a reference.
When the trip cannot be booked, answer with one sentence that says why."""


class Coordinator(Agent):
    """Turns a trip, sent as a JSON part, into a booking."""

    def __init__(self, card: AgentCard | None = None, *, llm: LLM, **options: Any) -> None:
        super().__init__(
            card,
            llm=llm,
            system_prompt=INSTRUCTIONS,
            policy=CapabilityPolicy({"bookings.write": "require_approval"}),
            approvals=Approvals(remote=True),
            # Every hotel of a place may be sold out when it is booked; each of them is a rejected call.
            infer=InferSettings(max_tool_corrections=5),
            # After a crash the handler runs again and finds the finished work in the log.
            recovery="resume",
            **options,
        )
        # The hotel recognizes a repeated order by its id, so a call that a crash has interrupted can be repeated.
        self.tool(capabilities=["bookings.write"], action_builder=preview, idempotent=True)(self.book)

    async def handle_task(self, task: Task) -> Task:
        try:
            trip = trip_of(task)
        except ValidationError as error:
            return task.require_input(
                Message.agent(f"{_first_problem(error)}; send the trip as JSON, such as {EXAMPLE}")
            )
        try:
            answer = await self.execute_task(build_prompt(task, trip))
        except ActionDeniedError as denied:
            why = denied.approval.reason if denied.approval is not None else ""
            return task.reject(f"the booking was not approved{f': {why}' if why else ''}")
        if await is_booked(task.id):
            return task.update_state(TaskState.COMPLETED)
        return task.reject(" ".join(str(answer.get_output("no hotel was booked")).split()).rstrip("."))

    async def book(
        self, hotel: str, start: date, nights: Nights, guests: Guests, at_most: Budget, context: ToolContext
    ) -> dict[str, Any]:
        """Book rooms for a stay, after an approval. `at_most` is EUR for all rooms and nights."""
        stay = {"start": start.isoformat(), "nights": nights, "guests": guests}
        order = {"order_id": context.action_id, "hotel": hotel, "at_most": at_most, **stay}
        try:
            booking: dict[str, Any] = await self.peer("hotel").call_tool("book", **order)
        except TaskExecutionError as error:
            raise rejection_error(error) from error
        run = current_run()
        if run is not None:
            await run.artifact(Artifact(id=booking_id(run.task_id), name="booking", parts=[Part.json(booking)]))
        return booking


async def is_booked(task_id: str) -> bool:
    """Return whether the log of the current task has a booking."""
    run = current_run()
    if run is None:
        return False
    await run.flush()  # a new artifact may not be in the log yet
    return run.has_artifact(booking_id(task_id))


def preview(arguments: dict[str, Any], context: RunContext) -> RunAction:
    """Build the preview of a booking for the approver."""
    nights = arguments["nights"]
    shown = {
        "Hotel": arguments["hotel"],
        "Stay": f"from {arguments['start']}, nights: {nights}",
        "Guests": arguments["guests"],
        "Price": f"EUR {float(arguments['at_most']):,.2f} at most",
    }
    artifact = Artifact(kind="preview", name="booking", parts=[Part.json(shown)])
    return RunAction("tool.call", "book", {"arguments": arguments}, artifacts=(artifact,))


def build_prompt(task: Task, trip: Trip) -> Task:
    """Build a task with the prompt: the trip as a sentence and as JSON."""
    earliest = date.today() + PREPARATION  # noqa: DTZ011 -- a day at the traveller's place, not an instant
    values = asdict(trip) | {
        "start": trip.start.isoformat() if trip.start else None,
        "earliest": earliest.isoformat(),
    }
    # The id of the trip's message: after a crash, the finished work is found under that id.
    message = Message(id=task.messages[-1].id, parts=[Part.infer(prompt=f"{trip.question}\n{json.dumps(values)}")])
    return Task(id=task.id, messages=[message], state=task.state)


def trip_of(task: Task) -> Trip:
    """Return the trip in the latest JSON part of the task.

    Raises:
        ValidationError: The task has no JSON part, or it is not a trip.
    """
    parts = [part for message in task.messages for part in message.parts if part.type == "json"]
    return TRIP.validate_python(parts[-1].content if parts else {})


def booking_id(task_id: str) -> str:
    """Return the id of the artifact with the task's booking."""
    return f"booking-{task_id}"


def rejection_error(error: TaskExecutionError) -> Exception:
    """Return the hotel's rejection as an error that the model can react to; otherwise the original error."""
    part = error.task.get_last_part() if error.task is not None else None
    rejection = part.as_tool_output().error if part is not None and part.type == "tool_output" else None
    if not isinstance(rejection, dict) or rejection.get("status") != "rejected":
        return error
    return ToolRejectedError(
        str(rejection.get("message", error)),
        code=str(rejection.get("code", "rejected")),
        details=rejection.get("details") or {},
        suggestion=rejection.get("suggestion"),
    )


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(step) for step in first['loc']) or 'the trip'}: {first['msg']}"


agent = Coordinator(
    AgentCard(
        name="coordinator",
        description="Plans and books a trip with the help of its peers.",
        url="grpc://127.0.0.1:0",
        role="orchestrator",
        tags=["vacation"],
        capabilities=AgentCapabilities(streaming=True, max_concurrency=8),
    ),
    llm=thinker(),
    **own_settings("coordinator"),
)

if __name__ == "__main__":
    serve(agent)
