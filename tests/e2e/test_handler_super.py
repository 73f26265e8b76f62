"""Overrides that call the default handler: one run, and no event twice, over every transport."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from delegation_world import PATIENCE_S, card

from protolink_grpc import (
    Agent,
    AgentClient,
    Artifact,
    Message,
    Part,
    RunEvent,
    ScriptedLLM,
    StopAt,
    Task,
    TaskProgress,
    TaskState,
    current_run,
)
from protolink_grpc.models.events import ActionEnded, TaskArtifactUpdated

ROUTES = ("grpc", "a2a", "http")
"""Over gRPC, as an A2A agent, and over ProtoLink's wire."""


class Unary(Agent):
    """Adds a word before and after what the default does."""

    runs = 0

    async def handle_task(self, task: Task) -> Task:
        self.runs += 1
        run = current_run()
        assert run is not None
        await run.progress(10, "begun")
        done = await super().handle_task(task)
        return done.add_message(Message.agent("by hand"))


class Streaming(Agent):
    """The same as a generator that passes the events of the default on."""

    runs = 0

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.passed: list[RunEvent] = []

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        self.runs += 1
        yield TaskProgress(10, "begun")
        async for event in super().handle_task_streaming(task):
            self.passed.append(event)
            yield event
        task.add_message(Message.agent("by hand"))


class Both(Streaming):
    """A generator over a handler of its own."""

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        await run.progress(20, "handled")
        return await super().handle_task(task)


@pytest.fixture(autouse=True)
async def _time_limit() -> AsyncIterator[None]:
    async with asyncio.timeout(PATIENCE_S):
        yield


def made(kind: type[Agent], asked: str) -> tuple[Any, Task]:
    """An agent on both ports, and a task that asks it for a tool call, or for an inference that calls the tool."""
    steps = ({"type": "tool_call", "tool": "add", "args": {"a": 1, "b": 2}}, {"type": "final", "content": "three"})
    llm = ScriptedLLM(steps) if asked == "inference" else None
    agent = kind(card("calculator"), http="127.0.0.1:0", llm=llm)

    @agent.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    task = Task.create_infer("add them") if asked == "inference" else Task.create_tool_call("add", {"a": 1, "b": 2})
    return agent, task


async def log_of(agent: Agent, task_id: str) -> list[RunEvent]:
    client = AgentClient(url=agent.card.url)
    return [event async for event in client.subscribe(task_id, stop_at=StopAt.CURRENT)]


@pytest.mark.parametrize("asked", ["tool", "inference"])
@pytest.mark.parametrize("kind", [Unary, Streaming, Both])
@pytest.mark.parametrize("route", ROUTES)
async def test_an_override_builds_on_the_default_within_its_own_run(route: str, kind: type[Agent], asked: str) -> None:
    agent, task = made(kind, asked)
    async with agent:
        client = AgentClient(route, agent.card.url if route == "grpc" else agent.http_url)
        done = await client.send_task(None, task)
        (listed,) = (await AgentClient(url=agent.card.url).list_tasks()).tasks
        log = await log_of(agent, listed.id)
    assert done.state is TaskState.COMPLETED
    assert done.messages[-1].text == "by hand"
    output = done.artifacts[-1].parts[-1].content
    assert output == "three" if asked == "inference" else output.result == 3
    assert agent.runs == 1
    assert len({event.run_id for event in log}) == 1
    assert [event.sequence for event in log] == list(range(1, len(log) + 1))
    assert sum(isinstance(event.payload, ActionEnded) for event in log) == 1
    assert sum(isinstance(event.payload, TaskArtifactUpdated) for event in log) == 1
    assert [event.payload.progress for event in log if isinstance(event.payload, TaskProgress)] == (
        [10, 20] if kind is Both else [10]
    )
    if kind is not Unary:
        # All that the default records, as it stands in the log, and nothing else.
        own = [event for event in log if event.type not in ("task.submitted", "task.status", "task.message")]
        assert [event.event_id for event in agent.passed] == [event.event_id for event in own][-len(agent.passed) :]
        assert len(agent.passed) == len(own) - 1


async def test_events_of_the_default_come_while_it_works() -> None:
    going, seen = asyncio.Event(), asyncio.Event()

    class Watching(Agent):
        async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
            async for event in super().handle_task_streaming(task):
                if event.type == "action.started":
                    seen.set()
                yield event

    agent = Watching(card("watching"))

    @agent.tool
    async def hold() -> str:
        """Wait."""
        going.set()
        await seen.wait()
        return "held"

    async with agent:
        done = await AgentClient(url=agent.card.url).send_task(None, Task.create_tool_call("hold"))
    assert going.is_set()
    assert done.state is TaskState.COMPLETED


@pytest.mark.parametrize("way", ["cancel", "raise", "break"])
async def test_work_of_the_default_ends_with_the_override(way: str) -> None:
    begun: asyncio.Event = asyncio.Event()
    ends: list[str] = []

    class Leaving(Agent):
        async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
            stream = super().handle_task_streaming(task)
            async for event in stream:
                yield event
                if event.type == "action.started" and way != "cancel":
                    await begun.wait()
                    await stream.aclose()  # type: ignore[attr-defined]  # an async generator
                    if way == "raise":
                        raise ValueError("enough")
                    task.complete("left")
                    break

    agent = Leaving(card("leaving"))

    @agent.tool
    async def hold() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("canceled")
            raise
        return "never"

    async with agent:
        client = AgentClient(url=agent.card.url)
        sent = await client.submit_task(None, Task.create_tool_call("hold"))
        if way == "cancel":
            await begun.wait()
            await client.cancel_task(None, sent.id)
        async for _ in client.subscribe(sent.id):
            pass
        done = await client.get_task(sent.id)
    assert ends == ["canceled"]
    expected = {"cancel": TaskState.CANCELED, "raise": TaskState.FAILED, "break": TaskState.COMPLETED}
    assert done.state is expected[way]


async def test_a_failure_of_the_default_reaches_the_override() -> None:
    caught: list[Exception] = []

    class Careful(Agent):
        async def handle_task(self, task: Task) -> Task:
            raise ValueError("as always")

        async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
            try:
                async for event in super().handle_task_streaming(task):
                    yield event
            except ValueError as error:
                caught.append(error)
                yield Artifact(id="excuse", parts=[Part("text", "sorry")])

    async with Careful(card("careful")) as agent:
        done = await AgentClient(url=agent.card.url).send_task(None, Task.create("go"))
    assert [str(error) for error in caught] == ["as always"]
    assert (done.state, done.artifacts[0].id) == (TaskState.COMPLETED, "excuse")


async def test_another_task_that_the_handler_returns_comes_last() -> None:
    class Other(Agent):
        async def handle_task(self, task: Task) -> Task:
            return Task.create("instead").begin().complete("the other one")

        async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
            async for item in super().handle_task_streaming(task):
                yield item

    async with Other(card("other")) as agent:
        done = await AgentClient(url=agent.card.url).send_task(None, Task.create("go"))
    assert (done.state, done.get_output()) == (TaskState.COMPLETED, "the other one")
    assert [message.text for message in done.messages] == ["go", "instead", "the other one"]
