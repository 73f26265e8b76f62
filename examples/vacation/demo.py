"""The demo: starts the mesh, sends it one wish, shows what happens, and says where the log is kept.

`python -m examples.vacation.demo --to Santorini --nights 5 --guests 2`
"""

import argparse
import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import date
from pathlib import Path

from rich.console import Console

from examples.vacation.mesh import Mesh, MeshError
from examples.vacation.places import NAMES, nearest_name
from examples.vacation.show import artifact_of, booking_table, show_event
from examples.vacation.trip import MAX_GUESTS, MAX_NIGHTS, Trip
from protolink_grpc import AgentClient, Message, Part, ProtolinkError, Task

OUTAGE_S = 5.0
"""How long the stream may be cut before the demo gives up; it notices a dead agent earlier by itself."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code: 0 booked, 1 not booked, 2 wrong arguments, 130 and 143 interrupted."""
    arguments = _parser().parse_args(argv)
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that cannot show a degree sign must not end the demo.
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        return asyncio.run(_run(arguments, console))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except asyncio.CancelledError:
        print("terminated", file=sys.stderr)
        return 143
    except (MeshError, ProtolinkError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


async def _run(arguments: argparse.Namespace, console: Console) -> int:
    _end_on_signals()
    trip = Trip(arguments.to, arguments.nights, arguments.guests, arguments.from_date, arguments.budget)
    directory = _directory(arguments.dir)
    console.print(f"Starting the registry and four agents, one process each; their files: {directory}/", soft_wrap=True)
    async with Mesh(directory) as mesh:
        for name, pid in mesh.processes.items():
            url = mesh.registry_url if name == "registry" else await mesh.url_of(name)
            console.print(f"     {name:<12} {url} (process {pid})", soft_wrap=True)
        url = await mesh.url_of("coordinator")
        task = await mesh.while_up(_ask(url, trip, console))
        booked = artifact_of(task, "booking") is not None
        console.print()
        if booked:
            console.print(booking_table(task))
        else:
            console.print(f"Not booked: the task is {task.state}.")
        asked = _asked_to_stop() if arguments.keep_running else None
        _say_where(console, task, directory, url, keeps_running=arguments.keep_running)
        if asked is not None:
            console.print(
                f"  {_words(_protolink(), 'agents', 'list', '--registry', mesh.registry_url)}", soft_wrap=True
            )
            await mesh.while_up(asked.wait())
    return 0 if booked else 1


async def _ask(url: str, trip: Trip, console: Console) -> Task:
    """Send the wish and show every event of the task as it comes; returns the task at its end."""
    wish = {"to": trip.to, "nights": trip.nights, "guests": trip.guests, "budget": trip.budget}
    wish["start"] = trip.start.isoformat() if trip.start else None
    task = Task.create(Message.user(trip.question).add_part(Part.json(wish)))
    client = AgentClient(url=url, outage_s=OUTAGE_S)
    console.print()
    async with aclosing(client.send_task_streaming(None, task)) as events:
        async for event in events:
            show_event(console, event)
    return await client.get_task(task.id)


def _say_where(console: Console, task: Task, directory: Path, url: str, *, keeps_running: bool) -> None:
    store = directory / "coordinator.db"
    serve = _words(
        *(_protolink(), "serve", "examples.vacation.coordinator:agent", "--store", str(store), "--url", url),
    )
    replay = _words(_protolink(), "task", "subscribe", url, task.id)
    lines = ["", f"Task  {task.id}", f"Log   {store}", ""]
    if keeps_running:
        lines += ["The mesh stays up until Ctrl-C. To replay the task in a second terminal, and to see the agents:"]
    else:
        lines += ["To replay the task from its log, serve the log again, and subscribe in a second terminal:"]
        lines += [f"  {serve}"]
    for line in [*lines, f"  {replay}"]:
        console.print(line, soft_wrap=True)


def _protolink() -> str:
    """The command line of this environment, as short as the user's PATH allows."""
    own = Path(sys.executable).parent / "protolink"
    found = shutil.which("protolink")
    if found is not None and Path(found).resolve() == own.resolve():
        return "protolink"
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)


def _words(*words: str) -> str:
    return shlex.join(words)


def _asked_to_stop() -> asyncio.Event:
    """Set by Ctrl-C and SIGTERM, which from now on are the way to end and not an interruption."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return asked


def _end_on_signals() -> None:
    """Let SIGTERM and a closed terminal end the running task as Ctrl-C does, so that the children are taken down."""
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _directory(wanted: Path | None) -> Path:
    """The directory of this run: the one asked for, or the next free one under `.demo`."""
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted
    number = 1
    while True:
        path = Path(".demo", f"run-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo", description="Four agents and a registry, each its own process, plan and book a vacation."
    )
    parser.add_argument("--to", type=_destination, default="Santorini", help=f"one of: {', '.join(NAMES)}")
    parser.add_argument("--nights", type=_whole(MAX_NIGHTS), default=5, help=f"1 to {MAX_NIGHTS} (default 5)")
    parser.add_argument("--guests", type=_whole(MAX_GUESTS), default=2, help=f"1 to {MAX_GUESTS} (default 2)")
    parser.add_argument("--budget", type=_money, help="EUR for all rooms and nights (default: no limit)")
    parser.add_argument("--from-date", type=_day, metavar="YYYY-MM-DD", help="first night (default: the next season)")
    parser.add_argument("--dir", type=Path, help="where the agents keep their files (default: a new one in .demo)")
    parser.add_argument("--keep-running", action="store_true", help="leave the mesh up until Ctrl-C")
    return parser


def _destination(text: str) -> str:
    for name in NAMES:
        if name.casefold() == text.strip().casefold():
            return name
    nearest = nearest_name(text)
    meant = f"; did you mean {nearest}?" if nearest else ""
    raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(NAMES)}{meant}")


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
