"""A task belongs to the principal that created it: for every other one it does not exist, whatever the method of the control."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
import pytest
from plgrpc.v1 import failure_pb2, snapshot_pb2, task_control_pb2, task_control_service_pb2_grpc, task_pb2
from plgrpc.v1 import task_control_service_pb2 as pb

from protolink_grpc import Agent, Principal, ServerOptions, Task

ANN, BOB = (("authorization", "ann"),), (("authorization", "bob"),)
TASK = "the-task"


async def by_name(method: str, metadata: Mapping[str, str]) -> Principal | None:
    name = metadata.get("authorization")
    return Principal(name) if name else None


class Clerk(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete("done")


def creation(task_id: str, *links: task_control_pb2.TaskLink) -> pb.CreateTaskRequest:
    given = {"task_id": task_id, "messages": [task_pb2.Message(parts=[{"text": "x"}])]}
    return pb.CreateTaskRequest(input=given, links=links)


@pytest.fixture
async def stub(channel: Callable[[str], grpc.aio.Channel]) -> AsyncIterator[Any]:
    """The service of an agent with a draft of Ann."""
    async with Clerk("clerk", url="grpc://127.0.0.1:0", server=ServerOptions(authenticate=by_name)) as agent:
        stub: Any = task_control_service_pb2_grpc.TaskControlServiceStub(channel(agent.card.url))
        await stub.CreateTask(creation(TASK), metadata=ANN)
        yield stub


async def shown(stub: Any) -> snapshot_pb2.TaskSnapshot:
    response = await stub.GetTaskSnapshot(pb.GetTaskSnapshotRequest(task_id=TASK), metadata=ANN)
    found: snapshot_pb2.TaskSnapshot = response.snapshot
    return found


EVIDENCE = task_control_pb2.TaskLink(kind=task_control_pb2.LINK_KIND_EVIDENCE, target="report")

OF_ONE_TASK: dict[str, Any] = {
    "UpdateTask": pb.UpdateTaskRequest(task_id=TASK, metadata_json='{"a": 1}'),
    "StartTask": pb.StartTaskRequest(task_id=TASK),
    "AppendTaskProgress": pb.AppendTaskProgressRequest(task_id=TASK, progress=1),
    "PauseTask": pb.PauseTaskRequest(task_id=TASK),
    "ResumeTask": pb.ResumeTaskRequest(task_id=TASK),
    "RetryTask": pb.RetryTaskRequest(task_id=TASK),
    "CompleteTask": pb.CompleteTaskRequest(task_id=TASK),
    "FailTask": pb.FailTaskRequest(task_id=TASK, failure=failure_pb2.Failure(message="no")),
    "LinkTasks": pb.LinkTasksRequest(task_id=TASK, link=EVIDENCE),
    "UnlinkTasks": pb.UnlinkTasksRequest(task_id=TASK, link=EVIDENCE),
    "GetTaskSnapshot": pb.GetTaskSnapshotRequest(task_id=TASK),
}
"""A request of each method about one task."""

OTHERS = {"CreateTask", "ListTaskSnapshots"}


def test_every_method_of_the_service_is_tried() -> None:
    service = pb.DESCRIPTOR.services_by_name["TaskControlService"]
    assert {method.name for method in service.methods} == {*OF_ONE_TASK, *OTHERS}


@pytest.mark.parametrize("method", OF_ONE_TASK)
async def test_the_task_of_another_principal_is_not_found_and_not_changed(stub: Any, method: str) -> None:
    before = await shown(stub)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await getattr(stub, method)(OF_ONE_TASK[method], metadata=BOB)
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.NOT_FOUND, f"task {TASK} not found")
    assert await shown(stub) == before


@pytest.mark.parametrize("kind", ["LINK_KIND_PARENT", "LINK_KIND_BLOCKED_BY", "LINK_KIND_SOURCE"])
async def test_a_link_to_the_task_of_another_principal_is_not_found(stub: Any, kind: str) -> None:
    before = await shown(stub)
    link = task_control_pb2.TaskLink(kind=task_control_pb2.LinkKind.Value(kind), target=TASK)
    await stub.CreateTask(creation("own"), metadata=BOB)
    calls = [
        stub.CreateTask(creation("other", link), metadata=BOB),
        stub.LinkTasks(pb.LinkTasksRequest(task_id="own", link=link), metadata=BOB),
    ]
    for call in calls:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.NOT_FOUND, f"task {TASK} not found")
    assert await shown(stub) == before


async def test_the_id_of_another_principals_task_is_taken_and_its_list_is_empty(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.CreateTask(creation(TASK), metadata=BOB)
    assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert list((await stub.ListTaskSnapshots(pb.ListTaskSnapshotsRequest(), metadata=BOB)).snapshots) == []


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.CreateTaskRequest(input={"target": "TASK_TARGET_CONTINUE", "task_id": "t"}), "input.target"),
        (pb.CreateTaskRequest(input={"messages": [{"parts": [{}]}]}), "input.messages[0].parts[0]"),
        (creation("t", EVIDENCE, task_control_pb2.TaskLink(target="x")), "links[1].kind"),
        (pb.CreateTaskRequest(input={"expected_sequence": 3}), "input.expected_sequence"),
        (pb.StartTaskRequest(), "task_id"),
        (pb.UpdateTaskRequest(task_id=TASK, metadata_json="no"), "metadata_json"),
        (pb.CompleteTaskRequest(task_id=TASK, messages=[{"parts": [{}]}]), "messages[0].parts[0]"),
        (pb.ListTaskSnapshotsRequest(statuses=[77]), "statuses[0]"),  # type: ignore[list-item]  # on purpose
    ],
)
async def test_bad_input_names_its_field(stub: Any, request_: Any, field: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await getattr(stub, request_.DESCRIPTOR.name.removesuffix("Request"))(request_, metadata=ANN)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (refused.value.details() or "").startswith(f"{field}: ")
