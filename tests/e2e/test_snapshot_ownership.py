"""The snapshots of a session or a task belong to its principal: for every other one it does not exist."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
import pytest
from plgrpc.v1 import session_service_pb2, session_service_pb2_grpc, snapshot_service_pb2_grpc, task_pb2
from plgrpc.v1 import snapshot_service_pb2 as pb

from protolink_grpc import Agent, CapabilityPolicy, Message, Principal, SafetyConfig, ServerOptions, Task

ANN, BOB = (("authorization", "ann"),), (("authorization", "bob"),)


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("authorization")
    return Principal(name, scopes=frozenset({"money"} if name == "ann" else ())) if name else None


class Asker(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.require_input(Message.agent("which?"))


class World:
    """Ann's session `s`, whose turn waits for input, and its task."""

    def __init__(self, stub: Any, task_id: str) -> None:
        self.stub = stub
        self.task_id = task_id

    async def call(self, method: str, principal: Any) -> Any:
        request = getattr(pb, f"{method}Request")()
        if "session_id" in request.DESCRIPTOR.fields_by_name:
            request.session_id = "s"
        elif "task_id" in request.DESCRIPTOR.fields_by_name:
            request.task_id = self.task_id
        return await getattr(self.stub, method)(request, metadata=principal)


@pytest.fixture
async def world(channel: Callable[[str], grpc.aio.Channel]) -> AsyncIterator[World]:
    policy = CapabilityPolicy({"pay": {"effect": "allow", "scopes": ["money"]}})
    options = ServerOptions(authenticate=by_name)
    agent = Asker("asker", url="grpc://127.0.0.1:0", server=options, safety=SafetyConfig(policy=policy))

    @agent.tool(capabilities=["pay"])
    def pay() -> str:
        """Pay."""
        return "paid"

    async with agent:
        sessions: Any = session_service_pb2_grpc.SessionServiceStub(channel(agent.card.url))
        given: Any = {"messages": [task_pb2.Message(parts=[{"text": "go"}])]}
        request = session_service_pb2.SubmitTurnRequest(session_id="s", turn_id="one", input=given)
        turn = (await sessions.SubmitTurn(request, metadata=ANN)).turn
        stream = session_service_pb2.StreamTurnRequest(session_id="s", turn_id="one")
        async for _ in sessions.StreamTurn(stream, metadata=ANN):
            pass
        yield World(snapshot_service_pb2_grpc.SnapshotServiceStub(channel(agent.card.url)), turn.task_id)


OWNED = {
    "GetSessionSnapshot": "session s not found",
    "GetThreadSnapshot": "session s not found",
    "GetQueueSnapshot": "session s not found",
    "GetContextBoundary": "task {} not found",
    "GetArtifacts": "task {} not found",
    "GetEvidence": "task {} not found",
}
"""The error of each method that needs a session or a task."""


def test_every_method_of_the_service_is_tried() -> None:
    service = pb.DESCRIPTOR.services_by_name["SnapshotService"]
    assert {method.name for method in service.methods} == {*OWNED, "GetToolInventory"}


@pytest.mark.parametrize("method", OWNED)
async def test_the_owner_gets_a_snapshot_and_another_principal_gets_not_found(world: World, method: str) -> None:
    assert (await world.call(method, ANN)).HasField("snapshot")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await world.call(method, BOB)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert refused.value.details() == OWNED[method].format(world.task_id)


async def test_the_inventory_has_the_effects_for_its_caller(world: World) -> None:
    effects = []
    for principal in (ANN, BOB):
        (entry,) = (await world.call("GetToolInventory", principal)).snapshot.tools
        effects.append(entry.tool.effect)
    allowed, denied = effects
    assert (allowed, denied) == (1, 2)
