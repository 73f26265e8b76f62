"""Reports, exports and replays of agents that run: over gRPC and in process, from a stream and from a store."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from plgrpc.v1 import control_service_pb2 as pb
from plgrpc.v1 import control_service_pb2_grpc

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
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import (
    InMemoryEventSink,
    RunRecorder,
    RunReplay,
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
            [line async for line in client.export_task(None, "none")]


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
            [line async for line in bob.export_task(None, task.id)]
        await close_channels()


async def test_a_report_needs_the_id_of_a_task(channel: Any) -> None:
    async with booking(URLS["grpc"]) as agent:
        stub: Any = control_service_pb2_grpc.ControlServiceStub(channel(agent.card.url))
        for call in (stub.GetRunReport(pb.GetRunReportRequest()), stub.ExportTask(pb.ExportTaskRequest())):
            with pytest.raises(Exception, match="task_id"):
                await call.read()


def test_the_synchronous_client_reports_and_exports() -> None:
    agent = booking(URLS["grpc"])
    agent.start(background=True)
    try:
        client = AgentClient(url=agent.card.url).sync
        task = client.send_task(None, Task.create_tool_call("book", {"nights": 2}))
        report = client.get_run_report(None, task.id)
        lines = list(client.export_task(None, task.id))
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
        lines = [json.loads(line) async for line in client.export_task(None, task.id)]
        events = [event async for event in client.subscribe(task.id, stop_at=StopAt.CURRENT)]
    assert lines == [event.to_dict() for event in events]
    assert len(lines) > 2000
    assert RunReport.from_events(map(RunEvent.from_dict, lines)).final_task is not None


@each_transport
async def test_an_export_speaks_the_agent_runtime_contract(transport: str) -> None:
    async with serving(booking(URLS[transport])) as client:
        task = await client.send_task(None, Task.create_tool_call("book", {"nights": 2, "password": "hunter2"}))
        lines = [line async for line in client.export_task(None, task.id, format="agentruntime")]
        unknown: Any = "xml"
        with pytest.raises(InvalidArgumentError, match="format"):
            [line async for line in client.export_task(None, task.id, format=unknown)]
    records = [json.loads(line) for line in lines]
    types = [record["type"] for record in records]
    assert types[:2] == ["turn.submitted", "task.created"]
    assert types[-3:] == ["task.completed", "turn.completed", "snapshot.updated"]
    assert types.index("tool.started") < types.index("tool.result")
    sequences = [record["sequence"] for record in records]
    assert sequences == sorted(set(sequences))
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


class OwnRunStore:
    """A run store of an application, with ProtoLink's signatures."""

    def __init__(self, failures: int = 0) -> None:
        self.tasks: list[Task] = []
        self.reports: list[RunReport] = []
        self.failures = failures
        self.saved: asyncio.Queue[RunReport] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def save_task(
        self, task: Task, *, context: RunContext | None = None, agent_name: str | None = None, metadata: Any = None
    ) -> None:
        self.tasks.append(task)
        if self.failures:
            self.failures -= 1
            raise OSError("the disk of the run store is full")

    def save_report(
        self, report: RunReport, *, run_id: str | None = None, agent_name: str | None = None, metadata: Any = None
    ) -> None:
        self.reports.append(report)
        self._loop.call_soon_threadsafe(self.saved.put_nowait, report)

    def get_task(self, task_id: str) -> Task | None: ...
    def get_task_record(self, task_id: str) -> Any: ...
    def list_task_records(self, **wanted: Any) -> list[Any]:
        return []

    def get_report(self, run_id: str) -> RunReport | None: ...
    def get_report_record(self, run_id: str) -> Any: ...
    def list_report_records(self, **wanted: Any) -> list[Any]:
        return []


class AsyncRunStore(OwnRunStore):
    async def save_report(self, report: RunReport, **more: Any) -> None:  # type: ignore[override]  # also coroutines
        super().save_report(report)


@pytest.mark.parametrize("kind", [OwnRunStore, AsyncRunStore])
async def test_an_own_run_store_is_given_each_finished_run(kind: type[OwnRunStore]) -> None:
    store = kind()
    async with booking(URLS["runtime"], run_store=store) as agent:
        client = AgentClient(url=agent.card.url)
        done = await client.send_task(None, Task.create_tool_call("book", {"nights": 2}))
        wrong = await client.send_task(None, Task.create_tool_call("nothing", {}))
        async with asyncio.timeout(30):
            found = [await store.saved.get() for _ in range(2)]
    assert [report.task_id for report in found] == [done.id, wrong.id]
    assert [report.final_task.state for report in found if report.final_task] == [TaskState.COMPLETED, TaskState.FAILED]
    assert found[0].actions[0].outcome == "completed"
    assert found[0].run_id == done.metadata.get("run_id", found[0].run_id)
    assert [task.to_dict() for task in store.tasks] == [done.to_dict(), wrong.to_dict()]


async def test_each_turn_of_a_task_is_a_run_of_its_own_in_an_own_run_store() -> None:
    store = OwnRunStore()
    async with Asking(name="asking", url=URLS["runtime"], run_store=store) as agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create(Message.user("a trip")))
        await client.send_task(None, Task(id=task.id, messages=[Message.user("Rome")]))
        async with asyncio.timeout(30):
            first, second = [await store.saved.get() for _ in range(2)]
    assert first.task_id == second.task_id == task.id
    assert first.run_id != second.run_id
    assert [task.state for task in store.tasks] == [TaskState.INPUT_REQUIRED, TaskState.COMPLETED]


async def test_a_run_store_that_fails_fails_no_run_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store = OwnRunStore(failures=2)
    async with booking(URLS["runtime"], run_store=store) as agent:
        client = AgentClient(url=agent.card.url)
        ended = [await client.send_task(None, Task.create_tool_call("book", {"nights": 2})) for _ in range(3)]
        async with asyncio.timeout(30):
            report = await store.saved.get()
    assert [task.state for task in ended] == [TaskState.COMPLETED] * 3
    assert report.task_id == ended[2].id
    lines = [record.getMessage() for record in caplog.records if "run store OwnRunStore" in record.getMessage()]
    assert len(lines) == 1
    assert f"did not save a run of task {ended[0].id}: OSError: the disk of the run store is full" in lines[0]


async def test_stopping_an_agent_waits_for_its_run_store() -> None:
    store = OwnRunStore()
    agent = booking(URLS["runtime"], run_store=store)
    async with agent:
        done = await AgentClient(url=agent.card.url).send_task(None, Task.create_tool_call("book", {"nights": 2}))
    assert [report.task_id for report in store.reports] == [done.id]


def test_what_is_no_run_store_is_refused_with_the_method_that_it_lacks() -> None:
    with pytest.raises(
        InvalidArgumentError, match="run_store: must be RunStore or None, not dict, which has no save_task"
    ):
        booking(URLS["runtime"], run_store={})


async def test_a_run_store_of_protolink_itself_keeps_the_runs(tmp_path: Path) -> None:
    from protolink.storage import SQLiteRunStore as TheirRunStore

    theirs = TheirRunStore(tmp_path / "theirs.db")
    agent = booking(URLS["runtime"], run_store=theirs)
    async with agent:
        done = await AgentClient(url=agent.card.url).send_task(None, Task.create_tool_call("book", {"nights": 2}))
    [record] = theirs.list_task_records()
    assert (record.task_id, str(record.state)) == (done.id, "completed")
    [report] = theirs.list_report_records()
    assert report.report["final_task"]["id"] == done.id
