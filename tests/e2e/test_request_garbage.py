"""A request leaves no cyclic garbage: all of its objects are freed by reference counting, none by the garbage collector."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc.aio
import pytest
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc, part_pb2, task_input_pb2, task_pb2

from protolink_grpc import Agent, AgentCard, AgentClient, MemoryStore, SQLiteStore, Task
from protolink_grpc.storage.port import TaskStore

REQUESTS = 50

OF_GRPCIO = 5
"""Objects that grpcio itself leaves in a cycle for each call: its search for the handler is a function that refers to itself."""


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete(task.messages[-1].parts[0].content)


class BareServicer(agent_service_pb2_grpc.AgentServiceServicer):
    async def SendTask(self, request: pb.SendTaskRequest, context: object) -> pb.SendTaskResponse:
        return pb.SendTaskResponse(task=task_pb2.Task(id="bare"))


def request() -> pb.SendTaskRequest:
    message = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER, parts=[part_pb2.Part(text="hello")])
    return pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[message]))


async def garbage_of(call: Callable[[], Awaitable[object]]) -> Counter[str]:
    """Types of the objects that the collector finds after `REQUESTS` calls."""
    for _ in range(3):
        await call()
    await asyncio.sleep(0)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(REQUESTS):
            await call()
        await asyncio.sleep(0)
        gc.collect()
        return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


@asynccontextmanager
async def bare_server() -> AsyncIterator[str]:
    server = grpc.aio.server()
    handlers = {
        "SendTask": grpc.unary_unary_rpc_method_handler(
            BareServicer().SendTask, pb.SendTaskRequest.FromString, pb.SendTaskResponse.SerializeToString
        )
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("plgrpc.v1.AgentService", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def sends(target: str) -> Counter[str]:
    async with grpc.aio.insecure_channel(target) as channel:
        stub = agent_service_pb2_grpc.AgentServiceStub(channel)
        return await garbage_of(lambda: stub.SendTask(request()))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: object) -> TaskStore:
    return MemoryStore() if request.param == "memory" else SQLiteStore(f"{tmp_path}/tasks.db")


async def test_a_request_in_process_leaves_no_cyclic_garbage(store: TaskStore) -> None:
    async with Echo(AgentCard(name="echo", description="echoes", url="runtime://garbage"), store=store) as agent:
        client = AgentClient("runtime")
        found = await garbage_of(lambda: client.send_task(agent.card.url, Task.create("hello")))
    assert not found


async def test_a_request_over_grpc_leaves_no_cyclic_garbage_but_that_of_grpcio(store: TaskStore) -> None:
    async with bare_server() as target:
        floor = await sends(target)
    async with Echo(AgentCard(name="echo", description="echoes", url="grpc://127.0.0.1:0"), store=store) as agent:
        found = await sends(agent.card.url.removeprefix("grpc://"))
    assert floor.total() == OF_GRPCIO * REQUESTS
    assert found == floor
