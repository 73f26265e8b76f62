"""Budgets across processes: the usage of delegated work counts for its parent, and all children share the parent's budget."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from delegation_world import PATIENCE_S, Handled, answered, ask, call, gathered, log_of, thinking

from protolink_grpc import (
    Agent,
    AgentClient,
    BudgetExceededError,
    Cost,
    Message,
    ProtolinkError,
    Registry,
    RunBudget,
    RunContext,
    Task,
    TaskState,
    current_run,
)
from protolink_grpc.llms.mock import ScriptedLLM
from protolink_grpc.llms.port import ModelItem, ModelRequest, ModelResponse, ModelUsage
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.events import ActionEnded, BudgetReported, TaskStatusChanged

DONE = {"type": "final", "content": "done"}
NOTE = {"type": "tool_call", "tool": "note", "args": {}}


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry() as registry:
        yield registry


def worker(registry: Registry, name: str = "worker", *steps: Any, **wishes: Any) -> Agent:
    """Thinks, notes, thinks, notes, and answers: three calls of its model and two of its tool, both counted."""
    agent = thinking(name, registry, *(steps or (NOTE, NOTE, DONE)), **wishes)
    agent.notes = 0  # type: ignore[attr-defined]  # what its tool did

    @agent.tool
    async def note() -> int:
        agent.notes += 1  # type: ignore[attr-defined]  # as above
        return int(agent.notes)  # type: ignore[attr-defined]  # as above

    return agent


def llm_calls(agent: Agent) -> int:
    return len(agent.llm.requests)  # type: ignore[union-attr]  # a ScriptedLLM


async def usage_of(agent: Agent, task_id: str) -> BudgetUsage:
    """What the log says at its end."""
    last = (await log_of(agent, task_id))[-1].payload
    assert isinstance(last, TaskStatusChanged)
    assert last.usage is not None
    return last.usage


async def sent(agent: Agent, budget: RunBudget, text: str = "go") -> Task:
    async with asyncio.timeout(PATIENCE_S):
        return await AgentClient(url=agent.card.url).send_task(None, Task.create(text, budget=budget))


Way = Callable[[Agent], Awaitable[Any]]


async def _unary(agent: Agent) -> Any:
    return await agent.peer("worker").run_task(Task.create_infer(prompt="work"))


async def _streamed(agent: Agent) -> Any:
    return [event async for event in agent.peer("worker").run_task_streaming(Task.create_infer(prompt="work"))]


async def _said(agent: Agent) -> Any:
    return await agent.peer("worker").send_message("work")


WAYS = pytest.mark.parametrize("way", [_unary, _streamed, _said])


@WAYS
async def test_ten_children_at_once_use_no_more_model_calls_than_their_parent_may(registry: Registry, way: Way) -> None:
    async def fan_out(agent: Handled, task: Task) -> Task:
        await gathered([way(agent) for _ in range(10)])
        return task.complete("done")

    async with worker(registry) as child, Handled("boss", fan_out, registry) as boss:
        done = await sent(boss, RunBudget(max_llm_calls=11))
        # Three children and two thirds of a fourth: it is used up, and not exceeded.
        assert llm_calls(child) == 11
        assert (await usage_of(boss, done.id)).llm_calls == 11


@WAYS
async def test_ten_children_at_once_use_no_more_tool_calls_than_their_parent_may(registry: Registry, way: Way) -> None:
    async def fan_out(agent: Handled, task: Task) -> Task:
        await gathered([way(agent) for _ in range(10)])
        return task.complete("done")

    async with worker(registry) as child, Handled("boss", fan_out, registry) as boss:
        done = await sent(boss, RunBudget(max_tool_calls=7))
        assert child.notes == 7  # type: ignore[attr-defined]  # see `worker`
        assert (await usage_of(boss, done.id)).tool_calls == 7


async def test_children_with_shares_of_their_own_run_side_by_side_within_the_limit(registry: Registry) -> None:
    async def fan_out(agent: Handled, task: Task) -> Task:
        share = RunBudget(max_llm_calls=3)
        children = [Task.create_infer(prompt="work", budget=share) for _ in range(10)]
        answers = await gathered([agent.peer("worker").run_task(child) for child in children])
        return task.complete(str(sum(getattr(each, "state", None) is TaskState.COMPLETED for each in answers)))

    async with worker(registry) as child, Handled("boss", fan_out, registry) as boss:
        done = await sent(boss, RunBudget(max_llm_calls=9))
        assert done.messages[-1].text == "3"
        assert llm_calls(child) <= 9


async def test_children_one_after_the_other_use_no_more_than_the_loop_that_sends_them_may(registry: Registry) -> None:
    steps = [ask("worker")] * 10
    async with worker(registry) as child, thinking("boss", registry, *steps) as boss:
        done = await answered(boss, budget=RunBudget(max_llm_calls=10, max_steps=100))
        assert done.state is TaskState.FAILED
        assert llm_calls(boss) + llm_calls(child) == 10
        assert (await usage_of(boss, done.id)).llm_calls == 10
        exceeded = [e.payload for e in await log_of(boss, done.id) if e.type == "budget.exceeded"]
        assert [each.decision.limit_name for each in exceeded if isinstance(each, BudgetReported)] == ["max_llm_calls"]


async def test_the_usage_of_a_parent_includes_its_childrens(registry: Registry) -> None:
    steps = (NOTE, ask("worker"), call("worker", "note"), DONE)
    async with worker(registry) as child, worker(registry, "boss", *steps) as boss:
        done = await answered(boss)
        usage = await usage_of(boss, done.id)
        assert (usage.steps, usage.llm_calls, usage.tool_calls) == (4 + 3, 4 + 3, 1 + 2 + 1)
        assert llm_calls(child) == 3
        ended = [e.payload.usage for e in await log_of(boss, done.id) if isinstance(e.payload, ActionEnded)]
        assert [None if each is None else (each.llm_calls, each.tool_calls) for each in ended] == [None, (3, 2), (0, 1)]
        assert usage.output_tokens == await tokens_of(boss) + await tokens_of(child) > 0


class Priced(ScriptedLLM):
    """Each of its calls has 1,000 tokens in and 100 out, and costs a tenth of a dollar."""

    def __init__(self, steps: Any, native_tools: bool = True) -> None:
        super().__init__(steps, native_tools)
        self.profile = LLMModelProfile(input_cost_per_million=90.0, output_cost_per_million=100.0)

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        async for item in super().generate(request):
            yield replace(item, usage=ModelUsage(1000, 100, {}, 800, 50)) if isinstance(item, ModelResponse) else item


def priced(name: str, registry: Registry, *steps: Any) -> Agent:
    return worker(registry, name, *steps, model=Priced)


async def test_what_children_cost_is_in_the_usage_of_their_parent_and_counts_against_its_limit(
    registry: Registry,
) -> None:
    steps = [ask("worker")] * 10
    async with priced("worker", registry) as child, priced("boss", registry, *steps) as boss:
        done = await answered(boss, budget=RunBudget(max_cost_usd=1.0, max_steps=100))
        assert done.state is TaskState.FAILED
        assert llm_calls(boss) + llm_calls(child) == 10
        usage = await usage_of(boss, done.id)
        assert usage.costs == (Cost.of(1.0, "USD"),)
        assert (usage.cached_input_tokens, usage.reasoning_tokens) == (8000, 500)
        reports = [e.payload for e in await log_of(boss, done.id) if isinstance(e.payload, BudgetReported)]
        effects = [(each.decision.limit_name, str(each.decision.effect)) for each in reports]
        assert effects == [("max_cost", "warn"), ("max_cost", "deny")]
        assert "max_cost" in done.metadata["error"]


async def tokens_of(agent: Agent) -> int:
    client = AgentClient(url=agent.card.url)
    ids = [each.id for each in (await client.list_tasks()).tasks]
    logs = [await log_of(agent, each) for each in ids]
    return sum(getattr(event.payload, "output_tokens", None) or 0 for log in logs for event in log)


async def test_a_grandchild_is_paid_for_by_all_above_it(registry: Registry) -> None:
    deputy = [ask("worker")] * 5
    async with (
        worker(registry) as leaf,
        thinking("deputy", registry, *deputy, DONE) as middle,
        thinking("boss", registry, ask("deputy"), ask("deputy"), DONE) as top,
    ):
        done = await answered(top, budget=RunBudget(max_llm_calls=12, max_steps=100))
        total = llm_calls(leaf) + llm_calls(middle) + llm_calls(top)
        assert done.state is TaskState.FAILED
        assert total == (await usage_of(top, done.id)).llm_calls == 12


async def test_a_child_that_fails_has_used_what_it_has_used(registry: Registry) -> None:
    steps = (NOTE, NOTE, ValueError("the model broke"))
    async with worker(registry, "worker", *steps), thinking("boss", registry, ask("worker"), DONE) as boss:
        done = await answered(boss, budget=RunBudget(max_llm_calls=10, max_tool_calls=10))
        assert done.state is TaskState.COMPLETED
        usage = await usage_of(boss, done.id)
        assert (usage.llm_calls, usage.tool_calls) == (2 + 3, 2)
        # So that a run that takes over knows it, too.
        (ended,) = [e.payload for e in await log_of(boss, done.id) if isinstance(e.payload, ActionEnded)]
        assert ended.error is not None
        assert ended.usage is not None
        assert (ended.usage.llm_calls, ended.usage.tool_calls) == (3, 2)


async def test_a_child_that_was_never_begun_has_used_nothing(registry: Registry) -> None:
    async def try_all(agent: Handled, task: Task) -> Task:
        for target in ("nobody", "grpc://127.0.0.1:1"):
            with pytest.raises(ProtolinkError):
                await agent.peer(target).send_message("work")
        return task.complete(str(spent()))

    async with Handled("boss", try_all, registry) as boss:
        assert (await sent(boss, RunBudget(max_llm_calls=5, max_tool_calls=5))).messages[-1].text == "0 0"


def spent() -> str:
    run = current_run()
    assert run is not None
    return f"{run.budget.usage.llm_calls} {run.budget.usage.tool_calls}"


async def test_a_child_whose_run_was_lost_counts_as_its_whole_share(registry: Registry) -> None:
    begun = asyncio.Event()

    async def hang(agent: Handled, task: Task) -> Task:
        begun.set()
        await asyncio.Event().wait()
        return task

    async def try_it(agent: Handled, task: Task) -> Task:
        share = RunContext(budget=RunBudget(max_llm_calls=4, max_tool_calls=3))
        answer = await agent.peer("worker").run_task(Task.create("work", context=share))
        return task.complete(f"{answer.metadata['error'][:8]} {spent()}")

    async with Handled("boss", try_it, registry) as boss:
        async with Handled("worker", hang, registry) as child:
            sending = asyncio.ensure_future(sent(boss, RunBudget(max_llm_calls=10, max_tool_calls=10)))
            await begun.wait()
            await child.aclose()
        assert (await sending).messages[-1].text == "run lost 4 3"


HANGS = """
    import asyncio
    from protolink_grpc import Agent, AgentCard

    class Hangs(Agent):
        async def handle_task(self, task):
            print("begun", flush=True)
            await asyncio.Event().wait()

    async def main():
        agent = Hangs(AgentCard(name="worker", description="d", url="grpc://127.0.0.1:0"))
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_a_child_whose_process_died_counts_as_its_whole_share(
    registry: Registry, launch: Callable[..., Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where it waits for the end of a task, and what its clients are made with.
    for module in ("peer_tasks", "lifecycle"):
        monkeypatch.setattr(f"protolink_grpc.agent.{module}.OUTAGE_S", 0.2)
    child = await launch(HANGS)
    url = await child.line()

    async def try_it(agent: Handled, task: Task) -> Task:
        share = RunContext(budget=RunBudget(max_llm_calls=4, max_tool_calls=3))
        await gathered([agent.call_agent(url, Task.create("work", context=share))])
        return task.complete(spent())

    async with Handled("boss", try_it, registry) as boss:
        sending = asyncio.ensure_future(sent(boss, RunBudget(max_llm_calls=10, max_tool_calls=10)))
        assert await child.line() == "begun"
        await child.kill()
        assert (await sending).messages[-1].text == "4 3"


async def test_what_a_child_used_before_its_question_is_counted_once(registry: Registry) -> None:
    async def twice(agent: Handled, task: Task) -> Task:
        await agent.call_tool("note")
        if len(task.messages) == 1:
            return task.require_input(Message.agent("again?"))
        return task.complete("done")

    async def forward(agent: Handled, task: Task) -> Task:
        peer = agent.peer("worker")
        asked = await peer.run_task(Task.create("work"))
        asked.add_message(Message.user("yes"))
        await peer.run_task(asked)
        return task.complete(spent())

    async with Handled("worker", twice, registry) as child, Handled("boss", forward, registry) as boss:

        @child.tool
        async def note() -> str:
            return "noted"

        assert (await sent(boss, RunBudget(max_tool_calls=10))).messages[-1].text == "0 2"


async def test_children_of_a_parent_without_limits_do_not_wait_for_each_other(registry: Registry) -> None:
    there = asyncio.Barrier(10)

    async def meet(agent: Handled, task: Task) -> Task:
        await there.wait()
        return task.complete("met")

    async def fan_out(agent: Handled, task: Task) -> Task:
        await asyncio.gather(*(agent.peer("worker").send_message("meet") for _ in range(10)))
        return task.complete("done")

    async with Handled("worker", meet, registry), Handled("boss", fan_out, registry) as boss:
        assert (await sent(boss, RunBudget())).state is TaskState.COMPLETED


async def test_steps_that_nobody_limited_are_each_agents_own(registry: Registry) -> None:
    steps = [*(ask("worker", f"part {number}") for number in range(6)), DONE]
    async with worker(registry), thinking("boss", registry, *steps) as boss:
        done = await answered(boss)
        assert done.state is TaskState.COMPLETED
        assert (await usage_of(boss, done.id)).steps == 7 + 6 * 3


async def test_an_inference_that_nobody_limited_ends_after_ten_steps_all_the_same(registry: Registry) -> None:
    async with worker(registry, "worker", *[NOTE] * 20) as child:
        done = await answered(child)
        assert done.state is TaskState.FAILED
        assert llm_calls(child) == 10
        kinds = [e.type for e in await log_of(child, done.id) if e.type.startswith("budget.")]
        assert kinds == ["budget.warning", "budget.exceeded"]


async def test_the_wait_for_a_share_ends_with_the_time_of_the_run(registry: Registry) -> None:
    begun = asyncio.Event()

    async def hang(agent: Handled, task: Task) -> Task:
        begun.set()
        await asyncio.Event().wait()
        return task

    async def two(agent: Handled, task: Task) -> Task:
        peer = agent.peer("worker")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(peer.run_task(Task.create("first")))
            await begun.wait()
            with pytest.raises(BudgetExceededError) as error:
                await peer.run_task(Task.create("second"))
            first.cancel()
        return task.complete(error.value.metadata["limit_name"])

    async with Handled("worker", hang, registry) as child, Handled("boss", two, registry) as boss:
        done = await sent(boss, RunBudget(max_llm_calls=5, max_runtime_seconds=1.0))
        assert done.messages[-1].text == "max_runtime_seconds"
        assert len(child.contexts) == 1
