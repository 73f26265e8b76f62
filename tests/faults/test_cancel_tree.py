"""Cancellation of work in three processes: it reaches all running work, and every log records it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    AgentClient,
    ApprovalState,
    Registry,
    RunContext,
    RunEvent,
    StopAt,
    Task,
    TaskNotCancelableError,
    TaskState,
)
from protolink_grpc.models.events import ActionEnded

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""

# Each level does what it is asked in the words of the prompt: the two upper ones ask the next, the lowest one works.
AGENT = """
    import asyncio, sys, time
    from protolink_grpc import (
        Agent, AgentCard, Approvals, CapabilityPolicy, Limits, ScriptedLLM, ToolContext, current_run,
    )

    name, below, registry, places, committed = sys.argv[1:]

    def say(text):
        print(text, flush=True)

    def wanted(request):
        return next(each.content for each in reversed(request.messages) if each.role == "user")

    def first(request):
        kind = wanted(request)
        if below:
            if below == "leaf" and kind != "think":
                return {"type": "agent_call", "agent": below, "action": "tool_call", "tool": kind, "args": {}}
            return {"type": "agent_call", "agent": below, "action": "infer", "prompt": kind}
        return think()

    async def think():
        say("begun think")
        try:
            await asyncio.Event().wait()
        finally:
            say("stopped think")

    async def last(request):
        if wanted(request) == "work":
            say("begun last")
            await asyncio.Event().wait()
        return {"type": "final", "content": "done"}

    class Fans(Agent):
        async def handle_task(self, task):
            kind = task.messages[0].text
            if kind == "fan":
                await asyncio.gather(*(self.peer("leaf").call_tool("in_loop") for _ in range(3)))
            elif kind == "stream":
                stream = self.peer("leaf").run_task_streaming(Task.create_tool_call("in_loop"))
                async for event in stream:
                    pass
            return await self.execute_task(task)

    from protolink_grpc import Task
    card = AgentCard(name=name, description="d", url="grpc://127.0.0.1:0")
    agent = (Fans if name == "fans" else Agent)(
        card, registry=registry, limits=Limits(max_concurrency=int(places)),
        llm=ScriptedLLM([first, last]), approvals=Approvals(), grace_s=0,
        policy=CapabilityPolicy({"booking.write": "require_approval"}),
    )

    def commit(text):
        with open(committed, "a") as file:
            print(text, file=file)

    if name == "leaf":
        @agent.tool
        async def in_loop() -> str:
            say("begun in_loop")
            try:
                await asyncio.Event().wait()
            finally:
                say("stopped in_loop")

        @agent.tool
        def in_thread(context: ToolContext) -> str:
            say("begun in_thread")
            try:
                while not context.cancellation.is_cancelled:
                    time.sleep(0.002)
                context.cancellation.raise_if_cancelled()
                commit("in_thread")
            finally:
                say("stopped in_thread")

        @agent.tool
        async def holds_on(context: ToolContext) -> str:
            say("begun holds_on")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                commit("holds_on")
            say("stopped holds_on")
            return "committed"

        @agent.tool
        async def work() -> str:
            commit("work")
            return "worked"

        @agent.tool(capabilities=["booking.write"])
        async def book() -> str:
            commit("book")
            return "booked"

    async def main():
        await agent.serve()
        say(agent.card.url)
        await asyncio.Event().wait()

    asyncio.run(main())
"""

Launch = Callable[..., Awaitable[Any]]


@dataclass
class Level:
    """One of the three agents, in a process of its own."""

    program: Any
    client: AgentClient

    async def said(self, *lines: str) -> None:
        """Wait until it has said these, in any order, and nothing else."""
        found = sorted([await self.program.line() for _ in lines])
        assert found == sorted(lines)

    async def latest(self) -> Task:
        """The task that changed last, once it has ended."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.client.wait_task((await self.client.list_tasks()).tasks[0].id)

    async def count(self) -> int:
        return (await self.client.list_tasks(include_total=True)).total_size

    async def log(self, task_id: str) -> list[RunEvent]:
        return [event async for event in self.client.subscribe(task_id, stop_at=StopAt.CURRENT)]


@dataclass
class Tree:
    top: Level
    middle: Level
    leaf: Level
    committed: Path


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry() as registry:
        yield registry


Grow = Callable[..., Awaitable[Level]]


@pytest.fixture
def grow(launch: Launch, registry: Registry, tmp_path: Path) -> Grow:
    """Starts one agent of the tree."""

    async def start(name: str, below: str = "", places: int = 8) -> Level:
        program = await launch(AGENT, name, below, registry.url, places, tmp_path / "committed")
        return Level(program, AgentClient(url=await program.line()))

    return start


