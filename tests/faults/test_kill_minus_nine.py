"""An agent's process is killed again and again: no event that a reader has seen is lost, repeated or left out."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from plgrpc.v1 import agent_service_pb2 as pb
from ports import free_port

from protolink_grpc import AgentClient, RunEvent, Task, TaskState, UnavailableError
from protolink_grpc.models.watch import StopAt

ROUNDS = 20
TASKS = 20
SUBSCRIBERS = 5

AGENT = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCard, AgentCapabilities, SQLiteStore, TaskProgress

    class Reporter(Agent):
        async def handle_task_streaming(self, task):
            count = int(task.messages[0].text)
            for step in range(count):
                yield TaskProgress(100 * step / count, f"step {step}")
                await asyncio.sleep(0.002)
            task.complete(f"{count} steps")

    url, path = sys.argv[1:]
    card = AgentCard(name="reporter", description="reports", url=url, capabilities=AgentCapabilities(max_concurrency=64))

    async def main():
        agent = Reporter(card, store=SQLiteStore(path))
        await agent.serve()
        print("serving", flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


class Round:
    """One life of the agent: its tasks, and what each subscriber of each of them saw, over its death and return."""

    def __init__(self, client: AgentClient, *, kill_after: int) -> None:
        self.client = client
        self.kill_after = kill_after
        self.seen_events = 0
        self.subscribed = 0
        self.due = asyncio.Event()
        self.seen: dict[str, list[list[RunEvent]]] = {}

    async def submit(self, number: int) -> str:
        # Some tasks are short enough to be finished when the process dies, most are not.
        steps = "10" if number % 5 == 0 else "1000000"
        task = Task.create(steps)
        await self.client.submit_task(None, task, request_id=f"request-{task.id}")
        self.seen[task.id] = [[] for _ in range(SUBSCRIBERS)]
        return task.id

    async def follow(self, task_id: str, subscriber: int) -> None:
        into = self.seen[task_id][subscriber]
        # Each begins elsewhere: some read history, some only what comes.
        async for event in self.client.subscribe(task_id, after=min(subscriber, 2)):
            into.append(event)
            self.seen_events += 1
            if len(into) == 1:
                self.subscribed += 1
            if self.seen_events >= self.kill_after and self.subscribed == TASKS * SUBSCRIBERS:
                self.due.set()

    async def stored(self, task_id: str) -> list[RunEvent]:
        return [event async for event in self.client.subscribe(task_id, stop_at=StopAt.CURRENT)]


def check_round(seen: list[list[RunEvent]], log: list[RunEvent]) -> None:
    assert [event.sequence for event in log] == list(range(1, len(log) + 1))
    for subscriber, events in enumerate(seen):
        assert events == log[min(subscriber, 2) :]


@pytest.mark.timeout(300)
async def test_what_subscribers_saw_survives_twenty_kills(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    url, path = f"grpc://127.0.0.1:{free_port()}", tmp_path / "tasks.db"
    client = AgentClient(url=url)
    chance = random.Random(4)
    finished_tasks = lost_tasks = 0
    agent = await launch(AGENT, url, path)
    assert await agent.line() == "serving"
    for _ in range(ROUNDS):
        current = Round(client, kill_after=chance.randint(200, 3000))
        async with asyncio.TaskGroup() as group:
            task_ids = await asyncio.gather(*(current.submit(number) for number in range(TASKS)))
            for task_id in task_ids:
                for subscriber in range(SUBSCRIBERS):
                    group.create_task(current.follow(task_id, subscriber))
            await current.due.wait()
            await agent.kill()
            agent = await launch(AGENT, url, path)
            assert await agent.line() == "serving"
            # The group ends when every subscriber has seen the end of its task, across the cut, by itself.
        for task_id in task_ids:
            log = await current.stored(task_id)
            check_round(current.seen[task_id], log)
            final = log[-1]
            assert final.final
            if final.state is TaskState.COMPLETED:
                finished_tasks += 1
            else:
                assert final.state is TaskState.FAILED
                assert (await client.get_task(task_id)).metadata["error"].startswith("run lost: the process")
                lost_tasks += 1
    assert finished_tasks + lost_tasks == ROUNDS * TASKS
    assert lost_tasks >= ROUNDS


async def test_a_request_whose_answer_was_lost_in_a_kill_is_not_run_again(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    url, path = f"grpc://127.0.0.1:{free_port()}", tmp_path / "tasks.db"
    client = AgentClient(url=url)
    agent = await launch(AGENT, url, path)
    assert await agent.line() == "serving"
    first = await client.submit_task(None, Task.create("1000000"), request_id="the one")
    await agent.kill()
    agent = await launch(AGENT, url, path)
    assert await agent.line() == "serving"
    again = await client.send_task(None, Task.create("1000000"), request_id="the one")
    assert (again.id, again.state) == (first.id, TaskState.FAILED)
    assert (await client.list_tasks(include_total=True)).total_size == 1


async def test_a_request_sent_while_the_agent_is_away_runs_at_most_once(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]], stub: Callable[[str], Any]
) -> None:
    url, path = f"grpc://127.0.0.1:{free_port()}", tmp_path / "tasks.db"
    agent = await launch(AGENT, url, path)
    assert await agent.line() == "serving"
    await agent.kill()
    sending = asyncio.create_task(AgentClient(url=url).send_task(None, Task.create("3")))
    agent = await launch(AGENT, url, path)
    assert await agent.line() == "serving"
    outcome = (await asyncio.gather(sending, return_exceptions=True))[0]
    # The retries of the call may or may not have lasted until the agent was back.
    expected = 0 if isinstance(outcome, UnavailableError) else 1
    assert (await stub(url).ListTasks(pb.ListTasksRequest(include_total=True))).total_size == expected
