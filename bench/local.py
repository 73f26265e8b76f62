"""Measurements without a network: an agent called in process, the SQLite store, and the directory of the registry."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from bench.agents import EchoAgent
from bench.load import channel_to, closed_loop, measure_load, message, unary
from bench.plan import Plan, print_progress
from bench.process import scratch, servers
from bench.rows import Row, Sample, row_of
from protolink_grpc import AgentCard, AgentClient, AgentFilter, MemoryStore, SQLiteStore, Task, TaskState
from protolink_grpc.models.ids import new_task_id
from protolink_grpc.registry import RegistryService
from protolink_grpc.storage.port import Append, TaskHead

EVENT_BYTES = 200
"""Size of an event in the store cases: about that of a status change or of progress."""

WAITING = (1, 16, 128)
AGENTS = (100, 10_000)
MATCHING = 20


async def timed(work: Callable[[], Awaitable[int]]) -> Sample:
    """Run work in this process and measure its CPU time."""
    start, spent = time.perf_counter(), time.process_time()
    done = await work()
    elapsed, spent = time.perf_counter() - start, time.process_time() - spent
    return Sample(done, elapsed, cpu_s={"process": spent})


# -- runtime:// ----------------------------------------------------------------------------------------------------------------


async def runtime(plan: Plan) -> list[Row]:
    """Measure calls within one process. The floor takes turns with them, as a measure of the machine's current speed."""
    print_progress("runtime: calls in process")
    count = plan.amount(5_000)
    client = AgentClient("runtime")
    ours, floor = [], []
    async with (
        EchoAgent(MemoryStore(), "runtime://echo") as agent,
        servers("floor") as (server,),
        channel_to(server) as channel,
    ):
        bare, request = unary(channel, "SendTask"), message("x" * 100)

        async def calls() -> int:
            for _ in range(count):
                await client.send_task(agent.card.url, Task.create("x" * 100))
            return count

        await calls()
        await closed_loop(bare, request, 16, min(0.3, plan.seconds))
        for _ in range(plan.rounds):
            ours.append(await timed(calls))
            floor.append(await measure_load(server, lambda: closed_loop(bare, request, 16, plan.seconds / 2)))
    row = row_of("runtime.memory", "requests", ours, floor)
    row.in_flight, row.bytes = 1, 100
    return [row.add_bar_us(80)]


# -- the store ------------------------------------------------------------------------------------------------------------------


async def store(plan: Plan) -> list[Row]:
    """Measure appends of one event each through the store's interface, compared with bare SQLite and the same commits."""
    rows = []
    for waiting in WAITING:
        print_progress(f"store: {waiting} appends waiting")
        bare, ours = [], []
        async with scratch() as directory:
            for number in range(plan.rounds):
                bare.append(await asyncio.to_thread(_bare, directory / f"bare-{number}.db", waiting, plan.seconds / 2))
                ours.append(await _appends(directory / f"ours-{number}.db", waiting, plan.seconds / 2))
        for case, samples in (("store.floor", bare), ("store.sqlite", ours)):
            row = row_of(case, "events", samples, bare)
            row.in_flight, row.bytes = waiting, EVENT_BYTES
            if case == "store.sqlite":
                row.add_bar(">= 0.5 of bare SQLite", row.ratio_to_floor, at_least=0.5)
            rows.append(row)
    return rows


def _bare(path: Path, waiting: int, seconds: float) -> Sample:
    """Commit `waiting` rows at a time in one thread, each into another log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(
            "CREATE TABLE events(task_id TEXT, sequence INTEGER, frame BLOB, PRIMARY KEY(task_id, sequence)) WITHOUT ROWID"
        )
        task_ids, frame = [new_task_id() for _ in range(waiting)], b"x" * EVENT_BYTES
        done = 0
        start, spent = time.perf_counter(), time.process_time()
        while time.perf_counter() - start < seconds:
            done += 1
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO events VALUES (?, ?, ?)", [(task_id, done, frame) for task_id in task_ids])
            db.execute("COMMIT")
        elapsed, spent = time.perf_counter() - start, time.process_time() - spent
    return Sample(done * waiting, elapsed, cpu_s={"process": spent})


async def _appends(path: Path, waiting: int, seconds: float) -> Sample:
    """Append with `waiting` concurrent writers, each to another log."""
    own = SQLiteStore(path)
    await own.open()

    async def load() -> int:
        deadline = time.perf_counter() + seconds
        counts = await asyncio.gather(*(_writer(own, deadline) for _ in range(waiting)))
        return sum(counts)

    try:
        return await timed(load)
    finally:
        await own.close()


async def _writer(own: SQLiteStore, deadline: float) -> int:
    task_id, frame, done = new_task_id(), b"x" * EVENT_BYTES, 0
    while time.perf_counter() < deadline:
        head = TaskHead(task_id, "bench", "bench", task_id, TaskState.WORKING, done + 1, "run", 1, done + 1)
        await own.append(Append(head, [frame], done, 0))
        done += 1
    return done


# -- the directory of the registry ------------------------------------------------------------------------------------------------


async def directory(plan: Plan) -> list[Row]:
    """Measure lists by a tag of 20 agents, among 100 and among 10,000 agents."""
    rows: list[Row] = []
    wanted = AgentFilter(tags=("rare",))
    for agents in AGENTS:
        print_progress(f"registry: a list among {agents} agents, in process")
        async with RegistryService() as service:
            for number in range(agents):
                await service.register(agent_card(number, agents), lease_ttl_s=300.0)
            samples = [await _lists(service, wanted, plan.amount(500, 100)) for _ in range(plan.rounds)]
        row = row_of(f"registry.list.process.{agents}", "lists", samples)
        row.in_flight = 1
        rows.append(row.add_bar("p50 <= 2 ms", row.p50_ms, at_most=2.0))
    few, many = rows
    growth = (many.server_cpu_us or 0.0) / (few.server_cpu_us or 1.0)
    many.note = f"{growth:.2f} of the cost among {AGENTS[0]}"
    many.add_bar(f"<= 1.2 of the cost among {AGENTS[0]}", growth, at_most=1.2)
    return rows


async def _lists(service: RegistryService, wanted: AgentFilter, count: int) -> Sample:
    latencies = []

    async def calls() -> int:
        for _ in range(count):
            before = time.perf_counter()
            page = await service.list(wanted)
            latencies.append(time.perf_counter() - before)
            if len(page.agents) != MATCHING:
                raise RuntimeError(f"found {len(page.agents)} agents instead of {MATCHING}")
        return count

    sample = await timed(calls)
    sample.latencies_s = latencies
    return sample


def agent_card(number: int, agents: int) -> AgentCard:
    """Return card `number` of `agents` cards, of which `MATCHING` have the tag `rare`, evenly distributed."""
    tags = ["agent", f"group-{number % 100}"]
    if number % (agents // MATCHING) == 0:
        tags.append("rare")
    return AgentCard(
        name=f"agent-{number}",
        description="one of many",
        url=f"grpc://10.0.{number >> 8}.{number & 255}:50051",
        tags=tags,
    )
