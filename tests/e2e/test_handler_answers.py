"""The result of a handler is in the log, whatever task it returns."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from delegation_world import PATIENCE_S, card
from routes_world import ROUTES, serving

from protolink_grpc import AccessRules, Agent, AgentCard, AgentClient, Artifact, Message, Part, Task, TaskState


class Desk(Agent):
    """Answers with a message, an artifact and metadata."""

    async def handle_task(self, task: Task) -> Task:
        task.metadata["note"] = {"by": "the desk"}
        task.add_artifact(Artifact(id="ticket", parts=[Part("text", "a ticket")]))
        return task.complete("booked")


@pytest.fixture
async def desks() -> AsyncIterator[dict[str, str]]:
    """The peer's URLs by route. The one for A2A refuses the services of this package, so that agents speak A2A with it."""
    local = Desk(AgentCard(name="desk", description="the desk", url="runtime://desk"))
    foreign = Desk(card("foreign"), http="127.0.0.1:0", access=AccessRules({"/plgrpc.v1.*/*": False}))
    async with foreign, serving(local, Desk(card("remote"), http="127.0.0.1:0")) as world:
        yield world.urls | {"a2a": foreign.http_url}


async def sent(agent: Agent, task: Task) -> Task:
    async with asyncio.timeout(PATIENCE_S):
        return await AgentClient(url=agent.card.url).send_task(None, task)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("way", ["whole", "items"])
async def test_what_a_peer_answered_is_in_the_answer_of_a_handler_that_passes_it_on(
    desks: dict[str, str], route: str, way: str
) -> None:
    class Front(Agent):
        async def handle_task(self, task: Task) -> Task:
            answer = await self.call_agent(desks[route], Task.create("book"))
            if way == "whole":
                return answer
            # As lists: an answer's lists may be lazy ones, too.
            task.messages, task.artifacts = answer.messages, answer.artifacts
            task.metadata |= {"note": answer.metadata["note"]}
            return task

    async with Front(card("front")) as front:
        done = await sent(front, Task.create("please book"))
        kept = await AgentClient(url=front.card.url).get_task(done.id)
    for found in (done, kept):
        assert found.state is TaskState.COMPLETED
        assert found.messages[0].text == "please book"
        assert found.messages[-1].text == "booked"
        assert [part.content for artifact in found.artifacts for part in artifact.parts] == ["a ticket"]
        assert found.metadata["note"] == {"by": "the desk"}


async def test_a_handler_may_answer_with_more_than_it_was_given_and_nothing_is_there_twice() -> None:
    class Long(Agent):
        async def handle_task(self, task: Task) -> Task:
            task.messages = task.messages + [Message.agent("one")]  # noqa: RUF005 -- the spelling that is tested
            task.messages = task.messages + [Message.agent("two")]  # noqa: RUF005 -- as above
            return task

    async with Long(card("long")) as agent:
        done = await sent(agent, Task.create("zero"))
    assert [message.text for message in done.messages] == ["zero", "one", "two"]
