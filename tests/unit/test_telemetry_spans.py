"""Spans: computed from logs, exported to OpenTelemetry, and recorded locally."""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from protolink_grpc import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    CapabilityPolicy,
    InvalidArgumentError,
    Parallel,
    Pipeline,
    RunContext,
    RunEvent,
    ScriptedLLM,
    Task,
    TaskState,
)
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.events import (
    ActionEnded,
    ActionStarted,
    ApprovalDecided,
    LlmCallStarted,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.references import References
from protolink_grpc.telemetry import LocalTraceRecorder, LocalTraceTelemetry, OpenTelemetryTelemetry, Span, genai
from protolink_grpc.telemetry import spans_of as list_spans
from protolink_grpc.telemetry.spans import SpanReader


def spans_of(*events: RunEvent) -> list[Span]:
    """The spans that have ended, with the sequence of the event as its time in microseconds."""
    reader, references = SpanReader("task", "agent"), References()
    found: list[Span] = []
    for micros, event in enumerate(events, 1):
        whole = references.whole(event)
        read = reader.read(whole.payload, whole.run_id, micros, whole.action_id)
        found.extend(span for span in read if span.end_micros)
    return found


def submitted(run_id: str = "1", context: RunContext | None = None) -> RunEvent:
    return RunEvent(payload=TaskSubmitted(Task("task"), context=context), run_id=run_id)


def working(run_id: str = "1", cause: str = "submitted") -> RunEvent:
    change = TaskStatusChanged(TaskState.SUBMITTED, TaskState.WORKING, attempt=1, cause=cause)
    return RunEvent(payload=change, run_id=run_id)


def ended(state: TaskState, run_id: str = "1") -> RunEvent:
    return RunEvent(payload=TaskStatusChanged(TaskState.WORKING, state), run_id=run_id)


def test_a_run_that_waits_for_input_ends_its_span_and_the_next_run_begins_another_in_the_same_trace() -> None:
    first, second = spans_of(
        submitted(),
        working(),
        ended(TaskState.INPUT_REQUIRED),
        working("2", "continued"),
        ended(TaskState.COMPLETED, "2"),
    )
    assert (first.attributes["state"], first.error, first.start_micros, first.end_micros) == (
        "input-required",
        "",
        1,
        3,
    )
    assert (second.attributes["state"], second.attributes["cause"]) == ("completed", "continued")
    assert first.trace_id == second.trace_id
    assert first.span_id != second.span_id


def test_the_run_of_a_dead_process_ends_with_its_last_event_and_its_action_continues() -> None:
    call = RunEvent(payload=LlmCallStarted("call", model="m"), run_id="1")
    action = RunEvent(payload=ActionStarted("tool.call", "add"), run_id="1", action_id="action")
    done = RunEvent(payload=ActionEnded("tool.call", "add", result=3), run_id="2", action_id="action")
    spans = spans_of(
        submitted(), working(), call, action, working("2", "recovered"), done, ended(TaskState.COMPLETED, "2")
    )
    assert [(span.kind, span.error, span.start_micros, span.end_micros) for span in spans] == [
        ("llm", "lost", 3, 4),
        ("run", "lost", 1, 4),
        ("tool", "", 4, 6),
        ("run", "", 5, 7),
    ]


def test_what_a_canceled_run_leaves_open_ends_with_it() -> None:
    call = RunEvent(payload=LlmCallStarted("call", model="m"), run_id="1")
    llm, run = spans_of(submitted(), working(), call, ended(TaskState.CANCELED))
    assert (llm.kind, llm.error, llm.end_micros, run.error) == ("llm", "canceled", 4, "canceled")


def test_an_end_without_a_start_is_a_span_all_the_same() -> None:
    late = RunEvent(payload=ApprovalDecided(ApprovalDecision(True, "request")), run_id="1", action_id="action")
    (span,) = spans_of(late)
    assert (span.kind, span.attributes["decision"], span.duration_micros) == ("approval", "approved", 0)


class Exported:
    """An agent whose spans and metrics stay in memory."""

    def __init__(self, **settings: Any) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])
        self.telemetry = OpenTelemetryTelemetry(
            SimpleSpanProcessor(self.exporter), meter_provider=self.provider, **settings
        )

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        self.provider.shutdown()
        assert data is not None
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: list(metric.data.data_points) for metric in metrics}


