"""Limits of working and waiting runs of an agent, and the refusal of others."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import task_input_pb2, task_pb2

from protolink_grpc import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentClient,
    Approvals,
    CapabilityPolicy,
    InvalidArgumentError,
    Limits,
    MemoryStore,
    Message,
    Principal,
    ResourceExhaustedError,
    StopAt,
    Task,
    TaskNotFoundError,
    TaskState,
)
from protolink_grpc.errors import DelegationCycleError
from protolink_grpc.storage.port import TaskStore


class Gated(Agent):
    """Works until the test opens the gate; knows how many it worked on at the same time."""

    def __init__(self, url: str = "grpc://127.0.0.1:0", **options: Any) -> None:
        # What the card says about it is advertised only: here, that it works on one task at a time.
        capabilities = AgentCapabilities(max_concurrency=1)
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
    return Gated(url, store=store, limits=Limits(max_concurrency=running, max_queue=waiting, principal_share=1.0))


async def until_first(events: AsyncIterator[Any], state: TaskState) -> None:
    async for event in events:
        if event.state is state:
            return


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("authorization")
    return Principal(name) if name else None


def client_of(agent: Agent, name: str) -> AgentClient:
    return AgentClient(url=agent.card.url, metadata=(("authorization", name),))


@pytest.mark.parametrize("tool", ["sleep", "block"])
async def test_an_agent_that_is_told_nothing_runs_ten_tools_at_once(tool: str) -> None:
    agent = Agent(AgentCard(name="plain", description="d", url="grpc://127.0.0.1:0"))

    @agent.tool
    async def sleep() -> str:
        await asyncio.sleep(0.5)
        return "done"

    @agent.tool
    def block() -> str:
        time.sleep(0.5)
        return "done"

    async with agent:
        client = AgentClient(url=agent.card.url)
        begun = time.monotonic()
        done = await asyncio.gather(*(client.send_task(None, Task.create_tool_call(tool, {})) for _ in range(10)))
        # One after the other takes 5 s, four at a time 1.5 s.
        assert time.monotonic() - begun < 1.4
        assert {task.state for task in done} == {TaskState.COMPLETED}


async def test_the_tasks_of_one_caller_do_not_keep_another_one_waiting(store: TaskStore) -> None:
    limits = Limits(max_concurrency=1, max_queue=100)
    async with Gated(store=store, limits=limits, authenticator=by_name) as agent:
        flood, single = client_of(agent, "flood"), client_of(agent, "single")
        sent = [await flood.submit_task(None, Task.create(f"flood {each}")) for each in range(51)]
        with pytest.raises(ResourceExhaustedError) as refused:
            await flood.submit_task(None, Task.create("too many"))
        assert refused.value.retry_after_s > 0
        # There is room for others, and their turn comes after one of the flood's.
        task = await single.submit_task(None, Task.create("single"))
        agent.gate.set()
        assert (await single.wait_task(task.id)).state is TaskState.COMPLETED
        assert [agent.begun.get_nowait() for _ in range(3)] == ["flood 0", "flood 1", "single"]
        await flood.wait_task(sent[-1].id)


async def test_max_concurrency_of_the_limits_is_enforced(store: TaskStore) -> None:
    async with gated(running=3, waiting=100, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        sent = [asyncio.create_task(client.send_task(None, Task.create(str(each)))) for each in range(12)]
        for _ in range(3):
            await agent.begun.get()
        agent.gate.set()
        done = await asyncio.gather(*sent)
        assert {task.state for task in done} == {TaskState.COMPLETED}
        assert agent.most == 3


async def test_waiting_runs_get_their_turn_in_the_order_in_which_they_came(store: TaskStore) -> None:
    async with gated(running=1, waiting=100, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        tasks = [await client.submit_task(None, Task.create(str(each))) for each in range(8)]
        agent.gate.set()
        await asyncio.gather(*(client.wait_task(task.id) for task in tasks))
        assert [agent.begun.get_nowait() for _ in tasks] == [str(each) for each in range(8)]


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "runtime://gated"])
async def test_a_burst_over_the_queue_is_refused_with_a_hint_when_to_retry(url: str, store: TaskStore) -> None:
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
        assert (await client.list_tasks(include_total=True)).total_size == 3
        assert (await client.send_task(None, Task.create("later"))).state is TaskState.COMPLETED


async def test_a_full_queue_answers_resource_exhausted_with_retry_info(
    store: TaskStore, stub: Callable[[str], Any]
) -> None:
    async with gated(running=1, waiting=0, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        await client.submit_task(None, Task.create("first"))
        message = task_pb2.Message(parts=[{"text": "second"}])
        request = pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[message]))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub(agent.card.url).SendTask(request)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        status = rpc_status.from_call(error.value)
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        assert status.details[0].Unpack(info)
        assert status.details[1].Unpack(retry)
        assert (info.reason, info.domain) == ("RESOURCE_EXHAUSTED", "protolink-grpc.github.io")
        assert retry.retry_delay.ToMilliseconds() > 0
        agent.gate.set()


async def test_reading_watching_and_canceling_do_not_wait_for_a_slot(store: TaskStore) -> None:
    async with gated(running=1, waiting=5, store=store) as agent:
        client = AgentClient(url=agent.card.url)
        running, queued = [await client.submit_task(None, Task.create(text)) for text in ("a", "b")]
        await until_first(client.subscribe(running.id), TaskState.WORKING)
        assert (await client.get_task(queued.id)).state is TaskState.SUBMITTED
        events = [event async for event in client.subscribe(queued.id, stop_at=StopAt.CURRENT)]
        assert [event.type for event in events] == ["task.submitted", "task.queued"]
        assert (events[0].state, events[1].summary) == (
            TaskState.SUBMITTED,
            "Waits for a slot (in use: 1, waiting before it: 0)",
        )
        assert (await client.cancel_task(None, queued.id, reason="no more")).state is TaskState.CANCELED
        assert (await client.list_tasks(states=["canceled"], include_total=True)).total_size == 1
        agent.gate.set()
        assert (await client.wait_task(running.id)).state is TaskState.COMPLETED
        assert agent.begun.qsize() == 1  # the canceled one never began


async def test_a_canceled_waiting_run_gives_its_place_to_the_next(store: TaskStore) -> None:
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


# -- bytes ---------------------------------------------------------------------------------------------------------------

MB = 1 << 20


async def test_tasks_that_wait_hold_a_bounded_number_of_bytes(store: TaskStore) -> None:
    limits = Limits(max_concurrency=1, max_task_bytes=8 * MB)
    async with Gated(store=store, limits=limits, authenticator=by_name) as agent:
        ann, bob = client_of(agent, "ann"), client_of(agent, "bob")
        sent = [await ann.submit_task(None, Task.create("x" * (MB + MB // 2))) for _ in range(2)]
        with pytest.raises(ResourceExhaustedError, match="the tasks of ann hold") as refused:
            await ann.submit_task(None, Task.create("x" * (MB + MB // 2)))
        assert refused.value.retry_after_s > 0
        assert agent._service is not None
        assert 3 * MB < agent._service._slots.size < 4 * MB
        await bob.submit_task(None, Task.create("x" * 3 * MB))
        await ann.cancel_task(None, sent[1].id)
        # What was canceled holds nothing any more.
        await ann.submit_task(None, Task.create("x" * (MB + MB // 2)))
        agent.gate.set()


async def test_a_task_that_has_grown_too_large_is_not_continued() -> None:
    class Asking(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.require_input("more?")

    card = AgentCard(name="asking", description="d", url="grpc://127.0.0.1:0")
    async with Asking(card, limits=Limits(max_task_bytes=8 * MB)) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create("x" * 3 * MB))
        longer = replace(task, messages=[*task.messages, Message.user("x" * 2 * MB)])
        with pytest.raises(ResourceExhaustedError, match="limit of 4194304 bytes"):
            await client.send_task(None, longer)
        shorter = replace(task, messages=[*task.messages, Message.user("short")])
        assert (await client.send_task(None, shorter)).state is TaskState.INPUT_REQUIRED


async def test_finished_tasks_are_forgotten_before_memory_runs_out() -> None:
    class Big(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete("y" * MB)

    store = MemoryStore(max_bytes=8 * MB)
    async with Big(AgentCard(name="big", description="d", url="grpc://127.0.0.1:0"), store=store) as agent:
        client = AgentClient(url=agent.card.url)
        sent = [await client.send_task(None, Task.create("x" * MB)) for _ in range(20)]
        assert sum(len(event) for entry in store._entries.values() for event in entry.events) <= 10 * MB
        assert agent._service is not None
        assert (agent._service._slots.size, agent._service._tasks.warm.size) == (0, 0)
        with pytest.raises(TaskNotFoundError):
            await client.get_task(sent[0].id)
        assert (await client.get_task(sent[-1].id)).messages[-1].text == "y" * MB


async def test_as_many_runs_wait_for_approvals_as_may_wait() -> None:
    card = AgentCard(name="asking", description="d", url="grpc://127.0.0.1:0")
    policy = CapabilityPolicy({"book": {"effect": "require_approval"}})
    limits = Limits(max_concurrency=1, max_queue=3, principal_share=1.0)
    agent = Agent(card, policy=policy, approvals=Approvals(), limits=limits)

    @agent.tool(capabilities=["book"])
    def book() -> str:
        return "booked"

    async with agent:
        client = AgentClient(url=agent.card.url)
        tasks = [await client.submit_task(None, Task.create_tool_call("book", {})) for _ in range(4)]
        async with asyncio.timeout(PATIENCE_S):
            waiting = []
            async for approvals in client.watch_approvals():
                waiting.append(approvals)
                if len(waiting) == len(tasks):
                    break
        with pytest.raises(ResourceExhaustedError, match="0 runs work and 4 wait") as refused:
            await client.submit_task(None, Task.create_tool_call("book", {}))
        assert refused.value.retry_after_s > 0
        await client.respond_approval(None, waiting[0], True)
        await client.wait_task(waiting[0].request.task_id)
        await client.submit_task(None, Task.create_tool_call("book", {}))


# -- runs that wait for their own agent ----------------------------------------------------------------------------------

PATIENCE_S = 30.0
"""How long something that must happen may take; far more than it needs on a busy machine."""


class Calling(Agent):
    """Does with a task what the test says."""

    def __init__(self, name: str, does: Callable[[Task], Awaitable[Task]], **options: Any) -> None:
        super().__init__(AgentCard(name=name, description="d", url="grpc://127.0.0.1:0"), grace_s=0.1, **options)
        self._does = does

    async def handle_task(self, task: Task) -> Task:
        return await self._does(task)


async def sent_back(target: Agent, task: Task, scheme: str = "grpc") -> Task:
    """What a handler does that knows nothing of delegation: it calls with a client of its own and waits."""
    url = target.card.url if scheme == "grpc" else target.http_url
    client = AgentClient("a2a" if scheme == "a2a" else "grpc", url=url)
    answer = await client.send_task(None, Task.create(f"{task.messages[0].text}+"))
    return task.complete(answer.raise_for_status().messages[-1].text)


@pytest.mark.parametrize("scheme", ["grpc", "http", "a2a"])
@pytest.mark.parametrize(("max_concurrency", "works"), [(1, False), (2, True)])
async def test_a_task_that_comes_back_to_an_agent_without_a_slot_is_refused_at_once(
    max_concurrency: int, works: bool, scheme: str
) -> None:
    async def first(task: Task) -> Task:
        if task.messages[0].text.endswith("++"):
            return task.complete("end")
        return await sent_back(b, task, scheme)

    async def second(task: Task) -> Task:
        return await sent_back(a, task, scheme)

    a = Calling("A", first, limits=Limits(max_concurrency=max_concurrency), http="127.0.0.1:0")
    b = Calling("B", second, http="127.0.0.1:0")
    async with a, b, asyncio.timeout(PATIENCE_S):
        task = await AgentClient(url=a.card.url).send_task(None, Task.create("go"))
        if works:
            assert (task.state, task.messages[-1].text) == (TaskState.COMPLETED, "end")
        else:
            assert task.state is TaskState.FAILED
            assert "would wait for itself: all 1 slots are held" in task.metadata["error"]
            assert "A > B > A" in task.metadata["error"]
        # Nothing of it is left: the next one is served.
        assert (await AgentClient(url=a.card.url).send_task(None, Task.create("go++"))).state is TaskState.COMPLETED


async def test_a_handler_that_waits_for_its_own_agent_without_a_slot_is_told_so() -> None:
    async def nested(task: Task) -> Task:
        if task.messages[0].text == "inner":
            return task.complete("end")
        with pytest.raises(DelegationCycleError, match="A > A") as refused:
            await agent.run_task(Task.create("inner"))
        assert refused.value.metadata == {"chain": "A > A", "max_concurrency": "1"}
        # What it does not wait for may wait for it.
        later.append(await AgentClient(url=agent.card.url).submit_task(None, Task.create("inner")))
        return task.complete("refused")

    later: list[Task] = []
    agent = Calling("A", nested, limits=Limits(max_concurrency=1))
    async with agent, asyncio.timeout(PATIENCE_S):
        client = AgentClient(url=agent.card.url)
        assert (await client.send_task(None, Task.create("outer"))).messages[-1].text == "refused"
        assert (await client.wait_task(later[0].id)).messages[-1].text == "end"


async def test_a_call_that_finds_another_run_working_waits_for_its_slot() -> None:
    async def nested(task: Task) -> Task:
        match task.messages[0].text:
            case "outer":
                inner = asyncio.create_task(agent.run_task(Task.create("inner")))
                outer.set()
                return task.complete((await inner).messages[-1].text)
            case "long":
                await gate.wait()
        return task.complete("end")

    gate, outer = asyncio.Event(), asyncio.Event()
    agent = Calling("A", nested, limits=Limits(max_concurrency=2))
    async with agent, asyncio.timeout(PATIENCE_S):
        client = AgentClient(url=agent.card.url)
        await client.submit_task(None, Task.create("long"))
        task = await client.submit_task(None, Task.create("outer"))
        await outer.wait()
        gate.set()
        assert (await client.wait_task(task.id)).messages[-1].text == "end"


# -- what a user may set -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_concurrency": 0},
        {"max_queue": -1},
        {"max_task_bytes": 0},
        {"principal_share": 0.0},
        {"principal_share": 1.5},
        {"principal_share": float("nan")},
        {"warm_tasks": -1},
        {"lease_ttl_s": 0.0},
    ],
)
def test_a_limit_out_of_range_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        Limits(**wrong)
    assert refused.value.field == f"limits.{next(iter(wrong))}"
