"""Exports: lines in bounded batches, and events of the Agent Runtime contract."""

import json
from dataclasses import replace
from typing import Any

import pytest
from valid_logs import violations_of
from wire_values import full_event, full_payloads

from protolink_grpc.agentruntime.tasks import _TABLE
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    Message,
    Part,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    Task,
    TaskState,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.action import ContextManifest, OmittedContext, OmittedItems
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.failure import Failure, FailureCategory
from protolink_grpc.models.payload import Payload
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.task_control import LinkKind, TaskLink
from protolink_grpc.models.tool import OfferedTool, OfferedTools
from protolink_grpc.reports import RunExport
from protolink_grpc.reports.export import BATCH_BYTES
from protolink_grpc.runtime.facts import lost_status
from protolink_grpc.telemetry import spans_of
from protolink_grpc.wire.events import EventEncoder, event_from_frame

SUBMITTED, WORKING, COMPLETED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED
NOON = 1_780_000_000_000_000
ACTION = RunAction("tool.call", "book", {"arguments": {"nights": 2}}, action_id="a1")
PEER = RunAction("agent.call", "hotel", {"arguments": {}}, action_id="a2")


def framed(facts: list[Any]) -> list[bytes]:
    encoder = EventEncoder(task_id="t", run_id="r", session_id="s", agent_name="hotel")
    return [encoder.frame(fact, number, NOON) for number, fact in enumerate(facts, 1)]


ACCOMPANYING = {"run.status", "evidence.changed", "snapshot.updated", "thread.updated"}
"""Types of records that follow others."""


def exported(*facts: Any, whole: bool = False) -> list[dict[str, Any]]:
    """Export a log with these payloads, one per event, and return its records, only if `whole` the accompanying ones, too."""
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
    records = [json.loads(line) for line in RunExport("agentruntime").lines(events)]
    return [each for each in records if whole or each["type"] not in ACCOMPANYING]


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

SHOWN_LATER = ev.ActionRequested
"""The kind of event that has no record itself: the action is shown with the decision of the policy."""


def test_every_kind_of_event_has_a_conversion() -> None:
    assert set(_TABLE) == {kind for kind in full_payloads() if kind is not dict} | {ev.TextDelta}


@pytest.mark.parametrize("kind", full_payloads(), ids=lambda kind: kind.__name__)
def test_the_records_of_each_kind_are_json_with_the_contracts_envelope(kind: type) -> None:
    lines = RunExport("agentruntime").lines([full_event(full_payloads()[kind])])
    records = [json.loads(line) for line in lines]
    assert bool(records) is (kind is not SHOWN_LATER)
    for record in records:
        assert {"type", "eventId", "timestamp", "sequence", "sessionId", "taskId", "runId", "payload"} <= record.keys()
        assert isinstance(record["payload"], dict)
        assert "" not in (record.get(name) for name in record)


def test_a_sequence_is_that_of_the_event_times_64_plus_the_index_of_the_record() -> None:
    end = ev.TaskStatusChanged(WORKING, COMPLETED)
    records = exported(submitted(), begun(), ev.TaskProgress(), end, whole=True)
    events = [record["refs"]["sourceSequence"] for record in records]
    assert events == [1, 1, 2, 2, 2, 2, 3, 4, 4, 4, 4, 4, 4]
    expected = [64 * event + events[:place].count(event) for place, event in enumerate(events)]
    assert [record["sequence"] for record in records] == expected
    assert len({record["eventId"] for record in records}) == len(records)


def test_no_event_becomes_more_than_64_records() -> None:
    facts: list[tuple[str, Any]] = [("", submitted()), ("", begun())]
    for number in map(str, range(50)):
        action = replace(PEER, action_id=number)
        request = ApprovalRequest(action, PolicyDecision(PolicyEffect.REQUIRE_APPROVAL), request_id=f"q{number}")
        facts += [
            (number, ev.ActionRequested(action)),
            (number, ev.ApprovalRequired(request)),
            (number, ev.ActionStarted("agent.call", "hotel", {})),
            ("", ev.LlmCallStarted(f"c{number}")),
        ]
    facts.append(("", ev.TaskStatusChanged(WORKING, TaskState.CANCELED)))
    events = [
        RunEvent("", fact, task_id="t", sequence=number, run_id="r", action_id=action_id)
        for number, (action_id, fact) in enumerate(facts, 1)
    ]
    records = [json.loads(line) for line in RunExport("agentruntime").lines(events)]
    last = [record for record in records if record["refs"]["sourceSequence"] == len(events)]
    assert [each["type"] for each in last[-2:]] == ["turn.failed", "snapshot.updated"]
    assert 50 < len(last) <= 64
    assert len({record["eventId"] for record in last}) == len(last)
    assert next(each["payload"]["count"] for each in last if each["type"] == "runtime.warning") == 3 * (50 - 10)


def types(*facts: Any) -> list[str]:
    return [record["type"] for record in exported(*facts)]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (COMPLETED, ["task.attempt.completed", "task.completed", "turn.completed"]),
        (TaskState.FAILED, ["task.attempt.failed", "task.failed", "turn.failed"]),
        (TaskState.REJECTED, ["task.attempt.failed", "task.failed", "turn.failed"]),
        (TaskState.CANCELED, ["task.cancel_requested", "task.attempt.failed", "task.cancelled", "turn.failed"]),
        (TaskState.INPUT_REQUIRED, ["task.attempt.completed", "task.waiting", "turn.completed"]),
    ],
)
def test_a_status_has_records_for_attempt_and_task_before_that_of_the_turn(
    state: TaskState, expected: list[str]
) -> None:
    assert types(submitted(), begun(), ev.TaskStatusChanged(WORKING, state))[5:] == expected


