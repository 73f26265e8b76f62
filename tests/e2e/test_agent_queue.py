"""How many runs an agent works on at once, how many wait, and what becomes of the rest."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from protolink_pb.v1 import agent_service_pb2 as pb
from protolink_pb.v1 import task_pb2

from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentClient,
    Limits,
    ResourceExhaustedError,
    StopAt,
    Task,
    TaskState,
)
from protolink_grpc.store.port import TaskStore


class Gated(Agent):
    """Works until the test opens the gate; knows how many it worked on at the same time."""

    def __init__(self, url: str = "grpc://127.0.0.1:0", *, max_concurrency: int = 1, **options: Any) -> None:
        capabilities = AgentCapabilities(max_concurrency=max_concurrency)
        super().__init__(AgentCard(name="gated", description="waits", url=url, capabilities=capabilities), **options)
        self.gate = asyncio.Event()
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.working = self.most = 0

    async def handle_task(self, task: Task) -> Task:
        self.working += 1
        self.most = max(self.most, self.working)
        self.begun.put_nowait(task.messages[0].text)
        try:
            await self.gate.wait()
        finally:
            self.working -= 1
        return task.complete("done")


def gated(*, running: int, waiting: int, store: TaskStore, url: str = "grpc://127.0.0.1:0") -> Gated:
    return Gated(url, store=store, limits=Limits(max_concurrency=running, max_queue=waiting))


async def until_first(events: AsyncIterator[Any], state: TaskState) -> None:
    async for event in events:
        if event.state is state:
            return


async def test_max_concurrency_of_the_card_is_enforced(store: TaskStore, channel: object) -> None:
    async with Gated(max_concurrency=3, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        sent = [asyncio.create_task(client.send_task(None, Task.create(str(each)))) for each in range(12)]
        for _ in range(3):
            await agent.begun.get()
        agent.gate.set()
        done = await asyncio.gather(*sent)
        assert {task.state for task in done} == {TaskState.COMPLETED}
        assert agent.most == 3


async def test_waiting_runs_get_their_turn_in_the_order_in_which_they_came(store: TaskStore, channel: object) -> None:
    async with gated(running=1, waiting=100, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        tasks = [await client.submit_task(None, Task.create(str(each))) for each in range(8)]
        agent.gate.set()
        await asyncio.gather(*(client.wait_task(task.id) for task in tasks))
        assert [agent.begun.get_nowait() for _ in tasks] == [str(each) for each in range(8)]


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "runtime://gated"])
async def test_a_burst_over_the_queue_is_refused_with_a_hint_when_to_retry(
    url: str, store: TaskStore, channel: object
) -> None:
    async with gated(running=1, waiting=2, store=store, url=url) as agent:
        client = AgentClient(url=agent.card.url)
        sent = [asyncio.create_task(client.send_task(None, Task.create(str(each)))) for each in range(20)]
        await agent.begun.get()
        answers = asyncio.as_completed(sent)
        for _ in range(17):
            with pytest.raises(ResourceExhaustedError) as error:
                await next(answers)
            assert error.value.retry_after_s > 0
        agent.gate.set()
        done = [each.result() for each in (await asyncio.wait(sent))[0] if each.exception() is None]
        assert [task.state for task in done] == [TaskState.COMPLETED] * 3
        # What was refused left nothing behind, and there is room again.
        assert (await client.list_tasks()).total_size == 3
        assert (await client.send_task(None, Task.create("later"))).state is TaskState.COMPLETED


async def test_a_full_queue_answers_resource_exhausted_with_retry_info(
    store: TaskStore, stub: Callable[[str], Any]
) -> None:
    async with gated(running=1, waiting=0, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        await client.submit_task(None, Task.create("first"))
        message = task_pb2.Message(parts=[{"text": "second"}])
        request = pb.SendTaskRequest(task=task_pb2.Task(messages=[message]))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub(agent.card.url).SendTask(request)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        status = rpc_status.from_call(error.value)
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        assert status.details[0].Unpack(info)
        assert status.details[1].Unpack(retry)
        assert (info.reason, info.domain) == ("RESOURCE_EXHAUSTED", "protolink.dev")
        assert retry.retry_delay.ToMilliseconds() > 0
        agent.gate.set()


async def test_reading_watching_and_canceling_do_not_wait_for_a_slot(store: TaskStore, channel: object) -> None:
    async with gated(running=1, waiting=5, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        running, queued = [await client.submit_task(None, Task.create(text)) for text in ("a", "b")]
        await until_first(client.subscribe(running.id), TaskState.WORKING)
        assert (await client.get_task(queued.id)).state is TaskState.SUBMITTED
        assert [event.state async for event in client.subscribe(queued.id, stop_at=StopAt.CURRENT)] == [
            TaskState.SUBMITTED
        ]
        assert (await client.cancel_task(None, queued.id, reason="no more")).state is TaskState.CANCELED
        assert (await client.list_tasks(states=["canceled"])).total_size == 1
        agent.gate.set()
        assert (await client.wait_task(running.id)).state is TaskState.COMPLETED
        assert agent.begun.qsize() == 1  # the canceled one never began


async def test_a_canceled_waiting_run_gives_its_place_to_the_next(store: TaskStore, channel: object) -> None:
    async with gated(running=1, waiting=1, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        await client.submit_task(None, Task.create("a"))
        second = await client.submit_task(None, Task.create("b"))
        with pytest.raises(ResourceExhaustedError):
            await client.submit_task(None, Task.create("c"))
        await client.cancel_task(None, second.id)
        third = await client.submit_task(None, Task.create("c"))
        agent.gate.set()
        assert (await client.wait_task(third.id)).state is TaskState.COMPLETED
