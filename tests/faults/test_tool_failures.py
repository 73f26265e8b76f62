"""Tools that fail: the task fails with the reason, and other tasks are not affected."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentClient,
    RunAction,
    RunContext,
    ScriptedLLM,
    Task,
    TaskState,
    ToolFailedError,
    ToolRejectedError,
)


class Broken:
    """Tools that fail in every way, and what the test needs to watch and to free them."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.blocked = threading.Semaphore(0)
        self.hanging: asyncio.Queue[str] = asyncio.Queue()

    def functions(self) -> list[Callable[..., Any]]:
        return [
            self.add,
            self.raises,
            self.raises_in_thread,
            self.exits,
            self.stops,
            self.refuses,
            self.hangs,
            self.blocks,
            self.blocks_for_long,
            self.returns_a_lock,
            self.returns_itself,
            self.returns_half_a_character,
            self.returns_deep,
            self.returns_much,
            self.cancels_itself,
            self.swallows_the_end,
            self.never_ends,
        ]

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def raises(self) -> None:
        raise RuntimeError("the wire is cut")

    def raises_in_thread(self) -> None:
        raise RuntimeError("the wire is cut")

    def exits(self) -> None:
        raise SystemExit(3)

    def stops(self) -> None:
        raise StopIteration

    async def refuses(self) -> None:
        raise ToolRejectedError("not on Sundays", code="closed")

    async def hangs(self) -> None:
        self.hanging.put_nowait("hangs")
        await asyncio.Event().wait()

    def blocks(self) -> None:
        self.blocked.release()
        self.free.wait()

    def blocks_for_long(self) -> None:
        self.blocked.release()
        self.free.wait()

    async def returns_a_lock(self) -> Any:
        return threading.Lock()

    async def returns_itself(self) -> Any:
        circle: list[Any] = []
        circle.append(circle)
        return circle

    def returns_half_a_character(self) -> str:
        return "\ud800"

    def returns_deep(self) -> Any:
        value: Any = 1
        for _ in range(1000):
            value = [value]
        return value

    async def returns_much(self) -> str:
        return "a" * 5_000_000

    async def cancels_itself(self) -> None:
        raise asyncio.CancelledError

    async def swallows_the_end(self) -> str:
        self.hanging.put_nowait("swallows_the_end")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "what was that?"
        return ""

    async def never_ends(self) -> None:
        while not self.free.is_set():
            try:
                await asyncio.sleep(0.01)  # a tool that only time frees
            except asyncio.CancelledError:
                pass


@pytest.fixture
async def broken() -> AsyncIterator[tuple[Broken, AgentClient]]:
    tools = Broken()
    capabilities = AgentCapabilities(max_concurrency=8)
    card = AgentCard(name="broken", description="fails", url="grpc://127.0.0.1:0", capabilities=capabilities)
    agent = Agent(card, max_sync_workers=2, grace_s=0.0)
    for function in tools.functions():
        limit = 0.05 if function.__name__ in ("hangs", "blocks", "swallows_the_end", "never_ends") else 60.0
        agent.tool(timeout_s=limit)(function)
    async with agent:
        yield tools, AgentClient(url=agent.card.url)
        tools.free.set()


async def call(client: AgentClient, tool: str, **arguments: Any) -> Task:
    return await client.send_task(None, Task.create_tool_call(tool, arguments))


FAILURES = {
    "raises": ("TOOL_FAILED", "the wire is cut"),
    "raises_in_thread": ("TOOL_FAILED", "the wire is cut"),
    "exits": ("TOOL_FAILED", "SystemExit"),
    "stops": ("TOOL_FAILED", "StopIteration"),
    "hangs": ("TOOL_TIMEOUT", "timed out after 0.05 s"),
    "blocks": ("TOOL_TIMEOUT", "timed out after 0.05 s"),
    "swallows_the_end": ("TOOL_TIMEOUT", "timed out after 0.05 s"),
    "never_ends": ("TOOL_TIMEOUT", "timed out after 0.05 s"),
    "returns_a_lock": ("TOOL_FAILED", "lock"),
    "returns_itself": ("TOOL_FAILED", "list"),
    "returns_half_a_character": ("TOOL_FAILED", "Unicode"),
    "returns_deep": ("TOOL_FAILED", "100 levels"),
}


@pytest.mark.parametrize("tool", FAILURES)
async def test_a_failing_tool_fails_its_task_with_a_reason(broken: tuple[Broken, AgentClient], tool: str) -> None:
    _, client = broken
    code, text = FAILURES[tool]
    task = await call(client, tool)
    assert task.state is TaskState.FAILED
    assert text in task.metadata["error"]
    (artifact,) = task.artifacts
    error = artifact.parts[0].as_tool_output().error
    assert (error["status"], error["code"]) == ("failed", code)
    assert text in error["message"]
    assert (await call(client, "add", a=1, b=2)).get_output() == 3


async def test_a_tool_that_raises_a_cancellation_of_its_own_fails_its_task(broken: tuple[Broken, AgentClient]) -> None:
    _, client = broken
    task = await call(client, "cancels_itself")
    assert (task.state, task.metadata["error"]) == (TaskState.FAILED, "the handler canceled itself")
    assert (await call(client, "add", a=1, b=2)).get_output() == 3


