"""The validator of Agent Runtime event logs: each rule has a faulty log that only this rule rejects."""

import copy
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agentruntime_golden import FAILURE, QUIET_SNAPSHOT, SNAPSHOT, Record, Turn, event, golden, numbered, text_of

from protolink_grpc.agentruntime.validator import event_file
from protolink_grpc.agentruntime.validator.event_types import IDS_OF_TYPES
from protolink_grpc.agentruntime.validator.rule import MAX_FINDINGS, Level, RuleResult, Status
from protolink_grpc.agentruntime.validator.snapshot import Snapshot
from protolink_grpc.agentruntime.validator.snapshot_file import read_snapshot
from protolink_grpc.agentruntime.validator.snapshot_rules import SNAPSHOT_RULES
from protolink_grpc.agentruntime.validator.unjudged import COVERED, LIME_ONLY, UNJUDGED, unjudged
from protolink_grpc.agentruntime.validator.validation import LOG_RULES, RULES, ValidationReport, validate
from protolink_grpc.errors import InvalidArgumentError

Mutation = Callable[[list[Record], Record], None]
"""Puts one fault into a log, or into the snapshot of its session."""

ONE, THREE, FOUR, FIVE = Turn("t1"), Turn("t3"), Turn("t4", "side"), Turn("t5", "side")
REASONING = ("reasoning.summary", {"text": "thinking"})

PAGE: Record = {
    "session": {
        "session_id": "s",
        "title": "Trip to Lyon",
        "archived": True,
        "position": 0,
        "threads": [{"thread_id": "main"}, {"thread_id": "side"}],
        "open_turns": [],
        "turn_count": 5,
    },
    "turns": [{"turn_id": "t4", "thread_id": "side", "state": "ended", "result": "failed"}],
}
"""The same snapshot as SNAPSHOT, as `plgrpc session show --json` prints it."""

SNAPSHOT_IDS = [each.id for each in SNAPSHOT_RULES]


LEVELS = {each.id: each.level for each in RULES}


def validated(log: list[Record], snapshot: Record | None = None, level: Level = Level.CORE) -> ValidationReport:
    return validate(io.BytesIO(text_of(log)), [] if snapshot is None else [read_snapshot(snapshot)], level)


def validated_whole(level: Level = Level.CORE) -> ValidationReport:
    """Validate the handwritten log with the snapshots of both of its sessions."""
    snapshots = [read_snapshot(each) for each in (SNAPSHOT, QUIET_SNAPSHOT)]
    return validate(io.BytesIO(text_of(golden())), snapshots, level)


def failed(report: ValidationReport) -> list[str]:
    return [each.rule.id for each in report.of(Status.FAILED)]


def result_of(report: ValidationReport, rule_id: str) -> RuleResult:
    return next(each for each in report.results if each.rule.id == rule_id)


# -- Faults ----------------------------------------------------------------------------------------------------------------


def place(log: list[Record], kind: str, ids: Record) -> int:
    """Return the place of the first event of a type with these ids, or values in the payload."""
    for index, each in enumerate(log):
        if each["type"] == kind and all({**each["payload"], **each}.get(name) == its for name, its in ids.items()):
            return index
    raise AssertionError((kind, ids))


def drop(kind: str, **ids: Any) -> Mutation:
    return lambda log, _: log.__delitem__(place(log, kind, ids))


def repeat(kind: str, **ids: Any) -> Mutation:
    """Insert a copy of an event after it."""

    def apply(log: list[Record], _: Record) -> None:
        index = place(log, kind, ids)
        log.insert(index + 1, copy.deepcopy(log[index]))

    return apply


def put(kind: str, name: str, value: Any = None, **ids: Any) -> Mutation:
    """Change a field of an event or, with a dot, of its payload. None removes it."""

    def apply(log: list[Record], _: Record) -> None:
        found = log[place(log, kind, ids)]
        owner = found["payload"] if name.startswith(".") else found
        key = name.removeprefix(".")
        owner.pop(key, None)
        if value is not None:
            owner[key] = value

    return apply


def insert(*events: Record, after: str, **ids: Any) -> Mutation:
    def apply(log: list[Record], _: Record) -> None:
        index = place(log, after, ids) + 1
        log[index:index] = copy.deepcopy([*events])

    return apply


def swap(kind: str, other: str, **ids: Any) -> Mutation:
    """Exchange an event with these ids, and the first later event of another type."""

    def apply(log: list[Record], _: Record) -> None:
        first = place(log, kind, ids)
        second = first + place(log[first:], other, {})
        log[first], log[second] = log[second], log[first]

    return apply


def move(kind: str, after: str, to: Record, **ids: Any) -> Mutation:
    """Put an event with these ids behind a later one, which has the ids `to`."""

    def apply(log: list[Record], _: Record) -> None:
        found = log.pop(place(log, kind, ids))
        log.insert(place(log, after, to) + 1, found)

    return apply


def both(*mutations: Mutation) -> Mutation:
    def apply(log: list[Record], snapshot: Record) -> None:
        for each in mutations:
            each(log, snapshot)

    return apply