def test_a_task_that_ends_in_the_queue_has_no_attempt() -> None:
    expected = ["turn.submitted", "task.created", "task.cancel_requested", "task.cancelled", "turn.failed"]
    assert types(submitted(), ev.TaskStatusChanged(SUBMITTED, TaskState.CANCELED)) == expected


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
    assert types(begun(cause)) == [first, "task.attempt.started"]
    assert types(submitted(), begun(cause))[2:] == [first, "task.attempt.started", "turn.started"]


def test_a_recovered_run_is_a_new_attempt_of_the_same_turn() -> None:
    again = replace(begun("recovered"), attempt=2, worker=ev.Worker("w2", "1.0", "host-2"))
    records = exported(submitted(), begun(), ev.LlmCallStarted("c1"), again)[6:]
    assert [record["type"] for record in records] == [
        "model.failed",
        "task.attempt.failed",
        "task.retrying",
        "task.attempt.started",
    ]
    assert [record["attemptId"] for record in records[1:]] == ["t/attempt/1", "t/attempt/2", "t/attempt/2"]
    assert records[1]["payload"]["failureCategory"] == "run_lost"
    assert records[3]["payload"]["worker"] == {"name": "w2", "version": "1.0", "host": "host-2"}


@pytest.mark.parametrize(
    ("failure", "kind", "status", "category"),
    [
        (Failure("TOOL_FAILED", "no", FailureCategory.TOOL), "task.failed", "failed", "tool"),
        (Failure("SLOW", "no", FailureCategory.TIMEOUT, retryable=True), "task.timed_out", "timed_out", "timeout"),
        (Failure("AGENT_FAILED", "run lost: wrote the agent"), "task.failed", "failed", "agent_failed"),
        (lost_status(WORKING, "the process died").failure, "task.lost", "lost", "run_lost"),
        (None, "task.failed", "failed", "failed"),
    ],
)
def test_a_failed_turn_has_status_and_category_of_its_failure(
    failure: Failure | None, kind: str, status: str, category: str
) -> None:
    *_, task, turn = exported(submitted(), begun(), ev.TaskStatusChanged(WORKING, TaskState.FAILED, failure))
    assert task["payload"]["status"] == status
    assert (task["type"], turn["type"]) == (kind, "turn.failed")
    assert turn["payload"]["status"] == (status if status != "lost" else "failed")
    for record in (task, turn):
        assert record["payload"]["failureCategory"] == category
        assert record["payload"]["retryable"] is (failure is not None and failure.retryable)


def test_a_canceled_turn_is_a_failed_one_with_the_status_cancelled() -> None:
    *_, turn = exported(submitted(), begun(), ev.TaskStatusChanged(WORKING, TaskState.CANCELED, cancel_reason="enough"))
    shown = {key: turn["payload"][key] for key in ("status", "statusReason", "failureCategory")}
    assert shown == {"status": "cancelled", "statusReason": "enough", "failureCategory": "cancelled"}


def test_a_reported_error_has_the_facts_of_its_failure() -> None:
    failure = Failure("BANK_CLOSED", "come back", FailureCategory.UNAVAILABLE, retryable=True, origin="bank")
    (record,) = exported(ev.TaskErrorReported(failure, "continues"))
    assert record["payload"] == {
        "category": "unavailable",
        "detail": "come back",
        "retryable": True,
        "recoverable": True,
        "failure": {
            "reason": "BANK_CLOSED",
            "message": "come back",
            "category": "unavailable",
            "retryable": True,
            "retryDelayS": None,
            "origin": "bank",
            "details": None,
            "cause": None,
        },
    }
    (unknown,) = exported(ev.TaskErrorReported(Failure(message="no")))
    assert (unknown["payload"]["category"], unknown["payload"]["recoverable"]) == ("unknown", False)


ASK = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "it costs")


def approval(**more: Any) -> ev.ApprovalRequired:
    return ev.ApprovalRequired(ApprovalRequest(ACTION, ASK, request_id="q1", **more))


@pytest.mark.parametrize(
    ("decision", "word"),
    [
        (ApprovalDecision(True, "q1", decided_by="ada"), "allow"),
        (ApprovalDecision(True, "q1", edited_arguments={"nights": 1}), "edit"),
        (ApprovalDecision(False, "q1"), "deny"),
        (ApprovalDecision(False, "q1", expired=True), "expired"),
    ],
)
def test_an_approval_is_an_action_of_the_contract_under_its_request_id(decision: ApprovalDecision, word: str) -> None:
    records = exported(approval(editable=True), ev.ApprovalDecided(decision))
    assert [record["type"] for record in records] == [
        "permission.requested",
        "action.required",
        "task.waiting",
        "action.resolved",
        "permission.resolved",
        "task.resumed",
    ]
    of_action = [record for record in records if "actionId" in record]
    assert {(record["actionId"], record["toolCallId"]) for record in of_action} == {("q1", "a1")}
    assert records[1]["payload"]["availableDecisions"] == ["allow", "deny", "edit"]
    assert (records[2]["payload"]["status"], records[2]["payload"]["actionIds"]) == ("waiting_permission", ["q1"])
    assert [records[3]["payload"]["decision"], records[4]["payload"]["decision"]] == [word, word]
    assert records[5]["payload"]["status"] == "running"


