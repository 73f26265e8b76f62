"""Flows whose steps are agents behind real sockets: every scheme, names, branches, stops and budgets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from protolink_grpc import (
    Agent,
    AgentClient,
    Artifact,
    Message,
    Part,
    Registry,
    RunBudget,
    SQLiteStore,
    Task,
    TaskState,
)
from protolink_grpc.flows import Parallel, Pipeline, ToolStep

PATIENCE_S = 30.0


class Clerk(Agent):
    """Answers a text, asks for a name if the text is "who", and hangs if it is "hang"."""

    def __init__(self, registry: Registry | None = None) -> None:
        super().__init__("clerk", url="grpc://127.0.0.1:0", http=0, registry=registry)
        self.begun, self.canceled = asyncio.Event(), asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        text = task.messages[-1].text
        if text == "who":
            return task.require_input("your name?")
        if text == "hang":
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.canceled.set()
        return task.complete(f"hello {text}")


@asynccontextmanager
async def clerk() -> AsyncIterator[Clerk]:
    async with Clerk() as agent:
        yield agent


def url_of(agent: Agent, scheme: str) -> str:
    return agent.card.url if scheme == "grpc" else agent.http_url.replace("http", scheme, 1)


@pytest.mark.parametrize("scheme", ["grpc", "http", "ws"])
async def test_a_step_may_be_an_agent_behind_any_scheme(scheme: str) -> None:
    async with clerk() as agent:
        flow = Pipeline([url_of(agent, scheme), url_of(agent, scheme)])
        async with asyncio.timeout(PATIENCE_S):
            done = await flow.execute(Task.create("ann"))
        assert (done.state, done.reason) == (TaskState.COMPLETED, "")
        assert [message.text for message in done.messages[1:]] == ["hello ann", "hello hello ann"]
        await flow.aclose()


@pytest.mark.parametrize("scheme", ["grpc", "http", "ws"])
async def test_an_answer_continues_the_task_of_the_step_that_asked(scheme: str) -> None:
    async with clerk() as agent:
        flow = Pipeline([url_of(agent, scheme)])
        async with asyncio.timeout(PATIENCE_S):
            waiting = await flow.execute(Task.create("who"))
            assert (waiting.state, waiting.messages[-1].text) == (TaskState.INPUT_REQUIRED, "your name?")
            done = await flow.execute(waiting.add_message(Message.user("ann")))
        assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "hello ann")
        assert len(done.messages) == 4
        if scheme == "grpc":
            assert (await AgentClient(url=agent.card.url).list_tasks(include_total=True)).total_size == 1
        await flow.aclose()


async def test_a_step_may_be_a_name_in_the_registry_of_the_flow_or_of_the_agent() -> None:
    async with Registry() as registry, Clerk(registry=registry):
        inner = Pipeline(["clerk"])
        flow = Pipeline([inner], registry=registry)
        assert (await flow.execute(Task.create("ann"))).messages[-1].text == "hello ann"
        async with Agent("front", flow=inner, registry=registry, url="grpc://127.0.0.1:0") as front:
            done = await AgentClient().send_task(front.card.url, Task.create("bob"))
        assert done.messages[-1].text == "hello bob"
        await flow.aclose()
    missing = await Pipeline(["nobody"]).execute(Task.create("ann"))
    assert missing.state is TaskState.FAILED
    assert "'nobody' is a name and this agent has no registry" in missing.reason


async def test_cancel_of_a_flow_reaches_a_remote_branch() -> None:
    async with clerk() as agent:
        flow = Parallel([agent.card.url, agent.http_url])
        front = Agent("front", url="runtime://front", flow=flow)
        task = Task.create("hang")
        running = asyncio.ensure_future(front.run_task(task))
        async with asyncio.timeout(PATIENCE_S):
            await agent.begun.wait()
            await front.cancel_task(task.id)
            assert (await running).state is TaskState.CANCELED
            await agent.canceled.wait()
        await front.aclose()


async def test_cancel_of_a_waiting_flow_cancels_the_task_that_waits_at_the_peer() -> None:
    async with clerk() as agent:
        front, client = Agent("front", url="runtime://front", flow=Pipeline([agent.card.url])), AgentClient()
        waiting = await front.run_task("who")
        local = await front.local_agent()
        assert (await local.cancel(waiting.id, "never mind", None)).state is TaskState.CANCELED
        (asked,) = (await client.list_tasks(agent_url=agent.card.url)).tasks
        async with asyncio.timeout(PATIENCE_S):
            done = await client.wait_task(asked.id, agent_url=agent.card.url)
            while done.state is not TaskState.CANCELED:  # it waits for its sender until the cancellation arrives
                done = await client.get_task(asked.id, agent_url=agent.card.url)
        assert done.reason == "never mind"
        await front.aclose()


async def test_a_failing_branch_cancels_a_remote_sibling() -> None:
    async with clerk() as agent:

        async def fail(task: Task) -> None:
            await agent.begun.wait()
            task.fail("no time")

        flow = Parallel([agent.card.url, fail])
        async with asyncio.timeout(PATIENCE_S):
            done = await flow.execute(Task.create("hang"))
            await agent.canceled.wait()
        assert (done.state, done.reason) == (TaskState.FAILED, "no time")
        await flow.aclose()


async def test_remote_branches_share_one_budget_and_report_their_usage() -> None:
    agent, calls = Agent("counter", url="grpc://127.0.0.1:0"), list[int]()

    @agent.tool
    def count(number: int) -> int:
        calls.append(number)
        return number

    async with agent:
        branches = [ToolStep(agent.card.url, "count", {"number": number}) for number in range(4)]
        flow = Parallel(branches, on_error="collect")
        done = await flow.execute(Task.create("go", budget=RunBudget(max_tool_calls=3)))
        assert (done.state, len(calls)) == (TaskState.COMPLETED, 3)
        assert done.usage is not None
        assert done.usage.tool_calls == 3
        await flow.aclose()


async def test_a_flow_with_a_durable_store_is_executed_once_for_a_task(tmp_path: Path) -> None:
    async with clerk() as agent:
        for _ in range(2):
            flow = Pipeline([agent.card.url], store=SQLiteStore(tmp_path / "flow.db"))
            task = Task("report", messages=[Message.user("ann")])
            assert (await flow.execute(task)).messages[-1].text == "hello ann"
            await flow.aclose()
        assert (await AgentClient(url=agent.card.url).list_tasks(include_total=True)).total_size == 1


async def test_a_flow_that_waits_is_answered_after_a_restart(tmp_path: Path) -> None:
    async with clerk() as agent:
        calls: list[str] = []

        async def draw(task: Task) -> None:
            task.add_artifact(Artifact(id="picture", parts=[Part.text("x" * (2 << 20))]))
            task.add_message(Message.agent("who"))

        async def count(task: Task) -> None:
            assert [len(str(each.parts[0].content)) for each in task.artifacts] == [2 << 20]
            calls.append(task.messages[-1].text)

        def press() -> Agent:
            flow = Pipeline([draw, count, Parallel([agent.card.url, count]), count])
            return Agent("press", url="grpc://127.0.0.1:0", flow=flow, store=SQLiteStore(tmp_path / "flow.db"))

        async with press() as first:
            asked = await AgentClient().send_task(first.card.url, Task.create("who"))
            assert (asked.state, calls) == (TaskState.INPUT_REQUIRED, ["who", "who"])
        async with press() as second:
            answer = Message.user("ann")
            done = await AgentClient().send_task(second.card.url, answer, task_id=asked.id)
        assert (done.state, done.messages[-1].text) == (TaskState.COMPLETED, "hello ann")
        assert calls == ["who", "who", "hello ann"]
