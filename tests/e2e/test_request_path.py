"""How many of our files a SendTask passes: the number is held, so that no layer grows that only forwards."""

import asyncio
import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import grpc.aio
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc, part_pb2, task_input_pb2, task_pb2

import protolink_grpc
from protolink_grpc import Agent, AgentCard, MemoryStore, Task

PACKAGE = Path(protolink_grpc.__file__).parent

MOST_FILES = 8


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete(task.messages[-1].parts[0].content)


def request() -> pb.SendTaskRequest:
    message = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER, parts=[part_pb2.Part(text="hello")])
    return pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[message]))


async def controlling_files() -> set[str]:
    """Files of the package that control one SendTask over gRPC: one of their coroutines runs for it.

    A request is a chain of coroutines that await each other, so these are the files that a reader has to follow. Files whose
    functions are called and return (values, codecs, tables, counters) pass no control on.
    """
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_flags & inspect.CO_COROUTINE and path.is_relative_to(PACKAGE):
            found.add(str(path.relative_to(PACKAGE)))

    card = AgentCard(name="echo", description="echoes", url="grpc://127.0.0.1:0")
    async with (
        Echo(card, store=MemoryStore()) as agent,
        grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel,
    ):
        stub = agent_service_pb2_grpc.AgentServiceStub(channel)
        await stub.SendTask(request())
        await asyncio.sleep(0.05)  # what the first request set in motion must not be counted with the second
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await stub.SendTask(request())
        finally:
            sys.setprofile(before)
    return found


async def test_control_of_a_send_passes_at_most_eight_files() -> None:
    found = await controlling_files()
    assert {"edges/grpc/binding.py", "runtime/service.py", "runtime/run.py", "runtime/log.py"} <= found
    assert len(found) <= MOST_FILES, sorted(found)
