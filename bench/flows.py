"""The cost of flows: a step compared with a call in process, and many remote branches compared with the slowest of them."""

import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from bench.agents import SLOW_S
from bench.local import timed
from bench.plan import Plan, print_progress
from bench.process import servers
from bench.rows import Row, Sample, row_of
from protolink_grpc import Agent, AgentClient, MemoryStore, Message, Task, TaskState
from protolink_grpc.flows import Parallel, Pipeline

STEPS = 5
"""Steps of the longer flow: the cost of a step is the difference to a flow of one step."""

BRANCHES = 100


class Echo(Agent):
    """Answers with the first text."""

    async def handle_task(self, task: Task) -> Task:
        return task.complete(task.messages[0].text)


async def answer(task: Task) -> None:
    task.add_message(Message.agent(task.messages[0].text))


async def flows(plan: Plan) -> list[Row]:
    """Measure a step of a flow, with a function and with an agent, and a Parallel of remote branches."""
    rows = []
    async with Echo("echo", url="runtime://echo", store=MemoryStore()) as echo:
        for kind, target in (("function", answer), ("agent", echo)):
            print_progress(f"flow: a step with a {kind}")
            rows.append(await _step(plan, kind, target))
    print_progress(f"flow: {BRANCHES} remote branches")
    return [*rows, await _branches(plan)]


async def _step(plan: Plan, kind: str, target: Any) -> Row:
    """Measure a step in turns with the same call over `runtime://`, by CPU time."""
    count = plan.amount(200, 5)
    client = AgentClient("runtime")
    short, long = (Agent(f"{kind}-{length}", flow=Pipeline([target] * length)) for length in (1, STEPS))

    async def call() -> None:
        await client.send_task("runtime://echo", Task.create("x" * 100))

    async def run(agent: Agent) -> None:
        done = await agent.run_task(Task.create("x" * 100))
        if done.state is not TaskState.COMPLETED:
            raise RuntimeError(f"the flow ended {done.state}: {done.reason}")

    await _repeat(lambda: run(short), 5)
    await _repeat(lambda: run(long), 5)
    samples: list[Sample] = []
    ratios: list[float] = []
    for _ in range(plan.rounds):
        plain = await timed(lambda: _repeat(call, count))
        one = await timed(lambda: _repeat(lambda: run(short), count))
        many = await timed(lambda: _repeat(lambda: run(long), count))
        steps = (STEPS - 1) * count
        spent = {"process": max(0.0, many.cpu_s["process"] - one.cpu_s["process"])}
        samples.append(Sample(steps, max(1e-9, many.elapsed_s - one.elapsed_s), cpu_s=spent))
        ratios.append(spent["process"] / steps / (plain.cpu_s["process"] / count))
    await short.aclose()
    await long.aclose()
    row = row_of(f"flow.step.{kind}", "steps", samples)
    row.in_flight, row.bytes, row.value = 1, 100, median(ratios)
    row.note = f"{row.value:.2f} of a call over runtime://"
    if kind == "function":
        row.add_bar("<= 1.3 of a runtime:// call", row.value, at_most=1.3)
    return row


async def _repeat(work: Callable[[], Awaitable[None]], count: int) -> int:
    for _ in range(count):
        await work()
    return count


async def _branches(plan: Plan) -> Row:
    """Measure the time from the start of a Parallel to its end, in milliseconds."""
    waited: list[float] = []
    async with servers("slow-memory") as (slow,):
        agent = Agent("wide", flow=Parallel([f"grpc://{slow.target}"] * BRANCHES))
        for _ in range(plan.rounds + 1):
            began = time.perf_counter()
            done = await agent.run_task(Task.create("x" * 100))
            waited.append(1e3 * (time.perf_counter() - began))
            if done.state is not TaskState.COMPLETED:
                raise RuntimeError(f"the flow ended {done.state}: {done.reason}")
        await agent.aclose()
    limit_ms = 1.5e3 * SLOW_S + 20
    row = Row(f"flow.parallel.{BRANCHES}", "ms", in_flight=BRANCHES, bytes=100, value=median(waited[1:]))
    row.note = f"{row.value:.0f} ms, of which the branches work {1e3 * SLOW_S:.0f} ms"
    return row.add_bar("<= 1.5 of the slowest branch + 20 ms", row.value, at_most=limit_ms)
