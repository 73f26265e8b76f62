"""Exports: lines in bounded batches, and events of the Agent Runtime contract."""

import json
from typing import Any

import pytest
from wire_values import full_event, full_payloads

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Message,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    Task,
    TaskState,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import RunExport
from protolink_grpc.reports.agentruntime import _TABLE
from protolink_grpc.reports.export import BATCH_BYTES
from protolink_grpc.runtime.facts import lost_status
from protolink_grpc.wire.events import EventEncoder, event_from_frame

SUBMITTED, WORKING, COMPLETED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED
NOON = 1_780_000_000_000_000
ACTION = RunAction("tool.call", "book", {"arguments": {"nights": 2}}, action_id="a1")
PEER = RunAction("agent.call", "hotel", {"arguments": {}}, action_id="a2")


def framed(facts: list[Any]) -> list[bytes]:
    encoder = EventEncoder(task_id="t", run_id="r", session_id="s", agent_name="hotel")
    return [encoder.frame(fact, number, NOON) for number, fact in enumerate(facts, 1)]


def exported(*facts: Any) -> list[dict[str, Any]]:
    """Export a log with these payloads, one per event, and return its records."""
    events = [
        RunEvent(
            fact[0] if isinstance(fact, tuple) else "",
            fact[1] if isinstance(fact, tuple) else fact,
            task_id="t",
            sequence=number,
            run_id="r",
            session_id="s",
            action_id="a1",
        )
        for number, fact in enumerate(facts, 1)
    ]
    return [json.loads(line) for line in RunExport("agentruntime").lines(events)]


def submitted() -> ev.TaskSubmitted:
    return ev.TaskSubmitted(Task("t", messages=[Message.user("hello")]), "ada")


def begun(cause: str = "submitted") -> ev.TaskStatusChanged:
    return ev.TaskStatusChanged(SUBMITTED, WORKING, attempt=1, cause=cause)


def test_lines_are_the_json_of_the_events() -> None:
    frames = framed([submitted(), begun(), ev.TaskProgress(1.0, "on")])
    (lines,) = RunExport().batches(frames)
    assert [json.loads(line) for line in lines] == [event_from_frame(frame).to_dict() for frame in frames]


def test_an_export_reads_back_as_the_report_of_the_log() -> None:
    frames = framed([submitted(), begun(), ev.TaskStatusChanged(WORKING, COMPLETED)])
    again = [RunEvent.from_dict(json.loads(line)) for lines in RunExport("protolink").batches(frames) for line in lines]
    assert (
        RunReport.from_events(again).to_dict()["totals"]
        == (RunReport.from_events(map(event_from_frame, frames)).to_dict()["totals"])
    )


def test_batches_are_bounded_and_complete() -> None:
    large = "x" * (BATCH_BYTES // 3)
    frames = framed([{"n": number, "text": large} for number in range(8)] + [{"n": 8, "text": "x" * 2 * BATCH_BYTES}])
    batches = RunExport().batches(frames)
    assert [json.loads(line)["payload"]["n"] for lines in batches for line in lines] == list(range(9))
    assert len(batches) > 3
    assert all(len(lines) == 1 or sum(map(len, lines)) <= BATCH_BYTES for lines in batches)


def test_an_export_without_events_has_no_batches() -> None:
    assert RunExport().batches([]) == []


def test_secrets_are_hidden_in_every_format() -> None:
    frames = framed([{"password": "hunter2"}, ev.ActionStarted("tool.call", "login", {"password": "hunter2"})])
    for name in ("protolink", "agentruntime"):
        assert "hunter2" in str(RunExport(name).batches(frames))
        assert "hunter2" not in str(RunExport(name, RedactionPolicy()).batches(frames))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="protolink, agentruntime") as refused:
        RunExport("xml")
    assert refused.value.field == "format"


# -- agentruntime --------------------------------------------------------------------------------------------------------


def test_every_kind_of_event_has_a_conversion() -> None:
    assert set(_TABLE) == {kind for kind in full_payloads() if kind is not dict}


@pytest.mark.parametrize("kind", full_payloads(), ids=lambda kind: kind.__name__)
def test_the_record_of_each_kind_is_json_with_the_contracts_envelope(kind: type) -> None:
    lines = RunExport("agentruntime").lines([full_event(full_payloads()[kind])])
    records = [json.loads(line) for line in lines]
    assert records
    for record in records:
        assert {"type", "eventId", "timestamp", "sequence", "sessionId", "taskId", "runId", "payload"} <= record.keys()
        assert isinstance(record["payload"], dict)
        assert "" not in (record.get(name) for name in record)


def test_sequences_ascend_without_gaps_and_ids_are_unique() -> None:
    records = exported(submitted(), begun(), ev.TaskProgress(), ev.TaskStatusChanged(WORKING, COMPLETED))
    assert [record["sequence"] for record in records] == list(range(1, len(records) + 1))
    assert len({record["eventId"] for record in records}) == len(records)
    assert [record["refs"]["sourceSequence"] for record in records] == [1, 1, 2, 2, 2, 3, 4, 4, 4]


def types(*facts: Any) -> list[str]:
    return [record["type"] for record in exported(*facts)]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (COMPLETED, ["task.attempt.completed", "turn.completed", "task.completed"]),
        (TaskState.FAILED, ["task.attempt.failed", "turn.failed", "task.failed"]),
        (TaskState.REJECTED, ["task.attempt.failed", "turn.failed", "task.failed"]),
        (TaskState.CANCELED, ["task.attempt.failed", "turn.failed", "task.cancelled"]),
        (TaskState.INPUT_REQUIRED, ["task.attempt.completed", "turn.completed", "task.waiting"]),
    ],
)
def test_a_status_has_records_for_attempt_turn_and_task(state: TaskState, expected: list[str]) -> None:
    assert types(ev.TaskStatusChanged(WORKING, state)) == expected


