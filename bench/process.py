"""The measured processes, seen from the bench: start them on a core of their own, ask for their CPU time and memory, end them."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

START_TIMEOUT_S = 30.0


def cores() -> tuple[int | None, int | None]:
    """One core for servers, another for the load; None twice where there is only one, or no way to choose."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[-1]) if len(usable) > 1 else (None, None)


SERVER_CORE, LOAD_CORE = cores()


def pin_load() -> None:
    """Keep this process off the servers' core."""
    if LOAD_CORE is not None:
        os.sched_setaffinity(0, {LOAD_CORE})


@asynccontextmanager
async def scratch() -> AsyncIterator[Path]:
    """A directory on the disk of the project, gone afterwards: a file system in memory would make every fsync free."""
    parent = ROOT / "bench" / ".tmp"
    parent.mkdir(exist_ok=True)
    (parent / ".gitignore").write_text("*\n")
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        yield Path(directory)


@dataclass(slots=True)
class Server:
    """One running server.

    Attributes:
        target: `host:port` of its gRPC port; empty where it has none.
        process: What runs it.
        http: `host:port` of its HTTP port; empty where it has none.
    """

    kind: str
    target: str
    process: asyncio.subprocess.Process
    http: str = ""

    async def _ask(self, command: str) -> dict[str, float]:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError(f"{self.kind} has no pipes")
        self.process.stdin.write(f"{command}\n".encode())
        line = await self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.kind} server ended")
        answer: dict[str, float] = json.loads(line)
        return answer

    async def cpu_seconds(self) -> dict[str, float]:
        """CPU time so far, of the `process` and of each of its Python threads."""
        return await self._ask("cpu")

    async def begin_profile(self) -> None:
        """From now on its event loop's thread is recorded, and gets slower."""
        await self._ask("profile")

    async def collect(self) -> None:
        """Let it collect its garbage now, and not while somebody measures."""
        await self._ask("rss")

    async def resident_bytes(self) -> float:
        """Its memory, garbage not counted."""
        return (await self._ask("rss"))["rss"]

    async def chain(self) -> tuple[int, float]:
        """How often the last agent of a chain has begun, and when it was last interrupted, in `time.monotonic()`."""
        seen = await self._ask("chain")
        return int(seen["begun"]), seen["interrupted_at"]

    async def stop(self) -> None:
        """Close its stdin, which ends it."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


async def _start(kind: str, arguments: list[str], environment: Mapping[str, str]) -> Server:
    pinned = [] if SERVER_CORE is None else ["--core", str(SERVER_CORE)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.servers", kind, *pinned, *arguments),
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
    at = {scheme: place for scheme, _, place in (url.partition("://") for url in json.loads(line)["urls"])}
    return Server(kind, at.get("grpc", ""), process, at.get("http", ""))


@asynccontextmanager
async def servers(
    *kinds: str, max_tasks: int = 50_000, environment: Mapping[str, str] | None = None
) -> AsyncIterator[list[Server]]:
    """Servers of these kinds, in this order, all on the servers' core; give each its load in turn."""
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(scratch())
        started = []
        for kind in kinds:
            arguments = ["--file", str(directory / f"{kind}.db"), "--max-tasks", str(max_tasks)]
            server = await _start(kind, arguments, environment or {})
            stack.push_async_callback(server.stop)
            started.append(server)
        yield started
