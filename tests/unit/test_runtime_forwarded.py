"""Events of another task that a handler passes on are no work of its own task."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from protolink_grpc import Agent, AgentCard, AgentClient, Artifact, Message, RunEvent, Task, TaskProgress, TaskState
from protolink_grpc.compat.protolink.task_events import TaskLLMStreamEvent
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import (
    ApprovalRequest,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextItem,
    ContextManifest,
    OmittedContext,
    OmittedItems,
    PolicyDecision,
    PolicyEffect,
    RunAction,
)
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.tool import OfferedTool, OfferedTools
from protolink_grpc.reports import RunExport
from protolink_grpc.runtime.facts import FORWARDED
from protolink_grpc.runtime.journal import Journal
from protolink_grpc.telemetry.spans import spans_of

PAY = RunAction("tool.call", "pay", {"arguments": {"amount": 7}}, action_id="a1")
ASK = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs")
FAILURE = Failure("MODEL_UNAVAILABLE", "busy", FailureCategory.UNAVAILABLE, True)

WORK: Sequence[Any] = (
    ev.ContextPrepared(
        ContextManifest(context_items=(ContextItem("history", tokens=9),)),
        1,
        OfferedTools((OfferedTool("pay", "local", destructive=True),)),
        OmittedItems((OmittedContext("message", "m1", "context_window"),), 1),
    ),
    ev.LlmCallStarted("c1", "p", "m"),
    ev.LlmCallFailed("c1", "p", "m", 1, 1, FAILURE, will_retry=True),
    ev.LlmCallStarted("c1", "p", "m", 2),
    ev.LlmCallCompleted("c1", "p", "m", 1, "hm", 900, 90),
    ev.ActionRequested(PAY, "turn/1"),
    ev.ActionPolicyEvaluated(ASK),
    ev.ApprovalRequired(ApprovalRequest(PAY, ASK, request_id="q1")),
    ev.ActionStarted("tool.call", "pay", {"amount": 7}),
    ev.PeerTaskLinked("bank", "grpc://bank", "plgrpc", "their-task"),
    ev.ActionEnded("tool.call", "pay", error={"message": "broke"}, outcome="failed"),
    ev.BudgetReported(BudgetDecision(BudgetEffect.WARN, "max_llm_calls", usage=BudgetUsage(llm_calls=3))),
    ev.ContextCompacted(90, 9, "tokens", "short"),
    ev.TaskPauseRequested("", "ada"),
    ev.TaskPaused(),
    ev.TaskRetried(TaskState.FAILED, "again", "ada", 1),
    ev.CancelRequested("enough", "ada"),
)
"""Facts of another task, in which a payment waits for an approval and fails."""


class Front(Agent):
    """Passes the events of another task on."""

    def __init__(self, *items: Any) -> None:
        super().__init__(AgentCard("front", "passes on", "runtime://front"))
        self._items = items

    async def handle_task_streaming(self, task: Task) -> AsyncIterator[Any]:
        for item in self._items:
            yield item
        task.complete("done")


def of_other_task(payload: Any) -> RunEvent:
    of_action = isinstance(payload, ev.ActionRequested | ev.ActionPolicyEvaluated | ev.ActionStarted | ev.ActionEnded)
    metadata = {"decision": "turn/1"} if isinstance(payload, ev.ContextCompacted | ev.LlmStep) else {}
    action_id = "a1" if of_action else ""
    return RunEvent(
        payload=payload, task_id="other", sequence=7, agent_name="bank", action_id=action_id, metadata=metadata
    )


async def log_of(*items: Any) -> tuple[Agent, list[RunEvent]]:
    front = Front(*items)
    events = [event async for event in front.run_task_streaming("pass it on")]
    return front, events


async def test_work_of_another_task_is_no_work_of_this_one() -> None:
    _, without = await log_of()
    async with Front(*map(of_other_task, WORK)) as front:
        client = AgentClient(url=front.card.url)
        done = await client.send_task(None, Task.create("pass it on"))
        log = [event async for event in client.subscribe(done.id)]
        snapshot, evidence = await client.tasks.get(done.id), await client.snapshots.evidence(done.id)
        context, approvals = await client.snapshots.context(done.id), await client.list_approvals()
        report = await client.get_run_report(None, done.id)
    assert (done.state, done.failure, done.usage) == (TaskState.COMPLETED, None, None)
    assert (snapshot.usage, snapshot.pending_approvals, snapshot.retry_count) == (None, (), 0)
    assert approvals.approvals == []
    assert (evidence.actions, evidence.policy_decisions) == ((), ())
    assert (context.prepared_sequence, context.compactions) == (0, ())
    assert (report.actions, report.approvals, report.metrics, report.budget_decisions) == ([], [], [], [])
    assert len(spans_of(log)) == len(spans_of(without))
    journal = Journal()
    journal.take(log)
    assert (journal.actions, journal.answers, journal.decisions, journal.warned) == ({}, {}, {}, set())
    forwarded = [event for event in log if event.type.startswith(FORWARDED)]
    assert [event.type.removeprefix(FORWARDED) for event in forwarded] == [ev.type_of(each) for each in WORK]
    known = {"task_id": "other", "sequence": 7, "agent_name": "bank"}
    assert all(known.items() <= event.payload.items() for event in forwarded if isinstance(event.payload, dict))


async def test_the_agent_runtime_events_of_a_task_have_only_its_own_work() -> None:
    front, log = await log_of(*map(of_other_task, WORK))
    _, without = await log_of()
    await front.aclose()
    kinds = [[part.split('"')[3] for part in RunExport("agentruntime").lines(each)] for each in (log, without)]
    assert [kind for kind in kinds[0] if not kind.startswith("plgrpc.forwarded.")] == kinds[1]
    assert len(kinds[0]) == len(kinds[1]) + len(WORK)


async def test_what_another_task_says_may_be_said_by_this_one() -> None:
    said = (TaskProgress(50), ev.TaskMessagesAdded((Message.agent("hm"),)), ev.TaskArtifactUpdated(Artifact("bill")))
    front, log = await log_of(*map(of_other_task, said))
    await front.aclose()
    found = [event.payload for event in log if event.type.split(".")[1] in ("progress", "message", "artifact")]
    assert [type(each) for each in found][:3] == [type(each) for each in said]


async def test_a_step_of_another_model_is_no_decision_of_this_run() -> None:
    front, log = await log_of(of_other_task(ev.LlmStep("llm_hook", 3, "no", {"hook": "before_model"})))
    await front.aclose()
    (step,) = [event for event in log if isinstance(event.payload, ev.LlmStep)]
    assert (step.metadata, asdict(step.payload)["step"]) == ({}, 0)  # type: ignore[arg-type]  # an LlmStep


@pytest.mark.parametrize(("task_id", "kind"), [("", "llm.call.started"), ("other", "forwarded.llm.call.started")])
async def test_protolinks_events_of_another_task_are_forwarded_too(task_id: str, kind: str) -> None:
    item = TaskLLMStreamEvent(task_id=task_id, llm_event_type="llm_call_started", step=1)
    front, log = await log_of(item)
    await front.aclose()
    assert kind in [event.type for event in log]