@pytest.mark.parametrize(
    ("cause", "first"),
    [
        ("submitted", "task.started"),
        ("continued", "task.resumed"),
        ("recovered", "task.retrying"),
        ("unknown-77", "task.started"),
    ],
)
def test_the_cause_of_a_run_determines_its_first_record(cause: str, first: str) -> None:
    assert types(begun(cause)) == [first, "task.attempt.started", "turn.started"]


def test_a_lost_run_has_its_own_failure_category() -> None:
    records = exported(lost_status(WORKING, "the process died"))
    assert records[0]["payload"]["failureCategory"] == "run_lost"


def test_a_reported_error_has_the_facts_of_its_failure() -> None:
    failure = Failure("BANK_CLOSED", "come back", FailureCategory.UNAVAILABLE, retryable=True, origin="bank")
    (record,) = exported(ev.TaskErrorReported(failure, "continues"))
    assert record["payload"] == {
        "category": "unavailable",
        "detail": "come back",
        "retryable": True,
        "recoverable": True,
        "failure": failure.to_dict(),
    }
    (unknown,) = exported(ev.TaskErrorReported(Failure(message="no")))
    assert (unknown["payload"]["category"], unknown["payload"]["recoverable"]) == ("unknown", False)


def test_a_failure_with_the_text_of_a_lost_run_is_not_a_lost_run() -> None:
    failed = ev.TaskStatusChanged(WORKING, TaskState.FAILED, Failure("AGENT_FAILED", "run lost: said the agent"))
    assert exported(failed)[0]["payload"]["failureCategory"] == "agent_failed"


def test_an_approval_is_an_action_of_the_contract_under_its_request_id() -> None:
    request = ApprovalRequest(
        ACTION, PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs"), request_id="q1", editable=True
    )
    records = exported(ev.ApprovalRequired(request), ev.ApprovalDecided(ApprovalDecision(True, "q1", decided_by="ada")))
    assert [record["type"] for record in records] == [
        "permission.requested",
        "action.required",
        "permission.resolved",
        "action.resolved",
    ]
    assert {record["actionId"] for record in records} == {"q1"}
    assert {record["toolCallId"] for record in records} == {"a1"}
    assert records[1]["payload"]["availableDecisions"] == ["allow", "deny", "edit"]
    assert records[3]["payload"]["decision"] == "allow"


def test_a_tool_call_has_records_from_its_arguments_to_its_result() -> None:
    records = exported(
        ev.ActionRequested(ACTION),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.DENY)),
        ev.ActionStarted("tool.call", "book", {"nights": 2}),
        ev.ActionEnded("tool.call", "book", {"id": 7}),
        ev.ActionEnded("tool.call", "book", error={"code": "E"}, outcome="failed"),
    )
    assert [record["type"] for record in records] == [
        "tool.args",
        "permission.evaluated",
        "tool.started",
        "tool.result",
        "tool.failed",
    ]
    assert {record["toolCallId"] for record in records} == {"a1"}
    assert records[1]["payload"]["decision"] == "deny"
    assert (records[3]["payload"]["result"], records[4]["payload"]["failureCategory"]) == ({"id": 7}, "tool_failed")


def test_delegated_work_is_a_subagent() -> None:
    records = exported(
        ev.ActionRequested(PEER),
        ev.ActionStarted("agent.call", "hotel", {}),
        ev.ActionEnded("agent.call", "hotel", "done"),
        ev.ActionEnded("agent.call", "hotel", outcome="failed"),
    )
    assert [record["type"] for record in records] == [
        "task.delegated",
        "subagent.spawned",
        "subagent.completed",
        "subagent.failed",
    ]
    assert {record["subagentId"] for record in records} == {"a1"}


def test_amounts_that_a_model_does_not_report_are_unknown() -> None:
    completed, cost = exported(ev.LlmCallCompleted("c1", output_tokens=3))
    assert completed["payload"]["usage"] == {"inputTokens": "unknown", "outputTokens": 3}
    assert (cost["type"], cost["payload"]["costMicros"]) == ("cost.recorded", "unknown")
    assert completed["modelRequestId"] == cost["modelRequestId"] == "c1"


def test_turns_are_counted_by_messages_of_the_sender() -> None:
    waits, resumes = TaskState.INPUT_REQUIRED, ev.TaskStatusChanged(TaskState.INPUT_REQUIRED, WORKING, attempt=2)
    records = exported(
        submitted(),
        begun(),
        ev.TaskMessagesAdded((Message.agent("which city?"),)),
        ev.TaskStatusChanged(WORKING, waits),
        ev.TaskMessagesAdded((Message.user("Lyon"),)),
        resumes,
    )
    turns = {record["turnId"] for record in records}
    assert turns == {"t/turn/1", "t/turn/2"}
    assert next(record["type"] for record in records if record["turnId"] == "t/turn/2") == "turn.submitted"
    assert [record["type"] for record in records].count("turn.submitted") == 2


def test_events_without_an_equivalent_keep_their_own_type() -> None:
    assert types(("shop.order", {"id": 1}), ("newer.kind", None)) == ["plgrpc.shop.order", "plgrpc.newer.kind"]


def test_text_deltas_are_not_exported_as_records() -> None:
    assert exported(ev.TextDelta("c", 0, "to be")) == []
