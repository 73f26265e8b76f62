"""Profiles the event loop's thread of our servers with cProfile, which slows it down: only the shares are meaningful."""

import os
import pstats
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench.a2a import BINDINGS, bindings_of, live_stream, make_task, stored_stream
from bench.load import channel_to, closed_loop, message, unary
from bench.plan import Plan, print_progress
from bench.process import scratch, servers

TOP = 25


async def profile(plan: Plan) -> None:
    """Print the functions with the most own time: for SendTask by store, then for A2A by binding."""
    for kind in ("echo-memory", "echo-sqlite"):
        async with scratch() as directory:
            environment = {"BENCH_PROFILE": str(directory)}
            async with servers(kind, environment=environment) as (server,), channel_to(server) as channel:
                send = unary(channel, "SendTask")
                await closed_loop(send, message("x" * 100), 16, 0.5)
                await server.begin_profile()
                sample = await closed_loop(send, message("x" * 100), 16, max(1.0, 2 * plan.seconds))
            _print(kind, directory / f"{kind}.pstats", sample.done)
    for binding in BINDINGS:
        await _profile_unary(binding, max(1.0, 2 * plan.seconds))
    for kind in ("live", "stored"):
        await _profile_stream(kind, plan.amount(20_000))


async def _profile_unary(binding: str, seconds: float) -> None:
    kind = "a2a-echo-memory"
    async with scratch() as directory:
        async with servers(kind, environment={"BENCH_PROFILE": str(directory)}) as (server,), AsyncExitStack() as stack:
            _, call, request = (await bindings_of(server, stack))[binding]
            await closed_loop(call, request, 16, 0.5)
            await server.begin_profile()
            sample = await closed_loop(call, request, 16, seconds)
        _print(f"a2a.{binding}", directory / f"{kind}.pstats", sample.done)


async def _profile_stream(kind: str, count: int) -> None:
    server_kind = "a2a-log-memory"
    async with scratch() as directory:
        async with servers(server_kind, environment={"BENCH_PROFILE": str(directory)}) as (server,):
            if kind == "live":
                await server.begin_profile()
                sample = await live_stream(server, f"make {count}")
            else:
                task_id = await make_task(server, count)
                await server.begin_profile()
                sample = await stored_stream(server, task_id, count)
        _print(f"sse.{kind}", directory / f"{server_kind}.pstats", sample.done)


def _print(kind: str, path: Path, requests: int) -> None:
    stats: Any = pstats.Stats(str(path))
    # By function: (calls, calls without recursion, own seconds, seconds with callees, callers).
    entries = sorted(stats.stats.items(), key=lambda entry: -entry[1][2])
    micros = 1e6 / requests
    layers: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, _) in entries:
        layers[_layer(file)] += own * micros
    print_progress(f"\n{kind}: own CPU per request under the profiler, {requests} requests")
    print_progress("  " + ", ".join(f"{name} {own:.0f} us" for name, own in layers.most_common(12)))
    for (file, line, name), (_, calls, own, whole, _) in entries[:TOP]:
        where = f"{os.sep.join(Path(file).parts[-2:])}:{line}" if line else "built in"
        times = f"{own * micros:7.1f} us  {whole * micros:8.1f} with callees  {calls / requests:6.1f} calls"
        print_progress(f"  {times}  {name}  ({where})")


def _layer(file: str) -> str:
    """Return the package of a function: a layer of protolink_grpc, or a library."""
    parts = Path(file).parts
    if "protolink_grpc" in parts:
        return "/".join(parts[parts.index("protolink_grpc") :][:2])
    return parts[-2] if len(parts) > 1 else "built in"