def test_a_task_waits_for_permission_until_its_last_approval_is_decided() -> None:
    second = ev.ApprovalRequired(ApprovalRequest(ACTION, ASK, request_id="q2"))
    answers = [ev.ApprovalDecided(ApprovalDecision(True, each)) for each in ("q1", "q2")]
    assert [kind for kind in types(approval(), second, *answers) if kind.startswith("task.")] == [
        "task.waiting",
        "task.resumed",
    ]
    recovered = types(submitted(), begun(), approval(), replace(begun("recovered"), attempt=2))
    assert recovered[-1] == "task.waiting"


def test_a_tool_call_has_its_records_in_the_order_of_the_contract() -> None:
    records = exported(
        ev.ActionRequested(ACTION),
        ev.ActionPolicyEvaluated(ASK),
        approval(),
        ev.ApprovalDecided(ApprovalDecision(True, "q1", edited_arguments={"nights": 1})),
        ev.ActionStarted("tool.call", "book", {"nights": 1}),
        ev.ActionEnded("tool.call", "book", {"id": 7}),
    )
    of_call = [record for record in records if "toolCallId" in record]
    assert [record["type"] for record in of_call] == [
        "permission.evaluated",
        "tool.started",
        "permission.requested",
        "action.required",
        "action.resolved",
        "permission.resolved",
        "tool.progress",
        "tool.result",
    ]
    assert {(record["toolCallId"], record["stepId"]) for record in of_call} == {("a1", "t/call/a1")}
    assert of_call[1]["payload"] == {
        "toolName": "book",
        "kind": "tool.call",
        "safeArgs": {"nights": 2},
        "policy": "ask",
    }
    assert (of_call[6]["payload"]["safeArgs"], of_call[7]["payload"]["result"]) == ({"nights": 1}, {"id": 7})


def test_a_denied_call_has_a_start_with_the_policy_and_a_failure() -> None:
    records = exported(
        ev.ActionRequested(ACTION),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.DENY)),
        ev.ActionEnded("tool.call", "book", error={"code": "ACTION_DENIED"}, outcome="denied"),
    )
    assert [record["type"] for record in records] == ["permission.evaluated", "tool.started", "tool.failed"]
    assert (records[0]["payload"]["decision"], records[1]["payload"]["policy"]) == ("deny", "denied")
    assert (records[2]["payload"]["status"], records[2]["payload"]["failureCategory"]) == ("denied", "denied")


def test_the_end_of_a_task_closes_what_has_no_recorded_end() -> None:
    never_run = replace(ACTION, action_id="a2")
    facts = [
        ("", submitted()),
        ("", begun()),
        ("a1", ev.ActionRequested(ACTION)),
        ("a1", ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW))),
        ("a1", ev.ActionStarted("tool.call", "book")),
        ("a2", ev.ActionRequested(never_run)),
        ("a2", ev.ActionPolicyEvaluated(ASK)),
        ("a2", ev.ApprovalRequired(ApprovalRequest(never_run, ASK, request_id="q2"))),
        ("", ev.TaskStatusChanged(WORKING, TaskState.CANCELED)),
    ]
    events = [
        RunEvent("", fact, task_id="t", sequence=number, action_id=action_id)
        for number, (action_id, fact) in enumerate(facts, 1)
    ]
    records = [json.loads(line) for line in RunExport("agentruntime").lines(events)]
    last = [record for record in records if record["refs"]["sourceSequence"] == len(facts)]
    last = [record for record in last if record["type"] not in ACCOMPANYING]
    assert [(record["type"], record.get("toolCallId")) for record in last] == [
        ("task.cancel_requested", None),
        ("action.resolved", "a2"),
        ("permission.resolved", "a2"),
        ("tool.failed", "a1"),
        ("tool.failed", "a2"),
        ("task.attempt.failed", None),
        ("task.cancelled", None),
        ("turn.failed", None),
    ]
    categories = [record["payload"]["failureCategory"] for record in last[3:5]]
    assert (last[1]["payload"]["decision"], *categories) == ("cancelled", "outcome_unknown", "cancelled")


def test_delegated_work_is_a_tool_call_and_a_subagent() -> None:
    records = exported(
        ev.ActionRequested(PEER),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW)),
        ev.ActionStarted("agent.call", "hotel", {}),
        ev.ActionEnded("agent.call", "hotel", "done"),
    )
    assert [record["type"] for record in records] == [
        "permission.evaluated",
        "tool.started",
        "tool.progress",
        "task.delegated",
        "subagent.spawned",
        "subagent.completed",
        "tool.result",
    ]
    assert {record["subagentId"] for record in records if "subagentId" in record} == {"a1/subagent"}


def test_amounts_that_a_model_does_not_report_are_unknown() -> None:
    completed, cost = exported(ev.LlmCallCompleted("c1", output_tokens=3))
    assert completed["payload"]["usage"] == {"inputTokens": "unknown", "outputTokens": 3}
    assert (cost["type"], cost["payload"]["costMicros"]) == ("cost.recorded", "unknown")
    assert completed["modelRequestId"] == cost["modelRequestId"] == "c1"
    assert completed["stepId"] == cost["stepId"] == "t/model/c1"