def main_thread(name: str, value: Any) -> Mutation:
    return lambda _, snapshot: snapshot["threads"][0].__setitem__(name, value)


def part(name: str, value: Any = None) -> Mutation:
    """Change a section of the snapshot. None removes it."""

    def apply(_: list[Record], snapshot: Record) -> None:
        snapshot.pop(name, None)
        if value is not None:
            snapshot[name] = value

    return apply


def task_field(index: int, name: str, value: Any) -> Mutation:
    return lambda _, snapshot: snapshot["tasks"][index].__setitem__(name, value)


def also_task(task: Record) -> Mutation:
    return lambda _, snapshot: snapshot["tasks"].append(task)


def other_run(log: list[Record], _: Record) -> None:
    """Give the second attempt of a task the run of the first one."""
    for each in log:
        if each.get("runId") == "run-t3-2":
            each["runId"] = "run-t3"


def call_without_policy(*events: Record) -> list[Record]:
    started = ONE.call("tool.started", "c9", {"toolName": "book", "safeArgs": {}, "policy": "allowed"})
    return [started, *events]


ENDED = ONE.call("tool.result", "c9", {"result": None})
BROKEN = ONE.call("tool.failed", "c9", {"failureCategory": "x", "retryable": False})

FAULTS: dict[str, Mutation] = {
    "R002": put("run.status", "type", "run.frobbed"),
    "R003": put("run.status", "stepId", "t1"),
    "R004.1": put("run.status", "timestamp"),
    "R004.2": put("run.status", "timestamp", "2026-06-12T12:00:00"),
    "R004.3": put("run.status", "spanId", ""),
    "R005": put("run.status", "eventId", "e1"),
    "R006": put("run.status", "sequence", 3),
    "R007.1": put("reasoning.summary", "turnId"),
    "R007.2": put("reasoning.summary", "threadId", "side"),
    "R008.1": put("tool.progress", "stepId"),
    "R008.2": put("run.status", "taskId", "other"),
    "R008.3": insert(
        FOUR.of(*REASONING, stepId="step"), FIVE.of(*REASONING, stepId="step"), after="turn.started", turnId="t5"
    ),
    "R008.4": put("tool.progress", "stepId", "other"),
    "R008.5": put("action.resolved", "toolCallId", "c9", actionId="q1"),
    "R009": put("run.status", ".detail", "x" * 70_000),
    "R013": insert(ONE.call("tool.progress", "c3"), after="tool.started", toolCallId="c3"),
    "R015": put("cost.recorded", "modelRequestId", "m9"),
    "R020": put("run.status", "traceId"),
    "R022": main_thread("pendingRequests", [{"actionId": "q9"}]),
    "R026.1": repeat("model.requested", modelRequestId="m1"),
    "R026.2": drop("model.requested", modelRequestId="m1"),
    "R026.3": repeat("model.completed"),
    "R026.4": drop("model.failed"),
    "R026.5": put("model.completed", ".usage"),
    "R026.6": put("model.failed", ".retryable"),
    "R030": put("snapshot.repaired", ".gap"),
    "R033.1": repeat("context.compaction.started"),
    "R033.2": drop("context.compaction.started"),
    "R033.3": repeat("context.compaction.completed"),
    "R033.4": put("context.compaction.completed", ".beforeTokens"),
    "R033.5": put("context.compaction.started", ".trigger"),
    "R035.1": repeat("history.rollback.started"),
    "R035.2": drop("history.rollback.started"),
    "R035.3": repeat("history.rollback.completed"),
    "R035.4": put("history.rollback.completed", ".baseline"),
    "R042.1": repeat("turn.submitted", turnId="t1"),
    "R042.2": drop("turn.submitted", turnId="t4"),
    "R042.3": repeat("turn.failed", turnId="t4"),
    "R043": put("action.required", ".availableDecisions", actionId="q1"),
    "R044.1": insert(ONE.call("tool.progress", "c4"), after="action.required", actionId="q4"),
    "R044.2": insert(ONE.call("tool.progress", "c4"), after="action.resolved", actionId="q4"),
    "R044.3": insert(*ONE.evaluated("c9", "ask"), ENDED, after="tool.result", toolCallId="c1"),
    "R045.1": repeat("action.required", actionId="q1"),
    "R045.2": drop("action.required", actionId="q4"),
    "R045.3": repeat("action.resolved", actionId="q4"),
    "R045.4": drop("action.resolved", actionId="q4"),
    "R045.5": put("action.resolved", ".decision", "perhaps", actionId="q4"),
    "R047.1": put("turn.submitted", ".policy", turnId="t5"),
    "R047.2": both(*(put("turn.submitted", ".policy", "enqueue", turnId=turn) for turn in ("t4", "t5"))),
    "R048.1": put("queue.changed", ".state", state="promoted"),
    "R048.2": put("queue.changed", ".order", ["t3"], state="promoted"),
    "R048.3": swap("queue.changed", "turn.started", state="started"),
    "R048.4": swap("queue.changed", "turn.failed", state="removed"),
    "R048.5": put("turn.submitted", ".status", "queued", turnId="t4"),
    "R048.6": main_thread("queuedTurns", ["t9"]),
    "R051": drop("task.cancel_requested", taskId="task-t2"),
    "R055.1": repeat("job.item.started"),
    "R055.2": drop("job.item.started"),
    "R055.3": repeat("job.item.completed"),
    "R061.1": put("task.started", ".status", "going"),
    "R061.2": put("task.attempt.failed", ".status", "timed_out"),
    "R065.1": other_run,
    "R065.2": drop("task.attempt.started", turnId="t4"),
    "R065.3": repeat("task.attempt.failed", turnId="t4"),
    "R067": put("task.dependency.updated", ".kind"),
    "R068": insert(
        THREE.of("subagent.spawned", {"agent": "hotel"}, subagentId="late"),
        THREE.of("subagent.completed", {"status": "completed"}, subagentId="late"),
        after="task.cancel_requested",
        turnId="t3",
    ),
    "R072": both(drop("subagent.completed"), drop("subagent.closed")),
    "R073": put("task.progress", ".percent"),
    "R079.1": both(
        put("task.attempt.completed", "payload", FAILURE, turnId="t5"),
        put("task.attempt.completed", "type", "task.attempt.failed", turnId="t5"),
    ),
    "R079.2": drop("task.attempt.failed", turnId="t4"),
    "R080": drop("task.created", turnId="t4"),
    "R086": lambda log, _: log[place(log, "tool.catalog.resolved", {})]["payload"]["tools"][0].pop("description"),
    "R087": lambda log, _: log[place(log, "tool.catalog.resolved", {})]["payload"]["tools"][0].pop("isReadOnly"),
    "R088.1": repeat("tool.started", toolCallId="c1"),
    "R088.2": drop("tool.started", toolCallId="c5"),
    "R088.3": repeat("tool.result"),
    "R088.4": drop("tool.failed", toolCallId="c3"),
    "R088.5": put("tool.started", ".toolName"),
    "R088.6": put("tool.failed", ".retryable"),
    "R089": put("tool.result", ".result"),
    "R090": put("context.resolved", ".memoryRefs"),
    "R091.1": insert(ONE.of("routing.not_possible", {"reason": "quota"}), after="routing.fallback.applied"),
    "R094": put("output.spilled", ".mediaType"),
    "R097": put("output.truncated", ".truncation"),
    "R098.1": insert(*call_without_policy(ENDED), after="tool.result", toolCallId="c1"),
    "R098.2": move("sandbox.applied", "tool.progress", {"toolCallId": "c1"}, toolCallId="c1"),
    "R101": put("permission.evaluated", ".decisionSource", "guess"),
    "R102": put("sandbox.applied", ".mode", "free"),
    "R105.1": repeat("permission.requested", actionId="q4"),
    "R105.2": drop("permission.requested", actionId="q4"),
    "R105.3": repeat("permission.resolved", actionId="q4"),
    "R105.4": drop("permission.resolved", actionId="q4"),
    "R105.5": insert(
        *call_without_policy(ONE.asked("c9", "q9")[0], ONE.answered("c9", "q9", "deny")[1], BROKEN),
        after="tool.result",
        toolCallId="c1",
    ),
    "R106": put("action.required", ".permissionMode", "never"),
    "R107": drop("sandbox.violation"),
    "R111": put("hook.completed", ".decision", "perhaps"),
    "R112": insert(ONE.call("tool.progress", "c5"), after="hook.failed", toolCallId="c5"),
    "R113": drop("runtime.warning"),
    "R114.1": repeat("hook.started", toolCallId="c1"),
    "R114.2": drop("hook.started", toolCallId="c1"),
    "R114.3": repeat("hook.completed"),
    "R114.4": put("hook.completed", ".durationMs"),
    "R118.1": repeat("process.started"),
    "R118.2": drop("process.started"),
    "R118.3": insert(ONE.of("process.input", processId="p1"), after="process.completed"),
    "R120": put("process.started", ".cwd"),
    "R123": put("routing.decided", ".decisionReason"),
    "R123.2": put("task.profile.resolved", ".source"),
    "R124": put("routing.candidates.resolved", ".candidateCount", 2),
    "R125": put("routing.single_candidate", ".candidateCount", 2),
    "R127": put("cost.recorded", ".costMicros"),
    "R128.1": repeat("subagent.spawned"),
    "R128.2": drop("subagent.spawned"),
    "R128.3": repeat("subagent.completed"),
    "R128.4": put("subagent.spawned", ".agent"),
    "R131.1": repeat("job.created"),
    "R131.2": drop("job.created"),
    "R131.3": repeat("job.completed"),
    "R131.4": put("job.item.failed", ".lastError"),
    "R133": put("channel.connected", ".transport"),
    "R137": put("channel.permission_returned", ".peer"),
    "R147.1": lambda _, snapshot: snapshot["threads"].append({**snapshot["threads"][1], "threadId": "third"}),
    "R147.2": main_thread("activeTurnId", "t9"),
    "R147.3": lambda _, snapshot: snapshot["threads"][0]["turns"][1].__setitem__("status", "completed"),
    "R147.4": lambda _, snapshot: snapshot.__setitem__("turnCount", 4),
    "R147.5": lambda _, snapshot: snapshot.__setitem__("title", "Trip"),
    "R147.6": lambda _, snapshot: snapshot["tasks"][0].__setitem__("status", "running"),
    "R147.7": lambda _, snapshot: snapshot["threads"][0]["turns"][0].__setitem__("rolledBack", True),
    "R160.1": repeat("benchmark.trial.started"),
    "R160.2": drop("benchmark.trial.started"),
    "R160.3": repeat("benchmark.trial.completed"),
    "R160.4": put("benchmark.reward.recorded", ".reward"),
    "R183": put("benchmark.comparison.completed", "comparison"),
    "X01": repeat("session.created"),
    "X02": repeat("thread.started", threadId="side"),
    "X03": drop("thread.started", threadId="side"),
    "X04": insert(FOUR.of(*REASONING), after="turn.failed", turnId="t2"),
    "X05": repeat("turn.started", turnId="t1"),
    "X06": insert(ONE.of(*REASONING), after="turn.submitted", turnId="t1"),
    "X07": insert(FOUR.of(*REASONING), after="turn.failed", turnId="t4"),
    "X08": put("turn.failed", ".failureCategory"),
    "X09": put("turn.submitted", ".inputRef"),
    "X10": put("task.failed", ".failureCategory"),
    "X11": put("limit.changed", ".limitState"),
    "X12": put("runtime.error", ".category"),
    "X13": put("subagent.completed", ".status"),
    "X14": put("artifact.changed", ".readRef"),
    "X15": put("model.requested", ".provider"),
    "X16": put("rate_limit.hit", ".provider"),
    "R014": put("hook.completed", ".updatedInputRef"),
    "R016": both(put("subagent.spawned", "runId"), put("subagent.spawned", "traceId")),
    "R024.1": repeat("item.started"),
    "R024.2": drop("item.started"),
    "R024.3": repeat("item.completed"),
    "R025": put("limit.changed", "turnId", "t9"),
    "R034": put("context.compaction.completed", ".preservedActions", ["q9"], preservedActions=["q1"]),
    "R069": put("channel.peer_task.linked", ".remoteTaskId", "task-t1"),
    "R070": put("channel.peer_task.linked", ".nativeProtocol"),
    "R071": drop("artifact.changed", artifactId="a2"),
    "R091.2": swap("routing.decided", "model.requested"),
    "R092": move("tool.result", "tool.progress", {"toolCallId": "c2"}, toolCallId="c1"),
    "R096": put("tool.result", ".preview", toolCallId="c6"),
    "R099": put("action.required", ".permissionMode", "wild", actionId="q1"),
    "R100.1": put("permission.evaluated", ".destructive"),
    "R100.2": put("permission.evaluated", ".rollbackAdvice"),
    "R103": drop("sandbox.applied", toolCallId="c2"),
    "R115": put("hook.completed", ".decision", "block", hookRunId="h9"),
    "R123.3": put("routing.fallback.applied", ".from"),
    "R123.4": put("routing.not_possible", ".reason"),
    "R130": put("job.created", ".instructionRef"),
    "R136": put("channel.peer_task.linked", "subagentId", "other"),
    "R138": put("channel.permission_returned", ".decision", "deny"),
    "R141": drop("channel.resumed"),
    "R184": put("tool.result", ".hookRunId"),
    "X17": put("run.status", ".phase"),
    "X18": put("evidence.changed", ".packRef"),
    "X19": put("snapshot.updated", ".sequence"),
    "X20": put("channel.peer_task.updated", ".nativeStatus"),
    "R001": put("run.status", "nativeStatus", 7),
    "R174.1": put("evidence.changed", "sessionId"),
    "R174.2": put("run.status", "schemaVersion", "0.1.0"),
    "R175.1": put("hook.started", "turnId", toolCallId="c1"),
    "R175.2": put("task.progress", "runId"),
    "R175.3": put("subagent.status", "turnId"),
    "R175.4": put("benchmark.trial.started", "refs"),
    "R176": put("evidence.changed", "correlation", {"traceId": None}),
    "R010": both(put("acme.note", "taskId", "task-v"), also_task({"taskId": "task-v", "status": "unknown"})),
    "R011": part("sandboxState", {"status": "unavailable"}),
    "R054": main_thread("jobs", [{"jobId": "j1", "status": "running"}]),
    "R060": task_field(0, "currentRunId", "run-t3"),
    "R063.1": lambda _, snapshot: snapshot["tasks"][1]["attempts"].pop(0),
    "R063.2": task_field(1, "relationships", [{"kind": "blocks", "targetId": "task-t1"}]),
    "R064": lambda _, snapshot: snapshot["tasks"][1]["attempts"][0].pop("startedAt"),
    "R066": both(drop("task.dependency.updated"), task_field(0, "relationships", [])),
    "R077": part("taskSummary"),
    "R116": part("executionEnvironment"),
    "R117": lambda _, snapshot: snapshot["threads"][0]["turns"][0].pop("executionEnvironment"),
    "R122": lambda _, snapshot: snapshot["routingLimitSummary"].pop("taskProfile"),
    "R126": lambda _, snapshot: snapshot["routingLimitSummary"]["routingDecision"].__setitem__("selectedModel", "m"),
    "R145": lambda _, snapshot: snapshot["threads"][1].pop("queuedTurns"),
    "R146": part("outputSummary", ""),
    "R147.8": main_thread("status", "running"),
    "R150": part("evidenceRefs", ["ev1", "ev9"]),
    "R178": part("telemetrySummary"),
    "X21": put("thread.updated", ".status", "busy"),
}
"""A fault for each rule that no other rule finds."""


