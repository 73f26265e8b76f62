"""Agents in this process, and `plgrpc` in processes of its own, for tests of the command line."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warm_python import Process, run_python, start_python

from protolink_grpc import (
    Agent,
    AgentCard,
    Artifact,
    Message,
    Part,
    Principal,
    Registry,
    ServerOptions,
    Task,
    TaskProgress,
)
from protolink_grpc.errors import InvalidArgumentError

END_S = 60
"""How long a command may take; far more than it needs on a busy machine."""

AT_ONCE = str(Path(__file__).with_name("plgrpc_at_once.py"))
COMMAND = [sys.executable, "-W", "error", "-m", "protolink_grpc.cli"]


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output, which must be one JSON document."""
        return json.loads(self.out)

    @property
    def fields(self) -> dict[str, str]:
        """The `Label: value` lines of standard output."""
        return dict(line.split(": ", 1) for line in self.out.splitlines() if ": " in line)


def environment(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """A plain environment: nothing that colours, nothing that names a registry."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PLGRPC_", "FORCE_", "NO_COLOR"))}
    return kept | dict(extra)


def plgrpc(
    *arguments: str,
    registry: str = "",
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] = {},
    retries: bool = True,
) -> Done:
    """Run a command to its end; with `retries=False`, it does not retry what it cannot reach."""
    extra = {"PLGRPC_REGISTRY": registry} if registry else {}
    program = ("-m", "protolink_grpc.cli") if retries else (AT_ONCE,)
    variables = environment({**extra, **env})
    done = run_python(*program, *arguments, stdin=stdin, within_s=END_S, cwd=cwd, env=variables, strict=True)
    return Done(done.code, done.out, done.err)


class Running:
    """A command that runs beside the test, with the methods of `subprocess.Popen`."""

    def __init__(self, process: Process, stdout: int, stderr: int) -> None:
        self._process = process
        self.stdout, self.stderr = open(stdout), open(stderr)  # noqa: SIM115 -- closed by `close`
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = END_S) -> int:
        self.returncode = self._process.wait(timeout)
        return self.returncode

    def communicate(self, timeout: float = END_S) -> tuple[str, str]:
        """The rest of its output and errors, once it has ended; it is killed if it does not end in time."""
        killer = threading.Timer(timeout, self.kill)
        killer.start()
        with ThreadPoolExecutor(1) as reader:
            err = reader.submit(self.stderr.read)
            out = self.stdout.read()
        killer.cancel()
        self.wait()
        return out, err.result()

    def close(self) -> None:
        """Kill it if it has not ended."""
        self.kill()
        self.wait()
        self.stdout.close()
        self.stderr.close()


@contextmanager
def running(*arguments: str, registry: str = "", cwd: Path | None = None) -> Iterator[Running]:
    """A command that runs beside the test; killed at the end if it has not ended."""
    variables = environment({"PLGRPC_REGISTRY": registry} if registry else {})
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    program = ("-m", "protolink_grpc.cli", *arguments)
    with open(os.devnull) as null:
        files = {"stdin": null.fileno(), "stdout": their_out, "stderr": their_err}
        process = start_python(*program, **files, cwd=cwd, env=variables, strict=True)
    os.close(their_out)
    os.close(their_err)
    command = Running(process, out, err)
    try:
        yield command
    finally:
        command.close()


def first_document(process: Running) -> Any:
    """The indented JSON document that a server announces itself with."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            return json.loads("".join(lines))
    raise AssertionError(f"it said nothing: {process.communicate()[1]}")


class Asker(Agent):
    async def handle_task(self, task: Task) -> Task:
        if len(task.messages) == 1:
            return task.require_input(Message.agent("which city?"))
        return task.complete(f"a room in {task.messages[-1].text}")


class Reporter(Agent):
    """Reports, makes an artifact and tries to write to the reader's terminal."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        for step in range(3):
            yield TaskProgress(step * 50.0, f"step {step}")
        yield Artifact(name="report", parts=[Part.text("all is \x1b[31mwell"), Part.json({"rooms": 3})])
        task.complete("done")


class Gated(Agent):
    """Reports that it has begun, and waits until the test lets it go on."""

    gate: threading.Event

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        yield TaskProgress(0.0, "begun")
        await asyncio.to_thread(self.gate.wait, END_S)
        for step in range(100):
            yield TaskProgress(float(step), "on")
        task.complete("opened")


class Failing(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.fail("no rooms left")


def calculator() -> Agent:
    agent = Agent(AgentCard(name="calc", description="adds", url="grpc://127.0.0.1:0", tags=["math", "eu"]))

    @agent.tool
    def add(a: int, b: int = 2) -> int:
        """Add two integers."""
        return a + b

    @agent.tool
    def book(nights: int, guests: list[str], breakfast: bool = False, name: str = "") -> dict[str, Any]:
        """Book a room."""
        if nights < 1:
            raise InvalidArgumentError("at least one night", field="nights")
        return {"nights": nights, "guests": guests, "breakfast": breakfast, "name": name}

    @agent.tool
    def say(text: str) -> str:
        """Say it again."""
        return text

    return agent


async def _known(method: str, metadata: Mapping[str, str]) -> Principal | None:
    return Principal("anna") if metadata.get("authorization") == "Bearer good" else None


def named(kind: type[Agent], name: str, **more: Any) -> Agent:
    return kind(AgentCard(name=name, description=name, url="grpc://127.0.0.1:0"), **more)


@dataclass
class World:
    """A registry and agents of every temper, all running."""

    registry: Registry = field(default_factory=Registry)
    calc: Agent = field(default_factory=calculator)
    asker: Agent = field(default_factory=lambda: named(Asker, "asker"))
    reporter: Agent = field(default_factory=lambda: named(Reporter, "reporter"))
    gated: Gated = field(default_factory=lambda: Gated(name="gated", url="grpc://127.0.0.1:0"))
    failing: Agent = field(default_factory=lambda: named(Failing, "failing"))
    locked: Agent = field(
        default_factory=lambda: named(Failing, "locked", server=ServerOptions(authenticate=_known)),
    )

    @property
    def agents(self) -> list[Agent]:
        return [self.calc, self.asker, self.reporter, self.gated, self.failing, self.locked]

    @contextmanager
    def up(self) -> Iterator["World"]:
        """Everything running; gates open at the end."""
        self.gated.gate = threading.Event()
        self.registry.start(background=True)
        try:
            for agent in self.agents:
                agent.relocate(registry=self.registry.url).start(background=True)
            yield self
        finally:
            self.gated.gate.set()
            for agent in self.agents:
                agent.stop()
            self.registry.stop()
