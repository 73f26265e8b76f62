"""The measured processes: `python -m bench.servers KIND --core N`. Each runs one system and takes commands on stdin.

A process ends when its stdin is closed, so that it cannot outlive the benchmark. If BENCH_PROFILE is set to a directory, the
command `profile` starts the profiler of the event loop's thread. The end of the process writes its result to `KIND.pstats` in that
directory.
"""

import argparse
import cProfile
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import grpc.aio

from bench.agents import ANY_HTTP_PORT, ChainAgent, EchoAgent, LogAgent, SlowAgent, adder, floor_handler
from bench.commands import USAGE, Commands, answer_commands
from protolink_grpc import MemoryStore, Registry, SQLiteStore
from protolink_grpc.net.event_loops import run_server
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.telemetry import OpenTelemetryTelemetry

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


@asynccontextmanager
async def _bare_adder(options: Options) -> AsyncIterator[Urls]:
    from bench.adder_service import AdderServicer, pb_grpc  # as in `adder`

    server = grpc.aio.server()
    pb_grpc.add_AdderServicer_to_server(AdderServicer(), server)
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
async def _traced(options: Options) -> AsyncIterator[Urls]:
    from opentelemetry.sdk.trace import SpanProcessor  # here, so that the other processes do not load the SDK

    # A processor that does nothing: the cost of the telemetry without that of an exporter.
    async with EchoAgent(_store(options), telemetry=OpenTelemetryTelemetry(SpanProcessor())) as agent:
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


@asynccontextmanager
async def _slow(options: Options) -> AsyncIterator[Urls]:
    async with SlowAgent(_store(options)) as agent:
        yield [agent.card.url]


KINDS: dict[str, Callable[[Options], AbstractAsyncContextManager[Urls]]] = {
    "floor": _floor,
    "bare-adder": _bare_adder,
    "echo-memory": _echo,
    "echo-sqlite": _echo,
    "traced-memory": _traced,
    "slow-memory": _slow,
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


# CPU time of the thread: with the wall clock, a function that is preempted on a busy machine would look expensive.
PROFILE = cProfile.Profile(time.thread_time_ns, 1e-9)


def begin_profile() -> dict[str, float]:
    """Profile the event loop's thread until the process ends."""
    PROFILE.enable()
    return {}


def chain() -> dict[str, float]:
    """Return the counters of the last agent of a chain."""
    return {"begun": ChainAgent.begun, "interrupted_at": ChainAgent.interrupted_at}


COMMANDS: Commands = {**USAGE, "profile": begin_profile, "chain": chain}


async def _serve(options: Options) -> None:
    async with KINDS[options.kind](options) as urls:
        await answer_commands(urls, COMMANDS)


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