def test_a_large_value_is_a_reference_to_its_event_with_a_preview_without_secrets() -> None:
    result = {"password": "hunter2", "text": "x" * 5000}
    events = [RunEvent("", ev.ActionEnded("tool.call", "book", result), task_id="t", sequence=3, action_id="a1")]
    *_, line = RunExport("agentruntime", RedactionPolicy()).lines(events)
    shown = json.loads(line)["payload"]
    assert shown["toolName"] == "book"
    assert (shown["result"]["outputRef"], len(shown["result"]["preview"])) == ("t/3", 1000)
    assert 5000 < shown["result"]["bytes"] < 5100
    assert "hunter2" not in line
    assert len(line) < 2500


def test_a_record_names_the_span_of_its_call_or_run() -> None:
    facts = [
        submitted(),
        begun(),
        ev.LlmCallStarted("c1", attempt=2),
        ev.LlmCallCompleted("c1"),
        ev.ActionRequested(ACTION),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW)),
        approval(),
        ev.ActionStarted("tool.call", "book"),
        ev.ActionEnded("tool.call", "book", {"id": 7}),
        ev.TaskStatusChanged(WORKING, COMPLETED),
    ]
    events = [
        RunEvent("", fact, task_id="t", sequence=number, run_id="r", action_id="a1" if number > 4 else "")
        for number, fact in enumerate(facts, 1)
    ]
    records = [json.loads(line) for line in RunExport("agentruntime").lines(events)]
    known = {(span.trace_id, span.span_id) for span in spans_of(events)}
    found = {(each["traceId"], each["spanId"]) for each in records if "spanId" in each}
    assert found <= known
    assert len(found) == 4  # of the run, the model call, the action and the approval


def test_the_runtime_is_the_agent() -> None:
    named = RunEvent("", ev.TaskProgress(), task_id="t", sequence=1, agent_name="hotel")
    (line,) = RunExport("agentruntime").lines([named])
    assert json.loads(line)["runtimeId"] == "protolink-grpc/hotel"


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


@pytest.mark.parametrize("decision", [None, PolicyDecision(PolicyEffect.ALLOW)])
def test_an_action_that_is_executed_again_after_a_stop_is_another_tool_call(decision: PolicyDecision | None) -> None:
    started = ev.ActionStarted("tool.call", "book", {"nights": 2})
    records = exported(
        submitted(),
        begun(),
        ev.ActionRequested(ACTION),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW)),
        started,
        ev.ActionEnded("tool.call", "book", outcome="canceled"),
        *([ev.ActionRequested(ACTION), ev.ActionPolicyEvaluated(decision)] if decision else ()),
        started,
        ev.ActionEnded("tool.call", "book", "booked"),
    )
    second = [each for each in records if each.get("toolCallId") == "a1/2"]
    kinds = ["permission.evaluated", "tool.started", "tool.progress", "tool.result"]
    assert [each["type"] for each in second] == kinds
    assert second[1]["payload"]["safeArgs"] == {"nights": 2}
    assert violations_of(records) == []


def test_a_model_call_that_is_requested_again_has_another_id_and_the_first_one_an_end() -> None:
    records = exported(
        submitted(), begun(), ev.LlmCallStarted("c1"), ev.LlmCallStarted("c1"), ev.LlmCallCompleted("c1")
    )
    calls = [(each["type"], each["modelRequestId"]) for each in records if each["type"].startswith("model.")]
    assert calls == [
        ("model.requested", "c1"),
        ("model.failed", "c1"),
        ("model.requested", "c1/2"),
        ("model.completed", "c1/2"),
    ]
    assert {each["payload"]["model"] for each in records if each["type"] == "model.requested"} == {"unknown"}


def test_different_things_have_different_ids_also_if_a_task_has_no_session_and_its_own_run_id() -> None:
    event = RunEvent("", submitted(), task_id="t", sequence=1, run_id="t", session_id="t")
    _, record = (json.loads(line) for line in RunExport("agentruntime").lines([event]))
    assert (record["sessionId"], record["taskId"], record["runId"]) == ("t/session", "t", "t/run")


def test_a_handler_that_cancels_its_task_has_requested_it() -> None:
    records = exported(
        submitted(), begun(), ev.TaskStatusChanged(WORKING, TaskState.CANCELED, cancel_reason="no rooms")
    )
    (request,) = [each for each in records if each["type"] == "task.cancel_requested"]
    assert request["payload"] == {"reason": "no rooms", "requestedBy": "unknown"}
    asked = exported(
        submitted(), begun(), ev.CancelRequested("enough", "ann"), ev.TaskStatusChanged(WORKING, TaskState.CANCELED)
    )
    assert [each["type"] for each in asked].count("task.cancel_requested") == 1
    assert violations_of(records) == violations_of(asked) == []


