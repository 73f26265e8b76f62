"""Clients in several languages against one agent: requests per second with 16 in flight, and events per second of a stream.

Each is a program, `PROGRAM URL SECONDS`, that prints one line of JSON: `requests_per_s`, `events_per_s`, `events`. All run on the
load's core, one after the other in each round. A language whose tools are missing is skipped with a message.
"""

import asyncio
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.plan import Plan, print_progress
from bench.process import ROOT, Server, servers
from bench.rows import Row

IN_FLIGHT = 16
BYTES = 100
BUILD_TIMEOUT_S = 600.0
RUN_TIMEOUT_S = 120.0

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Client:
    """One load program.

    Args:
        folder: Working directory of its commands.
        builds: Commands that build it; `{out}` is the folder for their results.
        run: Command that runs it.
    """

    name: str
    folder: str
    tools: Command
    builds: tuple[Command, ...]
    run: Command

    def missing(self) -> str:
        """Return why the client cannot be measured here; empty if it can."""
        absent = [tool for tool in self.tools if shutil.which(tool) is None]
        return f"{' and '.join(absent)} not installed" if absent else ""


INSTALL = ("npm", "install", "--omit-lockfile-registry-resolved", "--no-audit", "--no-fund", "--silent")

CLIENTS = (
    Client("python", ".", (), (), (sys.executable, "-m", "bench.python_client")),
    Client("go", "clients/go", ("go",), (("go", "build", "-o", "{out}/go", "./bench"),), ("{out}/go",)),
    Client(
        "ts", "clients/ts", ("node", "npm"), (INSTALL, ("npm", "run", "--silent", "build")), ("node", "dist/bench.js")
    ),
)


async def clients(plan: Plan) -> list[Row]:
    """Measure each client with the same agent, memory store."""
    found = []
    for client in CLIENTS:
        if reason := client.missing():
            print_progress(f"clients: {client.name} skipped: {reason}")
        else:
            found.append(client)
    with tempfile.TemporaryDirectory() as out:
        for client in found:
            for build in client.builds:
                await _run_command(client, build, out, BUILD_TIMEOUT_S)
        print_progress(f"clients: {', '.join(client.name for client in found)}, {IN_FLIGHT} in flight")
        results: dict[str, list[dict[str, Any]]] = {client.name: [] for client in found}
        async with servers("log-memory") as (server,):
            for _ in range(plan.rounds):
                for client in found:
                    results[client.name].append(await _run_client(client, server, plan, out))
    return [row for client in found for row in _rows(client.name, results[client.name], results["python"])]


async def _run_client(client: Client, server: Server, plan: Plan, out: str) -> dict[str, Any]:
    await server.collect()
    command = (*client.run, f"grpc://{server.target}", f"{plan.seconds:g}")
    line: dict[str, Any] = json.loads(await _run_command(client, command, out, RUN_TIMEOUT_S))
    return line


async def _run_command(client: Client, command: Command, out: str, timeout_s: float) -> str:
    """Return the standard output of a command.

    Raises:
        RuntimeError: The command failed, or took too long.
    """
    words = [word.format(out=out) for word in command]
    process = await asyncio.create_subprocess_exec(
        *words, cwd=Path(ROOT, client.folder), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(timeout_s):
            printed, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise RuntimeError(f"{' '.join(words)} took more than {timeout_s:g} s") from None
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {errors.decode(errors='replace')[-2000:]}")
    return printed.decode()


def _rows(name: str, results: list[dict[str, Any]], python: list[dict[str, Any]]) -> list[Row]:
    """Return two rows, compared with our Python client in their notes. They have no `ratio_to_floor`."""
    rows = []
    for key, unit, in_flight in (("requests_per_s", "requests", IN_FLIGHT), ("events_per_s", "events", 1)):
        row = Row(f"client.{name}.{unit}", unit, in_flight=in_flight, bytes=BYTES if unit == "requests" else None)
        row.per_second = median(each[key] for each in results)
        if name != "python":
            ratio = median(own[key] / its[key] for own, its in zip(results, python, strict=True))
            row.note = f"{ratio:.2f} of our Python client"
        rows.append(row)
    return rows
