"""The same request many times at once is one run, wherever it arrives."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import task_input_pb2, task_pb2

from protolink_grpc import Agent, AgentCapabilities, AgentCard, AgentClient, Message, SQLiteStore, Task, TaskState
from protolink_grpc.runtime.run import Run
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import Append, RequestRecord, TaskQuery, TaskStore

TIMES = 50


class Counter(Agent):
    """Counts its runs; each waits until the test lets it go."""

    def __init__(self, url: str, **options: Any) -> None:
        capabilities = AgentCapabilities(max_concurrency=TIMES)
        card = AgentCard(name="counter", description="counts", url=url, capabilities=capabilities)
        super().__init__(card, **options)
        self.runs = 0
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        self.runs += 1
        self.begun.set()
        await self.go.wait()
        return task.complete(f"run {self.runs}")


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "runtime://counter"])
async def test_fifty_at_once_are_one_run_with_fifty_equal_answers(url: str, store: TaskStore) -> None:
    async with Counter(url, store=store) as agent:
        clients = [AgentClient(url=agent.card.url) for _ in range(TIMES)]
        # As from fifty processes: every one makes the task anew, with an id of its own.
        sent = [asyncio.create_task(each.send_task(None, Task.create("go"), request_id="same")) for each in clients]
        await agent.begun.wait()
        agent.go.set()
        answers = [answer.to_dict() for answer in await asyncio.gather(*sent)]
        assert agent.runs == 1
        assert answers == [answers[0]] * TIMES
        assert answers[0]["state"] == "completed"
        assert (await clients[0].list_tasks(include_total=True)).total_size == 1


async def test_fifty_streams_with_one_request_id_show_the_same_events(
    store: TaskStore, stub: Callable[[str], Any]
) -> None:
    async with Counter("grpc://127.0.0.1:0", store=store) as agent:
        calls = stub(agent.card.url)

        async def stream() -> list[Any]:
            task = task_input_pb2.TaskInput(messages=[task_pb2.Message(parts=[{"text": "go"}])])
            request = pb.StreamTaskRequest(input=task, request_id="same")
            return [event async for response in calls.StreamTask(request) for event in response.events]

        sent = [asyncio.create_task(stream()) for _ in range(TIMES)]
        await agent.begun.wait()
        agent.go.set()
        seen = await asyncio.gather(*sent)
        assert agent.runs == 1
        assert seen == [seen[0]] * TIMES
        assert seen[0][-1].last


async def test_a_continuation_sent_fifty_times_is_one_run(store: TaskStore) -> None:
    class Asker(Counter):
        async def handle_task(self, task: Task) -> Task:
            if len(task.messages) == 1:
                return task.require_input(Message.agent("which?"))
            return await super().handle_task(task)

    async with Asker("grpc://127.0.0.1:0", store=store) as agent:
        client = AgentClient(url=agent.card.url)
        asked = await client.send_task(None, Task.create("one"))
        asked.add_message(Message.user("this"))
        sent = [asyncio.create_task(client.send_task(None, asked, request_id="same")) for _ in range(TIMES)]
        await agent.begun.wait()
        agent.go.set()
        answers = [answer.to_dict() for answer in await asyncio.gather(*sent)]
        assert agent.runs == 1
        assert answers == [answers[0]] * TIMES
        assert [message["parts"][0]["content"] for message in answers[0]["messages"]] == [
            "one",
            "which?",
            "this",
            "run 1",
        ]


REPLICA = """
    import asyncio, sys
    from protolink_grpc import Agent, AgentCard, AgentCapabilities, SQLiteStore

    class Counter(Agent):
        async def handle_task(self, task):
            print("run", flush=True)
            await asyncio.sleep(0.2)  # long enough for the other replica to be asked while this one works
            return task.complete("done")

    async def main():
        card = AgentCard(name="counter", description="counts", url="grpc://127.0.0.1:0",
                         capabilities=AgentCapabilities(max_concurrency=64))
        agent = Counter(card, store=SQLiteStore(sys.argv[1]))
        await agent.serve()
        print(agent.card.url, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_fifty_at_once_to_two_processes_on_one_file_are_one_run(
    tmp_path: Path, launch: Callable[..., Awaitable[Any]]
) -> None:
    replicas = [await launch(REPLICA, tmp_path / "tasks.db") for _ in range(2)]
    clients = [AgentClient(url=await replica.line()) for replica in replicas]
    for turn in range(5):
        sent = [
            clients[number % 2].send_task(None, Task.create("go"), request_id=f"same {turn}") for number in range(TIMES)
        ]
        answers = [answer.to_dict() for answer in await asyncio.gather(*sent)]
        assert answers == [answers[0]] * TIMES
        assert answers[0]["state"] == "completed"
    runs = 0
    for replica in replicas:
        await replica.kill()
        runs += (await replica.rest()).split().count("run")
    assert runs == 5
    file = SQLiteStore(tmp_path / "tasks.db")
    await file.open()
    assert (await file.find(TaskQuery("anonymous", "counter", include_total=True))).total == 5
    await file.close()


class GatedStore(MemoryStore):
    """Lets appends through when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived, self.gate = asyncio.Event(), asyncio.Event()

    async def append(self, append: Append) -> RequestRecord | None:
        self.arrived.set()
        await self.gate.wait()
        return await super().append(append)


async def test_a_repetition_does_not_end_with_the_caller_that_came_first() -> None:
    runs = 0

    async def handler(task: Task, run: object) -> Task:
        nonlocal runs
        runs += 1
        return task.complete("done")

    store = GatedStore()
    service = TaskService("counter", store, handler)
    await service.start()
    submission = Submission.of(Task.create("go"), request_id="same")
    first = asyncio.create_task(service.send(submission, "ann"))
    await store.arrived.wait()
    second = asyncio.create_task(service.send(Submission.of(Task.create("go"), request_id="same"), "ann"))
    await asyncio.sleep(0)  # one turn of the loop: the second waits for the first
    first.cancel()
    await asyncio.wait([first])
    store.gate.set()
    answer = await second
    assert answer.state is TaskState.COMPLETED
    assert (await service.send(submission, "ann")).task_id == answer.task_id
    await service.stop()
    assert runs == 1


async def test_request_ids_of_two_principals_are_two_requests() -> None:
    runs = 0

    async def handler(task: Task, run: object) -> Task:
        nonlocal runs
        runs += 1
        return task.complete("done")

    service = TaskService("counter", MemoryStore(), handler)
    await service.start()
    folds = [await service.send(Submission.of(Task.create("go"), request_id="same"), who) for who in ("ann", "bob")]
    assert runs == 2
    assert folds[0].task_id != folds[1].task_id
    await service.stop()


async def test_a_refused_request_can_be_sent_again_under_its_id(stub: Callable[[str], Any]) -> None:
    async with Counter("grpc://127.0.0.1:0") as agent:
        agent.go.set()
        calls = stub(agent.card.url)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await calls.SendTask(pb.SendTaskRequest(request_id="same"))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        task = task_input_pb2.TaskInput(messages=[task_pb2.Message(parts=[{"text": "go"}])])
        answer = await calls.SendTask(pb.SendTaskRequest(input=task, request_id="same"))
        assert answer.task.state == task_pb2.TASK_STATE_COMPLETED


async def test_the_same_request_to_two_agents_on_one_store_makes_two_tasks(store: TaskStore) -> None:
    async def handler(task: Task, run: Run) -> Task:
        return task.complete(run.agent_name)

    services = [TaskService(name, store, handler) for name in ("x", "y")]
    for each in services:
        await each.start()
    for _ in range(2):
        folds = [await each.send(Submission.of(Task.create("go"), request_id="same"), "ann") for each in services]
        assert [fold.messages[-1].text for fold in folds] == ["x", "y"]
    for each in services:
        await each.stop()