@pytest.mark.parametrize("policy", [None, RedactionPolicy()])
def test_bytes_in_arguments_and_results_have_a_json_form(policy: RedactionPolicy | None) -> None:
    action = RunAction("tool.call", "book", {"arguments": {"card": Payload(b"abc", "image/png")}}, action_id="a1")
    facts = [
        ev.ActionRequested(action),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW)),
        ev.ActionEnded("tool.call", "book", [Payload(b"abc", "image/png")]),
    ]
    events = [RunEvent("", fact, task_id="t", sequence=place, action_id="a1") for place, fact in enumerate(facts, 1)]
    records = [json.loads(line) for line in RunExport("agentruntime", policy).lines(events)]
    card, result = records[1]["payload"]["safeArgs"]["card"], records[2]["payload"]["result"]
    assert card["$payload"]["media_type"] == result[0]["$payload"]["media_type"] == "image/png"


def test_requests_retries_and_parts_of_the_usage_are_in_the_records() -> None:
    failure = Failure("MODEL_UNAVAILABLE", "busy", FailureCategory.UNAVAILABLE, True, 2.5)
    records = exported(
        replace(submitted(), request_id="rpc-1"),
        begun(),
        ev.LlmCallStarted("c1", "p", "m"),
        ev.LlmCallFailed("c1", "p", "m", 1, 1, failure, True),
        ev.LlmCallStarted("c1", "p", "m", 2),
        ev.LlmCallCompleted("c1", "p", "m", input_tokens=9, cached_input_tokens=4, reasoning_tokens=0),
        approval(),
        ev.ApprovalDecided(ApprovalDecision(True, "q1", decided_by="ann"), request_id="rpc-2"),
    )
    found = {each["type"]: each for each in records}
    assert found["task.created"]["requestId"] == "rpc-1"
    assert found["action.resolved"]["requestId"] == found["permission.resolved"]["requestId"] == "rpc-2"
    assert found["model.failed"]["payload"]["reason"] == "MODEL_UNAVAILABLE"
    assert found["model.failed"]["payload"]["retryDelayS"] == 2.5
    usage = {"inputTokens": 9, "outputTokens": "unknown", "cachedInputTokens": 4, "reasoningTokens": 0}
    assert found["model.completed"]["payload"]["usage"] == usage


def of_type(records: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in records if each["type"] == kind]


def test_the_status_of_a_run_is_shown_from_its_begin_to_its_end() -> None:
    failure = Failure("MODEL_UNAVAILABLE", "busy", FailureCategory.UNAVAILABLE, True)
    records = exported(
        submitted(),
        begun(),
        ev.LlmCallStarted("c1", "p", "m"),
        ev.LlmCallFailed("c1", "p", "m", 1, 1, failure, True),
        ev.LlmCallStarted("c1", "p", "m", 2),
        ev.LlmCallCompleted("c1", "p", "m"),
        ev.TaskPaused(),
        ev.TaskResumed("enough"),
        approval(),
        ev.ApprovalDecided(ApprovalDecision(True, "q1", decided_by="ann")),
        ev.CancelRequested("late"),
        ev.TaskStatusChanged(WORKING, TaskState.CANCELED, cancel_reason="late"),
        whole=True,
    )
    found = of_type(records, "run.status")
    assert [(each["payload"]["phase"], each["payload"].get("detail", "")) for each in found] == [
        ("running", "submitted"),
        ("waiting_resource", "busy"),
        ("running", ""),
        ("paused", ""),
        ("running", "enough"),
        ("waiting_permission", ""),
        ("running", ""),
        ("cancelling", "late"),
        ("cancelled", "late"),
    ]
    assert {(each["runId"], bool(each["payload"]["title"])) for each in found} == {("r", True)}
    waits = [each["payload"]["status"] for each in of_type(records, "task.waiting")]
    assert waits == ["waiting_resource", "waiting_permission"]


def test_a_task_that_is_completed_while_a_model_call_waits_has_resumed_before() -> None:
    failure = Failure("MODEL_UNAVAILABLE", "busy", FailureCategory.UNAVAILABLE, True)
    failed = ev.LlmCallFailed("c1", "p", "m", 1, 1, failure, True)
    records = exported(
        submitted(),
        begun(),
        ev.LlmCallStarted("c1", "p", "m"),
        failed,
        ev.TaskStatusChanged(WORKING, COMPLETED),
        whole=True,
    )
    assert violations_of(records) == []
    assert [each["type"] for each in records if each["type"].startswith("task.")][3:] == [
        "task.waiting",
        "task.resumed",
        "task.attempt.completed",
        "task.completed",
    ]


def test_the_end_of_a_run_and_a_link_to_evidence_are_changes_of_evidence() -> None:
    link = TaskLink(LinkKind.EVIDENCE, "https://reviews.example.com/7", "reviewed")
    records = exported(
        submitted(),
        ev.TaskLinked(link),
        ev.TaskUnlinked(link),
        begun(),
        ev.TaskStatusChanged(WORKING, COMPLETED),
        whole=True,
    )
    linked, unlinked, report = of_type(records, "evidence.changed")
    assert [each["evidenceId"] for each in (linked, unlinked, report)] == [link.target, link.target, "r/report"]
    assert [each["payload"]["change"] for each in (linked, unlinked, report)] == ["linked", "unlinked", "exported"]
    assert linked["payload"]["reason"] == "reviewed"
    assert (report["payload"]["packRef"], report["payload"]["traceRef"]) == ("t/5", report["traceId"])
    assert exported(submitted(), ev.TaskStatusChanged(SUBMITTED, TaskState.CANCELED), whole=True)[-1]["type"] == (
        "snapshot.updated"
    )