WAIVED: dict[str, Mutation] = {
    "R174.3": lambda log, _: None,
    "R175.5": lambda log, _: None,
    "R175.6": insert(event("quota.low", {"quota": "tokens"}), after="run.status"),
    "R175.7": put("task.profile.resolved", "taskId"),
}
"""A log for each rule with a waiver. The handwritten log has the types and the inventory that the first two reject."""

HAS_WAIVED = {"R174.3", "R175.5"}


def test_every_rule_has_a_fault_that_only_it_finds() -> None:
    assert sorted([*FAULTS, *WAIVED]) == sorted(each.id for each in RULES)
    assert sorted(WAIVED) == sorted(each.id for each in RULES if each.waiver)


@pytest.mark.parametrize("rule_id", WAIVED)
def test_a_waived_fault_is_named_and_does_not_make_a_log_invalid(rule_id: str) -> None:
    log = golden()
    WAIVED[rule_id](log, {})
    report = validated(log, level=Level.LIME)
    assert report.is_valid
    assert {each.rule.id for each in report.of(Status.WAIVED)} == {*HAS_WAIVED, rule_id}
    assert result_of(report, rule_id).rule.waiver.startswith("D0")
    assert failed(validated(log)) == []


@pytest.mark.parametrize("rule_id", FAULTS)
def test_a_fault_is_found_by_its_rule_and_by_no_other(rule_id: str) -> None:
    log, snapshot = golden(), copy.deepcopy(SNAPSHOT)
    FAULTS[rule_id](log, snapshot)
    report = validated(log, snapshot if rule_id in SNAPSHOT_IDS else None, LEVELS[rule_id])
    assert failed(report) == [rule_id]