async def test_the_log_of_a_failed_call_says_what_was_tried_and_how_it_ended(
    broken: tuple[Broken, AgentClient],
) -> None:
    _, client = broken
    events = [event async for event in client.send_task_streaming(None, Task.create_tool_call("raises"))]
    action = [event for event in events if event.action_id]
    types = ["action.requested", "action.policy", "action.started", "action.failed"]
    assert [event.type for event in action] == types
    assert len({event.action_id for event in action}) == 1
    ended = action[-1]
    assert ended.severity == "error"
    assert "the wire is cut" in ended.summary
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))


async def test_a_refusal_says_that_nothing_was_changed(broken: tuple[Broken, AgentClient]) -> None:
    _, client = broken
    for tool, arguments, code in (
        ("refuses", {}, "closed"),
        ("add", {"a": 1}, "invalid_arguments"),
        ("add", {"a": 1, "b": 2, "c": 3}, "invalid_arguments"),
        ("subtract", {}, "unknown_tool"),
    ):
        task = await call(client, tool, **arguments)
        assert task.state is TaskState.FAILED
        error = task.artifacts[0].parts[0].as_tool_output().error
        assert (error["status"], error["code"], error["changes_made"]) == ("rejected", code, False)


async def test_a_result_too_large_for_an_event_fails_the_task_with_the_limit(
    broken: tuple[Broken, AgentClient],
) -> None:
    _, client = broken
    task = await call(client, "returns_much")
    assert task.state is TaskState.FAILED
    assert "larger than the limit" in task.metadata["error"]
    assert (await call(client, "add", a=1, b=2)).get_output() == 3


async def test_other_tasks_go_on_while_every_thread_is_blocked(broken: tuple[Broken, AgentClient]) -> None:
    tools, client = broken
    blocked = [asyncio.create_task(call(client, "blocks_for_long")) for _ in range(2)]
    for _ in blocked:
        await asyncio.to_thread(tools.blocked.acquire)
    # Both threads hang now, and the tasks with them; async tools, reads and watches do not need one.
    assert (await call(client, "add", a=1, b=2)).get_output() == 3
    assert (await client.list_tasks(states=["working"], include_total=True)).total_size == 2
    assert not any(each.done() for each in blocked)
    tools.free.set()
    assert {(await each).state for each in blocked} == {TaskState.COMPLETED}


async def test_threads_that_never_return_do_not_use_up_the_pool(broken: tuple[Broken, AgentClient]) -> None:
    tools, client = broken
    # More than there are threads, one after the other: each is abandoned at its limit.
    for _ in range(5):
        assert "timed out" in (await call(client, "blocks")).metadata["error"]
    assert (await call(client, "raises_in_thread")).metadata["error"].endswith("the wire is cut")
    tools.free.set()


async def test_other_tasks_go_on_while_one_hangs(broken: tuple[Broken, AgentClient]) -> None:
    tools, client = broken
    hanging = asyncio.create_task(call(client, "hangs"))
    await tools.hanging.get()
    assert (await call(client, "add", a=1, b=2)).get_output() == 3
    assert (await hanging).state is TaskState.FAILED


async def test_a_blocked_tool_can_be_canceled(broken: tuple[Broken, AgentClient]) -> None:
    tools, client = broken
    task = await client.submit_task(None, Task.create_tool_call("blocks_for_long"))
    await asyncio.to_thread(tools.blocked.acquire)
    canceled = await client.cancel_task(None, task.id, reason="too slow")
    assert (canceled.state, canceled.metadata["cancel_reason"]) == (TaskState.CANCELED, "too slow")


async def test_a_handler_that_raises_makes_a_failed_task_with_the_error_part() -> None:
    class Raising(Agent):
        async def handle_task(self, task: Task) -> Task:
            raise ZeroDivisionError("by nothing")

    async with Raising(name="raising", description="raises", url="grpc://127.0.0.1:0") as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create("go"))
        assert (task.state, task.metadata["error"]) == (TaskState.FAILED, "ZeroDivisionError: by nothing")
        part = task.messages[-1].parts[0]
        assert (part.type, part.content["code"]) == ("error", "AGENT_FAILED")


async def test_an_agent_that_hides_its_errors_shows_an_incident_only() -> None:
    class Raising(Agent):
        async def handle_task(self, task: Task) -> Task:
            raise ZeroDivisionError("the password is swordfish")

    async with Raising(name="raising", description="raises", url="grpc://127.0.0.1:0", expose_errors=False) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create("go"))
        assert task.metadata["error"].startswith("the agent failed, incident ")
        assert "swordfish" not in str(task.to_dict())