def test_the_end_of_a_turn_of_a_task_alone_names_the_snapshot_that_has_it() -> None:
    *_, last = exported(submitted(), begun(), ev.TaskStatusChanged(WORKING, COMPLETED), whole=True)
    assert (last["type"], last["payload"]) == ("snapshot.updated", {"readModels": ["task_snapshot"], "position": 3})


def test_an_agent_call_that_continues_after_a_crash_is_the_same_subagent() -> None:
    call = replace(PEER, action_id="a1", payload={"arguments": {}, "task_id": "child"})
    started = ev.ActionStarted("agent.call", "hotel", {})
    records = exported(
        submitted(),
        begun(),
        ev.ActionRequested(call),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW)),
        started,
        replace(begun("recovered"), attempt=2),
        started,
        ev.ActionEnded("agent.call", "hotel", {}),
    )
    found = [each for each in records if each["type"].startswith("subagent.")]
    assert [each["type"] for each in found] == ["subagent.spawned", "subagent.status", "subagent.completed"]
    assert len({each["subagentId"] for each in found}) == 1
    assert (found[1]["payload"]["status"], found[1]["payload"]["childTaskId"]) == ("running", "child")


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("<think>It rains in Nice.\n</think>\nGo to Lyon.", "It rains in Nice."),
        ("<think>It rains", "It rains"),
        ('{"type": "tool_call", "tool": "look", "thought": "Lyon is dry"}', "Lyon is dry"),
        ('```json\n{"type": "final", "content": "Lyon", "thought": "dry"}\n```', "dry"),
        ('{"thought": "a field of an answer"}', None),
        ('{"type": "final", "thought": 7}', None),
        ('She had a "thought".', None),
        ("Go to Lyon.", None),
    ],
)
def test_the_reasoning_in_the_text_of_a_model_call_is_shown_before_its_end(text: str, thought: str | None) -> None:
    records = exported(submitted(), begun(), ev.LlmCallStarted("c1"), ev.LlmCallCompleted("c1", text=text))
    found = of_type(records, "reasoning.summary")
    assert [each["payload"] for each in found] == ([] if thought is None else [{"summary": thought}])
    assert [each["modelRequestId"] for each in found] == ["c1"] * len(found)
    assert violations_of(records) == []


def test_a_run_that_waits_for_a_slot_is_queued() -> None:
    records = exported(submitted(), ev.TaskQueued(4, 2), begun(), ev.TaskStatusChanged(WORKING, COMPLETED), whole=True)
    (queued,) = of_type(records, "task.queued")
    assert queued["payload"] == {"status": "queued", "slots": 4, "waiting": 2}
    assert violations_of(records) == []


LOOK = OfferedTool("look", "local", read_only=True, effect=PolicyEffect.ALLOW)
BURN = OfferedTool("burn", "agent:fire", destructive=True)


def test_a_decision_about_a_destructive_tool_names_it_as_that() -> None:
    action = RunAction("tool.call", "burn", {"arguments": {}}, action_id="a1")
    records = exported(
        submitted(),
        begun(),
        ev.ContextPrepared(ContextManifest(), 1, OfferedTools((LOOK, BURN))),
        ev.ActionRequested(action),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW)),
        ev.ActionStarted("tool.call", "burn", {}),
        ev.ActionEnded("tool.call", "burn", "ashes"),
        ev.TaskStatusChanged(WORKING, COMPLETED),
        whole=True,
    )
    (decision,) = of_type(records, "permission.evaluated")
    found = {name: decision["payload"].get(name) for name in ("destructive", "scope", "rollbackAdvice")}
    assert found == {"destructive": True, "scope": "call", "rollbackAdvice": "unavailable"}
    assert violations_of(records) == []


def test_a_prompt_has_its_tools_and_omissions_or_refers_to_the_event_that_has_them() -> None:
    left_out = OmittedItems((OmittedContext("message", "m1", "context_window", 40),), 1)
    manifest = ContextManifest()
    records = exported(
        submitted(),
        begun(),
        ev.ContextPrepared(manifest, 1, OfferedTools((LOOK, BURN)), left_out),
        ev.ContextPrepared(manifest, 2),
        replace(begun("recovered"), attempt=2),
        ev.ContextPrepared(manifest, 1),
        ev.ContextPrepared(manifest, 2, OfferedTools(), OmittedItems()),
        ev.TaskStatusChanged(WORKING, COMPLETED),
        whole=True,
    )
    assert violations_of([each for each in records if each["refs"]["sourceSequence"] < 5]) == []
    catalog, empty = of_type(records, "tool.catalog.resolved")
    assert (catalog["payload"]["toolCount"], empty["payload"]) == (2, {"tools": [], "toolCount": 0})
    flags = ("toolName", "runtimeOwner", "policy", "isReadOnly", "isDestructive", "isConcurrencySafe")
    assert [[each[name] for name in flags] for each in catalog["payload"]["tools"]] == [
        ["look", "local", "allowed", True, False, "unknown"],
        ["burn", "agent:fire", "unknown", "unknown", True, "unknown"],
    ]
    first, second, again, last = (each["payload"] for each in of_type(records, "context.resolved"))
    omission = {"kind": "message", "ref": "m1", "reason": "context_window", "tokens": 40}
    assert (first["toolInventoryRef"], first["omissions"], first["omittedCount"]) == ("t/3", [omission], 1)
    assert (second["toolInventoryRef"], second["omissionsRef"]) == ("t/3", "t/3")
    assert "omissions" not in second
    assert not again.keys() & {"toolInventoryRef", "omissionsRef", "omissions"}
    assert (last["toolInventoryRef"], last["omissions"], last["omittedCount"]) == ("t/7", [], 0)