async def approve(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
    return ApprovalDecision(True, request.request_id)


async def run_with_approval(exported: Exported) -> Task:
    agent = Agent(
        "clerk",
        llm=ScriptedLLM([{"type": "tool_call", "tool": "pay", "args": {"amount": 7}}, "paid"]),
        policy=CapabilityPolicy({"money.*": "require_approval"}),
        approval_handler=approve,
        telemetry=exported.telemetry,
    )

    @agent.tool(capabilities=["money.pay"])
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    task = await agent.run_task(Task.create_infer(prompt="pay 7"))
    await agent.aclose()
    return task


async def test_open_telemetry_gets_a_span_for_the_run_each_call_each_action_and_each_approval() -> None:
    exported = Exported()
    task = await run_with_approval(exported)
    spans = exported.spans()
    assert spans.keys() == {"invoke_agent clerk", "chat script", "execute_tool pay", "approval pay"}
    run, tool, approval = spans["invoke_agent clerk"], spans["execute_tool pay"], spans["approval pay"]
    assert run.parent is None
    assert run.kind is SpanKind.SERVER
    assert tool.parent is not None
    assert run.context is not None
    assert tool.parent.span_id == run.context.span_id
    assert tool.context is not None
    assert approval.parent is not None
    assert approval.parent.span_id == tool.context.span_id
    assert approval.attributes is not None
    assert approval.attributes["plgrpc.decision"] == "approved"
    assert {span.status.status_code for span in spans.values()} == {StatusCode.UNSET}
    assert run.attributes is not None
    assert run.attributes["gen_ai.conversation.id"] == task.id
    assert run.resource.attributes["service.name"] == "clerk"
    assert not [key for span in spans.values() for key in span.attributes or () if "arguments" in key or "mess" in key]


async def test_open_telemetry_gets_metrics_of_runs_calls_actions_and_approvals() -> None:
    exported = Exported()
    await run_with_approval(exported)
    metrics = exported.metrics()
    (run,) = metrics[genai.RUN_DURATION]
    assert (run.count, run.attributes["plgrpc.state"]) == (1, "completed")
    (action,) = metrics[genai.ACTION_DURATION]
    assert action.attributes == {"plgrpc.kind": "tool", "plgrpc.name": "pay", "plgrpc.outcome": "completed"}
    (wait,) = metrics[genai.APPROVAL_WAIT]
    assert wait.attributes["plgrpc.decision"] == "approved"
    assert sum(point.count for point in metrics[genai.OPERATION_DURATION]) == 2


async def test_captured_content_is_in_the_attributes_of_the_conventions() -> None:
    exported = Exported(capture_content=True)
    await run_with_approval(exported)
    tool = exported.spans()["execute_tool pay"]
    assert tool.attributes is not None
    assert tool.attributes["gen_ai.tool.call.arguments"] == '{"amount":7}'
    assert tool.attributes["gen_ai.tool.call.result"] == '"paid 7"'


async def test_a_failed_run_is_an_error_with_its_reason() -> None:
    exported = Exported()
    agent = Agent("clerk", telemetry=exported.telemetry)
    await agent.run_task(Task.create_tool_call("missing"))
    await agent.aclose()
    run = exported.spans()["invoke_agent clerk"]
    assert run.status.status_code is StatusCode.ERROR
    assert run.status.description is None
    assert run.attributes is not None
    assert run.attributes["error.type"]


def test_a_processor_and_an_endpoint_are_not_both_accepted() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        OpenTelemetryTelemetry(SimpleSpanProcessor(InMemorySpanExporter()), endpoint="http://collector")
    assert caught.value.field == "endpoint"


def test_the_names_are_those_of_the_conventions() -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

    values = [*vars(gen_ai_attributes).values(), *vars(gen_ai_metrics).values()]
    known = {value for value in values if isinstance(value, str)}
    source = Path(genai.__file__).read_text()
    named = {word.strip('",:[]()') for word in source.split() if word.startswith('"gen_ai.')}
    assert named
    assert {name.split('"')[0] for name in named} <= known


async def test_local_traces_are_kept_and_appended_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "traces.jsonl"
    recorder = LocalTraceRecorder(file, max_traces=2)
    agents = [Agent(name, telemetry=LocalTraceTelemetry(recorder)) for name in ("a", "b")]
    tasks = []
    for agent in (*agents, agents[0]):
        tasks.append(await agent.run_task(Task.create_tool_call("missing")))
        await agent.aclose()
    assert [record.task_id for record in recorder.traces] == [task.id for task in tasks[1:]]
    stored = LocalTraceRecorder.load_jsonl(file)
    assert [record["task_id"] for record in stored] == [task.id for task in tasks]
    assert stored[1:] == recorder.replay()
    assert recorder.replay(stored[2]["trace_id"]) == stored[2:]
    span = stored[0]["spans"][0]
    assert (span["kind"], span["status"], span["input"], stored[0]["status"]) == ("task", "error", None, "error")
    recorder.clear()
    assert recorder.replay() == []


async def test_a_local_trace_has_content_only_if_it_captures_payloads() -> None:
    for captures in (False, True):
        telemetry = LocalTraceTelemetry(capture_payloads=captures, redactor=lambda value: {"shown": value})
        agent = Agent("a", tools=[shout], telemetry=telemetry)
        await agent.run_task(Task.create_tool_call("shout", {"text": "hi"}))
        await agent.aclose()
        (record,) = telemetry.recorder.traces
        expected = ({"shown": {"text": "hi"}}, {"shown": "HI"}) if captures else (None, None)
        assert (record.spans[1].input, record.spans[1].output) == expected


def shout(text: str) -> str:
    """Shout."""
    return text.upper()


def test_a_missing_file_has_no_traces_and_a_broken_line_is_named(tmp_path: Path) -> None:
    assert LocalTraceRecorder.load_jsonl(tmp_path / "none.jsonl") == []
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}\n\n[]\n")
    with pytest.raises(InvalidArgumentError) as caught:
        LocalTraceRecorder.load_jsonl(broken)
    assert caught.value.field == "line 3"


