"""Reports, exports and replays of agents that run: over gRPC and in process, from a stream and from a store."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from protolink_pb.v1 import control_service_pb2 as pb
from protolink_pb.v1 import control_service_pb2_grpc

from protolink_grpc import (
    Agent,
    AgentClient,
    Message,
    Principal,
    RunContext,
    RunEvent,
    ServerOptions,
    StopAt,
    Task,
    TaskNotFoundError,
    TaskProgress,
    TaskState,
)
from protolink_grpc.client.channel import close_channels
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.policy.redaction import RedactionPolicy
from protolink_grpc.reports import (
    InMemoryEventSink,
    RunRecorder,
    RunReplay,
    RunReport,
    SQLiteRunStore,
    assert_budget_under,
    assert_no_denied_actions,
    assert_run_events,
)

URLS = {"grpc": "grpc://127.0.0.1:0", "runtime": "runtime://reporter"}
each_transport = pytest.mark.parametrize("transport", URLS)


def booking(url: str, **more: Any) -> Agent:
    agent = Agent(name="reporter", url=url, **more)

    @agent.tool
    def book(nights: int, password: str = "") -> dict[str, Any]:
        """Book a room."""
        if nights < 1:
            raise ValueError("at least one night")
        return {"nights": nights, "token": password}

    return agent


class Asking(Agent):
    """Asks once, and reports a lot."""

    progress = 2

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        for step in range(self.progress):
            yield TaskProgress(float(step % 100), "on")
        if len(task.messages) == 1:
            task.require_input(Message.agent("which city?"))
        else:
            task.complete("booked")


@asynccontextmanager
async def serving(agent: Agent) -> AsyncIterator[AgentClient]:
    async with agent:
        yield AgentClient(url=agent.card.url)
        await close_channels()


async def _known(method: str, metadata: Any) -> Principal | None:
    name = metadata.get("authorization", "")
    return Principal(name) if name else None


# -- the documented snippets ---------------------------------------------------------------------------------------------


async def test_the_golden_run_of_a_tool_call() -> None:
    agent = booking(URLS["runtime"])
    task = Task.create_tool_call("book", {"nights": 2})
    RunContext(run_id="run_golden", session_id="session_golden").attach_to_task(task)
    async with agent:
        sink = InMemoryEventSink()
        async for event in agent.handle_task_streaming(task):
            await sink.emit_task_event(event, context=RunContext.from_task(task))
    found = sink.to_list()
    assert [item["sequence"] for item in found] == list(range(1, len(found) + 1))
    assert [item["final"] for item in found] == [False] * (len(found) - 1) + [True]
    assert {event.session_id for event in sink.events} == {"session_golden"}
    assert_run_events(found, ["task.submitted", "task.status", "action.started", "action.completed", "task.status"])


async def test_a_recorded_stream_becomes_a_report_that_can_be_kept_and_replayed(tmp_path: Path) -> None:
    agent = booking(URLS["runtime"])
    task = Task.create_tool_call("book", {"nights": 2, "password": "hunter2"})
    context = RunContext.from_task(task)
    recorder = RunRecorder(context=context)
    async with agent:
        async for task_event in agent.handle_task_streaming(task):
            await recorder.record_task_event(task_event)
    report = recorder.to_report(metadata={"source": "integration-test"})
    assert (report.context, report.metadata) == (context, {"source": "integration-test"})
    assert report.final_task is not None
    assert report.final_task.state == TaskState.COMPLETED

    safe_json = report.to_dict(redaction_policy=RedactionPolicy())
    assert "hunter2" not in json.dumps(safe_json)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(safe_json))
    for replay in (RunReplay(safe_json), RunReplay(path)):
        assert_run_events(replay, ["action.started", "action.completed"])
        assert_no_denied_actions(replay)
        assert assert_budget_under(replay, max_total_tokens=8_000).tool_calls == 1


# -- reports of an agent -------------------------------------------------------------------------------------------------


@each_transport
async def test_an_agents_report_is_that_of_its_stream_without_secrets(transport: str) -> None:
    async with serving(booking(URLS[transport])) as client:
        task = Task.create_tool_call("book", {"nights": 2, "password": "hunter2"})
        streamed = [event async for event in client.send_task_streaming(None, task)]
        report = await client.get_run_report(None, task.id)
    expected = RunReport.from_events(streamed).redacted()
    assert report.to_dict() | {"created_at": ""} == expected.to_dict() | {"created_at": ""}
    assert "hunter2" not in report.to_json()
    (action,) = report.actions
    assert (action.name, action.outcome, action.starts) == ("book", "completed", 1)
    assert action.duration_micros is not None


@each_transport
async def test_a_failed_tool_is_told_with_its_error(transport: str) -> None:
    async with serving(booking(URLS[transport])) as client:
        task = await client.send_task(None, Task.create_tool_call("book", {"nights": 0}))
        report = await client.get_run_report(None, task.id)
    assert report.actions[-1].outcome == "failed"
    assert "at least one night" in str(report.actions[-1].error)
    assert report.final_task is not None
    assert report.final_task.state == TaskState.FAILED


@each_transport
async def test_a_report_is_on_the_latest_run_or_on_the_one_that_is_named(transport: str) -> None:
    async with serving(Asking(name="reporter", url=URLS[transport])) as client:
        task = await client.send_task(None, Task.create("a room"))
        first = await client.get_run_report(None, task.id)
        await client.send_task(None, task.add_message(Message.user("Lyon")))
        latest = await client.get_run_report(None, task.id)
        again = await client.get_run_report(None, task.id, first.run_id)
        with pytest.raises(TaskNotFoundError, match="has no run"):
            await client.get_run_report(None, task.id, "another")
    assert latest.run_id != first.run_id == again.run_id
    assert {event.run_id for event in latest.events} == {latest.run_id}
    assert [event.sequence for event in again.events] == [event.sequence for event in first.events]
    assert latest.final_task is not None
    assert again.final_task is not None
    assert (again.final_task.state, latest.final_task.state) == (TaskState.INPUT_REQUIRED, TaskState.COMPLETED)


@each_transport
async def test_a_task_that_nobody_knows_has_no_report_and_no_export(transport: str) -> None:
    async with serving(booking(URLS[transport])) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_run_report(None, "none")
        with pytest.raises(TaskNotFoundError):
            [line async for line in client.export_run(None, "none")]


async def test_somebody_elses_task_does_not_exist() -> None:
    agent = booking(URLS["grpc"], server=ServerOptions(authenticate=_known))
    async with agent:
        url = agent.card.url
        ada = AgentClient(url=url, metadata=[("authorization", "ada")])
        bob = AgentClient(url=url, metadata=[("authorization", "bob")])
        task = await ada.send_task(None, Task.create_tool_call("book", {"nights": 2}))
        assert (await ada.get_run_report(None, task.id)).task_id == task.id
        with pytest.raises(TaskNotFoundError):
            await bob.get_run_report(None, task.id)
        with pytest.raises(TaskNotFoundError):
            [line async for line in bob.export_run(None, task.id)]
        await close_channels()


async def test_a_report_needs_the_id_of_a_task(channel: Any) -> None:
    async with booking(URLS["grpc"]) as agent:
        stub: Any = control_service_pb2_grpc.ControlServiceStub(channel(agent.card.url))
        for call in (stub.GetRunReport(pb.GetRunReportRequest()), stub.ExportRun(pb.ExportRunRequest()).read()):
            with pytest.raises(Exception, match="task_id"):
                await call


def test_the_synchronous_client_reports_and_exports() -> None:
    agent = booking(URLS["grpc"])
    agent.start(background=True)
    try:
        client = AgentClient(url=agent.card.url).sync
        task = client.send_task(None, Task.create_tool_call("book", {"nights": 2}))
        report = client.get_run_report(None, task.id)
        lines = list(client.export_run(None, task.id))
        assert [json.loads(line)["sequence"] for line in lines] == [event.sequence for event in report.events]
    finally:
        agent.stop()


# -- exports -------------------------------------------------------------------------------------------------------------


@each_transport
async def test_an_export_is_the_whole_log_in_order(transport: str) -> None:
    agent = Asking(name="reporter", url=URLS[transport])
    agent.progress = 2000
    async with serving(agent) as client:
        task = await client.send_task(None, Task.create("a room"))
        lines = [json.loads(line) async for line in client.export_run(None, task.id)]
        events = [event async for event in client.subscribe(task.id, stop_at=StopAt.CURRENT)]
    assert lines == [event.to_dict() for event in events]
    assert len(lines) > 2000
    assert RunReport.from_events(map(RunEvent.from_dict, lines)).final_task is not None


@each_transport
async def test_an_export_speaks_the_agent_runtime_contract(transport: str) -> None:
    async with serving(booking(URLS[transport])) as client:
        task = await client.send_task(None, Task.create_tool_call("book", {"nights": 2, "password": "hunter2"}))
        lines = [line async for line in client.export_run(None, task.id, format="agentruntime")]
        unknown: Any = "xml"
        with pytest.raises(InvalidArgumentError, match="format"):
            [line async for line in client.export_run(None, task.id, format=unknown)]
    records = [json.loads(line) for line in lines]
    types = [record["type"] for record in records]
    assert types[:2] == ["task.created", "turn.submitted"]
    assert types[-1] == "task.completed"
    assert types.index("tool.started") < types.index("tool.result")
    assert [record["sequence"] for record in records] == list(range(1, len(records) + 1))
    assert "hunter2" not in "".join(lines)


# -- the run store -------------------------------------------------------------------------------------------------------


async def test_the_run_store_shows_what_its_agent_runs(tmp_path: Path) -> None:
    store = SQLiteRunStore(tmp_path / "runs.db")
    agent = booking(URLS["runtime"], run_store=store)
    task = Task.create_tool_call("book", {"nights": 2})
    RunContext(run_id="run_123", session_id="session_abc").attach_to_task(task)
    async with agent:
        result = await agent.execute_task(task)
        record = store.get_task_record(result.id)
        recent = store.list_task_records(session_id="session_abc")
    assert record is not None
    assert record.task is not None
    assert record.task.to_dict() == result.to_dict()
    assert [each.task_id for each in recent] == [result.id]
    report = store.get_report(record.run_id)
    assert report is not None
    assert report.actions[0].outcome == "completed"
