"""A task belongs to the principal that sent it. For others it does not exist, over every method."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from plgrpc.v1 import agent_service_pb2 as pb
from plgrpc.v1 import task_input_pb2, task_pb2

from protolink_grpc import (
    Agent,
    AgentClient,
    HttpOptions,
    Message,
    Principal,
    ServerOptions,
    Task,
    current_run,
)
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.storage.port import TaskStore

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
            case "SendTask to continue":
                return pb.SendTaskRequest(input={"task_id": task_id, "messages": [message]})
            case "SendTask to continue from a sequence":
                return pb.SendTaskRequest(input={"task_id": task_id, "messages": [message], "expected_sequence": 1})
            case "SendTask to create or continue":
                return pb.SendTaskRequest(input={"task_id": task_id, "messages": [message], "target": EITHER})
            case "SendTask to create":
                return pb.SendTaskRequest(input={"task_id": task_id, "messages": [message], "target": CREATE})
            case "StreamTask to create":
                return pb.StreamTaskRequest(input={"task_id": task_id, "messages": [message], "target": CREATE})
            case "StreamTask to continue":
                return pb.StreamTaskRequest(input={"task_id": task_id, "messages": [message]})
            case "StreamTask to create or continue":
                return pb.StreamTaskRequest(input={"task_id": task_id, "messages": [message], "target": EITHER})
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
        assert info.domain == "protolink-grpc.github.io"
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


EITHER, CREATE = task_input_pb2.TASK_TARGET_CREATE_OR_CONTINUE, task_input_pb2.TASK_TARGET_CREATE
CONTINUING = (
    "SendTask to continue",
    "SendTask to create or continue",
    "StreamTask to continue",
    "StreamTask to create or continue",
)
VERBS = (
    "SendTask to continue",
    "SendTask to continue from a sequence",
    "StreamTask to continue",
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


@pytest.mark.parametrize("verb", [*VERBS, *CONTINUING])
async def test_someone_elses_task_looks_exactly_like_an_unknown_one(world: World, verb: str) -> None:
    for task_id in (world.waiting, world.finished):
        assert await world.reason(verb, task_id, BOB) == NOT_FOUND
    # And nothing happened to it.
    (answer,) = await world.call("GetTask", world.waiting, ANN)
    assert answer.task.state == task_pb2.TASK_STATE_INPUT_REQUIRED
    assert answer.task.message_count == 2


@pytest.mark.parametrize("method", ["SendTask", "StreamTask"])
async def test_a_task_under_a_taken_id_is_not_created_and_the_answer_does_not_tell_whose_it_is(
    world: World, method: str
) -> None:
    for task_id in (world.waiting, world.finished):
        refusals = [await world.reason(f"{method} to create", task_id, who) for who in (ANN, BOB)]
        said = "there is a task T already; continue it, or choose another id"
        assert refusals == [(grpc.StatusCode.ALREADY_EXISTS, "TASK_ALREADY_EXISTS", said)] * 2
    (answer,) = await world.call("GetTask", world.waiting, ANN)
    assert (answer.task.state, answer.task.message_count) == (task_pb2.TASK_STATE_INPUT_REQUIRED, 2)


async def test_a_list_shows_the_callers_tasks_only(world: World) -> None:
    for who, expected in ((ANN, {world.waiting, world.finished}), (BOB, set())):
        listed = await world.stub.ListTasks(pb.ListTasksRequest(include_total=True), metadata=who)
        assert {task.id for task in listed.tasks} == expected
        assert listed.total_size == len(expected)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not verb.startswith(("Send", "Stream"))])
async def test_an_unknown_caller_is_unauthenticated(world: World, verb: str) -> None:
    code, reason, _ = await world.reason(verb, world.waiting, ())
    assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


@pytest.mark.parametrize("verb", CONTINUING)
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


@pytest.mark.parametrize("verb", CONTINUING)
async def test_the_owner_continues_a_waiting_task_whatever_the_method(world: World, verb: str) -> None:
    await world.call(verb, world.waiting, ANN)
    (answer,) = await world.call("GetTask", world.waiting, ANN)
    assert answer.task.state == task_pb2.TASK_STATE_COMPLETED


async def test_a_request_id_of_someone_else_reveals_nothing(world: World) -> None:
    message = task_pb2.Message(parts=[{"text": "mine"}])
    request = pb.SendTaskRequest(input={"messages": [message]}, request_id="secret")
    by_ann = await world.stub.SendTask(request, metadata=ANN)
    by_bob = await world.stub.SendTask(request, metadata=BOB)
    assert by_ann.task.id != by_bob.task.id


# -- sessions ------------------------------------------------------------------------------------------------------------


class Confidant(Agent):
    """Answers with all that it remembers of the session, and lets a peer remember it, too."""

    confidant = ""

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        assert self.state is not None
        memory = self.state.of(run.principal).conversation
        assert memory is not None
        await memory.remember(run.session_id, task.id, [LLMMessage("user", task.messages[-1].text)])
        words = [str(each.content) for each in await memory.history(run.session_id)]
        if self.confidant:
            words.append((await self.peer(self.confidant).send_message(task.messages[-1].text)).text)
        return task.complete(" ".join(words))


def confidant(name: str, url: str = "grpc://127.0.0.1:0", **more: Any) -> Confidant:
    return Confidant(name=name, description="remembers", url=url, state="conversation", **more)


@pytest.fixture
async def listener(store: TaskStore) -> AsyncIterator[Confidant]:
    """An agent that remembers, over gRPC and A2A."""
    async with confidant("listener", store=store, http=HttpOptions(), authenticator=by_name) as agent:
        yield agent


def callers(agent: Agent, transport: str) -> tuple[AgentClient, AgentClient]:
    """Ann and Bob."""
    web = next(each.url for each in agent.card.interfaces if each.url.startswith("http"))
    url = agent.card.url if transport == "grpc" else web
    ann, bob = (AgentClient(transport, url, timeout=20.0, metadata=metadata) for metadata in (ANN, BOB))
    return ann, bob


async def told(client: AgentClient, text: str, session_id: str) -> str:
    task = await client.send_task(None, Task.create(text, session_id=session_id))
    assert task.session_id == session_id
    return task.raise_for_status().get_last_part_content()


@pytest.mark.parametrize("transport", ["grpc", "a2a", "http"])
async def test_a_session_id_of_someone_else_is_as_new_as_any(listener: Confidant, transport: str) -> None:
    ann, bob = callers(listener, transport)
    assert await told(ann, "mine", "trip") == "mine"
    assert await told(bob, "his", "trip") == "his"
    assert await told(ann, "too", "trip") == "mine too"
    # ProtoLink's own protocol lists no tasks.
    for client, known in zip(callers(listener, "grpc" if transport == "http" else transport), (2, 1), strict=True):
        page = await client.list_tasks(session_id="trip")
        assert len(page.tasks) == known
        assert {task.session_id for task in page.tasks} == {"trip"}


async def test_a_task_may_be_named_like_someone_elses_session(listener: Confidant) -> None:
    ann, bob = callers(listener, "grpc")
    assert await told(ann, "mine", "trip") == "mine"
    task = await bob.send_task(None, Task(id="trip", messages=[Message.user("his")]))
    assert (task.session_id, task.get_last_part_content()) == ("trip", "his")
    (known,) = (await ann.list_tasks(session_id="trip")).tasks
    assert known.id != "trip"


async def test_what_is_remembered_of_a_session_id_is_described_and_reset_for_each_owner(listener: Confidant) -> None:
    ann, bob = callers(listener, "grpc")
    await told(ann, "mine", "trip")
    await told(bob, "his", "trip")
    await told(bob, "too", "trip")
    for client, known in ((ann, 1), (bob, 2)):
        (found,) = (await client.describe_state(session_id="trip", stores=["conversation"])).stores
        assert found.message_count == known
    await bob.reset_state(session_id="trip")
    assert await told(bob, "again", "trip") == "again"
    assert await told(ann, "too", "trip") == "mine too"


# -- and what an agent delegates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:0", "runtime://friend"])
async def test_owners_with_one_session_id_do_not_meet_in_what_an_agent_delegates(store: TaskStore, url: str) -> None:
    # For the friend both are the listener, an anonymous caller that owns its delegated tasks.
    async with (
        confidant("friend", url) as friend,
        confidant("listener", store=store, http=HttpOptions(), authenticator=by_name) as listener,
    ):
        listener.confidant = friend.card.url
        ann, bob = callers(listener, "grpc")
        assert await told(ann, "mine", "trip") == "mine mine"
        assert await told(bob, "his", "trip") == "his his"
        assert await told(ann, "too", "trip") == "mine too mine too"  # and it is one session there, too
        local = AgentClient(url=friend.card.url)
        assert await told(local, "nothing", "trip") == "nothing"


async def test_nobodys_session_is_not_that_of_the_agent_that_delegates(store: TaskStore) -> None:
    # The friend knows the listener by its name, the listener does not know who calls.
    async with (
        confidant("friend", authenticator=by_name) as friend,
        confidant("listener", store=store, metadata=BOB, trusted_peers=[friend.card.url]) as listener,
    ):
        listener.confidant = friend.card.url
        assert await told(AgentClient(url=listener.card.url), "anybody's", "trip") == "anybody's anybody's"
        own = await listener.run_task(Task.create("own", session_id="trip"))
        assert own.get_last_part_content() == "own own"
        direct = AgentClient(url=friend.card.url, metadata=BOB)
        assert await told(direct, "direct", "trip") == "direct"


async def test_nobodys_session_keeps_its_name_where_nobody_has_one() -> None:
    async with confidant("friend") as friend, confidant("listener") as listener:
        listener.confidant = friend.card.url
        assert await told(AgentClient(url=listener.card.url), "one", "trip") == "one one"
        (child,) = (await AgentClient(url=friend.card.url).list_tasks()).tasks
        assert child.session_id == "trip"
        own = await listener.run_task(Task.create("two", session_id="trip"))
        assert own.get_last_part_content() == "two two"  # tasks of this process belong to no anonymous caller