def test_the_handwritten_log_passes_every_rule() -> None:
    report = validated_whole(Level.LIME)
    assert [each.rule.id for each in report.results if each.status is not Status.PASSED] == sorted(HAS_WAIVED)
    assert report.is_valid
    assert all(each.status is Status.PASSED for each in validated_whole().results)


def test_a_part_is_only_compared_with_the_log_if_the_snapshot_calls_it_unavailable() -> None:
    assert result_of(validated(golden(), SNAPSHOT), "R011").status is Status.NOT_CHECKABLE
    assert result_of(validated_whole(), "R011").checked == 3


def test_the_rules_of_the_profile_are_not_judged_at_the_level_of_the_core() -> None:
    of_core = {each.rule.id for each in validated(golden()).results}
    assert of_core == {rule_id for rule_id, level in LEVELS.items() if level is Level.CORE}
    assert unjudged(Level.CORE)["--level lime"] == LIME_ONLY
    assert "--level lime" not in unjudged(Level.LIME)
    of_lime = {each.id.split(".")[0] for each in RULES if each.level is Level.LIME}
    assert of_lime <= {*LIME_ONLY}


def test_the_handwritten_log_has_every_family_of_events() -> None:
    families = {each["type"].split(".")[0] for each in golden()}
    assert {kind.split(".")[0] for kind in IDS_OF_TYPES} - families == {"policy", "quota"}


