"""The number of files that a SendTask passes has a limit, so that no layer is added that only forwards."""

import asyncio
import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import grpc.aio
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import agent_service_pb2_grpc, part_pb2, task_input_pb2, task_pb2

import protolink_grpc
from protolink_grpc import Agent, AgentCard, MemoryStore, Task

PACKAGE = Path(protolink_grpc.__file__).parent

MOST_CONTROLLING, MOST_FILES = 8, 33
"""Bounds of the two numbers; docs/adr/0027 names them."""


class Echo(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete(task.messages[-1].parts[0].content)


def request() -> pb.SendTaskRequest:
    message = task_pb2.Message(role=task_pb2.MESSAGE_ROLE_USER, parts=[part_pb2.Part(text="hello")])
    return pb.SendTaskRequest(input=task_input_pb2.TaskInput(messages=[message]))


class Passed(NamedTuple):
    """Files of the package that one SendTask over gRPC passes on the server.

    A request is a chain of coroutines that await each other, so the files with a coroutine control it: a reader has to follow them.
    In the other files, functions are called and return (values, codecs, tables, counters).
    """

    controlling: set[str]
    all: set[str]


async def pass_files(stub: agent_service_pb2_grpc.AgentServiceStub) -> Passed:
    passed = Passed(set(), set())

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = str(path.relative_to(PACKAGE))
            passed.all.add(name)
            if frame.f_code.co_flags & inspect.CO_COROUTINE:
                passed.controlling.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await stub.SendTask(request())
    finally:
        sys.setprofile(before)
    return passed


async def test_a_send_passes_no_more_files_than_the_record_says() -> None:
    card = AgentCard(name="echo", description="echoes", url="grpc://127.0.0.1:0")
    async with (
        Echo(card, store=MemoryStore()) as agent,
        grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel,
    ):
        stub = agent_service_pb2_grpc.AgentServiceStub(channel)
        await stub.SendTask(request())
        await asyncio.sleep(0.05)  # what the first request set in motion must not be counted with the others
        # The smallest of three: a heartbeat may fall into one of them.
        controlling, everything = min([await pass_files(stub) for _ in range(3)], key=lambda passed: len(passed.all))
    assert {"edges/grpc/binding.py", "runtime/service.py", "runtime/run.py", "runtime/log.py"} <= controlling
    assert len(controlling) <= MOST_CONTROLLING, sorted(controlling)
    assert len(everything) <= MOST_FILES, sorted(everything)
