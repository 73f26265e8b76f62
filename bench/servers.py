"""The measured processes: `python -m bench.servers KIND --core N`. Each runs one system and takes commands on stdin.

A process writes one JSON line when it is ready, and one for each command. It ends when its stdin is closed, so that it cannot
outlive the benchmark. If BENCH_PROFILE is set to a directory, the command `profile` starts the profiler of the event loop's thread,
and the end of the process writes its result to `KIND.pstats` in that directory.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import psutil

from bench.agents import ANY_HTTP_PORT, ChainAgent, EchoAgent, LogAgent, adder, floor_handler
from protolink_grpc import MemoryStore, Registry, SQLiteStore
from protolink_grpc.net.event_loops import run_server
from protolink_grpc.storage.port import TaskStore

Options = argparse.Namespace
Urls = list[str]


@asynccontextmanager
async def _floor(options: Options) -> AsyncIterator[Urls]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((floor_handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield [f"grpc://127.0.0.1:{port}"]
    await server.stop(0)


def _store(options: Options) -> TaskStore:
    if options.kind.endswith("sqlite"):
        return SQLiteStore(options.file)
    return MemoryStore(max_tasks=options.max_tasks)


@asynccontextmanager
async def _echo(options: Options) -> AsyncIterator[Urls]:
    async with EchoAgent(_store(options)) as agent:
        yield [agent.card.url]


@asynccontextmanager
async def _log(options: Options) -> AsyncIterator[Urls]:
    async with LogAgent(_store(options)) as agent:
        agent.grace_s = 0
        yield [agent.card.url]


@asynccontextmanager
async def _tool(options: Options) -> AsyncIterator[Urls]:
    async with adder(_store(options)) as agent:
        yield [agent.card.url]


@asynccontextmanager
async def _chain(options: Options) -> AsyncIterator[Urls]:
    async with ChainAgent(_store(options), options.kind) as agent:
        agent.grace_s = 0
        yield [agent.card.url]


@asynccontextmanager
async def _registry(options: Options) -> AsyncIterator[Urls]:
    async with Registry() as registry:
        yield [registry.url]


@asynccontextmanager
async def _http_floor(options: Options) -> AsyncIterator[Urls]:
    from bench import web_servers  # imported here, because it would increase the memory of the other kinds

    async with web_servers.http_floor() as urls:
        yield urls


@asynccontextmanager
async def _sdk(options: Options) -> AsyncIterator[Urls]:
    from bench import web_servers  # as above

    async with web_servers.reference_sdk() as urls:
        yield urls


@asynccontextmanager
async def _a2a_echo(options: Options) -> AsyncIterator[Urls]:
    async with EchoAgent(_store(options), http=ANY_HTTP_PORT) as agent:
        yield [agent.card.url, *(each.url for each in agent.card.interfaces if each.transport == "http")]


@asynccontextmanager
async def _a2a_log(options: Options) -> AsyncIterator[Urls]:
    async with LogAgent(_store(options), http=ANY_HTTP_PORT) as agent:
        agent.grace_s = 0
        yield [agent.card.url, *(each.url for each in agent.card.interfaces if each.transport == "http")]


KINDS: dict[str, Callable[[Options], AbstractAsyncContextManager[Urls]]] = {
    "floor": _floor,
    "echo-memory": _echo,
    "echo-sqlite": _echo,
    "tool-memory": _tool,
    "log-memory": _log,
    "log-sqlite": _log,
    "chain-1": _chain,
    "chain-2": _chain,
    "chain-3": _chain,
    "registry": _registry,
    "http-floor": _http_floor,
    "a2a-sdk": _sdk,
    "a2a-echo-memory": _a2a_echo,
    "a2a-echo-sqlite": _a2a_echo,
    "a2a-log-memory": _a2a_log,
    "a2a-log-sqlite": _a2a_log,
}


def cpu_seconds() -> dict[str, float]:
    """Return the CPU time so far: of the process, and of each Python thread by its name."""
    spent = {"process": time.process_time()}
    for thread in threading.enumerate():
        if thread.ident is not None:
            clock = time.pthread_getcpuclockid(thread.ident)
            spent[thread.name] = spent.get(thread.name, 0.0) + time.clock_gettime(clock)
    return spent


def resident_bytes() -> dict[str, float]:
    """Return the memory of the process after a garbage collection."""
    gc.collect()
    return {"rss": float(psutil.Process().memory_info().rss)}


# CPU time of the thread: with the wall clock, a function that is preempted on a busy machine would look expensive.
PROFILE = cProfile.Profile(time.thread_time_ns, 1e-9)


def begin_profile() -> dict[str, float]:
    """Profile the event loop's thread until the process ends."""
    PROFILE.enable()
    return {}


def chain() -> dict[str, float]:
    """Return the counters of the last agent of a chain."""
    return {"begun": ChainAgent.begun, "interrupted_at": ChainAgent.interrupted_at}


COMMANDS: dict[str, Callable[[], dict[str, float]]] = {
    "cpu": cpu_seconds,
    "rss": resident_bytes,
    "profile": begin_profile,
    "chain": chain,
}


def _print_line(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


async def _answer_commands() -> None:
    """Answer commands until stdin is closed."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        _print_line(COMMANDS[line.decode().strip()]())


async def _serve(options: Options) -> None:
    async with KINDS[options.kind](options) as urls:
        _print_line({"urls": urls})
        await _answer_commands()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--core", type=int, default=None, help="the only core to run on")
    parser.add_argument("--file", default="", help="store of the SQLite kinds")
    parser.add_argument("--max-tasks", type=int, default=50_000, help="maximum number of tasks of the memory kinds")
    options = parser.parse_args()
    if options.core is not None:
        # Before gRPC starts its threads, which inherit the setting.
        os.sched_setaffinity(0, {options.core})
    # With the scheduling class of `Agent.run`, also for the floor.
    run_server(_serve(options))
    PROFILE.disable()
    directory = os.environ.get("BENCH_PROFILE")
    if directory:
        PROFILE.dump_stats(Path(directory) / f"{options.kind}.pstats")


if __name__ == "__main__":
    main()
