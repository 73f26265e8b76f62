"""A task belongs to the principal that sent it: to anyone else it does not exist, whatever they try."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from protolink_pb.v1 import agent_service_pb2 as pb
from protolink_pb.v1 import task_pb2

from protolink_grpc import Agent, AgentClient, Message, Principal, ServerOptions, Task
from protolink_grpc.store.port import TaskStore

Stub = Any
ANN, BOB = (("authorization", "ann"),), (("authorization", "bob"),)


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("authorization")
    return Principal(name) if name else None


class Asker(Agent):
    """Asks once, then is content."""

    async def handle_task(self, task: Task) -> Task:
        if len(task.messages) == 1:
            return task.require_input(Message.agent("which?"))
        return task.complete("fine")


@dataclass
class World:
    """An agent, Ann's task that waits for input, and Ann's task that is finished."""

    stub: Stub
    waiting: str
    finished: str

    def request(self, verb: str, task_id: str) -> Any:
        message = task_pb2.Message(parts=[{"text": "further"}])
        match verb:
            case "SendTask by task_id":
                return pb.SendTaskRequest(task_id=task_id, task={"messages": [message]})
            case "SendTask by task.id":
                return pb.SendTaskRequest(task={"id": task_id, "messages": [message]})
            case "StreamTask by task_id":
                return pb.StreamTaskRequest(task_id=task_id, task={"messages": [message]})
            case "StreamTask by task.id":
                return pb.StreamTaskRequest(task={"id": task_id, "messages": [message]})
            case "GetTask":
                return pb.GetTaskRequest(task_id=task_id)
            case "GetTask header":
                return pb.GetTaskRequest(task_id=task_id, view=task_pb2.TASK_VIEW_HEADER)
            case "SubscribeTask":
                return pb.SubscribeTaskRequest(task_id=task_id, stop_at=pb.STOP_AT_CURRENT)
            case "SubscribeTask beyond the end":
                return pb.SubscribeTaskRequest(task_id=task_id, after_sequence=1000)
            case "CancelTask":
                return pb.CancelTaskRequest(task_id=task_id)
        raise AssertionError(verb)

    async def call(self, verb: str, task_id: str, who: Any) -> list[Any]:
        method = verb.split()[0]
        call = getattr(self.stub, method)(self.request(verb, task_id), metadata=who)
        if method in ("StreamTask", "SubscribeTask"):
            return [event async for response in call for event in response.events]
        return [await call]

    async def reason(self, verb: str, task_id: str, who: Any) -> tuple[grpc.StatusCode, str, str]:
        """Code, reason and sentence of the error that the call must end with."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.call(verb, task_id, who)
        info = error_details_pb2.ErrorInfo()
        assert rpc_status.from_call(caught.value).details[0].Unpack(info)
        assert info.domain == "protolink.dev"
        return caught.value.code(), info.reason, (caught.value.details() or "").replace(task_id, "T")


@pytest.fixture
async def world(store: TaskStore, stub: Callable[[str], Stub]) -> AsyncIterator[World]:
    agent = Asker(
        name="asker",
        description="asks",
        url="grpc://127.0.0.1:0",
        store=store,
        server=ServerOptions(authenticate=by_name),
    )
    async with agent:
        ann = AgentClient(url=agent.card.url, metadata=ANN)
        waiting = await ann.send_task(None, Task.create("one"))
        finished = await ann.send_task(None, Task.create("two"))
        finished.add_message(Message.user("go"))
        await ann.send_task(None, finished)
        yield World(stub(agent.card.url), waiting.id, finished.id)


VERBS = (
    "SendTask by task_id",
    "StreamTask by task_id",
    "GetTask",
    "GetTask header",
    "SubscribeTask",
    "SubscribeTask beyond the end",
    "CancelTask",
)
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND", "task T not found")


@pytest.mark.parametrize("verb", VERBS)
async def test_an_unknown_task_is_not_found(world: World, verb: str) -> None:
    assert await world.reason(verb, "no-such-task", ANN) == NOT_FOUND


@pytest.mark.parametrize("verb", [*VERBS, "SendTask by task.id", "StreamTask by task.id"])
async def test_someone_elses_task_looks_exactly_like_an_unknown_one(world: World, verb: str) -> None:
    for task_id in (world.waiting, world.finished):
        assert await world.reason(verb, task_id, BOB) == NOT_FOUND
    # And nothing happened to it.
    (answer,) = await world.call("GetTask", world.waiting, ANN)
    assert answer.task.state == task_pb2.TASK_STATE_INPUT_REQUIRED
    assert answer.task.message_count == 2


async def test_a_list_shows_the_callers_tasks_only(world: World) -> None:
    for who, expected in ((ANN, {world.waiting, world.finished}), (BOB, set())):
        listed = await world.stub.ListTasks(pb.ListTasksRequest(), metadata=who)
        assert {task.id for task in listed.tasks} == expected
        assert listed.total_size == len(expected)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not verb.startswith(("Send", "Stream"))])
async def test_an_unknown_caller_is_unauthenticated(world: World, verb: str) -> None:
    code, reason, _ = await world.reason(verb, world.waiting, ())
    assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    "verb", ["SendTask by task_id", "SendTask by task.id", "StreamTask by task_id", "StreamTask by task.id"]
)
async def test_a_finished_task_takes_no_further_message(world: World, verb: str) -> None:
    code, reason, text = await world.reason(verb, world.finished, ANN)
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TASK_FINISHED")
    assert "completed" in text
    (answer,) = await world.call("GetTask", world.finished, ANN)
    assert answer.task.message_count == 4


async def test_a_finished_task_cannot_be_canceled(world: World) -> None:
    code, reason, _ = await world.reason("CancelTask", world.finished, ANN)
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TASK_NOT_CANCELABLE")


async def test_a_finished_task_can_still_be_read_and_watched(world: World) -> None:
    (answer,) = await world.call("GetTask", world.finished, ANN)
    assert answer.task.state == task_pb2.TASK_STATE_COMPLETED
    events = await world.call("SubscribeTask", world.finished, ANN)
    assert [event.sequence for event in events] == list(range(1, answer.task.sequence + 1))


@pytest.mark.parametrize(
    "verb", ["SendTask by task_id", "SendTask by task.id", "StreamTask by task_id", "StreamTask by task.id"]
)
async def test_the_owner_continues_a_waiting_task_whatever_the_method(world: World, verb: str) -> None:
    await world.call(verb, world.waiting, ANN)
    (answer,) = await world.call("GetTask", world.waiting, ANN)
    assert answer.task.state == task_pb2.TASK_STATE_COMPLETED


async def test_a_request_id_of_someone_else_reveals_nothing(world: World) -> None:
    message = task_pb2.Message(parts=[{"text": "mine"}])
    request = pb.SendTaskRequest(task={"messages": [message]}, request_id="secret")
    by_ann = await world.stub.SendTask(request, metadata=ANN)
    by_bob = await world.stub.SendTask(request, metadata=BOB)
    assert by_ann.task.id != by_bob.task.id
