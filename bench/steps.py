"""What the runtime costs besides the work that it steers: a step of inference, many tool calls in one task. All in process."""

import gc
import time
from collections.abc import AsyncIterator, Sequence
from statistics import median
from typing import Any

from grpc.aio import Channel

from bench.load import channel_to, closed_loop, measured, message, unary
from bench.local import timed
from bench.plan import Plan, say
from bench.process import Server, scratch, servers
from bench.rows import Row, Sample, row_of
from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    MemoryStore,
    Message,
    Part,
    RunBudget,
    ScriptedLLM,
    SQLiteStore,
    Task,
    TaskState,
)
from protolink_grpc.llms.port import ModelItem, ModelRequest
from protolink_grpc.storage.port import TaskStore

STEPS = 20
"""Steps of one inference: each one question to the model and one call of a tool, but for the last, which answers."""

CALLS = (200, 400)
"""Tool calls in one task."""

GROWTH = 2.2
"""What twice the calls may cost at most."""


class TimedModel(ScriptedLLM):
    """A scripted model that knows how much CPU time it has used itself."""

    def __init__(self, steps: Sequence[Any]) -> None:
        super().__init__(steps)
        self.spent_s = 0.0

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        began = time.thread_time()
        async for item in super().generate(request):
            self.spent_s += time.thread_time() - began
            yield item
            began = time.thread_time()
        self.spent_s += time.thread_time() - began
        self.requests.clear()


class CountingStore(SQLiteStore):
    """Counts its commits. They are made in one thread, and read while it has nothing to do."""

    commits = 0

    def _transact(self, *arguments: Any) -> None:
        super()._transact(*arguments)
        self.commits += 1


def _agent(store: TaskStore, model: TimedModel | None = None) -> Agent:
    capabilities = AgentCapabilities(max_concurrency=8)
    agent = Agent(
        AgentCard("thinker", "is measured", "runtime://thinker", capabilities=capabilities), llm=model, store=store
    )

    @agent.tool
    async def note(number: int) -> int:
        return number

    return agent


# -- one step of inference ----------------------------------------------------------------------------------------------------


async def infer(plan: Plan) -> list[Row]:
    """A task whose model calls a tool in each step; the model's own time is not counted."""
    calls = [{"type": "tool_call", "tool": "note", "args": {"number": number}} for number in range(STEPS - 1)]
    rows = []
    async with scratch() as directory, servers("floor") as (floor,), channel_to(floor) as channel:
        for kind in ("memory", "sqlite"):
            say(f"infer: steps of a scripted model, {kind} store")
            model = TimedModel([*calls, {"type": "final", "content": "done"}])
            store = MemoryStore() if kind == "memory" else CountingStore(directory / "infer.db")
            async with _agent(store, model) as agent:
                row = await _steps(plan, agent, model, floor, channel)
                if isinstance(store, CountingStore):
                    before = store.commits
                    await _inferred(agent)
                    row.value = (store.commits - before) / STEPS
                    row.note = f"{row.value:.2f} commits a step"
                    row.demand("<= 2 commits", row.value, at_most=2)
                else:
                    row.demand_us(350)
                row.cpu_ratio_to_floor = None
            row.case = f"infer.{kind}"
            rows.append(row)
    return rows


async def _inferred(agent: Agent) -> None:
    task = await agent.run_task(Task.create_infer(prompt="note it", budget=RunBudget(max_steps=STEPS)))
    if task.state is not TaskState.COMPLETED:
        raise RuntimeError(f"the inference ended {task.state}: {task.metadata.get('error')}")


async def _steps(plan: Plan, agent: Agent, model: TimedModel, floor: Server, channel: Channel) -> Row:
    """In turns with the bare floor, which says how fast the machine is at the time."""
    tasks = plan.amount(25, 2)
    samples, bare = [], []
    send, request = unary(channel, "SendTask"), message("x" * 100)

    async def work() -> int:
        for _ in range(tasks):
            await _inferred(agent)
        return tasks * STEPS

    await _inferred(agent)
    for _ in range(plan.rounds):
        before = model.spent_s
        sample = await timed(work)
        sample.cpu_s = {"process": sample.cpu_s["process"] - (model.spent_s - before)}
        samples.append(sample)
        bare.append(await measured(floor, lambda: closed_loop(send, request, 16, plan.seconds / 2)))
    row = row_of("infer", "steps", samples, bare)
    row.ratio_to_floor = None  # a step is no request: only what the machine does at the time is compared
    row.in_flight = 1
    return row


# -- many tool calls in one task ----------------------------------------------------------------------------------------------


async def tools(plan: Plan) -> list[Row]:
    """Tasks with so many explicit calls: time and log must grow with their number, and no faster."""
    rows = []
    sizes: dict[int, float] = {}
    samples: dict[int, list[Sample]] = {count: [] for count in CALLS}
    async with _agent(MemoryStore()) as agent:
        say(f"tools: {CALLS[0]} and {CALLS[1]} calls in one task")
        await _called(agent, CALLS[0])
        for _ in range(plan.rounds):
            for count in CALLS:  # in turns: a machine that drifts drifts for both
                gc.collect()  # what the task before left behind is not this one's to clean up
                sample, sizes[count] = await _called(agent, count)
                samples[count].append(sample)
    for count in CALLS:
        took = 1e3 * median(sample.elapsed_s for sample in samples[count])
        row = Row(f"tools.memory.{count}", "ms for all calls", in_flight=1, value=took)
        row.server_cpu_us = median(sample.cpu_us() or 0.0 for sample in samples[count])
        row.bytes = int(sizes[count] / count)
        row.note = f"log {sizes[count] / 1024:,.0f} KiB"
        rows.append(row)
    few, many = rows
    few.demand("<= 500 ms", few.value, at_most=500)
    growth = CALLS[1] / CALLS[0] * (many.server_cpu_us or 0.0) / (few.server_cpu_us or 1.0)
    size = sizes[CALLS[1]] / sizes[CALLS[0]]
    many.note += f"; {growth:.2f} of the CPU and {size:.2f} of the log of {CALLS[0]}"
    many.demand(f"<= {GROWTH} of the CPU of {CALLS[0]}", growth, at_most=GROWTH)
    many.demand(f"<= {GROWTH} of its log", size, at_most=GROWTH)
    return rows


async def _called(agent: Agent, count: int) -> tuple[Sample, float]:
    """One task; its time, and the bytes of its log."""
    parts = [Part.tool_call("note", {"number": number}) for number in range(count)]
    task = Task.create(Message(role="user", parts=parts))

    async def work() -> int:
        done = await agent.run_task(task)
        if len(done.artifacts) != count:
            raise RuntimeError(f"{len(done.artifacts)} of {count} calls have a result")
        return count

    sample = await timed(work)
    return sample, await _log_bytes(agent.store, task.id)


async def _log_bytes(store: TaskStore, task_id: str) -> float:
    size, after = 0, 0
    while frames := await store.read(task_id, after, 1024):
        size += sum(map(len, frames))
        after += len(frames)
    return float(size)