# -- Rules -----------------------------------------------------------------------------------------------------------------


def test_a_rule_is_declared_once_and_has_a_sentence_and_a_source() -> None:
    ids = [each.id for each in RULES]
    assert len(set(ids)) == len(ids)
    for rule in RULES:
        assert re.fullmatch(r"[RX]\d{2,3}(\.\d)?", rule.id)
        assert re.fullmatch(r"[A-Za-z].*\.", rule.sentence), rule.id
        assert re.fullmatch(r"[A-Z]{2,4}:\d+(, [A-Z]{2,4}:\d+)*", rule.source), rule.id


def test_rules_name_only_types_of_the_contract() -> None:
    assert {kind for rule in LOG_RULES for kind in rule.types} <= IDS_OF_TYPES.keys()


def test_each_requirement_of_the_contract_is_judged_or_named_as_not_judged() -> None:
    judged = {each.id.split(".")[0] for each in RULES if each.id.startswith("R")}
    others = [*COVERED, *(each for rules in UNJUDGED.values() for each in rules)]
    assert len(others) == len(set(others))
    assert judged.isdisjoint(others)
    assert {*judged, *others} == {f"R{number:03}" for number in range(1, 185)}
    assert set(COVERED.values()) <= {each.id for each in RULES}


def test_a_type_of_an_implementation_is_waived_by_the_profile() -> None:
    (found,) = result_of(validated([event("acme.note")], level=Level.LIME), "R174.3").findings
    assert found.problem == "type 'acme.note' is not in the schema"