def test_a_summary_in_between_does_not_change_the_tools_of_the_run() -> None:
    summary = ContextManifest(metadata={"purpose": "summary"})
    records = exported(
        submitted(),
        begun(),
        ev.ContextPrepared(ContextManifest(), 1, OfferedTools((LOOK, BURN)), OmittedItems()),
        ev.ContextPrepared(summary, 2),
        ev.ContextPrepared(ContextManifest(), 2),
        ev.TaskStatusChanged(WORKING, COMPLETED),
        whole=True,
    )
    assert violations_of(records) == []
    assert len(of_type(records, "tool.catalog.resolved")) == 1
    first, between, last = (each["payload"] for each in of_type(records, "context.resolved"))
    assert first["toolInventoryRef"] == last["toolInventoryRef"] == last["omissionsRef"] == "t/3"
    assert (between["purpose"], between["omissions"], between["omittedCount"]) == ("summary", [], 0)
    assert "toolInventoryRef" not in between


def test_a_model_call_names_the_requested_the_selected_and_the_responding_model() -> None:
    routed = ev.LlmCallStarted("c1", "p", "large", requested_provider="router", requested_model="auto")
    records = exported(
        submitted(),
        begun(),
        routed,
        ev.LlmCallCompleted("c1", "p", "large", response_model="large-2026"),
        replace(routed, call_id="c2"),
        ev.LlmCallCompleted("c2", "p", "large"),
        ev.TaskStatusChanged(WORKING, COMPLETED),
        whole=True,
    )
    assert violations_of(records) == []
    (decided,) = of_type(records, "routing.decided")
    requested, _ = of_type(records, "model.requested")
    names = ("requestedProvider", "requestedModel", "selectedProvider", "selectedModel")
    for each in (decided, requested):
        assert [each["payload"][name] for name in names] == ["router", "auto", "p", "large"]
        assert each["modelRequestId"] == "c1"
    assert [each["payload"]["responseModel"] for each in of_type(records, "model.completed")] == ["large-2026", "large"]


def test_a_model_call_that_was_not_routed_has_no_decision_about_it() -> None:
    records = exported(submitted(), begun(), ev.LlmCallStarted("c1", "p", "m"))
    assert of_type(records, "routing.decided") == []
    assert of_type(records, "model.requested")[0]["payload"]["requestedModel"] == "m"


def test_a_limit_of_the_provider_is_hit_by_a_call_that_fails_because_of_it() -> None:
    limits = [{"unit": "requests", "limit": 60, "remaining": 0, "reset_s": 12.0}, {"unit": "tokens", "limit": None}]
    limited = Failure("MODEL_RATE_LIMITED", "slow down", FailureCategory.LIMIT, True, 12.5, details={"limits": limits})
    records = exported(
        submitted(),
        begun(),
        ev.LlmCallStarted("c1", "p", "m"),
        ev.LlmCallFailed("c1", "p", "m", 1, 1, limited, True),
        ev.LlmCallStarted("c1", "p", "m", 2),
        ev.LlmCallFailed("c1", "p", "m", 1, 2, replace(limited, details=None, retry_delay_s=None)),
        whole=True,
    )
    assert violations_of(records) == []
    told, silent = (each["payload"] for each in of_type(records, "rate_limit.hit"))
    assert told.pop("limits") == [
        {"unit": "requests", "limit": 60, "remaining": 0, "resetS": 12.0},
        {"unit": "tokens", "limit": "unknown", "remaining": "unknown", "resetS": "unknown"},
    ]
    assert told == {"source": "provider", "provider": "p", "model": "m", "retryAfterS": 12.5}
    assert silent["retryAfterS"] == "unknown"
    assert of_type(records, "model.failed")[0]["payload"]["failureCategory"] == "limit"


def test_the_ids_of_a_delegated_task_at_its_peer_belong_to_its_subagent() -> None:
    call = replace(PEER, action_id="a1", payload={"arguments": {}, "task_id": "child"})
    records = exported(
        submitted(),
        begun(),
        ev.ActionRequested(call),
        ev.ActionPolicyEvaluated(PolicyDecision(PolicyEffect.ALLOW)),
        ev.ActionStarted("agent.call", "hotel", {}),
        ev.PeerTaskLinked("hotel", "https://hotel.example.com", "a2a", "their-task", "their-context"),
        ev.ActionEnded("agent.call", "hotel", {}),
        whole=True,
    )
    assert violations_of(records) == []
    (linked,), (status,) = (of_type(records, kind) for kind in ("channel.peer_task.linked", "subagent.status"))
    assert linked["payload"] == {
        "nativeProtocol": "a2a",
        "remoteTaskId": "their-task",
        "remoteContextId": "their-context",
        "remoteAgentRef": "https://hotel.example.com",
        "agent": "hotel",
    }
    assert status["payload"] == linked["payload"] | {"status": "running"}
    assert linked["subagentId"] == status["subagentId"] == of_type(records, "subagent.spawned")[0]["subagentId"]
    alone = exported(submitted(), ev.PeerTaskLinked(task_id="their-task"))
    assert [each["type"] for each in alone][2:] == ["channel.peer_task.linked"]


