"""The overhead of the runtime, in process: for a step of inference, and for many tool calls in one task."""

import gc
import time
from collections.abc import AsyncIterator, Sequence
from statistics import median
from typing import Any

from grpc.aio import Channel

from bench.load import channel_to, closed_loop, measure_load, message, unary
from bench.local import timed
from bench.plan import Plan, print_progress
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
"""Steps of one inference: each is one model call and one tool call, except the last one, which is the answer."""

CALLS = (200, 400)
"""Tool calls in one task."""

GROWTH = 2.2
"""Maximum cost of twice the calls, as a factor."""


class TimedModel(ScriptedLLM):
    """A scripted model that measures its own CPU time."""

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
    """Measure tasks whose model calls a tool in each step. The time of the model itself is subtracted."""
    calls = [{"type": "tool_call", "tool": "note", "args": {"number": number}} for number in range(STEPS - 1)]
    rows = []
    async with scratch() as directory, servers("floor") as (floor,), channel_to(floor) as channel:
        for kind in ("memory", "sqlite"):
            print_progress(f"infer: steps of a scripted model, {kind} store")
            model = TimedModel([*calls, {"type": "final", "content": "done"}])
            store: TaskStore = MemoryStore() if kind == "memory" else SQLiteStore(directory / "infer.db")
            async with _agent(store, model) as agent:
                row = await _steps(plan, agent, model, floor, channel)
                if isinstance(store, SQLiteStore):
                    before = store.commits.count
                    await _infer_once(agent)
                    row.value = (store.commits.count - before) / STEPS
                    row.note = f"{row.value:.2f} commits a step"
                    row.add_bar("<= 2 commits", row.value, at_most=2)
                else:
                    row.add_bar_us(350)
                row.cpu_ratio_to_floor = None
            row.case = f"infer.{kind}"
            rows.append(row)
    return rows


async def _infer_once(agent: Agent) -> None:
    task = await agent.run_task(Task.create_infer(prompt="note it", budget=RunBudget(max_steps=STEPS)))
    if task.state is not TaskState.COMPLETED:
        raise RuntimeError(f"the inference ended {task.state}: {task.metadata.get('error')}")


async def _steps(plan: Plan, agent: Agent, model: TimedModel, floor: Server, channel: Channel) -> Row:
    """Measure inferences, in turns with the floor as a measure of the machine's current speed."""
    tasks = plan.amount(25, 2)
    samples, bare = [], []
    send, request = unary(channel, "SendTask"), message("x" * 100)

    async def work() -> int:
        for _ in range(tasks):
            await _infer_once(agent)
        return tasks * STEPS

    await _infer_once(agent)
    for _ in range(plan.rounds):
        before = model.spent_s
        sample = await timed(work)
        sample.cpu_s = {"process": sample.cpu_s["process"] - (model.spent_s - before)}
        samples.append(sample)
        bare.append(await measure_load(floor, lambda: closed_loop(send, request, 16, plan.seconds / 2)))
    row = row_of("infer", "steps", samples, bare)
    row.ratio_to_floor = None  # a step is not a request: the floor is only a measure of the machine's speed
    row.in_flight = 1
    return row


# -- many tool calls in one task ----------------------------------------------------------------------------------------------


async def tools(plan: Plan) -> list[Row]:
    """Measure tasks with many tool calls: CPU time and log size must grow linearly with their number."""
    rows = []
    sizes: dict[int, float] = {}
    samples: dict[int, list[Sample]] = {count: [] for count in CALLS}
    async with _agent(MemoryStore()) as agent:
        print_progress(f"tools: {CALLS[0]} and {CALLS[1]} calls in one task")
        await _call_tools(agent, CALLS[0])
        for _ in range(plan.rounds):
            for count in CALLS:  # in turns, so that a change of the machine's speed affects both
                gc.collect()  # the garbage of the previous task must not be collected during the measurement
                sample, sizes[count] = await _call_tools(agent, count)
                samples[count].append(sample)
    for count in CALLS:
        elapsed_ms = 1e3 * median(sample.elapsed_s for sample in samples[count])
        row = Row(f"tools.memory.{count}", "ms for all calls", in_flight=1, value=elapsed_ms)
        row.server_cpu_us = median(sample.cpu_us() or 0.0 for sample in samples[count])
        row.bytes = int(sizes[count] / count)
        row.note = f"log {sizes[count] / 1024:,.0f} KiB"
        rows.append(row)
    few, many = rows
    few.add_bar("<= 500 ms", few.value, at_most=500)
    growth = CALLS[1] / CALLS[0] * (many.server_cpu_us or 0.0) / (few.server_cpu_us or 1.0)
    size = sizes[CALLS[1]] / sizes[CALLS[0]]
    many.note += f"; {growth:.2f} of the CPU and {size:.2f} of the log of {CALLS[0]}"
    many.add_bar(f"<= {GROWTH} of the CPU of {CALLS[0]}", growth, at_most=GROWTH)
    many.add_bar(f"<= {GROWTH} of its log", size, at_most=GROWTH)
    return rows


async def _call_tools(agent: Agent, count: int) -> tuple[Sample, float]:
    """Run one task. Return its sample, and the bytes of its log."""
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
