"""What people see of a run: one line per event, and a table at the end. Nothing here asks or decides."""

import json
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from protolink_grpc import (
    RunEvent,
    Task,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskProgress,
    TaskStatusChanged,
)
from protolink_grpc.models.events import ActionEnded, ActionStarted, TaskSubmitted

COLORS = {"coordinator": "cyan", "weather": "yellow", "hotel": "green", "advisor": "magenta"}


def event_line(event: RunEvent) -> str:
    """One line: sequence, who, and what."""
    who, what = _told(event)
    return f"{event.sequence or 0:>3}  {who:<12} {' '.join(what.split())}"


def show_event(console: Console, event: RunEvent) -> None:
    """Print the event's line now, colored by who it is about where there are colors."""
    line = Text(event_line(event))
    line.stylize(COLORS.get(_told(event)[0], ""), 5, 17)
    console.print(line, soft_wrap=True)


def _told(event: RunEvent) -> tuple[str, str]:
    own = event.agent_name
    match event.payload:
        case TaskSubmitted(task=task):
            return own, f"takes the task: {task.messages[0].text if task.messages else task.id}"
        case TaskStatusChanged(new_state=state, reason=reason):
            return own, f"is {state}{f': {reason}' if reason else ''}"
        case TaskProgress(progress=percent, message=message):
            return own, message if percent is None else f"{percent:.0f} % {message}"
        case TaskArtifactUpdated(artifact=artifact):
            return own, f"publishes {artifact.name or artifact.kind}"
        case TaskMessagesAdded(messages=messages):
            return own, f"says: {messages[-1].text}"
        case ActionStarted(name=name, arguments=arguments):
            peer, _, tool = name.partition(".")
            return peer, f"{tool}({_briefly(arguments or {})})"
        case ActionEnded(name=name, duration_micros=micros):
            peer, _, tool = name.partition(".")
            outcome = "->" if event.type == "action.completed" else "did not work:"
            return peer, f"{tool} {outcome} {event.summary} ({micros / 1000:.0f} ms)"
        case _:
            return own, " ".join(filter(None, (event.type, event.summary)))


def _briefly(arguments: dict[str, Any]) -> str:
    """Arguments on one line: what is long is only counted."""
    shown = []
    for key, value in arguments.items():
        match value:
            case None:
                continue
            case list() | dict():
                shown.append(f"{key}: {len(value)} {'fields' if isinstance(value, dict) else 'items'}")
            case _:
                shown.append(f"{key}={value if isinstance(value, str) else json.dumps(value)}")
    return ", ".join(shown)


def artifact_of(task: Task, name: str) -> Any:
    """The JSON of the task's artifact of that name, None without one."""
    for artifact in task.artifacts:
        if artifact.name == name:
            return artifact.parts[0].content
    return None


def booking_table(task: Task) -> Table:
    """The booking with the forecast and the advice that led to it."""
    booking, forecast, advice = (artifact_of(task, name) for name in ("booking", "forecast", "advice"))
    table = Table("", "", title="Booking", title_justify="left", show_header=False, box=box.ASCII)
    for name, value in (
        ("Reference", booking["reference"]),
        ("Hotel", f"{booking['hotel']}, {forecast['destination']}"),
        ("Stay", f"from {booking['start']}, nights: {booking['nights']}"),
        ("Guests", f"{booking['guests']}, rooms: {booking['rooms']}"),
        ("Total", f"EUR {booking['total']:,.2f}"),
        ("Weather", f"fit {forecast['fit']}/100. {advice['weather']}"),
        ("Chosen for", advice["ranking"][0]["because"]),
    ):
        table.add_row(name, value)
    return table
