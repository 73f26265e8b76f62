"""Each kind of handler pauses between two of its steps, and is resumed there."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from protolink_grpc import Agent, AgentClient, Message, Parallel, Part, Pipeline, RunEvent, Task, TaskState, current_run
from protolink_grpc.llms.mock import ScriptedLLM
from protolink_grpc.llms.port import ModelRequest
from protolink_grpc.models.events import TaskProgress
from protolink_grpc.models.ids import new_uuid
from protolink_grpc.models.task_control import TaskStatus
from protolink_grpc.runtime.run import Run

WAIT_S = 20.0


class Stage:
    """Work in two steps. The first one waits until it may go."""

    def __init__(self) -> None:
        self.works = asyncio.Event()
        self.may_go = asyncio.Event()
        self.done: list[str] = []

    async def step(self, name: str) -> str:
        self.works.set()
        await self.may_go.wait()
        self.done.append(name)
        return name

    async def items(self, name: str) -> AsyncIterator[str]:
        yield "begin"
        yield await self.step(name)


def run_of() -> Run:
    run = current_run()
    assert run is not None
    return run


class Handling(Agent):
    stage: Stage

    async def handle_task(self, task: Task) -> Task:
        for name in ("first", "second"):
            await run_of().call_tool("step", name=name)
        return task.complete("done")


class Emitting(Agent):
    """Has no actions, only reports between its steps."""

    stage: Stage

    async def handle_task(self, task: Task) -> Task:
        await self.stage.step("first")
        await run_of().progress(50)
        await self.stage.step("second")
        return task.complete("done")


class Streaming(Agent):
    stage: Stage

    async def handle_task_streaming(self, task: Task) -> AsyncGenerator[Any, None]:
        await self.stage.step("first")
        yield TaskProgress(50)
        await self.stage.step("second")
        yield task.complete("done")


class InThread(Agent):
    """Code that does not await, in a thread."""

    stage: Stage

    async def handle_task(self, task: Task) -> Task:
        run = run_of()

        def work() -> None:
            for name in ("first", "second"):
                run.wait_for(run.call_tool("step", name=name))

        await asyncio.to_thread(work)
        return task.complete("done")


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_call", "tool": "step", "args": {"name": name}}


def inferring(stage: Stage) -> Agent:
    return Agent("clerk", url=f"runtime://{new_uuid()}", llm=ScriptedLLM([call("first"), call("second"), "done"]))


def flowing(stage: Stage) -> Agent:
    async def first(task: Task) -> None:
        await stage.step("first")

    async def second(task: Task) -> None:
        await stage.step("second")

    return Agent("clerk", url=f"runtime://{new_uuid()}", flow=Pipeline([first, second]))


def plain(kind: type[Agent]) -> Callable[[Stage], Agent]:
    def make(stage: Stage) -> Agent:
        agent = kind("clerk", url=f"runtime://{new_uuid()}")
        agent.stage = stage  # type: ignore[attr-defined]  # each kind has it
        return agent

    return make


def reading(stage: Stage) -> Agent:
    """The agent's own handler, for the tool calls of a message."""
    return Agent("clerk", url=f"runtime://{new_uuid()}")


KINDS: dict[str, Callable[[Stage], Agent]] = {
    "handler": plain(Handling),
    "reports only": plain(Emitting),
    "streaming handler": plain(Streaming),
    "thread": plain(InThread),
    "model": inferring,
    "flow": flowing,
    "tool calls": reading,
}