@pytest.fixture
async def tree(grow: Grow, tmp_path: Path) -> Tree:
    leaf, middle, top = await asyncio.gather(grow("leaf"), grow("middle", "leaf"), grow("top", "middle"))
    return Tree(top, middle, leaf, tmp_path / "committed")


def ends_in(log: list[RunEvent]) -> list[tuple[str, Any]]:
    """How each action ended, and with what."""
    return [(event.type, event.payload.result) for event in log if isinstance(event.payload, ActionEnded)]


async def check_canceled(level: Level, task: Task, reason: str) -> list[RunEvent]:
    """Every surface of a canceled task says the same, once; returns its log."""
    assert (task.state, task.metadata["cancel_reason"]) == (TaskState.CANCELED, reason)
    context = RunContext.from_task(task)
    assert (context.canceled, context.cancel_reason) == (True, reason)
    log = await level.log(task.id)
    assert [event.sequence for event in log] == list(range(1, len(log) + 1))
    assert [event.sequence for event in log if event.final] == [len(log)]
    assert (log[-1].type, log[-1].state) == ("task.status", TaskState.CANCELED)
    types = [event.type for event in log]
    assert types.count("task.cancel_requested") == 1
    assert "task.error" not in types
    return log


KINDS = ("in_loop", "in_thread", "think")
"""What is under way at the bottom: an async tool, one in a thread that looks at its token, a call of a model that never answers."""


async def test_a_cancel_reaches_the_work_two_processes_below(tree: Tree) -> None:
    top = tree.top.client
    for kind in KINDS:
        task = Task.create_infer(prompt=kind)
        sending = asyncio.ensure_future(top.send_task(None, task))
        await tree.leaf.said(f"begun {kind}")
        canceled = await top.cancel_task(None, task.id, reason=f"enough of {kind}")
        assert canceled.state is TaskState.CANCELED
        assert (await sending).state is TaskState.CANCELED
        await tree.leaf.said(f"stopped {kind}")
        for level in (tree.top, tree.middle, tree.leaf):
            log = await check_canceled(level, await level.latest(), f"enough of {kind}")
            # What it was doing says that it was cut off, not that it failed; a model's call has no such end.
            cut_off = not (level is tree.leaf and kind == "think")
            assert ends_in(log) == ([("action.canceled", None)] if cut_off else [])
    # A checkpoint comes before the commit.
    assert not tree.committed.exists()


async def test_a_reader_of_the_stream_above_sees_one_final_event(tree: Tree) -> None:
    top = tree.top.client
    for kind in KINDS:
        task = Task.create_infer(prompt=kind)
        seen = []
        async with aclosing(top.send_task_streaming(None, task)) as events:
            async for event in events:
                seen.append(event)
                if event.type == "action.started":
                    await tree.leaf.said(f"begun {kind}")
                    await top.cancel_task(None, task.id)
        assert [event.state for event in seen if event.final] == [TaskState.CANCELED]
        assert seen == await tree.top.log(task.id)
        await tree.leaf.said(f"stopped {kind}")
        assert (await tree.leaf.latest()).state is TaskState.CANCELED


async def test_canceling_in_the_middle_leaves_what_is_above_to_decide(tree: Tree) -> None:
    task = Task.create_infer(prompt="in_loop")
    sending = asyncio.ensure_future(tree.top.client.send_task(None, task))
    await tree.leaf.said("begun in_loop")
    (child,) = (await tree.middle.client.list_tasks()).tasks
    await tree.middle.client.cancel_task(None, child.id, reason="not here")
    await tree.leaf.said("stopped in_loop")
    done = await sending
    assert (done.state, done.get_output()) == (TaskState.COMPLETED, "done")
    (ended,) = [e.payload for e in await tree.top.log(task.id) if isinstance(e.payload, ActionEnded)]
    assert "ended canceled: not here" in str(ended.error)


async def test_a_cancel_that_comes_after_the_commit_does_not_hide_it(tree: Tree) -> None:
    task = Task.create_infer(prompt="work")
    sending = asyncio.ensure_future(tree.top.client.send_task(None, task))
    await tree.middle.said("begun last")
    await tree.top.client.cancel_task(None, task.id, reason="too late")
    assert (await sending).state is TaskState.CANCELED
    log = await check_canceled(tree.middle, await tree.middle.latest(), "too late")
    assert ends_in(log) == [("action.completed", "worked")]
    done = await tree.leaf.latest()
    assert done.state is TaskState.COMPLETED
    with pytest.raises(TaskNotCancelableError):
        await tree.leaf.client.cancel_task(None, done.id)
    assert tree.committed.read_text() == "work\n"


