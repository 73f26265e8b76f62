"""Where the time goes: the event loop's thread of our servers under cProfile. Slower than life; shares count, not numbers."""

import os
import pstats
from pathlib import Path
from typing import Any

from bench.load import channel_to, closed_loop, message, unary
from bench.plan import Plan, say
from bench.process import scratch, servers

TOP = 25


async def profile(plan: Plan) -> None:
    """Print the functions of SendTask that take most time of their own, per store."""
    for kind in ("echo-memory", "echo-sqlite"):
        async with scratch() as directory:
            environment = {"BENCH_PROFILE": str(directory)}
            async with servers(kind, environment=environment) as (server,), channel_to(server) as channel:
                send = unary(channel, "SendTask")
                sample = await closed_loop(send, message("x" * 100), 16, max(1.0, 2 * plan.seconds))
            _print(kind, directory / f"{kind}.pstats", sample.done)


def _print(kind: str, path: Path, requests: int) -> None:
    stats: Any = pstats.Stats(str(path))
    # By function: (calls, calls without recursion, own seconds, seconds with callees, callers).
    entries = sorted(stats.stats.items(), key=lambda entry: -entry[1][2])
    say(f"\n{kind}: own time per request under the profiler, {requests} requests")
    for (file, line, name), (_, calls, own, whole, _) in entries[:TOP]:
        where = f"{os.sep.join(Path(file).parts[-2:])}:{line}" if line else "built in"
        micros = 1e6 / requests
        say(
            f"  {own * micros:7.1f} us  {whole * micros:8.1f} with callees  {calls / requests:6.1f} calls  {name}  ({where})"
        )
