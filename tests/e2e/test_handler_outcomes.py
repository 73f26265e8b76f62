"""The parts of a run's last output decide the state of a task that its handler leaves working."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from delegation_world import PATIENCE_S

from protolink_grpc import Agent, AgentCard, AgentClient, Artifact, Message, Part, Task, TaskState, current_run

FAILED, ASKS, DONE = TaskState.FAILED, TaskState.INPUT_REQUIRED, TaskState.COMPLETED
ERROR = Part.error("E", "it broke")
TABLE: dict[str, tuple[list[Part], TaskState, str]] = {
    "an error": ([ERROR], FAILED, "it broke"),
    "an error among others": ([Part.text("so far"), ERROR, Part.text("sorry")], FAILED, "it broke"),
    "an error without a message": ([Part("error", {"code": "E"})], FAILED, "E"),
    "an empty error": ([Part("error", {})], FAILED, "unknown error"),
    "an error that is a text": ([Part("error", "broken")], FAILED, "broken"),
    "a tool that failed": (
        [Part.tool_output("c", error={"code": "X", "message": "no such city"})],
        FAILED,
        "no such city",
    ),
    "a tool that failed with a text": ([Part.tool_output("c", error="timeout")], FAILED, "timeout"),
    "a tool that succeeded": ([Part.tool_output("c", result=3)], DONE, ""),
    "a question": ([Part.status("input-required", "which city?")], ASKS, ""),
    "a question, spelled otherwise": ([Part.status("input_required")], ASKS, ""),
    "a wish for credentials": ([Part.status("auth-required")], TaskState.AUTH_REQUIRED, ""),
    "an error after a question": ([Part.status("input-required"), ERROR], FAILED, "it broke"),
    "a note": ([Part.status("working", "half way")], DONE, ""),
    "a note of another state": ([Part.status("failed", "once")], DONE, ""),
    "a status that is a text": ([Part("status", "input-required")], DONE, ""),
    "a warning": ([Part.warning("careful")], DONE, ""),
    "a text": ([Part.text("error")], DONE, ""),
    "no parts": ([], DONE, ""),
}


class Speaking(Agent):
    """Says what it is given, in one of the ways that there are."""

    def __init__(self, *items: Message | Artifact, state: TaskState | None = None) -> None:
        super().__init__(AgentCard(name="speaking", description="speaks", url="runtime://speaking"))
        self.items = items
        self.state_set = state

    async def handle_task(self, task: Task) -> Task:
        for item in self.items:
            task.add_message(item) if isinstance(item, Message) else task.add_artifact(item)
        return task if self.state_set is None else task.update_state(self.state_set)


class Publishing(Speaking):
    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        for item in self.items:
            await (run.message(item) if isinstance(item, Message) else run.artifact(item))
        return task


class Yielding(Speaking):
    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        for item in self.items:
            yield item


def item_of(parts: list[Part], kind: str) -> Message | Artifact:
    return Message(role="agent", parts=parts) if kind == "message" else Artifact(parts=parts)


async def answer_of(agent: Agent, task: Task | None = None) -> Task:
    async with agent, asyncio.timeout(PATIENCE_S):
        return await AgentClient(url=agent.card.url).send_task(None, task or Task.create("go"))


async def test_a_handler_that_returns_a_coroutine_is_told_about_the_missing_await() -> None:
    class Forgetful(Speaking):
        async def handle_task(self, task: Task) -> Task:
            self.unawaited = super().handle_task(task)
            return self.unawaited  # type: ignore[return-value]  # the mistake

    agent = Forgetful()
    done = await answer_of(agent)
    agent.unawaited.close()
    assert done.state is FAILED
    assert done.reason == "TypeError: the handler must return a Task or None, not coroutine; is an await missing?"


@pytest.mark.parametrize("way", [Speaking, Publishing, Yielding])
@pytest.mark.parametrize("kind", ["message", "artifact"])
@pytest.mark.parametrize(("parts", "state", "reason"), TABLE.values(), ids=TABLE)
async def test_the_last_output_decides(
    way: type[Speaking], kind: str, parts: list[Part], state: TaskState, reason: str
) -> None:
    done = await answer_of(way(item_of(parts, kind)))
    assert done.state is state
    assert done.metadata.get("error", "") == reason


@pytest.mark.parametrize("way", [Speaking, Publishing, Yielding])
@pytest.mark.parametrize("first", ["message", "artifact"])
async def test_an_earlier_output_does_not_count(way: type[Speaking], first: str) -> None:
    second = "artifact" if first == "message" else "message"
    done = await answer_of(way(item_of([ERROR], first), item_of([Part.text("mended")], second)))
    assert done.state is DONE
    failed = await answer_of(way(item_of([Part.text("so far")], first), item_of([ERROR], second)))
    assert failed.state is FAILED


@pytest.mark.parametrize("state", [TaskState.COMPLETED, TaskState.INPUT_REQUIRED, TaskState.CANCELED])
async def test_a_state_that_the_handler_sets_counts(state: TaskState) -> None:
    assert (await answer_of(Speaking(item_of([ERROR], "message"), state=state))).state is state


async def test_what_the_caller_has_sent_is_no_output() -> None:
    task = Task(messages=[Message(parts=[ERROR])], artifacts=[Artifact(parts=[ERROR])])
    assert (await answer_of(Speaking(), task)).state is DONE


async def test_a_task_that_asks_by_a_part_goes_on_with_the_answer() -> None:
    class Asking(Speaking):
        async def handle_task(self, task: Task) -> Task:
            if len(task.messages) == 1:
                # What was handed over belongs to the log: changing it afterwards changes nothing.
                self.asked = Message(role="agent", parts=[Part.status("input-required", "which city?")])
                return task.add_message(self.asked)
            self.asked.parts.clear()
            assert len(task.messages[1].parts) == 1
            return task.complete(task.messages[-1].text)

    async with Asking() as agent, asyncio.timeout(PATIENCE_S):
        client = AgentClient(url=agent.card.url)
        asked = await client.send_task(None, Task.create("book"))
        assert asked.state is ASKS
        done = await client.send_task(None, asked.add_message(Message.user("Rome")))
    assert done.get_output() == "Rome"
    assert len(done.messages[1].parts) == 1