@pytest.mark.parametrize("by_hand", [False, True], ids=["by a part", "by the handler"])
async def test_an_agent_that_hides_its_errors_shows_of_a_failed_tool_an_incident_only(
    by_hand: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Calling(Agent):
        async def handle_task(self, task: Task) -> Task:
            if by_hand:
                await self.call_tool("open_safe")
            return await super().handle_task(task)

    agent = Calling(name="calling", description="calls", url="grpc://127.0.0.1:0", expose_errors=False)

    @agent.tool
    async def open_safe() -> None:
        raise RuntimeError("the password is swordfish")

    async with agent:
        client = AgentClient(url=agent.card.url)
        events = [event async for event in client.send_task_streaming(None, Task.create_tool_call("open_safe"))]
        task = await client.get_task(events[0].task_id)
    assert task.state is TaskState.FAILED
    assert task.metadata["error"].startswith("tool 'open_safe' failed, incident ")
    assert "swordfish" not in str(task.to_dict()) + str([event.to_dict() for event in events])
    assert task.metadata["error"].rpartition(" ")[2] in caplog.text
    assert "swordfish" in caplog.text


class Item(BaseModel):
    """A type whose validator breaks."""

    n: int

    @field_validator("n")
    @classmethod
    def look(cls, n: int) -> int:
        raise LookupError("no such shelf")


def previewed(arguments: dict[str, Any], context: RunContext) -> RunAction:
    raise LookupError("no such shelf")


class Way(StrEnum):
    """How a tool comes to be called."""

    PART = "part"
    MODEL = "model"
    HANDLER = "handler"
    RPC = "rpc"
    PROGRAM = "program"


@pytest.mark.parametrize("expose", [True, False], ids=["shown", "hidden"])
@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("tool", ["raises", "raises_async", "preview", "validator", "no_json"])
async def test_a_failed_tool_is_logged_once_with_its_trace(
    tool: str, way: Way, expose: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Calling(Agent):
        async def handle_task(self, task: Task) -> Task:
            if way is Way.HANDLER:
                await self.call_tool(tool, item={"n": 1})
            return await super().handle_task(task)

    model = ScriptedLLM([{"type": "tool_call", "tool": tool, "args": {"item": {"n": 1}}}, "sorry"])
    agent = Calling(name="calling", description="calls", url="grpc://127.0.0.1:0", expose_errors=expose, llm=model)

    @agent.tool
    def raises(item: Any) -> None:
        raise LookupError("no such shelf")

    @agent.tool
    async def raises_async(item: Any) -> None:
        raise LookupError("no such shelf")

    @agent.tool(action_builder=previewed)
    def preview(item: Any) -> None: ...

    @agent.tool
    def validator(item: Item) -> None: ...

    @agent.tool
    def no_json(item: Any) -> Any:
        return object()

    task_id = ""
    async with agent:
        client = AgentClient(url=agent.card.url)
        if way is Way.MODEL:
            task_id = (await client.send_task(None, Task.create_infer(prompt="go"))).id
        elif way is Way.RPC:
            with pytest.raises(ToolFailedError):
                await client.call_tool(None, tool, item={"n": 1})
        elif way is Way.PROGRAM:
            with pytest.raises(ToolFailedError):
                await agent.call_tool(tool, item={"n": 1})
        else:
            task_id = (await client.send_task(None, Task.create_tool_call(tool, {"item": {"n": 1}}))).id
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert (record.levelno, record.name.partition(".")[0]) == (logging.ERROR, "protolink_grpc")
    assert f"tool '{tool}' failed" in record.getMessage()
    assert task_id in record.getMessage()
    assert record.exc_info is not None
    if tool != "no_json":
        assert isinstance(record.exc_info[1], LookupError)
        assert "no such shelf" in caplog.text


@pytest.mark.parametrize("way", [Way.PART, Way.MODEL, Way.RPC])
async def test_what_a_caller_did_wrong_is_not_logged_as_an_error(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedLLM([{"type": "tool_call", "tool": "add", "args": {"a": "x"}}, "sorry"])
    agent = Agent(name="calling", description="calls", url="grpc://127.0.0.1:0", llm=model)

    @agent.tool
    def add(a: int) -> int:
        if a < 0:
            raise ToolRejectedError("only up")
        return a

    async with agent:
        client = AgentClient(url=agent.card.url)
        for a in ("x", -1):
            if way is Way.MODEL:
                await client.send_task(None, Task.create_infer(prompt="go"))
            elif way is Way.PART:
                await client.send_task(None, Task.create_tool_call("add", {"a": a}))
            else:
                with pytest.raises(ToolRejectedError):
                    await client.call_tool(None, "add", a=a)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING and way is not Way.MODEL] == []
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("answer", [None, 42, "done"])
async def test_a_handler_that_returns_no_task_is_told_so(answer: Any) -> None:
    class Odd(Agent):
        async def handle_task(self, task: Task) -> Task:
            return answer  # type: ignore[no-any-return]  # the point of the test

    async with Odd(name="odd", description="odd", url="grpc://127.0.0.1:0") as agent:
        task = await AgentClient(url=agent.card.url).send_task(None, Task.create("go"))
        if answer is None:
            assert task.state is TaskState.COMPLETED
        else:
            assert (task.state, task.metadata["error"][:30]) == (TaskState.FAILED, "TypeError: the handler must re")
