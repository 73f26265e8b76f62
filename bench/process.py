"""Starts and stops the measured processes on their own core, and reads their CPU time and memory."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

START_TIMEOUT_S = 30.0


def cores() -> tuple[int | None, int | None]:
    """Return a core for the servers and another for the load; None for both if there is only one, or pinning is not supported."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[-1]) if len(usable) > 1 else (None, None)


SERVER_CORE, LOAD_CORE = cores()


def pin_load() -> None:
    """Run this process on the load's core only."""
    if LOAD_CORE is not None:
        os.sched_setaffinity(0, {LOAD_CORE})


WORK = ROOT / "bench" / ".tmp"
"""Files of the benchmark, on the disk of the project. On a file system in memory, an fsync would cost nothing."""


@asynccontextmanager
async def scratch() -> AsyncIterator[Path]:
    """Create a temporary directory in `WORK`."""
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as directory:
        yield Path(directory)


@dataclass(slots=True)
class Server:
    """One running server.

    Attributes:
        target: `host:port` of its gRPC port; empty without one.
        process: Its process.
        http: `host:port` of its HTTP port; empty without one.
    """

    kind: str
    target: str
    process: asyncio.subprocess.Process
    http: str = ""

    async def _send_command(self, command: str) -> dict[str, float]:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError(f"{self.kind} has no pipes")
        self.process.stdin.write(f"{command}\n".encode())
        line = await self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.kind} server ended")
        answer: dict[str, float] = json.loads(line)
        return answer

    async def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time so far, of the `process` and of each of its Python threads."""
        return await self._send_command("cpu")

    async def begin_profile(self) -> None:
        """Start the profiler of its event loop's thread, which makes the thread slower."""
        await self._send_command("profile")

    async def collect(self) -> None:
        """Collect its garbage now, so that this does not happen during a measurement."""
        await self._send_command("rss")

    async def resident_bytes(self) -> float:
        """Return its memory after a garbage collection."""
        return (await self._send_command("rss"))["rss"]

    async def chain(self) -> tuple[int, float]:
        """Return how often the last agent of a chain has begun, and when it was last interrupted, in `time.monotonic()`."""
        seen = await self._send_command("chain")
        return int(seen["begun"]), seen["interrupted_at"]

    async def stop(self) -> None:
        """Close its stdin, which ends the process, and wait for its end."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


async def start(kind: str, command: Sequence[str], environment: Mapping[str, str]) -> Server:
    """Start a server on the servers' core, and wait until it is ready. It takes the commands of `bench.commands`."""
    pinned = [] if SERVER_CORE is None else ["--core", str(SERVER_CORE)]
    process = await asyncio.create_subprocess_exec(
        *(*command, *pinned),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdout is None:
        raise RuntimeError("no pipe to the server")
    async with asyncio.timeout(START_TIMEOUT_S):
        line = await process.stdout.readline()
    if not line:
        raise RuntimeError(f"the {kind} server did not start; its message is above")
    targets = {scheme: target for scheme, _, target in (url.partition("://") for url in json.loads(line)["urls"])}
    return Server(kind, targets.get("grpc", ""), process, targets.get("http", ""))


@asynccontextmanager
async def servers(
    *kinds: str, max_tasks: int = 50_000, environment: Mapping[str, str] | None = None
) -> AsyncIterator[list[Server]]:
    """Start servers of these kinds, all on the servers' core. Only one of them must be under load at a time."""
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(scratch())
        started = []
        for kind in kinds:
            arguments = ["--file", str(directory / f"{kind}.db"), "--max-tasks", str(max_tasks)]
            command = [sys.executable, "-m", "bench.servers", kind, *arguments]
            server = await start(kind, command, environment or {})
            stack.push_async_callback(server.stop)
            started.append(server)
        yield started