async def test_a_tool_that_finishes_in_spite_of_its_cancellation_is_recorded_as_finished(tree: Tree) -> None:
    task = Task.create_infer(prompt="holds_on")
    await tree.top.client.submit_task(None, task)
    await tree.leaf.said("begun holds_on")
    await tree.top.client.cancel_task(None, task.id, reason="stop")
    await tree.leaf.said("stopped holds_on")
    log = await check_canceled(tree.leaf, await tree.leaf.latest(), "stop")
    assert ends_in(log) == [("action.completed", "committed")]
    assert tree.committed.read_text() == "holds_on\n"


async def test_an_approval_that_waits_two_processes_below_is_withdrawn(tree: Tree) -> None:
    task = Task.create_infer(prompt="book")
    await tree.top.client.submit_task(None, task)
    async with asyncio.timeout(PATIENCE_S), aclosing(tree.leaf.client.watch_approvals()) as approvals:
        asked = await anext(approvals)
        assert asked.state is ApprovalState.PENDING
        await tree.top.client.cancel_task(None, task.id)
        assert (await anext(approvals)).state is ApprovalState.WITHDRAWN
    assert (await tree.leaf.latest()).state is TaskState.CANCELED
    answer = await tree.leaf.client.respond_approval(None, asked, True)
    assert answer.already_decided
    assert not tree.committed.exists()


async def test_a_cancel_never_waits_behind_the_work(grow: Grow) -> None:
    leaf, middle, top = await asyncio.gather(
        grow("leaf", places=1), grow("middle", "leaf", places=1), grow("top", "middle", places=1)
    )
    running = await top.client.submit_task(None, Task.create_infer(prompt="in_loop"))
    await leaf.said("begun in_loop")
    waiting = [await top.client.submit_task(None, Task.create_infer(prompt="in_loop")) for _ in range(30)]
    async with asyncio.timeout(PATIENCE_S):
        # Those that wait, while all places are taken; then the one that takes them.
        answers = await asyncio.gather(*(top.client.cancel_task(None, each.id) for each in waiting))
        assert {answer.state for answer in answers} == {TaskState.CANCELED}
        assert (await top.client.get_task(running.id)).state is TaskState.WORKING
        assert (await top.client.cancel_task(None, running.id)).state is TaskState.CANCELED
        await leaf.said("stopped in_loop")
    # The others have never begun, and no agent below has received them.
    assert (await leaf.latest()).state is (await middle.latest()).state is TaskState.CANCELED
    assert (await leaf.count(), await middle.count()) == (1, 1)


async def test_a_child_that_waits_for_its_turn_is_canceled_without_having_begun(grow: Grow) -> None:
    leaf, middle = await asyncio.gather(grow("leaf", places=1), grow("middle", "leaf"))
    await leaf.client.submit_task(None, Task.create_tool_call("in_loop"))
    await leaf.said("begun in_loop")
    task = await middle.client.submit_task(None, Task.create_infer(prompt="in_thread"))
    async with asyncio.timeout(PATIENCE_S):
        while len(tasks := (await leaf.client.list_tasks()).tasks) < 2:
            pass
        (child,) = [each.id for each in tasks if each.state is TaskState.SUBMITTED]
        await middle.client.cancel_task(None, task.id)
        ended = await leaf.client.wait_task(child)
    assert ended.state is TaskState.CANCELED
    kinds = [event.type for event in await leaf.log(child)]
    assert kinds == ["task.submitted", "task.queued", "task.cancel_requested", "task.status"]


@pytest.mark.parametrize(("how", "children"), [("fan", 3), ("stream", 1)])
async def test_what_a_handler_has_delegated_is_canceled_with_it(grow: Grow, how: str, children: int) -> None:
    leaf, fans = await asyncio.gather(grow("leaf"), grow("fans", "leaf"))
    task = await fans.client.submit_task(None, Task.create(how))
    await leaf.said(*["begun in_loop"] * children)
    canceled = await fans.client.cancel_task(None, task.id, reason="all of it")
    assert canceled.state is TaskState.CANCELED
    await leaf.said(*["stopped in_loop"] * children)
    for each in (await leaf.client.list_tasks()).tasks:
        await check_canceled(leaf, await leaf.client.wait_task(each.id), "all of it")
    assert await leaf.count() == children
    assert ends_in(await fans.log(task.id)) == [("action.canceled", None)] * children
