"""The demo: starts the agents, sends them a trip, shows the events, asks for an approval, and prints the path of the log.

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

from examples.vacation.ask import Approver
from examples.vacation.mesh import AGENTS, Mesh, MeshError
from examples.vacation.places import NAMES, nearest_name
from examples.vacation.process import TRACE
from examples.vacation.show import Screen, artifact_of, booking_table, plain, report_table
from examples.vacation.thinker import MODEL, PLANNER, RULES, Choice, thinker, usual_choice
from examples.vacation.trip import MAX_GUESTS, MAX_NIGHTS, Trip
from protolink_grpc import (
    AgentClient,
    ApprovalDecided,
    ApprovalRequired,
    Message,
    Part,
    ProtolinkError,
    RunBudget,
    RunReport,
    Task,
)
from protolink_grpc.telemetry import LocalTraceRecorder, spans_of_record, waterfall

OUTAGE_S = 5.0
"""How long the stream may be interrupted before the demo fails, in seconds. A process that has ended is detected earlier."""

BUDGET = RunBudget(max_steps=16, max_llm_calls=20, max_tool_calls=20)
"""The budget for planning one trip: about twice the usage if every hotel turns out to be sold out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Returns the exit code: 0 booked, 1 not booked, 2 invalid arguments, 130 and 143 interrupted."""
    arguments = _parser().parse_args(argv)
    if hasattr(sys.stdout, "reconfigure"):
        # The demo must not fail on a terminal that cannot show a degree sign.
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
    model = arguments.model or usual_choice()
    directory = _directory(arguments.dir)
    console.print(f"Starting the registry and four agents, one process each; their files: {directory}/", soft_wrap=True)
    environment = {MODEL: model.name}
    if arguments.trace is not None:
        environment[TRACE] = str(arguments.trace.resolve())
    async with Mesh(directory, environment, dict(arguments.program)) as mesh:
        for name, pid in mesh.processes.items():
            console.print(f"     {name:<12} {await _address_of(mesh, name)} (process {pid})", soft_wrap=True)
        console.print(f"Model of the coordinator: {model.name} ({model.why}).", soft_wrap=True)
        url = await mesh.url_of("coordinator")
        client = AgentClient(url=url, outage_s=OUTAGE_S)
        approver = Approver(client, console, approve_all=arguments.yes, command=_command())
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
        stop = _stop_event() if arguments.keep_running else None
        _print_next_steps(console, task, directory, url, mesh.registry_url if stop is not None else None)
        if stop is not None:
            await mesh.while_running(stop.wait())
    if arguments.trace is not None:
        _print_traces(console, arguments.trace, task)
    return 0 if booked else 1


async def _address_of(mesh: Mesh, name: str) -> str:
    """Return the URL of a process, and the language in its card's metadata."""
    if name == "registry":
        return mesh.registry_url
    card = await mesh.card_of(name)
    language = card.metadata.get("language")
    return f"{card.url} in {language}" if language else card.url


async def _send_trip(client: AgentClient, trip: Trip, console: Console, approver: Approver) -> tuple[Task, RunReport]:
    """Send the trip, show the events, and answer approvals. Return the task at its end and its report."""
    values = {"to": trip.to, "nights": trip.nights, "guests": trip.guests, "budget": trip.budget}
    values["start"] = trip.start.isoformat() if trip.start else None
    task = Task.create(Message.user(trip.question).add_part(Part.json(values)), budget=BUDGET)
    screen = Screen(console)
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


def _print_traces(console: Console, path: Path, task: Task) -> None:
    """Print where the time of the trip went, in all agents. The processes have ended, so the file is complete."""
    records = LocalTraceRecorder.load_jsonl(path)
    traces = {record["trace_id"] for record in records if record["task_id"] == task.id}
    spans = [span for record in records if record["trace_id"] in traces for span in spans_of_record(record)]
    console.print("\n".join(["", *waterfall(spans)]), soft_wrap=True)
    console.print(f"\nTo show it again:\n  {shlex.join([_command(), 'run', 'trace', str(path)])}", soft_wrap=True)


def _print_next_steps(console: Console, task: Task, directory: Path, url: str, registry_url: str | None) -> None:
    """Print the path of the log and commands to continue with. `registry_url` is set if the agents keep running."""
    program, store = _command(), str(directory / "coordinator.db")
    lines = ["", f"Task  {task.id}", f"Log   {store}", ""]
    lines += ["To show the run again from the file:"]
    lines += [f"  {shlex.join([program, 'run', verb, '--store', store, task.id])}" for verb in ("report", "replay")]
    if registry_url is not None:
        lines += ["The agents run until Ctrl-C. In a second terminal:"]
    else:
        serve = ("serve", "examples.vacation.coordinator:agent", "--store", store, "--url", url)
        lines += ["To serve the log again, and to replay it and list its approvals in a second terminal:"]
        lines += [f"  {shlex.join([program, *serve])}"]
    lines += [f"  {shlex.join([program, 'task', 'subscribe', url, task.id])}"]
    lines += [f"  {shlex.join([program, 'approvals', 'list', url, '--state', 'all'])}"]
    if registry_url is not None:
        lines += [f"  {shlex.join([program, 'agents', 'list', '--registry', registry_url])}"]
    for line in lines:
        console.print(line, soft_wrap=True)


def _command() -> str:
    """Return the command `plgrpc` of this environment: its name if that is on the PATH, otherwise its path."""
    own = Path(sys.executable).parent / "plgrpc"
    found = shutil.which("plgrpc")
    if found is not None and Path(found).resolve() == own.resolve():
        return "plgrpc"
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)


def _stop_event() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set from now on."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _end_on_signals() -> None:
    """Make SIGTERM and a closed terminal end the running task like Ctrl-C, so that child processes are ended too."""
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _directory(wanted: Path | None) -> Path:
    """Return the directory of this run: the given one, or a new one under `.demo`."""
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
    parser.add_argument("--yes", action="store_true", help="approve the booking without asking")
    parser.add_argument(
        "--model",
        type=_model,
        metavar="PROVIDER:MODEL",
        help=f"model of the coordinator, or {PLANNER}, which needs no key "
        f"(default: a model of the provider whose API key is in the environment, otherwise {PLANNER})",
    )
    parser.add_argument("--dir", type=Path, help="directory of the agents' files (default: a new one in .demo)")
    parser.add_argument(
        "--program",
        type=_program,
        action="append",
        default=[],
        metavar="AGENT=PATH",
        help="program to run instead of one of the agents, such as clients/go/bin/vacation-weather for weather",
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="append the traces of all agents to this JSONL file, and show them"
    )
    parser.add_argument("--keep-running", action="store_true", help="keep the agents running until Ctrl-C")
    return parser


def _destination(text: str) -> str:
    for name in NAMES:
        if name.casefold() == text.strip().casefold():
            return name
    nearest = nearest_name(text)
    hint = f"; did you mean {nearest}?" if nearest else ""
    raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(NAMES)}{hint}")


def _model(name: str) -> Choice:
    try:
        thinker(name)
    except ProtolinkError as error:
        raise argparse.ArgumentTypeError(f"{name!r}: {error}") from None
    return Choice(name, RULES if name == PLANNER else "set with --model")


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