@pytest.mark.parametrize("items", [False, True], ids=["function", "generator"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_pauses_between_two_steps(kind: str, items: bool) -> None:
    stage = Stage()
    agent = KINDS[kind](stage)
    agent.tool(name="step")(stage.items if items else stage.step)
    parts = [Part.tool_call("step", {"name": name}) for name in ("first", "second")]
    message = Message(role="user", parts=parts if kind == "tool calls" else [Part.text("go")])
    async with agent, asyncio.timeout(WAIT_S):
        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, Task.create(message))
        await stage.works.wait()
        assert (await client.tasks.pause(task.id)).status is TaskStatus.RUNNING
        stage.may_go.set()
        await until(client, task.id, "task.paused")
        assert stage.done == ["first"]
        assert (await client.tasks.get(task.id)).status is TaskStatus.PAUSED
        await client.tasks.resume(task.id)
        assert (await client.wait_task(task.id)).state is TaskState.COMPLETED
        assert stage.done == ["first", "second"]


async def until(client: AgentClient, task_id: str, kind: str) -> RunEvent:
    events: AsyncGenerator[RunEvent, None] = client.subscribe(task_id)
    try:
        async for event in events:
            if event.type == kind:
                return event
    finally:
        await events.aclose()
    raise AssertionError(f"the task ended without {kind}")


async def test_a_pause_of_parallel_steps_lets_begun_ones_end() -> None:
    stage, other = Stage(), Stage()

    async def slow(task: Task) -> None:
        await other.step("slow")

    async def quick(task: Task) -> None:
        await stage.step("quick")

    async def after(task: Task) -> None:
        await stage.step("after")

    flow = Pipeline([Parallel([slow, Pipeline([quick, after])], name="both")])
    async with Agent("clerk", url=f"runtime://{new_uuid()}", flow=flow) as agent, asyncio.timeout(WAIT_S):
        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, Task.create("go"))
        await stage.works.wait()
        await other.works.wait()
        await client.tasks.pause(task.id)
        stage.may_go.set()
        await until(client, task.id, "task.paused")
        other.may_go.set()
        await client.tasks.resume(task.id)
        assert (await client.wait_task(task.id)).state is TaskState.COMPLETED
        assert (stage.done, other.done) == (["quick", "after"], ["slow"])


async def test_a_retry_calls_its_model_and_its_tools_again() -> None:
    """The journal of the failed attempt is not replayed."""
    llm = ScriptedLLM([call("first"), call("second"), "done"])
    done: list[str] = []
    hangs = asyncio.Event()
    async with Agent("clerk", url=f"runtime://{new_uuid()}", llm=llm) as agent, asyncio.timeout(WAIT_S):

        @agent.tool
        async def step(name: str) -> str:
            done.append(name)
            if len(done) == 2:
                hangs.set()
                await asyncio.Event().wait()
            return name

        client = AgentClient(url=agent.card.url)
        task = await client.submit_task(None, Task.create("go"))
        await hangs.wait()
        assert (await client.cancel_task(None, task.id)).state is TaskState.CANCELED
        await client.tasks.retry(task.id, reason="again")
        after = await client.wait_task(task.id)
        assert after.state is TaskState.COMPLETED
        assert done == ["first", "second", "first", "second"]
        snapshot = await client.tasks.get(task.id)
        assert (snapshot.retry_count, snapshot.attempt_count) == (1, 2)


async def test_a_retry_of_a_failed_turn_sees_the_conversation_before_it_once() -> None:
    answers = iter(["hello", RuntimeError("the model is down"), "done"])

    def answer(request: ModelRequest) -> str:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    llm = ScriptedLLM([answer])
    async with (
        Agent("clerk", url=f"runtime://{new_uuid()}", llm=llm, state="conversation") as agent,
        asyncio.timeout(WAIT_S),
    ):
        client = AgentClient(url=agent.card.url)
        for text, state in (("hi", TaskState.COMPLETED), ("go", TaskState.FAILED)):
            turn = await client.sessions.submit("chat", text)
            assert (await client.wait_task(turn.task_id)).state is state
        await client.tasks.retry(turn.task_id)
        assert (await client.wait_task(turn.task_id)).state is TaskState.COMPLETED
    failed, retried = llm.requests[-2:]
    said = [str(message.content) for message in retried.messages]
    assert said == [str(message.content) for message in failed.messages]
    assert [sum(text in each for each in said) for text in ("hi", "hello", "go")] == [1, 1, 1]
