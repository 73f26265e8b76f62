"""Reports: content, unknown amounts, and JSON."""

import json
from typing import Any

import pytest
from wire_values import full_event, full_payloads

from protolink_grpc.errors import InvalidArgumentError, TaskNotFoundError
from protolink_grpc.models import (
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextManifest,
    Message,
    Part,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunContext,
    Task,
    TaskState,
    iso_from_micros,
)
from protolink_grpc.models import events as ev
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.redaction import RedactionPolicy
from protolink_grpc.models.report import RunReport
from protolink_grpc.reports import ReportBuilder

SUBMITTED, WORKING, COMPLETED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED
ALLOW, DENY, ASK = PolicyEffect.ALLOW, PolicyEffect.DENY, PolicyEffect.REQUIRE_APPROVAL
NOON = 1_780_000_000_000_000
ACTION = RunAction("tool.call", "book", {"arguments": {"nights": 2}}, action_id="a1")


def moved(before: TaskState, after: TaskState, **more: Any) -> ev.TaskStatusChanged:
    return ev.TaskStatusChanged(before, after, **more)


class Log:
    """Build the log of one task from payloads, with one event per second."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        self.run = "run-1"

    def add(self, payload: Any, kind: str = "", **more: Any) -> "Log":
        number = len(self.events) + 1
        envelope = {
            "task_id": "t",
            "sequence": number,
            "run_id": self.run,
            "session_id": "s",
            "agent_name": "hotel",
            "timestamp": iso_from_micros(NOON + number * 1_000_000),
        }
        self.events.append(RunEvent(kind, payload, **(envelope | more)))
        return self

    def begun(self, attempt: int = 1) -> "Log":
        self.run = f"run-{attempt}"
        if not self.events:
            task = Task("t", messages=[Message.user("hello")], metadata={"session_id": "s"})
            self.add(ev.TaskSubmitted(task, "ada"))
        return self.add(moved(SUBMITTED, WORKING, attempt=attempt))

    def called(self, step: int, tokens: tuple[int | None, int | None], cost: int | None = 5, **more: Any) -> "Log":
        name = f"c{step}"
        self.add(ev.ContextPrepared(ContextManifest(user_tokens=100 + step), step))
        self.add(ev.LlmCallStarted(name, "mock", "m", 1, step))
        answer = {"currency": "EUR", "duration_micros": 7} | more
        return self.add(
            ev.LlmCallCompleted(
                name, "mock", "m", step, "", *tokens, cost, answer["currency"], answer["duration_micros"]
            )
        )

    def report(self, **more: Any) -> RunReport:
        return RunReport.from_events(self.events, **more)


# -- actions and approvals -----------------------------------------------------------------------------------------------


def test_an_action_is_one_record_from_its_request_to_its_end() -> None:
    log = Log().begun()
    log.add(ev.ActionRequested(ACTION, "m1/0"), action_id="a1")
    log.add(ev.ActionPolicyEvaluated(PolicyDecision(ALLOW)), action_id="a1")
    log.add(ev.ActionStarted("tool.call", "book", {"nights": 3}), action_id="a1")
    log.add(ev.ActionEnded("tool.call", "book", {"id": 7}, duration_micros=42, usage=BudgetUsage(1)), action_id="a1")
    (action,) = log.report().actions
    assert (action.kind, action.name, action.action) == ("tool.call", "book", ACTION)
    assert action.arguments == {"nights": 3}, "what it ran with, not what was asked"
    assert action.position == "m1/0"
    assert action.policy == PolicyDecision(ALLOW)
    assert (action.outcome, action.result, action.duration_micros) == ("completed", {"id": 7}, 42)
    assert [action.requested_at, action.started_at, action.ended_at] == [
        log.events[index].timestamp for index in (2, 4, 5)
    ]
    assert (action.starts, action.usage) == (1, BudgetUsage(1))


def test_an_end_without_a_duration_is_measured_by_the_log() -> None:
    log = Log().begun()
    log.add(ev.ActionStarted("tool.call", "book"), action_id="a1").add(ev.TaskProgress())
    log.add(ev.ActionEnded("tool.call", "book", outcome="failed"), action_id="a1")
    (action,) = log.report().actions
    assert (action.outcome, action.duration_micros) == ("failed", 2_000_000)


@pytest.mark.parametrize("outcome", ["failed", "rejected", "denied", "canceled", "unknown-77"])
def test_the_outcome_of_an_action_is_independent_of_the_event_type(outcome: str) -> None:
    log = Log().begun().add(ev.ActionEnded("tool.call", "book", outcome=outcome), "action.of_later", action_id="a1")
    assert log.report().actions[0].outcome == outcome


def asked(log: Log, name: str = "q1") -> Log:
    log.add(ev.ActionRequested(ACTION), action_id="a1")
    log.add(ev.ActionPolicyEvaluated(PolicyDecision(ASK)), action_id="a1")
    return log.add(ev.ApprovalRequired(ApprovalRequest(ACTION, PolicyDecision(ASK), request_id=name)), action_id="a1")


def test_an_approval_is_a_record_with_its_waiting_time() -> None:
    log = asked(Log().begun()).add(ev.TaskProgress())
    # The decision names the approval, not the action.
    log.add(ev.ApprovalDecided(ApprovalDecision(True, "q1", "fine", "ada")))
    report = log.report()
    (approval,), (action,) = report.approvals, report.actions
    assert (approval.state, approval.action_id, approval.waited_micros) == ("approved", "a1", 2_000_000)
    assert (action.approval_ids, action.outcome) == (["q1"], "approved")
    assert report.totals.waited_micros == 2_000_000


@pytest.mark.parametrize(
    ("decision", "state"),
    [
        (ApprovalDecision(False, "q1"), "denied"),
        (ApprovalDecision(False, "q1", expired=True), "expired"),
        (None, "pending"),
    ],
)
def test_the_state_of_an_approval_is_that_of_its_decision(decision: ApprovalDecision | None, state: str) -> None:
    log = asked(Log().begun())
    if decision is not None:
        log.add(ev.ApprovalDecided(decision))
    report = log.report()
    assert report.approvals[0].state == state
    assert report.actions[0].outcome == ("denied" if decision else "waiting")


def test_an_approval_without_a_decision_at_the_end_is_withdrawn() -> None:
    report = asked(Log().begun()).add(moved(WORKING, TaskState.CANCELED)).report()
    assert report.approvals[0].state == "withdrawn"


def test_an_action_denied_by_the_policy_is_denied_without_further_events() -> None:
    log = Log().begun().add(ev.ActionRequested(ACTION), action_id="a1")
    log.add(ev.ActionPolicyEvaluated(PolicyDecision(DENY)), action_id="a1")
    assert log.report().actions[0].outcome == "denied"


# -- the model -----------------------------------------------------------------------------------------------------------


def test_calls_are_summed_and_joined_to_their_steps() -> None:
    log = Log().begun().called(1, (10, 4))
    log.add(ev.ActionRequested(ACTION), action_id="a1").called(2, (20, 6))
    report = log.report()
    assert [(call.call_id, call.input_tokens, call.estimated_input_tokens) for call in report.metrics] == [
        ("c1", 10, 101),
        ("c2", 20, 102),
    ]
    assert [(step.step, step.call_ids, step.action_ids) for step in report.steps] == [
        (1, ["c1"], ["a1"]),
        (2, ["c2"], []),
    ]
    assert report.actions[0].step == 1
    totals = report.totals
    assert (totals.input_tokens, totals.output_tokens, totals.total_tokens) == (30, 10, 40)
    assert (totals.cost_micros, totals.currency, totals.llm_micros, totals.steps) == (10, "EUR", 14, 2)
    assert len(report.context_manifests) == 2


def test_a_sum_is_unknown_if_one_call_did_not_report_the_amount() -> None:
    totals = Log().begun().called(1, (10, 4)).called(2, (None, 6), cost=None).report().totals
    assert (totals.input_tokens, totals.output_tokens, totals.total_tokens) == (None, 10, None)
    assert totals.cost_micros is None


def test_without_calls_all_sums_are_zero() -> None:
    totals = Log().begun().report().totals
    assert (totals.input_tokens, totals.cost_micros, totals.llm_calls) == (0, 0, 0)


def test_amounts_of_several_currencies_have_no_sum() -> None:
    totals = Log().begun().called(1, (1, 1)).called(2, (1, 1), currency="USD").report().totals
    assert (totals.cost_micros, totals.currency) == (None, "")


def test_a_call_without_an_answer_is_listed_with_unknown_usage() -> None:
    log = Log().begun()
    log.add(ev.LlmCallStarted("c1", "mock", "m", 1, 1)).add(ev.LlmCallStarted("c1", "mock", "m", 2, 1))
    report = log.report()
    (call,) = report.metrics
    assert (call.completed, call.attempts, call.input_tokens) == (False, 2, None)
    assert (report.totals.llm_calls, report.totals.input_tokens) == (2, None)


def test_budget_decisions_are_listed() -> None:
    warning = BudgetDecision(BudgetEffect.WARN, "max_steps", 4, 5)
    assert Log().begun().add(ev.BudgetReported(warning)).report().budget_decisions == [warning]


# -- the task ------------------------------------------------------------------------------------------------------------


def test_the_final_task_is_computed_from_the_events() -> None:
    log = Log().begun().add(ev.TaskMessagesAdded((Message.agent("done"),)))
    log.add(moved(WORKING, COMPLETED, usage=BudgetUsage(3)))
    report = log.report()
    assert report.final_task is not None
    assert (report.final_task.state, report.final_task.messages[-1].text) == (COMPLETED, "done")
    assert (report.task_id, report.run_id, report.usage) == ("t", "run-1", BudgetUsage(3))


def test_without_its_beginning_a_log_has_no_final_task() -> None:
    log = Log().begun().add(moved(WORKING, COMPLETED))
    assert RunReport.from_events(log.events[1:]).final_task is None
    assert RunReport.from_events([log.events[0], log.events[2]]).final_task is None
    given = Task("given")
    assert RunReport.from_events(log.events[1:], final_task=given).final_task is given


def test_artifacts_have_their_final_state() -> None:
    log = Log().begun()
    log.add(ev.TaskArtifactUpdated(Artifact("x", [Part.text("1")])))
    log.add(ev.TaskArtifactUpdated(Artifact("y", [Part.text("other")])))
    for text in "23":
        log.add(ev.TaskArtifactUpdated(Artifact("x", [Part.text(text)]), append=True))
    artifacts = log.report().artifacts
    assert [(each.id, [part.content for part in each.parts]) for each in artifacts] == [
        ("x", ["1", "2", "3"]),
        ("y", ["other"]),
    ]
    first = log.events[2].payload
    assert isinstance(first, ev.TaskArtifactUpdated)
    assert len(first.artifact.parts) == 1, "the event is not changed"


def test_the_context_is_that_of_the_run() -> None:
    log = Log()
    log.add(ev.TaskSubmitted.of(Task("t", metadata={"run_context": {"run_id": "callers", "trace_id": "tr"}}), "ada"))
    log.add(moved(SUBMITTED, WORKING, attempt=1))
    context = log.report().context
    assert context is not None
    assert (context.run_id, context.session_id, context.trace_id) == ("run-1", "s", "tr")


def test_a_report_without_events_is_empty() -> None:
    report = RunReport.from_events([])
    assert (report.context, report.events, report.final_task, report.run_id, report.task_id) == (None, [], None, "", "")


def test_working_time_is_summed_over_runs() -> None:
    log = Log().begun().add(ev.TaskProgress()).add(moved(WORKING, TaskState.INPUT_REQUIRED))
    log.begun(2).add(moved(WORKING, COMPLETED))
    assert log.report().totals.runtime_micros == 3_000_000


def test_text_deltas_are_not_part_of_a_report() -> None:
    log = Log().begun()
    delta = RunEvent(payload=ev.TextDelta("c", 0, "to be"), task_id="t")
    whole = RunReport.from_events([*log.events[:1], delta, *log.events[1:], delta])
    assert whole == log.report()
    assert whole.final_task is not None


# -- runs ----------------------------------------------------------------------------------------------------------------


def two_runs() -> Log:
    log = asked(Log().begun())
    log.add(moved(WORKING, TaskState.INPUT_REQUIRED))
    log.begun(2).add(ev.ApprovalDecided(ApprovalDecision(True, "q1")))
    log.add(ev.ActionStarted("tool.call", "book"), action_id="a1")
    log.add(ev.ActionEnded("tool.call", "book", 7), action_id="a1")
    return log.add(moved(WORKING, COMPLETED))


def test_a_report_of_one_run_lists_its_events_and_its_complete_actions() -> None:
    report = two_runs().report(run_id="run-2")
    assert {event.run_id for event in report.events} == {"run-2"}
    (action,) = report.actions
    assert (action.outcome, action.run_id, action.position, action.requested_at != "") == (
        "completed",
        "run-1",
        "",
        True,
    )
    assert report.approvals[0].asked_at != ""
    assert report.final_task is not None
    assert report.final_task.state == COMPLETED


def test_a_report_of_an_earlier_run_has_the_task_at_the_end_of_that_run() -> None:
    report = two_runs().report(run_id="run-1")
    assert report.final_task is not None
    assert report.final_task.state == TaskState.INPUT_REQUIRED
    assert report.actions[0].outcome == "completed", "what became of its action is told"
    assert report.totals.runtime_micros == 4_000_000


def test_an_action_of_another_run_is_not_included() -> None:
    log = two_runs()
    log.events.pop()
    log.add(moved(WORKING, TaskState.INPUT_REQUIRED)).begun(3)
    assert log.report(run_id="run-3").actions == []


def test_a_run_that_the_task_never_had_is_not_found() -> None:
    builder = ReportBuilder("other")
    for event in two_runs().events:
        builder.add(event)
    with pytest.raises(TaskNotFoundError, match="has no run other"):
        builder.report_on("t")


def test_a_growing_artifact_is_not_copied_for_each_piece() -> None:
    log = Log().begun()
    for _ in range(4):
        log.add(ev.TaskArtifactUpdated(Artifact("x", [Part.text("piece")]), append=True))
    builder = ReportBuilder()
    for event in log.events[:4]:
        builder.add(event)
    grown = builder._artifacts["x"].parts
    for event in log.events[4:]:
        builder.add(event)
    assert builder.report().artifacts[0].parts is grown
    assert len(grown) == 4


# -- JSON ----------------------------------------------------------------------------------------------------------------


def full_report() -> RunReport:
    events = [full_event(payload) for payload in full_payloads().values()]
    return RunReport.from_events(events, RunContext(run_id="run"), metadata={"source": "test"})


def test_a_report_of_every_kind_of_event_survives_json() -> None:
    report = full_report()
    again = RunReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again.to_dict() == report.to_dict()
    assert RunReport.from_json(report.to_json()).to_dict() == report.to_dict()


def test_the_json_form_shares_nothing_with_the_report() -> None:
    report = full_report()
    before = report.to_json()
    taken = report.to_dict()
    taken["metadata"]["new"] = 1
    taken["actions"][0]["arguments"]["new"] = 1
    taken["metrics"][0]["metrics"]["new"] = 1
    assert report.to_json() == before


def test_two_reports_of_the_same_events_are_equal() -> None:
    log = two_runs()
    assert log.report() == log.report()


def test_secrets_are_redacted_in_all_parts() -> None:
    log = Log().begun()
    secret = RunAction("tool.call", "login", {"arguments": {"user": "ada", "password": "hunter2"}}, action_id="a1")
    log.add(ev.ActionRequested(secret), action_id="a1")
    log.add(ev.ApprovalRequired(ApprovalRequest(secret, PolicyDecision(ASK), request_id="q1")), action_id="a1")
    log.add(ev.ActionStarted("tool.call", "login", {"password": "hunter2"}), action_id="a1")
    log.add(ev.ActionEnded("tool.call", "login", {"token": "hunter2"}), action_id="a1")
    report = log.report()
    assert "hunter2" in report.to_json()
    assert "hunter2" not in report.to_json(RedactionPolicy())
    copy = report.redacted()
    assert "hunter2" not in copy.to_json()
    assert copy.actions[0].arguments == {"password": "[REDACTED]"}
    assert "hunter2" in report.to_json(), "the report itself is as it was"


def test_a_policy_that_shortens_texts_leaves_a_report_that_can_be_read() -> None:
    report = full_report()
    short = report.redacted(RedactionPolicy(max_string_length=3))
    assert [event.type for event in short.events] == [event.type for event in report.events]
    assert [event.timestamp for event in short.events] == [event.timestamp for event in report.events]
    assert short.metadata == {"source": "te…"}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("no json", "report"),
        ("[]", "report"),
        ("[" * 100_000, "report"),
        ('{"events": [{"type": "x"}, {}]}', "events[1].type"),
        ('{"totals": {"steps": -1}}', "totals.steps"),
    ],
)
def test_an_invalid_report_is_refused_with_the_name_of_the_field(text: str, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        RunReport.from_json(text)
    assert refused.value.field == field
