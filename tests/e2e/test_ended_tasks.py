"""A task that has ended before it is sent is refused over every transport; a repeated request still gets its first answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from delegation_world import PATIENCE_S, card
from protolink.models import Task as PeerTask
from protolink.transport.errors import TransportRemoteError
from protolink_peer_world import TRANSPORTS, peer_client
from routes_world import ROUTES, Routes, serving

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    InvalidArgumentError,
    Message,
    Task,
    TaskFinishedError,
    TaskState,
)

ENDED = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)


class Counting(Agent):
    """Counts what it is given."""

    calls = 0

    async def handle_task(self, task: Task) -> Task:
        self.calls += 1
        return task.complete("done")


World = Routes[Counting]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    local = Counting(AgentCard(name="local", description="counts", url="runtime://local"))
    async with serving(local, Counting(card("remote"), http="127.0.0.1:0")) as world:
        yield world


def ended(state: TaskState) -> Task:
    return Task(state=state, messages=[Message.user("again")])


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("route", ROUTES)
async def test_a_task_that_has_ended_is_not_begun(world: World, route: str, state: TaskState) -> None:
    client = world.client(route)
    with pytest.raises(InvalidArgumentError, match=str(state)) as refused:
        await client.send_task(None, ended(state))
    assert refused.value.field == "task.state"
    with pytest.raises(InvalidArgumentError, match=str(state)):
        [event async for event in client.send_task_streaming(None, ended(state))]
    assert world.agents[route].calls == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_real_protolink_client_is_told_why(world: World, transport: str) -> None:
    task = PeerTask.create("again").begin().complete("done")
    url = world.urls["ws" if transport == "websocket" else "http"]
    async with peer_client(transport) as client:
        with pytest.raises(TransportRemoteError, match=r"task\.state|completed"):
            await client.send_task(url, task)
    assert world.agents["http"].calls == 0


@pytest.mark.parametrize("route", ["runtime", "grpc", "ws"])
async def test_a_repeated_request_is_answered_whatever_its_task_says_of_itself(world: World, route: str) -> None:
    client, task = world.client(route), Task.create("once")
    first = await client.send_task(None, task, request_id="the-request")
    again = await client.send_task(
        None, Task(id=task.id, state=TaskState.COMPLETED, messages=task.messages), request_id="the-request"
    )
    assert again.to_dict() == first.to_dict()
    assert world.agents[route].calls == 1


@pytest.mark.parametrize("route", ["runtime", "grpc"])
async def test_a_further_message_to_a_task_that_has_ended_here_is_refused_as_ever(world: World, route: str) -> None:
    client: Any = world.client(route)
    done = await client.send_task(None, Task.create("once"))
    with pytest.raises(TaskFinishedError):
        await client.send_task(None, done.add_message(Message.user("more")))
    assert world.agents[route].calls == 1


async def test_the_default_handler_leaves_a_task_alone_that_its_caller_has_ended() -> None:
    class Quick(Agent):
        async def handle_task(self, task: Task) -> Task:
            return await super().handle_task(task.complete("no need"))

    agent = Quick(AgentCard(name="quick", description="quick", url="runtime://quick"))
    agent.add_tool(refuse)
    async with agent, asyncio.timeout(PATIENCE_S):
        done = await AgentClient(url="runtime://quick").send_task(None, Task.create_tool_call("refuse"))
    assert (done.state, done.get_output(), done.artifacts) == (TaskState.COMPLETED, "no need", [])


def refuse() -> None:
    """Must not be called."""
    raise AssertionError("called")
