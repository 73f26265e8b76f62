"""The beginning and the end of a demo at a terminal: options, signals, exit codes, the directory, and commands to continue with."""

import argparse
import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from examples.mesh.mesh import Mesh, MeshError
from examples.mesh.models import MODEL, Choice, usual_choice
from examples.mesh.process import TRACE
from protolink_grpc import LLM, ProtolinkError, Task
from protolink_grpc.telemetry import LocalTraceRecorder, spans_of_record, waterfall

OUTAGE_S = 5.0
"""How long a stream may be interrupted before a demo fails, in seconds. A process that has ended is detected earlier."""


def run_demo(work: Callable[[Console], Coroutine[Any, Any, int]]) -> int:
    """Run a demo and return its exit code: that of `work`, 1 after an error, 130 and 143 after an interruption."""
    if hasattr(sys.stdout, "reconfigure"):
        # The demo must not fail on a terminal that cannot show a degree sign.
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        return asyncio.run(_end_on_signals(work, console))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except asyncio.CancelledError:
        print("terminated", file=sys.stderr)
        return 143
    except (MeshError, ProtolinkError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else error
        print(f"error: {text}", file=sys.stderr)
        return 1


async def _end_on_signals(work: Callable[[Console], Coroutine[Any, Any, int]], console: Console) -> int:
    """Make SIGTERM and a closed terminal end the demo like Ctrl-C, so that child processes are ended too."""
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await work(console)


def stop_event() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set from now on."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def add_options(parser: argparse.ArgumentParser, create_model: Callable[[str], LLM], offline: Choice) -> None:
    """Add the options that every demo has.

    Args:
        create_model: Checks a model's name: creates the model, or raises ProtolinkError.
        offline: The model that needs no key.
    """

    def model(name: str) -> Choice:
        try:
            create_model(name)
        except ProtolinkError as error:
            raise argparse.ArgumentTypeError(f"{name!r}: {error}") from None
        return Choice(name, offline.why if name == offline.name else "set with --model")

    parser.add_argument(
        "--model",
        type=model,
        metavar="PROVIDER:MODEL",
        help=f"model of the agents that have one, or {offline.name}, which needs no key "
        f"(default: a model of the provider whose API key is in the environment, otherwise {offline.name})",
    )
    parser.add_argument("--dir", type=Path, help="directory of the agents' files (default: a new one in .demo)")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="append the traces of all agents to this JSONL file, and show them"
    )
    parser.add_argument("--keep-running", action="store_true", help="keep the agents running until Ctrl-C")


def chosen_model(arguments: argparse.Namespace, offline: Choice) -> Choice:
    """Return the model of `--model`, or the usual one."""
    return arguments.model or usual_choice(offline)


def environment_of(arguments: argparse.Namespace, model: Choice) -> dict[str, str]:
    """Return the environment variables that pass the options to the agents."""
    environment = {MODEL: model.name}
    if arguments.trace is not None:
        environment[TRACE] = str(arguments.trace.resolve())
    return environment


def new_directory(wanted: Path | None) -> Path:
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


async def print_processes(console: Console, mesh: Mesh) -> None:
    """Print name, address and process id of each process, and the language that a card has in its metadata."""
    for name, pid in mesh.processes.items():
        address = mesh.registry_url
        if name != "registry":
            card = await mesh.card_of(name)
            language = card.metadata.get("language")
            address = f"{card.url} in {language}" if language else card.url
        console.print(f"     {name:<12} {address} (process {pid})", soft_wrap=True)


def print_traces(console: Console, path: Path, task: Task) -> None:
    """Print where the time of the task went, in all agents. The processes have ended, so the file is complete."""
    records = LocalTraceRecorder.load_jsonl(path)
    traces = {record["trace_id"] for record in records if record["task_id"] == task.id}
    spans = [span for record in records if record["trace_id"] in traces for span in spans_of_record(record)]
    console.print("\n".join(["", *waterfall(spans)]), soft_wrap=True)
    console.print(f"\nTo show it again:\n  {shlex.join([plgrpc(), 'run', 'trace', str(path)])}", soft_wrap=True)


def print_next_steps(
    console: Console,
    task: Task,
    store: Path,
    agent: str,
    url: str,
    *,
    registry_url: str | None,
    approvals_url: str,
    more: Iterable[str] = (),
) -> None:
    """Print the path of the log and commands to continue with.

    Args:
        store: The task store with the log.
        agent: The agent with that store, as `plgrpc serve` names it.
        registry_url: Set if the agents keep running.
        approvals_url: The agent with the approvals of the task.
        more: Further lines about the result, before the commands.
    """
    program = plgrpc()
    lines = ["", f"Task  {task.id}", f"Log   {store}", *more, ""]
    lines += ["To show the run again from the file:"]
    lines += [
        f"  {shlex.join([program, 'run', verb, '--store', str(store), task.id])}" for verb in ("report", "replay")
    ]
    if registry_url is not None:
        lines += ["The agents run until Ctrl-C. In a second terminal:"]
    else:
        lines += ["To serve the log again, and to read it in a second terminal:"]
        lines += [f"  {shlex.join([program, 'serve', agent, '--store', str(store), '--url', url])}"]
    lines += [f"  {shlex.join([program, 'task', 'subscribe', url, task.id])}"]
    if registry_url is not None or approvals_url == url:
        lines += [f"  {shlex.join([program, 'approvals', 'list', approvals_url, '--state', 'all'])}"]
    if registry_url is not None:
        lines += [f"  {shlex.join([program, 'agents', 'list', '--registry', registry_url])}"]
    for line in lines:
        console.print(line, soft_wrap=True)


def plgrpc() -> str:
    """Return the command `plgrpc` of this environment: its name if that is on the PATH, otherwise its path."""
    own = Path(sys.executable).parent / "plgrpc"
    found = shutil.which("plgrpc")
    if found is not None and Path(found).resolve() == own.resolve():
        return "plgrpc"
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)
