"""The processes of a demo: starts the registry and the agents, waits until they are ready, and ends them.

The stdin of each child is a pipe from this process, and the child ends when the pipe is closed. The children therefore end even
if the demo is killed.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from examples.mesh.process import DIRECTORY, LIFELINE
from protolink_grpc import AgentCard, AgentChangeKind, RegistryClient

T = TypeVar("T")

PYTHON = sys.executable
"""Starts the registry and the agents."""

START_S = 60.0
"""Timeout of the start, in seconds: long, for a loaded machine. A child that ends is noticed at once."""

STOP_S = 5.0
"""How long children may take to end before they are killed, in seconds."""

LOG_LINES = 12
"""Number of lines of a failed child's log that are shown."""


class MeshError(Exception):
    """A process did not start, or has ended. The message contains its name and the end of its log."""


@dataclass(frozen=True, slots=True)
class Child:
    name: str
    process: asyncio.subprocess.Process
    log: Path


class Mesh:
    """Registry and agents, one process each; a context manager that owns the processes.

    Args:
        package: The package with a module for each agent, which runs it.
        agents: Names of the agents and their modules.
        directory: Directory of their files.
        environment: Additional environment variables of all processes.
        programs: Programs to start instead of the agents in the package, by name, with LIFELINE as their argument.
    """

    def __init__(
        self,
        package: str,
        agents: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
        programs: Mapping[str, Path] | None = None,
    ) -> None:
        self._package = package
        self._agents = tuple(agents)
        self.directory = directory
        self._environment = dict(environment or {})
        self._programs = dict(programs or {})
        self.registry_url = ""
        self._children: list[Child] = []

    async def __aenter__(self) -> Self:
        try:
            # All at once: agents take some time to load before they need the registry's URL.
            registry = await self._start("registry", stdout=asyncio.subprocess.PIPE)
            agents = [await self._start(name) for name in self._agents]
            self.registry_url = await self.while_running(_first_line(registry))
            for agent in agents:
                _send_url(agent, self.registry_url)
            await self.while_running(self._wait_registered())
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def registry(self) -> RegistryClient:
        return RegistryClient(self.registry_url)

    @property
    def processes(self) -> dict[str, int]:
        """Process ids by name."""
        found = {child.name: child.process.pid for child in self._children}
        return {name: found[name] for name in ("registry", *self._agents) if name in found}

    async def url_of(self, name: str) -> str:
        return (await self.card_of(name)).url

    async def card_of(self, name: str) -> AgentCard:
        return (await self.registry.get(name)).card

    async def while_running(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work` as long as all processes are running.

        Raises:
            MeshError: A process has ended; `work` is canceled.
        """
        task = asyncio.ensure_future(work)
        ends = {asyncio.ensure_future(child.process.wait()): child for child in self._children}
        try:
            await asyncio.wait([task, *ends], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise _ended_error(next(child for end, child in ends.items() if end.done()))
        finally:
            for each in (task, *ends):
                each.cancel()
            await asyncio.wait([task, *ends])

    async def aclose(self) -> None:
        """End all processes: first the agents, which deregister, then the registry."""
        agents = [child for child in self._children if child.name != "registry"]
        rest = [child for child in self._children if child.name == "registry"]
        await _stop(agents)
        await _stop(rest)
        self._children.clear()

    async def _start(self, name: str, *, stdout: int | None = None) -> Child:
        path = self.directory / f"{name}.log"
        with path.open("wb") as log:
            starting = asyncio.ensure_future(
                asyncio.create_subprocess_exec(
                    *self._command(name),
                    LIFELINE,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=log if stdout is None else stdout,
                    stderr=log,
                    env={**os.environ, **self._environment, DIRECTORY: str(self.directory)},
                    # Ctrl-C in a terminal reaches only this process, which then ends the others in order.
                    start_new_session=True,
                )
            )
            try:
                process = await asyncio.shield(starting)
            except asyncio.CancelledError:
                # It may be running already and must be ended.
                self._children.append(Child(name, await starting, path))
                raise
        child = Child(name, process, path)
        self._children.append(child)
        return child

    def _command(self, name: str) -> Sequence[str]:
        program = self._programs.get(name)
        if program is not None:
            return [str(program)]
        package = "examples.mesh" if name == "registry" else self._package
        return [PYTHON, "-m", f"{package}.{name}"]

    async def _wait_registered(self) -> None:
        missing = set(self._agents)
        try:
            async with asyncio.timeout(START_S), aclosing(self.registry.watch()) as changes:
                async for change in changes:
                    if change.kind is AgentChangeKind.UP:
                        missing.discard(change.agent.card.name)
                    if not missing:
                        return
        except TimeoutError:
            raise MeshError(f"{', '.join(sorted(missing))} did not register within {START_S:.0f} s") from None


def _send_url(child: Child, url: str) -> None:
    if child.process.stdin is None:
        raise RuntimeError(f"{child.name} was started without a pipe to write to")
    child.process.stdin.write(f"{url}\n".encode())


async def _first_line(child: Child) -> str:
    if child.process.stdout is None:
        raise RuntimeError(f"{child.name} was started without a pipe to read from")
    line = (await child.process.stdout.readline()).decode().strip()
    if not line:
        await child.process.wait()
        raise _ended_error(child)
    return line


async def _stop(children: list[Child]) -> None:
    for child in children:
        with suppress(ProcessLookupError):
            child.process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_S):
            for child in children:
                await child.process.wait()
    finally:
        # After the timeout, or after a second Ctrl-C.
        for child in children:
            if child.process.returncode is None:
                child.process.kill()


def _ended_error(child: Child) -> MeshError:
    lines = child.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    end = "\n  ".join([":", *lines]) if lines else ", its log is empty"
    return MeshError(f"the process of {child.name} ended with code {child.process.returncode}{end}")
