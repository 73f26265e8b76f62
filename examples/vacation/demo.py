"""The demo: starts the agents, sends them a trip, shows the events, asks for an approval, and prints the path of the log.

`python -m examples.vacation.demo --to Santorini --nights 5 --guests 2`
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import date
from pathlib import Path

from rich.console import Console

from examples.mesh import launch
from examples.mesh.ask import Approver
from examples.mesh.mesh import Mesh
from examples.mesh.show import Screen, artifact_of, plain, report_table
from examples.vacation.places import NAMES, nearest_name
from examples.vacation.show import COLORS, TripLines, booking_table
from examples.vacation.thinker import PLANNER, thinker
from examples.vacation.trip import MAX_GUESTS, MAX_NIGHTS, Trip
from protolink_grpc import AgentClient, ApprovalDecided, ApprovalRequired, Message, Part, RunBudget, RunReport, Task

AGENTS = ("weather", "hotel", "advisor", "coordinator")

BUDGET = RunBudget(max_steps=16, max_llm_calls=20, max_tool_calls=20)
"""The budget for planning one trip: about twice the usage if every hotel turns out to be sold out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Returns the exit code: 0 booked, 1 not booked, 2 invalid arguments, 130 and 143 interrupted."""
    arguments = _parser().parse_args(argv)
    return launch.run_demo(lambda console: _run(arguments, console))


async def _run(arguments: argparse.Namespace, console: Console) -> int:
    trip = Trip(arguments.to, arguments.nights, arguments.guests, arguments.from_date, arguments.budget)
    model = launch.chosen_model(arguments, PLANNER)
    directory = launch.new_directory(arguments.dir)
    console.print(f"Starting the registry and four agents, one process each; their files: {directory}/", soft_wrap=True)
    environment = launch.environment_of(arguments, model)
    async with Mesh("examples.vacation", AGENTS, directory, environment, dict(arguments.program)) as mesh:
        await launch.print_processes(console, mesh)
        console.print(f"Model of the coordinator: {model.name} ({model.why}).", soft_wrap=True)
        url = await mesh.url_of("coordinator")
        client = AgentClient(url=url, outage_s=launch.OUTAGE_S)
        approver = Approver(
            client,
            console,
            approve_all=arguments.yes,
            question="May the coordinator book this?",
            effect="the booking",
        )
        task, report = await mesh.while_running(_send_trip(client, trip, console, approver))
        booked = artifact_of(task, "booking") is not None
        console.print()
        if booked:
            console.print(booking_table(task, report))
        else:
            why = task.metadata.get("reject_reason") or task.metadata.get("error") or f"the task is {task.state}"
            console.print(f"Not booked: {plain(str(why))}.", soft_wrap=True)
        console.print()
        console.print(report_table(report, task.state))
        stop = launch.stop_event() if arguments.keep_running else None
        registry_url = mesh.registry_url if stop is not None else None
        store, agent = directory / "coordinator.db", "examples.vacation.coordinator:agent"
        launch.print_next_steps(console, task, store, agent, url, registry_url=registry_url, approvals_url=url)
        if stop is not None:
            await mesh.while_running(stop.wait())
    if arguments.trace is not None:
        launch.print_traces(console, arguments.trace, task)
    return 0 if booked else 1


async def _send_trip(client: AgentClient, trip: Trip, console: Console, approver: Approver) -> tuple[Task, RunReport]:
    """Send the trip, show the events, and answer approvals. Return the task at its end and its report."""
    values = {"to": trip.to, "nights": trip.nights, "guests": trip.guests, "budget": trip.budget}
    values["start"] = trip.start.isoformat() if trip.start else None
    task = Task.create(Message.user(trip.question).add_part(Part.json(values)), budget=BUDGET)
    screen = Screen(console, TripLines(), COLORS)
    console.print()
    try:
        async with asyncio.TaskGroup() as group:
            await _watch(client, task, screen, approver, group)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    finally:
        screen.finish()
    return await client.get_task(task.id), await client.get_run_report(None, task.id)


async def _watch(client: AgentClient, task: Task, screen: Screen, approver: Approver, group: asyncio.TaskGroup) -> None:
    answering: asyncio.Task[None] | None = None
    async with aclosing(client.send_task_streaming(None, task, deltas=True)) as events:
        async for event in events:
            if answering is not None and (isinstance(event.payload, ApprovalDecided) or event.final):
                # The approval was answered, perhaps in another terminal, or the task has ended without an answer.
                answering.cancel()
            screen.show(event)
            if isinstance(event.payload, ApprovalRequired):
                answering = group.create_task(approver.answer(event.payload.request))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo", description="Four agents and a registry, each its own process, plan and book a vacation."
    )
    parser.add_argument("--to", type=_destination, default="Santorini", help=f"one of: {', '.join(NAMES)}")
    parser.add_argument("--nights", type=_whole(MAX_NIGHTS), default=5, help=f"1 to {MAX_NIGHTS} (default 5)")
    parser.add_argument("--guests", type=_whole(MAX_GUESTS), default=2, help=f"1 to {MAX_GUESTS} (default 2)")
    parser.add_argument("--budget", type=_money, help="EUR for all rooms and nights (default: no limit)")
    parser.add_argument("--from-date", type=_day, metavar="YYYY-MM-DD", help="first night (default: the next season)")
    parser.add_argument("--yes", action="store_true", help="approve the booking without asking")
    parser.add_argument(
        "--program",
        type=_program,
        action="append",
        default=[],
        metavar="AGENT=PATH",
        help="program to run instead of one of the agents, such as clients/go/bin/vacation-weather for weather",
    )
    launch.add_options(parser, thinker, PLANNER)
    return parser


def _destination(text: str) -> str:
    for name in NAMES:
        if name.casefold() == text.strip().casefold():
            return name
    nearest = nearest_name(text)
    hint = f"; did you mean {nearest}?" if nearest else ""
    raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(NAMES)}{hint}")


def _program(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if name not in AGENTS:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(AGENTS)}")
    if not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"program {path!r} not found")
    return name, Path(path).resolve()


def _whole(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.strip().isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
        return int(text)

    return read


def _money(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount above zero")
    return amount


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2030-05-17") from None
    today = date.today()  # noqa: DTZ011 -- a day in the user's own calendar
    if not 0 <= (day - today).days <= 730:
        raise argparse.ArgumentTypeError(f"{text} is not within the two years from today")
    return day


if __name__ == "__main__":
    sys.exit(main())