# -- Results ---------------------------------------------------------------------------------------------------------------


def test_a_rule_without_an_event_that_it_applies_to_is_not_exercised() -> None:
    report = validated([event("session.created", {"title": ""})])
    assert report.is_valid
    assert result_of(report, "R088.4").status is Status.NOT_EXERCISED
    assert result_of(report, "X01").status is Status.PASSED


def test_without_its_beginning_a_log_is_not_blamed_for_what_came_before() -> None:
    log = golden()
    rest = log[place(log, "tool.progress", {}) :]
    report = validated(rest, SNAPSHOT)
    assert failed(report) == []
    assert result_of(report, "R088.2").status is Status.NOT_CHECKABLE
    assert "before the first one" in result_of(report, "R088.2").missing
    assert "session.created" in result_of(report, "R147.1").missing


def test_a_log_may_end_anywhere() -> None:
    log = golden()
    for length in range(1, len(log)):
        assert failed(validated(log[:length])) == [], length


def test_without_a_snapshot_its_rules_are_not_checkable() -> None:
    results = [each for each in validated(golden()).results if each.status is Status.NOT_CHECKABLE]
    assert sorted(each.rule.id for each in results) == sorted({*SNAPSHOT_IDS} - {"R178"})
    assert {each.missing for each in results} == {"a snapshot"}


def test_an_event_that_is_delivered_again_counts_once() -> None:
    log = numbered(golden())
    report = validated([*log[:40], *log[20:]], SNAPSHOT)
    assert (failed(report), report.redelivered, report.events) == ([], 20, len(log))


def test_a_violation_has_its_line_and_event() -> None:
    log = golden()
    FAULTS["R088.6"](log, {})
    (found,) = result_of(validated(log), "R088.6").findings
    line = place(log, "tool.failed", {}) + 1
    assert (found.line, found.event_id, found.problem) == (line, f"e{line - 1}", "without retryable")


def test_of_many_violations_only_the_first_ones_are_kept() -> None:
    log = [event("run.status", {}, runId="r") for _ in range(100)]
    for each in log:
        del each["timestamp"]
    result = result_of(validated(log), "R004.1")
    assert (result.failures, len(result.findings)) == (100, MAX_FINDINGS)


def test_the_json_form_has_every_rule_and_what_is_not_judged() -> None:
    document = json.loads(json.dumps(validated_whole().to_dict()))
    assert document["valid"] is True
    core = [each.id for each in RULES if each.level is Level.CORE]
    counts = {"passed": len(core), "failed": 0, "waived": 0, "not exercised": 0, "not checkable": 0}
    assert document["counts"] == counts
    assert [each["rule"] for each in document["rules"]] == core
    assert sum(len(each["rules"]) for each in document["notJudged"]) == sum(map(len, unjudged(Level.CORE).values()))


# -- Snapshots -------------------------------------------------------------------------------------------------------------


def with_session(**changes: Any) -> Record:
    return {**PAGE, "session": {**PAGE["session"], **changes}}


def test_the_output_of_session_show_is_a_snapshot() -> None:
    report = validate(io.BytesIO(text_of(compressed(golden()))), [read_snapshot(PAGE)])
    assert failed(report) == []
    assert [result_of(report, f"R147.{part}").status for part in range(1, 6)] == [Status.PASSED] * 5


def compressed(log: list[Record]) -> list[Record]:
    """Return only the events of a log that change the session, so that all fit into one position."""
    kept = [each for each in log if each["type"].split(".")[0] in ("session", "thread", "turn", "queue")]
    return [{**each, "sequence": place} for place, each in enumerate(kept)]