async def test_two_agents_in_one_process_share_a_trace() -> None:
    exported = Exported()
    desk = Agent("desk", url="runtime://desk-of-spans", tools=[shout], telemetry=exported.telemetry)
    front = Agent("front", telemetry=exported.telemetry)

    @front.tool
    async def ask() -> str:
        """Ask."""
        task = Task.create_tool_call("shout", {"text": "hi"})
        return str((await front.call_agent("runtime://desk-of-spans", task)).get_output())

    async with desk:
        assert (await front.run_task(Task.create_tool_call("ask"))).get_output() == "HI"
        await front.aclose()
    spans = exported.exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    by_name = exported.spans()
    delegation, run = by_name["invoke_agent runtime://desk-of-spans"], by_name["invoke_agent desk"]
    assert delegation.kind is SpanKind.CLIENT
    assert run.parent is not None
    assert delegation.context is not None
    assert run.parent.span_id == delegation.context.span_id


async def test_the_steps_of_a_flow_contain_their_actions() -> None:
    async def first(task: Task) -> Task:
        return task

    async def second(task: Task) -> Task:
        return task

    exported = Exported()
    agent = Agent("flow", flow=Pipeline([first, Parallel([second], name="both")]), telemetry=exported.telemetry)
    await agent.run_task("go")
    await agent.aclose()
    spans = exported.exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans if span.context}
    parents = {span.name: names[span.parent.span_id] for span in spans if span.parent}
    assert parents == {
        "step 0:first": "invoke_agent flow",
        "step first": "step 0:first",
        "step 1:both": "invoke_agent flow",
        "step 0:second": "step 1:both",
        "step second": "step 0:second",
    }


def test_a_step_that_waits_ends_with_its_run_and_is_a_span_of_the_next_run_too() -> None:
    def step(event: str, run_id: str) -> RunEvent:
        return RunEvent(type=f"workflow.node.{event}", payload={"path": "0:ask"}, run_id=run_id)

    events = [
        submitted(),
        working(),
        step("started", "1"),
        ended(TaskState.INPUT_REQUIRED),
        working("2", "continued"),
        step("completed", "2"),
        ended(TaskState.COMPLETED, "2"),
    ]
    for micros, event in enumerate(events, 1):
        event.task_id, event.timestamp = "task", iso_from_micros(micros)
    spans = list_spans(events)
    assert [(span.kind, span.error, span.start_micros, span.end_micros) for span in spans] == [
        ("step", "", 3, 4),
        ("run", "", 1, 4),
        ("step", "", 5, 6),
        ("run", "", 5, 7),
    ]
