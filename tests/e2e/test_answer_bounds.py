"""Answers about large tasks over real sockets, read by a bare stub with gRPC's default limits."""

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest
from plgrpc.v1 import agent_service_pb2, agent_service_pb2_grpc, control_service_pb2, control_service_pb2_grpc, part_pb2

from protolink_grpc import Agent, AgentClient, Artifact, Part, Task
from protolink_grpc.client.channel import close_channels

SIZE = 10 << 20
"""Of a whole task."""

LARGEST = 7 << 19
"""Of one text: an event has at most 4 MiB."""


class Large(Agent):
    """Answers with as much as the text says."""

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        match task.messages[-1].text:
            case "artifacts":
                for _ in range(20):
                    yield Artifact(parts=[Part.text("x" * (SIZE // 20))])
                task.complete("done")
            case "artifact":
                yield Artifact(parts=[Part.text("x" * LARGEST)])
                task.complete("done")
            case "metadata":
                task.metadata["large"] = "x" * LARGEST
                task.complete("done")
            case _:
                task.complete("x" * LARGEST)


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    large = Large(name="large", description="Says much.", url="grpc://127.0.0.1:0")

    @large.tool
    def much() -> str:
        """Return much."""
        return "x" * LARGEST

    async with large:
        yield large
        await close_channels()


@pytest.mark.parametrize("what", ["artifacts", "artifact", "metadata", "message"])
async def test_a_bare_stub_reads_every_answer_and_our_client_has_the_whole_task(agent: Agent, what: str) -> None:
    client = AgentClient(url=agent.card.url)
    sent = await client.send_task(None, Task.create(what))
    whole = await client.get_task(sent.id)
    assert whole.to_dict() == sent.to_dict()
    assert len(str(whole.to_dict())) > (SIZE if what == "artifacts" else LARGEST)
    async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
        stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        for view in ("TASK_VIEW_HEADER", "TASK_VIEW_TURN", "TASK_VIEW_FULL"):
            task = (await stub.GetTask(agent_service_pb2.GetTaskRequest(task_id=sent.id, view=view))).task
            listed = (await stub.ListTasks(agent_service_pb2.ListTasksRequest(view=view))).tasks
            assert (task.message_count, len(listed)) == (2, 1)
        assert task.messages[-1].id == whole.messages[-1].id
        assert task.omitted or task.first_artifact


async def test_a_large_result_of_a_tool_is_read_from_its_task(agent: Agent) -> None:
    assert len(await AgentClient(url=agent.card.url).call_tool(None, "much", task_id="t")) == LARGEST
    async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
        stub: Any = control_service_pb2_grpc.ControlServiceStub(channel)
        call = control_service_pb2.CallToolRequest(call=part_pb2.ToolCall(tool_name="much"))
        called = await stub.CallTool(call)
        assert called.task_id
        assert not called.HasField("output")


async def test_a_report_and_an_export_come_in_pieces(agent: Agent) -> None:
    client = AgentClient(url=agent.card.url)
    task = await client.send_task(None, Task.create("artifacts"))
    report = await client.get_run_report(None, task.id)
    assert [event.sequence for event in report.events] == list(range(1, len(report.events) + 1))
    assert report.events[-1].final
    lines = [line async for line in client.export_task(None, task.id)]
    assert len(lines) == len(report.events)
    async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
        stub: Any = control_service_pb2_grpc.ControlServiceStub(channel)
        request = control_service_pb2.GetRunReportRequest(task_id=task.id)
        pieces = [each.piece async for each in stub.GetRunReport(request)]
        assert max(len(piece.encode()) for piece in pieces) <= 1 << 20 < sum(map(len, pieces))
        data = [each async for each in stub.ExportTask(control_service_pb2.ExportTaskRequest(task_id=task.id))]
        assert {each.media_type for each in data} == {"application/x-ndjson"}
        assert all(each.data.endswith(b"\n") for each in data)
        assert b"".join(each.data for each in data).decode().splitlines() == lines


@pytest.mark.parametrize("field", ["max_messages", "before_message", "before_artifact"])
async def test_a_negative_bound_is_refused(agent: Agent, field: str) -> None:
    async with grpc.aio.insecure_channel(agent.card.url.removeprefix("grpc://")) as channel:
        stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        request = agent_service_pb2.GetTaskRequest(task_id="t", **{field: -1})
        with pytest.raises(grpc.aio.AioRpcError, match=f"{field}: must be at least 0"):
            await stub.GetTask(request)