def test_the_output_of_snapshot_session_is_a_snapshot_with_open_questions() -> None:
    page = {name: value for name, value in PAGE.items() if name != "turns"} | {"recent_turns": PAGE["turns"]}
    log = text_of(compressed(golden()))
    for pending, status in (([], Status.PASSED), ([{"request": {"request_id": "q9"}}], Status.FAILED)):
        report = validate(io.BytesIO(log), [read_snapshot(page | {"pending_approvals": pending})])
        assert result_of(report, "R022").status is status
        assert result_of(report, "R147.3").status is Status.PASSED


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "object"),
        ({}, "sessionId"),
        ({"sessionId": "s", "threads": [1]}, "threads"),
        ({"sessionId": "", "threads": []}, "sessionId"),
        ({"sessionId": "s", "threads": [{"threadId": "t", "queuedTurns": [1]}]}, "queuedTurns"),
        (with_session(position="3"), "session.position"),
        (with_session(threads=None), "session.threads"),
        (with_session() | {"turns": 3}, "turns"),
        (with_session(session_id=7), "session.session_id"),
        (PAGE | {"pending_approvals": [{"request": 1}]}, "pending_approvals.request_id"),
        ({"session": 7}, "session"),
        ({"thread": {}, "position": 1}, "thread.thread_id"),
        ({"thread": {"thread_id": "main"}, "session_id": "s"}, "position"),
        ({"queued_turns": [{"turn": 7}], "position": 1, "session_id": "s"}, "queued_turns.turn"),
        ({"attempts": [{}], "task_id": "t", "session_id": "s", "status": "failed", "pending_approvals": []}, "run_id"),
        ({"attempts": [], "task_id": "t", "pending_approvals": [7]}, "pending_approvals"),
    ],
)
def test_a_wrong_snapshot_is_refused_with_the_name_of_the_field(document: object, field: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(field)):
        read_snapshot(document)


def test_a_snapshot_may_have_no_threads() -> None:
    document = {"sessionId": "s"}
    assert read_snapshot(document) == Snapshot("s", threads=frozenset(), queue={}, active={}, document=document)


def test_an_update_of_a_session_may_have_only_the_fields_that_changed() -> None:
    changes: list[Record] = [{"title": "Trip to Lyon"}, {"archived": True}]
    log = [*golden()[:-1], *(event("session.updated", change) for change in changes)]
    report = validate(io.BytesIO(text_of(compressed(log))), [read_snapshot(PAGE)])
    assert result_of(report, "R147.5").status is Status.PASSED


def test_a_turn_of_a_snapshot_with_an_unknown_result_has_not_ended_as_in_the_log() -> None:
    page = PAGE | {"turns": [{**PAGE["turns"][0], "result": "vanished"}]}
    report = validate(io.BytesIO(text_of(compressed(golden()))), [read_snapshot(page)])
    (found,) = result_of(report, "R147.3").findings
    assert "vanished in the snapshot" in found.problem


def test_a_snapshot_that_is_later_than_the_log_is_not_checkable() -> None:
    report = validated(golden(), with_session(position=100))
    assert "up to sequence 6400" in result_of(report, "R147.1").missing


def test_several_snapshots_are_compared_and_a_violation_names_its_snapshot() -> None:
    changed = copy.deepcopy(SNAPSHOT)
    changed["title"] = "Trip"
    snapshots = [replace(read_snapshot(each), name=name) for each, name in ((SNAPSHOT, "first"), (changed, "second"))]
    result = result_of(validate(io.BytesIO(text_of(golden())), snapshots), "R147.5")
    assert result.checked == 2
    assert [(each.snapshot, each.line) for each in result.findings] == [("second", 0)]


TASK: Record = {
    "task_id": "task-t3",
    "session_id": "s",
    "sequence": 3,
    "status": "retrying",
    "run_id": "run-t3",
    "started_at": "2026-06-12T12:00:00Z",
    "attempts": [{"run_id": "run-t3", "status": "failed", "started_at": "1", "ended_at": "2"}],
    "attempt_count": 1,
    "links": [],
    "pending_approvals": [],
}


def with_sequences(log: list[Record]) -> list[Record]:
    """Return the log with the sequence of each event of TASK in the task's own log."""
    found = []
    for each in log:
        if each.get("taskId") == TASK["task_id"] and each["type"].startswith("task."):
            found.append(each["type"])
            each["refs"] = {"sourceSequence": [*TASK_SEQUENCES, *range(4, 9)][len(found) - 1]}
    return log


TASK_SEQUENCES = (1, 2, 2, 2, 3)
"""Those of task.created, task.started, the first attempt and task.retrying."""


def test_a_snapshot_of_a_task_is_compared_with_the_events_up_to_its_sequence() -> None:
    report = validated(with_sequences(golden()), TASK)
    assert failed(report) == []
    for rule_id in ("R060", "R063.1", "R063.2", "R064", "R147.6"):
        assert result_of(report, rule_id).status is Status.PASSED, rule_id
    assert failed(validated(with_sequences(golden()), TASK | {"sequence": 2})) == ["R147.6"]
    later = result_of(validated(with_sequences(golden()), TASK | {"sequence": 99}), "R147.6")
    assert later.missing == "the events of task task-t3 up to its sequence 99"
    other = result_of(validated(golden(), TASK | {"task_id": "other"}), "R147.6")
    assert "from its task.created on" in other.missing


# -- Files -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "no events"),
        (b"\n \n", "no events"),
        (b'{"a": 1}\n{"a":', "line 2: not JSON"),
        (b"\n[1]\n", "line 2: must be an object, not an array"),
        (b"null", "line 1: must be an object, not null"),
        (b'{"a": NaN}', "line 1: not JSON: NaN"),
        (b"\xff\xfe", "line 1: not UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "line 1: not JSON"),
        (b'{"a": ' + b"[" * 100_000, "line 1: not JSON: nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "line 1: not JSON"),
    ],
)
def test_a_file_that_is_no_log_is_refused_with_the_line(text: bytes, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(problem)):
        validate(io.BytesIO(text))


