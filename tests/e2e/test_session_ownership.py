"""A session belongs to the principal that created it: for every other one it does not exist, whatever the method."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
import pytest
from plgrpc.v1 import session_service_pb2 as pb
from plgrpc.v1 import session_service_pb2_grpc, task_pb2

from protolink_grpc import Agent, Message, Principal, ServerOptions, Task

ANN, BOB = (("authorization", "ann"),), (("authorization", "bob"),)


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("authorization")
    return Principal(name) if name else None


class Asker(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.require_input(Message.agent("which?"))


def turn_input(text: str) -> Any:
    return {"messages": [task_pb2.Message(parts=[{"text": text}])]}


@pytest.fixture
async def stub(channel: Callable[[str], grpc.aio.Channel]) -> AsyncIterator[Any]:
    """The service of an agent with a session of Ann, whose turn `one` waits for input."""
    async with Asker("asker", url="grpc://127.0.0.1:0", server=ServerOptions(authenticate=by_name)) as agent:
        stub: Any = session_service_pb2_grpc.SessionServiceStub(channel(agent.card.url))
        request = pb.SubmitTurnRequest(session_id="s", turn_id="one", input=turn_input("go"))
        await stub.SubmitTurn(request, metadata=ANN)
        stream = stub.StreamTurn(pb.StreamTurnRequest(session_id="s", turn_id="one"), metadata=ANN)
        async for _ in stream:
            pass
        yield stub


async def whole(stub: Any) -> pb.GetSessionResponse:
    return await stub.GetSession(pb.GetSessionRequest(session_id="s"), metadata=ANN)


READS_OR_CHANGES: dict[str, Any] = {
    "UpdateSession": pb.UpdateSessionRequest(session_id="s", title="mine"),
    "GetSession": pb.GetSessionRequest(session_id="s"),
    "StreamTurn": pb.StreamTurnRequest(session_id="s", turn_id="one"),
    "InterruptTurn": pb.InterruptTurnRequest(session_id="s"),
    "PromoteQueuedTurn": pb.PromoteQueuedTurnRequest(session_id="s", turn_id="one"),
    "RemoveQueuedTurn": pb.RemoveQueuedTurnRequest(session_id="s", turn_id="one"),
    "SubscribeSession": pb.SubscribeSessionRequest(session_id="s"),
    "StreamRuntimeEvents": pb.StreamRuntimeEventsRequest(session_id="s"),
    "DeleteSession": pb.DeleteSessionRequest(session_id="s"),
    "RollbackThread": pb.RollbackThreadRequest(session_id="s", turn_id="one"),
    "ResumeThread": pb.ResumeThreadRequest(session_id="s"),
    "UpdateQueuedTurn": pb.UpdateQueuedTurnRequest(
        session_id="s", turn_id="one", messages=turn_input("mine")["messages"]
    ),
}
"""A request of each method that needs an existing session."""

CREATES: dict[str, Any] = {
    "CreateSession": pb.CreateSessionRequest(session_id="s", title="mine"),
    "StartThread": pb.StartThreadRequest(session_id="s", thread_id="side"),
    "SubmitTurn": pb.SubmitTurnRequest(session_id="s", turn_id="one", input=turn_input("mine")),
    "ListSessions": pb.ListSessionsRequest(),
}
"""A request of each method that creates a session, or that lists the caller's own."""


def test_every_method_of_the_service_is_tried() -> None:
    service = pb.DESCRIPTOR.services_by_name["SessionService"]
    assert {method.name for method in service.methods} == {*READS_OR_CHANGES, *CREATES}


@pytest.mark.parametrize("method", READS_OR_CHANGES)
async def test_the_session_of_another_principal_is_not_found_and_not_changed(stub: Any, method: str) -> None:
    before = await whole(stub)
    call = getattr(stub, method)(READS_OR_CHANGES[method], metadata=BOB)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await (call.read() if method.startswith(("Stream", "Subscribe")) else call)
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.NOT_FOUND, "session s not found")
    assert await whole(stub) == before


@pytest.mark.parametrize("method", CREATES)
async def test_the_same_id_is_another_session_for_another_principal(stub: Any, method: str) -> None:
    before = await whole(stub)
    await getattr(stub, method)(CREATES[method], metadata=BOB)
    assert await whole(stub) == before
    listed = await stub.ListSessions(pb.ListSessionsRequest(), metadata=BOB)
    assert [each.turn_count for each in listed.sessions] == {"SubmitTurn": [1], "ListSessions": []}.get(method, [0])


@pytest.mark.parametrize(
    ("field", "value"),
    [("task_id", "t"), ("target", 1), ("expected_sequence", 3), ("session_id", "other")],
)
async def test_an_input_must_not_name_what_the_server_chooses(stub: Any, field: str, value: Any) -> None:
    request = pb.SubmitTurnRequest(session_id="s", input=turn_input("x") | {field: value})
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.SubmitTurn(request, metadata=ANN)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"input.{field}" in (refused.value.details() or "")