def test_the_decision_of_a_policy_names_the_rule_that_has_its_effect() -> None:
    ruled = PolicyDecision(PolicyEffect.ALLOW, "known", metadata={"rule": "tools.*"})
    found = [exported(submitted(), ev.ActionPolicyEvaluated(each))[2]["payload"] for each in (ruled, ASK)]
    assert [(each["decisionSource"], each.get("ruleRefs"), each["scope"]) for each in found] == [
        ("rule", ["tools.*"], "call"),
        ("host_policy", None, "call"),
    ]


def test_the_installation_of_a_task_is_the_one_that_its_log_names() -> None:
    installed = replace(submitted(), runtime_id="house-7")
    assert {each["runtimeId"] for each in exported(installed, begun(), whole=True)} == {"house-7"}
    assert {each["runtimeId"] for each in exported(submitted(), begun(), whole=True)} == {"protolink-grpc/unknown"}


def test_objects_of_this_package_have_names_in_camel_case_and_values_of_users_are_unchanged() -> None:
    action = RunAction("tool.call", "book", {"arguments": {"first_night": 1}}, action_id="a1")
    message = Message("m1", "user", [Part("json", {"check_in": 1}, {"my_key": 2}, "application/json")])
    records = exported(
        ev.TaskSubmitted(Task("t", messages=[message], metadata={"vip_guest": True}), "ann"),
        ev.ApprovalRequired(ApprovalRequest(action, ASK, request_id="q1")),
        ev.ContextPrepared(ContextManifest(system_tokens=3, metadata={"my_key": 1})),
    )
    task = of_type(records, "task.created")[0]["payload"]["task"]
    part = task["messages"][0]["parts"][0]
    assert (part["content"], part["metadata"], part["mediaType"]) == (
        {"check_in": 1},
        {"my_key": 2},
        "application/json",
    )
    assert task["metadata"]["vip_guest"] is True
    request = of_type(records, "action.required")[0]["payload"]["request"]
    assert request["action"]["payload"] == {"arguments": {"first_night": 1}}
    assert (request["requestId"], request["policyDecision"]["reason"]) == ("q1", "it costs")
    manifest = of_type(records, "context.resolved")[0]["payload"]["manifest"]
    assert (manifest["systemTokens"], manifest["metadata"]) == (3, {"my_key": 1})


def test_a_large_artifact_is_a_reference_beside_its_name_and_media_type() -> None:
    artifact = Artifact("pic", [Part("text", "x" * 5000)], kind="image", name="Lyon", media_type="text/plain")
    (record,) = exported(ev.TaskArtifactUpdated(artifact))
    payload = record["payload"]
    assert payload["artifact"]["outputRef"] == "t/1"
    assert (payload["kind"], payload["name"], payload["mediaType"]) == ("image", "Lyon", "text/plain")
    assert (payload["partCount"], payload["lastChunk"], "readRef" in payload) == (1, False, False)


def test_a_failed_call_that_is_not_repeated_can_make_sense_to_retry() -> None:
    failure = Failure("MODEL_UNAVAILABLE", "busy", FailureCategory.UNAVAILABLE, True)
    records = exported(submitted(), begun(), ev.LlmCallStarted("c1"), ev.LlmCallFailed("c1", "p", "m", 1, 4, failure))
    (failed,) = of_type(records, "model.failed")
    assert (failed["payload"]["retryable"], failed["payload"]["willRetry"]) == (True, False)
    assert failed["payload"]["durationMs"] == "unknown"


def test_a_call_that_was_not_executed_has_no_duration() -> None:
    denied = ev.ActionEnded("tool.call", "book", outcome="denied")
    records = exported(submitted(), begun(), ev.ActionRequested(ACTION), ev.ActionPolicyEvaluated(ASK), denied)
    assert "durationMs" not in of_type(records, "tool.failed")[0]["payload"]


def test_before_its_first_run_a_task_has_no_span() -> None:
    events = [RunEvent("", payload, task_id="t", sequence=place) for place, payload in enumerate((submitted(),), 1)]
    records = [json.loads(line) for line in RunExport("agentruntime").lines(events)]
    assert {"spanId" in each for each in records} == {False}


def test_a_compaction_names_the_open_approvals_that_it_keeps() -> None:
    shortened = RunEvent("", ev.ContextCompacted(90, 9, ""), task_id="t", sequence=4, metadata={"decision": "d"})
    facts: list[Any] = [submitted(), begun(), approval()]
    events = [RunEvent("", fact, task_id="t", sequence=place, run_id="r") for place, fact in enumerate(facts, 1)]
    records = [json.loads(line) for line in RunExport("agentruntime").lines([*events, shortened])]
    (done,) = of_type(records, "context.compaction.completed")
    assert (done["payload"]["preservedActions"], done["payload"]["strategy"]) == (["q1"], "shortened_results")


def test_progress_without_a_percentage_is_unknown() -> None:
    records = exported(submitted(), begun(), ev.TaskProgress(None), ev.TaskProgress(0))
    assert violations_of(records) == []
    assert [each["payload"]["percent"] for each in of_type(records, "task.progress")] == ["unknown", 0]