def test_a_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_file, "MAX_LINE_BYTES", 1 << 20)
    with pytest.raises(InvalidArgumentError, match="line 2: longer than 1 MiB"):
        validate(io.BytesIO(b'{"type": "a.b"}\n' + b"x" * (2 << 20)))


STRANGE: list[Any] = [None, 7, 1.5, True, [], {}, [{}], [[]], {"mode": []}, "", "x" * 10]
"""Values that most fields cannot have."""

INSIDE = (
    *("order", "tools", "decision", "status", "candidates", "failOpen", "mode", "permissionState", "preservedActions"),
    *(
        "correlation",
        "safeArgs",
        "remoteArtifactRefs",
        "result",
        "removedTurns",
        "destructive",
        "kind",
        "candidateCount",
    ),
)
BESIDE = ("refs", "sandboxProfile", "candidateModelSet", "routingDecision", "taskRelationship", "telemetry")
"""Fields of payloads, and objects beside them, that rules read."""


def test_values_of_wrong_types_are_violations_and_not_errors() -> None:
    kinds = [*IDS_OF_TYPES, "acme.x", ""]
    fields = ("sessionId", "threadId", "turnId", "toolCallId", "taskId", "runId", "actionId", "sequence", "timestamp")
    lines = []
    for value in STRANGE:
        for kind in kinds:
            record = {"type": kind, "eventId": f"{len(lines)}", **dict.fromkeys(fields, value), "payload": value}
            lines.append(json.dumps(record))
            inside = {"payload": dict.fromkeys(INSIDE, value), **dict.fromkeys(BESIDE, value)}
            lines.append(json.dumps({**record, **dict.fromkeys(fields, "a"), **inside, "eventId": f"{len(lines)}"}))
    report = validate(io.BytesIO("\n".join(lines).encode()), [read_snapshot(SNAPSHOT)], Level.LIME)
    assert not report.is_valid


THREAD_PAGE: Record = {
    "session_id": "s",
    "thread": {"thread_id": "main"},
    "position": 0,
    "status": "idle",
    "active_turns": [{"turn_id": "t1"}],
    "queued_turns": [{"turn_id": "t2"}],
    "recent_turns": [{"turn_id": "t1", "result": "completed", "rolled_back": False}],
    "open_tasks": [{"task_id": "task-t1", "status": "running"}],
    "pending_approvals": [{"request": {"request_id": "q1"}}],
    "gaps": [{"part": "jobs", "availability": "unavailable"}],
}
QUEUE_PAGE: Record = {
    "session_id": "s",
    "position": 0,
    "queued_turns": [{"turn": {"turn_id": "t2", "thread_id": "main"}}],
    "holds": [{"thread_id": "main", "turns": [{"turn_id": "t1"}]}],
}


def changed(document: Any, value: Any) -> Iterator[Any]:
    """Yield copies of a document, each with another one of its values replaced."""
    yield value
    for name, its in document.items() if isinstance(document, dict) else ():
        for each in changed(its, value):
            yield {**document, name: each}
    for place, its in enumerate(document) if isinstance(document, list) else ():
        for each in changed(its, value):
            yield [*document[:place], each, *document[place + 1 :]]


EVIDENCE: Record = {
    "task_id": "task-t1",
    "sequence": None,
    "run_ids": ["run-t1"],
    "approvals_granted": 1,
    "approvals_denied": 1,
    "approvals_expired": 0,
    "policy_decisions": [],
}


def test_the_evidence_of_a_task_is_compared_with_its_answers_and_runs() -> None:
    report = validated(golden(), EVIDENCE)
    assert failed(report) == []
    assert [result_of(report, each).checked for each in ("R150", "R063.1", "R147.6")] == [3, 1, 0]
    assert failed(validated(golden(), EVIDENCE | {"approvals_denied": 0})) == ["R150"]
    assert failed(validated(golden(), EVIDENCE | {"run_ids": []})) == ["R063.1"]


@pytest.mark.parametrize(
    "document",
    [SNAPSHOT, PAGE, THREAD_PAGE, QUEUE_PAGE, TASK, EVIDENCE],
    ids=str.split("doc page thread queue task evidence"),
)
def test_a_snapshot_with_a_value_of_a_wrong_type_is_refused_or_compared(document: Record) -> None:
    read_snapshot(document)
    snapshots = []
    for each in (each for value in STRANGE for each in changed(document, value)):
        with suppress(InvalidArgumentError):
            snapshots.append(read_snapshot(each))
    log = text_of(with_sequences(golden()))
    assert validate(io.BytesIO(log), snapshots, Level.LIME).results


def test_the_log_is_read_line_by_line(tmp_path: Path) -> None:
    class OneWay(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise AssertionError("the whole log must not be in memory")

        readlines = read  # type: ignore[assignment]

    assert validate(OneWay(text_of(golden()))).is_valid
