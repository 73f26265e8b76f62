"""A process sleeps longer than its lease while another one continues its tasks: afterwards it reads the store before it answers."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from protolink_grpc import AgentClient, Message, Task, TaskState

PATIENCE_S = 30.0
ROUNDS = 8

REPLICA = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCapabilities, AgentCard, Approvals, CapabilityPolicy, Limits, RunContext, SQLiteStore

    class Clerk(Agent):
        async def handle_task(self, task):
            if task.messages[-1].text == "pay":
                return task.complete(await self.call_tool_in_context("pay", RunContext.from_task(task)))
            if holds:
                await asyncio.Event().wait()
            return task.require_input("which?")

    holds = sys.argv[2] == "holds"

    async def main():
        card = AgentCard(name="clerk", description="clerk", url="grpc://127.0.0.1:0",
                         capabilities=AgentCapabilities(max_concurrency=64))
        agent = Clerk(card, store=SQLiteStore(sys.argv[1]), recovery="resume", limits=Limits(lease_ttl_s=0.6),
                      policy=CapabilityPolicy({"money.spend": "ask"}), approvals=Approvals())

        @agent.tool(capabilities=["money.spend"])
        def pay() -> str:
            return "paid"

        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""

Launch = Callable[..., Awaitable[Any]]


class Pair:
    """A replica that sleeps now and then, and one that does not, on one store."""

    def __init__(self, sleeper: Any, client: AgentClient, other: AgentClient) -> None:
        self.sleeper, self.client, self.other = sleeper, client, other

    @classmethod
    async def of(cls, launch: Launch, path: Path) -> "Pair":
        sleeper, other = await launch(REPLICA, path, "holds"), await launch(REPLICA, path, "asks")
        pair = cls(sleeper, AgentClient(url=await sleeper.line()), AgentClient(url=await other.line()))
        await pair.client.connect()
        return pair

    async def sleep(self, task_id: str) -> Task:
        """Stop the sleeper until the other replica has gone on with a task of its; how the task is then."""
        self.sleeper.signal(signal.SIGSTOP)
        async with asyncio.timeout(PATIENCE_S):
            while (task := await self.other.get_task(task_id)).state is not TaskState.INPUT_REQUIRED:
                await asyncio.sleep(0.05)  # a lease lapses by time alone
        return task

    async def wake(self, *asked: Awaitable[Any]) -> list[Any]:
        """Let it go on, with questions that came while it slept: what it answers."""
        waiting = [asyncio.ensure_future(each) for each in asked]
        await asyncio.sleep(
            0.1
        )  # they are in its socket before it looks at anything; where they are not, the test asks less
        self.sleeper.signal(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.gather(*waiting)


async def test_a_process_that_wakes_up_answers_from_the_store(launch: Launch, tmp_path: Path) -> None:
    pair = await Pair.of(launch, tmp_path / "tasks.db")
    for number in range(ROUNDS):
        task = await pair.client.submit_task(None, Task.create("hold"))
        asked = await pair.sleep(task.id)
        told = Task.from_dict(asked.to_dict()).add_message(Message.user("hold"))
        if number % 2:
            (found,) = await pair.wake(pair.client.get_task(task.id))
            assert found.to_dict() == asked.to_dict()
        else:
            # TASK_ALREADY_RUNNING would be an error here.
            (accepted,) = await pair.wake(pair.client.submit_task(None, told))
            assert accepted.state is TaskState.WORKING
            await pair.sleep(task.id)
            await pair.wake()
        await pair.client.cancel_task(None, task.id)


async def test_a_process_that_wakes_up_keeps_what_nobody_has_taken(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    sleeper = await launch(REPLICA, path, "holds")
    client = AgentClient(url=await sleeper.line())
    task = await client.submit_task(None, Task.create("hold"))
    sleeper.signal(signal.SIGSTOP)
    await asyncio.sleep(1.0)  # longer than its lease
    sleeper.signal(signal.SIGCONT)
    assert (await client.get_task(task.id)).state is TaskState.WORKING
    assert (await client.cancel_task(None, task.id)).state is TaskState.CANCELED


async def test_an_approval_is_answered_through_a_process_that_slept(launch: Launch, tmp_path: Path) -> None:
    pair = await Pair.of(launch, tmp_path / "tasks.db")
    task = await pair.client.submit_task(None, Task.create("pay"))
    async with asyncio.timeout(PATIENCE_S), aclosing(pair.client.watch_approvals()) as approvals:
        approval = await anext(approvals)
    pair.sleeper.signal(signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE_S):
        async for event in pair.other.subscribe(task.id):
            if event.state is TaskState.WORKING and event.payload.attempt == 2:
                break
    await pair.wake(pair.client.respond_approval(None, approval, True))
    async with asyncio.timeout(PATIENCE_S):
        assert (await pair.other.wait_task(task.id)).get_output() == "paid"
