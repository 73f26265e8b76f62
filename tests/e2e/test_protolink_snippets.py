"""What ProtoLink's documentation of its runtime shows works here with the import changed: the same names, calls and outcomes.

The snippets are our own versions; each test is one of them, with what it promises checked.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc import (
    ActionDeniedError,
    Agent,
    AgentCard,
    AgentClient,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalRequiredError,
    Artifact,
    BudgetExceededError,
    CapabilityPolicy,
    ContextManifest,
    InMemoryEventSink,
    LLMModelProfile,
    Part,
    RedactionPolicy,
    RunAction,
    RunBudget,
    RunContext,
    RunEvent,
    RunRecorder,
    RunReplay,
    SQLiteRunStore,
    Task,
    TaskNotFoundError,
    ToolRejectedError,
    assert_budget_under,
    assert_no_denied_actions,
    assert_run_events,
    create_llm,
)
from protolink_grpc.llms import ModelRequest


def card(name: str) -> AgentCard:
    return AgentCard(name=name, description=f"The {name} of a snippet", url=f"runtime://{name}")


# -- context -------------------------------------------------------------------------------------------------------------


def test_a_context_is_attached_to_a_task_and_found_again() -> None:
    task = Task.create_infer(prompt="Condense the minutes")
    context = RunContext(
        run_id="run_7",
        session_id="session_7",
        trace_id="trace_7",
        workspace_uri="file:///minutes",
        agent_chain=["gateway"],
        permissions={"fs.read": {"paths": ["file:///minutes"]}},
        budget=RunBudget(max_steps=8, max_llm_calls=4),
    )
    context.attach_to_task(task)

    assert RunContext.from_task(task) == context
    assert task.metadata["session_id"] == "session_7"


async def test_manifest_and_budget() -> None:
    llm = create_llm("mock")
    llm.configure_metrics(LLMModelProfile(context_window=8192))
    context = RunContext(run_id="run_budgeted", budget=RunBudget(max_steps=4, max_llm_calls=2, max_input_tokens=6000))
    events: list[dict[str, Any]] = []

    async def capture(event: dict[str, Any]) -> None:
        events.append(event)

    await llm.infer(query="What enters the model?", tools={}, run_context=context, event_callback=capture)
    manifest = ContextManifest.from_dict(events[1]["manifest"])

    assert (manifest.run_id, manifest.context_window) == ("run_budgeted", 8192)
    assert manifest.user_tokens > 0
    assert 0 < manifest.total_estimated_tokens < 6000


async def test_a_budget_stops_the_model_call_that_would_exceed_it() -> None:
    llm = create_llm("mock")
    with pytest.raises(BudgetExceededError):
        await llm.infer(query="far too long " * 50, run_context=RunContext(budget=RunBudget(max_input_tokens=5)))


# -- actions, policy, approvals ------------------------------------------------------------------------------------------


def test_an_action_carries_its_previews() -> None:
    preview = Artifact(kind="preview", name="change", media_type="application/json", parts=[Part.json({"id": "42"})])
    action = RunAction(
        kind="resource.update",
        name="release_note",
        payload={"arguments": {"id": "42"}},
        capabilities=frozenset({"notes.write"}),
    ).with_artifacts([preview])

    assert [artifact.action_id for artifact in action.artifacts] == [action.action_id]


RULES = {"records.read": "allow", "records.write": "require_approval", "records.delete": "deny"}


def guarded(approval_handler: Any = None) -> tuple[Agent, list[str]]:
    """An agent whose records are guarded, and what was done to them."""
    agent = Agent(card("records"), policy=CapabilityPolicy(RULES), approval_handler=approval_handler)
    done: list[str] = []

    def build_preview(arguments: dict[str, Any], context: RunContext) -> RunAction:
        shown = Artifact(kind="preview", name="publication preview", parts=[Part.json(arguments)])
        return RunAction(kind="tool.call", name="publish_record", payload={"arguments": arguments}, artifacts=(shown,))

    @agent.tool(
        name="publish_record",
        description="Publish a record",
        capabilities=["records.write"],
        action_builder=build_preview,
    )
    async def publish_record(record_id: str) -> dict[str, str]:
        done.append(f"published {record_id}")
        return {"record_id": record_id, "status": "published"}

    @agent.tool(name="delete_record", description="Delete a record", capabilities=["records.delete"])
    async def delete_record(record_id: str) -> None:
        done.append(f"deleted {record_id}")

    return agent, done


async def test_capability_policy() -> None:
    seen: list[RunAction] = []

    async def approve(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        seen.append(request.action)
        return ApprovalDecision(approved=True, request_id=request.request_id, decided_by="operator")

    agent, done = guarded(approve)
    published = await agent.run_task(Task.create_tool_call("publish_record", {"record_id": "42"}))
    deleted = await agent.run_task(Task.create_tool_call("delete_record", {"record_id": "42"}))

    assert (published.state.value, deleted.state.value) == ("completed", "failed")
    assert done == ["published 42"]
    assert [action.name for action in seen] == ["publish_record"]
    # The builder has not named the capability, and could not drop it.
    assert seen[0].capabilities == {"records.write"}
    assert seen[0].artifacts[0].parts[0].content == {"record_id": "42"}


async def test_call_tool_in_context() -> None:
    answers = iter([True, False])

    async def approve(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        return ApprovalDecision(approved=next(answers), request_id=request.request_id)

    agent, done = guarded(approve)
    context = RunContext(run_id="run_direct", permissions={"records.delete": True})

    assert await agent.call_tool_in_context("publish_record", context, record_id="42") == {
        "record_id": "42",
        "status": "published",
    }
    with pytest.raises(ActionDeniedError):
        await agent.call_tool_in_context("publish_record", context, record_id="43")
    with pytest.raises(ActionDeniedError):  # a context narrows; it grants nothing that the policy denies
        await agent.call_tool_in_context("delete_record", context, record_id="42")
    with pytest.raises(ToolRejectedError):
        await agent.call_tool_in_context("publish_record", context, record="42")
    assert done == ["published 42"]


async def test_without_anybody_to_ask_an_approval_fails_closed() -> None:
    agent, done = guarded()
    with pytest.raises(ApprovalRequiredError) as raised:
        await agent.call_tool_in_context("publish_record", RunContext(), record_id="42")

    assert raised.value.request is not None
    assert raised.value.request.action.payload["arguments"] == {"record_id": "42"}
    assert done == []


# -- cancellation --------------------------------------------------------------------------------------------------------


async def never(request: ModelRequest) -> str:
    """A model that thinks for ever."""
    await asyncio.Event().wait()
    return "too late"


async def test_direct_cancellation() -> None:
    agent = Agent(card("worker"), llm=create_llm("scripted", steps=[never]))
    task = Task.create_infer(prompt="Something long")

    running = asyncio.create_task(agent.run_task(task))
    while task.id not in agent.active_task_ids:
        await asyncio.sleep(0)
    canceled = await agent.cancel_task(task.id, reason="Enough")
    result = await running

    assert canceled.state.value == result.state.value == "canceled"
    assert result.metadata["cancel_reason"] == "Enough"
    assert RunContext.from_task(result).canceled
    assert agent.active_task_ids == []
    with pytest.raises(TaskNotFoundError):
        await agent.cancel_task("nobody's", reason="Enough")


async def test_remote_cancellation() -> None:
    thinking = asyncio.Event()

    async def think(request: ModelRequest) -> str:
        thinking.set()
        return await never(request)

    async with Agent(name="far", url="grpc://127.0.0.1:0", llm=create_llm("scripted", steps=[think])) as agent:
        client, agent_url = AgentClient(), agent.card.url
        task = Task.create_infer(prompt="Something long")
        running = asyncio.create_task(client.send_task(agent_url, task))
        await thinking.wait()
        canceled = await client.cancel_task(agent_url, task.id, reason="Enough")
        result = await running

    assert canceled.state.value == result.state.value == "canceled"
    assert result.metadata["cancel_reason"] == "Enough"


# -- events, reports, stores ---------------------------------------------------------------------------------------------


async def test_an_event_sink_numbers_what_it_is_given() -> None:
    sink = InMemoryEventSink()
    await sink.emit(RunEvent(type="task.progress", summary="Halfway there"))

    assert sink.to_list()[0]["sequence"] == 1


async def test_golden_run() -> None:
    llm = create_llm("mock", default_response="done")
    agent = Agent(
        AgentCard(name="tester", description="A golden run", url="runtime://tester"),
        llm=llm,
        verbosity=0,
    )
    task = Task.create_infer(prompt="Make something")
    RunContext(run_id="run_golden", session_id="session_golden").attach_to_task(task)

    sink = InMemoryEventSink()
    async for event in agent.handle_task_streaming(task):
        await sink.emit_task_event(event, context=RunContext.from_task(task))
    snapshot = [
        {"sequence": item["sequence"], "type": item["type"], "summary": item["summary"], "final": item["final"]}
        for item in sink.to_list()
    ]

    assert [item["sequence"] for item in snapshot] == list(range(1, len(snapshot) + 1))
    assert [item["type"] for item in snapshot] == [
        "task.submitted",
        "task.status",
        "context.prepared",
        "llm.call.started",
        "llm.call.completed",
        "task.artifact",
        "task.status",
    ]
    assert [item["final"] for item in snapshot] == [False] * 6 + [True]


async def test_report_and_replay() -> None:
    agent = Agent(card("reporter"), llm=create_llm("mock", default_response="done"))
    task = Task.create_infer(prompt="My password: hunter2. Make something.")
    task.metadata["api_key"] = "sk-hidden"

    context = RunContext.from_task(task)
    recorder = RunRecorder(context=context)
    async for task_event in agent.handle_task_streaming(task):
        await recorder.record_task_event(task_event)
    report = recorder.to_report(metadata={"source": "integration-test"})
    safe_json = report.to_dict(redaction_policy=RedactionPolicy())
    replay = RunReplay(safe_json)

    assert_run_events(replay, ["context.prepared", "llm.call.started", "llm.call.completed"])
    assert_no_denied_actions(replay)
    assert_budget_under(replay, max_total_tokens=8_000)
    assert "sk-hidden" not in json.dumps(safe_json)
    assert report.metadata["source"] == "integration-test"
    assert replay.event_types == [event.type for event in replay.iter_events()]
    assert len(replay.find_events("context.prepared")) == 1
    with pytest.raises(AssertionError):
        assert_budget_under(replay, max_total_tokens=1)


async def test_sqlite_run_store(tmp_path: Path) -> None:
    store = SQLiteRunStore(str(tmp_path / "runs.db"))
    agent = Agent(
        AgentCard(name="worker", description="Keeps its runs", url="runtime://keeper"),
        llm=create_llm("mock", default_response="a summary"),
        run_store=store,
    )
    task = Task.create_infer(prompt="Condense the minutes")
    RunContext(run_id="run_123", session_id="session_abc").attach_to_task(task)

    result = await agent.execute_task(task)
    record = store.get_task_record(result.id)
    recent = store.list_task_records(session_id="session_abc")
    await agent.aclose()

    assert result.get_output() == "a summary"
    assert record is not None
    assert [each.task_id for each in recent] == [record.task_id] == [task.id]
    assert store.list_task_records(session_id="another") == []
